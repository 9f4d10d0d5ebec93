//! Messages that come with an entry: once, and at their own places.

use super::super::entry_payload::put_message;
use super::super::header::Header;
use super::*;
use crate::shard::log_of;
use leveret_storage::Read;

impl World {
    /// Has a follower append messages at these indexes, each with the bytes of one that it has;
    /// the index after its last one then.
    fn append_arrived(&mut self, at: usize, indexes: std::ops::Range<u64>) -> u64 {
        self.with(at, |shard, now| {
            shard.with_replicas(now, |replicas, around| {
                let log = log_of(QUEUE, 0);
                let Read::Ready(known) = around
                    .logs
                    .read(log, around.logs.live(log).first().unwrap_or(0))
                else {
                    panic!("it was published just now");
                };
                let (mut header, mut bodies) = (Header::default(), Vec::new());
                for index in indexes {
                    header.message(0, index);
                    put_message(&mut bodies, &[&known]);
                }
                let replica = replicas.map.get_mut(&QUEUE).expect("it is here");
                let bodies = Bytes::from(bodies);
                let priority_logs = &mut replica.priority_logs;
                priority_logs.append_arrived(around.logs, &header, &bodies);
                let stats = around.logs.log_stats(log).expect("it has one");
                stats.next_index
            })
        })
    }
}

#[test]
fn a_message_that_comes_again_is_there_once_and_one_behind_a_gap_has_its_own_place() {
    let mut world = World::new(1, 3, spec(3));
    world.rest(100);
    for _ in 0..3 {
        world.publish(1);
        world.rest(20);
    }
    let leader = world.leader().expect("a leader");
    let follower = (leader + 1) % 3;
    let next = world.append_arrived(follower, 0..1);
    assert_eq!(world.append_arrived(follower, next..next + 2), next + 2);
    assert_eq!(world.append_arrived(follower, next..next + 2), next + 2);
    assert_eq!(
        world.append_arrived(follower, next + 1..next + 3),
        next + 3,
        "one of the two is new"
    );
    assert_eq!(
        world.append_arrived(follower, next + 9..next + 10),
        next + 10
    );
}
