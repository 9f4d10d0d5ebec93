//! Who is logged in where: what the limits on connections and channels count, of this node and as
//! far as other nodes have told of theirs. And what all of them have together.

use crate::flows::Flows;
use leveret_metadata::Catalogue;
use leveret_queue_host::delivery_credit::Outboxes;
use leveret_types::limits::{
    LIMITED_REPORTED_MAX, SOCKET_OUTPUT_BYTES_MAX, SOCKET_OUTPUTS_BYTES_MAX,
};
use leveret_types::{ConnectionId, ProtocolError};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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
    /// Told when somebody awaits others' counts.
    counts_awaited: Condvar,
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
            counts_awaited: Condvar::new(),
        }
    }
}

#[derive(Debug, Default)]
struct Counts {
    connections_of_user: HashMap<String, HashSet<ConnectionId>>,
    channels_of_user: HashMap<String, usize>,
    connections_of_vhost: HashMap<String, HashSet<ConnectionId>>,
    /// What the other nodes of the cluster have, together.
    elsewhere: LimitedCounts,
    /// Who waits for that to be told anew.
    awaiting: Vec<ConnectionId>,
}

/// A limit is reached, or something else forbids it.
#[derive(Debug)]
pub struct LimitReached {
    /// What the client is told.
    pub error: ProtocolError,
    /// Whether it is for what was open at other nodes when they told of it last.
    pub by_others: bool,
}

impl From<ProtocolError> for LimitReached {
    fn from(error: ProtocolError) -> Self {
        Self {
            error,
            by_others: false,
        }
    }
}

/// What is open of users and virtual hosts that have a limit on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitedCounts {
    /// Connections, by user.
    pub connections_of_user: HashMap<String, usize>,
    /// Channels, by user.
    pub channels_of_user: HashMap<String, usize>,
    /// Connections, by virtual host.
    pub connections_of_vhost: HashMap<String, usize>,
}

