//! What a connection has asked of the cluster, and has no answer to yet.

use super::retry::Retry;
use crate::env::ProposalId;
use crate::topology::{Caller, Then};
use leveret_types::QueueId;

/// What waits for the cluster.
#[derive(Debug, Default)]
pub(super) struct PendingRequests {
    /// What was asked of the cluster.
    pub(super) asked: Option<Asked>,
    /// What waits at the read barrier for a name that is not known, and whether that is passed.
    pub(super) retry: Option<Retry>,
    pub(super) has_looked_again: bool,
}

/// What an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    Proposal(ProposalId),
    Queue(QueueId),
}

/// An operation that takes several steps.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) caller: Caller,
    /// Class and method to blame.
    pub(super) blame: (u16, u16),
    /// Whether it declares an exclusive queue.
    pub(super) declares_exclusive: bool,
}

/// An operation that waits for an answer.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) operation: Operation,
    pub(super) waits: Waits,
    pub(super) then: Then,
}
