//! Streams for AMQP 0-9-1 clients: publishing with confirms, and consuming by offset.
//!
//! A stream lives with the streams' own thread. What a client publishes is gathered into one batch
//! for each turn; what the stream has confirmed goes to the confirm ledger as what a queue of the
//! cluster has committed. A consumer gets whole chunks, a few at a time, and is delivered their
//! messages as its prefetch allows; each acknowledgement allows one more.

use super::Connection;
use super::consumers::Subscription;
use super::stream_arguments::StreamArguments;
use super::stream_state::{BATCH_BYTES, Publisher, Streams};
use crate::env::Env;
use leveret_client::{Consume, Delivery, Reply, Session, Settle, SettleOutcome};
use leveret_cluster::streams::StreamNews;
use leveret_message::{as_amqp091, entry_of, filter_value};
use leveret_queue_host::delivery_credit::OutboxShare;
use leveret_queue_host::stream_reader::Reader;
use leveret_stream::{BatchBuilder, Command, Event, PublisherId, ReaderId, Refusal, RequestId};
use leveret_types::limits::{STREAM_CHUNKS_READ_AHEAD, STREAM_UNPACK_TURN_BYTES};
use leveret_types::{ConsumerId, Message, Now, ProtocolError, QueueId, ReplyCode};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;

impl<S: Session> Connection<S> {
    fn streams(&mut self) -> &mut Streams {
        self.streams.get_or_insert_default()
    }

    /// Says something to the streams, behind what waits.
    fn say<E: Env>(&mut self, command: Command, env: &E) {
        let id = self.identity.id;
        let waiting = &mut self.streams().waiting;
        if !waiting.is_empty() {
            return waiting.push_back(command);
        }
        if let Err(refused) = env.say_to_streams(id, command) {
            waiting.push_back(*refused);
        }
    }

    /// Whether the streams have taken all that this client sent.
    pub(super) fn streams_keep_up(&self) -> bool {
        let streams = self.streams.as_ref();
        streams.is_none_or(|streams| streams.waiting.is_empty() || streams.is_leaving)
    }

    /// The connection is over: what is left to be carried out of it does not wait for room.
    pub(super) fn stop_waiting_for_streams(&mut self) {
        if let Some(streams) = &mut self.streams {
            streams.is_leaving = true;
        }
    }

    /// Whether there is something to deliver that waited for the output.
    pub(super) fn has_stream_deliveries_due(&self) -> bool {
        self.streams.as_ref().is_some_and(|streams| streams.is_due)
    }

    /// The output is empty.
    pub(super) fn stream_output_written(&mut self) {
        // Behind an answer that is not durable yet there may be much that was not written.
        let waiting = self.session.output().len();
        if let Some(streams) = &mut self.streams {
            let has_room = streams.outbox.as_mut().is_some_and(|outbox| {
                outbox.note(waiting);
                waiting < outbox.bytes_max()
            });
            streams.is_due = has_room && streams.readers.values().any(Reader::may_deliver);
        }
    }

    /// Delivers what waited for the output.
    pub(super) fn deliver_from_streams<E: Env>(&mut self, env: &E) {
        let Some(streams) = self.streams.as_mut().filter(|streams| streams.is_due) else {
            return;
        };
        streams.is_due = false;
        streams.unpacked_bytes = 0;
        let ready = streams.readers.iter().filter(|(_, r)| r.may_deliver());
        let mut ready: Vec<ConsumerId> = ready.map(|(consumer, _)| *consumer).collect();
        ready.sort_unstable();
        for consumer in ready {
            self.deliver_from_stream(consumer, env);
        }
    }

    // --- publishing ----------------------------------------------------------------------------

