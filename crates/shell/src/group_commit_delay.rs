//! When to let more gather before the write-ahead log is written again.
//!
//! The log writes as soon as it can, so that what gathers is what comes during one sync. On a fast
//! drive that is little: each sync, and all that follows from it on this and other nodes, is paid
//! for by a few dozen messages, and clients that share the processors get less of them. A pause
//! between two writes makes the batches larger, but whoever waits for each confirm before going on
//! waits longer. Which of the two a load is cannot be told from the batches, so it is tried: pauses
//! stay while as many bytes a second are written with them as without.
//!
//! The links' thread has the same choice between two turns. Messages that come one by one to many
//! replicated queues are frames that come one by one, and each is a turn, wakes others, and makes
//! frames that other nodes get one by one. With a short pause a turn has frames of several queues.
//!
//! A message that is alone is never delayed: the pause counts from the end of the last write.

use std::time::{Duration, Instant};

/// Writes per judgement.
const WRITES: u32 = 128;
/// How long pauses are off at first once they have cost too much: twice as long each time.
const OFF_MIN: Duration = Duration::from_millis(500);
/// Judgements after which it is looked again what is written without pauses.
const ROUNDS: u32 = 32;

/// What follows each other so that a pause between may pay.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The least time between the end of a write and the next one.
    pause: Duration,
    /// Writes that are further apart than this do not follow each other.
    apart: Duration,
    /// The least and the first greater amount of a write that has something to gather: more pays
    /// for itself.
    amount: (u64, u64),
    /// Of a hundred that are written without pauses, those that must be written with them.
    kept_percent: u64,
    /// How long pauses are off at most once they have cost too much.
    off_max: Duration,
}

impl Rule {
    /// Writes of the log, in bytes: less is a few messages, of which each may be waited for.
    pub const LOG: Self = Self {
        pause: Duration::from_millis(1),
        apart: Duration::from_millis(4),
        amount: (8 * 1024, 512 * 1024),
        kept_percent: 80,
        off_max: Duration::from_secs(4),
    };
    /// Turns of the links' thread, in bytes of frames that have come and left: those of a few
    /// messages, for one busy queue fills its frames by itself, and would wait for nothing. The
    /// pause is short against what a message to a replicated queue takes. Publishers that wait
    /// for each confirm are noticed by what they send less, and are left alone for long.
    pub const LINKS: Self = Self {
        pause: Duration::from_micros(500),
        apart: Duration::from_micros(600),
        amount: (1, 16 * 1024),
        kept_percent: 80,
        off_max: Duration::from_secs(16),
    };
}

/// Decides about pauses from how the writes have gone.
#[derive(Debug)]
pub struct GroupCommitDelay {
    rule: &'static Rule,
    /// The amount a second without pauses, while there are some; and for how many rounds there
    /// were.
    pausing: Option<(u64, u32)>,
    writes: u32,
    amount: u64,
    /// When the round began; nothing before the first write.
    since: Option<Instant>,
    last: Option<Instant>,
    not_before: Option<Instant>,
    off: Duration,
}

impl GroupCommitDelay {
    /// No pauses yet.
    pub const fn new(rule: &'static Rule) -> Self {
        Self {
            rule,
            pausing: None,
            writes: 0,
            amount: 0,
            since: None,
            last: None,
            not_before: None,
            off: OFF_MIN,
        }
    }

    /// How long to wait before the next write; nothing if the last one is long enough ago.
    #[must_use]
    pub fn pause(&self, now: Instant) -> Option<Duration> {
        let last = self.last.filter(|_| self.pausing.is_some())?;
        let rest = self
            .rule
            .pause
            .saturating_sub(now.saturating_duration_since(last));
        (!rest.is_zero()).then_some(rest)
    }

    /// Takes note of a write that has ended.
    pub fn wrote(&mut self, amount: u64, now: Instant) {
        self.last = Some(now);
        self.writes += 1;
        self.amount += amount;
        if self.writes == WRITES || self.since.is_none() {
            self.judge(now);
            (self.writes, self.amount, self.since) = (0, 0, Some(now));
        }
    }

