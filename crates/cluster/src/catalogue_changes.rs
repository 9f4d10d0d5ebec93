//! What follows for a node when the catalogue of its cluster changes.

use super::peers::PeerAddress;
use super::state::Event;
use crate::catalogue::follow;
use crate::env::Env;
use leveret_metadata::{Catalogue, Change};
use leveret_types::{Now, QueueId};
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

/// Puts a catalogue that has come as a whole in the place of the one that there was.
pub(super) fn replace<E: Env>(
    catalogue: &mut Catalogue,
    mut next: Catalogue,
    now: Now,
    placed: bool,
    env: &E,
) {
    next.follows(catalogue);
    let before = std::mem::replace(catalogue, next);
    follow_nodes(catalogue, env);
    if !placed {
        return;
    }
    for record in before.queues(None) {
        let change = match catalogue.queue(record.id()) {
            None => Change::QueueDeleted(Box::new(record.clone())),
            Some(kept) if kept != record => Change::QueueChanged(record.id()),
            Some(_) => continue,
        };
        follow(catalogue, &change, now, env);
    }
    let new: Vec<QueueId> = catalogue
        .queues(None)
        .map(leveret_metadata::QueueRecord::id)
        .filter(|id| before.queue(*id).is_none())
        .collect();
    for id in new {
        follow(catalogue, &Change::QueueCreated(id), now, env);
    }
}
