//! How connections come to an IO thread: from its listeners, or from a thread that had them to
//! spare. Apart because a listener serves all threads, and the rest of the loop only its own
//! sockets.

use super::client::Client;
use super::{IoThread, Slot, TOKEN_LISTENER};
use crate::admission::PendingLogin;
use crate::broker::thread_of;
use crate::listener::{Accepted, Listener, Origin, Reserve};
use crate::thread_event::ThreadEvent;
use leveret_cluster::Env;
use leveret_node::{Env as _, Peer};
use leveret_queue_host::delivery_credit::OutboxShare;
use leveret_types::limits::CONNECTIONS_MAX;
use leveret_types::{ConnectionId, Now};
use mio::net::TcpStream;
use mio::{Interest, Token};
use std::io;
use std::sync::Arc;
use std::time::Instant;

/// A connection's id: node, number, slot (16 bits), thread (8 bits).
const NODE_SHIFT: u32 = 52;
/// After how long a listener is looked at again whose clients could not be let in.
const ACCEPT_AGAIN_MS: u64 = 50;
/// Connections that a turn takes from a listener, and so those of a millisecond: who comes with
/// very many holds up those who are in for no longer than these take.
const ACCEPTED_PER_TURN: usize = 16;
const NUMBERS_MASK: u64 = (1 << (NODE_SHIFT - 24)) - 1;

/// Takes as many as a turn may, until there is none; whether more may wait.
fn take_some(mut take: impl FnMut() -> bool) -> bool {
    (0..ACCEPTED_PER_TURN).all(|_| take())
}

/// How a thread lets connections in.
pub(super) struct AcceptState {
    pub(super) listeners: Vec<Listener>,
    reserve: Reserve,
    /// When to look at the listeners without being told to; 0 for never.
    pub(super) again_ms: u64,
    /// The thread that has the next connection, of all threads in turn.
    next_thread: usize,
    /// The number of the last connection here.
    next_connection: u64,
}

impl AcceptState {
    pub(super) fn new(listeners: Vec<Listener>) -> Self {
        Self {
            listeners,
            reserve: Reserve::take(),
            again_ms: 0,
            next_thread: 0,
            next_connection: 0,
        }
    }
}

impl IoThread {
    pub(super) fn accept(&mut self, listener: usize) {
        if take_some(|| self.accept_one(listener)) {
            // The poll does not tell of the others again.
            self.accepting.again_ms = self.broker.now().monotonic_ms + 1;
        }
    }

    /// Takes the next connection that waits; false if none does, or it cannot be taken now.
    fn accept_one(&mut self, listener: usize) -> bool {
        let (socket, origin) = match self.accepting.listeners[listener].accept() {
            Accepted::Connection(socket, origin) => (socket, origin),
            Accepted::Nobody => return false,
            Accepted::Failed(error) => return self.turn_away(listener, &error),
        };
        if self.draining || !self.broker.serving() {
            return true;
        }
        let Some(pending_login) = self.admit(&origin) else {
            return true;
        };
        let threads = self.broker.thread_count();
        let target = self.accepting.next_thread % threads;
        self.accepting.next_thread += 1;
        if target == self.index {
            self.open(socket, origin, pending_login);
        } else {
            let inbox = self.broker.inbox(target);
            inbox.post([ThreadEvent::Accepted(socket, origin, pending_login)]);
            inbox.ring();
        }
        true
    }

    /// Tells a client that there is no file descriptor for it; false if that cannot be done now.
    fn turn_away(&mut self, listener: usize, error: &io::Error) -> bool {
        if let Some(untold) = self.broker.admission().tell(Instant::now()) {
            let address = self.accepting.listeners[listener].local();
            tracing::warn!(%error, %address, untold, "connection refused: cannot accept it");
        }
        let is_done = self
            .accepting
            .reserve
            .turn_away(&self.accepting.listeners[listener]);
        if !is_done {
            self.accepting.again_ms = self.broker.now().monotonic_ms + ACCEPT_AGAIN_MS;
        }
        is_done
    }

