//! When to let input gather before looking at it.
//!
//! A broker that is faster than its clients wakes up for every single message, and then pays for a
//! poll, a read, a write and the wake-ups between with each: several times what the message itself
//! costs. Network cards met the same problem with interrupt moderation, and this is the same
//! answer: under a stream of wake-ups that each bring little, sleep a moment before the next look.
//!
//! A message that is alone is never delayed: the pause comes after work, and only once the turns of
//! the loop have followed each other at a rate that no request-and-reply exchange reaches. If a
//! pause does not make the turns larger, there was nothing to gather, and pausing stops for a
//! while.

use std::time::{Duration, Instant};

/// Turns per judgement.
const TURNS: u32 = 64;
/// Turns in a row that took less than this each are a stream.
const STREAM_TURN: Duration = Duration::from_micros(60);
/// The pause. The kernel adds its timer slack, about 50 µs.
const PAUSE: Duration = Duration::from_micros(150);
/// Requests a turn that make pausing worth it.
const GAIN_REQUESTS: usize = 6;
/// How long pausing is off once it has not paid.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// Decides about pauses from how the turns of the loop have gone.
#[derive(Default)]
pub struct Moderation {
    pausing: bool,
    turns: u32,
    requests: usize,
    since: Option<Instant>,
    not_before: Option<Instant>,
}

impl Moderation {
    /// How long to pause before the next look.
    pub fn pause(&self) -> Option<Duration> {
        self.pausing.then_some(PAUSE)
    }

    /// Takes note of a turn that handled this many requests.
    pub fn turn(&mut self, requests: usize) {
        self.turns += 1;
        self.requests += requests;
        if self.turns == TURNS {
            let now = Instant::now();
            self.judge(now);
            (self.turns, self.requests, self.since) = (0, 0, Some(now));
        }
    }

    fn judge(&mut self, now: Instant) {
        let Some(since) = self.since else { return };
        let per_turn = self.requests / TURNS as usize;
        if self.pausing {
            if per_turn < GAIN_REQUESTS {
                self.pausing = false;
                self.not_before = Some(now + RETRY_AFTER);
            }
        } else {
            let stream = now - since < STREAM_TURN * TURNS;
            let allowed = self.not_before.is_none_or(|at| now >= at);
            self.pausing = stream && allowed;
        }
    }
}
