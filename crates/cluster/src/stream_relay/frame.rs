//! The bytes of what nodes tell each other of streams.
//!
//! ```text
//! 0  1  kind: 1 command, 2 event, 3 taken, 4 delivered, 5 reset, 6 clients, 7 replica, 8 copied,
//!       9 needed, 10 move
//! command     session u64 | kind u8 | fields
//! event       session u64 | kind u8 | fields
//! session     of a connection its number; of a queue of a shard its id << 8 | 0xFF
//! taken       bytes of publishes u64 | bytes of other commands u64
//! delivered   bytes of chunks u64
//! clients     twice, plain and TLS: is there u8 | host text | port u16
//! replica     stream u64 | a message of replicas (`leveret_stream::replica`)
//! copied      bytes of messages of replicas u64
//! needed      stream u64 | promised u64 | is tired u8
//! move        stream u64 | node u32
//! ```
//! Integers are little endian; a text is its length as u16 and its bytes. What is published, and a
//! chunk, is the rest of its frame, and shares its bytes.

use super::codec::{Reader, Writer};
use crate::election_request::ElectionRequest;
use bytes::Bytes;
use leveret_queue_host::events::PeerFrame;
use leveret_stream::{
    Batch, BatchForm, Command, Epoch, Event, Filter, Generation, MemberId, OffsetSpec, PublisherId,
    ReaderId, Refusal, ReplicaMessage, RequestId, SessionId, SharedChunk, StoredBy, StreamStats,
};
use leveret_types::limits::STREAM_FILTER_VALUES_MAX;
use leveret_types::{ConnectionId, NodeId, QueueId};

/// Frames that belong to streams as a whole travel under this id: no stream has it.
pub const STREAM_LINK: QueueId = QueueId(0).of_stream();

/// A frame of another node that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame about streams is malformed: {0}")]
pub struct FrameError(pub(super) &'static str);

/// Where clients of streams reach a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientAddresses {
    /// Host and port without TLS, if it listens there.
    pub plain: Option<(String, u16)>,
    /// Host and port with TLS.
    pub tls: Option<(String, u16)>,
}

/// The last byte of a queue's number. A connection's has the number of its thread there: no node
/// has so many.
const QUEUE_MARK: u64 = 0xFF;

/// The number by which a node tells its session to another one.
fn number_of(session: SessionId) -> u64 {
    match session {
        SessionId::Connection(connection) => connection.0,
        SessionId::Queue(queue) => queue.0 << 8 | QUEUE_MARK,
        SessionId::Remote(_) | SessionId::Operator(_) | SessionId::Nobody => {
            unreachable!("{session:?} has to do with the streams of one node alone")
        }
    }
}

/// The session that a node tells by this number.
const fn session_of(number: u64) -> SessionId {
    match number & QUEUE_MARK {
        QUEUE_MARK => SessionId::Queue(QueueId(number >> 8)),
        _ => SessionId::Connection(ConnectionId(number)),
    }
}

/// What one node tells another.
#[derive(Debug)]
pub(super) enum Frame {
    /// A session of the sender says something.
    Command(SessionId, Command),
    /// A session of the receiver hears something.
    Event(SessionId, Event),
    /// So many bytes of the receiver's publishes, and of its other commands, were taken.
    Taken(u64, u64),
    /// So many bytes of chunks have reached their sessions.
    Delivered(u64),
    /// All sessions of the receiver have left the streams of the sender.
    Reset,
    /// Where clients reach the sender.
    Clients(ClientAddresses),
    /// A replica, or whoever elects, says something to a replica, or it answers.
    Replica(QueueId, ReplicaMessage),
    /// So many bytes of messages of replicas were taken.
    Copied(u64),
    /// A stream needs another epoch: for whoever leads the catalogue's group.
    ElectionRequest(ElectionRequest),
    /// A stream that is led by the sender is to be led by that node: for the same.
    Move(QueueId, NodeId),
}

