//! Who is logged in where: what the limits on connections and channels count. And what all of them
//! have together.

use crate::flows::Flows;
use leveret_queue_host::delivery_credit::Outboxes;
use leveret_types::limits::{SOCKET_OUTPUT_BYTES_MAX, SOCKET_OUTPUTS_BYTES_MAX};
use leveret_types::{ConnectionId, ProtocolError};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts of what is open, by user and by virtual host.
#[derive(Debug)]
pub struct Registry {
    counts: Mutex<Counts>,
    /// Whether any virtual host is traced: looked at for each delivery, where the catalogue would
    /// cost too much.
    traces: AtomicBool,
    outboxes: Arc<Outboxes>,
    socket_outputs: Arc<Outboxes>,
    flows: Flows,
}

impl Default for Registry {
    fn default() -> Self {
        let socket_outputs = Outboxes::of(SOCKET_OUTPUTS_BYTES_MAX, SOCKET_OUTPUT_BYTES_MAX);
        Self {
            counts: Mutex::default(),
            traces: AtomicBool::default(),
            outboxes: Arc::default(),
            socket_outputs: Arc::new(socket_outputs),
            flows: Flows::default(),
        }
    }
}

#[derive(Debug, Default)]
struct Counts {
    connections_of_user: HashMap<String, HashSet<ConnectionId>>,
    channels_of_user: HashMap<String, usize>,
    connections_of_vhost: HashMap<String, HashSet<ConnectionId>>,
}

impl Registry {
    /// What of deliveries waits to be written at all connections.
    pub const fn outboxes(&self) -> &Arc<Outboxes> {
        &self.outboxes
    }

    /// What waits to be written at all connections, whatever it is.
    pub const fn socket_outputs(&self) -> &Arc<Outboxes> {
        &self.socket_outputs
    }

    /// What came to queues from exchanges.
    pub const fn flows(&self) -> &Flows {
        &self.flows
    }

    /// Whether any virtual host is traced.
    pub fn traces(&self) -> bool {
        self.traces.load(Ordering::Relaxed)
    }

    /// Says whether any virtual host is traced.
    pub fn set_traces(&self, traces: bool) {
        self.traces.store(traces, Ordering::Relaxed);
    }

    /// A connection of this user opens this virtual host, unless `check` refuses it, given the
    /// connections that the virtual host and the user have already.
    ///
    /// # Errors
    /// What `check` says.
    pub fn open_connection(
        &self,
        connection: ConnectionId,
        user: &str,
        vhost: &str,
        check: impl FnOnce(usize, usize) -> Result<(), ProtocolError>,
    ) -> Result<(), ProtocolError> {
        let mut counts = self.lock();
        let of_user = counts.connections_of_user.get(user).map_or(0, HashSet::len);
        let of_vhost = counts
            .connections_of_vhost
            .get(vhost)
            .map_or(0, HashSet::len);
        check(of_vhost, of_user)?;
        counts
            .connections_of_user
            .entry(user.to_owned())
            .or_default()
            .insert(connection);
        counts
            .connections_of_vhost
            .entry(vhost.to_owned())
            .or_default()
            .insert(connection);
        Ok(())
    }

    /// A connection that was opened is gone.
    pub fn close_connection(&self, connection: ConnectionId, user: &str, vhost: &str) {
        let mut counts = self.lock();
        remove(&mut counts.connections_of_user, user, connection);
        remove(&mut counts.connections_of_vhost, vhost, connection);
    }

    /// A channel of this user opens, unless `check` refuses it, given the channels that the user
    /// has already.
    ///
    /// # Errors
    /// What `check` says.
    pub fn open_channel(
        &self,
        user: &str,
        check: impl FnOnce(usize) -> Result<(), ProtocolError>,
    ) -> Result<(), ProtocolError> {
        let mut counts = self.lock();
        check(counts.channels_of_user.get(user).copied().unwrap_or(0))?;
        *counts.channels_of_user.entry(user.to_owned()).or_default() += 1;
        Ok(())
    }

    /// Channels of this user are gone.
    pub fn close_channels(&self, user: &str, count: usize) {
        decrement(&mut self.lock().channels_of_user, user, count);
    }

    /// Calls `act` with each connection that has this virtual host open.
    pub fn for_each_of_vhost(&self, vhost: &str, act: impl FnMut(ConnectionId)) {
        let connections = self.lock().connections_of_vhost.get(vhost).cloned();
        connections.into_iter().flatten().for_each(act);
    }

    /// Calls `act` with each connection of this user.
    pub fn for_each_of_user(&self, user: &str, act: impl FnMut(ConnectionId)) {
        let connections = self.lock().connections_of_user.get(user).cloned();
        connections.into_iter().flatten().for_each(act);
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn remove(
    connections: &mut HashMap<String, HashSet<ConnectionId>>,
    name: &str,
    connection: ConnectionId,
) {
    if let Some(of_name) = connections.get_mut(name) {
        of_name.remove(&connection);
        if of_name.is_empty() {
            connections.remove(name);
        }
    }
}

fn decrement(counts: &mut HashMap<String, usize>, name: &str, by: usize) {
    if let Some(count) = counts.get_mut(name) {
        *count = count.saturating_sub(by);
        if *count == 0 {
            counts.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(limit: usize, count: usize) -> Result<(), ProtocolError> {
        if count < limit {
            Ok(())
        } else {
            Err(ProtocolError::connection(
                leveret_types::ReplyCode::NotAllowed,
                "limit",
            ))
        }
    }

    #[test]
    fn counts_hold_what_is_open_and_a_refused_one_is_not_counted() {
        let registry = Registry::default();
        let mut next = 0;
        let mut open = |user| {
            next += 1;
            let check = |of_vhost, of_user| below(3, of_vhost).and_then(|()| below(2, of_user));
            registry
                .open_connection(ConnectionId(next), user, "/", check)
                .is_ok()
        };
        assert!(open("a") && open("a"));
        assert!(!open("a"), "the user's limit");
        assert!(open("b"));
        assert!(!open("b"), "the virtual host's limit");
        registry.close_connection(ConnectionId(1), "a", "/");
        assert!(open("b"));
    }

    #[test]
    fn channels_are_counted_by_user() {
        let registry = Registry::default();
        let open = |user| registry.open_channel(user, |count| below(1, count)).is_ok();
        assert!(open("a"));
        assert!(!open("a"));
        assert!(open("b"));
        registry.close_channels("a", 1);
        assert!(open("a"));
    }
}