    /// Adds a message to what is published to streams; its numbers there, in their order.
    pub(super) fn publish_to_streams<E: Env>(
        &mut self,
        streams: &[QueueId],
        message: &Message,
        env: &E,
    ) -> SmallVec<[u64; 2]> {
        for stream in streams {
            self.declare_publisher(*stream, env);
        }
        self.flush_before(streams, env);
        let Streams {
            publishers,
            fan_out,
            entry,
            gathers,
            ..
        } = self.streams();
        let numbers = streams.iter().map(|stream| {
            let publisher = publishers.get_mut(stream).expect("it was declared");
            publisher.issued += 1;
            publisher.unanswered += 1;
            publisher.issued
        });
        let numbers: SmallVec<[u64; 2]> = numbers.collect();
        entry.clear();
        entry_of(message, entry);
        let converted = as_amqp091(message);
        let filter = filter_value(converted.as_ref().unwrap_or(message).properties());
        let (is_taken, bytes) = match (streams, &numbers[..]) {
            ([stream], [number]) => {
                let publisher = publishers.get_mut(stream).expect("it was declared");
                *gathers = true;
                publisher.batch_bytes += entry.len();
                let is_taken = publisher.batch.push(*number, filter, entry);
                (is_taken, publisher.batch_bytes)
            }
            _ => {
                if fan_out.batch.is_empty() {
                    fan_out.streams = streams.into();
                }
                fan_out.batch_bytes += entry.len();
                (fan_out.batch.push(filter, entry), fan_out.batch_bytes)
            }
        };
        assert!(is_taken, "a message and a filter value are bounded");
        entry.shrink_to(BATCH_BYTES);
        if bytes >= BATCH_BYTES {
            match streams {
                [stream] => self.publish_batch(*stream, env),
                _ => self.publish_fan_out(env),
            }
        }
        numbers
    }

    fn declare_publisher<E: Env>(&mut self, stream: QueueId, env: &E) {
        let streams = self.streams();
        let known = streams.publishers.get(&stream);
        let is_used = |p: &Publisher| p.is_refused && p.unanswered == 0;
        if known.is_some_and(|p| p.is_declared && !is_used(p)) {
            return;
        }
        // The numbers of messages go on: what was confirmed is known by them.
        let issued = known.map_or(0, |publisher| publisher.issued);
        let id = PublisherId(streams.number());
        let publisher = Publisher {
            id,
            is_declared: true,
            is_refused: false,
            issued,
            unanswered: 0,
            batch: BatchBuilder::new(),
            batch_bytes: 0,
        };
        streams.publishers.insert(stream, publisher);
        let declare = Command::DeclarePublisher {
            request: RequestId(stream.0),
            stream,
            publisher: id,
            reference: None,
        };
        self.say(declare, env);
    }

    /// Sends off what gathers in other batches for any of these streams: each has its messages in
    /// their order.
    fn flush_before<E: Env>(&mut self, streams: &[QueueId], env: &E) {
        let fan_out = &self.streams().fan_out;
        let is_shared = |stream: &QueueId| fan_out.streams.contains(stream);
        let is_other =
            *fan_out.streams != *streams && (streams.len() > 1 || is_shared(&streams[0]));
        if is_other {
            self.publish_fan_out(env);
        }
        if streams.len() > 1 && self.streams().gathers {
            for stream in streams {
                self.publish_batch(*stream, env);
            }
        }
    }

    /// Sends off what gathers for several streams.
    fn publish_fan_out<E: Env>(&mut self, env: &E) {
        let Streams {
            fan_out,
            publishers,
            ..
        } = self.streams();
        let count = fan_out.batch.len() as u64;
        if count == 0 {
            return;
        }
        let batch = fan_out.batch.take();
        fan_out.batch_bytes = 0;
        let publish = |stream: &QueueId| {
            // One that was deleted since has confirmed everything, one that was lost refused it.
            let publisher = publishers.get(stream).filter(|p| p.is_declared)?;
            Some(Command::Publish {
                stream: *stream,
                publisher: publisher.id,
                batch: batch.numbered(publisher.issued - count + 1),
            })
        };
        let streams = std::mem::take(&mut fan_out.streams);
        let commands: Vec<Command> = streams.iter().filter_map(publish).collect();
        for command in commands {
            self.say(command, env);
        }
    }

