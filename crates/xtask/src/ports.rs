//! Loopback ports for servers that are started later, and again after they were killed.

use anyhow::{Result, bail};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Below those that the kernel gives to clients (from 32,768 on, unless it was told otherwise): one
/// of theirs may be taken by a client before its server is started, or while that is away. Above
/// those that servers have by custom.
const PORTS: Range<u16> = 26_000..32_768;

/// Ports that this process has given out: suites that run side by side start their servers later
/// than they ask.
static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// Loopback addresses that were free a moment ago, and that nobody in this process was given. All
/// are held until all are chosen, so that none comes twice.
///
/// # Errors
/// There are not so many.
pub fn free(count: usize) -> Result<Vec<SocketAddr>> {
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let first = RandomState::new().hash_one(()) as usize % PORTS.len();
    let from_there = PORTS.cycle().skip(first).take(PORTS.len());
    let from_there = from_there.filter(|port| !given.contains(port));
    let free = from_there.filter_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok());
    let held: Vec<TcpListener> = free.take(count).collect();
    if held.len() < count {
        bail!("fewer than {count} of the ports {PORTS:?} are free");
    }
    let addresses = held.iter().map(TcpListener::local_addr);
    let addresses: Vec<SocketAddr> = addresses.collect::<std::io::Result<_>>()?;
    given.extend(addresses.iter().map(SocketAddr::port));
    Ok(addresses)
}
