//! The AMQP 0-9-1 session: connection and channel state machines.

pub mod contract;
