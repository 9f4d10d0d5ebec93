//! The exchanges and bindings of one virtual host: what there is, and how it changes.

use crate::arguments::{hash_table, same_table, sorted};
use crate::hash;
use crate::hash_tree::HashTree;
use crate::headers::HeadersMatcher;
use crate::headers_index::{self, HeadersIndex, IndexSlots};
use crate::kind::{self, BindError, Kind};
use crate::ordered::Ordered;
use crate::partitions::Partitions;
use crate::slab::Slab;
use crate::table::{Keys, Table};
use crate::targets::{Entries, Entry, Target};
use crate::topic::{self, Trie};
use foldhash::fast::RandomState;
use leveret_types::limits::TOPIC_HASHES_MAX;
use leveret_types::{FieldTable, QueueId};
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

/// What a binding leads to, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Destination<'a> {
    /// A queue.
    Queue(&'a str),
    /// An exchange.
    Exchange(&'a str),
}

impl<'a> Destination<'a> {
    /// The name.
    #[must_use]
    pub const fn name(&self) -> &'a str {
        match self {
            Self::Queue(name) | Self::Exchange(name) => name,
        }
    }
}

/// A binding, as listings want it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Binding<'a> {
    /// Name of the exchange that messages come from.
    pub source: &'a str,
    /// Where they go.
    pub destination: Destination<'a>,
    /// The binding key.
    pub routing_key: &'a [u8],
    /// Arguments, sorted by name.
    pub arguments: &'a FieldTable,
}

/// An exchange, as the router knows it.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its type.
    pub kind: &'a Kind,
    /// Whether clients may not publish to it.
    pub internal: bool,
    /// Whether it goes when the last binding from it goes.
    pub auto_delete: bool,
    /// Where messages go that match none of its bindings.
    pub alternate: Option<&'a str>,
    /// How many bindings lead away from it.
    pub outgoing: usize,
}

/// What an unbinding or a removal has taken away besides what was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unbound {
    /// How many bindings are gone.
    pub bindings: usize,
    /// What their arguments come to: see [`FieldTable::weight`].
    pub argument_bytes: u64,
    /// Auto-delete exchanges that have lost their last binding from them. They are still there:
    /// whoever keeps the catalogue removes them, which may name further ones.
    pub idle_exchanges: Vec<Arc<str>>,
}

/// Indexes by type of exchange; those not named need none beyond the list of outgoing bindings.
#[derive(Debug)]
pub(crate) enum Index {
    Direct(Keys),
    Partitions(Partitions),
    Topic(Trie),
    Headers(HeadersIndex),
    /// Bindings ordered by destination and key, so that the order does not depend on history.
    Modulus(Ordered),
    ConsistentHash(HashTree),
    None,
}

