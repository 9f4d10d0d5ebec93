//! Who is at the cluster's port and has not proved who it is: bounded, so that strangers take
//! nothing from anybody but strangers.
//!
//! Addresses of members have places of their own. Where all places are taken, or all of one address
//! (as [`network_of`] has it), whoever comes takes that of whoever has waited for longest: a node
//! that dials proves who it is within a round trip, and is gone from here long before its turn to
//! be displaced comes.

use leveret_auth::network_of;
use leveret_types::limits::{
    PEER_CONTROLS_MAX, PEER_HANDSHAKES_MAX, PEER_HANDSHAKES_PER_ADDRESS_MAX, PEER_KNOWN_IPS_MAX,
};
use parking_lot::{Condvar, Mutex, RwLock};
use std::collections::BTreeMap;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// How long whoever comes waits for one that was displaced to be gone.
const DISPLACED_WAIT: Duration = Duration::from_millis(10);

/// The addresses that members are known to have.
#[derive(Debug, Default)]
pub struct KnownAddresses(RwLock<BTreeMap<String, Vec<IpAddr>>>);

impl KnownAddresses {
    /// The member of this name or `host:port` has these addresses now.
    pub fn note(&self, member: &str, ips: impl IntoIterator<Item = IpAddr>) {
        let ips = ips.into_iter().take(PEER_KNOWN_IPS_MAX).collect();
        self.0.write().insert(member.to_owned(), ips);
    }

    /// Those who are no members any more have no addresses.
    pub fn retain(&self, is_member: impl Fn(&str) -> bool) {
        self.0.write().retain(|member, _| is_member(member));
    }

    /// Whether a member has this address.
    pub fn has(&self, ip: IpAddr) -> bool {
        self.0.read().values().flatten().any(|known| *known == ip)
    }
}

/// A pending connection's number, until it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PendingConnectionId(u64);

#[derive(Debug)]
struct PendingConnection {
    ip: IpAddr,
    is_known: bool,
    socket: Arc<TcpStream>,
}

#[derive(Debug, Default)]
struct State {
    /// Those who have proved nothing, in the order in which they came.
    pending_connections: BTreeMap<u64, PendingConnection>,
    /// Those whose sockets are shut and whose threads are about to end.
    displaced: usize,
    /// Those who have proved that they know the secret, and are being answered.
    proved: usize,
    next: u64,
}

/// The pending connections at a port.
#[derive(Debug, Default)]
pub(super) struct PendingConnections {
    state: Mutex<State>,
    left: Condvar,
}

impl PendingConnections {
    /// A place for whoever comes from `ip`; none if too many who were displaced are still there.
    pub(super) fn enter(
        &self,
        ip: IpAddr,
        is_known: bool,
        socket: &Arc<TcpStream>,
    ) -> Option<PendingConnectionId> {
        let mut state = self.state.lock();
        if state.displaced >= PEER_HANDSHAKES_MAX {
            self.left.wait_for(&mut state, DISPLACED_WAIT);
        }
        if state.displaced >= PEER_HANDSHAKES_MAX {
            return None;
        }
        if let Some(oldest) = state.in_the_way(ip, is_known)
            && let Some(pending_connection) = state.pending_connections.remove(&oldest)
        {
            state.displaced += 1;
            // It may have gone by itself.
            let _ = pending_connection.socket.shutdown(Shutdown::Both);
        }
        let id = state.next;
        state.next += 1;
        let socket = Arc::clone(socket);
        let pending_connection = PendingConnection {
            ip,
            is_known,
            socket,
        };
        state.pending_connections.insert(id, pending_connection);
        Some(PendingConnectionId(id))
    }

    /// A pending connection has proved that it knows the secret; false if it was displaced before,
    /// or too many like it are answered.
    pub(super) fn prove(&self, id: PendingConnectionId) -> bool {
        let mut state = self.state.lock();
        let has_room = state.proved < PEER_CONTROLS_MAX;
        let is_there = has_room && state.pending_connections.remove(&id.0).is_some();
        state.proved += usize::from(is_there);
        is_there
    }

    /// A pending connection is gone, whatever became of it; `proved` as [`Self::prove`] has said.
    pub(super) fn leave(&self, id: PendingConnectionId, proved: bool) {
        let mut state = self.state.lock();
        if proved {
            state.proved -= 1;
        } else if state.pending_connections.remove(&id.0).is_none() {
            state.displaced -= 1;
            self.left.notify_one();
        }
    }
}

