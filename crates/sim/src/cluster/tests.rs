//! What the ledger and the operators of a life take for what: short lives with one cause each.

use super::Plan;
use super::client;
use super::people::{Answered, Part};
use super::world::{TURN_MS, World};
use crate::Random;
use crate::disk::{ReadFaults, SimDisk};
use leveret_cluster::Env;
use leveret_cluster::catalogue::SHARD;
use leveret_metadata::Command;
use leveret_node::PeerFrame;
use leveret_queue_host::shard::CATALOGUE_GROUP_LOG;
use leveret_replication::Role;
use leveret_types::limits::{
    CATALOGUE_PIECE_BYTES, CATALOGUE_PIECES_UNDER_WAY, LOG_STUCK_MS, NODE_LOST_MS,
};
use leveret_types::{FieldTable, FieldValue, NodeId, QueueId};

/// A quorum queue, the classic one, and the quorum queue that comes and goes.
const QUORUM: usize = 0;
const CLASSIC: usize = 2;
const PASSING: usize = 3;

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

/// A message may be on its way to a client when its queue's only node dies. The client's node has
/// given up its consumer by then: what it acknowledges nobody hears, and the message comes again.
#[test]
fn what_a_consumer_that_was_given_up_acknowledges_is_not_settled() {
    let mut world = world();
    let home = world.homes[CLASSIC].expect("it is on one node");
    let other = NodeId(1 + home.0 % 3);
    let consumer = world.come(other, CLASSIC, Part::consumer());
    let publisher = world.come(home, CLASSIC, Part::publisher());
    world.rest().expect("it rests");
    world.cut.insert((home, other));
    world.publish(publisher, 10);
    world.rest().expect("it rests");
    assert!(world.is_confirmed(publisher));
    world.cut.clear();
    while world.deliver(home, other) {}
    world.crash(home, &mut Random::new(1), false);
    for other in world.ids() {
        world.detect(other, home);
    }
    world.rest().expect("it rests");
    assert_eq!(world.ledger.deliveries, 1);
    world.answer(consumer, 0, Answered::Acknowledged);
    world.calm().expect("all is well");
    world.come(home, CLASSIC, Part::consumer());
    world.rest().expect("nobody is accused");
    assert_eq!(world.ledger.deliveries, 2, "it comes again");
}

/// A leader that the others have lost sight of delivers until it hears that it is none, also to who
/// comes to its node by then; and the one that they have elected delivers the same.
#[test]
fn who_comes_to_a_node_that_others_have_lost_sight_of_may_not_be_alone() {
    let mut world = world();
    let queue = world.id_of(QUORUM).expect("it is declared");
    let leader = world.leader(queue).expect("it is led");
    let publisher = world.come(leader, QUORUM, Part::publisher());
    // Somebody has had it before: it may be handed out without another entry.
    let before = world.come(leader, QUORUM, Part::consumer());
    world.publish(publisher, 10);
    world.turns(1_000);
    world.leave(before);
    world.turns(1_000);
    assert_eq!(world.ledger.deliveries, 1);
    let others = world.ids().into_iter().filter(|id| *id != leader);
    let others: Vec<NodeId> = others.collect();
    for other in &others {
        world.lose(*other, leader);
    }
    world.come(leader, QUORUM, Part::consumer());
    world.come(others[0], QUORUM, Part::consumer());
    for _ in 0..10_000 / TURN_MS {
        world.rest().expect("nobody is accused");
        world.pass(TURN_MS);
    }
    assert_eq!(world.ledger.deliveries, 3, "both get it");
}

