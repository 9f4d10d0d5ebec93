//! Super streams: a direct exchange, and streams that are bound to it as its partitions, of which a
//! routing key's hash may choose one.

use crate::kind::Kind;
use crate::router::{Binding, Destination, Index, Router};
use crate::table::Keys;
use crate::targets::Target;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use leveret_types::{FieldTable, FieldValue};

/// The argument that marks the exchange of a super stream: a boolean.
pub const SUPER_STREAM: &str = "x-super-stream";
/// The argument of such an exchange that says how a routing key leads to a partition: `key`, `hash`
/// or `key-or-hash`.
pub const SUPER_STREAM_ROUTING: &str = "x-super-stream-routing";
/// The argument of a binding that says where its stream comes among the partitions: a whole number.
/// A partition without it comes last.
pub const PARTITION_ORDER: &str = "x-stream-partition-order";

/// The argument of a binding that says whether its stream is drained: a boolean. To one that is no
/// routing key leads, neither by its own binding's nor by a hash.
pub const PARTITION_DRAINED: &str = "x-stream-partition-drained";

/// The seed with which clients of the stream protocol hash routing keys.
const SEED: u32 = 104_729;

/// Which partition of a super stream a routing key leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionRouting {
    /// Those of the bindings with this key.
    Key,
    /// The one that clients of the stream protocol choose by their hash of the key.
    Hash,
    /// That of the binding with this key; where there is none, as [`Self::Hash`].
    KeyOrHash,
}

/// What RabbitMQ's clients of the stream protocol hash a routing key to. The partition that they
/// choose is the one at this number modulo how many there are.
#[must_use]
pub fn partition_hash(key: &[u8]) -> u32 {
    let mut bytes = key;
    // Reading from a slice never fails.
    murmur3::murmur3_32(&mut bytes, SEED).unwrap_or_default()
}

/// A stream that is bound to the exchange of a super stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Partition<'a> {
    /// Its place: the lowest comes first, equal ones by name.
    pub order: i64,
    /// The stream's name.
    pub stream: &'a str,
    /// The binding key that leads to it.
    pub key: &'a [u8],
    /// Whether it is drained: nothing is to be published to it.
    pub is_drained: bool,
}

/// Where a binding's arguments place its stream among the partitions.
#[must_use]
pub fn partition_order(arguments: &FieldTable) -> i64 {
    let order = arguments.get(PARTITION_ORDER);
    order.and_then(FieldValue::as_integer).unwrap_or(i64::MAX)
}

/// Whether a binding's arguments say that its stream is drained.
#[must_use]
pub fn is_drained(arguments: &FieldTable) -> bool {
    let drained = arguments.get(PARTITION_DRAINED);
    drained.and_then(FieldValue::as_bool) == Some(true)
}

impl Router {
    /// The partitions of a super stream's exchange, if it is one.
    fn index_of(&self, super_stream: &str) -> Option<&Partitions> {
        let exchange = self.find_exchange(super_stream.as_bytes())?;
        match &self.exchanges.get(exchange).index {
            Index::Partitions(partitions) => Some(partitions),
            _ => None,
        }
    }

    /// Whether a stream is a partition of a super stream that is drained.
    #[must_use]
    pub fn is_drained(&self, stream: &str) -> bool {
        let Some(index) = self.find_queue(stream.as_bytes()) else {
            return false;
        };
        self.bindings_to(Destination::Queue(stream))
            .filter_map(|binding| self.index_of(binding.source))
            .any(|partitions| partitions.is_drained(index))
    }

    /// The streams that are bound to an exchange, in the order of a super stream's partitions: once
    /// for each binding.
    #[must_use]
    pub fn partitions(&self, super_stream: &str) -> Vec<Partition<'_>> {
        self.streams_of(super_stream, self.bindings_from(super_stream))
    }

    /// The streams among what bindings of a super stream lead to, in their order.
    fn streams_of<'a>(
        &'a self,
        super_stream: &str,
        bindings: impl Iterator<Item = Binding<'a>>,
    ) -> Vec<Partition<'a>> {
        let of_super_stream = self.index_of(super_stream);
        let stream = |name: &str| {
            let index = self.find_queue(name.as_bytes())?;
            self.queues.get(index).id.is_stream().then_some(index)
        };
        let streams = bindings.filter_map(|binding| match binding.destination {
            Destination::Queue(name) => stream(name).map(|index| Partition {
                order: partition_order(binding.arguments),
                stream: name,
                key: binding.routing_key,
                is_drained: of_super_stream.is_some_and(|of| of.is_drained(index)),
            }),
            Destination::Exchange(_) => None,
        });
        let mut streams: Vec<_> = streams.collect();
        streams.sort_unstable();
        streams
    }

    /// The partitions that a routing key leads to, each once, in their order: one where hashes
    /// decide, none that is drained.
    #[must_use]
    pub fn partitions_of_key(&self, super_stream: &str, key: &[u8]) -> Vec<&str> {
        let Some(exchange) = self.find_exchange(super_stream.as_bytes()) else {
            return Vec::new();
        };
        let exchange = self.exchanges.get(exchange);
        let routing = match exchange.kind.routes_as() {
            Kind::SuperStream(routing) => *routing,
            _ => PartitionRouting::Key,
        };
        let mut found: Vec<&str> = match routing {
            PartitionRouting::Hash => Vec::new(),
            PartitionRouting::Key | PartitionRouting::KeyOrHash => {
                let bound =
                    self.streams_of(super_stream, self.bindings_with_key(super_stream, key));
                let bound = bound.into_iter().filter(|partition| !partition.is_drained);
                bound.map(|partition| partition.stream).collect()
            }
        };
        found.dedup();
        if found.is_empty()
            && routing != PartitionRouting::Key
            && let Index::Partitions(partitions) = &exchange.index
            && let Some(Target::Queue(stream)) = partitions.choose(key)
        {
            found.push(&self.queues.get(stream).name);
        }
        found
    }
}

