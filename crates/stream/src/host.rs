//! What a session of any protocol says to the streams of a node, and what it hears: one pair of
//! enums, carried by a bounded channel one way and by the session's inbox the other way.
//!
//! A session gives [`Command`]s, each with its own [`SessionId`] beside it, and hears [`Event`]s.
//! A command that wants an answer has a [`RequestId`] of the session's choice, and gets exactly one
//! event with it. Commands of one session on one stream are carried out in order.
//!
//! - `Declare`, `Delete` and `LookUp` are the catalogue's: whoever holds it resolves names to a
//!   [`QueueId`] and checks nothing else; permissions are checked before a command is given.
//!   All other commands name the stream by its id.
//! - A batch is answered by `Confirmed` and `Refused` events that name each of its ids once. In
//!   one event are ids of one publisher, in the order in which they were published. A confirmed
//!   entry is durable at the stream's flush level. A publisher with a reference is deduplicated:
//!   an id that is not above the last one of the reference is confirmed, and not stored again.
//! - A reader hears `Chunk` events, at most one for each credit. Credit is the bound on what is
//!   under way to a session: a session whose output is full holds its client's credit back, and
//!   gives it once there is room.
//! - `Gone` and `Lost` end all publishers, readers and memberships of groups that the session has
//!   on a stream. What the session still says of them is ignored, and publishes that had no answer
//!   by then get none: after `Lost` the stream may have stored them, or not. Where the session
//!   reads a replica of its own node, a `Lost` of the leader leaves that reader there: it
//!   unsubscribes.
//! - [`Command::Leave`] ends everything of a session; no event follows it.

use crate::batch::Batch;
use crate::bloom::Filter;
use crate::chunk::SharedChunk;
use bytes::Bytes;
use leveret_types::limits::STREAM_REFERENCE_BYTES_MAX;
use leveret_types::{ConnectionId, QueueId};
use std::sync::Arc;

/// One session at the streams of a node, by who has it: never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SessionId {
    /// A client's connection to this node.
    Connection(ConnectionId),
    /// A queue in a shard of this node: a view of a stream, or what stands there for the stream.
    Queue(QueueId),
    /// A session of another node, by the number that this node has given it.
    Remote(u64),
    /// An operator who reads, by the number that this node has given.
    Operator(u64),
    /// The broker itself: it hears nothing.
    Nobody,
}

/// One publisher of a session, chosen by the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublisherId(pub u32);

/// One reader of a session, chosen by the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReaderId(pub u32);

impl ReaderId {
    /// The bit of those whose session hands back what its socket does not take.
    const HANDS_BACK: u32 = 1 << 31;

    /// This one of a session that hands back what its socket does not take: what is read from disk
    /// for it is bounded over all such readers of a node. Others keep a bounded number of chunks
    /// for as long as they like.
    #[must_use]
    pub const fn that_hands_back(self) -> Self {
        Self(self.0 | Self::HANDS_BACK)
    }

    /// Whether its session hands back what its socket does not take.
    #[must_use]
    pub const fn hands_back(self) -> bool {
        self.0 & Self::HANDS_BACK != 0
    }
}

/// One consumer of a session in its group, chosen by the session and used once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemberId(pub u32);

/// Which time it is that a consumer of a group is the active one: above those of all who were so
/// before, under this leader of the stream or another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Generation(pub u64);

/// On whose behalf an offset is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredBy {
    /// A consumer of which nobody says that it is one of a group with one active at a time.
    Anyone,
    /// The consumer that was made active under this generation: refused once another one is.
    Member(Generation),
    /// An operator: the group goes on behind it, and its active consumer asks anew.
    Operator,
}

/// What an answer refers to, chosen by the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// The name under which a stream keeps a publisher's sequence or a consumer's offset: 1 to 255
/// bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reference(Bytes);

impl Reference {
    /// `None` if it is empty or too long.
    #[must_use]
    pub fn new(name: Bytes) -> Option<Self> {
        (1..=STREAM_REFERENCE_BYTES_MAX)
            .contains(&name.len())
            .then_some(Self(name))
    }

