//! Logins counted by protocol, address and user, while an operator wants that.
//!
//! Strangers choose their names, so what is counted is bounded: further sources share one count of
//! each protocol, which has neither address nor user.

use leveret_types::limits::{LOGIN_SOURCE_USER_BYTES_MAX, LOGIN_SOURCES_MAX};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What somebody logs in by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoginProtocol {
    /// AMQP 0-9-1.
    Amqp,
    /// The stream protocol.
    Stream,
    /// The HTTP API.
    Http,
}

impl LoginProtocol {
    /// In RabbitMQ's words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Amqp => "amqp091",
            Self::Stream => "stream",
            Self::Http => "http",
        }
    }
}

/// Who logs in, and how.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LoginSource {
    /// By which protocol.
    pub protocol: LoginProtocol,
    /// Where from; none in the count that further sources share.
    pub address: Option<IpAddr>,
    /// The name that was given: as much of it as is kept, and empty where none was.
    pub user: String,
}

/// How many logins came to what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoginCounts {
    /// Those that were let in.
    pub succeeded: u64,
    /// Those that were refused.
    pub failed: u64,
}

/// Logins by source. Counts nothing until it is told to.
#[derive(Debug, Default)]
pub struct LoginSources {
    is_tracked: AtomicBool,
    counts: Mutex<BTreeMap<LoginSource, LoginCounts>>,
}

impl LoginSources {
    /// Counts from now on, or no more: what was counted stays.
    pub fn track(&self, is_tracked: bool) {
        self.is_tracked.store(is_tracked, Ordering::Relaxed);
    }

    /// Whether it counts.
    #[must_use]
    pub fn is_tracked(&self) -> bool {
        self.is_tracked.load(Ordering::Relaxed)
    }

    /// Somebody has tried to log in.
    pub fn note(&self, protocol: LoginProtocol, from: IpAddr, user: &str, is_let_in: bool) {
        if !self.is_tracked() {
            return;
        }
        let mut counts = self.counts();
        let mut source = LoginSource {
            protocol,
            address: Some(from.to_canonical()),
            user: kept(user).to_owned(),
        };
        if counts.len() >= LOGIN_SOURCES_MAX && !counts.contains_key(&source) {
            (source.address, source.user) = (None, String::new());
        }
        let counts = counts.entry(source).or_default();
        match is_let_in {
            true => counts.succeeded += 1,
            false => counts.failed += 1,
        }
    }

    /// All that is counted, in order.
    #[must_use]
    pub fn rows(&self) -> Vec<(LoginSource, LoginCounts)> {
        let counts = self.counts();
        let rows = counts.iter();
        rows.map(|(source, counts)| (source.clone(), *counts))
            .collect()
    }

    /// Forgets what was counted.
    pub fn forget(&self) {
        self.counts().clear();
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<LoginSource, LoginCounts>> {
        // A writer that panicked left nothing that harms.
        let counts = self.counts.lock();
        counts.unwrap_or_else(PoisonError::into_inner)
    }
}

/// As much of a name as is kept.
fn kept(user: &str) -> &str {
    let mut end = user.len().min(LOGIN_SOURCE_USER_BYTES_MAX);
    while !user.is_char_boundary(end) {
        end -= 1;
    }
    user.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn tracked() -> LoginSources {
        let sources = LoginSources::default();
        sources.track(true);
        sources
    }

    #[test]
    fn logins_are_counted_by_protocol_address_and_user_while_somebody_wants_that() {
        let sources = LoginSources::default();
        sources.note(LoginProtocol::Amqp, HERE, "ann", true);
        assert_eq!(sources.rows(), []);
        sources.track(true);
        let mapped = "::ffff:127.0.0.1".parse().expect("an address");
        for (protocol, from, user, is_let_in) in [
            (LoginProtocol::Amqp, HERE, "ann", true),
            (LoginProtocol::Amqp, mapped, "ann", false),
            (LoginProtocol::Http, HERE, "ann", false),
            (LoginProtocol::Amqp, HERE, "bob", true),
        ] {
            sources.note(protocol, from, user, is_let_in);
        }
        sources.track(false);
        sources.note(LoginProtocol::Amqp, HERE, "ann", true);
        let row = |protocol, user: &str, (succeeded, failed)| {
            let (address, user) = (Some(HERE), user.to_owned());
            (
                LoginSource {
                    protocol,
                    address,
                    user,
                },
                LoginCounts { succeeded, failed },
            )
        };
        let expected = [
            row(LoginProtocol::Amqp, "ann", (1, 1)),
            row(LoginProtocol::Amqp, "bob", (1, 0)),
            row(LoginProtocol::Http, "ann", (0, 1)),
        ];
        assert_eq!(sources.rows(), expected);
        sources.forget();
        assert_eq!(sources.rows(), []);
    }

    #[test]
    fn sources_beyond_the_bound_share_one_count_of_each_protocol() {
        let sources = tracked();
        let note = |number: usize| {
            let user = format!("user{number}");
            sources.note(LoginProtocol::Stream, HERE, &user, false);
        };
        (0..LOGIN_SOURCES_MAX).for_each(note);
        let shared = |sources: &LoginSources| {
            let mut rows = sources.rows().into_iter();
            rows.find(|(source, _)| source.address.is_none())
        };
        assert_eq!(sources.rows().len(), LOGIN_SOURCES_MAX);
        assert_eq!(shared(&sources), None);
        (LOGIN_SOURCES_MAX..LOGIN_SOURCES_MAX + 5).for_each(note);
        note(0);
        assert_eq!(sources.rows().len(), LOGIN_SOURCES_MAX + 1);
        let (source, counts) = shared(&sources).expect("a count of its own");
        assert_eq!((&*source.user, counts.failed), ("", 5));
    }

    #[test]
    fn no_more_of_a_name_is_kept_than_may_be() {
        for (name, bytes) in [
            (
                "n".repeat(LOGIN_SOURCE_USER_BYTES_MAX),
                LOGIN_SOURCE_USER_BYTES_MAX,
            ),
            (
                "n".repeat(LOGIN_SOURCE_USER_BYTES_MAX + 1),
                LOGIN_SOURCE_USER_BYTES_MAX,
            ),
            ("\u{e9}".repeat(200), 254),
        ] {
            let sources = tracked();
            sources.note(LoginProtocol::Amqp, HERE, &name, false);
            let rows = sources.rows();
            assert_eq!(
                rows.first().map(|(source, _)| source.user.len()),
                Some(bytes)
            );
        }
    }
}
