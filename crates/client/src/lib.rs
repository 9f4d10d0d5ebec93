//! The client port: what a client's session, whatever protocol it speaks, may ask of the broker,
//! and what it hears.
//!
//! A session implements [`Session`]: it turns a client's bytes into [`Request`]s (publish,
//! subscribe with a prefetch or by credit, settle, get, declare, bind, look up) and what it hears
//! (deliveries, confirms, returned messages, ended consumers, alarms) into bytes. The broker's side
//! of a connection is written once, for all of them. [`Ledger`] keeps what publishes are owed.
//!
//! Invariant: nothing here knows a protocol's bytes, nor where a queue is.
//! Invariant: this crate never reads a clock or a socket. Time arrives as an argument.

pub mod contract;
mod ledger;
mod session;

pub use contract::{
    Awaited, Consume, Delivery, Flow, LoginOutcome, Publish, Reply, Request, Settle, SettleOutcome,
    Topology,
};
pub use ledger::{Answer, Answered, Ledger};
pub use session::{
    ChannelCounters, ChannelStatus, DeliveredTo, Session, SessionEnd, SessionLatencies,
    SessionState, SessionStatus, UnsettledDelivery, UnsettledPosition,
};
