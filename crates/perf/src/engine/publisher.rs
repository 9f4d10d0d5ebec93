//! One publisher: what it sends, when, and what it waits for.

use std::collections::VecDeque;

use leveret_types::ranges::RangeSet;

use super::shared::{Clock, Progress, Tally};
use super::stream_template::StreamTemplate;
use super::template::Template;
use crate::confirms::{Confirm, Confirms, Unexpected, Waiting};
use crate::schedule::Schedule;
use crate::spec::Rate;
use crate::stamp::{SEQUENCE_MAX, Stamp};
use crate::verify::{Sent, Times};

/// Messages between two looks at the clock, where messages are due as soon as they can be sent.
const LOOK_EVERY: u32 = 32;

/// One publisher.
#[derive(Debug)]
pub struct Publisher {
    /// The run's number.
    pub run: u16,
    /// Its own number, over all loads.
    pub number: u16,
    /// Its load.
    pub load: usize,
    /// What it sends.
    pub template: Form,
    /// When.
    pub schedule: Schedule,
    /// Microseconds by which its schedule starts after the others'.
    pub offset_us: u64,
    /// Messages in all.
    pub count: u32,
    /// Messages that may wait for a confirm; none: no confirms.
    pub window: Option<u64>,
    /// What waits.
    pub confirms: Confirms,
    /// What is to be sent again, as its confirm did not come before the connection broke.
    pub resend: VecDeque<Waiting>,
    /// What was sent again.
    pub republished: Times,
    /// The last message that was sent without confirms over a connection that broke.
    pub in_doubt_to: u32,
    /// Messages that were returned.
    pub returned: RangeSet,
    /// Messages sent.
    pub sequence: u32,
    /// Whether it has sent all.
    pub finished: bool,
    /// What keeps it from sending, and since when.
    pub held: Option<(Hold, u64)>,
}

/// What a publisher sends, in its protocol's form.
#[derive(Debug)]
pub enum Form {
    /// AMQP 0-9-1.
    Amqp(Template),
    /// The stream protocol.
    Stream(StreamTemplate),
}

impl Form {
    #[inline]
    fn write(&mut self, out: &mut Vec<u8>, stamp: &Stamp) -> usize {
        match self {
            Self::Amqp(template) => template.write(out, stamp),
            Self::Stream(template) => template.write(out, stamp),
        }
    }

    /// Makes whole what was written.
    fn finish(&mut self, out: &mut [u8]) {
        if let Self::Stream(template) = self {
            template.finish(out);
        }
    }

    /// From here on frames are as large as another connection takes them.
    pub fn set_frame_max(&mut self, frame_max: u32) {
        match self {
            Self::Amqp(template) => template.set_frame_max(frame_max),
            Self::Stream(template) => template.set_frame_max(frame_max),
        }
    }
}

/// What keeps a publisher from sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Its window is full.
    Window,
    /// Its socket takes no more.
    Socket,
    /// The broker has blocked it.
    Blocked,
    /// Its connection broke.
    Disconnected,
}

/// How much a publisher may send.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    /// Bytes that may wait for the socket.
    pub room: usize,
    /// Whether it need not keep to its schedule.
    pub unlimited: bool,
}

/// What a publisher waits for, after it has sent what it could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing: it has sent all.
    Finished,
    /// A time.
    At(u64),
    /// What holds it.
    Held,
}

impl Publisher {
    /// Begins, or begins again after a pause.
    pub fn begin(&mut self, now_us: u64) {
        self.schedule.restart(now_us + self.offset_us);
        self.held = self.held.filter(|(hold, _)| *hold == Hold::Disconnected);
    }

    /// Its connection broke: what has no confirm is to be sent again. Without confirms nobody can
    /// tell what arrived.
    pub fn on_break(&mut self, now_us: u64, tally: &mut Tally) {
        self.hold(Hold::Disconnected, now_us, tally);
        if self.window.is_none() {
            self.in_doubt_to = self.sequence;
            return;
        }
        // What had been sent again is older than what was still to be.
        let mut again = VecDeque::new();
        self.confirms.begin_anew(|message| again.push_back(message));
        again.append(&mut self.resend);
        self.resend = again;
    }

