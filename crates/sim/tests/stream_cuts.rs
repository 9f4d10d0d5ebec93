//! What a follower does to its files when it attaches, crashed at every change of the disk: what it
//! keeps beside its chunks is the old or the new, and its log is whole, cut, or cut and gone on
//! with.

#![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

use leveret_sim::file_system::Cut;
use leveret_sim::{Random, SimDisk};
use leveret_storage::StreamFiles;
use leveret_stream::{ChunkHeader, ChunkKind, Epoch, ReplicaState, SharedChunk};
use leveret_types::QueueId;
use std::path::Path;

const STREAM: QueueId = QueueId(3);
const CHUNKS: u64 = 12;

fn chunk(epoch: u64, first_offset: u64) -> SharedChunk {
    let header = ChunkHeader {
        kind: ChunkKind::User,
        entries: 1,
        records: 1,
        timestamp_ms: 1,
        epoch,
        first_offset,
        crc: 0,
        data_bytes: 0,
        trailer_bytes: 0,
        bloom_bytes: 0,
    };
    let entry = [&900_u32.to_be_bytes()[..], &[epoch as u8; 900]].concat();
    SharedChunk::new(header, &[], &entry, &[])
}

fn open(disk: &SimDisk) -> Result<StreamFiles<SimDisk>, String> {
    StreamFiles::open(disk.clone(), Path::new("streams"), 5).map_err(|error| error.to_string())
}

fn state(epoch: u64, cut: Option<u64>) -> ReplicaState {
    ReplicaState {
        promised: Epoch(epoch),
        log_epoch: Epoch(1),
        is_whole: true,
        forgot: false,
        cut,
        damaged: None,
        fenced: None,
        epochs: Vec::new(),
    }
}

/// A log of the first epoch, in segments of five chunks, all of it durable.
fn filled(disk: &SimDisk) {
    let mut files = open(disk).unwrap();
    files.save_replica_state(STREAM, &state(1, None)).unwrap();
    for offset in 0..CHUNKS {
        if offset.is_multiple_of(5) {
            files.begin_segment(STREAM, offset).unwrap();
        }
        files.append(STREAM, &chunk(1, offset), true).unwrap();
        files.sync(STREAM).unwrap();
    }
}

/// Cuts as a follower of the second epoch does, and copies two chunks.
fn attach(disk: &SimDisk, cut: u64) -> Result<(), String> {
    let mut files = open(disk)?;
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    files.recover(STREAM).map_err(|e| failed(&e))?;
    files
        .save_replica_state(STREAM, &state(2, Some(cut)))
        .map_err(|e| failed(&e))?;
    files.cut_and_recover(STREAM, cut).map_err(|e| failed(&e))?;
    files
        .save_replica_state(STREAM, &state(2, None))
        .map_err(|e| failed(&e))?;
    if cut == 0 {
        files.begin_segment(STREAM, 0).map_err(|e| failed(&e))?;
    }
    for offset in cut..cut + 2 {
        files
            .append(STREAM, &chunk(2, offset), true)
            .map_err(|e| failed(&e))?;
        files.sync(STREAM).map_err(|e| failed(&e))?;
    }
    Ok(())
}

/// Starts as a replica does. Starting may crash as well.
fn start(disk: &SimDisk) -> Result<(), String> {
    let mut files = open(disk)?;
    let kept = files
        .replica_state(STREAM)
        .map_err(|e| e.to_string())?
        .unwrap();
    if let Some(cut) = kept.cut {
        files.cut(STREAM, cut).map_err(|e| e.to_string())?;
        let done = ReplicaState { cut: None, ..kept };
        files
            .save_replica_state(STREAM, &done)
            .map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn check(disk: &SimDisk, cut: u64) {
    let mut files = open(disk).unwrap();
    let kept = files.replica_state(STREAM).unwrap().unwrap();
    assert_eq!(kept.cut, None);
    let found = files.recover(STREAM).unwrap();
    assert_eq!(found.damage, [""; 0], "what was cut looks damaged");
    let last = found.recovered.newest.last().map(SharedChunk::header);
    match (kept.promised.0, last) {
        (1, Some(last)) => assert_eq!((last.epoch, last.first_offset), (1, CHUNKS - 1)),
        (2, Some(last)) if last.epoch == 1 => assert_eq!(last.first_offset, cut - 1),
        (2, Some(last)) => assert!((cut..cut + 2).contains(&last.first_offset)),
        (2, None) => assert_eq!(cut, 0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_cut_that_a_crash_interrupts_is_done_or_was_not_begun() {
    for cut in [0, 3, 5, 7, 11] {
        for operation in 0.. {
            let mut random = Random::new(cut << 32 | operation);
            let disk = SimDisk::new();
            filled(&disk);
            disk.crash_at(disk.operations() + operation);
            let attached = attach(&disk, cut);
            assert_eq!(attached.is_err(), disk.is_dead());
            let is_over = attached.is_ok();
            loop {
                match random.below(3) {
                    0 => disk.kill(),
                    1 => disk.power_cut(&mut Cut::LoseAll),
                    _ => disk.power_cut(&mut Cut::Chance(&mut Random::new(operation + 1))),
                }
                if random.below(2) == 0 {
                    disk.crash_at(disk.operations() + random.below(6));
                }
                if start(&disk).is_ok() {
                    break;
                }
                assert!(disk.is_dead(), "a start fails only where it crashes");
            }
            disk.kill();
            check(&disk, cut);
            if is_over {
                break;
            }
        }
    }
}
