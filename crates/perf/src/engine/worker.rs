//! A thread that drives connections: it waits for sockets and for a timer, and looks at whatever
//! has something to do.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::connection::{Connection, Role, Shared, Turn};
use super::dial::{Answer, Dialer, Redialer};
use super::publisher::PublisherEnd;
use super::shared::{Clock, Control, Gauge, Progress, Report, STOP, Tally, Word};
use crate::error::Error;
use crate::verify::Ledger;

const WAKER: Token = Token(usize::MAX);
const TIMER: Token = Token(usize::MAX - 1);
/// How long connections may take to close.
const CLOSE_US: u64 = 10_000_000;
/// The least part of a second that is reported by itself.
const PART_US: u64 = 200_000;
/// Microseconds of a second.
const SECOND_US: u64 = 1_000_000;

/// A thread's connections, before they run.
pub struct Worker {
    index: usize,
    poll: Poll,
    waker: Arc<Waker>,
    timer: OwnedFd,
    connections: Vec<Connection>,
    ledgers: Vec<Ledger>,
    gauges: Arc<Vec<Gauge>>,
    redialer: Redialer,
    patience_us: u64,
}

/// What a thread leaves.
#[derive(Debug)]
pub struct WorkerEnd {
    /// Its publishers.
    pub publishers: Vec<PublisherEnd>,
    /// Its queues' ledgers, in the order in which it was given them.
    pub ledgers: Vec<Ledger>,
}

/// A thread's run.
struct Run {
    worker: Worker,
    control: Arc<Control>,
    words: Sender<Word>,
    shared: Shared,
    list: VecDeque<usize>,
    timers: BinaryHeap<Reverse<(u64, usize)>>,
    armed_us: Option<u64>,
    second: u64,
    phase: usize,
    reported_us: u64,
    waited_us: u64,
    close_by_us: Option<u64>,
}

impl Worker {
    /// A thread's connections; `loads` of loads in all. One that breaks is opened again by
    /// `dialer`, which is tried for `patience_us`; 0: not at all.
    ///
    /// # Errors
    /// If the kernel gives no poll or no timer.
    pub fn new(
        index: usize,
        connections: Vec<Connection>,
        ledgers: Vec<Ledger>,
        loads: usize,
        (dialer, patience_us): (&Arc<Dialer>, u64),
    ) -> Result<Self, Error> {
        let wrong = || Error::io("set an event loop up");
        let poll = Poll::new().map_err(wrong())?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER).map_err(wrong())?);
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)
            .map_err(|error| wrong()(error.into()))?;
        poll.registry()
            .register(&mut SourceFd(&timer.as_raw_fd()), TIMER, Interest::READABLE)
            .map_err(wrong())?;
        let mut worker = Self {
            index,
            poll,
            redialer: Redialer::new(Arc::clone(dialer), Arc::clone(&waker)),
            patience_us,
            waker,
            timer,
            connections,
            ledgers,
            gauges: Arc::new((0..loads).map(|_| Gauge::default()).collect()),
        };
        for at in 0..worker.connections.len() {
            worker.register(at)?;
        }
        Ok(worker)
    }

    fn register(&mut self, at: usize) -> Result<(), Error> {
        let Some(socket) = self.connections[at].socket() else {
            return Ok(());
        };
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = self.poll.registry().register(socket, Token(at), interest);
        registered.map_err(Error::io("wait for a connection"))
    }

    /// What wakes it up, to look at [`Control`].
    #[must_use]
    pub fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    /// Where it is, by load.
    #[must_use]
    pub fn gauges(&self) -> Arc<Vec<Gauge>> {
        Arc::clone(&self.gauges)
    }

    /// Runs until it is told to stop. What goes wrong is said to the coordinator, too.
    pub fn run(self, control: Arc<Control>, clock: Clock, words: Sender<Word>) -> WorkerEnd {
        let loads = self.gauges.len();
        let mut worker = self;
        let shared = Shared {
            clock,
            flags: 0,
            tallies: vec![Tally::default(); loads],
            progress: vec![Progress::default(); loads],
            ledgers: std::mem::take(&mut worker.ledgers),
        };
        let mut run = Run {
            worker,
            control,
            words,
            shared,
            list: VecDeque::new(),
            timers: BinaryHeap::new(),
            armed_us: None,
            second: 0,
            phase: 0,
            reported_us: 0,
            waited_us: 0,
            close_by_us: None,
        };
        if let Err(error) = run.run() {
            // Without a coordinator there is nobody to tell.
            let _ = run.words.send(Word::Failed(error));
        }
        run.end()
    }
}

