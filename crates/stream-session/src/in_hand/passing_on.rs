//! Chunks on their way from the streams to the socket, and back again.

use super::{Rest, Sent, Waiting};
use crate::port::Port;
use crate::readers::reader_of;
use crate::session::{Phase, Session};
use bytes::Bytes;
use leveret_stream::{Command, OffsetSpec as From, ReaderId, RequestId, SharedChunk};
use leveret_stream_protocol::OffsetSpec;
use leveret_stream_protocol::server::put_deliver_head;
use leveret_types::limits::STREAM_OUTPUT_BYTES;
use leveret_types::out::SHARED_BYTES_MIN;
use leveret_types::{OutBuffer, QueueId};

impl Session {
    /// A chunk has come: the client gets it behind those that came before.
    pub(crate) fn deliver(
        &mut self,
        reader: ReaderId,
        chunk: SharedChunk,
        committed: u64,
        port: &mut impl Port,
    ) {
        if self.in_hand.is_rest_reader(reader) {
            return self.take_rest(&chunk, port);
        }
        // For one that has gone, or begins elsewhere now.
        if self.reader(reader).is_none() {
            return;
        }
        self.in_hand.waiting_bytes += chunk.bytes().len();
        self.in_hand.waiting.push_back(Waiting {
            reader,
            chunk,
            committed,
        });
        self.fill_output();
    }

    /// Gives the output what waits, as far as it has little.
    pub(crate) fn fill_output(&mut self) {
        while self.out.len() < STREAM_OUTPUT_BYTES
            && !self.in_hand.lacks_rest()
            && let Some(next) = self.in_hand.waiting.pop_front()
        {
            self.in_hand.waiting_bytes -= next.chunk.bytes().len();
            self.put_chunk(next.reader, &next.chunk, next.committed);
            self.in_hand.since_ms = Some(self.now.monotonic_ms);
        }
        let waiting_bytes = self.in_hand.waiting_bytes + self.out.shared_len();
        self.in_hand.counted.set(waiting_bytes);
        if waiting_bytes == 0 {
            (self.in_hand.since_ms, self.in_hand.sent) = (None, None);
        } else {
            let now_ms = self.now.monotonic_ms;
            self.in_hand.since_ms.get_or_insert(now_ms);
        }
    }

    /// Appends a chunk to the output.
    fn put_chunk(&mut self, number: ReaderId, chunk: &SharedChunk, committed: u64) {
        let Some((subscription_id, reader)) = self.reader(number) else {
            return;
        };
        let header = chunk.header();
        reader.note_sent(header);
        let (head, data) = (chunk.header_bytes(), chunk.data());
        if data.len() >= SHARED_BYTES_MIN {
            self.in_hand.sent = Some(Sent {
                stream: reader.id,
                subscription_id,
                header: *header,
                filter: reader.filter.clone(),
            });
        }
        self.totals.delivered += u64::from(header.records);
        let committed = (self.terms.deliver_version > 1).then_some(committed);
        let bytes = (head.len() + data.len()) as u32;
        put_deliver_head(self.out.tail(), subscription_id, committed, bytes);
        self.out.push(head);
        self.out.push(data);
    }

    /// The socket has taken what it can: the output gets more of what waits, or the rest of a chunk
    /// that was handed back is read again.
    pub(crate) fn taken(&mut self, port: &mut impl Port) {
        self.fill_output();
        if self.out.writable_len() == 0 {
            self.ask_for_rest(port);
        }
    }

    /// Hands back what the socket has not taken for too long, where the readers of the node hold
    /// much.
    pub(crate) fn hand_back_due(&mut self, port: &mut impl Port) {
        let now_ms = self.now.monotonic_ms;
        if self.in_hand.deadline().is_none_or(|at| now_ms < at) {
            return;
        }
        if self.phase != Phase::Open {
            self.in_hand.since_ms = None;
            return;
        }
        if !self.in_hand.is_crowded() {
            self.in_hand.since_ms = Some(now_ms);
            return;
        }
        for waiting in self.in_hand.take_waiting() {
            let count = self.number();
            if let Some((_, reader)) = self.reader(waiting.reader) {
                port.send(Command::Unsubscribe {
                    stream: reader.id,
                    reader: waiting.reader,
                });
                reader.hand_back(count, waiting.chunk.header().first_offset);
            }
        }
        if let Some(sent) = self.in_hand.sent.take()
            && let Some(left) = self.out.withdraw()
        {
            self.in_hand.rest = Some(Rest {
                from: sent.header.data_bytes as usize - left,
                of: sent,
                pending_read: None,
            });
        }
        self.fill_output();
    }

