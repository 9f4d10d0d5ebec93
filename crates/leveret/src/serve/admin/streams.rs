//! Streams for operators: what groups of consumers have stored, and what a stream holds.

use super::super::messages;
use super::Admin;
use leveret_management::api::{
    Browse, Browsed, StreamGroup, StreamGroups, StreamMessage, StreamStart,
};
use leveret_management::directory::Queue;
use leveret_node::move_group;
use leveret_queue_host::browsing::{Seen, look};
use leveret_shell::stream_thread::StreamReading;
use leveret_stream::{
    Command, Event, Filter, OffsetSpec, ReaderId, Reference, Refusal, RequestId, SharedChunk,
    StreamStats,
};
use leveret_types::QueueId;
use leveret_types::limits::{STREAM_BROWSE_BYTES, STREAM_BROWSE_READ_BYTES, STREAM_BROWSERS_MAX};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// How long one look reads: it then shows what it has. Less than other nodes wait for an answer.
const LOOK_TIME: Duration = Duration::from_millis(2_000);

impl Admin {
    pub(super) fn groups_of_streams(&self, only: Option<QueueId>) -> Vec<StreamGroups> {
        let group = |(name, offset, per_second)| StreamGroup {
            name,
            offset,
            per_second,
        };
        let kept = self.broker.streams.groups(only).into_iter();
        let kept = kept.map(|kept| StreamGroups {
            stream: kept.stream,
            first_offset: kept.stats.first_chunk,
            committed_offset: kept.stats.committed_offset,
            last_record: kept.stats.last_record,
            groups: kept.groups.into_iter().map(group).collect(),
        });
        kept.collect()
    }

    /// Stores an offset for a name in a stream; none where its offsets are not kept here.
    ///
    /// # Errors
    /// If it cannot be stored.
    pub(super) fn store_offset(
        &self,
        stream: QueueId,
        name: &str,
        offset: u64,
    ) -> Option<Result<(), String>> {
        let kept = !self.broker.streams.groups(Some(stream)).is_empty();
        let Some(reference) = Reference::new(name.as_bytes().to_vec().into()) else {
            return kept.then(|| Err("the name is none of a consumer".to_owned()));
        };
        match kept {
            true => self.broker.streams.set_offset(stream, &reference, offset),
            false => None,
        }
    }

    pub(super) fn set_group(
        &self,
        stream: QueueId,
        name: &str,
        to: StreamStart,
    ) -> Option<Result<u64, String>> {
        let kept = self.broker.streams.groups(Some(stream));
        let stats = kept.first()?.stats;
        let end = stats.committed_offset.unwrap_or(0);
        // A group goes on behind the offset that it has stored.
        let offset = match to {
            StreamStart::Offset(offset) => Ok(offset),
            StreamStart::Last => Ok(end),
            StreamStart::First => Ok(stats.first_chunk.unwrap_or(0).saturating_sub(1)),
            StreamStart::TimestampMs(_) => self.first_from(stream, to).map(|found| match found {
                Some(first) => first.saturating_sub(1),
                None => end,
            }),
        };
        let offset = match offset {
            Ok(offset) => offset,
            Err(why) => return Some(Err(why)),
        };
        let stored = self.store_offset(stream, name, offset)?;
        Some(stored.map(|()| offset))
    }

    pub(super) fn move_group(&self, stream: &Queue, name: &str, offset: u64) {
        let consumers = self.all_stream_consumers().into_iter();
        let is_named = |(key, value): &(String, String)| key == "name" && value == name;
        let of_it = consumers.filter(|consumer| {
            let mut properties = consumer.properties.iter();
            consumer.queue == stream.id && !consumer.single_active && properties.any(is_named)
        });
        let mut connections: Vec<_> = of_it.map(|consumer| consumer.connection).collect();
        connections.sort_unstable();
        connections.dedup();
        move_group(stream.id, name, offset, &connections, &*self.broker);
    }

    /// The offset of the first chunk from a place on; none if there is none yet.
    fn first_from(&self, stream: QueueId, from: StreamStart) -> Result<Option<u64>, String> {
        let browse = Browse {
            from,
            count: 1,
            filter: Vec::new(),
            match_unfiltered: false,
        };
        let mut first = None;
        let looked = self.look_at_stream(stream, "", &browse, |seen| {
            first = Some(seen.offset);
            ControlFlow::Break(())
        });
        looked.map(|_| first)
    }

