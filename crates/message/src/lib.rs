//! Messages in the format in which they came, and the way from one format to another.
//!
//! An entry of a stream is a message of AMQP 1.0: stream clients write and read it so, and the
//! broker hands it on as it is. What AMQP 0-9-1 publishes to a stream is converted once, when it is
//! published ([`to_entry`]), and what AMQP 0-9-1 reads of a stream when it is delivered
//! ([`delivered`]). Both follow RabbitMQ 4: what it writes is read here, and the other way round.
//!
//! Queues keep a message in the format in which it came, with the format's tag
//! ([`leveret_types::MessageFormat`]). What leaves as AMQP 0-9-1 is converted then
//! ([`as_amqp091`]), as is what the broker itself has to read of it.
//!
//! ```text
//! section                   of AMQP 0-9-1
//! header                    delivery-mode, priority, expiration
//! message-annotations       exchange (x-exchange), routing key (x-routing-key), type
//!                           (x-basic-type), headers whose names begin with x-, CC (x-cc),
//!                           x-death (x-opt-deaths)
//! properties                message-id, user-id, reply-to, correlation-id, content-type,
//!                           content-encoding, timestamp (creation-time), app-id (group-id)
//! application-properties    the other headers, but for arrays and tables
//! data                      the body; of a message of type `amqp-1.0` the body is the sections
//! ```
//!
//! What has no place there, RabbitMQ drops: arrays and tables under names without `x-`, decimal
//! numbers, `cluster-id`. So does this crate.
//!
//! Invariant: this crate holds no state; what it does depends on its arguments alone.
//! Invariant: no input makes it panic, recurse by the input's depth, or allocate more than a small
//! multiple of the input's size; a compressed batch is bounded by a limit of its own.

mod codec;
mod deaths;
mod delivered;
mod entry;
pub mod fuzz;
mod ids;
mod properties;
mod section;
mod sub_batch;
#[cfg(test)]
mod tests;

pub use delivered::{StreamPosition, as_amqp091, delivered};
pub use entry::{entry_of, filter_value, to_entry};
pub use properties::{has as has_property, with_properties};
pub use sub_batch::{SubBatch, SubBatchError, Unpacked, Unpacking, unpack};
