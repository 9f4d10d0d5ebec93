//! The deliveries of one channel that the client has not settled, by delivery tag.

use leveret_client::contract::{Delivery, Settle, SettleOutcome};
use leveret_types::{ChannelId, ConsumerId, Now, QueueId};
use std::collections::VecDeque;

/// Holes that may be among the deliveries before they are closed up.
const HOLES_MIN: usize = 64;
/// Holes for each delivery before they are closed up. Until then a tag tells where its delivery is;
/// behind that it has to be looked for.
const HOLES_PER_DELIVERY: usize = 3;

/// A delivery that the client holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnackedDelivery {
    /// Its delivery tag.
    pub tag: u64,
    /// Who holds it for the queue.
    pub subscription: ConsumerId,
    /// The queue.
    pub queue: QueueId,
    /// Position in the queue's priority log.
    pub index: u64,
    /// When it was delivered: the low half of monotonic milliseconds, which 49 days take.
    delivered_ms: u32,
    /// The queue's priority log.
    pub priority_log: u8,
    /// Whether it was delivered before.
    pub redelivered: bool,
    /// It was settled out of order: a hole until it comes to the front.
    settled: bool,
}

// A client may hold many.
const _: () = assert!(size_of::<UnackedDelivery>() == 40);

impl UnackedDelivery {
    /// What is held of a delivery that is made now.
    pub const fn new(tag: u64, delivery: &Delivery, now: Now) -> Self {
        Self {
            tag,
            delivered_ms: now.monotonic_ms as u32,
            subscription: delivery.consumer,
            queue: delivery.queue,
            index: delivery.index,
            priority_log: delivery.priority_log,
            redelivered: delivery.redelivered,
            settled: false,
        }
    }

    /// How long it has been held, in milliseconds.
    pub const fn age_ms(&self, now: Now) -> u64 {
        (now.monotonic_ms as u32).wrapping_sub(self.delivered_ms) as u64
    }

    /// What a settle of it says.
    pub const fn settle(&self, channel: ChannelId, outcome: SettleOutcome) -> Settle {
        Settle {
            channel,
            subscription: self.subscription,
            queue: self.queue,
            priority_log: self.priority_log,
            range: self.index..self.index + 1,
            outcome,
        }
    }
}

/// The deliveries in the order of their tags. Taking the oldest, or a run of the oldest, costs
/// nothing but the taking; one from the middle leaves a hole, and holes are closed up when there
/// are [`HOLES_PER_DELIVERY`].
#[derive(Debug, Default)]
pub struct Unacked {
    deliveries: VecDeque<UnackedDelivery>,
    holes: usize,
}

impl Unacked {
    /// How many deliveries are held.
    pub fn len(&self) -> usize {
        self.deliveries.len() - self.holes
    }

    /// Remembers a delivery, whose tag is higher than all before.
    pub fn push(&mut self, delivery: UnackedDelivery) {
        if let Some(last) = self.deliveries.back() {
            assert!(
                last.tag < delivery.tag,
                "tag {} after {}",
                delivery.tag,
                last.tag
            );
        }
        self.deliveries.push_back(delivery);
    }

    /// The deliveries that are held.
    pub fn iter(&self) -> impl Iterator<Item = &UnackedDelivery> {
        self.deliveries.iter().filter(|delivery| !delivery.settled)
    }

    /// Where the delivery of a tag is.
    fn find(&self, tag: u64) -> Option<usize> {
        let found = self.place_of(tag)?;
        (!self.deliveries[found].settled).then_some(found)
    }

    /// Where the delivery of a tag is, or the hole that it has left.
    fn place_of(&self, tag: u64) -> Option<usize> {
        let first = self.deliveries.front()?.tag;
        // Without deliveries that need no settling in between, and before holes are closed up, tags
        // lie side by side.
        let guess = usize::try_from(tag.checked_sub(first)?).ok()?;
        match self.deliveries.get(guess) {
            Some(delivery) if delivery.tag == tag => Some(guess),
            _ => self
                .deliveries
                .binary_search_by_key(&tag, |delivery| delivery.tag)
                .ok(),
        }
    }

    /// Takes the delivery of a tag; nothing if it is not held.
    pub fn take(&mut self, tag: u64) -> Option<UnackedDelivery> {
        let index = self.find(tag)?;
        let delivery = self.deliveries[index];
        self.deliveries[index].settled = true;
        self.holes += 1;
        self.close_up();
        Some(delivery)
    }

