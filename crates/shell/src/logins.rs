//! Threads that compute slow password hashes, so that nobody else waits for them.
//!
//! Addresses take turns: one that sends a flood of logins delays its own. What nobody waits for any
//! more is not computed, nor what was found good a moment ago.

use leveret_auth::{Fingerprint, LoginCheck, Remembered, Verdict};
use leveret_types::limits::{LOGINS_WAITING_MAX, LOGINS_WAITING_PER_ADDRESS_MAX};
use parking_lot::{Condvar, Mutex};
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Instant;

/// By how much the threads stand back.
const NICENESS: i32 = 10;

/// Who waits for the check of a password.
pub trait LoginWaiter: Send {
    /// Whether it still does.
    fn waits(&self) -> bool;
    /// Tells it what became of the check.
    fn tell(self: Box<Self>, verdict: Verdict);
}

/// A check and who wait for it.
struct Job {
    check: LoginCheck,
    /// Checks with the same one find the same.
    fingerprint: Option<Fingerprint>,
    waiters: Vec<Box<dyn LoginWaiter>>,
}

impl Job {
    /// Whether anybody still does.
    fn waits(&self) -> bool {
        self.waiters.iter().any(|waiter| waiter.waits())
    }

    /// Lets those who bring the same check wait for this one.
    fn join(&mut self, mut waiters: Vec<Box<dyn LoginWaiter>>) {
        // Those who have gone make room, so that there are no more than a few times those who wait.
        if self.waiters.len() == self.waiters.capacity() {
            self.waiters.retain(|waiter| waiter.waits());
            self.waiters.reserve(self.waiters.len() + 1);
        }
        self.waiters.append(&mut waiters);
    }

    fn tell(self, verdict: Verdict) {
        for waiter in self.waiters {
            waiter.tell(verdict);
        }
    }
}

/// Which address a client takes its turns by. Of IPv6 it is the network: whoever has one address of
/// it mostly has all.
fn turn_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() & (u128::MAX << 64);
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        address => address,
    }
}

/// The checks that wait, and what was found good.
pub struct Logins {
    state: Mutex<State>,
    bell: Condvar,
    started: Instant,
}

struct State {
    waiting: Waiting,
    remembered: Remembered,
    stopped: bool,
}

/// Checks by address, of which each has its turn.
#[derive(Default)]
struct Waiting {
    by_address: HashMap<IpAddr, VecDeque<Job>>,
    /// The addresses that have any, each once.
    turns: VecDeque<IpAddr>,
    count: usize,
}

impl Waiting {
    /// Adds a check, to the same one that waits already if there is one; gives it back if there are
    /// too many.
    fn push(&mut self, address: IpAddr, job: Job) -> Option<Job> {
        let mut waiting = self.by_address.get_mut(&address).into_iter().flatten();
        let same = waiting
            .find(|other| other.fingerprint.is_some() && other.fingerprint == job.fingerprint);
        if let Some(same) = same {
            same.join(job.waiters);
            return None;
        }
        let of_address = self.by_address.get(&address).map_or(0, VecDeque::len);
        if self.count >= LOGINS_WAITING_MAX || of_address >= LOGINS_WAITING_PER_ADDRESS_MAX {
            self.forget_unwanted();
        }
        let of_address = self.by_address.get(&address).map_or(0, VecDeque::len);
        if self.count >= LOGINS_WAITING_MAX || of_address >= LOGINS_WAITING_PER_ADDRESS_MAX {
            return Some(job);
        }
        if of_address == 0 {
            self.turns.push_back(address);
        }
        self.by_address.entry(address).or_default().push_back(job);
        self.count += 1;
        None
    }

    /// The next check that somebody waits for.
    fn pop(&mut self) -> Option<Job> {
        while let Some(address) = self.turns.pop_front() {
            let Some(jobs) = self.by_address.get_mut(&address) else {
                continue;
            };
            let before = jobs.len();
            let mut next = jobs.pop_front();
            while next.as_ref().is_some_and(|job| !job.waits()) {
                next = jobs.pop_front();
            }
            self.count -= before - jobs.len();
            match jobs.is_empty() {
                true => drop(self.by_address.remove(&address)),
                false => self.turns.push_back(address),
            }
            if next.is_some() {
                return next;
            }
        }
        None
    }

    /// Makes room: drops what nobody waits for.
    fn forget_unwanted(&mut self) {
        self.by_address.retain(|_, jobs| {
            jobs.retain(|job| job.waits());
            !jobs.is_empty()
        });
        let by_address = &self.by_address;
        self.turns
            .retain(|address| by_address.contains_key(address));
        self.count = by_address.values().map(VecDeque::len).sum();
    }
}

