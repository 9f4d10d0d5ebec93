//! One connection of a load: bytes in, bytes out, and what its channels make of them.

use std::io;

use leveret_amqp::method::peek_ids;
use leveret_amqp::table::RawValue;
use leveret_amqp::{
    ContentHeader, Frame, FrameKind, Method, Properties, RawTable, basic, connection, encode,
    next_frame,
};

use super::consumer::{Consumer, Delivery};
use super::dial::Request;
use super::outage::{Outage, Redial};
use super::publisher::{Hold, Next, Publisher};
use super::shared::{CONSUME, Clock, PUBLISH, Progress, Tally, UNLIMITED};
use super::template::Stamped;
use crate::client::{CLOSE, Opened, closed};
use crate::error::Error;
use crate::stamp;
use crate::transport::Transport;
use crate::verify::Ledger;

/// Bytes that may wait for the socket before publishers wait for it.
const OUTPUT_BYTES: usize = 128 * 1024;
/// Bytes of one read.
const READ_BYTES: usize = 256 * 1024;

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

/// One channel: number 1 and up, in the connection's order.
pub struct Channel {
    /// Who uses it.
    pub role: Role,
    /// Where its messages have their stamps.
    pub stamped: Stamped,
    incoming: Option<Incoming>,
}

/// Who uses a channel.
pub enum Role {
    /// A publisher.
    Publisher(Box<Publisher>),
    /// A consumer.
    Consumer(Box<Consumer>),
}

/// Content that is coming in.
struct Incoming {
    /// Delivery tag; none for a returned message.
    tag: Option<u64>,
    redelivered: bool,
    size: Option<u64>,
    left: u64,
    reader: stamp::Reader,
}

/// What a look at a connection left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// There is more to do at once.
    Again,
    /// There is nothing to do before the socket, or the time of its timer, says so.
    Wait,
}