    fn publish_batch<E: Env>(&mut self, stream: QueueId, env: &E) {
        let publisher = self.streams().publishers.get_mut(&stream);
        let Some(publisher) = publisher.filter(|publisher| !publisher.batch.is_empty()) else {
            return;
        };
        publisher.batch_bytes = 0;
        let command = Command::Publish {
            stream,
            publisher: publisher.id,
            batch: publisher.batch.take(),
        };
        self.say(command, env);
    }

    /// Sends off what has gathered.
    pub(super) fn flush_streams<E: Env>(&mut self, env: &E) {
        let Some(streams) = &mut self.streams else {
            return;
        };
        if std::mem::take(&mut streams.gathers) {
            let gathering = streams
                .publishers
                .iter()
                .filter(|(_, p)| !p.batch.is_empty());
            let gathering: Vec<QueueId> = gathering.map(|(stream, _)| *stream).collect();
            for stream in gathering {
                self.publish_batch(stream, env);
            }
        }
        self.publish_fan_out(env);
    }

    /// The last message that was published to a stream, if it has no answer yet: what a commit
    /// waits for.
    pub(super) fn published_to_stream(&self, stream: QueueId) -> Option<u64> {
        let publisher = self.streams.as_ref()?.publishers.get(&stream)?;
        (publisher.unanswered > 0).then_some(publisher.issued)
    }

    /// A stream has everything through a number.
    fn stream_committed<E: Env>(&mut self, stream: QueueId, through: u64, now: Now, env: &E) {
        self.session.committed(stream, through);
        self.trace_committed(stream, through, env);
        self.release_committed(stream, through, now);
    }

    /// A stream has answered so many messages more.
    fn stream_answered(&mut self, stream: QueueId, count: usize) {
        if let Some(publisher) = self.streams().publishers.get_mut(&stream) {
            publisher.unanswered = publisher.unanswered.saturating_sub(count as u64);
        }
    }

    fn stream_refused<E: Env>(
        &mut self,
        stream: QueueId,
        ids: &[u64],
        refusal: &Refusal,
        now: Now,
        env: &E,
    ) {
        tracing::warn!(
            connection = %self.identity.name,
            "stream {stream} refused {} messages: {refusal}",
            ids.len()
        );
        let mut rest = ids;
        while let Some(first) = rest.first() {
            let follows = rest.iter().zip(*first..).take_while(|(id, at)| **id == *at);
            let (run, behind) = rest.split_at(follows.count());
            let refused = *first..first + run.len() as u64;
            self.session.refused(stream, &refused);
            self.trace_refused(stream, &refused, env);
            self.refuse_committed(stream, &refused);
            rest = behind;
        }
        self.stream_answered(stream, ids.len());
        if let Some(last) = ids.last() {
            self.release_committed(stream, *last, now);
        }
    }

    // --- consuming -----------------------------------------------------------------------------