impl Index {
    fn of(kind: &Kind) -> Self {
        match kind.routes_as() {
            Kind::Direct => Self::Direct(Keys::default()),
            Kind::SuperStream(_) => Self::Partitions(Partitions::default()),
            Kind::Topic => Self::Topic(Trie::default()),
            Kind::Headers => Self::Headers(HeadersIndex::default()),
            Kind::ModulusHash => Self::Modulus(Ordered::default()),
            Kind::ConsistentHash(_) => Self::ConsistentHash(HashTree::default()),
            _ => Self::None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct ExchangeEntry {
    pub(crate) name: Arc<str>,
    /// Whether it was removed, and only its bindings are still here: see [`crate::unlink`].
    pub(crate) is_gone: bool,
    /// How many queues and exchanges had come before it.
    since: u64,
    pub(crate) kind: Kind,
    pub(crate) internal: bool,
    auto_delete: bool,
    pub(crate) alternate: Option<Box<str>>,
    pub(crate) index: Index,
    pub(crate) outgoing: Entries,
    /// How many of these lead to what is gone.
    pub(crate) outgoing_to_gone: usize,
    incoming: Vec<u32>,
}

impl ExchangeEntry {
    /// How many bindings lead away from it to what is there.
    pub(crate) fn outgoing_count(&self) -> usize {
        self.outgoing.as_slice().len() - self.outgoing_to_gone
    }
}

/// What an exchange is declared with, beside its name and kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExchangeSettings<'a> {
    /// Whether clients may not publish to it.
    pub internal: bool,
    /// Whether it goes with the last binding from it.
    pub auto_delete: bool,
    /// The exchange for messages that match none of its bindings.
    pub alternate: Option<&'a str>,
}

#[derive(Debug)]
pub(crate) struct QueueEntry {
    pub(crate) name: Arc<str>,
    pub(crate) id: QueueId,
    /// As of [`ExchangeEntry`].
    pub(crate) is_gone: bool,
    since: u64,
    incoming: Vec<u32>,
}

/// What a binding's exchange type computed from it once.
#[derive(Debug)]
pub(crate) enum Prepared {
    Nothing,
    /// What a binding to a headers exchange asks, and its slots in the index.
    Headers(Box<HeadersMatcher>, IndexSlots),
    Weight {
        candidate: u64,
        weight: u32,
    },
}

#[derive(Debug)]
pub(crate) struct BindingEntry {
    pub(crate) source: u32,
    pub(crate) target: Target,
    key: Box<[u8]>,
    arguments: FieldTable,
    /// What the arguments come to.
    pub(crate) argument_bytes: u64,
    /// The hash of what tells it apart from others.
    identity: u64,
    pub(crate) prepared: Prepared,
    /// Slot in the source's list of outgoing bindings.
    outgoing_slot: u32,
    /// Slot in the destination's list of incoming bindings.
    incoming_slot: u32,
    /// Node (topic) and slot (topic, direct, consistent hash) in the source's index.
    index_node: u32,
    index_slot: u32,
}

/// The exchanges and bindings of one virtual host.
#[derive(Debug)]
pub struct Router {
    pub(crate) exchanges: Slab<ExchangeEntry>,
    pub(crate) queues: Slab<QueueEntry>,
    pub(crate) bindings: Slab<BindingEntry>,
    exchange_names: Table<u32>,
    queue_names: Table<u32>,
    binding_identities: Table<u32>,
    pub(crate) binding_count: usize,
    /// How many queues and exchanges have come, those included that have gone.
    arrivals: u64,
    /// What is gone, but has bindings that are linked still, in the order in which it went.
    pub(crate) gone: VecDeque<Target>,
    hasher: RandomState,
}

impl Default for Router {
    fn default() -> Self {
        Self::new()
    }
}

impl Router {
    /// A router with no exchange but the default one, whose name is empty and which needs no
    /// declaration.
    #[must_use]
    pub fn new() -> Self {
        Self {
            exchanges: Slab::new(),
            queues: Slab::new(),
            bindings: Slab::new(),
            exchange_names: Table::default(),
            queue_names: Table::default(),
            binding_identities: Table::default(),
            binding_count: 0,
            arrivals: 0,
            gone: VecDeque::new(),
            hasher: RandomState::default(),
        }
    }

    // --- what there is -------------------------------------------------------------------------

    pub(crate) fn find_exchange(&self, name: &[u8]) -> Option<u32> {
        self.exchange_names
            .find(self.hasher.hash_one(name), |&index| {
                self.exchanges.get(index).name.as_bytes() == name
            })
            .copied()
    }

    pub(crate) fn find_queue(&self, name: &[u8]) -> Option<u32> {
        self.queue_names
            .find(self.hasher.hash_one(name), |&index| {
                self.queues.get(index).name.as_bytes() == name
            })
            .copied()
    }

    fn find_target(&self, destination: Destination<'_>) -> Option<Target> {
        match destination {
            Destination::Queue(name) => self.find_queue(name.as_bytes()).map(Target::Queue),
            Destination::Exchange(name) => {
                self.find_exchange(name.as_bytes()).map(Target::Exchange)
            }
        }
    }

    /// The exchange of this name, the default one not included.
    #[must_use]
    pub fn exchange(&self, name: &str) -> Option<Exchange<'_>> {
        self.find_exchange(name.as_bytes())
            .map(|index| self.exchange_at(index))
    }

    fn exchange_at(&self, index: u32) -> Exchange<'_> {
        let exchange = self.exchanges.get(index);
        Exchange {
            name: &exchange.name,
            kind: &exchange.kind,
            internal: exchange.internal,
            auto_delete: exchange.auto_delete,
            alternate: exchange.alternate.as_deref(),
            outgoing: exchange.outgoing_count(),
        }
    }

