//! One client's connection: its state, and what the node tells it.

use crate::channel::{Channel, ChannelFacts};
use crate::contract::{Awaited, Delivery, Request};
use crate::ledger::Ledger;
use crate::replies::Asked;
use crate::settings::Settings;
use crate::unacked::Held;
use bytes::Bytes;
use leveret_amqp::encode::{self, Content};
use leveret_amqp::preamble::Guess;
use leveret_amqp::{
    EncodeMethod, OutBuffer, Properties, RawTable, RawValue, TableBuilder, basic, channel,
    connection,
};
use leveret_types::{
    ChannelId, ConsumerId, FieldTable, FieldValue, Message, Now, ProtocolError, QueueId, ReplyCode,
    Scope, ShardId, limits,
};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

pub(crate) type Map<K, V> = hashbrown::HashMap<K, V, foldhash::fast::FixedState>;

/// How far a connection is, as its owner must know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The client has yet to log in or to open its virtual host.
    Opening,
    /// In use.
    Open,
    /// The broker has closed it and waits a while for the client's answer.
    Closing,
    /// Over: the socket is to be dropped once the output is written.
    Closed,
}

/// How far a connection is, as the protocol knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Awaits the protocol header.
    Preamble,
    /// Awaits `connection.start-ok`.
    Starting,
    /// Awaits `connection.secure-ok`.
    Securing,
    /// Awaits `connection.tune-ok`.
    Tuning,
    /// Awaits `connection.open`.
    Opening,
    /// Open.
    Running,
    /// Has sent `connection.close` and awaits its answer. What the client says otherwise is
    /// ignored; after a frame that could not be read nothing it says can be understood.
    Closing { deaf: bool },
    /// Over.
    Closed,
}

impl Phase {
    /// RabbitMQ's name of the phase, for error texts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Preamble => "pre_init",
            Self::Starting => "starting",
            Self::Securing => "securing",
            Self::Tuning => "tuning",
            Self::Opening => "opening",
            Self::Running => "running",
            Self::Closing { .. } => "closing",
            Self::Closed => "closed",
        }
    }
}

/// Why a connection is over. Its display is for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The client has closed it.
    Client,
    /// An error closed it.
    Error(ProtocolError),
    /// The login was refused.
    Login(String),
    /// The client did not begin as one of AMQP 0-9-1.
    Stranger(Guess),
    /// The client did not log in and open a virtual host in time.
    HandshakeTimeout,
    /// Nothing was heard of the client for two heartbeats.
    MissedHeartbeats,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client => f.write_str("closed by the client"),
            Self::Error(error) => error.fmt(f),
            Self::Login(text) => f.write_str(text),
            Self::Stranger(guess) => guess.fmt(f),
            Self::HandshakeTimeout => f.write_str("the client did not open a virtual host in time"),
            Self::MissedHeartbeats => f.write_str("missed heartbeats from the client"),
        }
    }
}

/// What the client is able to understand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Capabilities {
    pub authentication_failure_close: bool,
    pub connection_blocked: bool,
    pub consumer_cancel_notify: bool,
}

/// A consumer as deliveries find it.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub channel: u16,
    pub tag: Box<str>,
    pub no_ack: bool,
}

/// A client's connection. See the crate's description.
pub struct Connection {
    pub(crate) settings: Arc<Settings>,
    pub(crate) phase: Phase,
    pub(crate) end: Option<End>,
    /// The frame that has begun to arrive.
    pub(crate) partial: Vec<u8>,
    /// What has arrived and must wait until what was asked is answered.
    pub(crate) input: Bytes,
    pub(crate) asked: Option<Asked>,
    pub(crate) out: OutBuffer,
    pub(crate) channels: Map<u16, Channel>,
    pub(crate) consumers: Map<ConsumerId, Consumer>,
    /// Channels with answers to publishes that the next flush gives.
    confirming: Vec<u16>,
    /// Channels with publishes that wait for a log or a queue.
    awaiting: Vec<u16>,
    /// Octets of a frame: before login, or as negotiated.
    pub(crate) frame_max: u32,
    pub(crate) channel_max: u16,
    pub(crate) heartbeat_seconds: u16,
    /// What the client says of itself, as it came: checked, and decoded when somebody asks, for it
    /// may come from anybody.
    pub(crate) client_properties: Box<[u8]>,
    pub(crate) capabilities: Capabilities,
    pub(crate) mechanism: String,
    pub(crate) user: String,
    pub(crate) vhost: String,
    pub(crate) published: bool,
    blocked: bool,
    /// The latest moment that was told.
    pub(crate) now: Now,
    /// When the client was last heard, in monotonic milliseconds; nothing if that begins to count
    /// with the next moment told.
    pub(crate) heard_ms: Option<u64>,
    /// When to see whether a heartbeat is to be sent.
    pub(crate) speak_ms: u64,
    /// Whether something was said since that was last seen to.
    spoke: bool,
    /// When the phase must be over: the handshake, or the closing; nothing if that begins to count
    /// with the next moment told.
    pub(crate) until_ms: Option<u64>,
}

