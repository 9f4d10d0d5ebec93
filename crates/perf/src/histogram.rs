//! Counts of latencies in the manner of HdrHistogram: every value is known to three significant
//! digits, from a microsecond to over an hour, in a table of fixed size.
//!
//! ```text
//! value in µs   0 ... 2047 | 2048 ... 4095 | 4096 ... 8191 | ...
//! slot width    1          | 2             | 4             | ...
//! slots         2,048      | 1,024         | 1,024         | ...
//! ```
//!
//! [`Histogram::to_base64`] writes HdrHistogram's own compressed V2 form, which its tools in other
//! languages read.

use std::io::{Read, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use crate::result::Percentiles;

/// Slots of the first bucket: enough that half of them tell three digits apart.
const SLOTS_FIRST: u64 = 2_048;
/// Slots of each bucket after the first.
const SLOTS_HALF: u64 = SLOTS_FIRST / 2;
const SLOTS_HALF_BITS: u32 = SLOTS_HALF.trailing_zeros();
/// The greatest value that is told apart from greater ones, in microseconds: 71 minutes.
pub const MICROS_MAX: u64 = (1 << 32) - 1;
const SLOTS: usize = ((33 - SLOTS_HALF_BITS) as usize) * SLOTS_HALF as usize;

/// Cookie of the V2 form with ZigZag-LEB128 counts.
const COOKIE_V2: u32 = 0x1c84_9303 | 0x10;
/// Cookie of the same, deflated.
const COOKIE_V2_DEFLATED: u32 = 0x1c84_9304 | 0x10;
/// Octets before the counts in the V2 form.
const HEAD_BYTES: usize = 40;
const SIGNIFICANT_DIGITS: u32 = 3;

/// A histogram could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HistogramError {
    /// It is not base64.
    #[error("a histogram that is not base64")]
    Base64,
    /// It is no compressed V2 histogram of three digits, or one cut short.
    #[error("not a compressed V2 histogram of three digits over microseconds")]
    Format,
}

/// Counts of microseconds.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum_us: u128,
    min_us: u64,
    max_us: u64,
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Histogram")
            .field("total", &self.total)
            .field("max_us", &self.max_us)
            .finish_non_exhaustive()
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: vec![0; SLOTS],
            total: 0,
            sum_us: 0,
            min_us: u64::MAX,
            max_us: 0,
        }
    }
}

fn slot_of(micros: u64) -> usize {
    let bucket = (64 - (micros | (SLOTS_FIRST - 1)).leading_zeros()) - (SLOTS_HALF_BITS + 1);
    let within = micros >> bucket;
    ((u64::from(bucket) << SLOTS_HALF_BITS) + within) as usize
}

/// The least value of a slot, and how many values it holds.
fn values_of(slot: usize) -> (u64, u64) {
    let slot = slot as u64;
    if slot < SLOTS_FIRST {
        return (slot, 1);
    }
    let bucket = (slot >> SLOTS_HALF_BITS) - 1;
    let within = (slot & (SLOTS_HALF - 1)) + SLOTS_HALF;
    (within << bucket, 1 << bucket)
}

impl Histogram {
    /// A histogram without values.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts one value; what exceeds [`MICROS_MAX`] counts as that.
    #[inline]
    pub fn record(&mut self, micros: u64) {
        self.record_times(micros, 1);
    }

    /// Counts one value so many times.
    #[inline]
    pub fn record_times(&mut self, micros: u64, times: u64) {
        let micros = micros.min(MICROS_MAX);
        self.counts[slot_of(micros)] += times;
        self.total += times;
        self.sum_us += u128::from(micros) * u128::from(times);
        self.min_us = self.min_us.min(micros);
        self.max_us = self.max_us.max(micros);
    }

    /// Adds another's counts.
    pub fn add(&mut self, other: &Self) {
        if other.total == 0 {
            return;
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
        self.sum_us += other.sum_us;
        self.min_us = self.min_us.min(other.min_us);
        self.max_us = self.max_us.max(other.max_us);
    }

    /// Forgets all values; the table stays.
    pub fn clear(&mut self) {
        if self.total > 0 {
            self.counts.fill(0);
        }
        self.total = 0;
        self.sum_us = 0;
        self.min_us = u64::MAX;
        self.max_us = 0;
    }

    /// How many values were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The greatest value, in microseconds; 0 where there is none.
    #[must_use]
    pub fn max_us(&self) -> u64 {
        self.max_us
    }

    /// The least value, in microseconds; 0 where there is none.
    #[must_use]
    pub fn min_us(&self) -> u64 {
        if self.total == 0 { 0 } else { self.min_us }
    }

    /// The mean, in microseconds; 0 where there is no value.
    #[must_use]
    pub fn mean_us(&self) -> f64 {
        if self.total == 0 {
            return 0.0;
        }
        self.sum_us as f64 / self.total as f64
    }

    /// The value below or at which `quantile` (0 to 1) of all values lie: the greatest of its
    /// slot, as HdrHistogram has it, but never above the greatest value that was counted.
    #[must_use]
    pub fn quantile_us(&self, quantile: f64) -> u64 {
        let wanted = (quantile.clamp(0.0, 1.0) * self.total as f64).ceil() as u64;
        let wanted = wanted.max(1);
        let mut seen = 0;
        for (slot, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                let (first, width) = values_of(slot);
                return (first + width - 1).min(self.max_us);
            }
        }
        self.max_us
    }