    pub(super) fn browse(
        &self,
        stream: QueueId,
        name: &str,
        browse: &Browse,
    ) -> Result<Option<Browsed>, String> {
        let (mut shown, mut bytes) = (Vec::new(), 0);
        let looked = self.look_at_stream(stream, name, browse, |seen| {
            let content = seen.content.map(|message| {
                let shown = messages::to_operator(&message, false, 0);
                bytes += shown.shown_bytes();
                shown
            });
            shown.push(StreamMessage {
                offset: seen.offset,
                timestamp_ms: seen.timestamp_ms,
                content,
            });
            match shown.len() < browse.count && bytes < STREAM_BROWSE_BYTES {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
        Ok(looked.map(|(stats, next_offset)| Browsed {
            next_offset,
            messages: shown,
            first_offset: stats.first_chunk,
            committed_offset: stats.committed_offset,
        }))
    }

    /// Shows the messages of a stream from a place on until `see` breaks, or one look has read as
    /// much as it may. Answers how the stream stands, and where the next look goes on; none of a
    /// stream of which nothing is here.
    fn look_at_stream(
        &self,
        stream: QueueId,
        name: &str,
        browse: &Browse,
        mut see: impl FnMut(Seen) -> ControlFlow<()>,
    ) -> Result<Option<(StreamStats, u64)>, String> {
        let Some(reading) = self.broker.streams.begin_reading() else {
            return Err(format!(
                "{STREAM_BROWSERS_MAX} others look into streams on this node, which are as many as \
                 may: try again"
            ));
        };
        let mut looking = Look::new(reading, stream);
        let Some(stats) = looking.stats()? else {
            return Ok(None);
        };
        let filter = (!browse.filter.is_empty()).then(|| Filter {
            values: browse
                .filter
                .iter()
                .map(|value| value.clone().into())
                .collect(),
            match_unfiltered: browse.match_unfiltered,
            messages: false,
        });
        let Some(from) = looking.begin(&stats, browse)? else {
            let end = stats.committed_offset.map_or(0, |offset| offset + 1);
            return Ok(Some((stats, end)));
        };
        let mut next = from;
        while let Some(chunk) = looking.chunk()? {
            let mut after = chunk.header().next_offset();
            let seen = look(&chunk, name, from, filter.as_ref(), |seen| {
                let records = seen
                    .content
                    .as_ref()
                    .map_or_else(|(records, _)| *records, |_| 1);
                let end = seen.offset + u64::from(records);
                see(seen).map_break(|()| end)
            });
            if let ControlFlow::Break(end) = seen {
                after = end;
            }
            next = next.max(after);
            if seen.is_break() || !looking.goes_on() {
                break;
            }
        }
        Ok(Some((stats, next)))
    }
}

/// Reads a stream chunk by chunk, as much as one look may.
struct Look {
    reading: StreamReading,
    stream: QueueId,
    until: Instant,
    /// The first offset of the last chunk that is read.
    last: u64,
    read_bytes: u64,
    is_at_end: bool,
}

impl Look {
    fn new(reading: StreamReading, stream: QueueId) -> Self {
        Self {
            reading,
            stream,
            until: Instant::now() + LOOK_TIME,
            last: 0,
            read_bytes: 0,
            is_at_end: false,
        }
    }

    fn hear(&self) -> Option<Event> {
        let left = self.until.saturating_duration_since(Instant::now());
        self.reading.hear(left)
    }

    /// Says something, and hears what answers it.
    fn ask(&self, command: Command) -> Result<Event, String> {
        let said = self.reading.say(command);
        let answer = said.then(|| self.hear()).flatten();
        answer.ok_or_else(|| "the streams of this node are busy: try again".to_owned())
    }

    /// How the stream stands; none if nothing of it is here.
    fn stats(&self) -> Result<Option<StreamStats>, String> {
        let (request, stream) = (RequestId(1), self.stream);
        match self.ask(Command::Stats { request, stream })? {
            Event::Stats {
                result: Ok(stats), ..
            } => Ok(Some(stats)),
            _ => Ok(None),
        }
    }

    /// Where a reader that asks for this would begin.
    fn resolve(&self, offset: OffsetSpec) -> Result<u64, String> {
        let (request, stream) = (RequestId(2), self.stream);
        let resolve = Command::ResolveOffset {
            request,
            stream,
            offset,
        };
        match self.ask(resolve)? {
            Event::ResolvedOffset { result, .. } => result.map_err(|why| why.to_string()),
            other => Err(format!("the stream says something else: {other:?}")),
        }
    }

    /// Begins to read: the first offset that is wanted; none where no message is there from that
    /// on.
    fn begin(&mut self, stats: &StreamStats, browse: &Browse) -> Result<Option<u64>, String> {
        let Some(committed) = stats.committed_offset else {
            return Ok(None);
        };
        let end = committed + 1;
        self.last = self.resolve(OffsetSpec::Last)?;
        let (spec, from) = match browse.from {
            StreamStart::First => (OffsetSpec::First, 0),
            StreamStart::Offset(from) => (OffsetSpec::Offset(from.min(self.last)), from),
            StreamStart::Last => {
                let last = stats.last_record.unwrap_or(committed);
                let from = (last + 1).saturating_sub(browse.count as u64);
                (OffsetSpec::Offset(from.min(self.last)), from)
            }
            StreamStart::TimestampMs(time) => {
                let spec = OffsetSpec::TimestampMs(time);
                (spec, if self.resolve(spec)? < end { 0 } else { end })
            }
        };
        if self.last >= end || from >= end {
            return Ok(None);
        }
        let subscribe = Command::Subscribe {
            request: RequestId(3),
            stream: self.stream,
            reader: ReaderId(1),
            offset: spec,
            credit: 1,
            filter: None,
        };
        match self.ask(subscribe)? {
            Event::Subscribed { result, .. } => {
                let from = from.max(stats.first_chunk.unwrap_or(0));
                result
                    .map(|()| Some(from))
                    .map_err(|why: Refusal| why.to_string())
            }
            other => Err(format!("the stream says something else: {other:?}")),
        }
    }

    /// The next chunk; none at the end, or when there is no more time.
    fn chunk(&mut self) -> Result<Option<SharedChunk>, String> {
        if self.is_at_end {
            return Ok(None);
        }
        match self.hear() {
            Some(Event::Chunk { chunk, .. }) => {
                self.is_at_end = chunk.header().first_offset >= self.last;
                self.read_bytes += chunk.header().chunk_bytes();
                Ok(Some(chunk))
            }
            Some(Event::ReaderEnded { refusal, .. }) => Err(refusal.to_string()),
            Some(Event::Gone { .. } | Event::Lost { .. }) => Err("the stream has gone".to_owned()),
            _ => Ok(None),
        }
    }

    /// Asks for one chunk more, unless this look has read as much as it may.
    fn goes_on(&self) -> bool {
        let credit = Command::Credit {
            stream: self.stream,
            reader: ReaderId(1),
            chunks: 1,
        };
        !self.is_at_end && self.read_bytes < STREAM_BROWSE_READ_BYTES && self.reading.say(credit)
    }
}
