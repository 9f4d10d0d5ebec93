//! Guesses of passwords, and the delay of the next one.
//!
//! Wrong passwords are counted by address, by user, and by both together. Each count is a leaky
//! bucket: so many are free, and each further one has to wait until one has been forgotten.
//!
//! - A user from one address: what cannot be told from its own mistakes. It bounds how fast anybody
//!   guesses the password of one user from there.
//! - An address: users that are tried in turn.
//! - A user, from wherever: guesses from many addresses. A check is held by this one once and
//!   briefly: strangers must not lock a user out.
//!
//! A user from an address from where it has logged in is not held by what others do: neither by the
//! count of its address nor by that of its name. The same wrong password of the same user counts
//! once, however often it comes: a client that was left with an old one is no guesser.
//!
//! Who guesses at a user from the user's own address cannot be told from that user. So that not
//! both are held alike, a password that was right a moment ago is let in though others are held. As
//! every guess could be that one, look-ups are counted as well: far more of them are free, not all.
//!
//! Everything is bounded: what has not been touched for longest is forgotten first.

use crate::login::{Fingerprint, LoginCheck, digest};
use leveret_types::limits::{
    DELAYED_LOOK_UPS_FREE, GUESSES_FREE_PER_ADDRESS, GUESSES_FREE_PER_USER,
    GUESSES_FREE_PER_USER_AND_ADDRESS, GUESSES_REMEMBERED_MAX, LOGIN_DELAY_FOR_USER_MS_MAX,
};
use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};

/// Milliseconds in which one wrong password of a user from one address is forgotten.
const USER_AND_ADDRESS_MS: u64 = 2_000;
/// The same of all users from one address.
const ADDRESS_MS: u64 = 200;
/// The same of one user from all addresses.
const USER_MS: u64 = 1_000;
/// Milliseconds in which a look-up for who is held is forgotten: it tells whoever guesses from the
/// address of a user as much as a check does.
const LOOK_UP_MS: u64 = 20;

/// By what an address is told from others: of IPv6 it is the network of 64 bits, as whoever has one
/// address of it mostly has all.
#[must_use]
pub fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() & (u128::MAX << 64);
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        address => address,
    }
}

/// Who brings a password: a user's name (which may be nobody's) from an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Guesser {
    network: IpAddr,
    user: [u8; 16],
}

impl Guesser {
    /// What its address is told from others by.
    #[must_use]
    pub const fn network(&self) -> IpAddr {
        self.network
    }
}

/// The entries that were touched last: between half as many as its bound and its bound.
#[derive(Debug)]
struct Recent<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K: Hash + Eq, V: Copy> Recent<K, V> {
    fn new() -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
        }
    }

    fn get(&self, key: &K) -> Option<V> {
        self.young.get(key).or_else(|| self.old.get(key)).copied()
    }

    fn put(&mut self, key: K, value: V) {
        if self.young.len() >= GUESSES_REMEMBERED_MAX / 2 && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, value);
    }
}

/// Leaky buckets: by key, until when all that was counted is forgotten.
#[derive(Debug)]
struct Buckets<K> {
    empty_at_ms: Recent<K, u64>,
    /// How many are free.
    free: u64,
    /// In which time one is forgotten.
    each_ms: u64,
}

impl<K: Hash + Eq> Buckets<K> {
    fn new(free: u64, each_ms: u64) -> Self {
        Self {
            empty_at_ms: Recent::new(),
            free,
            each_ms,
        }
    }

    /// How long the next one must wait.
    fn wait_ms(&self, key: &K, now_ms: u64) -> u64 {
        let empty_at_ms = self.empty_at_ms.get(key).unwrap_or(0);
        let room_at_ms = empty_at_ms.saturating_sub((self.free - 1) * self.each_ms);
        room_at_ms.saturating_sub(now_ms)
    }

    /// Counts one. No more is counted than is forgotten in as long again as the free ones take.
    fn count(&mut self, key: K, now_ms: u64) {
        let empty_at_ms = self.empty_at_ms.get(&key).unwrap_or(0).max(now_ms);
        let most_ms = now_ms + 2 * self.free * self.each_ms;
        let empty_at_ms = (empty_at_ms + self.each_ms).min(most_ms);
        self.empty_at_ms.put(key, empty_at_ms);
    }
}

