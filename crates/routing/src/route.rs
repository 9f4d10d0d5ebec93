//! The way of a message through a router.

use crate::hash;
use crate::headers::{Headers, work_of};
use crate::headers_index::HeadersIndex;
use crate::kind::{HashOn, Kind};
use crate::partitions::{PartitionRouting, Partitions};
use crate::router::{ExchangeEntry, Index, Prepared, Router};
use crate::targets::{Entries, Entry, Target};
use crate::topic::{TopicScratch, Trie};
use crate::visited::Visited;
use crate::work::{self, Work};
use leveret_types::limits::ROUTE_EXCHANGES_MAX;
use leveret_types::{FieldTable, FieldValue, QueueId};

/// What a router may want to know of a message besides its keys. Only headers exchanges and hashing
/// exchanges ask, so that an implementation may decode at the first question.
pub trait MessageProperties {
    /// The `headers` property.
    fn headers(&self) -> Option<&FieldTable>;
    /// The `message-id` property.
    fn message_id(&self) -> Option<&[u8]>;
    /// The `correlation-id` property.
    fn correlation_id(&self) -> Option<&[u8]>;
    /// The `timestamp` property, in seconds since the Unix epoch.
    fn timestamp(&self) -> Option<u64>;
}

/// A message without properties.
impl MessageProperties for () {
    fn headers(&self) -> Option<&FieldTable> {
        None
    }
    fn message_id(&self) -> Option<&[u8]> {
        None
    }
    fn correlation_id(&self) -> Option<&[u8]> {
        None
    }
    fn timestamp(&self) -> Option<u64> {
        None
    }
}

/// A message with nothing but headers.
impl MessageProperties for FieldTable {
    fn headers(&self) -> Option<&FieldTable> {
        Some(self)
    }
    fn message_id(&self) -> Option<&[u8]> {
        None
    }
    fn correlation_id(&self) -> Option<&[u8]> {
        None
    }
    fn timestamp(&self) -> Option<u64> {
        None
    }
}

/// Why a message cannot be routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// There is no exchange of that name.
    #[error("no such exchange")]
    NotFound,
    /// The exchange is internal: only bindings lead to it, clients may not publish to it.
    #[error("the exchange is internal")]
    Internal,
    /// The message's way passes more exchanges than [`ROUTE_EXCHANGES_MAX`].
    #[error("too many exchanges on the way")]
    TooLong,
    /// The message's way costs more than [`leveret_types::limits::ROUTE_WORK_MAX`].
    #[error("too many bindings to look at on the way")]
    TooMuchWork,
}

/// Buffers of [`Router::route`], kept by the caller and good for any number of routers.
#[derive(Debug, Default)]
pub struct Scratch {
    visited: Visited<Target>,
    worklist: Vec<u32>,
    topic: TopicScratch,
    random: u64,
    by_name: bool,
    work: Work,
}

impl Scratch {
    /// Buffers whose random exchanges draw from this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            random: seed,
            ..Self::default()
        }
    }

    /// Changes whenever something was drawn at random: a route that did not change it will be the
    /// same next time.
    #[must_use]
    pub const fn random_state(&self) -> u64 {
        self.random
    }

    /// Whether the last message passed the default exchange, also as another one's alternate:
    /// queues were then reached by their names.
    #[must_use]
    pub const fn is_by_name(&self) -> bool {
        self.by_name
    }

    /// Bytes of the heap that it keeps: by the widest way that it was used for, not by how many
    /// queues there are.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let worklist = self.worklist.capacity() * size_of::<u32>();
        self.visited.heap_bytes() + worklist + self.topic.heap_bytes()
    }

    /// What routes have cost since this was asked last, in the units of
    /// [`leveret_types::limits::ROUTE_WORK_MAX`]. It depends on the messages, the bindings and
    /// their order alone.
    pub const fn take_work(&mut self) -> usize {
        self.work.take()
    }

    fn begin(&mut self) {
        self.work.begin();
        self.visited.clear();
        self.worklist.clear();
        self.by_name = false;
    }
}

/// Where a message comes to the exchanges.
struct Entrance<'a> {
    /// The name of the first one.
    exchange: &'a [u8],
    /// Whether it may be one that clients do not publish to.
    may_be_internal: bool,
}

impl Router {
    /// Appends to `out` every queue that a message published to `exchange` with these keys goes to,
    /// each once. Several keys are what `CC` and `BCC` headers give: the message goes wherever any
    /// of them leads.
    ///
    /// # Errors
    /// If there is no such exchange, clients may not publish to it, or the way is too long or costs
    /// too much. `out` may then hold a part.
    pub fn route(
        &self,
        exchange: &[u8],
        keys: &[&[u8]],
        message: &dyn MessageProperties,
        scratch: &mut Scratch,
        out: &mut Vec<QueueId>,
    ) -> Result<(), RouteError> {
        let entrance = Entrance {
            exchange,
            may_be_internal: false,
        };
        self.route_from(entrance, keys, message, scratch, out)
    }

