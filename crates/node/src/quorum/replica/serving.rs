//! A replica as remote queues see it: its leader, if it leads; else it says who does.

use super::Replica;
use super::leader::Leader;
use crate::around::Around;
use crate::quorum::link::{Operation, Registration};
use crate::serving::{Credit, Query, ServesNodes};
use leveret_queue::Consumer;
use leveret_types::{ConsumerId, NodeId};

impl Replica {
    /// Runs something on the leader, if it is here.
    fn on_leader(&mut self, run: impl FnOnce(&mut Leader)) {
        if let Some(leader) = &mut self.leader {
            run(leader);
        }
    }
}

impl ServesNodes for Replica {
    type Context<'a> = Around<'a>;

    fn present(
        &mut self,
        around: &mut Around<'_>,
        from: NodeId,
        session: u64,
        registration: &Registration,
    ) {
        let applied = &self.applied;
        match &mut self.leader {
            Some(leader) => leader.present(around, from, session, registration, |of| {
                applied.through(of)
            }),
            None => self.refuse(around, from),
        }
    }

    fn absent(&mut self, around: &mut Around<'_>, from: NodeId, term: u64) {
        self.on_leader(|leader| leader.absent(around, from, term));
    }

    fn admits(&mut self, around: &mut Around<'_>, from: NodeId, session: u64) -> bool {
        match &mut self.leader {
            Some(leader) => leader.admits(around, from, session),
            None => {
                self.refuse(around, from);
                false
            }
        }
    }

    fn operations(
        &mut self,
        around: &mut Around<'_>,
        from: NodeId,
        session: u64,
        first: u64,
        operations: Vec<Operation>,
    ) {
        self.on_leader(|leader| leader.operations(around, from, session, first, operations));
        self.work(around);
    }

    fn attach(&mut self, around: &mut Around<'_>, from: NodeId, consumer: Consumer) {
        self.on_leader(|leader| leader.attach(around, from, consumer));
    }

    fn cancel(&mut self, around: &mut Around<'_>, from: NodeId, consumer: ConsumerId) {
        self.on_leader(|leader| leader.cancel(around, from, consumer));
    }

    fn detach(&mut self, around: &mut Around<'_>, from: NodeId, subscription: ConsumerId) {
        self.on_leader(|leader| leader.detach(around, from, subscription));
    }

    fn credit(
        &mut self,
        around: &mut Around<'_>,
        _from: NodeId,
        consumer: ConsumerId,
        Credit { messages, bytes }: Credit,
    ) {
        self.on_leader(|leader| leader.credit(around, consumer, messages, bytes));
    }

    fn ask(&mut self, around: &mut Around<'_>, from: NodeId, session: u64, what: Query) {
        self.on_leader(|leader| leader.query(around, from, session, what));
    }
}