    /// Looks after those whom nobody could take when they came.
    pub(super) fn accept_again(&mut self, now: Now) {
        if self.accepting.again_ms == 0 || now.monotonic_ms < self.accepting.again_ms {
            return;
        }
        self.accepting.again_ms = 0;
        for listener in 0..self.accepting.listeners.len() {
            self.accept(listener);
        }
    }

    /// A place for a connection, unless the node has as many as it may.
    fn admit(&self, origin: &Origin) -> Option<PendingLogin> {
        let remote = origin.remote;
        let admission = self.broker.admission();
        let open = self.broker.connection_count();
        let now_ms = self.broker.now().monotonic_ms;
        let admitted = admission.admit(remote.ip(), open, now_ms);
        let admitted = admitted.map(|(pending_login, displaced)| {
            if let Some(displaced) = displaced {
                if let Some(untold) = admission.tell(Instant::now()) {
                    tracing::warn!(%remote, untold, "a connection before its login made room");
                }
                let inbox = self.broker.inbox(thread_of(displaced));
                inbox.post([ThreadEvent::Displaced(displaced)]);
                inbox.ring();
            }
            pending_login
        });
        admitted
            .inspect_err(|refusal| {
                if let Some(untold) = admission.tell(Instant::now()) {
                    tracing::warn!(%remote, untold, "connection refused: {refusal}");
                }
            })
            .ok()
    }

    pub(super) fn open(&mut self, socket: TcpStream, origin: Origin, pending_login: PendingLogin) {
        let now = self.broker.now();
        if self.free.is_empty() && self.slots.len() < CONNECTIONS_MAX {
            self.free.push(self.slots.len());
            self.slots.push(None);
        }
        let Some(slot) = self.free.pop() else {
            tracing::warn!(remote = %origin.remote, "connection refused: the node has {CONNECTIONS_MAX}");
            return;
        };
        self.accepting.next_connection += 1;
        let number = self.accepting.next_connection & NUMBERS_MASK;
        let node = u64::from(self.broker.node_id().0) << NODE_SHIFT;
        let id = ConnectionId(node | number << 24 | (slot as u64) << 8 | self.index as u64);
        let peer = Peer {
            remote: origin.remote,
            local: origin.local,
            tls: origin.tls.is_some(),
        };
        let protocol = origin.protocol;
        let mut transport = match origin.transport(socket) {
            Ok(transport) => transport,
            Err(error) => {
                tracing::warn!(%error, remote = %origin.remote, "cannot start TLS");
                self.free.push(slot);
                return;
            }
        };
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self
            .poll
            .registry()
            .register(transport.socket(), Token(slot), interest)
        {
            tracing::warn!(%error, remote = %origin.remote, "cannot watch a new connection");
            self.free.push(slot);
            return;
        }
        if !pending_login.opened(id) {
            // It was displaced since; its socket and its place go.
            let _ = self.poll.registry().deregister(transport.socket());
            self.free.push(slot);
            return;
        }
        let client = Client::new(protocol, id, peer, now, &self.broker);
        let share = OutboxShare::of(Arc::clone(self.broker.registry().socket_outputs()));
        let state = Slot::new(id, transport, client, pending_login, share, now);
        self.names.insert(state.client.name(), slot);
        self.slots[slot] = Some(state);
        self.open += 1;
        self.broker.connection_opened();
        self.queue_read(slot);
        self.touch(slot);
    }

    pub(super) fn set_listening(&mut self, listen: bool) -> io::Result<()> {
        let mut result = Ok(());
        for (number, listener) in self.accepting.listeners.iter_mut().enumerate() {
            match listen {
                false => listener.suspend(),
                true if listener.is_listening() => {}
                true => {
                    let token = Token(TOKEN_LISTENER + number);
                    let resumed = listener.resume(self.poll.registry(), token);
                    result = result.and(resumed);
                }
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_takes_its_number_of_connections_and_says_that_more_may_wait() {
        for (waiting, left) in [
            (ACCEPTED_PER_TURN - 1, None),
            (ACCEPTED_PER_TURN, Some(0)),
            (ACCEPTED_PER_TURN + 1, Some(1)),
        ] {
            let mut queue = 0..waiting;
            let may_wait = take_some(|| queue.next().is_some());
            assert_eq!(may_wait.then_some(queue.len()), left, "{waiting}");
        }
    }
}
