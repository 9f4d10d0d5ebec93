//! Publishes that have not arrived whole, of all connections of a node together: how many bytes
//! they may hold, who waits for room, and who gives way.
//!
//! What has come counts, not what a header claims: a claim alone holds nothing and keeps nobody
//! out. A publish takes room as its bytes come, before they are kept. Who finds none is not read
//! until there is some.
//!
//! So that those who have begun can be finished, they hold half of the room at most in this way. A
//! publish for which that half is full waits for room for all that it claims instead, in the other
//! half too: from then on it needs nothing of anybody. When those who have room for all of theirs
//! are done, one of the others fits: none is larger than half. One that is larger takes room for
//! all of it with its first bytes.
//!
//! Room goes by turn: nobody has any before the first of those who wait, also where it would fit.
//! Those who have begun go before those who have not, in the order in which they came. Of these,
//! turns go in rounds, in which each user has one: those of one user go in the order in which they
//! came, and who comes with very many keeps others waiting no longer than with one.
//!
//! While somebody waits, a publish is given up of which nothing comes for a while, or which has not
//! become whole in time. Both are short where its user holds more than an even share with several.

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

/// What publishes hold together at most that do not have room for all of theirs.
const BEGUN_BYTES_MAX: usize = UNFINISHED_NODE_BYTES_MAX / 2;

/// The unfinished publishes of a node.
#[derive(Debug, Default)]
pub struct Unfinished {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What all reservations hold, with what was granted.
    bytes: usize,
    /// What of that is held by those that do not have room for all of their publish.
    begun: usize,
    /// Those who hold something, or wait.
    users: HashMap<Arc<str>, User>,
    waiting: BTreeMap<Turn, Waiting>,
    /// Those whose room is kept until they look.
    granted: BTreeMap<Turn, Waiting>,
    /// The latest moment that was told, in monotonic milliseconds.
    now_ms: u64,
    /// That of the last who began.
    round: u64,
    /// That of the last turn.
    number: u64,
}

#[derive(Debug, Default)]
struct User {
    bytes: usize,
    /// Reservations that hold something.
    reservations: usize,
    waiting: usize,
    /// That of its last turn to begin one.
    round: u64,
}

/// When it is whose turn: the least is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    /// 0 for those who have begun.
    round: u64,
    number: u64,
}

/// What a publish holds, and how large it is to be.
#[derive(Clone, Copy, Debug)]
struct Share {
    reserved: usize,
    claim: usize,
}

impl Share {
    const fn holding(self, reserved: usize) -> Self {
        Self { reserved, ..self }
    }

    /// What it holds without room for all of it.
    const fn begun(self) -> usize {
        if self.reserved < self.claim {
            self.reserved
        } else {
            0
        }
    }
}

#[derive(Debug)]
struct Waiting {
    user: Arc<str>,
    /// Before it has what it waits for.
    share: Share,
    /// What it is to hold.
    bytes: usize,
    /// When it last looked, or was granted that.
    since_ms: u64,
}

impl Waiting {
    const fn has_left(&self, now_ms: u64) -> bool {
        self.since_ms + TURN_MS < now_ms
    }
}

/// The reservation of one publish, whose room is given back when this is dropped, with its turn to
/// have more.
#[derive(Debug)]
pub struct Reservation {
    of: Arc<Unfinished>,
    user: Arc<str>,
    share: Share,
    /// That to have more, while it waits.
    turn: Option<Turn>,
    /// When it held something first.
    begun_ms: u64,
    last_progress_ms: u64,
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
    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is whole before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that unfinished publishes have room for.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.state().bytes
    }

    /// The reservation of a publish that claims to be so many bytes, of which it holds none.
    #[must_use]
    pub fn reserve(self: &Arc<Self>, user: &str, claim: usize) -> Reservation {
        Reservation {
            of: Arc::clone(self),
            user: user.into(),
            share: Share { reserved: 0, claim },
            turn: None,
            begun_ms: 0,
            last_progress_ms: 0,
        }
    }
}

impl State {
    /// What a reservation that wants to hold so many bytes holds from now on, or the turn with
    /// which to ask again.
    fn ask(
        &mut self,
        had: Option<Turn>,
        user: &Arc<str>,
        (share, bytes): (Share, usize),
        now_ms: u64,
    ) -> Result<usize, Turn> {
        self.now_ms = self.now_ms.max(now_ms);
        let turn = had.filter(|turn| self.has(turn));
        let turn = turn.unwrap_or_else(|| self.enqueue(user, share));
        // It looks: so it is not forgotten now.
        if let Some(waiting) = self.waiting.get_mut(&turn) {
            waiting.bytes = bytes;
            waiting.since_ms = self.now_ms;
        }
        self.settle(now_ms);
        match self.granted.remove(&turn) {
            Some(granted) => Ok(granted.bytes),
            None => Err(turn),
        }
    }

