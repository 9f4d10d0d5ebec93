//! The credit between queues and a connection: how much may be on its way to one client.

use crate::sync::{AtomicBool, AtomicU32, AtomicUsize, Mutex, Ordering};
use leveret_types::limits::{
    OUTBOX_BYTES_MAX, OUTBOX_BYTES_SCARCE, OUTBOX_MESSAGES_MAX, OUTBOXES_BYTES_MAX,
};
use leveret_types::{ConsumerId, QueueId};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

/// What waits to be written at all connections of a node, as far as it is more than each may have
/// in any case ([`OUTBOX_BYTES_SCARCE`]): connections whose sockets take what comes have no part in
/// it, and do not write to it.
#[derive(Debug)]
pub struct Outboxes {
    bytes: AtomicUsize,
    /// Bytes beyond which each may have no more than in any case.
    bytes_max: usize,
    /// Bytes that each may have until then.
    bytes_max_each: usize,
}

impl Default for Outboxes {
    /// Those of deliveries.
    fn default() -> Self {
        Self::of(OUTBOXES_BYTES_MAX, OUTBOX_BYTES_MAX)
    }
}

impl Outboxes {
    /// All together up to the first of these, each up to the second.
    #[must_use]
    pub fn of(bytes_max: usize, bytes_max_each: usize) -> Self {
        Self {
            bytes: AtomicUsize::new(0),
            bytes_max,
            bytes_max_each,
        }
    }

    /// Bytes that count.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes that may wait at one connection before it gets no more.
    pub fn bytes_max_each(&self) -> usize {
        match self.bytes() >= self.bytes_max {
            true => OUTBOX_BYTES_SCARCE,
            false => self.bytes_max_each,
        }
    }
}

/// What waits at one connection for which no queue takes credit, as it says itself: deliveries of
/// streams, or all that its socket has not taken.
#[derive(Debug)]
pub struct OutboxShare {
    node: Arc<Outboxes>,
    /// Bytes that it has there.
    counted: usize,
}

impl OutboxShare {
    /// One of a connection where nothing waits.
    pub const fn of(node: Arc<Outboxes>) -> Self {
        Self { node, counted: 0 }
    }

    /// So many bytes wait there now.
    pub fn note(&mut self, waiting: usize) {
        let counts = waiting.saturating_sub(OUTBOX_BYTES_SCARCE);
        let before = std::mem::replace(&mut self.counted, counts);
        if counts != before {
            self.node.bytes.fetch_add(counts, Ordering::Relaxed);
            self.node.bytes.fetch_sub(before, Ordering::Relaxed);
        }
    }

    /// Bytes that may wait before the connection gets no more.
    pub fn bytes_max(&self) -> usize {
        self.node.bytes_max_each()
    }
}

impl Drop for OutboxShare {
    fn drop(&mut self) {
        self.note(0);
    }
}

/// Shared by a connection and the shards that deliver to it. Shards take, the connection gives back
/// once the socket has taken the bytes. Counts may be seen a moment late by the other side, which
/// delays a delivery or lets one more through; nothing else.
#[derive(Debug, Default)]
pub struct DeliveryCredit {
    messages: AtomicUsize,
    bytes: AtomicUsize,
    congested: AtomicBool,
    /// The node's, once it counts there.
    node: OnceLock<Arc<Outboxes>>,
    /// Bytes that it has there; never more than `bytes`.
    counted: AtomicUsize,
}

impl DeliveryCredit {
    /// From now on it counts towards what all connections of the node have.
    pub fn count_in(&self, node: &Arc<Outboxes>) {
        self.node.get_or_init(|| Arc::clone(node));
    }

    /// Bytes that may be on their way before the next delivery waits. Where that is less than there
    /// are, the client has some yet to take: it is told to go on when it has.
    fn bytes_max(&self) -> usize {
        let node = self.node.get();
        node.map_or(OUTBOX_BYTES_MAX, |node| node.bytes_max_each())
    }

    /// Takes credit for one delivery; false, and remembered as congested, if there is none left.
    pub fn take(&self, bytes: usize) -> bool {
        if self.messages.load(Ordering::Relaxed) >= OUTBOX_MESSAGES_MAX
            || self.bytes.load(Ordering::Relaxed) >= self.bytes_max()
        {
            // A swap, not a store: it is ordered with the swap in `give` whichever comes first.
            self.congested.swap(true, Ordering::SeqCst);
            // The connection may have given everything back between the look and the mark: then
            // nobody would look at it. It stays: another shard may have set it, too, and a queue
            // that is told for nothing costs a look.
            if self.messages.load(Ordering::SeqCst) != 0 {
                return false;
            }
        }
        self.messages.fetch_add(1, Ordering::Relaxed);
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let counts = (before + bytes).saturating_sub(before.max(OUTBOX_BYTES_SCARCE));
        if counts > 0
            && let Some(node) = self.node.get()
        {
            node.bytes.fetch_add(counts, Ordering::Relaxed);
            self.counted.fetch_add(counts, Ordering::Relaxed);
        }
        true
    }

