//! Starts on files that were changed: flipped, cut, zeroed, copied and swapped sectors. What is
//! found must be the whole, or a prefix, or reported.

use crate::SimDisk;
use crate::check::Tolerance;
use crate::file_system::FileSystem;
use crate::model::Model;
use crate::world::{Refused, World, open_checked};
use leveret_storage::OpenError;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Stores to be changed.
const WORLDS: u64 = 6;
/// Changes to one store at most.
const CHANGES_MAX: usize = 6;
const SECTOR: usize = 512;

/// Stores at rest, in which everything is durable and known to be, and what they must hold.
fn worlds() -> &'static [(FileSystem, Model)] {
    static WORLD: OnceLock<Vec<(FileSystem, Model)>> = OnceLock::new();
    WORLD.get_or_init(|| (0..WORLDS).map(world).collect())
}

fn world(seed: u64) -> (FileSystem, Model) {
    let mut world = World::new(seed);
    world.model.remember();
    let ran = (0..80 + seed * 70).try_for_each(|_| world.step());
    let rests = ran
        .and_then(|()| world.sync())
        .and_then(|()| world.mark_idle());
    assert!(rests.is_ok(), "a world without faults: {rests:?}");
    let (disk, model) = world.into_parts();
    (disk.files(), model)
}

/// `input` is the store to take, and eight bytes for each change: kind, file, two places and a
/// length.
///
/// # Panics
/// If something is invented, or lost without a word.
pub fn changed_files(input: &[u8], suffixes: &[&str]) {
    let Some((world, changes)) = input.split_first() else {
        return;
    };
    let (files, model) = &worlds()[usize::from(*world) % WORLDS as usize];
    let disk = SimDisk::with(files.clone());
    let named = |path: &PathBuf| {
        path.extension()
            .is_some_and(|e| suffixes.iter().any(|suffix| e == *suffix))
    };
    let paths: Vec<PathBuf> = disk.paths().into_iter().filter(named).collect();
    if paths.is_empty() {
        return;
    }
    for change in changes.chunks_exact(8).take(CHANGES_MAX) {
        apply(&disk, &paths, change);
    }
    match open_checked(&disk, &mut model.clone(), Tolerance::Prefix) {
        Ok(_) => {}
        Err(Refused::Violation(violation)) => panic!("{violation}"),
        Err(Refused::Open(error)) => assert!(may_refuse(&error, suffixes), "{error}"),
    }
}

/// Without an identity or a checkpoint there is nothing to begin with; damage to anything else
/// concerns the logs that it hits.
fn may_refuse(error: &OpenError, suffixes: &[&str]) -> bool {
    let vital = suffixes.contains(&"checkpoint") || suffixes.contains(&"store");
    vital || matches!(error, OpenError::Newer { .. })
}

/// One change, as its eight bytes say.
pub(super) fn apply(disk: &SimDisk, paths: &[PathBuf], change: &[u8]) {
    let path = &paths[usize::from(change[1]) % paths.len()];
    let other = &paths[usize::from(change[6]) % paths.len()];
    let place = |at: usize| usize::from(u16::from_le_bytes([change[at], change[at + 1]]));
    let (a, b, len) = (place(2), place(4), usize::from(change[7]) + 1);
    let foreign = disk.read(other).unwrap_or_default();
    disk.tamper(path, |bytes| {
        if bytes.is_empty() {
            return;
        }
        let sectors = bytes.len().div_ceil(SECTOR);
        let range = |sector: usize| {
            let start = sector % sectors * SECTOR;
            start..(start + SECTOR).min(bytes.len())
        };
        let (from, to, at) = (range(a), range(b), a % bytes.len());
        let end = (at + len).min(bytes.len());
        match change[0] % 8 {
            0 | 1 => bytes[at] ^= 1 << (len & 7),
            2 => bytes[at..end].fill(0),
            3 => bytes.truncate(at),
            4 => {
                let piece = bytes[from].to_vec();
                let len = piece.len().min(to.len());
                bytes[to.start..to.start + len].copy_from_slice(&piece[..len]);
            }
            5 => {
                for (x, y) in from.zip(to) {
                    bytes.swap(x, y);
                }
            }
            6 => bytes.extend(std::iter::repeat_n(change[2], len)),
            // A sector of another file lands here.
            _ => {
                if let Some(piece) = foreign.get(from) {
                    let len = piece.len().min(to.len());
                    bytes[to.start..to.start + len].copy_from_slice(&piece[..len]);
                }
            }
        }
    });
}
