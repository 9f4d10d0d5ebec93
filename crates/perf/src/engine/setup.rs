//! From a specification to queues that are declared and connections that are open.

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use leveret_amqp::{RawTable, TableBuilder, exchange, queue};

use super::connection::{Channel, Connection, Role};
use super::consumer::{Consumer, Settling};
use super::dial::{ChannelSetup, Dialer};
use super::outage::Redial;
use super::publisher::{self, Publisher};
use super::template::{Bodies, Stamped, Template, field_table};
use super::worker::Worker;
use crate::client::{Client, Opened};
use crate::confirms::Confirms;
use crate::error::Error;
use crate::schedule::Schedule;
use crate::spec::{Load, Spec, SpecError};
use crate::transport::tls_config;
use crate::uri::Uri;
use crate::verify::{Ledger, Order, Routing};

/// How long what was declared at one node of a cluster may take to reach the others.
const SPREAD: Duration = Duration::from_secs(10);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Reply code for a queue that there is not.
const NOT_FOUND: u16 = 404;

/// What is declared, and with whom.
pub struct Setup {
    dialer: Arc<Dialer>,
    /// For how long a broken connection is tried again.
    patience_us: u64,
    run: u16,
    /// The loads, with names of the run's own where none were given.
    pub loads: Vec<Planned>,
    /// Product and version, as the first broker names itself.
    pub product: (String, String),
}

/// A load, with what follows from it.
pub struct Planned {
    /// The load; its exchange is the one that is used.
    pub load: Load,
    /// Its queues.
    pub queues: Vec<String>,
    /// Which publisher's messages go where.
    pub routing: Routing,
    /// Number of its first publisher, over all loads.
    pub publisher_first: u16,
    queues_are_ours: bool,
    exchange_is_ours: bool,
}

impl Planned {
    /// Queues that each message goes to.
    #[must_use]
    pub fn copies(&self) -> u64 {
        match self.routing {
            Routing::Everywhere => u64::from(self.load.queues),
            Routing::Spread { .. } => 1,
        }
    }

    /// Whether every queue has a consumer.
    #[must_use]
    pub fn is_consumed(&self) -> bool {
        self.load.consumers >= self.load.queues
    }
}

/// The threads that drive connections, with the loads of their ledgers.
pub struct Threads {
    /// The threads.
    pub workers: Vec<Worker>,
    /// For each, the load of each of its ledgers.
    pub ledger_loads: Vec<Vec<usize>>,
}

impl Setup {
    /// Declares what the specification needs at the brokers at `uris`. A connection that breaks
    /// later is opened again, for `reconnect_s` seconds at most.
    ///
    /// # Errors
    /// If a broker cannot be reached or refuses, or if the specification cannot be run.
    pub fn new(spec: &Spec, uris: Vec<Uri>, reconnect_s: f64) -> Result<Self, Error> {
        let any_tls = uris.iter().any(|uri| uri.tls);
        let tls = any_tls.then(|| tls_config(&spec.tls)).transpose();
        let tls = tls.map_err(Error::Tls)?;
        // Another run's messages must be known for such: a number by chance, and never 0.
        let run = RandomState::new().build_hasher().finish() as u16 | 1;
        let mut first: u32 = 0;
        let mut loads = Vec::new();
        for (at, load) in spec.loads.iter().enumerate() {
            check_uris(load, uris.len())?;
            loads.push(plan(load, at, run, first as u16)?);
            first += load.publishers;
        }
        let mut setup = Self {
            dialer: Arc::new(Dialer { uris, tls }),
            patience_us: (reconnect_s * 1e6) as u64,
            run,
            loads,
            product: (String::new(), String::new()),
        };
        setup.declare()?;
        setup.await_everywhere()?;
        Ok(setup)
    }

    /// Waits until every broker knows the queues: in a cluster, what one was told reaches the
    /// others a moment later.
    fn await_everywhere(&self) -> Result<(), Error> {
        if self.brokers() < 2 {
            return Ok(());
        }
        let until = Instant::now() + SPREAD;
        for uri in 0..self.brokers() {
            // Each node learns in the order in which things were declared: the last stands for all.
            let last = self
                .loads
                .iter()
                .filter_map(|planned| planned.queues.last());
            for queue in last {
                while let Err(error) = self.look_for(uri, queue) {
                    let unknown = matches!(
                        error,
                        Error::Closed {
                            code: NOT_FOUND,
                            ..
                        }
                    );
                    if !unknown || Instant::now() >= until {
                        return Err(error);
                    }
                    std::thread::sleep(LOOK);
                }
            }
        }
        Ok(())
    }