impl Connection {
    /// A connection that has just been accepted.
    #[must_use]
    pub fn new(settings: Arc<Settings>, now: Now) -> Self {
        let until_ms = Some(now.monotonic_ms + settings.handshake_ms_max);
        Self {
            settings,
            phase: Phase::Preamble,
            end: None,
            partial: Vec::new(),
            input: Bytes::new(),
            asked: None,
            out: OutBuffer::new(),
            channels: Map::default(),
            consumers: Map::default(),
            confirming: Vec::new(),
            awaiting: Vec::new(),
            frame_max: limits::FRAME_BYTES_PREAUTH_MAX,
            channel_max: 0,
            heartbeat_seconds: 0,
            client_properties: Box::default(),
            capabilities: Capabilities::default(),
            mechanism: String::new(),
            user: String::new(),
            vhost: String::new(),
            published: false,
            blocked: false,
            now,
            heard_ms: Some(now.monotonic_ms),
            speak_ms: 0,
            spoke: false,
            until_ms,
        }
    }

    /// How far it is.
    #[must_use]
    pub const fn state(&self) -> State {
        match self.phase {
            Phase::Running => State::Open,
            Phase::Closing { .. } => State::Closing,
            Phase::Closed => State::Closed,
            _ => State::Opening,
        }
    }

    /// Why it is over, or is about to be.
    #[must_use]
    pub const fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// Whether an answer is owed: the socket need not be read before [`Self::reply`].
    #[must_use]
    pub const fn suspended(&self) -> bool {
        self.asked.is_some()
    }

    /// Bytes that wait to be written to the socket.
    #[must_use]
    pub fn unsent_bytes(&self) -> usize {
        self.out.len()
    }

    /// What is to be written to the socket.
    pub const fn output(&mut self) -> &mut OutBuffer {
        &mut self.out
    }

    /// The client's bytes are left unread on purpose, or because there are too many: it is not
    /// silent, and not to be dropped for it.
    pub const fn unread(&mut self, now: Now) {
        if self.heard_ms.is_some() {
            self.heard_ms = Some(now.monotonic_ms);
        }
    }

    /// Whether the client has published: only then does `connection.blocked` concern it.
    #[must_use]
    pub const fn published_yet(&self) -> bool {
        self.published
    }

    /// Whether a publish waits for a log: only then must [`Self::durable`] be called.
    #[must_use]
    pub fn awaits_durability(&self) -> bool {
        let mut awaiting = self.awaiting.iter();
        awaiting.any(|number| {
            let channel = self.channels.get(number);
            channel.is_some_and(Channel::awaits_durability)
        })
    }

