//! From the members that there are to those that there should be.

use crate::world::{Planted, World, replica};
use leveret_replication::{Leaving, WantedMembers};
use leveret_types::{NodeId, ReplicaId};

/// Lets the leader of a group of nodes 1 to 3 take every step there is to take; what the group was
/// after each: its voters, and its learners.
fn steps(joining: &[ReplicaId], wanted: &WantedMembers<'_>) -> Vec<String> {
    let sound = "no promise is broken";
    let mut world = World::new(3, Planted::Nothing);
    for new in joining {
        world.add_node(*new);
    }
    world.group(0).campaign();
    world.drain(0).expect(sound);
    let mut seen = Vec::new();
    for _ in 0..20 {
        for at in 0..world.nodes.len() {
            world.tick(at).expect(sound);
        }
        world.run().expect(sound);
        let leaders = world.leaders();
        let Some(leader) = leaders.first() else {
            break;
        };
        let membership = world.group(*leader).membership().clone();
        let names = |of: &[ReplicaId]| {
            let names = of.iter().map(|of| format!("{}.{}", of.node(), of.0 as u32));
            names.collect::<Vec<_>>().join(" ")
        };
        let now = format!(
            "{} | {}",
            names(&membership.voters),
            names(&membership.learners)
        );
        if seen.last() != Some(&now) && !membership.is_joint() {
            seen.push(now);
        }
        // What is refused is tried again.
        let _ = world.group(*leader).approach(wanted);
        world.drain(*leader).expect(sound);
    }
    seen
}

#[test]
fn who_comes_votes_before_another_one_leaves() {
    let wanted = WantedMembers {
        voters: &[replica(1), replica(2), replica(4)],
        learners: &[],
        leaving: Leaving::Last,
    };
    assert_eq!(
        steps(&[replica(4)], &wanted),
        [
            "1.1 2.1 3.1 | ",
            "1.1 2.1 3.1 | 4.1",
            "1.1 2.1 3.1 4.1 | ",
            "1.1 2.1 4.1 | "
        ]
    );
}

#[test]
fn who_is_gone_for_good_leaves_before_another_one_comes() {
    let wanted = WantedMembers {
        voters: &[replica(1), replica(2), replica(4)],
        learners: &[],
        leaving: Leaving::First,
    };
    assert_eq!(
        steps(&[replica(4)], &wanted),
        [
            "1.1 2.1 3.1 | ",
            "1.1 2.1 | ",
            "1.1 2.1 | 4.1",
            "1.1 2.1 4.1 | "
        ]
    );
}

#[test]
fn who_is_to_learn_gets_no_vote() {
    let wanted = WantedMembers {
        voters: &[replica(1), replica(2), replica(3)],
        learners: &[replica(4)],
        leaving: Leaving::First,
    };
    assert_eq!(
        steps(&[replica(4)], &wanted),
        ["1.1 2.1 3.1 | ", "1.1 2.1 3.1 | 4.1"]
    );
}

#[test]
fn the_leader_leaves_last() {
    let wanted = WantedMembers {
        voters: &[replica(2)],
        learners: &[],
        leaving: Leaving::Last,
    };
    assert_eq!(
        steps(&[], &wanted),
        ["1.1 2.1 3.1 | ", "1.1 2.1 | ", "2.1 | "]
    );
}

#[test]
fn who_is_in_the_way_of_another_one_on_its_node_leaves_first() {
    let again = ReplicaId::new(NodeId(3), 2);
    let wanted = WantedMembers {
        voters: &[replica(1), again],
        learners: &[],
        leaving: Leaving::First,
    };
    let seen = steps(&[], &wanted);
    assert_eq!(seen[..2], ["1.1 2.1 3.1 | ", "1.1 2.1 | "], "{seen:?}");
}

#[test]
fn nobody_leaves_before_the_others_could_go_on_without_the_leader() {
    let sound = "no promise is broken";
    let wanted = WantedMembers {
        voters: &[replica(1), replica(2)],
        learners: &[],
        leaving: Leaving::Last,
    };
    let mut world = World::new(3, Planted::Nothing);
    world.group(0).campaign();
    world.drain(0).expect(sound);
    world.run().expect(sound);
    world.cut = [(NodeId(1), NodeId(2)), (NodeId(2), NodeId(1))].into();
    world.propose(0, b"x").expect(sound);
    world.run().expect(sound);
    assert_eq!(
        world.group(0).approach(&wanted),
        Ok(false),
        "2 lacks an entry"
    );
    world.cut.clear();
    world.group(0).lost(NodeId(2));
    world.drain(0).expect(sound);
    world.run().expect(sound);
    assert_eq!(world.group(0).approach(&wanted), Ok(true));
}

#[test]
fn only_a_majority_that_a_member_is_not_needed_for_can_depose_it() {
    let mut world = World::new(3, Planted::Nothing);
    assert!(world.group(0).can_be_deposed());
    let mut alone = World::new(1, Planted::Nothing);
    assert!(!alone.group(0).can_be_deposed());
}