    /// The id of the queue of this name.
    #[must_use]
    pub fn queue(&self, name: &[u8]) -> Option<QueueId> {
        self.find_queue(name).map(|index| self.queues.get(index).id)
    }

    /// How many bindings there are, the default exchange's implicit ones not counted.
    #[must_use]
    pub const fn binding_count(&self) -> usize {
        self.binding_count
    }

    /// All bindings, in no particular order, the default exchange's implicit ones left out.
    pub fn bindings(&self) -> impl Iterator<Item = Binding<'_>> {
        let bindings = self.bindings.iter();
        let bindings = bindings.filter(|binding| self.is_there(binding));
        bindings.map(|binding| self.describe(binding))
    }

    /// Numbers of bindings are below this. A binding keeps its number while it is there; then
    /// another one may get it.
    #[must_use]
    pub const fn binding_numbers(&self) -> u32 {
        self.bindings.items.len() as u32
    }

    /// The binding of this number, if there is one.
    #[must_use]
    pub fn binding(&self, number: u32) -> Option<Binding<'_>> {
        let binding = self.bindings.items.get(number as usize)?.as_ref()?;
        self.is_there(binding).then(|| self.describe(binding))
    }

    /// How many queues and exchanges have ever come, for [`Self::binding_among`].
    #[must_use]
    pub const fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// The binding of this number, if there is one, and both of its ends were there when so many
    /// queues and exchanges had come.
    #[must_use]
    pub fn binding_among(&self, arrivals: u64, number: u32) -> Option<Binding<'_>> {
        let binding = self.bindings.items.get(number as usize)?.as_ref()?;
        let source = self.exchanges.get(binding.source).since;
        let target = match binding.target {
            Target::Queue(index) => self.queues.get(index).since,
            Target::Exchange(index) => self.exchanges.get(index).since,
        };
        let are_early = source < arrivals && target < arrivals;
        (are_early && self.is_there(binding)).then(|| self.describe(binding))
    }

    /// The numbers of the bindings that lead away from an exchange.
    pub fn numbers_from(&self, exchange: &str) -> impl Iterator<Item = u32> {
        let entries = match self.find_exchange(exchange.as_bytes()) {
            Some(index) => self.exchanges.get(index).outgoing.as_slice(),
            None => &[],
        };
        let numbers = entries.iter().map(|entry| entry.binding);
        numbers.filter(|number| self.is_there(self.bindings.get(*number)))
    }

    /// The numbers of the bindings that lead to a queue or an exchange.
    pub fn numbers_to(&self, destination: Destination<'_>) -> impl Iterator<Item = u32> {
        let incoming: &[u32] = match self.find_target(destination) {
            Some(target) => self.incoming(target),
            None => &[],
        };
        let numbers = incoming.iter().copied();
        numbers.filter(|number| self.is_there(self.bindings.get(*number)))
    }

    /// The bindings that lead away from an exchange.
    pub fn bindings_from(&self, exchange: &str) -> impl Iterator<Item = Binding<'_>> {
        let numbers = self.numbers_from(exchange);
        numbers.map(|number| self.describe(self.bindings.get(number)))
    }

    /// The bindings that lead away from an exchange and have this key. A direct exchange looks them
    /// up, any other one looks through all that lead away from it.
    pub fn bindings_with_key<'a>(
        &'a self,
        exchange: &str,
        key: &[u8],
    ) -> impl Iterator<Item = Binding<'a>> {
        let exchange = self.find_exchange(exchange.as_bytes());
        let entries = match exchange.map(|index| self.exchanges.get(index)) {
            Some(exchange) => match &exchange.index {
                Index::Direct(keys) | Index::Partitions(Partitions { keys, .. }) => {
                    keys.get(key).map_or(&[][..], Entries::as_slice)
                }
                _ => exchange.outgoing.as_slice(),
            },
            None => &[],
        };
        let bindings = entries.iter().map(|entry| self.bindings.get(entry.binding));
        let bindings = bindings.filter(|binding| self.is_there(binding));
        let bindings = bindings.map(|binding| self.describe(binding));
        bindings.filter(move |binding| binding.routing_key == key)
    }

    /// The bindings that lead to a queue or an exchange.
    pub fn bindings_to(&self, destination: Destination<'_>) -> impl Iterator<Item = Binding<'_>> {
        let numbers = self.numbers_to(destination);
        numbers.map(|number| self.describe(self.bindings.get(number)))
    }

    /// Whether a binding exists.
    #[must_use]
    pub fn is_bound(
        &self,
        source: &str,
        destination: Destination<'_>,
        key: &[u8],
        arguments: &FieldTable,
    ) -> bool {
        let (Some(source), Some(target)) = (
            self.find_exchange(source.as_bytes()),
            self.find_target(destination),
        ) else {
            return false;
        };
        self.find_binding(source, target, key, &sorted(arguments))
            .is_some()
    }

    fn describe<'a>(&'a self, binding: &'a BindingEntry) -> Binding<'a> {
        Binding {
            source: &self.exchanges.get(binding.source).name,
            destination: match binding.target {
                Target::Queue(index) => Destination::Queue(&self.queues.get(index).name),
                Target::Exchange(index) => Destination::Exchange(&self.exchanges.get(index).name),
            },
            routing_key: &binding.key,
            arguments: &binding.arguments,
        }
    }

    pub(crate) fn incoming(&self, target: Target) -> &[u32] {
        match target {
            Target::Queue(index) => &self.queues.get(index).incoming,
            Target::Exchange(index) => &self.exchanges.get(index).incoming,
        }
    }

    fn incoming_mut(&mut self, target: Target) -> &mut Vec<u32> {
        match target {
            Target::Queue(index) => &mut self.queues.get_mut(index).incoming,
            Target::Exchange(index) => &mut self.exchanges.get_mut(index).incoming,
        }
    }

    // --- changes -------------------------------------------------------------------------------

    /// Adds an exchange; false if there is one of that name, which is left as it is. The default
    /// exchange exists already.
    pub fn add_exchange(&mut self, name: &str, kind: Kind, settings: ExchangeSettings<'_>) -> bool {
        if name.is_empty() || self.find_exchange(name.as_bytes()).is_some() {
            return false;
        }
        let index = self.exchanges.insert(ExchangeEntry {
            name: name.into(),
            index: Index::of(&kind),
            kind,
            internal: settings.internal,
            auto_delete: settings.auto_delete,
            alternate: settings.alternate.map(Into::into),
            is_gone: false,
            since: self.arrivals,
            outgoing: Entries::default(),
            outgoing_to_gone: 0,
            incoming: Vec::new(),
        });
        self.arrivals += 1;
        let (exchanges, hasher) = (&self.exchanges, &self.hasher);
        self.exchange_names
            .insert_unique(hasher.hash_one(name.as_bytes()), index, |&other| {
                hasher.hash_one(exchanges.get(other).name.as_bytes())
            });
        true
    }

    /// Sets where messages go that match none of an exchange's bindings; false if there is no such
    /// exchange.
    pub fn set_alternate(&mut self, exchange: &str, alternate: Option<&str>) -> bool {
        match self.find_exchange(exchange.as_bytes()) {
            Some(index) => {
                self.exchanges.get_mut(index).alternate = alternate.map(Into::into);
                true
            }
            None => false,
        }
    }

    /// Adds a queue, which binds it to the default exchange by its name; false if there is one of
    /// that name.
    pub fn add_queue(&mut self, name: &str, id: QueueId) -> bool {
        if self.find_queue(name.as_bytes()).is_some() {
            return false;
        }
        let index = self.queues.insert(QueueEntry {
            name: name.into(),
            id,
            is_gone: false,
            since: self.arrivals,
            incoming: Vec::new(),
        });
        self.arrivals += 1;
        let (queues, hasher) = (&self.queues, &self.hasher);
        self.queue_names
            .insert_unique(hasher.hash_one(name.as_bytes()), index, |&other| {
                hasher.hash_one(queues.get(other).name.as_bytes())
            });
        true
    }

    /// Removes an exchange with all its bindings; nothing if there is none of that name. Where
    /// these are very many, [`Self::unlink`] has work left.
    pub fn remove_exchange(&mut self, name: &str) -> Option<Unbound> {
        let index = self.find_exchange(name.as_bytes())?;
        let hash = self.hasher.hash_one(name.as_bytes());
        let found = self.exchange_names.remove(hash, |&other| other == index);
        assert!(found.is_some(), "exchange {name:?} has no name entry");
        Some(self.remove_target(Target::Exchange(index)))
    }

    /// Removes a queue with all its bindings; nothing if there is none of that name. Where these
    /// are very many, [`Self::unlink`] has work left.
    pub fn remove_queue(&mut self, name: &str) -> Option<Unbound> {
        let index = self.find_queue(name.as_bytes())?;
        let hash = self.hasher.hash_one(name.as_bytes());
        let found = self.queue_names.remove(hash, |&other| other == index);
        assert!(found.is_some(), "queue {name:?} has no name entry");
        Some(self.remove_target(Target::Queue(index)))
    }

    pub(crate) fn note_if_idle(&self, exchange: u32, unbound: &mut Unbound) {
        let exchange = self.exchanges.get(exchange);
        if exchange.auto_delete && exchange.outgoing_count() == 0 {
            unbound.idle_exchanges.push(Arc::clone(&exchange.name));
        }
    }

    /// Checks a binding and makes it; false if it exists. Its identity is source, destination, key
    /// and arguments.
    ///
    /// # Errors
    /// If the source or the destination does not exist, or key or arguments do not fit the
    /// exchange's type.
    pub fn bind(
        &mut self,
        source: &str,
        destination: Destination<'_>,
        key: &[u8],
        arguments: &FieldTable,
    ) -> Result<bool, BindError> {
        let source = self
            .find_exchange(source.as_bytes())
            .ok_or(BindError::NoSource)?;
        let target = self
            .find_target(destination)
            .ok_or(BindError::NoDestination)?;
        let arguments = sorted(arguments);
        let prepared = self.prepare(source, destination, key, &arguments)?;
        let identity = self.identity_hash(source, target, key, &arguments);
        let found = self.find_identity(identity, (source, target), key, &arguments);
        if found.is_some() {
            return Ok(false);
        }
        let index = self.bindings.insert(BindingEntry {
            source,
            target,
            key: key.into(),
            argument_bytes: arguments.weight() as u64,
            identity,
            arguments,
            prepared,
            outgoing_slot: 0,
            incoming_slot: 0,
            index_node: 0,
            index_slot: 0,
        });
        self.link_binding(index);
        self.binding_count += 1;
        Ok(true)
    }

    fn prepare(
        &self,
        source: u32,
        destination: Destination<'_>,
        key: &[u8],
        arguments: &FieldTable,
    ) -> Result<Prepared, BindError> {
        match self.exchanges.get(source).kind.routes_as() {
            Kind::Headers => HeadersMatcher::parse(arguments)
                .map(|matcher| Prepared::Headers(Box::new(matcher), IndexSlots::new())),
            Kind::ConsistentHash(_) => Ok(Prepared::Weight {
                candidate: hash::stable(destination.name().as_bytes())
                    ^ u64::from(matches!(destination, Destination::Exchange(_))),
                weight: kind::weight(key)?,
            }),
            Kind::Topic if topic::hashes(key) > TOPIC_HASHES_MAX => Err(BindError::TopicHashes),
            Kind::LocalRandom if matches!(destination, Destination::Exchange(_)) => {
                Err(BindError::LocalRandomDestination)
            }
            _ => Ok(Prepared::Nothing),
        }
    }

    /// What tells bindings apart goes into the hash whole: many bindings of one queue differ in
    /// nothing but their arguments.
    fn identity_hash(&self, source: u32, target: Target, key: &[u8], args: &FieldTable) -> u64 {
        let mut state = self.hasher.build_hasher();
        (source, target, key).hash(&mut state);
        hash_table(args, &mut state);
        state.finish()
    }

    fn find_binding(
        &self,
        source: u32,
        target: Target,
        key: &[u8],
        arguments: &FieldTable,
    ) -> Option<u32> {
        let identity = self.identity_hash(source, target, key, arguments);
        self.find_identity(identity, (source, target), key, arguments)
    }

    /// The same where the hash is known.
    fn find_identity(
        &self,
        identity: u64,
        ends: (u32, Target),
        key: &[u8],
        arguments: &FieldTable,
    ) -> Option<u32> {
        let found = self.binding_identities.find(identity, |&index| {
            let binding = self.bindings.get(index);
            binding.identity == identity
                && (binding.source, binding.target) == ends
                && *binding.key == *key
                && same_table(&binding.arguments, arguments)
        });
        found.copied()
    }

    /// Enters a binding into every list and index.
    fn link_binding(&mut self, index: u32) {
        let binding = self.bindings.get(index);
        let (source, target) = (binding.source, binding.target);
        let (bindings, identity) = (&self.bindings, binding.identity);
        self.binding_identities
            .insert_unique(identity, index, |&other| bindings.get(other).identity);
        let entry = Entry {
            target,
            binding: index,
        };
        let outgoing_slot = self.exchanges.get_mut(source).outgoing.push(entry);
        let incoming = self.incoming_mut(target);
        incoming.push(index);
        let incoming_slot = incoming.len() as u32 - 1;
        let (index_node, index_slot) = self.link_index(source, entry);
        let binding = self.bindings.get_mut(index);
        binding.outgoing_slot = outgoing_slot;
        binding.incoming_slot = incoming_slot;
        (binding.index_node, binding.index_slot) = (index_node, index_slot);
    }

    fn link_index(&mut self, source: u32, entry: Entry) -> (u32, u32) {
        let key = &self.bindings.get(entry.binding).key;
        match &mut self.exchanges.get_mut(source).index {
            Index::Direct(keys) => (0, keys.push(key, entry)),
            Index::Partitions(partitions) => {
                let slot = partitions.keys.push(key, entry);
                if let Target::Queue(queue) = entry.target
                    && self.queues.get(queue).id.is_stream()
                {
                    let arguments = &self.bindings.get(entry.binding).arguments;
                    partitions.add(arguments, queue, |queue| &*self.queues.get(queue).name);
                }
                (0, slot)
            }
            Index::Topic(trie) => trie.insert(key, entry),
            Index::Headers(headers) => {
                if let Prepared::Headers(matcher, slots) =
                    &mut self.bindings.get_mut(entry.binding).prepared
                {
                    *slots = headers.insert(matcher, entry);
                }
                (0, 0)
            }
            Index::Modulus(ordered) => {
                // Taken out meanwhile, so that bindings can be compared.
                let mut ordered = std::mem::take(ordered);
                let binding = self.bindings.get(entry.binding);
                ordered.insert(entry.binding, |other| {
                    let there = (self.bindings.get(other), other);
                    self.modulus_order(there, (binding, entry.binding))
                });
                if let Index::Modulus(place) = &mut self.exchanges.get_mut(source).index {
                    *place = ordered;
                }
                (0, 0)
            }
            Index::ConsistentHash(tree) => match self.bindings.get(entry.binding).prepared {
                Prepared::Weight { candidate, weight } => {
                    (0, tree.insert(candidate, weight, entry))
                }
                _ => (0, 0),
            },
            Index::None => (0, 0),
        }
    }

    /// The order in which an `x-modulus-hash` exchange counts its bindings: by destination, then by
    /// key. Of one destination and key any order will do.
    fn modulus_order(&self, a: (&BindingEntry, u32), b: (&BindingEntry, u32)) -> Ordering {
        let destination = |binding| self.describe(binding).destination;
        let keys = a.0.key.cmp(&b.0.key).then(a.1.cmp(&b.1));
        destination(a.0).cmp(&destination(b.0)).then(keys)
    }

    /// Removes a binding; nothing if there is none with this source, destination, key and
    /// arguments.
    pub fn unbind(
        &mut self,
        source: &str,
        destination: Destination<'_>,
        key: &[u8],
        arguments: &FieldTable,
    ) -> Option<Unbound> {
        let source = self.find_exchange(source.as_bytes())?;
        let target = self.find_target(destination)?;
        let binding = self.find_binding(source, target, key, &sorted(arguments))?;
        let mut unbound = Unbound {
            bindings: 1,
            argument_bytes: self.bindings.get(binding).argument_bytes,
            ..Unbound::default()
        };
        self.unlink_binding(binding);
        self.binding_count -= 1;
        self.note_if_idle(source, &mut unbound);
        Some(unbound)
    }

    /// Takes a binding out of every list and index.
    pub(crate) fn unlink_binding(&mut self, index: u32) {
        let binding = self.bindings.remove(index);
        let identities = &mut self.binding_identities;
        let found = identities.remove(binding.identity, |&other| other == index);
        assert!(found.is_some(), "binding {index} has no identity entry");
        let is_to_gone = self.is_gone(binding.target);
        let exchange = self.exchanges.get_mut(binding.source);
        exchange.outgoing_to_gone -= usize::from(is_to_gone);
        if let Some(moved) = exchange.outgoing.remove(binding.outgoing_slot, index) {
            self.bindings.get_mut(moved).outgoing_slot = binding.outgoing_slot;
        }
        let incoming = self.incoming_mut(binding.target);
        incoming.swap_remove(binding.incoming_slot as usize);
        if let Some(&moved) = incoming.get(binding.incoming_slot as usize) {
            self.bindings.get_mut(moved).incoming_slot = binding.incoming_slot;
        }
        if let Some(moved) = self.unlink_index(index, &binding) {
            self.bindings.get_mut(moved).index_slot = binding.index_slot;
        }
    }

    /// Takes a binding out of its exchange's index; returns the binding that has moved into its
    /// slot, if any.
    fn unlink_index(&mut self, index: u32, binding: &BindingEntry) -> Option<u32> {
        match &mut self.exchanges.get_mut(binding.source).index {
            Index::Direct(keys) => keys.remove(&binding.key, binding.index_slot, index),
            Index::Partitions(partitions) => {
                if let Target::Queue(queue) = binding.target
                    && self.queues.get(queue).id.is_stream()
                {
                    partitions.remove(&binding.arguments, queue, |queue| {
                        &*self.queues.get(queue).name
                    });
                }
                partitions
                    .keys
                    .remove(&binding.key, binding.index_slot, index)
            }
            Index::Topic(trie) => trie.remove(binding.index_node, binding.index_slot, index),
            Index::Headers(headers) => {
                if let Prepared::Headers(_, slots) = &binding.prepared {
                    let bindings = &mut self.bindings;
                    headers.remove(index, slots, |other, to| {
                        if let Prepared::Headers(_, slots) = &mut bindings.get_mut(other).prepared {
                            headers_index::moved(slots, to);
                        }
                    });
                }
                None
            }
            Index::Modulus(ordered) => {
                let mut ordered = std::mem::take(ordered);
                ordered.remove(|other| match other == index {
                    true => Ordering::Equal,
                    false => {
                        let there = (self.bindings.get(other), other);
                        self.modulus_order(there, (binding, index))
                    }
                });
                if let Index::Modulus(place) = &mut self.exchanges.get_mut(binding.source).index {
                    *place = ordered;
                }
                None
            }
            Index::ConsistentHash(tree) => match binding.prepared {
                Prepared::Weight { candidate, weight } => {
                    tree.remove(candidate, weight, binding.index_slot, index)
                }
                _ => None,
            },
            Index::None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foldhash::fast::FixedState;
    use leveret_types::FieldValue;
    use std::collections::HashSet;

    /// The hash of a binding whose argument is this.
    fn identity(router: &Router, value: FieldValue) -> u64 {
        let arguments = FieldTable::from_iter([("a".to_owned(), value)]);
        router.identity_hash(0, Target::Queue(0), b"", &arguments)
    }

    #[test]
    fn names_that_lie_together_by_a_known_seed_do_not_by_that_of_a_router() {
        // A client can compute these: they all have one place among 256.
        let known = FixedState::default();
        let place = |hash: u64| hash % 256;
        let names = (0_u32..).map(|number| format!("q{number}"));
        let together = |name: &String| place(known.hash_one(name.as_bytes())) == 0;
        let names: Vec<String> = names.filter(together).take(256).collect();
        for _ in 0..2 {
            let router = Router::new();
            let places = names
                .iter()
                .map(|name| place(router.hasher.hash_one(name.as_bytes())));
            let places: HashSet<u64> = places.collect();
            assert!(places.len() > 64, "{} places", places.len());
        }
    }

    #[test]
    fn what_is_nested_in_arguments_tells_bindings_apart() {
        let router = Router::new();
        let nested = |number: i32| {
            let item = FieldValue::Array(vec![FieldValue::I32(number)]);
            let table = FieldTable::from_iter([("t".to_owned(), FieldValue::I32(number))]);
            [item, FieldValue::Table(table)]
        };
        let values = (0..500).flat_map(nested);
        let hashes: HashSet<u64> = values.map(|value| identity(&router, value)).collect();
        assert_eq!(hashes.len(), 1_000);
    }
}
