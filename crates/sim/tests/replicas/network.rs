//! Messages under way: in another order, twice, or lost with a link that is cut.

use bytes::Bytes;
use leveret_amqp::fuzz::Random;
use leveret_types::NodeId;
use std::collections::BTreeSet;

pub struct Packet {
    pub from: NodeId,
    pub to: NodeId,
    pub bytes: Bytes,
}

#[derive(Default)]
pub struct Network {
    packets: Vec<Packet>,
    cut: BTreeSet<(NodeId, NodeId)>,
}

fn pair(a: NodeId, b: NodeId) -> (NodeId, NodeId) {
    (a.min(b), a.max(b))
}

impl Network {
    pub fn send(&mut self, packet: Packet) {
        if !self.cut.contains(&pair(packet.from, packet.to)) {
            self.packets.push(packet);
        }
    }

    /// The next packet, sometimes another one, sometimes one that comes once more.
    pub fn take(&mut self, random: &mut Random) -> Option<Packet> {
        if self.packets.is_empty() {
            return None;
        }
        let at = match random.below(4) {
            0 => random.below(self.packets.len() as u64) as usize,
            _ => 0,
        };
        if random.below(12) == 0 {
            let packet = &self.packets[at];
            return Some(Packet {
                bytes: packet.bytes.clone(),
                ..*packet
            });
        }
        Some(self.packets.remove(at))
    }

    pub fn take_first(&mut self) -> Option<Packet> {
        (!self.packets.is_empty()).then(|| self.packets.remove(0))
    }

    /// What is under way to or from a node is lost.
    pub fn lose(&mut self, node: NodeId) {
        self.packets.retain(|p| p.from != node && p.to != node);
    }

    pub fn cut(&mut self, a: NodeId, b: NodeId) {
        self.cut.insert(pair(a, b));
        self.packets.retain(|p| pair(p.from, p.to) != pair(a, b));
    }

    /// The links that were cut, which are not any more.
    pub fn heal(&mut self) -> BTreeSet<(NodeId, NodeId)> {
        std::mem::take(&mut self.cut)
    }
}
