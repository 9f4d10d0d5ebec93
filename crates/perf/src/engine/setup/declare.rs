//! Exchanges and queues: declared before the load, deleted after it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::{Duration, Instant};

use leveret_amqp::{RawTable, exchange, queue};

use super::plan::Planned;
use super::{Setup, arguments, turn};
use crate::client::Client;
use crate::error::Error;
use crate::interrupt;
use crate::spec::{Load, SpecError};
use crate::uri::Protocol;

/// How long what was declared at one node of a cluster may take to reach the others.
pub(super) const SPREAD: Duration = Duration::from_secs(10);
/// How often that is looked at.
pub(super) const LOOK: Duration = Duration::from_millis(20);
/// Reply code for a queue or an exchange that there is not.
const NOT_FOUND: u16 = 404;
/// Reply code for an exchange that is to go if it is unused, and is not.
const IN_USE: u16 = 406;

impl Setup {
    /// Waits until every broker knows the queues: in a cluster, what one was told reaches the
    /// others a moment later.
    pub(super) fn await_everywhere(&self) -> Result<(), Error> {
        if self.brokers() < 2 {
            return Ok(());
        }
        let until = Instant::now() + SPREAD;
        for uri in 0..self.brokers() {
            // Each node learns in the order in which things were declared: the last stands for all.
            let last = self
                .loads
                .iter()
                .filter(|planned| planned.knows_queues())
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
                    interrupt::check()?;
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
        client.declare_queue(1, &passive_queue(queue))?;
        client.close()
    }

    pub(super) fn declare(&mut self) -> Result<(), Error> {
        let mut clients = BTreeMap::new();
        for number in 0..self.loads.len() {
            for at in 0..self.loads[number].queues.len() {
                interrupt::check()?;
                let uri = turn(&self.loads[number].load.declare_at, at, self.brokers());
                if let Entry::Vacant(place) = clients.entry(uri) {
                    let mut client = self.dialer.client(uri)?;
                    client.open_channel(1)?;
                    self.product = client.product();
                    place.insert(client);
                }
                let Some(client) = clients.get_mut(&uri) else {
                    continue;
                };
                if at == 0 {
                    self.declare_exchange(number, uri, client)?;
                }
                self.declared = true;
                let planned = &self.loads[number];
                if let (0, Some(stream)) = (at, &planned.source) {
                    declare_source(client, &planned.load, stream)?;
                }
                declare_queue(client, planned, at, &planned.queues[at])?;
            }
        }
        clients.into_values().try_for_each(Client::close)
    }

    /// Declares a load's exchange. One that was not there before is the run's own, unless a queue
    /// that stays is bound to it.
    fn declare_exchange(
        &mut self,
        number: usize,
        uri: usize,
        client: &mut Client,
    ) -> Result<(), Error> {
        let load = &self.loads[number].load;
        if load.predeclared && !load.exchange.is_empty() {
            let found = client.declare_exchange(1, &passive_exchange(load));
            return found.map_err(|error| missing("exchange", &load.exchange, load, error));
        }
        if is_predeclared(&load.exchange) {
            return Ok(());
        }
        let stays =
            |other: &Planned| other.load.exchange == load.exchange && !other.queues_are_ours;
        let all_ours = !self.loads.iter().any(stays);
        let is_new = all_ours && !self.knows_exchange(uri, load)?;
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
        client.declare_exchange(1, &declare)?;
        self.loads[number].exchange_is_ours |= is_new;
        Ok(())
    }

    /// Whether there is such an exchange already. Where there is none, asking costs a channel.
    fn knows_exchange(&self, uri: usize, load: &Load) -> Result<bool, Error> {
        let mut client = self.dialer.client(uri)?;
        client.open_channel(1)?;
        match client.declare_exchange(1, &passive_exchange(load)) {
            Ok(()) => client.close().map(|()| true),
            Err(Error::Closed {
                code: NOT_FOUND, ..
            }) => client.close().map(|()| false),
            // One that nobody may ask for is nobody's to delete.
            Err(Error::Closed {
                scope: "channel", ..
            }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Deletes the queues under names of the run's own, and the exchanges that it made and that
    /// nobody else uses, at the first broker that lets it.
    ///
    /// # Errors
    /// If none can be reached, or if all refuse: what the first said.
    pub fn clean(&self) -> Result<(), Error> {
        let is_ours = |planned: &Planned| planned.queues_are_ours || planned.exchange_is_ours;
        if !self.declared || !self.loads.iter().any(is_ours) {
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
        if self.protocol == Protocol::Stream {
            return self.delete_streams(uri);
        }
        let mut client = self.dialer.client(uri)?;
        client.open_channel(1)?;
        // All queues first: those of one load may be bound to the exchange of another. With a
        // stream go its views: of these deletions nothing is left to do.
        for planned in self.loads.iter().filter(|planned| planned.queues_are_ours) {
            for queue in planned.source.iter().chain(&planned.queues) {
                client.delete_queue(1, queue)?;
            }
        }
        for planned in self.loads.iter().filter(|planned| planned.exchange_is_ours) {
            match client.delete_exchange(1, &planned.load.exchange) {
                // Others have bound to it meanwhile: it stays, and the refusal cost the channel.
                Err(Error::Closed {
                    code: IN_USE,
                    scope: "channel",
                    ..
                }) => {
                    client = self.dialer.client(uri)?;
                    client.open_channel(1)?;
                }
                deleted => deleted?,
            }
        }
        client.close()
    }
}

/// An exchange that brokers have from the start.
fn is_predeclared(exchange: &str) -> bool {
    exchange.is_empty() || exchange.starts_with("amq.")
}

/// What asks for a queue without making it.
fn passive_queue(queue: &str) -> queue::Declare<'_> {
    queue::Declare {
        queue,
        passive: true,
        durable: false,
        exclusive: false,
        auto_delete: false,
        nowait: false,
        arguments: RawTable::EMPTY,
    }
}

/// What asks for a load's exchange without making it.
fn passive_exchange(load: &Load) -> exchange::Declare<'_> {
    exchange::Declare {
        exchange: &load.exchange,
        kind: &load.exchange_type,
        passive: true,
        durable: false,
        auto_delete: false,
        internal: false,
        nowait: false,
        arguments: RawTable::EMPTY,
    }
}

/// The error for what a load says is there: one that names it, where the broker does not know it.
fn missing(kind: &str, name: &str, load: &Load, error: Error) -> Error {
    match error {
        Error::Closed {
            code: NOT_FOUND, ..
        } => Error::Spec(SpecError::Value {
            what: format!("the predeclared {kind} of load `{}`", load.name),
            value: name.to_owned(),
            must: "the broker has none of that name".to_owned(),
        }),
        other => other,
    }
}

fn declare_queue(
    client: &mut Client,
    planned: &Planned,
    at: usize,
    name: &str,
) -> Result<(), Error> {
    let load = &planned.load;
    if load.predeclared {
        if !planned.knows_queues() {
            return Ok(());
        }
        let found = client.declare_queue(1, &passive_queue(name));
        return found
            .map(|_| ())
            .map_err(|error| missing("queue", name, load, error));
    }
    let mut table = arguments(&load.queue_arguments)?;
    // Classic is what a queue is that names no type: older brokers do not know the argument.
    let is_classic = load.queue_type == "classic";
    if !is_classic && !load.queue_arguments.contains_key("x-queue-type") {
        let kind = leveret_types::FieldValue::text(&load.queue_type);
        table.push("x-queue-type", &kind);
    }
    if let Some(stream) = &planned.source {
        table.push("x-stream-source", &leveret_types::FieldValue::text(stream));
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
    // Of a view it is the stream that is bound.
    if !load.exchange.is_empty() && planned.source.is_none() {
        let key = load.routing_key.as_ref().unwrap_or(&planned.queues[at]);
        client.bind(1, name, &load.exchange, key)?;
    }
    Ok(())
}

/// Declares the stream of which a load's queues are views, and binds it to the load's exchange.
fn declare_source(client: &mut Client, load: &Load, stream: &str) -> Result<(), Error> {
    let mut table = arguments(&load.stream_arguments)?;
    table.push("x-queue-type", &leveret_types::FieldValue::text("stream"));
    let declare = queue::Declare {
        queue: stream,
        passive: false,
        durable: true,
        exclusive: false,
        auto_delete: false,
        nowait: false,
        arguments: table.as_table(),
    };
    client.declare_queue(1, &declare)?;
    client.bind(1, stream, &load.exchange, stream)
}
