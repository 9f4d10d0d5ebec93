//! Who is served at a port: a bound on connections and on the bytes of their answers, and who makes
//! room when one of them is reached.
//!
//! Invariant: whoever comes is admitted. Room is made by the address that has most connections, so
//! that no address can keep another one out.

use crate::http::body_memory::Bodies;
use crate::http::workers::{Errand, Place, Workers};
use leveret_auth::network_of;
use leveret_types::limits::{
    HTTP_CONNECTIONS_MAX, HTTP_HELD_BYTES_MAX, HTTP_UNREAD_GRACE_MS, HTTP_WORKERS_MAX,
    HTTP_WORKERS_OF_ADDRESS_MAX,
};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// The connections of one port.
#[derive(Debug)]
pub(crate) struct ConnectionLimiter {
    connections_max: usize,
    held_bytes_max: usize,
    begun: Instant,
    taken: Mutex<Taken>,
    bodies: Arc<Bodies>,
    /// Lists that may be put in order at once: what is known of their things is held meanwhile.
    orders: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    clients: BTreeMap<u64, Client>,
    held_bytes: usize,
}

/// What a network may have at once, all of its connections together.
#[derive(Clone, Debug)]
struct Share {
    workers: Workers,
    /// Lists that are put in order, whether a worker works for them or is awaited.
    orders: Arc<Semaphore>,
}

impl Share {
    fn new() -> Self {
        Self {
            workers: Workers::of_network(),
            orders: Arc::new(Semaphore::new(HTTP_WORKERS_OF_ADDRESS_MAX)),
        }
    }
}

/// A connection that is served.
#[derive(Debug)]
struct Client {
    network: IpAddr,
    /// When it last sent something or took something, in milliseconds since the beginning.
    active_ms: Arc<AtomicU64>,
    /// Whether its request is being carried out: it is silent because it waits for the node.
    waits: Arc<AtomicBool>,
    share: Share,
    held_bytes: usize,
    /// Dropped when the connection has to go.
    _stay: oneshot::Sender<()>,
}

impl Client {
    fn active_ms(&self) -> u64 {
        self.active_ms.load(Ordering::Relaxed)
    }

    fn waits(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }
}

impl Taken {
    /// Who makes room for one more connection: whoever has been silent for longest of the network
    /// that has most; of those whose requests are being carried out only if there is no other.
    fn crowded(&self) -> Option<u64> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for client in self.clients.values() {
            *counts.entry(client.network).or_default() += 1;
        }
        let most = counts.values().copied().max()?;
        let of_most = self
            .clients
            .iter()
            .filter(|(_, client)| counts.get(&client.network) == Some(&most));
        of_most
            .min_by_key(|(id, client)| (client.waits(), client.active_ms(), **id))
            .map(|(id, _)| *id)
    }

    /// Who makes room for another's answer: whoever has read nothing of its own for longest, and
    /// not since `before_ms`.
    fn unread(&self, but: u64, before_ms: u64) -> Option<u64> {
        let mut waiting: Vec<_> = self.clients.iter().collect();
        waiting.retain(|(id, client)| {
            **id != but && client.held_bytes > 0 && client.active_ms() < before_ms
        });
        let longest = waiting
            .into_iter()
            .min_by_key(|(_, client)| client.active_ms());
        longest.map(|(id, _)| *id)
    }

    /// What a network may have at once.
    fn share_of(&self, network: IpAddr) -> Share {
        let mut clients = self.clients.values();
        let of_network = clients.find(|client| client.network == network);
        of_network.map_or_else(Share::new, |client| client.share.clone())
    }

    fn remove(&mut self, id: u64) {
        if let Some(client) = self.clients.remove(&id) {
            self.held_bytes -= client.held_bytes;
        }
    }
}

impl ConnectionLimiter {
    pub(crate) fn new() -> Arc<Self> {
        Self::with_bounds(HTTP_CONNECTIONS_MAX, HTTP_HELD_BYTES_MAX)
    }