    /// An error if the broker does not know the queue, which costs its channel.
    fn look_for(&self, uri: usize, queue: &str) -> Result<(), Error> {
        let mut client = self.dialer.client(uri)?;
        client.open_channel(1)?;
        let passive = queue::Declare {
            queue,
            passive: true,
            durable: false,
            exclusive: false,
            auto_delete: false,
            nowait: false,
            arguments: RawTable::EMPTY,
        };
        client.declare_queue(1, &passive)?;
        client.close()
    }

    /// How many brokers there are.
    fn brokers(&self) -> usize {
        self.dialer.uris.len()
    }

    fn declare(&mut self) -> Result<(), Error> {
        let mut clients = BTreeMap::new();
        for planned in &self.loads {
            for (at, queue) in planned.queues.iter().enumerate() {
                let uri = turn(&planned.load.declare_at, at, self.brokers());
                if let std::collections::btree_map::Entry::Vacant(place) = clients.entry(uri) {
                    let mut client = self.dialer.client(uri)?;
                    client.open_channel(1)?;
                    self.product = client.product();
                    place.insert(client);
                }
                let Some(client) = clients.get_mut(&uri) else {
                    continue;
                };
                if at == 0 {
                    declare_exchange(client, planned)?;
                }
                declare_queue(client, planned, at, queue)?;
            }
        }
        clients.into_values().try_for_each(Client::close)
    }

    /// Opens all connections, on so many threads.
    ///
    /// # Errors
    /// If a broker refuses one, or a payload cannot be read.
    pub fn connect(&self, threads: usize, seed: u64) -> Result<Threads, Error> {
        let mut workers = Vec::new();
        let mut ledger_loads = Vec::new();
        for thread in 0..threads {
            let mut connections = Vec::new();
            let mut ledgers = Vec::new();
            let mut loads = Vec::new();
            for (at, planned) in self.loads.iter().enumerate() {
                if planned.load.verify {
                    let own = (0..planned.load.queues).filter(|q| *q as usize % threads == thread);
                    let publishers = planned.load.publishers;
                    ledgers.extend(own.map(|q| Ledger::new(q, planned.routing, publishers)));
                    loads.resize(ledgers.len(), at);
                }
                self.consumers(at, (thread, threads), &ledgers, &loads, &mut connections)?;
                self.publishers(at, (thread, threads), seed, &mut connections)?;
            }
            let count = self.loads.len();
            let redial = (&self.dialer, self.patience_us);
            workers.push(Worker::new(thread, connections, ledgers, count, redial)?);
            ledger_loads.push(loads);
        }
        Ok(Threads {
            workers,
            ledger_loads,
        })
    }

    /// Opens a load's publishers of one thread.
    fn publishers(
        &self,
        at: usize,
        (thread, threads): (usize, usize),
        seed: u64,
        connections: &mut Vec<Connection>,
    ) -> Result<(), Error> {
        let planned = &self.loads[at];
        let load = &planned.load;
        let bodies = Bodies::new(load, seed)?;
        // Where there are several threads, a queue's publishers and consumers are on different
        // ones.
        let own = (0..load.publishers).filter(|p| (*p as usize + 1) % threads == thread);
        for (uri, group) in self.grouped(own, &load.publish_to, load.channels_per_connection) {
            let setup = ChannelSetup {
                confirms: load.confirm_window > 0,
                prefetch: 0,
            };
            let (opened, redial) = self.open(uri, &load.publish_to, setup, group.len())?;
            let mut channels = Vec::new();
            for (channel, index) in (1..).zip(group) {
                let number = planned.publisher_first + index as u16;
                let bodies = bodies.seeded(seed.wrapping_add(u64::from(number)));
                let queue = &planned.queues[index as usize % planned.queues.len()];
                let key = load.routing_key.as_ref().unwrap_or(queue);
                let publisher = Publisher {
                    run: self.run,
                    number,
                    load: at,
                    template: Template::new(load, bodies, channel, key, opened.frame_max)?,
                    schedule: Schedule::new(load.rate.clone(), 0),
                    offset_us: publisher::offset_us(&load.rate, index, load.publishers),
                    count: publisher::count(load.count),
                    window: (load.confirm_window > 0).then_some(u64::from(load.confirm_window)),
                    confirms: Confirms::default(),
                    resend: Default::default(),
                    republished: Default::default(),
                    in_doubt_to: 0,
                    returned: Default::default(),
                    sequence: 0,
                    finished: false,
                    held: None,
                };
                let role = Role::Publisher(Box::new(publisher));
                channels.push(Channel::new(role, Stamped::of(&load.size)));
            }
            connections.push(Connection::new(opened, channels, at, redial));
        }
        Ok(())
    }

