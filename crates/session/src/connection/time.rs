//! Deadlines of a connection: the handshake, heartbeats in both directions, the wait for the
//! client's last word. Apart because it is all that a connection does without being told anything.

use super::{Connection, End, Phase};
use leveret_amqp::encode;
use leveret_client::contract::Request;
use leveret_types::Now;

impl Connection {
    /// The client's bytes are left unread on purpose, or because there are too many: it is not
    /// silent, and not to be dropped for it. It lived at `at`.
    pub fn unread(&mut self, at: Now) {
        self.heard_ms = self.heard_ms.map(|heard| heard.max(at.monotonic_ms));
    }

    /// Whether the client is expected to be heard.
    const fn listening(&self) -> bool {
        self.asked.is_none() && !self.held()
    }

    /// When [`Self::tick`] is to be called, in monotonic milliseconds.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        match self.phase {
            Phase::Closed => None,
            Phase::Running => {
                let room = [self.room_ms, self.unfinished_ms]
                    .into_iter()
                    .flatten()
                    .min();
                let Some(interval) = self.heartbeat_ms() else {
                    return room;
                };
                let heard = self.heard_ms.unwrap_or(self.now.monotonic_ms);
                let silence = self.listening().then_some(heard + 2 * interval);
                let count = self.heard_ms.is_none() && self.listening();
                let count = count.then_some(self.now.monotonic_ms);
                [count, silence, Some(self.speak_ms), room]
                    .into_iter()
                    .flatten()
                    .min()
            }
            _ => Some(self.until_ms.unwrap_or(self.now.monotonic_ms)),
        }
    }

    fn heartbeat_ms(&self) -> Option<u64> {
        let interval = u64::from(self.heartbeat_seconds) * 1000;
        (interval > 0).then_some(interval)
    }

    /// Its time has come: heartbeats, and phases that have lasted too long.
    pub fn tick(&mut self, now: Now, requests: &mut Vec<Request>) {
        self.now = now;
        match self.phase {
            Phase::Closed => {}
            Phase::Running => {
                self.give_up_unfinished(requests);
                self.look_for_room(requests);
                self.tick_heartbeats(now.monotonic_ms);
            }
            Phase::Closing { .. } | Phase::Lingering => {
                self.close_channels(requests);
                let until = now.monotonic_ms + self.closing_ms();
                let until = *self.until_ms.get_or_insert(until);
                if until <= now.monotonic_ms {
                    self.give_up();
                }
            }
            _ if self.until_ms.is_some_and(|until| until <= now.monotonic_ms) => {
                self.end_with(End::HandshakeTimeout);
            }
            _ => {}
        }
        if self.phase == Phase::Closed {
            self.close_channels(requests);
        }
    }

    /// Reads on if a publish that waits for room finds it now.
    fn look_for_room(&mut self, requests: &mut Vec<Request>) {
        if self.room_ms.is_some_and(|at| at <= self.now.monotonic_ms) {
            self.room_ms = None;
            self.read(requests);
        }
    }

    fn tick_heartbeats(&mut self, now_ms: u64) {
        let Some(interval) = self.heartbeat_ms() else {
            return;
        };
        if self.listening() {
            let heard = *self.heard_ms.get_or_insert(now_ms);
            if heard + 2 * interval <= now_ms {
                // Neither is it waited for until it takes what it was sent.
                self.give_up();
                self.end = Some(End::MissedHeartbeats);
                return;
            }
        } else {
            self.heard_ms = None;
        }
        if self.speak_ms <= now_ms {
            // What still waits to be written will be heartbeat enough, unless it waits for more
            // than the socket.
            if self.out.has_barrier() && self.out.writable_len() == 0 {
                self.out.push_before_barrier(&encode::HEARTBEAT);
            } else if !self.spoke && self.out.is_empty() {
                self.shrink();
                self.out.tail().extend_from_slice(&encode::HEARTBEAT);
            }
            self.spoke = false;
            self.speak_ms = now_ms + interval / 2;
        }
    }
}
