//! The outcomes of operators' requests, by the state of the cluster.

use super::*;
use crate::test_catalogue::TestCatalogue;
use leveret_metadata::CatalogueError;
use leveret_types::Now;

/// Nodes 1 to 3, seen from node 1, and node 4, which does not vote; queues `a` on nodes 1 and 2,
/// `b` on 1 to 3 and `d` on 2 alone, the classic queue `c` on 1, and the stream `s` on 1 to 3.
struct World {
    cluster: TestCatalogue,
    availability: Availability,
    group: CatalogueView,
}

impl World {
    /// With these others up; node 1 leads the catalogue.
    fn new(up: &[u32]) -> Self {
        let mut cluster = TestCatalogue::of_three_nodes();
        for (name, nodes) in [("a", &[1, 2][..]), ("b", &[1, 2, 3]), ("d", &[2])] {
            let queue = cluster.declare(name, "quorum");
            cluster.set_members(queue, nodes);
        }
        cluster.declare("c", "classic");
        cluster.declare("s", "stream");
        cluster.join(4);
        let voters = [1, 2, 3].map(|node| ReplicaId::new(NodeId(node), 0));
        Self {
            cluster,
            availability: Availability {
                own: NodeId(1),
                up: up.iter().copied().map(NodeId).collect(),
                full_disks: Vec::new(),
            },
            group: CatalogueView {
                leader: Some(NodeId(1)),
                membership: Membership::of_voters(voters),
            },
        }
    }

    fn planner(&self) -> Planner<'_> {
        Planner {
            availability: &self.availability,
            group: &self.group,
            catalogue: &self.cluster.catalogue,
        }
    }

    fn name(&self, queue: u64) -> &str {
        let record = self.cluster.catalogue.queue(QueueId(queue));
        record.map_or("?", QueueRecord::name)
    }

    /// What comes of a request, in short.
    fn told(&self, request: Request) -> String {
        let plan = match request(&self.planner()) {
            Ok(plan) => plan,
            Err(refused) => return refused.to_string(),
        };
        let commands = plan.commands.iter().map(|command| self.short(command));
        let mut parts: Vec<String> = commands.collect();
        parts.extend(plan.goal.map(|(goal, _)| match goal {
            Goal::Votes(node) => format!("until {node} votes"),
            Goal::CatalogueLedBy(node) => format!("until {node} leads the catalogue"),
            Goal::LedBy { queue, node } => format!("until {node} leads {}", self.name(queue.0)),
        }));
        format!("{} ({})", parts.join("; "), plan.queues)
    }

    fn short(&self, command: &Command) -> String {
        let Command::QueueMembers { id, members, size } = command else {
            return format!("{command:?}");
        };
        let nodes = members.iter().map(|m| ReplicaId(*m).node().to_string());
        let nodes: Vec<String> = nodes.collect();
        let size = size.map_or_else(String::new, |size| format!(" of {size}"));
        format!("{} on {}{size}", self.name(*id), nodes.join(","))
    }
}

type Request = fn(&Planner<'_>) -> Result<Plan, Refused>;

/// All queues.
const ALL: Meant<'static> = Meant {
    matches: &|_| true,
    is_even: false,
};
/// Those with an even number of members.
const EVEN: Meant<'static> = Meant {
    is_even: true,
    ..ALL
};
/// Those of one name.
const NAMED_B: Meant<'static> = Meant {
    matches: &|record| record.name() == "b",
    is_even: false,
};

/// Each request with these others up, and what comes of it, or how that begins.
fn check(up: &[u32], requests: &[(Request, &str)]) {
    let world = World::new(up);
    for (request, expected) in requests {
        let told = world.told(*request);
        assert!(told.starts_with(expected), "{told}\nexpected: {expected}");
    }
}

