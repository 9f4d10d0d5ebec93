//! Freezes the formats: what this version writes is byte for byte what `golden/v3` holds, and what
//! that holds is read, and what earlier versions wrote: they differ in the write-ahead log, as
//! `wal/format.rs` says. `golden/v3_of_no_length` is of version 3 too, from before files that grow
//! said how long they are.
//!
//! `golden/shared` holds a store with blocks of segments that several logs share, of which the
//! others have none; `golden/two_folders` one with segments in both folders, as a checkpoint of
//! version 3 says, and with all else that a checkpoint may tell of a log. Its segments end with the
//! name of the folder that they are in.
//!
//! A change here is a change of format: it needs a new version number, a new folder, and code that
//! reads the old one. `LEVERET_GOLDEN=write cargo test -p leveret-storage --test it golden::`
//! writes the folder anew.

use leveret_storage::{
    Disk, DiskFile, Durability, Folders, LogKind, MemoryDisk, OpenError, Options, Read, Store,
};
use leveret_types::LogId;
use std::io::IoSlice;
use std::path::{Path, PathBuf};

/// A version of each format that is not known yet.
const LATER: u16 = 99;

fn golden(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("golden")
        .join(version)
}

fn folders() -> Folders {
    Folders::within(Path::new("/store"))
}

fn options() -> Options {
    Options {
        uuid: *b"golden uuid v1..",
        shards: 2,
        // A file that is used again holds what was in it before.
        wal_pool_files: 0,
        ..Options::default()
    }
}

/// The folder in which earlier versions of Leveret have all segments.
fn place_all_apart(store: &mut Store<MemoryDisk>) {
    for shard in &mut store.shards {
        (1..=8).for_each(|log| shard.place_apart(LogId(log)));
    }
}

/// A store that was killed with something of everything on its disk.
fn scene() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let (mut store, _) = Store::open(&disk, &folders(), &options()).unwrap();
    let [even, odd] = &mut store.shards[..] else {
        panic!("two shards");
    };
    even.create_log(LogId(2), LogKind::Durable);
    even.create_log(LogId(4), LogKind::Durable);
    odd.create_log(LogId(1), LogKind::Durable);
    for n in 0..5_u8 {
        let body = even.body(Durability::Durable, &[b"even ", &[b'0' + n]]);
        even.append(LogId(2), body, 6);
        even.append(LogId(4), body, 6);
        let body = odd.body(Durability::Durable, &[b"odd ", &[b'0' + n]]);
        odd.append(LogId(1), body, 5);
    }
    even.settle(LogId(2), 1..3, 12);
    even.set_state(LogId(2), b"state of 2");
    odd.set_term_and_vote(LogId(1), 9, 4);
    store.sync().unwrap();
    store.roll();
    place_all_apart(&mut store);
    store.flush().unwrap();
    let [even, odd] = &mut store.shards[..] else {
        panic!("two shards");
    };
    odd.truncate(LogId(1), 3);
    let body = odd.body(Durability::Durable, &[b"odd again"]);
    odd.append(LogId(1), body, 9);
    even.settle(LogId(4), 0..1, 6);
    store.sync().unwrap();
    let even = &mut store.shards[0];
    even.delete_log(LogId(4));
    even.create_log(LogId(6), LogKind::Durable);
    let body = even.body(Durability::Durable, &[b""]);
    even.append(LogId(6), body, 0);
    store.sync().unwrap();
    let [even, odd] = &mut store.shards[..] else {
        panic!("two shards");
    };
    odd.create_log(LogId(3), LogKind::Durable);
    let body = even.body(Durability::Durable, &[b"for both"]);
    even.append(LogId(6), body, 8);
    let shared = even.share(body).unwrap();
    let body = odd.body_again(shared, &[b"for both"]);
    odd.append(LogId(3), body, 8);
    store.sync().unwrap();
    let body = store.shards[1].body_again(shared, &[b"for both"]);
    store.shards[1].append(LogId(3), body, 8);
    store.sync().unwrap();
    store.mark_idle().unwrap();
    disk
}