impl Frame {
    /// Whether it can be sent: commands of the catalogue stay on their node.
    pub(super) fn encode(&self) -> PeerFrame {
        let mut out = Writer::default();
        let mut tail = Bytes::new();
        match self {
            Self::Command(session, command) => {
                out.u8(1);
                out.u64(number_of(*session));
                tail = put_command(&mut out, command);
            }
            Self::Event(session, event) => {
                out.u8(2);
                out.u64(number_of(*session));
                tail = put_event(&mut out, event);
            }
            Self::Taken(publishes, others) => {
                out.u8(3);
                out.u64(*publishes);
                out.u64(*others);
            }
            Self::Delivered(bytes) => {
                out.u8(4);
                out.u64(*bytes);
            }
            Self::Reset => out.u8(5),
            Self::Clients(clients) => {
                out.u8(6);
                for address in [&clients.plain, &clients.tls] {
                    let there = address.as_ref();
                    out.option(there, |out, (host, port)| {
                        out.text(host);
                        out.u16(*port);
                    });
                }
            }
            Self::Replica(stream, message) => {
                out.u8(7);
                out.u64(stream.0);
                let (head, chunks) = message.encode_head();
                out.raw(&head);
                tail = chunks;
            }
            Self::Copied(bytes) => {
                out.u8(8);
                out.u64(*bytes);
            }
            Self::ElectionRequest(election_request) => {
                out.u8(9);
                out.u64(election_request.stream.0);
                out.u64(election_request.promised.0);
                out.u8(u8::from(election_request.wants_other_leader));
            }
            Self::Move(stream, to) => {
                out.u8(10);
                out.u64(stream.0);
                out.u32(to.0);
            }
        }
        let mut frame = PeerFrame::new(STREAM_LINK, out.finish());
        if !tail.is_empty() {
            frame.pieces.push(tail);
        }
        frame
    }

    /// # Errors
    /// If it is anything but one whole frame.
    pub(super) fn decode(bytes: Bytes) -> Result<Self, FrameError> {
        let mut from = Reader(bytes);
        let frame = match from.u8()? {
            1 => Self::Command(session_of(from.u64()?), take_command(&mut from)?),
            2 => Self::Event(session_of(from.u64()?), take_event(&mut from)?),
            3 => Self::Taken(from.u64()?, from.u64()?),
            4 => Self::Delivered(from.u64()?),
            5 => Self::Reset,
            6 => {
                let mut address = || from.option(|from| Ok((from.text()?, from.u16()?)));
                let (plain, tls) = (address()?, address()?);
                Self::Clients(ClientAddresses { plain, tls })
            }
            7 => {
                let stream = QueueId(from.u64()?);
                let message = ReplicaMessage::decode(from.rest())
                    .map_err(|_| FrameError("what a replica says is malformed"))?;
                Self::Replica(stream, message)
            }
            8 => Self::Copied(from.u64()?),
            9 => Self::ElectionRequest(ElectionRequest {
                stream: QueueId(from.u64()?),
                promised: Epoch(from.u64()?),
                wants_other_leader: from.flag()?,
            }),
            10 => Self::Move(QueueId(from.u64()?), NodeId(from.u32()?)),
            _ => return Err(FrameError("its kind is unknown")),
        };
        from.end()?;
        Ok(frame)
    }
}

fn put_form(out: &mut Writer, form: BatchForm) {
    match form {
        BatchForm::Plain => out.u8(0),
        BatchForm::Filtered => out.u8(1),
        BatchForm::Numbered(first) => {
            out.u8(2);
            out.u64(first);
        }
    }
}

fn put_stored_by(out: &mut Writer, by: StoredBy) {
    match by {
        StoredBy::Anyone => out.u8(0),
        StoredBy::Member(generation) => {
            out.u8(1);
            out.u64(generation.0);
        }
        StoredBy::Operator => out.u8(2),
    }
}

/// Puts what each command begins with.
fn put_head(out: &mut Writer, kind: u8, request: Option<&RequestId>, stream: &QueueId) {
    out.u8(kind);
    if let Some(request) = request {
        out.u64(request.0);
    }
    out.u64(stream.0);
}