impl Run {
    fn run(&mut self) -> Result<(), Error> {
        let mut events = Events::with_capacity(1_024);
        loop {
            self.follow()?;
            while let Some(answer) = self.worker.redialer.answer() {
                self.on_redialed(answer)?;
            }
            let now_us = self.shared.clock.now_us();
            self.tick(now_us);
            self.fire(now_us);
            if self.is_over(now_us) {
                return Ok(());
            }
            self.wait(&mut events)?;
            for event in &events {
                self.on_event(event);
            }
            for _ in 0..self.list.len() {
                self.turn()?;
            }
            for (gauge, progress) in self.worker.gauges.iter().zip(&self.shared.progress) {
                gauge.show(progress);
            }
        }
    }

    /// Does what the coordinator has said since the last look.
    fn follow(&mut self) -> Result<(), Error> {
        let (flags, phase) = self.control.read();
        let before = std::mem::replace(&mut self.shared.flags, flags);
        let now_us = self.shared.clock.now_us();
        if phase != self.phase {
            // What is left of the second before is too little to stand by itself, unless the
            // phase ended in its midst.
            if now_us - self.reported_us >= PART_US {
                self.report(now_us);
            }
            self.phase = phase;
        }
        if flags == before {
            return Ok(());
        }
        for at in 0..self.worker.connections.len() {
            let connection = &mut self.worker.connections[at];
            connection.follow(before, &mut self.shared);
            if flags & STOP != 0 && before & STOP == 0 {
                connection.close()?;
            }
            self.look_at(at);
        }
        if flags & STOP != 0 && self.close_by_us.is_none() {
            self.close_by_us = Some(self.shared.clock.now_us() + CLOSE_US);
        }
        Ok(())
    }

    fn is_over(&self, now_us: u64) -> bool {
        let all_closed = || self.worker.connections.iter().all(|c| c.closed);
        self.close_by_us
            .is_some_and(|by| now_us >= by || all_closed())
    }

    /// Reports a second that is over.
    fn tick(&mut self, now_us: u64) {
        let next_us = (self.second + 1) * SECOND_US;
        if now_us < next_us {
            return;
        }
        for connection in &mut self.worker.connections {
            for channel in connection.channels() {
                if let Role::Publisher(publisher) = &mut channel.role {
                    publisher.account(now_us, &mut self.shared.tallies[publisher.load]);
                }
            }
            connection.look_at_outage(now_us, &mut self.shared);
            // A batch of acknowledgements that does not fill must not wait for ever.
            connection.flush_settles();
        }
        for at in 0..self.worker.connections.len() {
            self.look_at(at);
        }
        self.report(now_us);
        // A thread that was kept from running for seconds does not report those it missed.
        self.second = now_us / SECOND_US;
    }

    fn report(&mut self, now_us: u64) {
        let fresh = vec![Tally::default(); self.shared.tallies.len()];
        let report = Report {
            second: self.second,
            at_us: now_us,
            phase: self.phase,
            tallies: std::mem::replace(&mut self.shared.tallies, fresh),
            waited_us: std::mem::take(&mut self.waited_us),
        };
        self.reported_us = now_us;
        // Without a coordinator there is nobody to tell.
        let _ = self.words.send(Word::Second(self.worker.index, report));
    }

    fn fire(&mut self, now_us: u64) {
        while let Some(&Reverse((at_us, connection))) = self.timers.peek() {
            if at_us > now_us {
                break;
            }
            self.timers.pop();
            // What was looked at meanwhile has another time, or none.
            if self.worker.connections[connection].timer_us == Some(at_us) {
                self.look_at(connection);
            }
        }
    }

    fn look_at(&mut self, at: usize) {
        let connection = &mut self.worker.connections[at];
        if !connection.listed {
            connection.listed = true;
            self.list.push_back(at);
        }
    }

