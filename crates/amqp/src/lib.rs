//! AMQP 0-9-1 on the wire: frames, methods, field tables and content headers, from bytes to values
//! and back.
//!
//! What is read borrows from the bytes it was read from. Field tables and message properties stay
//! bytes, checked once when they arrive and visited when somebody asks; what passes through the
//! broker is never decoded and encoded again.
//!
//! A frame on the wire:
//!
//! ```text
//! 0      1         3             7                  7+size   8+size
//! +------+---------+-------------+------------------+--------+
//! | type | channel | size        | payload          | 0xCE   |
//! +------+---------+-------------+------------------+--------+
//!   u8     u16       u32           size octets        u8
//!
//! type 1  method   class u16, method u16, fields            see `spec/methods.txt`
//! type 2  header   class u16, weight u16, body size u64, property flags u16, properties
//! type 3  body     a part of the body
//! type 8  heartbeat, on channel 0, empty
//! ```
//!
//! Invariant: this crate holds no state; what it does depends on its arguments alone.
//! Invariant: no input makes it panic, recurse by the input's depth, or allocate more than a small
//! multiple of the input's size.
//! Invariant: a limit on what may be read is checked before anything is read that it limits.

pub mod client;
pub mod content;
pub mod encode;
pub mod error;
pub mod frame;
pub mod fuzz;
pub mod generated;
pub mod method;
pub mod preamble;
pub mod table;
pub mod wire;

pub use content::{ContentHeader, Properties, Property};
pub use error::{DecodeError, FrameError};
pub use frame::{Frame, FrameKind, next_frame};
pub use generated::{Method, access, basic, channel, confirm, connection, exchange, queue, tx};
pub use method::{EncodeMethod, Sender};
pub use preamble::{PROTOCOL_HEADER, Preamble, read_preamble};
pub use table::{RawArray, RawTable, RawValue, TableBuilder};