    pub(super) fn consume_stream<E: Env>(
        &mut self,
        consume: Consume,
        stream: QueueId,
        now: Now,
        env: &E,
    ) {
        let resource = {
            let catalogue = env.catalogue();
            let record = catalogue.queue(stream);
            record.map(|record| record.resource()).unwrap_or_default()
        };
        let arguments = StreamArguments::read(&consume, &resource, now);
        let arguments = match arguments {
            Ok(arguments) => arguments,
            Err(error) => return self.fail(now, error),
        };
        let consumer = env.consumer_id();
        let counts = {
            let catalogue = env.catalogue();
            let is_there = |stream| catalogue.queue(stream).is_some();
            env.counters().stream_deliveries.of(stream, is_there)
        };
        let streams = self.streams();
        let outboxes = env.registry().outboxes();
        streams
            .outbox
            .get_or_insert_with(|| OutboxShare::of(Arc::clone(outboxes)));
        streams.counts.insert(stream, counts);
        let id = ReaderId(streams.number());
        let mut reader = Reader::new(id, stream, &consume.queue, arguments.first, consume.flow);
        if let Some(filter) = arguments.filter.as_ref().filter(|filter| filter.messages) {
            reader.filter_messages(filter.clone());
        }
        streams.readers.insert(consumer, reader);
        self.consumers
            .insert(consumer, Subscription::new(consume, Some(stream)));
        let subscribe = Command::Subscribe {
            request: RequestId(consumer.0),
            stream,
            reader: id,
            offset: arguments.offset,
            credit: STREAM_CHUNKS_READ_AHEAD,
            filter: arguments.filter.map(Box::new),
        };
        self.say(subscribe, env);
    }

    fn stream_subscribed(&mut self, consumer: ConsumerId, result: Result<(), Refusal>, now: Now) {
        let streams = self.streams.as_deref_mut();
        let Some(reader) = streams.and_then(|streams| streams.readers.get_mut(&consumer)) else {
            return;
        };
        reader.is_subscribed = result.is_ok();
        match result {
            Ok(()) => self.reply(now, Reply::Consuming { consumer }),
            Err(refusal) => {
                self.consumers.remove(consumer);
                self.streams().readers.remove(&consumer);
                let code = match refusal {
                    Refusal::NotFound => ReplyCode::NotFound,
                    _ => ReplyCode::PreconditionFailed,
                };
                self.fail(now, ProtocolError::channel(code, refusal.to_string()));
            }
        }
    }

    /// Ends a consumer of a stream. What it holds it may still settle, which does nothing.
    pub(super) fn leave_stream<E: Env>(&mut self, consumer: ConsumerId, env: &E) {
        let Some(streams) = &mut self.streams else {
            return;
        };
        if let Some(reader) = streams.readers.remove(&consumer) {
            let unsubscribe = Command::Unsubscribe {
                stream: reader.stream,
                reader: reader.id,
            };
            self.say(unsubscribe, env);
        }
    }

    /// Each settled message, whatever became of it, lets its consumer have one more.
    pub(super) fn settle_stream<E: Env>(&mut self, settle: &Settle, env: &E) {
        let readers = self.streams.as_mut().map(|streams| &mut streams.readers);
        if let Some(reader) = readers.and_then(|readers| readers.get_mut(&settle.subscription)) {
            reader.settled(settle.range.end - settle.range.start);
            self.deliver_from_stream(settle.subscription, env);
        }
        let counts = self.streams.as_ref().map(|streams| &streams.counts);
        if settle.outcome == SettleOutcome::Accept
            && let Some(counts) = counts.and_then(|counts| counts.get(&settle.queue))
        {
            counts.acknowledged(settle.range.end - settle.range.start);
        }
    }

    /// A consumer that is served by credit has more of it.
    pub(super) fn credit_stream<E: Env>(&mut self, consumer: ConsumerId, messages: u32, env: &E) {
        let readers = self.streams.as_mut().map(|streams| &mut streams.readers);
        if let Some(reader) = readers.and_then(|readers| readers.get_mut(&consumer)) {
            reader.give(messages.into());
            self.deliver_from_stream(consumer, env);
        }
    }

