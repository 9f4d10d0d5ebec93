//! The state of one connection, its time and its end.

use crate::activations::Activations;
use crate::client::{Client, Terms};
use crate::in_hand::InHand;
use crate::input::Input;
use crate::pending_request::PendingRequest;
use crate::port::Port;
use crate::publishers::Publishers;
use crate::readers::Reader;
use crate::settings::Settings;
use crate::times::Times;
use crate::totals::Totals;
use crate::work::Work;
use bytes::Bytes;
use leveret_stream::{Command, RequestId};
use leveret_stream_protocol::{Key, ResponseCode, ServerCommand};
use leveret_types::limits::{
    CLOSE_MS_MAX, FRAME_ERROR_LINGER_MS, LATE_BYTES_MAX, OUTBOX_BYTES_MAX,
    STREAM_CONSUMER_UPDATE_MS_MAX,
};
use leveret_types::{Latencies, Now, OutBuffer};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Nothing has been said.
    Connected,
    /// The peers have exchanged their properties.
    Introduced,
    /// The mechanisms are known.
    Authenticating,
    /// The client has logged in and been sent `Tune`.
    Tuning,
    /// The client has answered it.
    Tuned,
    /// A virtual host is open.
    Open,
    /// The broker has sent `Close` and waits for the answer; all else is dropped.
    Closing,
    /// Over, but for what is still to be written.
    Over,
}

/// Who has ended a session, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The client, as it should.
    Client,
    /// An operator, or the end of the node: why.
    Forced(String),
    /// The broker, for what the client did or did not do: in words for an operator.
    Broker(String),
}

/// One client connection.
#[derive(Debug)]
pub struct Session {
    pub(crate) settings: Arc<Settings>,
    pub(crate) phase: Phase,
    pub(crate) out: OutBuffer,
    /// Chunks for the client that its socket has not taken.
    pub(crate) in_hand: InHand,
    /// What has arrived and not been looked at.
    pub(crate) input: Input,
    pub(crate) work: Work,
    pub(crate) client: Client,
    pub(crate) terms: Terms,
    pub(crate) publishers: Publishers,
    pub(crate) readers: BTreeMap<u8, Reader>,
    /// The subscription whose turn it is to have more chunks under way.
    pub(crate) turn: u8,
    pub(crate) activations: Activations,
    /// What the client's last request waits for.
    pub(crate) pending_request: Option<PendingRequest>,
    /// This node may be behind the others in what the frame at hand is about.
    pub(crate) may_be_behind: bool,
    /// Streams that have gone since then: the client is told behind the answer.
    pub(crate) gone_behind: Vec<String>,
    next_number: u64,
    pub(crate) ending: Option<Ending>,
    pub(crate) totals: Totals,
    /// How long publishes took that were confirmed.
    pub(crate) latencies: Latencies,
    times: Times,
    /// Bytes that are read still once the connection is closing.
    late_bytes_left: usize,
    pub(crate) now: Now,
}

impl Session {
    /// A connection of which nothing has been heard.
    #[must_use]
    pub fn new(settings: Arc<Settings>, now: Now) -> Self {
        Self {
            phase: Phase::Connected,
            out: OutBuffer::new(),
            in_hand: InHand::new(settings.memory.clone()),
            input: Input::new(Arc::clone(&settings.unfinished)),
            work: Work::default(),
            client: Client::default(),
            terms: Terms::default(),
            publishers: Publishers::default(),
            readers: BTreeMap::new(),
            turn: 0,
            activations: Activations::default(),
            pending_request: None,
            may_be_behind: false,
            gone_behind: Vec::new(),
            next_number: 0,
            ending: None,
            totals: Totals::default(),
            latencies: Latencies::default(),
            times: Times::new(now, settings.handshake_ms_max),
            late_bytes_left: LATE_BYTES_MAX,
            now,
            settings,
        }
    }

    /// What is to be written to the socket.
    pub const fn output(&mut self) -> &mut OutBuffer {
        &mut self.out
    }

    /// Whether the socket is to be read.
    #[must_use]
    pub fn reading(&self) -> bool {
        self.takes_frames() && !self.waits_for_turn() && !self.input.waits_for_room()
    }

    /// Bytes that are missing of a frame that waits for room, beside what has come; nothing if none
    /// waits. It never becomes whole if the client sends no more.
    #[must_use]
    pub fn lacks_bytes(&self) -> Option<usize> {
        self.input.lacks_bytes()
    }