/// Puts a command, but for the bytes at its end.
fn put_command(out: &mut Writer, command: &Command) -> Bytes {
    match command {
        Command::DeclarePublisher {
            request,
            stream,
            publisher,
            reference,
        } => {
            put_head(out, 1, Some(request), stream);
            out.u32(publisher.0);
            out.option(reference.as_ref(), Writer::reference);
        }
        Command::DeletePublisher { stream, publisher } => {
            put_head(out, 2, None, stream);
            out.u32(publisher.0);
        }
        Command::Publish {
            stream,
            publisher,
            batch,
        } => {
            put_head(out, 3, None, stream);
            out.u32(publisher.0);
            put_form(out, batch.form());
            out.u32(u32::try_from(batch.len()).unwrap_or(u32::MAX));
            return batch.encoded().clone();
        }
        Command::QuerySequence {
            request,
            stream,
            reference,
        } => {
            put_head(out, 4, Some(request), stream);
            out.reference(reference);
        }
        Command::Subscribe {
            request,
            stream,
            reader,
            offset,
            credit,
            filter,
        } => {
            put_head(out, 5, Some(request), stream);
            out.u32(reader.0);
            put_offset(out, *offset);
            out.u32(*credit);
            out.option(filter.as_deref(), put_filter);
        }
        Command::Credit {
            stream,
            reader,
            chunks,
        } => {
            put_head(out, 6, None, stream);
            out.u32(reader.0);
            out.u32(*chunks);
        }
        Command::Unsubscribe { stream, reader } => {
            put_head(out, 7, None, stream);
            out.u32(reader.0);
        }
        Command::StoreOffset {
            stream,
            reference,
            offset,
            by,
        } => {
            put_head(out, 8, None, stream);
            out.reference(reference);
            out.u64(*offset);
            put_stored_by(out, *by);
        }
        Command::QueryOffset {
            request,
            stream,
            reference,
        } => {
            put_head(out, 9, Some(request), stream);
            out.reference(reference);
        }
        Command::ResolveOffset {
            request,
            stream,
            offset,
        } => {
            put_head(out, 10, Some(request), stream);
            put_offset(out, *offset);
        }
        Command::Stats { request, stream } => put_head(out, 11, Some(request), stream),
        of_a_group => put_membership(out, of_a_group),
    }
    Bytes::new()
}

/// Puts what a member of a group says. The catalogue's commands are never relayed.
fn put_membership(out: &mut Writer, command: &Command) {
    match command {
        Command::JoinGroup {
            request,
            stream,
            group,
            partition,
            member,
        } => {
            put_head(out, 12, Some(request), stream);
            out.reference(group);
            out.u32(*partition);
            out.u32(member.0);
        }
        Command::LeaveGroup {
            stream,
            group,
            member,
        } => {
            put_head(out, 13, None, stream);
            out.reference(group);
            out.u32(member.0);
        }
        Command::SteppedDown {
            stream,
            group,
            member,
        } => {
            put_head(out, 14, None, stream);
            out.reference(group);
            out.u32(member.0);
        }
        _ => out.u8(0),
    }
}

fn take_command(from: &mut Reader) -> Result<Command, FrameError> {
    let kind = from.u8()?;
    if kind == 0 {
        return Ok(Command::Leave);
    }
    let has_request = matches!(kind, 1 | 4 | 5 | 9 | 10 | 11 | 12);
    let request = RequestId(if has_request { from.u64()? } else { 0 });
    let stream = QueueId(from.u64()?);
    if !stream.is_stream() {
        return Err(FrameError("it names a stream that cannot be one"));
    }
    Ok(match kind {
        1 => Command::DeclarePublisher {
            request,
            stream,
            publisher: PublisherId(from.u32()?),
            reference: from.option(Reader::reference)?,
        },
        2 => Command::DeletePublisher {
            stream,
            publisher: PublisherId(from.u32()?),
        },
        3 => {
            let publisher = PublisherId(from.u32()?);
            let form = match from.u8()? {
                0 => BatchForm::Plain,
                1 => BatchForm::Filtered,
                2 => BatchForm::Numbered(from.u64()?),
                _ => return Err(FrameError("the form of a publish is unknown")),
            };
            let entries = from.u32()?;
            let batch = Batch::parse(form, entries, from.rest())
                .map_err(|_| FrameError("the body of a publish cannot be decoded"))?;
            Command::Publish {
                stream,
                publisher,
                batch,
            }
        }
        4 => Command::QuerySequence {
            request,
            stream,
            reference: from.reference()?,
        },
        5 => Command::Subscribe {
            request,
            stream,
            reader: ReaderId(from.u32()?),
            offset: take_offset(from)?,
            credit: from.u32()?,
            filter: from.option(take_filter)?.map(Box::new),
        },
        6 => Command::Credit {
            stream,
            reader: ReaderId(from.u32()?),
            chunks: from.u32()?,
        },
        7 => Command::Unsubscribe {
            stream,
            reader: ReaderId(from.u32()?),
        },
        8 => Command::StoreOffset {
            stream,
            reference: from.reference()?,
            offset: from.u64()?,
            by: match from.u8()? {
                0 => StoredBy::Anyone,
                1 => StoredBy::Member(Generation(from.u64()?)),
                2 => StoredBy::Operator,
                _ => return Err(FrameError("on whose behalf an offset is stored is unknown")),
            },
        },
        9 => Command::QueryOffset {
            request,
            stream,
            reference: from.reference()?,
        },
        10 => Command::ResolveOffset {
            request,
            stream,
            offset: take_offset(from)?,
        },
        11 => Command::Stats { request, stream },
        12 => Command::JoinGroup {
            request,
            stream,
            group: from.reference()?,
            partition: from.u32()?,
            member: MemberId(from.u32()?),
        },
        13 => Command::LeaveGroup {
            stream,
            group: from.reference()?,
            member: MemberId(from.u32()?),
        },
        14 => Command::SteppedDown {
            stream,
            group: from.reference()?,
            member: MemberId(from.u32()?),
        },
        _ => return Err(FrameError("a command is unknown")),
    })
}

