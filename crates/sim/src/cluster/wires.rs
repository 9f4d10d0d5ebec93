//! The connections between nodes: what is under way on them, who believes to be connected to whom.
//!
//! A connection brings what it brings once and in order; it may break at any moment, and its two
//! ends notice that one after the other. Until an end notices, what is under way still arrives
//! there. So what is sent again over a new connection may have arrived over the old one.

use super::Planted;
use super::ledger::ClientId;
use super::world::World;
use leveret_cluster::Env;
use leveret_node::env::PeerFrame;
use leveret_queue_host::quorum::protocol::TO_LEADER;
use leveret_types::NodeId;
use std::collections::VecDeque;

impl World {
    /// Whether a node has another one among the members of its cluster.
    fn knows(&self, one: NodeId, other: NodeId) -> bool {
        let view = self.node(one).and_then(|node| node.env.peers().get(other));
        let host = self.hosts.get(&other);
        view.is_some_and(|view| host.is_some_and(|host| host.uuid() == view.peer.uuid))
    }

    fn is_open(&self, one: NodeId, other: NodeId) -> bool {
        self.is_up(one)
            && self.is_up(other)
            && !self.cut.contains(&(one, other))
            && !self.cut.contains(&(other, one))
            && self.knows(one, other)
            && self.knows(other, one)
    }

    /// A node notices that its connection to another is gone: what is on its way to it is lost.
    pub(super) fn lose(&mut self, node: NodeId, other: NodeId) {
        self.wires.remove(&(other, node));
        self.waking.remove(&(node, other));
        if self.sees.remove(&(node, other)) {
            self.estranged();
            for client in self.people_at(other) {
                self.ledger.doubt(client);
            }
            // Consumers here of a queue that is over there alone are none any more. What was on its
            // way to them arrives all the same, and nobody hears what they acknowledge.
            for client in self.clients_of(node, other) {
                self.ledger.doubt(client);
            }
            // Whoever leads there may have returned it before it heard of the acknowledgement.
            if let Some(host) = self.hosts.get(&other) {
                self.ledger.gone(0, &host.unsure);
            }
            let now = self.now(node);
            if let Some(node) = self.node(node) {
                // What waits to be sent does not wait for another connection.
                let is_for_other = |(to, _): &(NodeId, PeerFrame)| *to == other;
                node.env
                    .frames
                    .borrow_mut()
                    .retain(|one| !is_for_other(one));
                leveret_cluster::peer_down(now, other, &node.env);
            }
        }
    }

    /// Whether some node does not see this one: what is led here may be led over there as well.
    pub(super) fn is_lost_sight_of(&self, node: NodeId) -> bool {
        let is_blind = |other: &NodeId| self.is_up(*other) && !self.sees.contains(&(*other, node));
        let mut others = self.ids().into_iter().filter(|other| *other != node);
        others.any(|other| is_blind(&other))
    }

    /// A node's clients that use a queue which is on another node alone, or may be.
    fn clients_of(&self, node: NodeId, home: NodeId) -> Vec<ClientId> {
        let is_there = |queue: usize| {
            let known = self.homes.get(queue).copied().flatten();
            self.queues[queue].is_classic() && known.is_none_or(|known| known == home)
        };
        let mut clients_of = self.people_at(node);
        clients_of.retain(|id| is_there(self.people[id].queue));
        clients_of
    }

    /// A new connection: one end uses it at once, the other one when it hears of it.
    fn connect(&mut self, one: NodeId, other: NodeId) {
        for (from, to) in [(one, other), (other, one)] {
            self.lose(from, to);
        }
        for (from, to) in [(one, other), (other, one)] {
            self.wires.insert((from, to), VecDeque::new());
        }
        self.waking.insert((other, one));
        self.use_connection(one, other);
    }

    fn use_connection(&mut self, node: NodeId, other: NodeId) {
        self.waking.remove(&(node, other));
        self.sees.insert((node, other));
        let now = self.now(node);
        if let Some(node) = self.node(node) {
            leveret_cluster::peer_up(now, other, &node.env);
        }
    }

    /// A detector's turn: one node looks at another.
    pub(super) fn detect(&mut self, node: NodeId, other: NodeId) {
        if node == other || !self.is_up(node) {
            return;
        }
        if !self.is_open(node, other) {
            return self.lose(node, other);
        }
        for (one, other) in [(node, other), (other, node)] {
            if self.waking.contains(&(one, other)) {
                self.use_connection(one, other);
            }
        }
        let both = self.sees.contains(&(node, other)) && self.sees.contains(&(other, node));
        if !both {
            self.connect(node, other);
        }
    }

    pub(super) fn connect_all(&mut self) {
        for one in self.all() {
            for other in self.all() {
                self.detect(one, other);
            }
        }
    }

    /// A connection breaks: what is under way is lost.
    pub(super) fn blink(&mut self, one: NodeId, other: NodeId) {
        if one != other && self.is_open(one, other) {
            self.connect(one, other);
        }
    }

    /// One end gives a connection up.
    pub(super) fn hang_up(&mut self, node: NodeId, other: NodeId) {
        if node != other && self.is_up(node) {
            self.lose(node, other);
        }
    }

    /// A node closes what connects it to those that are not of its cluster any more.
    pub(super) fn part_with_strangers(&mut self, node: NodeId) -> bool {
        let seen = self.sees.iter().filter(|(one, _)| *one == node);
        let seen: Vec<NodeId> = seen.map(|(_, other)| *other).collect();
        let strangers = seen.into_iter().filter(|other| !self.knows(node, *other));
        let strangers: Vec<NodeId> = strangers.collect();
        for other in &strangers {
            self.lose(node, *other);
        }
        !strangers.is_empty()
    }

    /// The next frame of one direction arrives.
    pub(super) fn deliver(&mut self, from: NodeId, to: NodeId) -> bool {
        if self.cut.contains(&(from, to)) {
            return false;
        }
        if self.waking.contains(&(to, from)) {
            self.use_connection(to, from);
        }
        let frame = self
            .wires
            .get_mut(&(from, to))
            .and_then(VecDeque::pop_front);
        let Some(frame) = frame else {
            return false;
        };
        let is_heard = self.sees.contains(&(to, from));
        let frame = match self.planted {
            Planted::ForgetsOperations => self.as_of_another_run(frame),
            _ => frame,
        };
        let now = self.now(to);
        if let (Some(node), true) = (self.node(to), is_heard) {
            node.frame(from, &frame, now);
        }
        true
    }

    /// A presentation to a leader (`queue_host::quorum::link` has the format) as one of a run that
    /// the leader has not heard of; other frames as they are.
    fn as_of_another_run(&mut self, frame: PeerFrame) -> PeerFrame {
        const PRESENT: u8 = 1;
        let mut bytes = frame.pieces.concat();
        let is_one = bytes.first() == Some(&TO_LEADER) && bytes.get(9) == Some(&PRESENT);
        if let (true, Some(start)) = (is_one, bytes.get_mut(10..18)) {
            self.presented += 1;
            let number = u64::MAX / 2 + self.presented;
            start.copy_from_slice(&number.to_le_bytes());
        }
        PeerFrame::new(frame.queue, bytes)
    }

    pub(super) fn directions(&self) -> Vec<(NodeId, NodeId)> {
        let busy = self.wires.iter().filter(|(_, frames)| !frames.is_empty());
        busy.map(|(direction, _)| *direction).collect()
    }
}
