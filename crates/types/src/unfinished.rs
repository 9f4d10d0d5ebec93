//! Publishes that have not arrived whole, of all connections of a node together: how many bytes
//! they may hold, who waits for a place, and who gives way.
//!
//! A publish has its place before its body is read, by the size that its header names, and a frame
//! of the stream protocol before more of it is read than one read of any socket brings: who has one
//! can be finished. Who finds none is not read until there is one. So nobody holds half of a
//! message while waiting for the other half, but for clients that have begun others on the same
//! connection.
//!
//! Places go by turn: nobody has one before the first of those who wait, also where it would fit.
//! They go in rounds, in which each user has one turn: those of one user go in the order in which
//! they came, and who comes with very many keeps others waiting no longer than with one.
//!
//! While somebody waits, who has a place is given up when nothing of it comes for a while, or when
//! it has not become whole in time. Both are short where its user holds more than an even share
//! with several places.

use crate::limits::{
    UNFINISHED_CROWD_MS_MAX, UNFINISHED_CROWD_SILENCE_MS, UNFINISHED_MS_MAX,
    UNFINISHED_NODE_BYTES_MAX, UNFINISHED_SILENCE_MS,
};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// For how long a turn is kept for who does not look, in milliseconds: longer than who waits takes
/// until it looks again.
const TURN_MS: u64 = 1_000;

/// The unfinished publishes of a node.
#[derive(Debug, Default)]
pub struct Unfinished {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// What all places hold, those included that were granted.
    bytes: usize,
    /// Those who hold places, or wait.
    users: HashMap<Arc<str>, User>,
    waiting: BTreeMap<Turn, Waiting>,
    /// Those whose place is kept until they look.
    granted: BTreeMap<Turn, Waiting>,
    /// The latest moment that was told, in monotonic milliseconds.
    now_ms: u64,
    /// That of the last place.
    round: u64,
    /// That of the last turn.
    number: u64,
}

#[derive(Debug, Default)]
struct User {
    bytes: usize,
    places: usize,
    waiting: usize,
    /// That of its last turn.
    round: u64,
}

/// When it is whose turn: the least is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    round: u64,
    number: u64,
}

#[derive(Debug)]
struct Waiting {
    user: Arc<str>,
    bytes: usize,
    /// When it last looked, or was granted its place.
    since_ms: u64,
}

impl Waiting {
    const fn has_left(&self, now_ms: u64) -> bool {
        self.since_ms + TURN_MS < now_ms
    }
}

/// The turn of one publish that waits for a place, given up when this is dropped.
#[derive(Debug)]
pub struct Ticket {
    of: Arc<Unfinished>,
    turn: Turn,
}

/// The place of one publish, given back when this is dropped.
#[derive(Debug)]
pub struct Place {
    of: Arc<Unfinished>,
    user: Arc<str>,
    bytes: usize,
    begun_ms: u64,
    heard_ms: u64,
}

/// Why a publish is given up. Its display goes on from what is given up: "the message ...".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    /// Whether it is because nothing of it came, not because it took so long.
    pub is_silent: bool,
    /// After so many milliseconds.
    pub after_ms: u64,
    /// Whether its user held too much.
    pub is_crowd: bool,
}

impl Unfinished {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Each change is whole before anything can panic.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that unfinished publishes have places for.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.kept().bytes
    }

    /// A place for so many bytes, if there is room and it is this one's turn: one that is larger
    /// than all that is allowed has it alone. Else `ticket` keeps its turn: look again with that.
    #[must_use]
    pub fn place(
        self: &Arc<Self>,
        ticket: &mut Option<Ticket>,
        user: &str,
        bytes: usize,
        now_ms: u64,
    ) -> Option<Place> {
        let had = ticket.as_ref().map(|ticket| ticket.turn);
        let asked = self.kept().ask(had, user, bytes, now_ms);
        // The lock is not held here: a ticket that is dropped takes it.
        match asked {
            Ok(user) => {
                *ticket = None;
                Some(Place {
                    of: Arc::clone(self),
                    user,
                    bytes,
                    begun_ms: now_ms,
                    heard_ms: now_ms,
                })
            }
            Err(turn) if had == Some(turn) => None,
            Err(turn) => {
                let of = Arc::clone(self);
                *ticket = Some(Ticket { of, turn });
                None
            }
        }
    }
}

impl Kept {
    /// The user whose place it is from now on, or the turn with which to ask again.
    fn ask(
        &mut self,
        had: Option<Turn>,
        user: &str,
        bytes: usize,
        now_ms: u64,
    ) -> Result<Arc<str>, Turn> {
        self.now_ms = self.now_ms.max(now_ms);
        let turn = had.filter(|turn| self.has(turn));
        let turn = turn.unwrap_or_else(|| self.wait(user, bytes));
        // It looks: so it is not forgotten now.
        if let Some(waiting) = self.waiting.get_mut(&turn) {
            waiting.since_ms = self.now_ms;
        }
        self.settle(now_ms);
        match self.granted.remove(&turn) {
            Some(granted) => Ok(granted.user),
            None => Err(turn),
        }
    }

