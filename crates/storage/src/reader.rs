//! Reads chunks and blocks back from disk and verifies them.

use crate::chunk::{Bodies, Place};
use crate::disk::{Disk, read_exact_into};
use crate::id::ChunkSeq;
use crate::loaded::{Content, Key, Loaded, ReadRequest, Source};
use crate::read_buffer::room;
use crate::segment;
use crate::wal;
use crate::wal::format::{BODY_ENTRY_BYTES, body_entries, chunk_seed};
use bytes::BytesMut;
use std::io;
use std::path::PathBuf;

/// Files that one reader keeps open.
const OPEN_FILES_MAX: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Wal(u64),
    Segment(u64),
}

/// Carries out [`ReadRequest`]s. Each reader thread owns one.
pub struct Reader<D: Disk> {
    disk: D,
    wal: PathBuf,
    segment: PathBuf,
    salt: u64,
    /// Most recently used last.
    open: Vec<(Name, D::File)>,
    /// The table of the chunk read last.
    table: BytesMut,
}

impl<D: Disk> Reader<D> {
    pub(crate) fn new(disk: D, wal: PathBuf, segment: PathBuf, salt: u64) -> Self {
        Self {
            disk,
            wal,
            segment,
            salt,
            open: Vec::new(),
            table: BytesMut::new(),
        }
    }

    /// Another reader of the same store, for another thread.
    #[must_use]
    pub fn another(&self) -> Self {
        let disk = self.disk.clone();
        Self::new(disk, self.wal.clone(), self.segment.clone(), self.salt)
    }

    /// Reads, verifies and indexes what was asked for. Whatever is wrong becomes part of the
    /// answer: it is for the shard to judge.
    pub fn read(&mut self, request: ReadRequest) -> Loaded {
        let ReadRequest {
            shard,
            key,
            source,
            buffer,
        } = request;
        let result = match source {
            Source::Wal {
                place,
                seq,
                count,
                bytes,
            } => self.chunk(shard, place, seq, count, bytes, buffer),
            Source::Segment { file, offset, len } => self.block(file, offset, len, buffer),
        };
        Loaded { shard, key, result }
    }

    fn file(&mut self, name: Name) -> io::Result<&D::File> {
        let file = match self.open.iter().position(|(n, _)| *n == name) {
            Some(at) => self.open.remove(at).1,
            None => {
                let path = match name {
                    Name::Wal(generation) => self.wal.join(wal::writer::file_name(generation)),
                    Name::Segment(file) => self.segment.join(segment::format::file_name(file)),
                };
                self.disk.open(&path)?
            }
        };
        if self.open.len() >= OPEN_FILES_MAX {
            self.open.remove(0);
        }
        self.open.push((name, file));
        let (_, file) = &self.open[self.open.len() - 1];
        Ok(file)
    }

    fn fill(
        &mut self,
        buffer: &mut BytesMut,
        name: Name,
        offset: u64,
        len: usize,
    ) -> Result<(), String> {
        room(buffer, len);
        let read = self
            .file(name)
            .and_then(|file| read_exact_into(file, offset, buffer));
        read.map_err(|e| match name {
            Name::Wal(generation) => {
                format!(
                    "write-ahead log file {}: {e}",
                    wal::writer::file_name(generation)
                )
            }
            Name::Segment(file) => {
                format!("segment file {}: {e}", segment::format::file_name(file))
            }
        })
    }

    fn chunk(
        &mut self,
        shard: u8,
        place: Place,
        seq: ChunkSeq,
        count: u32,
        len: u32,
        mut bytes: BytesMut,
    ) -> Result<Content, String> {
        let mut table = std::mem::take(&mut self.table);
        let name = Name::Wal(place.generation);
        let table_len = count as usize * BODY_ENTRY_BYTES;
        let table_name = Name::Wal(place.table_generation);
        self.fill(&mut table, table_name, u64::from(place.table_at), table_len)?;
        if crc32c::crc32c(&table) != place.table_crc {
            // A file that was recycled meanwhile ends here too; the shard knows which it is.
            return Err(format!(
                "the table of chunk {seq} in write-ahead log file {} is damaged",
                wal::writer::file_name(place.generation)
            ));
        }
        self.fill(&mut bytes, name, u64::from(place.bodies_at), len as usize)?;
        let mut previous = chunk_seed(self.salt, place.generation, u16::from(shard), seq);
        let (mut ends, mut damaged) = (Vec::with_capacity(count as usize), Vec::new());
        let mut start = 0;
        for (position, (body, crc)) in body_entries(&table).enumerate() {
            let end = start + body as usize;
            let sound = bytes
                .get(start..end)
                .is_some_and(|body| crate::bytes_io::chain(previous, body) == crc);
            if !sound {
                damaged.push(position as u32);
            }
            ends.push(end as u32);
            (start, previous) = (end, crc);
        }
        if start != bytes.len() {
            return Err(format!(
                "chunk {seq} has {} bytes, its table says {start}",
                bytes.len()
            ));
        }
        self.table = table;
        let bodies = Bodies::from_buffer(bytes.freeze(), ends);
        Ok(Content::Chunk { bodies, damaged })
    }

    fn block(
        &mut self,
        file: u64,
        offset: u32,
        len: u32,
        mut bytes: BytesMut,
    ) -> Result<Content, String> {
        let name = Name::Segment(file);
        self.fill(&mut bytes, name, u64::from(offset), len as usize)?;
        let Some((header, spans)) = segment::format::decode_block(&bytes, self.salt, file, offset)
        else {
            return Err(format!(
                "the head of the block at offset {offset} of segment file {} is damaged",
                segment::format::file_name(file)
            ));
        };
        Ok(Content::Block {
            bytes: bytes.freeze(),
            log: header.log,
            first_index: header.first_index,
            spans,
        })
    }
}

impl ReadRequest {
    /// Whether a segment is read; otherwise it is the write-ahead log.
    #[must_use]
    pub fn is_segment(&self) -> bool {
        matches!(self.key, Key::Block { .. })
    }
}
