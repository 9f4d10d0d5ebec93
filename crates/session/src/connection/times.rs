//! When a client was heard and spoken to, and by when something must have happened.

use leveret_types::{Now, limits};

/// See the module's description. Moments are monotonic milliseconds.
pub(crate) struct Times {
    /// The latest moment that was told.
    pub(crate) now: Now,
    /// When the client was last heard; nothing if that begins to count with the next moment told.
    last_input_ms: Option<u64>,
    /// When to see whether a heartbeat is to be sent.
    speak_ms: u64,
    /// Whether something was said since that was last seen to.
    spoke: bool,
    /// When the phase must be over: the handshake, or the closing; nothing if that begins to count
    /// with the next moment told.
    until_ms: Option<u64>,
    /// When to look whether a publish that has not arrived whole is late.
    unfinished_ms: Option<u64>,
}

impl Times {
    /// The handshake begins.
    pub(crate) const fn new(now: Now, handshake_ms_max: u64) -> Self {
        Self {
            now,
            last_input_ms: Some(now.monotonic_ms),
            speak_ms: 0,
            spoke: false,
            until_ms: Some(now.monotonic_ms + handshake_ms_max),
            unfinished_ms: None,
        }
    }

    // --- input ---------------------------------------------------------------------------------

    pub(crate) const fn note_input(&mut self) {
        self.last_input_ms = Some(self.now.monotonic_ms);
    }

    /// The client lived at `at`, though it was not read.
    pub(crate) fn lived(&mut self, at: Now) {
        self.last_input_ms = self
            .last_input_ms
            .map(|note_input| note_input.max(at.monotonic_ms));
    }

    /// A client that is not read cannot be heard: its silence counts from the next moment.
    pub(crate) const fn stop_counting_silence(&mut self) {
        self.last_input_ms = None;
    }

    /// Whether the client was silent for two heartbeats. It counts from now on if it did not.
    pub(crate) fn is_silent(&mut self, interval_ms: u64) -> bool {
        let note_input = *self.last_input_ms.get_or_insert(self.now.monotonic_ms);
        note_input + 2 * interval_ms <= self.now.monotonic_ms
    }

    // --- speaking ------------------------------------------------------------------------------

    pub(crate) const fn speak(&mut self) {
        self.spoke = true;
    }

    /// Whether it is time to see whether a heartbeat is to be sent.
    pub(crate) const fn is_time_to_speak(&self) -> bool {
        self.speak_ms <= self.now.monotonic_ms
    }

    /// Whether something was said since that was last seen to.
    pub(crate) const fn has_spoken(&self) -> bool {
        self.spoke
    }

    /// It was seen to: it is time again after half of an interval.
    pub(crate) const fn speak_again(&mut self, interval_ms: u64) {
        self.spoke = false;
        self.speak_ms = self.now.monotonic_ms + interval_ms / 2;
    }

    /// When heartbeats are to be seen to; `is_listening` says whether the client is expected to be
    /// heard.
    pub(crate) fn heartbeats_due_ms(&self, interval_ms: u64, is_listening: bool) -> u64 {
        let due = match self.last_input_ms {
            Some(note_input) => note_input + 2 * interval_ms,
            None => self.now.monotonic_ms,
        };
        match is_listening {
            true => due.min(self.speak_ms),
            false => self.speak_ms,
        }
    }

    // --- phases --------------------------------------------------------------------------------

    /// The handshake is over.
    pub(crate) fn begin_running(&mut self, interval_ms: Option<u64>) {
        self.until_ms = None;
        self.note_input();
        self.speak_ms = self.now.monotonic_ms + interval_ms.unwrap_or(0) / 2;
    }

    /// How long this phase may last counts from the next moment.
    pub(crate) const fn begin_closing(&mut self) {
        self.until_ms = None;
    }