    /// Sends again, in the order of the first time, what has no confirm, under its old stamps.
    pub fn pump_again(&mut self, out: &mut Vec<u8>, room: usize, now_us: u64, tally: &mut Tally) {
        while out.len() < room
            && let Some(message) = self.resend.pop_front()
        {
            self.release(now_us, tally);
            self.write(message, out);
            self.confirms.push(message);
            self.republished.insert(message.sequence);
            tally.republished += 1;
        }
        self.template.finish(out);
        if !self.resend.is_empty() {
            self.hold(Hold::Socket, now_us, tally);
        }
    }

    /// Ends what held it, if something did.
    #[inline]
    fn release(&mut self, now_us: u64, tally: &mut Tally) {
        if let Some((hold, since)) = self.held.take() {
            let time = now_us.saturating_sub(since);
            match hold {
                Hold::Window => tally.window_full_us += time,
                Hold::Socket => tally.socket_full_us += time,
                Hold::Blocked => tally.blocked_us += time,
                Hold::Disconnected => tally.disconnected_us += time,
            }
        }
    }

    /// Accounts for what holds it up to now, for a second that ends.
    pub fn account(&mut self, now_us: u64, tally: &mut Tally) {
        let held = self.held;
        self.release(now_us, tally);
        self.held = held.map(|(hold, _)| (hold, now_us));
    }

    /// Notes what holds it.
    pub fn hold(&mut self, hold: Hold, now_us: u64, tally: &mut Tally) {
        if self.held.is_some_and(|(held, _)| held == hold) {
            return;
        }
        self.release(now_us, tally);
        self.held = Some((hold, now_us));
    }

    /// Writes publishes to `out` as long as they are due, the window is open, and `out` has room.
    pub fn pump(
        &mut self,
        out: &mut Vec<u8>,
        allowed: Allowance,
        clock: &Clock,
        tally: &mut Tally,
        progress: &mut Progress,
    ) -> Next {
        let next = self.pump_due(out, allowed, clock, tally, progress);
        self.template.finish(out);
        next
    }

    fn pump_due(
        &mut self,
        out: &mut Vec<u8>,
        allowed: Allowance,
        clock: &Clock,
        tally: &mut Tally,
        progress: &mut Progress,
    ) -> Next {
        let mut now_us = clock.now_us();
        self.release(now_us, tally);
        let mut until_look = LOOK_EVERY;
        loop {
            if self.sequence >= self.count {
                progress.finished += u64::from(!self.finished);
                self.finished = true;
                return Next::Finished;
            }
            if self
                .window
                .is_some_and(|w| self.confirms.outstanding() >= w)
            {
                self.held = Some((Hold::Window, now_us));
                return Next::Held;
            }
            if out.len() >= allowed.room {
                self.held = Some((Hold::Socket, now_us));
                return Next::Held;
            }
            let due_us = match self.schedule.next_us().filter(|_| !allowed.unlimited) {
                None => {
                    until_look -= 1;
                    if until_look == 0 {
                        until_look = LOOK_EVERY;
                        now_us = clock.now_us();
                    }
                    now_us
                }
                Some(due) if due > now_us => {
                    now_us = clock.now_us();
                    if due > now_us {
                        return Next::At(due);
                    }
                    due
                }
                Some(due) => due,
            };
            tally.behind_us_max = tally.behind_us_max.max(now_us - due_us);
            self.send(due_us, out, tally);
            progress.published += 1;
        }
    }

    #[inline]
    fn send(&mut self, due_us: u64, out: &mut Vec<u8>, tally: &mut Tally) {
        self.sequence += 1;
        let sequence = self.sequence;
        let message = Waiting { sequence, due_us };
        let size = self.write(message, out);
        if self.window.is_some() {
            self.confirms.push(message);
        }
        self.schedule.advance();
        tally.published += 1;
        tally.published_bytes += size as u64;
    }

    /// Writes a message; gives the octets of its body.
    #[inline]
    fn write(&mut self, message: Waiting, out: &mut Vec<u8>) -> usize {
        let stamp = Stamp {
            run: self.run,
            publisher: self.number,
            sequence: message.sequence,
            due_us: message.due_us as u32,
        };
        self.template.write(out, &stamp)
    }

