//! A connection of any protocol, as a node without threads drives it.

use super::env::NodeEnv;
use bytes::Bytes;
use leveret_client::Session;
use leveret_node::{Connection, ConnectionEvent, ConnectionStatus};
use leveret_types::{Now, OutBuffer};

/// A connection, whatever protocol its session speaks. All is as in [`Connection`].
#[allow(missing_docs)]
pub trait AnyConnection {
    fn receive(&mut self, now: Now, bytes: Bytes, env: &NodeEnv);
    fn event(&mut self, now: Now, event: ConnectionEvent, env: &NodeEnv);
    fn tick(&mut self, now: Now, env: &NodeEnv);
    fn deadline(&self) -> Option<u64>;
    fn reading(&self) -> bool;
    fn awaiting(&self) -> bool;
    fn durable(&mut self, now: Now, env: &NodeEnv);
    fn alarms_changed(&mut self, now: Now, env: &NodeEnv);
    fn flush(&mut self);
    fn output(&mut self) -> &mut OutBuffer;
    fn written(&mut self, now: Now, env: &NodeEnv);
    fn teardown(&mut self, now: Now, env: &NodeEnv);
    fn gather_published(&mut self);
    fn status(&self) -> ConnectionStatus;
}

impl<S: Session> AnyConnection for Connection<S> {
    fn receive(&mut self, now: Now, bytes: Bytes, env: &NodeEnv) {
        Self::receive(self, now, bytes, env);
    }

    fn event(&mut self, now: Now, event: ConnectionEvent, env: &NodeEnv) {
        Self::event(self, now, event, env);
    }

    fn tick(&mut self, now: Now, env: &NodeEnv) {
        Self::tick(self, now, env);
    }

    fn deadline(&self) -> Option<u64> {
        Self::deadline(self)
    }

    fn reading(&self) -> bool {
        Self::reading(self)
    }

    fn awaiting(&self) -> bool {
        Self::awaiting(self)
    }

    fn durable(&mut self, now: Now, env: &NodeEnv) {
        Self::durable(self, now, env);
    }

    fn alarms_changed(&mut self, now: Now, env: &NodeEnv) {
        Self::alarms_changed(self, now, env);
    }

    fn flush(&mut self) {
        Self::flush(self);
    }

    fn output(&mut self) -> &mut OutBuffer {
        Self::output(self)
    }

    fn written(&mut self, now: Now, env: &NodeEnv) {
        Self::written(self, now, env);
    }

    fn teardown(&mut self, now: Now, env: &NodeEnv) {
        Self::teardown(self, now, env);
    }

    fn gather_published(&mut self) {
        Self::gather_published(self);
    }

    fn status(&self) -> ConnectionStatus {
        Self::status(self)
    }
}
