//! A connection that broke: which broker to try next, and when, and for how long.

use std::sync::Arc;

use super::dial::{ChannelSetup, Request};

/// The time before the second attempt; each further one waits twice as long.
const BACK_OFF_US: u64 = 50_000;
/// The longest time between two attempts.
const BACK_OFF_US_MAX: u64 = 2_000_000;
/// Connections of a thread that break at once do not all come back at once.
const SPREAD_US: u64 = 500;
/// A connection that has been open again for so long is well, though nothing came over it.
const WELL_US: u64 = 1_000_000;

/// How a connection is opened again.
#[derive(Clone, Debug)]
pub struct Redial {
    /// The brokers to try, by number, one after another and over again, from the one after `at`.
    pub uris: Vec<usize>,
    /// The place in `uris` of the broker that it is, or was, connected to.
    pub at: usize,
    /// Its channels.
    pub channels: Arc<[ChannelSetup]>,
}

/// Where a broken connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It waits for its next attempt, at this time.
    Waiting(u64),
    /// An attempt is under way.
    Dialing,
    /// It is open again, since this time; nothing has come over it yet.
    Open(u64),
}

/// A connection's time without a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    since_us: u64,
    attempts: u32,
    stage: Stage,
}

impl Outage {
    /// It broke at `now_us`; the first attempt is at once, but for the others of the same thread
    /// (`number` is its among them).
    #[must_use]
    pub fn begin(now_us: u64, number: usize) -> Self {
        let first_us = now_us + SPREAD_US * (number as u64 % 64);
        Self {
            since_us: now_us,
            attempts: 0,
            stage: Stage::Waiting(first_us),
        }
    }

    /// An attempt failed, or the connection broke before anything came over it.
    pub fn failed(&mut self, now_us: u64) {
        let wait_us = BACK_OFF_US << self.attempts.min(16);
        self.attempts += 1;
        self.stage = Stage::Waiting(now_us + wait_us.min(BACK_OFF_US_MAX));
    }

    /// When the next attempt is due; none while one is under way, or after it.
    #[must_use]
    pub fn next_us(&self) -> Option<u64> {
        match self.stage {
            Stage::Waiting(at_us) => Some(at_us),
            Stage::Dialing | Stage::Open(_) => None,
        }
    }

    /// The attempt, if it is due: of the next broker in turn.
    pub fn attempt(&mut self, now_us: u64, number: usize, redial: &mut Redial) -> Option<Request> {
        self.next_us().filter(|at_us| *at_us <= now_us)?;
        self.stage = Stage::Dialing;
        redial.at = (redial.at + 1) % redial.uris.len();
        Some(Request {
            connection: number,
            uri: redial.uris[redial.at],
            channels: Arc::clone(&redial.channels),
        })
    }

    /// It is open again.
    pub fn opened(&mut self, now_us: u64) {
        self.stage = Stage::Open(now_us);
    }

    /// Whether it has no connection.
    #[must_use]
    pub fn is_down(&self) -> bool {
        !matches!(self.stage, Stage::Open(_))
    }

    /// How long it has been going on.
    #[must_use]
    pub fn length_us(&self, now_us: u64) -> u64 {
        now_us.saturating_sub(self.since_us)
    }

    /// How long it was, if it is over though nothing came: a connection may have nothing to say.
    #[must_use]
    pub fn over_us(&self, now_us: u64) -> Option<u64> {
        match self.stage {
            Stage::Open(at_us) if now_us >= at_us + WELL_US => Some(self.length_us(at_us)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redial(uris: &[usize]) -> Redial {
        Redial {
            uris: uris.to_vec(),
            at: 0,
            channels: Arc::from([]),
        }
    }

    #[test]
    fn attempts_go_from_broker_to_broker_and_wait_longer_each_time() {
        let mut redial = redial(&[4, 7]);
        let mut outage = Outage::begin(1_000, 2);
        let (mut uris, mut waits) = (Vec::new(), Vec::new());
        let mut now_us = 1_000;
        for _ in 0..9 {
            let at_us = outage.next_us().unwrap();
            assert!(
                outage.attempt(at_us - 1, 2, &mut redial).is_none(),
                "it is too early"
            );
            waits.push(at_us - now_us);
            now_us = at_us;
            let request = outage.attempt(now_us, 2, &mut redial).unwrap();
            assert_eq!(request.connection, 2);
            uris.push(request.uri);
            assert!(
                outage.attempt(now_us, 2, &mut redial).is_none(),
                "one is under way"
            );
            outage.failed(now_us);
        }
        assert_eq!(uris, [7, 4, 7, 4, 7, 4, 7, 4, 7]);
        assert_eq!(waits[..4], [1_000, 50_000, 100_000, 200_000]);
        assert_eq!(waits[7..], [2_000_000, 2_000_000]);
        assert_eq!(outage.length_us(now_us), now_us - 1_000);
    }

    #[test]
    fn an_outage_is_over_a_while_after_the_connection_is_open_again() {
        let mut outage = Outage::begin(0, 0);
        assert!(outage.is_down());
        assert!(outage.attempt(0, 0, &mut redial(&[0])).is_some());
        assert!(outage.is_down() && outage.over_us(WELL_US).is_none());
        outage.opened(5_000);
        assert!(!outage.is_down());
        assert_eq!(outage.over_us(5_000 + WELL_US - 1), None);
        assert_eq!(outage.over_us(5_000 + WELL_US), Some(5_000));
    }
}
