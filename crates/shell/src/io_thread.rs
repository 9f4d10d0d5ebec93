//! An IO thread: the sockets of its connections, and the loop that serves them.
//!
//! One turn of the loop reads every socket that has something, hands it to the connections, takes
//! in what other threads have posted, and writes what has gathered: one read, one write and at most
//! one wake-up of another thread for all that a turn brings.

mod accept;
mod client;
mod handshake;

use crate::admission::PendingLogin;
use crate::broker::Broker;
use crate::buffers::ReadBuffers;
use crate::input_coalescing::InputCoalescing;
use crate::listener::{Listener, Origin, Reserve};
use crate::read_size::ReadSize;
use crate::transport::{HandshakeDone, Transport};
use client::Client;
use leveret_node::{ConnectionEvent, ConnectionStatus, Env, HeldPlace, Holding};
use leveret_types::limits::{
    CLIENT_GONE_MS_MAX, SHUTDOWN_CLIENT_MS, SOCKET_OUTPUT_BYTES_MAX, SOCKET_STALL_MS_MAX,
    UNFINISHED_PROBE_MS, UNREAD_PROBE_MS,
};
use leveret_types::{ConnectionId, Now, QueueId};
use mio::event::Event;
use mio::net::TcpStream;
use mio::{Events, Poll, Token};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
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

/// Which connections somebody asks about.
#[derive(Clone, Debug)]
pub enum Which {
    /// The one of this name.
    Named(Arc<str>),
    /// Those that have consumers of this queue.
    Consuming(QueueId),
    /// These.
    These(Arc<[ConnectionId]>),
}

/// Connections that an IO thread looks at in one turn for whoever lists all of them.
pub const LISTED_MAX: usize = 64;
/// Channels, consumers and publishers, beside those of one connection more, that it copies then.
const CONTENTS_LISTED: usize = 2_048;

/// What an IO thread says in one turn of its connections.
#[derive(Debug)]
pub struct Portion<T> {
    /// Facts about some.
    pub found: Vec<T>,
    /// Where the next turn goes on; none when that was all.
    pub next: Option<usize>,
}

/// What one connection has to say, and how much it took to know that.
struct Look<T> {
    found: Option<T>,
    /// Channels, consumers, publishers and their like.
    contents: usize,
}

impl<T> Portion<T> {
    /// What the slots from this one on hold, until enough has been looked at.
    fn of(
        slots: &mut [Option<Slot>],
        from: usize,
        mut look: impl FnMut(&mut Client) -> Look<T>,
    ) -> Self {
        let (mut found, mut contents) = (Vec::new(), 0);
        for (slot, state) in slots.iter_mut().enumerate().skip(from) {
            if slot == from + LISTED_MAX || contents >= CONTENTS_LISTED {
                let next = Some(slot);
                return Self { found, next };
            }
            if let Some(state) = state.as_mut().filter(|state| !state.client.over()) {
                let look = look(&mut state.client);
                contents += look.contents;
                found.extend(look.found);
            }
        }
        Self { found, next: None }
    }
}

/// All that listings show of a client.
fn look_at_all(client: &mut Client) -> Look<ConnectionStatus> {
    let status = client.status();
    let published = status.published.iter().map(|to| to.queues.len());
    let contents = status.channels.len()
        + status.consumers.len()
        + published.sum::<usize>()
        + status.stream_publishers.len()
        + status.stream_subscriptions.len();
    Look {
        found: Some(status),
        contents,
    }
}

/// Which of these messages, given in ascending order, a client holds.
fn look_at_held(client: &Client, messages: &[HeldPlace]) -> Look<Holding> {
    let found = client.held_among(messages);
    let contents = match found {
        // It has looked through its deliveries: that is enough for one turn.
        Some(_) => CONTENTS_LISTED,
        None => client.serving_channels(),
    };
    Look { found, contents }
}

/// The slot of a connection in its thread.
const fn slot_of(id: ConnectionId) -> usize {
    (id.0 >> 8 & 0xFFFF) as usize
}

fn is_asked_about(client: &Client, which: &Which) -> bool {
    match which {
        Which::Named(name) => client.name() == &**name,
        Which::Consuming(queue) => client.consumes(*queue),
        Which::These(_) => true,
    }
}