    /// Subscriptions whose chunks were handed back are read for again, once the client has taken
    /// all that it was sent.
    pub(crate) fn read_again(&mut self, port: &mut impl Port) {
        if !self.out.is_empty() || self.in_hand.lacks_rest() {
            return;
        }
        let readers = self.readers.iter();
        let handed_back = readers.filter_map(|(id, reader)| Some((*id, reader.again?)));
        for (id, offset) in handed_back.collect::<Vec<_>>() {
            let (count, request) = (self.number(), self.request());
            let room = self.room_under_way();
            if let Some(reader) = self.readers.get_mut(&id) {
                let (from, filter) = (OffsetSpec::Offset(offset), reader.filter.clone());
                reader.moved = Some(request);
                port.send(reader.start(count, request, from, filter, room));
            }
        }
    }

    fn ask_for_rest(&mut self, port: &mut impl Port) {
        let is_missing = |rest: &Rest| rest.pending_read.is_none();
        if !self.in_hand.rest.as_ref().is_some_and(is_missing) {
            return;
        }
        let (count, request) = (self.number(), self.request());
        let Some(rest) = &mut self.in_hand.rest else {
            return;
        };
        let number = reader_of(rest.of.subscription_id, count);
        rest.pending_read = Some((number, request));
        port.send(Command::Subscribe {
            request,
            stream: rest.of.stream,
            reader: number,
            offset: From::Offset(rest.of.header.first_offset),
            credit: 1,
            filter: rest.of.filter.clone().map(Box::new),
        });
    }

    /// The chunk has been read again whose rest is missing.
    fn take_rest(&mut self, chunk: &SharedChunk, port: &mut impl Port) {
        let Some(rest) = self.in_hand.rest.take() else {
            return;
        };
        if let Some((reader, _)) = rest.pending_read {
            let stream = rest.of.stream;
            port.send(Command::Unsubscribe { stream, reader });
        }
        // What it says in the header is what the client has had of it.
        if *chunk.header() != rest.of.header {
            return self.break_off(port);
        }
        let data: Bytes = chunk.data();
        self.out.put_back(data.slice(rest.from..));
        self.in_hand.sent = Some(rest.of);
        self.in_hand.since_ms = Some(self.now.monotonic_ms);
        self.fill_output();
    }

    /// The rest of a chunk cannot be had, or not in the way in which it was asked for: whether that
    /// was what this is about.
    pub(crate) fn rest_failed(&mut self, request: RequestId, port: &mut impl Port) -> bool {
        let is_it = self
            .in_hand
            .pending_read()
            .is_some_and(|(_, of)| of == request);
        if is_it {
            self.break_off(port);
        }
        is_it
    }

    /// The same of a reader.
    pub(crate) fn rest_ended(&mut self, reader: ReaderId, port: &mut impl Port) -> bool {
        let is_it = self.in_hand.is_rest_reader(reader);
        if is_it {
            self.break_off(port);
        }
        is_it
    }

    /// A stream has gone, or its replica can be read no more: the rest of a chunk of it that is
    /// asked for does not come.
    pub(crate) fn rest_lost(&mut self, stream: QueueId, is_gone: bool, port: &mut impl Port) {
        let Some(rest) = self.in_hand.rest.as_mut() else {
            return;
        };
        if rest.of.stream != stream {
            return;
        }
        match (is_gone, rest.pending_read.take()) {
            (true, _) => self.break_off(port),
            (false, Some((reader, _))) => {
                port.send(Command::Unsubscribe { stream, reader });
                // Another replica may have it.
                self.ask_for_rest(port);
            }
            (false, None) => {}
        }
    }

    /// Ends the connection in the middle of a frame: the client can be told nothing any more.
    pub(crate) fn break_off(&mut self, port: &mut impl Port) {
        self.teardown(port);
    }

    /// The subscriptions have ended: nothing is sent of them any more but for what the output has.
    pub(crate) fn drop_in_hand(&mut self) {
        self.in_hand.take_waiting();
        if self.in_hand.rest.take().is_some() {
            self.out = OutBuffer::new();
        }
        self.fill_output();
    }
}
