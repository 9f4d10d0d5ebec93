//! RabbitMQ's stream protocol, from a client's side: a state machine of one connection without
//! input or output of its own, the chunks that it is sent, and a client that waits for each answer.

mod chunk;
mod client;
mod session;
#[cfg(test)]
mod tests;

pub use chunk::{Chunk, ChunkError, Record, put_section, section_bytes, section_data};
pub use client::{StreamClient, offset_spec};
pub use session::{Event, Fault, Login, Session};

/// Octets of a frame that is read, at most. Chunks are not bounded by the size that was agreed:
/// RabbitMQ sends them as large as they are on its disk.
pub const FRAME_READ_BYTES_MAX: u32 = 256 * 1024 * 1024;
