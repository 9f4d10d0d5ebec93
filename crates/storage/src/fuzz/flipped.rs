//! Written bytes with one bit flipped: they are never read as something else.
//!
//! Each function makes a piece of a file out of `input`, reads it back, changes the bit that the
//! first bytes of `input` name, and reads it again.

use super::SALT;
use crate::checkpoint;
use crate::folders::Identity;
use crate::id::{Durability, LogKind};
use crate::segment::format as segment;
use crate::shard::{Budget, ShardLogs};
use crate::wal::format as wal;
use crate::wal::layout::{BatchLayout, Recent, put_data};
use crate::wal::scan::{Batch, Item, verify};
use leveret_types::LogId;

const AT: wal::Position = wal::Position {
    generation: 7,
    offset: wal::SECTOR_BYTES,
};

/// Changes one bit that the first three bytes of `input` name; false if there is none.
pub(super) fn flip(bytes: &mut [u8], input: &[u8]) -> bool {
    let [a, b, c, ..] = input else { return false };
    let at = usize::from(*a) | usize::from(*b) << 8;
    if bytes.is_empty() {
        return false;
    }
    let at = at % bytes.len();
    bytes[at] ^= 1 << (c & 7);
    true
}

/// A shard without logs.
fn empty_shard(number: u8) -> ShardLogs {
    let budget = Budget {
        cache_bytes: 1 << 20,
        loaded_bytes: 1 << 20,
    };
    ShardLogs::new(number, budget)
}

/// Some bodies, appended to some logs: what `input` says. Some of them go to another shard too.
fn shards_of(input: &[u8]) -> [ShardLogs; 2] {
    let (mut shard, mut other) = (empty_shard(0), empty_shard(1));
    other.create_log(LogId(9), LogKind::Durable);
    for (number, piece) in input.chunks(13).take(64).enumerate() {
        let id = LogId(u64::from(piece[0] & 3));
        if !shard.has_log(id) {
            shard.create_log(id, LogKind::Durable);
        }
        let body = shard.body(Durability::Durable, &[piece]);
        let index = shard.append(id, body, piece.len() as u32);
        if piece[0] & 4 != 0
            && let Some(shared) = shard.share(body)
        {
            let again = other.body_again(shared, &[piece]);
            other.append(LogId(9), again, piece.len() as u32);
        }
        match piece[0] >> 5 {
            0 => drop(shard.settle(id, 0..index, 1)),
            1 => shard.set_state(id, piece),
            2 => shard.set_term_and_vote(id, number as u64, 1),
            3 => shard.truncate(id, index / 2),
            _ => {}
        }
    }
    [shard, other]
}

/// A batch of the write-ahead log: its head, and its data.
fn batch_of(input: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut chunks = Vec::new();
    if input.is_empty() {
        return None;
    }
    for mut shard in shards_of(input) {
        shard.seal(&mut chunks);
    }
    let context = wal::BatchContext {
        salt: SALT,
        chain: 1,
        at: AT,
        sequence: 2,
        synced: AT,
        copy_len: 0,
    };
    let (mut head, mut data) = (Vec::new(), Vec::new());
    let layout = BatchLayout::new(&chunks, &Recent::default(), AT, 0);
    wal::encode_head(context, &chunks, &layout, &mut head);
    put_data(&chunks, &layout, &mut data);
    Some((head, data))
}

/// A batch of the write-ahead log.
///
/// # Panics
/// If what is read is not what was written, or changed bytes are accepted.
pub fn batch(input: &[u8]) {
    let Some((mut head, mut data)) = batch_of(input) else {
        return;
    };
    let broken = |head: &[u8], data: &[u8]| {
        let items = items(head, data)?;
        let broken = |reference| move |item: &&(bool, bool)| **item == (reference, false);
        Some([false, true].map(|reference| items.iter().filter(broken(reference)).count()))
    };
    assert_eq!(broken(&head, &data), Some([0, 0]));
    if flip(&mut data, input) {
        let [own, references] = broken(&head, &data).unwrap_or_default();
        assert_eq!(own, 1, "one changed bit is in one item");
        assert!(references <= 1, "and in what refers to it");
    }
    if flip(&mut head, input) {
        assert!(
            wal::decode_head(&head, SALT).is_none(),
            "a changed head is accepted"
        );
    }
}

