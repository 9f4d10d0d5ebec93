//! Members for queues that do not have those that they should have: because they were declared
//! while nodes were still to come, because a node was lost for good, or because a policy says
//! otherwise now.
//!
//! The node that leads the catalogue's group does this: it asks the catalogue which queues lack
//! members, and changes them some at a time. The groups do the rest themselves, each with a learner
//! first.

use leveret_metadata::{Catalogue, Change, Command, MembershipConfig, QueueKind};
use leveret_types::limits::{GROUP_TICK_MS, QUEUES_RECONCILED_AT_ONCE};
use leveret_types::{NodeId, Now, QueueId};
use std::collections::VecDeque;

/// Never.
const NEVER: u64 = u64::MAX;

/// When queues are looked at, and which of them lack something.
#[derive(Debug)]
pub(super) struct Reconciler {
    leads: bool,
    /// When quorum queues are looked at next.
    quorum_due_ms: u64,
    /// When classic queues that a policy may mirror are looked at next.
    mirrors_due_ms: u64,
    queued: VecDeque<QueueId>,
    next_step_ms: u64,
    /// Whether a node has come up since the last call.
    came: bool,
}

impl Default for Reconciler {
    fn default() -> Self {
        Self {
            leads: false,
            quorum_due_ms: NEVER,
            mirrors_due_ms: NEVER,
            queued: VecDeque::new(),
            next_step_ms: 0,
            came: false,
        }
    }
}

impl Reconciler {
    /// When there is something to do next, in monotonic milliseconds.
    pub(super) fn due_ms(&self) -> u64 {
        if !self.leads {
            return NEVER;
        }
        if !self.queued.is_empty() {
            return self.next_step_ms;
        }
        if self.quorum_due_ms < self.mirrors_due_ms {
            self.quorum_due_ms
        } else {
            self.mirrors_due_ms
        }
    }

    /// Takes note of whether this node leads the catalogue's group.
    pub(super) fn leads(&mut self, leads: bool, now: Now, config: &MembershipConfig) {
        if std::mem::take(&mut self.came) {
            self.trigger(now, config);
        }
        if self.leads == leads {
            return;
        }
        *self = Self {
            leads,
            ..Self::default()
        };
        self.trigger(now, config);
    }

    /// Something has happened that members may depend on.
    pub(super) fn trigger(&mut self, now: Now, config: &MembershipConfig) {
        if !self.leads {
            return;
        }
        let now = now.monotonic_ms;
        // What a policy says of mirrors holds at once, as it did in RabbitMQ.
        self.mirrors_due_ms = self.mirrors_due_ms.min(now + GROUP_TICK_MS);
        if config.reconciles {
            let due = now.saturating_add(config.trigger_interval_ms);
            self.quorum_due_ms = self.quorum_due_ms.min(due);
        }
    }

    /// A node is up that was not: it may become a member.
    pub(super) const fn came(&mut self) {
        self.came = true;
    }

    /// The catalogue has changed.
    pub(super) fn changed(&mut self, change: &Change, now: Now, config: &MembershipConfig) {
        if matches!(
            change,
            Change::NodesChanged | Change::QueueChanged(_) | Change::QueueCreated(_)
        ) {
            self.trigger(now, config);
        }
    }

    /// Looks at what is due; what is to be proposed.
    pub(super) fn run(
        &mut self,
        now: Now,
        catalogue: &Catalogue,
        is_up: impl Fn(NodeId) -> bool + Copy,
    ) -> Vec<Command> {
        if self.due_ms() > now.monotonic_ms {
            return Vec::new();
        }
        self.find_due(now, catalogue, is_up);
        if self.next_step_ms > now.monotonic_ms {
            return Vec::new();
        }
        self.next_step_ms = now.monotonic_ms + GROUP_TICK_MS;
        let count = self.queued.len().min(QUEUES_RECONCILED_AT_ONCE);
        let next = self.queued.drain(..count);
        let due = next.filter_map(|queue| {
            let members = catalogue.members_due(catalogue.queue(queue)?, is_up)?;
            tracing::info!(%queue, ?members, "the members of a queue change");
            Some(Command::QueueMembers {
                id: queue.0,
                members: members.iter().map(|member| member.0).collect(),
                size: None,
            })
        });
        due.collect()
    }

    /// Looks for queues that lack members, if it is time.
    fn find_due(&mut self, now: Now, catalogue: &Catalogue, is_up: impl Fn(NodeId) -> bool + Copy) {
        let quorum = self.quorum_due_ms <= now.monotonic_ms;
        let mirrors = self.mirrors_due_ms <= now.monotonic_ms;
        if !quorum && !mirrors {
            return;
        }
        if quorum {
            let interval = catalogue.config().membership.interval_ms;
            self.quorum_due_ms = now.monotonic_ms.saturating_add(interval);
        }
        if mirrors {
            self.mirrors_due_ms = NEVER;
        }
        let found = catalogue.queues(None).filter(|record| {
            let may_be_due = match record.kind() {
                QueueKind::Quorum => quorum,
                QueueKind::Classic => mirrors,
                QueueKind::Stream => false,
            };
            may_be_due && catalogue.members_due(record, is_up).is_some()
        });
        self.queued
            .extend(found.map(leveret_metadata::QueueRecord::id));
        let mut seen = std::collections::BTreeSet::new();
        self.queued.retain(|id| seen.insert(*id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(reconciles: bool) -> MembershipConfig {
        MembershipConfig {
            reconciles,
            ..MembershipConfig::default()
        }
    }

    #[test]
    fn who_does_not_lead_the_catalogue_changes_nobodys_members() {
        let mut reconciler = Reconciler::default();
        reconciler.trigger(Now::both(5), &config(true));
        assert_eq!(reconciler.due_ms(), NEVER);
        reconciler.leads(true, Now::both(5), &config(true));
        assert!(
            reconciler.due_ms() < NEVER,
            "it looks when it begins to lead"
        );
        reconciler.leads(false, Now::both(6), &config(true));
        assert_eq!(reconciler.due_ms(), NEVER);
    }

    #[test]
    fn quorum_queues_are_left_alone_where_the_configuration_says_so_and_mirrored_ones_are_not() {
        for (reconciles, expected) in [(true, 15), (false, NEVER)] {
            let config = MembershipConfig {
                trigger_interval_ms: 10,
                ..config(reconciles)
            };
            let mut reconciler = Reconciler::default();
            reconciler.leads(true, Now::both(5), &config);
            assert_eq!(reconciler.quorum_due_ms, expected);
            assert_eq!(reconciler.mirrors_due_ms, 5 + GROUP_TICK_MS);
        }
    }
}
