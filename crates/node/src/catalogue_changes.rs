//! Applies catalogue changes to this node's clients.

use crate::counters::add;
use crate::env::{ConnectionEvent, Env};
use leveret_metadata::{Catalogue, Change, Endpoint, Vhost};
use leveret_queue_host::notify::Notify;
use leveret_queue_host::shard::{Bodies, Deferred, Enqueued};
use leveret_types::{Now, ProtocolError, QueueId, ReplyCode};
use std::ops::Range;

/// Lets this node's clients follow a change of the catalogue, which its queues have followed: what
/// [`leveret_cluster::Env::clients_follow`] is to do.
pub fn clients_follow<E: Env>(catalogue: &Catalogue, change: &Change, now: Now, env: &E) {
    match change {
        Change::QueueCreated(_) => add(&env.counters().queues_created, 1),
        Change::QueueDeleted(queue) => {
            add(&env.counters().queues_deleted, 1);
            env.registry().flows().forget_queue(queue.id());
        }
        // Late, perhaps: that another one of its name has come was followed before.
        Change::ExchangeDeleted { vhost, exchange } if has_exchange(catalogue, vhost, exchange) => {
        }
        Change::ExchangeDeleted { vhost, exchange }
        | Change::ExchangeCreated { vhost, exchange } => {
            env.history().forget(vhost, exchange);
            env.registry().flows().forget_exchange(vhost, exchange);
        }
        Change::Bound {
            vhost,
            source,
            destination: Endpoint::Queue(queue),
        } => {
            let bound = catalogue
                .vhost(vhost)
                .and_then(|vhost| vhost.queue_id(queue));
            if let Some(queue) = bound {
                recall(vhost, source, queue, 0..u64::MAX, now, env);
            }
        }
        Change::VhostCreated(_) | Change::VhostChanged(_) => note_traces(catalogue, env),
        Change::VhostDeleted(name) => {
            note_traces(catalogue, env);
            // At once: another one of its name may come, with exchanges of the same names.
            env.history().forget_vhost(name);
            env.registry().for_each_of_vhost(name, |connection| {
                let error = forced(format!("vhost '{name}' is deleted"));
                env.post(connection, ConnectionEvent::Close(error));
            });
        }
        Change::UserDeleted(name) => {
            env.registry().for_each_of_user(name, |connection| {
                let error = forced(format!("user '{name}' is deleted"));
                env.post(connection, ConnectionEvent::Close(error));
            });
        }
        Change::QueueChanged(_)
        | Change::Bound { .. }
        | Change::Unbound { .. }
        | Change::UserChanged(_)
        | Change::NodesChanged => {}
    }
}

fn has_exchange(catalogue: &Catalogue, vhost: &str, exchange: &str) -> bool {
    let vhost = catalogue.vhost(vhost);
    vhost.is_some_and(|vhost| vhost.exchange(exchange).is_some())
}

/// Takes note of whether deliveries are to be traced.
fn note_traces<E: Env>(catalogue: &Catalogue, env: &E) {
    env.registry().set_traces(any_traced(catalogue));
}

/// Whether the firehose is on in any virtual host.
#[must_use]
pub fn any_traced(catalogue: &Catalogue) -> bool {
    catalogue.vhosts().any(Vhost::tracing)
}

fn forced(text: String) -> ProtocolError {
    ProtocolError::connection(ReplyCode::ConnectionForced, text)
}

/// Sends what an `x-recent-history` exchange remembers to a queue that was bound to it: the first
/// of it at once, so that whoever has bound it finds what usually is all, and the rest in pieces,
/// as the catalogue is borrowed when a binding is made.
pub(crate) fn recall<E: Env>(
    vhost: &str,
    exchange: &str,
    queue: QueueId,
    numbers: Range<u64>,
    now: Now,
    env: &E,
) {
    let is_first = numbers.start == 0;
    let piece = env.history().recall(vhost, exchange, numbers);
    let is_there = piece.messages.is_empty()
        || env.with_shard(now, env.shard_of(queue), |shard| {
            let mut put = piece.messages.iter().map(|message| {
                shard.publish(now, queue, message, &mut Bodies::default(), &Notify::Nobody)
            });
            put.all(|put| !matches!(put, Enqueued::Gone))
        });
    let goes_on = is_there && !piece.rest.is_empty();
    if is_first && !(goes_on && env.history().begin(vhost, exchange, queue)) {
        return;
    }
    match goes_on {
        true => env.defer(Deferred::Recall {
            queue,
            vhost: vhost.to_owned(),
            exchange: exchange.to_owned(),
            numbers: piece.rest,
        }),
        false => env.history().end(vhost, exchange, queue),
    }
}
