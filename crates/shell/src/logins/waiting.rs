//! Checks that wait: for their turn, or until their time comes.

use super::LoginWaiter;
use leveret_auth::{Fingerprint, Guesser, LoginCheck, Verdict};
use leveret_types::limits::{
    LOGINS_HELD_MAX, LOGINS_HELD_PER_ADDRESS_MAX, LOGINS_WAITING_MAX,
    LOGINS_WAITING_PER_ADDRESS_MAX,
};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;

/// A check and who wait for it.
pub(super) struct Job {
    pub(super) check: LoginCheck,
    pub(super) guesser: Guesser,
    /// Checks with the same one find the same.
    pub(super) fingerprint: Fingerprint,
    /// When it came.
    pub(super) came_ms: u64,
    pub(super) waiters: Vec<Box<dyn LoginWaiter>>,
}

impl Job {
    /// Whether anybody still does.
    pub(super) fn waits(&self) -> bool {
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

    pub(super) fn tell(self, verdict: Verdict) {
        for waiter in self.waiters {
            waiter.tell(verdict);
        }
    }
}

/// Checks by address, of which each has its turn.
#[derive(Default)]
pub(super) struct Waiting {
    pub(super) by_address: HashMap<IpAddr, VecDeque<Job>>,
    /// The addresses that have any, each once.
    turns: VecDeque<IpAddr>,
    pub(super) count: usize,
}

impl Waiting {
    /// Adds a check, to the same one that waits already if there is one; gives it back if there are
    /// too many.
    pub(super) fn push(&mut self, job: Job) -> Option<Job> {
        let address = job.guesser.network();
        let mut waiting = self.by_address.get_mut(&address).into_iter().flatten();
        if let Some(same) = waiting.find(|other| other.fingerprint == job.fingerprint) {
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
    pub(super) fn pop(&mut self) -> Option<Job> {
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

/// Checks that are held until a time.
#[derive(Default)]
pub(super) struct Held {
    /// By when, and in the order in which they came.
    jobs: BTreeMap<(u64, u64), Job>,
    by_address: HashMap<IpAddr, usize>,
    next: u64,
}

impl Held {
    /// Holds a check until this time; gives it back if too many are held.
    pub(super) fn push(&mut self, until_ms: u64, job: Job) -> Option<Job> {
        let address = job.guesser.network();
        if self.is_full_for(address) {
            self.forget_unwanted();
        }
        if self.is_full_for(address) {
            return Some(job);
        }
        *self.by_address.entry(address).or_default() += 1;
        self.jobs.insert((until_ms, self.next), job);
        self.next += 1;
        None
    }

    /// A check whose time has come, the one that has waited for longest.
    pub(super) fn pop(&mut self, now_ms: u64) -> Option<Job> {
        let first = self.jobs.first_entry()?;
        if first.key().0 > now_ms {
            return None;
        }
        let job = first.remove();
        self.count_out(job.guesser.network());
        Some(job)
    }

    /// When the next time comes.
    pub(super) fn next_ms(&self) -> Option<u64> {
        self.jobs.keys().next().map(|(until_ms, _)| *until_ms)
    }

    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    fn is_full_for(&self, address: IpAddr) -> bool {
        let of_address = self.by_address.get(&address).copied().unwrap_or(0);
        self.jobs.len() >= LOGINS_HELD_MAX || of_address >= LOGINS_HELD_PER_ADDRESS_MAX
    }

    fn count_out(&mut self, address: IpAddr) {
        if let Some(count) = self.by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&address);
            }
        }
    }

    fn forget_unwanted(&mut self) {
        let unwanted: Vec<_> = self
            .jobs
            .extract_if(.., |_, job| !job.waits())
            .map(|(_, job)| job.guesser.network())
            .collect();
        for address in unwanted {
            self.count_out(address);
        }
    }
}