    fn raw_client_properties(&self) -> RawTable<'_> {
        RawTable::trusted(&self.client_properties)
    }

    /// What the client says of itself.
    #[must_use]
    pub fn client_properties(&self) -> FieldTable {
        self.raw_client_properties().to_table()
    }

    /// The name that the client gives the connection (`connection_name`).
    #[must_use]
    pub fn client_name(&self) -> Option<&str> {
        match self.raw_client_properties().get(b"connection_name")? {
            RawValue::LongString(name) => std::str::from_utf8(name).ok(),
            _ => None,
        }
    }

    /// The user; empty before login.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The virtual host; empty before it is open.
    #[must_use]
    pub fn vhost(&self) -> &str {
        &self.vhost
    }

    /// Octets of a frame in force.
    #[must_use]
    pub const fn frame_max(&self) -> u32 {
        self.frame_max
    }

    /// Channels in force; 0 before they are negotiated.
    #[must_use]
    pub const fn channel_max(&self) -> u16 {
        self.channel_max
    }

    /// Heartbeat interval in force, in seconds; 0 is none.
    #[must_use]
    pub const fn heartbeat_seconds(&self) -> u16 {
        self.heartbeat_seconds
    }

    /// The open channels, in no order.
    pub fn channels(&self) -> impl Iterator<Item = ChannelFacts> + '_ {
        let open = self.channels.iter().filter(|(_, channel)| !channel.closing);
        open.map(|(number, channel)| channel.facts(*number))
    }

    /// Whether a channel is open: what was sent off on it before it was closed for an error need
    /// not be carried out.
    #[must_use]
    pub fn is_open(&self, channel: ChannelId) -> bool {
        self.channels.get(&channel.0).is_some_and(|c| !c.closing)
    }

    /// Appends a method frame.
    pub(crate) fn send(&mut self, channel: u16, method: &impl EncodeMethod) {
        self.spoke = true;
        encode::method(self.out.tail(), channel, method);
    }

    /// Appends a method with its content.
    fn send_content(&mut self, channel: u16, method: &impl EncodeMethod, content: &Content<'_>) {
        self.spoke = true;
        encode::with_content(&mut self.out, channel, method, content, self.frame_max);
    }

    /// Whether a channel is transactional.
    #[must_use]
    pub fn is_transactional(&self, channel: ChannelId) -> bool {
        let channel = self.channels.get(&channel.0);
        channel.is_some_and(Channel::is_transactional)
    }

    /// A channel that is open, not closing.
    pub(crate) fn open_channel(&mut self, channel: u16) -> Option<&mut Channel> {
        self.channels.get_mut(&channel).filter(|c| !c.closing)
    }

    /// A message found no queue, or no consumer: gives it back to its publisher.
    pub fn returned(&mut self, channel: ChannelId, message: &Message, code: ReplyCode, text: &str) {
        if self.phase != Phase::Running || self.open_channel(channel.0).is_none() {
            return;
        }
        let method = basic::Return {
            reply_code: code.code(),
            reply_text: text.as_bytes(),
            exchange: message.exchange(),
            routing_key: message.routing_key(),
        };
        self.send_content(channel.0, &method, &Content::of(message));
    }

    /// A publish is in its queues. It is confirmed once all that is given has come true; at once if
    /// nothing is given. It must not have come true yet, or be told after this.
    pub fn accepted(&mut self, channel: ChannelId, number: u64, waits: &[(Awaited, u64)]) {
        let Some(ledger) = self.open_channel(channel.0).and_then(Channel::ledger) else {
            return;
        };
        let (ready, awaits) = (ledger.is_ready(), ledger.awaits());
        ledger.accept(number, waits);
        let (ready_now, awaits_now) = (ledger.is_ready(), ledger.awaits());
        if ready_now && !ready {
            self.confirming.push(channel.0);
        }
        if awaits_now && !awaits {
            self.awaiting.push(channel.0);
        }
    }

    /// A publish was refused by a queue.
    pub fn rejected(&mut self, channel: ChannelId, number: u64) {
        let Some(ledger) = self.open_channel(channel.0).and_then(Channel::ledger) else {
            return;
        };
        let ready = ledger.is_ready();
        ledger.reject(number);
        if !ready && ledger.is_ready() {
            self.confirming.push(channel.0);
        }
    }

    /// A shard's log is durable through a position.
    pub fn durable(&mut self, shard: ShardId, through: u64) {
        self.tell_ledgers(|ledger| ledger.durable(shard, through));
    }

    /// A queue of the cluster has committed the operations of this node through a sequence number.
    pub fn committed(&mut self, queue: QueueId, through: u64) {
        self.tell_ledgers(|ledger| ledger.committed(queue, through));
    }

    /// A queue of the cluster refuses operations of this node.
    pub fn refused(&mut self, queue: QueueId, sequences: &Range<u64>) {
        self.tell_ledgers(|ledger| ledger.refused(queue, sequences.clone()));
    }

    fn tell_ledgers(&mut self, mut tell: impl FnMut(&mut Ledger)) {
        let Self {
            awaiting,
            confirming,
            channels,
            ..
        } = self;
        awaiting.retain(|number| {
            let Some(ledger) = channels.get_mut(number).and_then(Channel::ledger) else {
                return false;
            };
            let ready = ledger.is_ready();
            tell(ledger);
            if !ready && ledger.is_ready() {
                confirming.push(*number);
            }
            ledger.awaits()
        });
    }

    /// Gives the client the answers to its publishes that are ready: before each write to the
    /// socket.
    pub fn flush(&mut self) {
        let mut confirming = std::mem::take(&mut self.confirming);
        for channel in confirming.drain(..) {
            self.flush_channel(channel);
        }
        self.confirming = confirming;
    }

    /// The same for one channel, so that nothing overtakes them on it.
    pub(crate) fn flush_channel(&mut self, number: u16) {
        let Self {
            out,
            channels,
            phase,
            spoke,
            ..
        } = self;
        if *phase != Phase::Running {
            return;
        }
        let Some(ledger) = channels.get_mut(&number).and_then(Channel::ledger) else {
            return;
        };
        ledger.flush(|answer| {
            *spoke = true;
            let (delivery_tag, multiple) = (answer.number, answer.multiple);
            if answer.confirmed {
                encode::method(
                    out.tail(),
                    number,
                    &basic::Ack {
                        delivery_tag,
                        multiple,
                    },
                );
            } else {
                let nack = basic::Nack {
                    delivery_tag,
                    multiple,
                    requeue: false,
                };
                encode::method(out.tail(), number, &nack);
            }
        });
    }

    /// Sends a message to its consumer and remembers that the client holds it. False if the
    /// consumer is gone: the message is the queue's again.
    pub fn deliver(&mut self, delivery: &Delivery) -> bool {
        let Self {
            consumers,
            channels,
            ..
        } = self;
        if self.phase != Phase::Running {
            return false;
        }
        let Some(consumer) = consumers.get(&delivery.consumer) else {
            return false;
        };
        let Some(channel) = channels.get_mut(&consumer.channel) else {
            return false;
        };
        let delivery_tag = channel.next_tag();
        if !consumer.no_ack {
            channel.unacked.push(Held::new(delivery_tag, delivery));
        }
        let message = &delivery.message;
        let method = basic::Deliver {
            consumer_tag: consumer.tag.as_bytes(),
            delivery_tag,
            redelivered: delivery.redelivered,
            exchange: message.exchange(),
            routing_key: message.routing_key(),
        };
        self.spoke = true;
        with_delivery_content(delivery, |content| {
            encode::with_content(
                &mut self.out,
                consumer.channel,
                &method,
                content,
                self.frame_max,
            );
        });
        true
    }

    /// Answers `basic.get` with a message.
    pub(crate) fn deliver_got(
        &mut self,
        number: u16,
        no_ack: bool,
        delivery: &Delivery,
        left: u32,
    ) {
        let Some(channel) = self.open_channel(number) else {
            return;
        };
        let delivery_tag = channel.next_tag();
        if !no_ack {
            channel.unacked.push(Held::new(delivery_tag, delivery));
        }
        let message = &delivery.message;
        let method = basic::GetOk {
            delivery_tag,
            redelivered: delivery.redelivered,
            exchange: message.exchange(),
            routing_key: message.routing_key(),
            message_count: left,
        };
        with_delivery_content(delivery, |content| {
            self.send_content(number, &method, content)
        });
    }

    /// Whether the client can be told of a consumer that has ended without its doing.
    pub const fn hears_of_cancels(&self) -> bool {
        self.capabilities.consumer_cancel_notify
    }

    /// How many deliveries to a consumer the queue does not know to be settled.
    pub fn held_by(&self, channel: ChannelId, consumer: ConsumerId) -> usize {
        let channel = self.channels.get(&channel.0);
        channel.map_or(0, |channel| channel.held_by(consumer))
    }

    /// A consumer has ended without the client's doing: its queue was deleted, or is led elsewhere
    /// now, or it was too slow.
    pub fn consumer_cancelled(&mut self, consumer: ConsumerId) {
        let Some(consumer) = self.consumers.remove(&consumer) else {
            return;
        };
        if let Some(channel) = self.channels.get_mut(&consumer.channel) {
            channel.consumers.remove(&consumer.tag);
        }
        if self.capabilities.consumer_cancel_notify && self.phase == Phase::Running {
            let consumer_tag = &consumer.tag;
            self.send(
                consumer.channel,
                &basic::Cancel {
                    consumer_tag,
                    nowait: true,
                },
            );
        }
    }

    /// Publishers are held back for this reason, or let go on. A client that can be told is told,
    /// once.
    pub fn blocked(&mut self, reason: Option<&str>) {
        if self.blocked == reason.is_some() {
            return;
        }
        self.blocked = reason.is_some();
        // A client that is not read cannot be heard: its silence counts from when it is read again.
        self.heard_ms = None;
        if !self.capabilities.connection_blocked || self.phase != Phase::Running {
            return;
        }
        match reason {
            Some(reason) => self.send(0, &connection::Blocked { reason }),
            None => self.send(0, &connection::Unblocked {}),
        }
    }

    /// Something that was sent off has failed: closes the channel, or the connection, as the error
    /// says.
    pub fn fail(
        &mut self,
        now: Now,
        channel: ChannelId,
        error: ProtocolError,
        requests: &mut Vec<Request>,
    ) {
        self.now = now;
        match error.scope {
            Scope::Connection => self.fail_connection(error, requests),
            Scope::Channel => self.fail_channel(channel.0, &error, requests),
        }
    }

    /// Closes the connection. The requests that this makes come with the next call that takes them.
    pub fn close(&mut self, error: ProtocolError) {
        if matches!(self.phase, Phase::Closing { .. } | Phase::Closed) {
            return;
        }
        if self.phase == Phase::Preamble {
            self.end_with(End::Error(error));
            return;
        }
        self.flush();
        let text = error.reply_text();
        let close = connection::Close {
            reply_code: error.code.code(),
            reply_text: &text,
            class_id: error.class,
            method_id: error.method,
        };
        self.send(0, &close);
        if self.phase == Phase::Running {
            self.until_ms = None;
        } // else the deadline of the handshake holds: a stranger gets no more time by a mistake.
        self.phase = Phase::Closing { deaf: false };
        self.end = Some(End::Error(error));
    }

    /// Closes the connection for an error, and gives back what its channels held.
    pub(crate) fn fail_connection(&mut self, error: ProtocolError, requests: &mut Vec<Request>) {
        self.close(error);
        self.close_channels(requests);
    }

    /// Closes a channel for an error: until the client agrees, nothing it says on it is heard.
    pub(crate) fn fail_channel(
        &mut self,
        number: u16,
        error: &ProtocolError,
        requests: &mut Vec<Request>,
    ) {
        if self.phase != Phase::Running || self.open_channel(number).is_none() {
            return;
        }
        self.flush_channel(number);
        let text = error.reply_text();
        let close = channel::Close {
            reply_code: error.code.code(),
            reply_text: &text,
            class_id: error.class,
            method_id: error.method,
        };
        self.send(number, &close);
        self.forget_consumers(number);
        if let Some(channel) = self.channels.get_mut(&number) {
            channel.begin_closing();
        }
        requests.push(Request::ChannelClosed {
            channel: ChannelId(number),
        });
    }

    /// Takes a channel's consumers from deliveries.
    pub(crate) fn forget_consumers(&mut self, number: u16) {
        let Self {
            channels,
            consumers,
            ..
        } = self;
        for id in channels
            .get(&number)
            .iter()
            .flat_map(|c| c.consumers.values())
        {
            consumers.remove(id);
        }
    }

    /// Ends all channels, in the order of their numbers.
    pub(crate) fn close_channels(&mut self, requests: &mut Vec<Request>) {
        let open = self
            .channels
            .drain()
            .filter(|(_, channel)| !channel.closing);
        let mut numbers: Vec<u16> = open.map(|(number, _)| number).collect();
        numbers.sort_unstable();
        let closed = |number| Request::ChannelClosed {
            channel: ChannelId(number),
        };
        requests.extend(numbers.into_iter().map(closed));
        self.consumers.clear();
        self.awaiting.clear();
        self.confirming.clear();
    }

    /// The socket is gone.
    pub fn teardown(&mut self, requests: &mut Vec<Request>) {
        self.asked = None;
        self.input = Bytes::new();
        self.close_channels(requests);
        self.phase = Phase::Closed;
    }

    /// Ends at once, without a word.
    pub(crate) fn end_with(&mut self, end: End) {
        self.phase = Phase::Closed;
        self.end = Some(end);
    }

    /// Gives memory back that nothing is in: for a connection that has fallen silent.
    pub fn shrink(&mut self) {
        self.out.shrink();
        self.partial.shrink_to_fit();
        self.confirming.shrink_to_fit();
        self.awaiting.shrink_to_fit();
        for channel in self.channels.values_mut() {
            channel.unacked.shrink();
        }
    }

    /// Whether the client is expected to be heard.
    const fn listening(&self) -> bool {
        self.asked.is_none() && !(self.blocked && self.published)
    }

    /// When [`Self::tick`] is to be called, in monotonic milliseconds.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        match self.phase {
            Phase::Closed => None,
            Phase::Running => {
                let interval = self.heartbeat_ms()?;
                let heard = self.heard_ms.unwrap_or(self.now.monotonic_ms);
                let silence = self.listening().then_some(heard + 2 * interval);
                let count = self.heard_ms.is_none() && self.listening();
                let count = count.then_some(self.now.monotonic_ms);
                [count, silence, Some(self.speak_ms)]
                    .into_iter()
                    .flatten()
                    .min()
            }
            _ => Some(self.until_ms.unwrap_or(self.now.monotonic_ms)),
        }
    }

    fn heartbeat_ms(&self) -> Option<u64> {
        let interval = u64::from(self.heartbeat_seconds) * 1000;
        (interval > 0).then_some(interval)
    }

    /// Its time has come: heartbeats, and phases that have lasted too long.
    pub fn tick(&mut self, now: Now, requests: &mut Vec<Request>) {
        self.now = now;
        match self.phase {
            Phase::Closed => {}
            Phase::Running => self.tick_heartbeats(now.monotonic_ms),
            Phase::Closing { deaf } => {
                self.close_channels(requests);
                let wait = if deaf {
                    limits::FRAME_ERROR_LINGER_MS
                } else {
                    limits::CLOSE_MS_MAX
                };
                let until = *self.until_ms.get_or_insert(now.monotonic_ms + wait);
                if until <= now.monotonic_ms {
                    self.phase = Phase::Closed;
                }
            }
            _ if self.until_ms.is_some_and(|until| until <= now.monotonic_ms) => {
                self.end_with(End::HandshakeTimeout);
            }
            _ => {}
        }
        if self.phase == Phase::Closed {
            self.close_channels(requests);
        }
    }

    fn tick_heartbeats(&mut self, now_ms: u64) {
        let Some(interval) = self.heartbeat_ms() else {
            return;
        };
        if self.listening() {
            let heard = *self.heard_ms.get_or_insert(now_ms);
            if heard + 2 * interval <= now_ms {
                self.end_with(End::MissedHeartbeats);
                return;
            }
        } else {
            self.heard_ms = None;
        }
        if self.speak_ms <= now_ms {
            // What still waits to be written will be heartbeat enough.
            if !self.spoke && self.out.is_empty() {
                self.shrink();
                self.out.tail().extend_from_slice(&encode::HEARTBEAT);
            }
            self.spoke = false;
            self.speak_ms = now_ms + interval / 2;
        }
    }
}

/// Gives `send` a delivery's content: as it is, or with the headers that count earlier deliveries.
fn with_delivery_content(delivery: &Delivery, send: impl FnOnce(&Content<'_>)) {
    const HEADERS: [&str; 2] = ["x-delivery-count", "x-acquired-count"];
    let counts = [delivery.delivery_count, delivery.acquired_count];
    let counts = counts.map(|count| count.filter(|count| *count > 0));
    if counts == [None, None] {
        send(&Content::of(&delivery.message));
        return;
    }
    let mut properties = Properties::trusted(delivery.message.properties());
    let mut headers = TableBuilder::copy_of(properties.headers(), &HEADERS);
    for (header, count) in HEADERS.into_iter().zip(counts) {
        if let Some(count) = count {
            headers.push(header, &FieldValue::I64(i64::from(count)));
        }
    }
    properties.headers = Some(headers.as_table());
    send(&Content {
        properties: &properties.to_bytes(),
        message: &delivery.message,
    });
}