    /// The name.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Where a reader begins.
///
/// It is sent whole chunks: the first one contains the offset, or comes after it where the offset
/// is not stored any more. The client drops what lies before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetSpec {
    /// With the oldest chunk.
    First,
    /// With the last chunk that is there.
    Last,
    /// With what is committed from now on.
    Next,
    /// With the chunk that contains this offset. One that lies ahead is waited for.
    Offset(u64),
    /// With the first chunk that was made at this time or later, in milliseconds since the Unix
    /// epoch; `Next` if there is none yet.
    TimestampMs(i64),
}

/// What a session says.
#[derive(Clone, Debug)]
pub enum Command {
    /// Makes a stream. Answer: [`Event::Declared`].
    Declare {
        /// What the answer refers to.
        request: RequestId,
        /// The virtual host.
        vhost: Arc<str>,
        /// The stream's name.
        name: Arc<str>,
        /// Its arguments as the stream protocol names them, known to make settings.
        arguments: Vec<(String, String)>,
    },
    /// Deletes a stream with all that it holds. Answer: [`Event::Deleted`].
    Delete {
        /// What the answer refers to.
        request: RequestId,
        /// The virtual host.
        vhost: Arc<str>,
        /// The stream's name.
        name: Arc<str>,
    },
    /// Asks for the id of a stream. Answer: [`Event::Found`].
    LookUp {
        /// What the answer refers to.
        request: RequestId,
        /// The virtual host.
        vhost: Arc<str>,
        /// The stream's name.
        name: Arc<str>,
    },
    /// Announces a publisher, before its first batch. Answer: [`Event::PublisherDeclared`].
    DeclarePublisher {
        /// What the answer refers to.
        request: RequestId,
        /// The stream.
        stream: QueueId,
        /// The publisher.
        publisher: PublisherId,
        /// What it is deduplicated by, if it is.
        reference: Option<Reference>,
    },
    /// Ends a publisher. What it has published is still answered.
    DeletePublisher {
        /// The stream.
        stream: QueueId,
        /// The publisher.
        publisher: PublisherId,
    },
    /// Publishes. Answers: [`Event::Confirmed`] and [`Event::Refused`].
    Publish {
        /// The stream.
        stream: QueueId,
        /// A publisher that was declared.
        publisher: PublisherId,
        /// What it publishes.
        batch: Batch,
    },
    /// Asks for the last publishing id of a reference. Answer: [`Event::Sequence`].
    QuerySequence {
        /// What the answer refers to.
        request: RequestId,
        /// The stream.
        stream: QueueId,
        /// The publisher's reference.
        reference: Reference,
    },
    /// Begins to read. Answer: [`Event::Subscribed`], before the first chunk.
    Subscribe {
        /// What the answer refers to.
        request: RequestId,
        /// The stream.
        stream: QueueId,
        /// The reader.
        reader: ReaderId,
        /// Where it begins.
        offset: OffsetSpec,
        /// Chunks that may be sent.
        credit: u32,
        /// Which chunks; all of them if `None`.
        filter: Option<Box<Filter>>,
    },
    /// Lets a reader have more chunks.
    Credit {
        /// The stream.
        stream: QueueId,
        /// The reader.
        reader: ReaderId,
        /// So many more.
        chunks: u32,
    },
    /// Ends a reader. Chunks that are under way may still arrive.
    Unsubscribe {
        /// The stream.
        stream: QueueId,
        /// The reader.
        reader: ReaderId,
    },
    /// Stores a consumer's offset in the stream. No answer: it is durable with what is published
    /// after it. What is refused is counted ([`StreamStats::offsets_refused`]).
    StoreOffset {
        /// The stream.
        stream: QueueId,
        /// The consumer's reference.
        reference: Reference,
        /// The offset.
        offset: u64,
        /// On whose behalf.
        by: StoredBy,
    },
    /// A consumer joins a group of which one at a time is active, wherever its consumers are.
    /// Answer: [`Event::Joined`]; then [`Event::Activity`], each time that it is active or is so
    /// no longer.
    JoinGroup {
        /// What the answer refers to.
        request: RequestId,
        /// The stream.
        stream: QueueId,
        /// The group's name.
        group: Reference,
        /// The stream's number in its super stream; 0 without one.
        partition: u32,
        /// The consumer.
        member: MemberId,
    },
    /// A consumer leaves its group.
    LeaveGroup {
        /// The stream.
        stream: QueueId,
        /// The group's name.
        group: Reference,
        /// The consumer.
        member: MemberId,
    },
    /// A consumer that was told that it is active no longer has answered: another one may be.
    SteppedDown {
        /// The stream.
        stream: QueueId,
        /// The group's name.
        group: Reference,
        /// The consumer.
        member: MemberId,
    },
    /// Asks for a stored offset. Answer: [`Event::StoredOffset`].
    QueryOffset {
        /// What the answer refers to.
        request: RequestId,
        /// The stream.
        stream: QueueId,
        /// The consumer's reference.
        reference: Reference,
    },
    /// Asks where a reader would begin now. Answer: [`Event::ResolvedOffset`].
    ResolveOffset {
        /// What the answer refers to.
        request: RequestId,
        /// The stream.
        stream: QueueId,
        /// Where it would begin.
        offset: OffsetSpec,
    },
    /// Asks for figures. Answer: [`Event::Stats`].
    Stats {
        /// What the answer refers to.
        request: RequestId,
        /// The stream.
        stream: QueueId,
    },
    /// The session has ended, with all its publishers and readers.
    Leave,
}

