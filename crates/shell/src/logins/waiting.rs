//! Checks that wait: for their turn, or until their time comes.

use super::LoginWaiter;
use leveret_auth::{Fingerprint, Guesser, LoginCheck, Verdict};
use leveret_types::limits::{
    LOGINS_HELD_MAX, LOGINS_HELD_PER_ADDRESS_MAX, LOGINS_WAITING_MAX,
    LOGINS_WAITING_PER_ADDRESS_MAX, LOGINS_WAITING_UNFAMILIAR_MAX,
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

/// Of so many turns all but one are of addresses from where somebody has logged in, while any of
/// these wait.
const TURNS: u32 = 3;

/// Who brings a check, by what it has done before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nobody has logged in from its address.
    Stranger,
    /// Others have.
    Neighbour,
    /// This user has, from this address.
    Known,
}

/// What waits of one address.
struct Line {
    /// Checks of users who have logged in from there: they go first. However many wrong passwords
    /// one brings, few of them get here: the others are held.
    known: VecDeque<Job>,
    others: VecDeque<Job>,
    /// Whether somebody has logged in from there.
    is_familiar: bool,
}

impl Line {
    fn len(&self) -> usize {
        self.known.len() + self.others.len()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same check, where it waits already.
    fn same_as(&mut self, job: &Job) -> Option<&mut Job> {
        let mut all = self.known.iter_mut().chain(&mut self.others);
        all.find(|other| other.fingerprint == job.fingerprint)
    }

    fn forget_unwanted(&mut self) {
        self.known.retain(Job::waits);
        self.others.retain(Job::waits);
    }

    /// The first check that somebody waits for, without those before it for which nobody does.
    fn pop(&mut self) -> Option<Job> {
        let known = std::iter::from_fn(|| self.known.pop_front()).find(Job::waits);
        known.or_else(|| std::iter::from_fn(|| self.others.pop_front()).find(Job::waits))
    }
}

/// Checks by address, of which each has its turn. Addresses from where somebody has logged in have
/// most turns, and places of their own: whoever floods from many addresses has logged in from none.
#[derive(Default)]
pub(super) struct Waiting {
    by_address: HashMap<IpAddr, Line>,
    /// The addresses that have any, each once.
    turns: VecDeque<IpAddr>,
    /// The same of those from where somebody has logged in.
    familiar_turns: VecDeque<IpAddr>,
    turn: u32,
    pub(super) count: usize,
    /// How many of them are from where nobody has logged in.
    unfamiliar: usize,
}

impl Waiting {
    /// Adds a check, to the same one that waits already if there is one; gives it back if there are
    /// too many.
    pub(super) fn push(&mut self, job: Job, standing: Standing) -> Option<Job> {
        let address = job.guesser.network();
        let mut is_familiar = standing != Standing::Stranger;
        if let Some(line) = self.by_address.get_mut(&address) {
            is_familiar = line.is_familiar;
            if let Some(same) = line.same_as(&job) {
                same.join(job.waiters);
                return None;
            }
        }
        let is_known = standing == Standing::Known;
        if self.is_full_for(address, is_familiar, is_known) {
            self.forget_unwanted();
        }
        if self.is_full_for(address, is_familiar, is_known) {
            return Some(job);
        }
        let line = self.by_address.entry(address).or_insert_with(|| {
            let turns = match is_familiar {
                true => &mut self.familiar_turns,
                false => &mut self.turns,
            };
            turns.push_back(address);
            Line {
                known: VecDeque::new(),
                others: VecDeque::new(),
                is_familiar,
            }
        });
        match is_known {
            true => line.known.push_back(job),
            false => line.others.push_back(job),
        }
        self.count += 1;
        self.unfamiliar += usize::from(!is_familiar);
        None
    }

    /// What waits of an address.
    #[cfg(test)]
    pub(super) fn by_address(&self, address: IpAddr) -> &VecDeque<Job> {
        &self.by_address[&address].others
    }

    /// Known users have places of their own beside a flood from their address.
    fn is_full_for(&self, address: IpAddr, is_familiar: bool, is_known: bool) -> bool {
        let of_address = self.by_address.get(&address);
        let of_address = of_address.map_or(0, |line| match is_known {
            true => line.known.len(),
            false => line.others.len(),
        });
        self.count >= LOGINS_WAITING_MAX
            || of_address >= LOGINS_WAITING_PER_ADDRESS_MAX
            || !is_familiar && self.unfamiliar >= LOGINS_WAITING_UNFAMILIAR_MAX
    }

    /// The next address, by turns.
    fn next_address(&mut self) -> Option<IpAddr> {
        self.turn = (self.turn + 1) % TURNS;
        let (first, second) = match self.turn {
            0 => (&mut self.turns, &mut self.familiar_turns),
            _ => (&mut self.familiar_turns, &mut self.turns),
        };
        first.pop_front().or_else(|| second.pop_front())
    }

    /// The next check that somebody waits for.
    pub(super) fn pop(&mut self) -> Option<Job> {
        while let Some(address) = self.next_address() {
            let Some(line) = self.by_address.get_mut(&address) else {
                continue;
            };
            let before = line.len();
            let next = line.pop();
            let gone = before - line.len();
            self.count -= gone;
            if !line.is_familiar {
                self.unfamiliar -= gone;
            }
            match (line.is_empty(), line.is_familiar) {
                (true, _) => drop(self.by_address.remove(&address)),
                (false, true) => self.familiar_turns.push_back(address),
                (false, false) => self.turns.push_back(address),
            }
            if next.is_some() {
                return next;
            }
        }
        None
    }

    /// Makes room: drops what nobody waits for.
    fn forget_unwanted(&mut self) {
        self.by_address.retain(|_, line| {
            line.forget_unwanted();
            !line.is_empty()
        });
        let by_address = &self.by_address;
        for turns in [&mut self.turns, &mut self.familiar_turns] {
            turns.retain(|address| by_address.contains_key(address));
        }
        let count = |familiar: bool| -> usize {
            let lines = by_address.values();
            let lines = lines.filter(|line| familiar || !line.is_familiar);
            lines.map(Line::len).sum()
        };
        (self.count, self.unfamiliar) = (count(true), count(false));
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
