//! Frames of an earlier transfer of a queue's state, with the same mark, that come in the middle of
//! a later one.

use super::super::snapshot::WANT;
use super::super::transfers::PART;
use super::super::wire::put;
use super::*;

/// Kind and the replica that it is for.
const HEAD_BYTES: usize = 9;

/// Length of the number that bytes begin with.
fn number_len(bytes: &[u8]) -> usize {
    1 + bytes.iter().take_while(|byte| **byte >= 0x80).count()
}

/// What another node might say just before this frame comes: a part that is the last one and
/// brings nothing, or that no message is wanted.
fn said_elsewhere(frame: &[u8]) -> Option<Vec<u8>> {
    let after_mark = || HEAD_BYTES + number_len(&frame[HEAD_BYTES..]);
    match *frame.first()? {
        PART => {
            let end = after_mark() + number_len(&frame[after_mark()..]);
            Some([&frame[..end], &[1]].concat())
        }
        WANT => {
            let priority_log = frame[after_mark() + number_len(&frame[after_mark()..])];
            let mut out = frame[..after_mark()].to_vec();
            put(&mut out, 1);
            out.push(priority_log);
            put(&mut out, 1 << 40);
            Some(out)
        }
        _ => None,
    }
}

impl World {
    /// Delivers all that is on its way, each frame behind what the third node says of it; how much
    /// that was.
    fn deliver_behind_strangers(&mut self) -> usize {
        let mut said = 0;
        while let Some(way) = self.ways.iter().find(|(_, frames)| !frames.is_empty()) {
            let (way, frame) = (*way.0, way.1[0].pieces.concat());
            let stranger = (0..3).find(|at| *at != way.0 && *at != way.1);
            let stranger = self.nodes[stranger.expect("three nodes")].id;
            if let Some(forged) = said_elsewhere(&frame) {
                said += 1;
                self.with(way.1, |shard, now| {
                    shard.receive_peer(now, stranger, QUEUE, Bytes::from(forged));
                });
            }
            self.deliver(way);
        }
        said
    }
}

#[test]
fn what_another_node_says_of_a_transfer_means_nothing() {
    let mut world = World::about_to_grow();
    let mut said = 0;
    for _ in 0..200 {
        said += world.deliver_behind_strangers();
        for at in 0..3 {
            world.sync(at);
            world.read(at);
        }
        world.tick(10);
    }
    assert!(said >= 2, "both kinds of frame came: {said}");
    assert_eq!(world.voters(2), world.spec.members);
    world.shrink_and_drain();
}
