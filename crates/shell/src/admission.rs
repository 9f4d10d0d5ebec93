//! How many connections that have not logged in are kept, in all and from one address: what nobody
//! has a name for yet must not crowd out those who have.

use leveret_types::limits::{CONNECTIONS_PREAUTH_MAX, CONNECTIONS_PREAUTH_PER_IP_MAX};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Counts the connections that have not logged in.
#[derive(Clone, Default)]
pub struct Admission {
    guests: Arc<Mutex<Guests>>,
}

#[derive(Default)]
struct Guests {
    count: usize,
    /// Addresses that some of them come from: bounded, as they are.
    by_address: HashMap<IpAddr, usize>,
}

/// Why a connection is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The node has too many.
    #[error("{CONNECTIONS_PREAUTH_MAX} connections have not logged in yet")]
    Node,
    /// This address has too many.
    #[error("{CONNECTIONS_PREAUTH_PER_IP_MAX} connections of this address have not logged in yet")]
    Address,
}

/// The place of one connection among those that have not logged in; dropping it gives it back.
pub struct Guest {
    guests: Arc<Mutex<Guests>>,
    address: IpAddr,
}

impl Admission {
    /// A place for a connection from `address`.
    ///
    /// # Errors
    /// Which limit it would exceed.
    pub fn admit(&self, address: IpAddr) -> Result<Guest, Refusal> {
        let mut guests = self.guests.lock();
        if guests.count >= CONNECTIONS_PREAUTH_MAX {
            return Err(Refusal::Node);
        }
        let of_address = guests.by_address.entry(address).or_default();
        if *of_address >= CONNECTIONS_PREAUTH_PER_IP_MAX {
            return Err(Refusal::Address);
        }
        *of_address += 1;
        guests.count += 1;
        drop(guests);
        Ok(Guest {
            guests: Arc::clone(&self.guests),
            address,
        })
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut guests = self.guests.lock();
        guests.count -= 1;
        if let Some(of_address) = guests.by_address.get_mut(&self.address) {
            *of_address -= 1;
            if *of_address == 0 {
                guests.by_address.remove(&self.address);
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

    #[test]
    fn one_address_gets_its_number_and_not_one_more() {
        let admission = Admission::default();
        let mut guests = Vec::new();
        for _ in 0..CONNECTIONS_PREAUTH_PER_IP_MAX {
            guests.push(admission.admit(address(1)).expect("within the limit"));
        }
        assert_eq!(admission.admit(address(1)).err(), Some(Refusal::Address));
        assert!(admission.admit(address(2)).is_ok());
        guests.pop();
        assert!(admission.admit(address(1)).is_ok());
    }

    #[test]
    fn all_addresses_together_get_their_number_and_not_one_more() {
        let admission = Admission::default();
        let mut guests: Vec<Guest> = (0..CONNECTIONS_PREAUTH_MAX)
            .map(|number| admission.admit(address(number)).expect("within the limit"))
            .collect();
        assert_eq!(admission.admit(address(9)).err(), Some(Refusal::Node));
        guests.pop();
        assert!(admission.admit(address(9)).is_ok());
        drop(guests);
        let counted = admission.guests.lock();
        assert_eq!((counted.count, counted.by_address.len()), (0, 0));
    }
}
