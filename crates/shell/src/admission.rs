//! Which connections are let in: how many in all, and how many that have not logged in, in all and
//! from one address. What nobody has a name for yet must not crowd out those who have.
//!
//! Where all places are taken, whoever comes has that of who has been there for longest of the most
//! crowded address: a client logs in at once, and is gone from here before its turn to be displaced
//! comes. One address counts as [`network_of`] has it.

use leveret_auth::network_of;
use leveret_types::ConnectionId;
use leveret_types::limits::{
    CONNECTIONS_MAX, CONNECTIONS_PENDING_MAX, CONNECTIONS_PENDING_PER_ADDRESS_MAX,
};
use parking_lot::Mutex;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
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
            pending: CONNECTIONS_PENDING_MAX,
            pending_per_address: CONNECTIONS_PENDING_PER_ADDRESS_MAX,
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

/// Those that have not logged in. What a connection costs that comes or goes grows with the
/// logarithm of their number alone: most come while others flood.
#[derive(Default)]
struct PendingLogins {
    waiting: HashMap<u64, Waiting>,
    /// Networks that some of them come from: bounded, as they are.
    by_network: HashMap<IpAddr, Network>,
    /// The networks of which one can be displaced, the most crowded last, and of those that are as
    /// crowded the one whose connection has been there for longest.
    crowded: BTreeSet<(usize, Reverse<u64>, IpAddr)>,
    next: u64,
}

/// Those of one network.
#[derive(Default)]
struct Network {
    count: usize,
    /// The places of those that can be displaced. They are given in the order in which connections
    /// come.
    idle: BTreeSet<u64>,
}

/// A connection that has not logged in.
struct Waiting {
    network: IpAddr,
    came_ms: u64,
    /// Once there is one.
    connection: Option<ConnectionId>,
}

impl PendingLogins {
    /// Changes what is known of a network.
    fn change(&mut self, address: IpAddr, change: impl FnOnce(&mut Network)) {
        let network = self.by_network.entry(address).or_default();
        let rank =
            |network: &Network| Some((network.count, Reverse(*network.idle.first()?), address));
        if let Some(rank) = rank(network) {
            self.crowded.remove(&rank);
        }
        change(network);
        if let Some(rank) = rank(network) {
            self.crowded.insert(rank);
        }
        if network.count == 0 {
            self.by_network.remove(&address);
        }
    }

    fn insert(&mut self, network: IpAddr, came_ms: u64) -> u64 {
        let place = self.next;
        self.next += 1;
        let waiting = Waiting {
            network,
            came_ms,
            connection: None,
        };
        self.waiting.insert(place, waiting);
        self.change(network, |network| {
            network.count += 1;
            network.idle.insert(place);
        });
        place
    }

    fn remove(&mut self, place: u64) -> Option<Waiting> {
        let waiting = self.waiting.remove(&place)?;
        self.change(waiting.network, |network| {
            network.count -= 1;
            network.idle.remove(&place);
        });
        Some(waiting)
    }

    /// While it is the node's turn, as its password is checked, nobody displaces it.
    fn set_checked(&mut self, place: u64, is_checked: bool) {
        let Some(waiting) = self.waiting.get(&place) else {
            return;
        };
        self.change(waiting.network, |network| {
            match is_checked {
                true => network.idle.remove(&place),
                false => network.idle.insert(place),
            };
        });
    }

    fn count_of(&self, network: &IpAddr) -> usize {
        self.by_network
            .get(network)
            .map_or(0, |network| network.count)
    }

    /// Who has to go so that whoever comes from this network has a place: who has been there for
    /// longest of the most crowded network. Of one that is no more crowded than the own nobody goes
    /// who has not had time to log in.
    fn in_the_way(&self, network: IpAddr, now_ms: u64) -> Option<u64> {
        let (most, Reverse(place), _) = self.crowded.last()?;
        let waiting = self.waiting.get(place)?;
        let is_more_crowded = *most > self.count_of(&network) + 1;
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
        self.pending_logins
            .lock()
            .set_checked(self.place, is_checked);
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
        if pending_logins.count_of(&network) >= limits.pending_per_address {
            return Err(Refusal::Address(limits.pending_per_address));
        }
        let mut displaced = None;
        if pending_logins.waiting.len() >= limits.pending {
            let in_the_way = pending_logins.in_the_way(network, now_ms);
            let in_the_way = in_the_way.ok_or(Refusal::Pending(limits.pending))?;
            displaced = pending_logins.remove(in_the_way);
        }
        let place = pending_logins.insert(network, now_ms);
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
        assert!(counted.crowded.is_empty());
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

    /// Who goes as the rule has it, found by looking through all: places with their networks, and
    /// whether they are checked.
    fn longest_of_the_most_crowded(waiting: &[(u64, IpAddr, bool)]) -> Option<u64> {
        let count_of = |of: IpAddr| waiting.iter().filter(|(_, from, _)| *from == of).count();
        let idle = waiting.iter().filter(|(.., is_checked)| !is_checked);
        let most = idle.max_by_key(|(place, from, _)| (count_of(*from), Reverse(*place)));
        most.map(|(place, ..)| *place)
    }

    #[test]
    fn whatever_comes_and_goes_the_one_to_go_is_who_the_rule_names() {
        let admission = Admission::new(AdmissionLimits {
            pending_per_address: 30,
            ..LIMITS
        });
        let mut held: Vec<(PendingLogin, u64, IpAddr, bool)> = Vec::new();
        let (mut number, mut displaced_count) = (7_u64, 0);
        let mut random = |below: usize| {
            number = number
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (number >> 33) as usize % below
        };
        for step in 0..5_000_u64 {
            match random(8) {
                0 if !held.is_empty() => drop(held.swap_remove(random(held.len()))),
                1 if !held.is_empty() => {
                    let at = random(held.len());
                    held[at].3 = !held[at].3;
                    held[at].0.set_checked(held[at].3);
                }
                _ => {
                    let from = address(random(5));
                    let rows: Vec<_> = held.iter().map(|(_, n, from, c)| (*n, *from, *c)).collect();
                    let is_full = held.len() == LIMITS.pending;
                    let goes = longest_of_the_most_crowded(&rows).filter(|_| is_full);
                    let now_ms = step * DISPLACED_AFTER_MS;
                    let (place, displaced) = match admission.admit(from, 0, now_ms) {
                        Ok(admitted) => admitted,
                        Err(refusal) => {
                            let is_none_to_go = is_full && goes.is_none();
                            assert!(is_none_to_go || refusal == Refusal::Address(30));
                            continue;
                        }
                    };
                    assert_eq!(displaced, goes.map(ConnectionId), "step {step}");
                    displaced_count += usize::from(goes.is_some());
                    held.retain(|(_, number, ..)| Some(*number) != goes);
                    assert!(place.opened(ConnectionId(step)));
                    held.push((place, step, from, false));
                }
            }
        }
        assert!(displaced_count > 500, "{displaced_count}");
        drop(held);
        assert!(admission.pending_logins.lock().crowded.is_empty());
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
