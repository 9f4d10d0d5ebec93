//! A member that says anything: frames behind the handshake and the seal, changed, repeated, out of
//! their order, of another sender or queue, in a cluster that works.
//!
//! Who is a member is believed, so nothing is promised of what its messages do to queues. Promised
//! is that no process ends of them, and none allocates by what they claim.

use super::Plan;
use super::people::Part;
use super::world::World;
use crate::Random;
use bytes::Bytes;
use leveret_node::env::PeerFrame;
use leveret_types::{NodeId, QueueId};

/// Octets of an input that say what is done to one frame.
const DEED_BYTES: usize = 8;
/// Deeds of one input.
const DEEDS_MAX: usize = 256;
/// The quorum queue and the classic one of the world.
const QUEUES: [usize; 2] = [0, 2];

/// A frame as it went from one node to another.
#[derive(Clone)]
struct CapturedFrame {
    from: NodeId,
    to: NodeId,
    queue: QueueId,
    bytes: Bytes,
}

impl World {
    /// Lets everything happen that needs no time, and keeps what nodes say to each other.
    fn rest_heard(&mut self, heard: &mut Vec<CapturedFrame>) {
        let mut random = Random::new(1);
        loop {
            let mut busy = false;
            for id in self.all() {
                busy |= self.work(id).expect("all is well");
            }
            for ((from, to), frames) in &self.wires {
                heard.extend(frames.iter().map(|frame| CapturedFrame {
                    from: *from,
                    to: *to,
                    queue: frame.queue,
                    bytes: frame.pieces.concat().into(),
                }));
            }
            for (from, to) in self.directions() {
                while self.deliver(from, to) {
                    busy = true;
                }
            }
            for id in self.all() {
                busy |= self.sync(id, &mut random);
            }
            if !busy {
                return;
            }
        }
    }

    /// All nodes do what they have to; what they say to each other gets lost.
    fn step_dropping_frames(&mut self) {
        for id in self.all() {
            let now = self.now(id);
            if let Some(node) = self.hosts.get_mut(&id).and_then(|host| host.node.as_mut()) {
                node.step(now);
                node.env.frames.borrow_mut().clear();
            }
        }
    }
}

/// A cluster in which queues are published to and consumed from, and all that its nodes said.
fn world() -> (World, Vec<CapturedFrame>) {
    let plan = Plan::default();
    let mut world = World::new(&plan, &mut Random::new(1)).expect("a cluster in which all is well");
    let mut heard = Vec::new();
    let mut publishers = Vec::new();
    for queue in QUEUES {
        for node in 1..=3 {
            publishers.push(world.come(NodeId(node), queue, Part::publisher()));
        }
        world.come(NodeId(2), queue, Part::consumer());
    }
    world.rest_heard(&mut heard);
    for publisher in publishers {
        for bytes in [10, 6_000] {
            world.publish(publisher, bytes);
        }
    }
    world.rest_heard(&mut heard);
    for (from, to) in [(1, 2), (2, 3), (3, 1)] {
        // New connections: nodes present themselves again.
        world.blink(NodeId(from), NodeId(to));
        world.rest_heard(&mut heard);
    }
    (world, heard)
}

