//! Who gets its turn, who is held, who is refused.

use super::*;
use leveret_auth::{HashingAlgorithm, PasswordHash, network_of};
use leveret_types::limits::{
    DELAYED_LOOK_UPS_FREE, GUESSES_FREE_PER_USER_AND_ADDRESS, LOGIN_REMEMBERED_MS,
    LOGINS_DELAYED_MAX, LOGINS_DELAYED_PER_ADDRESS_MAX, LOGINS_WAITING_MAX,
    LOGINS_WAITING_PER_ADDRESS_MAX, LOGINS_WAITING_UNFAMILIAR_MAX,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

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

struct TestLogins {
    logins: Logins,
    now_ms: Arc<AtomicU64>,
    told: Told,
    open: Arc<()>,
}

impl TestLogins {
    fn new() -> Self {
        let now_ms = Arc::new(AtomicU64::new(1));
        let clock = Arc::clone(&now_ms);
        Self {
            logins: Logins::with_clock([1; 32], move || clock.load(Ordering::Relaxed)),
            now_ms,
            told: Told::default(),
            open: Arc::new(()),
        }
    }

    fn log_in(&self, address: u8, number: usize, wanted: &Arc<()>) {
        let hash = PasswordHash::parse(HashingAlgorithm::Argon2id, HASH).expect("a hash");
        let usual = HashingAlgorithm::Sha256;
        let check = LoginCheck::new("u", Some(hash), number.to_string().into(), usual);
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
        let (mut count, mut memory) = (0, HashMemory::default());
        loop {
            let next = self.logins.state.lock().next(self.logins.now_ms());
            match next {
                Next::Wait(_) => return count,
                Next::Refuse(job) => job.tell(Verdict::Busy),
                Next::Check(job) => {
                    self.logins.settle(job, &mut memory);
                    count += 1;
                }
            }
        }
    }

    /// A cheap check of a password that is "p" for user "u" and no other.
    fn cheap(&self, user: &str, password: &str) -> LoginCheck {
        let algorithm = HashingAlgorithm::Sha256;
        let hash = PasswordHash::new(algorithm, b"p", &[1; 16]).expect("a hash");
        let hash = (user == "u").then_some(hash);
        LoginCheck::new(user, hash, password.into(), algorithm)
    }

    /// As many wrong passwords of a user from this address as are free.
    fn guess(&self, user: &str, address: u8) {
        self.told.lock().clear();
        for number in 0..GUESSES_FREE_PER_USER_AND_ADDRESS {
            let check = self.cheap(user, &format!("{address} {number}"));
            self.send(address, number as usize, &self.open, check);
        }
        let told = std::mem::take(&mut *self.told.lock());
        assert_eq!(told.len() as u64, GUESSES_FREE_PER_USER_AND_ADDRESS);
        assert!(told.iter().all(|(_, verdict)| *verdict == Verdict::Wrong));
    }

    /// Wrong passwords of one user from the first address, until the next one is held.
    fn guess_more(&self, check: &dyn Fn(&str) -> LoginCheck) {
        let before = self.logins.held().0;
        let mut number = 0;
        while self.logins.held().0 == before {
            let password = format!("{} {number}", self.logins.now_ms());
            self.send(1, number, &self.open, check(&password));
            self.work();
            number += 1;
        }
    }

    fn pass(&self, ms: u64) {
        self.now_ms.fetch_add(ms, Ordering::Relaxed);
    }

    fn told(&self) -> Vec<usize> {
        self.told.lock().iter().map(|(number, _)| *number).collect()
    }
}

#[test]
fn a_slow_check_is_not_computed_by_who_brings_it() {
    let test = TestLogins::new();
    test.log_in(1, 0, &test.open);
    assert!(test.told().is_empty());
    assert_eq!(test.work(), 1);
    assert_eq!(*test.told.lock(), [(0, Verdict::Wrong)]);
    // Nor is one of a user who does not exist, where new users have slow hashes.
    let check = LoginCheck::new("nobody", None, b"p".to_vec(), HashingAlgorithm::Argon2id);
    test.send(1, 1, &test.open, check);
    assert_eq!(test.told(), [0]);
    let check = LoginCheck::new("nobody", None, b"p".to_vec(), HashingAlgorithm::Sha256);
    test.send(1, 2, &test.open, check);
    assert_eq!(test.told(), [0, 2]);
}

#[test]
fn addresses_take_turns() {
    let test = TestLogins::new();
    for number in 0..5 {
        test.log_in(1, number, &test.open);
    }
    test.log_in(2, 10, &test.open);
    test.log_in(3, 20, &test.open);
    test.log_in(2, 11, &test.open);
    test.work();
    assert_eq!(test.told(), [0, 10, 20, 1, 11, 2, 3, 4]);
}

/// Somebody logs in from this address.
fn let_in(test: &TestLogins, address: u8) {
    test.send(address, 0, &test.open, test.cheap("u", "p"));
    assert_eq!(test.told.lock().pop(), Some((0, Verdict::Right)));
}

#[test]
fn an_address_from_where_somebody_has_logged_in_does_not_wait_for_a_flood_from_many() {
    let test = TestLogins::new();
    for address in [200, 201] {
        let_in(&test, address);
    }
    for address in 0..100 {
        test.log_in(address, usize::from(address), &test.open);
    }
    for number in 200..204 {
        test.log_in(200 + number as u8 % 2, number, &test.open);
    }
    test.work();
    // Strangers are not kept out either.
    assert_eq!(test.told()[..7], [200, 201, 0, 202, 203, 1, 2]);
    assert_eq!(test.told().len(), 104);
}

#[test]
fn who_comes_for_the_first_time_does_not_wait_for_a_flood_of_guesses_from_many_addresses() {
    let test = TestLogins::new();
    // Each at another user, so that none is held.
    let log_in = |address: usize, number: usize| {
        let hash = PasswordHash::parse(HashingAlgorithm::Argon2id, HASH).expect("a hash");
        let user = format!("user {number}");
        let usual = HashingAlgorithm::Sha256;
        let check = LoginCheck::new(&user, Some(hash), b"guess".to_vec(), usual);
        test.send(address as u8, number, &test.open, check);
    };
    let flood = |numbers: std::ops::Range<usize>| {
        numbers.for_each(|number| log_in(number % 100, number));
    };
    flood(0..100);
    test.work();
    test.told.lock().clear();
    // Who waits for the answer before the next guess has no other one in line either.
    flood(100..300);
    log_in(200, 1_000);
    log_in(201, 1_001);
    test.work();
    let told = test.told();
    assert_eq!(told.len(), 202);
    let before = told.iter().take_while(|number| **number != 1_001).count();
    assert!(before <= 3, "{:?}", &told[..10]);
    // Those behind are not kept out.
    test.told.lock().clear();
    flood(300..303);
    (0..10).for_each(|number| log_in(210 + number, 2_000 + number));
    test.work();
    assert!(test.told()[..3].iter().any(|number| *number < 2_000));
}

#[test]
fn who_has_logged_in_does_not_wait_for_a_flood_from_its_own_address() {
    let test = TestLogins::new();
    let_in(&test, 1);
    let slow = |user: &str, number: usize| {
        let hash = PasswordHash::parse(HashingAlgorithm::Argon2id, HASH).expect("a hash");
        let password = number.to_string().into();
        LoginCheck::new(user, Some(hash), password, HashingAlgorithm::Sha256)
    };
    for number in 0..LOGINS_WAITING_PER_ADDRESS_MAX {
        test.send(1, number, &test.open, slow("stranger", number));
    }
    let next = LOGINS_WAITING_PER_ADDRESS_MAX;
    test.send(1, next, &test.open, slow("stranger", next));
    assert_eq!(*test.told.lock(), [(next, Verdict::Busy)]);
    test.told.lock().clear();
    // Nor does the flood take its place.
    test.send(1, next + 1, &test.open, slow("u", next + 1));
    test.work();
    assert_eq!(test.told()[..2], [next + 1, 0]);
}

#[test]
fn a_flood_from_many_addresses_leaves_places_to_those_from_where_somebody_has_logged_in() {
    let test = TestLogins::new();
    let_in(&test, 200);
    let addresses = LOGINS_WAITING_UNFAMILIAR_MAX.div_ceil(LOGINS_WAITING_PER_ADDRESS_MAX);
    let gone = Arc::new(());
    for number in 0..LOGINS_WAITING_UNFAMILIAR_MAX {
        let address = number % addresses;
        test.log_in(
            address as u8,
            number,
            if number == 7 { &gone } else { &test.open },
        );
    }
    assert!(test.told().is_empty());
    let next = LOGINS_WAITING_UNFAMILIAR_MAX;
    test.log_in(100, next, &test.open);
    assert_eq!(*test.told.lock(), [(next, Verdict::Busy)]);
    test.log_in(200, next + 1, &test.open);
    assert_eq!(test.told(), [next]);
    // Who has gone makes room.
    drop(gone);
    test.log_in(100, next + 2, &test.open);
    assert_eq!(test.told(), [next]);
    test.log_in(100, next + 3, &test.open);
    assert_eq!(test.told(), [next, next + 3]);
}

#[test]
fn what_nobody_waits_for_is_not_computed() {
    let test = TestLogins::new();
    let gone = Arc::new(());
    for number in 0..5 {
        test.log_in(1, number, &gone);
    }
    test.log_in(1, 5, &test.open);
    drop(gone);
    assert_eq!(test.work(), 1);
    assert_eq!(test.told(), [5]);
    assert_eq!(test.logins.state.lock().waiting.count, 0);
}

#[test]
fn one_address_has_its_number_of_checks_and_not_one_more() {
    let test = TestLogins::new();
    let gone = Arc::new(());
    for number in 0..LOGINS_WAITING_PER_ADDRESS_MAX {
        test.log_in(1, number, if number == 7 { &gone } else { &test.open });
    }
    let next = LOGINS_WAITING_PER_ADDRESS_MAX;
    test.log_in(1, next, &test.open);
    assert_eq!(*test.told.lock(), [(next, Verdict::Busy)]);
    test.log_in(2, next + 1, &test.open);
    assert_eq!(test.told(), [next]);
    // Who has gone makes room.
    drop(gone);
    test.log_in(1, next + 2, &test.open);
    assert_eq!(test.told(), [next]);
    let state = test.logins.state.lock();
    assert_eq!(state.waiting.count, LOGINS_WAITING_PER_ADDRESS_MAX + 1);
}

#[test]
fn as_many_as_there_are_wait_for_the_same_login_of_one_user() {
    let test = TestLogins::new();
    let algorithm = HashingAlgorithm::Argon2id;
    let check = || {
        let hash = PasswordHash::parse(algorithm, HASH).expect("a hash");
        LoginCheck::new("u", Some(hash), b"p".to_vec(), algorithm)
    };
    let many = 2 * LOGINS_WAITING_MAX;
    for number in 0..many {
        test.send(1, number, &test.open, check());
    }
    assert!(test.told().is_empty());
    assert_eq!(test.logins.state.lock().waiting.count, 1);
    // Those who have gone are not kept.
    let wanted = Arc::new(());
    test.send(2, many, &wanted, check());
    for number in 0..many {
        test.send(2, number, &Arc::new(()), check());
    }
    {
        let state = test.logins.state.lock();
        let kept = |job: &Job| job.waiters.len();
        let job = state
            .waiting
            .by_address(IpAddr::from([10, 0, 0, 2]))
            .front();
        assert!(
            job.map(kept).is_some_and(|kept| kept < 16),
            "{:?}",
            job.map(kept)
        );
    }
    drop(wanted);
    assert_eq!(test.work(), 1);
    assert_eq!(test.told(), (0..many).collect::<Vec<_>>());
    // Users who do not exist have no login in common.
    for number in 0..2 {
        let name = number.to_string();
        let nobody = LoginCheck::new(&name, None, b"p".to_vec(), algorithm);
        test.send(1, number, &test.open, nobody);
    }
    assert_eq!(test.logins.state.lock().waiting.count, 2);
}

#[test]
fn a_network_of_ipv6_takes_turns_as_one_address() {
    let of = |text: &str| network_of(text.parse().expect("an address"));
    assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::2"));
    assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
    assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    assert_ne!(of("::ffff:10.0.0.1"), of("::ffff:10.0.0.2"));
}

#[test]
fn the_same_good_login_is_computed_once() {
    let test = TestLogins::new();
    let algorithm = HashingAlgorithm::Argon2id;
    let hash = PasswordHash::new(algorithm, b"p", &[1; 16]).expect("a hash");
    let check = || LoginCheck::new("u", Some(hash.clone()), b"p".to_vec(), algorithm);
    for number in 0..3 {
        test.send(1, number, &test.open, check());
    }
    assert_eq!(test.work(), 1);
    assert_eq!(test.told(), [0, 1, 2]);
    // Known, it does not wait.
    test.send(1, 3, &test.open, check());
    assert_eq!(test.told(), [0, 1, 2, 3]);
    let verdicts = test.told.lock();
    assert!(
        verdicts
            .iter()
            .all(|(_, verdict)| *verdict == Verdict::Right)
    );
}

#[test]
fn who_guesses_is_held_and_an_honest_client_elsewhere_is_not() {
    let test = TestLogins::new();
    test.guess("u", 1);
    // The eleventh guess has to wait; so has the right password, as nobody can tell them apart.
    test.send(1, 1, &test.open, test.cheap("u", "another"));
    test.send(1, 2, &test.open, test.cheap("u", "p"));
    assert_eq!((test.work(), test.told()), (0, vec![]));
    assert_eq!(test.logins.held(), (2, 2));
    // From elsewhere, or as another user, it is as ever.
    test.send(2, 3, &test.open, test.cheap("u", "p"));
    test.send(1, 4, &test.open, test.cheap("v", "p"));
    let verdicts = std::mem::take(&mut *test.told.lock());
    assert_eq!(verdicts, [(3, Verdict::Right), (4, Verdict::Wrong)]);
    // They come one by one: a right password costs no further wait.
    test.pass(1_999);
    assert_eq!(test.work(), 0);
    test.pass(1);
    assert_eq!(test.work(), 1);
    assert_eq!(*test.told.lock(), [(1, Verdict::Wrong)]);
    test.pass(2_000);
    test.send(1, 5, &test.open, test.cheap("u", "p"));
    test.work();
    let told = test.told.lock();
    assert_eq!(told[1..], [(5, Verdict::Right), (2, Verdict::Right)]);
}

#[test]
fn a_guess_that_is_held_for_too_long_is_told_to_try_again() {
    let test = TestLogins::new();
    test.guess("u", 1);
    for number in 0..4 {
        let check = test.cheap("u", &format!("more {number}"));
        test.send(1, number, &test.open, check);
    }
    for _ in 0..10 {
        test.pass(1_000);
        test.work();
    }
    let (wrong, busy) = (Verdict::Wrong, Verdict::Busy);
    assert_eq!(
        *test.told.lock(),
        [(0, wrong), (1, wrong), (2, busy), (3, busy)]
    );
    assert_eq!(test.logins.held().1, 0);
}

#[test]
fn guesses_of_who_hangs_up_are_counted_when_computed_and_dropped_when_held() {
    let test = TestLogins::new();
    for number in 0..GUESSES_FREE_PER_USER_AND_ADDRESS {
        let gone = Arc::new(());
        let check = test.cheap("u", &number.to_string());
        test.send(1, 0, &gone, check);
    }
    for number in 0..1_000 {
        let gone = Arc::new(());
        test.send(1, 1, &gone, test.cheap("u", &format!("more {number}")));
        drop(gone);
    }
    assert!(test.logins.held().1 <= LOGINS_DELAYED_PER_ADDRESS_MAX);
    test.pass(2_000);
    assert_eq!(test.work(), 0);
    assert_eq!(test.logins.held().1, 0);
}

#[test]
fn an_old_password_that_comes_again_and_again_counts_once() {
    let test = TestLogins::new();
    for number in 0..1_000 {
        test.send(1, number, &test.open, test.cheap("u", "old"));
    }
    test.send(1, 1_000, &test.open, test.cheap("u", "p"));
    let told = test.told.lock();
    assert_eq!(told.len(), 1_001);
    assert_eq!(
        told[999..],
        [(999, Verdict::Wrong), (1_000, Verdict::Right)]
    );
    drop(told);
    assert_eq!(test.logins.held(), (0, 0));
    // Nor is a slow hash computed for it more than once.
    test.log_in(2, 7, &test.open);
    assert_eq!(test.work(), 1);
    test.told.lock().clear();
    test.log_in(2, 7, &test.open);
    assert_eq!(*test.told.lock(), [(7, Verdict::Wrong)]);
}

#[test]
fn slow_checks_that_came_together_are_held_when_they_turn_out_to_be_guesses() {
    let test = TestLogins::new();
    for number in 0..100 {
        test.log_in(1, number, &test.open);
    }
    assert_eq!(test.work() as u64, GUESSES_FREE_PER_USER_AND_ADDRESS);
    assert!(test.logins.held().1 <= LOGINS_DELAYED_PER_ADDRESS_MAX);
    test.pass(2_000);
    assert_eq!(test.work(), 1);
}

#[test]
fn a_password_that_was_right_a_moment_ago_is_let_in_beside_guesses_at_its_user_from_there() {
    for is_slow in [false, true] {
        let test = TestLogins::new();
        let algorithm = match is_slow {
            true => HashingAlgorithm::Argon2id,
            false => HashingAlgorithm::Sha256,
        };
        let hash = PasswordHash::new(algorithm, b"p", &[1; 16]).expect("a hash");
        let with =
            |password: &str| LoginCheck::new("u", Some(hash.clone()), password.into(), algorithm);
        test.send(1, 0, &test.open, with("p"));
        test.work();
        assert_eq!(*test.told.lock(), [(0, Verdict::Right)]);
        for number in 0..2 * LOGINS_DELAYED_PER_ADDRESS_MAX {
            test.send(1, number, &test.open, with(&format!("guess {number}")));
            test.work();
        }
        assert_eq!(test.logins.held().1, LOGINS_DELAYED_PER_ADDRESS_MAX);
        // For longer than a password is remembered that is used no more.
        for _ in 0..4 {
            test.pass(LOGIN_REMEMBERED_MS / 2);
            test.guess_more(&with);
            test.told.lock().clear();
            test.send(1, 1, &test.open, with("p"));
            assert_eq!(*test.told.lock(), [(1, Verdict::Right)], "slow: {is_slow}");
        }
        // From where the user has not logged in, guesses are not looked up.
        for number in 0..GUESSES_FREE_PER_USER_AND_ADDRESS as usize {
            test.send(2, number, &test.open, with(&format!("elsewhere {number}")));
            test.work();
        }
        test.told.lock().clear();
        test.send(2, 2, &test.open, with("p"));
        assert!(test.told().is_empty());
    }
}

#[test]
fn who_is_let_in_by_what_is_remembered_is_known_there() {
    let test = TestLogins::new();
    let algorithm = HashingAlgorithm::Argon2id;
    let hash = PasswordHash::new(algorithm, b"p", &[1; 16]).expect("a hash");
    let with =
        |password: &str| LoginCheck::new("u", Some(hash.clone()), password.into(), algorithm);
    test.send(1, 0, &test.open, with("p"));
    test.work();
    test.send(2, 1, &test.open, with("p"));
    assert_eq!(test.told(), [0, 1]);
    // Others guess at this user from everywhere.
    for address in 3..13 {
        test.guess("u", address);
    }
    test.send(14, 0, &test.open, with("new"));
    assert_eq!(test.logins.held().0, 1, "from where it has never been");
    for address in [1, 2] {
        test.send(address, 0, &test.open, with("new"));
        assert_eq!(test.logins.held().0, 1, "{address}");
    }
}

#[test]
fn guesses_that_are_held_are_looked_up_so_often_and_not_more() {
    let test = TestLogins::new();
    let_in(&test, 1);
    for number in 0..GUESSES_FREE_PER_USER_AND_ADDRESS + DELAYED_LOOK_UPS_FREE {
        let check = test.cheap("u", &format!("guess {number}"));
        test.send(1, 0, &test.open, check);
    }
    test.told.lock().clear();
    test.send(1, 1, &test.open, test.cheap("u", "p"));
    let told = test.told.lock();
    assert_eq!(*told, [(1, Verdict::Busy)], "it is one guess more");
}

#[test]
fn guesses_at_others_take_no_place_of_a_user_who_has_logged_in_from_there() {
    let test = TestLogins::new();
    let_in(&test, 1);
    test.guess("u", 1);
    test.guess("other", 1);
    for number in 0..LOGINS_DELAYED_PER_ADDRESS_MAX {
        let check = test.cheap("other", &format!("more {number}"));
        test.send(1, number, &test.open, check);
    }
    test.send(1, 1, &test.open, test.cheap("other", "one more"));
    assert_eq!(*test.told.lock(), [(1, Verdict::Busy)]);
    test.told.lock().clear();
    // A new password, which nobody can tell from a guess.
    test.send(1, 2, &test.open, test.cheap("u", "new"));
    assert!(test.told().is_empty(), "it is held");
    assert_eq!(test.logins.held().1, LOGINS_DELAYED_PER_ADDRESS_MAX + 1);
}

#[test]
fn so_many_are_held_and_not_one_more() {
    let test = TestLogins::new();
    test.guess("1", 1);
    let hold = |address: u8, count| {
        for number in 0..count {
            let check = test.cheap(&address.to_string(), &format!("more {number}"));
            test.send(address, number, &test.open, check);
        }
    };
    hold(1, LOGINS_DELAYED_PER_ADDRESS_MAX);
    assert!(test.told().is_empty());
    hold(1, LOGINS_DELAYED_PER_ADDRESS_MAX + 1);
    assert_eq!(test.told().len(), LOGINS_DELAYED_PER_ADDRESS_MAX + 1);
    assert_eq!(test.logins.held().1, LOGINS_DELAYED_PER_ADDRESS_MAX);
    // Of all addresses together as well.
    let addresses = LOGINS_DELAYED_MAX / LOGINS_DELAYED_PER_ADDRESS_MAX + 1;
    for address in 2..=addresses as u8 {
        test.guess(&address.to_string(), address);
        hold(address, LOGINS_DELAYED_PER_ADDRESS_MAX);
    }
    assert_eq!(test.logins.held().1, LOGINS_DELAYED_MAX);
    let told = test.told.lock();
    assert_eq!(told.len(), LOGINS_DELAYED_PER_ADDRESS_MAX);
    assert!(told.iter().all(|(_, verdict)| *verdict == Verdict::Busy));
}

#[test]
fn who_rests_for_long_keeps_no_memory() {
    let test = TestLogins::new();
    let mut memory = HashMemory::default();
    test.log_in(1, 0, &test.open);
    let job = test.logins.next(&mut memory).expect("one waits");
    test.logins.settle(job, &mut memory);
    let mut state = test.logins.state.lock();
    let pause = Some(Duration::from_millis(1));
    test.logins.rest(&mut state, pause, &mut memory);
    assert!(!memory.is_empty(), "there is more to compute soon");
    test.logins.rest(&mut state, None, &mut memory);
    assert!(memory.is_empty());
}
