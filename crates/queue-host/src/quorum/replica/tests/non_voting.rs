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

    /// Has the member of a node have taken back all up to this entry.
    fn took_back(&mut self, at: usize, index: u64, term: u64) {
        self.with(at, |shard, now| {
            shard.with_replicas(now, |replicas, _| {
                let replica = replicas.map.get_mut(&QUEUE).expect("it is here");
                replica.applied.took_back(index, term);
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

#[test]
fn who_took_back_what_it_acknowledged_votes_for_who_has_that() {
    for (lacks, elects) in [(0, true), (1, false)] {
        let mut world = World::new(1, 3, spec(3));
        world.rest(100);
        let first = world.leader().expect("a leader");
        let (behind, other) = ((first + 1) % 3, (first + 2) % 3);
        let cut = [first, other].map(|at| (at.min(behind), at.max(behind)));
        for (a, b) in cut {
            world.cut.insert((a, b));
            world.part(a, b);
        }
        for _ in 0..3 {
            world.publish(first);
            world.rest(20);
        }
        let last = |world: &World, at: usize| {
            let running = world.nodes[at].running.as_ref().expect("it runs");
            let status = running.shard.replica_status(QUEUE).expect("it is here");
            (status.group.last_index, status.group.term)
        };
        let (end, term) = last(&world, other);
        assert!(last(&world, behind).0 < end);
        // As if it had had what the others have, or more than that.
        world.took_back(behind, end + lacks, term);
        world.crash(first);
        let (a, b) = (other.min(behind), other.max(behind));
        world.cut.retain(|way| *way != (a, b));
        world.meet(a, b);
        world.rest(1_000);
        assert_eq!(world.leader().is_some(), elects);
    }
}

#[test]
fn a_node_whose_folder_is_an_older_copy_elects_nobody_and_leads_nothing() {
    for outdated in [1, 2] {
        let (mut world, leader, _) = World::filled(1, 1, 64);
        let outdated = (leader + outdated) % 3;
        world.with(outdated, |shard, now| shard.set_outdated(now));
        world.crash(leader);
        world.rest(1_000);
        assert_eq!(world.leader(), None, "one vote of three");
        world.start(leader);
        world.rest(1_000);
        let next = world.leader();
        assert!(next.is_some_and(|next| next != outdated), "{next:?}");
        world.with(next.expect("it is led"), |shard, now| {
            shard.set_outdated(now)
        });
        world.rest(1_000);
        assert_eq!(world.leader(), None, "two of three are outdated");
    }
}