    fn wait(&mut self, events: &mut Events) -> Result<(), Error> {
        let failed = Error::io("wait for sockets");
        if !self.list.is_empty() {
            let polled = self.worker.poll.poll(events, Some(Duration::ZERO));
            return ignore_interrupt(polled).map_err(failed);
        }
        let tick_us = (self.second + 1) * SECOND_US;
        let timer_us = self.timers.peek().map_or(tick_us, |Reverse((at, _))| *at);
        let mut until_us = timer_us.min(tick_us);
        until_us = until_us.min(self.close_by_us.unwrap_or(u64::MAX));
        let before_us = self.shared.clock.now_us();
        if until_us <= before_us {
            let polled = self.worker.poll.poll(events, Some(Duration::ZERO));
            return ignore_interrupt(polled).map_err(failed);
        }
        self.arm(until_us, before_us)?;
        ignore_interrupt(self.worker.poll.poll(events, None)).map_err(failed)?;
        self.waited_us += self.shared.clock.now_us() - before_us;
        Ok(())
    }

    /// Sets the timer. A poll's own timeout has milliseconds, too coarse for a schedule.
    fn arm(&mut self, until_us: u64, now_us: u64) -> Result<(), Error> {
        if self.armed_us == Some(until_us) {
            return Ok(());
        }
        let left = Duration::from_micros(until_us - now_us);
        let never = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let value = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        let time = Itimerspec {
            it_interval: never,
            it_value: value,
        };
        timerfd_settime(&self.worker.timer, TimerfdTimerFlags::empty(), &time)
            .map_err(|error| Error::io("set a timer")(error.into()))?;
        self.armed_us = Some(until_us);
        Ok(())
    }

    fn on_event(&mut self, event: &mio::event::Event) {
        match event.token() {
            WAKER => {}
            TIMER => self.armed_us = None,
            Token(at) => {
                let connection = &mut self.worker.connections[at];
                connection.read_closed |= event.is_read_closed();
                connection.readable |= event.is_readable() || event.is_read_closed();
                connection.readable |= event.is_error();
                connection.writable |= event.is_writable() || event.is_error();
                self.look_at(at);
            }
        }
    }

    /// Looks at the first connection of the list.
    fn turn(&mut self) -> Result<(), Error> {
        let Some(at) = self.list.pop_front() else {
            return Ok(());
        };
        let connection = &mut self.worker.connections[at];
        connection.listed = false;
        if connection.closed {
            return Ok(());
        }
        let before = connection.timer_us;
        if connection.is_down() {
            return match connection.redial(self.shared.clock.now_us(), at) {
                Some(request) => self.worker.redialer.ask(request),
                None => Ok(()),
            };
        }
        let turn = match connection.turn(&mut self.shared) {
            Ok(turn) => turn,
            Err(error) => {
                let patience_us = self.worker.patience_us;
                connection.on_break(error, at, patience_us, &mut self.shared)?;
                Turn::Wait
            }
        };
        if let Some(at_us) = connection
            .timer_us
            .filter(|_| connection.timer_us != before)
        {
            self.timers.push(Reverse((at_us, at)));
        }
        if turn == Turn::Again {
            self.look_at(at);
        }
        Ok(())
    }

    /// A connection was opened again, or could not be.
    fn on_redialed(&mut self, answer: Answer) -> Result<(), Error> {
        let at = answer.connection;
        let connection = &mut self.worker.connections[at];
        if connection.closed {
            return Ok(());
        }
        match answer.result {
            Ok(opened) => {
                connection.reopen(opened, &mut self.shared);
                self.worker.register(at)?;
                self.look_at(at);
            }
            Err(error) => {
                let now_us = self.shared.clock.now_us();
                connection.on_failed_attempt(error, self.worker.patience_us, now_us)?;
                if let Some(at_us) = connection.timer_us {
                    self.timers.push(Reverse((at_us, at)));
                }
            }
        }
        Ok(())
    }

    fn end(mut self) -> WorkerEnd {
        self.report(self.shared.clock.now_us());
        let mut publishers = Vec::new();
        for connection in &mut self.worker.connections {
            for channel in connection.channels() {
                if let Role::Publisher(publisher) = &channel.role {
                    publishers.push(publisher.end());
                }
            }
        }
        WorkerEnd {
            publishers,
            ledgers: self.shared.ledgers,
        }
    }
}

fn ignore_interrupt(polled: std::io::Result<()>) -> std::io::Result<()> {
    match polled {
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Ok(()),
        done => done,
    }
}
