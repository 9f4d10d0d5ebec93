//! RabbitMQ's stream protocol on the wire: frames, all 31 commands in all announced versions and in
//! both directions, from bytes to values and back.
//!
//! What is read borrows from the bytes it was read from. Messages stay bytes: an entry of a publish
//! goes into a chunk as it is, and a chunk goes to subscribers as it is.
//!
//! A frame on the wire, all numbers in network order:
//!
//! ```text
//! 0        4       6         8                                        4+size
//! +--------+-------+---------+----------------+----------------+---------+
//! | size   | key   | version | correlation id | response code  | content |
//! +--------+-------+---------+----------------+----------------+---------+
//!   u32      u16     u16       u32, in          u16, in          fields
//!            top bit:          requests and     responses
//!            response          responses
//!
//! string   length i16, UTF-8; -1 is none      bytes   length i32, octets; -1 is none
//! array    count i32, items
//! ```
//!
//! Invariant: this crate holds no state; what it does depends on its arguments alone.
//! Invariant: no input makes it panic, recurse, or allocate more than a small multiple of the
//! input's size: never by a length that the input claims.
//! Invariant: a limit on what may be read is checked before anything is read that it limits.

pub mod client;
pub mod code;
pub mod error;
pub mod frame;
pub mod fuzz;
mod fuzz_frames;
pub mod key;
pub mod publish;
pub mod server;
pub mod wire;

pub use client::{ClientCommand, Request};
pub use code::ResponseCode;
pub use error::{DecodeError, FrameError};
pub use frame::{Frame, next_frame};
pub use key::{Key, SERVER_VERSIONS};
pub use publish::{Entry, Publish};
pub use server::{Answer, ServerCommand};
pub use wire::{OffsetSpec, Optional, Pairs, Trailing};

#[cfg(test)]
mod tests;
