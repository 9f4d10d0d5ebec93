//! What figures were over time: every five seconds for an hour, every minute for a day.
//!
//! A pure state machine: it is told the time and what counters stand at, and answers what they
//! stood at. What does not change takes no room. All that is kept together is bounded in number and
//! bytes; those that changed longest ago give way.

mod track;

use crate::history::rates::Subject;
use leveret_types::limits::{
    SAMPLE_RUNS_MAX, SAMPLE_STEP_MS, SAMPLED_OBJECTS_MAX, SAMPLES_BYTES_MAX, SAMPLES_COARSE,
    SAMPLES_FINE, SAMPLES_PER_COARSE,
};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use track::Track;

/// Bytes that the table takes for an object beside what its tracks take.
const ENTRY_BYTES: usize = 64;

/// From when to when values are asked for, in milliseconds: every `step` back from the last
/// multiple of it, for `age`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) age_ms: u64,
    pub(crate) step_ms: u64,
}

/// A moment on the clock that never goes back, and on the one that people read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds since some moment.
    pub monotonic_ms: u64,
    /// Milliseconds since the Unix epoch.
    pub wall_ms: u64,
}

/// What tells the time.
pub(crate) struct Clock(pub(crate) Box<dyn Fn() -> Moment + Send + Sync>);

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

impl Clock {
    /// The machine's.
    pub(crate) fn of_machine() -> Self {
        let begun = Instant::now();
        Self(Box::new(move || {
            let wall = SystemTime::now().duration_since(UNIX_EPOCH);
            let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
            Moment {
                monotonic_ms: ms(begun.elapsed()),
                wall_ms: wall.map_or(0, ms),
            }
        }))
    }
}

/// An object's values over time: when each was taken, on the wall clock, newest first.
pub(crate) type Series = Vec<(u64, Vec<u64>)>;

#[derive(Debug)]
struct Object {
    fine: Track,
    coarse: Track,
    /// The values before those that came last.
    before: Box<[u64]>,
}

impl Object {
    fn bytes(&self) -> usize {
        let before = self.before.len() * size_of::<u64>();
        self.fine.bytes() + self.coarse.bytes() + before + ENTRY_BYTES
    }
}

/// How much may be kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) objects: usize,
    pub(crate) bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            objects: SAMPLED_OBJECTS_MAX,
            bytes: SAMPLES_BYTES_MAX,
        }
    }
}

/// The samples of a node.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    bounds: Bounds,
    begun_ms: u64,
    objects: HashMap<Subject, Object>,
    bytes: usize,
    /// Ticks that were taken, as runs of consecutive ones, oldest first: what lies between two runs
    /// nobody looked at.
    runs: VecDeque<(u32, u32)>,
    /// Whether an object was ever forgotten, or there was no room for it: one that appears may then
    /// have been there before.
    has_forgotten: bool,
    /// Whether room was made during this tick: once is enough.
    made_room: bool,
}

impl Samples {
    #[cfg(test)]
    fn with_bounds(bounds: Bounds) -> Self {
        Self {
            bounds,
            ..Self::default()
        }
    }

    /// Begins a tick, if it is time for one; what is noted until the next belongs to it.
    pub(crate) fn begin(&mut self, now_ms: u64) -> bool {
        let Some(&(first, last)) = self.runs.back() else {
            self.begun_ms = now_ms;
            self.runs.push_back((0, 0));
            return true;
        };
        let tick = self.tick_at(now_ms);
        if tick <= last {
            return false;
        }
        if tick == last + 1 {
            self.runs.pop_back();
            self.runs.push_back((first, tick));
        } else {
            self.runs.push_back((tick, tick));
        }
        let horizon = tick.saturating_sub(SAMPLES_COARSE * SAMPLES_PER_COARSE);
        while self.runs.len() > SAMPLE_RUNS_MAX
            || self.runs.front().is_some_and(|run| run.1 < horizon)
        {
            self.runs.pop_front();
        }
        self.made_room = false;
        if last / SAMPLES_PER_COARSE < tick / SAMPLES_PER_COARSE {
            self.sweep(tick);
        }
        true
    }