impl Channel {
    /// A channel.
    #[must_use]
    pub fn new(role: Role, stamped: Stamped) -> Self {
        Self {
            role,
            stamped,
            incoming: None,
        }
    }
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
                    let out = &mut self.output;
                    follow_consumer(consumer, number, shared.flags & CONSUME != 0, out);
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
        encode::method(&mut self.output, 0, &CLOSE);
        self.closing = true;
        self.write()
    }

    /// Whether it broke and is not open again.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.outage.as_ref().is_some_and(Outage::is_down)
    }

    /// It ended with `error`; it is opened again, as its `timer_us` and [`Self::redial`] say, if
    /// that is no longer than `patience_us` ago.
    ///
    /// # Errors
    /// The error, if it is none that another connection would help against.
    pub fn on_break(
        &mut self,
        error: Error,
        number: usize,
        patience_us: u64,
        shared: &mut Shared,
    ) -> Result<(), Error> {
        let may_go_on = match self.outage {
            None => error.is_break(),
            Some(_) => error.may_pass(),
        };
        if !may_go_on || patience_us == 0 || self.closing {
            return Err(error);
        }
        let now_us = shared.clock.now_us();
        let tally = &mut shared.tallies[self.load];
        tally.broken += 1;
        self.transport.cut();
        self.output.clear();
        (self.output_from, self.input_from, self.input_to) = (0, 0, 0);
        (self.readable, self.writable, self.blocked) = (false, false, false);
        for channel in &mut self.channels {
            channel.incoming = None;
            match &mut channel.role {
                Role::Publisher(publisher) => publisher.on_break(now_us, tally),
                Role::Consumer(consumer) => consumer.on_break(&mut shared.ledgers),
            }
        }
        match self.outage {
            Some(_) => self.on_failed_attempt(error, patience_us, now_us),
            None => {
                let outage = self.outage.insert(Outage::begin(now_us, number));
                self.timer_us = outage.next_us();
                Ok(())
            }
        }
    }

    /// An attempt to open it again failed.
    ///
    /// # Errors
    /// [`Error::Outage`] if it has been tried for `patience_us`.
    pub fn on_failed_attempt(
        &mut self,
        error: Error,
        patience_us: u64,
        now_us: u64,
    ) -> Result<(), Error> {
        let Some(outage) = &mut self.outage else {
            return Ok(());
        };
        let length_us = outage.length_us(now_us);
        if length_us >= patience_us {
            return Err(Error::Outage {
                seconds: length_us as f64 / 1e6,
                last: Box::new(error),
            });
        }
        outage.failed(now_us);
        self.timer_us = outage.next_us();
        Ok(())
    }

    /// What is to be asked for now, so that it is opened again.
    pub fn redial(&mut self, now_us: u64, number: usize) -> Option<Request> {
        let outage = self.outage.as_mut().filter(|_| !self.closing)?;
        outage.attempt(now_us, number, &mut self.redial)
    }

    /// It is open again: publishers send again what has no confirm, and consumers consume.
    pub fn reopen(&mut self, opened: Opened, shared: &mut Shared) {
        let now_us = shared.clock.now_us();
        (self.input, self.input_to) = input_buffer(opened.input, opened.frame_max);
        self.input_from = 0;
        self.transport = opened.transport;
        self.place = opened.place;
        self.frame_max = opened.frame_max;
        (self.readable, self.writable) = (true, true);
        self.read_closed = false;
        shared.tallies[self.load].reopened += 1;
        let mut is_heard = false;
        for (number, channel) in (1_u16..).zip(&mut self.channels) {
            match &mut channel.role {
                Role::Publisher(publisher) => {
                    is_heard |= publisher.window.is_some();
                    publisher.template.set_frame_max(opened.frame_max);
                    publisher.account(now_us, &mut shared.tallies[self.load]);
                    publisher.held = None;
                }
                Role::Consumer(consumer) => {
                    is_heard = true;
                    if shared.flags & CONSUME != 0 {
                        follow_consumer(consumer, number, true, &mut self.output);
                    }
                }
            }
        }
        if let Some(outage) = &mut self.outage {
            outage.opened(now_us);
        }
        if !is_heard {
            self.end_outage(now_us, shared);
        }
    }

    /// Something came, or could not have, over a connection that was opened again.
    fn end_outage(&mut self, now_us: u64, shared: &mut Shared) {
        if let Some(outage) = self.outage.take() {
            let longest = &mut shared.tallies[self.load].outage_us_max;
            *longest = outage.length_us(now_us).max(*longest);
        }
    }

    /// A second is over: what nothing came over for a while may have nothing to say.
    pub fn look_at_outage(&mut self, now_us: u64, shared: &mut Shared) {
        if let Some(length_us) = self.outage.and_then(|outage| outage.over_us(now_us)) {
            let longest = &mut shared.tallies[self.load].outage_us_max;
            *longest = length_us.max(*longest);
            self.outage = None;
        }
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

    fn write(&mut self) -> Result<(), Error> {
        while self.writable && self.output_from < self.output.len() {
            match self.transport.write(&self.output[self.output_from..]) {
                Ok(taken) => self.output_from += taken,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                Err(error) => return self.cut(error),
            }
        }
        if self.output_from == self.output.len() {
            self.output.clear();
            self.output_from = 0;
            return match self.transport.flush() {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => self.cut(error),
                _ => Ok(()),
            };
        }
        // What is left moves to the front when that costs less than what was written.
        if self.output_from > self.output.len() / 2 {
            self.output.drain(..self.output_from);
            self.output_from = 0;
        }
        Ok(())
    }

    /// A broken connection is no error once it was to be closed.
    fn cut(&mut self, error: io::Error) -> Result<(), Error> {
        if self.closing {
            self.closed = true;
            self.readable = false;
            self.output.clear();
            self.output_from = 0;
            return Ok(());
        }
        let place = self.place.clone();
        Err(Error::Connection { place, error })
    }

    fn read(&mut self, shared: &mut Shared) -> Result<(), Error> {
        self.frames(shared)?;
        if self.input_from > 0 {
            self.input.copy_within(self.input_from..self.input_to, 0);
            self.input_to -= self.input_from;
            self.input_from = 0;
        }
        match self.transport.read(&mut self.input[self.input_to..]) {
            Ok(0) => self.cut(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                // A plain socket that gave less than was asked for has no more, but for its end:
                // epoll(7).
                let room = self.input.len() - self.input_to;
                self.readable = count == room || self.read_closed || self.transport.is_tls();
                self.input_to += count;
                self.frames(shared)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                Ok(())
            }
            Err(error) => self.cut(error),
        }
    }

    fn frames(&mut self, shared: &mut Shared) -> Result<(), Error> {
        let now_us = shared.clock.now_us();
        let before = self.outage.map(|_| shared.heard());
        let input = std::mem::take(&mut self.input);
        let mut rest = &input[self.input_from..self.input_to];
        let mut result = Ok(());
        while result.is_ok() {
            match next_frame(rest, self.frame_max) {
                Ok(Some(frame)) => {
                    rest = &rest[frame.wire_len()..];
                    result = self.frame(&frame, now_us, shared);
                }
                Ok(None) => break,
                Err(error) => result = Err(self.protocol(error.to_string())),
            }
        }
        self.input_from = self.input_to - rest.len();
        self.input = input;
        if before.is_some_and(|before| shared.heard() > before) {
            self.end_outage(now_us, shared);
        }
        result
    }

    #[inline]
    fn frame(&mut self, frame: &Frame<'_>, now_us: u64, shared: &mut Shared) -> Result<(), Error> {
        if frame.channel == 0 {
            return self.on_connection(frame);
        }
        let Some(channel) = self.channels.get_mut(usize::from(frame.channel) - 1) else {
            return Err(self.protocol(format!("channel {} is not open", frame.channel)));
        };
        let found = match frame.kind {
            FrameKind::Method => channel.method(frame.payload, now_us, shared),
            FrameKind::Header => channel.header(frame.payload),
            FrameKind::Body => channel.body(frame.payload),
            FrameKind::Heartbeat => Ok(Found::Nothing),
        };
        match found {
            Ok(Found::Nothing) => Ok(()),
            Ok(Found::Content) => {
                channel.content(frame.channel, now_us, &mut self.output, shared);
                Ok(())
            }
            Ok(Found::Other) => self.on_other(frame),
            Err(what) => Err(self.protocol(what)),
        }
    }

    fn on_connection(&mut self, frame: &Frame<'_>) -> Result<(), Error> {
        if frame.kind != FrameKind::Method {
            return Ok(());
        }
        self.on_other(frame)
    }

    /// A method that is neither a delivery nor a confirm.
    fn on_other(&mut self, frame: &Frame<'_>) -> Result<(), Error> {
        let method = Method::decode(frame.payload);
        let method = method.map_err(|error| self.protocol(error.to_string()))?;
        if let Some(error) = closed(&self.place, &method) {
            return Err(error);
        }
        match method {
            Method::ConnectionBlocked(_) => self.blocked = true,
            Method::ConnectionUnblocked(_) => self.blocked = false,
            Method::ConnectionCloseOk(connection::CloseOk {}) => {
                self.closed = true;
                self.readable = false;
            }
            Method::BasicCancel(_) => {
                let place = self.place.clone();
                return Err(Error::Cancelled { place });
            }
            // Answers to what was asked without waiting.
            _ => {}
        }
        Ok(())
    }

    fn protocol(&self, what: String) -> Error {
        let place = self.place.clone();
        Error::Protocol { place, what }
    }
}

