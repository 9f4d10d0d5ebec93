//! The session of the stream protocol: what one client connection may say, when, and what is
//! answered.
//!
//! [`Session`] takes the bytes that a socket had, asks the node through its [`Port`], and gives the
//! streams [`leveret_stream::Command`]s; it takes their [`leveret_stream::Event`]s and gives bytes
//! for the socket. Between them it keeps the protocol's memory: how far the handshake is, which
//! publishers and subscriptions there are, what they have under way.
//!
//! Invariant: a session never looks a stream up and never decides about permission. It asks.
//! Invariant: a session never reads a clock or a socket. Time arrives as `now`, bytes as
//! [`bytes::Bytes`].
//! Invariant: while an answer is owed, nothing more of the client's input is looked at; so a client
//! sees its requests take effect in order.
//! Invariant: what a connection holds is bounded by limits: a client that does not read is sent
//! nothing more, and what it was to be sent is handed back; one whose publishes are not confirmed
//! is not read.

mod activations;
mod answers;
mod client;
mod dispatch;
pub mod fuzz;
mod handshake;
mod in_hand;
mod input;
mod pending_request;
pub mod port;
mod publishers;
mod readers;
mod requests;
mod retry;
mod session;
pub mod settings;
mod single_active;
mod status;
mod super_streams;
mod times;
mod totals;
mod values;
mod work;

pub use port::{LoginOutcome, Opening, Port, Reached};
pub use session::{Ending, Session};
pub use settings::Settings;
pub use status::{PublisherStatus, SessionStatus, SubscriptionStatus};
pub use totals::{CODES, Totals};

#[cfg(test)]
mod tests;
