//! Puts a message into queues, wherever they are. Apart because connections, dead-lettering, delays
//! and operators all do it.

use crate::env::Env;
use crate::quorum::Notify;
use crate::run::Run;
use crate::shard::{Bodies, Enqueued};
use leveret_client::Awaited;
use leveret_types::{Message, QueueId};
use smallvec::SmallVec;

/// Queues of one publish, where they are few.
pub(crate) type Targets = SmallVec<[QueueId; 4]>;

/// What became of a publish at its queues.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) rejected: bool,
    /// What must come true before the publish is confirmed.
    pub(crate) waits: SmallVec<[(Awaited, u64); 2]>,
    /// Queues of the cluster that should be given no more for now.
    pub(crate) full: SmallVec<[QueueId; 1]>,
}

/// Puts a message into queues. `notify` hears from those of the cluster, when they have committed
/// it.
pub(crate) fn enqueue<E: Env>(
    message: &Message,
    targets: &[QueueId],
    notify: &Notify,
    run: &mut Run<'_, E>,
) -> Outcome {
    let mut outcome = Outcome::default();
    let mut bodies = Bodies::default();
    let now = run.now;
    // Shard by shard: a shard that is let go between two of its queues may be given newer bodies by
    // others, and the logs take bodies in their order. Ascending: the log's thread goes the other
    // way round, so that it never has a message's second shard without the first.
    let mut by_shard = Targets::new();
    let targets = if targets.is_sorted_by_key(|queue| run.env.shard_of(*queue)) {
        targets
    } else {
        by_shard.extend_from_slice(targets);
        by_shard.sort_by_key(|queue| run.env.shard_of(*queue));
        &by_shard
    };
    for queue in targets {
        if queue.is_stream() {
            outcome.rejected |= !crate::stream_queues::publish_for_nobody(*queue, message, run);
            continue;
        }
        let id = run.env.shard_of(*queue);
        let shard = run.shard(id);
        match shard.publish(now, *queue, message, &mut bodies, notify) {
            Enqueued::Durable => {
                let chunk = shard.log_position().chunk;
                let awaited = Awaited::Shard(id);
                match outcome.waits.iter_mut().find(|(of, _)| *of == awaited) {
                    Some(wait) => wait.1 = chunk,
                    None => outcome.waits.push((awaited, chunk)),
                }
            }
            Enqueued::Kept { sequence, full } => {
                outcome.waits.push((Awaited::Queue(*queue), sequence));
                if full {
                    outcome.full.push(*queue);
                }
            }
            Enqueued::Volatile | Enqueued::Gone => {}
            Enqueued::Rejected => outcome.rejected = true,
        }
    }
    outcome
}
