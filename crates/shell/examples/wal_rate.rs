//! How fast the write-ahead log takes records from 16 writers, on a real folder.
//!
//! ```text
//! cargo run --release -p leveret-shell --example wal_rate -- FOLDER RECORD_BYTES SECONDS
//! ```
//! Each writer appends a few records and waits until they are durable, as publishers with a small
//! confirm window do. There is a shard for each processor, as in a node. The last line is JSON:
//! bytes written, seconds, and how many writes (each with one fdatasync) that took.

use leveret_shell::disk::RealDisk;
use leveret_storage::{Durability, Folders, LogKind, Options, ShardLogs, recover};
use leveret_types::LogId;
use parking_lot::{Condvar, Mutex};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const WRITERS: u64 = 16;
/// Bytes that one writer has on their way at once.
const WINDOW_BYTES: usize = 64 * 1024;
/// Files that are prepared before the clock starts: the run ends with the last of them, for nothing
/// but the log's own writes is to be measured.
const FILES: usize = 24;

/// A shard and its writers, who wait for what they wrote.
struct Shard {
    logs: Mutex<ShardLogs>,
    durable: Condvar,
}

struct Shared {
    shards: Vec<Shard>,
    /// Whether something was appended since the log's thread looked.
    gathered: Mutex<bool>,
    waker: Condvar,
    stop: AtomicBool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, folder, record_bytes, seconds] = arguments.as_slice() else {
        return Err("usage: wal_rate FOLDER RECORD_BYTES SECONDS".into());
    };
    let (record_bytes, seconds): (usize, u64) = (record_bytes.parse()?, seconds.parse()?);
    let folders = Folders::within(Path::new(folder));
    let options = Options {
        uuid: [7; 16],
        shards: std::thread::available_parallelism()?.get().min(16) as u16,
        ..Options::default()
    };
    let mut store = recover(&RealDisk::new(), &folders, &options)?;
    for _ in 0..FILES {
        store.wal.supply(store.pool.prepare()?);
    }
    let shards = store.shards.drain(..).map(|logs| Shard {
        logs: Mutex::new(logs),
        durable: Condvar::new(),
    });
    let shared = Arc::new(Shared {
        shards: shards.collect(),
        gathered: Mutex::new(false),
        waker: Condvar::new(),
        stop: AtomicBool::new(false),
    });
    let writers: Vec<_> = (1..=WRITERS)
        .map(|writer| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || write(&shared, LogId(writer), record_bytes))
        })
        .collect();

    let begun = Instant::now();
    let (mut chunks, mut bytes, mut writes) = (Vec::new(), 0, 0_u64);
    while begun.elapsed() < Duration::from_secs(seconds) && store.wal.prepared_files() > 0 {
        let mut gathered = shared.gathered.lock();
        if !std::mem::take(&mut *gathered) {
            shared
                .waker
                .wait_for(&mut gathered, Duration::from_millis(1));
        }
        drop(gathered);
        for shard in &shared.shards {
            shard.logs.lock().seal(&mut chunks);
        }
        while !chunks.is_empty() {
            let outcome = store.wal.write(&mut chunks)?;
            (bytes, writes) = (bytes + outcome.bytes, writes + 1);
            for (at, shard) in shared.shards.iter().enumerate() {
                let written = outcome.written.iter();
                let ours = written.filter(|(of, ..)| usize::from(*of) == at);
                let ours = ours.map(|(_, chunk, place)| (*chunk, *place));
                shard.logs.lock().on_durable(ours);
                shard.durable.notify_all();
            }
        }
    }
    let elapsed = begun.elapsed().as_secs_f64();
    shared.stop.store(true, Ordering::Relaxed);
    shared.shards.iter().for_each(|shard| {
        shard.durable.notify_all();
    });
    for writer in writers {
        writer.join().map_err(|_| "a writer panicked")?;
    }
    println!("{{\"bytes\": {bytes}, \"seconds\": {elapsed:.3}, \"writes\": {writes}}}");
    Ok(())
}

fn write(shared: &Shared, log: LogId, record_bytes: usize) {
    let record = vec![0x5A; record_bytes];
    let records = (WINDOW_BYTES / record_bytes).max(1);
    let shard = &shared.shards[(log.0 % shared.shards.len() as u64) as usize];
    let mut logs = shard.logs.lock();
    logs.create_log(log, LogKind::Durable);
    while !shared.stop.load(Ordering::Relaxed) {
        for _ in 0..records {
            let body = logs.body(Durability::Durable, &[&record]);
            let index = logs.append(log, body, record_bytes as u32);
            logs.settle(log, index..index + 1, record_bytes as u64);
        }
        let position = logs.position();
        if !std::mem::replace(&mut *shared.gathered.lock(), true) {
            shared.waker.notify_one();
        }
        while logs.durable_through() < position && !shared.stop.load(Ordering::Relaxed) {
            shard
                .durable
                .wait_for(&mut logs, Duration::from_millis(100));
        }
    }
}
