//! The catalogue in the node: its changes in the log, and what they mean for the shards.
//!
//! The catalogue's commands are entries of one log on shard 0, like messages. A snapshot is that
//! log's state; it makes the commands before it superfluous.

use crate::env::{BorrowedShard as _, Env};
use crate::events::Executed;
use crate::streams::{self, StreamChange};
use leveret_metadata::{
    BegunSnapshot, Catalogue, CatalogueError, Change, Command, Config, QueueKind, QueueRecord,
    Snapshot,
};
use leveret_queue_host::shard::{CATALOGUE_LOG, QueueSpec, Shard, ViewSpec, queue_of, shard_of};
use leveret_storage::{Durability, LogKind, LogStats, LogSummary, Read, ShardLogs};
use leveret_types::{Now, QueueId, ShardId};
use std::borrow::Borrow;
use std::collections::HashMap;
use std::ops::DerefMut;

/// The shard whose log has the catalogue's commands.
pub const SHARD: ShardId = ShardId(0);
/// Commands in the log before which no snapshot is worth its bytes.
const SNAPSHOT_COMMANDS_MIN: u64 = 64;
/// The part of the last snapshot that the commands behind it come to when the next one is due: so
/// what it costs to write snapshots follows what is declared, and not how much there is.
pub(crate) const SNAPSHOT_SHARE: u64 = 4;
/// Bindings that are copied into a snapshot before others get at the catalogue.
const BINDINGS_COPIED_AT_ONCE: u32 = 1_024;
/// Queues that follow a change before others get at the catalogue.
pub const CHANGES_AT_ONCE: usize = 64;

/// Changes the catalogue, writes the change down, and lets the node follow. The catalogue is
/// borrowed for writing meanwhile, so that nobody sees a queue that no shard has; only where a
/// command has deleted or changed very much, `let_in` is called between parts of that, to let
/// others get at the catalogue. What they see of it then is all that the command has changed; some
/// shards have queues still that it has deleted, or that it gave other settings. Changes that were
/// followed are freed with their part: the answer has none of them. It is to be dropped where the
/// catalogue is borrowed no more.
///
/// # Errors
/// What is wrong with the command; nothing has changed then.
pub fn execute_in_parts<E: Env, G: DerefMut<Target = Catalogue>>(
    catalogue: &mut G,
    now: Now,
    command: &Command,
    env: &E,
    mut let_in: impl FnMut(&mut G),
) -> Result<Executed, CatalogueError> {
    let mut executed = write_down(catalogue, now, command, env)?;
    if catalogue.begin_to_unlink() {
        env.unlink_bindings();
    }
    let (first, later) = parts(std::mem::take(&mut executed.outcome.changes));
    for change in &first {
        follow(catalogue, change, now, env);
    }
    let mut later = later.into_iter();
    while !later.as_slice().is_empty() {
        let_in(catalogue);
        for change in later.by_ref().take(CHANGES_AT_ONCE) {
            follow(catalogue, &change, now, env);
        }
    }
    Ok(executed)
}

/// Which changes are followed at once, and which ones, if they are many, may be followed
/// [`CHANGES_AT_ONCE`] at a time with others let in between: those of queues that are deleted or
/// changed, and of exchanges that are deleted. A shard that hears of that late does as if it had
/// happened late; what follows for a queue is read out of the catalogue as it is by then; and of an
/// exchange that is gone is forgotten what it remembers, at the latest when another one of its name
/// comes.
#[must_use]
pub fn parts<C: Borrow<Change>>(changes: impl IntoIterator<Item = C>) -> (Vec<C>, Vec<C>) {
    let changes: Vec<C> = changes.into_iter().collect();
    if changes.len() <= CHANGES_AT_ONCE {
        return (changes, Vec::new());
    }
    let may_be_late = |change: &C| {
        matches!(
            change.borrow(),
            Change::QueueDeleted(_) | Change::QueueChanged(_) | Change::ExchangeDeleted { .. }
        )
    };
    let (later, first) = changes.into_iter().partition(may_be_late);
    (first, later)
}