/// A group that was declared while a node was drained has two members. When one of these is gone
/// for good nobody can lead the other.
#[test]
fn operators_delete_a_queue_that_nobody_can_lead() {
    let mut world = world();
    let asker = world.come(NodeId(3), PASSING, Part::asker());
    world.say(asker, client::delete("passing"));
    world.turns(1_000);
    assert_eq!(world.id_of(PASSING), None);
    let (node, draining) = (1, true);
    let drain = Command::NodeDrain { node, draining };
    world.carry_out(&drain).expect("it is drained");
    world.say(asker, client::declare("passing", "quorum", false));
    world.turns(1_000);
    let queue = world.id_of(PASSING).expect("it is declared");
    let (members, _) = world.members(queue).expect("it is a group");
    assert_eq!(members.len(), 2, "{members:?}");
    world.lose_machine(NodeId(2), &mut Random::new(1));
    world.calm().expect("operators put it right");
    assert_ne!(world.id_of(PASSING), Some(queue), "it is another queue now");
}

/// A node that has lost entries of the catalogue which it had acknowledged, or its last vote, could
/// help to elect a leader that lacks what is committed; the first one would take itself for all of
/// the cluster.
#[test]
fn a_node_whose_catalogue_may_lack_entries_does_not_start() {
    let mut world = world();
    let (node, random) = (NodeId(1), &mut Random::new(1));
    let asker = world.come(NodeId(3), PASSING, Part::asker());
    world.say(asker, client::delete("passing"));
    world.turns(1_000);
    assert_eq!(world.id_of(PASSING), None);
    world.with_disk(node, random, |node, now| node.come_to_rest(now));
    world.crash(node, random, false);
    let host = &world.hosts[&node];
    for path in host.disk.paths() {
        if path.extension().is_some_and(|extension| extension == "wal") {
            host.disk.tamper(&path, |bytes| {
                let last = bytes.iter().rposition(|byte| *byte != 0);
                let end = last.unwrap_or(0) / 4_096 * 4_096;
                // All but what says that everything before it is durable.
                bytes[end.saturating_sub(8 * 4_096).max(4_096).min(end)..end].fill(0);
            });
        }
    }
    let why = world.start(node).expect_err("something is missing");
    assert!(
        why.contains("unreadable log of the cluster's catalogue"),
        "{why}"
    );
}

/// A read may fail though the disk is sound. What it was for is given up and reported, an operator
/// begins it anew, and nothing is lost.
#[test]
fn a_queue_lives_on_when_its_leader_cannot_read() {
    let mut world = world();
    let queue = world.id_of(QUORUM).expect("it is declared");
    let leader = world.leader(queue).expect("it is led");
    let publisher = world.come(leader, QUORUM, Part::publisher());
    for _ in 0..30 {
        world.publish(publisher, 20_000);
    }
    world.turns(1_000);
    assert!(world.is_confirmed(publisher));
    // What is in memory is not read.
    let random = &mut Random::new(1);
    world.crash(leader, random, false);
    world.calm().expect("it comes back");
    world.transfer(leader, queue, leader);
    world.turns(1_000);
    let leader = world.leader(queue).expect("it is led");
    let bad_reads = world.bad_reads();
    world.endanger(leader);
    let host = world.hosts.get_mut(&leader).expect("a host");
    host.has_bad_reads = true;
    host.disk.set_read_faults(Some(ReadFaults {
        random: Random::new(1),
        failing: 1_000,
        damaging: 0,
        left: 100,
    }));
    world.come(NodeId(1 + leader.0 % 3), QUORUM, Part::consumer());
    world.turns(2_000);
    assert!(world.bad_reads() > bad_reads, "nothing was read");
    world.calm().expect("an operator puts it right");
    world.drain().expect("nothing is lost");
}

/// The disk of the node that leads the catalogue writes no more, and its process goes on.
#[test]
fn a_catalogue_whose_leader_cannot_write_is_led_by_another() {
    let mut world = world();
    let leader = world.catalogue_leader();
    let asker = world.come(NodeId(1 + leader.0 % 3), PASSING, Part::asker());
    world.turns(1_000);
    world.hosts.get_mut(&leader).expect("a host").is_stalled = true;
    world.say(asker, client::delete("passing"));
    world.turns(LOG_STUCK_MS + 2_000);
    assert!(!world.leads_catalogue(leader));
    let has_deleted = matches!(
        &world.people[&asker].part,
        Part::Asker {
            has_deleted: true,
            ..
        }
    );
    assert!(has_deleted, "two disks are enough");
}

