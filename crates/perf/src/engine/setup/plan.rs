//! What a load's names and routes come to, before anything is declared.

use crate::error::Error;
use crate::spec::{Load, SpecError};
use crate::verify::Routing;

/// A load, with what follows from it.
pub struct Planned {
    /// The load; its exchange is the one that is used.
    pub load: Load,
    /// Its queues.
    pub queues: Vec<String>,
    /// The stream that they are views of.
    pub(super) source: Option<String>,
    /// Which publisher's messages go where.
    pub routing: Routing,
    /// Number of its first publisher, over all loads.
    pub publisher_first: u16,
    pub(super) queues_are_ours: bool,
    pub(super) exchange_is_ours: bool,
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

    /// Whether the names of its queues are known: those behind an exchange that was there before
    /// need none.
    pub(super) fn knows_queues(&self) -> bool {
        self.load.names_queues() || !self.load.predeclared
    }

    /// Whether every queue has a consumer.
    #[must_use]
    pub fn is_consumed(&self) -> bool {
        self.load.consumers >= self.load.queues
    }
}

/// An error if the load names a broker that is not among `uris`.
pub(super) fn check_uris(load: &Load, uris: usize) -> Result<(), Error> {
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

/// The load number `at` of the run, with names of the run's own where it gives none.
pub(super) fn plan(
    load: &Load,
    at: usize,
    run: u16,
    publisher_first: u16,
) -> Result<Planned, Error> {
    let mut load = load.clone();
    if load.views {
        // What the stream is bound to.
        "fanout".clone_into(&mut load.exchange_type);
    }
    let exchange_is_ours = load.exchange.is_empty() && load.exchange_type != "direct";
    if exchange_is_ours {
        load.exchange = format!("perf-{run:04x}-{at}");
    }
    let routing = if load.is_everywhere() {
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
    Ok(Planned {
        queues: load.named_queues(&format!("perf-{run:04x}-{at}-%d")),
        source: load.views.then(|| format!("perf-{run:04x}-{at}-stream")),
        queues_are_ours: !load.names_queues() && !load.predeclared,
        exchange_is_ours,
        routing,
        publisher_first,
        load,
    })
}
