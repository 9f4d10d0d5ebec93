//! Work that shards hand over because it needs the catalogue, or another shard.

use crate::catalogue_changes;
use crate::counters::add;
use crate::dead_letter::Dead;
use crate::env::{Env, QueueEvent};
use crate::properties::without_blind_copies;
use crate::route_publish::route_own;
use crate::run::{Run, Targets, enqueue};
use leveret_cluster::Cluster;
use leveret_metadata::QueueRecord;
use leveret_queue_host::delayed;
use leveret_queue_host::shard::{DeadLetter, Deferred};
use leveret_queue_host::{
    effects::Then,
    notify::{Afterwards, Notify},
};
use leveret_routing::Scratch;
use leveret_types::limits::{
    BINDINGS_UNLINKED_AT_ONCE, DELAYED_LATE_MS_MAX, DETACHED_AT_ONCE, TURN_WORK_MAX,
};
use leveret_types::{ConsumerId, Message, Now, QueueId};
use std::sync::Arc;

/// What an item costs beside its routing and its queues, in units.
const ITEM_WORK: usize = 50;
/// What it costs where it may change the catalogue.
const CHANGE_WORK: usize = 500;
/// What it costs where it puts as much of a history into a queue as is done at once.
const RECALL_WORK: usize = 5_000;
/// What it costs where it unlinks as many bindings as is done at once.
const UNLINK_WORK: usize = 50 * BINDINGS_UNLINKED_AT_ONCE;

/// What an item costs beside what is counted where it is done, in units.
const fn work_of(item: &Deferred) -> usize {
    match item {
        Deferred::DeleteQueue { .. } | Deferred::DeleteExclusive(_) => CHANGE_WORK,
        Deferred::Recall { .. } => RECALL_WORK,
        Deferred::UnlinkBindings => UNLINK_WORK,
        Deferred::Detach(_) => 0,
        Deferred::DeadLetter(_)
        | Deferred::Publish { .. }
        | Deferred::Afterwards { .. }
        | Deferred::TimedOut { .. }
        | Deferred::Damage { .. } => ITEM_WORK,
    }
}

/// One turn: carries out what `next` gives, in that order, until it gives nothing more or
/// [`TURN_WORK_MAX`] is done, and lets others in between. Nothing may be borrowed. Answers what was
/// done, in units.
pub fn run<E: Env>(
    mut next: impl FnMut() -> Option<Deferred>,
    scratch: &mut Scratch,
    now: Now,
    env: &E,
) -> usize {
    Run::with(env, now, |run| {
        while run.work() < TURN_WORK_MAX
            && let Some(item) = next()
        {
            run.spend(work_of(&item));
            carry_out(item, scratch, run);
            run.spend(scratch.take_work());
            run.let_others_in();
        }
        run.work()
    })
}

fn carry_out<E: Env>(item: Deferred, scratch: &mut Scratch, run: &mut Run<'_, E>) {
    match item {
        Deferred::DeadLetter(dead) => dead_letter(&dead, scratch, run),
        Deferred::Publish {
            vhost,
            message,
            delayed,
        } => {
            publish(&vhost, &message, delayed, scratch, run);
        }
        Deferred::Afterwards { then, refused } => afterwards(&then, refused, run),
        Deferred::DeleteQueue { queue, expired } => {
            run.release();
            delete_queue(queue, expired, run.now, run.env);
        }
        Deferred::DeleteExclusive(queue) => {
            run.release();
            delete_known(queue, run.now, run.env);
        }
        Deferred::Recall {
            queue,
            vhost,
            exchange,
            numbers,
        } => {
            // Each piece for itself: others change the catalogue between two of them.
            run.release();
            catalogue_changes::recall(&vhost, &exchange, queue, numbers, run.now, run.env);
        }
        Deferred::Detach(leaving) => detach(leaving, run),
        Deferred::UnlinkBindings => {
            run.release();
            if leveret_cluster::unlink_bindings(run.env) {
                run.env.defer(Deferred::UnlinkBindings);
            }
        }
        Deferred::TimedOut {
            connection,
            consumer,
        } => {
            run.release();
            time_out(connection, consumer, run.env);
        }
        Deferred::Damage { queue, what } => {
            let record = run.catalogue().queue(queue);
            let name = record.map_or_else(|| format!("queue {queue}"), QueueRecord::resource);
            tracing::error!("{name}: {what}");
        }
    }
}

