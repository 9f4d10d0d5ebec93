//! The state that this node's sessions have at the streams of another one.

use super::frame::Frame;
use super::{Effect, Said, command_bytes, goes_with_publishes, has_room};
use leveret_queue_host::events::PeerFrame;
use leveret_stream::{Command, Event, ReaderId, Refusal, RequestId, SessionId};
use leveret_types::QueueId;
use leveret_types::limits::STREAM_RELAY_BYTES_MAX;
use std::collections::{BTreeMap, BTreeSet};

/// Commands on their way, and sessions that wait for room.
#[derive(Default)]
struct Window {
    bytes: u64,
    waiting: BTreeSet<SessionId>,
}

impl Window {
    /// The other node has taken so many bytes: who waits may go on once half of the room is free.
    fn taken(&mut self, bytes: u64, effects: &mut Vec<Effect>) {
        self.bytes = self.bytes.saturating_sub(bytes);
        if self.bytes <= STREAM_RELAY_BYTES_MAX as u64 / 2 {
            effects.extend(
                std::mem::take(&mut self.waiting)
                    .into_iter()
                    .map(Effect::Room),
            );
        }
    }
}

/// What one session has there.
#[derive(Default)]
struct Stake {
    /// Streams that it publishes to or reads, or has members of groups of.
    streams: BTreeSet<QueueId>,
    /// Its readers there: of which stream, and by which request.
    readers: BTreeMap<ReaderId, (QueueId, RequestId)>,
    /// What it asked and has no answer to: what it is told if none comes.
    pending: Vec<Event>,
}

/// What all sessions of this node have there.
#[derive(Default)]
pub(super) struct Using {
    publishes: Window,
    others: Window,
    sessions: BTreeMap<SessionId, Stake>,
    /// Bytes of chunks that have come, and that the other node was not told of yet.
    reached: u64,
}

impl Using {
    fn window(&mut self, command: &Command) -> &mut Window {
        match goes_with_publishes(command) {
            true => &mut self.publishes,
            false => &mut self.others,
        }
    }

    pub(super) fn say(
        &mut self,
        session: SessionId,
        command: Command,
        post: &dyn Fn(PeerFrame),
    ) -> Said {
        let bytes = command_bytes(&command) as u64;
        let window = self.window(&command);
        if !has_room(window.bytes, bytes) {
            window.waiting.insert(session);
            return Said::NoRoom(Box::new(command));
        }
        self.say_at_last(session, command, post);
        Said::Sent
    }

    /// Says something whether there is room or not.
    pub(super) fn say_at_last(
        &mut self,
        session: SessionId,
        command: Command,
        post: &dyn Fn(PeerFrame),
    ) {
        let stake = self.sessions.entry(session).or_default();
        // Who publishes may have declared that while the node was not reached.
        if let Command::DeclarePublisher { stream, .. }
        | Command::Publish { stream, .. }
        | Command::Subscribe { stream, .. }
        | Command::JoinGroup { stream, .. } = &command
        {
            stake.streams.insert(*stream);
        }
        stake.note_reader(&command);
        // A publish is not asked for: it has numbers of its own.
        let answer = refused(&command).filter(|answer| request_of(answer).is_some());
        stake.pending.extend(answer);
        self.window(&command).bytes += command_bytes(&command) as u64;
        post(Frame::Command(session, command).encode());
    }

    /// Whether a reader of a session was opened there, and goes on as far as is known.
    pub(super) fn has_reader(&self, session: SessionId, reader: ReaderId) -> bool {
        let stake = self.sessions.get(&session);
        stake.is_some_and(|stake| stake.readers.contains_key(&reader))
    }

    /// A session has ended; whether the other node has to know.
    pub(super) fn leave(&mut self, session: SessionId) -> bool {
        self.publishes.waiting.remove(&session);
        self.others.waiting.remove(&session);
        self.sessions.remove(&session).is_some()
    }