    /// Whether frames that have arrived are looked at, where this turn has room for their work.
    pub(crate) fn takes_frames(&self) -> bool {
        let is_slow = self.output_bytes() > OUTBOX_BYTES_MAX;
        !self.is_left_unread() && !is_slow || self.phase >= Phase::Closing
    }

    /// Whether the socket is not read for the broker's own reasons, whatever the client does.
    pub(crate) fn is_left_unread(&self) -> bool {
        self.pending_request.is_some() || self.publishers.are_congested()
    }

    /// Bytes that wait for the socket.
    pub(crate) fn output_bytes(&self) -> usize {
        self.out.len() + self.in_hand.waiting_bytes()
    }

    /// Whether what has arrived is left for the next turn.
    fn waits_for_turn(&self) -> bool {
        self.work.is_spent() && self.input.has_more()
    }

    /// Work that was done since this was last asked, in frames: see
    /// [`leveret_types::limits::STREAM_FRAMES_PER_TURN_MAX`].
    pub const fn take_work(&mut self) -> usize {
        self.work.take_done()
    }

    /// Whether the client has logged in and opened its virtual host, and is served.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Whether the connection is over, but for what is still to be written.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Who has ended it, and why; nothing where its socket has gone without a word.
    #[must_use]
    pub const fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// The virtual host; empty before it is open.
    #[must_use]
    pub fn vhost(&self) -> &str {
        &self.client.vhost
    }

    /// Takes in what the socket had: a turn begins.
    pub fn receive(&mut self, now: Now, bytes: Bytes, port: &mut impl Port) {
        self.now = now;
        self.times.hear(now);
        self.work.begin_turn();
        let count = bytes.len();
        self.take_in(bytes);
        self.read_on(port);
        self.note_late(count, port);
    }

    /// So many bytes have come. Of a connection that is closing only so many are read.
    pub(crate) fn note_late(&mut self, bytes: usize, port: &mut impl Port) {
        if self.phase == Phase::Closing {
            self.late_bytes_left = self.late_bytes_left.saturating_sub(bytes);
            if self.late_bytes_left == 0 {
                self.end(port);
            }
        }
    }

    /// The socket has taken what it can: subscriptions may be sent more, and the client be read on.
    pub fn written(&mut self, now: Now, port: &mut impl Port) {
        self.now = now;
        self.taken(port);
        self.read_again(port);
        self.give_credit(port);
        self.read_on(port);
    }

    /// The socket holds bytes that are left unread for now: the client lives.
    pub const fn unread(&mut self, now: Now) {
        self.times.hear(now);
    }

    /// Says something that needs no answer, whether or not heartbeats are agreed: a client that has
    /// gone is found out by that.
    pub fn beat(&mut self) {
        if matches!(self.phase, Phase::Tuned | Phase::Open) {
            self.say(&ServerCommand::Heartbeat);
        }
    }

    /// Its time has come: see [`Self::deadline`]. A turn begins.
    pub fn tick(&mut self, now: Now, port: &mut impl Port) {
        self.now = now;
        if self.times.is_over(now) {
            return match self.phase {
                Phase::Over => self.give_up(),
                _ => self.end(port),
            };
        }
        if self.waits_for_turn() {
            // It was heard, and not read.
            self.times.hear(now);
        }
        self.work.begin_turn();
        self.read_on(port);
        self.give_up_late_frame(port);
        let update = self.update_until_ms();
        if update.is_some_and(|until| until <= now.monotonic_ms) {
            let seconds = STREAM_CONSUMER_UPDATE_MS_MAX / 1_000;
            let reason = format!("no answer to a consumer update within {seconds} s");
            return self.close(ResponseCode::PRECONDITION_FAILED, &reason, port);
        }
        self.join_again(port);
        self.tell_untold_losses(port);
        self.hand_back_due(port);
        let Some(interval_ms) = self.heartbeat_ms() else {
            return;
        };
        if !self.reading() {
            // A client that is not read cannot be heard.
            self.times.hear(now);
        } else if self.times.is_silent(now, interval_ms) {
            let missed = "missed heartbeats from the client".to_owned();
            self.ending.get_or_insert(Ending::Broker(missed));
            return self.end(port);
        }
        if self.times.is_beat_due(now, interval_ms) {
            self.say(&ServerCommand::Heartbeat);
        }
    }

