//! The state of one connection, its time and its end.

use crate::asked::Asked;
use crate::in_hand::InHand;
use crate::input::Input;
use crate::port::Port;
use crate::publishers::Publisher;
use crate::readers::{Reader, Updating};
use crate::settings::Settings;
use crate::totals::Totals;
use bytes::Bytes;
use leveret_stream::{Command, Generation, RequestId};
use leveret_stream_protocol::{Key, ResponseCode, ServerCommand};
use leveret_types::limits::{
    CLOSE_MS_MAX, FRAME_ERROR_LINGER_MS, OUTBOX_BYTES_MAX, STREAM_CONSUMER_UPDATE_MS_MAX,
    STREAM_FRAME_BYTES_PREAUTH_MAX, STREAM_FRAMES_PER_TURN_MAX, STREAM_UNCONFIRMED_BYTES_MAX,
    STREAM_UNCONFIRMED_ENTRIES_MAX,
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
    /// Work that may still be done in this turn, in frames: see
    /// [`STREAM_FRAMES_PER_TURN_MAX`].
    pub(crate) work_left: usize,
    /// Work that was done since the client was last read, in frames.
    pub(crate) work_done: usize,
    /// Whether the end of a frame could not be found: what still arrives cannot be read.
    pub(crate) ignores_input: bool,
    /// Octets of a frame in force.
    pub(crate) frame_max: u32,
    /// The same once the virtual host is open.
    pub(crate) negotiated_frame_max: u32,
    pub(crate) heartbeat_seconds: u32,
    pub(crate) client_properties: Vec<(String, String)>,
    pub(crate) mechanism: String,
    pub(crate) user: String,
    pub(crate) vhost: Arc<str>,
    /// The version of `Deliver` that the client reads.
    pub(crate) deliver_version: u16,
    pub(crate) publishers: BTreeMap<u8, Publisher>,
    pub(crate) readers: BTreeMap<u8, Reader>,
    /// The subscription whose turn it is to have more chunks under way.
    pub(crate) turn: u8,
    /// Updates of single active consumers that the client has not answered, by their correlation
    /// ids. A group tells a subscription no more before it has answered.
    pub(crate) updating: BTreeMap<u32, Updating>,
    /// Under which generations consumers of this connection were last active, by stream and group.
    pub(crate) was_active: BTreeMap<(String, String), Generation>,
    /// What the client's last request waits for.
    pub(crate) asked: Option<Asked>,
    /// Streams that have gone since then: the client is told behind the answer.
    pub(crate) gone_behind: Vec<String>,
    next_number: u64,
    pub(crate) totals: Totals,
    /// How long publishes took that were confirmed.
    pub(crate) latencies: Latencies,
    /// Publishers wait until fewer of their messages are unconfirmed.
    pub(crate) congested: bool,
    heard_ms: u64,
    spoke_ms: u64,
    /// When the connection is dropped as it is.
    until_ms: Option<u64>,
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
            work_left: STREAM_FRAMES_PER_TURN_MAX,
            work_done: 0,
            ignores_input: false,
            frame_max: STREAM_FRAME_BYTES_PREAUTH_MAX,
            negotiated_frame_max: STREAM_FRAME_BYTES_PREAUTH_MAX,
            heartbeat_seconds: 0,
            client_properties: Vec::new(),
            mechanism: String::new(),
            user: String::new(),
            vhost: "".into(),
            deliver_version: 1,
            publishers: BTreeMap::new(),
            readers: BTreeMap::new(),
            turn: 0,
            updating: BTreeMap::new(),
            was_active: BTreeMap::new(),
            asked: None,
            gone_behind: Vec::new(),
            next_number: 0,
            totals: Totals::default(),
            latencies: Latencies::default(),
            congested: false,
            heard_ms: now.monotonic_ms,
            spoke_ms: now.monotonic_ms,
            until_ms: Some(now.monotonic_ms + settings.handshake_ms_max),
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
        self.takes_frames() && !self.waits_for_turn() && !self.input.waits_for_place()
    }

    /// Whether frames that have arrived are looked at, where this turn has room for their work.
    pub(crate) fn takes_frames(&self) -> bool {
        self.asked.is_none() && !self.congested && self.output_bytes() <= OUTBOX_BYTES_MAX
            || self.phase >= Phase::Closing
    }

    /// Bytes that wait for the socket.
    pub(crate) fn output_bytes(&self) -> usize {
        self.out.len() + self.in_hand.waiting_bytes()
    }

    /// Whether what has arrived is left for the next turn.
    fn waits_for_turn(&self) -> bool {
        self.work_left == 0 && self.input.has_more()
    }

    /// Work that was done since this was last asked, in frames: see
    /// [`STREAM_FRAMES_PER_TURN_MAX`].
    pub const fn take_work(&mut self) -> usize {
        std::mem::replace(&mut self.work_done, 0)
    }

    /// Counts work, in frames.
    pub(crate) const fn spend(&mut self, work: usize) {
        self.work_left = self.work_left.saturating_sub(work);
        self.work_done = self.work_done.saturating_add(work);
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

    /// The virtual host; empty before it is open.
    #[must_use]
    pub fn vhost(&self) -> &str {
        &self.vhost
    }

    /// Takes in what the socket had: a turn begins.
    pub fn receive(&mut self, now: Now, bytes: Bytes, port: &mut impl Port) {
        self.now = now;
        self.heard_ms = now.monotonic_ms;
        self.work_left = STREAM_FRAMES_PER_TURN_MAX;
        self.take_in(bytes);
        self.read_on(port);
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
        self.heard_ms = now.monotonic_ms;
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
        let now_ms = now.monotonic_ms;
        if self.until_ms.is_some_and(|until_ms| until_ms <= now_ms) {
            return self.end(port);
        }
        if self.waits_for_turn() {
            // It was heard, and not read.
            self.heard_ms = now_ms;
        }
        self.work_left = STREAM_FRAMES_PER_TURN_MAX;
        self.read_on(port);
        if self.input.is_late(now_ms) {
            return self.give_up_frame(port);
        }
        if self.update_until_ms().is_some_and(|until| until <= now_ms) {
            let seconds = STREAM_CONSUMER_UPDATE_MS_MAX / 1_000;
            let reason = format!("no answer to a consumer update within {seconds} s");
            return self.close(ResponseCode::PRECONDITION_FAILED, &reason, port);
        }
        self.join_again(port);
        self.hand_back_due(port);
        let Some(interval_ms) = self.heartbeat_ms() else {
            return;
        };
        if !self.reading() {
            // A client that is not read cannot be heard.
            self.heard_ms = now_ms;
        } else if now_ms >= self.heard_ms + 2 * interval_ms {
            return self.end(port);
        }
        if now_ms >= self.spoke_ms + interval_ms / 2 {
            self.say(&ServerCommand::Heartbeat);
        }
    }

    /// When [`Self::tick`] is to be called at the latest, in monotonic milliseconds.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        let heartbeat = self
            .heartbeat_ms()
            .map(|ms| (self.heard_ms + 2 * ms).min(self.spoke_ms + ms / 2));
        let update = self.update_until_ms();
        let turn = (self.takes_frames() && self.waits_for_turn()).then_some(0);
        let in_hand = self.in_hand.deadline();
        let joins = self.joins_at_ms();
        let waits = !self.takes_frames() && self.input.waits_for_place();
        let frame = self.input.look_ms().filter(|_| !waits);
        let all = [
            self.until_ms,
            heartbeat,
            update,
            joins,
            turn,
            in_hand,
            frame,
        ];
        all.into_iter().flatten().min()
    }

    /// When the client must have answered that a consumer becomes active, or is so no longer.
    fn update_until_ms(&self) -> Option<u64> {
        let waits = |update: &&Updating| {
            let reader = self.readers.get(&update.subscription_id);
            reader.is_some_and(|reader| update.is_of(reader))
        };
        let waiting = self.updating.values().filter(waits);
        waiting.map(|update| update.until_ms).min()
    }

    /// The heartbeat's interval, where one is agreed and the connection is served.
    fn heartbeat_ms(&self) -> Option<u64> {
        let is_served = matches!(self.phase, Phase::Tuned | Phase::Open);
        (is_served && self.heartbeat_seconds > 0).then(|| u64::from(self.heartbeat_seconds) * 1_000)
    }

    /// Closes the connection for a reason of the broker's own: the client is told, and asked to
    /// close.
    pub fn close(&mut self, code: ResponseCode, reason: &str, port: &mut impl Port) {
        if self.phase >= Phase::Closing {
            return;
        }
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
        self.until_ms = Some(self.now.monotonic_ms + CLOSE_MS_MAX);
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
        self.ignores_input = true;
        self.forget_input();
        if self.phase == Phase::Closing {
            let linger_ms = self.now.monotonic_ms + FRAME_ERROR_LINGER_MS;
            self.until_ms = Some(self.until_ms.unwrap_or(linger_ms).min(linger_ms));
        }
    }

    /// Ends the connection once all is written.
    pub(crate) fn end(&mut self, port: &mut impl Port) {
        self.leave(port);
        self.forget_input();
        self.phase = Phase::Over;
        self.until_ms = None;
    }

    /// The socket is gone: everything that the connection had is given back.
    pub fn teardown(&mut self, port: &mut impl Port) {
        self.end(port);
        self.out = OutBuffer::new();
        self.drop_in_hand();
    }

    /// Ends all publishers and subscriptions.
    fn leave(&mut self, port: &mut impl Port) {
        if self.phase == Phase::Open {
            port.send(Command::Leave);
            self.phase = Phase::Closing;
        }
        self.publishers.clear();
        self.readers.clear();
        self.drop_in_hand();
        self.updating.clear();
        self.asked = None;
        self.congested = false;
        self.gone_behind.clear();
    }

    /// The handshake is over: there is no hurry any more.
    pub(crate) fn opened(&mut self, vhost: &str) {
        self.phase = Phase::Open;
        self.vhost = vhost.into();
        self.frame_max = self.negotiated_frame_max;
        self.until_ms = None;
    }

    /// Appends a frame.
    pub(crate) fn say(&mut self, command: &ServerCommand<'_>) {
        self.spoke_ms = self.now.monotonic_ms;
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

    /// Looks whether publishers must wait, or may go on.
    pub(crate) fn weigh_publishes(&mut self) {
        let (mut entries, mut bytes) = (0, 0);
        for publisher in self.publishers.values() {
            entries += publisher.unconfirmed_entries;
            bytes += publisher.unconfirmed_bytes;
        }
        // They go on once a quarter is left, as RabbitMQ has it.
        let share = if self.congested { 4 } else { 1 };
        self.congested = entries >= STREAM_UNCONFIRMED_ENTRIES_MAX / share
            || bytes >= STREAM_UNCONFIRMED_BYTES_MAX / share;
    }
}
