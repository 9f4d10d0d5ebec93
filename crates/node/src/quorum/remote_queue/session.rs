//! What a remote queue has said to its leader in a session, and has to say.

use crate::quorum::link::Command;
use std::collections::VecDeque;

/// The session that was registered last.
#[derive(Debug)]
pub(super) struct Session {
    /// Its number; 0 before the first.
    pub(super) number: u64,
    /// A registration that is to be sent.
    pub(super) present: bool,
    /// Whether a leader may know subscriptions that are gone: it has not heard of that, or may not
    /// have.
    pub(super) owes: bool,
    /// Number of the next operation that this session has not sent.
    pub(super) sent: u64,
    /// Number of the next operation that no session has sent.
    pub(super) ever_sent: u64,
    /// When operations were said last, on the monotonic clock.
    pub(super) said_ms: u64,
    /// What else is to be said, each before the operation of that number.
    pub(super) control: VecDeque<(u64, Command)>,
}

impl Session {
    pub(super) const fn new() -> Self {
        Self {
            number: 0,
            present: false,
            owes: false,
            sent: 1,
            ever_sent: 1,
            said_ms: 0,
            control: VecDeque::new(),
        }
    }

    /// Another one begins, with a registration and the operations from `first` on.
    pub(super) fn begin(&mut self, number: u64, first: u64) {
        self.number = number;
        self.present = true;
        self.sent = first;
        self.control.clear();
    }

    /// It is over. If there `was` a leader, that may not have heard what was said to it last, and
    /// may not know that it is lost.
    pub(super) fn end(&mut self, was: bool) {
        self.owes |= was;
        self.present = false;
        self.control.clear();
    }

    /// The operations up to `until` are sent.
    pub(super) fn sent_until(&mut self, until: u64) {
        self.sent = until;
        self.ever_sent = self.ever_sent.max(until);
    }
}