impl Command {
    /// The stream that it is for; `None` of those of the catalogue, and of [`Self::Leave`].
    #[must_use]
    pub fn stream(&self) -> Option<QueueId> {
        match self {
            Self::Declare { .. } | Self::Delete { .. } | Self::LookUp { .. } | Self::Leave => None,
            Self::DeclarePublisher { stream, .. }
            | Self::DeletePublisher { stream, .. }
            | Self::Publish { stream, .. }
            | Self::QuerySequence { stream, .. }
            | Self::Subscribe { stream, .. }
            | Self::Credit { stream, .. }
            | Self::Unsubscribe { stream, .. }
            | Self::StoreOffset { stream, .. }
            | Self::JoinGroup { stream, .. }
            | Self::LeaveGroup { stream, .. }
            | Self::SteppedDown { stream, .. }
            | Self::QueryOffset { stream, .. }
            | Self::ResolveOffset { stream, .. }
            | Self::Stats { stream, .. } => Some(*stream),
        }
    }

    /// Whether it may wait, for a while, until its stream begins on the node that it has come to,
    /// or is led there. A publish waits behind its publisher's declaration only.
    #[must_use]
    pub const fn may_wait(&self) -> bool {
        matches!(
            self,
            Self::DeclarePublisher { .. }
                | Self::Publish { .. }
                | Self::QuerySequence { .. }
                | Self::Subscribe { .. }
                | Self::StoreOffset { .. }
                | Self::JoinGroup { .. }
                | Self::QueryOffset { .. }
                | Self::ResolveOffset { .. }
                | Self::Stats { .. }
        )
    }

    /// Whether it ends what another command of the same session has asked for.
    #[must_use]
    pub fn ends(&self, begun: &Self) -> bool {
        if self.stream() != begun.stream() {
            return false;
        }
        match (self, begun) {
            (
                Self::DeletePublisher { publisher, .. },
                Self::DeclarePublisher { publisher: of, .. },
            ) => publisher == of,
            (Self::Unsubscribe { reader, .. }, Self::Subscribe { reader: of, .. }) => reader == of,
            (
                Self::LeaveGroup { group, member, .. },
                Self::JoinGroup {
                    group: of_group,
                    member: of,
                    ..
                },
            ) => (group, member) == (of_group, of),
            _ => false,
        }
    }

