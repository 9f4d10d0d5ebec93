//! The target of fuzzing: a client that may say anything, and a node that answers at once. It
//! panics if the session breaks a promise.

use crate::port::{LoginOutcome, Opening, Port};
use crate::session::Session;
use crate::settings::Settings;
use leveret_auth::Access;
use leveret_stream::{Command, Event, Refusal, RequestId, StreamStats};
use leveret_stream_protocol::wire::Opaque;
use leveret_stream_protocol::{ClientCommand, Request, ResponseCode, ServerCommand, next_frame};
use leveret_types::{Now, QueueId};
use std::sync::Arc;

/// A node that grants or refuses by turns, as the octet says.
struct Node {
    /// Refuses each second, third... thing; 0 refuses nothing.
    refuses_every: u64,
    requests: u64,
    logs_in: bool,
    events: Vec<Event>,
    /// What became of a super stream that is being changed.
    changed: Option<(RequestId, Result<(), ResponseCode>)>,
    /// What was unknown is to be looked at again.
    owes_retry: bool,
    /// That is being done now.
    is_retry: bool,
    has_left: bool,
}

impl Node {
    fn grants(&mut self) -> bool {
        self.requests += 1;
        self.refuses_every == 0 || !self.requests.is_multiple_of(self.refuses_every)
    }

    /// Whether the session is to be told something.
    const fn owes(&self) -> bool {
        let owes_change = self.changed.is_some() || self.owes_retry;
        self.logs_in || owes_change || !self.events.is_empty()
    }

    /// Tells it the next thing.
    fn answer(&mut self, now: Now, session: &mut Session) {
        if std::mem::take(&mut self.logs_in) {
            let user = "guest".to_owned();
            session.logged_in(LoginOutcome::Accepted { user }, self);
        } else if std::mem::take(&mut self.owes_retry) {
            self.is_retry = true;
            session.retry(now, self);
        } else if let Some((request, result)) = self.changed.take() {
            session.super_stream_changed(request, result, self);
        } else {
            let event = self.events.remove(0);
            session.event(now, event, self);
        }
    }

    fn result<T>(&mut self, value: T) -> Result<T, Refusal> {
        self.grants().then_some(value).ok_or(Refusal::NotFound)
    }
}

impl Port for Node {
    fn log_in(&mut self, _: &str, _: &[u8]) {
        self.logs_in = true;
    }

    fn open_vhost(&mut self, _: &str) -> Opening {
        Opening::Opened
    }

    fn may_be_behind(&mut self) -> bool {
        self.owes_retry = !self.is_retry && self.grants();
        self.owes_retry
    }

    fn retried(&mut self) {
        self.is_retry = false;
    }

    fn permits_stream(&mut self, _: Access, _: &str) -> bool {
        self.grants()
    }

    fn permits_super_stream(&mut self, _: &str, _: &[String]) -> bool {
        self.grants()
    }

    fn holds_publishers(&self) -> bool {
        false
    }

    fn has_exchange(&mut self, _: &str) -> bool {
        self.grants()
    }

    fn partitions(&mut self, super_stream: &str) -> Option<Vec<String>> {
        self.grants().then(|| vec![super_stream.to_owned()])
    }

    fn route(&mut self, super_stream: &str, _: &str) -> Option<Vec<String>> {
        self.partitions(super_stream)
    }

    fn make_super_stream(
        &mut self,
        request: RequestId,
        _: &str,
        _: &[(String, String)],
        _: &[(String, String)],
    ) {
        let granted = self.grants().then_some(());
        self.changed = Some((request, granted.ok_or(ResponseCode::INTERNAL_ERROR)));
    }

    fn remove_super_stream(&mut self, request: RequestId, _: &str) {
        self.changed = Some((request, Ok(())));
    }

