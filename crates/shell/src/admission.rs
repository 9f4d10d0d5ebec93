//! Which connections are let in: how many in all, and how many that have not logged in, in all and
//! from one address. What nobody has a name for yet must not crowd out those who have.
//!
//! Where all places are taken, whoever comes has that of who has been there for longest of the most
//! crowded address: a client logs in at once, and is gone from here before its turn to be displaced
//! comes. One address counts as [`network_of`] has it.

use leveret_auth::network_of;
use leveret_types::ConnectionId;
use leveret_types::limits::{
    CONNECTIONS_MAX, CONNECTIONS_PREAUTH_MAX, CONNECTIONS_PREAUTH_PER_IP_MAX,
};
use parking_lot::Mutex;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Refusals are told at most this often: whoever is refused may come back at once.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// How long a connection has to log in before one of an address that is as crowded takes its place.
const DISPLACED_AFTER_MS: u64 = 1_000;

/// How many connections are let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// Connections of the node.
    pub connections: usize,
    /// Connections that have not logged in.
    pub pending: usize,
    /// Those of them that come from one address: a proxy's count together, and so do those of an
    /// IPv6 network of 64 bits.
    pub pending_per_address: usize,
}

impl Default for AdmissionLimits {
    fn default() -> Self {
        Self {
            connections: CONNECTIONS_MAX,
            pending: CONNECTIONS_PREAUTH_MAX,
            pending_per_address: CONNECTIONS_PREAUTH_PER_IP_MAX,
        }
    }
}

/// Counts the connections that have not logged in.
#[derive(Default)]
pub struct Admission {
    limits: AdmissionLimits,
    pending_logins: Arc<Mutex<PendingLogins>>,
    told: Mutex<Told>,
}

#[derive(Default)]
struct PendingLogins {
    waiting: BTreeMap<u64, Waiting>,
    /// Networks that some of them come from: bounded, as they are.
    by_network: HashMap<IpAddr, usize>,
    next: u64,
}

/// A connection that has not logged in.
struct Waiting {
    network: IpAddr,
    came_ms: u64,
    /// Once there is one.
    connection: Option<ConnectionId>,
    /// Whether it is the node's turn: its password is checked.
    is_checked: bool,
}

impl PendingLogins {
    fn remove(&mut self, place: u64) -> Option<Waiting> {
        let waiting = self.waiting.remove(&place)?;
        if let Some(of_network) = self.by_network.get_mut(&waiting.network) {
            *of_network -= 1;
            if *of_network == 0 {
                self.by_network.remove(&waiting.network);
            }
        }
        Some(waiting)
    }

    /// Who has to go so that whoever comes from this network has a place: who has been there for
    /// longest of the most crowded network. Of one that is no more crowded than the own nobody goes
    /// who has not had time to log in.
    fn in_the_way(&self, network: IpAddr, now_ms: u64) -> Option<u64> {
        let count_of = |network| self.by_network.get(network).copied().unwrap_or(0);
        let idle = self.waiting.iter().filter(|(_, w)| !w.is_checked);
        // Places are given in the order in which connections come.
        let most = idle.max_by_key(|(place, w)| (count_of(&w.network), Reverse(**place)));
        let (place, waiting) = most?;
        let is_more_crowded = count_of(&waiting.network) > count_of(&network) + 1;
        let had_time = now_ms >= waiting.came_ms + DISPLACED_AFTER_MS;
        (is_more_crowded || had_time).then_some(*place)
    }
}

/// When refusals were told last, and how many were not told since.
#[derive(Default)]
struct Told {
    at: Option<Instant>,
    untold: u64,
}

/// Why a connection is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The node has as many connections as it may.
    #[error("the node has {0} (max_connections)")]
    Full(usize),
    /// Too many have not logged in.
    #[error("{0} have not logged in yet (pending_connections_max)")]
    Pending(usize),
    /// Too many of this address have not logged in.
    #[error(
        "{0} of this address have not logged in yet (pending_connections_per_address_max: raise it where clients come through a proxy)"
    )]
    Address(usize),
}

/// The place of one connection among those that have not logged in; dropping it gives it back.
pub struct PendingLogin {
    pending_logins: Arc<Mutex<PendingLogins>>,
    place: u64,
}

