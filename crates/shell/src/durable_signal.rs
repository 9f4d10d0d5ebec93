//! What the write-ahead log's thread tells the threads that wait until something is durable.

use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// The news for all of them.
///
/// A thread reads [`Self::epoch`], looks how far everything is durable, and [asks](Self::ask) to
/// hear of more. Whatever becomes durable after its look is told to it, or counts as told already.
pub struct DurableSignal {
    /// Grows whenever something became durable.
    epoch: AtomicU64,
    threads: Box<[ThreadNews]>,
}

/// What one thread and the write-ahead log's tell each other. Swaps alone change it, so that both
/// have one order.
#[derive(Default)]
struct ThreadNews {
    wanted: AtomicBool,
    come: AtomicBool,
}

impl DurableSignal {
    /// No news yet for so many threads.
    pub fn new(threads: usize) -> Self {
        Self {
            epoch: AtomicU64::new(0),
            threads: (0..threads).map(|_| ThreadNews::default()).collect(),
        }
    }

    /// A number that grows whenever something became durable.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// A thread wants to hear when something becomes durable. `epoch` is from before it looked how
    /// far that is: if it has grown since, the news are there already, or about to come.
    pub fn ask(&self, thread: usize, epoch: u64) {
        let news = &self.threads[thread];
        news.wanted.swap(true, Ordering::SeqCst);
        // Taken back, unless it is being answered: the thread would be told twice, and does not
        // sleep while there are news that it does not want any more.
        if self.epoch() != epoch && news.wanted.swap(false, Ordering::SeqCst) {
            news.come.swap(true, Ordering::AcqRel);
        }
    }

    /// Something became durable: wakes, by `ring`, the threads that asked.
    pub fn tell(&self, mut ring: impl FnMut(usize)) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        for (thread, news) in self.threads.iter().enumerate() {
            if news.wanted.swap(false, Ordering::SeqCst) {
                news.come.swap(true, Ordering::AcqRel);
                ring(thread);
            }
        }
    }

    /// Moves the news to their thread: whether there were any.
    pub fn take(&self, thread: usize) -> bool {
        self.threads[thread].come.swap(false, Ordering::AcqRel)
    }

    /// Whether news wait for a thread.
    pub fn is_pending(&self, thread: usize) -> bool {
        self.threads[thread].come.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asked_is_told_once_and_nobody_else() {
        let news = DurableSignal::new(2);
        news.ask(1, news.epoch());
        let mut rung = Vec::new();
        news.tell(|thread| rung.push(thread));
        news.tell(|thread| rung.push(thread));
        assert_eq!(rung, [1]);
        assert!(!news.take(0));
        assert!(news.is_pending(1) && news.take(1) && !news.take(1));
    }

    #[test]
    fn what_became_durable_since_the_look_counts_as_told() {
        let news = DurableSignal::new(1);
        let before = news.epoch();
        news.tell(|_| panic!("nobody has asked"));
        news.ask(0, before);
        assert!(news.take(0));
    }
}
