//! When to let more gather before the write-ahead log is written again.
//!
//! The log writes as soon as it can, so that what gathers is what comes during one sync. On a fast
//! drive that is little: each sync, and all that follows from it on this and other nodes, is paid
//! for by a few dozen messages, and clients that share the processors get less of them. A pause
//! between two writes makes the batches larger, but whoever waits for each confirm before going on
//! waits longer. Which of the two a load is cannot be told from the batches, so it is tried: pauses
//! stay while as many bytes a second are written with them as without.
//!
//! A message that is alone is never delayed: the pause counts from the end of the last write.

use std::time::{Duration, Instant};

/// The least time between the end of a write and the next one.
const PAUSE: Duration = Duration::from_millis(1);
/// Writes per judgement.
const WRITES: u32 = 128;
/// Writes that are further apart than this do not follow each other.
const STREAM_WRITE: Duration = Duration::from_millis(4);
/// Bytes of a write among which there is something to gather: less is a few messages, of which each
/// may be waited for; more pays for its sync.
const STREAM_BYTES: std::ops::Range<u64> = 8 * 1024..512 * 1024;
/// Of a hundred bytes written without pauses, those that must be written with them.
const KEPT_PERCENT: u64 = 80;
/// How long pauses are off once they have cost too much: twice as long each time.
const OFF: std::ops::Range<Duration> = Duration::from_millis(500)..Duration::from_secs(4);
/// Judgements after which it is looked again what is written without pauses.
const ROUNDS: u32 = 32;

/// Decides about pauses from how the writes have gone.
#[derive(Debug)]
pub struct GroupCommitDelay {
    /// Bytes a second without pauses, while there are some; and for how many rounds there were.
    pausing: Option<(u64, u32)>,
    writes: u32,
    bytes: u64,
    /// When the round began; nothing before the first write.
    since: Option<Instant>,
    last: Option<Instant>,
    not_before: Option<Instant>,
    off: Duration,
}

impl Default for GroupCommitDelay {
    fn default() -> Self {
        Self {
            pausing: None,
            writes: 0,
            bytes: 0,
            since: None,
            last: None,
            not_before: None,
            off: OFF.start,
        }
    }
}

impl GroupCommitDelay {
    /// How long to wait before the next write; nothing if the last one is long enough ago.
    #[must_use]
    pub fn pause(&self, now: Instant) -> Option<Duration> {
        let last = self.last.filter(|_| self.pausing.is_some())?;
        let rest = PAUSE.saturating_sub(now.saturating_duration_since(last));
        (!rest.is_zero()).then_some(rest)
    }

    /// Takes note of a write that has ended.
    pub fn wrote(&mut self, bytes: u64, now: Instant) {
        self.last = Some(now);
        self.writes += 1;
        self.bytes += bytes;
        if self.writes == WRITES || self.since.is_none() {
            self.judge(now);
            (self.writes, self.bytes, self.since) = (0, 0, Some(now));
        }
    }

    fn judge(&mut self, now: Instant) {
        let Some(since) = self.since else { return };
        let took = now.saturating_duration_since(since);
        let rate = self.bytes.saturating_mul(1_000_000) / (took.as_micros() as u64).max(1);
        let is_stream = took < (STREAM_WRITE + PAUSE) * WRITES
            && STREAM_BYTES.contains(&(self.bytes / u64::from(WRITES)));
        match &mut self.pausing {
            Some((without, rounds)) => {
                let costs = rate < *without / 100 * KEPT_PERCENT;
                *rounds += 1;
                if costs {
                    self.not_before = Some(now + self.off);
                    self.off = (self.off * 2).min(OFF.end);
                    self.pausing = None;
                } else if *rounds == ROUNDS || !is_stream {
                    self.off = OFF.start;
                    self.pausing = None;
                }
            }
            None => {
                let allowed = self.not_before.is_none_or(|at| now >= at);
                self.pausing = (is_stream && allowed).then_some((rate, 0));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KB: u64 = 1_024;

    /// A log that is written round after round.
    struct Log {
        group_commit_delay: GroupCommitDelay,
        now: Instant,
    }

    impl Log {
        fn new() -> Self {
            let mut log = Self {
                group_commit_delay: GroupCommitDelay::default(),
                now: Instant::now(),
            };
            log.group_commit_delay.wrote(0, log.now);
            log
        }

        /// Writes of these bytes, so far apart; whether the next one waits.
        fn round(&mut self, bytes: u64, apart_us: u64) -> bool {
            for _ in 0..WRITES {
                self.now += Duration::from_micros(apart_us);
                self.group_commit_delay.wrote(bytes, self.now);
            }
            self.group_commit_delay.pause(self.now).is_some()
        }
    }

    #[test]
    fn a_stream_of_writes_is_paused_and_what_is_not_one_is_not() {
        let apart = STREAM_WRITE.as_micros() as u64;
        assert!(Log::new().round(STREAM_BYTES.start, 500));
        assert!(Log::new().round(STREAM_BYTES.end - 1, apart));
        assert!(
            !Log::new().round(STREAM_BYTES.start - 1, 500),
            "a few messages"
        );
        assert!(!Log::new().round(STREAM_BYTES.end, 500), "it pays already");
        assert!(!Log::new().round(64 * KB, 2 * apart), "far apart");
    }

    #[test]
    fn pauses_stay_while_as_much_is_written() {
        let mut log = Log::new();
        assert!(log.round(50 * KB, 1_000));
        assert!(log.round(100 * KB, 2_000));
        assert!(log.round(81 * KB, 2_000));
    }

    #[test]
    fn pauses_that_cost_are_off_for_twice_as_long_each_time() {
        let mut log = Log::new();
        let mut off = OFF.start;
        for _ in 0..5 {
            assert!(log.round(50 * KB, 1_000));
            assert!(!log.round(50 * KB, 2_000), "half as much");
            let until = log.now + off;
            while log.now + Duration::from_micros(1_000) * WRITES < until {
                assert!(!log.round(50 * KB, 1_000));
            }
            off = (off * 2).min(OFF.end);
        }
        assert_eq!(off, OFF.end);
    }

    #[test]
    fn it_is_looked_again_what_is_written_without_them() {
        let mut log = Log::new();
        assert!(log.round(50 * KB, 1_000));
        let rounds = (1..=ROUNDS).take_while(|_| log.round(100 * KB, 2_000));
        assert_eq!(rounds.count() as u32, ROUNDS - 1);
        assert!(log.round(90 * KB, 1_000), "one round without");
        assert!(!log.round(70 * KB, 1_000), "there is more to be had");
    }

    #[test]
    fn who_comes_after_the_pause_does_not_wait() {
        let mut log = Log::new();
        assert!(log.round(50 * KB, 1_000));
        let half = PAUSE / 2;
        assert_eq!(log.group_commit_delay.pause(log.now + half), Some(half));
        assert_eq!(log.group_commit_delay.pause(log.now + PAUSE), None);
    }
}