/// What is posted to an IO thread.
pub enum ThreadEvent {
    /// For one of its connections.
    Connection(ConnectionId, ConnectionEvent),
    /// A new connection, with its place among those that have not logged in.
    Accepted(TcpStream, Origin, PendingLogin),
    /// A step of a connection's TLS handshake was computed.
    Handshake(ConnectionId, HandshakeDone),
    /// A connection that has not logged in has to go, for others come.
    Displaced(ConnectionId),
    /// Somebody asks for facts about connections.
    List(Which, SyncSender<Vec<ConnectionStatus>>),
    /// Somebody wants facts about all connections, portion by portion: the one that begins here.
    ListFrom(usize, SyncSender<Portion<ConnectionStatus>>),
    /// Somebody asks which connections from this slot on hold these messages, given in ascending
    /// order.
    HoldingFrom(usize, Arc<[HeldPlace]>, SyncSender<Portion<Holding>>),
    /// The alarms have changed: connections are to be blocked or let go on.
    AlarmsChanged,
    /// Close the connections that are open.
    CloseAll,
    /// Listen, or listen no more; the connections that are open go on. Answers what kept a
    /// listener from it.
    Listen(bool, SyncSender<io::Result<()>>),
    /// Take no new connections, close those that are open, then end.
    Drain,
    /// End now.
    Stop,
}

struct Slot {
    id: ConnectionId,
    transport: Transport,
    client: Client,
    /// Held until the client has logged in.
    pending_login: Option<PendingLogin>,
    /// The socket may hold bytes that have not been read.
    unread: bool,
    read_size: ReadSize,
    /// When it must have brought its first byte, in monotonic milliseconds; 0 once it has.
    first_byte_until_ms: u64,
    /// The client sends nothing more: behind what the socket holds is its end, of which no edge
    /// tells again.
    ending: bool,
    /// Since when that is known, and what it had sent before is not to be read; 0 if it is.
    gone_ms: u64,
    /// When it is next seen to whether the client is still there though its input is not to be
    /// read; 0 if that is read.
    probe_ms: u64,
    /// In the list of connections to be read in this turn.
    queued: bool,
    /// In the list of connections that something happened to in this turn.
    touched: bool,
    /// In the list of connections that wait for the write-ahead log.
    awaiting: bool,
    /// The socket took less than it was given.
    write_blocked: bool,
    /// When the socket last took something while output waited.
    write_progress_ms: u64,
    /// When the socket last took something, or, if that is later, when an orderly end began.
    taken_ms: u64,
    /// The deadline that stands in the heap, so that it is not entered twice.
    deadline_ms: u64,
    torn_down: bool,
    /// The client has been shown the end of the output.
    output_ended: bool,
    broken: bool,
}