    /// The usual figures.
    #[must_use]
    pub fn percentiles(&self) -> Percentiles {
        Percentiles {
            count: self.total,
            min_us: self.min_us(),
            mean_us: self.mean_us(),
            p50_us: self.quantile_us(0.5),
            p75_us: self.quantile_us(0.75),
            p90_us: self.quantile_us(0.9),
            p95_us: self.quantile_us(0.95),
            p99_us: self.quantile_us(0.99),
            p99_9_us: self.quantile_us(0.999),
            p99_99_us: self.quantile_us(0.9999),
            max_us: self.max_us,
        }
    }

    /// Slots with values: the greatest value of each, in microseconds, with its count.
    pub fn slots(&self) -> impl Iterator<Item = (u64, u64)> {
        let filled = self.counts.iter().enumerate().filter(|(_, c)| **c > 0);
        filled.map(|(slot, count)| {
            let (first, width) = values_of(slot);
            ((first + width - 1).min(self.max_us), *count)
        })
    }

    /// HdrHistogram's compressed V2 form in base64.
    #[must_use]
    pub fn to_base64(&self) -> String {
        let counts = self.encoded_counts();
        let mut plain = Vec::with_capacity(HEAD_BYTES + counts.len());
        plain.extend(COOKIE_V2.to_be_bytes());
        plain.extend((counts.len() as u32).to_be_bytes());
        plain.extend(0_u32.to_be_bytes()); // Normalizing index offset.
        plain.extend(SIGNIFICANT_DIGITS.to_be_bytes());
        plain.extend(1_u64.to_be_bytes()); // Least value that is told apart from 0.
        plain.extend(MICROS_MAX.to_be_bytes());
        plain.extend(1_f64.to_be_bytes()); // Conversion ratio of integers to doubles.
        plain.extend(counts);
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        let deflated = encoder
            .write_all(&plain)
            .and_then(|()| encoder.finish())
            .expect("writing to memory cannot fail");
        let mut bytes = Vec::with_capacity(8 + deflated.len());
        bytes.extend(COOKIE_V2_DEFLATED.to_be_bytes());
        bytes.extend((deflated.len() as u32).to_be_bytes());
        bytes.extend(deflated);
        STANDARD.encode(bytes)
    }

    /// Counts as ZigZag-LEB128; a run of empty slots is its negated length.
    fn encoded_counts(&self) -> Vec<u8> {
        let used = self
            .counts
            .iter()
            .rposition(|c| *c > 0)
            .map_or(0, |p| p + 1);
        let mut out = Vec::new();
        let mut empty: i64 = 0;
        for count in &self.counts[..used] {
            if *count == 0 {
                empty += 1;
                continue;
            }
            if empty > 0 {
                write_zigzag(&mut out, -empty);
                empty = 0;
            }
            write_zigzag(&mut out, *count as i64);
        }
        out
    }

    /// Reads what [`Self::to_base64`] wrote. The mean, the least and the greatest value are then
    /// those of the slots.
    ///
    /// # Errors
    /// [`HistogramError`] if it is anything else.
    pub fn from_base64(text: &str) -> Result<Self, HistogramError> {
        let bytes = STANDARD.decode(text).map_err(|_| HistogramError::Base64)?;
        let cookie = COOKIE_V2_DEFLATED.to_be_bytes();
        let deflated = bytes.strip_prefix(&cookie).ok_or(HistogramError::Format)?;
        let deflated = deflated.get(4..).ok_or(HistogramError::Format)?;
        // A count takes nine octets at most: what is longer is no histogram, and is not read.
        let plain_max = (HEAD_BYTES + SLOTS * 9) as u64;
        let mut plain = Vec::new();
        ZlibDecoder::new(deflated)
            .take(plain_max)
            .read_to_end(&mut plain)
            .map_err(|_| HistogramError::Format)?;
        let (head, counts) = plain
            .split_at_checked(HEAD_BYTES)
            .ok_or(HistogramError::Format)?;
        let digits = &SIGNIFICANT_DIGITS.to_be_bytes();
        if head[..4] != COOKIE_V2.to_be_bytes() || &head[12..16] != digits {
            return Err(HistogramError::Format);
        }
        if head[16..24] != 1_u64.to_be_bytes() {
            return Err(HistogramError::Format);
        }
        Self::from_counts(counts).ok_or(HistogramError::Format)
    }

