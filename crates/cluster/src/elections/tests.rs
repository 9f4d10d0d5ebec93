//! Elections of streams, played without a network.

use super::*;
use crate::test_catalogue::TestCatalogue;
use leveret_stream::LogPosition;

/// A cluster of three nodes whose first one elects.
struct World {
    cluster: TestCatalogue,
    elections: Elections,
    now_ms: u64,
}

impl World {
    fn new() -> Self {
        Self {
            cluster: TestCatalogue::of_three_nodes(),
            elections: Elections::default(),
            now_ms: 1,
        }
    }

    fn apply(&mut self, command: Command) {
        self.cluster.apply(command);
    }

    fn declare(&mut self, name: &str) -> QueueId {
        self.cluster.declare(name, "stream")
    }

    fn run(&mut self, events: Vec<Event>) -> Steps {
        let up = self.cluster.up.clone();
        let now = Now::both(self.now_ms);
        let is_up = |node: NodeId| up.contains(&node.0);
        let catalogue = &self.cluster.catalogue;
        self.elections.run(now, events, true, catalogue, is_up)
    }

    fn leader(&self, stream: QueueId) -> (u64, NodeId) {
        let record = self.cluster.catalogue.queue(stream).expect("it is there");
        (record.epoch(), record.home())
    }
}

fn prepared(node: u32, stream: QueueId, epoch: u64, promised: u64, next_offset: u64) -> Event {
    let message = ReplicaMessage::Prepared {
        epoch: Epoch(epoch),
        promised: Epoch(promised),
        position: LogPosition {
            log_epoch: Epoch(1),
            next_offset,
        },
        is_whole: true,
    };
    Event::Prepared(NodeId(node), stream, message)
}

fn queried(steps: &Steps) -> Vec<(u32, u64)> {
    let asks = steps.asks.iter();
    let mut queried: Vec<_> = asks.map(|(node, _, epoch)| (node.0, epoch.0)).collect();
    queried.sort_unstable();
    queried
}

/// The members of a stream that do not lead it.
fn others(world: &World, stream: QueueId) -> [u32; 2] {
    let leader = world.leader(stream).1.0;
    let others: Vec<u32> = (1..=3).filter(|node| *node != leader).collect();
    [others[0], others[1]]
}

#[test]
fn the_member_that_has_most_leads_when_the_leaders_node_is_down() {
    let mut world = World::new();
    let stream = world.declare("s");
    let [one, two] = others(&world, stream);
    let lost = world.leader(stream).1;
    assert!(world.run(Vec::new()).asks.is_empty(), "nothing is wrong");
    world.cluster.up.remove(&lost.0);
    let steps = world.run(vec![Event::Peer(lost, false)]);
    assert_eq!(queried(&steps), [(one, 2), (two, 2)]);
    assert!(world.run(Vec::new()).asks.is_empty(), "asked once");
    let steps = world.run(vec![prepared(one, stream, 2, 2, 10)]);
    assert!(steps.proposals.is_empty(), "no majority");
    let mut steps = world.run(vec![prepared(two, stream, 2, 2, 11)]);
    world.apply(steps.proposals.pop().expect("a choice"));
    assert_eq!(world.leader(stream), (2, NodeId(two)));
    world.run(Vec::new());
    assert!(world.elections.is_empty(), "it is over");
}

#[test]
fn an_epoch_that_somebody_else_has_used_up_is_passed_over() {
    let mut world = World::new();
    let stream = world.declare("s");
    let [one, two] = others(&world, stream);
    let lost = world.leader(stream).1;
    world.cluster.up.remove(&lost.0);
    world.run(vec![Event::Peer(lost, false)]);
    let steps = world.run(vec![prepared(one, stream, 2, 6, 10)]);
    assert_eq!(queried(&steps), [(one, 7), (two, 7)]);
    // An answer to the question before is no answer.
    let steps = world.run(vec![
        prepared(two, stream, 2, 2, 10),
        prepared(one, stream, 7, 7, 10),
    ]);
    assert!(steps.proposals.is_empty());
}

#[test]
fn without_a_majority_nobody_leads_until_enough_have_returned() {
    let mut world = World::new();
    let stream = world.declare("s");
    let [one, two] = others(&world, stream);
    let lost = world.leader(stream).1;
    world.cluster.up = BTreeSet::from([one]);
    world.run(vec![
        Event::Peer(lost, false),
        Event::Peer(NodeId(two), false),
    ]);
    assert!(
        world
            .run(vec![prepared(one, stream, 2, 2, 10)])
            .proposals
            .is_empty()
    );
    world.cluster.up.insert(two);
    let steps = world.run(vec![Event::Peer(NodeId(two), true)]);
    assert_eq!(queried(&steps), [(two, 2)]);
    let steps = world.run(vec![prepared(two, stream, 2, 2, 10)]);
    assert_eq!(steps.proposals.len(), 1);
}