fn put_offset(out: &mut Writer, offset: OffsetSpec) {
    match offset {
        OffsetSpec::First => out.u8(0),
        OffsetSpec::Last => out.u8(1),
        OffsetSpec::Next => out.u8(2),
        OffsetSpec::Offset(offset) => {
            out.u8(3);
            out.u64(offset);
        }
        OffsetSpec::TimestampMs(ms) => {
            out.u8(4);
            out.u64(ms.cast_unsigned());
        }
    }
}

fn take_offset(from: &mut Reader) -> Result<OffsetSpec, FrameError> {
    Ok(match from.u8()? {
        0 => OffsetSpec::First,
        1 => OffsetSpec::Last,
        2 => OffsetSpec::Next,
        3 => OffsetSpec::Offset(from.u64()?),
        4 => OffsetSpec::TimestampMs(from.u64()?.cast_signed()),
        _ => return Err(FrameError("where a reader begins is unknown")),
    })
}

fn put_filter(out: &mut Writer, filter: &Filter) {
    out.u8(u8::from(filter.match_unfiltered) | u8::from(filter.messages) << 1);
    let values = &filter.values[..filter.values.len().min(STREAM_FILTER_VALUES_MAX)];
    out.u16(u16::try_from(values.len()).unwrap_or(u16::MAX));
    for value in values {
        out.bytes(value);
    }
}

fn take_filter(from: &mut Reader) -> Result<Filter, FrameError> {
    let flags = from.u8()?;
    if flags > 3 {
        return Err(FrameError(
            "what a reader asks for beside values is unknown",
        ));
    }
    let count = usize::from(from.u16()?);
    if count > STREAM_FILTER_VALUES_MAX {
        return Err(FrameError("a reader asks for too many filter values"));
    }
    let values: Result<Vec<Bytes>, FrameError> = (0..count).map(|_| from.bytes()).collect();
    Ok(Filter {
        values: values?,
        match_unfiltered: flags & 1 != 0,
        messages: flags & 2 != 0,
    })
}

/// Puts an event, but for the bytes at its end.
fn put_event(out: &mut Writer, event: &Event) -> Bytes {
    match event {
        // The catalogue's are never relayed; who gets one all the same passes it over.
        Event::Declared { request, .. }
        | Event::Deleted { request, .. }
        | Event::Found { request, .. } => {
            out.u8(0);
            out.u64(request.0);
        }
        Event::PublisherDeclared { request, result } => {
            out.answer(1, *request, result, |_, ()| ());
        }
        Event::Confirmed { publisher, ids } => {
            out.u8(2);
            out.u32(publisher.0);
            out.ids(ids);
        }
        Event::Refused {
            publisher,
            ids,
            refusal,
        } => {
            out.u8(3);
            out.u32(publisher.0);
            out.refusal(refusal);
            out.ids(ids);
        }
        Event::Sequence { request, result } => {
            out.answer(4, *request, result, Writer::maybe_u64);
        }
        Event::Subscribed { request, result } => out.answer(5, *request, result, |_, ()| ()),
        Event::Chunk {
            reader,
            chunk,
            committed_chunk,
        } => {
            out.u8(6);
            out.u32(reader.0);
            out.u64(*committed_chunk);
            return chunk.bytes().clone();
        }
        Event::ReaderEnded { reader, refusal } => {
            out.u8(7);
            out.u32(reader.0);
            out.refusal(refusal);
        }
        Event::StoredOffset { request, result } => {
            out.answer(8, *request, result, Writer::maybe_u64);
        }
        Event::ResolvedOffset { request, result } => {
            out.answer(9, *request, result, |out, offset| out.u64(*offset));
        }
        Event::Stats { request, result } => out.answer(10, *request, result, put_stats),
        Event::Gone { stream } => {
            out.u8(11);
            out.u64(stream.0);
        }
        Event::Lost { stream } => {
            out.u8(12);
            out.u64(stream.0);
        }
        Event::Joined { request, result } => out.answer(13, *request, result, |_, ()| ()),
        Event::Activity {
            stream,
            member,
            is_active,
            generation,
        } => {
            out.u8(14);
            out.u64(stream.0);
            out.u32(member.0);
            out.u8(u8::from(*is_active));
            out.u64(generation.0);
        }
    }
    Bytes::new()
}

