//! Connections: every publisher and consumer on its broker, its connection and its thread.

use std::collections::BTreeMap;
use std::sync::Arc;

use leveret_stream_protocol::OffsetSpec;

use super::{Setup, arguments, turn};
use crate::client::Opened;
use crate::confirms::Confirms;
use crate::engine::connection::{Channel, Connection, Role};
use crate::engine::consumer::{Consumer, Settling};
use crate::engine::dial::ChannelSetup;
use crate::engine::outage::Redial;
use crate::engine::publisher::{self, Form, Publisher};
use crate::engine::stream_template::StreamTemplate;
use crate::engine::template::{Bodies, Stamped, Template};
use crate::engine::worker::Worker;
use crate::error::Error;
use crate::interrupt;
use crate::schedule::Schedule;
use crate::spec::{Load, SpecError};
use crate::stream::offset_spec;
use crate::uri::Protocol;
use crate::verify::{Ledger, Order};

/// The argument of a consumer that says where in a stream it begins.
const OFFSET: &str = "x-stream-offset";
/// Chunks that may be on their way to a consumer whose load says nothing of it, as with RabbitMQ's
/// own clients.
const CREDIT: u16 = 10;

/// The threads that drive connections, with the loads of their ledgers.
pub struct Threads {
    /// The threads.
    pub workers: Vec<Worker>,
    /// For each, the load of each of its ledgers.
    pub ledger_loads: Vec<Vec<usize>>,
}

impl Setup {
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
            let stream = |index: &u32| {
                let queue = &planned.queues[*index as usize % planned.queues.len()];
                Some(queue.clone()).filter(|_| self.protocol == Protocol::Stream)
            };
            let setups = group.iter().map(|index| ChannelSetup {
                confirms: load.confirm_window > 0,
                prefetch: 0,
                stream: stream(index),
            });
            let (opened, redial) = self.open(uri, &load.publish_to, setups.collect())?;
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
                    template: self.form(load, bodies, channel, key, opened.frame_max)?,
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
        channels: Arc<[ChannelSetup]>,
    ) -> Result<(Opened, Redial), Error> {
        let uris = match like {
            [] => (0..self.brokers()).collect(),
            list => list.to_vec(),
        };
        interrupt::check()?;
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
        let shared = load.consumer_channels_per_connection;
        let shared = shared.unwrap_or(load.channels_per_connection);
        for (uri, group) in self.grouped(own, &load.consume_from, shared) {
            let setup = ChannelSetup {
                confirms: false,
                prefetch: load.prefetch,
                stream: None,
            };
            let setups = vec![setup; group.len()].into();
            let (opened, redial) = self.open(uri, &load.consume_from, setups)?;
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
                    settling: self.settling(load),
                    begins: self.begins(load)?,
                    next_offset: 0,
                    credit: match load.prefetch {
                        0 => CREDIT,
                        credit => credit,
                    },
                };
                let role = Role::Consumer(Box::new(consumer));
                channels.push(Channel::new(role, Stamped::of(&load.size)));
            }
            connections.push(Connection::new(opened, channels, at, redial));
        }
        Ok(())
    }

    fn form(
        &self,
        load: &Load,
        bodies: Bodies,
        channel: u16,
        key: &str,
        frame_max: u32,
    ) -> Result<Form, Error> {
        Ok(match self.protocol {
            Protocol::Amqp => Form::Amqp(Template::new(load, bodies, channel, key, frame_max)?),
            Protocol::Stream => {
                let publisher_id = (channel - 1) as u8;
                Form::Stream(StreamTemplate::new(
                    publisher_id,
                    bodies,
                    load.batch,
                    frame_max,
                ))
            }
        })
    }

    /// How a consumer settles: one of a stream does not.
    fn settling(&self, load: &Load) -> Settling {
        let mut load = load.clone();
        load.ack.automatic |= self.protocol == Protocol::Stream;
        Settling::of(&load)
    }

    fn begins(&self, load: &Load) -> Result<OffsetSpec, Error> {
        if self.protocol == Protocol::Amqp {
            return Ok(OffsetSpec::None);
        }
        let value = load.consumer_arguments.get(OFFSET);
        offset_spec(value).map_err(|must| {
            Error::Spec(SpecError::Value {
                what: format!("consumer_arguments.{OFFSET}"),
                value: value.map(ToString::to_string).unwrap_or_default(),
                must: format!("it must be {must}"),
            })
        })
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
}