/// More than an election takes, and than nodes take to notice each other.
const SLACK_MS: u64 = 3_000;
const NODES: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];

#[test]
fn transient_queues_of_a_node_that_stays_down_go_after_a_while_and_not_before() {
    for home in NODES {
        let mut world = world();
        let queue = world.declare_transient(home);
        let others = NODES.into_iter().filter(|node| *node != home);
        world.crash(home, &mut Random::new(1), false);
        world.wait(NODE_LOST_MS - SLACK_MS);
        assert!(others.clone().all(|node| world.knows_queue(node, queue)));
        world.wait(2 * SLACK_MS);
        assert!(others.clone().all(|node| !world.knows_queue(node, queue)));
    }
}

#[test]
fn a_node_that_is_cut_off_for_a_moment_keeps_its_transient_queues() {
    for home in NODES {
        let mut world = world();
        let queue = world.declare_transient(home);
        for _ in 0..3 {
            world.cut_off(home);
            world.wait(NODE_LOST_MS / 2);
            world.cut.clear();
            world.wait(SLACK_MS);
        }
        assert!(NODES.iter().all(|node| world.knows_queue(*node, queue)));
        world.cut_off(home);
        world.wait(NODE_LOST_MS + SLACK_MS);
        assert!(world.knows_queue(home, queue), "nobody can tell it");
        world.cut.clear();
        world.wait(SLACK_MS);
        assert!(NODES.iter().all(|node| !world.knows_queue(*node, queue)));
    }
}

#[test]
fn who_leads_the_catalogue_next_counts_the_time_of_a_lost_node_anew() {
    let mut world = world();
    let leader = world.catalogue_leader();
    let home = NODES.into_iter().find(|node| *node != leader);
    let home = home.expect("there are others");
    let next = NODES
        .into_iter()
        .find(|node| ![leader, home].contains(node));
    let next = next.expect("there are three");
    let queue = world.declare_transient(home);
    world.crash(home, &mut Random::new(1), false);
    world.wait(NODE_LOST_MS - SLACK_MS);
    let node = world.node(leader).expect("it is up");
    let cluster = node.env.cluster().expect("it is in the cluster");
    cluster.transfer(next);
    world.wait(2 * SLACK_MS);
    assert!(world.leads_catalogue(next) && world.knows_queue(next, queue));
    world.wait(NODE_LOST_MS);
    assert!(!world.knows_queue(leader, queue) && !world.knows_queue(next, queue));
}

#[test]
fn a_minority_deletes_nothing_and_a_majority_counts_from_its_beginning() {
    let mut world = world();
    let [alone, home, third] = NODES;
    let queue = world.declare_transient(home);
    for node in [home, third] {
        world.crash(node, &mut Random::new(1), false);
    }
    world.wait(2 * NODE_LOST_MS);
    assert!(world.knows_queue(alone, queue));
    world.start(third).expect("it starts");
    world.wait(NODE_LOST_MS - SLACK_MS);
    assert!(world.knows_queue(alone, queue));
    world.wait(3 * SLACK_MS);
    assert!(!world.knows_queue(alone, queue) && !world.knows_queue(third, queue));
}