    /// A connection to broker number `uri` with so many channels, and how it is opened again: at
    /// the next of the brokers that its like connect to.
    fn open(
        &self,
        uri: usize,
        like: &[usize],
        setup: ChannelSetup,
        channels: usize,
    ) -> Result<(Opened, Redial), Error> {
        let uris = match like {
            [] => (0..self.brokers()).collect(),
            list => list.to_vec(),
        };
        let channels: Arc<[ChannelSetup]> = vec![setup; channels].into();
        let opened = self.dialer.open(uri, &channels)?;
        let at = uris.iter().position(|at| *at == uri).unwrap_or(0);
        Ok((opened, Redial { uris, at, channels }))
    }

    /// Opens a load's consumers of one thread: those of its own queues.
    fn consumers(
        &self,
        at: usize,
        (thread, threads): (usize, usize),
        ledgers: &[Ledger],
        ledger_loads: &[usize],
        connections: &mut Vec<Connection>,
    ) -> Result<(), Error> {
        let planned = &self.loads[at];
        let load = &planned.load;
        let queue_of = |consumer: u32| consumer % load.queues;
        let own = (0..load.consumers).filter(|c| queue_of(*c) as usize % threads == thread);
        for (uri, group) in self.grouped(own, &load.consume_from, load.channels_per_connection) {
            let setup = ChannelSetup {
                confirms: false,
                prefetch: load.prefetch,
            };
            let (opened, redial) = self.open(uri, &load.consume_from, setup, group.len())?;
            let mut channels = Vec::new();
            for index in group {
                let queue = queue_of(index);
                let is_its =
                    |(ledger, at_of): (&Ledger, &usize)| *at_of == at && ledger.queue() == queue;
                let publishers = planned.routing.publishers_of_a_queue(load.publishers);
                let consumer = Consumer {
                    run: self.run,
                    load: at,
                    publishers: (planned.publisher_first, load.publishers),
                    queue: planned.queues[queue as usize].clone(),
                    arguments: arguments(&load.consumer_arguments)?
                        .as_table()
                        .as_bytes()
                        .to_vec(),
                    ledger: ledgers.iter().zip(ledger_loads).position(is_its),
                    order: Order::new(publishers),
                    settling: Settling::of(load),
                };
                let role = Role::Consumer(Box::new(consumer));
                channels.push(Channel::new(role, Stamped::of(&load.size)));
            }
            connections.push(Connection::new(opened, channels, at, redial));
        }
        Ok(())
    }

    /// Members by the broker that they connect to, in groups that share a connection.
    fn grouped(
        &self,
        members: impl Iterator<Item = u32>,
        at: &[usize],
        group: u32,
    ) -> Vec<(usize, Vec<u32>)> {
        let mut by_uri: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for member in members {
            let uri = turn(at, member as usize, self.brokers());
            by_uri.entry(uri).or_default().push(member);
        }
        let groups = by_uri.into_iter().flat_map(|(uri, members)| {
            let groups = members.chunks(group as usize).map(<[u32]>::to_vec);
            groups.map(|group| (uri, group)).collect::<Vec<_>>()
        });
        groups.collect()
    }

    /// Deletes what was declared under names of the run's own, at the first broker that lets it.
    ///
    /// # Errors
    /// If none can be reached, or if all refuse: what the first said.
    pub fn clean(&self) -> Result<(), Error> {
        if !self
            .loads
            .iter()
            .any(|l| l.queues_are_ours || l.exchange_is_ours)
        {
            return Ok(());
        }
        let first = self.clean_at(0);
        let mut others = 1..self.brokers();
        if first.is_err() && others.any(|uri| self.clean_at(uri).is_ok()) {
            return Ok(());
        }
        first
    }

    fn clean_at(&self, uri: usize) -> Result<(), Error> {
        let mut client = self.dialer.client(uri)?;
        client.open_channel(1)?;
        for planned in &self.loads {
            if planned.queues_are_ours {
                for queue in &planned.queues {
                    client.delete_queue(1, queue)?;
                }
            }
            if planned.exchange_is_ours {
                client.delete_exchange(1, &planned.load.exchange)?;
            }
        }
        client.close()
    }
}