    /// Delivers what a consumer may have, as long as the client takes it.
    fn deliver_from_stream<E: Env>(&mut self, consumer: ConsumerId, env: &E) {
        let traces = env.registry().traces();
        let mut chunks = 0;
        let Some(streams) = &mut self.streams else {
            return;
        };
        let Some(mut reader) = streams.readers.remove(&consumer) else {
            return;
        };
        let mut budget = STREAM_UNPACK_TURN_BYTES.saturating_sub(streams.unpacked_bytes);
        let (mut is_due, mut delivered) = (false, 0);
        let outbox = streams.outbox.as_ref();
        let bytes_max = outbox.map_or(0, OutboxShare::bytes_max);
        while self.session.output().len() < bytes_max {
            let next = reader.next(&mut budget);
            chunks += reader.take_finished();
            let Some((offset, message)) = next else {
                // What is at hand and does not come is to be decompressed in another turn.
                is_due = reader.may_deliver();
                break;
            };
            let delivery = Delivery {
                consumer,
                queue: reader.stream,
                priority_log: 0,
                index: offset,
                redelivered: false,
                delivery_count: None,
                acquired_count: None,
                message,
            };
            self.session.deliver(&delivery);
            delivered += 1;
            if traces && let Some(channel) = self.consumers.channel_of(consumer) {
                self.trace(channel, &delivery, env);
            }
            if env.settings().traces.is_some() {
                self.trace_delivered(&delivery, true, env);
            }
        }
        let (stream, id) = (reader.stream, reader.id);
        let auto_ack = self.consumers.get(consumer).is_some_and(|of| of.no_ack);
        let waiting = self.session.output().len();
        let streams = self.streams();
        if let Some(outbox) = &mut streams.outbox {
            outbox.note(waiting);
        }
        if delivered > 0
            && let Some(counts) = streams.counts.get(&stream)
        {
            counts.delivered(delivered, auto_ack);
        }
        streams.readers.insert(consumer, reader);
        streams.unpacked_bytes = STREAM_UNPACK_TURN_BYTES - budget;
        streams.is_due |= is_due;
        if chunks > 0 {
            let credit = Command::Credit {
                stream,
                reader: id,
                chunks,
            };
            self.say(credit, env);
        }
    }

    // --- what the streams say ------------------------------------------------------------------

    pub(super) fn stream_news<E: Env>(&mut self, news: StreamNews, now: Now, env: &E) {
        match news {
            StreamNews::Event(event) => self.stream_event(event, now, env),
            StreamNews::Room => self.say_again(env),
            // Groups are of the stream protocol.
            StreamNews::Moved { .. } => {}
        }
    }

    fn say_again<E: Env>(&mut self, env: &E) {
        let id = self.identity.id;
        let Some(streams) = &mut self.streams else {
            return;
        };
        while let Some(command) = streams.waiting.pop_front() {
            if let Err(refused) = env.say_to_streams(id, command) {
                return streams.waiting.push_front(*refused);
            }
        }
    }

    fn stream_event<E: Env>(&mut self, event: Event, now: Now, env: &E) {
        let streams = self.streams.as_deref();
        match event {
            Event::Confirmed { publisher, ids } => {
                let stream = streams.and_then(|streams| streams.stream_of(publisher));
                if let (Some(stream), Some(last)) = (stream, ids.last()) {
                    self.stream_answered(stream, ids.len());
                    self.stream_committed(stream, *last, now, env);
                }
            }
            Event::Refused {
                publisher,
                ids,
                refusal,
            } => {
                if let Some(stream) = streams.and_then(|streams| streams.stream_of(publisher)) {
                    self.stream_refused(stream, &ids, &refusal, now, env);
                }
            }
            Event::Subscribed { request, result } => {
                self.stream_subscribed(ConsumerId(request.0), result, now);
            }
            Event::Chunk { reader, chunk, .. } => {
                if let Some(consumer) = streams.and_then(|streams| streams.consumer_of(reader)) {
                    if let Some(reader) = self.streams().readers.get_mut(&consumer) {
                        reader.push(chunk);
                    }
                    self.deliver_from_stream(consumer, env);
                }
            }
            Event::ReaderEnded { reader, refusal } => {
                if let Some(consumer) = streams.and_then(|streams| streams.consumer_of(reader)) {
                    self.tell_reader_ended(&refusal);
                    self.stream_reader_gone(consumer);
                }
            }
            Event::Gone { stream } => self.stream_gone(stream, now, env),
            Event::Lost { stream } => self.stream_lost(stream, now, env),
            Event::PublisherDeclared {
                request,
                result: Err(_),
            } => {
                // What it publishes is refused; with the next message it is declared again.
                let publishers = self.streams.as_mut().map(|s| &mut s.publishers);
                let stream = QueueId(request.0);
                if let Some(publisher) = publishers.and_then(|p| p.get_mut(&stream)) {
                    publisher.is_refused = true;
                }
            }
            // The rest is not asked for.
            _ => {}
        }
    }