/// A catalogue of more than may be under way to a node at a time is sent in pieces. When the link
/// breaks between two of them, or the leader dies, it is sent anew; and it is never there in part.
#[test]
fn a_large_catalogue_reaches_who_joins_through_broken_links_and_dead_leaders() {
    let break_link = |world: &mut World, leader, joined| world.blink(leader, joined);
    let kill_leader = |world: &mut World, leader, _| {
        world.crash(leader, &mut Random::new(1), false);
        for other in world.ids() {
            world.detect(other, leader);
        }
    };
    let faults: [fn(&mut World, NodeId, NodeId); 3] = [|_, _, _| (), break_link, kill_leader];
    for fault in faults {
        let mut world = world();
        let pieces = 3 * CATALOGUE_PIECES_UNDER_WAY;
        world.declare_large_exchanges(pieces);
        let leader = world.catalogue_leader();
        let joined = world.begin_to_join(&mut Random::new(1)).expect("it joins");
        let mut came = 0;
        for _ in 0..1_000 {
            for node in world.ids() {
                world.work(node).expect("all is well");
                world.sync(node, &mut Random::new(1));
            }
            let under_way = world.bytes_under_way(leader, joined);
            let most = (CATALOGUE_PIECES_UNDER_WAY + 1) * CATALOGUE_PIECE_BYTES;
            assert!(under_way < most, "{under_way} bytes");
            for (from, to) in world.directions() {
                world.deliver(from, to);
            }
            let left = world.bytes_under_way(leader, joined);
            came += usize::from(under_way - left >= CATALOGUE_PIECE_BYTES);
            if came == pieces / 2 {
                break;
            }
            world.pass(1);
        }
        assert_eq!(came, pieces / 2, "so many pieces come");
        assert_eq!(world.exchanges_of(joined), 0, "none is there in part");
        fault(&mut world, leader, joined);
        world.turns(5_000);
        assert_eq!(world.exchanges_of(joined), pieces);
    }
}

/// What it costs to write snapshots follows what is declared: after as many changes as the first
/// one took, there is no other one before they come to a part of it.
#[test]
fn a_large_catalogue_is_not_written_again_for_a_few_small_changes() {
    const LARGE: usize = 3;
    let mut world = world();
    world.declare_large_exchanges(LARGE);
    world.declare_small_exchange(1_030);
    let leader = world.catalogue_leader();
    let before = world.written_catalogue(leader);
    assert!(before.len() > LARGE * CATALOGUE_PIECE_BYTES * 9 / 10);
    world.declare_small_exchange(1_030);
    assert!(world.written_catalogue(leader) == before);
}

fn exchange(name: String, arguments: FieldTable) -> Command {
    Command::ExchangeDeclare {
        vhost: "/".to_owned(),
        name,
        kind: "fanout".to_owned(),
        durable: true,
        auto_delete: false,
        internal: false,
        arguments,
    }
}

impl World {
    /// Declares an exchange again and again: each time is an entry of the catalogue's log.
    fn declare_small_exchange(&mut self, times: usize) {
        for _ in 0..times {
            let declare = exchange("small".to_owned(), FieldTable::new());
            self.carry_out(&declare).expect("it is declared");
        }
    }

    /// The snapshot in a node's log of the catalogue.
    fn written_catalogue(&self, node: NodeId) -> Vec<u8> {
        let node = self.node(node).expect("it is up");
        let shard = node.env.shard(SHARD);
        shard.logs.state(CATALOGUE_GROUP_LOG).to_vec()
    }

    /// Exchanges with as much of arguments as about a piece of a catalogue has bytes, each.
    fn declare_large_exchanges(&mut self, count: usize) {
        for number in 0..count {
            let mut arguments = FieldTable::new();
            let value = FieldValue::LongString(vec![b'x'; CATALOGUE_PIECE_BYTES * 9 / 10]);
            arguments.set("note", value);
            let declare = exchange(format!("large-{number}"), arguments);
            self.carry_out(&declare).expect("it is declared");
        }
    }

    /// How many of these a node knows.
    fn exchanges_of(&self, node: NodeId) -> usize {
        let node = self.node(node).expect("it is up");
        let catalogue = node.env.catalogue.borrow();
        let Some(vhost) = catalogue.vhost("/") else {
            return 0;
        };
        let all = vhost.exchanges();
        all.filter(|exchange| exchange.name().starts_with("large-"))
            .count()
    }

    fn bytes_under_way(&self, from: NodeId, to: NodeId) -> usize {
        let wire = self.wires.get(&(from, to));
        wire.map_or(0, |frames| frames.iter().map(PeerFrame::len).sum())
    }