    fn with_bounds(connections_max: usize, held_bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            connections_max,
            held_bytes_max,
            begun: Instant::now(),
            taken: Mutex::default(),
            bodies: Bodies::new(),
            orders: Arc::new(Semaphore::new(HTTP_WORKERS_MAX)),
        })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        // Each change is whole before anything can panic.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn held_bytes(&self) -> usize {
        self.taken().held_bytes
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// A permit for a connection, and what says that it must be left.
    pub(crate) fn admit(
        self: &Arc<Self>,
        peer: IpAddr,
    ) -> (Arc<ConnectionPermit>, oneshot::Receiver<()>) {
        let (stay, leave) = oneshot::channel();
        let active_ms = Arc::new(AtomicU64::new(self.now_ms()));
        let waits = Arc::new(AtomicBool::new(false));
        let mut taken = self.taken();
        while taken.clients.len() >= self.connections_max
            && let Some(crowded) = taken.crowded()
        {
            taken.remove(crowded);
        }
        let id = taken.next;
        taken.next += 1;
        let network = network_of(peer);
        let share = taken.share_of(network);
        let client = Client {
            network,
            active_ms: Arc::clone(&active_ms),
            waits: Arc::clone(&waits),
            share: share.clone(),
            held_bytes: 0,
            _stay: stay,
        };
        taken.clients.insert(id, client);
        drop(taken);
        let limiter = Arc::clone(self);
        let permit = ConnectionPermit {
            limiter,
            id,
            active_ms,
            waits,
            share,
        };
        (Arc::new(permit), leave)
    }
}

/// The permit of a connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    limiter: Arc<ConnectionLimiter>,
    id: u64,
    active_ms: Arc<AtomicU64>,
    waits: Arc<AtomicBool>,
    share: Share,
}

/// A list that is put in order, until this is dropped.
#[derive(Debug)]
pub(crate) struct OrderPermit {
    _of_network: Option<OwnedSemaphorePermit>,
    _of_port: Option<OwnedSemaphorePermit>,
}

impl ConnectionPermit {
    /// Waits until the peer's address may have one more worker for this, and has it until what is
    /// answered is dropped. So some workers are left to others, however much one address asks for.
    pub(crate) async fn worker(&self, errand: Errand) -> Place {
        self.share.workers.place(errand).await
    }

    /// Waits until one more list may be put in order for the peer's address, and at the port. It
    /// has no worker between two turns of that, and what is known of its things is held: as many
    /// are begun at once as there are workers.
    pub(crate) async fn order(&self) -> OrderPermit {
        // Neither is ever closed.
        let of_network = Arc::clone(&self.share.orders).acquire_owned().await;
        let of_port = Arc::clone(&self.limiter.orders).acquire_owned().await;
        OrderPermit {
            _of_network: of_network.ok(),
            _of_port: of_port.ok(),
        }
    }

    /// Notes that the node carries out what the peer has asked, or has done so. A connection has
    /// one
    /// request at a time.
    pub(crate) fn set_waiting(&self, waits: bool) {
        self.waits.store(waits, Ordering::Relaxed);
        self.is_active();
    }

    /// The bodies of requests at this port.
    pub(crate) fn bodies(&self) -> &Arc<Bodies> {
        &self.limiter.bodies
    }

