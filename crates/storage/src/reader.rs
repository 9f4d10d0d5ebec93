//! Reads chunks and blocks back from disk and verifies them.

use crate::chunk::{Bodies, ChunkLocation};
use crate::disk::{Disk, read_exact_into};
use crate::folders::Folders;
use crate::id::{ChunkSeq, Generation};
use crate::loaded::{Content, Key, Loaded, Positions, ReadRequest, Source};
use crate::open_files::{Name, OpenFiles};
use crate::read_buffer::{room, room_to_hold};
use crate::segment;
use crate::segment::Far;
use crate::wal;
use crate::wal::format::{BodyEntry, Tables, body_crc, chunk_seed, table_bytes};
use bytes::{Bytes, BytesMut};
use leveret_types::limits::CHUNK_BYTES;
use std::ops::Range;

/// Bytes of others that are read along with those of a chunk that lie on both sides of them.
const GAP_BYTES_MAX: usize = 16 * 1024;
/// The same where only some bodies are wanted: what a disk reads at once anyway.
const PART_GAP_BYTES_MAX: usize = 4 * 1024;
/// Bytes read at once of a chunk whose bodies lie in several places, but for a larger body.
const SPAN_BYTES_MAX: usize = CHUNK_BYTES;

/// Carries out [`ReadRequest`]s. Each reader thread owns one.
pub struct Reader<D: Disk> {
    files: OpenFiles<D>,
    salt: u64,
    /// The table of the chunk read last, and where it was read: parts of one chunk are often read
    /// one after the other.
    table: BytesMut,
    table_of: Option<(Generation, u32, u32)>,
    /// A stretch of a file that bodies were copied out of.
    span: BytesMut,
}

impl<D: Disk> Reader<D> {
    pub(crate) fn new(disk: D, folders: &Folders, salt: u64) -> Self {
        Self::over(OpenFiles::new(disk, folders), salt)
    }

