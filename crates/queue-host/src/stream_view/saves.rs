//! Saves of a view's state: when they are due, and the content of the last one.

use super::state::SavedView;
use super::{Stage, StreamView};
use leveret_queue::{Queue, State};
use leveret_types::Now;
use leveret_types::limits::VIEW_READY_MAX;

/// How long what is settled gathers before it is saved.
const SAVE_MS: u64 = 5;
/// With so many bytes to save it gathers for twice as long, with twice as many for three times.
const SAVE_BYTES: u64 = 4_096;
/// Offsets that a saved state reserves beyond what was read.
const RESERVED: u64 = VIEW_READY_MAX as u64;

/// The state that was saved last, and what has changed since.
#[derive(Default)]
pub(super) struct Saves {
    /// What the saved state reserves.
    pub(super) reserved: u64,
    /// When it was saved, on the monotonic clock.
    at_ms: u64,
    bytes: u64,
    /// Something has changed since the state was saved.
    pub(super) is_dirty: bool,
}

impl Saves {
    /// Where the view begins is known now: that is saved as soon as it can be.
    pub(super) fn begin(&mut self) {
        self.is_dirty = true;
        self.at_ms = 0;
    }

    /// What is below this the queue has been given: of what is reserved some is to be left.
    pub(super) fn given(&mut self, end: u64) {
        if end + RESERVED / 2 > self.reserved {
            self.is_dirty = true;
        }
    }

    fn due_ms(&self) -> u64 {
        self.at_ms + SAVE_MS * (1 + self.bytes / SAVE_BYTES)
    }

    fn saved(&mut self, now: Now, bytes: &[u8]) {
        self.bytes = bytes.len() as u64;
        self.at_ms = now.monotonic_ms;
        self.is_dirty = false;
    }
}

impl StreamView {
    /// When what has changed is to be saved, on the monotonic clock, if anything is.
    pub(super) fn save_due_ms(&self) -> Option<u64> {
        (self.saves.is_dirty && self.may_save()).then(|| self.saves.due_ms())
    }

    /// Whether its state is to be saved now.
    pub(crate) fn is_save_due(&self, now: Now) -> bool {
        self.save_due_ms().is_some_and(|at| at <= now.monotonic_ms)
    }

    /// Whether there is a state to be saved: not before it is known where the view begins.
    fn may_save(&self) -> bool {
        self.given().is_some() && self.stage != Stage::Broken
    }

    /// Whether something has changed that is not saved.
    pub(crate) const fn is_dirty(&self) -> bool {
        self.saves.is_dirty
    }

    fn saved(&self, queue: State) -> SavedView {
        SavedView {
            source: self.source,
            given: self.given.end,
            reserved: self.saves.reserved,
            read_ms: self.progress.read_ms,
            unsettled: self.given.unsettled.clone(),
            queue,
        }
    }

    /// What the group of a view that was on this node alone begins with; none where the view cannot
    /// be served, or has not begun.
    pub(crate) fn hand_over(&mut self, queue: &Queue) -> Option<SavedView> {
        let delivered = queue.delivered_through(0);
        self.saves.reserved = delivered.max(self.given.delivered_through);
        self.may_save().then(|| self.saved(queue.state()))
    }

    /// The state to be saved; none where a restart must begin as this start did. A `clean` one is
    /// the last one before the node ends.
    pub(crate) fn save(&mut self, now: Now, queue: &Queue, clean: bool) -> Option<Vec<u8>> {
        if !self.may_save() {
            return None;
        }
        let reserved = match clean {
            true => queue.delivered_through(0),
            false => self.given.end + RESERVED,
        };
        self.saves.reserved = reserved.max(self.given.delivered_through);
        let mut bytes = Vec::new();
        let saved = self.saved(match clean {
            true => queue.state(),
            false => queue.state().stale(),
        });
        saved.encode(&mut bytes);
        self.saves.saved(now, &bytes);
        Some(bytes)
    }
}
