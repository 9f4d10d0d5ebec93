//! Salvage of a checkpoint whose copies are both damaged.
//!
//! Damage rarely hits both copies at the same place. Where they differ one of them is right, and
//! the checksum says when the right parts were picked. Where that fails, what both copies say alike
//! is taken for true: for two damages to agree they would have to be at one place and of one kind.

use crate::bytes_io::Take;
use crate::checkpoint::{Checkpoint, HEADER_BYTES, decode_copy, decode_log};
use crate::log::Log;
use std::ops::Range;

/// Places at which the copies differ, at most, for all choices between them to be tried.
const DIFFERENCES_MAX: usize = 12;
/// Differing bytes that are nearer than this are one damage: the first that gives few enough.
const NEAR_BYTES: [usize; 3] = [1, 64, 512];

/// What could be read.
#[derive(Debug)]
pub(crate) enum Salvaged {
    /// All of it: the bytes of a sound copy, and what they say.
    Whole(Vec<u8>, Checkpoint),
    /// These logs, with their shards.
    Parts(Vec<(u16, Log)>),
}

/// Reads what can be read of a checkpoint. Total: any bytes may be given.
pub(crate) fn salvage(bytes: &[u8], salt: u64) -> Salvaged {
    let (first, second) = bytes.split_at(bytes.len() / 2);
    merge(first, second, salt).unwrap_or_else(|| Salvaged::Parts(agreed(first, second)))
}

/// Puts a sound copy together from two damaged ones.
fn merge(first: &[u8], second: &[u8], salt: u64) -> Option<Salvaged> {
    let near = NEAR_BYTES.iter();
    let mut differences = near.map(|near| differences(first, second, *near));
    let differences = differences.find(|found| found.len() <= DIFFERENCES_MAX)?;
    (0..1_u32 << differences.len()).find_map(|choice| {
        let mut copy = first.to_vec();
        for (at, range) in differences.iter().enumerate() {
            if choice & (1 << at) != 0 {
                copy[range.clone()].copy_from_slice(second.get(range.clone())?);
            }
        }
        let checkpoint = decode_copy(&copy, salt).ok()?;
        Some(Salvaged::Whole(copy, checkpoint))
    })
}

fn differences(first: &[u8], second: &[u8], near: usize) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let differing = first.iter().zip(second).enumerate();
    for (at, _) in differing.filter(|(_, (a, b))| a != b) {
        match ranges.last_mut().filter(|r| at - r.end < near) {
            Some(last) => last.end = at + 1,
            None => ranges.push(at..at + 1),
        }
    }
    ranges
}

/// The logs that both copies describe alike, as far as their lengths lead from one to the next.
fn agreed(first: &[u8], second: &[u8]) -> Vec<(u16, Log)> {
    let mut logs = Vec::new();
    let mut at = HEADER_BYTES;
    while let Some((shard, count, end)) = shard_head(first, second, at) {
        at = end;
        let mut last = None;
        for _ in 0..count {
            let Some((log, end)) = log_at(first, second, at, last) else {
                return logs;
            };
            last = log.as_ref().map_or(last, |log| Some(log.id.0));
            logs.extend(log.map(|log| (shard, log)));
            at = end;
        }
    }
    logs
}

/// The shard whose part begins at `at`, how many logs it has, and where they begin.
fn shard_head(first: &[u8], second: &[u8], at: usize) -> Option<(u16, u32, usize)> {
    let rest = first.get(at..)?;
    let mut take = Take(rest);
    let shard = take.u16()?;
    let (_after, _next, _body, _file) = (take.u64()?, take.u64()?, take.u64()?, take.u64()?);
    let files = take.u32()? as usize;
    take.bytes(files.checked_mul(16)?)?;
    let logs = take.u32()?;
    let end = at + rest.len() - take.0.len();
    (second.get(at..end)? == &first[at..end]).then_some((shard, logs, end))
}

/// Where the log that begins at `at` ends, and the log itself if both copies agree on it.
fn log_at(
    first: &[u8],
    second: &[u8],
    at: usize,
    after: Option<u64>,
) -> Option<(Option<Log>, usize)> {
    // Logs are in the order of their ids: bytes that only look like one rarely keep it.
    let parse = |copy: &[u8]| {
        let rest = copy.get(at..)?;
        let mut take = Take(rest);
        let log = decode_log(&mut take).filter(|log| after.is_none_or(|last| log.id.0 > last))?;
        Some((log, at + rest.len() - take.0.len()))
    };
    let (log, end) = parse(first).or_else(|| parse(second))?;
    let alike = first.get(at..end)? == second.get(at..end)?;
    Some((alike.then_some(log), end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint;
    use crate::id::LogKind;
    use crate::shard::{Budget, ShardLogs};
    use leveret_types::LogId;

    const SALT: u64 = 77;
    /// Farther apart than what counts as one damage.
    const APART: usize = 700;

    /// A checkpoint whose copies are damaged at so many places, by turns.
    fn damaged(places: usize) -> (Vec<u8>, Vec<u8>) {
        let budget = Budget {
            cache_bytes: 1 << 20,
            loaded_bytes: 1 << 20,
        };
        let mut shard = ShardLogs::new(0, budget);
        (0..300).for_each(|log| shard.create_log(LogId(log), LogKind::Durable));
        let sound = checkpoint::encode(SALT, 9, 1, 1, &[shard.checkpoint_part()]);
        let mut bytes = sound.clone();
        let half = bytes.len() / 2;
        assert!(half > HEADER_BYTES + APART * (places + 1), "{half}");
        for place in 0..places {
            bytes[half * (place % 2) + HEADER_BYTES + 100 + APART * place] ^= 0x40;
        }
        (bytes, sound[..half].to_vec())
    }

    #[test]
    fn all_choices_between_the_copies_are_tried_where_they_differ_at_few_places() {
        for places in 0..=DIFFERENCES_MAX {
            let (bytes, sound) = damaged(places);
            let Salvaged::Whole(copy, checkpoint) = salvage(&bytes, SALT) else {
                panic!("{places} places");
            };
            assert_eq!(copy, sound, "{places} places");
            assert_eq!(checkpoint.shards[0].logs.len(), 300);
        }
    }

    #[test]
    fn where_the_copies_differ_at_many_places_what_both_say_is_taken() {
        let (bytes, _) = damaged(DIFFERENCES_MAX + 1);
        let Salvaged::Parts(logs) = salvage(&bytes, SALT) else {
            panic!("too many choices");
        };
        assert!(!logs.is_empty() && logs.len() < 300, "{}", logs.len());
        assert!(logs.iter().is_sorted_by_key(|(_, log)| log.id.0));
    }
}