fn dead_letter<E: Env>(dead: &DeadLetter, scratch: &mut Scratch, run: &mut Run<'_, E>) {
    let (now, env) = (run.now, run.env);
    env.counters().dead_lettered(dead.reason);
    let mut message = None;
    let mut targets = Vec::new();
    let mut goes_nowhere = false;
    let catalogue = run.catalogue();
    if let Some(queue) = catalogue.queue(dead.queue)
        && let Some(letter) = catalogue.dead_letter_of(queue)
    {
        let dead_lettered = Dead::new(
            &dead.message,
            queue.name(),
            dead.reason,
            letter.exchange,
            letter.routing_key,
            now,
        );
        let has_view = route_own(
            catalogue,
            queue.vhost(),
            &dead_lettered.message,
            scratch,
            &mut targets,
        );
        goes_nowhere = letter.at_least_once && targets.is_empty();
        if has_view && targets.is_empty() && !goes_nowhere {
            add(&env.counters().messages_unroutable_dropped, 1);
        }
        targets.retain(|target| {
            catalogue
                .queue(*target)
                .is_some_and(|queue| !dead_lettered.is_cycle(queue.name()))
        });
        message = Some(dead_lettered.message);
    }
    let Some((priority_log, index)) = dead.position else {
        if let Some(message) = message {
            enqueue(&message, &targets, &Notify::Nobody, run);
        }
        return;
    };
    if goes_nowhere {
        // Somebody may yet declare the exchange, or bind a queue.
        let shard = run.shard(run.env.shard_of(dead.queue));
        return shard.not_dead_lettered(now, dead.queue, priority_log, index);
    }
    // In the log behind the message's new places: a crash between the two leaves it in both, never
    // in neither.
    let then = Then::DeadLettered {
        queue: dead.queue,
        priority_log,
        index,
    };
    put_then(message.as_ref(), &targets, then, run);
}

/// Puts a message into queues, and does what follows once it is there: in all that are of the
/// cluster, that is when they have committed it.
fn put_then<E: Env>(
    message: Option<&Message>,
    targets: &[QueueId],
    then: Then,
    run: &mut Run<'_, E>,
) {
    let following = Afterwards::new(then);
    if let Some(message) = message {
        let notify = Notify::Then(Arc::clone(&following));
        if enqueue(message, targets, &notify, run).rejected {
            following.refuse();
        }
    }
    if let Some(Deferred::Afterwards { then, refused }) = following.filled() {
        afterwards(&then, refused, run);
    }
}

/// A message is in all the queues that it was put into: it leaves where it was. One that must
/// arrive in all of them, and was `refused` by one, goes again later.
fn afterwards<E: Env>(then: &Then, refused: bool, run: &mut Run<'_, E>) {
    let now = run.now;
    match *then {
        Then::Nothing => {}
        Then::DeadLettered {
            queue,
            priority_log,
            index,
        } => {
            let must_arrive = refused && {
                let catalogue = run.catalogue();
                let letter = catalogue
                    .queue(queue)
                    .and_then(|queue| catalogue.dead_letter_of(queue));
                letter.is_some_and(|letter| letter.at_least_once)
            };
            let shard = run.shard(run.env.shard_of(queue));
            match must_arrive {
                true => shard.not_dead_lettered(now, queue, priority_log, index),
                false => shard.dead_lettered(now, queue, priority_log, index..index + 1),
            }
        }
        Then::DelayedReleased {
            delayed,
            bytes,
            ref targets,
        } => {
            let is_kept = refused && must_wait(delayed, targets, run);
            let shard = run.shard(delayed::SHARD);
            match is_kept {
                true => shard.delay_again(now, delayed, bytes),
                false => shard.delayed_released(delayed.1, bytes),
            }
        }
    }
}

