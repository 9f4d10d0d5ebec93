//! Which connections are let in: how many in all, and how many that have not logged in, in all and
//! from one address. What nobody has a name for yet must not crowd out those who have.

use leveret_types::limits::{
    CONNECTIONS_MAX, CONNECTIONS_PREAUTH_MAX, CONNECTIONS_PREAUTH_PER_IP_MAX,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Refusals are told at most this often: whoever is refused may come back at once.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// How many connections are let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// Connections of the node.
    pub connections: usize,
    /// Connections that have not logged in.
    pub pending: usize,
    /// Those of them that come from one address: a proxy's count together.
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
    count: usize,
    /// Addresses that some of them come from: bounded, as they are.
    by_address: HashMap<IpAddr, usize>,
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
    address: IpAddr,
}

impl Admission {
    /// Nobody is in yet.
    pub fn new(limits: AdmissionLimits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// A place for a connection from `address` to a node that has `open` of them.
    ///
    /// # Errors
    /// Which limit it would exceed.
    pub fn admit(&self, address: IpAddr, open: usize) -> Result<PendingLogin, Refusal> {
        let limits = &self.limits;
        if open >= limits.connections {
            return Err(Refusal::Full(limits.connections));
        }
        let mut pending_logins = self.pending_logins.lock();
        if pending_logins.count >= limits.pending {
            return Err(Refusal::Pending(limits.pending));
        }
        let of_address = pending_logins.by_address.entry(address).or_default();
        if *of_address >= limits.pending_per_address {
            return Err(Refusal::Address(limits.pending_per_address));
        }
        *of_address += 1;
        pending_logins.count += 1;
        drop(pending_logins);
        Ok(PendingLogin {
            pending_logins: Arc::clone(&self.pending_logins),
            address,
        })
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
        let mut pending_logins = self.pending_logins.lock();
        pending_logins.count -= 1;
        if let Some(of_address) = pending_logins.by_address.get_mut(&self.address) {
            *of_address -= 1;
            if *of_address == 0 {
                pending_logins.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            pending_logins.push(admission.admit(address(1), 0).expect("within the limit"));
        }
        assert_eq!(
            admission.admit(address(1), 0).err(),
            Some(Refusal::Address(20))
        );
        assert!(admission.admit(address(2), 0).is_ok());
        pending_logins.pop();
        assert!(admission.admit(address(1), 0).is_ok());
    }

    #[test]
    fn all_addresses_together_get_their_number_and_not_one_more() {
        let admission = Admission::new(LIMITS);
        let mut pending_logins: Vec<PendingLogin> = (0..LIMITS.pending)
            .map(|number| {
                admission
                    .admit(address(number), 0)
                    .expect("within the limit")
            })
            .collect();
        assert_eq!(
            admission.admit(address(9), 0).err(),
            Some(Refusal::Pending(30))
        );
        pending_logins.pop();
        assert!(admission.admit(address(9), 0).is_ok());
        drop(pending_logins);
        let counted = admission.pending_logins.lock();
        assert_eq!((counted.count, counted.by_address.len()), (0, 0));
    }

    #[test]
    fn a_full_node_takes_nobody() {
        let admission = Admission::new(LIMITS);
        assert!(admission.admit(address(1), LIMITS.connections - 1).is_ok());
        let full = admission.admit(address(1), LIMITS.connections);
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
}
