//! When to let input gather before looking at it.
//!
//! A broker that is faster than its clients wakes up for every single message, and then pays for a
//! poll, a read, a write and the wake-ups between with each: several times what the message itself
//! costs. Network cards met the same problem with interrupt coalescing, and this is the same
//! answer: under a stream of wake-ups that each bring little, sleep a moment before the next look.
//!
//! A message that is alone is never delayed: the pause comes after work, and only once the turns of
//! the loop have followed each other at a rate, or have brought more each, than request-and-reply
//! exchanges reach. If a
//! pause does not make the turns larger, there was nothing to gather, and pausing stops for a
//! while.

use std::time::{Duration, Instant};

/// Turns per judgement.
const TURNS: u32 = 64;
/// Turns in a row that took less than this each are a stream.
const STREAM_TURN: Duration = Duration::from_micros(60);
/// Turns in a row that took less than this each and brought [`FLOW_REQUESTS`] each are a flow: on a
/// busy machine turns are far apart although the clients send without a break.
const FLOW_TURN: Duration = Duration::from_micros(400);
/// Requests a turn of a flow: more than clients make that wait for each answer, fewer than make a
/// turn cheap.
const FLOW_REQUESTS: std::ops::Range<usize> = 3..64;
/// The pause. The kernel adds its timer slack, about 50 µs.
const PAUSE: Duration = Duration::from_micros(250);
/// Requests a turn that make pausing worth it.
const GAIN_REQUESTS: usize = 6;
/// How long pausing is off once it has not paid.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// Decides about pauses from how the turns of the loop have gone.
#[derive(Default)]
pub struct InputCoalescing {
    pausing: bool,
    turns: u32,
    requests: usize,
    since: Option<Instant>,
    not_before: Option<Instant>,
}

impl InputCoalescing {
    /// How long to pause before the next look.
    pub fn pause(&self) -> Option<Duration> {
        self.pausing.then_some(PAUSE)
    }

    /// Takes note of a turn that handled this many requests.
    pub fn turn(&mut self, requests: usize) {
        self.turns += 1;
        self.requests += requests;
        if self.turns == TURNS {
            self.end_round(Instant::now());
        }
    }

    fn end_round(&mut self, now: Instant) {
        self.judge(now);
        (self.turns, self.requests, self.since) = (0, 0, Some(now));
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
            let took = now - since;
            let stream = took < STREAM_TURN * TURNS
                || took < FLOW_TURN * TURNS && FLOW_REQUESTS.contains(&per_turn);
            let allowed = self.not_before.is_none_or(|at| now >= at);
            self.pausing = stream && allowed;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds one after the other: how long each took, how many requests each of its turns brought,
    /// and whether the loop pauses after it.
    #[track_caller]
    fn check(rounds: &[(Duration, usize, bool)]) {
        let mut input_coalescing = InputCoalescing::default();
        let mut now = Instant::now();
        for (at, &(took, requests, pauses)) in rounds.iter().enumerate() {
            now += took;
            input_coalescing.turns = TURNS;
            input_coalescing.requests = requests * TURNS as usize;
            input_coalescing.end_round(now);
            assert_eq!(input_coalescing.pause().is_some(), pauses, "round {at}");
        }
    }

    const STREAM: Duration = Duration::from_nanos(STREAM_TURN.as_nanos() as u64 * TURNS as u64 - 1);
    const SLOW: Duration = Duration::from_nanos(STREAM.as_nanos() as u64 + 1);

    const FLOW: Duration = Duration::from_nanos(FLOW_TURN.as_nanos() as u64 * TURNS as u64 - 1);

    #[test]
    fn a_stream_is_paused_and_what_is_slower_is_not() {
        check(&[(STREAM, 1, false), (STREAM, 1, true)]);
        check(&[(STREAM, 1, false), (SLOW, 1, false), (SLOW, 100, false)]);
    }

    #[test]
    fn a_slower_flow_is_paused_while_its_turns_are_neither_single_nor_large() {
        let (few, many) = (FLOW_REQUESTS.start, FLOW_REQUESTS.end);
        check(&[(FLOW, 1, false), (FLOW, few, true)]);
        check(&[(FLOW, 1, false), (FLOW, many - 1, true)]);
        check(&[
            (FLOW, 1, false),
            (FLOW, few - 1, false),
            (FLOW, many, false),
        ]);
        let slower = FLOW + Duration::from_nanos(1);
        check(&[(FLOW, 1, false), (slower, few, false)]);
    }

    #[test]
    fn pausing_goes_on_while_it_pays() {
        let paid = GAIN_REQUESTS;
        check(&[
            (STREAM, 1, false),
            (STREAM, 1, true),
            (SLOW, paid, true),
            (SLOW * 10, paid, true),
            (SLOW, paid - 1, false),
        ]);
    }

    #[test]
    fn pausing_that_did_not_pay_is_not_tried_again_at_once() {
        let almost = RETRY_AFTER - Duration::from_nanos(1);
        check(&[
            (STREAM, 1, false),
            (STREAM, 1, true),
            (SLOW, 1, false),
            (STREAM, 1, false),
            (almost - STREAM, 1, false),
        ]);
        check(&[
            (STREAM, 1, false),
            (STREAM, 1, true),
            (SLOW, 1, false),
            (RETRY_AFTER, 1, false),
            (STREAM, 1, true),
        ]);
    }

    #[test]
    fn a_round_is_over_after_its_number_of_turns() {
        let mut input_coalescing = InputCoalescing::default();
        for turn in 1..TURNS {
            input_coalescing.turn(1);
            assert_eq!(
                (input_coalescing.turns, input_coalescing.since),
                (turn, None)
            );
        }
        input_coalescing.turn(1);
        assert_eq!(input_coalescing.turns, 0);
        assert!(input_coalescing.since.is_some());
    }
}
