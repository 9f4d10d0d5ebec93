//! Deadlines of a connection: the handshake, heartbeats in both directions, the wait for the
//! client's last word. Apart because it is all that a connection does without being told anything.

use super::{Connection, End, Phase};
use leveret_amqp::encode;
use leveret_client::contract::Request;
use leveret_types::Now;

impl Connection {
    /// It is `now` for what is told without a time of its own: deliveries, answers to publishes,
    /// and when these are flushed.
    pub const fn set_now(&mut self, now: Now) {
        self.times.now = now;
    }

    /// The client's bytes are left unread on purpose, or because there are too many: it is not
    /// silent, and not to be dropped for it. It lived at `at`.
    pub fn unread(&mut self, at: Now) {
        self.times.lived(at);
    }

    /// Says something that needs no answer, whether or not heartbeats are agreed: a client that has
    /// gone is found out by that. Before and after a connection is in use its phases have an end of
    /// their own.
    pub fn beat(&mut self) {
        if self.phase == Phase::Running {
            self.out.push_before_barrier(&encode::HEARTBEAT);
            self.times.speak();
        }
    }

    /// Whether the client is expected to be heard.
    const fn listening(&self) -> bool {
        self.pending_request.is_none() && !self.is_blocked()
    }

    /// When [`Self::tick`] is to be called, in monotonic milliseconds.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        match self.phase {
            Phase::Closed => None,
            Phase::Running => {
                let interval = self.terms.heartbeat_ms();
                let heartbeats = interval.map(|interval| {
                    let is_listening = self.listening();
                    self.times.heartbeats_due_ms(interval, is_listening)
                });
                [heartbeats, self.hold.room_ms(), self.times.unfinished_ms()]
                    .into_iter()
                    .flatten()
                    .min()
            }
            _ => Some(self.times.phase_due_ms()),
        }
    }

    /// Its time has come: heartbeats, and phases that have lasted too long.
    pub fn tick(&mut self, now: Now, requests: &mut Vec<Request>) {
        self.times.now = now;
        match self.phase {
            Phase::Closed => {}
            Phase::Running => {
                self.give_up_unfinished(requests);
                self.retry_for_room(requests);
                self.tick_heartbeats();
            }
            Phase::Closing { .. } | Phase::Lingering => {
                self.close_channels(requests);
                let closing_ms = self.closing_ms();
                if self.times.is_closing_over(closing_ms) {
                    self.give_up();
                }
            }
            _ if self.times.is_handshake_over() => {
                self.end_with(End::HandshakeTimeout);
            }
            _ => {}
        }
        if self.phase == Phase::Closed {
            self.close_channels(requests);
        }
    }

    /// Reads on if a publish that waits for room finds it now.
    fn retry_for_room(&mut self, requests: &mut Vec<Request>) {
        if self.hold.take_room_check(self.times.now.monotonic_ms) {
            self.read(requests);
        }
    }

    fn tick_heartbeats(&mut self) {
        let Some(interval) = self.terms.heartbeat_ms() else {
            return;
        };
        if self.listening() {
            if self.times.is_silent(interval) {
                // Neither is it waited for until it takes what it was sent.
                self.give_up();
                self.end = Some(End::MissedHeartbeats);
                return;
            }
        } else {
            self.times.stop_counting_silence();
        }
        if self.times.is_time_to_speak() {
            // What still waits to be written will be heartbeat enough, unless it waits for more
            // than the socket.
            if self.out.has_barrier() && self.out.writable_len() == 0 {
                self.out.push_before_barrier(&encode::HEARTBEAT);
            } else if !self.times.has_spoken() && self.out.is_empty() {
                self.shrink();
                self.out.tail().extend_from_slice(&encode::HEARTBEAT);
            }
            self.times.speak_again(interval);
        }
    }
}
