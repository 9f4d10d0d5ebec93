//! Reading an entry: from the chunks in memory, or from what is read back from disk. Apart from the
//! rest because only reading may have to wait: it says what it needs and is called again.

use super::ShardLogs;
use crate::chunk::Chunk;
use crate::loaded::{Content, Key, Loaded, ReadRequest, Source};
use crate::log::Side;
use bytes::Bytes;
use leveret_types::LogId;

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
            (&mut self.volatile_builder, &self.volatile_chunks)
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

    /// Reads from a chunk that is no longer cached.
    fn read_chunk(&mut self, id: LogId, index: u64, body: u64) -> Read {
        let Some((chunk, source)) = self
            .chunks
            .find(body)
            .and_then(|c| Some((c, wal_source(c)?)))
        else {
            return self.lost(id, index, "its chunk has no place in the write-ahead log");
        };
        let key = Key::Chunk(chunk.seq);
        let position = (body - chunk.first_body) as usize;
        let after = chunk.first_body + u64::from(chunk.count);
        let Some(held) = self.loaded.get(key) else {
            if let Some(why) = self.loaded.failure(key) {
                let why = why.to_owned();
                return self.lost(id, index, &why);
            }
            self.loaded.demand(self.shard, id, key, source);
            return Read::Pending;
        };
        let Content::Chunk { bodies, damaged } = &held.content else {
            unreachable!("{key:?} holds a chunk");
        };
        if damaged.contains(&(position as u32)) {
            return self.lost(id, index, "its checksum in the write-ahead log is wrong");
        }
        let bytes = bodies.get(position);
        if !std::mem::replace(&mut held.went_ahead, true) {
            self.read_ahead_chunk(after);
        }
        Read::Ready(bytes)
    }

    fn read_ahead_chunk(&mut self, body: u64) {
        if let Some(chunk) = self.chunks.find(body).filter(|c| c.bodies.is_none())
            && let Some(source) = wal_source(chunk)
        {
            self.loaded.ahead(self.shard, Key::Chunk(chunk.seq), source);
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
        let Content::Block {
            bytes,
            log,
            first_index,
            spans,
        } = &held.content
        else {
            unreachable!("{key:?} holds a block");
        };
        let place = index.checked_sub(*first_index).and_then(|delta| {
            spans
                .binary_search_by_key(&delta, |s| u64::from(s.delta))
                .ok()
        });
        let payload = match place.map(|at| spans[at]) {
            Some(span) if span.sound && *log == id => {
                Ok(bytes.slice(span.start as usize..(span.start + span.len) as usize))
            }
            Some(_) => Err("its checksum in the segment file is wrong"),
            None => Err("the segment block that should hold it does not"),
        };
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
                if index == block.last_index {
                    self.loaded.retire(key);
                }
                Read::Ready(bytes)
            }
            Err(why) => self.lost(id, index, why),
        }
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
        let result = match loaded.result {
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

    fn refers_to(&mut self, key: Key) -> bool {
        match key {
            Key::Chunk(seq) => {
                let through = self.flushed_through;
                let place = self.chunks.find_seq(seq).and_then(|c| c.place);
                place.is_some_and(|p| p.generation > through)
            }
            Key::Block { file, offset } => self.logs.values().any(|log| {
                let sides = [&log.durable, &log.volatile];
                let mut blocks = sides.into_iter().flat_map(|side: &Side| &side.blocks);
                blocks.any(|b| (b.file, b.offset) == (file, offset))
            }),
        }
    }
}

fn wal_source(chunk: &Chunk) -> Option<Source> {
    Some(Source::Wal {
        place: chunk.place?,
        seq: chunk.seq,
        count: chunk.count,
        bytes: chunk.bytes,
    })
}

fn segment_source(block: &crate::log::Block) -> Source {
    Source::Segment {
        file: block.file,
        offset: block.offset,
        len: block.len,
    }
}
