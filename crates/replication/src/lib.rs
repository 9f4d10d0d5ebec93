//! Replicated logs: many small Raft groups per node, over the embedder's storage, network and time.
//!
//! [`Group`] is one member of one group. It takes proposals, messages of other members and ticks,
//! and hands out what is to be done as a [`Ready`]: write this, send that, apply those. Consensus
//! itself is the `raft` crate's; what is here is what thousands of groups on one log need of it:
//! answers that cannot overtake the disk, groups that cost nothing while nothing happens, elections
//! that a failure detector per pair of nodes starts, messages and records of our own.
//! [`Host`] puts a group over a log of the embedder's, for whatever is replicated.
//! `docs/adr/0003-replication.md` has the reasons.
//!
//! Invariant: this crate does no IO and reads no clock. Time arrives as ticks, and only while
//! [`Group::wants_tick`] says so.
//! Invariant: no answer leaves a group before what it promises is durable: neither a vote nor the
//! acknowledgement of an entry, on any path.
//! Invariant: bytes from a peer or a disk are checked before the library sees what they say.

mod convert;
mod counts;
mod election;
mod entry;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod group;
mod host;
mod leading;
mod log_view;
mod membership;
mod message;
mod ready;
mod wanted;
mod wire;

pub use entry::{Entry, EntryKind};
pub use error::{Malformed, ProposeError, RestoreError, StepError};
pub use group::{Group, GroupConfig, HardState, MemberStatus, Role, RoleChange, Status};
pub use host::{Host, LogStore, LogWrite, Machine, drive, settle_durable, step, store_snapshot};
pub use membership::{Membership, MembershipChange, SnapshotMark};
pub use message::{Body, Hint, Message};
pub use ready::Ready;
pub use wanted::{Leaving, WantedMembers};