/// Changes the catalogue, and writes the change down.
fn write_down<E: Env>(
    catalogue: &mut Catalogue,
    now: Now,
    command: &Command,
    env: &E,
) -> Result<Executed, CatalogueError> {
    command.check_writable()?;
    let outcome = catalogue.apply(command)?;
    let log_position = (!outcome.log.is_empty()).then(|| {
        env.with_shard(now, SHARD, |shard| {
            for command in &outcome.log {
                let bytes = command.encode();
                let body = shard.logs.body(Durability::Durable, &[&bytes]);
                shard.logs.append(CATALOGUE_LOG, body, bytes.len() as u32);
            }
            shard.urgent_log_position()
        })
    });
    Ok(Executed {
        outcome,
        log_position,
    })
}

/// Lets the rest of the node follow a change.
pub fn follow<E: Env>(catalogue: &Catalogue, change: &Change, now: Now, env: &E) {
    queues_follow(catalogue, change, now, env);
    env.clients_follow(catalogue, change, now);
}

fn queues_follow<E: Env>(catalogue: &Catalogue, change: &Change, now: Now, env: &E) {
    match change {
        Change::QueueCreated(id) => {
            if let Some(record) = catalogue.queue(*id) {
                if streams::follow(record, StreamChange::Begun, env) {
                    return;
                }
                env.with_shard(now, env.shard_of(*id), |shard| {
                    shard.add_queue(now, *id, spec(catalogue, record), Vec::new());
                });
            }
        }
        Change::QueueChanged(id) => {
            if let Some(record) = catalogue.queue(*id) {
                if streams::follow(record, StreamChange::Changed, env) {
                    return;
                }
                env.with_shard(now, env.shard_of(*id), |shard| {
                    shard.update_queue(now, *id, spec(catalogue, record));
                });
            }
        }
        Change::QueueDeleted(record) => {
            if streams::follow(record, |id, _| StreamChange::Deleted(id), env) {
                return;
            }
            env.with_shard(now, env.shard_of(record.id()), |shard| {
                shard.remove_queue(now, record.id());
            });
        }
        Change::NodesChanged => crate::follow_nodes(catalogue, env),
        Change::ExchangeCreated { .. }
        | Change::ExchangeDeleted { .. }
        | Change::Bound { .. }
        | Change::Unbound { .. }
        | Change::VhostCreated(_)
        | Change::VhostChanged(_)
        | Change::VhostDeleted(_)
        | Change::UserChanged(_)
        | Change::UserDeleted(_) => {}
    }
}

/// What the catalogue says of a queue, in the shard's words.
#[must_use]
pub fn spec(catalogue: &Catalogue, record: &QueueRecord) -> QueueSpec {
    let settings = record.settings();
    let view = settings.source.as_ref().map(|name| {
        let vhost = catalogue.vhost(record.vhost());
        let source = vhost.and_then(|vhost| vhost.queue_id(name));
        Box::new(ViewSpec {
            source: source.filter(|id| id.is_stream()),
            name: name.clone(),
            start: record.arguments().get("x-stream-offset").cloned(),
        })
    });
    QueueSpec {
        view,
        kind: record.kind(),
        durable: record.survives_restart(),
        members: record.members().to_vec(),
        founders: record.founders().to_vec(),
        home: record.home(),
        auto_delete: record.auto_delete(),
        settings: leveret_queue::Settings {
            ttl_ms: settings.ttl_ms,
            expires_ms: settings.expires_ms,
            length_max: settings.length_max,
            length_bytes_max: settings.length_bytes_max,
            overflow: settings.overflow,
            dead_letter: settings.dead_letter_exchange.is_some(),
            dead_letter_at_least_once: settings.dead_letter_exchange.is_some()
                && settings.dead_letter_at_least_once,
            priority_max: settings.priority_max,
            single_active: settings.single_active,
            delivery_limit: settings.delivery_limit,
            consumer_timeout_ms: settings
                .consumer_timeout_ms
                .or(catalogue.config().consumer_timeout_ms),
            delayed_retry: settings.delayed_retry,
        },
    }
}

/// Reads the catalogue out of its log. `load` carries out the reads from disk that the log asks
/// for.
///
/// # Errors
/// If the snapshot or a command makes no sense: the store is of another version, or damaged.
pub fn recover(
    logs: &mut ShardLogs,
    config: Config,
    mut load: impl FnMut(&mut ShardLogs),
) -> Result<Catalogue, CatalogueError> {
    if !logs.has_log(CATALOGUE_LOG) {
        logs.create_log(CATALOGUE_LOG, LogKind::Durable);
        return Ok(Catalogue::new(config));
    }
    let mut catalogue = match logs.state(CATALOGUE_LOG) {
        [] => Catalogue::new(config),
        snapshot => Catalogue::restore(config, snapshot)?,
    };
    let live = logs.live(CATALOGUE_LOG);
    for index in live.iter().flatten() {
        let bytes = loop {
            match logs.read(CATALOGUE_LOG, index) {
                Read::Ready(bytes) => break bytes,
                Read::Pending => load(logs),
                Read::Gone => return Err(unreadable(format!("entry {index} is missing"))),
                Read::Damaged(why) => return Err(unreadable(format!("entry {index}: {why}"))),
            }
        };
        catalogue.replay(&Command::decode(&bytes)?)?;
    }
    Ok(catalogue)
}

