//! What each message carries so that its fate is known: sixteen octets that say whose it is, which
//! one, when it was due, and that it is whole.
//!
//! ```text
//! 0      2          4          8          12         16
//! +------+----------+----------+----------+----------+
//! | run  | publisher| sequence | due      | checksum |
//! +------+----------+----------+----------+----------+
//!   u16    u16        u32        u32        u32        big-endian
//!
//! sequence  from 1, for each publisher
//! due       the scheduled time in microseconds since the run began, modulo 2^32
//! checksum  CRC-32C of the twelve octets before it and of the rest of the body
//! ```

/// Octets of a stamp.
pub const BYTES: usize = 16;