    /// Notes that the peer has sent something, or taken something.
    pub(crate) fn is_active(&self) {
        let now_ms = self.limiter.now_ms();
        self.active_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Room for an answer of so many bytes, until it is dropped; none where the answers of others,
    /// who read them, take it all. One answer may be larger than all room.
    pub(crate) fn hold(self: &Arc<Self>, bytes: usize) -> Option<Held> {
        let limiter = &self.limiter;
        let before_ms = limiter.now_ms().saturating_sub(HTTP_UNREAD_GRACE_MS);
        let mut taken = limiter.taken();
        while taken.held_bytes > 0
            && taken.held_bytes.saturating_add(bytes) > limiter.held_bytes_max
        {
            let unread = taken.unread(self.id, before_ms)?;
            taken.remove(unread);
        }
        // Whoever has to go itself holds nothing any more.
        let client = taken.clients.get_mut(&self.id)?;
        client.held_bytes += bytes;
        taken.held_bytes += bytes;
        drop(taken);
        let permit = Arc::clone(self);
        Some(Held { permit, bytes })
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.limiter.taken().remove(self.id);
    }
}

/// Bytes of an answer that somebody is to read.
#[derive(Debug)]
pub(crate) struct Held {
    permit: Arc<ConnectionPermit>,
    bytes: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut taken = self.permit.limiter.taken();
        if let Some(client) = taken.clients.get_mut(&self.permit.id) {
            client.held_bytes -= self.bytes;
            taken.held_bytes -= self.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use tokio::sync::oneshot::error::TryRecvError;

    type Client = (Arc<ConnectionPermit>, oneshot::Receiver<()>);

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn come(limiter: &Arc<ConnectionLimiter>, from: &str, active_ms: u64) -> Client {
        let client = limiter.admit(address(from));
        client.0.active_ms.store(active_ms, Ordering::Relaxed);
        client
    }

    fn stays(client: &mut Client) -> bool {
        client.1.try_recv() == Err(TryRecvError::Empty)
    }

    #[test]
    fn an_address_has_its_workers_and_not_one_more_and_others_have_theirs() {
        let limiter = ConnectionLimiter::with_bounds(10, 10);
        let permit = |from: &str| limiter.admit(address(from)).0;
        let worker = |permit: &ConnectionPermit| {
            let place = pin!(permit.worker(Errand::Look));
            match place.poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(place) => place,
                Poll::Pending => None,
            }
        };
        let (first, second, other) = (permit("10.0.0.1"), permit("10.0.0.1"), permit("10.0.0.2"));
        let mut taken = Vec::new();
        for _ in 0..HTTP_WORKERS_OF_ADDRESS_MAX {
            taken.push(worker(&first).expect("there are so many"));
        }
        assert!(
            worker(&second).is_none(),
            "all connections of an address share"
        );
        assert!(worker(&other).is_some());
        taken.pop();
        assert!(worker(&second).is_some());
    }

    #[test]
    fn as_many_lists_are_put_in_order_at_once_as_there_are_workers() {
        fn begin(permit: &ConnectionPermit) -> Option<OrderPermit> {
            let begun = std::pin::pin!(permit.order());
            match begun.poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(permit) => Some(permit),
                Poll::Pending => None,
            }
        }
        let limiter = ConnectionLimiter::with_bounds(10, 10);
        let permit = |from: &str| limiter.admit(address(from)).0;
        let (first, second, other) = (permit("10.0.0.1"), permit("10.0.0.1"), permit("10.0.0.2"));
        let of_first = (0..HTTP_WORKERS_OF_ADDRESS_MAX).map(|_| begin(&first));
        let mut begun: Vec<_> = of_first.collect();
        assert!(begun.iter().all(Option::is_some));
        assert!(begin(&second).is_none(), "all of an address share");
        let left = HTTP_WORKERS_MAX - HTTP_WORKERS_OF_ADDRESS_MAX;
        begun.extend((0..left).map(|_| begin(&other)));
        assert!(begun.iter().all(Option::is_some));
        assert!(begin(&other).is_none(), "all of a port share");
        begun.clear();
        assert!(begin(&second).is_some());
    }

