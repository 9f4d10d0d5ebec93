//! Whom a leader serves: nodes in their sessions, and subscriptions where they are.

use crate::quorum::protocol::{Origin, UnsettledRange, Window};
use hashbrown::HashMap;
use leveret_types::{ConsumerId, NodeId};

/// How a node's remote queue speaks to this leader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Session {
    pub(super) origin: Origin,
    /// Nothing while the way to the node is lost: what was taken is remembered, for it may be
    /// committed yet.
    pub(super) number: Option<u64>,
    /// The last operation that was taken, committed or not.
    pub(super) taken: u64,
    /// The last one that was taken before the session began: of later ones that were refused, the
    /// session was told.
    pub(super) taken_before: u64,
    /// What is below has reached whom it concerns on the node.
    pub(super) first: u64,
}

/// Where a subscription is.
#[derive(Debug)]
pub(super) struct ServedSubscription {
    pub(super) node: NodeId,
    /// Whether what is delivered to it leaves by that.
    pub(super) no_ack: bool,
    /// What may be under way to it, if it is on another node.
    pub(super) window: Window,
}

impl ServedSubscription {
    pub(super) fn new(node: NodeId, no_ack: bool) -> Self {
        Self {
            node,
            no_ack,
            window: Window::default(),
        }
    }
}

/// Subscriptions, each with where it is.
pub(super) type ServedSubscriptions =
    HashMap<ConsumerId, ServedSubscription, foldhash::fast::FixedState>;

/// Messages that a subscription claims.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) subscription: ConsumerId,
    pub(super) unsettled: UnsettledRange,
}

/// Whom a leader serves.
#[derive(Debug, Default)]
pub(super) struct Served {
    sessions: Vec<Session>,
    pub(super) subscriptions: ServedSubscriptions,
    /// Nodes that have not registered yet, and until when they may.
    pub(super) awaited: Vec<NodeId>,
    pub(super) await_until_ms: u64,
    /// What the others say that their consumers hold.
    pub(super) claims: Vec<Claim>,
}

impl Served {
    /// Nobody yet; these nodes may register until then, on the monotonic clock.
    pub(super) fn awaiting(nodes: Vec<NodeId>, until_ms: u64) -> Self {
        Self {
            awaited: nodes,
            await_until_ms: until_ms,
            ..Self::default()
        }
    }

    /// The nodes that are served, and their sessions.
    pub(super) fn sessions(&self) -> impl Iterator<Item = (NodeId, u64)> + '_ {
        self.sessions
            .iter()
            .filter_map(|session| Some((session.origin.node, session.number?)))
    }

    /// What is known of a node's run, also while the way to it is lost.
    pub(super) fn run(&self, node: NodeId) -> Option<&Session> {
        let mut sessions = self.sessions.iter();
        sessions.find(|session| session.origin.node == node)
    }

    /// The same, for an operation of the node.
    pub(super) fn run_mut(&mut self, node: NodeId) -> Option<&mut Session> {
        let mut sessions = self.sessions.iter_mut();
        sessions.find(|session| session.origin.node == node)
    }

    /// What is known of a node's run, and its session if it has one.
    pub(super) fn session(&self, node: NodeId) -> Option<(&Session, u64)> {
        let session = self.run(node)?;
        Some((session, session.number?))
    }

    /// A node begins a session, in place of the one before.
    pub(super) fn begin(&mut self, session: Session) {
        let node = session.origin.node;
        self.sessions.retain(|other| other.origin.node != node);
        self.sessions.push(session);
    }

    /// The way to a node is lost; gives its subscriptions, in the order in which they came, so that
    /// the same happens each time.
    pub(super) fn lose(&mut self, node: NodeId) -> Vec<ConsumerId> {
        if let Some(session) = self.run_mut(node) {
            session.number = None;
        }
        let subscriptions = self.subscriptions.iter();
        let of_node = subscriptions.filter(|(_, served)| served.node == node);
        let mut gone: Vec<ConsumerId> = of_node.map(|(id, _)| *id).collect();
        gone.sort_unstable();
        gone
    }
}

/// What decides whether an auto-delete queue goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    pub(super) auto_delete: bool,
    had_consumer: bool,
    consumers: usize,
}

impl Usage {
    /// A queue that has had no consumer yet.
    pub(super) const fn new(auto_delete: bool) -> Self {
        Self {
            auto_delete,
            had_consumer: false,
            consumers: 0,
        }
    }

    /// A consumer has come.
    pub(super) const fn attached(&mut self) {
        self.had_consumer = true;
        self.consumers += 1;
    }

    /// A consumer has gone.
    pub(super) const fn detached(&mut self) {
        self.consumers -= 1;
    }

    /// Whether there is a consumer.
    pub(super) const fn has_consumers(&self) -> bool {
        self.consumers > 0
    }

    /// Whether the queue is to be deleted.
    pub(super) const fn is_over(&self) -> bool {
        self.auto_delete && self.had_consumer && self.consumers == 0
    }
}
