//! A borrowed shard.

use super::{Broker, ShardCell, thread_of};
use crate::bells::Bells;
use crate::io_thread::ThreadEvent;
use leveret_node::ConnectionEvent;
use leveret_node::shard::Shard;
use leveret_storage::Urgency;
use leveret_types::ConnectionId;
use parking_lot::MutexGuard;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;

/// A locked shard. Letting it go carries its effects out.
pub struct ShardGuard<'a> {
    pub(super) broker: &'a Broker,
    pub(super) cell: &'a ShardCell,
    pub(super) guard: Option<MutexGuard<'a, Shard>>,
}

impl Deref for ShardGuard<'_> {
    type Target = Shard;

    fn deref(&self) -> &Shard {
        self.guard.as_ref().expect("locked until dropped")
    }
}

impl DerefMut for ShardGuard<'_> {
    fn deref_mut(&mut self) -> &mut Shard {
        self.guard.as_mut().expect("locked until dropped")
    }
}

impl Drop for ShardGuard<'_> {
    fn drop(&mut self) {
        let Some(mut shard) = self.guard.take() else {
            return;
        };
        let broker = self.broker;
        // Posted under the shard's lock: deliveries of one queue reach a connection in the order in
        // which the queue made them.
        let rung = post(broker, &mut shard.effects.posts);
        let sends = !shard.effects.peer.is_empty()
            && broker.cluster_links.post(shard.effects.peer.drain(..));
        let refused = broker.say_for_queues(&mut shard.effects.streams);
        if !shard.effects.deferred.is_empty() {
            broker.deferred.lock().append(&mut shard.effects.deferred);
            broker.deferred_waiting.store(true, Ordering::Release);
        }
        if shard.logs.has_reads() {
            for request in shard.logs.take_reads() {
                // The readers end only with the process.
                let _ = broker.reads.send(request);
            }
        }
        let wants_write = shard.wants_write();
        let wants_soon = shard.wants_write_soon();
        let lazy = !wants_write && shard.urgency() == Urgency::Lazy;
        let page_out = shard.logs.wants_page_out();
        self.cell
            .backlog_bytes
            .store(shard.logs.gathered_bytes(), Ordering::Relaxed);
        broker.lower_deadline(self.cell, shard.next_deadline_ms());
        drop(shard);
        if page_out {
            broker.segments.notify();
        }
        broker.ring(Bells {
            io_threads: rung,
            links: sends,
            wal: wants_write,
            wal_soon: wants_soon,
            wal_lazily: lazy,
        });
        broker.tell_sessions(refused);
    }
}

/// Posts events to the inboxes of their connections' threads; answers which threads, as bits.
fn post(broker: &Broker, posts: &mut Vec<(ConnectionId, ConnectionEvent)>) -> u64 {
    let mut threads = 0;
    let mut posts = posts.drain(..).peekable();
    while let Some((first, event)) = posts.next() {
        let thread = thread_of(first);
        threads |= 1 << thread;
        let more = std::iter::from_fn(|| posts.next_if(|(next, _)| thread_of(*next) == thread));
        let run = std::iter::once((first, event)).chain(more);
        broker.inboxes[thread].post(run.map(|(id, event)| ThreadEvent::Connection(id, event)));
    }
    threads
}