/// Number `member`'s broker: by the list, in turn, or by all.
fn turn(list: &[usize], member: usize, uris: usize) -> usize {
    match list.len() {
        0 => member % uris,
        length => list[member % length],
    }
}

fn check_uris(load: &Load, uris: usize) -> Result<(), Error> {
    for list in [&load.publish_to, &load.consume_from, &load.declare_at] {
        if let Some(wrong) = list.iter().find(|at| **at >= uris) {
            return Err(Error::Spec(SpecError::Value {
                what: format!("a broker's number in load `{}`", load.name),
                value: wrong.to_string(),
                must: format!("there are {uris}, counted from 0"),
            }));
        }
    }
    Ok(())
}

fn plan(load: &Load, at: usize, run: u16, publisher_first: u16) -> Result<Planned, Error> {
    let mut load = load.clone();
    let exchange_is_ours = load.exchange.is_empty() && load.exchange_type != "direct";
    if exchange_is_ours {
        load.exchange = format!("perf-{run:04x}-{at}");
    }
    let is_everywhere =
        load.exchange_type == "fanout" || (!load.exchange.is_empty() && load.routing_key.is_some());
    let routing = if is_everywhere {
        Routing::Everywhere
    } else {
        Routing::Spread {
            queues: load.queues,
        }
    };
    let known = ["direct", "fanout", "topic"].contains(&load.exchange_type.as_str());
    if !known && load.verify {
        return Err(Error::Spec(SpecError::Value {
            what: "exchange_type".to_owned(),
            value: load.exchange_type,
            must: "it must be `direct`, `fanout` or `topic`, or `verify` must be false: nobody \
                   else knows where its messages go"
                .to_owned(),
        }));
    }
    let pattern = match &load.queue_name {
        None => format!("perf-{run:04x}-{at}-%d"),
        Some(name) if load.queues > 1 && !name.contains("%d") => format!("{name}-%d"),
        Some(name) => name.clone(),
    };
    let name = |number: u32| pattern.replace("%d", &number.to_string());
    Ok(Planned {
        queues: (1..=load.queues).map(name).collect(),
        queues_are_ours: load.queue_name.is_none(),
        exchange_is_ours,
        routing,
        publisher_first,
        load,
    })
}

/// An exchange that brokers have from the start.
fn is_predeclared(exchange: &str) -> bool {
    exchange.is_empty() || exchange.starts_with("amq.")
}

fn declare_exchange(client: &mut Client, planned: &Planned) -> Result<(), Error> {
    let load = &planned.load;
    if load.predeclared || is_predeclared(&load.exchange) {
        return Ok(());
    }
    let declare = exchange::Declare {
        exchange: &load.exchange,
        kind: &load.exchange_type,
        passive: false,
        durable: load.durable,
        auto_delete: false,
        internal: false,
        nowait: false,
        arguments: RawTable::EMPTY,
    };
    client.declare_exchange(1, &declare)
}

fn declare_queue(
    client: &mut Client,
    planned: &Planned,
    at: usize,
    name: &str,
) -> Result<(), Error> {
    let load = &planned.load;
    if load.predeclared {
        return Ok(());
    }
    let mut table = arguments(&load.queue_arguments)?;
    // Classic is what a queue is that names no type: older brokers do not know the argument.
    let is_classic = load.queue_type == "classic";
    if !is_classic && !load.queue_arguments.contains_key("x-queue-type") {
        let kind = leveret_types::FieldValue::text(&load.queue_type);
        table.push("x-queue-type", &kind);
    }
    let declare = queue::Declare {
        queue: name,
        passive: false,
        durable: load.durable,
        exclusive: false,
        auto_delete: load.auto_delete,
        nowait: false,
        arguments: table.as_table(),
    };
    client.declare_queue(1, &declare)?;
    if !load.exchange.is_empty() {
        let key = load.routing_key.as_ref().unwrap_or(&planned.queues[at]);
        client.bind(1, name, &load.exchange, key)?;
    }
    Ok(())
}

fn arguments(values: &BTreeMap<String, toml::Value>) -> Result<TableBuilder, Error> {
    let mut builder = TableBuilder::new();
    for (name, value) in field_table(values)?.iter() {
        builder.push(name, value);
    }
    Ok(builder)
}