    /// What is damaged, the stream says itself, and not for each consumer that comes to it again.
    fn tell_reader_ended(&self, refusal: &Refusal) {
        let connection = &self.identity.name;
        match refusal {
            Refusal::Damaged(_) => {
                tracing::debug!(%connection, "a consumer is cancelled: {refusal}");
            }
            _ => tracing::error!(%connection, "a consumer is cancelled: {refusal}"),
        }
    }

    fn stream_reader_gone(&mut self, consumer: ConsumerId) {
        self.streams().readers.remove(&consumer);
        self.queue_of_consumer_gone(consumer);
    }

    /// As of every queue that is deleted, what was published to it is confirmed.
    fn stream_gone<E: Env>(&mut self, stream: QueueId, now: Now, env: &E) {
        let Some(streams) = &mut self.streams else {
            return;
        };
        if let Some(publisher) = streams.publishers.remove(&stream) {
            self.stream_committed(stream, publisher.issued, now, env);
        }
        for consumer in self.readers_of(stream) {
            self.stream_reader_gone(consumer);
        }
    }

    /// The consumers that read a stream.
    fn readers_of(&mut self, stream: QueueId) -> Vec<ConsumerId> {
        let readers = self.streams().readers.iter();
        let of_stream =
            readers.filter(|(_, reader)| reader.stream == stream && reader.is_subscribed);
        of_stream.map(|(consumer, _)| *consumer).collect()
    }

    /// The node that serves a stream is not reached any more. What it has not answered may be
    /// stored or not: its publisher hears that it is not confirmed, and publishes it again.
    fn stream_lost<E: Env>(&mut self, stream: QueueId, now: Now, env: &E) {
        let Some(streams) = &mut self.streams else {
            return;
        };
        // A reader of a replica on this node is there until it is told to end.
        let is_lost = |command: &Command| {
            command.stream() == Some(stream) && !matches!(command, Command::Unsubscribe { .. })
        };
        let waiting = std::mem::take(&mut streams.waiting).into_iter();
        let (lost, waiting): (VecDeque<_>, VecDeque<_>) = waiting.partition(is_lost);
        streams.waiting = waiting;
        if let Some(publisher) = streams.publishers.get_mut(&stream) {
            publisher.is_declared = false;
            publisher.batch = BatchBuilder::new();
            publisher.batch_bytes = 0;
            let issued = publisher.issued;
            if std::mem::take(&mut publisher.unanswered) > 0 {
                // Those of them that have had their answer wait for none.
                let refused = 1..issued + 1;
                self.session.refused(stream, &refused);
                self.trace_refused(stream, &refused, env);
                self.refuse_committed(stream, &refused);
                self.release_committed(stream, issued, now);
            }
        }
        for consumer in self.readers_of(stream) {
            self.leave_stream(consumer, env);
            self.stream_reader_gone(consumer);
        }
        for command in lost {
            if let Command::Subscribe { request, .. } = command {
                let refusal = Refusal::NotAvailable("its leader is lost".to_owned());
                self.stream_subscribed(ConsumerId(request.0), Err(refusal), now);
            }
        }
    }

    /// The connection is over.
    pub(super) fn leave_streams<E: Env>(&mut self, env: &E) {
        self.flush_streams(env);
        if let Some(streams) = self.streams.take() {
            env.leave_streams(self.identity.id, streams.waiting);
        }
    }
}
