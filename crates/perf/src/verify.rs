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

/// Levels of [`Times`]: what comes more often than that is counted as often.
const LEVELS_MAX: usize = 16;

/// Sequences with how many times each was put in.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// At place `n`, what was put in more than `n` times.
    levels: Vec<RangeSet>,
    beyond: u64,
}

impl Times {
    /// Puts one in.
    pub fn insert(&mut self, sequence: u32) {
        for level in &mut self.levels {
            if level.insert(u64::from(sequence)) {
                return;
            }
        }
        if self.levels.len() == LEVELS_MAX {
            self.beyond += 1;
            return;
        }
        let mut level = RangeSet::new();
        level.insert(u64::from(sequence));
        self.levels.push(level);
    }

    /// How many were put in, those that came again among them.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.levels.iter().map(RangeSet::len).sum::<u64>() + self.beyond
    }

    /// How many of them `other` has too, each as often at most as there.
    #[must_use]
    pub fn count_also_in(&self, other: &Self) -> u64 {
        let both = self.levels.iter().zip(&other.levels);
        let counts = both.map(|(own, others)| {
            others
                .iter()
                .map(|range| own.count_within(range))
                .sum::<u64>()
        });
        counts.sum()
    }

    /// Whether a sequence was put in at all.
    #[must_use]
    pub fn contains(&self, sequence: u64) -> bool {
        self.levels
            .first()
            .is_some_and(|level| level.contains(sequence))
    }
}

/// What came out of one queue, from all of its consumers.
///
/// Whether a second delivery, or one behind a later message, is a fault depends on whether its
/// publisher had to send the message again, which only the publisher knows: so these are kept by
/// their sequence, and judged at the end.
#[derive(Clone, Debug)]
pub struct Ledger {
    queue: u32,
    routing: Routing,
    seen: Vec<RangeSet>,
    /// Second and later deliveries without the mark.
    again: Vec<Times>,
    /// First deliveries behind a later message.
    late: Vec<RangeSet>,
    /// What had been seen when a consumer's connection broke: once more of that is a redelivery,
    /// with the mark or without.
    before_break: Vec<RangeSet>,
    /// Whether deliveries may have been settled and lost with a consumer's connection.
    leaky: bool,
    unmarked: u64,
    redelivered: u64,
    damaged: u64,
    foreign: u64,
}

/// What one publisher did that a queue's deliveries are judged by.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// Messages sent, from sequence 1 on.
    pub published: u64,
    /// Those that the broker has answered for: confirmed, or, without confirms, sent over a
    /// connection that did not break.
    pub promised: RangeSet,
    /// Those that nobody can answer for: sent without confirms over a connection that broke.
    pub in_doubt: RangeSet,
    /// Those that were sent again after a connection broke, as often as they were.
    pub republished: Times,
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

    /// Forgets what came: another channel has an order of its own.
    pub fn begin_anew(&mut self) {
        self.last.fill(0);
    }
}

impl Ledger {
    /// The ledger of queue `queue`, for a load of so many publishers.
    #[must_use]
    pub fn new(queue: u32, routing: Routing, publishers: u32) -> Self {
        let places = routing.publishers_of_a_queue(publishers);
        Self {
            queue,
            routing,
            seen: vec![RangeSet::new(); places],
            again: vec![Times::default(); places],
            late: vec![RangeSet::new(); places],
            before_break: vec![RangeSet::new(); places],
            leaky: false,
            unmarked: 0,
            redelivered: 0,
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
            self.on_repeat(place, sequence);
            return false;
        }
        let last = &mut order.last[place];
        if sequence < *last {
            self.late[place].insert(u64::from(sequence));
        } else {
            *last = sequence;
        }
        true
    }

    #[cold]
    fn on_repeat(&mut self, place: usize, sequence: u32) {
        if self.before_break[place].remove(u64::from(sequence)) {
            self.unmarked += 1;
        } else {
            self.again[place].insert(sequence);
        }
    }

