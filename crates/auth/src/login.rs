//! The check of one login's password, as a value: whoever has the time runs it. What was found good
//! is remembered for a while, so that a slow hash is not computed for every request of a client.

use crate::password::{HashMemory, HashingAlgorithm, PasswordHash, verify_login_in};
use leveret_types::limits::{LOGIN_REMEMBERED_MS, LOGINS_REMEMBERED_MAX};
use sha2::{Digest, Sha256};
use std::collections::{HashMap, VecDeque};

/// What became of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The password is the user's.
    Right,
    /// It is not, or there is no such user.
    Wrong,
    /// Too many others wait for their check.
    Busy,
}

impl From<bool> for Verdict {
    fn from(right: bool) -> Self {
        match right {
            true => Self::Right,
            false => Self::Wrong,
        }
    }
}

/// The check of one login's password.
pub struct LoginCheck {
    user: String,
    hash: Option<PasswordHash>,
    password: Vec<u8>,
    usual: HashingAlgorithm,
}

impl std::fmt::Debug for LoginCheck {
    /// Leaves the password out: what is printed ends in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoginCheck").finish_non_exhaustive()
    }
}

impl LoginCheck {
    /// The check of `password` against the hash of `user`. Where there is no such user, or none
    /// that a password lets in, it costs what a check with `usual`, the algorithm of new users,
    /// does.
    #[must_use]
    pub fn new(
        user: &str,
        hash: Option<PasswordHash>,
        password: Vec<u8>,
        usual: HashingAlgorithm,
    ) -> Self {
        Self {
            user: user.to_owned(),
            hash: hash.filter(|hash| !hash.text.is_empty()),
            password,
            usual,
        }
    }

    /// Whose password it is said to be.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Whether it takes so long that it must not hold up anybody else.
    #[must_use]
    pub fn is_slow(&self) -> bool {
        let algorithm = self.hash.as_ref().map_or(self.usual, |hash| hash.algorithm);
        algorithm == HashingAlgorithm::Argon2id
    }

    /// Whether the password is right. A slow hash is computed in `memory`.
    #[must_use]
    pub fn run(&self, memory: &mut HashMemory) -> bool {
        verify_login_in(self.hash.as_ref(), &self.password, self.usual, memory)
    }
}

/// Under what a login is remembered: a digest of a secret of this process, the user's name and
/// hash, and the password. Another hash of the user is another fingerprint: a changed password, or
/// a user who is gone, is never found again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

/// Logins that were found good a moment ago.
pub struct Remembered {
    secret: [u8; 32],
    until_ms: HashMap<Fingerprint, u64>,
    /// The same in the order in which they are forgotten.
    order: VecDeque<Fingerprint>,
}

impl std::fmt::Debug for Remembered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = self.until_ms.len();
        f.debug_struct("Remembered").field("count", &count).finish()
    }
}

