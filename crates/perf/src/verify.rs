//! Whether everything arrived, once, in order: what consumers saw against what publishers sent.

use leveret_types::ranges::RangeSet;

use crate::result::Checks;

/// Which queues a publisher's messages go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// Publisher `p` to queue `p` modulo the number of queues.
    Spread {
        /// The queues.
        queues: u32,
    },
    /// Every message to every queue.
    Everywhere,
}

impl Routing {
    /// A publisher's place among those of a queue; none if nothing of its comes there.
    #[must_use]
    #[inline]
    pub fn place(self, publisher: u32, queue: u32) -> Option<usize> {
        match self {
            Self::Everywhere => Some(publisher as usize),
            Self::Spread { queues } if publisher % queues == queue % queues => {
                Some((publisher / queues) as usize)
            }
            Self::Spread { .. } => None,
        }
    }

    /// Publishers that send to one queue, at most.
    #[must_use]
    pub fn publishers_of_a_queue(self, publishers: u32) -> usize {
        match self {
            Self::Everywhere => publishers as usize,
            Self::Spread { queues } => publishers.div_ceil(queues) as usize,
        }
    }
}

/// What came out of one queue, from all of its consumers.
#[derive(Clone, Debug)]
pub struct Ledger {
    queue: u32,
    routing: Routing,
    seen: Vec<RangeSet>,
    duplicated: u64,
    redelivered: u64,
    disordered: u64,
    damaged: u64,
    foreign: u64,
}

/// The order in which one consumer saw things.
#[derive(Clone, Debug, Default)]
pub struct Order {
    last: Vec<u32>,
}

impl Order {
    /// For a consumer of a queue that so many publishers send to.
    #[must_use]
    pub fn new(publishers: usize) -> Self {
        Self {
            last: vec![0; publishers],
        }
    }
}

impl Ledger {
    /// The ledger of queue `queue`, for a load of so many publishers.
    #[must_use]
    pub fn new(queue: u32, routing: Routing, publishers: u32) -> Self {
        Self {
            queue,
            routing,
            seen: vec![RangeSet::new(); routing.publishers_of_a_queue(publishers)],
            duplicated: 0,
            redelivered: 0,
            disordered: 0,
            damaged: 0,
            foreign: 0,
        }
    }

    /// The queue.
    #[must_use]
    pub fn queue(&self) -> u32 {
        self.queue
    }

    /// A delivery of message `sequence` of publisher `publisher` (by its number in the load) to the
    /// consumer whose `order` it is. Whether it is the first delivery of that message.
    #[inline]
    pub fn on_delivery(
        &mut self,
        order: &mut Order,
        publisher: u32,
        sequence: u32,
        redelivered: bool,
    ) -> bool {
        let place = self.routing.place(publisher, self.queue);
        let Some((place, seen)) = place.and_then(|p| Some((p, self.seen.get_mut(p)?))) else {
            self.damaged += 1;
            return false;
        };
        let is_first = seen.insert(u64::from(sequence));
        if redelivered {
            self.redelivered += 1;
            return is_first;
        }
        if !is_first {
            self.duplicated += 1;
            return false;
        }
        let last = &mut order.last[place];
        if sequence < *last {
            self.disordered += 1;
        } else {
            *last = sequence;
        }
        true
    }

    /// A delivery that is not what was sent, or that nobody sent.
    pub fn on_damaged(&mut self) {
        self.damaged += 1;
    }

    /// A delivery of another run's message.
    pub fn on_foreign(&mut self) {
        self.foreign += 1;
    }

    /// Adds what was counted, without loss.
    pub fn count(&self, checks: &mut Checks) {
        checks.duplicated += self.duplicated;
        checks.redelivered += self.redelivered;
        checks.disordered += self.disordered;
        checks.damaged += self.damaged;
        checks.foreign += self.foreign;
    }

    /// Messages among `expected` of a publisher that did not come out of this queue; none if they
    /// were not to.
    #[must_use]
    pub fn missing(&self, publisher: u32, expected: &RangeSet) -> u64 {
        let place = self.routing.place(publisher, self.queue);
        let Some(seen) = place.and_then(|place| self.seen.get(place)) else {
            return 0;
        };
        expected
            .iter()
            .map(|range| range.end - range.start - seen.count_within(range))
            .sum()
    }

    /// Messages that came out though their publisher never sent them, or sent fewer.
    #[must_use]
    pub fn invented(&self, publisher: u32, published: u64) -> u64 {
        let place = self.routing.place(publisher, self.queue);
        let seen = place.and_then(|place| self.seen.get(place));
        seen.map_or(0, |seen| seen.len() - seen.count_within(1..published + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks(ledger: &Ledger) -> Checks {
        let mut checks = Checks::default();
        ledger.count(&mut checks);
        checks
    }

    fn ledger() -> (Ledger, Order) {
        (Ledger::new(0, Routing::Everywhere, 2), Order::new(2))
    }

    #[test]
    fn what_is_as_it_was_sent_passes() {
        let (mut ledger, mut order) = ledger();
        for sequence in 1..=1_000 {
            assert!(ledger.on_delivery(&mut order, 0, sequence, false));
            assert!(ledger.on_delivery(&mut order, 1, sequence, false));
        }
        assert!(!ledger.on_delivery(&mut order, 1, 500, true));
        let found = checks(&ledger);
        assert_eq!(found.redelivered, 1);
        assert!(!found.failed());
        let mut expected = RangeSet::new();
        expected.insert_range(1..1_001);
        assert_eq!(ledger.missing(0, &expected), 0);
        assert_eq!(ledger.invented(0, 1_000), 0);
    }

    #[test]
    fn each_broken_promise_is_counted_as_what_it_is() {
        let (mut ledger, mut order) = ledger();
        for sequence in [1, 2, 2, 4, 3, 6] {
            ledger.on_delivery(&mut order, 0, sequence, false);
        }
        ledger.on_delivery(&mut order, 7, 1, false);
        let found = checks(&ledger);
        assert_eq!((found.duplicated, found.disordered), (1, 1));
        assert_eq!(found.damaged, 1, "there is no publisher 7");
        let mut expected = RangeSet::new();
        expected.insert_range(1..6);
        assert_eq!(ledger.missing(0, &expected), 1);
        assert_eq!(ledger.invented(0, 5), 1);
    }

    #[test]
    fn consumers_of_one_queue_have_each_their_own_order() {
        let (mut ledger, mut first) = ledger();
        let mut second = Order::new(2);
        ledger.on_delivery(&mut first, 0, 2, false);
        ledger.on_delivery(&mut second, 0, 1, false);
        assert_eq!(checks(&ledger).disordered, 0);
    }

    #[test]
    fn a_message_that_comes_again_with_the_mark_does_not_break_the_order() {
        let (mut ledger, mut order) = ledger();
        ledger.on_delivery(&mut order, 0, 5, false);
        assert!(ledger.on_delivery(&mut order, 0, 3, true));
        ledger.on_delivery(&mut order, 0, 6, false);
        assert!(!checks(&ledger).failed());
    }

    #[test]
    fn spread_publishers_belong_to_one_queue() {
        let routing = Routing::Spread { queues: 3 };
        assert_eq!(routing.place(4, 1), Some(1));
        assert_eq!(routing.place(4, 2), None);
        assert_eq!(routing.publishers_of_a_queue(4), 2);
        let mut ledger = Ledger::new(1, routing, 6);
        ledger.on_delivery(&mut Order::new(2), 2, 1, false);
        assert_eq!(checks(&ledger).damaged, 1, "it is in the wrong queue");
    }
}