    /// A transient queue of a client at a node.
    fn declare_transient(&mut self, home: NodeId) -> QueueId {
        let command = Command::QueueDeclare {
            vhost: "/".to_owned(),
            name: "subscriber".to_owned(),
            durable: false,
            exclusive: None,
            auto_delete: false,
            arguments: FieldTable::new(),
            random: [0; 16],
            shards: 1,
            id: None,
        };
        let answer = self.ask(home, command).expect("it can be asked");
        self.turns(1_000);
        let outcome = answer.try_recv().expect("it has answered");
        let queue = outcome.expect("it is declared").queue;
        queue.expect("a queue")
    }

    /// Lets time pass; who is down stays down.
    fn wait(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds / TURN_MS {
            self.rest().expect("all is well");
            self.pass(TURN_MS);
            self.connect_all();
        }
    }

    fn cut_off(&mut self, node: NodeId) {
        let others = NODES.into_iter().filter(|other| *other != node);
        self.cut.extend(others.map(|other| (node, other)));
    }

    fn knows_queue(&self, node: NodeId, queue: QueueId) -> bool {
        let node = self.node(node).expect("it is up");
        node.env.catalogue.borrow().queue(queue).is_some()
    }

    fn leads_catalogue(&self, node: NodeId) -> bool {
        let cluster = self.node(node).and_then(|node| node.env.cluster());
        cluster.is_some_and(|cluster| cluster.status().role == Role::Leader)
    }

    fn catalogue_leader(&self) -> NodeId {
        let leader = self.ids().into_iter().find(|id| self.leads_catalogue(*id));
        leader.expect("somebody leads it")
    }

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

/// The only queue beside the view, and the view.
const DEAD: usize = 0;
const VIEW: usize = 1;

fn world_of_views() -> World {
    let random = &mut Random::new(1);
    World::new(&Plan::of_views(), random).expect("a cluster in which all is well")
}

/// All members of the view's group go back to what they were before a message was settled.
#[test]
fn a_settled_offset_that_is_lost_is_noticed() {
    let mut world = world_of_views();
    let publisher = world.come(NodeId(1), VIEW, Part::publisher());
    let consumer = world.come(NodeId(2), VIEW, Part::consumer());
    for _ in 0..3 {
        world.publish(publisher, 10);
    }
    world.turns(1_000);
    assert_eq!(world.ledger.deliveries, 3);
    let disks = world
        .hosts
        .iter()
        .map(|(id, host)| (*id, host.disk.files()));
    let disks: Vec<_> = disks.collect();
    world.answer(consumer, 0, Answered::Acknowledged);
    world.answer(consumer, 0, Answered::GivenBack);
    world.calm().expect("all is well");
    for (id, files) in disks {
        world.crash(id, &mut Random::new(1), false);
        world.hosts.get_mut(&id).expect("a host").disk = SimDisk::with(files);
    }
    world.calm().expect("all start on what they have");
    world.come(NodeId(3), VIEW, Part::consumer());
    let noticed = (0..40).find_map(|_| world.turn().err());
    let noticed = noticed.expect("it comes again");
    assert!(
        noticed.contains("comes again after it was settled"),
        "{noticed}"
    );
}

#[test]
fn what_is_rejected_of_a_view_is_owed_until_it_is_found_among_the_dead_letters() {
    let mut world = world_of_views();
    let publisher = world.come(NodeId(1), VIEW, Part::publisher());
    let consumer = world.come(NodeId(2), VIEW, Part::consumer());
    world.publish(publisher, 10);
    world.turns(1_000);
    world.answer(consumer, 0, Answered::Rejected);
    world.calm().expect("all is well");
    assert_eq!(world.ledger.owed(), [(1, VIEW)]);
    let dead = world.come(NodeId(3), DEAD, Part::consumer());
    world.turns(1_000);
    assert_eq!(world.ledger.deliveries, 2, "it is there");
    world.answer(dead, 0, Answered::Acknowledged);
    assert_eq!(world.ledger.owed(), []);
    let from_view = world.ledger.delivered(1, consumer, VIEW, true);
    assert!(from_view.is_err(), "it has left the view");
}
