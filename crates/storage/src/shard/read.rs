//! Reading an entry: from the chunks in memory, or from what is read back from disk. Apart from the
//! rest because only reading may have to wait: it says what it needs and is called again.

use super::ShardLogs;
use crate::id::ChunkSeq;
use crate::loaded::{Content, Key, Loaded, Positions, ReadRequest, Source};
use crate::log::Side;
use crate::wal::format::table_bytes;
use bytes::Bytes;
use leveret_types::LogId;

/// What a read of a part of a chunk counts beside its bytes.
const PART_COST_BYTES: usize = 4096;

/// The answer to [`ShardLogs::read`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The payload; it shares the chunk or block that it lies in.
    Ready(Bytes),
    /// It is being read from disk: carry out [`ShardLogs::take_reads`] and try again when
    /// [`ShardLogs::loaded`] names the log.
    Pending,
    /// No such entry, or it is settled.
    Gone,
    /// The entry lives but cannot be read; why. Its log is damaged from now on, see
    /// [`ShardLogs::damage`].
    Damaged(String),
}

impl ShardLogs {
    /// Reads an entry.
    pub fn read(&mut self, id: LogId, index: u64) -> Read {
        let Some(log) = self.logs.get(&id) else {
            return Read::Gone;
        };
        let volatile = if log.durable.live.contains(index) {
            false
        } else if log.volatile.live.contains(index) {
            true
        } else {
            return Read::Gone;
        };
        let side = if volatile {
            &log.volatile
        } else {
            &log.durable
        };
        let (builder, chunks) = if volatile {
            (&mut self.volatile.builder, &self.volatile.chunks)
        } else {
            (&mut self.builder, &self.chunks)
        };
        if let Some(body) = side.body(index) {
            if let Some(bytes) = builder.get(body) {
                return Read::Ready(bytes);
            }
            if let Some(chunk) = chunks.find(body) {
                if let Some(bodies) = &chunk.bodies {
                    return Read::Ready(bodies.get((body - chunk.first_body) as usize));
                }
                return self.read_chunk(id, index, body);
            }
        }
        match side.block(index) {
            Some(at) => self.read_block(id, volatile, index, at),
            None => self.lost(id, index, "no place on disk is known for it"),
        }
    }

    /// An entry whose chunk is sealed and still in memory. Nothing of one that would have to be
    /// read from disk, though it may have been read already. Looking changes nothing.
    #[must_use]
    pub fn cached(&self, id: LogId, index: u64) -> Option<Bytes> {
        let log = self.logs.get(&id)?;
        let (side, chunks) = if log.durable.live.contains(index) {
            (&log.durable, &self.chunks)
        } else if log.volatile.live.contains(index) {
            (&log.volatile, &self.volatile.chunks)
        } else {
            return None;
        };
        let body = side.body(index)?;
        let chunk = chunks.find(body)?;
        let bodies = chunk.bodies.as_ref()?;
        Some(bodies.get((body - chunk.first_body) as usize))
    }

    /// Reads from a chunk that is no longer cached: what of it was read already, whole or this
    /// log's part of it.
    fn read_chunk(&mut self, id: LogId, index: u64, body: u64) -> Read {
        let Some((seq, first_body)) = self.chunks.find(body).map(|c| (c.seq, c.first_body)) else {
            return self.lost(id, index, "its chunk is not known");
        };
        let position = (body - first_body) as u32;
        for key in [Key::Chunk(seq), Key::Part { seq, log: id }] {
            let Some(held) = self.loaded.get(key) else {
                continue;
            };
            let Content::Chunk {
                positions,
                bodies,
                damaged,
            } = &held.content
            else {
                unreachable!("{key:?} holds bodies of a chunk");
            };
            let Some(number) = positions.number_of(position) else {
                self.loaded.forget(key);
                continue;
            };
            if damaged.contains(&position) {
                if self.is_read_again(id, index) {
                    self.loaded.forget(key);
                    continue;
                }
                return self.lost(id, index, "its checksum in the write-ahead log is wrong");
            }
            let (bytes, is_last) = (bodies.get(number), number + 1 == bodies.count());
            held.given_bytes += bytes.len();
            if !std::mem::replace(&mut held.went_ahead, true) {
                self.read_ahead_chunk(id, seq);
            }
            self.loaded.trust(id, index);
            if is_last && matches!(key, Key::Part { .. }) {
                self.loaded.retire(key);
            }
            return Read::Ready(bytes);
        }
        if let Some(why) = self.loaded.failure(Key::Chunk(seq)) {
            let why = why.to_owned();
            return self.lost(id, index, &why);
        }
        match self.chunk_source(id, body) {
            Some((key, source)) => {
                self.loaded.demand(self.shard, id, key, source);
                Read::Pending
            }
            None => self.lost(id, index, "its chunk has no place in the write-ahead log"),
        }
    }

