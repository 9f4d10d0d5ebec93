//! A leader that goes on purpose, as an operator or the balance has it: what is under way is
//! committed and confirmed first. What is published meanwhile is held, and not stored: whoever has
//! no confirm when another one leads publishes again, and nothing is there twice.

use super::replicated::Role;
use super::{Events, Stream};
use crate::batch::Batch;
use crate::host::{PublisherId, SessionId};
use crate::replica::ReplicaEvent;
use crate::replica::handover::{DelayedPublish, Handover};
use leveret_types::limits::STREAM_HANDOVER_BYTES_MAX;
use leveret_types::{NodeId, Now};

impl Stream {
    /// Another node is to lead: [`ReplicaEvent::MayMove`] says when it may. If nobody does, this
    /// one goes on after a while.
    pub fn hand_over(&mut self, now: Now, to: NodeId) {
        let Some(replica) = self.replica.as_deref_mut() else {
            return;
        };
        if replica.handover.is_some() {
            return;
        }
        if !matches!(replica.role, Role::Leading(_)) {
            return self.report(ReplicaEvent::MayMove { to });
        }
        replica.handover = Some(Box::new(Handover {
            to,
            since_ms: now.monotonic_ms,
            is_ready: false,
            held: Vec::new(),
            held_bytes: 0,
        }));
        self.tell_if_settled();
    }

    fn handover(&mut self) -> Option<&mut Handover> {
        self.replica.as_deref_mut()?.handover.as_deref_mut()
    }

    /// Whether a publish is held.
    pub(super) fn holds_publishes(&self) -> bool {
        let replica = self.replica.as_deref();
        replica.is_some_and(|replica| replica.handover.is_some())
    }

    pub(super) fn hold(
        &mut self,
        now: Now,
        session: SessionId,
        publisher: PublisherId,
        batch: Batch,
        out: &mut Events,
    ) {
        let Some(handover) = self.handover() else {
            return;
        };
        handover.held_bytes += batch.bytes();
        handover.held.push(DelayedPublish {
            session,
            publisher,
            batch,
        });
        if handover.held_bytes > STREAM_HANDOVER_BYTES_MAX {
            self.tell_ready();
            self.take_delayed(now, out);
        }
    }

    /// Goes on where what is under way, or who is to lead, keeps it waiting for too long.
    pub fn bound_handover(&mut self, now: Now, out: &mut Events) {
        let Some(handover) = self.handover() else {
            return;
        };
        if now.monotonic_ms < handover.due_ms() {
            return;
        }
        match handover.is_ready {
            false => self.tell_ready(),
            true => self.take_delayed(now, out),
        }
    }

    /// When [`Self::bound_handover`] has something to do.
    pub(super) fn handover_due_ms(&self) -> Option<u64> {
        let handover = self.replica.as_deref()?.handover.as_deref()?;
        Some(handover.due_ms())
    }

    /// Says that another one may lead if nothing is under way any more.
    pub(super) fn tell_if_settled(&mut self) {
        let is_settled = self.filling.is_empty()
            && self.publishers.are_owed_nothing()
            && self.turns.committed.next_offset >= self.next_offset;
        if is_settled {
            self.tell_ready();
        }
    }

    fn tell_ready(&mut self) {
        if let Some(handover) = self.handover()
            && !std::mem::replace(&mut handover.is_ready, true)
        {
            let to = handover.to;
            self.report(ReplicaEvent::MayMove { to });
        }
    }

    /// Leads as before.
    fn take_delayed(&mut self, now: Now, out: &mut Events) {
        let replica = self.replica.as_deref_mut();
        let handover = replica.and_then(|replica| replica.handover.take());
        for held in handover.into_iter().flat_map(|handover| handover.held) {
            let DelayedPublish {
                session,
                publisher,
                batch,
            } = held;
            // One that is gone meanwhile waits for no confirm.
            if self.publishers.reference((session, publisher)).is_some() {
                self.publish(now, session, publisher, &batch, out);
            }
        }
    }
}
