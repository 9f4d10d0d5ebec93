//! Publishers of a connection, and what of theirs is not confirmed.

use crate::pending_request::{Completion, NextStep};
use crate::port::Port;
use crate::session::Session;
use crate::values::reference_of;
use bytes::Bytes;
use leveret_auth::Access;
use leveret_stream::{Batch, BatchForm, Command, PublisherId, Reference, Refusal, RequestId};
use leveret_stream_protocol::server::put_confirm;
use leveret_stream_protocol::{Key, Publish, ResponseCode, ServerCommand};
use leveret_types::limits::{
    STREAM_LIST_ENTRIES_MAX, STREAM_LOSS_NOTICE_MS, STREAM_LOST_PUBLISHER_MS,
    STREAM_UNCONFIRMED_BYTES_MAX, STREAM_UNCONFIRMED_ENTRIES_MAX,
};
use leveret_types::{Began, QueueId};
use std::collections::{BTreeMap, BTreeSet};

/// One publisher.
#[derive(Debug)]
pub(crate) struct Publisher {
    /// Its number at the streams: that of the client may be used again.
    number: PublisherId,
    pub(crate) stream: String,
    pub(crate) id: QueueId,
    reference: Option<Reference>,
    unconfirmed_entries: usize,
    unconfirmed_bytes: usize,
    /// Entries that went to the stream, and when they came. They are answered in this order, or
    /// nearly.
    sent: u64,
    began: Began,
    /// Entries that it has published, and what became of them.
    pub(crate) published: u64,
    pub(crate) confirmed: u64,
    pub(crate) errored: u64,
    /// What it published has met no leader that knows it: when its client is told that the stream
    /// is lost, if nobody says so before.
    lost_at_ms: Option<u64>,
}

impl Publisher {
    /// The name under which its publishes are deduplicated.
    pub(crate) const fn reference(&self) -> Option<&Reference> {
        self.reference.as_ref()
    }
}

/// The publishers of a connection.
#[derive(Debug, Default)]
pub(crate) struct Publishers {
    /// By the client's numbers.
    pub(crate) by_id: BTreeMap<u8, Publisher>,
    /// Those whose stream's leader was lost, until when what comes of them counts as sent before
    /// their client knew.
    lost: BTreeMap<u8, u64>,
    are_congested: bool,
}

impl Publishers {
    /// Whether they wait until fewer of their messages are unconfirmed.
    pub(crate) const fn are_congested(&self) -> bool {
        self.are_congested
    }

    /// A stream has lost its leader, and with it whoever publishes to it.
    ///
    /// What is not confirmed by then is neither confirmed nor refused, as it may be stored: who has
    /// lost a stream publishes it again once there is a leader. What was under way meanwhile must
    /// not be refused either. A client may give that up, and publish what came behind it to the new
    /// leader; that one then takes what was refused, if it is tried again under its own id, for a
    /// duplicate: it would be confirmed, and stored nowhere.
    pub(crate) fn lose_stream(&mut self, stream: QueueId, now_ms: u64) {
        let of_it = self.by_id.iter().filter(|(_, p)| p.id == stream);
        let until_ms = now_ms + STREAM_LOST_PUBLISHER_MS;
        self.lost.extend(of_it.map(|(id, _)| (*id, until_ms)));
        self.forget_stream(stream);
    }

    /// Whether what comes of this publisher was sent before its client knew that it had lost the
    /// stream, as far as one can tell.
    fn is_lost(&mut self, publisher_id: u8, now_ms: u64) -> bool {
        self.lost.retain(|_, until_ms| now_ms < *until_ms);
        self.lost.contains_key(&publisher_id)
    }

    /// A stream has gone, and with it whoever publishes to it.
    pub(crate) fn forget_stream(&mut self, stream: QueueId) {
        self.by_id.retain(|_, publisher| publisher.id != stream);
        self.weigh();
    }

    /// The publisher that is meant, unless it has gone; so many of its messages are answered.
    fn settled(&mut self, number: PublisherId, count: usize) -> Option<(u8, &mut Publisher)> {
        let publisher_id = (number.0 & 0xFF) as u8;
        let publisher = self.by_id.get_mut(&publisher_id)?;
        if publisher.number != number {
            return None;
        }
        // Which bytes were theirs is not kept: each message stands for its share.
        let before = publisher.unconfirmed_entries.max(1);
        let left = before.saturating_sub(count);
        publisher.unconfirmed_bytes = publisher.unconfirmed_bytes / before * left;
        publisher.unconfirmed_entries = left;
        Some((publisher_id, publisher))
    }

    /// Looks whether they must wait, or may go on.
    fn weigh(&mut self) {
        let (mut entries, mut bytes) = (0, 0);
        for publisher in self.by_id.values() {
            entries += publisher.unconfirmed_entries;
            bytes += publisher.unconfirmed_bytes;
        }
        // They go on once a quarter is left, as RabbitMQ has it.
        let share = if self.are_congested { 4 } else { 1 };
        self.are_congested = entries >= STREAM_UNCONFIRMED_ENTRIES_MAX / share
            || bytes >= STREAM_UNCONFIRMED_BYTES_MAX / share;
    }
}

