//! What a batch of requests has borrowed of the node: the catalogue, then one shard at a time; and
//! how a message gets into its queues through them. Apart so that the order in which these are
//! taken and let go can be read in one place, and because connections, dead-lettering, delays and
//! operators all do it.

use crate::env::Env;
use leveret_client::Awaited;
use leveret_cluster::{BorrowedShard as _, blocked_by, members_of};
use leveret_queue_host::notify::Notify;
use leveret_queue_host::shard::{Bodies, Enqueued, Shard};
use leveret_types::limits::RUN_WORK_MAX;
use leveret_types::{ConsumerId, Message, Now, QueueId, ShardId};
use smallvec::SmallVec;

/// What a message costs at one queue, in the units of [`RUN_WORK_MAX`].
const ENQUEUE_WORK: usize = 50;
/// What it costs to tell a queue that who held its messages has gone.
const DETACH_WORK: usize = 100;
/// Bytes of a message that cost a unit, wherever it goes.
const BYTES_OF_WORK: u32 = 256;

/// What a batch of requests has borrowed of the environment: the catalogue for the batch, or for a
/// part of it that is not too much work, and one shard at a time.
pub(crate) struct Run<'e, E: Env> {
    pub(crate) env: &'e E,
    pub(crate) now: Now,
    catalogue: Option<E::CatalogueGuard<'e>>,
    shard: Option<(ShardId, E::ShardGuard<'e>)>,
    /// What was done since nothing was borrowed, and in all, in units.
    held_work: usize,
    work: usize,
}

impl<'e, E: Env> Run<'e, E> {
    /// Does something with what it borrows, and lets all of that go after.
    pub(crate) fn with<R>(env: &'e E, now: Now, work: impl FnOnce(&mut Self) -> R) -> R {
        let mut run = Self {
            env,
            now,
            catalogue: None,
            shard: None,
            held_work: 0,
            work: 0,
        };
        let result = work(&mut run);
        run.release();
        result
    }

    /// The catalogue, and nothing of a shard: shards come after it.
    pub(crate) fn catalogue(&mut self) -> &leveret_metadata::Catalogue {
        if self.catalogue.is_none() {
            self.release_shard();
            self.catalogue = Some(self.env.catalogue());
        }
        self.catalogue.as_ref().expect("borrowed above")
    }

    /// A shard; the one borrowed before is let go if it is another.
    pub(crate) fn shard(&mut self, id: ShardId) -> &mut Shard {
        if self.shard.as_ref().is_some_and(|(held, _)| *held != id) {
            self.release_shard();
        }
        let env = self.env;
        &mut self.shard.get_or_insert_with(|| (id, env.shard(id))).1
    }

    /// Why publishers to one queue wait: alarms of the nodes that have it.
    pub(crate) fn alarm_of(&mut self, queue: QueueId) -> Option<&'static str> {
        let (members, leader) = members_of(self.catalogue().queue(queue)?);
        let leader = leader.or_else(|| {
            let shard = self.shard(self.env.shard_of(queue));
            shard.known_leader(queue)
        });
        blocked_by(&members, leader, self.env)
    }

    /// Who holds messages of a queue gives them back and gets no more.
    pub(crate) fn detach(&mut self, subscription: ConsumerId, queue: QueueId) {
        let now = self.now;
        let shard = self.shard(self.env.shard_of(queue));
        shard.detach(now, queue, subscription);
        self.spend(DETACH_WORK);
        self.let_others_in();
    }

    fn release_shard(&mut self) {
        if let Some((_, shard)) = self.shard.take() {
            shard.let_go(self.now);
        }
    }

    /// Lets everything go.
    pub(crate) fn release(&mut self) {
        self.release_shard();
        self.catalogue = None;
        self.held_work = 0;
    }

    /// Takes note of what was done, in units.
    pub(crate) const fn spend(&mut self, units: usize) {
        self.held_work = self.held_work.saturating_add(units);
        self.work = self.work.saturating_add(units);
    }

    /// Between two requests: lets everything go if it was borrowed for long, so that others who
    /// wait for it have their turn.
    pub(crate) fn let_others_in(&mut self) {
        if self.held_work >= RUN_WORK_MAX {
            self.release();
        }
    }

    /// What was done in all, in units.
    pub(crate) const fn work(&self) -> usize {
        self.work
    }
}

/// Queues of one publish, where they are few.
pub(crate) type Targets = SmallVec<[QueueId; 4]>;

/// What became of a publish at its queues.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) rejected: bool,
    /// None of its queues is there any more: it went nowhere, as if there were no route.
    pub(crate) is_nowhere: bool,
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
    run.spend(ENQUEUE_WORK * targets.len() + (message.size() / BYTES_OF_WORK) as usize);
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
    let mut gone = 0;
    for queue in targets {
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
            Enqueued::Volatile => {}
            Enqueued::Gone => gone += 1,
            Enqueued::Rejected => outcome.rejected = true,
        }
    }
    outcome.is_nowhere = gone > 0 && gone == targets.len();
    outcome
}