/// The bindings of a super stream's exchange, by key, and its partitions in their order.
#[derive(Debug, Default)]
pub(crate) struct Partitions {
    pub(crate) keys: Keys,
    ordered: Vec<PartitionSlot>,
    /// Indexes of the queues that are drained, each with how many of its bindings say so.
    drained: HashMap<u32, u32, RandomState>,
}

/// One slot among the partitions: several bindings of a stream that have the same order have one.
#[derive(Debug)]
struct PartitionSlot {
    order: i64,
    /// Index of the queue.
    stream: u32,
    bindings: u32,
}

impl Partitions {
    /// The queue that a key's hash chooses; nothing while all partitions are drained, or there is
    /// none. A drained one keeps its place, so that the keys of the others stay where they are, as
    /// they do for stream clients; its own keys are spread over the others.
    pub(crate) fn choose(&self, key: &[u8]) -> Option<Target> {
        let (hash, count) = (partition_hash(key), u32::try_from(self.ordered.len()).ok()?);
        let first = self.ordered.get(hash.checked_rem(count)? as usize)?;
        if !self.is_drained(first.stream) {
            return Some(Target::Queue(first.stream));
        }
        let others = || {
            self.ordered
                .iter()
                .filter(|slot| !self.is_drained(slot.stream))
        };
        let left = u32::try_from(others().count()).ok()?;
        let second = others().nth((hash / count).checked_rem(left)? as usize)?;
        Some(Target::Queue(second.stream))
    }

    /// Whether nothing is to be published to a queue.
    pub(crate) fn is_drained(&self, stream: u32) -> bool {
        !self.drained.is_empty() && self.drained.contains_key(&stream)
    }

    /// How many partitions [`Self::choose`] looks at, at most.
    pub(crate) fn looked_at(&self) -> usize {
        match self.drained.is_empty() {
            true => 1,
            false => 2 * self.ordered.len(),
        }
    }

    fn note_drained(&mut self, stream: u32) {
        *self.drained.entry(stream).or_default() += 1;
    }

    fn forget_drained(&mut self, stream: u32) {
        if let Some(bindings) = self.drained.get_mut(&stream) {
            *bindings -= 1;
            if *bindings == 0 {
                self.drained.remove(&stream);
            }
        }
    }

    /// A binding of a stream with these arguments is there. `name_of` says the names of the queues
    /// of such indexes.
    pub(crate) fn add<'a>(
        &mut self,
        arguments: &FieldTable,
        stream: u32,
        name_of: impl Fn(u32) -> &'a str,
    ) {
        let order = partition_order(arguments);
        if is_drained(arguments) {
            self.note_drained(stream);
        }
        match self.find(order, stream, name_of) {
            Ok(at) => self.ordered[at].bindings += 1,
            Err(at) => self.ordered.insert(
                at,
                PartitionSlot {
                    order,
                    stream,
                    bindings: 1,
                },
            ),
        }
    }

    /// A binding of a stream, one that was added, is gone.
    pub(crate) fn remove<'a>(
        &mut self,
        arguments: &FieldTable,
        stream: u32,
        name_of: impl Fn(u32) -> &'a str,
    ) {
        let order = partition_order(arguments);
        if is_drained(arguments) {
            self.forget_drained(stream);
        }
        if let Ok(at) = self.find(order, stream, name_of) {
            self.ordered[at].bindings -= 1;
            if self.ordered[at].bindings == 0 {
                self.ordered.remove(at);
            }
        }
    }

    fn find<'a>(
        &self,
        order: i64,
        stream: u32,
        name_of: impl Fn(u32) -> &'a str,
    ) -> Result<usize, usize> {
        let wanted = (order, name_of(stream));
        let slot = |slot: &PartitionSlot| (slot.order, name_of(slot.stream)).cmp(&wanted);
        self.ordered.binary_search_by(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_hashes_to_what_stream_clients_hash_it_to() {
        // Of mmh3, another implementation: `mmh3.hash(key, 104729, signed=False)`.
        let vectors: [(&[u8], u32); 8] = [
            (b"", 3_329_588_566),
            (b"a", 1_086_686_554),
            (b"0", 2_929_165_565),
            (b"17", 2_696_266_086),
            (b"order-1", 828_619_386),
            ("Größe".as_bytes(), 2_889_074_285),
            (b"invoice-2026-000123", 1_054_074_215),
            (b"\xff\x00\xfe", 687_305_704),
        ];
        for (key, hash) in vectors {
            assert_eq!(partition_hash(key), hash, "{key:?}");
        }
    }

    #[test]
    fn of_three_partitions_a_key_chooses_the_one_that_stream_clients_choose() {
        // What the tests of the clients for Go and .NET expect.
        let places = [1, 0, 1, 2, 0, 2, 0, 1, 0, 2];
        for (number, place) in (1..).zip(places) {
            let key = format!("hello{number}");
            assert_eq!(partition_hash(key.as_bytes()) % 3, place, "{key}");
        }
    }
}
