//! Ways between nodes with less room than there is to send.

use super::*;
use crate::peer_rooms::PeerRooms;
use leveret_types::limits::APPEND_BYTES_MAX;

/// More than any frame of these tests that needs no room.
const SMALL_BYTES: usize = 20_000;

impl World {
    /// From now on so many bytes may wait on each way.
    pub(super) fn narrow(&mut self, share: usize) {
        self.share = share;
        (0..self.count()).for_each(|at| self.narrow_ways_of(at));
    }

    pub(super) fn narrow_ways_of(&mut self, at: usize) {
        let connected: Vec<NodeId> = (0..self.count())
            .filter(|other| *other != at && self.connected(at, *other))
            .map(|other| self.nodes[other].id)
            .collect();
        let Some(running) = &mut self.nodes[at].running else {
            return;
        };
        if self.share < usize::MAX {
            running.shard.peer_rooms = PeerRooms::bounded(self.share);
            for peer in connected {
                running.shard.peer_rooms.open(peer);
            }
        }
    }

    fn waiting_bytes(&self, way: (usize, usize)) -> usize {
        let frames = self.ways.get(&way).into_iter().flatten();
        frames.map(PeerFrame::len).sum()
    }

    /// What who lets a shard go does about room.
    pub(super) fn retry_for_room(&mut self, at: usize) {
        let waiting: Vec<(NodeId, usize)> = (0..self.count())
            .map(|to| (self.nodes[to].id, self.waiting_bytes((at, to))))
            .collect();
        let most = waiting.iter().map(|(_, bytes)| *bytes).max();
        self.ledger.most_waiting = self.ledger.most_waiting.max(most.unwrap_or(0));
        let share = self.share;
        let running = self.nodes[at].running.as_mut().expect("it runs");
        let rooms = &mut running.shard.peer_rooms;
        rooms.refresh(|peer| {
            let of_peer = waiting.iter().find(|(node, _)| *node == peer);
            share.saturating_sub(of_peer.map_or(0, |(_, bytes)| *bytes))
        });
        let awaited: Vec<NodeId> = rooms.newly_awaited().collect();
        self.ledger.narrow += awaited.len() as u32;
        for to in 0..self.count() {
            if awaited.contains(&self.nodes[to].id) {
                self.awaited.insert((at, to));
            }
        }
    }

    /// What the links do about it once enough has left.
    pub(super) fn give_room(&mut self) {
        for way in std::mem::take(&mut self.awaited) {
            if self.waiting_bytes(way) > self.share / 2 {
                self.awaited.insert(way);
            } else if self.is_up(way.0) {
                let (peer, share) = (self.nodes[way.1].id, self.share);
                self.with(way.0, |shard, now| shard.give_peer_room(now, peer, share));
            }
        }
    }
}

#[test]
fn on_narrow_ways_nothing_is_lost_and_nobody_waits_for_ever() {
    let mut narrow = 0;
    for seed in seeds(30) {
        let ledger = run(seed, 2_000, seed % 3 > 0, |world| world.narrow(1_000));
        narrow += ledger.narrow;
    }
    assert!(narrow > 1_000, "ways were too narrow only {narrow} times");
}

/// A node alone keeps what its clients publish. When the others are back, it goes as their links
/// take it, to a leader there; and if it leads itself, from there to its followers.
#[test]
fn what_was_kept_in_a_minority_goes_by_the_room_on_the_way_when_the_others_are_back() {
    let (share, body_bytes, messages) = (40_000, 5_000, 1_000);
    for leads_alone in [false, true] {
        let mut world = World::new(1, 3, spec(3));
        world.body_bytes = body_bytes;
        world.rest(100);
        let leader = world.leader().expect("a leader");
        let alone = if leads_alone {
            leader
        } else {
            (leader + 1) % 3
        };
        world.narrow(share);
        let others = [1, 2].map(|further| (alone + further) % 3);
        for other in others {
            world.cut_off(alone, other);
        }
        for _ in 0..messages {
            world.publish(alone);
        }
        world.rest(300);
        assert_eq!(world.ledger.confirmed.len(), 0);
        world.ledger.most_waiting = 0;
        for (a, b) in std::mem::take(&mut world.cut) {
            world.meet(a, b);
        }
        world.rest(300);
        assert_eq!(world.ledger.confirmed.len(), messages, "{leads_alone}");
        let most = world.ledger.most_waiting;
        let bound = share + APPEND_BYTES_MAX as usize + SMALL_BYTES;
        assert!(most <= bound, "{most} bytes waited on a way, not {bound}");
    }
}