fn publish<E: Env>(
    vhost: &str,
    message: &Message,
    delayed: Option<(u64, u64)>,
    scratch: &mut Scratch,
    run: &mut Run<'_, E>,
) {
    let mut targets = Vec::new();
    let catalogue = run.catalogue();
    route_own(catalogue, vhost, message, scratch, &mut targets);
    let Some(delayed) = delayed else {
        enqueue(message, &targets, &Notify::Nobody, run);
        return;
    };
    if must_wait(delayed, &targets, run) {
        let now = run.now;
        let shard = run.shard(delayed::SHARD);
        return shard.delay_again(now, delayed, message.size());
    }
    let released = delayed::released(message);
    let visible = without_blind_copies(&released).unwrap_or(released);
    let bytes = message.size();
    put_then(
        Some(&visible),
        &targets,
        Then::DelayedReleased {
            delayed,
            bytes,
            targets: targets.as_slice().into(),
        },
        run,
    );
}

/// Whether a delayed message that is due waits for queues whose only node is down: for all of its
/// queues as long as that lasts, for some of them for a time.
fn must_wait<E: Env>(delayed: (u64, u64), targets: &[QueueId], run: &mut Run<'_, E>) -> bool {
    let catalogue = run.catalogue();
    let is_kept = |queue: &&QueueId| {
        let record = catalogue.queue(**queue);
        record.is_some_and(QueueRecord::survives_restart)
    };
    let kept: Targets = targets.iter().filter(is_kept).copied().collect();
    let mut is_down = |queue: &&QueueId| {
        let shard = run.shard(run.env.shard_of(**queue));
        shard.is_unavailable(**queue)
    };
    let down = kept.iter().filter(&mut is_down).count();
    let late_ms = run.now.wall_ms.saturating_sub(delayed.0);
    down > 0 && (down == targets.len() || late_ms < DELAYED_LATE_MS_MAX)
}

/// Detaches some of those who held messages for a connection that is gone.
fn detach<E: Env>(mut leaving: Vec<(ConsumerId, QueueId)>, run: &mut Run<'_, E>) {
    for _ in 0..DETACHED_AT_ONCE {
        let Some((subscription, queue)) = leaving.pop() else {
            return;
        };
        run.detach(subscription, queue);
    }
    run.env.defer(Deferred::Detach(leaving));
}

/// Deletes a queue that nobody uses. That a lease is over is told again: where nobody could carry
/// the deletion out, it does not wait, for the queue may be in use by then.
fn delete_queue<E: Env>(queue: QueueId, expired: bool, now: Now, env: &E) {
    let is_up = |node| node == env.node_id() || env.peers().is_up(node);
    let is_led = |cluster: &Cluster| cluster.leader().is_some_and(is_up);
    if expired && !env.cluster().is_none_or(is_led) {
        return;
    }
    let shard = env.shard_of(queue);
    if !env.with_shard(now, shard, |shard| shard.is_unused(now, queue)) {
        return;
    }
    delete_known(queue, now, env);
}

/// Deletes a queue, if it is there.
fn delete_known<E: Env>(queue: QueueId, now: Now, env: &E) {
    let command = {
        let catalogue = env.catalogue();
        catalogue.queue(queue).map(QueueRecord::deletion)
    };
    if let Some(command) = command {
        env.submit(now, &command);
    }
}

fn time_out<E: Env>(
    connection: leveret_types::ConnectionId,
    consumer: leveret_types::ConsumerId,
    env: &E,
) {
    env.post(connection, QueueEvent::TimedOut(consumer).into());
}