/// The wrong passwords of late.
#[derive(Debug)]
pub struct Guesses {
    secret: [u8; 32],
    of_both: Buckets<Guesser>,
    of_network: Buckets<IpAddr>,
    of_user: Buckets<[u8; 16]>,
    /// Look-ups for who is held.
    look_ups: Buckets<Guesser>,
    /// Who has logged in.
    known: Recent<Guesser, ()>,
    /// From where anybody has.
    familiar: Recent<IpAddr, ()>,
    /// Checks that found a password wrong.
    wrong: Recent<Fingerprint, ()>,
}

impl Guesses {
    /// None yet, under a secret of unguessable bytes.
    #[must_use]
    pub fn new(secret: [u8; 32]) -> Self {
        let both = GUESSES_FREE_PER_USER_AND_ADDRESS;
        Self {
            secret,
            of_both: Buckets::new(both, USER_AND_ADDRESS_MS),
            of_network: Buckets::new(GUESSES_FREE_PER_ADDRESS, ADDRESS_MS),
            of_user: Buckets::new(GUESSES_FREE_PER_USER, USER_MS),
            look_ups: Buckets::new(DELAYED_LOOK_UPS_FREE, LOOK_UP_MS),
            known: Recent::new(),
            familiar: Recent::new(),
            wrong: Recent::new(),
        }
    }

    /// Who brings this check from there.
    #[must_use]
    pub fn guesser(&self, address: IpAddr, check: &LoginCheck) -> Guesser {
        let whole = digest(&self.secret, &[b"user", check.user().as_bytes()]);
        let mut user = [0; 16];
        user.copy_from_slice(&whole[..16]);
        Guesser {
            network: network_of(address),
            user,
        }
    }

    /// How long a check that comes now is held before anybody may look at it: 0 for all but who
    /// has brought many wrong passwords of late.
    #[must_use]
    pub fn hold_ms(&self, guesser: &Guesser, now_ms: u64) -> u64 {
        let of_user = self.of_user.wait_ms(&guesser.user, now_ms);
        let of_user = of_user.min(LOGIN_DELAY_FOR_USER_MS_MAX);
        match self.known.get(guesser) {
            Some(()) => self.of_both.wait_ms(guesser, now_ms),
            None => of_user.max(self.held_still_ms(guesser, now_ms)),
        }
    }

    /// How long a check is held on that was held for as long as [`Self::hold_ms`] said: others from
    /// its address may have gone first.
    #[must_use]
    pub fn held_still_ms(&self, guesser: &Guesser, now_ms: u64) -> u64 {
        let of_both = self.of_both.wait_ms(guesser, now_ms);
        match self.known.get(guesser) {
            Some(()) => of_both,
            None => of_both.max(self.of_network.wait_ms(&guesser.network, now_ms)),
        }
    }

    /// Whether it may be looked up if a password that is held was right a moment ago: for who has
    /// logged in from there, unless [too many](DELAYED_LOOK_UPS_FREE) were in vain.
    #[must_use]
    pub fn may_look_up(&self, guesser: &Guesser, now_ms: u64) -> bool {
        self.is_known(guesser) && self.look_ups.wait_ms(guesser, now_ms) == 0
    }

    /// A password that is held was looked up, and was not right a moment ago.
    pub fn looked_up_in_vain(&mut self, guesser: &Guesser, now_ms: u64) {
        self.look_ups.count(*guesser, now_ms);
    }

    /// Whether this very check has found its password wrong of late: it tells nobody anything new.
    #[must_use]
    pub fn knows_wrong(&self, fingerprint: Fingerprint) -> bool {
        self.wrong.get(&fingerprint).is_some()
    }

    /// A password was wrong. Answers whether its next one is held.
    pub fn failed(&mut self, guesser: &Guesser, fingerprint: Fingerprint, now_ms: u64) -> bool {
        self.wrong.put(fingerprint, ());
        self.of_both.count(*guesser, now_ms);
        self.of_network.count(guesser.network, now_ms);
        self.of_user.count(guesser.user, now_ms);
        self.hold_ms(guesser, now_ms) > 0
    }

