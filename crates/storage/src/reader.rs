//! Reads chunks and blocks back from disk and verifies them.

use crate::chunk::{Bodies, Place};
use crate::disk::{Disk, read_exact_into};
use crate::id::ChunkSeq;
use crate::loaded::{Content, Key, Loaded, ReadRequest, Source};
use crate::open_files::{Name, OpenFiles};
use crate::read_buffer::room;
use crate::segment;
use crate::wal;
use crate::wal::format::{Tables, body_crc, chunk_seed, table_bytes};
use bytes::BytesMut;
use leveret_types::limits::CHUNK_BYTES;
use std::ops::Range;
use std::path::PathBuf;

/// Bytes of others that are read along with those of a chunk that lie on both sides of them.
const GAP_BYTES_MAX: usize = 16 * 1024;
/// Bytes read at once of a chunk whose bodies lie in several places, but for a larger body.
const SPAN_BYTES_MAX: usize = CHUNK_BYTES;

/// Carries out [`ReadRequest`]s. Each reader thread owns one.
pub struct Reader<D: Disk> {
    files: OpenFiles<D>,
    salt: u64,
    /// The table of the chunk read last.
    table: BytesMut,
    /// A stretch of a file that bodies were copied out of.
    span: BytesMut,
}

impl<D: Disk> Reader<D> {
    pub(crate) fn new(disk: D, wal: PathBuf, segment: PathBuf, salt: u64) -> Self {
        Self::over(OpenFiles::new(disk, wal, segment), salt)
    }

    fn over(files: OpenFiles<D>, salt: u64) -> Self {
        Self {
            files,
            salt,
            table: BytesMut::new(),
            span: BytesMut::new(),
        }
    }

    /// The files that this reader and its kin keep open.
    pub(crate) fn files(&self) -> OpenFiles<D> {
        self.files.clone()
    }

    /// Another reader of the same store, for another thread.
    #[must_use]
    pub fn another(&self) -> Self {
        Self::over(self.files(), self.salt)
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

    fn fill(
        &mut self,
        buffer: &mut BytesMut,
        name: Name,
        offset: u64,
        len: usize,
    ) -> Result<(), String> {
        room(buffer, len);
        let read = self
            .files
            .get(name)
            .and_then(|file| read_exact_into(&*file, offset, buffer));
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
        let table_len = table_bytes(count, place.references);
        let table_name = Name::Wal(place.table_generation);
        self.fill(&mut table, table_name, u64::from(place.table_at), table_len)?;
        if crc32c::crc32c(&table) != place.table_crc {
            // A file that was recycled meanwhile ends here too; the shard knows which it is.
            return Err(format!(
                "the table of chunk {seq} in write-ahead log file {} is damaged",
                wal::writer::file_name(place.generation)
            ));
        }
        let tables = Tables::new(&table, count);
        if place.references == 0 {
            self.fill(&mut bytes, name, u64::from(place.bodies_at), len as usize)?;
        } else {
            self.gather(&mut bytes, place, tables, len as usize)?;
        }
        let mut previous = chunk_seed(self.salt, place.generation, u16::from(shard), seq);
        let (mut ends, mut damaged) = (Vec::with_capacity(count as usize), Vec::new());
        let mut start = 0;
        for (position, entry) in (0..).zip(tables.entries()) {
            let end = start + entry.len as usize;
            let sound = !entry.is_lost()
                && bytes
                    .get(start..end)
                    .is_some_and(|body| body_crc(place.version, previous, body) == entry.crc);
            if !sound {
                damaged.push(position);
            }
            ends.push(end as u32);
            (start, previous) = (end, entry.crc);
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

    /// Reads the bodies of a chunk of which some lie elsewhere in the file, in the order in which
    /// they lie there.
    fn gather(
        &mut self,
        bytes: &mut BytesMut,
        place: Place,
        tables: Tables<'_>,
        len: usize,
    ) -> Result<(), String> {
        let (mut to, mut own_at) = (0, place.bodies_at as usize);
        let mut pieces: Vec<(usize, Range<usize>)> = Vec::new();
        for entry in tables.entries() {
            let body = to..to + entry.len as usize;
            to = body.end;
            match entry.elsewhere {
                Some(_) if entry.is_lost() => {}
                Some(offset) => pieces.push((offset as usize, body)),
                None => {
                    pieces.push((own_at, body.clone()));
                    own_at += body.len();
                }
            }
        }
        if to != len {
            return Err(format!("a chunk has {len} bytes, its table says {to}"));
        }
        pieces.sort_unstable_by_key(|(at, _)| *at);
        room(bytes, len);
        let name = Name::Wal(place.generation);
        let mut span = std::mem::take(&mut self.span);
        let mut rest = &pieces[..];
        while let [(start, _), ..] = *rest {
            let count = together(rest);
            let (read, after) = rest.split_at(count);
            let end = read.iter().map(|(at, body)| at + body.len()).max();
            let span_len = end.unwrap_or(start) - start;
            self.fill(&mut span, name, start as u64, span_len)?;
            for (at, body) in read {
                let from = at - start;
                bytes[body.clone()].copy_from_slice(&span[from..from + body.len()]);
            }
            rest = after;
        }
        self.span = span;
        Ok(())
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

/// How many of these pieces of a file, ascending, are read at once: those between which little
/// lies.
fn together(pieces: &[(usize, Range<usize>)]) -> usize {
    let Some((start, _)) = pieces.first() else {
        return 0;
    };
    let mut end = *start;
    let near = pieces.iter().take_while(|(at, body)| {
        let next = end.max(at + body.len());
        let fits = *at <= end + GAP_BYTES_MAX && next - start <= SPAN_BYTES_MAX;
        let is_first = at == start;
        end = next;
        fits || is_first
    });
    near.count()
}

impl ReadRequest {
    /// Whether a segment is read; otherwise it is the write-ahead log.
    #[must_use]
    pub fn is_segment(&self) -> bool {
        matches!(self.key, Key::Block { .. })
    }
}