    /// The connection of one of the queue's consumers broke. What the broker had settled as it sent
    /// it (`automatic`) may be gone with it.
    pub fn on_break(&mut self, automatic: bool) {
        self.before_break.clone_from(&self.seen);
        self.leaky |= automatic;
    }

    /// A delivery that is not what was sent, or that nobody sent.
    pub fn on_damaged(&mut self) {
        self.damaged += 1;
    }

    /// A delivery of another run's message.
    pub fn on_foreign(&mut self) {
        self.foreign += 1;
    }

    /// Adds what was counted, whoever published it.
    pub fn count(&self, checks: &mut Checks) {
        checks.unmarked += self.unmarked;
        checks.redelivered += self.redelivered;
        checks.damaged += self.damaged;
        checks.foreign += self.foreign;
    }

    /// Adds what a publisher's messages came to in this queue; `drained` says whether what is not
    /// there yet is lost.
    pub fn judge(&self, publisher: u32, sent: &Sent, drained: bool, checks: &mut Checks) {
        let Some(place) = self.routing.place(publisher, self.queue) else {
            return;
        };
        let Some(seen) = self.seen.get(place) else {
            return;
        };
        // That many came though their publisher never sent them, or sent fewer.
        checks.damaged += seen.len() - seen.count_within(1..sent.published + 1);
        let again = &self.again[place];
        let allowed = again.count_also_in(&sent.republished);
        checks.republished_twice += allowed;
        checks.duplicated += again.count() - allowed;
        let late = self.late[place].iter().flatten();
        checks.disordered += late
            .filter(|late| !sent.republished.contains(*late))
            .count() as u64;
        if drained {
            let promised = missing(seen, &sent.promised);
            checks.lost += if self.leaky { 0 } else { promised };
            checks.in_doubt += if self.leaky { promised } else { 0 };
            checks.in_doubt += missing(seen, &sent.in_doubt);
        }
    }
}

