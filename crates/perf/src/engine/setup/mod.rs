//! From a specification to queues that are declared and connections that are open.

mod connect;
mod declare;
mod plan;
mod streams;

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use leveret_amqp::TableBuilder;

pub use connect::Threads;
pub use plan::Planned;
use plan::{check_uris, plan};

use super::dial::Dialer;
use super::template::field_table;
use crate::error::Error;
use crate::spec::{Spec, SpecError};
use crate::transport::tls_config;
use crate::uri::{Protocol, Uri};

/// What is declared, and with whom.
pub struct Setup {
    dialer: Arc<Dialer>,
    /// For how long a broken connection is tried again.
    patience_us: u64,
    protocol: Protocol,
    /// What a reader must know of what was declared.
    pub notes: Vec<String>,
    run: u16,
    /// The loads, with names of the run's own where none were given.
    pub loads: Vec<Planned>,
    /// Product and version, as the last broker that something was declared at names itself.
    pub product: (String, String),
    /// Whether there may be something to delete.
    declared: bool,
}

impl Setup {
    /// Declares what the specification needs at the brokers at `uris`. A connection that breaks
    /// later is opened again, for `reconnect_s` seconds at most.
    ///
    /// # Errors
    /// If a broker cannot be reached or refuses, or if the specification cannot be run.
    pub fn new(spec: &Spec, uris: Vec<Uri>, reconnect_s: f64) -> Result<Self, Error> {
        check_protocol(spec.protocol, &uris)?;
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
            protocol: spec.protocol,
            notes: Vec::new(),
            run,
            loads,
            product: (String::new(), String::new()),
            declared: false,
        };
        let declared = match spec.protocol {
            Protocol::Amqp => setup.declare().and_then(|()| setup.await_everywhere()),
            Protocol::Stream => setup.create_streams(),
        };
        if let Err(error) = declared {
            // Why it could not be declared matters more than what is left of it.
            let _ = setup.clean();
            return Err(error);
        }
        Ok(setup)
    }

    /// How many brokers there are.
    fn brokers(&self) -> usize {
        self.dialer.uris.len()
    }
}

/// An error if a broker is to be spoken to in another protocol than the loads'.
fn check_protocol(protocol: Protocol, uris: &[Uri]) -> Result<(), Error> {
    let Some(other) = uris.iter().find(|uri| uri.protocol != protocol) else {
        return Ok(());
    };
    let (name, scheme) = match protocol {
        Protocol::Amqp => ("AMQP", "amqp://"),
        Protocol::Stream => ("the stream protocol", "rabbitmq-stream://"),
    };
    Err(Error::Spec(SpecError::Value {
        what: "a broker's URI".to_owned(),
        value: other.to_string(),
        must: format!("the run's loads speak {name}: it must begin with {scheme}"),
    }))
}

/// Number `member`'s broker: by the list, in turn, or by all.
fn turn(list: &[usize], member: usize, uris: usize) -> usize {
    match list.len() {
        0 => member % uris,
        length => list[member % length],
    }
}

fn arguments(values: &BTreeMap<String, toml::Value>) -> Result<TableBuilder, Error> {
    let mut builder = TableBuilder::new();
    for (name, value) in field_table(values)?.iter() {
        builder.push(name, value);
    }
    Ok(builder)
}
