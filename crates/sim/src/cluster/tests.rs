//! What the ledger and the operators of a life take for what: short lives with one cause each.

use super::Plan;
use super::people::Part;
use super::world::{TURN_MS, World};
use crate::Random;
use leveret_types::NodeId;

/// A quorum queue.
const QUORUM: usize = 0;

fn world() -> World {
    World::new(&Plan::default(), &mut Random::new(1)).expect("a cluster in which all is well")
}

/// Followers hear of the last commit when time passes, so that until then they have more, or fewer,
/// messages than the leader: that is no difference between members for which all is well.
#[test]
fn a_group_is_not_ready_before_its_members_know_what_is_committed() {
    let mut world = world();
    let publisher = world.come(NodeId(1), QUORUM, Part::publisher());
    world.rest().expect("it rests");
    assert_eq!(world.unready_group(), None);
    world.publish(publisher, 10);
    world.rest().expect("it rests");
    assert!(
        world.is_confirmed(publisher),
        "the leader knows that it is committed"
    );
    let why = world.unready_group().expect("its followers do not");
    assert!(
        why.starts_with("not all members know what is committed"),
        "{why}"
    );
    world.turns(1_000);
    assert_eq!(world.unready_group(), None);
}

impl World {
    fn turns(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds / TURN_MS {
            self.turn().expect("all is well");
        }
    }

    fn is_confirmed(&self, publisher: u64) -> bool {
        matches!(
            &self.people[&publisher].part,
            Part::Publisher { unconfirmed, sent: 1.. } if unconfirmed.is_empty()
        )
    }
}