    /// As [`Self::route`], for a message that the broker itself publishes: to internal exchanges as
    /// well.
    ///
    /// # Errors
    /// If there is no such exchange, or the way is too long or costs too much. `out` may then hold
    /// a part.
    pub fn route_internal(
        &self,
        exchange: &[u8],
        keys: &[&[u8]],
        message: &dyn MessageProperties,
        scratch: &mut Scratch,
        out: &mut Vec<QueueId>,
    ) -> Result<(), RouteError> {
        let entrance = Entrance {
            exchange,
            may_be_internal: true,
        };
        self.route_from(entrance, keys, message, scratch, out)
    }

    fn route_from(
        &self,
        entrance: Entrance<'_>,
        keys: &[&[u8]],
        message: &dyn MessageProperties,
        scratch: &mut Scratch,
        out: &mut Vec<QueueId>,
    ) -> Result<(), RouteError> {
        scratch.begin();
        if entrance.exchange.is_empty() {
            self.route_by_queue_name(keys, scratch, out);
            return Ok(());
        }
        let first = self
            .find_exchange(entrance.exchange)
            .ok_or(RouteError::NotFound)?;
        if self.exchanges.get(first).internal && !entrance.may_be_internal {
            return Err(RouteError::Internal);
        }
        scratch.visited.insert(Target::Exchange(first));
        scratch.worklist.push(first);
        self.walk(keys, message, scratch, out)
    }

    /// Follows the exchanges of the worklist, and those that they lead to.
    fn walk(
        &self,
        keys: &[&[u8]],
        message: &dyn MessageProperties,
        scratch: &mut Scratch,
        out: &mut Vec<QueueId>,
    ) -> Result<(), RouteError> {
        let mut passed = 0;
        while let Some(index) = scratch.worklist.pop() {
            passed += 1;
            if passed > ROUTE_EXCHANGES_MAX {
                return Err(RouteError::TooLong);
            }
            let exchange = self.exchanges.get(index);
            let is_affordable = scratch.work.spend(work::EXCHANGE + work::KEY * keys.len());
            let matched =
                is_affordable && self.match_exchange(exchange, keys, message, scratch, out);
            if scratch.work.is_too_much() {
                return Err(RouteError::TooMuchWork);
            }
            if matched {
                continue;
            }
            match exchange.alternate.as_deref() {
                None => {}
                Some("") => self.route_by_queue_name(keys, scratch, out),
                Some(name) => {
                    if let Some(index) = self.find_exchange(name.as_bytes()) {
                        self.reach(Target::Exchange(index), scratch, out);
                    }
                }
            }
        }
        Ok(())
    }

    /// What the default exchange does.
    fn route_by_queue_name(&self, keys: &[&[u8]], scratch: &mut Scratch, out: &mut Vec<QueueId>) {
        scratch.by_name = true;
        for key in keys {
            if let Some(index) = self.find_queue(key) {
                self.reach(Target::Queue(index), scratch, out);
            }
        }
    }

    /// Reaches what a binding leads to; false if that is gone.
    fn reach(&self, target: Target, scratch: &mut Scratch, out: &mut Vec<QueueId>) -> bool {
        if self.has_to_unlink() && self.is_gone(target) {
            return false;
        }
        if !scratch.visited.insert(target) {
            return true;
        }
        // Every caller has counted what led here, so that this does not go much beyond.
        scratch.work.spend(work::REACHED);
        match target {
            Target::Queue(index) => out.push(self.queues.get(index).id),
            Target::Exchange(index) => scratch.worklist.push(index),
        }
        true
    }

    /// Reaches what these bindings lead to; false if nothing of it is there.
    fn reach_all(&self, entries: &[Entry], scratch: &mut Scratch, out: &mut Vec<QueueId>) -> bool {
        let is_affordable = scratch.work.spend(entries.len());
        let entries = if is_affordable { entries } else { &[] };
        let mut matched = false;
        for entry in entries {
            matched |= self.reach(entry.target, scratch, out);
        }
        matched
    }