/// Whether each item of a batch is a reference, and whether it is sound; `None` if the batch's head
/// is not.
fn items(head: &[u8], data: &[u8]) -> Option<Vec<(bool, bool)>> {
    let (decoded, chunks) = wal::decode_head(head, SALT)?;
    let batch = Batch {
        head: decoded,
        chunks,
        bytes: head.to_vec(),
        head_at: AT,
        from_copy: false,
    };
    let mut found = Vec::new();
    for chunk in &batch.chunks {
        verify(
            &batch,
            chunk,
            data,
            SALT,
            &mut |_, _| None,
            |item, sound| {
                found.push((matches!(item, Item::Reference(_)), sound));
            },
        );
    }
    Some(found)
}

/// A block of a segment file.
///
/// # Panics
/// As [`batch`].
pub fn segment_block(input: &[u8]) {
    let mut builder = segment::BlockBuilder::default();
    let mut index = 0;
    for piece in input.chunks(17).take(64) {
        index += 1 + u64::from(piece[0] & 7);
        builder.push(index, piece);
    }
    if builder.is_empty() {
        return;
    }
    let (mut bytes, payload, _) = builder.encode(SALT, 3, (LogId(5), 0), 96);
    bytes.extend_from_slice(payload);
    let sound = |bytes: &[u8]| {
        let (_, spans) = segment::decode_block(bytes, SALT, 3, 96)?;
        Some(spans.iter().filter(|s| s.sound).count())
    };
    let count = input.chunks(17).take(64).count();
    assert_eq!(sound(&bytes), Some(count));
    assert_eq!(
        segment::decode_block(&bytes, SALT, 3, 97).map(|_| ()),
        None,
        "taken at another place"
    );
    if flip(&mut bytes, input) {
        let left = sound(&bytes);
        assert!(
            left.is_none_or(|left| left + 1 == count),
            "{left:?} of {count} are sound"
        );
    }
}

/// The index of a segment file.
///
/// # Panics
/// As [`batch`].
pub fn segment_index(input: &[u8]) {
    let mut builder = segment::BlockBuilder::default();
    let blocks: Vec<_> = input
        .chunks(9)
        .take(64)
        .zip(1..)
        .map(|(piece, index)| {
            builder.clear();
            builder.push(index, piece);
            builder
                .encode(SALT, 3, (LogId(index), 0), index as u32 * 100)
                .2
        })
        .collect();
    let mut footer = segment::encode_footer(SALT, 3, &blocks);
    assert_eq!(
        segment::decode_footer(&footer, SALT, 3).map(|b| b.len()),
        Some(blocks.len())
    );
    assert!(segment::decode_footer(&footer, SALT, 4).is_none());
    if flip(&mut footer, input) {
        assert!(segment::decode_footer(&footer, SALT, 3).is_none());
    }
}

/// A checkpoint: one of its two copies is still good.
///
/// # Panics
/// As [`batch`].
pub fn checkpoint(input: &[u8]) {
    let [mut shard, _] = shards_of(input);
    let part = shard.checkpoint_part();
    let mut bytes = checkpoint::encode(SALT, 9, 1, 1, &[part]);
    let logs = |bytes: &[u8]| {
        let found = checkpoint::decode(bytes, SALT).ok()?;
        let logs = found.shards.first()?.logs.iter();
        Some(
            logs.map(|l| (l.id, l.next_index, l.state.clone()))
                .collect::<Vec<_>>(),
        )
    };
    let whole = logs(&bytes);
    assert_eq!(whole.as_ref().map(Vec::len), Some(shard.log_ids().count()));
    if flip(&mut bytes, input) {
        assert_eq!(logs(&bytes), whole, "one copy is still good");
    }
}

/// A store's identity: one of its two copies is still good.
///
/// # Panics
/// As [`batch`].
pub fn identity(input: &[u8]) {
    let mut uuid = [0; 16];
    uuid.iter_mut()
        .zip(input)
        .for_each(|(to, from)| *to = *from);
    let identity = Identity { uuid, shards: 4 };
    let mut bytes = identity.encode();
    if flip(&mut bytes, input) {
        assert_eq!(Identity::decode(&bytes), Ok(identity));
    }
}
