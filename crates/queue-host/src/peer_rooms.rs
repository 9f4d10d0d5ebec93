//! Room on the way to other nodes, for what is large and may wait: the operations of remote queues,
//! the entries that leaders send to followers, and deliveries.
//!
//! All that queues keep for a node that was away is far more than may wait for that node on its
//! link, which would be broken for it, each time anew. Who has something to send takes room here
//! first; who finds none stands in line, and sends a little more each time that it is his turn:
//!
//! ```text
//! take ──► no room ──► in line ──► begin_turn, take …, end_turn ──► in line again, if more is left
//! ```
//! Who lets the shard go says how much room there is ([`PeerRooms::refresh`]), and has the line
//! served once there is some ([`crate::shard::Shard::give_peer_room`]).
//!
//! Invariant: nobody overtakes who stands in line.

use hashbrown::HashSet;
use leveret_types::limits::PEER_TURN_BYTES;
use leveret_types::{NodeId, QueueId};
use std::collections::VecDeque;

/// Who waits for room on the way to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Waiter {
    /// The remote queue of a queue, with operations for its leader.
    Operations(QueueId),
    /// The replica of a queue, with entries for a follower.
    Entries(QueueId),
    /// The leader of a queue, or the only node that has it, with deliveries.
    Answers(QueueId),
}

/// The room of one shard on the ways to other nodes.
#[derive(Debug)]
pub struct PeerRooms {
    /// The most that there is to one node before it is said anew how much there is.
    share: usize,
    rooms: Vec<Room>,
}

/// The room on the way to one node.
#[derive(Debug)]
struct Room {
    peer: NodeId,
    /// Bytes that may yet be sent.
    left: usize,
    /// The same of whoever's turn it is.
    turn: Option<usize>,
    line: VecDeque<Waiter>,
    /// Who is in the line.
    waiting: HashSet<Waiter, foldhash::fast::FixedState>,
    /// Whether something was sent since it was said how much room there is.
    is_used: bool,
    /// Whether it was said that somebody stands in line.
    is_awaited: bool,
}

impl Room {
    fn new(peer: NodeId, left: usize) -> Self {
        Self {
            peer,
            left,
            turn: None,
            line: VecDeque::new(),
            waiting: HashSet::default(),
            is_used: false,
            is_awaited: false,
        }
    }

    fn take(&mut self, bytes: usize) -> bool {
        let is_there = match self.turn {
            // What is larger than a turn has one for itself.
            Some(turn) => turn > 0,
            None => self.line.is_empty() && bytes <= self.left,
        };
        if is_there {
            self.turn = self.turn.map(|turn| turn.saturating_sub(bytes));
            self.left = self.left.saturating_sub(bytes);
            self.is_used = true;
        }
        is_there
    }
}

impl PeerRooms {
    /// As much as anybody wants.
    #[must_use]
    pub const fn unbounded() -> Self {
        Self {
            share: usize::MAX,
            rooms: Vec::new(),
        }
    }

    /// So many bytes to each node, until it is said anew how much there is.
    #[must_use]
    pub const fn bounded(share: usize) -> Self {
        Self {
            share,
            rooms: Vec::new(),
        }
    }

    /// The most that there is to one node at a time.
    #[must_use]
    pub const fn share(&self) -> usize {
        self.share
    }

    /// A node is up: nothing is on its way to it.
    pub(crate) fn open(&mut self, peer: NodeId) {
        self.close(peer);
        self.rooms.push(Room::new(peer, self.share));
    }

    /// A node is down: nobody waits for it any more.
    pub(crate) fn close(&mut self, peer: NodeId) {
        self.rooms.retain(|room| room.peer != peer);
    }

    fn room(&mut self, peer: NodeId) -> Option<&mut Room> {
        self.rooms.iter_mut().find(|room| room.peer == peer)
    }

    /// Takes room for so many bytes to a node; without, `who` stands in line from now on. To a node
    /// that is down there is always room: what is sent is dropped.
    pub(crate) fn take(&mut self, peer: NodeId, bytes: usize, who: Waiter) -> bool {
        let Some(room) = self.room(peer) else {
            return true;
        };
        let is_there = room.take(bytes);
        if !is_there && room.waiting.insert(who) {
            room.line.push_back(who);
        }
        is_there
    }

    /// What was taken is not sent yet: room for so many bytes to a node is for others meanwhile.
    pub(crate) fn give_back(&mut self, peer: NodeId, bytes: usize) {
        let share = self.share;
        if let Some(room) = self.room(peer) {
            room.left = room.left.saturating_add(bytes).min(share);
        }
    }

    /// There is room for so many bytes to a node.
    pub(crate) fn give(&mut self, peer: NodeId, bytes: usize) {
        let share = self.share;
        if let Some(room) = self.room(peer) {
            room.left = bytes.min(share);
            room.is_awaited = false;
        }
    }

    /// Whose turn it is to send something to a node; nobody once the room is used up.
    pub(crate) fn begin_turn(&mut self, peer: NodeId) -> Option<Waiter> {
        let room = self.room(peer).filter(|room| room.left > 0)?;
        let who = room.line.pop_front()?;
        room.waiting.remove(&who);
        room.turn = Some(PEER_TURN_BYTES.min(room.left));
        Some(who)
    }