impl State {
    /// Who has to go so that whoever comes from `ip` has a place.
    fn in_the_way(&self, ip: IpAddr, is_known: bool) -> Option<u64> {
        let mut of_networks = BTreeMap::<IpAddr, (usize, u64)>::new();
        let alike = self
            .pending_connections
            .iter()
            .filter(|(_, g)| g.is_known == is_known);
        for (id, pending_connection) in alike {
            let (count, _) = of_networks
                .entry(network_of(pending_connection.ip))
                .or_insert((0, *id));
            *count += 1;
        }
        if let Some((PEER_HANDSHAKES_PER_ADDRESS_MAX.., oldest)) = of_networks.get(&network_of(ip))
        {
            return Some(*oldest);
        }
        let all: usize = of_networks.values().map(|(count, _)| count).sum();
        let most = of_networks.values().max_by_key(|(count, _)| *count);
        most.filter(|_| all >= PEER_HANDSHAKES_MAX)
            .map(|(_, oldest)| *oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    /// Sockets at a port, and their other ends.
    struct Port(TcpListener);

    impl Port {
        fn pending_connection(&self) -> (Arc<TcpStream>, TcpStream) {
            let address = self.0.local_addr().expect("it listens");
            let dialer = TcpStream::connect(address).expect("it listens");
            (Arc::new(self.0.accept().expect("somebody comes").0), dialer)
        }
    }

    fn port() -> Port {
        Port(TcpListener::bind("127.0.0.1:0").expect("a free port"))
    }

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn is_shut(dialer: &mut TcpStream) -> bool {
        dialer.set_nonblocking(true).expect("a socket");
        matches!(dialer.read(&mut [0]), Ok(0))
    }

    #[test]
    fn strangers_displace_strangers_and_nobody_else() {
        let (port, pending) = (port(), PendingConnections::default());
        let enter = |last: u8, is_known| {
            let (socket, dialer) = port.pending_connection();
            (pending.enter(ip(last), is_known, &socket), dialer, socket)
        };
        let (_, mut member, _socket) = enter(1, true);
        let (_, mut lone, _other_socket) = enter(2, false);
        let mut strangers = Vec::new();
        for round in 0..4 * PEER_HANDSHAKES_MAX {
            let (id, dialer, socket) = enter(3 + (round % 5) as u8, false);
            strangers.push((id.expect("there is always a place"), dialer, socket));
            let shut = |(_, dialer, _): &mut (_, TcpStream, _)| is_shut(dialer);
            let gone: Vec<_> = strangers.extract_if(.., shut).collect();
            assert!(gone.len() <= 1, "one goes where one comes");
            gone.iter().for_each(|(id, ..)| pending.leave(*id, false));
        }
        // Of the address that is there least, nobody goes.
        assert!(!is_shut(&mut lone) && !is_shut(&mut member));
        assert!(strangers.len() < PEER_HANDSHAKES_MAX);
        // Who stays displaced and does not go keeps others out, not for ever in memory.
        let entered = (0..3 * PEER_HANDSHAKES_MAX).filter(|_| enter(9, false).0.is_some());
        assert!(entered.count() <= 2 * PEER_HANDSHAKES_MAX);
    }

    #[test]
    fn one_address_displaces_itself_and_who_has_proved_stays() {
        let (port, pending) = (port(), PendingConnections::default());
        let mut pending_connections: Vec<_> = (0..=PEER_HANDSHAKES_PER_ADDRESS_MAX)
            .map(|_| {
                let (socket, dialer) = port.pending_connection();
                let id = pending.enter(ip(1), true, &socket).expect("a place");
                (id, dialer, socket)
            })
            .collect();
        assert!(is_shut(&mut pending_connections[0].1) && !is_shut(&mut pending_connections[1].1));
        assert!(!pending.prove(pending_connections[0].0), "too late");
        assert!(pending.prove(pending_connections[1].0));
        for _ in 0..PEER_HANDSHAKES_PER_ADDRESS_MAX {
            let (socket, _) = port.pending_connection();
            pending.enter(ip(1), true, &socket).expect("a place");
        }
        assert!(
            !is_shut(&mut pending_connections[1].1),
            "it has proved who it is"
        );
        pending.leave(pending_connections[0].0, false);
        pending.leave(pending_connections[1].0, true);
    }

    #[test]
    fn a_network_of_ipv6_displaces_itself() {
        let (port, pending) = (port(), PendingConnections::default());
        let mut strangers: Vec<_> = (0..=PEER_HANDSHAKES_PER_ADDRESS_MAX)
            .map(|number| {
                let (socket, dialer) = port.pending_connection();
                let ip = format!("2001:db8::{number:x}").parse().expect("an address");
                pending.enter(ip, false, &socket).expect("a place");
                (dialer, socket)
            })
            .collect();
        assert!(is_shut(&mut strangers[0].0) && !is_shut(&mut strangers[1].0));
    }

    #[test]
    fn members_are_known_by_the_addresses_that_they_have_now() {
        let known = KnownAddresses::default();
        known.note("a:1", [ip(1), ip(2)]);
        known.note("b:1", [ip(3)]);
        assert!(known.has(ip(2)) && known.has(ip(3)));
        known.note("a:1", [ip(4)]);
        assert!(known.has(ip(4)) && !known.has(ip(2)));
        known.retain(|member| member == "a:1");
        assert!(known.has(ip(4)) && !known.has(ip(3)));
        known.note("a:1", (0..100).map(ip));
        assert!(!known.has(ip(99)), "bounded");
    }
}