impl LimitedCounts {
    /// Adds what another node has.
    pub fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.connections_of_user, &other.connections_of_user),
            (&mut self.channels_of_user, &other.channels_of_user),
            (&mut self.connections_of_vhost, &other.connections_of_vhost),
        ];
        for (sums, others) in pairs {
            for (name, count) in others {
                let sum = sums.entry(name.clone()).or_default();
                *sum = sum.saturating_add(*count);
            }
        }
    }
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
        check: impl Fn(usize, usize) -> Result<(), ProtocolError>,
    ) -> Result<(), LimitReached> {
        let mut counts = self.lock();
        let of_user = counts.connections_of_user.get(user).map_or(0, HashSet::len);
        let of_vhost = counts
            .connections_of_vhost
            .get(vhost)
            .map_or(0, HashSet::len);
        let of_user_elsewhere = count(&counts.elsewhere.connections_of_user, user);
        let of_vhost_elsewhere = count(&counts.elsewhere.connections_of_vhost, vhost);
        check(
            of_vhost.saturating_add(of_vhost_elsewhere),
            of_user.saturating_add(of_user_elsewhere),
        )
        .map_err(|error| LimitReached {
            error,
            by_others: check(of_vhost, of_user).is_ok(),
        })?;
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
        check: impl Fn(usize) -> Result<(), ProtocolError>,
    ) -> Result<(), LimitReached> {
        let mut counts = self.lock();
        let elsewhere = count(&counts.elsewhere.channels_of_user, user);
        let here = count(&counts.channels_of_user, user);
        check(here.saturating_add(elsewhere)).map_err(|error| LimitReached {
            error,
            by_others: check(here).is_ok(),
        })?;
        *counts.channels_of_user.entry(user.to_owned()).or_default() += 1;
        Ok(())
    }

    /// Channels of this user are gone.
    pub fn close_channels(&self, user: &str, count: usize) {
        decrement(&mut self.lock().channels_of_user, user, count);
    }

    /// What this node has open of users and virtual hosts that have a limit on it, for other nodes
    /// to count as well: of [`LIMITED_REPORTED_MAX`] of each at most.
    pub fn limited(&self, catalogue: &Catalogue) -> LimitedCounts {
        let counts = self.lock();
        let user_has = |name: &str, limit| {
            let user = catalogue.user(name);
            user.is_some_and(|user| user.limit(limit).is_some())
        };
        let vhost_has = |name: &str| {
            let vhost = catalogue.vhost(name);
            vhost.is_some_and(|vhost| vhost.limit("max-connections").is_some())
        };
        let sizes = |of: &HashMap<String, HashSet<ConnectionId>>, has: &dyn Fn(&str) -> bool| {
            let limited = of.iter().filter(|(name, _)| has(name));
            let sizes = limited.map(|(name, open)| (name.clone(), open.len()));
            sizes.take(LIMITED_REPORTED_MAX).collect()
        };
        let channels = counts.channels_of_user.iter();
        let channels = channels.filter(|(name, _)| user_has(name, "max-channels"));
        LimitedCounts {
            connections_of_user: sizes(&counts.connections_of_user, &|name| {
                user_has(name, "max-connections")
            }),
            channels_of_user: channels
                .map(|(name, open)| (name.clone(), *open))
                .take(LIMITED_REPORTED_MAX)
                .collect(),
            connections_of_vhost: sizes(&counts.connections_of_vhost, &vhost_has),
        }
    }

    /// A connection waits until the other nodes have told anew what they have.
    pub fn await_counts(&self, connection: ConnectionId) {
        self.lock().awaiting.push(connection);
        self.counts_awaited.notify_one();
    }

    /// Who waits for what the other nodes tell from now on. Waits for so long until somebody does.
    pub fn awaiting_counts(&self, wait: Duration) -> Vec<ConnectionId> {
        let nobody = |counts: &mut Counts| counts.awaiting.is_empty();
        let waited = self
            .counts_awaited
            .wait_timeout_while(self.lock(), wait, nobody);
        let (mut counts, _) = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut counts.awaiting)
    }

    /// What the other nodes of the cluster have told of theirs, together.
    pub fn set_elsewhere(&self, counts: LimitedCounts) {
        self.lock().elsewhere = counts;
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

fn count(counts: &HashMap<String, usize>, name: &str) -> usize {
    counts.get(name).copied().unwrap_or(0)
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
    use leveret_metadata::{Command, Config};

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
    fn what_other_nodes_have_counts_and_what_is_told_to_them_is_this_nodes_own() {
        let registry = Registry::default();
        let (mut catalogue, mut told) =
            (Catalogue::new(Config::default()), LimitedCounts::default());
        let user = Command::UserPut {
            user: "guest".to_owned(),
            password: None,
            tags: None,
        };
        catalogue.apply(&user).expect("a user");
        let limit = Command::UserLimitSet {
            user: "guest".to_owned(),
            limit: "max-channels".to_owned(),
            value: 3,
        };
        catalogue.apply(&limit).expect("a limit");
        let open = |user| registry.open_channel(user, |count| below(3, count)).is_ok();
        assert!(open("guest") && open("other"));
        told.channels_of_user.insert("guest".to_owned(), 1);
        assert_eq!(registry.limited(&catalogue), told, "of users with a limit");
        told.add(&told.clone());
        assert_eq!(told.channels_of_user["guest"], 2);
        registry.set_elsewhere(told);
        assert!(!open("guest"), "three of the cluster are open");
        assert!(open("other"));
        let connection = |user, vhost| {
            let check = |of_vhost, of_user| below(2, of_vhost).and_then(|()| below(1, of_user));
            registry
                .open_connection(ConnectionId(1), user, vhost, check)
                .is_ok()
        };
        let mut counts = LimitedCounts::default();
        counts.connections_of_user.insert("a".to_owned(), 1);
        counts.connections_of_vhost.insert("full".to_owned(), 2);
        registry.set_elsewhere(counts);
        assert!(!connection("a", "/"), "the user's limit");
        assert!(!connection("b", "full"), "the virtual host's limit");
        assert!(connection("b", "/"));
        registry.set_elsewhere(LimitedCounts::default());
        assert!(open("guest") && connection("a", "full"), "they are gone");
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