/// A publisher that is being declared.
#[derive(Debug)]
pub(crate) struct Declare {
    publisher_id: u8,
    number: PublisherId,
    stream: String,
    reference: Option<Reference>,
}

impl Declare {
    pub(crate) fn begin(self, request: RequestId, stream: QueueId) -> (Command, Completion) {
        let command = Command::DeclarePublisher {
            request,
            stream,
            publisher: self.number,
            reference: self.reference.clone(),
        };
        (command, Completion::Declare(self, stream))
    }
}

/// Octets of a frame with publishing ids beside these: key, version, publisher, their number.
const IDS_HEAD_BYTES: usize = 9;
/// Octets of a publishing id.
const ID_BYTES: usize = size_of::<u64>();

/// A number of the streams' for one of the client's, which is its low octet.
pub(crate) const fn number_of(id: u8, count: u64) -> u32 {
    (count as u32) << 8 | id as u32
}

impl Session {
    pub(crate) fn declare_publisher(
        &mut self,
        correlation_id: u32,
        publisher_id: u8,
        reference: &str,
        stream: &str,
        port: &mut impl Port,
    ) {
        let key = Key::DeclarePublisher;
        let same = |publisher: &Publisher| {
            let of = publisher.reference.as_ref().map(Reference::as_bytes);
            publisher.stream == stream && of == Some(reference.as_bytes())
        };
        let is_taken = self.publishers.by_id.contains_key(&publisher_id);
        let is_wrong = !reference.is_empty() && reference_of(reference).is_none();
        let refusal = if port.holds_publishers() {
            ResponseCode::PRECONDITION_FAILED
        } else if !port.permits_stream(Access::Write, stream) {
            ResponseCode::ACCESS_REFUSED
        } else if port.is_drained(stream)
            || is_wrong
            || is_taken
            || self.publishers.by_id.values().any(same)
        {
            ResponseCode::PRECONDITION_FAILED
        } else {
            let declare = Declare {
                publisher_id,
                number: PublisherId(number_of(publisher_id, self.number())),
                stream: stream.to_owned(),
                reference: reference_of(reference),
            };
            return self.resolve(
                key,
                correlation_id,
                stream,
                NextStep::Declare(declare),
                port,
            );
        };
        self.answer(key, correlation_id, refusal);
    }

    pub(crate) fn publisher_declared(&mut self, declare: Declare, id: QueueId) {
        let publisher = Publisher {
            number: declare.number,
            stream: declare.stream,
            id,
            reference: declare.reference,
            unconfirmed_entries: 0,
            unconfirmed_bytes: 0,
            sent: 0,
            began: Began::default(),
            published: 0,
            confirmed: 0,
            errored: 0,
            lost_at_ms: None,
        };
        self.publishers.lost.remove(&declare.publisher_id);
        self.publishers
            .by_id
            .insert(declare.publisher_id, publisher);
    }

    pub(crate) fn delete_publisher(
        &mut self,
        correlation_id: u32,
        publisher_id: u8,
        port: &mut impl Port,
    ) {
        let code = match self.publishers.by_id.remove(&publisher_id) {
            Some(publisher) => {
                port.send(Command::DeletePublisher {
                    stream: publisher.id,
                    publisher: publisher.number,
                });
                ResponseCode::OK
            }
            None => ResponseCode::PUBLISHER_DOES_NOT_EXIST,
        };
        self.answer(Key::DeletePublisher, correlation_id, code);
    }

    pub(crate) fn publish(&mut self, publish: &Publish<'_>, frame: &Bytes, port: &mut impl Port) {
        let form = match publish.version() {
            1 => BatchForm::Plain,
            _ => BatchForm::Filtered,
        };
        let bytes = frame.slice_ref(publish.bytes());
        let publisher_id = publish.publisher_id();
        if self.publishers.is_lost(publisher_id, self.now.monotonic_ms) {
            return;
        }
        let Some(publisher) = self.publishers.by_id.get_mut(&publisher_id) else {
            let ids: Vec<u64> = publish.entries().map(|e| e.publishing_id).collect();
            let code = ResponseCode::PUBLISHER_DOES_NOT_EXIST;
            return self.publish_failed(publisher_id, &ids, code);
        };
        let batch = match Batch::parse(form, publish.count(), bytes) {
            Ok(batch) if batch.is_empty() => return,
            Ok(batch) => batch,
            Err(error) => {
                let code = ResponseCode::UNKNOWN_FRAME;
                return self.close(code, &error.to_string(), port);
            }
        };
        if port.is_drained(&publisher.stream) {
            publisher.published += batch.len() as u64;
            publisher.errored += batch.len() as u64;
            self.totals.received += batch.len() as u64;
            let ids: Vec<u64> = publish.entries().map(|e| e.publishing_id).collect();
            return self.publish_failed(publisher_id, &ids, ResponseCode::PRECONDITION_FAILED);
        }
        publisher
            .began
            .note(publisher.sent + 1, self.now.monotonic_ms);
        publisher.sent += batch.len() as u64;
        publisher.unconfirmed_entries += batch.len();
        publisher.unconfirmed_bytes += batch.bytes();
        publisher.published += batch.len() as u64;
        self.totals.received += batch.len() as u64;
        port.send(Command::Publish {
            stream: publisher.id,
            publisher: publisher.number,
            batch,
        });
        self.publishers.weigh();
    }