impl Logins {
    /// Nobody waits yet. The secret is of unguessable bytes.
    pub fn new(secret: [u8; 32]) -> Self {
        Self {
            state: Mutex::new(State {
                waiting: Waiting::default(),
                remembered: Remembered::new(secret),
                stopped: false,
            }),
            bell: Condvar::new(),
            started: Instant::now(),
        }
    }

    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// Checks a password for a client of this address: here and now where it is cheap or known,
    /// otherwise when it is its turn.
    pub fn check(&self, address: IpAddr, check: LoginCheck, waiter: Box<dyn LoginWaiter>) {
        if !check.is_slow() {
            return waiter.tell(check.run().into());
        }
        let mut state = self.state.lock();
        if state.remembered.knows(&check, self.now_ms()) {
            drop(state);
            return waiter.tell(Verdict::Right);
        }
        let job = Job {
            fingerprint: state.remembered.fingerprint(&check),
            check,
            waiters: vec![waiter],
        };
        let refused = state.waiting.push(turn_of(address), job);
        drop(state);
        match refused {
            None => drop(self.bell.notify_one()),
            Some(job) => job.tell(Verdict::Busy),
        }
    }

    /// Checks what waits until the node ends.
    pub fn run(&self) {
        // Behind who is in already: strangers' logins wait for a processor, clients' messages do
        // not. Where the system refuses, the threads are as urgent as others.
        let _ = rustix::process::setpriority_process(None, NICENESS);
        while let Some(job) = self.next() {
            self.settle(job);
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if state.stopped {
                return None;
            }
            if let Some(job) = state.waiting.pop() {
                return Some(job);
            }
            self.bell.wait(&mut state);
        }
    }

    /// Computes one check and tells who wait for it.
    fn settle(&self, job: Job) {
        // The same one may have been under way when this one came.
        let known = {
            let state = self.state.lock();
            state.remembered.knows(&job.check, self.now_ms())
        };
        let right = known || job.check.run();
        if right && !known {
            let mut state = self.state.lock();
            state.remembered.remember(&job.check, self.now_ms());
        }
        job.tell(right.into());
    }

    /// Ends the threads; who still waits is told nothing.
    pub fn stop(&self) {
        self.state.lock().stopped = true;
        self.bell.notify_all();
    }
}

