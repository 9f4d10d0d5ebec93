//! The filter of a chunk: which filter values its messages may have, so that a reader who asks for
//! others is not sent the chunk.
//!
//! Bit 0 says that the chunk has a message without a filter value; a value sets two of the others.
//! A chunk none of whose messages has a value has no filter at all.
//!
//! The filter never reaches a client, so its hash is of our own choice. It is stored: it stays.

use crate::batch::Published;
use bytes::Bytes;
use leveret_types::limits::{
    SHORT_STRING_BYTES_MAX, STREAM_FILTER_VALUES_BYTES_MAX, STREAM_FILTER_VALUES_MAX,
};

/// Gathers the values of one chunk.
#[derive(Clone, Debug)]
pub struct BloomBuilder {
    bits: Vec<u8>,
    has_value: bool,
}

impl BloomBuilder {
    /// An empty filter of so many bytes.
    #[must_use]
    pub fn new(bytes: u8) -> Self {
        Self {
            bits: vec![0; usize::from(bytes)],
            has_value: false,
        }
    }

    /// Notes one entry's value, or that it has none. An empty value is none.
    pub fn add(&mut self, published: &Published<'_>) {
        match published.filter {
            None | Some([]) => set(&mut self.bits, 0),
            Some(value) => {
                self.has_value = true;
                for bit in bits_of(value, self.bits.len()) {
                    set(&mut self.bits, bit);
                }
            }
        }
    }

    /// The filter, empty if there was no value; the builder begins anew, with a filter of so many
    /// bytes.
    #[must_use]
    pub fn take(&mut self, next_bytes: u8) -> Vec<u8> {
        let empty = vec![0; usize::from(next_bytes)];
        let bits = std::mem::replace(&mut self.bits, empty);
        if std::mem::take(&mut self.has_value) {
            bits
        } else {
            Vec::new()
        }
    }
}

/// What a reader asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Messages with any of these values.
    pub values: Vec<Bytes>,
    /// Messages without a value too.
    pub match_unfiltered: bool,
    /// Whether single entries are asked for, and not all of a chunk that has one of them. Of a
    /// chunk that does not say what its entries' values are all is sent all the same.
    pub messages: bool,
}

impl Filter {
    /// Whether it has no more values, and no longer ones, than are kept for a reader.
    #[must_use]
    pub fn is_within_bounds(&self) -> bool {
        let bytes: usize = self.values.iter().map(Bytes::len).sum();
        self.values.len() <= STREAM_FILTER_VALUES_MAX
            && bytes <= STREAM_FILTER_VALUES_BYTES_MAX
            && self
                .values
                .iter()
                .all(|value| value.len() <= SHORT_STRING_BYTES_MAX)
    }

    /// Whether a chunk with this filter may have a message that is asked for. `true` may be wrong:
    /// the client looks at each message; `false` never is.
    #[must_use]
    pub fn may_match(&self, bloom: &[u8]) -> bool {
        if bloom.is_empty() {
            return self.match_unfiltered;
        }
        let has = |value: &Bytes| bits_of(value, bloom.len()).all(|bit| is_set(bloom, bit));
        (self.match_unfiltered && is_set(bloom, 0)) || self.values.iter().any(has)
    }
}

/// The two bits of a value, neither of them bit 0.
fn bits_of(value: &[u8], bytes: usize) -> impl Iterator<Item = usize> {
    let hash = hash_of(value);
    let choices = (bytes as u64 * 8).saturating_sub(1).max(1);
    [hash & u64::from(u32::MAX), hash >> 32]
        .into_iter()
        .map(move |half| (half % choices) as usize + 1)
}

/// FNV-1a with 64 bits, and the finishing steps of MurmurHash3, so that both halves are mixed.
pub(crate) fn hash_of(value: &[u8]) -> u64 {
    let mut hash = value.iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
    });
    for factor in [0xFF51_AFD7_ED55_8CCD, 0xC4CE_B9FE_1A85_EC53] {
        hash = (hash ^ hash >> 33).wrapping_mul(factor);
    }
    hash ^ hash >> 33
}

fn set(bits: &mut [u8], bit: usize) {
    if let Some(byte) = bits.get_mut(bit / 8) {
        *byte |= 0x80 >> (bit % 8);
    }
}

fn is_set(bits: &[u8], bit: usize) -> bool {
    bits.get(bit / 8)
        .is_some_and(|byte| byte & 0x80 >> (bit % 8) != 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

    use super::*;
    use crate::batch::BatchBuilder;

    fn bloom(bytes: u8, values: &[Option<&[u8]>]) -> Vec<u8> {
        let mut batch = BatchBuilder::new();
        for value in values {
            assert!(batch.push(0, *value, b"m"));
        }
        let mut builder = BloomBuilder::new(bytes);
        batch
            .take()
            .iter()
            .for_each(|published| builder.add(&published));
        builder.take(16)
    }

    fn filter(values: &[&'static str], match_unfiltered: bool) -> Filter {
        let values = values
            .iter()
            .map(|v| Bytes::from_static(v.as_bytes()))
            .collect();
        Filter {
            values,
            match_unfiltered,
            messages: false,
        }
    }

    #[test]
    fn a_value_that_is_there_is_always_found() {
        for size in [16, 64, 255] {
            for n in 0..1_000_u32 {
                let value = n.to_be_bytes();
                let bits = bloom(size, &[Some(&value)]);
                let wanted = Filter {
                    values: vec![Bytes::copy_from_slice(&value)],
                    ..Filter::default()
                };
                assert!(wanted.may_match(&bits), "{size} {n}");
            }
        }
    }

    #[test]
    fn few_values_that_are_not_there_are_found() {
        let bits = bloom(16, &[Some(b"eu"), Some(b"us"), Some(b"asia")]);
        let wrong = (0..10_000_u32)
            .filter(|n| {
                let values = vec![Bytes::copy_from_slice(&n.to_be_bytes())];
                Filter {
                    values,
                    ..Filter::default()
                }
                .may_match(&bits)
            })
            .count();
        // Six of 127 bits are set: about one in 450 of others has both of its own among them.
        assert!(wrong < 100, "{wrong}");
    }

    #[test]
    fn messages_without_a_value_are_a_bit_of_their_own() {
        let mixed = bloom(16, &[Some(b"eu"), None]);
        let only = bloom(16, &[Some(b"eu")]);
        assert!(filter(&["us"], true).may_match(&mixed));
        assert!(!filter(&["us"], true).may_match(&only));
        assert!(!filter(&["us"], false).may_match(&mixed));
        let none = bloom(16, &[None, Some(b"")]);
        assert_eq!(none, []);
        assert!(filter(&["eu"], true).may_match(&none));
        assert!(!filter(&["eu"], false).may_match(&none));
    }

    #[test]
    fn the_hash_stays_as_it_is_stored() {
        let bits: Vec<Vec<usize>> = [&b"eu"[..], b"us", b""]
            .iter()
            .map(|value| bits_of(value, 16).collect())
            .collect();
        assert_eq!(bits, FROZEN);
    }

    const FROZEN: [[usize; 2]; 3] = [[84, 95], [43, 118], [62, 109]];
}