    fn has(&self, turn: &Turn) -> bool {
        self.waiting.contains_key(turn) || self.granted.contains_key(turn)
    }

    /// Gives room to those whose turn it is, as far as there is some. Who does not look any more
    /// loses its turn, and what it was granted.
    fn settle(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
        while let Some((turn, first)) = self.granted.first_key_value()
            && first.has_left(self.now_ms)
        {
            self.give_up(*turn);
        }
        while let Some((turn, first)) = self.waiting.first_key_value() {
            let turn = *turn;
            if first.has_left(self.now_ms) {
                self.give_up(turn);
            } else if let Some(bytes) = self.room_for(first) {
                self.grant(turn, bytes);
            } else {
                return;
            }
        }
    }

    /// What one that waits may hold: what has come of it, else all that it claims. The first to
    /// hold anything may hold all, however large.
    fn room_for(&self, waiting: &Waiting) -> Option<usize> {
        let Share { reserved, claim } = waiting.share;
        let free = UNFINISHED_NODE_BYTES_MAX.saturating_sub(self.bytes);
        let more = waiting.bytes - reserved;
        let goes_on = self.begun + more <= BEGUN_BYTES_MAX && more <= free;
        if goes_on && claim <= BEGUN_BYTES_MAX {
            return Some(waiting.bytes);
        }
        let fits = claim - reserved <= free || self.bytes == reserved;
        fits.then_some(claim)
    }

    /// Nobody has a turn in a round that has begun, and no user has two in one: so whoever comes
    /// again goes behind all who have waited for it. Who has begun needs no such order: it comes no
    /// more often than it has begun.
    fn next_turn(&mut self, user: &str, has_begun: bool) -> Turn {
        self.number += 1;
        let of_user = self.users.get(user).filter(|user| user.waiting > 0);
        let last = of_user.map_or(0, |user| user.round).max(self.round);
        Turn {
            round: if has_begun { 0 } else { last + 1 },
            number: self.number,
        }
    }

    fn enqueue(&mut self, name: &Arc<str>, share: Share) -> Turn {
        let turn = self.next_turn(name, share.reserved > 0);
        let user = self.users.entry(Arc::clone(name)).or_default();
        user.waiting += 1;
        user.round = user.round.max(turn.round);
        let waiting = Waiting {
            user: Arc::clone(name),
            share,
            bytes: share.reserved,
            since_ms: self.now_ms,
        };
        self.waiting.insert(turn, waiting);
        turn
    }

    fn grant(&mut self, turn: Turn, bytes: usize) {
        let Some(mut waiting) = self.waiting.remove(&turn) else {
            return;
        };
        self.round = self.round.max(turn.round);
        self.hold(&waiting.user, waiting.share, bytes);
        self.change(&waiting.user, |user| user.waiting -= 1);
        waiting.bytes = bytes;
        waiting.since_ms = self.now_ms;
        self.granted.insert(turn, waiting);
    }

    /// Ends a turn, wherever it is.
    fn give_up(&mut self, turn: Turn) {
        if let Some(waiting) = self.waiting.remove(&turn) {
            self.change(&waiting.user, |user| user.waiting -= 1);
        }
        if let Some(granted) = self.granted.remove(&turn) {
            let had = granted.share;
            self.hold(&granted.user, had.holding(granted.bytes), had.reserved);
        }
    }

    /// A reservation holds so much from now on.
    fn hold(&mut self, user: &str, share: Share, bytes: usize) {
        let begun = share.holding(bytes).begun();
        self.bytes = self.bytes - share.reserved + bytes;
        self.begun = self.begun - share.begun() + begun;
        self.change(user, |user| {
            user.bytes = user.bytes - share.reserved + bytes;
            user.reservations =
                user.reservations + usize::from(bytes > 0) - usize::from(share.reserved > 0);
        });
    }

    /// Changes what a user has; who has nothing any more is forgotten.
    fn change(&mut self, name: &str, change: impl FnOnce(&mut User)) {
        let Some(user) = self.users.get_mut(name) else {
            return;
        };
        change(user);
        if user.reservations + user.waiting == 0 {
            self.users.remove(name);
        }
    }

