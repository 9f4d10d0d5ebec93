//! The stream whose view a script's nodes lead: it answers what it is asked, and sends what it has.

use crate::test_chunks;
use leveret_stream::{Command, Event, OffsetSpec, ReaderId, Refusal, SharedChunk, StreamStats};
use leveret_types::QueueId;

pub(super) const STREAM: QueueId = QueueId(9).of_stream();

/// Who reads, on which node.
struct Reading {
    at: usize,
    id: ReaderId,
    /// The place of the next chunk.
    next: usize,
    credit: u32,
}

#[derive(Default)]
pub(super) struct Source {
    chunks: Vec<SharedChunk>,
    /// The offset after its last message.
    end: u64,
    /// Chunks that retention has deleted.
    deleted: usize,
    /// Whether it refuses what it is asked.
    pub(super) refuses: bool,
    readers: Vec<Reading>,
    /// Who read before, and on which node.
    former: Vec<(usize, ReaderId)>,
}

impl Source {
    /// A chunk of so many messages more: each has its offset for its number.
    pub(super) fn append(&mut self, count: u64) {
        let bytes = |offset: u64| test_chunks::message(None, &offset.to_le_bytes());
        let entries = (self.end..self.end + count).map(|of| test_chunks::entry(&bytes(of)));
        let entries: Vec<_> = entries.collect();
        let chunk = test_chunks::chunk(self.end, count as u32, &entries);
        self.chunks.push(chunk);
        self.end += count;
    }

    /// Retention deletes its first chunks.
    pub(super) fn delete(&mut self, chunks: usize) {
        self.deleted += chunks;
    }

    /// It is lost from sight on a node.
    pub(super) fn lose(&mut self, node: usize) {
        let gone = self.readers.extract_if(.., |reading| reading.at == node);
        self.former.extend(gone.map(|reading| (node, reading.id)));
    }

    /// Its newest chunk, for who read it on a node before.
    pub(super) fn late(&self, node: usize) -> Event {
        let mut former = self.former.iter().rev();
        let (_, reader) = former.find(|(at, _)| *at == node).expect("one has read");
        let chunk = self.chunks.last().expect("it has some").clone();
        Event::Chunk {
            reader: *reader,
            committed_chunk: chunk.header().first_offset,
            chunk,
        }
    }

    fn first(&self) -> u64 {
        let first = self.chunks.get(self.deleted);
        first.map_or(self.end, |chunk| chunk.header().first_offset)
    }

    fn stats(&self) -> StreamStats {
        StreamStats {
            first_chunk: Some(self.first()),
            committed_offset: self.end.checked_sub(1),
            ..StreamStats::default()
        }
    }

    /// What a node's view asks, with what is to be heard of that and the answer.
    pub(super) fn pending(
        &mut self,
        at: usize,
        command: &Command,
    ) -> (Option<String>, Option<Event>) {
        match *command {
            Command::ResolveOffset {
                request, offset, ..
            } => {
                let result = match offset {
                    _ if self.refuses => Err(Refusal::NotFound),
                    OffsetSpec::Next => Ok(self.end),
                    _ => Ok(self.first()),
                };
                (None, Some(Event::ResolvedOffset { request, result }))
            }
            Command::Stats { request, .. } => {
                let result = match self.refuses {
                    true => Err(Refusal::NotFound),
                    false => Ok(self.stats()),
                };
                (None, Some(Event::Stats { request, result }))
            }
            Command::Subscribe {
                request,
                reader,
                offset: OffsetSpec::Offset(from),
                credit,
                ..
            } => {
                let mut former = self.former.iter().filter(|(of, _)| *of == at);
                assert!(former.all(|(_, id)| id.0 < reader.0), "it has read before");
                let outputs = Some(format!("reads from {from}"));
                if self.refuses {
                    let result = Err(Refusal::NotFound);
                    return (outputs, Some(Event::Subscribed { request, result }));
                }
                let ends = |chunk: &SharedChunk| chunk.header().next_offset() <= from;
                let next = self.chunks.partition_point(ends).max(self.deleted);
                self.readers.push(Reading {
                    at,
                    id: reader,
                    next,
                    credit,
                });
                let result = Ok(());
                (outputs, Some(Event::Subscribed { request, result }))
            }
            Command::Credit { reader, chunks, .. } => {
                let mut readers = self.readers.iter_mut();
                let reading = readers.find(|of| (of.at, of.id) == (at, reader));
                reading.expect("it reads").credit += chunks;
                (None, None)
            }
            Command::Unsubscribe { reader, .. } => {
                self.readers.retain(|of| (of.at, of.id) != (at, reader));
                self.former.push((at, reader));
                (Some("reads no more".to_owned()), None)
            }
            Command::Leave => {
                self.lose(at);
                (Some("leaves the stream".to_owned()), None)
            }
            ref other => panic!("{other:?} is said by no view"),
        }
    }

    /// What there is for readers that they may be sent, each with the node.
    pub(super) fn take_due(&mut self) -> Vec<(usize, Event)> {
        let mut due = Vec::new();
        let committed_chunk = self.chunks.last().map_or(0, |of| of.header().first_offset);
        for reading in &mut self.readers {
            while reading.credit > 0
                && let Some(chunk) = self.chunks.get(reading.next)
            {
                (reading.credit, reading.next) = (reading.credit - 1, reading.next + 1);
                due.push((
                    reading.at,
                    Event::Chunk {
                        reader: reading.id,
                        chunk: chunk.clone(),
                        committed_chunk,
                    },
                ));
            }
        }
        due
    }
}
