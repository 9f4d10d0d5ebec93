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
    let open = match disk.open(&folders.segment.join(&name)) {
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

/// Finds the blocks of a file one after the other; a damaged head hides only its own block, if
/// another is found behind it.
fn rebuild_index(file: &impl DiskFile, salt: u64, id: FileId, bytes: u64) -> Vec<LogBlock> {
    use segment::format::{BLOCK_HEADER_BYTES, peek_block, verify_block_head};
    let mut blocks = Vec::new();
    let mut at = HEADER_BYTES as u64;
    let mut buffer = vec![0; BLOCK_HEADER_BYTES];
    while at + BLOCK_HEADER_BYTES as u64 <= bytes {
        let header = file
            .read_at(&mut buffer, at)
            .ok()
            .and_then(|_| peek_block(&buffer))
            .filter(|h| at + h.len() <= bytes)
            .and_then(|h| read_exact(file, at, h.head_len() as usize).ok())
            .and_then(|head| verify_block_head(&head, salt, id, at as u32));
        let Some(header) = header else {
            at += 1;
            continue;
        };
        blocks.push(LogBlock {
            log: header.log,
            volatile: header.volatile,
            block: Block {
                first_index: header.first_index,
                last_index: header.last_index,
                file: id,
                offset: at as u32,
                len: header.len() as u32,
                count: header.entries,
                live: 0,
            },
        });
        at += header.len();
    }
    blocks
}