    /// Follows the bindings of one exchange that match; false if none does.
    fn match_exchange(
        &self,
        exchange: &ExchangeEntry,
        keys: &[&[u8]],
        message: &dyn MessageProperties,
        scratch: &mut Scratch,
        out: &mut Vec<QueueId>,
    ) -> bool {
        let outgoing = exchange.outgoing.as_slice();
        match (&exchange.index, exchange.kind.routes_as()) {
            (Index::Direct(table), _) => keys.iter().fold(false, |matched, key| {
                let entries = table.get(key).map_or(&[][..], Entries::as_slice);
                self.reach_all(entries, scratch, out) || matched
            }),
            (Index::Partitions(partitions), Kind::SuperStream(routing)) => {
                let mut matched = false;
                for key in keys {
                    matched |= self.match_partition(partitions, *routing, key, scratch, out);
                }
                matched
            }
            (Index::Topic(trie), _) => self.match_topic(trie, keys, scratch, out),
            (Index::Modulus(ordered), _) => {
                let key = hash::stable(keys.first().copied().unwrap_or_default());
                match ordered.get(hash::below(key, ordered.len())) {
                    Some(binding) => self.reach(self.bindings.get(binding).target, scratch, out),
                    None => false,
                }
            }
            (Index::Headers(index), _) => {
                !outgoing.is_empty() && self.match_headers(index, message, scratch, out)
            }
            (Index::ConsistentHash(tree), Kind::ConsistentHash(on)) => {
                let (hash, work) = hash_key(on, keys, message);
                let (chosen, met) = tree.choose(hash);
                scratch.work.spend(work + met);
                chosen.is_some_and(|entry| self.reach_all(&[entry], scratch, out))
            }
            (Index::None, Kind::Random | Kind::LocalRandom) => {
                let random = hash::next_random(&mut scratch.random);
                match outgoing.get(hash::below(random, outgoing.len())) {
                    Some(entry) => self.reach_all(&[*entry], scratch, out),
                    None => false,
                }
            }
            (Index::None | Index::ConsistentHash(_) | Index::Partitions(_), _) => {
                self.reach_all(outgoing, scratch, out)
            }
        }
    }

    /// Follows a key to a partition, and by the bindings of all that is none; false if there is
    /// neither.
    fn match_partition(
        &self,
        partitions: &Partitions,
        routing: PartitionRouting,
        key: &[u8],
        scratch: &mut Scratch,
        out: &mut Vec<QueueId>,
    ) -> bool {
        let bound = partitions.keys.get(key).map_or(&[][..], Entries::as_slice);
        let (mut matched, mut has_partition) = (false, false);
        if !scratch.work.spend(bound.len() + partitions.looked_at()) {
            return false;
        }
        for entry in bound {
            let partition = match entry.target {
                Target::Queue(index) if self.queues.get(index).id.is_stream() => Some(index),
                _ => None,
            };
            let is_partition = partition.is_some();
            let is_drained = partition.is_some_and(|index| partitions.is_drained(index));
            if is_drained || is_partition && routing == PartitionRouting::Hash {
                continue;
            }
            if self.reach(entry.target, scratch, out) {
                has_partition |= is_partition;
                matched = true;
            }
        }
        let hashes = !has_partition && routing != PartitionRouting::Key;
        match hashes.then(|| partitions.choose(key)).flatten() {
            Some(target) => self.reach(target, scratch, out) || matched,
            None => matched,
        }
    }

    fn match_topic(
        &self,
        trie: &Trie,
        keys: &[&[u8]],
        scratch: &mut Scratch,
        out: &mut Vec<QueueId>,
    ) -> bool {
        let mut matched = false;
        // The trie's buffers leave the scratch for the lookup, so that what it finds can be visited
        // meanwhile.
        let mut topic = std::mem::take(&mut scratch.topic);
        for key in keys {
            for &node in trie.lookup(key, &mut topic, &mut scratch.work) {
                matched |= self.reach_all(trie.entries(node), scratch, out);
            }
        }
        scratch.topic = topic;
        matched
    }

    fn match_headers(
        &self,
        index: &HeadersIndex,
        message: &dyn MessageProperties,
        scratch: &mut Scratch,
        out: &mut Vec<QueueId>,
    ) -> bool {
        let headers = Headers::new(message.headers());
        let mut matched = false;
        if !scratch.work.spend(headers.work()) {
            return false;
        }
        index.candidates(&headers, |entries| {
            for entry in entries {
                if let Prepared::Headers(matcher, _) = &self.bindings.get(entry.binding).prepared
                    && scratch.work.spend(matcher.work())
                    && matcher.matches_those(&headers)
                {
                    matched |= self.reach(entry.target, scratch, out);
                }
            }
        });
        matched
    }
}

/// The hash of what a consistent-hash exchange looks at, and what it costs; a message that lacks it
/// has the hash of nothing.
fn hash_key(on: &HashOn, keys: &[&[u8]], message: &dyn MessageProperties) -> (u64, usize) {
    let hash = match on {
        HashOn::RoutingKey => hash::stable(keys.first().copied().unwrap_or_default()),
        HashOn::Header(name) => match message.headers().and_then(|headers| headers.get(name)) {
            None => hash::stable(b""),
            Some(FieldValue::LongString(bytes) | FieldValue::Bytes(bytes)) => hash::stable(bytes),
            Some(value) => match value.as_integer() {
                Some(integer) => hash::mix(integer as u64),
                None => hash::stable(value.to_string().as_bytes()),
            },
        },
        HashOn::MessageId => hash::stable(message.message_id().unwrap_or_default()),
        HashOn::CorrelationId => hash::stable(message.correlation_id().unwrap_or_default()),
        HashOn::Timestamp => message.timestamp().map_or(hash::stable(b""), hash::mix),
    };
    let work = match on {
        HashOn::Header(name) => message.headers().map_or(0, |headers| {
            headers.len() + headers.get(name).map_or(0, work_of)
        }),
        _ => 0,
    };
    (hash, work)
}
