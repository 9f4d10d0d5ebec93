//! The streams of a node without threads: what the streams' own thread does in the broker.

use super::env::NodeEnv;
use leveret_cluster::Env;
use leveret_cluster::streams::{StreamChange, settings_here};
use leveret_metadata::QueueRecord;
use leveret_storage::{Disk, StreamFiles};
use leveret_stream::{Command, Events, SessionId};
use leveret_stream_host::StreamHost;
use leveret_types::{Now, QueueId};
use std::path::Path;

/// What the streams of a node are told.
#[derive(Debug)]
pub(super) enum StreamInput {
    Change(StreamChange),
    Say(SessionId, Command),
}

/// The streams of a node.
pub(super) struct Streams<D: Disk> {
    host: StreamHost<D>,
    /// The disk has failed it, which has no other faults here: the process ends.
    pub(super) has_failed: bool,
}

impl<D: Disk> Streams<D> {
    pub(super) fn open(disk: &D) -> Result<Self, String> {
        let files = StreamFiles::open(disk.clone(), Path::new("/store/streams"), 1);
        let files = files.map_err(|why| format!("the streams do not open: {why}"))?;
        Ok(Self {
            host: StreamHost::new(files),
            has_failed: false,
        })
    }

    /// Begins to run the streams that the catalogue has here.
    pub(super) fn place(&mut self, env: &NodeEnv) {
        let catalogue = env.catalogue();
        let here: Vec<_> = catalogue
            .queues(None)
            .filter_map(|record| Some((record.id(), settings_here(record, env)?)))
            .collect();
        drop(catalogue);
        self.place_elsewhere(env);
        for (id, settings) in here {
            self.change(StreamChange::Begun(id, settings), &mut Events::new());
        }
    }

    /// Takes note of the streams that other nodes lead.
    fn place_elsewhere(&mut self, env: &NodeEnv) {
        let catalogue = env.catalogue();
        let is_elsewhere = |record: &&QueueRecord| {
            record.settings().stream.is_some() && record.home() != env.node_id()
        };
        for record in catalogue.queues(None).filter(is_elsewhere) {
            let change = StreamChange::Elsewhere(record.id(), record.home());
            env.relayed.place(&change);
            self.host.hear_of(record.id());
        }
    }

    /// How many readers a stream has; `None` of one that does not run here.
    pub(super) fn readers(&self, stream: QueueId) -> Option<u64> {
        let mut stats = self.host.stats();
        let (_, stats) = stats.find(|(id, _)| *id == stream)?;
        Some(stats.readers)
    }

    fn change(&mut self, change: StreamChange, events: &mut Events) {
        match change {
            StreamChange::Begun(id, settings) => {
                self.has_failed |= self.host.begin(id, *settings).is_err();
            }
            StreamChange::Changed(id, settings) => self.host.set_settings(id, *settings),
            // Played without replicas: the leader has all.
            StreamChange::Replica(here) if here.leader == here.node => {
                self.has_failed |= self.host.begin(here.stream, *here.settings).is_err();
            }
            StreamChange::Replica(here) => self.host.hear_of(here.stream),
            StreamChange::Elsewhere(id, _) => self.host.hear_of(id),
            StreamChange::Deleted(id) => drop(self.host.delete(id, events)),
        }
    }

    /// Takes a turn; false if there was nothing to do.
    pub(super) fn step(&mut self, env: &NodeEnv, now: Now) -> bool {
        let inputs = std::mem::take(&mut *env.stream_inputs.borrow_mut());
        let is_due = self
            .host
            .due_ms()
            .is_some_and(|due| due <= now.monotonic_ms);
        if inputs.is_empty() && !is_due {
            return false;
        }
        let mut events = Events::new();
        for input in inputs {
            match input {
                StreamInput::Change(change) => self.change(change, &mut events),
                StreamInput::Say(session, command) => {
                    self.host.handle(now, session, command, &mut events);
                }
            }
        }
        self.has_failed |= self.host.end_turn(now, &mut events).is_err();
        for sync in self.host.take_syncs() {
            match sync.run() {
                Ok(synced) => self.host.synced(&synced),
                Err(_) => self.has_failed = true,
            }
        }
        for read in self.host.take_reads() {
            self.host.was_read(read.run(), &mut events);
        }
        if self.has_failed {
            return true;
        }
        for (session, event) in events {
            env.relayed.hear(session, event, env);
        }
        true
    }
}