    /// A password was right.
    pub fn succeeded(&mut self, guesser: &Guesser) {
        self.known.put(*guesser, ());
        self.familiar.put(guesser.network, ());
    }

    /// Whether this user has logged in from this address of late.
    #[must_use]
    pub fn is_known(&self, guesser: &Guesser) -> bool {
        self.known.get(guesser).is_some()
    }

    /// Whether anybody has logged in from its address of late.
    #[must_use]
    pub fn is_familiar(&self, guesser: &Guesser) -> bool {
        self.familiar.get(&guesser.network).is_some()
    }

    /// The same of an address from which nothing has been brought yet.
    #[must_use]
    pub fn is_familiar_address(&self, address: IpAddr) -> bool {
        self.familiar.get(&network_of(address)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HashingAlgorithm, Remembered};

    fn check(user: &str, password: &str) -> LoginCheck {
        LoginCheck::new(user, None, password.into(), HashingAlgorithm::Sha256)
    }

    struct Attempts {
        guesses: Guesses,
        remembered: Remembered,
        passwords: u64,
    }

    impl Attempts {
        fn new() -> Self {
            Self {
                guesses: Guesses::new([1; 32]),
                remembered: Remembered::new([1; 32]),
                passwords: 0,
            }
        }

        fn guesser(&self, user: &str, address: &str) -> Guesser {
            let address = address.parse().expect("an address");
            self.guesses.guesser(address, &check(user, ""))
        }

        /// How long a check is held.
        fn hold(&self, user: &str, address: &str, now_ms: u64) -> u64 {
            let guesser = self.guesser(user, address);
            self.guesses.hold_ms(&guesser, now_ms)
        }

        /// A password that nobody has tried yet is wrong.
        fn fail(&mut self, user: &str, address: &str, now_ms: u64) -> bool {
            self.passwords += 1;
            let check = check(user, &self.passwords.to_string());
            let fingerprint = self.remembered.fingerprint(&check);
            let guesser = self.guesser(user, address);
            self.guesses.failed(&guesser, fingerprint, now_ms)
        }

        /// How many guesses are let through in this time, by one who comes again at once.
        fn guess(&mut self, user: &str, address: &str, from_ms: u64, through_ms: u64) -> u64 {
            let (mut now_ms, mut count) = (from_ms, 0);
            loop {
                now_ms += self.hold(user, address, now_ms);
                if now_ms > through_ms {
                    return count;
                }
                self.fail(user, address, now_ms);
                count += 1;
            }
        }
    }

    const DAY_MS: u64 = 86_400_000;

    #[test]
    fn so_many_guesses_are_free_and_then_they_come_one_by_one() {
        let mut attempts = Attempts::new();
        for _ in 1..GUESSES_FREE_PER_USER_AND_ADDRESS {
            assert!(!attempts.fail("u", "10.0.0.1", 5));
        }
        assert_eq!(attempts.hold("u", "10.0.0.1", 5), 0);
        assert!(attempts.fail("u", "10.0.0.1", 5));
        assert_eq!(attempts.hold("u", "10.0.0.1", 5), USER_AND_ADDRESS_MS);
        let at_ms = 5 + USER_AND_ADDRESS_MS;
        assert_eq!(attempts.hold("u", "10.0.0.1", at_ms - 1), 1);
        assert_eq!(attempts.hold("u", "10.0.0.1", at_ms), 0);
        // Others are not held, nor others of the address.
        assert_eq!(attempts.hold("u", "10.0.0.2", 5), 0);
        assert_eq!(attempts.hold("v", "10.0.0.1", 5), 0);
        // Over a day it is one in its time, and the free ones.
        let mut attempts = Attempts::new();
        let most = GUESSES_FREE_PER_USER_AND_ADDRESS + DAY_MS / USER_AND_ADDRESS_MS;
        assert_eq!(attempts.guess("u", "10.0.0.1", 0, DAY_MS), most);
    }

    #[test]
    fn who_tries_one_user_after_the_other_is_held_by_the_address() {
        let mut attempts = Attempts::new();
        let mut count = 0;
        let mut now_ms = 0;
        while now_ms < 60_000 {
            let user = count.to_string();
            now_ms += attempts.hold(&user, "2001:db8::1", now_ms);
            // The addresses of one network are one.
            attempts.fail(&user, &format!("2001:db8::{count:x}"), now_ms);
            count += 1;
        }
        let most = GUESSES_FREE_PER_ADDRESS + 60_000 / ADDRESS_MS;
        assert!((most..=most + 1).contains(&count), "{count}");
    }

    #[test]
    fn an_address_is_told_from_others_by_itself_or_by_its_network() {
        for (one, other, is_same) in [
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
            ("::ffff:10.0.0.1", "10.0.0.1", true),
            ("::ffff:10.0.0.1", "::ffff:10.0.0.2", false),
            ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", true),
            ("2001:db8:0:1::1", "2001:db8:0:2::1", false),
        ] {
            let of = |address: &str| network_of(address.parse().expect("an address"));
            assert_eq!(of(one) == of(other), is_same, "{one} {other}");
            let attempts = Attempts::new();
            assert_eq!(attempts.guesser("u", one).network(), of(one));
        }
    }

    /// As long again as the free ones take: who has guessed a thousand times waits no longer than
    /// who has twice as often as is free.
    #[test]
    fn what_is_counted_is_bounded_to_the_millisecond() {
        let held = |failures: u64| {
            let mut attempts = Attempts::new();
            for _ in 0..failures {
                attempts.fail("u", "10.0.0.1", 1);
            }
            attempts.hold("u", "10.0.0.1", 1)
        };
        let free = GUESSES_FREE_PER_USER_AND_ADDRESS;
        let most = (free + 1) * USER_AND_ADDRESS_MS;
        assert_eq!(held(2 * free - 1), most - USER_AND_ADDRESS_MS);
        assert_eq!(held(2 * free), most);
        assert_eq!(held(2 * free + 1), most);
        assert_eq!(held(1_000), most);
    }

    #[test]
    fn a_user_who_is_guessed_at_from_everywhere_is_held_briefly_and_once() {
        let mut attempts = Attempts::new();
        let own = attempts.guesser("u", "10.0.0.1");
        attempts.guesses.succeeded(&own);
        for network in 0..10_000 {
            attempts.fail("u", &format!("2001:db8:0:{network:x}::1"), 1);
        }
        assert_eq!(
            attempts.hold("u", "10.0.0.2", 1),
            LOGIN_DELAY_FOR_USER_MS_MAX
        );
        let new = attempts.guesser("u", "10.0.0.2");
        assert_eq!(attempts.guesses.held_still_ms(&new, 1), 0);
        // From where the user has been before, not at all.
        assert_eq!(attempts.hold("u", "10.0.0.1", 1), 0);
        assert_eq!(attempts.hold("v", "10.0.0.2", 1), 0);
        // It is forgotten in bounded time.
        let forgotten_ms = 1 + 2 * GUESSES_FREE_PER_USER * USER_MS;
        assert_eq!(attempts.hold("u", "10.0.0.2", forgotten_ms), 0);
    }

    #[test]
    fn a_user_who_has_logged_in_from_there_is_not_held_for_others_of_the_address() {
        let mut attempts = Attempts::new();
        let own = attempts.guesser("u", "10.0.0.1");
        attempts.guesses.succeeded(&own);
        for user in 0..2 * GUESSES_FREE_PER_ADDRESS {
            attempts.fail(&user.to_string(), "10.0.0.1", 0);
        }
        assert_eq!(attempts.hold("u", "10.0.0.1", 0), 0);
        assert_eq!(attempts.guesses.held_still_ms(&own, 0), 0);
        assert!(attempts.hold("v", "10.0.0.1", 0) > 0);
        // Its own wrong passwords count all the same.
        for _ in 0..GUESSES_FREE_PER_USER_AND_ADDRESS {
            attempts.fail("u", "10.0.0.1", 0);
        }
        assert_eq!(attempts.hold("u", "10.0.0.1", 0), USER_AND_ADDRESS_MS);
    }

    #[test]
    fn so_many_are_looked_up_for_who_is_held_where_its_user_has_logged_in_and_not_one_more() {
        let mut attempts = Attempts::new();
        let own = attempts.guesser("u", "10.0.0.1");
        assert!(
            !attempts.guesses.may_look_up(&own, 0),
            "it is not known there"
        );
        attempts.guesses.succeeded(&own);
        for number in 0..DELAYED_LOOK_UPS_FREE {
            assert!(attempts.guesses.may_look_up(&own, 0), "{number}");
            attempts.guesses.looked_up_in_vain(&own, 0);
        }
        assert!(!attempts.guesses.may_look_up(&own, LOOK_UP_MS - 1));
        assert!(attempts.guesses.may_look_up(&own, LOOK_UP_MS));
        // Others, and the same user elsewhere, are looked up by themselves.
        let elsewhere = attempts.guesser("u", "10.0.0.2");
        attempts.guesses.succeeded(&elsewhere);
        assert!(attempts.guesses.may_look_up(&elsewhere, 0));
        assert_eq!(
            attempts.hold("u", "10.0.0.1", 0),
            0,
            "it is no wrong password"
        );
    }

    #[test]
    fn an_honest_first_login_is_not_held_for_a_second_because_others_guess_at_its_user() {
        let mut attempts = Attempts::new();
        for network in 0..10_000 {
            attempts.fail("u", &format!("2001:db8:0:{network:x}::1"), 1);
        }
        let held_ms = attempts.hold("u", "10.0.0.2", 1);
        assert!((1..1_000).contains(&held_ms), "{held_ms} ms");
    }

    #[test]
    fn who_has_logged_in_is_known_from_there_and_the_address_is_familiar() {
        let mut attempts = Attempts::new();
        let own = attempts.guesser("u", "10.0.0.1");
        let neighbour = attempts.guesser("v", "10.0.0.1");
        let elsewhere = attempts.guesser("u", "10.0.0.2");
        for guesser in [&own, &neighbour, &elsewhere] {
            assert!(!attempts.guesses.is_known(guesser) && !attempts.guesses.is_familiar(guesser));
        }
        attempts.guesses.succeeded(&own);
        let address = |text: &str| text.parse().expect("an address");
        assert!(attempts.guesses.is_familiar_address(address("10.0.0.1")));
        assert!(!attempts.guesses.is_familiar_address(address("10.0.0.2")));
        let told = |of| {
            (
                attempts.guesses.is_known(of),
                attempts.guesses.is_familiar(of),
            )
        };
        assert_eq!(told(&own), (true, true));
        assert_eq!(told(&neighbour), (false, true));
        assert_eq!(told(&elsewhere), (false, false));
    }

    #[test]
    fn the_same_wrong_password_is_known_for_its_user_alone() {
        let mut attempts = Attempts::new();
        let guesser = attempts.guesser("u", "10.0.0.1");
        let fingerprint = attempts.remembered.fingerprint(&check("u", "p"));
        assert!(!attempts.guesses.knows_wrong(fingerprint));
        attempts.guesses.failed(&guesser, fingerprint, 0);
        assert!(attempts.guesses.knows_wrong(fingerprint));
        let other = attempts.remembered.fingerprint(&check("v", "p"));
        assert!(!attempts.guesses.knows_wrong(other));
    }

    #[test]
    fn what_is_touched_again_makes_nobody_forgotten() {
        let mut recent = Recent::new();
        for number in 0..GUESSES_REMEMBERED_MAX {
            recent.put(number, 0);
        }
        // The last one is among the younger half, which is full.
        let last = GUESSES_REMEMBERED_MAX - 1;
        recent.put(last, 1);
        assert_eq!(recent.get(&last), Some(1));
        assert_eq!(recent.get(&0), Some(0), "nobody else came");
    }

    #[test]
    fn as_many_are_remembered_as_may_be_and_not_one_more() {
        let mut recent = Recent::new();
        for number in 0..GUESSES_REMEMBERED_MAX {
            recent.put(number, ());
        }
        let count = |recent: &Recent<usize, ()>| recent.young.len() + recent.old.len();
        assert_eq!(count(&recent), GUESSES_REMEMBERED_MAX);
        assert!(recent.get(&0).is_some());
        recent.put(1, ());
        recent.put(GUESSES_REMEMBERED_MAX, ());
        assert!(count(&recent) <= GUESSES_REMEMBERED_MAX);
        // Those that were touched last stay.
        assert!(recent.get(&1).is_some() && recent.get(&GUESSES_REMEMBERED_MAX).is_some());
        assert!(recent.get(&0).is_none());
    }
}
