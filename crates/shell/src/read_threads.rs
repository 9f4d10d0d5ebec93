//! Threads that read messages back from disk, so that nobody else waits for it.

use crate::broker::Broker;
use leveret_cluster::{BorrowedShard as _, Env};
use leveret_storage::{Disk, ReadRequest, Reader};
use leveret_types::ShardId;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// Reader threads of a node.
pub const READERS: usize = 2;

/// Reads until nobody can ask any more.
pub fn run<D: Disk>(
    broker: &Broker,
    mut reader: Reader<D>,
    requests: &Arc<Mutex<Receiver<ReadRequest>>>,
) {
    loop {
        let request = requests.lock().recv();
        let Ok(request) = request else { return };
        let shard = ShardId(u16::from(request.shard()));
        let loaded = reader.read(request);
        let now = broker.now();
        {
            let mut shard = broker.shard(shard);
            let logs = shard.logs.loaded(loaded);
            shard.loaded(now, logs);
            shard.let_go(now);
        }
        broker.run_deferred(now);
        broker.progress.tell();
    }
}
