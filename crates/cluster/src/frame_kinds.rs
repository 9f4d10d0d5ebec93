//! The kind of a frame to [`crate::state::CATALOGUE_GROUP`]: its first octet.

/// A `replication::Message` of the catalogue's group.
pub(crate) const RAFT: u8 = 0;
/// `metadata::Proposed` commands, for the leader.
pub(crate) const PROPOSED: u8 = 1;
/// A piece of a catalogue.
pub(crate) const PIECE: u8 = 2;
/// A queue is to be led elsewhere.
pub(crate) const TRANSFER: u8 = 3;
/// Operators ask how the queues of a node stand.
pub(crate) const ASK: u8 = 4;
/// A part of the answer.
pub(crate) const ANSWER: u8 = 5;
/// Which starts of nodes a node knows of.
pub(crate) const STARTS: u8 = 6;
/// How much of a catalogue has come.
pub(crate) const PIECE_CAME: u8 = 7;
