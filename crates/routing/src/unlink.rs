//! How queues and exchanges leave a router that have very many bindings: at once for everybody who
//! looks or routes, but link by link for the tables.
//!
//! What is removed loses its name and is marked as gone, which costs a glance at each of its
//! bindings. To take a binding out of all the tables costs much more: where there are many, that
//! follows in parts, by [`Router::unlink`]. Until then routing and listings pass them over.
//!
//! Exchanges that choose one of their bindings do not wait: where their messages go depends on
//! which bindings there are.

use crate::router::{BindingEntry, Router, Unbound};
use crate::targets::Target;
use leveret_types::limits::BINDINGS_UNLINKED_AT_ONCE;

impl Router {
    /// Whether [`Self::unlink`] has something to do.
    #[must_use]
    pub fn has_to_unlink(&self) -> bool {
        !self.gone.is_empty()
    }

    /// Takes up to `most` bindings, and names that have none, out of all tables that belong to what
    /// is gone. Answers whether there are more. Nothing changes for anybody who looks or routes.
    pub fn unlink(&mut self, most: usize) -> bool {
        let mut left = most;
        while let Some(&target) = self.gone.front() {
            if !self.unlink_target(target, &mut left) {
                return true;
            }
            self.gone.pop_front();
        }
        false
    }

    /// Removes what has lost its name already, with all its bindings.
    pub(crate) fn remove_target(&mut self, target: Target) -> Unbound {
        let unbound = self.mark_gone(target);
        let mut left = BINDINGS_UNLINKED_AT_ONCE;
        // Behind what waits: very many exchanges may go because of that.
        if self.has_to_unlink() || !self.unlink_target(target, &mut left) {
            self.gone.push_back(target);
        }
        unbound
    }

    pub(crate) fn is_gone(&self, target: Target) -> bool {
        match target {
            Target::Queue(index) => self.queues.get(index).is_gone,
            Target::Exchange(index) => self.exchanges.get(index).is_gone,
        }
    }

    /// Whether both ends of a binding are there.
    pub(crate) fn is_there(&self, binding: &BindingEntry) -> bool {
        let source = Target::Exchange(binding.source);
        !self.has_to_unlink() || !(self.is_gone(source) || self.is_gone(binding.target))
    }

    fn mark_gone(&mut self, target: Target) -> Unbound {
        let mut unbound = Unbound::default();
        match target {
            Target::Queue(index) => self.queues.get_mut(index).is_gone = true,
            Target::Exchange(index) => {
                self.count_outgoing(index, &mut unbound);
                self.exchanges.get_mut(index).is_gone = true;
            }
        }
        // From the last: another one takes the place of one that is unlinked.
        for at in (0..self.incoming(target).len()).rev() {
            let binding = self.incoming(target)[at];
            self.lose_target(binding, &mut unbound);
        }
        self.binding_count -= unbound.bindings;
        unbound
    }

    /// Counts the bindings that lead away from an exchange that goes.
    fn count_outgoing(&self, exchange: u32, unbound: &mut Unbound) {
        for entry in self.exchanges.get(exchange).outgoing.as_slice() {
            if !self.is_gone(entry.target) {
                unbound.bindings += 1;
                unbound.argument_bytes += self.bindings.get(entry.binding).argument_bytes;
            }
        }
    }

    /// What a binding leads to is gone. One whose source is gone as well was counted with that.
    fn lose_target(&mut self, index: u32, unbound: &mut Unbound) {
        let binding = self.bindings.get(index);
        let (source, argument_bytes) = (binding.source, binding.argument_bytes);
        let exchange = self.exchanges.get_mut(source);
        exchange.outgoing_to_gone += 1;
        if exchange.is_gone {
            return;
        }
        unbound.bindings += 1;
        unbound.argument_bytes += argument_bytes;
        if exchange.kind.chooses() {
            self.unlink_binding(index);
        }
        self.note_if_idle(source, unbound);
    }

    /// Unlinks as many bindings of what is gone as are `left` to be, then that itself; false if
    /// something is left of it.
    fn unlink_target(&mut self, target: Target, left: &mut usize) -> bool {
        while let Some(rest) = left.checked_sub(1) {
            *left = rest;
            match self.any_binding(target) {
                Some(binding) => self.unlink_binding(binding),
                None => {
                    self.forget(target);
                    return true;
                }
            }
        }
        false
    }

    /// The binding to or from something that costs least to unlink next.
    fn any_binding(&self, target: Target) -> Option<u32> {
        let outgoing = match target {
            Target::Queue(_) => None,
            Target::Exchange(index) => self.exchanges.get(index).outgoing.as_slice().last(),
        };
        let incoming = || self.incoming(target).last().copied();
        outgoing.map(|entry| entry.binding).or_else(incoming)
    }

    fn forget(&mut self, target: Target) {
        match target {
            Target::Queue(index) => drop(self.queues.remove(index)),
            Target::Exchange(index) => drop(self.exchanges.remove(index)),
        }
    }
}
