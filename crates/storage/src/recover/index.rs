//! The index of a segment file: which blocks of which logs it holds, as its footer says. Apart
//! because it needs the file and nothing else of the store.

use super::RecoveryReport;
use crate::disk::{Disk, DiskFile, read_exact};
use crate::folders::Folders;
use crate::id::FileId;
use crate::log::Block;
use crate::segment;
use crate::segment::format::{HEADER_BYTES, LogBlock};

/// Reads a segment file's index: its footer, or if that is damaged, the heads of all its blocks.
pub(crate) fn read_index<D: Disk>(
    disk: &D,
    folders: &Folders,
    salt: u64,
    file: FileId,
    bytes: u64,
    report: &mut RecoveryReport,
) -> (u64, Vec<LogBlock>) {
    let name = segment::format::file_name(file);
    let open = match folders.segments().open(disk, file) {
        Ok(open) => open,
        Err(error) => {
            report.notes.push(format!("segment file {name}: {error}"));
            return (bytes, Vec::new());
        }
    };
    let footer = read_footer(&open, salt, file, bytes);
    let blocks = footer.unwrap_or_else(|| {
        report.notes.push(format!(
            "the index of segment file {name} is damaged: rebuilt"
        ));
        rebuild_index(&open, salt, file, bytes)
    });
    (bytes, blocks)
}

fn read_footer(file: &impl DiskFile, salt: u64, id: FileId, bytes: u64) -> Option<Vec<LogBlock>> {
    use segment::format::{FOOTER_END_BYTES, decode_footer, footer_len};
    let end = read_exact(
        file,
        bytes.checked_sub(FOOTER_END_BYTES as u64)?,
        FOOTER_END_BYTES,
    );
    let len = footer_len(&end.ok()?, id)?;
    let footer = read_exact(file, bytes.checked_sub(len)?, usize::try_from(len).ok()?);
    decode_footer(&footer.ok()?, salt, id)
}

/// Bytes read at once while looking for the next block.
const SEARCH_BYTES: u64 = 64 * 1024;

