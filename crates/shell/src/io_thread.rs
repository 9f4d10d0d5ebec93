//! An IO thread: the sockets of its connections, and the loop that serves them.
//!
//! One turn of the loop reads every socket that has something, hands it to the connections, takes
//! in what other threads have posted, and writes what has gathered: one read, one write and at most
//! one wake-up of another thread for all that a turn brings.

mod accept;
mod client;
mod handshake;
mod listing;
mod slot;

use crate::broker::Broker;
use crate::buffers::ReadBuffers;
use crate::input_coalescing::InputCoalescing;
use crate::listener::Listener;
use crate::thread_event::{ThreadEvent, Which};
use crate::transport::Transport;
use accept::AcceptState;
use client::Client;
use leveret_node::{ConnectionStatus, ConsumersShown, Env};
use leveret_types::limits::{SHUTDOWN_CLIENT_MS, SOCKET_STALL_MS_MAX};
use leveret_types::{ConnectionId, ConsumerId, Now};
pub use listing::{CONSUMERS_LISTED, LISTED_MAX};
use listing::{Names, look_at_all, look_at_held, portion};
use mio::event::Event;
use mio::{Events, Poll, Token};
use slot::{Slot, lost};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Duration;

/// The token of the thread's waker.
pub const TOKEN_WAKER: Token = Token(usize::MAX);
/// Tokens of listeners start here; below are connections' slots.
const TOKEN_LISTENER: usize = usize::MAX / 2;
/// Events that one poll returns at most.
const EVENTS_MAX: usize = 1_024;
/// How often a turn goes back to the inbox before it writes: what connections tell each other in
/// place.
const INBOX_ROUNDS_MAX: usize = 8;
/// Slices of one vectored write.
const SLICES_MAX: usize = 64;

/// The slot of a connection in its thread.
const fn slot_of(id: ConnectionId) -> usize {
    (id.0 >> 8 & 0xFFFF) as usize
}

/// One IO thread.
pub struct IoThread {
    index: usize,
    broker: Arc<Broker>,
    poll: Poll,
    accepting: AcceptState,
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    names: Names,
    open: usize,
    ready: Vec<usize>,
    touched: Vec<usize>,
    awaiting: Vec<usize>,
    deadlines: BinaryHeap<Reverse<(u64, usize)>>,
    inbox: Vec<ThreadEvent>,
    buffers: ReadBuffers,
    input_coalescing: InputCoalescing,
    draining: bool,
    stopped: bool,
}

impl IoThread {
    /// A thread that serves what is posted to inbox `index` of the broker, and accepts on
    /// `listeners`.
    ///
    /// # Errors
    /// If a listener cannot be registered with the poll.
    pub fn new(
        index: usize,
        broker: Arc<Broker>,
        poll: Poll,
        mut listeners: Vec<Listener>,
    ) -> io::Result<Self> {
        for (number, listener) in listeners.iter_mut().enumerate() {
            listener.resume(poll.registry(), Token(TOKEN_LISTENER + number))?;
        }
        Ok(Self {
            index,
            broker,
            poll,
            accepting: AcceptState::new(listeners),
            slots: Vec::new(),
            free: Vec::new(),
            names: Names::default(),
            open: 0,
            ready: Vec::new(),
            touched: Vec::new(),
            awaiting: Vec::new(),
            deadlines: BinaryHeap::new(),
            inbox: Vec::new(),
            buffers: ReadBuffers::default(),
            input_coalescing: InputCoalescing::default(),
            draining: false,
            stopped: false,
        })
    }