    /// Whether somebody else waits for room than who has this turn.
    fn is_waited_for(&mut self, own: Option<Turn>, now_ms: u64) -> bool {
        self.settle(now_ms);
        self.waiting.keys().any(|turn| Some(*turn) != own)
    }

    /// Whether a user holds more than an even share with several reservations: a single one is no
    /// larger than a message may be.
    fn is_crowd(&self, user: &str) -> bool {
        let share = UNFINISHED_NODE_BYTES_MAX / self.users.len().max(1);
        let user = self.users.get(user);
        user.is_some_and(|user| user.bytes > share && user.reservations > 1)
    }
}

impl Reservation {
    /// Whether there is room for so many bytes of its publish: they count as held from then on. If
    /// there is none, it waits for its turn: look again.
    #[must_use]
    pub fn grow(&mut self, bytes: usize, now_ms: u64) -> bool {
        let bytes = bytes.min(self.share.claim);
        while self.share.reserved < bytes {
            let wanted = (self.share, bytes);
            let growth = self.of.state().ask(self.turn, &self.user, wanted, now_ms);
            let Ok(reserved) = growth.map_err(|turn| self.turn = Some(turn)) else {
                return false;
            };
            if self.share.reserved == 0 {
                self.begun_ms = now_ms;
            }
            self.share.reserved = reserved;
            self.turn = None;
            self.note_progress(now_ms);
        }
        true
    }

    /// Whether it has found no room and waits for its turn.
    #[must_use]
    pub const fn waits(&self) -> bool {
        self.turn.is_some()
    }

    /// Something of its publish has come, or could not come for the broker did not read it.
    pub const fn note_progress(&mut self, now_ms: u64) {
        self.last_progress_ms = now_ms;
    }

    /// When to look whether it is late, in monotonic milliseconds: it is not before, and never if
    /// it holds nothing.
    #[must_use]
    pub fn check_ms(&self) -> Option<u64> {
        let silent_ms = self.last_progress_ms + UNFINISHED_CROWD_SILENCE_MS;
        let check_ms = silent_ms.min(self.begun_ms + UNFINISHED_CROWD_MS_MAX);
        (self.share.reserved > 0).then_some(check_ms)
    }