/// Room for what is read, with what was read already, and how much that is.
fn input_buffer(mut read: Vec<u8>, frame_max: u32) -> (Vec<u8>, usize) {
    let length = read.len();
    read.resize(length.max(READ_BYTES + frame_max as usize), 0);
    (read, length)
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
    let unlimited = load == 0 && shared.flags & UNLIMITED != 0;
    let progress = &mut shared.progress[load];
    publisher.pump(out, OUTPUT_BYTES, unlimited, &shared.clock, tally, progress)
}

fn follow_consumer(consumer: &mut Consumer, number: u16, consume: bool, out: &mut Vec<u8>) {
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

/// What a frame was.
enum Found {
    /// Nothing more to do.
    Nothing,
    /// The last of a message.
    Content,
    /// Something rare.
    Other,
}

/// Class and method of a delivery, of a confirm, of a refusal, of a return.
const DELIVER: (u16, u16) = (60, 60);
const ACK: (u16, u16) = (60, 80);
const NACK: (u16, u16) = (60, 120);
const RETURN: (u16, u16) = (60, 50);
/// Octets of a method frame's payload before its fields.
const IDS_BYTES: usize = 4;

impl Channel {
    #[inline]
    fn method(
        &mut self,
        payload: &[u8],
        now_us: u64,
        shared: &mut Shared,
    ) -> Result<Found, String> {
        let fields = payload.get(IDS_BYTES..).unwrap_or_default();
        match peek_ids(payload) {
            DELIVER => {
                let deliver = basic::Deliver::decode(fields).map_err(|e| e.to_string())?;
                self.incoming = Some(Incoming::new(Some(deliver.delivery_tag)));
                if let Some(incoming) = &mut self.incoming {
                    incoming.redelivered = deliver.redelivered;
                }
                Ok(Found::Nothing)
            }
            ACK => {
                let ack = basic::Ack::decode(fields).map_err(|e| e.to_string())?;
                self.settle(ack.delivery_tag, ack.multiple, false, now_us, shared)
            }
            NACK => {
                let nack = basic::Nack::decode(fields).map_err(|e| e.to_string())?;
                self.settle(nack.delivery_tag, nack.multiple, true, now_us, shared)
            }
            RETURN => {
                self.incoming = Some(Incoming::new(None));
                Ok(Found::Nothing)
            }
            _ => Ok(Found::Other),
        }
    }

    #[inline]
    fn settle(
        &mut self,
        tag: u64,
        multiple: bool,
        refused: bool,
        now_us: u64,
        shared: &mut Shared,
    ) -> Result<Found, String> {
        let Role::Publisher(publisher) = &mut self.role else {
            return Err(format!(
                "a confirm ({tag}) for a channel without publishers"
            ));
        };
        let tally = &mut shared.tallies[publisher.load];
        let progress = &mut shared.progress[publisher.load];
        let settled = publisher.on_settle(tag, multiple, refused, now_us, tally, progress);
        settled.map_err(|_| format!("message {tag} was confirmed and waits for no confirm"))?;
        Ok(Found::Nothing)
    }

    #[inline]
    fn header(&mut self, payload: &[u8]) -> Result<Found, String> {
        let header = ContentHeader::decode(payload).map_err(|e| e.to_string())?;
        let Some(incoming) = self.incoming.as_mut().filter(|i| i.size.is_none()) else {
            return Err("a content header without a message".to_owned());
        };
        incoming.size = Some(header.body_size);
        incoming.left = header.body_size;
        if self.stamped == Stamped::Header {
            let properties = Properties::decode(header.properties).map_err(|e| e.to_string())?;
            let headers = properties.headers.unwrap_or_default();
            if let Some(RawValue::LongString(stamp) | RawValue::Bytes(stamp)) =
                headers.get(stamp::HEADER.as_bytes())
            {
                incoming.reader.take(stamp);
            }
        }
        Ok(if header.body_size == 0 {
            Found::Content
        } else {
            Found::Nothing
        })
    }

    #[inline]
    fn body(&mut self, payload: &[u8]) -> Result<Found, String> {
        let incoming = self.incoming.as_mut().filter(|i| i.size.is_some());
        let incoming = incoming.ok_or("a body without a content header")?;
        let left = incoming.left.checked_sub(payload.len() as u64);
        incoming.left = left.ok_or("a body longer than its header says")?;
        incoming.reader.take(payload);
        Ok(if incoming.left == 0 {
            Found::Content
        } else {
            Found::Nothing
        })
    }

    /// The message that is whole now.
    #[inline]
    fn content(&mut self, number: u16, now_us: u64, out: &mut Vec<u8>, shared: &mut Shared) {
        let Some(incoming) = self.incoming.take() else {
            return;
        };
        let stamp = incoming.reader.finish();
        match (&mut self.role, incoming.tag) {
            (Role::Consumer(consumer), Some(tag)) => {
                let delivery = Delivery {
                    redelivered: incoming.redelivered,
                    size: incoming.size.unwrap_or(0),
                    stamp,
                };
                let tally = &mut shared.tallies[consumer.load];
                let progress = &mut shared.progress[consumer.load];
                let ledgers = &mut shared.ledgers;
                consumer.on_delivery(&delivery, now_us, ledgers, tally, progress);
                consumer.settling.on_delivery(tag, now_us, number, out);
            }
            (Role::Publisher(publisher), None) => {
                let tally = &mut shared.tallies[publisher.load];
                let progress = &mut shared.progress[publisher.load];
                publisher.on_return(stamp, tally, progress);
            }
            // A delivery to a publisher, a return to a consumer: neither was asked for.
            _ => {}
        }
    }
}

impl Incoming {
    #[inline]
    fn new(tag: Option<u64>) -> Self {
        Self {
            tag,
            redelivered: false,
            size: None,
            left: 0,
            reader: stamp::Reader::default(),
        }
    }
}
