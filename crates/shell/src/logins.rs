//! The checks of passwords: slow ones on threads of their own, so that nobody else waits for them,
//! and those of who guesses held for a while.
//!
//! Addresses take turns: one that sends a flood of logins delays its own, and a flood from many
//! delays those from where nobody has logged in; of these, who has guessed goes behind. Of one
//! address, users who have logged in from there go first. What nobody waits for any more is not
//! computed, nor what was found good, or wrong, a moment ago.

mod waiting;

#[cfg(test)]
mod tests;

use crate::urgency::give_way;
use leveret_auth::{Guesser, Guesses, HashMemory, LoginCheck, Remembered, Verdict};
use leveret_types::limits::LOGIN_DELAY_MS_MAX;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use waiting::{Held, Job, Standing, Waiting};

/// For how long a thread that has nothing to compute keeps the memory that it computes in.
const MEMORY_KEPT: Duration = Duration::from_secs(1);

/// Who waits for the check of a password.
pub trait LoginWaiter: Send {
    /// Whether it still does.
    fn waits(&self) -> bool;
    /// Tells it what became of the check.
    fn tell(self: Box<Self>, verdict: Verdict);
}

/// The checks that wait, and what was found of late.
pub struct Logins {
    state: Mutex<State>,
    waker: Condvar,
    /// Milliseconds since some moment.
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
}

struct State {
    waiting: Waiting,
    held: Held,
    guesses: Guesses,
    remembered: Remembered,
    /// Checks that have been held so far.
    held_count: u64,
    stopped: bool,
}

/// What to do next.
enum Next {
    Check(Job),
    /// It has been held for too long.
    Refuse(Job),
    /// Nothing until this time, or until there is something new.
    Wait(Option<u64>),
}

impl State {
    /// What is known of a check without computing anything; otherwise whether it may be computed
    /// now.
    fn look(&mut self, guesser: &Guesser, check: &LoginCheck, now_ms: u64) -> Look {
        if self.guesses.knows_wrong(self.remembered.fingerprint(check)) {
            return Look::Known(Verdict::Wrong);
        }
        if self.guesses.hold_ms(guesser, now_ms) > 0 {
            return self.look_while_held(guesser, check, now_ms);
        }
        match check.is_slow() {
            false => Look::Compute,
            true if self.remembered.knows(check, now_ms) => {
                self.guesses.succeeded(guesser);
                Look::Known(Verdict::Right)
            }
            true => Look::Later,
        }
    }

    /// Others guess at this user from the user's own address: a password that was right a moment
    /// ago is none of their guesses, and is right for as long again.
    fn look_while_held(&mut self, guesser: &Guesser, check: &LoginCheck, now_ms: u64) -> Look {
        if !self.guesses.may_look_up(guesser, now_ms) {
            return Look::Later;
        }
        if self.remembered.knows(check, now_ms) {
            self.remembered.remember(check, now_ms);
            return Look::Known(Verdict::Right);
        }
        self.guesses.looked_up_in_vain(guesser, now_ms);
        Look::Later
    }

    /// Takes a check that cannot be answered at once; gives it back if there are too many.
    fn take(&mut self, job: Job, now_ms: u64) -> Option<Job> {
        match self.guesses.hold_ms(&job.guesser, now_ms) {
            0 => self.make_wait(job),
            hold_ms => {
                self.held_count += 1;
                let is_known = self.guesses.is_known(&job.guesser);
                self.held.push(now_ms + hold_ms, job, is_known)
            }
        }
    }

    fn make_wait(&mut self, job: Job) -> Option<Job> {
        let standing = match &self.guesses {
            guesses if guesses.is_known(&job.guesser) => Standing::Known,
            guesses if guesses.is_familiar(&job.guesser) => Standing::Neighbour,
            _ => Standing::Stranger,
        };
        self.waiting.push(job, standing)
    }

    fn next(&mut self, now_ms: u64) -> Next {
        while let Some(job) = self.held.pop(now_ms) {
            if let Some(job) = self.make_wait(job) {
                return Next::Refuse(job);
            }
        }
        while let Some(job) = self.waiting.pop() {
            // Others from its address may have guessed meanwhile.
            let hold_ms = self.guesses.held_still_ms(&job.guesser, now_ms);
            if hold_ms == 0 {
                return Next::Check(job);
            }
            if now_ms + hold_ms > job.came_ms + LOGIN_DELAY_MS_MAX {
                return Next::Refuse(job);
            }
            let is_known = self.guesses.is_known(&job.guesser);
            if let Some(job) = self.held.push(now_ms + hold_ms, job, is_known) {
                return Next::Refuse(job);
            }
        }
        Next::Wait(self.held.next_ms())
    }

    /// Takes note of what a check has found.
    fn found(&mut self, guesser: &Guesser, check: &LoginCheck, right: bool, now_ms: u64) {
        self.waiting.note(guesser.network(), right);
        if right {
            self.guesses.succeeded(guesser);
            self.remembered.remember(check, now_ms);
            return;
        }
        let fingerprint = self.remembered.fingerprint(check);
        if self.guesses.failed(guesser, fingerprint, now_ms) {
            tracing::warn!(
                // What a stranger sent is escaped: it must not make lines of its own.
                user = ?check.user(),
                from = %guesser.network(),
                "too many wrong passwords: further logins of this user or from this address are \
                 held for a while",
            );
        }
    }
}

/// What is to be done with a check that has come.
enum Look {
    Known(Verdict),
    Compute,
    Later,
}

