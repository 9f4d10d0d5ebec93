//! How fast consumers store offsets: of each name where it was some time ago.

use crate::host::Reference;
use leveret_types::limits::{STREAM_GROUP_RATE_MS, STREAM_OFFSETS_MAX};
use std::collections::BTreeMap;

/// Where a name was, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OffsetSample {
    at_ms: u64,
    offset: u64,
}

/// Two marks: a rate is taken from the older one, so that it is over no too short a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OffsetSamples {
    older: OffsetSample,
    newer: OffsetSample,
}

/// The marks of all names that have stored an offset since the stream runs here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rates(BTreeMap<Reference, OffsetSamples>);

impl Rates {
    /// A name has stored an offset at this time, in monotonic milliseconds. One that goes back
    /// begins anew.
    pub(crate) fn stored(&mut self, reference: &Reference, at_ms: u64, offset: u64) {
        let mark = OffsetSample { at_ms, offset };
        let begun = OffsetSamples {
            older: mark,
            newer: mark,
        };
        let is_full = self.0.len() >= STREAM_OFFSETS_MAX;
        match self.0.get_mut(reference) {
            Some(marks) if offset < marks.newer.offset => *marks = begun,
            Some(marks) if at_ms >= marks.newer.at_ms + STREAM_GROUP_RATE_MS => {
                marks.older = std::mem::replace(&mut marks.newer, mark);
            }
            Some(_) => {}
            None if is_full => {}
            None => drop(self.0.insert(reference.clone(), begun)),
        }
    }

    /// Offsets per second that a name, which is at this one now, has gone on over the last
    /// [`STREAM_GROUP_RATE_MS`] to twice that; less the longer it stores none.
    pub(crate) fn of(&self, reference: &Reference, now_ms: u64, offset: u64) -> f64 {
        let Some(marks) = self.0.get(reference) else {
            return 0.0;
        };
        let milliseconds = now_ms.saturating_sub(marks.older.at_ms);
        let offsets = offset.saturating_sub(marks.older.offset);
        match milliseconds {
            0 => 0.0,
            milliseconds => offsets as f64 * 1_000.0 / milliseconds as f64,
        }
    }

    pub(crate) fn forget(&mut self, reference: &Reference) {
        self.0.remove(reference);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

    use super::*;
    use bytes::Bytes;

    fn name(text: &str) -> Reference {
        Reference::new(Bytes::copy_from_slice(text.as_bytes())).unwrap()
    }

    #[test]
    fn a_rate_is_over_the_last_time_and_falls_when_nothing_is_stored() {
        let (mut rates, app) = (Rates::default(), name("app"));
        assert_eq!(rates.of(&app, 5, 7), 0.0, "it is not known");
        let every = STREAM_GROUP_RATE_MS / 10;
        // 100 a second for a long time, then 200.
        let mut offset = 0;
        for step in 0..100 {
            rates.stored(&app, step * every, offset);
            offset += if step < 50 { every / 10 } else { every / 5 };
        }
        let now = 100 * every;
        assert_eq!(rates.of(&app, now, offset), 200.0);
        let later = now + 10 * STREAM_GROUP_RATE_MS;
        assert!(rates.of(&app, later, offset) < 40.0);
    }

    #[test]
    fn one_that_goes_back_begins_anew() {
        let (mut rates, app) = (Rates::default(), name("app"));
        rates.stored(&app, 0, 1_000);
        rates.stored(&app, 1_000, 100);
        assert_eq!(rates.of(&app, 2_000, 110), 10.0);
        rates.forget(&app);
        assert_eq!(rates.of(&app, 2_000, 110), 0.0);
    }

    #[test]
    fn as_many_names_are_watched_as_are_kept() {
        let mut rates = Rates::default();
        for number in 0..=STREAM_OFFSETS_MAX {
            rates.stored(&name(&number.to_string()), 0, 0);
        }
        let (last, more) = (STREAM_OFFSETS_MAX - 1, STREAM_OFFSETS_MAX);
        assert_eq!(rates.of(&name(&last.to_string()), 1_000, 5), 5.0);
        assert_eq!(rates.of(&name(&more.to_string()), 1_000, 5), 0.0);
    }
}
