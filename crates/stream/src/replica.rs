//! What the replicas of a stream say to each other, and what the cluster's catalogue tells them.
//!
//! The catalogue elects: it asks the members to [`ReplicaMessage::Prepare`] an epoch, [`choose`]s
//! out of their answers, and tells each what it is by a [`ReplicaOrder`]. The leader of an epoch
//! appends; its followers attach to it, cut what it does not have, and fetch what they lack. A
//! chunk is committed once a majority of the members has it as durable as the flush level asks.
//!
//! Messages may come twice, late or not at all. Where one is lost, whoever carries them says so by
//! [`crate::Stream::connected`]: nothing is asked again by the clock, so that idle streams cost
//! nothing.
//!
//! Invariant: what a message promises is durable before it is sent: it is an effect behind the
//! write or sync that makes it so.

mod codec;
mod elect;
pub mod fuzz;
pub(crate) mod handover;
pub(crate) mod leading;
mod state;

pub use codec::MessageError;
pub use elect::{Answer, choose};
pub use state::{ReplicaState, StateError};

use bytes::Bytes;
use leveret_types::{NodeId, QueueId};
use std::fmt;

/// Counts the leaders of a stream, from 1 on; 0 is before the first one. Each has one leader, which
/// the catalogue has chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The one after it.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How much of a stream a replica has: of two the greater one has all that was committed if either
/// has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition {
    /// The newest epoch whose leader's log, as it was when that epoch began, the replica holds
    /// whole and durable.
    pub log_epoch: Epoch,
    /// The offset behind its last durable chunk.
    pub next_offset: u64,
}

/// Where the chunks of one epoch are in a replica's log: from here to the next one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochStart {
    /// The epoch.
    pub epoch: Epoch,
    /// The offset of its first chunk.
    pub first_offset: u64,
}

/// Where the chunks of one epoch end in a replica's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEnd {
    /// The epoch.
    pub epoch: Epoch,
    /// The offset behind its last chunk.
    pub next_offset: u64,
}

/// One attachment of a follower to a leader, chosen by the follower: a number drawn for each run of
/// its process in the upper half, a count in the lower one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attachment(pub u64);

impl Attachment {
    /// The run of the process that chose it.
    #[must_use]
    pub const fn life(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Whether the same process has attached before `other` was made.
    #[must_use]
    pub const fn is_before(self, other: Self) -> bool {
        self.0 >> 32 == other.0 >> 32 && self.0 < other.0
    }
}

/// What the catalogue says of a stream to one of its replicas. To prepare is asked by a message:
/// whoever elects may be another node. A replica that is removed is deleted with its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaOrder {
    /// The replica leads this epoch. Given again where the members change: one at a time, each only
    /// after the replica has heard of the change before.
    Lead {
        /// The epoch.
        epoch: Epoch,
        /// All members, this one among them: a majority of them commits.
        members: Vec<NodeId>,
    },
    /// The replica follows the leader of this epoch; it may be no member yet.
    Follow {
        /// The epoch.
        epoch: Epoch,
        /// The leader's node.
        leader: NodeId,
    },
}

/// How a node comes to run a replica of a stream: what it means that nothing of one is on its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaOrigin {
    /// The stream itself is new, or was one of this node alone until now: no replica can have lost
    /// anything of it.
    NewStream,
    /// The catalogue has just made the node one that has a replica: this one has nothing yet, and
    /// has promised nothing.
    NewReplica,
    /// It ran here before. Without its file it has lost its disk, and with that what it had and
    /// what it had promised.
    Before,
}

/// What a replica is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaRole {
    /// It waits for the catalogue.
    Waiting,
    /// It leads.
    Leader {
        /// The epoch.
        epoch: Epoch,
        /// All members.
        members: Vec<NodeId>,
    },
    /// It follows.
    Follower {
        /// The epoch.
        epoch: Epoch,
        /// The leader's node.
        leader: NodeId,
    },
}