impl Remembered {
    /// Nothing yet, under a secret of unguessable bytes.
    #[must_use]
    pub fn new(secret: [u8; 32]) -> Self {
        Self {
            secret,
            until_ms: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Whether this check would find the password right, as one did a moment ago.
    #[must_use]
    pub fn knows(&self, check: &LoginCheck, now_ms: u64) -> bool {
        let until_ms = self.until_ms.get(&self.fingerprint(check));
        until_ms.is_some_and(|until_ms| now_ms < *until_ms)
    }

    /// This check has found the password right.
    pub fn remember(&mut self, check: &LoginCheck, now_ms: u64) {
        let found = self.fingerprint(check);
        while let Some(oldest) = self.order.front() {
            let until_ms = self.until_ms.get(oldest);
            let over = until_ms.is_none_or(|until_ms| *until_ms <= now_ms);
            if !over && self.order.len() < LOGINS_REMEMBERED_MAX {
                break;
            }
            self.until_ms.remove(oldest);
            self.order.pop_front();
        }
        let until_ms = now_ms + LOGIN_REMEMBERED_MS;
        if self.until_ms.insert(found, until_ms).is_some() {
            self.order.retain(|other| *other != found);
        }
        self.order.push_back(found);
    }

    /// What checks have in common that find the same.
    #[must_use]
    pub fn fingerprint(&self, check: &LoginCheck) -> Fingerprint {
        let hash = check.hash.as_ref().map_or("", |hash| hash.text.as_str());
        let parts = [check.user.as_bytes(), hash.as_bytes(), &check.password];
        Fingerprint(digest(&self.secret, &parts))
    }
}

/// A digest of these parts. The secret leads and each part's length stands before it: nobody can
/// foretell a digest, or make one list of parts look like another.
pub(crate) fn digest(secret: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    let mut digest = Sha256::new().chain_update(secret);
    for part in parts {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: [u8; 16] = [7; 16];

    fn hash(password: &str) -> PasswordHash {
        PasswordHash::new(HashingAlgorithm::Sha256, password.as_bytes(), &SALT).expect("a hash")
    }

    fn check(hash: Option<PasswordHash>, password: &str) -> LoginCheck {
        LoginCheck::new("u", hash, password.into(), HashingAlgorithm::Sha256)
    }

    #[test]
    fn a_check_without_a_user_costs_what_one_of_a_new_user_does() {
        let argon2id = HashingAlgorithm::Argon2id;
        for hash in [None, Some(PasswordHash::none())] {
            assert!(LoginCheck::new("u", hash.clone(), b"p".to_vec(), argon2id).is_slow());
            assert!(!check(hash.clone(), "p").is_slow());
            assert!(!check(hash, "p").run(&mut HashMemory::default()));
        }
        let slow = PasswordHash::parse(
            argon2id,
            "$argon2id$v=19$m=8,t=1,p=1$YWJjZGVmZ2g$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        );
        assert!(check(slow.ok(), "p").is_slow());
        assert!(!LoginCheck::new("u", Some(hash("p")), b"p".to_vec(), argon2id).is_slow());
        assert!(check(Some(hash("p")), "p").run(&mut HashMemory::default()));
    }

    #[test]
    fn a_check_tells_whose_it_is_and_what_came_of_it() {
        assert_eq!(check(None, "p").user(), "u");
        assert_eq!(Verdict::from(true), Verdict::Right);
        assert_eq!(Verdict::from(false), Verdict::Wrong);
    }

    #[test]
    fn where_a_part_ends_is_a_part_of_its_digest() {
        let of = |parts: &[&[u8]]| digest(&[1; 32], parts);
        assert_eq!(of(&[b"user", b"hash"]), of(&[b"user", b"hash"]));
        assert_ne!(of(&[b"user", b"hash"]), of(&[b"userh", b"ash"]));
        assert_ne!(of(&[b"user", b""]), of(&[b"user"]));
    }

    #[test]
    fn what_was_found_good_is_remembered_until_its_time_or_the_user_changes() {
        let mut remembered = Remembered::new([1; 32]);
        let good = check(Some(hash("p")), "p");
        assert!(!remembered.knows(&good, 0));
        remembered.remember(&good, 0);
        assert!(remembered.knows(&good, LOGIN_REMEMBERED_MS - 1));
        assert!(!remembered.knows(&good, LOGIN_REMEMBERED_MS));
        for other in [
            check(Some(hash("p")), "q"),
            check(Some(hash("q")), "p"),
            check(None, "p"),
            check(Some(PasswordHash::none()), "p"),
        ] {
            assert!(!remembered.knows(&other, 0));
        }
        assert!(!Remembered::new([2; 32]).knows(&good, 0));
        let of_other = LoginCheck::new(
            "v",
            Some(hash("p")),
            b"p".to_vec(),
            HashingAlgorithm::Sha256,
        );
        assert!(!remembered.knows(&of_other, 0));
        // Found good once more, it is remembered from then on.
        remembered.remember(&good, 1_000);
        assert!(remembered.knows(&good, LOGIN_REMEMBERED_MS));
    }

    #[test]
    fn a_login_that_is_found_good_again_counts_as_new() {
        let mut remembered = Remembered::new([1; 32]);
        let user = hash("p");
        let of = |number: usize| check(Some(user.clone()), &number.to_string());
        for number in 0..LOGINS_REMEMBERED_MAX {
            remembered.remember(&of(number), 1);
        }
        remembered.remember(&of(0), 2);
        remembered.remember(&of(LOGINS_REMEMBERED_MAX), 2);
        assert!(remembered.knows(&of(0), 2), "it is newer than the next");
        assert!(!remembered.knows(&of(1), 2));
    }

    #[test]
    fn what_is_over_is_kept_no_longer_than_until_the_next_login() {
        let mut remembered = Remembered::new([1; 32]);
        let user = hash("p");
        let of = |number: u64| check(Some(user.clone()), &number.to_string());
        remembered.remember(&of(1), 0);
        remembered.remember(&of(2), LOGIN_REMEMBERED_MS - 1);
        assert_eq!(remembered.until_ms.len(), 2, "none is over");
        remembered.remember(&of(3), LOGIN_REMEMBERED_MS);
        assert_eq!(remembered.until_ms.len(), 2, "the first is");
        assert_eq!(remembered.order.len(), 2);
        assert!(remembered.knows(&of(2), LOGIN_REMEMBERED_MS));
    }

    #[test]
    fn a_bounded_number_is_remembered_the_newest() {
        let mut remembered = Remembered::new([1; 32]);
        let user = hash("p");
        let of = |number: usize| check(Some(user.clone()), &number.to_string());
        for number in 0..LOGINS_REMEMBERED_MAX + 5 {
            remembered.remember(&of(number), 1);
        }
        assert_eq!(remembered.until_ms.len(), LOGINS_REMEMBERED_MAX);
        assert_eq!(remembered.order.len(), LOGINS_REMEMBERED_MAX);
        assert!(!remembered.knows(&of(4), 1));
        assert!(remembered.knows(&of(5), 1));
    }

    #[test]
    fn who_logs_in_again_and_again_takes_one_place_and_pushes_nobody_out() {
        let mut remembered = Remembered::new([1; 32]);
        let user = hash("p");
        let of = |number: usize| check(Some(user.clone()), &number.to_string());
        remembered.remember(&of(0), 1);
        for at in 0..2 * LOGINS_REMEMBERED_MAX as u64 {
            remembered.remember(&of(1), 1 + at % 2);
        }
        assert_eq!((remembered.until_ms.len(), remembered.order.len()), (2, 2));
        remembered.remember(&of(2), 3);
        for number in 0..3 {
            assert!(remembered.knows(&of(number), 3), "{number}");
        }
        // Its place is that of its last login: those that others took before go first.
        remembered.remember(&of(0), 4);
        for number in 3..LOGINS_REMEMBERED_MAX + 1 {
            remembered.remember(&of(number), 4);
        }
        assert!(!remembered.knows(&of(1), 4), "the oldest went");
        assert!(remembered.knows(&of(0), 4));
    }
}
