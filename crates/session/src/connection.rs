//! One client's connection: its state, and what the node tells it.

mod answers;
mod arriving;
mod client;
mod close;
mod confirms;
mod deliver;
mod publish_hold;
mod terms;
mod time;
mod times;

use crate::channel::Channel;
use crate::channels::Channels;
use crate::publish::begins_publish;
use crate::replies::PendingRequest;
use crate::settings::Settings;
use answers::Answers;
use arriving::Arriving;
use client::Client;
use leveret_amqp::encode::{self, Content};
use leveret_amqp::preamble::Guess;
use leveret_amqp::{EncodeMethod, connection};
use leveret_client::{ChannelStatus, DeliveredTo, SessionLatencies, SessionState as State};
use leveret_types::{ChannelId, ConsumerId, FieldTable, Now, OutBuffer, ProtocolError};
use publish_hold::Hold;
use std::fmt;
use std::sync::Arc;
use terms::Terms;
use times::Times;

/// By numbers that the broker gives: a fast hash that is the same at every start.
pub(crate) type ByConsumer<V> = hashbrown::HashMap<ConsumerId, V, foldhash::fast::FixedState>;

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
    Closing { ignoring_input: bool },
    /// Over, with all said on both sides; the client may yet have to close its socket.
    Lingering,
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
            Self::Lingering | Self::Closed => "closed",
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
    UnknownProtocol(Guess),
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
            Self::UnknownProtocol(guess) => guess.fmt(f),
            Self::HandshakeTimeout => f.write_str("the client did not open a virtual host in time"),
            Self::MissedHeartbeats => f.write_str("missed heartbeats from the client"),
        }
    }
}

/// A consumer as deliveries find it.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub channel: u16,
    pub tag: Box<str>,
    pub no_ack: bool,
    pub delivered: DeliveredTo,
}

/// A client's connection. See the crate's description.
pub struct Connection {
    pub(crate) settings: Arc<Settings>,
    pub(crate) phase: Phase,
    pub(crate) end: Option<End>,
    /// Something that was sent off has failed and closed the connection: what is behind that does
    /// not count.
    pub(crate) failed: bool,
    pub(crate) client: Client,
    pub(crate) terms: Terms,
    pub(crate) times: Times,
    pub(crate) arriving: Arriving,
    pub(crate) hold: Hold,
    pub(crate) pending_request: Option<PendingRequest>,
    /// Publishes were sent off of which it is not known what came of them.
    pub(crate) sent_off: bool,
    pub(crate) channels: Channels<Channel>,
    pub(crate) consumers: ByConsumer<Consumer>,
    answers: Answers,
    pub(crate) latencies: SessionLatencies,
    pub(crate) out: OutBuffer,
}

impl Connection {
    /// A connection that has just been accepted.
    #[must_use]
    pub fn new(settings: Arc<Settings>, now: Now) -> Self {
        let times = Times::new(now, settings.handshake_ms_max);
        Self {
            settings,
            phase: Phase::Preamble,
            end: None,
            failed: false,
            client: Client::default(),
            terms: Terms::default(),
            times,
            arriving: Arriving::default(),
            hold: Hold::default(),
            pending_request: None,
            sent_off: false,
            channels: Channels::default(),
            consumers: ByConsumer::default(),
            answers: Answers::default(),
            latencies: SessionLatencies::default(),
            out: OutBuffer::new(),
        }
    }

    /// How far it is.
    #[must_use]
    pub const fn state(&self) -> State {
        match self.phase {
            Phase::Running => State::Open,
            Phase::Closing { .. } => State::Closing,
            Phase::Lingering => State::Lingering,
            Phase::Closed => State::Closed,
            _ => State::Opening,
        }
    }

    /// Why it is over, or is about to be.
    #[must_use]
    pub const fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// Whether the client is to see the end of what the broker sends, once the output is written:
    /// after a closing of the broker's some clients wait for that. One that has closed the
    /// connection itself closes the socket as well.
    #[must_use]
    pub const fn ends_output(&self) -> bool {
        matches!(self.phase, Phase::Lingering) && !matches!(self.end, Some(End::Client))
    }

    /// Whether an answer is owed: the socket need not be read before [`Self::reply`].
    #[must_use]
    pub const fn suspended(&self) -> bool {
        self.pending_request.is_some()
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

    /// Whether the client has published: only then does `connection.blocked` concern it.
    #[must_use]
    pub const fn published_yet(&self) -> bool {
        self.hold.has_published()
    }

    /// What the client says of itself.
    #[must_use]
    pub fn client_properties(&self) -> FieldTable {
        self.client.properties().to_table()
    }

    /// The name that the client gives the connection (`connection_name`).
    #[must_use]
    pub fn client_name(&self) -> Option<&str> {
        self.client.name()
    }

    /// The user; empty before login.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.client.user
    }