    #[test]
    fn the_longest_silent_of_the_most_crowded_address_makes_room() {
        let limiter = ConnectionLimiter::with_bounds(4, 0);
        let mut alone = come(&limiter, "192.0.2.1", 0);
        let mut busy = come(&limiter, "192.0.2.9", 7);
        let mut silent = come(&limiter, "::ffff:192.0.2.9", 3);
        let mut last = come(&limiter, "192.0.2.9", 9);
        assert!(
            [&mut alone, &mut busy, &mut silent, &mut last]
                .into_iter()
                .all(stays)
        );
        let mut next = come(&limiter, "192.0.2.2", 5);
        assert!(!stays(&mut silent));
        assert!(
            [&mut alone, &mut busy, &mut last, &mut next]
                .into_iter()
                .all(stays)
        );
        // A place that is left is free, and who had to go takes none with it.
        drop((alone, silent));
        let mut fourth = come(&limiter, "192.0.2.9", 1);
        assert!(
            [&mut busy, &mut last, &mut next, &mut fourth]
                .into_iter()
                .all(stays)
        );
        assert_eq!(limiter.taken().clients.len(), 4);
    }

    #[test]
    fn whoever_waits_for_a_long_import_goes_last() {
        let limiter = ConnectionLimiter::with_bounds(3, 0);
        let mut import = come(&limiter, "192.0.2.9", 0);
        import.0.set_waiting(true);
        import.0.active_ms.store(0, Ordering::Relaxed);
        let mut idle = come(&limiter, "192.0.2.9", 5);
        let mut other = come(&limiter, "192.0.2.9", 7);
        let mut next = come(&limiter, "192.0.2.9", 9);
        assert!(!stays(&mut idle));
        assert!([&mut import, &mut other, &mut next].into_iter().all(stays));
        import.0.set_waiting(false);
        import.0.active_ms.store(0, Ordering::Relaxed);
        let mut last = come(&limiter, "192.0.2.9", 11);
        assert!(!stays(&mut import));
        assert!([&mut other, &mut next, &mut last].into_iter().all(stays));
    }

    #[test]
    fn a_flood_of_one_network_keeps_nobody_else_out() {
        let limiter = ConnectionLimiter::with_bounds(HTTP_CONNECTIONS_MAX, 0);
        let mut other = come(&limiter, "2001:db8:0:1::1", 0);
        let flood = |n: usize| come(&limiter, &format!("2001:db8:0:2::{n:x}"), n as u64);
        let mut flood: Vec<Client> = (0..HTTP_CONNECTIONS_MAX + 100).map(flood).collect();
        let mut next = come(&limiter, "2001:db8:0:1::2", 0);
        assert!(stays(&mut other));
        assert!(stays(&mut next));
        let stay = flood
            .iter_mut()
            .filter_map(|client| stays(client).then_some(()));
        assert_eq!(stay.count(), HTTP_CONNECTIONS_MAX - 2);
    }

    #[test]
    fn answers_that_nobody_reads_make_room_for_others() {
        let limiter = ConnectionLimiter::with_bounds(9, 100);
        let late = HTTP_UNREAD_GRACE_MS * 1_000;
        let mut unread = come(&limiter, "192.0.2.1", 0);
        let read = come(&limiter, "192.0.2.1", late);
        let (first, second) = (unread.0.hold(60), read.0.hold(40));
        assert!(first.is_some() && second.is_some());
        assert!(stays(&mut unread));
        // Time has not gone on: nobody has been silent for long enough.
        let next = come(&limiter, "192.0.2.2", late);
        assert!(next.0.hold(1).is_none());
        drop(second);
        let third = next.0.hold(40);
        assert!(third.is_some());
        assert_eq!(limiter.taken().held_bytes, 100);
        let before_ms = HTTP_UNREAD_GRACE_MS;
        assert_eq!(
            limiter.taken().unread(next.0.id, before_ms),
            Some(unread.0.id)
        );
        assert_eq!(limiter.taken().unread(unread.0.id, before_ms), None);
        drop((first, third));
        assert_eq!(limiter.taken().held_bytes, 0);
        assert!(next.0.hold(101).is_some(), "an answer alone may be larger");
    }
}