    /// Why it is to be given up for others who wait, if it is.
    #[must_use]
    pub fn late(&self, now_ms: u64) -> Option<Late> {
        if self.check_ms().is_none_or(|at| now_ms < at) {
            return None;
        }
        let mut state = self.of.state();
        if !state.is_waited_for(self.turn, now_ms) {
            return None;
        }
        let is_crowd = state.is_crowd(&self.user);
        let (silence_ms, ms_max) = match is_crowd {
            true => (UNFINISHED_CROWD_SILENCE_MS, UNFINISHED_CROWD_MS_MAX),
            false => (UNFINISHED_SILENCE_MS, UNFINISHED_MS_MAX),
        };
        // What it waits for itself has come.
        let is_silent = !self.waits() && self.last_progress_ms + silence_ms <= now_ms;
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

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.share.reserved == 0 && !self.waits() {
            return;
        }
        let mut state = self.of.state();
        if let Some(turn) = self.turn {
            state.give_up(turn);
        }
        state.hold(&self.user, self.share, 0);
        let now_ms = state.now_ms;
        state.settle(now_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::UNFINISHED_CHECK_MS;

    const ALL: usize = UNFINISHED_NODE_BYTES_MAX;

    const HALF: usize = BEGUN_BYTES_MAX;

    /// Somebody whose publish is of so many bytes.
    struct Client {
        of: Arc<Unfinished>,
        user: &'static str,
        bytes: usize,
        reservation: Reservation,
    }

    impl Client {
        fn new(of: &Arc<Unfinished>, user: &'static str, bytes: usize) -> Self {
            Self {
                of: Arc::clone(of),
                user,
                bytes,
                reservation: of.reserve(user, bytes),
            }
        }

        /// Whether there is room for all of it now.
        fn looks(&mut self, now_ms: u64) -> bool {
            self.grows(self.bytes, now_ms)
        }

        /// Whether there is room for what has come of it now.
        fn grows(&mut self, bytes: usize, now_ms: u64) -> bool {
            let has_room = self.reservation.grow(bytes, now_ms);
            assert_eq!(self.reservation.waits(), !has_room);
            has_room
        }

        /// Its publish is whole, or it has gone.
        fn ends(&mut self) {
            self.reservation = self.of.reserve(self.user, self.bytes);
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
        let state = all.state();
        assert!(state.users.is_empty() && state.waiting.is_empty() && state.granted.is_empty());
        assert_eq!(state.begun, 0);
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
            again.ends();
            assert!(!again.looks(3), "{holder}: it is the waiter's turn");
            assert!(small.looks(4), "{holder}: there is room for all before it");
            assert!(honest.looks(102), "{holder}: its place was kept");
            assert!(!again.looks(103));
            honest.ends();
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
                if clients[at].reservation.share.reserved > 0 {
                    clients[at].ends();
                } else if clients[at].looks(now_ms) {
                    had.push(at);
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
        holder.ends();
        assert!(many[0].looks(2), "it came first");
        assert!(many[1..].iter_mut().all(|client| !client.looks(2)));
        many[0].ends();
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
        third.ends();
        assert!(idle.looks(3 + TURN_MS));
    }

    /// What a user may hold with several reservations where so many users hold or wait.
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
            assert_eq!(all.state().is_crowd("a"), is_crowd);
            drop(one);
            assert!(!all.state().is_crowd("a"), "a single one does not");
        }
    }

    /// How long a reservation is borne that nothing, or a byte now and then, comes for.
    #[test]
    fn a_place_is_late_when_nothing_comes_or_it_takes_too_long_and_only_for_others() {
        // Reservations of its user, milliseconds between two bytes, and when it is late.
        for (reservations, pace_ms, expected) in [
            (1, None, (true, 10_000, false)),
            (1, Some(9_000), (false, 60_000, false)),
            (2, None, (true, 2_000, true)),
            (2, Some(1_900), (false, 5_000, true)),
        ] {
            let all = Arc::new(Unfinished::default());
            let mut holders = Vec::new();
            holders.resize_with(reservations, || Client::new(&all, "a", ALL / reservations));
            assert!(holders.iter_mut().all(|holder| holder.looks(0)));
            let mut waiting = Client::new(&all, "b", 1);
            let reservation = &mut holders[0].reservation;
            let mut found = None;
            for now_ms in (0..=60_000).step_by(UNFINISHED_CHECK_MS as usize) {
                assert_eq!(reservation.late(now_ms), None, "nobody waits");
                assert!(!waiting.looks(now_ms));
                if pace_ms.is_some_and(|pace| now_ms % pace == 0) {
                    reservation.note_progress(now_ms);
                }
                if let Some(late) = reservation.late(now_ms) {
                    found = Some((late.is_silent, now_ms, late.is_crowd));
                    assert_eq!(late.after_ms, now_ms);
                    assert!(reservation.check_ms().is_some_and(|at| at <= now_ms));
                    break;
                }
                waiting.ends();
            }
            assert_eq!(found, Some(expected));
        }
    }

    /// What a header claims keeps nobody out, however many do, and whatever little comes of them.
    #[test]
    fn who_claims_and_sends_little_keeps_nobody_waiting() {
        let all = Arc::new(Unfinished::default());
        let mut claims: Vec<Client> = Vec::new();
        claims.resize_with(1_000, || Client::new(&all, "claims", ALL / 16));
        let mut honest = Client::new(&all, "honest", ALL / 16);
        assert!(honest.looks(1), "nothing has come of any of them");
        honest.ends();
        for comes in 1..100 {
            assert!(claims.iter_mut().all(|claim| claim.grows(10 * comes, 2)));
            assert!(honest.looks(2), "as much as has come is held");
            honest.ends();
        }
        assert_eq!(all.bytes(), 1_000 * 990);
        drop(claims);
        assert_eq!(all.bytes(), 0);
    }

    /// One of which little comes at a time gets there beside claims, and waits for nobody.
    #[test]
    fn a_slow_publish_becomes_whole_beside_claims() {
        let all = Arc::new(Unfinished::default());
        let mut claims: Vec<Client> = Vec::new();
        claims.resize_with(1_000, || Client::new(&all, "claims", ALL / 16));
        let mut slow = Client::new(&all, "slow", 1_000_000);
        let mut now_ms = 1;
        for sent in (16_000..=1_008_000).step_by(16_000) {
            for claim in &mut claims {
                assert!(claim.grows(1, now_ms));
            }
            assert!(slow.grows(sent, now_ms));
            assert_eq!(slow.reservation.late(now_ms + 299), None, "nobody waits");
            now_ms += 300;
        }
        assert_eq!(slow.reservation.share.reserved, 1_000_000);
    }

    #[test]
    fn who_finds_the_half_full_for_what_has_begun_waits_for_room_for_all_of_its_own() {
        let all = Arc::new(Unfinished::default());
        let client = |user, bytes| Client::new(&all, user, bytes);
        let (mut most, mut next, mut third) =
            (client("a", HALF), client("b", HALF), client("c", 1_000));
        assert!(most.grows(HALF - 10, 1) && next.grows(10, 1));
        assert!(next.grows(11, 2), "it has room for all of its own now");
        assert_eq!(all.bytes(), ALL - 10);
        assert!(third.grows(10, 2), "there is room for what has come of it");
        assert!(!third.grows(11, 3) && !most.grows(HALF, 3));
        assert!(next.grows(HALF, 4), "it waits for nobody");
        next.ends();
        assert!(third.grows(11, 4) && third.reservation.share.reserved == 1_000);
        assert!(most.grows(HALF, 5));
    }

    #[test]
    fn who_has_begun_goes_before_who_has_not() {
        let all = Arc::new(Unfinished::default());
        let client = |user, bytes| Client::new(&all, user, bytes);
        let (mut begun, mut most) = (client("a", HALF), client("a", HALF));
        let mut holder = client("a", HALF);
        assert!(begun.grows(1, 1) && most.grows(HALF - 1, 1) && holder.looks(1));
        let mut new = client("b", 10);
        assert!(!new.looks(2), "there is none");
        assert!(!begun.looks(3));
        holder.ends();
        assert!(!new.looks(4), "it came first, and has not begun");
        assert!(begun.looks(4));
        assert!(!new.looks(5));
        begun.ends();
        assert!(new.looks(6) && most.looks(6));
    }

    #[test]
    fn who_waits_is_not_silent_and_is_given_up_in_the_end_for_others_alone() {
        let all = Arc::new(Unfinished::default());
        let client = |user, bytes| Client::new(&all, user, bytes);
        let (mut most, mut begun) = (client("a", HALF), client("b", HALF));
        let mut holder = client("c", HALF);
        assert!(most.grows(HALF - 1, 0) && begun.grows(1, 0) && holder.looks(0));
        let mut new = client("d", 10);
        for now_ms in (1..UNFINISHED_MS_MAX).step_by(UNFINISHED_CHECK_MS as usize) {
            assert!(!begun.grows(2, now_ms));
            assert_eq!(begun.reservation.late(now_ms), None);
            if now_ms > UNFINISHED_SILENCE_MS {
                assert!(!new.looks(now_ms));
            }
        }
        let now_ms = UNFINISHED_MS_MAX;
        assert!(
            begun
                .reservation
                .late(now_ms)
                .is_some_and(|late| !late.is_silent)
        );
        new.ends();
        assert_eq!(begun.reservation.late(now_ms), None, "it alone waits");
    }

    /// Whatever has begun, and in whatever order it comes on, all of it becomes whole, and the
    /// bound is kept: nobody waits for who waits.
    #[test]
    fn all_that_has_begun_becomes_whole_though_nothing_is_given_up() {
        for seed in 1..200_u64 {
            let mut state = seed;
            let mut random = |below: usize| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(seed | 1);
                (state >> 33) as usize % below
            };
            let all = Arc::new(Unfinished::default());
            let users = ["a", "b", "c"];
            let sizes = [ALL / 16, ALL / 16, ALL / 3, HALF, HALF + 1, ALL, 2 * ALL];
            let kinds = 1 + random(sizes.len());
            let mut clients: Vec<(Client, usize)> = (0..40)
                .map(|_| (Client::new(&all, users[random(3)], sizes[random(kinds)]), 0))
                .collect();
            let mut now_ms = 0;
            while !clients.is_empty() {
                now_ms += UNFINISHED_CHECK_MS;
                assert!(
                    now_ms < 10_000_000,
                    "seed {seed}: they wait for one another"
                );
                for (client, sent) in &mut clients {
                    // What has come waits; who finds room sends on.
                    *sent = (*sent).max(client.reservation.share.reserved + 1 + random(ALL / 20));
                    if client.grows(*sent, now_ms) && *sent >= client.bytes {
                        (client.bytes, *sent) = (0, 0);
                        client.ends();
                    }
                }
                clients.retain(|(client, _)| client.bytes > 0);
                let state = all.state();
                assert!(state.begun <= HALF, "seed {seed}");
                let reservations: usize = state.users.values().map(|user| user.reservations).sum();
                assert!(state.bytes <= ALL || reservations == 1, "seed {seed}");
            }
            assert_eq!(all.bytes(), 0);
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