#[test]
fn nodes_are_changed_where_they_are_there_and_may_be() {
    check(
        &[2, 4],
        &[
            (|p| p.forget("3"), "NodeForget { node: 3 } (2)"),
            (|p| p.forget("node-3"), "NodeForget { node: 3 } (2)"),
            (|p| p.forget("node-2"), "node node-2 is running: stop it"),
            (|p| p.forget("1"), "a node cannot forget itself"),
            (
                |p| p.forget("9"),
                "the cluster has no node 9; it has 1 (node-1), 2 (node-2), 3 (node-3), 4 (node-4)",
            ),
            (
                |p| p.drain("2", true),
                "NodeDrain { node: 2, draining: true } (0)",
            ),
            (
                |p| p.promote("4"),
                "NodePromote { node: 4 }; until 4 votes (0)",
            ),
        ],
    );
}

#[test]
fn a_member_comes_or_goes_where_that_is_possible() {
    check(
        &[2, 4],
        &[
            (|p| p.add_member("/", "d", "1"), "d on 2,1 of 2 (1)"),
            (|p| p.add_member("/", "a", "2"), " (0)"),
            (|p| p.add_member("/", "a", "3"), "node 3 is not running"),
            (
                |p| p.add_member("/", "a", "4"),
                "node 4 has joined just now",
            ),
            (
                |p| p.add_member("/", "c", "2"),
                "queue 'c' in vhost '/' is not replicated",
            ),
            (|p| p.add_member("v", "a", "2"), "no queue 'a' in vhost 'v'"),
            (|p| p.remove_member("/", "a", "2"), "a on 1 of 1 (1)"),
            (|p| p.remove_member("/", "a", "3"), " (0)"),
            (
                |p| p.remove_member("/", "d", "node-2"),
                "the only member of queue 'd' in vhost '/' is on node node-2: delete the queue",
            ),
            (
                |p| p.remove_member("/", "c", "1"),
                "queue 'c' in vhost '/' is not replicated",
            ),
        ],
    );
}

#[test]
fn members_of_many_queues_change_where_they_are_meant_and_streams_never() {
    check(
        &[2, 4],
        &[
            (|p| p.grow("1", ALL), "d on 2,1 of 2 (1)"),
            (|p| p.grow("1", EVEN), " (0)"),
            (|p| p.grow("4", ALL), "node 4 has joined just now"),
            // Node 3 is down, and node 4 does not vote.
            (|p| Ok(p.grow_to(3, ALL)), "d on 2,1 of 2 (1)"),
            (|p| p.shrink("2", ALL), "a on 1 of 1; b on 1,3 of 2 (2)"),
            (|p| p.shrink("2", EVEN), "a on 1 of 1 (1)"),
            (|p| p.shrink("2", NAMED_B), "b on 1,3 of 2 (1)"),
        ],
    );
    check(
        &[2, 3],
        &[(
            |p| Ok(p.grow_to(3, ALL)),
            "a on 1,2,3 of 3; d on 2,1,3 of 3 (2)",
        )],
    );
}

#[test]
fn a_leader_goes_to_a_member_while_a_majority_is_up() {
    let transfer: Request = |p| p.transfer("/", "a", "2");
    check(
        &[2],
        &[
            (transfer, "a on 2,1; until 2 leads a (1)"),
            (|p| p.transfer("/", "s", "2"), "until 2 leads s (1)"),
            (
                |p| p.transfer("/", "a", "3"),
                "queue 'a' has no member on node 3",
            ),
            (|p| p.transfer("/", "x", "2"), "no queue 'x' in vhost '/'"),
            (
                |p| p.transfer_catalogue("2"),
                "until 2 leads the catalogue (0)",
            ),
        ],
    );
    let alone = "nothing can be changed: this node reaches 1 of the cluster's 3 voting nodes";
    check(&[4], &[(transfer, alone), (|p| p.promote("4"), alone)]);
    let mut world = World::new(&[2]);
    world.group.leader = Some(NodeId(2));
    let told = world.told(|p| p.transfer_catalogue("2"));
    assert_eq!(told, "another node leads the catalogue: ask that one");
}

fn meant(matches: &dyn Fn(&QueueRecord) -> bool) -> Meant<'_> {
    Meant {
        matches,
        is_even: false,
    }
}

