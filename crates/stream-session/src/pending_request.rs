//! What a connection remembers of its client's last request while the streams are at work: the
//! values alone, so that the session can have them and whoever asks can go on with them.

use crate::publishers::Declare;
use crate::readers::Subscribe;
use bytes::Bytes;
use leveret_stream::{Reference, RequestId, StoredBy};
use leveret_stream_protocol::{Key, OffsetSpec, ResponseCode};
use leveret_types::QueueId;
use std::collections::BTreeMap;

/// What the client's last request waits for.
#[derive(Debug)]
pub(crate) enum PendingRequest {
    /// A login.
    Login { correlation_id: u32 },
    /// This node to know what the others had agreed on; then the frame is looked at again.
    OtherNodes { frame: Bytes },
    /// The id of a stream.
    LookUp {
        request: RequestId,
        key: Key,
        correlation_id: u32,
        stream: String,
        then: NextStep,
    },
    /// The streams to do it.
    Operation {
        request: RequestId,
        key: Key,
        correlation_id: u32,
        then: Completion,
    },
    /// The ids of several streams, of which some are known by now.
    Metadata {
        correlation_id: u32,
        streams: Vec<(String, ResponseCode)>,
        waiting: BTreeMap<RequestId, usize>,
    },
    /// A super stream to be made, or taken away, partition by partition.
    SuperStream {
        request: RequestId,
        correlation_id: u32,
        making: SuperStreamChange,
    },
}

/// What is to be done with a stream whose id is being looked up.
#[derive(Debug)]
pub(crate) enum NextStep {
    Declare(Declare),
    Subscribe(Subscribe),
    QuerySequence(String),
    QueryOffset(String),
    StoreOffset(Reference, u64, StoredBy),
    Stats,
    Resolve(OffsetSpec),
}

/// What is to be done once the streams have done their part.
#[derive(Debug)]
pub(crate) enum Completion {
    /// To answer.
    Answer,
    /// The publisher begins.
    Declare(Declare, QueueId),
    /// The subscription begins.
    Subscribe(u8),
}

/// A super stream that is being made or taken away.
#[derive(Debug)]
pub(crate) struct SuperStreamChange {
    pub(crate) name: String,
    /// The partitions, each with its key.
    pub(crate) partitions: Vec<(String, String)>,
    /// How many of them are done.
    pub(crate) done: usize,
    /// The arguments of new ones; nothing where they are deleted.
    pub(crate) arguments: Option<Vec<(String, String)>>,
    /// What the client is told at the end.
    pub(crate) code: ResponseCode,
}