    /// The virtual host; empty before it is open.
    #[must_use]
    pub fn vhost(&self) -> &str {
        &self.client.vhost
    }

    /// Octets of a frame in force.
    #[must_use]
    pub const fn frame_max(&self) -> u32 {
        self.terms.frame_max
    }

    /// Channels in force; 0 before they are negotiated.
    #[must_use]
    pub const fn channel_max(&self) -> u16 {
        self.terms.channel_max
    }

    /// Heartbeat interval in force, in seconds; 0 is none.
    #[must_use]
    pub const fn heartbeat_seconds(&self) -> u16 {
        self.terms.heartbeat_seconds
    }

    /// The open channels, in the order of their numbers.
    pub fn channels(&self) -> impl Iterator<Item = ChannelStatus> + '_ {
        let open = self.channels.iter().filter(|(_, channel)| !channel.closing);
        open.map(|(number, channel)| channel.status(number))
    }

    /// Whether what was sent off on a channel is to be carried out: not behind something that has
    /// failed there ([`Self::fail`]). What came before a client's close counts, although the
    /// channel or the connection is closed by now.
    #[must_use]
    pub fn counts(&self, channel: ChannelId) -> bool {
        let channel = self.channels.get(&channel.0);
        !self.failed && channel.is_none_or(|channel| !channel.failed)
    }

    /// Appends a method frame.
    pub(crate) fn send(&mut self, channel: u16, method: &impl EncodeMethod) {
        self.times.speak();
        encode::method(self.out.tail(), channel, method);
    }

    /// Appends a method with its content.
    fn send_content(&mut self, channel: u16, method: &impl EncodeMethod, content: &Content<'_>) {
        self.times.speak();
        encode::with_content(
            &mut self.out,
            channel,
            method,
            content,
            self.terms.frame_max,
        );
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

    /// Publishers are held back for this reason from now on, or let go on: then the input that
    /// waited is read by the next [`Self::receive`], also of nothing. Everything is read but
    /// publishes, and what is behind one. A client that has published is told at once, another with
    /// its first publish; once, if it can be told.
    pub fn blocked(&mut self, reason: Option<&str>) {
        if self.hold.set_alarm(reason) {
            self.times.stop_counting_silence();
        }
        self.tell_of_alarm();
    }

    fn tell_of_alarm(&mut self) {
        let can_hear = self.client.capabilities.connection_blocked && self.phase == Phase::Running;
        if !self.hold.take_news() || !can_hear {
            return;
        }
        match self.hold.alarm().map(str::to_owned) {
            Some(reason) => self.send(0, &connection::Blocked { reason: &reason }),
            None => self.send(0, &connection::Unblocked {}),
        }
    }

    /// Whether an alarm is on.
    #[must_use]
    pub const fn alarmed(&self) -> bool {
        self.hold.is_alarmed()
    }

    /// Whether the client's input waits for the end of an alarm, or for room, for the client
    /// publishes.
    #[must_use]
    pub const fn is_blocked(&self) -> bool {
        self.hold.is_held() || self.waits_for_room()
    }

    /// Whether the client's input waits for the broker's own reasons, whatever the client sends.
    pub(crate) const fn is_left_unread(&self) -> bool {
        self.suspended() || self.hold.is_held()
    }

    pub(crate) const fn waits_for_room(&self) -> bool {
        self.hold.room_ms().is_some() && matches!(self.phase, Phase::Running)
    }

    /// Whether input that begins so must wait for the end of an alarm: a publish.
    pub(crate) fn holds(&mut self, input: &[u8]) -> bool {
        if !self.alarmed() || self.phase != Phase::Running || !begins_publish(input) {
            return false;
        }
        let channel = input
            .get(1..3)
            .map_or(0, |number| u16::from_be_bytes([number[0], number[1]]));
        // What is for a channel that is closing goes nowhere.
        if self.channels.get(&channel).is_some_and(|c| c.closing) {
            return false;
        }
        self.hold.hold();
        self.tell_of_alarm();
        true
    }

    /// Gives memory back that nothing is in: for a connection that has fallen silent.
    pub fn shrink(&mut self) {
        self.out.shrink();
        self.arriving.shrink();
        self.answers.shrink();
        self.latencies.shrink();
        for channel in self.channels.iter_mut().map(|(_, channel)| channel) {
            channel.shrink();
        }
    }
}