/// Version 1 had no body in two shards.
fn check_scene(disk: &MemoryDisk, version: &str) {
    let (mut store, report) = Store::open(disk, &folders(), &options()).unwrap();
    assert_eq!(report.notes, Vec::<String>::new());
    let ready = |text: &'static str| Read::Ready(text.into());
    let both = |count| vec![ready("for both"); if version == "v1" { 0 } else { count }];
    let expected = [
        (
            2,
            vec![
                ready("even 0"),
                Read::Gone,
                Read::Gone,
                ready("even 3"),
                ready("even 4"),
            ],
        ),
        (4, vec![Read::Gone; 5]),
        (6, [vec![ready("")], both(1)].concat()),
        (3, both(2)),
        (
            1,
            vec![
                ready("odd 0"),
                ready("odd 1"),
                ready("odd 2"),
                ready("odd again"),
                Read::Gone,
            ],
        ),
    ];
    for (log, entries) in expected {
        for (index, entry) in entries.into_iter().enumerate() {
            assert_eq!(
                store.read(LogId(log), index as u64),
                entry,
                "entry {index} of log {log}"
            );
        }
    }
    assert_eq!(store.shards[0].state(LogId(2)), b"state of 2");
    assert_eq!(store.shards[1].term_and_vote(LogId(1)), Some((9, 4)));
    assert!(!store.shards[0].has_log(LogId(4)));
}

/// The files that have a format, with their bytes.
fn files(disk: &MemoryDisk) -> Vec<(String, Vec<u8>)> {
    let suffixes = [".wal", ".seg", ".checkpoint", "data/leveret.store"];
    let mut paths = disk.paths();
    paths.retain(|path| suffixes.iter().any(|s| path.to_string_lossy().ends_with(s)));
    let read = |path: PathBuf| {
        let mut bytes = Vec::new();
        disk.tamper(&path, |b| bytes.clone_from(b));
        // Zeros behind the last sector of the log are room that was made ahead.
        let end = bytes
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |at| at + 1);
        if path.extension().is_some_and(|extension| extension == "wal") {
            bytes.truncate(end.next_multiple_of(4_096));
        }
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let is_own = path.starts_with(folders().data) && name.ends_with(".seg");
        (if is_own { name + ".data" } else { name }, bytes)
    };
    paths.into_iter().map(read).collect()
}

/// A store whose logs share blocks of a segment.
fn shared_scene() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let (mut store, _) = Store::open(&disk, &folders(), &options()).unwrap();
    let shard = &mut store.shards[0];
    for log in [2, 4, 6] {
        shard.create_log(LogId(log), LogKind::Durable);
    }
    for n in 0..4_u8 {
        let body = shard.body(Durability::Durable, &[&shared_body(n)]);
        for log in [2, 4, 6] {
            shard.append(LogId(log), body, 3_000);
        }
        if n == 1 {
            let own = shard.body(Durability::Durable, &[b"own"]);
            shard.append(LogId(4), own, 3);
        }
    }
    shard.settle(LogId(6), 1..2, 3_000);
    store.sync().unwrap();
    store.roll();
    place_all_apart(&mut store);
    store.flush().unwrap();
    store.mark_idle().unwrap();
    disk
}

fn shared_body(n: u8) -> [u8; 3_000] {
    [b'a' + n; 3_000]
}

fn check_shared_scene(disk: &MemoryDisk) {
    let (mut store, report) = Store::open(disk, &folders(), &options()).unwrap();
    assert_eq!(report.notes, Vec::<String>::new());
    let body = |n| Read::Ready(shared_body(n).to_vec().into());
    let own = Read::Ready("own".into());
    let expected = [
        (2, vec![body(0), body(1), body(2), body(3), Read::Gone]),
        (4, vec![body(0), body(1), own, body(2), body(3), Read::Gone]),
        (6, vec![body(0), Read::Gone, body(2), body(3), Read::Gone]),
    ];
    for (log, entries) in expected {
        for (index, entry) in entries.into_iter().enumerate() {
            let read = store.read(LogId(log), index as u64);
            assert_eq!(read, entry, "entry {index} of log {log}");
        }
    }
}