#[test]
fn a_leader_that_hands_over_is_left_out_while_the_others_are_a_majority() {
    let mut world = World::new();
    let stream = world.declare("s");
    let [one, two] = others(&world, stream);
    let (epoch, leader) = world.leader(stream);
    let steps = world.run(vec![Event::Move(leader, stream, NodeId(two))]);
    assert_eq!(queried(&steps), [(one, epoch + 1), (two, epoch + 1)]);
    let answers = vec![
        prepared(one, stream, 2, 2, 10),
        prepared(two, stream, 2, 2, 10),
    ];
    let mut steps = world.run(answers);
    world.apply(steps.proposals.pop().expect("a choice"));
    assert_eq!(
        world.leader(stream),
        (2, NodeId(two)),
        "as it was asked for"
    );
    // With one other it has to be heard itself.
    world.run(Vec::new());
    world.cluster.up.remove(&one);
    let steps = world.run(vec![Event::Move(NodeId(two), stream, leader)]);
    assert!(queried(&steps).contains(&(two, 3)));
}

/// As one whose disk is full, and which waits for space before it serves.
#[test]
fn a_leader_goes_on_where_a_node_that_is_up_does_not_answer_when_it_hands_over() {
    let mut world = World::new();
    let stream = world.declare("s");
    let (epoch, leader) = world.leader(stream);
    let [one, two] = others(&world, stream);
    world.run(vec![Event::Move(leader, stream, NodeId(two))]);
    let next = epoch + 1;
    let steps = world.run(vec![prepared(one, stream, next, next, 10)]);
    assert!(steps.proposals.is_empty(), "one of three");
    world.now_ms += STREAM_ELECTION_MS;
    let steps = world.run(Vec::new());
    assert!(
        queried(&steps).contains(&(leader.0, next)),
        "it is heard too"
    );
    let mut steps = world.run(vec![prepared(leader.0, stream, next, next, 10)]);
    world.apply(steps.proposals.pop().expect("a choice"));
    assert_eq!(world.leader(stream), (next, leader));
}

#[test]
fn a_replica_that_says_what_is_long_over_begins_nothing() {
    let mut world = World::new();
    let stream = world.declare("s");
    let leader = world.leader(stream).1;
    let election_request = |promised| ElectionRequest {
        stream,
        promised: Epoch(promised),
        wants_other_leader: false,
    };
    assert!(
        world
            .run(vec![Event::ElectionRequest(leader, election_request(0))])
            .asks
            .is_empty()
    );
    let steps = world.run(vec![Event::ElectionRequest(leader, election_request(1))]);
    assert_eq!(steps.asks.len(), 3, "the leader itself may go on");
    let again = world.run(vec![Event::ElectionRequest(leader, election_request(2))]);
    assert!(again.asks.is_empty(), "that epoch is just being prepared");
}

#[test]
fn many_streams_change_their_leaders_together_and_who_has_no_answer_is_asked_again() {
    let mut world = World::new();
    let streams: Vec<QueueId> = (0..30).map(|n| world.declare(&format!("s{n}"))).collect();
    let led = |world: &World| {
        let led = streams.iter().filter(|s| world.leader(**s).1 == NodeId(3));
        led.count()
    };
    assert_eq!(led(&world), 10);
    world.cluster.up.remove(&3);
    let steps = world.run(vec![Event::Peer(NodeId(3), false)]);
    assert_eq!(steps.asks.len(), 20);
    world.now_ms += STREAM_ELECTION_MS;
    assert_eq!(world.run(Vec::new()).asks.len(), 20);
    let answers = steps.asks.iter();
    let answers = answers.map(|(node, stream, _)| prepared(node.0, *stream, 2, 2, 5));
    let steps = world.run(answers.collect());
    assert_eq!(steps.proposals.len(), 10, "in one go");
    for command in steps.proposals {
        world.apply(command);
    }
    assert_eq!(led(&world), 0);
}

#[test]
fn a_node_that_begins_to_elect_finds_the_streams_that_lost_their_leader_before() {
    let mut world = World::new();
    let stream = world.declare("s");
    world.cluster.up.remove(&world.leader(stream).1.0);
    assert_eq!(world.run(Vec::new()).asks.len(), 2);
}