/// What the embedder should know of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaEvent {
    /// The stream needs a leader of an epoch after this one: the catalogue's order cannot be
    /// followed, or should not be any more.
    ElectionNeeded {
        /// The newest epoch that the replica has promised.
        promised: Epoch,
        /// Why, in words for an operator.
        reason: String,
    },
    /// A part of the log is damaged on this node's disk. It is not served; a follower copies it
    /// again from the leader.
    Damaged {
        /// The offset from which on it is not trusted.
        from: u64,
    },
    /// A part of the log is damaged on this node's disk, and no other replica has it. Readers end
    /// where they come to it; the rest is served as before.
    DamagedForGood {
        /// It is at or behind this offset, in the same segment.
        from: u64,
    },
    /// A follower has cut what its leader does not have, or copies the stream anew. Nothing of it
    /// was committed that this replica knew of, but what it has damaged and copies again.
    Cut {
        /// The offset behind what was left; 0 of one that is copied anew.
        next_offset: u64,
        /// So many offsets went.
        offsets: u64,
    },
    /// The leader has not all that was committed, as this replica knows: it does not cut what it
    /// has, and takes no part until an operator has it deleted or made anew.
    Fenced(Fence),
    /// A leader that was asked to hand over has nothing under way any more, or waits no longer:
    /// another node may lead now.
    MayMove {
        /// Which one.
        to: NodeId,
    },
    /// A message of another replica cannot be right; nothing was taken from it.
    Rejected {
        /// Whose.
        from: NodeId,
        /// What is wrong with it.
        reason: String,
    },
    /// All that the leader had is here: the replica counts for majorities if it is a member.
    Whole {
        /// The leader's epoch.
        epoch: Epoch,
    },
}

/// What keeps a replica from following a leader: see [`ReplicaEvent::Fenced`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// All below this offset was committed.
    pub committed: u64,
    /// The leader's log is another one from this offset on; `None` where that was found before the
    /// node started.
    pub leader_parts_at: Option<u64>,
}

/// Why nothing is read at a replica that follows no leader for that.
pub(crate) const FENCED: &str =
    "the replica on this node has messages that its leader lacks, and takes no part";

/// A report of one stream's replica.
pub type ReplicaReport = (QueueId, ReplicaEvent);

/// What replicas of one stream, and whoever elects their leader, say to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaMessage {
    /// From whoever elects: promise to take nothing from leaders of older epochs.
    Prepare {
        /// The epoch that is to begin.
        epoch: Epoch,
    },
    /// Answers it, to the node that asked.
    Prepared {
        /// The epoch that was asked for.
        epoch: Epoch,
        /// The newest epoch that is promised, durably: with a newer one than was asked for, the
        /// answer is no.
        promised: Epoch,
        /// What the replica has.
        position: LogPosition,
        /// Whether it has all that it ever said it had.
        is_whole: bool,
    },
    /// From a follower: where do our logs part?
    Attach {
        /// The leader's epoch.
        epoch: Epoch,
        /// Chosen by the follower.
        attachment: Attachment,
        /// Ends of the epochs that its log has chunks of, ascending.
        ends: Vec<EpochEnd>,
    },
    /// The leader's answer.
    Attached {
        /// The leader's epoch.
        epoch: Epoch,
        /// What it answers.
        attachment: Attachment,
        /// Up to this offset both logs are the same.
        parted_at: u64,
        /// The leader's oldest offset.
        first_offset: u64,
        /// The follower counts once it has all up to this offset: where the leader's log ends now.
        whole_at: u64,
        /// The offset below which all is committed.
        committed: u64,
        /// The epochs of the leader's log.
        epochs: Vec<EpochStart>,
    },
    /// From a follower: send chunks from this offset on as soon as there are some.
    Fetch {
        /// The leader's epoch.
        epoch: Epoch,
        /// The follower's attachment.
        attachment: Attachment,
        /// Counts what was asked in this attachment: only the newest one is answered.
        question: u64,
        /// The offset behind its last chunk, which need not be durable.
        from: u64,
        /// About so many bytes.
        bytes: u32,
    },
    /// From a follower: all below this offset is as durable here as the flush level asks.
    Durable {
        /// The leader's epoch.
        epoch: Epoch,
        /// The follower's attachment.
        attachment: Attachment,
        /// The offset.
        next_offset: u64,
        /// Whether all that the leader had when the epoch began is among it, and this is durable.
        is_whole: bool,
    },
    /// The leader's answer to [`Self::Fetch`].
    Chunks {
        /// The leader's epoch.
        epoch: Epoch,
        /// The follower's attachment.
        attachment: Attachment,
        /// What it answers.
        question: u64,
        /// The offset of the first chunk, and where the next one goes if there is none.
        from: u64,
        /// The first offset of the segment that holds them: they are of one.
        segment: u64,
        /// The leader's oldest offset: what lies before may go.
        first_offset: u64,
        /// The offset below which all is committed.
        committed: u64,
        /// Whole chunks one after the other; none where only the committed offset is new.
        chunks: Bytes,
    },
    /// The leader knows nothing of this attachment: attach again.
    Unattached {
        /// The leader's epoch.
        epoch: Epoch,
        /// The follower's attachment.
        attachment: Attachment,
    },
}