    /// What to read for a log's body: all that the log has in its chunk, or the whole chunk if that
    /// is not much more, or if as much was read of the chunk in parts already and chunks that were
    /// read whole are of use. So a queue that is one of many in a chunk does not read the others'
    /// messages, and many queues that are read one after the other read the chunk once.
    fn chunk_source(&mut self, id: LogId, body: u64) -> Option<(Key, Source)> {
        let side = &self.logs.get(&id)?.durable;
        let chunk = self.chunks.find_mut(body)?;
        let location = chunk.location?;
        let bodies = chunk.first_body..chunk.first_body + u64::from(chunk.count);
        let ranges = side.bodies_within(bodies.clone());
        let ranges = ranges.map(|r| (r.start - bodies.start) as u32..(r.end - bodies.start) as u32);
        let positions = Positions::little_of(ranges, chunk.count, chunk.bytes);
        let (seq, count, bytes) = (chunk.seq, chunk.count, chunk.bytes);
        let source = |positions, table| Source::Wal {
            location,
            seq,
            count,
            bytes,
            positions,
            table,
        };
        if positions == Positions::All {
            return Some((Key::Chunk(seq), source(positions, None)));
        }
        let table = self.loaded.table(seq);
        let table_read = match &table {
            Some(_) => 0,
            None => table_bytes(count, location.references),
        };
        let part = source(positions, table);
        let read = part.buffer_bytes() + table_read + PART_COST_BYTES;
        let read = u32::try_from(read).unwrap_or(u32::MAX);
        chunk.read_in_parts = chunk.read_in_parts.saturating_add(read);
        if !self.loaded.is_whole_worth(chunk.read_in_parts, bytes) {
            return Some((Key::Part { seq, log: id }, part));
        }
        // Whoever else wants of it until it is there waits for the whole.
        chunk.read_in_parts = u32::MAX;
        Some((Key::Chunk(seq), source(Positions::All, None)))
    }

    /// Asks for the log's next chunk behind this one.
    fn read_ahead_chunk(&mut self, id: LogId, seq: ChunkSeq) {
        let Some(chunk) = self.chunks.find_seq(seq) else {
            return;
        };
        let after = chunk.first_body + u64::from(chunk.count);
        let side = self.logs.get(&id).map(|log| &log.durable);
        let next = side.and_then(|side| side.bodies_within(after..u64::MAX).next());
        if let Some(next) = next
            && let Some(chunk) = self.chunks.find(next.start)
            && chunk.bodies.is_none()
            && let Some((key, source)) = self.chunk_source(id, next.start)
        {
            self.loaded.ahead(self.shard, key, source);
        }
    }

    fn read_block(&mut self, id: LogId, volatile: bool, index: u64, at: usize) -> Read {
        let Some(log) = self.logs.get_mut(&id) else {
            return Read::Gone;
        };
        let blocks = &log.side(volatile).blocks;
        let (block, next) = (blocks[at], blocks.get(at + 1).copied());
        let key = Key::Block {
            file: block.file,
            offset: block.offset,
        };
        let Some(held) = self.loaded.get(key) else {
            if let Some(why) = self.loaded.failure(key) {
                let why = why.to_owned();
                return self.lost(id, index, &why);
            }
            self.loaded
                .demand(self.shard, id, key, segment_source(&block));
            return Read::Pending;
        };
        let payload = held.content.entry_bytes(id, &block, index);
        let ahead = !std::mem::replace(&mut held.went_ahead, true);
        if let Some(next) = next.filter(|_| ahead) {
            let key = Key::Block {
                file: next.file,
                offset: next.offset,
            };
            self.loaded.ahead(self.shard, key, segment_source(&next));
        }
        match payload {
            Ok(bytes) => {
                // A shared block is soon read for the next log.
                if index == block.last_index && block.shared_from.is_none() {
                    self.loaded.retire(key);
                }
                self.loaded.trust(id, index);
                Read::Ready(bytes)
            }
            Err(_) if self.is_read_again(id, index) => {
                self.loaded.forget(key);
                self.loaded
                    .demand(self.shard, id, key, segment_source(&block));
                Read::Pending
            }
            Err(why) => self.lost(id, index, why),
        }
    }