/// What becomes of a frame that was heard: the first octets choose it and a place in it, the others
/// say what is changed there.
fn deed(input: &[u8], heard: &[CapturedFrame]) -> CapturedFrame {
    let number = |at: usize| usize::from(u16::from_le_bytes([input[at], input[at + 1]]));
    let mut frame = heard[number(0) % heard.len()].clone();
    let mut bytes = frame.bytes.to_vec();
    let place = number(2) % bytes.len().max(1);
    match input[5] & 7 {
        0 | 1 => {
            if let Some(byte) = bytes.get_mut(place) {
                *byte ^= input[4].max(1);
            }
        }
        2 => bytes.truncate(place),
        3 => bytes.insert(place, input[4]),
        // As large a number as fits: of what is to come, or of a place.
        4 => bytes
            .iter_mut()
            .skip(place)
            .take(8)
            .for_each(|byte| *byte = 0xFF),
        5 => bytes
            .iter_mut()
            .skip(place)
            .take(8)
            .for_each(|byte| *byte = 0),
        6 => {
            let other = &heard[(number(0) + usize::from(input[4])) % heard.len()].bytes;
            bytes.truncate(place);
            bytes.extend_from_slice(other.get(place..).unwrap_or_default());
        }
        // As it was, once more.
        _ => {}
    }
    frame.bytes = bytes.into();
    let others = [1, 2, 3].map(NodeId);
    if input[5] & 8 != 0 {
        frame.to = others[usize::from(input[6]) % others.len()];
    }
    if input[5] & 16 != 0 {
        frame.from = others[usize::from(input[6] >> 4) % others.len()];
    }
    if input[5] & 32 != 0 {
        frame.queue = heard[usize::from(input[4]) % heard.len()].queue;
    }
    frame
}

/// Deeds, one after the other, in a cluster that is new for each input.
///
/// # Panics
/// If a node's code does.
pub fn fuzz(input: &[u8]) {
    let (mut world, heard) = world();
    for input in input.chunks_exact(DEED_BYTES).take(DEEDS_MAX) {
        let frame = deed(input, &heard);
        if frame.from == frame.to {
            continue;
        }
        let now = world.now(frame.to);
        if let Some(node) = world.node(frame.to) {
            node.frame(frame.from, &PeerFrame::new(frame.queue, frame.bytes), now);
        }
        match input[7] % 4 {
            0 => world.step_dropping_frames(),
            1 => world.pass(u64::from(input[7])),
            _ => {}
        }
    }
    world.step_dropping_frames();
}

/// Inputs to begin with: one for each kind of change.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let mut random = Random::new(7);
    let seed = |kind: u8| {
        let deed = |_| {
            let mut deed: Vec<u8> = (0..DEED_BYTES).map(|_| random.below(256) as u8).collect();
            deed[5] = deed[5] & !7 | kind;
            deed
        };
        (0..24).flat_map(deed).collect()
    };
    (0..8).map(seed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_heard_with_frames_of_every_kind() {
        let (world, heard) = world();
        let catalogue = heard.iter().filter(|frame| frame.queue == QueueId(0));
        assert!(catalogue.count() > 0, "of the catalogue's group");
        for queue in QUEUES {
            let name = &world.queues[queue].name;
            let id = world.node(NodeId(1)).and_then(|node| node.queue(name));
            let id = id.expect("it is there");
            assert!(heard.iter().any(|frame| frame.queue == id), "{name}");
        }
    }

    #[test]
    fn a_member_that_speaks_for_another_ends_nobody() {
        // Consumers, sessions and votes of one node, brought by another.
        let (world, heard) = world();
        let mut given = 0;
        for frame in heard {
            for from in [1, 2, 3].map(NodeId) {
                let now = world.now(frame.to);
                let node = world
                    .node(frame.to)
                    .filter(|_| from != frame.to && from != frame.from);
                if let Some(node) = node {
                    let frame = PeerFrame::new(frame.queue, frame.bytes.clone());
                    node.frame(from, &frame, now);
                    given += 1;
                }
            }
        }
        assert!(given > 50, "{given} frames");
        for node in [1, 2, 3].map(NodeId) {
            assert!(world.node(node).is_some(), "{node:?} goes on");
        }
    }

    #[test]
    fn what_a_member_says_again_ends_nobody() {
        // Each frame once more, in its order.
        let (_, heard) = world();
        let again = (0..heard.len().min(DEEDS_MAX) as u16).flat_map(|number| {
            let [low, high] = number.to_le_bytes();
            [low, high, 0, 0, 0, 7, 0, 0]
        });
        let again: Vec<u8> = again.collect();
        assert!(again.len() > 50 * 8, "{} frames", again.len() / 8);
        fuzz(&again);
    }
}