/// Messages among `expected` that were not seen.
fn missing(seen: &RangeSet, expected: &RangeSet) -> u64 {
    let of = |range: std::ops::Range<u64>| range.end - range.start - seen.count_within(range);
    expected.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a ledger comes to where each of two publishers sent `sent`.
    fn checks(ledger: &Ledger, sent: &Sent) -> Checks {
        let mut checks = Checks::default();
        ledger.count(&mut checks);
        (0..2).for_each(|publisher| ledger.judge(publisher, sent, true, &mut checks));
        checks
    }

    fn ledger() -> (Ledger, Order) {
        (Ledger::new(0, Routing::Everywhere, 2), Order::new(2))
    }

    fn sent(published: u64, promised: std::ops::Range<u64>) -> Sent {
        let mut sent = Sent {
            published,
            ..Sent::default()
        };
        sent.promised.insert_range(promised);
        sent
    }

    fn nothing_promised(published: u64) -> Sent {
        sent(published, 0..0)
    }

    #[test]
    fn what_is_as_it_was_sent_passes() {
        let (mut ledger, mut order) = ledger();
        for sequence in 1..=1_000 {
            assert!(ledger.on_delivery(&mut order, 0, sequence, false));
            assert!(ledger.on_delivery(&mut order, 1, sequence, false));
        }
        assert!(!ledger.on_delivery(&mut order, 1, 500, true));
        let found = checks(&ledger, &sent(1_000, 1..1_001));
        assert_eq!(found.redelivered, 1);
        assert!(!found.failed(), "{found:?}");
    }

    #[test]
    fn each_broken_promise_is_counted_as_what_it_is() {
        let (mut ledger, mut order) = ledger();
        for sequence in [1, 2, 2, 4, 3, 6] {
            ledger.on_delivery(&mut order, 0, sequence, false);
        }
        ledger.on_delivery(&mut order, 7, 1, false);
        let found = checks(&ledger, &nothing_promised(6));
        assert_eq!((found.duplicated, found.disordered), (1, 1));
        assert_eq!(found.damaged, 1, "there is no publisher 7");
        let mut found = Checks::default();
        ledger.judge(0, &sent(5, 1..6), true, &mut found);
        assert_eq!(
            (found.lost, found.damaged),
            (1, 1),
            "5 is missing, 6 was never sent"
        );
    }

    #[test]
    fn what_was_sent_again_may_come_again_and_late_as_often_as_it_was_sent() {
        let (mut ledger, mut order) = ledger();
        for sequence in [1, 3, 2, 2, 3, 3, 4, 4] {
            ledger.on_delivery(&mut order, 0, sequence, false);
        }
        let mut sent = sent(4, 1..5);
        for sequence in [2, 3] {
            sent.republished.insert(sequence);
        }
        let mut found = Checks::default();
        ledger.judge(0, &sent, true, &mut found);
        assert_eq!(found.republished_twice, 2, "2 once, 3 once");
        assert_eq!(
            found.duplicated, 2,
            "3 a third time; 4, which nobody sent again"
        );
        assert_eq!((found.disordered, found.lost), (0, 0));
    }

    #[test]
    fn what_a_broken_consumer_had_seen_may_come_once_more_without_the_mark() {
        let (mut ledger, mut order) = ledger();
        for sequence in 1..=3 {
            ledger.on_delivery(&mut order, 0, sequence, false);
        }
        ledger.on_break(false);
        let mut order = Order::new(2);
        for sequence in [2, 3, 3, 4, 4] {
            ledger.on_delivery(&mut order, 0, sequence, false);
        }
        let found = checks(&ledger, &nothing_promised(4));
        assert_eq!((found.unmarked, found.duplicated), (2, 2));
    }

    #[test]
    fn nobody_answers_for_what_was_settled_as_it_was_sent_to_a_consumer_that_broke() {
        for (automatic, expected) in [(true, (0, 4)), (false, (2, 2))] {
            let (mut ledger, _) = ledger();
            ledger.on_break(automatic);
            let mut sent = sent(3, 1..2);
            sent.in_doubt.insert_range(2..3);
            let found = checks(&ledger, &sent);
            assert_eq!((found.lost, found.in_doubt), expected);
            assert_eq!(found.failed(), !automatic);
        }
    }

    #[test]
    fn consumers_of_one_queue_have_each_their_own_order() {
        let (mut ledger, mut first) = ledger();
        let mut second = Order::new(2);
        ledger.on_delivery(&mut first, 0, 2, false);
        ledger.on_delivery(&mut second, 0, 1, false);
        assert_eq!(checks(&ledger, &nothing_promised(2)).disordered, 0);
    }

    #[test]
    fn a_message_that_comes_again_with_the_mark_does_not_break_the_order() {
        let (mut ledger, mut order) = ledger();
        ledger.on_delivery(&mut order, 0, 5, false);
        assert!(ledger.on_delivery(&mut order, 0, 3, true));
        ledger.on_delivery(&mut order, 0, 6, false);
        assert!(!checks(&ledger, &nothing_promised(6)).failed());
    }

    #[test]
    fn spread_publishers_belong_to_one_queue() {
        let routing = Routing::Spread { queues: 3 };
        assert_eq!(routing.place(4, 1), Some(1));
        assert_eq!(routing.place(4, 2), None);
        assert_eq!(routing.publishers_of_a_queue(4), 2);
        let mut ledger = Ledger::new(1, routing, 6);
        ledger.on_delivery(&mut Order::new(2), 2, 1, false);
        let mut found = Checks::default();
        ledger.count(&mut found);
        assert_eq!(found.damaged, 1, "it is in the wrong queue");
    }

    #[test]
    fn what_is_put_in_over_and_over_is_counted_as_often() {
        let mut times = Times::default();
        (0..LEVELS_MAX + 3).for_each(|_| times.insert(7));
        times.insert(8);
        assert_eq!(times.count(), LEVELS_MAX as u64 + 4);
        assert!(times.contains(8) && !times.contains(9));
        let mut other = Times::default();
        (0..2).for_each(|_| other.insert(7));
        assert_eq!(
            (times.count_also_in(&other), other.count_also_in(&times)),
            (2, 2)
        );
    }
}