    /// Serves until it is told to stop.
    pub fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !(self.stopped || self.draining && self.open == 0) {
            self.wait(&mut events);
            let now = self.broker.now();
            let work = self.turn(now, &events);
            self.input_coalescing.turn(work);
        }
    }

    /// Sleeps until there is something to do.
    fn wait(&mut self, events: &mut Events) {
        if !self.ready.is_empty() {
            self.poll_events(events, Some(Duration::ZERO));
            return;
        }
        if let Some(pause) = self.input_coalescing.pause() {
            std::thread::sleep(pause);
        }
        let inbox = self.broker.inbox(self.index);
        if !inbox.park(|| self.broker.durable_pending(self.index)) {
            self.poll_events(events, Some(Duration::ZERO));
            return;
        }
        let deadline = self.deadlines.peek().map(|Reverse((at, _))| *at);
        let again = Some(self.accepting.again_ms).filter(|at| *at > 0);
        let timeout = deadline.into_iter().chain(again).min().map(|at| {
            match at {
                // A connection has its next turn.
                ..=1 => Duration::ZERO,
                at => {
                    Duration::from_millis(at.saturating_sub(self.broker.now().monotonic_ms).max(1))
                }
            }
        });
        if self.open == 0 {
            self.buffers.clear();
        }
        self.poll_events(events, timeout);
        self.broker.inbox(self.index).unpark();
    }

    fn poll_events(&mut self, events: &mut Events, timeout: Option<Duration>) {
        if let Err(error) = self.poll.poll(events, timeout)
            && error.kind() != io::ErrorKind::Interrupted
        {
            crate::fatal(&format!("cannot wait for sockets: {error}"));
        }
    }

    /// One turn; answers how much it found to do.
    fn turn(&mut self, now: Now, events: &Events) -> usize {
        for event in events {
            match event.token() {
                TOKEN_WAKER => {}
                Token(number) if number >= TOKEN_LISTENER => self.accept(number - TOKEN_LISTENER),
                Token(slot) => self.socket_event(slot, event),
            }
        }
        self.accept_again(now);
        let epoch = self.broker.durable_epoch();
        let mut work = 0;
        for slot in std::mem::take(&mut self.ready) {
            work += self.read(now, slot);
        }
        for _ in 0..INBOX_ROUNDS_MAX {
            self.tell_durable(now);
            if !self.take_inbox(now) {
                break;
            }
        }
        self.broker.run_deferred(now);
        self.run_deadlines(now);
        self.finish_touched(now, epoch);
        work
    }

    fn socket_event(&mut self, slot: usize, event: &Event) {
        let Some(Some(state)) = self.slots.get_mut(slot) else {
            return;
        };
        state.input.ending |= event.is_read_closed();
        let has_gone = state.has_gone();
        if event.is_writable() && (state.output.blocked || state.transport.wants_write()) {
            state.output.blocked = false;
            self.touch(slot);
        }
        if has_gone {
            self.touch(slot);
        }
        if event.is_readable() {
            let Some(Some(state)) = self.slots.get_mut(slot) else {
                return;
            };
            state.input.unread = true;
            state.input.first_byte_until_ms = 0;
            self.queue_read(slot);
        }
    }

    fn queue_read(&mut self, slot: usize) {
        if let Some(state) = &mut self.slots[slot]
            && !state.listed.queued
        {
            state.listed.queued = true;
            self.ready.push(slot);
        }
    }

    /// The status of those of the thread's connections that are asked about.
    fn status_of(&mut self, which: &Which) -> Vec<ConnectionStatus> {
        match which {
            Which::Named(name) => {
                let slots = self.names.slots_of(name).into_iter();
                let ids = slots.filter_map(|slot| {
                    let state = self.slots[slot].as_ref()?;
                    (state.client.name() == &**name).then_some(state.id)
                });
                let ids: Vec<ConnectionId> = ids.collect();
                let status = |id| self.status_of_one(id, ConsumersShown::None);
                ids.into_iter().filter_map(status).collect()
            }
            Which::These(ids) => {
                let status = |id: &ConnectionId| self.status_of_one(*id, ConsumersShown::None);
                ids.iter().filter_map(status).collect()
            }
            Which::Consumers(consumers) => {
                let of_connections = consumers.chunk_by(|a, b| a.0 == b.0);
                let status = |some: &[(ConnectionId, ConsumerId)]| {
                    let ids: Vec<ConsumerId> = some.iter().map(|(_, id)| *id).collect();
                    self.status_of_one(some.first()?.0, ConsumersShown::These(&ids))
                };
                of_connections.filter_map(status).collect()
            }
            Which::Behind(id, place) => {
                let shown = ConsumersShown::Behind(*place, CONSUMERS_LISTED);
                self.status_of_one(*id, shown).into_iter().collect()
            }
        }
    }

    fn status_of_one(
        &mut self,
        id: ConnectionId,
        shown: ConsumersShown<'_>,
    ) -> Option<ConnectionStatus> {
        let state = self.slots.get_mut(slot_of(id))?.as_mut()?;
        (state.id == id && !state.client.over()).then(|| state.client.status(shown))
    }

    fn touch(&mut self, slot: usize) {
        if let Some(state) = &mut self.slots[slot]
            && !state.listed.touched
        {
            state.listed.touched = true;
            self.touched.push(slot);
        }
    }

    /// Reads a socket once and hands what it had to the connection; answers how many requests that
    /// made.
    fn read(&mut self, now: Now, slot: usize) -> usize {
        let Some(state) = &mut self.slots[slot] else {
            return 0;
        };
        state.listed.queued = false;
        if !state.input.unread || state.broken || state.transport.is_away() {
            return 0;
        }
        if !state.is_read() {
            // Read on when the connection says so: `finish` looks. It also waits no longer than it
            // must for a client that is gone.
            if state.input.ending {
                self.touch(slot);
            }
            return 0;
        }
        let direct = state.client.room();
        let is_direct = direct.is_some();
        let room = direct.unwrap_or_else(|| self.buffers.room());
        let offered = room.len().min(state.input.read_size.bytes());
        let room = &mut room[..offered];
        let mut requests = 0;
        match state.transport.read(room) {
            Ok(0) => state.broken = true,
            Ok(count) => {
                // A read that did not fill the buffer has emptied the socket: the next edge tells
                // of more. TLS may hold on to records that it has read already, so it is asked
                // until it has none.
                let more = state.input.ending || matches!(state.transport, Transport::Tls(_));
                state.input.unread = count == offered || more;
                // What was there before the socket was watched has no edge of its own.
                state.input.first_byte_until_ms = 0;
                if !state.client.secured() && state.transport.established() {
                    state.client.secure(
                        state.transport.peer_certificate().map(<[u8]>::to_vec),
                        state.transport.tls_status(),
                    );
                }
                let (client, broker) = (&mut state.client, &self.broker);
                requests = match is_direct {
                    true => client.receive_into_room(now, count, broker),
                    false => client.receive(now, self.buffers.take(count), broker),
                };
                state.input.read_size.note(count, requests);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => state.input.unread = false,
            Err(error) => lost(state, &error),
        }
        self.hand_over_handshake(slot);
        self.touch(slot);
        requests
    }

    /// Takes in what other threads, and this one's connections, have posted; false if there was
    /// nothing.
    fn take_inbox(&mut self, now: Now) -> bool {
        let mut events = std::mem::take(&mut self.inbox);
        self.broker.inbox(self.index).drain(&mut events);
        let any = !events.is_empty();
        for event in events.drain(..) {
            self.handle(now, event);
        }
        self.inbox = events;
        any
    }

    fn handle(&mut self, now: Now, event: ThreadEvent) {
        match event {
            ThreadEvent::Connection(id, event) => {
                let slot = slot_of(id);
                match self.slots.get_mut(slot) {
                    Some(Some(state)) if state.id == id => {
                        state.client.event(now, event, &self.broker);
                        self.touch(slot);
                    }
                    // The connection is gone; its consumers have been detached, and with that all
                    // it held has returned.
                    _ => {}
                }
            }
            ThreadEvent::Accepted(socket, origin, pending_login) => {
                self.open(socket, origin, pending_login)
            }
            ThreadEvent::Handshake(id, done) => self.take_back_handshake(id, done),
            ThreadEvent::Displaced(id) => {
                let slot = slot_of(id);
                if let Some(Some(state)) = self.slots.get_mut(slot)
                    && state.id == id
                    && state.pending_login.is_some()
                {
                    tracing::debug!(connection = %state.client.name(), "displaced before its login");
                    state.broken = true;
                    self.touch(slot);
                }
            }
            ThreadEvent::List(which, answer) => {
                // Whoever asked may have given up.
                let _ = answer.try_send(self.status_of(&which));
            }
            ThreadEvent::ListFrom(slot, queue, answer) => {
                let look = |client: &mut Client| look_at_all(client, queue);
                let _ = answer.try_send(portion(&mut self.slots, slot, look));
            }
            ThreadEvent::HoldingFrom(slot, messages, answer) => {
                let look = |client: &mut Client| look_at_held(client, &messages);
                let _ = answer.try_send(portion(&mut self.slots, slot, look));
            }
            ThreadEvent::AlarmsChanged => {
                for slot in 0..self.slots.len() {
                    if let Some(state) = &mut self.slots[slot] {
                        state.client.alarms_changed(now, &self.broker);
                        self.touch(slot);
                    }
                }
            }
            ThreadEvent::CloseAll => self.close_all(now),
            ThreadEvent::Listen(listen, answer) => {
                // Whoever asked may have given up.
                let _ = answer.try_send(self.set_listening(listen));
            }
            ThreadEvent::Drain => {
                self.draining = true;
                self.accepting.listeners.clear();
                for state in self.slots.iter_mut().flatten() {
                    state.output.taken_ms = now.monotonic_ms;
                }
                self.close_all(now);
            }
            ThreadEvent::Stop => self.stopped = true,
        }
    }

    fn close_all(&mut self, now: Now) {
        for slot in 0..self.slots.len() {
            if let Some(state) = &mut self.slots[slot] {
                state.client.shut_down(now, &self.broker);
                self.touch(slot);
            }
        }
    }

    /// Tells the connections that wait for the write-ahead log how far it is durable.
    fn tell_durable(&mut self, now: Now) {
        if self.awaiting.is_empty() || !self.broker.durable_news(self.index) {
            return;
        }
        for slot in std::mem::take(&mut self.awaiting) {
            if let Some(state) = &mut self.slots[slot] {
                state.listed.awaiting = false;
                state.client.durable(now, &self.broker);
                self.touch(slot);
            }
        }
    }

    fn run_deadlines(&mut self, now: Now) {
        while let Some(&Reverse((at, slot))) = self.deadlines.peek() {
            if at > now.monotonic_ms {
                return;
            }
            self.deadlines.pop();
            if let Some(state) = &mut self.slots[slot]
                && state.listed.deadline_ms == at
            {
                state.listed.deadline_ms = 0;
                if state.input.unread {
                    // Bytes that wait behind output that is not taken are no sign of life: to take
                    // it would be.
                    let monotonic_ms = match state.is_stuck() {
                        true => state.output.progress_ms,
                        false => now.monotonic_ms,
                    };
                    state.client.unread(Now {
                        monotonic_ms,
                        ..now
                    });
                }
                state.client.tick(now, &self.broker);
                let stalled = state.output.blocked
                    && now.monotonic_ms - state.output.progress_ms > SOCKET_STALL_MS_MAX;
                state.broken |= stalled;
                if self.draining {
                    // The system tells of room in a socket when a third of it is free, for which a
                    // slow client may take longer than it is waited for.
                    state.output.blocked = false;
                }
                self.touch(slot);
            }
        }
    }

    /// Writes what the connections have gathered, and sees to it that each is heard of again when
    /// it needs to be.
    fn finish_touched(&mut self, now: Now, epoch: u64) {
        let mut touched = std::mem::take(&mut self.touched);
        for slot in touched.drain(..) {
            self.finish(now, slot, epoch);
        }
        if self.touched.is_empty() {
            self.touched = touched;
        }
    }

    fn finish(&mut self, now: Now, slot: usize, epoch: u64) {
        let Some(state) = &mut self.slots[slot] else {
            return;
        };
        state.listed.touched = false;
        // Nobody hears any more what becomes of the login: its check, or handshake, is not run.
        state.broken |= state.has_gone() || state.waits_in_vain();
        let first_byte_at = state.check_pending_login(now);
        if state.client.over() && !state.torn_down {
            // What was the connection's alone is gone before the client hears that the connection
            // is closed.
            state.torn_down = true;
            state.client.teardown(now, &self.broker);
            self.broker.run_deferred(now);
        }
        let Some(state) = &mut self.slots[slot] else {
            return;
        };
        let probe_at = state.probe(now);
        while !state.broken && !state.output.blocked {
            write_output(state, now);
            state.client.written(now, &self.broker);
            // What was held back while the output was full may have gone into it now.
            if state.client.output().writable_len() == 0 {
                break;
            }
        }
        let waiting = state.client.output().len();
        state.output.share.note(waiting);
        let gone_at = state.check_gone(now);
        // An orderly end waits for who still takes what waits for it, and for no last words else.
        let given_up_at = self
            .draining
            .then(|| state.output.taken_ms + SHUTDOWN_CLIENT_MS);
        state.broken |= given_up_at.is_some_and(|at| at <= now.monotonic_ms);
        let written = state.end_output();
        // A node that goes down waits for nobody's last words.
        let over = state.client.closed() || self.draining && state.client.over();
        if state.broken || over && written {
            self.close(now, slot);
            return;
        }
        // A publisher ahead of the write-ahead log is read on when that has gone on.
        let ahead = state.input.unread && state.client.publishes() && self.broker.log_congested();
        if (ahead || state.client.awaiting()) && !state.listed.awaiting {
            state.listed.awaiting = true;
            self.awaiting.push(slot);
            self.broker.await_durable(self.index, epoch);
        }
        let own = [gone_at, given_up_at, first_byte_at, probe_at];
        if let Some(at) = state.new_deadline(now, own) {
            self.deadlines.push(Reverse((at, slot)));
        }
        if state.input.unread && !ahead && state.is_read() {
            self.queue_read(slot);
        }
    }

    fn close(&mut self, now: Now, slot: usize) {
        let Some(mut state) = self.slots[slot].take() else {
            return;
        };
        if !state.torn_down {
            state.client.teardown(now, &self.broker);
        }
        // A socket that is gone already cannot be deregistered, and need not be.
        let _ = self.poll.registry().deregister(state.transport.socket());
        self.names.remove(state.client.name(), slot);
        self.free.push(slot);
        self.open -= 1;
        self.broker.connection_closed();
        // What the connection held went back to queues, which may have delivered it to others here.
        self.broker.run_deferred(now);
    }
}

/// Writes what there is, as far as the socket takes it.
fn write_output(state: &mut Slot, now: Now) {
    state.client.flush();
    loop {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let count = state.client.output().slices(&mut slices);
        if count == 0 {
            break;
        }
        match state.transport.write(&slices[..count]) {
            Ok(0) => {
                state.broken = true;
                return;
            }
            Ok(written) => {
                state.client.output().advance(written);
                state.output.progress_ms = now.monotonic_ms;
                state.output.taken_ms = now.monotonic_ms;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                state.output.blocked = true;
                return;
            }
            Err(error) => {
                tracing::debug!(%error, connection = %state.client.name(), "connection lost");
                state.broken = true;
                return;
            }
        }
    }
    state.output.progress_ms = now.monotonic_ms;
    match state.transport.flush() {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => state.output.blocked = true,
        Err(_) => state.broken = true,
        Ok(()) => {}
    }
}