fn unreadable(reason: String) -> CatalogueError {
    CatalogueError::Unreadable {
        what: "log of the catalogue",
        reason,
    }
}

/// Gives the shards their queues after a restart: those of the catalogue, with the logs that the
/// store found. Logs without a queue are what a crash left of a deletion, or of a declaration that
/// was not durable yet. `load` carries out the reads from disk that the logs ask for: replicas read
/// their headers. Who has borrowed the shards lets them go after that.
pub fn place_queues<S: DerefMut<Target = Shard>>(
    catalogue: &Catalogue,
    shards: &mut [S],
    found: &[LogSummary],
    now: Now,
    mut load: impl FnMut(&mut ShardLogs),
) {
    let mut priority_logs: HashMap<QueueId, Vec<u8>> = HashMap::new();
    for summary in found.iter().filter(|s| s.log.0 > u64::from(u8::MAX)) {
        let (queue, priority_log) = queue_of(summary.log);
        if catalogue.queue(queue).is_some() {
            priority_logs.entry(queue).or_default().push(priority_log);
        } else if let Some(shard) = shards.get_mut(usize::from(summary.shard)) {
            shard.logs.delete_log(summary.log);
        }
    }
    let shard_count = u16::try_from(shards.len()).unwrap_or(u16::MAX);
    let in_shards = |record: &&QueueRecord| record.kind() != QueueKind::Stream;
    for record in catalogue.queues(None).filter(in_shards) {
        let mut priority_logs = priority_logs.remove(&record.id()).unwrap_or_default();
        priority_logs.sort_unstable();
        let shard = shard_of(record.id(), shard_count);
        if let Some(shard) = shards.get_mut(usize::from(shard.0)) {
            let spec = spec(catalogue, record);
            shard.recover_queue(now, record.id(), spec, priority_logs, &mut load);
        }
    }
    for shard in shards {
        shard.finish(now);
    }
}

/// What is declared, where nobody but the caller changes it. Nothing may be borrowed.
pub(crate) fn declared<E: Env>(env: &E) -> Snapshot {
    let begun = env.catalogue().begin_snapshot();
    copied(begun, env)
}

/// Copies the bindings into a snapshot that was begun. Others get at the catalogue between pieces.
fn copied<E: Env>(mut begun: BegunSnapshot, env: &E) -> Snapshot {
    while begun.go_on(&env.catalogue(), BINDINGS_COPIED_AT_ONCE) {}
    begun.finish()
}

/// Writes a snapshot of the catalogue into its log if enough commands have come since the last one.
/// Nothing may be borrowed.
pub fn snapshot<E: Env>(env: &E) {
    let catalogue = env.catalogue();
    let (stats, last) = {
        let shard = env.shard(SHARD);
        let last = shard.logs.state(CATALOGUE_LOG).len() as u64;
        (shard.logs.log_stats(CATALOGUE_LOG), last)
    };
    let is_due = |stats: &LogStats| {
        stats.entries >= SNAPSHOT_COMMANDS_MIN && stats.bytes >= last / SNAPSHOT_SHARE
    };
    let Some(stats) = stats.filter(is_due) else {
        return;
    };
    // What the catalogue is and what its log has belong together: commands change both under its
    // lock. Very much is declared in some catalogues, so that bindings are copied in pieces, and
    // nothing is borrowed while all is encoded: what changes meanwhile stays in the log behind.
    let begun = catalogue.begin_snapshot();
    drop(catalogue);
    let bytes = copied(begun, env).encode();
    let mut shard = env.shard(SHARD);
    shard.logs.set_state(CATALOGUE_LOG, &bytes);
    shard
        .logs
        .settle(CATALOGUE_LOG, 0..stats.next_index, stats.bytes);
    shard.release();
}
