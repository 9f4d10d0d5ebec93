//! One consumer: what it does with deliveries, and when it settles them.

use std::collections::VecDeque;

use leveret_amqp::{basic, encode};
use leveret_stream_protocol::OffsetSpec;

use super::shared::{Progress, Tally};
use crate::spec::Load;
use crate::stamp::Stamp;
use crate::verify::{Ledger, Order};

/// One consumer.
#[derive(Debug)]
pub struct Consumer {
    /// The run's number.
    pub run: u16,
    /// Its load.
    pub load: usize,
    /// Number of its load's first publisher, over all loads, and how many there are.
    pub publishers: (u16, u32),
    /// Its queue's name.
    pub queue: String,
    /// Arguments of `basic.consume`, encoded.
    pub arguments: Vec<u8>,
    /// Its queue's ledger, among those of its thread; none where nothing is checked.
    pub ledger: Option<usize>,
    /// In which order it saw things.
    pub order: Order,
    /// How it settles.
    pub settling: Settling,
    /// Where it begins, if it consumes a stream.
    pub begins: OffsetSpec,
    /// The offset after the last that it had of a stream.
    pub next_offset: u64,
    /// Chunks of a stream that may be on their way.
    pub credit: u16,
}

/// How and when a consumer settles.
#[derive(Debug)]
pub struct Settling {
    automatic: bool,
    every: u32,
    delay_us: u64,
    work_us: u64,
    prefetch: u32,
    /// Deliveries since the last acknowledgement.
    pending: u32,
    last_tag: u64,
    /// Deliveries whose time has not come: when it does, and the tag.
    later: VecDeque<(u64, u64)>,
    /// Until when it works on what it has.
    busy_until_us: u64,
}

impl Settling {
    /// As the load says.
    #[must_use]
    pub fn of(load: &Load) -> Self {
        let work_s = match load.consumer_rate {
            Some(rate) if rate > 0.0 => 1.0 / rate,
            _ => load.consumer_delay_ms / 1e3,
        };
        Self {
            automatic: load.ack.automatic,
            every: load.ack.every,
            delay_us: (load.ack.delay_ms * 1e3) as u64,
            work_us: (work_s * 1e6) as u64,
            prefetch: u32::from(load.prefetch),
            pending: 0,
            last_tag: 0,
            later: VecDeque::new(),
            busy_until_us: 0,
        }
    }

    /// Whether the broker settles by itself.
    #[must_use]
    pub fn is_automatic(&self) -> bool {
        self.automatic
    }

    /// The longest that a broker with further messages may wait for an acknowledgement, and so send
    /// nothing.
    #[must_use]
    pub fn gap_us(&self) -> u64 {
        if self.automatic {
            return 0;
        }
        let batch = u64::from(self.every.min(self.prefetch).max(1));
        self.work_us
            .saturating_mul(batch)
            .saturating_add(self.delay_us)
    }

    /// A delivery came.
    #[inline]
    pub fn on_delivery(&mut self, tag: u64, now_us: u64, channel: u16, out: &mut Vec<u8>) {
        if self.automatic {
            return;
        }
        if self.delay_us == 0 && self.work_us == 0 {
            self.settle(tag, channel, out);
            return;
        }
        let at_us = if self.work_us > 0 {
            self.busy_until_us = self.busy_until_us.max(now_us) + self.work_us;
            self.busy_until_us + self.delay_us
        } else {
            now_us + self.delay_us
        };
        self.later.push_back((at_us, tag));
    }

    /// Settles what is due; gives when the next is.
    pub fn on_time(&mut self, now_us: u64, channel: u16, out: &mut Vec<u8>) -> Option<u64> {
        while let Some(&(at_us, tag)) = self.later.front() {
            if at_us > now_us {
                return Some(at_us);
            }
            self.later.pop_front();
            self.settle(tag, channel, out);
        }
        None
    }

    #[inline]
    fn settle(&mut self, tag: u64, channel: u16, out: &mut Vec<u8>) {
        self.pending += 1;
        self.last_tag = tag;
        // More than the prefetch never comes: waiting for it would be for ever.
        let full = self.prefetch > 0 && self.pending >= self.prefetch;
        if self.pending >= self.every || full {
            self.flush(channel, out);
        }
    }

    /// The channel is gone, and with it all that waited to be settled on it.
    pub fn begin_anew(&mut self) {
        self.pending = 0;
        self.later.clear();
    }

    /// Settles what waits for a batch to fill.
    pub fn flush(&mut self, channel: u16, out: &mut Vec<u8>) {
        if self.pending > 0 {
            let ack = basic::Ack {
                delivery_tag: self.last_tag,
                multiple: self.pending > 1,
            };
            encode::method(out, channel, &ack);
            self.pending = 0;
        }
    }
}

