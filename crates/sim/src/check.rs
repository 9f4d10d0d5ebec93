//! Holds what a restart found against what it must find.

use crate::model::{Entry, Log, Logs, Model, Shard};
use leveret_storage::{Disk, Read, Reader, Recovered, ShardLogs};
use leveret_types::LogId;
use std::fmt;

/// A promise was broken.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Which one; the numbers are those of `docs/testing.md`.
    pub invariant: &'static str,
    /// How.
    pub what: String,
}

impl Violation {
    pub(crate) fn new(invariant: &'static str, what: impl Into<String>) -> Self {
        Self {
            invariant,
            what: what.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)
    }
}

/// The invariant that is broken when a log is not there at all.
const LOST_LOG: &str = "I1, I19";

/// How much may be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tolerance {
    /// Nothing.
    None,
    /// Bytes on the disk were changed: logs may be damaged if they say so, and at most this many.
    Damaged(usize),
    /// So much was changed that even the durable end may be gone. Logs that say that they are sound
    /// must be as they were at some moment.
    Prefix,
}

/// Reads an entry, from memory or disk.
pub fn read<D: Disk>(
    shard: &mut ShardLogs,
    reader: &mut Reader<D>,
    log: LogId,
    index: u64,
) -> Read {
    loop {
        match shard.read(log, index) {
            Read::Pending => {
                for request in shard.take_reads() {
                    let loaded = reader.read(request);
                    shard.loaded(loaded);
                }
            }
            read => return read,
        }
    }
}

/// Whether a read gave what was appended.
pub fn check_read(log: LogId, index: u64, entry: &Entry, read: Read) -> Result<(), Violation> {
    match read {
        Read::Ready(bytes) if bytes == entry.payload() => Ok(()),
        Read::Ready(bytes) => Err(Violation::new(
            "I2",
            format!(
                "entry {index} of log {log} has {} other bytes than those appended",
                bytes.len()
            ),
        )),
        Read::Gone => Err(Violation::new(
            "I1",
            format!("entry {index} of log {log} is gone"),
        )),
        Read::Damaged(why) => Err(Violation::new("I13", format!("without a fault: {why}"))),
        Read::Pending => unreachable!("the read was carried out"),
    }
}

/// Checks a store that was just opened, and makes the model go on from it.
///
/// # Errors
/// What is wrong.
pub fn check_recovered<D: Disk>(
    recovered: &mut Recovered<D>,
    model: &mut Model,
    tolerance: Tolerance,
) -> Result<(), Violation> {
    if recovered.shards.len() != model.shards.len() {
        return Err(Violation::new(
            "I19",
            format!("{} shards", recovered.shards.len()),
        ));
    }
    let mut damaged = 0;
    for (shard, expected) in recovered.shards.iter_mut().zip(&mut model.shards) {
        let through = shard.durable_through();
        let confirmed = expected.confirmed_through;
        if through < confirmed && tolerance == Tolerance::None {
            let what = format!(
                "shard {} ends with chunk {through}, {confirmed} was confirmed",
                shard.shard()
            );
            return Err(Violation::new("I1", what));
        }
        let through = match tolerance {
            Tolerance::Prefix => through,
            _ => through.max(confirmed),
        };
        let mut logs = expected.after_crash(through);
        let silent = recovered.report.notes.is_empty();
        match check_shard(shard, &mut recovered.reader, &logs, expected, tolerance) {
            Ok(count) => damaged += count,
            // With the record that created a log its name is lost too: the report tells of the gap.
            Err(violation)
                if violation.invariant == LOST_LOG && tolerance == Tolerance::Prefix && !silent => {
            }
            Err(violation) => return Err(violation),
        }
        for (id, log) in &mut logs {
            log.next_index = shard
                .log_stats(*id)
                .map_or(log.next_index, |stats| stats.next_index);
        }
        expected.restart(logs, through);
    }
    match tolerance {
        Tolerance::Damaged(most) if damaged > most => Err(Violation::new(
            "I13",
            format!("{damaged} logs are damaged by what can touch {most}"),
        )),
        _ => Ok(()),
    }
}

