//! Who may do what: SASL mechanisms, password hashes, permissions; and whose turn it is where
//! strangers can bring more than can be computed.
//!
//! Everything here is a computation on values that the caller brings: the catalogue of users, the
//! salt, the peer's address. Every entrance of the broker (AMQP, HTTP, command line) asks the same
//! functions, so that no entrance is less well guarded than another.
//!
//! Invariant: this crate never reads a clock, a socket, a file or a source of randomness. Salts
//! arrive as arguments.
//! Invariant: hashes are compared in constant time, and an unknown user costs the same work as a
//! wrong password.
//! Invariant: a pattern is matched in time linear in the name, whatever the pattern; its size is
//! bounded when it is compiled. One that a request brings costs one step for each byte of a name.
//! Invariant: nobody logs in by `ANONYMOUS` but as the user that an operator named for it.

pub mod address_turns;
pub mod guesses;
pub mod login;
pub mod login_sources;
pub mod password;
pub mod pattern;
mod pattern_cost;
pub mod permission;
pub mod sasl;

pub use address_turns::{AddressLines, AddressTurns, Origin};
pub use guesses::{Guesser, Guesses, network_of};
pub use login::{Fingerprint, LoginCheck, Remembered, Verdict};
pub use login_sources::{LoginCounts, LoginProtocol, LoginSource, LoginSources};
pub use password::{
    HashMemory, HashingAlgorithm, PasswordError, PasswordHash, verify_login, verify_login_in,
};
pub use pattern::{Pattern, PatternError};
pub use permission::{
    Access, Permission, Resource, Rights, TopicPermission, check_user_id, vhost_refused,
};
pub use sasl::{Credentials, Mechanism, SaslError, login_refused_text};

use std::net::IpAddr;

/// Whether an address is this machine's own, as users bound to the loopback interface need:
/// `127.0.0.0/8`, `::1`, and IPv4 loopback addresses mapped into IPv6.
#[must_use]
pub fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    #[test]
    fn loopback_addresses() {
        let cases = [
            ("127.0.0.1", true),
            ("127.8.9.10", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("::ffff:10.0.0.1", false),
            ("10.0.0.1", false),
            ("0.0.0.0", false),
            ("::", false),
            ("fe80::1", false),
            // The deprecated "IPv4-compatible" form is no mapped address: nobody vouches for it.
            ("::127.0.0.1", false),
        ];
        for (address, expected) in cases {
            let parsed = address.parse().expect("an address");
            assert_eq!(super::is_loopback(parsed), expected, "{address}");
        }
    }
}