    /// The turn that began last is over.
    pub(crate) fn end_turn(&mut self, peer: NodeId) {
        if let Some(room) = self.room(peer) {
            room.turn = None;
        }
    }

    /// Asks how much room there is to nodes that something was sent to. Where somebody stands in
    /// line, that is left to whoever serves it.
    pub fn refresh(&mut self, room_to: impl Fn(NodeId) -> usize) {
        let share = self.share;
        let used = self.rooms.iter_mut().filter(|room| room.is_used);
        for room in used {
            room.is_used = false;
            if room.line.is_empty() {
                room.left = room_to(room.peer).min(share);
            }
        }
    }

    /// The nodes that somebody stands in line for and that were not told of since that line was
    /// served last.
    pub fn newly_awaited(&mut self) -> impl Iterator<Item = NodeId> {
        let rooms = self.rooms.iter_mut();
        let awaited = rooms.filter(|room| !room.line.is_empty() && !room.is_awaited);
        awaited.map(|room| {
            room.is_awaited = true;
            room.peer
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: NodeId = NodeId(2);
    const OTHER: NodeId = NodeId(3);

    fn operations(queue: u64) -> Waiter {
        Waiter::Operations(QueueId(queue))
    }

    fn bounded(share: usize) -> PeerRooms {
        let mut rooms = PeerRooms::bounded(share);
        rooms.open(PEER);
        rooms.open(OTHER);
        rooms
    }

    #[test]
    fn there_is_room_to_the_last_byte_and_not_for_one_more_and_each_node_has_its_own() {
        let mut rooms = bounded(100);
        assert!(rooms.take(PEER, 99, operations(1)));
        assert!(!rooms.take(PEER, 2, operations(1)));
        assert!(
            !rooms.take(PEER, 1, operations(2)),
            "it would fit, but another one stands in line"
        );
        assert!(rooms.take(OTHER, 100, operations(1)), "full to the last");
        assert!(!rooms.take(OTHER, 1, operations(1)));
        assert!(rooms.take(NodeId(9), 1_000, operations(1)), "it is down");
        rooms.close(PEER);
        rooms.open(PEER);
        assert!(
            rooms.take(PEER, 100, operations(2)),
            "nobody waits any more"
        );
    }

    #[test]
    fn who_stands_in_line_has_one_turn_after_the_other_and_who_has_more_stands_at_its_end() {
        let mut rooms = bounded(4 * PEER_TURN_BYTES);
        assert!(rooms.take(PEER, 4 * PEER_TURN_BYTES, operations(9)));
        for queue in [1, 2, 1] {
            assert!(!rooms.take(PEER, 1, operations(queue)));
        }
        assert_eq!(rooms.begin_turn(PEER), None, "there is no room");
        rooms.give(PEER, usize::MAX);
        for queue in [1, 2, 1] {
            let who = operations(queue);
            assert_eq!(rooms.begin_turn(PEER), Some(who));
            assert!(rooms.take(PEER, PEER_TURN_BYTES - 1, who));
            assert!(rooms.take(PEER, 2, who), "a byte is left of its turn");
            assert!(!rooms.take(PEER, 1, who), "its turn is over");
            rooms.end_turn(PEER);
        }
    }

    #[test]
    fn what_is_given_back_is_there_for_others_and_no_more_than_there_was() {
        let mut rooms = bounded(100);
        assert!(rooms.take(PEER, 90, operations(1)));
        rooms.give_back(PEER, 90);
        assert!(rooms.take(PEER, 100, operations(2)));
        rooms.give_back(PEER, 1_000);
        assert!(!rooms.take(PEER, 101, operations(3)));
    }

    #[test]
    fn what_is_larger_than_all_room_leaves_in_a_turn_of_its_own() {
        let mut rooms = bounded(10);
        assert!(!rooms.take(PEER, PEER_TURN_BYTES * 2, operations(1)));
        rooms.give(PEER, 10);
        assert_eq!(rooms.begin_turn(PEER), Some(operations(1)));
        assert!(rooms.take(PEER, PEER_TURN_BYTES * 2, operations(1)));
        rooms.end_turn(PEER);
        assert_eq!(rooms.begin_turn(PEER), None);
    }

    #[test]
    fn who_lets_a_shard_go_hears_once_whom_somebody_waits_for_and_says_how_much_room_there_is() {
        let mut rooms = bounded(100);
        assert!(rooms.take(PEER, 60, operations(1)));
        assert!(rooms.take(OTHER, 60, operations(1)));
        assert!(!rooms.take(OTHER, 60, operations(1)));
        rooms.refresh(|_| 70);
        assert!(rooms.take(PEER, 70, operations(1)), "as much as was said");
        assert_eq!(rooms.newly_awaited().collect::<Vec<_>>(), [OTHER]);
        assert_eq!(rooms.newly_awaited().count(), 0);
        rooms.give(OTHER, 0);
        assert_eq!(rooms.begin_turn(OTHER), None);
        assert_eq!(rooms.newly_awaited().collect::<Vec<_>>(), [OTHER]);
    }

    #[test]
    fn without_a_bound_nobody_waits() {
        let mut rooms = PeerRooms::unbounded();
        rooms.open(PEER);
        for _ in 0..3 {
            assert!(rooms.take(PEER, usize::MAX / 4, operations(1)));
            rooms.refresh(|_| usize::MAX);
        }
        assert_eq!(rooms.newly_awaited().count(), 0);
    }
}