/// Checks the logs of a shard; gives how many are damaged.
fn check_shard<D: Disk>(
    shard: &mut ShardLogs,
    reader: &mut Reader<D>,
    expected: &Logs,
    history: &Shard,
    tolerance: Tolerance,
) -> Result<usize, Violation> {
    let mut found: Vec<LogId> = shard.log_ids().collect();
    found.sort_unstable();
    let mut damaged = 0;
    for id in &found {
        if let Some(damage) = shard.damage(*id).filter(|_| tolerance == Tolerance::None) {
            let what = format!("log {id} is damaged: {:?}", damage.notes);
            return Err(Violation::new("I13", what));
        }
        let known = expected.get(id);
        if shard.damage(*id).is_none() {
            let Some(log) = known else {
                return Err(Violation::new(
                    "I2",
                    format!("log {id} is, and should not be"),
                ));
            };
            check_log(shard, *id, log)?;
        }
        let was_ever = |index, payload: &[u8]| history.was_ever(*id, index, payload);
        check_bodies(shard, reader, *id, known, tolerance, &was_ever)?;
        damaged += usize::from(shard.damage(*id).is_some());
    }
    if let Some(id) = expected.keys().find(|id| !found.contains(id)) {
        return Err(Violation::new(LOST_LOG, format!("log {id} is lost")));
    }
    Ok(damaged)
}

/// A log that says that it is sound must be as it was.
fn check_log(shard: &ShardLogs, id: LogId, log: &Log) -> Result<(), Violation> {
    let live: Vec<u64> = shard.live(id).iter().flatten().collect();
    if !live.iter().eq(log.live.keys()) {
        let lost: Vec<_> = log
            .live
            .keys()
            .filter(|index| !live.contains(index))
            .collect();
        let back: Vec<_> = live
            .iter()
            .filter(|index| !log.live.contains_key(index))
            .collect();
        let (invariant, what) = if lost.is_empty() {
            ("I7", "are back")
        } else {
            ("I1", "are lost")
        };
        let which = if lost.is_empty() { &back } else { &lost };
        return Err(Violation::new(
            invariant,
            format!("entries {which:?} of log {id} {what}"),
        ));
    }
    let stats = shard.log_stats(id).unwrap_or_default();
    if log.exact_bytes && stats.bytes != log.bytes() {
        let what = format!("log {id} counts {} bytes, not {}", stats.bytes, log.bytes());
        return Err(Violation::new("I11", what));
    }
    if !(log.recorded_index..=log.next_index).contains(&stats.next_index) {
        let (least, most) = (log.recorded_index, log.next_index);
        let what = format!(
            "log {id} goes on at {}, not {least} to {most}",
            stats.next_index
        );
        return Err(Violation::new("I11", what));
    }
    if shard.state(id) != log.state || shard.term_and_vote(id) != log.vote {
        return Err(Violation::new(
            "I11",
            format!("state or vote of log {id} are not as they were"),
        ));
    }
    Ok(())
}

fn check_bodies<D: Disk>(
    shard: &mut ShardLogs,
    reader: &mut Reader<D>,
    id: LogId,
    log: Option<&Log>,
    tolerance: Tolerance,
    was_ever: &dyn Fn(u64, &[u8]) -> bool,
) -> Result<(), Violation> {
    let live: Vec<u64> = shard.live(id).iter().flatten().collect();
    for index in live {
        let read = read(shard, reader, id, index);
        match log.and_then(|log| log.live.get(&index)) {
            _ if tolerance != Tolerance::None && matches!(read, Read::Damaged(_)) => {}
            // A damaged log may have lost the record of a settle or of a truncation, but then it
            // says so.
            _ if shard.damage(id).is_some() => match read {
                Read::Ready(bytes) if !was_ever(index, &bytes) => {
                    let what = format!("entry {index} of log {id} never had these bytes");
                    return Err(Violation::new("I2", what));
                }
                _ => {}
            },
            Some(entry) => check_read(id, index, entry, read)?,
            None => {
                return Err(Violation::new(
                    "I2",
                    format!("entry {index} of log {id} was never"),
                ));
            }
        }
    }
    Ok(())
}