    /// Takes all deliveries up to that of a tag, which must be held itself, and all deliveries for
    /// tag 0. Answers false if the tag is not held.
    pub fn take_through(&mut self, tag: u64, mut each: impl FnMut(UnackedDelivery)) -> bool {
        let count = match (tag, self.find(tag)) {
            (0, _) => self.deliveries.len(),
            (_, Some(index)) => index + 1,
            (_, None) => return false,
        };
        for delivery in self.deliveries.drain(..count) {
            if delivery.settled {
                self.holes -= 1;
            } else {
                each(delivery);
            }
        }
        self.close_up();
        true
    }

    /// Puts deliveries back that were taken in a transaction which did not happen. The others stay
    /// where they are, unless holes between them were closed up meanwhile.
    pub fn put_back(&mut self, taken: impl IntoIterator<Item = UnackedDelivery>) {
        let mut gone = Vec::new();
        for delivery in taken {
            match self.place_of(delivery.tag) {
                Some(hole) => {
                    self.deliveries[hole] = delivery;
                    self.holes -= 1;
                }
                None => gone.push(delivery),
            }
        }
        // Usually in this order already.
        gone.sort_by_key(|delivery| delivery.tag);
        let first = self
            .deliveries
            .front()
            .map_or(u64::MAX, |delivery| delivery.tag);
        let between = gone.split_off(gone.partition_point(|delivery| delivery.tag < first));
        for delivery in gone.into_iter().rev() {
            self.deliveries.push_front(delivery);
        }
        if !between.is_empty() {
            self.deliveries.extend(between);
            // Two runs in order, which this sort only has to merge.
            self.deliveries
                .make_contiguous()
                .sort_by_key(|delivery| delivery.tag);
        }
    }

    /// Gives memory back that nothing is held in.
    pub fn shrink(&mut self) {
        self.deliveries.shrink_to_fit();
    }