    /// The client is gone: there is none for anything any more.
    pub fn close(&self) {
        self.messages
            .fetch_add(OUTBOX_MESSAGES_MAX, Ordering::SeqCst);
    }

    /// So many bytes, or what it has, count no more.
    fn uncount(&self, bytes: usize) {
        let Some(node) = self.node.get() else { return };
        let counted = self
            .counted
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |counted| {
                (counted > 0).then(|| counted.saturating_sub(bytes))
            });
        if let Ok(counted) = counted {
            node.bytes.fetch_sub(counted.min(bytes), Ordering::Relaxed);
        }
    }

    /// Gives credit back; true if queues wait for it, who must then be told.
    pub fn give(&self, messages: usize, bytes: usize) -> bool {
        self.uncount(bytes);
        self.bytes.fetch_sub(bytes, Ordering::SeqCst);
        let before = self.messages.fetch_sub(messages, Ordering::SeqCst);
        let left = before.saturating_sub(messages);
        left <= OUTBOX_MESSAGES_MAX / 2 && self.congested.swap(false, Ordering::SeqCst)
    }
}

impl Drop for DeliveryCredit {
    fn drop(&mut self) {
        self.uncount(usize::MAX);
    }
}

/// The most credit that a consumer may have.
const CREDIT_MAX: u32 = u32::MAX - 1;

/// What all consumers of one channel together may hold unsettled (`basic.qos` with `global`).
#[derive(Debug, Default)]
pub struct Limiter {
    limit: AtomicU32,
    held: AtomicU32,
    /// Of how many of those that may be held less than now the consumer whose turn it is may have
    /// some; see [`Limiter::share`].
    kept: AtomicU32,
    /// Who was refused and was not told yet to go on, with what it consumes: so that what is given
    /// back costs nothing for the others. Those who leave are taken out ([`Limiter::forget`]).
    refused: Mutex<BTreeMap<ConsumerId, QueueId>>,
    /// Whether `refused` holds anybody. Written while that is locked.
    is_refusing: AtomicBool,
}

impl Limiter {
    /// One that lets through so many, and as many more as are given.
    #[must_use]
    pub fn of_credit(messages: u32) -> Self {
        Self {
            limit: AtomicU32::new(CREDIT_MAX),
            held: AtomicU32::new(CREDIT_MAX.saturating_sub(messages)),
            ..Self::default()
        }
    }

    /// Sets the bound; 0 is none.
    pub fn set_limit(&self, limit: u32) {
        self.limit.store(limit, Ordering::SeqCst);
    }

    /// The bound; 0 is none.
    pub fn limit(&self) -> u32 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Takes one for a consumer of that queue; false, and remembered as refused, if the bound is
    /// reached.
    pub fn take(&self, consumer: ConsumerId, queue: QueueId) -> bool {
        self.try_twice(consumer, queue, || self.try_take())
    }