/// Threads that compute slow hashes on a machine with so many processors: most of them are left to
/// those who are in already.
pub fn thread_count(processors: usize) -> usize {
    (processors / 4).clamp(1, 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_auth::{HashingAlgorithm, PasswordHash};
    use std::sync::Arc;
    use std::sync::Weak;

    /// What was told, by the number of who was told.
    type Told = Arc<Mutex<Vec<(usize, Verdict)>>>;

    struct Client {
        number: usize,
        wanted: Weak<()>,
        told: Told,
    }

    impl LoginWaiter for Client {
        fn waits(&self) -> bool {
            self.wanted.strong_count() > 0
        }

        fn tell(self: Box<Self>, verdict: Verdict) {
            self.told.lock().push((self.number, verdict));
        }
    }

    /// A hash of a password that is as cheap as argon2id can be.
    const HASH: &str =
        "$argon2id$v=19$m=8,t=1,p=1$YWJjZGVmZ2g$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    struct Door {
        logins: Logins,
        told: Told,
        open: Arc<()>,
    }

    impl Door {
        fn new() -> Self {
            Self {
                logins: Logins::new([1; 32]),
                told: Told::default(),
                open: Arc::new(()),
            }
        }

        fn knock(&self, address: u8, number: usize, wanted: &Arc<()>) {
            let hash = PasswordHash::parse(HashingAlgorithm::Argon2id, HASH).expect("a hash");
            let usual = HashingAlgorithm::Sha256;
            let check = LoginCheck::new(Some(hash), number.to_string().into(), usual);
            self.send(address, number, wanted, check);
        }

        fn send(&self, address: u8, number: usize, wanted: &Arc<()>, check: LoginCheck) {
            let client = Client {
                number,
                wanted: Arc::downgrade(wanted),
                told: Arc::clone(&self.told),
            };
            let address = IpAddr::from([10, 0, 0, address]);
            self.logins.check(address, check, Box::new(client));
        }

        /// Runs all that waits; answers how many were computed.
        fn work(&self) -> usize {
            let next = || self.logins.state.lock().waiting.pop();
            let mut count = 0;
            while let Some(job) = next() {
                self.logins.settle(job);
                count += 1;
            }
            count
        }

        fn told(&self) -> Vec<usize> {
            self.told.lock().iter().map(|(number, _)| *number).collect()
        }
    }

    #[test]
    fn a_slow_check_is_not_computed_by_who_brings_it() {
        let door = Door::new();
        door.knock(1, 0, &door.open);
        assert!(door.told().is_empty());
        assert_eq!(door.work(), 1);
        assert_eq!(*door.told.lock(), [(0, Verdict::Wrong)]);
        // Nor is one of a user who does not exist, where new users have slow hashes.
        let check = LoginCheck::new(None, b"p".to_vec(), HashingAlgorithm::Argon2id);
        door.send(1, 1, &door.open, check);
        assert_eq!(door.told(), [0]);
        let check = LoginCheck::new(None, b"p".to_vec(), HashingAlgorithm::Sha256);
        door.send(1, 2, &door.open, check);
        assert_eq!(door.told(), [0, 2]);
    }

    #[test]
    fn addresses_take_turns() {
        let door = Door::new();
        for number in 0..5 {
            door.knock(1, number, &door.open);
        }
        door.knock(2, 10, &door.open);
        door.knock(3, 20, &door.open);
        door.knock(2, 11, &door.open);
        door.work();
        assert_eq!(door.told(), [0, 10, 20, 1, 11, 2, 3, 4]);
    }

    #[test]
    fn what_nobody_waits_for_is_not_computed() {
        let door = Door::new();
        let gone = Arc::new(());
        for number in 0..5 {
            door.knock(1, number, &gone);
        }
        door.knock(1, 5, &door.open);
        drop(gone);
        assert_eq!(door.work(), 1);
        assert_eq!(door.told(), [5]);
        assert_eq!(door.logins.state.lock().waiting.count, 0);
    }

    #[test]
    fn one_address_has_its_number_of_checks_and_not_one_more() {
        let door = Door::new();
        let gone = Arc::new(());
        for number in 0..LOGINS_WAITING_PER_ADDRESS_MAX {
            door.knock(1, number, if number == 7 { &gone } else { &door.open });
        }
        let next = LOGINS_WAITING_PER_ADDRESS_MAX;
        door.knock(1, next, &door.open);
        assert_eq!(*door.told.lock(), [(next, Verdict::Busy)]);
        door.knock(2, next + 1, &door.open);
        assert_eq!(door.told(), [next]);
        // Who has gone makes room.
        drop(gone);
        door.knock(1, next + 2, &door.open);
        assert_eq!(door.told(), [next]);
        let state = door.logins.state.lock();
        assert_eq!(state.waiting.count, LOGINS_WAITING_PER_ADDRESS_MAX + 1);
    }

    #[test]
    fn as_many_as_there_are_wait_for_the_same_login_of_one_user() {
        let door = Door::new();
        let algorithm = HashingAlgorithm::Argon2id;
        let check = || {
            let hash = PasswordHash::parse(algorithm, HASH).expect("a hash");
            LoginCheck::new(Some(hash), b"p".to_vec(), algorithm)
        };
        let many = 2 * LOGINS_WAITING_MAX;
        for number in 0..many {
            door.send(1, number, &door.open, check());
        }
        assert!(door.told().is_empty());
        assert_eq!(door.logins.state.lock().waiting.count, 1);
        // Those who have gone are not kept.
        let wanted = Arc::new(());
        door.send(2, many, &wanted, check());
        for number in 0..many {
            door.send(2, number, &Arc::new(()), check());
        }
        {
            let state = door.logins.state.lock();
            let kept = |job: &Job| job.waiters.len();
            let job = state.waiting.by_address[&IpAddr::from([10, 0, 0, 2])].front();
            assert!(
                job.map(kept).is_some_and(|kept| kept < 16),
                "{:?}",
                job.map(kept)
            );
        }
        drop(wanted);
        assert_eq!(door.work(), 1);
        assert_eq!(door.told(), (0..many).collect::<Vec<_>>());
        // Users who do not exist have no login in common.
        for number in 0..2 {
            let nobody = LoginCheck::new(None, b"p".to_vec(), algorithm);
            door.send(1, number, &door.open, nobody);
        }
        assert_eq!(door.logins.state.lock().waiting.count, 2);
    }

    #[test]
    fn a_network_of_ipv6_takes_turns_as_one_address() {
        let of = |text: &str| turn_of(text.parse().expect("an address"));
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::2"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("::ffff:10.0.0.1"), of("::ffff:10.0.0.2"));
    }

    #[test]
    fn the_same_good_login_is_computed_once() {
        let door = Door::new();
        let algorithm = HashingAlgorithm::Argon2id;
        let hash = PasswordHash::new(algorithm, b"p", &[1; 16]).expect("a hash");
        let check = || LoginCheck::new(Some(hash.clone()), b"p".to_vec(), algorithm);
        for number in 0..3 {
            door.send(1, number, &door.open, check());
        }
        assert_eq!(door.work(), 1);
        assert_eq!(door.told(), [0, 1, 2]);
        // Known, it does not wait.
        door.send(1, 3, &door.open, check());
        assert_eq!(door.told(), [0, 1, 2, 3]);
        let verdicts = door.told.lock();
        assert!(
            verdicts
                .iter()
                .all(|(_, verdict)| *verdict == Verdict::Right)
        );
    }
}
