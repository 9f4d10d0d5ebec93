//! The target of fuzzing: bytes that another node may send, and the frames that it begins with.

use super::frame::Frame;
use super::{ClientAddresses, Effect, StreamLocation, StreamRelay};
use crate::election_request::ElectionRequest;
use bytes::Bytes;
use leveret_queue_host::events::PeerFrame;
use leveret_stream::chunk::{ChunkHeader, ChunkKind};
use leveret_stream::{
    BatchBuilder, Command, Epoch, Event, Filter, Generation, MemberId, OffsetSpec, PublisherId,
    ReaderId, Reference, Refusal, ReplicaMessage, RequestId, SessionId, SharedBatchBuilder,
    SharedChunk, StoredBy, StreamStats,
};
use leveret_types::{ConnectionId, NodeId, QueueId};

const THERE: NodeId = NodeId(2);
pub(super) const STREAM: QueueId = QueueId(0x700).of_stream();
pub(super) const SESSION: SessionId = SessionId::Connection(ConnectionId(5));
pub(super) const PUBLISHER: PublisherId = PublisherId(9);

/// Frames one after the other, each behind its length as an octet, as another node may send them:
/// what is a frame is encoded to the same bytes again, and a node that is sent them, and loses the
/// link then, leaves no session without its answers.
///
/// # Panics
/// If it is not so.
pub fn fuzz(bytes: &[u8]) {
    let frames = || {
        let mut rest = bytes;
        std::iter::from_fn(move || {
            let (length, behind) = rest.split_first()?;
            let (frame, behind) = behind.split_at(usize::from(*length).min(behind.len()));
            rest = behind;
            Some(frame)
        })
    };
    frames().for_each(frame);
    relay(frames());
}

/// What is a frame is encoded to the same bytes again.
pub(super) fn frame(bytes: &[u8]) {
    if let Ok(frame) = Frame::decode(Bytes::copy_from_slice(bytes)) {
        assert_eq!(bytes_of(&frame.encode()), bytes, "{frame:?}");
    }
}

/// A node whose session has asked everything that can be asked is sent these.
fn relay<'a>(frames: impl Iterator<Item = &'a [u8]>) {
    let relay = StreamRelay::default();
    let post = |to: NodeId, frame: PeerFrame| {
        assert_eq!(to, THERE);
        Frame::decode(Bytes::from(bytes_of(&frame))).expect("what is posted is a frame");
    };
    let (leader, is_here) = (THERE, false);
    relay.set_location(STREAM, Some(StreamLocation { leader, is_here }));
    relay.peer_up(THERE, &ClientAddresses::default(), &post);
    let mut requests = 0;
    for command in commands() {
        requests += usize::from(has_answer(&command));
        if !matches!(command, Command::Leave) {
            relay.say(SESSION, command, &post);
        }
    }
    let mut effects = Vec::new();
    for frame in frames {
        effects.extend(relay.receive(THERE, Bytes::copy_from_slice(frame), &post));
    }
    effects.extend(relay.peer_down(THERE));
    let is_answer = |effect: &&Effect| match effect {
        Effect::Hear(SESSION, event) => !matches!(
            event,
            Event::Confirmed { .. }
                | Event::Refused { .. }
                | Event::Chunk { .. }
                | Event::ReaderEnded { .. }
                | Event::Activity { .. }
                | Event::Gone { .. }
                | Event::Lost { .. }
        ),
        _ => false,
    };
    let answers = effects.iter().filter(is_answer).count();
    assert!(
        answers >= requests,
        "{answers} answers to {requests} questions"
    );
    let again = relay.peer_down(THERE);
    assert!(matches!(again[..], [Effect::Left(_)]), "{again:?}");
}

/// Whether whoever says it is owed an answer that names its question.
fn has_answer(command: &Command) -> bool {
    let is_publish = matches!(command, Command::Publish { .. });
    !is_publish && command.refused(Refusal::NotFound).is_some()
}

/// Inputs to begin with: all frames, a few in each.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let behind_length = |frame: &Frame| {
        let bytes = bytes_of(&frame.encode());
        let length = u8::try_from(bytes.len()).expect("the frames to begin with are short");
        [&[length], &bytes[..]].concat()
    };
    let inputs = every_frame();
    let inputs = inputs.chunks(6);
    inputs
        .map(|few| few.iter().flat_map(behind_length).collect())
        .collect()
}

/// One frame of each kind.
pub(super) fn every_frame() -> Vec<Frame> {
    let clients = ClientAddresses {
        plain: Some(("here".to_owned(), 5552)),
        tls: None,
    };
    let commands = commands().into_iter().map(|c| Frame::Command(SESSION, c));
    let events = events().into_iter().map(|e| Frame::Event(SESSION, e));
    let others = [
        Frame::Taken(1, 2),
        Frame::Delivered(3),
        Frame::Reset,
        Frame::Clients(clients),
        Frame::Replica(STREAM, ReplicaMessage::Prepare { epoch: Epoch(3) }),
        Frame::Copied(9),
        Frame::ElectionRequest(ElectionRequest {
            stream: STREAM,
            promised: Epoch(3),
            wants_other_leader: true,
        }),
        Frame::Move(STREAM, THERE),
    ];
    commands.chain(events).chain(others).collect()
}

pub(super) fn reference() -> Reference {
    Reference::new(Bytes::from_static(b"ref")).expect("a name")
}