    fn try_take(&self) -> bool {
        self.held
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |held| {
                self.has_room(held).then_some(held + 1)
            })
            .is_ok()
    }

    fn has_room(&self, held: u32) -> bool {
        let limit = self.limit.load(Ordering::SeqCst);
        let kept = self.kept.load(Ordering::SeqCst);
        limit == 0 || held < limit.saturating_sub(kept)
    }

    /// Whether one more could be had, for a delivery that nobody settles; if not, the consumer is
    /// remembered as refused.
    pub fn admits(&self, consumer: ConsumerId, queue: QueueId) -> bool {
        self.try_twice(consumer, queue, || {
            self.has_room(self.held.load(Ordering::SeqCst))
        })
    }

    fn try_twice(
        &self,
        consumer: ConsumerId,
        queue: QueueId,
        mut attempt: impl FnMut() -> bool,
    ) -> bool {
        if attempt() {
            return true;
        }
        self.with_refused(|refused| refused.insert(consumer, queue));
        // Something may have been given back between the look and the mark: then nobody would look
        // at the mark.
        let has_it_now = attempt();
        if has_it_now {
            self.forget(consumer);
        }
        has_it_now
    }

    fn with_refused<R>(&self, change: impl FnOnce(&mut BTreeMap<ConsumerId, QueueId>) -> R) -> R {
        let mut refused = self.refused.lock();
        let result = change(&mut refused);
        // A swap, not a store: it is ordered with the look in `give` whichever comes first.
        self.is_refusing.swap(!refused.is_empty(), Ordering::SeqCst);
        result
    }

    /// How many more may be held; nothing if there is no bound.
    pub fn room(&self) -> Option<u32> {
        let limit = self.limit.load(Ordering::SeqCst);
        let held = self.held.load(Ordering::SeqCst);
        (limit != 0).then(|| limit.saturating_sub(held))
    }

    /// Leaves an equal part of the room to each of the consumers that come after the one whose turn
    /// it is; to none, nothing is kept.
    pub fn share(&self, others: usize) {
        let room = self.room().unwrap_or(0);
        let others = u32::try_from(others).unwrap_or(u32::MAX);
        let own = room.div_ceil(others.saturating_add(1));
        let kept = room - own;
        self.kept.store(kept, Ordering::SeqCst);
    }

    /// How many consumers wait for room.
    pub fn refused(&self) -> usize {
        self.refused.lock().len()
    }

    /// Takes out the consumer that was refused and comes next after this one, round and round.
    pub fn next_refused(&self, after: ConsumerId) -> Option<(ConsumerId, QueueId)> {
        self.with_refused(|refused| {
            let behind = (Bound::Excluded(after), Bound::Unbounded);
            let next = refused.range(behind).next();
            let next = next.or_else(|| refused.first_key_value());
            let consumer = *next?.0;
            refused.remove_entry(&consumer)
        })
    }

    /// A consumer waits for room no more.
    pub fn forget(&self, consumer: ConsumerId) {
        self.with_refused(|refused| refused.remove(&consumer));
    }

    /// Gives some back; true if consumers were refused that may go on now.
    pub fn give(&self, count: u32) -> bool {
        let _ = self
            .held
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |held| {
                Some(held.saturating_sub(count))
            });
        // Written to, though with what is there: see `with_refused`.
        self.is_refusing.fetch_or(false, Ordering::SeqCst)
    }
}

/// The bound of a channel, as one of its consumers is bound by it.
#[derive(Clone, Debug)]
pub struct ChannelBound {
    /// What all of them share.
    pub limiter: Arc<Limiter>,
    /// The one that is bound, and what it consumes.
    pub consumer: ConsumerId,
    /// See `consumer`.
    pub queue: QueueId,
    /// Whether deliveries to this one count. Those of a consumer that settles nothing do not, but
    /// wait as well when the bound is reached.
    pub counts: bool,
}

impl ChannelBound {
    fn admit(&self) -> bool {
        match self.counts {
            true => self.limiter.take(self.consumer, self.queue),
            false => self.limiter.admits(self.consumer, self.queue),
        }
    }
}

/// What the deliveries for a consumer may use.
#[derive(Clone, Debug)]
pub struct ConsumerCredit {
    /// The credit of its connection.
    pub connection: Arc<DeliveryCredit>,
    /// The bound of its channel.
    pub limiter: Option<ChannelBound>,
}