fn take_event(from: &mut Reader) -> Result<Event, FrameError> {
    let kind = from.u8()?;
    let has_request = matches!(kind, 1 | 4 | 5 | 8 | 9 | 10 | 13);
    let request = RequestId(if has_request { from.u64()? } else { 0 });
    Ok(match kind {
        1 => Event::PublisherDeclared {
            request,
            result: from.result(|_| Ok(()))?,
        },
        2 => Event::Confirmed {
            publisher: PublisherId(from.u32()?),
            ids: from.ids()?,
        },
        3 => {
            let (publisher, refusal) = (PublisherId(from.u32()?), from.refusal()?);
            Event::Refused {
                publisher,
                ids: from.ids()?,
                refusal,
            }
        }
        4 => Event::Sequence {
            request,
            result: from.result(Reader::maybe_u64)?,
        },
        5 => Event::Subscribed {
            request,
            result: from.result(|_| Ok(()))?,
        },
        6 => {
            let (reader, committed_chunk) = (ReaderId(from.u32()?), from.u64()?);
            let chunk = SharedChunk::split_from(&mut from.0)
                .map_err(|_| FrameError("a chunk is not whole"))?;
            Event::Chunk {
                reader,
                chunk,
                committed_chunk,
            }
        }
        7 => Event::ReaderEnded {
            reader: ReaderId(from.u32()?),
            refusal: from.refusal()?,
        },
        8 => Event::StoredOffset {
            request,
            result: from.result(Reader::maybe_u64)?,
        },
        9 => Event::ResolvedOffset {
            request,
            result: from.result(Reader::u64)?,
        },
        10 => Event::Stats {
            request,
            result: from.result(take_stats)?,
        },
        11 => Event::Gone {
            stream: QueueId(from.u64()?),
        },
        12 => Event::Lost {
            stream: QueueId(from.u64()?),
        },
        13 => Event::Joined {
            request,
            result: from.result(|_| Ok(()))?,
        },
        14 => Event::Activity {
            stream: QueueId(from.u64()?),
            member: MemberId(from.u32()?),
            is_active: from.flag()?,
            generation: Generation(from.u64()?),
        },
        _ => return Err(FrameError("an event is unknown")),
    })
}

fn put_stats(out: &mut Writer, stats: &StreamStats) {
    let chunks = [
        stats.first_chunk,
        stats.last_chunk,
        stats.committed_chunk,
        stats.committed_offset,
    ];
    for chunk in &chunks {
        out.maybe_u64(chunk);
    }
    let counts = [
        stats.bytes,
        stats.segments,
        stats.readers,
        stats.publishers,
        stats.offsets_refused,
        stats.held_bytes,
    ];
    for count in counts {
        out.u64(count);
    }
}

fn take_stats(from: &mut Reader) -> Result<StreamStats, FrameError> {
    Ok(StreamStats {
        first_chunk: from.maybe_u64()?,
        last_chunk: from.maybe_u64()?,
        committed_chunk: from.maybe_u64()?,
        committed_offset: from.maybe_u64()?,
        last_record: None,
        last_offset: None,
        bytes: from.u64()?,
        segments: from.u64()?,
        readers: from.u64()?,
        publishers: from.u64()?,
        offsets_refused: from.u64()?,
        held_bytes: from.u64()?,
        damaged: false,
        fenced: false,
    })
}

/// How a refusal is written: its number, and its text.
pub(super) fn parts_of(refusal: &Refusal) -> (u8, &str) {
    match refusal {
        Refusal::NotFound => (0, ""),
        Refusal::Exists => (1, ""),
        Refusal::Precondition(text) => (2, text),
        Refusal::NotAvailable(text) => (3, text),
        Refusal::Id => (4, ""),
        Refusal::Damaged(text) => (5, text),
    }
}