/// Where the leaders of queues go when six more queues on all nodes are led by node 1.
fn moved_to(world: &mut World) -> Vec<u32> {
    for name in ["1", "2", "3", "4", "5", "6"] {
        let queue = world.cluster.declare(name, "quorum");
        world.cluster.set_members(queue, &[1, 2, 3]);
    }
    let all = meant(&|_| true);
    let mut rebalance = world.planner().rebalance(all).expect("a majority is up");
    let mut to = Vec::new();
    while let Some(next) = rebalance.next_move() {
        assert_eq!(rebalance.executed(Ok(()), || true), Ok(true));
        if !next.queue.is_stream() {
            to.push(next.to.0);
        }
    }
    to.sort_unstable();
    to.dedup();
    to
}

#[test]
fn leaders_are_spread_over_nodes_that_are_up_with_space_and_to_stay() {
    let mut world = World::new(&[2, 3]);
    assert_eq!(moved_to(&mut world), [2, 3]);
    let mut world = World::new(&[2]);
    assert_eq!(moved_to(&mut world), [2], "node 3 is down");
    let mut world = World::new(&[2, 3]);
    world.availability.full_disks = vec![NodeId(2)];
    assert_eq!(moved_to(&mut world), [3], "node 2 has no space");
    let mut world = World::new(&[2, 3]);
    let (node, draining) = (3, true);
    world.cluster.apply(Command::NodeDrain { node, draining });
    assert_eq!(moved_to(&mut world), [2], "node 3 is being emptied");
    let alone = World::new(&[]);
    assert!(matches!(
        alone.planner().rebalance(meant(&|_| true)),
        Err(Refused::NoMajority { up: 1, voters: 3 })
    ));
}

#[test]
fn leaders_of_queues_that_are_not_meant_stay() {
    let mut world = World::new(&[2, 3]);
    moved_to(&mut world);
    let moved = |matches: &dyn Fn(&QueueRecord) -> bool| {
        let moves = world.planner().rebalance(meant(matches));
        let mut moves = moves.expect("a majority is up");
        let moved = std::iter::from_fn(|| moves.next_move().map(|next| next.queue));
        moved.collect::<Vec<_>>()
    };
    let all = moved(&|_| true);
    assert!(all.len() > 1, "{all:?}");
    assert_eq!(moved(&|record| record.id() == all[1]), [all[1]]);
}

#[test]
fn leaders_move_until_a_command_is_refused_and_deleted_queues_are_passed_over() {
    let members = [2, 1].map(|node| ReplicaId::new(NodeId(node), 0)).to_vec();
    let moves = (1..=4).map(|queue| (QueueId(queue), members.clone()));
    let mut rebalance = Rebalance::new(moves.collect());
    let error = CatalogueError::NoMajority;
    let next = rebalance.next_move().expect("four");
    assert_eq!((next.queue, next.to), (QueueId(1), NodeId(2)));
    assert_eq!(rebalance.executed(Ok(()), || true), Ok(true));
    rebalance.next_move();
    let deleted = rebalance.executed(Err(error.clone()), || false);
    assert_eq!(deleted, Ok(false), "there is no leader to move");
    rebalance.next_move();
    let refused = rebalance.executed(Err(error.clone()), || true);
    let interrupted = Refused::Interrupted { error, moved: 1 };
    assert_eq!(refused, Err(interrupted));
}

#[test]
fn a_leader_is_asked_again_and_other_nodes_where_none_is_known_here() {
    use MoveStep::{Ask, Done, HandOver, Wait};
    let mut moving = LeaderMove::default();
    for (ms, known, expected) in [
        (1_000, Some(true), HandOver),
        (1_000, Some(false), Wait),
        (1_040, None, Ask),
        (1_060, None, Ask),
        (2_999, Some(false), Wait),
        (3_000, Some(false), HandOver),
        (3_000, None, Ask),
        (3_001, Some(true), Done),
    ] {
        assert_eq!(moving.step(Now::both(ms), || known), expected, "{ms}");
    }
    assert_eq!(moving.told(Now::both(3_010), false), Wait);
    assert_eq!(moving.step(Now::both(3_059), || None), Wait);
    assert_eq!(moving.step(Now::both(3_060), || None), Ask);
    assert_eq!(moving.told(Now::both(3_061), true), Done);
}
