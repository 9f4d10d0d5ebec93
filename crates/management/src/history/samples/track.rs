//! The values of one object over time, packed: what changed at a tick, and by how much.

use std::collections::VecDeque;

/// Values at ticks, oldest first. A tick at which nothing changed takes no room.
#[derive(Clone, Debug)]
pub(super) struct Track {
    /// The oldest values that are known, and since when.
    first: (u32, Box<[u64]>),
    /// The newest values, and when they came.
    last: (u32, Box<[u64]>),
    /// What happened between the two. By tick: ticks since the one before, a bit for each value
    /// that changed, and by how much each did; all of them variable-length integers.
    packed: VecDeque<u8>,
}

impl Track {
    pub(super) fn new(tick: u32, values: &[u64]) -> Self {
        Self {
            first: (tick, values.into()),
            last: (tick, values.into()),
            packed: VecDeque::new(),
        }
    }

    /// Since when values are known.
    pub(super) const fn begins(&self) -> u32 {
        self.first.0
    }

    /// When something changed last.
    pub(super) const fn changed(&self) -> u32 {
        self.last.0
    }

    pub(super) fn newest(&self) -> &[u64] {
        &self.last.1
    }

    /// Bytes of memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        let values = self.first.1.len() + self.last.1.len();
        size_of::<Self>() + values * size_of::<u64>() + self.packed.capacity()
    }

    /// Takes note of the values at a tick, which is later than all before it.
    pub(super) fn push(&mut self, tick: u32, values: &[u64]) {
        debug_assert_eq!(values.len(), self.last.1.len(), "values of one object");
        let mut mask = 0_u64;
        for (at, (old, new)) in self.last.1.iter().zip(values).enumerate() {
            mask |= u64::from(old != new) << at;
        }
        if mask == 0 || tick <= self.last.0 {
            return;
        }
        write(&mut self.packed, u64::from(tick - self.last.0));
        write(&mut self.packed, mask);
        for (old, new) in self.last.1.iter_mut().zip(values) {
            if old != new {
                write(&mut self.packed, zigzag(new.wrapping_sub(*old)));
                *old = *new;
            }
        }
        self.last.0 = tick;
    }

    /// Forgets what was before a tick; what the values were then stays known.
    pub(super) fn forget_before(&mut self, tick: u32) {
        while self.first.0 < tick {
            let mut reader = self.packed.iter().copied();
            let before = reader.len();
            let Some((ticks, mask)) = head(&mut reader) else {
                break;
            };
            if self.first.0 + ticks > tick {
                break;
            }
            apply(&mut reader, mask, &mut self.first.1);
            let taken = before - reader.len();
            self.packed.drain(..taken);
            self.first.0 += ticks;
        }
        if self.packed.capacity() > 4 * self.packed.len() + 64 {
            self.packed.shrink_to_fit();
        }
    }

    /// Calls `see` with the values at each of these ticks, which ascend; those before the first
    /// that is known are passed over.
    pub(super) fn at(&self, ticks: impl Iterator<Item = u32>, mut see: impl FnMut(u32, &[u64])) {
        let mut reader = self.packed.iter().copied();
        let mut values = self.first.1.clone();
        let mut now = self.first.0;
        let mut next = head(&mut reader);
        for tick in ticks.skip_while(|tick| *tick < self.first.0) {
            while let Some((ticks, mask)) = next
                && now + ticks <= tick
            {
                apply(&mut reader, mask, &mut values);
                now += ticks;
                next = head(&mut reader);
            }
            see(tick, &values);
        }
    }
}

/// How many ticks later which values change.
fn head(reader: &mut impl Iterator<Item = u8>) -> Option<(u32, u64)> {
    let ticks = read(reader)?;
    // A difference of two ticks, as it was written.
    Some((u32::try_from(ticks).ok()?, read(reader)?))
}

fn apply(reader: &mut impl Iterator<Item = u8>, mask: u64, values: &mut [u64]) {
    for (at, value) in values.iter_mut().enumerate() {
        if mask >> at & 1 == 1 {
            let change = read(reader).unwrap_or(0);
            *value = value.wrapping_add(unzigzag(change));
        }
    }
}

/// A difference of either sign as a number that is small where the difference is.
const fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ ((difference as i64 >> 63) as u64)
}

const fn unzigzag(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

fn write(out: &mut VecDeque<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push_back(number as u8 | 0x80);
        number >>= 7;
    }
    out.push_back(number as u8);
}

fn read(reader: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = reader.next()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(track: &Track, ticks: std::ops::RangeInclusive<u32>) -> Vec<(u32, Vec<u64>)> {
        let mut seen = Vec::new();
        track.at(ticks, |tick, values| seen.push((tick, values.to_vec())));
        seen
    }

    #[test]
    fn values_come_back_as_they_were_at_each_tick() {
        let mut track = Track::new(3, &[5, u64::MAX, 0]);
        track.push(4, &[6, 0, 0]);
        track.push(9, &[6, 0, 1 << 40]);
        track.push(10, &[0, u64::MAX, 0]);
        let expected = [
            (3, vec![5, u64::MAX, 0]),
            (4, vec![6, 0, 0]),
            (5, vec![6, 0, 0]),
            (6, vec![6, 0, 0]),
            (7, vec![6, 0, 0]),
            (8, vec![6, 0, 0]),
            (9, vec![6, 0, 1 << 40]),
            (10, vec![0, u64::MAX, 0]),
            (11, vec![0, u64::MAX, 0]),
        ];
        assert_eq!(seen(&track, 0..=11), expected);
    }

    #[test]
    fn a_tick_without_change_takes_no_room() {
        let mut track = Track::new(0, &[1, 2]);
        let bytes = track.bytes();
        for tick in 1..1_000 {
            track.push(tick, &[1, 2]);
        }
        assert_eq!((track.bytes(), track.changed()), (bytes, 0));
    }

    #[test]
    fn what_is_forgotten_leaves_the_value_that_stood_then() {
        let mut track = Track::new(0, &[0]);
        for tick in [2, 5, 6, 9] {
            track.push(tick, &[u64::from(tick)]);
        }
        for (before, begins) in [(1, 0), (4, 2), (6, 6), (8, 6), (9, 9), (40, 9)] {
            track.forget_before(before);
            assert_eq!(track.begins(), begins, "before {before}");
            let then = seen(&track, before..=before);
            assert_eq!(then, [(before, vec![u64::from(begins)])]);
            assert_eq!(seen(&track, 40..=40), [(40, vec![9])]);
        }
        assert_eq!(track.packed.len(), 0);
    }
}