    fn has(&self, turn: &Turn) -> bool {
        self.waiting.contains_key(turn) || self.granted.contains_key(turn)
    }

    /// Grants places to those whose turn it is, as far as there is room. Who does not look any more
    /// loses its turn, and its place.
    fn settle(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
        while let Some((turn, first)) = self.granted.first_key_value()
            && first.has_left(self.now_ms)
        {
            self.give_up(*turn);
        }
        while let Some((turn, first)) = self.waiting.first_key_value() {
            let (turn, next) = (*turn, self.bytes.saturating_add(first.bytes));
            if first.has_left(self.now_ms) {
                self.give_up(turn);
            } else if self.bytes == 0 || next <= UNFINISHED_NODE_BYTES_MAX {
                self.grant(turn);
            } else {
                return;
            }
        }
    }

    /// Nobody has a turn in a round that has begun, and no user has two in one: so whoever comes
    /// again goes behind all who have waited for it.
    fn next_turn(&mut self, user: &str) -> Turn {
        self.number += 1;
        let of_user = self.users.get(user).filter(|user| user.waiting > 0);
        Turn {
            round: of_user.map_or(0, |user| user.round).max(self.round) + 1,
            number: self.number,
        }
    }

    fn wait(&mut self, user: &str, bytes: usize) -> Turn {
        let turn = self.next_turn(user);
        let known = self.users.get_key_value(user);
        let name: Arc<str> = known.map_or_else(|| user.into(), |(name, _)| Arc::clone(name));
        let user = self.users.entry(Arc::clone(&name)).or_default();
        user.waiting += 1;
        user.round = turn.round;
        let waiting = Waiting {
            user: name,
            bytes,
            since_ms: self.now_ms,
        };
        self.waiting.insert(turn, waiting);
        turn
    }

    fn grant(&mut self, turn: Turn) {
        let Some(mut waiting) = self.waiting.remove(&turn) else {
            return;
        };
        self.round = turn.round;
        self.bytes += waiting.bytes;
        self.change(&waiting.user, |user| {
            user.waiting -= 1;
            user.places += 1;
            user.bytes += waiting.bytes;
        });
        waiting.since_ms = self.now_ms;
        self.granted.insert(turn, waiting);
    }

    /// Ends a turn, wherever it is.
    fn give_up(&mut self, turn: Turn) {
        if let Some(waiting) = self.waiting.remove(&turn) {
            self.change(&waiting.user, |user| user.waiting -= 1);
        }
        if let Some(granted) = self.granted.remove(&turn) {
            self.release(&granted.user, granted.bytes);
        }
    }

    fn release(&mut self, user: &str, bytes: usize) {
        self.bytes -= bytes;
        self.change(user, |user| {
            user.bytes -= bytes;
            user.places -= 1;
        });
    }

    /// Changes what a user has; who has nothing any more is forgotten.
    fn change(&mut self, name: &str, change: impl FnOnce(&mut User)) {
        let Some(user) = self.users.get_mut(name) else {
            return;
        };
        change(user);
        if user.places + user.waiting == 0 {
            self.users.remove(name);
        }
    }

    /// Whether somebody waits for room.
    fn is_waited_for(&mut self, now_ms: u64) -> bool {
        self.settle(now_ms);
        !self.waiting.is_empty()
    }

    /// Whether a user holds more than an even share with several places: a single one is no larger
    /// than a message may be.
    fn is_crowd(&self, user: &str) -> bool {
        let share = UNFINISHED_NODE_BYTES_MAX / self.users.len().max(1);
        let user = self.users.get(user);
        user.is_some_and(|user| user.bytes > share && user.places > 1)
    }
}

impl Place {
    /// Something of its publish has come, or could not come for the broker did not read it.
    pub const fn heard(&mut self, now_ms: u64) {
        self.heard_ms = now_ms;
    }

    /// When to look whether it is late, in monotonic milliseconds: it is not before.
    #[must_use]
    pub fn look_ms(&self) -> u64 {
        let silent_ms = self.heard_ms + UNFINISHED_CROWD_SILENCE_MS;
        silent_ms.min(self.begun_ms + UNFINISHED_CROWD_MS_MAX)
    }