    /// What a session hears instead of an answer; `None` if it would get none.
    #[must_use]
    pub fn refused(&self, refusal: Refusal) -> Option<Event> {
        let event = match self {
            Self::Declare { request, .. } => Event::Declared {
                request: *request,
                result: Err(refusal),
            },
            Self::Delete { request, .. } => Event::Deleted {
                request: *request,
                result: Err(refusal),
            },
            Self::LookUp { request, .. } => Event::Found {
                request: *request,
                result: Err(refusal),
            },
            Self::DeclarePublisher { request, .. } => Event::PublisherDeclared {
                request: *request,
                result: Err(refusal),
            },
            Self::Publish {
                publisher, batch, ..
            } => Event::Refused {
                publisher: *publisher,
                ids: batch.ids(),
                refusal,
            },
            Self::QuerySequence { request, .. } => Event::Sequence {
                request: *request,
                result: Err(refusal),
            },
            Self::Subscribe { request, .. } => Event::Subscribed {
                request: *request,
                result: Err(refusal),
            },
            Self::JoinGroup { request, .. } => Event::Joined {
                request: *request,
                result: Err(refusal),
            },
            Self::QueryOffset { request, .. } => Event::StoredOffset {
                request: *request,
                result: Err(refusal),
            },
            Self::ResolveOffset { request, .. } => Event::ResolvedOffset {
                request: *request,
                result: Err(refusal),
            },
            Self::Stats { request, .. } => Event::Stats {
                request: *request,
                result: Err(refusal),
            },
            Self::DeletePublisher { .. }
            | Self::Credit { .. }
            | Self::Unsubscribe { .. }
            | Self::StoreOffset { .. }
            | Self::LeaveGroup { .. }
            | Self::SteppedDown { .. }
            | Self::Leave => return None,
        };
        Some(event)
    }
}

/// Why something was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such stream (0x02 of the stream protocol).
    #[error("there is no such stream")]
    NotFound,
    /// There is one already, with the same settings (0x05).
    #[error("the stream exists already")]
    Exists,
    /// There is one already with other settings, or the settings cannot be (0x11).
    #[error("{0}")]
    Precondition(String),
    /// The node cannot serve it now (0x06).
    #[error("the stream is not available: {0}")]
    NotAvailable(String),
    /// The session has a publisher or reader with this number already, or has none (0x12, 0x04).
    #[error("the session has no such publisher or reader, or has one already")]
    Id,
    /// A part of the stream that is asked for is damaged on disk.
    #[error("the stream is damaged: {0}")]
    Damaged(String),
}

/// Where a stream stands. Offsets are `None` in a stream that is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamStats {
    /// Id of the oldest chunk (`first_chunk_id`).
    pub first_chunk: Option<u64>,
    /// Id of the newest chunk (`last_chunk_id`).
    pub last_chunk: Option<u64>,
    /// Id of the newest chunk that readers may see (`committed_chunk_id`).
    pub committed_chunk: Option<u64>,
    /// The last offset that readers may see (`committed_offset`).
    pub committed_offset: Option<u64>,
    /// The last offset of a record that readers may see: what is stored by name takes offsets
    /// after it. [`Self::committed_offset`] where the newest chunks that are known have no record.
    /// Not told to other nodes, where it is `None`.
    pub last_record: Option<u64>,
    /// The last offset that there is, whether readers may see it or not. Not told to other nodes,
    /// where it is `None`.
    pub last_offset: Option<u64>,
    /// Bytes of all segments.
    pub bytes: u64,
    /// Segments.
    pub segments: u64,
    /// Readers now.
    pub readers: u64,
    /// Publishers now.
    pub publishers: u64,
    /// Offsets that were not stored since the stream runs: there are names enough already, or
    /// another consumer of the group is active.
    pub offsets_refused: u64,
    /// Bytes that are kept for `retention-groups` alone: size or age would have deleted them.
    pub held_bytes: u64,
    /// Whether something of it cannot be read on this node, or it is not served here, for its files
    /// are damaged. Not told to other nodes.
    pub damaged: bool,
    /// Whether the replica on this node takes no part, as its leader had not all that was
    /// committed. Not told to other nodes.
    pub fenced: bool,
}