    /// The client is to close its socket. Who has not opened a virtual host (`is_open`) has until
    /// the end of the handshake's time.
    pub(crate) fn begin_lingering(&mut self, is_open: bool) {
        let until_ms = self.now.monotonic_ms + limits::CLOSE_MS_MAX;
        self.until_ms = match is_open {
            true => Some(until_ms),
            false => self.until_ms.or(Some(until_ms)),
        };
    }

    /// When the phase must be over.
    pub(crate) fn phase_due_ms(&self) -> u64 {
        self.until_ms.unwrap_or(self.now.monotonic_ms)
    }

    /// Whether the handshake has taken too long.
    pub(crate) fn is_handshake_over(&self) -> bool {
        let now_ms = self.now.monotonic_ms;
        self.until_ms.is_some_and(|until| until <= now_ms)
    }

    /// Whether the closing has taken too long: it has this long from the first time on that this is
    /// asked.
    pub(crate) fn is_closing_over(&mut self, ms_max: u64) -> bool {
        let now_ms = self.now.monotonic_ms;
        *self.until_ms.get_or_insert(now_ms + ms_max) <= now_ms
    }

    // --- publishes that have not arrived whole -------------------------------------------------

    /// A publish has begun that is to be looked at then.
    pub(crate) fn note_unfinished(&mut self, check_ms: Option<u64>) {
        self.set_unfinished([self.unfinished_ms, check_ms].into_iter().flatten().min());
    }

    /// When the first of those that are arriving is to be looked at.
    pub(crate) const fn set_unfinished(&mut self, check_ms: Option<u64>) {
        self.unfinished_ms = check_ms;
    }

    pub(crate) const fn unfinished_ms(&self) -> Option<u64> {
        self.unfinished_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(times: &mut Times, ms: u64) -> &mut Times {
        times.now = Now::both(ms);
        times
    }

    #[test]
    fn silence_counts_from_when_the_client_was_heard_or_could_be() {
        let mut times = Times::new(Now::both(1_000), 5_000);
        assert!(!at(&mut times, 2_999).is_silent(1_000));
        assert!(at(&mut times, 3_000).is_silent(1_000));
        at(&mut times, 3_000).note_input();
        assert!(!at(&mut times, 4_999).is_silent(1_000));
        times.lived(Now::both(4_999));
        assert!(!at(&mut times, 6_998).is_silent(1_000));
        times.stop_counting_silence();
        assert_eq!(times.heartbeats_due_ms(1_000, true), 0, "to be spoken to");
        assert!(!at(&mut times, 9_000).is_silent(1_000), "it counts anew");
        assert!(at(&mut times, 11_000).is_silent(1_000));
    }

    #[test]
    fn heartbeats_are_due_by_the_clients_silence_while_it_is_listened_to() {
        let mut times = Times::new(Now::both(1_000), 5_000);
        times.begin_running(Some(600));
        assert_eq!(times.heartbeats_due_ms(600, true), 1_300);
        at(&mut times, 2_150).speak_again(600);
        assert_eq!(times.heartbeats_due_ms(600, true), 2_200, "heard at 1000");
        assert_eq!(times.heartbeats_due_ms(600, false), 2_450);
        times.stop_counting_silence();
        assert_eq!(times.heartbeats_due_ms(600, true), 2_150, "now");
        assert_eq!(times.heartbeats_due_ms(600, false), 2_450);
    }

    #[test]
    fn a_stranger_that_lingers_gets_no_more_time_than_its_handshake() {
        let mut times = Times::new(Now::both(1_000), 5_000);
        times.begin_lingering(false);
        assert_eq!(times.phase_due_ms(), 6_000);
        times.begin_lingering(true);
        assert_eq!(times.phase_due_ms(), 1_000 + limits::CLOSE_MS_MAX);
        times.begin_closing();
        assert!(!at(&mut times, 2_000).is_closing_over(10));
        assert!(!at(&mut times, 2_009).is_closing_over(10));
        assert!(at(&mut times, 2_010).is_closing_over(10));
    }
}