    fn publish_failed(&mut self, publisher_id: u8, ids: &[u64], code: ResponseCode) {
        let most = self.ids_of_a_frame(ID_BYTES + size_of::<u16>());
        for ids in ids.chunks(most.min(STREAM_LIST_ENTRIES_MAX)) {
            self.say(&ServerCommand::PublishError {
                publisher_id,
                errors: ids.iter().map(|id| (*id, code)).collect(),
            });
        }
    }

    /// How many publishing ids a frame holds, of so many octets each.
    fn ids_of_a_frame(&self, octets: usize) -> usize {
        let room = (self.terms.frame_max as usize).saturating_sub(IDS_HEAD_BYTES);
        (room / octets).max(1)
    }

    pub(crate) fn confirmed(&mut self, number: PublisherId, ids: &[u64]) {
        if let Some((publisher_id, publisher)) = self.publishers.settled(number, ids.len()) {
            let count = ids.len() as u64;
            let end = publisher.sent + 1 - publisher.unconfirmed_entries as u64;
            let answered = end.saturating_sub(count)..end;
            let now_ms = self.now.monotonic_ms;
            publisher.began.measure(answered, now_ms, |ms, count| {
                self.latencies.add(ms, count);
            });
            publisher.began.forget_before(end);
            publisher.confirmed += count;
            self.totals.confirmed += count;
            // What was published in several frames is confirmed at once, which may be too much for
            // the frames that the client takes.
            for ids in ids.chunks(self.ids_of_a_frame(ID_BYTES)) {
                put_confirm(self.out.tail(), publisher_id, ids);
            }
        }
        self.publishers.weigh();
    }

    /// Publishes were not taken. Where they have come to a node that does not lead the stream, or
    /// knows nothing of their publisher, which was declared with another leader, the stream has
    /// lost its leader, which the client is about to be told: they are left unanswered, as those
    /// behind that news are.
    pub(crate) fn refused(&mut self, number: PublisherId, ids: &[u64], refusal: &Refusal) {
        let now_ms = self.now.monotonic_ms;
        match self.publishers.settled(number, ids.len()) {
            Some((_, publisher)) if is_loss(refusal) => {
                let notice_ms = now_ms + STREAM_LOSS_NOTICE_MS;
                publisher.lost_at_ms.get_or_insert(notice_ms);
            }
            Some((publisher_id, publisher)) => {
                publisher.errored += ids.len() as u64;
                self.publish_failed(publisher_id, ids, code_of(refusal));
            }
            None => {}
        }
        self.publishers.weigh();
    }

    /// When [`Self::tell_untold_losses`] has something to do.
    pub(crate) fn untold_loss_ms(&self) -> Option<u64> {
        let publishers = self.publishers.by_id.values();
        publishers
            .filter_map(|publisher| publisher.lost_at_ms)
            .min()
    }

    /// Tells of streams that were lost some time ago: the node that led them may be cut off from
    /// the one that does now, and not know.
    pub(crate) fn tell_untold_losses(&mut self, port: &mut impl Port) {
        let now_ms = self.now.monotonic_ms;
        let is_due = |publisher: &&Publisher| publisher.lost_at_ms.is_some_and(|at| at <= now_ms);
        let due = self.publishers.by_id.values().filter(is_due);
        let streams: BTreeSet<QueueId> = due.map(|publisher| publisher.id).collect();
        for stream in streams {
            self.lost(stream, port);
        }
    }
}

/// Whether a refused publish has come to what does not lead its stream, or not with this publisher.
const fn is_loss(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::Id | Refusal::NotAvailable(_))
}

/// What a client is told of a refusal.
pub(crate) const fn code_of(refusal: &Refusal) -> ResponseCode {
    match refusal {
        Refusal::NotFound => ResponseCode::STREAM_DOES_NOT_EXIST,
        Refusal::Exists => ResponseCode::STREAM_ALREADY_EXISTS,
        Refusal::Precondition(_) => ResponseCode::PRECONDITION_FAILED,
        Refusal::NotAvailable(_) => ResponseCode::STREAM_NOT_AVAILABLE,
        Refusal::Id => ResponseCode::PUBLISHER_DOES_NOT_EXIST,
        Refusal::Damaged(_) => ResponseCode::INTERNAL_ERROR,
    }
}