    fn send(&mut self, command: Command) {
        assert!(!self.has_left, "nothing is said after leaving: {command:?}");
        let event = match command {
            Command::Declare { request, .. } => Event::Declared {
                request,
                result: self.result(QueueId(7)),
            },
            Command::Delete { request, .. } => Event::Deleted {
                request,
                result: self.result(()),
            },
            Command::LookUp { request, .. } => Event::Found {
                request,
                result: self.result(QueueId(7)),
            },
            Command::DeclarePublisher { request, .. } => Event::PublisherDeclared {
                request,
                result: self.result(()),
            },
            Command::QuerySequence { request, .. } => Event::Sequence {
                request,
                result: self.result(Some(1)),
            },
            Command::Subscribe { request, .. } => Event::Subscribed {
                request,
                result: self.result(()),
            },
            Command::JoinGroup { request, .. } => Event::Joined {
                request,
                result: self.result(()),
            },
            Command::QueryOffset { request, .. } => Event::StoredOffset {
                request,
                result: self.result(None),
            },
            Command::ResolveOffset { request, .. } => Event::ResolvedOffset {
                request,
                result: self.result(1),
            },
            Command::Stats { request, .. } => Event::Stats {
                request,
                result: self.result(StreamStats::default()),
            },
            Command::Leave => return self.has_left = true,
            // Confirms come when they come: they would be heard at different places.
            Command::Publish { .. }
            | Command::DeletePublisher { .. }
            | Command::Credit { .. }
            | Command::Unsubscribe { .. }
            | Command::StoreOffset { .. }
            | Command::LeaveGroup { .. }
            | Command::SteppedDown { .. } => return,
        };
        self.events.push(event);
    }
}

/// A client says what follows the first two octets: after how many octets the input is cut, and
/// what the node refuses. What it hears is commands, and the same for every split.
///
/// # Panics
/// If not.
pub fn session(input: &[u8]) {
    let [cut, refuses, stream @ ..] = input else {
        return;
    };
    let whole = answers_of(stream, stream.len().max(1), *refuses);
    let pieces = answers_of(stream, usize::from(*cut) + 1, *refuses);
    assert!(whole == pieces, "in pieces of {cut} and one");
    let mut rest = &whole[..];
    while !rest.is_empty() {
        let frame = next_frame(rest, u32::MAX).expect("a frame");
        let frame = frame.expect("a whole frame");
        ServerCommand::decode(frame).expect("a command that a broker may say");
        rest = &rest[frame.wire_len()..];
    }
}

/// What a client hears that sends this in pieces of so many octets.
fn answers_of(stream: &[u8], piece: usize, refuses: u8) -> Vec<u8> {
    let now = Now::both(0);
    let mut session = Session::new(Arc::new(Settings::new("here", 5552)), now);
    let mut node = Node {
        refuses_every: u64::from(refuses % 8),
        requests: 0,
        logs_in: false,
        events: Vec::new(),
        changed: None,
        owes_retry: false,
        is_retry: false,
        has_left: false,
    };
    for piece in stream.chunks(piece) {
        session.receive(now, piece.to_vec().into(), &mut node);
        while node.owes() {
            node.answer(now, &mut session);
        }
    }
    session.output().to_vec()
}

/// Inputs to begin with: a client that is served says one thing, and one that says all of them.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let mut handshake = Vec::new();
    let request = |request| ClientCommand::Request {
        correlation_id: 1,
        request,
    };
    for command in [
        request(Request::PeerProperties { properties: vec![] }),
        request(Request::SaslHandshake {}),
        request(Request::SaslAuthenticate {
            mechanism: "PLAIN",
            response: Opaque(b"\0u\0p"),
        }),
        ClientCommand::Tune {
            frame_max: 0,
            heartbeat: 0,
        },
        request(Request::Open { vhost: "/" }),
    ] {
        command.encode(&mut handshake);
    }
    let frames = leveret_stream_protocol::fuzz::seeds();
    let said = frames.iter().map(|frame| &frame[1..]);
    said.map(|frame| [&[5, 3], &handshake[..], frame].concat())
        .collect()
}
