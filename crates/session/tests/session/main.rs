//! A session's behaviour as data: each case is a conversation, line by line what is said and what
//! comes of it.
//!
//! Every conversation is held twice, with each line's bytes in one piece and octet by octet.

mod channels;
mod clauses;
mod closing;
mod consuming;
mod crossings;
mod handshake;
mod harness;
mod publishing;
mod time;
mod transactions;
mod unfinished;
mod wire;