pub(super) fn publish(bytes: usize) -> Command {
    let mut batch = BatchBuilder::new();
    assert!(batch.push(3, Some(b"value"), &vec![7; bytes]));
    Command::Publish {
        stream: STREAM,
        publisher: PUBLISHER,
        batch: batch.take(),
    }
}

pub(super) fn declare(request: u64) -> Command {
    Command::DeclarePublisher {
        request: RequestId(request),
        stream: STREAM,
        publisher: PUBLISHER,
        reference: Some(reference()),
    }
}

pub(super) fn chunk(bytes: usize) -> SharedChunk {
    let header = ChunkHeader {
        kind: ChunkKind::User,
        entries: 1,
        records: 1,
        timestamp_ms: 1,
        epoch: 1,
        first_offset: 7,
        crc: 0,
        data_bytes: 0,
        trailer_bytes: 0,
        bloom_bytes: 0,
    };
    let size = (bytes as u32).to_be_bytes();
    SharedChunk::new(header, &[], &[&size[..], &vec![1; bytes]].concat(), &[])
}

pub(super) fn chunk_event(bytes: usize) -> Event {
    Event::Chunk {
        reader: ReaderId(4),
        chunk: chunk(bytes),
        committed_chunk: 7,
    }
}

pub(super) fn commands() -> Vec<Command> {
    let mut shared = SharedBatchBuilder::default();
    assert!(shared.push(None, b"one"));
    let (request, stream, reader) = (RequestId(8), STREAM, ReaderId(4));
    let subscribe = |offset, filter: Option<Filter>| Command::Subscribe {
        request,
        stream,
        reader,
        offset,
        credit: 10,
        filter: filter.map(Box::new),
    };
    let filter = Filter {
        values: vec![Bytes::from_static(b"a"), Bytes::new()],
        match_unfiltered: true,
        messages: true,
    };
    vec![
        declare(1),
        Command::DeletePublisher {
            stream,
            publisher: PUBLISHER,
        },
        publish(100),
        Command::Publish {
            stream,
            publisher: PUBLISHER,
            batch: shared.take().numbered(17),
        },
        Command::QuerySequence {
            request,
            stream,
            reference: reference(),
        },
        subscribe(OffsetSpec::First, None),
        subscribe(OffsetSpec::Last, Some(filter)),
        subscribe(OffsetSpec::Next, None),
        subscribe(OffsetSpec::Offset(77), None),
        subscribe(OffsetSpec::TimestampMs(-5), None),
        Command::Credit {
            stream,
            reader,
            chunks: 2,
        },
        Command::Unsubscribe { stream, reader },
        Command::StoreOffset {
            stream,
            reference: reference(),
            offset: 3,
            by: StoredBy::Anyone,
        },
        Command::StoreOffset {
            stream,
            reference: reference(),
            offset: 3,
            by: StoredBy::Member(Generation(9)),
        },
        Command::StoreOffset {
            stream,
            reference: reference(),
            offset: 3,
            by: StoredBy::Operator,
        },
        Command::JoinGroup {
            request,
            stream,
            group: reference(),
            partition: 2,
            member: MemberId(5),
        },
        Command::LeaveGroup {
            stream,
            group: reference(),
            member: MemberId(5),
        },
        Command::SteppedDown {
            stream,
            group: reference(),
            member: MemberId(5),
        },
        Command::QueryOffset {
            request,
            stream,
            reference: reference(),
        },
        Command::ResolveOffset {
            request,
            stream,
            offset: OffsetSpec::Last,
        },
        Command::Stats { request, stream },
        Command::Leave,
    ]
}

pub(super) fn events() -> Vec<Event> {
    let (request, reader) = (RequestId(8), ReaderId(4));
    let refusals = [
        Refusal::NotFound,
        Refusal::Exists,
        Refusal::Precondition("no".to_owned()),
        Refusal::NotAvailable("not now".to_owned()),
        Refusal::Id,
        Refusal::Damaged("broken".to_owned()),
    ];
    let refused = refusals.map(|refusal| Event::Refused {
        publisher: PUBLISHER,
        ids: vec![1, 2, 9],
        refusal,
    });
    let stats = StreamStats {
        first_chunk: Some(1),
        bytes: 12,
        ..StreamStats::default()
    };
    let mut events = vec![
        Event::PublisherDeclared {
            request,
            result: Ok(()),
        },
        Event::Confirmed {
            publisher: PUBLISHER,
            ids: vec![1, u64::MAX],
        },
        Event::Sequence {
            request,
            result: Ok(Some(4)),
        },
        Event::Sequence {
            request,
            result: Ok(None),
        },
        Event::Subscribed {
            request,
            result: Err(Refusal::NotFound),
        },
        chunk_event(100),
        Event::ReaderEnded {
            reader,
            refusal: Refusal::Damaged("broken".to_owned()),
        },
        Event::StoredOffset {
            request,
            result: Ok(None),
        },
        Event::ResolvedOffset {
            request,
            result: Ok(5),
        },
        Event::Stats {
            request,
            result: Ok(stats),
        },
        Event::Gone { stream: STREAM },
        Event::Lost { stream: STREAM },
        Event::Joined {
            request,
            result: Err(Refusal::NotFound),
        },
        Event::Activity {
            stream: STREAM,
            member: MemberId(5),
            is_active: true,
            generation: Generation(9),
        },
    ];
    events.extend(refused);
    events
}

pub(super) fn bytes_of(frame: &PeerFrame) -> Vec<u8> {
    frame
        .pieces
        .iter()
        .flat_map(|piece| piece.to_vec())
        .collect()
}
