//! How fast the write-ahead log takes records from 16 writers, on a real folder.
//!
//! ```text
//! cargo run --release -p leveret-shell --example wal_rate -- FOLDER RECORD_BYTES SECONDS
//! ```
//! Each writer appends a few records and waits until they are durable, as publishers with a small
//! confirm window do. The last line is JSON: bytes written, seconds, and how many writes (each with
//! one fdatasync) that took.

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

struct Shared {
    logs: Mutex<ShardLogs>,
    gathered: Condvar,
    durable: Condvar,
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
        shards: 1,
        ..Options::default()
    };
    let mut store = recover(&RealDisk::new(), &folders, &options)?;
    for _ in 0..FILES {
        store.wal.supply(store.pool.prepare()?);
    }
    let mut logs = store.shards.remove(0);
    (1..=WRITERS).for_each(|writer| logs.create_log(LogId(writer), LogKind::Durable));
    let shared = Arc::new(Shared {
        logs: Mutex::new(logs),
        gathered: Condvar::new(),
        durable: Condvar::new(),
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
        {
            let mut logs = shared.logs.lock();
            logs.seal(&mut chunks);
            if chunks.is_empty() {
                shared
                    .gathered
                    .wait_for(&mut logs, Duration::from_millis(1));
                continue;
            }
        }
        while !chunks.is_empty() {
            let outcome = store.wal.write(&mut chunks)?;
            (bytes, writes) = (bytes + outcome.bytes, writes + 1);
            let written = outcome.written.iter();
            let written = written.map(|(_, chunk, place)| (*chunk, *place));
            shared.logs.lock().on_durable(written);
            shared.durable.notify_all();
        }
    }
    let elapsed = begun.elapsed().as_secs_f64();
    shared.stop.store(true, Ordering::Relaxed);
    shared.durable.notify_all();
    for writer in writers {
        writer.join().map_err(|_| "a writer panicked")?;
    }
    println!("{{\"bytes\": {bytes}, \"seconds\": {elapsed:.3}, \"writes\": {writes}}}");
    Ok(())
}

fn write(shared: &Shared, log: LogId, record_bytes: usize) {
    let record = vec![0x5A; record_bytes];
    let records = (WINDOW_BYTES / record_bytes).max(1);
    let mut logs = shared.logs.lock();
    while !shared.stop.load(Ordering::Relaxed) {
        for _ in 0..records {
            let body = logs.body(Durability::Durable, &[&record]);
            let index = logs.append(log, body, record_bytes as u32);
            logs.settle(log, index..index + 1, record_bytes as u64);
        }
        let position = logs.position();
        shared.gathered.notify_one();
        while logs.durable_through() < position && !shared.stop.load(Ordering::Relaxed) {
            shared
                .durable
                .wait_for(&mut logs, Duration::from_millis(100));
        }
    }
}
