//! Errors of a group.

use leveret_types::ReplicaId;

/// Bytes that are not what they claim to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed: {0}")]
pub struct Malformed(pub &'static str);

/// Why a group did not take a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProposeError {
    /// Only the leader takes proposals.
    #[error("not the leader")]
    NotLeader {
        /// Who leads, as far as is known here.
        leader: Option<ReplicaId>,
    },
    /// Leadership is on its way to another member. Try again when it has arrived or failed.
    #[error("leadership is being transferred")]
    Transferring,
    /// Too much waits for a majority already. Try again when some of it is committed.
    #[error("too many bytes wait for a majority")]
    Full,
    /// More than [`leveret_types::limits::ENTRY_BYTES_MAX`] bytes.
    #[error("the entry is too large")]
    TooLarge,
    /// A membership change is under way. Try again when it has been applied.
    #[error("a membership change is under way")]
    ChangePending,
    /// The membership does not allow this change.
    #[error("{0}")]
    BadChange(&'static str),
}

/// Why a group did not take a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// It is for another replica: an earlier incarnation of this member, as a rule.
    #[error("the message is for replica {0:?}")]
    NotForUs(ReplicaId),
    /// The leader knows of entries here that this replica does not have: its disk lost what it had
    /// acknowledged. It must leave the group and come back as another replica.
    #[error("this replica lost entries that it had acknowledged, up to index {0}")]
    LostEntries(u64),
    /// The leader's log has another entry where this replica knows one to be committed: members of
    /// the group have lost what they had acknowledged. This replica must leave the group.
    #[error(
        "the group's leader lacks entries that were committed here, from index {0} on: other members \
         have lost what they had acknowledged"
    )]
    Diverged(u64),
    /// No sound member sends this.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

impl StepError {
    /// Whether this replica, or its group, has lost what it had acknowledged: it must be given up.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::LostEntries(_) | Self::Diverged(_))
    }
}

/// Why a group cannot be made from what was found on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a replica's state on disk is inconsistent: {0}")]
pub struct RestoreError(pub &'static str);
