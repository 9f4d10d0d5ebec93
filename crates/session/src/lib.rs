//! The AMQP 0-9-1 session: what one client connection and its channels may say, when, and what is
//! answered.
//!
//! [`Connection`] takes the bytes that a socket had and gives [`leveret_client::Request`]s for the
//! broker; it takes the broker's answers, deliveries and confirms and gives bytes for the socket.
//! Between them it keeps the protocol's memory: how far the handshake is, which channels are open,
//! which publish is half arrived, which publishes await a confirm ([`leveret_client::Ledger`]),
//! which deliveries the client holds (`unacked`), what a transaction has gathered.
//!
//! Invariant: a session never routes, never looks up a queue, never decides about permission. It
//! asks.
//! Invariant: a session never reads a clock or a socket. Time arrives as `now`, bytes as
//! [`bytes::Bytes`].
//! Invariant: while an answer is owed, nothing more of the client's input is looked at; so a client
//! sees its requests take effect in order.
//! Invariant: no confirm is written before its publish is owed nothing more, and none before the
//! return of that publish.
//! Invariant: what a connection remembers is bounded by limits and by what has arrived, never by
//! what a client announces.

mod channel;
mod channels;
mod connection;
mod dispatch;
pub mod fuzz;
mod handshake;
mod input;
mod port;
mod publish;
mod replies;
pub mod settings;
mod settle;
mod unacked;

pub use connection::{Connection, End};
pub use leveret_client::contract;
pub use leveret_client::{ChannelStatus, SessionState as State};
pub use leveret_types::unfinished::Unfinished;
pub use settings::Settings;