    /// How long it is until the next tick.
    pub(crate) fn wait_ms(&self, now_ms: u64) -> u64 {
        let Some((_, last)) = self.runs.back() else {
            return 0;
        };
        let next = self.begun_ms + (u64::from(*last) + 1) * SAMPLE_STEP_MS;
        next.saturating_sub(now_ms)
    }

    /// Whether ticks are taken at all.
    pub(crate) fn are_taken(&self) -> bool {
        !self.runs.is_empty()
    }

    fn tick_at(&self, ms: u64) -> u32 {
        let ticks = ms.saturating_sub(self.begun_ms) / SAMPLE_STEP_MS;
        u32::try_from(ticks).unwrap_or(u32::MAX)
    }

    fn now(&self) -> u32 {
        self.runs.back().map_or(0, |run| run.1)
    }

    /// The tick that was taken before the newest one.
    fn before_now(&self) -> Option<u32> {
        let (first, last) = *self.runs.back()?;
        if first < last {
            return Some(last - 1);
        }
        let before = self.runs.len().checked_sub(2)?;
        self.runs.get(before).map(|run| run.1)
    }

    /// What an object stood at when it was noted last.
    pub(crate) fn newest(&self, subject: Subject) -> Option<&[u64]> {
        Some(self.objects.get(&subject)?.fine.newest())
    }

    /// Whether an object that is not known cannot have been noted before.
    pub(crate) const fn remembers_all(&self) -> bool {
        !self.has_forgotten
    }

    /// By how much a second an object's `count` values changed between the two newest ticks:
    /// nothing of one that is not known, as nothing has happened to it, unless it may have been
    /// forgotten.
    pub(crate) fn rates_or_still(&self, subject: Subject, count: usize) -> Option<Vec<f64>> {
        let is_still = self.are_taken() && self.remembers_all();
        let rates = self.rates(subject);
        rates.or_else(|| is_still.then(|| vec![0.0; count]))
    }

    /// Takes note of what an object stands at. If it is not known yet, it stood at `since` at the
    /// tick before; without that its history begins now.
    pub(crate) fn note(&mut self, subject: Subject, values: &[u64], since: Option<&[u64]>) {
        let tick = self.now();
        if !self.objects.contains_key(&subject) {
            if self.objects.len() >= self.bounds.objects && !self.make_room() {
                self.has_forgotten = true;
                return;
            }
            let begin = match (since, self.before_now()) {
                (Some(since), Some(before)) => (before, since),
                _ => (tick, values),
            };
            let object = Object {
                fine: Track::new(begin.0, begin.1),
                coarse: Track::new(begin.0 / SAMPLES_PER_COARSE, begin.1),
                before: begin.1.into(),
            };
            self.bytes += object.bytes();
            self.objects.insert(subject, object);
        }
        let Some(object) = self.objects.get_mut(&subject) else {
            return;
        };
        let old_bytes = object.bytes();
        if object.fine.changed() < tick && object.fine.newest() != values {
            object.before.copy_from_slice(object.fine.newest());
        }
        object.fine.push(tick, values);
        object.fine.forget_before(tick.saturating_sub(SAMPLES_FINE));
        self.bytes = self.bytes - old_bytes + object.bytes();
        if self.bytes > self.bounds.bytes {
            self.make_room();
        }
    }

    /// A minute has begun: notes what each object stood at, and forgets what is too old.
    fn sweep(&mut self, tick: u32) {
        let minute = tick / SAMPLES_PER_COARSE;
        let horizon = minute.saturating_sub(SAMPLES_COARSE);
        let (mut bytes, before) = (0, self.objects.len());
        self.objects.retain(|_, object| {
            // Ticks of this minute have not been noted yet: these values are of its beginning.
            object.coarse.push(minute, object.fine.newest());
            object.coarse.forget_before(horizon);
            let stays = object.coarse.changed() > horizon || minute < SAMPLES_COARSE;
            bytes += if stays { object.bytes() } else { 0 };
            stays
        });
        self.bytes = bytes;
        self.has_forgotten |= self.objects.len() < before;
    }