    /// When [`Self::tick`] is to be called at the latest, in monotonic milliseconds.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        let heartbeat = self.heartbeat_ms().map(|ms| self.times.heartbeat_ms(ms));
        let update = self.update_until_ms();
        let turn = (self.takes_frames() && self.waits_for_turn()).then_some(0);
        let in_hand = self.in_hand.deadline();
        let joins = self.joins_at_ms();
        let waits = !self.takes_frames() && self.input.waits_for_room();
        let frame = self.input.check_ms().filter(|_| !waits);
        let until = self.times.until_ms;
        let losses = self.untold_loss_ms();
        let all = [
            until, heartbeat, update, joins, losses, turn, in_hand, frame,
        ];
        all.into_iter().flatten().min()
    }

    /// The heartbeat's interval, where one is agreed and the connection is served.
    fn heartbeat_ms(&self) -> Option<u64> {
        let is_served = matches!(self.phase, Phase::Tuned | Phase::Open);
        let seconds = self.terms.heartbeat_seconds;
        (is_served && seconds > 0).then(|| u64::from(seconds) * 1_000)
    }

    /// Ends the connection though its client has done nothing wrong: an operator wants it, or the
    /// node goes down. Not a word is said: clients take a `Close` for the end of their work, and
    /// connect again where the socket ends without one, as with RabbitMQ.
    pub fn end_forced(&mut self, reason: &str, port: &mut impl Port) {
        if self.phase < Phase::Closing {
            self.ending
                .get_or_insert_with(|| Ending::Forced(reason.to_owned()));
            self.end(port);
        }
    }

    /// Closes the connection for what the client did: it is told, and asked to close.
    pub fn close(&mut self, code: ResponseCode, reason: &str, port: &mut impl Port) {
        if self.phase >= Phase::Closing {
            return;
        }
        let why = format!("{}: {reason}", code.name());
        self.ending.get_or_insert(Ending::Broker(why));
        let was_open = self.phase == Phase::Open;
        if self.in_hand.lacks_rest() {
            // What is behind the rest of a chunk can only be said after it.
            return self.break_off(port);
        }
        self.leave(port);
        if !was_open {
            // A client that is not served yet knows no close.
            return self.end(port);
        }
        let correlation_id = self.number() as u32;
        self.say(&ServerCommand::Close {
            correlation_id,
            code,
            reason,
        });
        self.phase = Phase::Closing;
        self.times.until_ms = Some(self.now.monotonic_ms + CLOSE_MS_MAX);
    }

    /// Closes the connection over a frame whose end cannot be found: nothing of what follows can be
    /// read.
    pub(crate) fn close_unreadable(
        &mut self,
        code: ResponseCode,
        reason: &str,
        port: &mut impl Port,
    ) {
        self.close(code, reason, port);
        self.input.ignore();
        if self.phase == Phase::Closing {
            self.times.hurry(self.now, FRAME_ERROR_LINGER_MS);
        }
    }

    /// Ends the connection once all is written, or has been there to be taken for long enough.
    pub(crate) fn end(&mut self, port: &mut impl Port) {
        self.leave(port);
        self.input.forget();
        self.phase = Phase::Over;
        let until_ms = self.now.monotonic_ms + CLOSE_MS_MAX;
        self.times.until_ms = (self.output_bytes() > 0).then_some(until_ms);
    }

    /// What the client has not taken it does not get.
    fn give_up(&mut self) {
        self.out = OutBuffer::new();
        self.times.until_ms = None;
    }

    /// The socket is gone: everything that the connection had is given back.
    pub fn teardown(&mut self, port: &mut impl Port) {
        self.end(port);
        self.give_up();
        self.drop_in_hand();
    }

    /// Ends all publishers and subscriptions.
    fn leave(&mut self, port: &mut impl Port) {
        if self.phase == Phase::Open {
            port.send(Command::Leave);
            self.phase = Phase::Closing;
        }
        self.publishers = Publishers::default();
        self.readers.clear();
        self.drop_in_hand();
        self.activations.forget_pending();
        self.pending_request = None;
        self.gone_behind.clear();
    }

    /// The handshake is over: there is no hurry any more.
    pub(crate) fn opened(&mut self, vhost: &str) {
        self.phase = Phase::Open;
        self.client.vhost = vhost.into();
        self.terms.open();
        self.times.until_ms = None;
    }

    /// Appends a frame.
    pub(crate) fn say(&mut self, command: &ServerCommand<'_>) {
        self.times.speak(self.now);
        self.totals.note(command);
        command.encode(self.out.tail());
    }

    /// Answers a request with a code alone.
    pub(crate) fn answer(&mut self, key: Key, correlation_id: u32, code: ResponseCode) {
        if let Some(answer) = ServerCommand::failure(key, correlation_id, code) {
            self.say(&answer);
        }
    }

    /// A number that was not used before.
    pub(crate) const fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// The number of a new request to the streams.
    pub(crate) const fn request(&mut self) -> RequestId {
        RequestId(self.number())
    }
}
