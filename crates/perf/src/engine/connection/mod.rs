//! One connection of a load: bytes in, bytes out, and what its channels make of them.

mod breaks;
mod channel;
mod stream;
mod wire;

use leveret_amqp::{RawTable, basic, encode};

pub use channel::{Channel, Role};
use wire::{OUTPUT_BYTES, input_buffer};

use super::consumer::Consumer;
use super::outage::{Outage, Redial};
use super::publisher::{Allowance, Hold, Next, Publisher};
use super::shared::{CONSUME, Clock, PUBLISH, Progress, Tally, UNLIMITED};
use crate::client::{CLOSE, Opened};
use crate::error::Error;
use crate::stream::Session;
use crate::transport::Transport;
use crate::verify::Ledger;

/// What the connections of one thread share.
pub struct Shared {
    /// The run's clock.
    pub clock: Clock,
    /// What is to be done.
    pub flags: u8,
    /// This second's tallies, by load.
    pub tallies: Vec<Tally>,
    /// Everything so far, by load.
    pub progress: Vec<Progress>,
    /// The ledgers of this thread's queues.
    pub ledgers: Vec<Ledger>,
}

impl Shared {
    /// Confirms and deliveries of this second.
    fn heard(&self) -> u64 {
        let of = |tally: &Tally| tally.confirmed + tally.refused + tally.consumed;
        self.tallies.iter().map(of).sum()
    }
}

/// One connection.
pub struct Connection {
    transport: Transport,
    place: String,
    frame_max: u32,
    /// The protocol's state, where it is the one of streams.
    session: Option<Session>,
    input: Vec<u8>,
    /// Bytes of `input` that were looked at, and bytes that were read.
    input_from: usize,
    input_to: usize,
    output: Vec<u8>,
    output_from: usize,
    channels: Vec<Channel>,
    load: usize,
    redial: Redial,
    outage: Option<Outage>,
    blocked: bool,
    closing: bool,
    /// Whether the socket may have bytes to read.
    pub readable: bool,
    /// Whether the other end has closed: what is left is read to its end, which comes with no event
    /// of its own.
    pub read_closed: bool,
    /// Whether the socket may take bytes.
    pub writable: bool,
    /// Whether it is closed in order.
    pub closed: bool,
    /// Whether it is in the thread's list of those to look at.
    pub listed: bool,
    /// The time at which it wants to be looked at.
    pub timer_us: Option<u64>,
}

/// What a look at a connection left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// There is more to do at once.
    Again,
    /// There is nothing to do before the socket, or the time of its timer, says so.
    Wait,
}

impl Connection {
    /// A connection of a load that was opened, with its channels, and how it would be again.
    #[must_use]
    pub fn new(opened: Opened, channels: Vec<Channel>, load: usize, redial: Redial) -> Self {
        let (input, input_to) = input_buffer(opened.input, opened.frame_max);
        Self {
            transport: opened.transport,
            place: opened.place,
            frame_max: opened.frame_max,
            session: opened.session,
            input,
            input_from: 0,
            input_to,
            output: Vec::with_capacity(OUTPUT_BYTES + 4_096),
            output_from: 0,
            channels,
            load,
            redial,
            outage: None,
            blocked: false,
            closing: false,
            readable: true,
            read_closed: false,
            writable: true,
            closed: false,
            listed: false,
            timer_us: None,
        }
    }

    /// The socket, to register with a poll.
    pub fn socket(&mut self) -> Option<&mut mio::net::TcpStream> {
        self.transport.polled()
    }

    /// Its channels.
    pub fn channels(&mut self) -> &mut [Channel] {
        &mut self.channels
    }

    /// What is to be done has changed from `before`: publishers begin again, consumers begin or
    /// cancel.
    pub fn follow(&mut self, before: u8, shared: &mut Shared) {
        let changed = before ^ shared.flags;
        let now_us = shared.clock.now_us();
        let is_down = self.is_down();
        for (number, channel) in (1_u16..).zip(&mut self.channels) {
            match &mut channel.role {
                Role::Publisher(publisher) if changed & (PUBLISH | UNLIMITED) != 0 => {
                    publisher.account(now_us, &mut shared.tallies[publisher.load]);
                    publisher.begin(now_us);
                }
                // One that is down begins as it is to when it is open again.
                Role::Consumer(consumer) if changed & CONSUME != 0 && !is_down => {
                    let consume = shared.flags & CONSUME != 0;
                    let (session, out) = (&mut self.session, &mut self.output);
                    follow_consumer(consumer, number, consume, session, out);
                }
                _ => {}
            }
        }
    }

