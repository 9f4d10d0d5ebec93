//! A sync fails and the process ends. The next one finds in memory what the disk never got, and no
//! later sync writes it: it must not build on that.

use leveret_sim::disk::{Call, Fault, SimDisk};
use leveret_sim::file_system::Cut;
use leveret_storage::StreamFiles;
use leveret_storage::{Durability, Folders, LogKind, Options, Read, RecoveryReport, Store};
use leveret_stream::{ChunkHeader, ChunkKind, Seek, SharedChunk};
use leveret_types::limits::STREAM_FILES_OPEN_MAX;
use leveret_types::{LogId, QueueId};
use std::io::ErrorKind;
use std::path::Path;

const LOG: LogId = LogId(1);

fn open(disk: &SimDisk) -> (Store<SimDisk>, RecoveryReport) {
    let options = Options {
        uuid: [7; 16],
        wal_file_bytes: 64 * 1024,
        ..Options::default()
    };
    let folders = Folders::within(Path::new("/store"));
    Store::open(disk, &folders, &options).unwrap_or_else(|error| panic!("{error}"))
}

fn append(store: &mut Store<SimDisk>, count: u64) {
    let shard = &mut store.shards[0];
    if !shard.has_log(LOG) {
        shard.create_log(LOG, LogKind::Durable);
    }
    for _ in 0..count {
        let body = shard.body(Durability::Durable, &[b"what was confirmed"]);
        shard.append(LOG, body, 18);
    }
}

/// Files are prepared, written, flushed and recycled, as far as the disk lets them.
fn work(store: &mut Store<SimDisk>) -> Option<u64> {
    append(store, 3);
    store.sync().ok()?;
    store.roll();
    store.flush().ok()?;
    store.prepare(2).ok()?;
    append(store, 2);
    store.sync().ok()?;
    Some(5)
}

#[test]
fn files_whose_sync_failed_are_none_that_the_next_start_uses() {
    for nth in 0.. {
        let disk = SimDisk::new();
        let (mut store, _) = open(&disk);
        disk.set_fault(Some(Fault {
            call: Call::Sync,
            nth,
            kind: ErrorKind::Other,
            sticky: false,
        }));
        let done = work(&mut store);
        let has_failed = disk.fault_fired();
        drop(store);
        disk.kill();

        // The process starts again, on what is in memory, and goes through all files that there
        // are.
        let (mut store, _) = open(&disk);
        let before = store.shards[0]
            .log_stats(LOG)
            .map_or(0, |stats| stats.next_index);
        for _ in 0..4 {
            append(&mut store, 1);
            store.sync().expect("nothing fails any more");
            store.roll();
        }
        drop(store);
        disk.power_cut(&mut Cut::LoseAll);

        let (mut store, report) = open(&disk);
        assert_eq!(report.notes, [""; 0], "sync {nth} failed");
        let damaged = store.found.iter().find_map(|log| log.damage.clone());
        assert!(damaged.is_none(), "sync {nth} failed: {damaged:?}");
        for index in 0..before + 4 {
            let read = store.read(LOG, index);
            assert!(
                matches!(read, Read::Ready(_)),
                "sync {nth} failed: {read:?}"
            );
        }
        if !has_failed {
            assert_eq!(done, Some(5));
            assert!(nth > 6, "{nth} syncs are made");
            return;
        }
    }
}

fn chunk(first_offset: u64) -> SharedChunk {
    let header = ChunkHeader {
        kind: ChunkKind::User,
        entries: 1,
        records: 1,
        timestamp_ms: 1,
        epoch: 1,
        first_offset,
        crc: 0,
        data_bytes: 0,
        trailer_bytes: 0,
        bloom_bytes: 0,
    };
    let entry = [&700_u32.to_be_bytes()[..], &[first_offset as u8; 700]].concat();
    SharedChunk::new(header, &[], &entry, &[])
}

fn fail_next_sync(disk: &SimDisk) {
    disk.set_fault(Some(Fault {
        call: Call::Sync,
        nth: 0,
        kind: ErrorKind::Other,
        sticky: false,
    }));
}

fn open_streams(disk: &SimDisk) -> StreamFiles<SimDisk> {
    let files = StreamFiles::open(disk.clone(), Path::new("/streams"), 5);
    files.unwrap_or_else(|error| panic!("{error}"))
}

fn newest(files: &mut StreamFiles<SimDisk>, stream: QueueId) -> Option<u64> {
    let found = files.recover(stream).expect("its files are sound");
    let last = found.recovered.newest.last();
    last.map(|chunk| chunk.header().first_offset)
}

#[test]
fn what_a_stream_has_beyond_a_failed_sync_is_written_again_by_the_next_start() {
    const STREAM: QueueId = QueueId(1);
    for synced in [0, 3] {
        let disk = SimDisk::new();
        let mut files = open_streams(&disk);
        files.begin_segment(STREAM, 0).expect("there is room");
        for offset in 0..synced {
            files
                .append(STREAM, &chunk(offset), true)
                .expect("there is room");
            files.sync(STREAM).expect("nothing fails yet");
        }
        files
            .append(STREAM, &chunk(synced), true)
            .expect("there is room");
        fail_next_sync(&disk);
        assert!(files.sync(STREAM).is_err());
        drop(files);
        disk.kill();

        let mut files = open_streams(&disk);
        assert_eq!(
            newest(&mut files, STREAM),
            Some(synced),
            "the kernel still has it"
        );
        files
            .write_tail_again(STREAM)
            .expect("nothing fails any more");
        drop(files);
        disk.power_cut(&mut Cut::LoseAll);

        let mut files = open_streams(&disk);
        assert_eq!(
            newest(&mut files, STREAM),
            Some(synced),
            "what a start has found is on the disk"
        );
    }
}

/// Another stream's read had its file closed.
#[test]
fn a_sync_that_fails_as_a_file_is_closed_ends_the_process_before_the_next_confirm() {
    let disk = SimDisk::new();
    let mut files = open_streams(&disk);
    let streams: Vec<QueueId> = (0..=STREAM_FILES_OPEN_MAX as u64).map(QueueId).collect();
    for stream in &streams {
        files.begin_segment(*stream, 0).expect("there is room");
        files
            .append(*stream, &chunk(0), true)
            .expect("there is room");
    }
    fail_next_sync(&disk);
    let read = files.read(streams[0], 0, Seek::Offset(0), u64::MAX, 1);
    assert!(
        read.is_err(),
        "its file was closed, and all others wait for a sync"
    );
    assert!(files.sync_together(&[]).is_err());
}