    /// Forgets an eighth of the objects: those that changed longest ago, but none that has in this
    /// tick. Answers whether there is room now.
    fn make_room(&mut self) -> bool {
        if self.made_room {
            return false;
        }
        self.made_room = true;
        let now = self.now();
        let objects = self.objects.iter();
        let mut oldest: Vec<(u32, Subject)> = objects
            .map(|(subject, object)| (object.fine.changed(), *subject))
            .filter(|(changed, _)| *changed < now)
            .collect();
        oldest.sort_by_key(|(changed, _)| *changed);
        let share = (self.objects.len() / 8).max(1);
        for (_, subject) in oldest.into_iter().take(share) {
            if let Some(object) = self.objects.remove(&subject) {
                self.bytes -= object.bytes();
                self.has_forgotten = true;
            }
        }
        self.objects.len() < self.bounds.objects
    }

    /// By how much a second an object's values changed between the two newest ticks.
    pub(crate) fn rates(&self, subject: Subject) -> Option<Vec<f64>> {
        let object = self.objects.get(&subject)?;
        let newest = object.fine.newest();
        let now = self.now();
        let Some(before) = self.before_now().filter(|_| object.fine.changed() == now) else {
            return Some(vec![0.0; newest.len()]);
        };
        let seconds = f64::from(now - before) * SAMPLE_STEP_MS as f64 / 1_000.0;
        let rates = newest.iter().zip(&*object.before);
        let rate = |(new, old): (&u64, &u64)| new.wrapping_sub(*old) as i64 as f64 / seconds;
        Some(rates.map(rate).collect())
    }

    /// What an object stood at, as far as it is known; times that nobody looked at are left out.
    pub(crate) fn series(&self, subject: Subject, range: Range, now: Moment) -> Option<Series> {
        let object = self.objects.get(&subject)?;
        let mut series = Vec::new();
        let newest = self.now();
        let fine_since = newest.saturating_sub(SAMPLES_FINE);
        let (mut coarse, mut fine) = (Vec::new(), Vec::new());
        for (wall_ms, tick) in self.ticks(range, now) {
            match tick < fine_since {
                true if self.has_minute(tick / SAMPLES_PER_COARSE) => {
                    coarse.push((tick / SAMPLES_PER_COARSE, wall_ms));
                }
                false if self.has_tick(tick) => fine.push((tick, wall_ms)),
                _ => {}
            }
        }
        for (track, times) in [(&object.coarse, coarse), (&object.fine, fine)] {
            let known = times.iter().filter(|(tick, _)| *tick >= track.begins());
            let mut known = known.map(|(_, wall_ms)| *wall_ms);
            track.at(times.iter().map(|(tick, _)| *tick), |_, values| {
                series.extend(known.next().map(|wall_ms| (wall_ms, values.to_vec())));
            });
        }
        series.reverse();
        Some(series)
    }

    /// The times of a range, oldest first, each with its tick.
    fn ticks(&self, range: Range, now: Moment) -> impl Iterator<Item = (u64, u32)> + use<> {
        let newest = self.now();
        let begun_ms = self.begun_ms;
        let last_ms = now.wall_ms - now.wall_ms % range.step_ms.max(1);
        let count = range.age_ms / range.step_ms.max(1);
        (0..=count).rev().filter_map(move |back| {
            let wall_ms = last_ms.checked_sub(back * range.step_ms)?;
            let ago_ms = now.wall_ms - wall_ms;
            let since_begun = now
                .monotonic_ms
                .checked_sub(ago_ms)?
                .checked_sub(begun_ms)?;
            let tick = u32::try_from(since_begun / SAMPLE_STEP_MS).ok()?;
            // The newest tick may be about to be taken.
            let tick = if tick == newest + 1 { newest } else { tick };
            Some((wall_ms, tick))
        })
    }

    fn has_tick(&self, tick: u32) -> bool {
        let after = self.runs.partition_point(|run| run.1 < tick);
        self.runs.get(after).is_some_and(|run| run.0 <= tick)
    }

    fn has_minute(&self, minute: u32) -> bool {
        let (first, end) = (
            minute * SAMPLES_PER_COARSE,
            (minute + 1) * SAMPLES_PER_COARSE,
        );
        let after = self.runs.partition_point(|run| run.1 < first);
        self.runs.get(after).is_some_and(|run| run.0 < end)
    }
}

#[cfg(test)]
mod tests;