/// A store whose segments lie in both folders, one log of which is damaged.
fn scene_of_two_folders() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let (mut store, _) = Store::open(&disk, &folders(), &options()).unwrap();
    for log in [2, 4] {
        let shard = &mut store.shards[0];
        shard.create_log(LogId(log), LogKind::Durable);
        for n in 0..6_u8 {
            let body = shard.body(
                Durability::Durable,
                &[b"log ", &[b'0' + log as u8, b'a' + n]],
            );
            shard.append(LogId(log), body, 6);
        }
    }
    store.sync().unwrap();
    store.mark_idle().unwrap();
    drop(store);
    for path in disk.paths() {
        disk.tamper(&path, |bytes| {
            if let Some(at) = bytes.windows(6).position(|text| text == b"log 4c") {
                bytes[at] ^= 1;
            }
        });
    }
    let (mut store, _) = Store::open(&disk, &folders(), &options()).unwrap();
    let shard = &mut store.shards[0];
    shard.place_apart(LogId(4));
    shard.settle(LogId(2), 1..3, 12);
    shard.set_state(LogId(2), b"state of 2");
    shard.set_term_and_vote(LogId(4), 7, 3);
    store.sync().unwrap();
    store.roll();
    store.flush().unwrap();
    store.shards[0].truncate(LogId(2), 5);
    store.checkpoint().unwrap();
    disk
}

fn check_scene_of_two_folders(disk: &MemoryDisk) {
    let (mut store, report) = Store::open(disk, &folders(), &options()).unwrap();
    assert_eq!(report.notes, Vec::<String>::new());
    let ready = |text: &'static str| Read::Ready(text.into());
    let (read, gone) = (["log 2a", "log 2d", "log 2e"].map(ready), Read::Gone);
    let [first, fourth, fifth] = read;
    let expected = [
        first,
        gone.clone(),
        gone.clone(),
        fourth,
        fifth,
        gone.clone(),
    ];
    for (index, entry) in (0..).zip(expected) {
        assert_eq!(store.read(LogId(2), index), entry, "entry {index}");
    }
    for (index, text) in (0..).zip(["log 4a", "log 4b", "", "log 4d", "log 4e", "log 4f"]) {
        match store.read(LogId(4), index) {
            Read::Damaged(_) => assert_eq!(index, 2),
            read => assert_eq!(read, ready(text), "entry {index}"),
        }
    }
    let shard = &store.shards[0];
    assert_eq!(shard.damage(LogId(2)), None);
    let damage = shard.damage(LogId(4)).expect("it is told");
    assert_eq!((damage.lost.first(), damage.lost.len()), (Some(2), 1));
    assert!(!damage.notes.is_empty());
    assert_eq!(shard.state(LogId(2)), b"state of 2");
    assert_eq!(shard.term_and_vote(LogId(4)), Some((7, 3)));
    let next = |log| shard.log_stats(LogId(log)).map(|stats| stats.next_index);
    assert_eq!([next(2), next(4)], [Some(5), Some(6)]);
    assert_eq!(shard.stats().segment_files, 2);
}

fn check_frozen(name: &str, files: Vec<(String, Vec<u8>)>) {
    if std::env::var_os("LEVERET_GOLDEN").is_some() {
        std::fs::create_dir_all(golden(name)).unwrap();
        for (file, bytes) in &files {
            std::fs::write(golden(name).join(file), bytes).unwrap();
        }
    }
    for (file, bytes) in files {
        let frozen = std::fs::read(golden(name).join(&file)).unwrap();
        assert!(bytes == frozen, "the format of {file} has changed");
    }
}

#[test]
fn what_is_written_is_what_the_golden_files_hold() {
    let files = files(&scene());
    assert_eq!(
        files.len(),
        5,
        "identity, checkpoint, two segments, a log file"
    );
    check_frozen("v3", files);
}

#[test]
fn shared_blocks_are_written_and_read_as_the_golden_files_hold_them() {
    let files = files(&shared_scene());
    assert!(files.iter().any(|(name, _)| name.ends_with(".seg")));
    check_frozen("shared", files);
    check_shared_scene(&shared_scene());
    check_shared_scene(&put_on_disk("shared"));
}