/// Finds the blocks of a file one after the other; a damaged head hides only its own block, if
/// another is found behind it.
fn rebuild_index(file: &impl DiskFile, salt: u64, id: FileId, bytes: u64) -> Vec<LogBlock> {
    use segment::format::{BLOCK_HEADER_BYTES, decode_block, peek_block, verify_block_head};
    use segment::shared::decode_references;
    let header_bytes = BLOCK_HEADER_BYTES as u64;
    let end = file.len().map_or(bytes, |len| len.min(bytes));
    let mut blocks = Vec::new();
    // The shared block behind which the references to it are looked for.
    let mut shared = None;
    let mut at = HEADER_BYTES as u64;
    // What was read ahead, so that a long stretch without a block is not read byte by byte: only
    // up to here, where a part of it cannot be read.
    let (mut ahead, mut start, mut slow_until) = (Vec::new(), at, at);
    while at + header_bytes <= end {
        if at + header_bytes > start + ahead.len() as u64 {
            let slow = at < slow_until;
            let len = if slow { header_bytes } else { SEARCH_BYTES };
            let read = read_exact(file, at, (end - at).min(len) as usize);
            if read.is_err() && !slow {
                slow_until = at + SEARCH_BYTES;
                continue;
            }
            (ahead, start) = (read.unwrap_or_default(), at);
        }
        let header = ahead
            .get((at - start) as usize..)
            .and_then(peek_block)
            .filter(|h| at + h.len() <= bytes)
            .and_then(|h| read_exact(file, at, h.head_len() as usize).ok())
            .and_then(|head| verify_block_head(&head, salt, id, at as u32));
        let Some(header) = header else {
            at += 1;
            continue;
        };
        let found = LogBlock {
            log: header.log,
            volatile: header.is_volatile(),
            block: Block {
                first_index: header.first_index,
                last_index: header.last_index,
                file: id,
                offset: at as u32,
                len: header.len() as u32,
                count: header.entries,
                live: 0,
                shared_from: None,
            },
        };
        if header.is_references() {
            let shared = shared
                .take()
                .filter(|s: &LogBlock| u64::from(s.block.offset) == header.first_index);
            let payload = read_exact(file, at, header.len() as usize);
            let block = payload.ok().filter(|_| shared.is_some());
            let block = block.and_then(|b| {
                let (_, spans) = decode_block(&b, salt, id, at as u32)?;
                let span = spans.first().filter(|span| span.sound)?;
                Some(b[span.range()].to_vec())
            });
            if let (Some(shared), Some(payload)) = (shared, block) {
                blocks.extend(decode_references(&payload, &shared));
            }
        } else if header.is_shared() {
            shared = Some(found);
        } else {
            blocks.push(found);
        }
        at += header.len();
    }
    blocks
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

    use super::{LogBlock, SEARCH_BYTES, read_index, rebuild_index};
    use crate::disk::{Disk, DiskFile, MemoryDisk};
    use crate::folders::Folders;
    use crate::recover::RecoveryReport;
    use crate::segment::format::{BlockBuilder, HEADER_BYTES, encode_header, file_name};
    use leveret_types::LogId;
    use std::io::{self, IoSlice};
    use std::ops::Range;
    use std::path::Path;

    /// The index of a file without a footer, and how many bytes were read to find it.
    fn searched(bytes: &[u8]) -> (Vec<LogBlock>, u64) {
        let disk = MemoryDisk::new();
        let folders = Folders::within(Path::new("/store"));
        let file = disk.create_new(&folders.segment.join(file_name(3)));
        file.unwrap().write_at(&[IoSlice::new(bytes)], 0).unwrap();
        let mut report = RecoveryReport::default();
        let (_, blocks) = read_index(&disk, &folders, 7, 3, bytes.len() as u64, &mut report);
        (blocks, disk.counts().read_bytes)
    }

    #[test]
    fn a_long_stretch_without_a_block_is_read_once() {
        let mut bytes = encode_header(7, 3, 1);
        bytes.resize(256 * 1024, 0);
        let (blocks, read) = searched(&bytes);
        assert!(blocks.is_empty());
        assert!(read < 2 * bytes.len() as u64, "{read}");
    }

    #[test]
    fn blocks_are_found_wherever_they_begin() {
        let around = SEARCH_BYTES as usize - 60..SEARCH_BYTES as usize + 20;
        for zeros in (0..3).chain(around) {
            let mut bytes = encode_header(7, 3, 1);
            bytes.resize(HEADER_BYTES + zeros, 0);
            let mut expected = Vec::new();
            for index in 0..3 {
                let mut builder = BlockBuilder::default();
                builder.push(index, b"payload");
                let at = bytes.len() as u32;
                let (head, payload, block) = builder.encode(7, 3, (LogId(11), 0), at);
                bytes.extend([&head, payload].concat());
                expected.push(block);
            }
            assert_eq!(searched(&bytes).0, expected, "behind {zeros} zeros");
        }
    }

    /// A file of which a drive cannot read some bytes.
    struct Worn {
        bytes: Vec<u8>,
        worn: Range<u64>,
    }

    impl DiskFile for Worn {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            let all = &self.bytes[offset as usize..];
            let len = all.len().min(buffer.len());
            if offset < self.worn.end && self.worn.start < offset + len as u64 {
                return Err(io::ErrorKind::Other.into());
            }
            buffer[..len].copy_from_slice(&all[..len]);
            Ok(len)
        }

        fn write_at(&self, _: &[IoSlice<'_>], _: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn sync_data(&self) -> io::Result<()> {
            Ok(())
        }

        fn len(&self) -> io::Result<u64> {
            Ok(self.bytes.len() as u64)
        }
    }

    #[test]
    fn blocks_are_found_around_bytes_that_cannot_be_read() {
        let mut bytes = encode_header(7, 3, 1);
        let mut expected = Vec::new();
        for index in 0..3 {
            let mut builder = BlockBuilder::default();
            builder.push(index, b"payload");
            let at = bytes.len() as u32;
            let (head, payload, block) = builder.encode(7, 3, (LogId(11), 0), at);
            bytes.extend([&head, payload].concat());
            bytes.resize(bytes.len() + 200, 0);
            expected.push((at, block));
        }
        let worn = u64::from(expected[1].0);
        let file = Worn {
            bytes,
            worn: worn..worn + 1,
        };
        let found = rebuild_index(&file, 7, 3, file.bytes.len() as u64);
        assert_eq!(found, [expected[0].1, expected[2].1]);
    }
}
