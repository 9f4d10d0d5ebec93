//! How much a message's way costs, in units of some 20 nanoseconds: a binding that is looked at is
//! one.

use leveret_types::limits::ROUTE_WORK_MAX;

/// An exchange that a message passes.
pub(crate) const EXCHANGE: usize = 4;
/// A routing key that is looked up in an exchange.
pub(crate) const KEY: usize = 4;
/// A node of the topic table: the word behind it is looked up.
pub(crate) const NODE: usize = 3;
/// A queue or exchange that was not reached before.
pub(crate) const REACHED: usize = 2;
/// A header that is looked up, or that a binding wants.
pub(crate) const HEADER: usize = 4;
/// Bytes that are hashed or compared for a unit.
const BYTES: usize = 64;

/// What so many bytes cost to hash or compare.
pub(crate) const fn of_bytes(bytes: usize) -> usize {
    bytes / BYTES
}

/// What routes have cost.
#[derive(Debug, Default)]
pub(crate) struct Work {
    spent: usize,
    /// What will have been spent when the message at hand has had all that one may cost.
    most: usize,
}

impl Work {
    /// Another message begins.
    pub(crate) const fn begin(&mut self) {
        self.most = self.spent + ROUTE_WORK_MAX;
    }

    /// Takes note of what is about to be done; false if the message may not cost so much.
    pub(crate) const fn spend(&mut self, units: usize) -> bool {
        self.spent = self.spent.saturating_add(units);
        if self.spent > self.most {
            // It is not done: it counts as little more than what was.
            self.spent = self.most + 1;
        }
        !self.is_too_much()
    }

    /// Whether the message at hand costs more than one may.
    pub(crate) const fn is_too_much(&self) -> bool {
        self.spent > self.most
    }

    /// What was spent since this was asked last.
    pub(crate) const fn take(&mut self) -> usize {
        let spent = self.spent;
        (self.spent, self.most) = (0, 0);
        spent
    }
}