#[test]
fn a_checkpoint_of_two_folders_is_written_and_read_as_the_golden_files_hold_it() {
    let files = files(&scene_of_two_folders());
    let checkpoint = files.iter().find(|(name, _)| name.ends_with(".checkpoint"));
    assert_eq!(checkpoint.expect("it is there").1[8..10], [3, 0]);
    let segments = files.iter().filter(|(name, _)| name.contains(".seg"));
    assert_eq!(segments.count(), 2, "{:?}", files.iter().map(|f| &f.0));
    check_frozen("two_folders", files);
    check_scene_of_two_folders(&scene_of_two_folders());
    check_scene_of_two_folders(&put_on_disk("two_folders"));
}

#[test]
fn what_the_golden_files_hold_is_read() {
    for version in ["v1", "v2", "v3_of_no_length", "v3"] {
        check_scene(&put_on_disk(version), version);
    }
}

/// A file of a version that is not known yet, made of one of this version: its version is greater,
/// and what protects its head fits.
fn of_a_later_version(name: &str, bytes: &mut [u8]) {
    let number =
        |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let seed = |salt: u64, identity: &[u64]| {
        let salted = crc32c::crc32c(&salt.to_le_bytes());
        let append = |crc, number: &u64| crc32c::crc32c_append(crc, &number.to_le_bytes());
        identity.iter().fold(salted, append)
    };
    let later = u64::from(LATER);
    if name.ends_with(".wal") {
        bytes[8..10].copy_from_slice(&LATER.to_le_bytes());
        let crc = seed(number(bytes, 16), &[later, number(bytes, 24)]);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        return;
    }
    let copy_bytes = bytes.len() / 2;
    for copy in bytes.chunks_exact_mut(copy_bytes) {
        copy[8..10].copy_from_slice(&LATER.to_le_bytes());
        match name.ends_with(".checkpoint") {
            true => {
                let salted = seed(number(copy, 24), &[later]);
                let crc = crc32c::crc32c_append(salted, &copy[16..]);
                copy[12..16].copy_from_slice(&crc.to_le_bytes());
            }
            false => {
                let end = copy_bytes - 4;
                let crc = crc32c::crc32c(&copy[..end]);
                copy[end..].copy_from_slice(&crc.to_le_bytes());
            }
        }
    }
}

#[test]
fn a_file_of_a_later_version_is_refused_by_name() {
    for suffix in [".wal", ".checkpoint", "leveret.store"] {
        let disk = put_on_disk("v3");
        let mut changed = disk.paths();
        changed.retain(|path| path.to_string_lossy().ends_with(suffix));
        for path in &changed {
            disk.tamper(path, |bytes| of_a_later_version(suffix, bytes));
        }
        let refused = Store::open(&disk, &folders(), &options()).err();
        let Some(OpenError::Newer { path, version }) = refused else {
            panic!("{suffix}: {refused:?}");
        };
        assert_eq!(version, LATER);
        assert!(changed.contains(&path), "{}", path.display());
    }
}

fn put_on_disk(version: &str) -> MemoryDisk {
    let disk = MemoryDisk::new();
    let folders = folders();
    for entry in std::fs::read_dir(golden(version)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let to = match path.extension().and_then(|e| e.to_str()) {
            Some("wal") => vec![&folders.wal],
            Some("seg") => vec![&folders.segment],
            Some("checkpoint" | "data") => vec![&folders.data],
            _ => vec![&folders.data, &folders.segment, &folders.wal],
        };
        let name = name.trim_end_matches(".data");
        let mut bytes = std::fs::read(&path).unwrap();
        if name.ends_with(".wal") {
            // The room behind the last batch is not kept.
            let least = u64::from_le_bytes(bytes[32..40].try_into().unwrap());
            bytes.resize(bytes.len().max(least as usize), 0);
        }
        for folder in to {
            let file = disk.create_new(&folder.join(name)).unwrap();
            file.write_at(&[IoSlice::new(&bytes)], 0).unwrap();
        }
    }
    disk
}

#[test]
fn the_scene_is_what_it_says() {
    check_scene(&scene(), "v3");
}