/// What a session hears.
#[derive(Clone, Debug)]
pub enum Event {
    /// Answers [`Command::Declare`].
    Declared {
        /// What it answers.
        request: RequestId,
        /// The new stream.
        result: Result<QueueId, Refusal>,
    },
    /// Answers [`Command::Delete`].
    Deleted {
        /// What it answers.
        request: RequestId,
        /// Whether it was deleted.
        result: Result<(), Refusal>,
    },
    /// Answers [`Command::LookUp`].
    Found {
        /// What it answers.
        request: RequestId,
        /// The stream's id.
        result: Result<QueueId, Refusal>,
    },
    /// Answers [`Command::DeclarePublisher`].
    PublisherDeclared {
        /// What it answers.
        request: RequestId,
        /// Whether it may publish.
        result: Result<(), Refusal>,
    },
    /// These publishes are durable at the stream's flush level, or were before.
    Confirmed {
        /// Whose.
        publisher: PublisherId,
        /// Their publishing ids, in the order in which they were published.
        ids: Vec<u64>,
    },
    /// These publishes were not stored.
    Refused {
        /// Whose.
        publisher: PublisherId,
        /// Their publishing ids, in the order in which they were published.
        ids: Vec<u64>,
        /// Why.
        refusal: Refusal,
    },
    /// Answers [`Command::QuerySequence`].
    Sequence {
        /// What it answers.
        request: RequestId,
        /// The last publishing id, `None` of a reference that is not known.
        result: Result<Option<u64>, Refusal>,
    },
    /// Answers [`Command::Subscribe`].
    Subscribed {
        /// What it answers.
        request: RequestId,
        /// Whether chunks will come.
        result: Result<(), Refusal>,
    },
    /// A chunk for a reader, in exchange for one credit.
    Chunk {
        /// For whom.
        reader: ReaderId,
        /// The chunk. A client is sent its header and its data.
        chunk: SharedChunk,
        /// Id of the newest chunk that readers may see.
        committed_chunk: u64,
    },
    /// A reader has ended: it has come to a part of the stream that cannot be read.
    ReaderEnded {
        /// Which.
        reader: ReaderId,
        /// Why.
        refusal: Refusal,
    },
    /// Answers [`Command::JoinGroup`].
    Joined {
        /// What it answers.
        request: RequestId,
        /// Whether it is in its group.
        result: Result<(), Refusal>,
    },
    /// A consumer becomes the active one of its group, or is so no longer.
    Activity {
        /// The stream.
        stream: QueueId,
        /// Which.
        member: MemberId,
        /// Whether it is active from now on. One that is so no longer answers with
        /// [`Command::SteppedDown`].
        is_active: bool,
        /// Which time it is that a consumer of the group is active.
        generation: Generation,
    },
    /// Answers [`Command::QueryOffset`].
    StoredOffset {
        /// What it answers.
        request: RequestId,
        /// The offset, `None` if none is stored.
        result: Result<Option<u64>, Refusal>,
    },
    /// Answers [`Command::ResolveOffset`].
    ResolvedOffset {
        /// What it answers.
        request: RequestId,
        /// The offset that a reader would begin with.
        result: Result<u64, Refusal>,
    },
    /// Answers [`Command::Stats`].
    Stats {
        /// What it answers.
        request: RequestId,
        /// The figures.
        result: Result<StreamStats, Refusal>,
    },
    /// The stream was deleted.
    Gone {
        /// Which.
        stream: QueueId,
    },
    /// The stream is there, but whoever serves it is not reached, or serves it no more.
    Lost {
        /// Which.
        stream: QueueId,
    },
}
