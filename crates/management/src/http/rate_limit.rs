//! How many requests one user and one address may send, where the operator bounds them: a bucket of
//! tokens for each, filled at the rate that is set.
//!
//! Invariant: buckets are bounded in number ([`RATE_BUCKETS_MAX`]); a full one is as good as none.

use crate::http::reply::ApiError;
use leveret_auth::network_of;
use leveret_types::limits::{RATE_BUCKETS_MAX, RATE_BURST_SECONDS};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Parts of a token that are counted.
const PARTS: u64 = 1_000;

/// The bound on requests, and who has come near it.
#[derive(Debug)]
pub(crate) struct RateLimit {
    begun: Instant,
    buckets: Mutex<Buckets>,
}

impl RateLimit {
    /// So many requests a second of each user and of each address; 0: no bound.
    pub(crate) fn new(per_second: u64) -> Self {
        Self {
            begun: Instant::now(),
            buckets: Mutex::new(Buckets::new(per_second)),
        }
    }

    /// Counts a request of this address.
    pub(crate) fn count_address(&self, address: IpAddr) -> Result<(), ApiError> {
        self.count(Asker::Network(network_of(address)))
    }

    /// Counts a request of this user.
    pub(crate) fn count_user(&self, name: &str) -> Result<(), ApiError> {
        self.count(Asker::User(name.to_owned()))
    }

    fn count(&self, asker: Asker) -> Result<(), ApiError> {
        let now_ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        // Each change is whole before anything can panic.
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let per_second = buckets.per_second;
        let what = match &asker {
            Asker::Network(_) => "address",
            Asker::User(_) => "user",
        };
        buckets.take(now_ms, asker).map_err(|seconds| {
            let reason = format!(
                "this {what} sends more than {per_second} requests a second \
                 (management.rate_limit.requests_per_second)"
            );
            ApiError::TooMany(reason, seconds)
        })
    }
}

/// Whose requests are counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Asker {
    Network(IpAddr),
    User(String),
}

/// What is left of a bucket.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    parts: u64,
    at_ms: u64,
}

#[derive(Debug)]
struct Buckets {
    per_second: u64,
    /// Those that are not full.
    of: BTreeMap<Asker, Bucket>,
}

impl Buckets {
    const fn new(per_second: u64) -> Self {
        Self {
            per_second,
            of: BTreeMap::new(),
        }
    }

    const fn full(&self) -> u64 {
        self.per_second * RATE_BURST_SECONDS * PARTS
    }

    /// What a bucket has by now: so many parts for each millisecond as tokens for each second.
    const fn filled(&self, bucket: Bucket, now_ms: u64) -> u64 {
        let since_ms = now_ms.saturating_sub(bucket.at_ms);
        let parts = bucket
            .parts
            .saturating_add(since_ms.saturating_mul(self.per_second));
        if parts < self.full() {
            parts
        } else {
            self.full()
        }
    }

    /// Takes a token, or says after how many seconds there is one.
    fn take(&mut self, now_ms: u64, asker: Asker) -> Result<(), u64> {
        if self.per_second == 0 {
            return Ok(());
        }
        let known = self.of.get(&asker).copied();
        let parts = known.map_or(self.full(), |bucket| self.filled(bucket, now_ms));
        let Some(left) = parts.checked_sub(PARTS) else {
            let wait_ms = (PARTS - parts).div_ceil(self.per_second);
            return Err(wait_ms.div_ceil(1_000).max(1));
        };
        if known.is_none() && self.of.len() >= RATE_BUCKETS_MAX {
            self.make_room(now_ms);
        }
        let bucket = Bucket {
            parts: left,
            at_ms: now_ms,
        };
        self.of.insert(asker, bucket);
        Ok(())
    }

    /// Forgets those that are full, or, if there is none, the one that has asked for nothing for
    /// longest.
    fn make_room(&mut self, now_ms: u64) {
        let mut of = std::mem::take(&mut self.of);
        of.retain(|_, bucket| self.filled(*bucket, now_ms) < self.full());
        self.of = of;
        if self.of.len() >= RATE_BUCKETS_MAX {
            let oldest = self.of.iter().min_by_key(|(_, bucket)| bucket.at_ms);
            if let Some(oldest) = oldest.map(|(asker, _)| asker.clone()) {
                self.of.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn user(n: usize) -> Asker {
        Asker::User(format!("u{n}"))
    }

    #[test]
    fn a_burst_is_let_through_and_then_as_many_as_the_rate_says() {
        let mut buckets = Buckets::new(2);
        for n in 0..2 * RATE_BURST_SECONDS {
            assert_eq!(buckets.take(7, user(1)), Ok(()), "{n}");
        }
        assert_eq!(buckets.take(7, user(1)), Err(1));
        assert_eq!(
            buckets.take(7, user(2)),
            Ok(()),
            "another one is no part of it"
        );
        assert_eq!(buckets.take(506, user(1)), Err(1));
        assert_eq!(buckets.take(507, user(1)), Ok(()));
        assert_eq!(buckets.take(507, user(1)), Err(1));
        // However long nobody asks, no more is saved up than a burst.
        let later = 1_000_000_000;
        for _ in 0..2 * RATE_BURST_SECONDS {
            assert_eq!(buckets.take(later, user(1)), Ok(()));
        }
        assert_eq!(buckets.take(later, user(1)), Err(1));
        // A clock that stands still or goes back gives nothing.
        assert_eq!(buckets.take(0, user(1)), Err(1));
    }

    #[test]
    fn without_a_bound_nothing_is_counted() {
        let mut buckets = Buckets::new(0);
        assert!((0..10_000).all(|_| buckets.take(0, user(1)).is_ok()));
        assert!(buckets.of.is_empty());
    }

    #[test]
    fn however_many_ask_few_are_kept() {
        let mut buckets = Buckets::new(1);
        for n in 0..RATE_BUCKETS_MAX * 2 {
            assert!(buckets.take(n as u64 / 64, user(n)).is_ok());
            assert!(buckets.of.len() <= RATE_BUCKETS_MAX);
        }
        assert_eq!(buckets.of.len(), RATE_BUCKETS_MAX);
        assert!(!buckets.of.contains_key(&user(0)), "the oldest goes first");
        let network = Asker::Network(Ipv4Addr::LOCALHOST.into());
        assert!(buckets.take(u64::MAX, network).is_ok());
        assert_eq!(
            buckets.of.len(),
            1,
            "those that are full by then are forgotten"
        );
    }
}
