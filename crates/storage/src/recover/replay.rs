//! The write-ahead log replayed: its batches, in their order, are dealt out to the shards. Apart
//! from these because damage to a file is told to all of them, and the tail is nobody's yet.

use super::RecoveryReport;
use super::shard::ShardReplay;
use super::tail::{owned_bodies, sealed, shared_again};
use crate::chunk::SealedChunk;
use crate::disk::{Disk, DiskFile, read_exact};
use crate::error::OpenError;
use crate::folders::Folders;
use crate::id::Generation;
use crate::record::Record;
use crate::wal::format::{ChunkHead, Position};
use crate::wal::scan::{Batch, Elsewhere, Item, WalScan, verify};
use crate::wal::writer::Resume;
use bytes::Bytes;
use std::collections::BTreeMap;

pub(super) struct Replay {
    pub(super) salt: u64,
    pub(super) shards: Vec<ShardReplay>,
    pub(super) report: RecoveryReport,
    pub(super) resume: Resume,
    /// From where on what is found is to be written again.
    pub(super) tail_from: Position,
    pub(super) previous_head: Vec<u8>,
    pub(super) tail: Vec<SealedChunk>,
    pub(super) tail_bytes: u64,
    /// A file that was found sound, and that the tail frees.
    pub(super) freed: Option<Generation>,
    /// Whether that file is not what it was when it was looked through.
    pub(super) has_changed: bool,
}

impl Replay {
    pub(super) fn run<D: Disk>(
        &mut self,
        disk: &D,
        folders: &Folders,
        wal: &WalScan,
    ) -> Result<(), OpenError> {
        for (generation, file) in &wal.files {
            let path = folders.wal.join(crate::wal::writer::file_name(*generation));
            let open = disk.open(&path).map_err(|e| OpenError::io(&path, e))?;
            if file.header_damaged {
                self.report
                    .notes
                    .push(format!("the header of {} is damaged", path.display()));
            }
            for gap in &file.gaps {
                let note = format!("bytes {gap:?} of {} are damaged", path.display());
                self.report.notes.push(note);
            }
            let mut gaps = file.gaps.iter().peekable();
            for batch in &file.batches {
                while gaps.next_if(|gap| gap.start < batch.head.offset).is_some() {
                    self.pass_gap();
                }
                let len = batch.head.data_len as usize;
                let mut data = vec![0; len];
                let read = open.read_at(&mut data, batch.head.data_at());
                let read = read.map_err(|e| OpenError::io(&path, e))?;
                data.truncate(read);
                let mut elsewhere = |at, len| read_exact(&open, at, len).ok();
                self.batch(batch, data, &mut elsewhere);
            }
            gaps.for_each(|_| self.pass_gap());
            if let Some(cut) = &file.cut {
                self.report.notes.push(format!(
                    "{} was cut short: it has {} of at least {} bytes; what was written behind byte {} \
                     is lost",
                    path.display(),
                    cut.start,
                    cut.end,
                    file.end().min(cut.start),
                ));
                for shard in &mut self.shards {
                    shard.pass_cut(&file.moved);
                }
            }
        }
        if !wal.notes.is_empty() {
            // Nobody knows where: behind all that is known.
            self.pass_gap();
        }
        self.note_missing_tails();
        Ok(())
    }

    fn pass_gap(&mut self) {
        for shard in &mut self.shards {
            shard.gaps += 1;
        }
    }

    fn batch(&mut self, batch: &Batch, data: Vec<u8>, elsewhere: Elsewhere<'_>) {
        if batch.from_copy {
            let note = format!(
                "the head of the batch at {} of file {} is damaged; its copy is used",
                batch.head.offset, batch.head.generation
            );
            self.report.notes.push(note);
        }
        let data = Bytes::from(data);
        self.report.batches += 1;
        self.report.wal_bytes += batch.range().end - batch.range().start;
        let tail = batch.start() >= self.tail_from && !batch.chunks.is_empty();
        let owned = if tail {
            owned_bodies(batch)
        } else {
            BTreeMap::new()
        };
        for chunk in &batch.chunks {
            self.report.references += u64::from(chunk.references);
            let lost = self.chunk(batch, chunk, &data, elsewhere);
            if tail {
                let mut sealed = sealed(batch, chunk, &data, elsewhere);
                sealed.shared = shared_again(batch, chunk, &owned);
                sealed
                    .shared
                    .retain(|(at, _)| lost.binary_search(at).is_err());
                sealed.lost = lost;
                self.tail.push(sealed);
            }
        }
        if tail {
            self.tail_bytes += batch.head.data_len;
        } else if self.tail.is_empty() {
            // What goes on says where all before the tail ends: a mark within the tail is none.
            self.resume.sequence = batch.head.sequence + 1;
            self.resume.chain = batch.head.crc;
            self.resume.synced = Position {
                generation: batch.head.generation,
                offset: batch.head.end(),
            };
            self.previous_head.clone_from(&batch.bytes);
        }
    }

    /// Takes a chunk in; gives the positions of its bodies that are not what they were.
    fn chunk(
        &mut self,
        batch: &Batch,
        chunk: &ChunkHead,
        data: &[u8],
        elsewhere: Elsewhere<'_>,
    ) -> Vec<u32> {
        let mut lost = Vec::new();
        let mut has_changed = false;
        let salt = self.salt;
        let Some(shard) = self.shards.get_mut(usize::from(chunk.shard)) else {
            let note = format!("a chunk of shard {}, which is not", chunk.shard);
            self.report.notes.push(note);
            return lost;
        };
        shard.chunk(batch, chunk);
        verify(batch, chunk, data, salt, elsewhere, |item, sound| {
            has_changed |= !sound;
            match item {
                Item::Body(position) | Item::Reference(position) => {
                    if !sound {
                        lost.push(position);
                        shard
                            .bad_bodies
                            .insert(chunk.first_body + u64::from(position));
                    }
                }
                Item::Record(log, bytes) => {
                    match Record::decode(bytes).filter(|_| sound) {
                        Some(record) => shard.record(chunk.seq, log, record),
                        None => shard.lost_record(chunk.seq, log),
                    };
                }
            }
        });
        self.has_changed |= has_changed && self.freed == Some(batch.head.generation);
        lost
    }

    /// With a gap somewhere, a shard of which nothing came after it may have lost chunks too.
    fn note_missing_tails(&mut self) {
        let text = "a part of the write-ahead log is damaged, and nothing tells whose it was";
        for shard in &mut self.shards {
            shard.pass_last_cut();
            if shard.gaps > 0 && shard.missing.is_empty() {
                shard.missing.push(text.to_owned());
            }
        }
    }
}
