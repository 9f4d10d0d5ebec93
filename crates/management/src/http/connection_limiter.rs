//! Who is served at a port: a bound on connections and on the bytes of their answers, and who makes
//! room when one of them is reached.
//!
//! Invariant: whoever comes is admitted. Room is made by the address that has most connections, so
//! that no address can keep another one out.

use crate::http::body_memory::Bodies;
use crate::http::workers::{Errand, Place, Workers};
use leveret_auth::network_of;
use leveret_types::limits::{
    HTTP_CONNECTIONS_MAX, HTTP_UNREAD_BYTES_MAX, HTTP_UNREAD_GRACE_MS, HTTP_WORKERS_MAX,
    HTTP_WORKERS_OF_ADDRESS_MAX, HTTP_WORKERS_OF_USER_MAX,
};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
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

/// Places for what is carried out at once.
#[derive(Debug)]
struct Places {
    workers: Workers,
    /// Lists that are put in order, whether a worker works for them or is awaited.
    orders: Arc<Semaphore>,
}

impl Places {
    fn of_network() -> Self {
        Self {
            workers: Workers::of_network(),
            orders: Arc::new(Semaphore::new(HTTP_WORKERS_OF_ADDRESS_MAX)),
        }
    }

    fn of_user() -> Self {
        Self {
            workers: Workers::of_user(),
            orders: Arc::new(Semaphore::new(HTTP_WORKERS_OF_USER_MAX)),
        }
    }
}

/// What a network may have at once, all of its connections together, and each of its users.
#[derive(Clone, Debug)]
struct Share {
    of_network: Arc<Places>,
    /// By the names of users whose requests are carried out. An ordered map: there may be very many
    /// names, and collisions could be made.
    users: Arc<Mutex<BTreeMap<String, Weak<Places>>>>,
}

impl Share {
    fn new() -> Self {
        Self {
            of_network: Arc::new(Places::of_network()),
            users: Arc::default(),
        }
    }

    fn of_user(&self, user: &str) -> UserShare {
        // Each change is whole before anything can panic.
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        users.retain(|_, places| places.strong_count() > 0);
        let known = users.get(user).and_then(Weak::upgrade);
        let of_user = known.unwrap_or_else(|| {
            let places = Arc::new(Places::of_user());
            users.insert(user.to_owned(), Arc::downgrade(&places));
            places
        });
        UserShare {
            of_network: Arc::clone(&self.of_network),
            of_user,
        }
    }
}

/// What a user may have at once of what a network may have, until this is dropped by all of its
/// requests. Who waits for a place of a user's own takes none of the network's meanwhile: so other
/// users behind the same address, as that of a proxy, do not wait for all that one has asked for.
#[derive(Debug)]
pub(crate) struct UserShare {
    of_network: Arc<Places>,
    of_user: Arc<Places>,
}

impl UserShare {
    /// Waits until the user, and the address, may have one more worker for this, and has it until
    /// what is answered is dropped. So some workers are left to others, however much one asks for.
    pub(crate) async fn worker(&self, errand: Errand) -> (Place, Place) {
        let of_user = self.of_user.workers.place(errand).await;
        (of_user, self.of_network.workers.place(errand).await)
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
        Self::with_bounds(HTTP_CONNECTIONS_MAX, HTTP_UNREAD_BYTES_MAX)
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
    _of_user: Option<OwnedSemaphorePermit>,
    _of_network: Option<OwnedSemaphorePermit>,
    _of_port: Option<OwnedSemaphorePermit>,
}

impl ConnectionPermit {
    /// What a user may have at once of what the peer's address may have.
    pub(crate) fn share_of(&self, user: &str) -> UserShare {
        self.share.of_user(user)
    }

    /// Waits until one more list may be put in order for a user, for the peer's address, and at the
    /// port. It has no worker between two turns of that, and what is known of its things is held:
    /// as many are begun at once as there are workers.
    pub(crate) async fn order(&self, share: &UserShare) -> OrderPermit {
        // None is ever closed.
        let of_user = Arc::clone(&share.of_user.orders).acquire_owned().await;
        let of_network = Arc::clone(&share.of_network.orders).acquire_owned().await;
        let of_port = Arc::clone(&self.limiter.orders).acquire_owned().await;
        OrderPermit {
            _of_user: of_user.ok(),
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

    /// What is ready at once.
    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(ready) => Some(ready),
            Poll::Pending => None,
        }
    }

    #[test]
    fn an_address_and_a_user_of_it_have_their_workers_and_not_one_more() {
        let limiter = ConnectionLimiter::with_bounds(10, 10);
        let permit = |from: &str| limiter.admit(address(from)).0;
        let (first, second, other) = (permit("10.0.0.1"), permit("10.0.0.1"), permit("10.0.0.2"));
        let worker = |permit: &ConnectionPermit, user: &str| {
            let share = permit.share_of(user);
            now(share.worker(Errand::Look)).map(|place| (share, place))
        };
        let mut taken = Vec::new();
        for _ in 0..HTTP_WORKERS_OF_USER_MAX {
            taken.push(worker(&first, "a").expect("there are so many"));
        }
        assert!(worker(&second, "a").is_none(), "all of a user's share");
        assert!(worker(&other, "a").is_some(), "that user elsewhere");
        for _ in HTTP_WORKERS_OF_USER_MAX..HTTP_WORKERS_OF_ADDRESS_MAX {
            taken.push(worker(&second, "b").expect("others have the rest"));
        }
        assert!(worker(&second, "c").is_none(), "all of an address share");
        assert!(worker(&other, "c").is_some());
        taken.remove(0);
        assert!(worker(&second, "c").is_some());
        assert!(worker(&second, "a").is_some());
    }

    #[test]
    fn a_user_of_whom_nothing_is_carried_out_is_not_remembered() {
        let limiter = ConnectionLimiter::with_bounds(10, 10);
        let permit = limiter.admit(address("10.0.0.1")).0;
        for number in 0..100 {
            drop(permit.share_of(&number.to_string()));
        }
        let _share = permit.share_of("last");
        assert_eq!(permit.share.users.lock().expect("users").len(), 1);
    }

    #[test]
    fn as_many_lists_are_put_in_order_at_once_as_there_are_workers() {
        let limiter = ConnectionLimiter::with_bounds(10, 10);
        let permit = |from: &str| limiter.admit(address(from)).0;
        let (first, second, other) = (permit("10.0.0.1"), permit("10.0.0.1"), permit("10.0.0.2"));
        let begin = |permit: &ConnectionPermit, user: &str| {
            let share = permit.share_of(user);
            now(permit.order(&share)).map(|order| (share, order))
        };
        let of_user = (0..HTTP_WORKERS_OF_USER_MAX).map(|_| begin(&first, "a"));
        let mut begun: Vec<_> = of_user.collect();
        assert!(begin(&second, "a").is_none(), "all of a user's share");
        let left = HTTP_WORKERS_OF_ADDRESS_MAX - HTTP_WORKERS_OF_USER_MAX;
        begun.extend((0..left).map(|_| begin(&first, "b")));
        assert!(begun.iter().all(Option::is_some));
        assert!(begin(&second, "c").is_none(), "all of an address share");
        let left = HTTP_WORKERS_MAX - HTTP_WORKERS_OF_ADDRESS_MAX;
        begun.extend((0..left).map(|_| begin(&other, "a")));
        assert!(begun.iter().all(Option::is_some));
        assert!(begin(&other, "b").is_none(), "all of a port share");
        begun.clear();
        assert!(begin(&second, "a").is_some());
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