    fn over(files: OpenFiles<D>, salt: u64) -> Self {
        Self {
            files,
            salt,
            table: BytesMut::new(),
            table_of: None,
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
    /// answer: it is for the shard to judge. What went wrong is read twice, for it may have gone
    /// wrong on its way from the drive.
    pub fn read(&mut self, request: ReadRequest) -> Loaded {
        let (shard, key, source) = (request.shard, request.key, request.source.clone());
        let first = self.read_once(request);
        if first.result.as_ref().is_ok_and(Content::is_sound) {
            return first;
        }
        let again = ReadRequest::new(shard, key, source, BytesMut::new());
        let second = self.read_once(again);
        match second.result {
            Ok(_) => second,
            Err(_) => first,
        }
    }

    fn read_once(&mut self, request: ReadRequest) -> Loaded {
        let ReadRequest {
            shard,
            key,
            source,
            buffer,
        } = request;
        let result = match source {
            Source::Wal {
                location,
                seq,
                count,
                bytes,
                positions,
                table,
            } => {
                let chunk = WantedChunk {
                    shard,
                    location,
                    seq,
                    count,
                    bytes: bytes as usize,
                    positions,
                };
                return self.wanted(key, chunk, table, buffer);
            }
            Source::Segment { file, offset, len } => self.block(file, offset, len, buffer),
        };
        Loaded {
            shard,
            key,
            result,
            table: None,
        }
    }

    /// Reads a chunk, or a part of it, with its table if whoever asks does not have that.
    fn wanted(
        &mut self,
        key: Key,
        chunk: WantedChunk,
        known: Option<Bytes>,
        buffer: BytesMut,
    ) -> Loaded {
        let (shard, location) = (chunk.shard, chunk.location);
        let is_part = matches!(key, Key::Part { .. });
        let (result, table) = match known {
            Some(table) => (self.bodies(chunk, &table, buffer), None),
            None => match self.take_table(&chunk) {
                Ok(table) => {
                    let result = self.bodies(chunk, &table, buffer);
                    let kept = (is_part && result.is_ok()).then(|| Bytes::copy_from_slice(&table));
                    self.keep_table(table, location);
                    (result, kept)
                }
                Err(why) => (Err(why), None),
            },
        };
        Loaded {
            shard,
            key,
            result,
            table,
        }
    }

    fn fill(
        &mut self,
        buffer: &mut BytesMut,
        name: Name,
        offset: u64,
        len: usize,
    ) -> Result<(), String> {
        room(buffer, len);
        self.piece(name, offset, buffer)
    }

    /// Fills a buffer from a place of a file.
    pub(crate) fn piece(&self, name: Name, offset: u64, buffer: &mut [u8]) -> Result<(), String> {
        let file = self.files.get(name);
        let read = file.and_then(|file| read_exact_into(&*file, offset, buffer));
        read.map_err(|error| name.says(&error))
    }

    /// Where the bodies of a chunk lie; nothing of one that is lost.
    pub(crate) fn locate(&mut self, shard: u8, source: Source) -> Result<Vec<Option<Far>>, String> {
        let Source::Wal {
            location,
            seq,
            count,
            bytes,
            positions,
            ..
        } = source
        else {
            unreachable!("a chunk is located");
        };
        let chunk = WantedChunk {
            shard,
            location,
            seq,
            count,
            bytes: bytes as usize,
            positions,
        };
        let table = self.take_table(&chunk)?;
        let (mut own_at, mut previous) = (u64::from(location.bodies_at), chunk.seed(self.salt));
        let located = Tables::new(&table, count).entries().map(|entry| {
            let offset = entry.elsewhere.map_or(own_at, u64::from);
            if entry.elsewhere.is_none() {
                own_at += u64::from(entry.len);
            }
            let far = Far {
                name: Name::Wal(location.generation),
                offset,
                len: entry.len,
                previous: std::mem::replace(&mut previous, entry.crc),
                crc: entry.crc,
                is_summed_alone: wal::format::is_summed_alone(location.version),
            };
            (!entry.is_lost()).then_some(far)
        });
        let located = located.collect();
        self.keep_table(table, location);
        Ok(located)
    }

    /// Reads the bodies that are wanted of a chunk with this table.
    fn bodies(
        &mut self,
        chunk: WantedChunk,
        table: &[u8],
        mut bytes: BytesMut,
    ) -> Result<Content, String> {
        let seq = chunk.seq;
        let tables = Tables::new(table, chunk.count);
        let (ends, damaged) = match chunk.positions {
            Positions::All => self.all_bodies(&mut bytes, &chunk, tables)?,
            Positions::These(_) => self.some_bodies(&mut bytes, &chunk, tables)?,
        };
        if ends.last().map_or(0, |end| *end as usize) != bytes.len() {
            let len = bytes.len();
            return Err(format!(
                "chunk {seq} does not have the {len} bytes that its table says"
            ));
        }
        Ok(Content::Chunk {
            positions: chunk.positions,
            bodies: Bodies::from_buffer(bytes.freeze(), ends),
            damaged,
        })
    }

    /// The tables of a chunk's bodies and references: the ones read last, or read now.
    fn take_table(&mut self, chunk: &WantedChunk) -> Result<BytesMut, String> {
        let location = chunk.location;
        let mut table = std::mem::take(&mut self.table);
        let of = (
            location.table_generation,
            location.table_at,
            location.table_crc,
        );
        let table_len = table_bytes(chunk.count, location.references);
        if self.table_of.take() == Some(of) && table.len() == table_len {
            return Ok(table);
        }
        let table_name = Name::Wal(location.table_generation);
        self.fill(
            &mut table,
            table_name,
            u64::from(location.table_at),
            table_len,
        )?;
        if crc32c::crc32c(&table) != location.table_crc {
            // A file that was recycled meanwhile ends here too; the shard knows which it is.
            return Err(format!(
                "the table of chunk {} in write-ahead log file {} is damaged",
                chunk.seq,
                wal::writer::file_name(location.generation)
            ));
        }
        Ok(table)
    }

    /// Gives back the table of a chunk at this place: the next one may be of the same.
    fn keep_table(&mut self, table: BytesMut, location: ChunkLocation) {
        self.table = table;
        self.table_of = Some((
            location.table_generation,
            location.table_at,
            location.table_crc,
        ));
    }

    /// Reads all bodies of a chunk; gives where each ends, and which of them are damaged.
    fn all_bodies(
        &mut self,
        bytes: &mut BytesMut,
        chunk: &WantedChunk,
        tables: Tables<'_>,
    ) -> Result<(Vec<u32>, Vec<u32>), String> {
        let (location, name) = (chunk.location, Name::Wal(chunk.location.generation));
        if location.references == 0 {
            self.fill(bytes, name, u64::from(location.bodies_at), chunk.bytes)?;
        } else {
            self.gather(bytes, location, tables, chunk.bytes)?;
        }
        let (mut start, mut previous) = (0, chunk.seed(self.salt));
        let (mut ends, mut damaged) = (Vec::with_capacity(chunk.count as usize), Vec::new());
        for (position, entry) in (0..).zip(tables.entries()) {
            let end = start + entry.len as usize;
            let sound = !entry.is_lost()
                && bytes
                    .get(start..end)
                    .is_some_and(|body| body_crc(location.version, previous, body) == entry.crc);
            if !sound {
                damaged.push(position);
            }
            ends.push(end as u32);
            (start, previous) = (end, entry.crc);
        }
        Ok((ends, damaged))
    }

    /// The same with the bodies that are wanted, and nothing that lies far from them.
    fn some_bodies(
        &mut self,
        bytes: &mut BytesMut,
        chunk: &WantedChunk,
        tables: Tables<'_>,
    ) -> Result<(Vec<u32>, Vec<u32>), String> {
        let location = chunk.location;
        let (mut own_at, mut previous) = (location.bodies_at as usize, chunk.seed(self.salt));
        let mut wanted: Vec<(u32, u32, BodyEntry, Range<usize>)> = Vec::new();
        let mut pieces: Vec<(usize, Range<usize>)> = Vec::new();
        let mut to = 0;
        for (position, entry) in (0..).zip(tables.entries()) {
            let at = entry.elsewhere.map_or(own_at, |offset| offset as usize);
            if entry.elsewhere.is_none() {
                own_at += entry.len as usize;
            }
            if chunk.positions.number_of(position).is_some() {
                let body = to..to + entry.len as usize;
                to = body.end;
                if !entry.is_lost() {
                    pieces.push((at, body.clone()));
                }
                wanted.push((position, previous, entry, body));
            }
            previous = entry.crc;
        }
        if to > chunk.bytes {
            return Err(format!(
                "a chunk has {} bytes, its table says more",
                chunk.bytes
            ));
        }
        room_to_hold(bytes, to);
        self.read_pieces(
            bytes,
            Name::Wal(location.generation),
            pieces,
            PART_GAP_BYTES_MAX,
        )?;
        let sound = |(_, previous, entry, body): &(u32, u32, BodyEntry, Range<usize>)| {
            let crc = body_crc(location.version, *previous, &bytes[body.clone()]);
            !entry.is_lost() && crc == entry.crc
        };
        let damaged = wanted.iter().filter(|body| !sound(body)).map(|body| body.0);
        let damaged = damaged.collect();
        let ends = wanted.iter().map(|(.., body)| body.end as u32).collect();
        Ok((ends, damaged))
    }

    /// Reads the bodies of a chunk of which some lie elsewhere in the file.
    fn gather(
        &mut self,
        bytes: &mut BytesMut,
        location: ChunkLocation,
        tables: Tables<'_>,
        len: usize,
    ) -> Result<(), String> {
        let (mut to, mut own_at) = (0, location.bodies_at as usize);
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
        room(bytes, len);
        self.read_pieces(bytes, Name::Wal(location.generation), pieces, GAP_BYTES_MAX)
    }

    /// Reads pieces of a file to where they belong in `bytes`, in the order in which they lie in
    /// the file; together where no more than `gap` lies between them.
    fn read_pieces(
        &mut self,
        bytes: &mut BytesMut,
        name: Name,
        mut pieces: Vec<(usize, Range<usize>)>,
        gap: usize,
    ) -> Result<(), String> {
        pieces.sort_unstable_by_key(|(at, _)| *at);
        let mut span = std::mem::take(&mut self.span);
        let mut rest = &pieces[..];
        while let [(start, _), ..] = *rest {
            let count = together(rest, gap);
            let (read, after) = rest.split_at(count);
            rest = after;
            if let [(at, body)] = read {
                self.piece(name, *at as u64, &mut bytes[body.clone()])?;
                continue;
            }
            let end = read.iter().map(|(at, body)| at + body.len()).max();
            let span_len = end.unwrap_or(start) - start;
            self.fill(&mut span, name, start as u64, span_len)?;
            for (at, body) in read {
                let from = at - start;
                bytes[body.clone()].copy_from_slice(&span[from..from + body.len()]);
            }
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
            is_shared: header.is_shared(),
            first_index: header.first_index,
            spans,
        })
    }
}

/// A chunk, and what of it is to be read.
struct WantedChunk {
    shard: u8,
    location: ChunkLocation,
    seq: ChunkSeq,
    count: u32,
    /// Bytes of all its bodies.
    bytes: usize,
    positions: Positions,
}

impl WantedChunk {
    /// Where its checksums start from.
    fn seed(&self, salt: u64) -> u32 {
        chunk_seed(
            salt,
            self.location.generation,
            u16::from(self.shard),
            self.seq,
        )
    }
}

/// How many of these pieces of a file, ascending, are read at once: those between which no more
/// than `gap` lies.
fn together(pieces: &[(usize, Range<usize>)], gap: usize) -> usize {
    let Some((start, _)) = pieces.first() else {
        return 0;
    };
    let mut end = *start;
    let near = pieces.iter().take_while(|(at, body)| {
        let next = end.max(at + body.len());
        let fits = *at <= end + gap && next - start <= SPAN_BYTES_MAX;
        let is_first = at == start;
        end = next;
        fits || is_first
    });
    near.count()
}
