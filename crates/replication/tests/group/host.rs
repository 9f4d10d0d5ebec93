//! A host's promises to its log store and its machine.

use crate::world::{Flying, Planted, World, replica};
use leveret_replication::{Body, Membership, Message, SnapshotMark};
use leveret_types::NodeId;

#[test]
fn a_snapshot_is_durable_together_with_the_term_that_came_with_it_or_not_at_all() {
    for kept in 0..=4 {
        let mut world = World::new(3, Planted::Nothing);
        let mark = SnapshotMark {
            index: 9,
            term: 5,
            membership: Membership::of_voters((1..=3).map(replica)),
        };
        let message = Message {
            to: replica(3),
            from: replica(1),
            term: 5,
            body: Body::Snapshot(mark),
        };
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        world.flying.push(Flying {
            bytes: bytes.into(),
            state: 7,
            from: NodeId(1),
            to: NodeId(3),
        });
        world.deliver(0).expect("no promise is broken");
        assert_eq!((world.nodes[2].applied, world.nodes[2].state), (9, 7));
        assert!(world.nodes[2].disk.waiting() > 0);
        world.crash(2, kept);
        // What cannot have been written is not restored.
        world.start(2);
        let group = world.group(2);
        let found = (group.term(), group.last_index());
        match kept {
            0 => assert_eq!(found, (1, 1)),
            _ => assert_eq!(found, (5, 9)),
        }
    }
}

#[test]
fn a_snapshot_takes_the_place_of_entries_when_they_are_many_and_whenever_members_change() {
    let sound = "no promise is broken";
    let mut world = World::new(3, Planted::Nothing);
    world.group(0).campaign();
    world.drain(0).expect(sound);
    world.run().expect(sound);
    for _ in 0..14 {
        world.propose(0, b"x").expect(sound);
        world.run().expect(sound);
    }
    assert_eq!(
        world.group(0).commit(),
        16,
        "the founding state, an empty one, 14"
    );
    assert_eq!(world.nodes[0].disk.durable.mark.index, 1, "one too few");
    world.propose(0, b"x").expect(sound);
    world.run().expect(sound);
    assert_eq!(world.nodes[0].disk.durable.mark.index, 17);
    let change = leveret_replication::MembershipChange::remove(replica(3));
    world.group(0).propose_membership(&change).expect("taken");
    world.drain(0).expect(sound);
    world.run().expect(sound);
    let durable = &world.nodes[0].disk.durable;
    assert_eq!(durable.mark.index, 18);
    assert_eq!(
        durable.mark.membership,
        Membership::of_voters((1..=2).map(replica))
    );
}

/// The two others alone would make a leader whose log lacks what this one has forgotten.
#[test]
fn who_may_have_forgotten_what_it_promised_elects_nobody_and_follows_who_was_elected() {
    let sound = "no promise is broken";
    let mut world = World::new(3, Planted::Nothing);
    world.nodes[1].abstains = true;
    world.nodes[2].abstains = true;
    let stand = |world: &mut World| {
        world.group(0).campaign();
        world.drain(0).expect(sound);
        world.run().expect(sound);
        world.leaders()
    };
    assert_eq!(stand(&mut world), [], "one vote is no majority");
    world.nodes[2].abstains = false;
    assert_eq!(stand(&mut world), [0]);
    world.propose(0, b"x").expect(sound);
    world.run().expect(sound);
    let last = world.group(0).last_index();
    assert_eq!(world.group(1).last_index(), last, "entries are no election");
    // It does not stand itself either.
    world.group(1).campaign();
    world.drain(1).expect(sound);
    world.run().expect(sound);
    assert_eq!(world.leaders(), [0]);
}

#[test]
fn a_state_that_came_counts_as_applied() {
    let sound = "no promise is broken";
    let mut world = World::new(3, Planted::Nothing);
    world.crash(2, 0);
    world.group(0).campaign();
    world.drain(0).expect(sound);
    world.run().expect(sound);
    for _ in 0..20 {
        world.propose(0, b"x").expect(sound);
        world.run().expect(sound);
    }
    world.detect(0).expect(sound);
    let applied = world.group(0).status().applied;
    world.group(0).compacted(applied);
    world.start(2);
    world.detect(0).expect(sound);
    world.run().expect(sound);
    let host = world.nodes[2].group.as_ref().expect("it is up");
    assert_eq!(host.snapshot_index(), applied, "it came as a state");
    assert_eq!(host.last_applied(), applied);
}