/// One IO thread.
pub struct IoThread {
    index: usize,
    broker: Arc<Broker>,
    poll: Poll,
    listeners: Vec<Listener>,
    reserve: Reserve,
    /// When to look at the listeners without being told to; 0 for never.
    accept_again_ms: u64,
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    open: usize,
    ready: Vec<usize>,
    touched: Vec<usize>,
    awaiting: Vec<usize>,
    deadlines: BinaryHeap<Reverse<(u64, usize)>>,
    inbox: Vec<ThreadEvent>,
    buffers: ReadBuffers,
    input_coalescing: InputCoalescing,
    next_thread: usize,
    next_connection: u64,
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
            reserve: Reserve::take(),
            listeners,
            accept_again_ms: 0,
            slots: Vec::new(),
            free: Vec::new(),
            open: 0,
            ready: Vec::new(),
            touched: Vec::new(),
            awaiting: Vec::new(),
            deadlines: BinaryHeap::new(),
            inbox: Vec::new(),
            buffers: ReadBuffers::default(),
            input_coalescing: InputCoalescing::default(),
            next_thread: 0,
            next_connection: 0,
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
        let again = Some(self.accept_again_ms).filter(|at| *at > 0);
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
        state.ending |= event.is_read_closed();
        let has_gone = state.has_gone();
        if event.is_writable() && (state.write_blocked || state.transport.wants_write()) {
            state.write_blocked = false;
            self.touch(slot);
        }
        if has_gone {
            self.touch(slot);
        }
        if event.is_readable() {
            let Some(Some(state)) = self.slots.get_mut(slot) else {
                return;
            };
            state.unread = true;
            state.first_byte_until_ms = 0;
            self.queue_read(slot);
        }
    }

    fn queue_read(&mut self, slot: usize) {
        if let Some(state) = &mut self.slots[slot]
            && !state.queued
        {
            state.queued = true;
            self.ready.push(slot);
        }
    }

    /// Facts about those of the thread's connections that are asked about.
    fn status_of(&mut self, which: &Which) -> Vec<ConnectionStatus> {
        if let Which::These(ids) = which {
            let state = |id: &ConnectionId| {
                let state = self.slots.get_mut(slot_of(*id))?.as_mut()?;
                (state.id == *id && !state.client.over()).then(|| state.client.status())
            };
            return ids.iter().filter_map(state).collect();
        }
        let states = self.slots.iter_mut().flatten();
        let meant = states.filter(|s| !s.client.over() && is_asked_about(&s.client, which));
        meant.map(|s| s.client.status()).collect()
    }

    fn touch(&mut self, slot: usize) {
        if let Some(state) = &mut self.slots[slot]
            && !state.touched
        {
            state.touched = true;
            self.touched.push(slot);
        }
    }

    /// Reads a socket once and hands what it had to the connection; answers how many requests that
    /// made.
    fn read(&mut self, now: Now, slot: usize) -> usize {
        let Some(state) = &mut self.slots[slot] else {
            return 0;
        };
        state.queued = false;
        if !state.unread || state.broken || state.transport.is_away() {
            return 0;
        }
        if !state.is_read() {
            // Read on when the connection says so: `finish` looks. It also waits no longer than it
            // must for a client that is gone.
            if state.ending {
                self.touch(slot);
            }
            return 0;
        }
        let direct = state.client.room();
        let is_direct = direct.is_some();
        let room = direct.unwrap_or_else(|| self.buffers.room());
        let offered = room.len().min(state.read_size.bytes());
        let room = &mut room[..offered];
        let mut requests = 0;
        match state.transport.read(room) {
            Ok(0) => state.broken = true,
            Ok(count) => {
                // A read that did not fill the buffer has emptied the socket: the next edge tells
                // of more. TLS may hold on to records that it has read already, so it is asked
                // until it has none.
                let more = state.ending || matches!(state.transport, Transport::Tls(_));
                state.unread = count == offered || more;
                // What was there before the socket was watched has no edge of its own.
                state.first_byte_until_ms = 0;
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
                state.read_size.note(count, requests);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => state.unread = false,
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
            ThreadEvent::ListFrom(slot, answer) => {
                let portion = Portion::of(&mut self.slots, slot, look_at_all);
                let _ = answer.try_send(portion);
            }
            ThreadEvent::HoldingFrom(slot, messages, answer) => {
                let look = |client: &mut Client| look_at_held(client, &messages);
                let _ = answer.try_send(Portion::of(&mut self.slots, slot, look));
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
                self.listeners.clear();
                for state in self.slots.iter_mut().flatten() {
                    state.taken_ms = now.monotonic_ms;
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
                state.awaiting = false;
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
                && state.deadline_ms == at
            {
                state.deadline_ms = 0;
                if state.unread {
                    // Bytes that wait behind output that is not taken are no sign of life: to take
                    // it would be.
                    let stuck = state.client.output().len() > SOCKET_OUTPUT_BYTES_MAX;
                    let monotonic_ms = match stuck {
                        true => state.write_progress_ms,
                        false => now.monotonic_ms,
                    };
                    state.client.unread(Now {
                        monotonic_ms,
                        ..now
                    });
                }
                state.client.tick(now, &self.broker);
                let stalled = state.write_blocked
                    && now.monotonic_ms - state.write_progress_ms > SOCKET_STALL_MS_MAX;
                state.broken |= stalled;
                if self.draining {
                    // The system tells of room in a socket when a third of it is free, for which a
                    // slow client may take longer than it is waited for.
                    state.write_blocked = false;
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
        state.touched = false;
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
        while !state.broken && !state.write_blocked {
            write_output(state, now);
            state.client.written(now, &self.broker);
            // What was held back while the output was full may have gone into it now.
            if state.client.output().writable_len() == 0 {
                break;
            }
        }
        let mut gone_at = None;
        if !state.ending || state.is_read() {
            state.gone_ms = 0;
        } else {
            // Nobody waits for what is held back any more. It has a while to be carried out still.
            if state.gone_ms == 0 {
                state.gone_ms = now.monotonic_ms.max(1);
            }
            let at = state.gone_ms + CLIENT_GONE_MS_MAX;
            state.broken |= at <= now.monotonic_ms;
            gone_at = Some(at);
        }
        // An orderly end waits for who still takes what waits for it, and for no last words else.
        let given_up_at = self.draining.then(|| state.taken_ms + SHUTDOWN_CLIENT_MS);
        state.broken |= given_up_at.is_some_and(|at| at <= now.monotonic_ms);
        let written = state.client.output().is_empty();
        if written && !state.output_ended && state.client.ends_output() {
            state.output_ended = true;
            // A socket that cannot be told so is gone.
            state.broken |= state.transport.end_output().is_err();
        }
        // A node that goes down waits for nobody's last words.
        let over = state.client.closed() || self.draining && state.client.over();
        if state.broken || over && written {
            self.close(now, slot);
            return;
        }
        // A publisher ahead of the write-ahead log is read on when that has gone on.
        let ahead = state.unread && state.client.publishes() && self.broker.log_congested();
        if (ahead || state.client.awaiting()) && !state.awaiting {
            state.awaiting = true;
            self.awaiting.push(slot);
            self.broker.await_durable(self.index, epoch);
        }
        let own = [gone_at, given_up_at, first_byte_at, probe_at];
        let deadlines = own.into_iter().chain([state.client.deadline()]);
        let deadline = deadlines.flatten().min();
        let deadline = match (deadline, state.write_blocked) {
            (Some(at), false) => Some(at),
            (at, true) => Some(at.unwrap_or(u64::MAX).min(now.monotonic_ms + 10_000)),
            (None, false) => None,
        };
        if let Some(at) = deadline
            && (state.deadline_ms == 0 || at < state.deadline_ms)
        {
            state.deadline_ms = at.max(1);
            self.deadlines.push(Reverse((state.deadline_ms, slot)));
        }
        if state.unread && !ahead && state.is_read() {
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
        self.free.push(slot);
        self.open -= 1;
        self.broker.connection_closed();
        // What the connection held went back to queues, which may have delivered it to others here.
        self.broker.run_deferred(now);
    }
}

impl Slot {
    /// Whether the client has hung up while others compute what it needs to go on.
    fn has_gone(&self) -> bool {
        self.ending && (self.client.checking() || self.transport.awaits_answer())
    }

    /// Whether the client's input may be read.
    fn is_read(&mut self) -> bool {
        self.client.reading() && self.client.output().len() <= SOCKET_OUTPUT_BYTES_MAX
    }

    /// Whether a publish waits for room that can never become whole: the client sends no more, and
    /// what it has sent is not all of it.
    fn waits_in_vain(&self) -> bool {
        let lacks = self.client.lacks_bytes().filter(|_| self.ending);
        lacks.is_some_and(|bytes| self.transport.unread_bytes_max() < bytes)
    }

    /// A client that has gone hides behind what it had sent while that is not read: where the
    /// socket has no room for it all, the end does not come. To say something finds it out, for its
    /// system refuses to take that. Says when that is done next, if it is.
    fn probe(&mut self, now: Now) -> Option<u64> {
        if !self.unread || self.ending || self.write_blocked || self.is_read() {
            self.probe_ms = 0;
            return None;
        }
        // Others wait behind one that waits for room.
        let wait_ms = match self.client.lacks_bytes() {
            Some(_) => UNFINISHED_PROBE_MS,
            None => UNREAD_PROBE_MS,
        };
        if self.probe_ms > 0 && self.probe_ms <= now.monotonic_ms {
            self.client.beat();
            self.probe_ms = 0;
        }
        let probe_ms = now.monotonic_ms + wait_ms;
        self.probe_ms = match self.probe_ms {
            0 => probe_ms,
            at => at.min(probe_ms),
        };
        Some(self.probe_ms)
    }

    /// Gives back its place among those that have not logged in once it has, or tells whether it is
    /// the node's turn; says when it must have brought its first byte, if it has not.
    fn check_pending_login(&mut self, now: Now) -> Option<u64> {
        let pending_login = self.pending_login.as_ref()?;
        if self.client.open() {
            self.pending_login = None;
            return None;
        }
        pending_login.set_checked(self.client.checking());
        let until_ms = Some(self.first_byte_until_ms).filter(|until| *until > 0);
        self.broken |= until_ms.is_some_and(|until| until <= now.monotonic_ms);
        until_ms
    }
}

/// Says why a connection has ended that its stream ended.
fn lost(state: &mut Slot, error: &io::Error) {
    let connection = state.client.name();
    match state.transport.established() {
        true => tracing::debug!(%error, %connection, "connection lost"),
        // A certificate that is refused, say: the client is told less than this.
        false => tracing::warn!(%error, %connection, "TLS handshake failed"),
    }
    state.broken = true;
}

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
                state.write_progress_ms = now.monotonic_ms;
                state.taken_ms = now.monotonic_ms;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                state.write_blocked = true;
                return;
            }
            Err(error) => {
                tracing::debug!(%error, connection = %state.client.name(), "connection lost");
                state.broken = true;
                return;
            }
        }
    }
    state.write_progress_ms = now.monotonic_ms;
    match state.transport.flush() {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => state.write_blocked = true,
        Err(_) => state.broken = true,
        Ok(()) => {}
    }
}