    fn judge(&mut self, now: Instant) {
        let Some(since) = self.since else { return };
        let took = now.saturating_duration_since(since);
        let rate = self.amount.saturating_mul(1_000_000) / (took.as_micros() as u64).max(1);
        let rule = self.rule;
        let (least, most) = rule.amount;
        let each = self.amount / u64::from(WRITES);
        let is_stream = took < (rule.apart + rule.pause) * WRITES && (least..most).contains(&each);
        match &mut self.pausing {
            Some((without, rounds)) => {
                let costs = rate < *without / 100 * rule.kept_percent;
                *rounds += 1;
                if costs {
                    self.not_before = Some(now + self.off);
                    self.off = (self.off * 2).min(rule.off_max);
                    self.pausing = None;
                } else if *rounds == ROUNDS || !is_stream {
                    self.off = OFF_MIN;
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
    const LEAST: u64 = Rule::LOG.amount.0;
    const MOST: u64 = Rule::LOG.amount.1;

    /// A log that is written round after round.
    struct Log {
        group_commit_delay: GroupCommitDelay,
        now: Instant,
    }

    impl Log {
        fn new() -> Self {
            let mut log = Self {
                group_commit_delay: GroupCommitDelay::new(&Rule::LOG),
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
        let apart = Rule::LOG.apart.as_micros() as u64;
        assert!(Log::new().round(LEAST, 500));
        assert!(Log::new().round(MOST - 1, apart));
        assert!(!Log::new().round(LEAST - 1, 500), "a few messages");
        assert!(!Log::new().round(MOST, 500), "it pays already");
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
        let mut off = OFF_MIN;
        for _ in 0..5 {
            assert!(log.round(50 * KB, 1_000));
            assert!(!log.round(50 * KB, 2_000), "half as much");
            let until = log.now + off;
            while log.now + Duration::from_micros(1_000) * WRITES < until {
                assert!(!log.round(50 * KB, 1_000));
            }
            off = (off * 2).min(Rule::LOG.off_max);
        }
        assert_eq!(off, Rule::LOG.off_max);
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

    /// The links' thread, of which each turn takes some bytes.
    fn links() -> Log {
        let mut links = Log::new();
        links.group_commit_delay = GroupCommitDelay::new(&Rule::LINKS);
        links.group_commit_delay.wrote(0, links.now);
        links
    }

    #[test]
    fn turns_of_few_messages_that_follow_each_other_are_paused() {
        let mut many = links();
        assert!(many.round(KB, 400));
        assert!(many.round(2 * KB, 800), "a turn has more by that");
        let far_apart = (Rule::LINKS.apart + Rule::LINKS.pause).as_micros() as u64;
        assert!(!links().round(KB, far_apart));
        let many = Rule::LINKS.amount.1;
        assert!(links().round(many - 1, 400));
        assert!(!links().round(many, 400), "they pay already");
    }

    #[test]
    fn publishers_that_wait_for_confirms_are_left_alone_for_long() {
        let mut links = links();
        let mut paused = 0;
        for _ in 0..10_000 {
            // They send the next message when they have the confirm of the last one.
            let is_pausing = links.group_commit_delay.pausing.is_some();
            paused += u32::from(is_pausing);
            links.round(2 * KB, if is_pausing { 650 } else { 400 });
        }
        assert!(paused < 100, "{paused} of 10,000 rounds");
    }

    #[test]
    fn who_comes_after_the_pause_does_not_wait() {
        let mut log = Log::new();
        assert!(log.round(50 * KB, 1_000));
        let half = Rule::LOG.pause / 2;
        assert_eq!(log.group_commit_delay.pause(log.now + half), Some(half));
        assert_eq!(
            log.group_commit_delay.pause(log.now + Rule::LOG.pause),
            None
        );
    }
}