    /// Why it is to be given up for those who wait, if it is.
    #[must_use]
    pub fn late(&self, now_ms: u64) -> Option<Late> {
        if now_ms < self.look_ms() {
            return None;
        }
        let mut kept = self.of.kept();
        if !kept.is_waited_for(now_ms) {
            return None;
        }
        let is_crowd = kept.is_crowd(&self.user);
        let (silence_ms, ms_max) = match is_crowd {
            true => (UNFINISHED_CROWD_SILENCE_MS, UNFINISHED_CROWD_MS_MAX),
            false => (UNFINISHED_SILENCE_MS, UNFINISHED_MS_MAX),
        };
        let is_silent = self.heard_ms + silence_ms <= now_ms;
        let is_late = is_silent || self.begun_ms + ms_max <= now_ms;
        is_late.then_some(Late {
            is_silent,
            after_ms: if is_silent { silence_ms } else { ms_max },
            is_crowd,
        })
    }
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.after_ms / 1_000;
        match self.is_silent {
            true => write!(f, "made no progress for {seconds} s")?,
            false => write!(f, "did not arrive within {seconds} s")?,
        }
        f.write_str(" while others waited for room")?;
        match self.is_crowd {
            true => f.write_str(", of which its user held more than an even share"),
            false => Ok(()),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut kept = self.of.kept();
        kept.release(&self.user, self.bytes);
        let now_ms = kept.now_ms;
        kept.settle(now_ms);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut kept = self.of.kept();
        kept.give_up(self.turn);
        let now_ms = kept.now_ms;
        kept.settle(now_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::UNFINISHED_LOOK_MS;

    const ALL: usize = UNFINISHED_NODE_BYTES_MAX;

    /// Somebody who wants a place for so many bytes.
    struct Client {
        of: Arc<Unfinished>,
        user: &'static str,
        bytes: usize,
        ticket: Option<Ticket>,
        place: Option<Place>,
    }

    impl Client {
        fn new(of: &Arc<Unfinished>, user: &'static str, bytes: usize) -> Self {
            Self {
                of: Arc::clone(of),
                user,
                bytes,
                ticket: None,
                place: None,
            }
        }

        /// Whether it has a place now.
        fn looks(&mut self, now_ms: u64) -> bool {
            let (ticket, bytes) = (&mut self.ticket, self.bytes);
            self.place = self.of.place(ticket, self.user, bytes, now_ms);
            assert_eq!(self.place.is_none(), self.ticket.is_some());
            self.place.is_some()
        }
    }

    #[test]
    fn places_are_given_up_to_the_bound_and_not_beyond_it() {
        let all = Arc::new(Unfinished::default());
        let client = |bytes| Client::new(&all, "u", bytes);
        let (mut first, mut second, mut last) = (client(ALL - 1), client(2), client(1));
        assert!(first.looks(10_000));
        assert!(!second.looks(10_001), "one more than there is");
        drop(second);
        assert!(last.looks(10_002));
        assert_eq!(all.bytes(), ALL);
        assert!(!client(1).looks(10_003));
        drop((first, last));
        assert_eq!(all.bytes(), 0);
        let mut large = client(ALL + 1);
        assert!(large.looks(10_004), "alone");
        assert!(!client(1).looks(10_005));
        drop(large);
        let kept = all.kept();
        assert!(kept.users.is_empty() && kept.waiting.is_empty() && kept.granted.is_empty());
    }

    #[test]
    fn who_takes_a_place_again_goes_behind_who_waits_whoever_it_is() {
        for (holder, waiter) in [("u", "u"), ("a", "b")] {
            let all = Arc::new(Unfinished::default());
            let mut again = Client::new(&all, holder, ALL - 5);
            let mut honest = Client::new(&all, waiter, 10);
            let mut small = Client::new(&all, holder, 1);
            assert!(again.looks(1));
            assert!(!honest.looks(2));
            assert!(!small.looks(2), "{holder}: it would fit, and came later");
            // Its publish is whole, and the next begins in the same turn.
            again.place = None;
            assert!(!again.looks(3), "{holder}: it is the waiter's turn");
            assert!(small.looks(4), "{holder}: there is room for all before it");
            assert!(honest.looks(102), "{holder}: its place was kept");
            assert!(!again.looks(103));
            honest.place = None;
            assert!(again.looks(104));
        }
    }

    #[test]
    fn who_waits_goes_by_turn_also_where_all_want_all_again_and_again() {
        let all = Arc::new(Unfinished::default());
        let users = ["a", "a", "a", "b"];
        let clients = users.map(|user| Client::new(&all, user, ALL));
        let mut clients = Vec::from(clients);
        let mut had = Vec::new();
        for round in 0..12 {
            let now_ms = 100 * round;
            // Those who came last look first.
            for at in (0..clients.len()).rev() {
                if clients[at].place.take().is_some() || clients[at].looks(now_ms) {
                    had.extend(clients[at].place.is_some().then_some(at));
                }
            }
        }
        assert!((0..3).all(|at| had.contains(&at)), "{had:?}");
        // It waits for one turn of the other user, and one more goes while it does not wait.
        let is_there = |turns: &[usize]| turns.contains(&3);
        assert!(had.windows(3).all(is_there), "each user its turn: {had:?}");
    }

    #[test]
    fn who_comes_with_very_many_holds_up_another_user_for_one_turn() {
        let all = Arc::new(Unfinished::default());
        let mut holder = Client::new(&all, "many", ALL);
        assert!(holder.looks(1));
        let mut many: Vec<Client> = Vec::new();
        many.resize_with(100, || Client::new(&all, "many", ALL));
        assert!(many.iter_mut().all(|client| !client.looks(1)));
        let mut honest = Client::new(&all, "one", 1);
        assert!(!honest.looks(1));
        holder.place = None;
        assert!(many[0].looks(2), "it came first");
        assert!(many[1..].iter_mut().all(|client| !client.looks(2)));
        many[0].place = None;
        assert!(!many[1].looks(3) && honest.looks(3));
    }

    #[test]
    fn a_turn_is_lost_by_who_goes_and_by_who_does_not_look() {
        let all = Arc::new(Unfinished::default());
        let clients = ["a", "b", "c", "d"].map(|user| Client::new(&all, user, ALL));
        let [mut holder, mut gone, mut idle, mut third] = clients;
        assert!(holder.looks(1));
        assert!(!gone.looks(1) && !idle.looks(1) && !third.looks(1));
        drop((gone, holder));
        assert!(!third.looks(1 + TURN_MS), "it is still the other's turn");
        assert!(third.looks(2 + TURN_MS));
        assert!(!idle.looks(2 + TURN_MS), "behind");
        third.place = None;
        assert!(idle.looks(3 + TURN_MS));
    }

    /// What a user may hold with several places where so many users hold or wait.
    #[test]
    fn a_user_gives_way_soon_with_more_than_an_even_share() {
        for (others, second, is_crowd) in [
            (1, ALL / 2, false),
            (1, ALL / 2 + 1, true),
            (3, ALL / 4, false),
            (3, ALL / 4 + 1, true),
        ] {
            let all = Arc::new(Unfinished::default());
            let names = ["b", "c", "d"];
            let mut waiting = Vec::from(names.map(|user| Client::new(&all, user, ALL)));
            waiting.truncate(others);
            let mut one = Client::new(&all, "a", 1);
            let mut two = Client::new(&all, "a", second - 1);
            assert!(one.looks(1_000) && two.looks(1_000));
            let begun = waiting
                .iter_mut()
                .filter_map(|c| c.looks(1_000).then_some(()));
            assert_eq!(begun.count(), 0);
            let two = two.place.as_ref();
            assert_eq!(
                two.map(|place| place.of.kept().is_crowd("a")),
                Some(is_crowd)
            );
            drop(one);
            assert!(!all.kept().is_crowd("a"), "a single one does not");
        }
    }

    /// How long a place is borne that nothing, or a byte now and then, comes for.
    #[test]
    fn a_place_is_late_when_nothing_comes_or_it_takes_too_long_and_only_for_others() {
        // Places of its user, milliseconds between two bytes, and when it is late.
        for (places, pace_ms, expected) in [
            (1, None, (true, 10_000, false)),
            (1, Some(9_000), (false, 60_000, false)),
            (2, None, (true, 2_000, true)),
            (2, Some(1_900), (false, 5_000, true)),
        ] {
            let all = Arc::new(Unfinished::default());
            let mut holders = Vec::new();
            holders.resize_with(places, || Client::new(&all, "a", ALL / places));
            assert!(holders.iter_mut().all(|holder| holder.looks(0)));
            let mut waiting = Client::new(&all, "b", 1);
            let place = holders[0].place.as_mut().expect("it has one");
            let mut found = None;
            for now_ms in (0..=60_000).step_by(UNFINISHED_LOOK_MS as usize) {
                assert_eq!(place.late(now_ms), None, "nobody waits");
                assert!(!waiting.looks(now_ms));
                if pace_ms.is_some_and(|pace| now_ms % pace == 0) {
                    place.heard(now_ms);
                }
                if let Some(late) = place.late(now_ms) {
                    found = Some((late.is_silent, now_ms, late.is_crowd));
                    assert_eq!(late.after_ms, now_ms);
                    assert!(place.look_ms() <= now_ms);
                    break;
                }
                waiting.ticket = None;
            }
            assert_eq!(found, Some(expected));
        }
    }

    #[test]
    fn who_is_given_up_hears_why() {
        for (is_silent, after_ms, is_crowd, text) in [
            (
                true,
                2_000,
                true,
                "made no progress for 2 s while others waited for room, of which its user held \
                 more than an even share",
            ),
            (
                false,
                60_000,
                false,
                "did not arrive within 60 s while others waited for room",
            ),
        ] {
            let late = Late {
                is_silent,
                after_ms,
                is_crowd,
            };
            assert_eq!(late.to_string(), text);
        }
    }
}