    pub(super) fn taken(&mut self, publishes: u64, others: u64, effects: &mut Vec<Effect>) {
        self.publishes.taken(publishes, effects);
        self.others.taken(others, effects);
    }

    /// Hands on what a session hears, if it is still there; bytes of chunks that the other node is
    /// to be told of.
    pub(super) fn hear(
        &mut self,
        session: SessionId,
        event: Event,
        effects: &mut Vec<Effect>,
    ) -> Option<u64> {
        if let Event::Chunk { chunk, .. } = &event {
            self.reached += chunk.bytes().len() as u64;
        }
        if let Some(stake) = self.sessions.get_mut(&session) {
            stake.note_event(&event);
            effects.push(Effect::Hear(session, event));
        }
        let is_much = self.reached >= super::ALWAYS_BYTES;
        is_much.then(|| std::mem::take(&mut self.reached))
    }

    /// The other node is not reached any more, or begins anew.
    pub(super) fn lose(&mut self, effects: &mut Vec<Effect>) {
        let lost = std::mem::take(self);
        for (session, stake) in lost.sessions {
            let unanswered = stake.pending.into_iter();
            effects.extend(unanswered.map(|answer| Effect::Hear(session, answer)));
            for stream in stake.streams {
                effects.push(Effect::Hear(session, Event::Lost { stream }));
            }
        }
        // Behind that: what they say again of what is lost is refused.
        let waiting = lost.publishes.waiting.into_iter();
        let waiting: BTreeSet<SessionId> = waiting.chain(lost.others.waiting).collect();
        effects.extend(waiting.into_iter().map(Effect::Room));
    }
}

impl Stake {
    fn note_reader(&mut self, command: &Command) {
        match command {
            Command::Subscribe {
                request,
                stream,
                reader,
                ..
            } => {
                self.readers.insert(*reader, (*stream, *request));
            }
            Command::Unsubscribe { reader, .. } => {
                self.readers.remove(reader);
            }
            _ => {}
        }
    }

    fn note_event(&mut self, event: &Event) {
        match event {
            Event::Gone { stream } | Event::Lost { stream } => {
                self.streams.remove(stream);
                self.readers.retain(|_, (of, _)| of != stream);
            }
            Event::ReaderEnded { reader, .. } => {
                self.readers.remove(reader);
            }
            Event::Subscribed {
                request,
                result: Err(_),
            } => self.readers.retain(|_, (_, by)| by != request),
            _ => {}
        }
        if let Some(request) = request_of(event) {
            let is_answered = |pending: &Event| request_of(pending) == Some(request);
            if let Some(at) = self.pending.iter().position(is_answered) {
                self.pending.swap_remove(at);
            }
        }
    }
}

/// What a session hears of a command that does not reach its stream.
pub(super) fn refused(command: &Command) -> Option<Event> {
    let why = "the node of the cluster that has it is not reached";
    command.refused(Refusal::NotAvailable(why.to_owned()))
}

/// Which request an event answers: its number, which is used once for each kind of question.
fn request_of(event: &Event) -> Option<(std::mem::Discriminant<Event>, RequestId)> {
    let request = match event {
        Event::Declared { request, .. }
        | Event::Deleted { request, .. }
        | Event::Found { request, .. }
        | Event::PublisherDeclared { request, .. }
        | Event::Sequence { request, .. }
        | Event::Subscribed { request, .. }
        | Event::Joined { request, .. }
        | Event::StoredOffset { request, .. }
        | Event::ResolvedOffset { request, .. }
        | Event::Stats { request, .. } => *request,
        Event::Confirmed { .. }
        | Event::Refused { .. }
        | Event::Chunk { .. }
        | Event::ReaderEnded { .. }
        | Event::Activity { .. }
        | Event::Gone { .. }
        | Event::Lost { .. } => return None,
    };
    Some((std::mem::discriminant(event), request))
}