    /// Whether an entry that what was read has wrongly is read again, rather than given up.
    fn is_read_again(&mut self, id: LogId, index: u64) -> bool {
        let damage = self.damage(id);
        let is_given_up = damage.is_some_and(|damage| damage.lost.contains(index));
        !is_given_up && self.loaded.doubt(id, index)
    }

    /// An entry that lives cannot be read.
    fn lost(&mut self, id: LogId, index: u64, why: &str) -> Read {
        let text = format!("entry {index} of log {id} cannot be read: {why}");
        self.note_damage(id, index..index + 1, text.clone());
        Read::Damaged(text)
    }

    /// What is to be read from disk, for [`crate::Reader::read`] on a thread that may wait.
    #[must_use]
    pub fn take_reads(&mut self) -> Vec<ReadRequest> {
        self.loaded.take_requests()
    }

    /// Whether [`Self::take_reads`] would give anything.
    #[must_use]
    pub fn has_reads(&self) -> bool {
        self.loaded.has_requests()
    }

    /// Takes in what was read. Gives the logs for which a read may go on now: read at once, others'
    /// blocks may need the room.
    pub fn loaded(&mut self, loaded: Loaded) -> Vec<LogId> {
        assert_eq!(loaded.shard, self.shard, "an answer to another shard");
        let key = loaded.key;
        if let Key::Chunk(seq) = key
            && let Some(chunk) = self.chunks.find_seq(seq)
        {
            chunk.read_in_parts = 0;
        }
        if let (Key::Part { seq, .. }, Some(table)) = (key, loaded.table)
            && self.chunks.find_seq(seq).is_some()
        {
            self.loaded.keep_table(seq, table);
        }
        let result = match loaded.result {
            Err(_) if self.is_read_whole(key) => {
                // Whoever waits reads the whole chunk, which says what is wrong.
                let logs = self.loaded.loaded(key, Err(String::new()));
                self.loaded.forget(key);
                return logs;
            }
            Err(_) if !self.refers_to(key) => {
                // It was moved while the read was under way: whoever waits finds it where it is
                // now.
                let logs = self.loaded.loaded(key, Err(String::new()));
                self.loaded.forget(key);
                return logs;
            }
            result => result,
        };
        self.loaded.loaded(key, result)
    }

    /// Whether this is a part of a chunk: it is read no more in parts then.
    fn is_read_whole(&mut self, key: Key) -> bool {
        let Key::Part { seq, .. } = key else {
            return false;
        };
        if let Some(chunk) = self.chunks.find_seq(seq) {
            chunk.read_in_parts = u32::MAX;
        }
        true
    }

    fn refers_to(&mut self, key: Key) -> bool {
        match key {
            Key::Chunk(seq) | Key::Part { seq, .. } => {
                let through = self.flushed.through;
                let location = self.chunks.find_seq(seq).and_then(|c| c.location);
                location.is_some_and(|p| p.generation > through)
            }
            Key::Table(_) => false,
            Key::Block { file, offset } => self.logs.values().any(|log| {
                let sides = [&log.durable, &log.volatile];
                let mut blocks = sides.into_iter().flat_map(|side: &Side| &side.blocks);
                blocks.any(|b| (b.file, b.offset) == (file, offset))
            }),
        }
    }
}

fn segment_source(block: &crate::log::Block) -> Source {
    Source::Segment {
        file: block.file,
        offset: block.offset,
        len: block.len,
    }
}