    fn close_up(&mut self) {
        while self
            .deliveries
            .front()
            .is_some_and(|delivery| delivery.settled)
        {
            self.deliveries.pop_front();
            self.holes -= 1;
        }
        if self.holes > HOLES_MIN && self.holes > HOLES_PER_DELIVERY * self.len() {
            self.deliveries.retain(|delivery| !delivery.settled);
            self.holes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_amqp::fuzz::Random;
    use std::collections::BTreeMap;

    fn delivery(tag: u64) -> UnackedDelivery {
        UnackedDelivery {
            tag,
            subscription: ConsumerId(1),
            queue: QueueId(1),
            index: tag * 10,
            delivered_ms: 0,
            priority_log: 0,
            redelivered: false,
            settled: false,
        }
    }

    #[test]
    fn agrees_with_a_map_under_random_operations() {
        for seed in 1..500 {
            let mut random = Random::new(seed);
            let (mut unacked, mut model, mut next) = (Unacked::default(), BTreeMap::new(), 1);
            let mut taken = Vec::new();
            for _ in 0..600 {
                let tag = random.below(next + 2);
                match random.below(12) {
                    0..6 => {
                        next += if random.below(8) == 0 { 3 } else { 1 };
                        unacked.push(delivery(next));
                        model.insert(next, delivery(next));
                    }
                    6..9 => {
                        let found = unacked.take(tag);
                        assert_eq!(found, model.remove(&tag));
                        taken.extend(found);
                    }
                    9 if tag > next / 2 || tag == 0 => {
                        let known = tag == 0 || model.contains_key(&tag);
                        let mut expected = Vec::new();
                        if known {
                            let through = if tag == 0 { u64::MAX } else { tag };
                            model.retain(|t, h| {
                                let goes = *t <= through;
                                expected.extend(goes.then_some(*h));
                                !goes
                            });
                        }
                        let mut found = Vec::new();
                        assert_eq!(unacked.take_through(tag, |h| found.push(h)), known);
                        assert_eq!(found, expected);
                        taken.extend(found);
                    }
                    10 => {
                        model.extend(taken.iter().map(|h: &UnackedDelivery| (h.tag, *h)));
                        unacked.put_back(taken.drain(..));
                    }
                    _ => {}
                }
                assert_eq!(unacked.len(), model.len());
                let kept = unacked.deliveries.len();
                assert!(
                    kept <= 2 * model.len() + HOLES_MIN + 1,
                    "{kept} of {}",
                    model.len()
                );
            }
        }
    }

    #[test]
    fn what_is_held_since_before_the_low_half_of_the_clock_began_anew_is_not_old() {
        let began = u64::from(u32::MAX) - 2;
        let delivery = crate::fuzz::delivery(ConsumerId(1), 1);
        let delivery = UnackedDelivery::new(1, &delivery, Now::both(began));
        for age_ms in [0, 2, 3, 10_000] {
            assert_eq!(delivery.age_ms(Now::both(began + age_ms)), age_ms);
        }
    }

    #[test]
    fn one_delivery_that_is_never_settled_does_not_hold_those_behind_it() {
        let mut unacked = Unacked::default();
        unacked.push(delivery(1));
        for tag in 2..100_000 {
            unacked.push(delivery(tag));
            assert_eq!(unacked.take(tag), Some(delivery(tag)));
            assert!(unacked.deliveries.len() <= HOLES_MIN + 3);
        }
        assert_eq!(unacked.take(1), Some(delivery(1)));
        assert_eq!(unacked.take(1), None);
    }

    /// How many of the deliveries with these tags are elsewhere in memory than before.
    fn moved(before: &BTreeMap<u64, *const UnackedDelivery>, unacked: &Unacked) -> usize {
        let now = places(unacked);
        let stayed = |(tag, place): (&u64, &*const UnackedDelivery)| now.get(tag) == Some(place);
        before.iter().filter(|entry| !stayed(*entry)).count()
    }

    fn places(unacked: &Unacked) -> BTreeMap<u64, *const UnackedDelivery> {
        let all = unacked.deliveries.iter();
        all.map(|delivery| (delivery.tag, std::ptr::from_ref(delivery)))
            .collect()
    }

    #[test]
    fn a_delivery_from_the_middle_moves_no_other_when_it_goes_nor_when_it_comes_back() {
        let mut unacked = Unacked::default();
        (1..=10_000).for_each(|tag| unacked.push(delivery(tag)));
        let before = places(&unacked);
        for tag in [5000, 2, 9999] {
            let taken = unacked.take(tag);
            assert_eq!(taken, Some(delivery(tag)));
            assert_eq!(moved(&before, &unacked), 0, "{tag} goes");
            unacked.put_back(taken);
            assert_eq!(moved(&before, &unacked), 0, "{tag} comes back");
        }
        // The oldest leave no holes.
        let mut taken = Vec::new();
        assert!(unacked.take_through(10, |delivery| taken.push(delivery)));
        unacked.put_back(taken);
        assert_eq!(moved(&before, &unacked), 0);
        assert!(unacked.iter().map(|delivery| delivery.tag).eq(1..=10_000));
    }

    #[test]
    fn what_comes_back_where_holes_were_closed_up_is_in_order_again() {
        let mut unacked = Unacked::default();
        (1..=1000).for_each(|tag| unacked.push(delivery(tag)));
        let taken: Vec<UnackedDelivery> = (100..1000).filter_map(|tag| unacked.take(tag)).collect();
        assert!(unacked.deliveries.len() < 500, "holes were closed up");
        unacked.put_back(taken);
        assert!(unacked.iter().map(|delivery| delivery.tag).eq(1..=1000));
        assert_eq!((unacked.len(), unacked.holes), (1000, 0));
    }

    #[test]
    fn nothing_is_kept_once_all_is_settled_in_whatever_order() {
        let mut unacked = Unacked::default();
        (1..=50).for_each(|tag| unacked.push(delivery(tag)));
        for tag in 2..=50 {
            assert!(unacked.take(tag).is_some());
        }
        let mut count = 0;
        assert!(unacked.take_through(1, |_| count += 1));
        assert_eq!((count, unacked.len(), unacked.deliveries.len()), (1, 0, 0));
    }

    #[test]
    fn the_first_tag_is_one_and_tag_zero_means_all() {
        let mut unacked = Unacked::default();
        assert!(unacked.take_through(0, |_| panic!("nothing is held")));
        assert_eq!(unacked.take(0), None);
        assert!(!unacked.take_through(1, |_| panic!("nothing is held")));
        unacked.push(delivery(1));
        assert!(!unacked.take_through(u64::MAX, |_| panic!("unknown tag")));
        let mut count = 0;
        assert!(unacked.take_through(0, |_| count += 1));
        assert_eq!((count, unacked.len()), (1, 0));
    }
}
