//! Consequences for a node of a change of its cluster's catalogue.

use super::peers::PeerAddress;
use super::state::Event;
use crate::catalogue::{CHANGES_AT_ONCE, follow};
use crate::env::Env;
use leveret_metadata::{Catalogue, Change, QueueRecord};
use leveret_types::limits::BINDINGS_UNLINKED_AT_ONCE;
use leveret_types::{Now, QueueId};
use std::borrow::Borrow;
use std::sync::atomic::Ordering;

/// Takes note of who else is in the cluster.
pub fn follow_nodes<E: Env>(catalogue: &Catalogue, env: &E) {
    if !catalogue.is_clustered() {
        // It has not come yet; until then those count that let this node in.
        return;
    }
    let others = catalogue.nodes().filter(|node| node.id() != env.node_id());
    let peers = others.map(|node| PeerAddress {
        node: node.id(),
        uuid: node.uuid,
        address: node.address.clone(),
    });
    env.peers().replace(peers.collect());
    if let Some(cluster) = env.cluster() {
        let own = catalogue.node(env.node_id());
        let draining = own.is_some_and(|own| own.draining);
        if draining && !cluster.draining.swap(true, Ordering::Relaxed) {
            cluster.tell(Event::Drain);
        } else if !draining {
            cluster.draining.store(false, Ordering::Relaxed);
        }
    }
}

/// Puts a catalogue that has come as a whole in the place of the one that there was. Nothing may be
/// borrowed. The node is a moment behind it: shards get new queues before it is in place, when
/// nobody can know of them yet, and hear of those that are gone or changed after that, a part at a
/// time. Others get at the catalogue before, between and after; but for the first time, when the
/// queues are placed meanwhile.
pub fn replace_catalogue<E: Env>(
    mut next: Catalogue,
    has_placed_queues: impl Fn() -> bool,
    now: Now,
    env: &E,
) {
    let is_placed = has_placed_queues();
    if is_placed {
        // Only the thread that does this changes the catalogue: it is the same below.
        let new = new_queues(&env.catalogue(), &next);
        queues_begin(new, &next, now, env);
    }
    let before = env.change_catalogue(|catalogue| {
        next.follows(catalogue);
        let before = std::mem::replace(catalogue, next);
        follow_nodes(catalogue, env);
        if has_placed_queues() && !is_placed {
            queues_begin(new_queues(&before, catalogue), catalogue, now, env);
        }
        before
    });
    if !has_placed_queues() {
        return;
    }
    let changes: Vec<Change> = {
        let catalogue = env.catalogue();
        let change = |record: &QueueRecord| match catalogue.queue(record.id()) {
            None => Some(Change::QueueDeleted(Box::new(record.clone()))),
            Some(kept) if kept != record => Some(Change::QueueChanged(record.id())),
            Some(_) => None,
        };
        before.queues(None).filter_map(change).collect()
    };
    follow_in_parts(&changes, now, env);
}

/// The queues of one catalogue that another one does not have.
fn new_queues(before: &Catalogue, next: &Catalogue) -> Vec<QueueId> {
    let ids = next.queues(None).map(QueueRecord::id);
    ids.filter(|id| before.queue(*id).is_none()).collect()
}

fn queues_begin<E: Env>(new: Vec<QueueId>, catalogue: &Catalogue, now: Now, env: &E) {
    for id in new {
        follow(catalogue, &Change::QueueCreated(id), now, env);
    }
}

/// Takes some of the bindings out of the routing tables that what was deleted has left there.
/// Answers whether there are more. Nothing may be borrowed.
pub fn unlink_bindings<E: Env>(env: &E) -> bool {
    env.change_catalogue(|catalogue| catalogue.unlink(BINDINGS_UNLINKED_AT_ONCE))
}

/// Lets the node follow changes that may be followed late, [`CHANGES_AT_ONCE`] in a borrow of the
/// catalogue. Nothing may be borrowed.
pub(super) fn follow_in_parts<E: Env, C: Borrow<Change>>(changes: &[C], now: Now, env: &E) {
    for part in changes.chunks(CHANGES_AT_ONCE) {
        env.change_catalogue(|catalogue| {
            for change in part {
                follow(catalogue, change.borrow(), now, env);
            }
        });
    }
}