impl PendingLogin {
    /// Its connection is this one; false if it was displaced, and is to be dropped.
    pub fn opened(&self, connection: ConnectionId) -> bool {
        let mut pending_logins = self.pending_logins.lock();
        let waiting = pending_logins.waiting.get_mut(&self.place);
        waiting.is_some_and(|waiting| {
            waiting.connection = Some(connection);
            true
        })
    }

    /// Whether its password is being checked: meanwhile nobody displaces it.
    pub fn set_checked(&self, is_checked: bool) {
        let mut pending_logins = self.pending_logins.lock();
        if let Some(waiting) = pending_logins.waiting.get_mut(&self.place) {
            waiting.is_checked = is_checked;
        }
    }
}

impl Admission {
    /// Nobody is in yet.
    pub fn new(limits: AdmissionLimits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// A place for a connection from `address`, which comes at `now_ms` on the monotonic clock, to
    /// a node that has `open` of them. Beside it the connection that has to go for it, if one has.
    ///
    /// # Errors
    /// Which limit it would exceed.
    pub fn admit(
        &self,
        address: IpAddr,
        open: usize,
        now_ms: u64,
    ) -> Result<(PendingLogin, Option<ConnectionId>), Refusal> {
        let limits = &self.limits;
        if open >= limits.connections {
            return Err(Refusal::Full(limits.connections));
        }
        let network = network_of(address);
        let mut pending_logins = self.pending_logins.lock();
        let of_network = pending_logins.by_network.get(&network);
        if of_network.is_some_and(|count| *count >= limits.pending_per_address) {
            return Err(Refusal::Address(limits.pending_per_address));
        }
        let mut displaced = None;
        if pending_logins.waiting.len() >= limits.pending {
            let in_the_way = pending_logins.in_the_way(network, now_ms);
            let in_the_way = in_the_way.ok_or(Refusal::Pending(limits.pending))?;
            displaced = pending_logins.remove(in_the_way);
        }
        *pending_logins.by_network.entry(network).or_default() += 1;
        let place = pending_logins.next;
        pending_logins.next += 1;
        let waiting = Waiting {
            network,
            came_ms: now_ms,
            connection: None,
            is_checked: false,
        };
        pending_logins.waiting.insert(place, waiting);
        drop(pending_logins);
        let pending_login = PendingLogin {
            pending_logins: Arc::clone(&self.pending_logins),
            place,
        };
        Ok((pending_login, displaced.and_then(|gone| gone.connection)))
    }

    /// Whether a refusal is to be told now, and how many were not told before it.
    pub fn tell(&self, now: Instant) -> Option<u64> {
        let mut told = self.told.lock();
        if told
            .at
            .is_some_and(|at| now.duration_since(at) < TELL_EVERY)
        {
            told.untold += 1;
            return None;
        }
        told.at = Some(now);
        Some(std::mem::take(&mut told.untold))
    }
}

impl Drop for PendingLogin {
    fn drop(&mut self) {
        self.pending_logins.lock().remove(self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    fn address(number: usize) -> IpAddr {
        IpAddr::from([10, 0, (number >> 8) as u8, number as u8])
    }

    const LIMITS: AdmissionLimits = AdmissionLimits {
        connections: 100,
        pending: 30,
        pending_per_address: 20,
    };

    #[test]
    fn one_address_gets_its_number_and_not_one_more() {
        let admission = Admission::new(LIMITS);
        let mut pending_logins = Vec::new();
        for _ in 0..LIMITS.pending_per_address {
            pending_logins.push(admission.admit(address(1), 0, 0).expect("within the limit"));
        }
        assert_eq!(
            admission.admit(address(1), 0, 0).err(),
            Some(Refusal::Address(20))
        );
        assert!(admission.admit(address(2), 0, 0).is_ok());
        pending_logins.pop();
        assert!(admission.admit(address(1), 0, 0).is_ok());
    }

    #[test]
    fn all_addresses_together_get_their_number_and_not_one_more() {
        let admission = Admission::new(LIMITS);
        let mut pending_logins: Vec<_> = (0..LIMITS.pending)
            .map(|number| {
                admission
                    .admit(address(number), 0, 0)
                    .expect("within the limit")
            })
            .collect();
        assert_eq!(
            admission.admit(address(9), 0, 0).err(),
            Some(Refusal::Pending(30))
        );
        pending_logins.pop();
        assert!(admission.admit(address(9), 0, 0).is_ok());
        drop(pending_logins);
        let counted = admission.pending_logins.lock();
        assert_eq!((counted.waiting.len(), counted.by_network.len()), (0, 0));
    }

    #[test]
    fn a_full_node_takes_nobody() {
        let admission = Admission::new(LIMITS);
        assert!(
            admission
                .admit(address(1), LIMITS.connections - 1, 0)
                .is_ok()
        );
        let full = admission.admit(address(1), LIMITS.connections, 0);
        assert_eq!(full.err(), Some(Refusal::Full(100)));
    }

    #[test]
    fn refusals_are_told_once_a_second_with_their_number() {
        let admission = Admission::default();
        let start = Instant::now();
        assert_eq!(admission.tell(start), Some(0));
        for ms in [1, 500, 999] {
            assert_eq!(admission.tell(start + Duration::from_millis(ms)), None);
        }
        assert_eq!(
            admission.tell(start + Duration::from_millis(1_000)),
            Some(3)
        );
        assert_eq!(
            admission.tell(start + Duration::from_millis(2_000)),
            Some(0)
        );
    }

    /// Connections from one address, open and told apart by their numbers.
    fn crowd(admission: &Admission, from: IpAddr, numbers: Range<u64>) -> Vec<PendingLogin> {
        let admit = |number| {
            let (place, displaced) = admission.admit(from, 0, 0).expect("within the limit");
            assert!(place.opened(ConnectionId(number)) && displaced.is_none());
            place
        };
        numbers.map(admit).collect()
    }

    #[test]
    fn the_first_of_the_most_crowded_address_makes_room() {
        let admission = Admission::new(LIMITS);
        let crowded = crowd(&admission, address(1), 0..20);
        let _few = crowd(&admission, address(2), 20..30);
        crowded[0].set_checked(true);
        let mut came = Vec::new();
        for (from, gone) in [(3, 1), (4, 2), (3, 3)] {
            let (place, displaced) = admission.admit(address(from), 0, 0).expect("a place");
            assert_eq!(displaced, Some(ConnectionId(gone)));
            came.push(place);
        }
        // What was displaced gives nothing back a second time.
        drop(crowded);
        let counted = admission.pending_logins.lock();
        assert_eq!(counted.waiting.len(), 13);
        assert_eq!(counted.by_network.len(), 3);
    }

    #[test]
    fn nobody_goes_for_one_of_as_crowded_an_address_before_it_has_had_time() {
        let admission = Admission::new(LIMITS);
        let _all: Vec<_> = (0..3)
            .flat_map(|from| {
                crowd(
                    &admission,
                    address(from as usize),
                    10 * from..10 * (from + 1),
                )
            })
            .collect();
        let come = |now_ms| admission.admit(address(1), 0, now_ms).map(|(_, gone)| gone);
        assert_eq!(come(DISPLACED_AFTER_MS - 1), Err(Refusal::Pending(30)));
        assert_eq!(come(DISPLACED_AFTER_MS), Ok(Some(ConnectionId(0))));
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_address() {
        let admission = Admission::new(LIMITS);
        let within = |number: usize| format!("2001:db8::{number:x}").parse().expect("an address");
        let places: Vec<_> = (0..LIMITS.pending_per_address)
            .map(|number| admission.admit(within(number), 0, 0).expect("a place"))
            .collect();
        let one_more = admission.admit(within(places.len()), 0, 0).err();
        assert_eq!(one_more, Some(Refusal::Address(20)));
        let another = "2001:db8:0:1::1".parse().expect("an address");
        assert!(admission.admit(another, 0, 0).is_ok());
    }

    #[test]
    fn who_is_displaced_before_its_connection_is_open_is_told_then() {
        let admission = Admission::new(AdmissionLimits {
            pending: 1,
            ..LIMITS
        });
        let (first, _) = admission.admit(address(1), 0, 0).expect("a place");
        let (second, gone) = admission
            .admit(address(2), 0, DISPLACED_AFTER_MS)
            .expect("the place of the first");
        assert_eq!(gone, None);
        assert!(!first.opened(ConnectionId(1)) && second.opened(ConnectionId(2)));
    }
}