    /// Reads, publishes, settles and writes, a bounded amount of each. Not for one that is down.
    ///
    /// # Errors
    /// If the connection is cut, or the broker closes it or breaks the protocol.
    pub fn turn(&mut self, shared: &mut Shared) -> Result<Turn, Error> {
        self.timer_us = None;
        if self.readable {
            self.read(shared)?;
        }
        let wants_more = !self.closing && self.pump(shared);
        self.write()?;
        let may_go_on = self.readable || (wants_more && self.writable);
        Ok(if may_go_on && !self.closed {
            Turn::Again
        } else {
            Turn::Wait
        })
    }

    /// Closes in order: what waits is settled, then the connection closed.
    ///
    /// # Errors
    /// As [`Self::turn`].
    pub fn close(&mut self) -> Result<(), Error> {
        if self.is_down() {
            (self.closing, self.closed) = (true, true);
            self.timer_us = None;
            return Ok(());
        }
        self.flush_settles();
        match &mut self.session {
            Some(session) => session.close(&mut self.output),
            None => encode::method(&mut self.output, 0, &CLOSE),
        }
        self.closing = true;
        self.write()
    }

    /// Settles what waits for batches to fill.
    pub fn flush_settles(&mut self) {
        for (number, channel) in (1..).zip(&mut self.channels) {
            if let Role::Consumer(consumer) = &mut channel.role {
                consumer.settling.flush(number, &mut self.output);
            }
        }
    }

    /// Lets channels write what is due; whether any was held up by the lack of room alone.
    fn pump(&mut self, shared: &mut Shared) -> bool {
        let mut wants_more = false;
        let mut timer_us: Option<u64> = None;
        for (number, channel) in (1..).zip(&mut self.channels) {
            let next = match &mut channel.role {
                Role::Consumer(consumer) => {
                    let settling = &mut consumer.settling;
                    settling.on_time(shared.clock.now_us(), number, &mut self.output)
                }
                Role::Publisher(publisher) => {
                    let next = pump_publisher(publisher, self.blocked, &mut self.output, shared);
                    wants_more |= publisher.held.is_some_and(|(h, _)| h == Hold::Socket);
                    match next {
                        Next::At(time) => Some(time),
                        Next::Held | Next::Finished => None,
                    }
                }
            };
            timer_us = match (timer_us, next) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
        self.timer_us = timer_us;
        wants_more
    }
}

fn pump_publisher(
    publisher: &mut Publisher,
    blocked: bool,
    out: &mut Vec<u8>,
    shared: &mut Shared,
) -> Next {
    let load = publisher.load;
    let tally = &mut shared.tallies[load];
    let again = !publisher.resend.is_empty();
    if shared.flags & PUBLISH == 0 && !again {
        return Next::Held;
    }
    if blocked {
        publisher.hold(Hold::Blocked, shared.clock.now_us(), tally);
        return Next::Held;
    }
    if again {
        publisher.pump_again(out, OUTPUT_BYTES, shared.clock.now_us(), tally);
        if !publisher.resend.is_empty() || shared.flags & PUBLISH == 0 {
            return Next::Held;
        }
    }
    let allowed = Allowance {
        room: OUTPUT_BYTES,
        unlimited: load == 0 && shared.flags & UNLIMITED != 0,
    };
    let progress = &mut shared.progress[load];
    publisher.pump(out, allowed, &shared.clock, tally, progress)
}

fn follow_consumer(
    consumer: &Consumer,
    number: u16,
    consume: bool,
    session: &mut Option<Session>,
    out: &mut Vec<u8>,
) {
    if let Some(session) = session {
        stream::follow_subscription(consumer, number, consume, session, out);
        return;
    }
    let tag = format!("leveret-perf-{number}");
    if !consume {
        let cancel = basic::Cancel {
            consumer_tag: &tag,
            nowait: true,
        };
        encode::method(out, number, &cancel);
        return;
    }
    let consume = basic::Consume {
        queue: &consumer.queue,
        consumer_tag: &tag,
        no_local: false,
        no_ack: consumer.settling.is_automatic(),
        exclusive: false,
        nowait: true,
        arguments: RawTable::trusted(&consumer.arguments),
    };
    encode::method(out, number, &consume);
}
