//! A leader whose disk has damaged a message that another member needs.

use super::*;

impl World {
    /// Changes a bit of a message wherever a node's disk has it, from which on its node may say
    /// that its replica is damaged.
    fn damage(&mut self, at: usize, number: u64) {
        self.corrupt.insert(at);
        let text = [&number.to_le_bytes()[..], b"xxxx"].concat();
        let mut hits = 0;
        let disk = &self.nodes[at].disk;
        for path in disk.paths() {
            disk.tamper(&path, |bytes| {
                let windows = bytes.windows(text.len()).enumerate();
                let places = windows.filter(|(_, window)| *window == text);
                for place in places.map(|(place, _)| place).collect::<Vec<_>>() {
                    bytes[place + 9] ^= 4;
                    hits += 1;
                }
            });
        }
        assert!(hits > 0, "it is nowhere");
    }
}

#[test]
fn a_leader_that_cannot_read_what_a_member_needs_lets_another_lead_and_takes_no_part_any_more() {
    let mut world = World::new(2, 3, spec(3));
    world.body_bytes = 30_000;
    world.rest(100);
    let leader = world.leader().expect("it is led");
    let (behind, other) = ((leader + 1) % 3, (leader + 2) % 3);
    world.crash(behind);
    for _ in 0..12 {
        world.publish(other);
        world.rest(1);
    }
    world.rest(20);
    assert_eq!(world.ledger.confirmed.len(), 12);
    world.damage(leader, 3);
    world.start(behind);
    world.rest(300);
    assert_eq!(world.leader(), Some(other));
    let now = world.now;
    let running = world.nodes[leader].running.as_mut().expect("it runs");
    let takes_part = running.shard.with_replicas(now, |replicas, _| {
        assert_eq!(replicas.has(QUEUE), !replicas.is_quarantined(QUEUE));
        replicas.has(QUEUE)
    });
    assert!(!takes_part);
    // The other two have it all.
    world.consume(behind, 0);
    world.rest(50);
    assert_eq!(world.ledger.delivered.len(), 12);
}
