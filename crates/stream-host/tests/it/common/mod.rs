//! One session with the streams of a node over a disk in memory.

pub mod pair;

use leveret_storage::{MemoryDisk, StreamFiles};
use leveret_stream::{
    BatchBuilder, Command, Event, Events, OffsetSpec, PublisherId, ReaderId, RequestId, SessionId,
};
use leveret_stream_host::StreamHost;
use leveret_types::limits::STREAM_IDLE_MS;
use leveret_types::{ConnectionId, Now, QueueId};
use std::path::Path;

pub const SESSION: SessionId = SessionId::Connection(ConnectionId(1));

pub fn host(disk: &MemoryDisk) -> StreamHost<MemoryDisk> {
    StreamHost::new(StreamFiles::open(disk.clone(), Path::new("streams"), 9).unwrap())
}

/// When a turn is due for anything but to look whether streams are idle that were written to at 0
/// or later.
pub fn soon_ms(host: &StreamHost<MemoryDisk>) -> Option<u64> {
    host.due_ms().filter(|at_ms| *at_ms < STREAM_IDLE_MS)
}

pub fn give(host: &mut StreamHost<MemoryDisk>, now: Now, command: Command) -> Vec<Event> {
    let mut events = Events::new();
    host.handle(now, SESSION, command, &mut events);
    events.into_iter().map(|(_, event)| event).collect()
}

pub fn declare(host: &mut StreamHost<MemoryDisk>, stream: QueueId) {
    let (request, publisher) = (RequestId(0), PublisherId(1));
    let declare = Command::DeclarePublisher {
        request,
        stream,
        publisher,
        reference: None,
    };
    let events = give(host, Now::both(0), declare);
    assert!(matches!(
        events[..],
        [Event::PublisherDeclared { result: Ok(()), .. }]
    ));
}

pub fn publish(stream: QueueId, ids: std::ops::Range<u64>) -> Command {
    let mut batch = BatchBuilder::new();
    for id in ids {
        assert!(batch.push(id, None, &id.to_be_bytes()));
    }
    Command::Publish {
        stream,
        publisher: PublisherId(1),
        batch: batch.take(),
    }
}

/// Ends a turn, and further ones until nothing is read any more.
pub fn end_turn(host: &mut StreamHost<MemoryDisk>, now: Now) -> Vec<Event> {
    let mut events = Events::new();
    loop {
        host.end_turn(now, &mut events).unwrap();
        let reads = host.take_reads();
        if reads.is_empty() {
            break;
        }
        for read in reads {
            host.was_read(read.run(), &mut events);
        }
    }
    events.into_iter().map(|(_, event)| event).collect()
}

pub fn subscribe_first(stream: QueueId, credit: u32) -> Command {
    Command::Subscribe {
        request: RequestId(1),
        stream,
        reader: ReaderId(1),
        offset: OffsetSpec::First,
        credit,
        filter: None,
    }
}