impl Logins {
    /// Nobody waits yet. The secret is of unguessable bytes.
    pub fn new(secret: [u8; 32]) -> Self {
        let started = Instant::now();
        Self::with_clock(secret, move || started.elapsed().as_millis() as u64)
    }

    fn with_clock(secret: [u8; 32], clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self {
            state: Mutex::new(State {
                waiting: Waiting::default(),
                held: Held::default(),
                guesses: Guesses::new(secret),
                remembered: Remembered::new(secret),
                held_count: 0,
                stopped: false,
            }),
            waker: Condvar::new(),
            clock: Box::new(clock),
        }
    }

    fn now_ms(&self) -> u64 {
        (self.clock)()
    }

    /// Checks a password for a client of this address here and now, where that is cheap or it is
    /// known. Otherwise it is to be [waited for](Self::enqueue).
    pub fn at_once(&self, address: IpAddr, check: &LoginCheck) -> Option<Verdict> {
        let now_ms = self.now_ms();
        let mut state = self.state.lock();
        let guesser = state.guesses.guesser(address, check);
        let look = state.look(&guesser, check, now_ms);
        drop(state);
        match look {
            Look::Known(verdict) => Some(verdict),
            Look::Later => None,
            Look::Compute => {
                let right = check.run(&mut HashMemory::default());
                let mut state = self.state.lock();
                state.found(&guesser, check, right, now_ms);
                Some(right.into())
            }
        }
    }

    /// Has a password checked when it is its turn, and its address and user are not held.
    pub fn enqueue(&self, address: IpAddr, check: LoginCheck, waiter: Box<dyn LoginWaiter>) {
        let came_ms = self.now_ms();
        let mut state = self.state.lock();
        let job = Job {
            guesser: state.guesses.guesser(address, &check),
            fingerprint: state.remembered.fingerprint(&check),
            check,
            came_ms,
            waiters: vec![waiter],
        };
        let refused = state.take(job, came_ms);
        drop(state);
        match refused {
            None => drop(self.waker.notify_one()),
            Some(job) => job.tell(Verdict::Busy),
        }
    }

    /// Both: at once where that is possible.
    pub fn check(&self, address: IpAddr, check: LoginCheck, waiter: Box<dyn LoginWaiter>) {
        match self.at_once(address, &check) {
            Some(verdict) => waiter.tell(verdict),
            None => self.enqueue(address, check, waiter),
        }
    }

    /// Whether anybody has logged in from this address of late.
    pub fn is_familiar(&self, address: IpAddr) -> bool {
        self.state.lock().guesses.is_familiar_address(address)
    }

    /// How many checks have been held so far, and how many are now.
    pub fn held(&self) -> (u64, usize) {
        let state = self.state.lock();
        (state.held_count, state.held.len())
    }

    /// Checks what waits until the node ends.
    pub fn run(&self) {
        give_way();
        let mut memory = HashMemory::default();
        while let Some(job) = self.next(&mut memory) {
            self.settle(job, &mut memory);
        }
    }

    fn next(&self, memory: &mut HashMemory) -> Option<Job> {
        let mut state = self.state.lock();
        while !state.stopped {
            let now_ms = self.now_ms();
            match state.next(now_ms) {
                Next::Check(job) => return Some(job),
                Next::Refuse(job) => {
                    drop(state);
                    job.tell(Verdict::Busy);
                    state = self.state.lock();
                }
                Next::Wait(until_ms) => {
                    let pause = until_ms.map(|until_ms| until_ms.saturating_sub(now_ms));
                    self.rest(&mut state, pause.map(Duration::from_millis), memory);
                }
            }
        }
        None
    }

    /// Sleeps until there is something new, at most for `pause`. Whoever rests for long without
    /// anything to compute keeps no memory for it.
    fn rest(
        &self,
        state: &mut MutexGuard<'_, State>,
        pause: Option<Duration>,
        memory: &mut HashMemory,
    ) {
        let kept = (!memory.is_empty()).then_some(MEMORY_KEPT);
        let Some(shortest) = pause.into_iter().chain(kept).min() else {
            return self.waker.wait(state);
        };
        if self.waker.wait_for(state, shortest).timed_out() && kept == Some(shortest) {
            // It takes its time, for which nobody is to wait.
            MutexGuard::unlocked(state, || memory.give_back());
        }
    }

    /// Computes one check and tells who wait for it.
    fn settle(&self, job: Job, memory: &mut HashMemory) {
        // The same one may have been under way when this one came.
        let known = {
            let mut state = self.state.lock();
            let is_wrong = state.guesses.knows_wrong(job.fingerprint);
            let is_right = !is_wrong && state.remembered.knows(&job.check, self.now_ms());
            if is_right {
                state.guesses.succeeded(&job.guesser);
            }
            (is_wrong || is_right).then_some(is_right)
        };
        let right = known.unwrap_or_else(|| {
            let right = job.check.run(memory);
            let now_ms = self.now_ms();
            let mut state = self.state.lock();
            state.found(&job.guesser, &job.check, right, now_ms);
            right
        });
        job.tell(right.into());
    }

    /// Ends the threads; who still waits is told nothing.
    pub fn stop(&self) {
        self.state.lock().stopped = true;
        self.waker.notify_all();
    }
}

/// Threads that compute slow hashes, and as many that compute handshakes, on a machine with so many
/// processors: most of them are left to those who are in already.
pub fn thread_count(processors: usize) -> usize {
    (processors / 4).clamp(1, 4)
}