impl ReplicaMessage {
    /// The epoch that it is of.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        match self {
            Self::Prepare { epoch }
            | Self::Prepared { epoch, .. }
            | Self::Attach { epoch, .. }
            | Self::Attached { epoch, .. }
            | Self::Fetch { epoch, .. }
            | Self::Durable { epoch, .. }
            | Self::Chunks { epoch, .. }
            | Self::Unattached { epoch, .. } => *epoch,
        }
    }

    /// Bytes that it holds in memory, about.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let held = match self {
            Self::Chunks { chunks, .. } => chunks.len(),
            Self::Attach { ends, .. } => size_of_val(&ends[..]),
            Self::Attached { epochs, .. } => size_of_val(&epochs[..]),
            _ => 0,
        };
        size_of::<Self>() + held
    }
}

/// Where the epochs of a log end that ends with `next_offset`; those without a chunk are left out.
#[must_use]
pub fn ends(epochs: &[EpochStart], next_offset: u64) -> Vec<EpochEnd> {
    let nexts = epochs.iter().skip(1).map(|next| next.first_offset);
    let nexts = nexts.chain([next_offset]);
    let ends = epochs.iter().zip(nexts);
    let ends = ends.filter(|(start, _)| start.first_offset < next_offset);
    let end = |(start, next): (&EpochStart, u64)| EpochEnd {
        epoch: start.epoch,
        next_offset: next.min(next_offset),
    };
    ends.map(end).collect()
}

/// Up to which offset two logs are the same. Chunks of one epoch were all made by one leader, on
/// top of a log of its own: so logs that share an epoch are the same as far as both have it.
#[must_use]
pub fn parting(ours: &[EpochEnd], theirs: &[EpochEnd]) -> u64 {
    let shared = ours.iter().rev().find_map(|our| {
        let their = theirs.iter().find(|their| their.epoch == our.epoch)?;
        Some(our.next_offset.min(their.next_offset))
    });
    shared.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(list: &[(u64, u64)]) -> Vec<EpochStart> {
        let start = |(epoch, first_offset): &(u64, u64)| EpochStart {
            epoch: Epoch(*epoch),
            first_offset: *first_offset,
        };
        list.iter().map(start).collect()
    }

    #[test]
    fn logs_part_where_the_newest_epoch_that_both_have_ends_in_one_of_them() {
        let leader = ends(&starts(&[(1, 0), (3, 10), (4, 25)]), 40);
        for (follower, next_offset, parted_at) in [
            (&[(1, 0), (3, 10)][..], 20, 20),
            (&[(1, 0), (3, 10)], 30, 25),
            (&[(1, 0), (2, 8)], 12, 8),
            (&[(1, 0), (2, 15)], 18, 10),
            (&[(1, 0), (3, 10), (4, 25)], 40, 40),
            // Epochs that begin behind the log's end say nothing.
            (&[(1, 0), (3, 10), (4, 25)], 10, 10),
            (&[(2, 0)], 10, 0),
            (&[], 0, 0),
        ] {
            let follower = ends(&starts(follower), next_offset);
            assert_eq!(parting(&leader, &follower), parted_at, "{follower:?}");
        }
    }
}
