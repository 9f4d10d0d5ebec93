//! Replicas that took entries back which they had acknowledged: they help to elect nobody until
//! their logs are as long again.

use super::*;

impl World {
    /// Has the member of a node vote when its log is so many entries longer than it is.
    fn vote_after(&mut self, at: usize, more: u64) {
        self.with(at, |shard, now| {
            shard.with_replicas(now, |replicas, _| {
                let replica = replicas.map.get_mut(&QUEUE).expect("it is here");
                replica.applied.votes_from = replica.group.last_index() + more;
            });
        });
    }
}

#[test]
fn who_took_back_what_it_acknowledged_elects_nobody_until_it_has_it_again() {
    for non_voting in [1, 2] {
        let mut world = World::new(1, 3, spec(3));
        world.rest(100);
        for _ in 0..3 {
            world.publish(1);
            world.rest(20);
        }
        let first = world.leader().expect("a leader");
        let non_voting = (first + non_voting) % 3;
        world.vote_after(non_voting, 1);
        world.crash(first);
        world.rest(1_000);
        assert_eq!(world.leader(), None, "one vote of three");
        world.vote_after(non_voting, 0);
        world.rest(1_000);
        assert!(world.leader().is_some(), "two votes of three");
    }
}