impl Consumer {
    /// A whole delivery.
    #[inline]
    pub fn on_delivery(
        &mut self,
        delivery: &Delivery,
        now_us: u64,
        ledgers: &mut [Ledger],
        tally: &mut Tally,
        progress: &mut Progress,
    ) {
        tally.consumed += 1;
        tally.consumed_bytes += delivery.size;
        tally.redelivered += u64::from(delivery.redelivered);
        let Some(ledger) = self.ledger else {
            self.without_checks(delivery, now_us, tally, progress);
            return;
        };
        let ledger = &mut ledgers[ledger];
        let Some(stamp) = delivery.stamp else {
            ledger.on_damaged();
            return;
        };
        if stamp.run != self.run {
            ledger.on_foreign();
            return;
        }
        let (first, count) = self.publishers;
        let publisher = u32::from(stamp.publisher.wrapping_sub(first));
        if publisher >= count || stamp.sequence == 0 {
            ledger.on_damaged();
            return;
        }
        let order = &mut self.order;
        let is_first = ledger.on_delivery(order, publisher, stamp.sequence, delivery.redelivered);
        if is_first {
            progress.arrived += 1;
            tally.end_to_end.record(stamp.age_us(now_us));
        }
    }

    /// Where in its stream it goes on.
    #[must_use]
    pub fn offset(&self) -> OffsetSpec {
        match self.next_offset {
            0 => self.begins,
            next => OffsetSpec::Offset(next),
        }
    }

    /// Whether it consumes a stream.
    fn is_of_stream(&self) -> bool {
        self.begins != OffsetSpec::None
    }

    /// Its connection broke. What the broker delivers to the next begins an order of its own.
    pub fn on_break(&mut self, ledgers: &mut [Ledger]) {
        // It goes on where it was: nothing comes twice, and nothing is passed over.
        if self.is_of_stream() {
            return;
        }
        self.settling.begin_anew();
        self.order.begin_anew();
        if let Some(ledger) = self.ledger {
            ledgers[ledger].on_break(self.settling.is_automatic());
        }
    }

    fn without_checks(
        &self,
        delivery: &Delivery,
        now_us: u64,
        tally: &mut Tally,
        progress: &mut Progress,
    ) {
        progress.arrived += 1;
        if let Some(stamp) = delivery.stamp.filter(|stamp| stamp.run == self.run) {
            tally.end_to_end.record(stamp.age_us(now_us));
        }
    }
}

/// A whole delivery.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// Whether it has the mark.
    pub redelivered: bool,
    /// Octets of the body.
    pub size: u64,
    /// Its stamp, if it is whole.
    pub stamp: Option<Stamp>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_amqp::{Method, next_frame};

    fn acks(mut bytes: &[u8]) -> Vec<(u64, bool)> {
        let mut acks = Vec::new();
        while let Some(frame) = next_frame(bytes, 4_096).unwrap() {
            if let Ok(Method::BasicAck(ack)) = Method::decode(frame.payload) {
                acks.push((ack.delivery_tag, ack.multiple));
            }
            bytes = &bytes[frame.wire_len()..];
        }
        acks
    }

    fn settling(text: &str) -> Settling {
        Settling::of(&toml::from_str(text).unwrap())
    }

    #[test]
    fn acknowledgements_are_batched_but_never_beyond_the_prefetch() {
        let cases: [(&str, &[(u64, bool)]); 5] = [
            (
                "",
                &[(1, false), (2, false), (3, false), (4, false), (5, false)],
            ),
            ("ack = { every = 2 }", &[(2, true), (4, true)]),
            ("ack = { every = 10 }", &[]),
            ("ack = { every = 10 }\nprefetch = 3", &[(3, true)]),
            ("ack = { automatic = true }", &[]),
        ];
        for (text, expected) in cases {
            let mut settling = settling(text);
            let mut out = Vec::new();
            (1..=5).for_each(|tag| settling.on_delivery(tag, 0, 1, &mut out));
            assert_eq!(acks(&out), expected, "{text}");
        }
        let mut settling = settling("ack = { every = 10 }");
        let mut out = Vec::new();
        (1..=3).for_each(|tag| settling.on_delivery(tag, 0, 1, &mut out));
        settling.flush(1, &mut out);
        settling.flush(1, &mut out);
        assert_eq!(acks(&out), [(3, true)]);
    }

    #[test]
    fn a_broker_may_wait_for_what_a_consumer_takes_for_a_batch() {
        let gap_ms = |text: &str| settling(text).gap_us() / 1_000;
        assert_eq!(gap_ms(""), 0);
        assert_eq!(gap_ms("consumer_rate = 0.05\nprefetch = 2"), 20_000);
        assert_eq!(
            gap_ms("consumer_delay_ms = 5\nprefetch = 2\nack = { delay_ms = 7 }"),
            12
        );
        let batches = "consumer_delay_ms = 5\nprefetch = 4\nack = { every = ";
        assert_eq!(gap_ms(&format!("{batches} 3 }}")), 15);
        assert_eq!(gap_ms(&format!("{batches} 10 }}")), 20);
    }

    #[test]
    fn delays_run_beside_each_other_and_work_one_after_another() {
        let mut delayed = settling("ack = { delay_ms = 10 }");
        let mut working = settling("consumer_delay_ms = 10");
        for settling in [&mut delayed, &mut working] {
            (1..=3).for_each(|tag| settling.on_delivery(tag, 0, 1, &mut Vec::new()));
        }
        let at = |settling: &mut Settling, now_us| {
            let mut out = Vec::new();
            let next = settling.on_time(now_us, 1, &mut out);
            (acks(&out).len(), next)
        };
        assert_eq!(at(&mut delayed, 9_999), (0, Some(10_000)));
        assert_eq!(at(&mut delayed, 10_000), (3, None));
        assert_eq!(at(&mut working, 10_000), (1, Some(20_000)));
        assert_eq!(at(&mut working, 30_000), (2, None));
    }
}
