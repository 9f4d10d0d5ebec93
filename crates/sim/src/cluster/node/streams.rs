//! The streams of a node without threads: what the streams' own thread does in the broker.

use super::env::NodeEnv;
use leveret_metadata::QueueRecord;
use leveret_node::env::Env;
use leveret_node::streams::{StreamChange, settings_here};
use leveret_storage::{Disk, StreamFiles};
use leveret_stream::{Command, Events, SessionId};
use leveret_stream_host::StreamHost;
use leveret_types::Now;
use std::path::Path;

/// What the streams of a node are told.
#[derive(Debug)]
pub(super) enum StreamInput {
    Change(StreamChange),
    Say(SessionId, Command),
}

/// The streams of a node.
pub(super) struct Streams<D: Disk>(StreamHost<D>);

impl<D: Disk> Streams<D> {
    pub(super) fn open(disk: &D) -> Result<Self, String> {
        let files = StreamFiles::open(disk.clone(), Path::new("/store/streams"), 1);
        let files = files.map_err(|why| format!("the streams do not open: {why}"))?;
        Ok(Self(StreamHost::new(files)))
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
    fn place_elsewhere(&self, env: &NodeEnv) {
        let catalogue = env.catalogue();
        let is_elsewhere = |record: &&QueueRecord| {
            record.settings().stream.is_some() && record.home() != env.node_id()
        };
        for record in catalogue.queues(None).filter(is_elsewhere) {
            let change = StreamChange::Elsewhere(record.id(), record.home());
            env.relayed.place(&change);
        }
    }

    fn change(&mut self, change: StreamChange, events: &mut Events) {
        match change {
            StreamChange::Begun(id, settings) => drop(self.0.begin(id, *settings)),
            StreamChange::Changed(id, settings) => self.0.set_settings(id, *settings),
            // Played without replicas: the leader has all.
            StreamChange::Replica(here) if here.leader == here.node => {
                drop(self.0.begin(here.stream, *here.settings));
            }
            StreamChange::Replica(_) | StreamChange::Elsewhere(..) => {}
            StreamChange::Deleted(id) => drop(self.0.delete(id, events)),
        }
    }

    /// Takes a turn; false if there was nothing to do.
    pub(super) fn step(&mut self, env: &NodeEnv, now: Now) -> bool {
        let inputs = std::mem::take(&mut *env.stream_inputs.borrow_mut());
        let is_due = self.0.due_ms().is_some_and(|due| due <= now.monotonic_ms);
        if inputs.is_empty() && !is_due {
            return false;
        }
        let mut events = Events::new();
        for input in inputs {
            match input {
                StreamInput::Change(change) => self.change(change, &mut events),
                StreamInput::Say(session, command) => {
                    self.0.handle(now, session, command, &mut events);
                }
            }
        }
        let ended = self.0.end_turn(now, &mut events);
        assert!(ended.is_ok(), "a disk in memory refused a stream's turn");
        for sync in self.0.take_syncs() {
            match sync.run() {
                Ok(synced) => self.0.synced(&synced),
                Err(why) => panic!("a disk in memory refused a sync: {why}"),
            }
        }
        for (session, event) in events {
            env.relayed.hear(session, event, env);
        }
        true
    }
}