impl ConsumerCredit {
    /// Takes credit for one delivery of this weight.
    #[must_use]
    pub fn admit(&self, bytes: usize) -> bool {
        if self.limiter.as_ref().is_some_and(|bound| !bound.admit()) {
            return false;
        }
        let admitted = self.connection.take(bytes);
        if !admitted && let Some(bound) = self.limiter.as_ref().filter(|bound| bound.counts) {
            bound.limiter.give(1);
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_takes_its_bound_and_no_more_and_says_when_to_go_on() {
        let credit = DeliveryCredit::default();
        for _ in 0..OUTBOX_MESSAGES_MAX {
            assert!(credit.take(1));
        }
        assert!(!credit.take(1));
        assert!(!credit.give(1, 1), "not before half of it is free");
        assert!(credit.give(OUTBOX_MESSAGES_MAX / 2, OUTBOX_MESSAGES_MAX / 2));
        assert!(!credit.give(1, 1), "told once");
        assert!(credit.take(1));
    }

    #[test]
    fn readers_of_streams_that_read_nothing_hold_so_much_together() {
        const MESSAGE: usize = 1_000;
        let node = Arc::new(Outboxes::default());
        let fill = || {
            let mut outbox = OutboxShare::of(Arc::clone(&node));
            let mut waiting = 0;
            while waiting < outbox.bytes_max() {
                waiting += MESSAGE;
            }
            outbox.note(waiting);
            (outbox, waiting)
        };
        let mut stuck: Vec<(OutboxShare, usize)> = (0..300).map(|_| fill()).collect();
        let total: usize = stuck.iter().map(|(_, waiting)| waiting).sum();
        let most = OUTBOXES_BYTES_MAX + OUTBOX_BYTES_MAX + 300 * (OUTBOX_BYTES_SCARCE + MESSAGE);
        assert!(total <= most, "{total}");
        // One more gets what each may have in any case, and all of it once others have gone.
        assert!(fill().1 < 2 * OUTBOX_BYTES_SCARCE);
        stuck.iter_mut().for_each(|(outbox, _)| outbox.note(0));
        assert_eq!(node.bytes(), 0);
        assert!(fill().1 >= OUTBOX_BYTES_MAX);
        assert_eq!(node.bytes(), 0, "what is gone counts no more");
    }

    #[test]
    fn clients_that_read_nothing_hold_so_much_together_and_all_others_go_on() {
        const MESSAGE: usize = 1_000;
        let node = Arc::new(Outboxes::default());
        let fill = || {
            let credit = DeliveryCredit::default();
            credit.count_in(&node);
            let taken = (0..OUTBOX_MESSAGES_MAX).take_while(|_| credit.take(MESSAGE));
            let bytes = taken.count() * MESSAGE;
            (credit, bytes)
        };
        let mut stuck: Vec<(DeliveryCredit, usize)> = (0..300).map(|_| fill()).collect();
        let held: usize = stuck.iter().map(|(_, bytes)| bytes).sum();
        let most = OUTBOXES_BYTES_MAX + OUTBOX_BYTES_MAX + 300 * (OUTBOX_BYTES_SCARCE + MESSAGE);
        assert!(held <= most, "{held} bytes of {most}");
        let (last, bytes) = stuck.pop().expect("some");
        assert!((OUTBOX_BYTES_SCARCE..2 * OUTBOX_BYTES_SCARCE).contains(&bytes));
        assert!(!last.take(MESSAGE), "it is full");
        assert!(
            last.give(10, 10 * MESSAGE),
            "and told when its socket takes some"
        );
        assert!(last.take(MESSAGE));
        drop(last);
        // Who leaves, or has read all, has no part in it any more.
        let others = stuck.split_off(stuck.len() / 2);
        drop(others);
        for (credit, bytes) in &stuck {
            credit.give(bytes / MESSAGE, *bytes);
        }
        assert_eq!(node.bytes(), 0);
        let (_, bytes) = fill();
        assert!(bytes > OUTBOX_BYTES_MAX / 2, "{bytes}");
    }

    const QUEUE: QueueId = QueueId(1);

    fn take(limiter: &Limiter, consumer: u64) -> bool {
        limiter.take(ConsumerId(consumer), QUEUE)
    }

    fn next(limiter: &Limiter, after: u64) -> Option<u64> {
        let next = limiter.next_refused(ConsumerId(after));
        next.map(|(consumer, _)| consumer.0)
    }

    #[test]
    fn a_limiter_of_credit_lets_through_what_was_given_and_says_when_to_go_on() {
        let credit = Limiter::of_credit(2);
        assert!(take(&credit, 1) && take(&credit, 1) && !take(&credit, 1));
        assert!(credit.give(1), "it was refused");
        assert!(take(&credit, 1) && !take(&credit, 1));
        assert!(credit.give(u32::MAX), "as much as there can be");
        assert!(take(&credit, 1));
    }

    #[test]
    fn a_limiter_holds_its_bound_over_all_consumers() {
        let limiter = Limiter::default();
        limiter.set_limit(2);
        assert!(take(&limiter, 1) && take(&limiter, 2));
        assert!(!limiter.give(0), "nobody was refused");
        assert!(!take(&limiter, 1));
        assert!(limiter.give(1));
        assert!(take(&limiter, 1));
        limiter.set_limit(0);
        assert!(take(&limiter, 1), "0 is no bound");
    }

    #[test]
    fn who_was_refused_is_told_in_turn_and_once() {
        let limiter = Limiter::default();
        limiter.set_limit(1);
        assert!(take(&limiter, 2));
        for consumer in [3, 1, 2, 1, 4] {
            assert!(!take(&limiter, consumer));
        }
        limiter.forget(ConsumerId(4));
        assert_eq!(limiter.refused(), 3);
        assert_eq!([next(&limiter, 2), next(&limiter, 3)], [Some(3), Some(1)]);
        assert!(limiter.give(1), "one is left, and hears of it later");
        assert_eq!([next(&limiter, 1), next(&limiter, 2)], [Some(2), None]);
        assert!(!limiter.give(0));
    }
}
