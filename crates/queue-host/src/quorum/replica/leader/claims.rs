//! Claimed deliveries of all nodes' consumers, kept until each node has sent its own.
//!
//! Two may claim one message, and neither know of the other: the leader before had lost sight of
//! the node of one of them, and given the message to the other. Who got it later has it, whoever
//! speaks first: what the other says of it means nothing, as for the leader before.

use super::Leader;
use super::served::Claim;
use crate::quorum::protocol::{Registration, UnsettledRange};
use leveret_types::{ConsumerId, NodeId, Now};
use std::cmp::Reverse;

impl Leader {
    /// Takes note of what a node's subscriptions claim. What became of messages by an operation up
    /// to `taken` is known better here.
    pub(super) fn note_claims(&mut self, registration: &Registration, taken: u64) {
        let is_unsettled =
            |unsettled: &&UnsettledRange| unsettled.settled_by == 0 || unsettled.settled_by > taken;
        for subscription in &registration.subscriptions {
            let unsettled = subscription.unsettled.iter().filter(is_unsettled).cloned();
            let subscription = subscription.id;
            self.served.claims.extend(unsettled.map(|unsettled| Claim {
                subscription,
                unsettled,
            }));
        }
    }

    /// A node has said what its consumers hold, or is not waited for any more.
    pub(super) fn stop_awaiting(&mut self, now: Now, node: NodeId) {
        self.served.awaited.retain(|awaited| *awaited != node);
        self.decide_claims(now);
    }

    /// Gives everybody what they claim, once all have spoken.
    pub(super) fn decide_claims(&mut self, now: Now) {
        if !self.is_acting() {
            return;
        }
        let mut claims = std::mem::take(&mut self.served.claims);
        // Of the subscriptions of one node, who has not settled it had it later, or who did so
        // last.
        let settled_by = |unsettled: &UnsettledRange| unsettled.settled_by.wrapping_sub(1);
        claims.sort_by_key(|Claim { unsettled, .. }| {
            Reverse((unsettled.acquired, settled_by(unsettled)))
        });
        for claim in claims {
            self.give(now, claim);
        }
    }

    /// Gives a subscription that goes what it claims, so that it returns with it.
    pub(super) fn decide_claims_of(&mut self, now: Now, subscription: ConsumerId) {
        let of_subscription = |claim: &mut Claim| claim.subscription == subscription;
        let own: Vec<Claim> = self.served.claims.extract_if(.., of_subscription).collect();
        for claim in own {
            self.give(now, claim);
        }
    }

    fn give(
        &mut self,
        now: Now,
        Claim {
            subscription,
            unsettled,
        }: Claim,
    ) {
        let acquired = u32::try_from(unsettled.acquired).unwrap_or(u32::MAX);
        self.queue.adopt(
            now,
            subscription,
            unsettled.priority_log,
            unsettled.range,
            acquired,
        );
    }
}
