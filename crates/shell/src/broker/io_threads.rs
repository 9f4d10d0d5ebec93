//! The ways to the IO threads: an inbox each, and the news that something became durable.

use super::thread_of;
use crate::inbox::Inbox;
use crate::io_thread::ThreadEvent;
use crate::news::DurableNews;
use leveret_queue_host::events::QueueEvent;
use leveret_types::ConnectionId;
use std::sync::Arc;

/// See the module's description.
pub(super) struct IoThreads {
    pub(super) inboxes: Arc<[Inbox<ThreadEvent>]>,
    pub(super) news: DurableNews,
}

impl IoThreads {
    pub(super) fn new(inboxes: Vec<Inbox<ThreadEvent>>) -> Self {
        Self {
            news: DurableNews::new(inboxes.len()),
            inboxes: inboxes.into(),
        }
    }

    /// Posts events of queues to the inboxes of their connections' threads, and wakes nobody;
    /// answers which threads, as bits.
    pub(super) fn post(&self, posts: &mut Vec<(ConnectionId, QueueEvent)>) -> u64 {
        let mut threads = 0;
        let mut posts = posts.drain(..).peekable();
        while let Some((first, event)) = posts.next() {
            let thread = thread_of(first);
            threads |= 1 << thread;
            let more = std::iter::from_fn(|| posts.next_if(|(next, _)| thread_of(*next) == thread));
            let run = std::iter::once((first, event)).chain(more);
            self.inboxes[thread]
                .post(run.map(|(id, event)| ThreadEvent::Connection(id, event.into())));
        }
        threads
    }

    /// Posts an event to every thread.
    pub(super) fn broadcast(&self, mut event: impl FnMut() -> ThreadEvent) {
        for inbox in self.inboxes.iter() {
            inbox.post([event()]);
            inbox.ring();
        }
    }

    /// Wakes these threads, as bits.
    pub(super) fn ring(&self, mut threads: u64) {
        while threads != 0 {
            let thread = threads.trailing_zeros() as usize;
            threads &= threads - 1;
            self.inboxes[thread].ring();
        }
    }
}
