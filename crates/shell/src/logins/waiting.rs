//! Checks that wait: for their turn, or until their time comes.

use super::LoginWaiter;
use leveret_auth::{AddressTurns, Fingerprint, Guesser, LoginCheck, Verdict};
use leveret_types::limits::{
    LOGINS_DELAYED_MAX, LOGINS_DELAYED_PER_ADDRESS_MAX, LOGINS_WAITING_MAX,
    LOGINS_WAITING_PER_ADDRESS_MAX, LOGINS_WAITING_UNFAMILIAR_MAX,
};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
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

/// Networks from which a password was wrong of late. How many there are is bounded, the oldest are
/// forgotten: half of them at once.
#[derive(Default)]
struct Guessers {
    newer: HashSet<IpAddr>,
    older: HashSet<IpAddr>,
}

impl Guessers {
    fn has(&self, network: IpAddr) -> bool {
        self.newer.contains(&network) || self.older.contains(&network)
    }

    fn note(&mut self, network: IpAddr, right: bool) {
        if right {
            self.newer.remove(&network);
            self.older.remove(&network);
            return;
        }
        if self.newer.len() >= LOGINS_WAITING_MAX / 2 {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(network);
    }
}

/// Checks by address, of which each has its turn. Addresses from where somebody has logged in have
/// places of their own: whoever floods from many addresses has logged in from none.
#[derive(Default)]
pub(super) struct Waiting {
    by_address: HashMap<IpAddr, Line>,
    turns: AddressTurns,
    /// Of strangers those who have guessed go behind the others: who comes for the first time does
    /// not wait for a flood, from however many addresses.
    guessers: Guessers,
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
        let is_full = |waiting: &Self| {
            waiting.is_full_for(address, is_known)
                || !is_familiar && waiting.unfamiliar >= LOGINS_WAITING_UNFAMILIAR_MAX
        };
        if is_full(self) {
            self.forget_unwanted();
        }
        if is_full(self) {
            return Some(job);
        }
        if !self.by_address.contains_key(&address) {
            self.give_turn(address, is_familiar);
        }
        let line = self.by_address.entry(address).or_insert_with(|| Line {
            known: VecDeque::new(),
            others: VecDeque::new(),
            is_familiar,
        });
        match is_known {
            true => line.known.push_back(job),
            false => line.others.push_back(job),
        }
        self.count += 1;
        self.unfamiliar += usize::from(!is_familiar);
        None
    }

    fn give_turn(&mut self, address: IpAddr, is_familiar: bool) {
        match !is_familiar && self.guessers.has(address) {
            true => self.turns.push_behind(address),
            false => self.turns.push(address, is_familiar),
        }
    }

    /// Takes note of what a check from a network has found.
    pub(super) fn note(&mut self, network: IpAddr, right: bool) {
        self.guessers.note(network, right);
    }

    /// What waits of an address.
    #[cfg(test)]
    pub(super) fn by_address(&self, address: IpAddr) -> &VecDeque<Job> {
        &self.by_address[&address].others
    }

    /// Known users have places of their own beside a flood from their address.
    fn is_full_for(&self, address: IpAddr, is_known: bool) -> bool {
        let of_address = self.by_address.get(&address);
        let of_address = of_address.map_or(0, |line| match is_known {
            true => line.known.len(),
            false => line.others.len(),
        });
        self.count >= LOGINS_WAITING_MAX || of_address >= LOGINS_WAITING_PER_ADDRESS_MAX
    }

    /// The next check that somebody waits for.
    pub(super) fn pop(&mut self) -> Option<Job> {
        while let Some((_, address)) = self.turns.take_next() {
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
            let is_familiar = line.is_familiar;
            match line.is_empty() {
                true => drop(self.by_address.remove(&address)),
                false => self.give_turn(address, is_familiar),
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
        self.turns
            .retain(|_, address| by_address.contains_key(&address));
        let count = |familiar: bool| -> usize {
            let lines = by_address.values();
            let lines = lines.filter(|line| familiar || !line.is_familiar);
            lines.map(Line::len).sum()
        };
        (self.count, self.unfamiliar) = (count(true), count(false));
    }
}

/// Checks that are held until a time. Those of users who have logged in from their address have
/// places of their own: what others bring from there does not take them.
#[derive(Default)]
pub(super) struct Held {
    /// By when, and in the order in which they came, with whether their user has logged in from
    /// there.
    jobs: BTreeMap<(u64, u64), (bool, Job)>,
    /// How many there are of users who have, and of others.
    counts: [usize; 2],
    by_address: HashMap<(bool, IpAddr), usize>,
    next: u64,
}

impl Held {
    /// Holds a check until this time; gives it back if too many are held.
    pub(super) fn push(&mut self, until_ms: u64, job: Job, is_known: bool) -> Option<Job> {
        let place = (is_known, job.guesser.network());
        if self.is_full_for(place) {
            self.forget_unwanted();
        }
        if self.is_full_for(place) {
            return Some(job);
        }
        self.counts[usize::from(is_known)] += 1;
        *self.by_address.entry(place).or_default() += 1;
        self.jobs.insert((until_ms, self.next), (is_known, job));
        self.next += 1;
        None
    }

    /// A check whose time has come, the one that has waited for longest.
    pub(super) fn pop(&mut self, now_ms: u64) -> Option<Job> {
        let first = self.jobs.first_entry()?;
        if first.key().0 > now_ms {
            return None;
        }
        let (is_known, job) = first.remove();
        self.count_out((is_known, job.guesser.network()));
        Some(job)
    }

    /// When the next time comes.
    pub(super) fn next_ms(&self) -> Option<u64> {
        self.jobs.keys().next().map(|(until_ms, _)| *until_ms)
    }

    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    fn is_full_for(&self, place: (bool, IpAddr)) -> bool {
        let of_address = self.by_address.get(&place).copied().unwrap_or(0);
        let count = self.counts[usize::from(place.0)];
        count >= LOGINS_DELAYED_MAX || of_address >= LOGINS_DELAYED_PER_ADDRESS_MAX
    }

    fn count_out(&mut self, place: (bool, IpAddr)) {
        self.counts[usize::from(place.0)] -= 1;
        if let Some(count) = self.by_address.get_mut(&place) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&place);
            }
        }
    }

    fn forget_unwanted(&mut self) {
        let unwanted: Vec<_> = self
            .jobs
            .extract_if(.., |_, (_, job)| !job.waits())
            .map(|(_, (is_known, job))| (is_known, job.guesser.network()))
            .collect();
        for place in unwanted {
            self.count_out(place);
        }
    }
}