    /// A confirm, or a refusal, for one message or for all up to it.
    ///
    /// # Errors
    /// If no message waits for it.
    #[inline]
    pub fn on_settle(
        &mut self,
        confirm: Confirm,
        now_us: u64,
        tally: &mut Tally,
        progress: &mut Progress,
    ) -> Result<(), Unexpected> {
        let mut count = 0;
        let histogram = &mut tally.confirm;
        self.confirms.settle(confirm, |due_us| {
            count += 1;
            if !confirm.refused {
                histogram.record(now_us.saturating_sub(due_us));
            }
        })?;
        progress.settled += count;
        if confirm.refused {
            tally.refused += count;
            progress.returned += count;
        } else {
            tally.confirmed += count;
        }
        Ok(())
    }

    /// The same for the message of a publishing id. Without a window nobody waits for it.
    ///
    /// # Errors
    /// If no message waits for it.
    #[inline]
    pub fn on_settle_id(
        &mut self,
        id: u64,
        refused: bool,
        now_us: u64,
        tally: &mut Tally,
        progress: &mut Progress,
    ) -> Result<(), Unexpected> {
        if self.window.is_some() {
            let sequence = u32::try_from(id).map_err(|_| Unexpected)?;
            let histogram = &mut tally.confirm;
            self.confirms.settle_sequence(sequence, refused, |due_us| {
                if !refused {
                    histogram.record(now_us.saturating_sub(due_us));
                }
            })?;
        }
        progress.settled += 1;
        if refused {
            tally.refused += 1;
            progress.returned += 1;
        } else {
            tally.confirmed += 1;
        }
        Ok(())
    }

    /// One of its messages came back.
    pub fn on_return(&mut self, stamp: Option<Stamp>, tally: &mut Tally, progress: &mut Progress) {
        tally.returned += 1;
        if let Some(stamp) = stamp.filter(|s| s.publisher == self.number && s.run == self.run)
            && self.returned.insert(u64::from(stamp.sequence))
        {
            progress.returned += 1;
        }
    }

    /// What it has done in all.
    #[must_use]
    pub fn end(&self) -> PublisherEnd {
        let sent = u64::from(self.sequence);
        let in_doubt_to = u64::from(self.in_doubt_to);
        let mut promised = RangeSet::new();
        promised.insert_range(in_doubt_to + 1..sent + 1);
        let mut unconfirmed = self.confirms.unconfirmed();
        for message in &self.resend {
            unconfirmed.insert(u64::from(message.sequence));
        }
        let mut in_doubt = RangeSet::new();
        in_doubt.insert_range(1..in_doubt_to + 1);
        for set in [self.confirms.refused(), &self.returned, &unconfirmed] {
            for range in set.iter() {
                promised.remove_range(range.clone());
                in_doubt.remove_range(range);
            }
        }
        PublisherEnd {
            load: self.load,
            number: self.number,
            unconfirmed: unconfirmed.len(),
            sent: Sent {
                published: sent,
                promised,
                in_doubt,
                republished: self.republished.clone(),
            },
        }
    }
}

/// What a publisher has done in all.
#[derive(Clone, Debug)]
pub struct PublisherEnd {
    /// Its load.
    pub load: usize,
    /// Its number, over all loads.
    pub number: u16,
    /// What queues' deliveries are judged by.
    pub sent: Sent,
    /// Messages that were neither confirmed nor refused.
    pub unconfirmed: u64,
}

/// Messages that one publisher may send: a specification's `count`, as far as sequences reach.
#[must_use]
pub fn count(count: Option<u64>) -> u32 {
    let count = count.unwrap_or(u64::from(SEQUENCE_MAX));
    u32::try_from(count).unwrap_or(SEQUENCE_MAX)
}

/// The offset of publisher `index` of `publishers` at `rate`: they take turns instead of all
/// publishing in the same moment.
#[must_use]
pub fn offset_us(rate: &Rate, index: u32, publishers: u32) -> u64 {
    let share = f64::from(index) / f64::from(publishers.max(1));
    (Schedule::interval_us(rate) * share) as u64
}
