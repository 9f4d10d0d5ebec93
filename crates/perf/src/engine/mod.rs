//! Runs a specification: sets brokers and connections up, drives the load, watches, and at the end
//! says what was found.
//!
//! ```text
//! Engine::run ── setup ──► threads: connections, publishers, consumers, ledgers
//!      │                      │  a word each second
//!      └── coordinator ◄──────┘
//!            phases, warm-up, drain; seconds put together; local brokers sampled
//! ```

mod collect;
mod connection;
mod consumer;
mod coordinator;
mod dial;
mod notes;
mod outage;
mod publisher;
mod setup;
mod shared;
mod stream_template;
mod template;
mod worker;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::Error;
use crate::interrupt;
use crate::local::Nodes;
use crate::machine;
use crate::result::{Live, RunResult, Target, VERSION};
use crate::spec::Spec;
use crate::uri::Uri;
use coordinator::Coordinator;
use setup::Setup;

/// What runs specifications.
#[derive(Clone, Debug, Default)]
pub struct Engine {
    /// The command that the result names.
    pub command: String,
    /// The binary whose `serve` is started where a specification names no broker; the running one
    /// where none is given.
    pub binary: Option<std::path::PathBuf>,
    /// Process ids of brokers on this machine that were started elsewhere, to be sampled.
    pub pids: Vec<u32>,
}

impl Engine {
    /// Runs a specification; `live` is told each second how it goes.
    ///
    /// # Errors
    /// [`Error`] if it comes to no result. A broken promise is a result: see
    /// [`RunResult::failed`].
    pub fn run(&self, spec: &Spec, live: &mut dyn FnMut(&Live)) -> Result<RunResult, Error> {
        let result = self.run_whole(spec, live);
        // A call that a signal interrupted has failed for no other reason.
        result.map_err(|error| match interrupt::signal() {
            Some(_) => Error::Interrupted,
            None => error,
        })
    }

    fn run_whole(&self, spec: &Spec, live: &mut dyn FnMut(&Live)) -> Result<RunResult, Error> {
        spec.check()?;
        let mut nodes = if spec.uris.is_empty() {
            Some(Nodes::start(
                &spec.broker,
                spec.protocol,
                self.binary.as_deref(),
            )?)
        } else {
            None
        };
        let result = self.run_with(spec, nodes.as_mut(), live);
        match (result, nodes) {
            (Ok(mut result), Some(nodes)) => match nodes.stop() {
                // A node that was lost on the way cannot be stopped in order; the load went on.
                Err(error) if result.has_breaks() => {
                    let said = error.to_string();
                    let first = said.lines().next().unwrap_or_default();
                    result.notes.push(first.trim_end_matches(':').to_owned());
                    Ok(result)
                }
                stopped => stopped.map(|()| result),
            },
            // The first error is the one that matters; the nodes end with their value.
            (result, _) => result,
        }
    }

    fn run_with(
        &self,
        spec: &Spec,
        nodes: Option<&mut Nodes>,
        live: &mut dyn FnMut(&Live),
    ) -> Result<RunResult, Error> {
        let started_here = nodes.is_some();
        let given = || spec.uris.iter().map(|uri| Uri::parse(uri));
        let uris: Vec<Uri> = match &nodes {
            Some(nodes) => nodes.uris(),
            None => given().collect::<Result<_, _>>()?,
        };
        let mut sampler = match &nodes {
            Some(nodes) => nodes.sampler(),
            None => crate::sample::Sampler::of_pids(&self.pids),
        };
        let started = SystemTime::now().duration_since(UNIX_EPOCH);
        let threads = match spec.threads {
            0 => (machine::cores() / 2).max(1),
            threads => threads,
        };
        let shown = uris.iter().map(ToString::to_string).collect();
        // Nobody starts a single node of our own again.
        let is_alone = started_here && uris.len() == 1;
        let reconnect_s = if is_alone { 0.0 } else { spec.reconnect_s };
        let setup = Setup::new(spec, uris, reconnect_s)?;
        let outcome = setup.connect(threads, spec.seed).and_then(|workers| {
            let coordinator = Coordinator::new(spec, &setup, threads);
            coordinator.run(workers, &mut sampler, live)
        });
        // Whatever the run came to, its queues are not to be left; why they could not be deleted
        // matters less than why the run failed. Nodes of our own take them along.
        let cleaned = match outcome {
            Err(_) if started_here => Ok(()),
            _ => setup.clean(),
        };
        let outcome = outcome?;
        let mut notes = setup.notes.clone();
        notes.extend(outcome.notes);
        let has_breaks = outcome.loads.iter().any(|load| load.breaks.broken > 0);
        match cleaned {
            Err(error) if has_breaks => {
                notes.push(format!("the run's queues were not deleted: {error}"));
            }
            cleaned => cleaned?,
        }
        let modelled_device = spec.broker.model.clone().filter(|_| started_here);
        let mut usages = sampler.finish();
        if let Some(nodes) = nodes {
            notes.extend(nodes.notes());
            let of_places = nodes.place(&mut usages);
            // A modelled device says itself what a sync costs.
            notes.extend(of_places.into_iter().filter(|_| modelled_device.is_none()));
        }
        let result = RunResult {
            version: VERSION,
            name: spec.name.clone(),
            command: self.command.clone(),
            started_unix_s: started.unwrap_or(Duration::ZERO).as_secs(),
            target: Target {
                product: setup.product.0.clone(),
                version: setup.product.1.clone(),
                uris: shown,
                started_here,
            },
            machine: machine::here(),
            modelled_device,
            spec: spec.clone(),
            phases: outcome.phases,
            loads: outcome.loads,
            nodes: usages,
            generator: outcome.generator,
            notes,
            prediction: None,
        };
        Ok(result.without_passwords())
    }
}