    fn from_counts(mut bytes: &[u8]) -> Option<Self> {
        let mut histogram = Self::new();
        let mut slot: usize = 0;
        while !bytes.is_empty() {
            let number = read_zigzag(&mut bytes)?;
            if number <= 0 {
                slot = slot.checked_add(usize::try_from(number.unsigned_abs()).ok()?)?;
                continue;
            }
            if slot >= SLOTS {
                return None;
            }
            let (first, width) = values_of(slot);
            let count = number.unsigned_abs();
            histogram.total.checked_add(count)?;
            histogram.record_times(first + width - 1, count);
            slot += 1;
        }
        Some(histogram)
    }
}

fn write_zigzag(out: &mut Vec<u8>, number: i64) {
    let mut rest = ((number << 1) ^ (number >> 63)) as u64;
    // The ninth octet, where there is one, has eight bits of the number.
    for _ in 0..8 {
        if rest < 0x80 {
            out.push(rest as u8);
            return;
        }
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn read_zigzag(bytes: &mut &[u8]) -> Option<i64> {
    let mut number: u64 = 0;
    for place in 0..9 {
        let (&octet, rest) = bytes.split_first()?;
        *bytes = rest;
        if place == 8 {
            number |= u64::from(octet) << 56;
            break;
        }
        number |= u64::from(octet & 0x7F) << (7 * place);
        if octet & 0x80 == 0 {
            break;
        }
    }
    Some((number >> 1) as i64 ^ -((number & 1) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values over five decades, with a long tail.
    fn samples(count: usize) -> Vec<u64> {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        (0..count)
            .map(|_| {
                let exponent = next() % 20;
                (next() % 1_000 + 1) << exponent
            })
            .collect()
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_samples_to_three_digits() {
        let mut values = samples(100_000);
        let mut histogram = Histogram::new();
        values.iter().for_each(|v| histogram.record(*v));
        values.sort_unstable();
        for quantile in [0.001, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0] {
            let rank = ((quantile * values.len() as f64).ceil() as usize).max(1);
            let reference = values[rank - 1];
            let found = histogram.quantile_us(quantile);
            assert!(found >= reference, "{quantile}: {found} for {reference}");
            let bound = reference + reference / 1_000 + 1;
            assert!(found <= bound, "{quantile}: {found} for {reference}");
        }
        let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
        assert!((histogram.mean_us() - mean).abs() < 1e-6 * mean);
        assert_eq!(histogram.min_us(), values[0]);
        assert_eq!(histogram.max_us(), values[values.len() - 1]);
    }

    #[test]
    fn every_slot_holds_what_falls_into_it() {
        for slot in 0..SLOTS {
            let (first, width) = values_of(slot);
            assert_eq!(slot_of(first), slot);
            assert_eq!(slot_of(first + width - 1), slot);
        }
        assert_eq!(slot_of(MICROS_MAX), SLOTS - 1);
        let mut histogram = Histogram::new();
        histogram.record(u64::MAX);
        assert_eq!(histogram.max_us(), MICROS_MAX);
    }

    #[test]
    fn halves_make_the_whole() {
        let values = samples(10_000);
        let (mut left, mut right, mut whole) = Default::default();
        let record = |h: &mut Histogram, part: &[u64]| part.iter().for_each(|v| h.record(*v));
        record(&mut left, &values[..3_000]);
        record(&mut right, &values[3_000..]);
        record(&mut whole, &values);
        left.add(&right);
        assert_eq!(left, whole);
        left.clear();
        assert_eq!(left, Histogram::new());
    }

    #[test]
    fn the_compressed_form_keeps_every_count() {
        for values in [samples(50_000), vec![], vec![0], vec![MICROS_MAX]] {
            let mut histogram = Histogram::new();
            values.iter().for_each(|v| histogram.record(*v));
            let read = Histogram::from_base64(&histogram.to_base64()).unwrap();
            assert_eq!(read.counts, histogram.counts);
            assert_eq!(read.total, histogram.total);
        }
    }

    #[test]
    fn what_is_no_histogram_is_refused() {
        assert_eq!(Histogram::from_base64("?"), Err(HistogramError::Base64));
        let whole = Histogram::new().to_base64();
        for text in ["", "HISTFAAA", &whole[..whole.len() - 8]] {
            assert_eq!(Histogram::from_base64(text), Err(HistogramError::Format));
        }
    }

    #[test]
    fn numbers_of_every_length_survive() {
        for number in (0..63).flat_map(|bit| [1_i64 << bit, -(1_i64 << bit), (1 << bit) - 1]) {
            let mut bytes = Vec::new();
            write_zigzag(&mut bytes, number);
            assert!(bytes.len() <= 9);
            assert_eq!(read_zigzag(&mut &bytes[..]), Some(number));
        }
    }
}
