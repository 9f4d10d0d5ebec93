//! The catalogue of a cluster: the same on every node, whatever is applied again, and who has what.

use leveret_metadata::{
    Batch, Catalogue, CatalogueError, Change, Command, Config, Endpoint, NodeRecord, Outcome,
    Proposed,
};
use leveret_types::limits::GROUP_MEMBERS_MAX;
use leveret_types::{FieldTable, FieldValue, NodeId, QueueId, ReplicaId};

fn first() -> NodeRecord {
    NodeRecord {
        node: 1,
        uuid: [1; 16],
        address: "a:1".to_owned(),
        name: "node-1".to_owned(),
        start: 0,
        applied: 0,
        draining: false,
        votes: true,
    }
}

/// The catalogues of two nodes, which are given the same batches.
struct World {
    nodes: [Catalogue; 2],
    up: Vec<u32>,
    next: u64,
    /// Whether the entries are those of an earlier version.
    older: bool,
}

impl World {
    /// A cluster of nodes 1 to `count`, all up, with virtual host `/`.
    fn new(count: u8) -> Self {
        let founded = || {
            let mut catalogue = Catalogue::new(Config::default());
            let listed: Vec<String> = (1..=64).map(|node| format!("{node}:1")).collect();
            catalogue.found(first(), &listed);
            catalogue
        };
        let mut world = Self {
            nodes: [founded(), founded()],
            up: (1..=u32::from(count)).collect(),
            next: 1,
            older: false,
        };
        world.done(1, vhost("/"));
        for node in 2..=count {
            let outcome = world.done(
                1,
                Command::NodeJoin {
                    uuid: [node; 16],
                    address: format!("{node}:1"),
                    name: format!("node-{node}"),
                },
            );
            assert_eq!(outcome.node, Some(NodeId(node.into())));
        }
        world
    }

    fn apply(&mut self, origin: u32, id: u64, command: Command) -> Answers {
        let mut rules = serde_json::to_value(self.nodes[0].rules()).expect("rules are data");
        if self.older {
            let rules = rules.as_object_mut().expect("rules have names");
            assert!(rules.remove("takes_turns").is_some());
            assert!(rules.remove("replaces_lost").is_some());
            assert!(rules.remove("argument_bytes_max").is_some());
        }
        let batch = Batch {
            rules: serde_json::from_value(rules).expect("rules of any version"),
            up: self.up.clone(),
            commands: vec![Proposed {
                origin,
                start: 7,
                id,
                command,
            }],
        };
        let batch = Batch::decode(&batch.encode()).expect("it was encoded");
        let [one, two] = &mut self.nodes;
        let answers = one.apply_batch(&batch);
        assert_eq!(answers, two.apply_batch(&batch));
        assert_eq!(one.snapshot(), two.snapshot());
        answers
    }

    fn ask(&mut self, origin: u32, command: Command) -> Result<Outcome, CatalogueError> {
        let id = self.next;
        self.next += 1;
        let mut answers = self.apply(origin, id, command);
        answers.pop().flatten().expect("it is new")
    }

    fn done(&mut self, origin: u32, command: Command) -> Outcome {
        self.ask(origin, command).expect("nothing is wrong with it")
    }

    fn declare(&mut self, origin: u32, name: &str, arguments: &[(&str, FieldValue)]) -> Vec<u32> {
        let mut table = FieldTable::new();
        for (key, value) in arguments {
            table.set(key, value.clone());
        }
        let outcome = self.done(
            origin,
            Command::QueueDeclare {
                vhost: "/".to_owned(),
                name: name.to_owned(),
                durable: true,
                exclusive: None,
                auto_delete: false,
                arguments: table,
                random: [0; 16],
                shards: 2,
                id: None,
            },
        );
        let queue = outcome.queue.expect("a queue");
        self.members(queue)
    }

    /// A policy for queues whose names begin with "ha".
    fn mirror(&mut self, mode: &str, params: Option<FieldValue>) {
        let mut definition = FieldTable::new();
        definition.set("ha-mode", FieldValue::text(mode));
        if let Some(params) = params {
            definition.set("ha-params", params);
        }
        self.done(1, policy(definition));
    }

    fn join(&mut self, node: u8) {
        self.done(
            1,
            Command::NodeJoin {
                uuid: [node; 16],
                address: format!("{node}:1"),
                name: format!("node-{node}"),
            },
        );
        self.up.push(node.into());
    }

    /// Sets the members that are due, until none are; answers the nodes that a queue has then,
    /// first the one that is to lead.
    fn reconciled(&mut self, name: &str) -> Vec<u32> {
        for _ in 0..10 {
            let record = self.nodes[0].queue_by_name("/", name).expect("it is there");
            let id = record.id();
            let up = self.up.clone();
            let due = self.nodes[0].members_due(record, |node| up.contains(&node.0));
            let Some(due) = due else {
                return self.members(id);
            };
            let command = Command::QueueMembers {
                id: id.0,
                members: due.iter().map(|member| member.0).collect(),
                size: None,
            };
            let outcome = self.done(1, command);
            assert_eq!(outcome.changes, [Change::QueueChanged(id)]);
        }
        panic!("queue {name} never has the members that are due");
    }

    fn members(&self, queue: leveret_types::QueueId) -> Vec<u32> {
        let record = self.nodes[0].queue(queue).expect("it is there");
        let members = record.members().iter();
        members.map(|member| member.node().0).collect()
    }
}

fn policy(definition: FieldTable) -> Command {
    Command::PolicySet {
        vhost: "/".to_owned(),
        name: "ha".to_owned(),
        operator: false,
        pattern: "^ha".to_owned(),
        apply_to: "queues".to_owned(),
        priority: 0,
        definition,
    }
}

type Answers = Vec<Option<Result<Outcome, CatalogueError>>>;

fn vhost(name: &str) -> Command {
    Command::VhostPut {
        vhost: name.to_owned(),
        description: None,
        tags: None,
        default_queue_type: None,
        protected: None,
        tracing: None,
    }
}

fn quorum() -> (&'static str, FieldValue) {
    ("x-queue-type", FieldValue::text("quorum"))
}

#[test]
fn what_is_applied_again_is_not_carried_out_again() {
    let mut world = World::new(1);
    let id = world.next;
    assert!(world.apply(1, id, vhost("x"))[0].is_some());
    assert_eq!(world.apply(1, id, vhost("x")), [None]);
    assert_eq!(world.apply(1, id - 1, vhost("y")), [None], "an older one");
    assert!(world.nodes[0].vhost("y").is_none());
}

#[test]
fn members_and_leaders_are_spread_and_who_is_down_is_left_out() {
    let mut world = World::new(5);
    let mut members = [0; 6];
    let mut leads = [0; 6];
    for number in 0..50 {
        let placed = world.declare(1, &format!("q-{number}"), &[quorum()]);
        assert_eq!(placed.len(), 3);
        leads[placed[0] as usize] += 1;
        placed.iter().for_each(|node| members[*node as usize] += 1);
    }
    assert_eq!(members[1..], [30; 5]);
    assert_eq!(leads[1..], [10; 5]);
    world.up = vec![1, 2, 4];
    let placed = world.declare(1, "while two are down", &[quorum()]);
    assert!(
        placed.iter().all(|node| [1, 2, 4].contains(node)),
        "{placed:?}"
    );
}

#[test]
fn no_policy_makes_a_group_of_a_classic_view() {
    let mut world = World::new(3);
    let stream = [("x-queue-type", FieldValue::text("stream"))];
    world.declare(1, "s", &stream);
    let source = [("x-stream-source", FieldValue::text("s"))];
    assert_eq!(world.declare(2, "ha-before", &source), [0; 0]);
    world.mirror("all", None);
    assert_eq!(world.declare(2, "ha-after", &source), [0; 0]);
    for view in ["ha-before", "ha-after"] {
        assert_eq!(world.reconciled(view), [0; 0]);
    }
    assert_eq!(world.declare(2, "ha-queue", &[]).len(), 3);
}

#[test]
fn a_node_shares_its_queues_with_all_others_who_lead_equally_many_when_it_is_gone() {
    const NODES: u32 = 10;
    const QUEUES: usize = 600;
    let mut world = World::new(NODES as u8);
    let mut together = std::collections::BTreeMap::new();
    let mut leads = [0_usize; NODES as usize + 1];
    for queue in 0..QUEUES {
        let members = world.declare(1, &format!("q{queue}"), &[quorum()]);
        leads[members[0] as usize] += 1;
        for other in members.iter().filter(|_| members.contains(&1)) {
            *together.entry(*other).or_insert(0_usize) += 1;
        }
    }
    let even = QUEUES / NODES as usize;
    assert!(
        leads[1..].iter().all(|led| led.abs_diff(even) <= 1),
        "{leads:?}"
    );
    // 180 queues have a member at node 1, and each of these has two more.
    let own = together.remove(&1).expect("it has members");
    assert!(own.abs_diff(3 * even) <= 3, "{own}");
    assert_eq!(together.len(), NODES as usize - 1);
    let even = 2 * own / (NODES as usize - 1);
    assert!(
        together
            .values()
            .all(|count| count.abs_diff(even) < even / 3),
        "{together:?}"
    );
}

#[test]
fn entries_of_an_earlier_version_give_the_members_that_they_gave_then() {
    let mut world = World::new(5);
    world.older = true;
    let members: Vec<Vec<u32>> = ["q1", "q2", "q3"]
        .map(|name| world.declare(1, name, &[quorum()]))
        .into();
    assert_eq!(members, [[1, 2, 3], [4, 5, 1], [2, 3, 4]]);
}

#[test]
fn arguments_say_how_many_members_and_who_leads() {
    let mut world = World::new(3);
    for (wanted, placed) in [(1, 1), (2, 2), (3, 3), (7, 3)] {
        let size = ("x-quorum-initial-group-size", FieldValue::I64(wanted));
        let name = format!("of {wanted}");
        assert_eq!(world.declare(1, &name, &[quorum(), size]).len(), placed);
    }
    for origin in [1, 2, 3, 3] {
        let local = ("x-queue-leader-locator", FieldValue::text("client-local"));
        let name = format!("at {origin} {}", world.next);
        assert_eq!(world.declare(origin, &name, &[quorum(), local])[0], origin);
    }
}

#[test]
fn mirrored_queues_are_replicated_as_their_policy_says() {
    for (mode, params, expected) in [
        ("all", None, vec![1, 2, 3]),
        ("exactly", Some(FieldValue::I64(2)), vec![1, 2]),
        (
            "nodes",
            Some(FieldValue::Array(vec![
                FieldValue::text("node-3"),
                FieldValue::text("elsewhere"),
            ])),
            vec![3],
        ),
    ] {
        let mut world = World::new(3);
        world.mirror(mode, params);
        let mut placed = world.declare(1, "ha", &[]);
        placed.sort_unstable();
        assert_eq!(placed, expected, "{mode}");
        assert!(world.declare(1, "other", &[]).is_empty(), "no policy");
    }
}

#[test]
fn a_node_that_is_forgotten_leaves_groups_and_takes_what_it_had_alone() {
    let mut world = World::new(3);
    world.declare(3, "alone", &[]);
    let shared = world.declare(1, "shared", &[quorum()]);
    assert_eq!(shared.len(), 3);
    let outcome = world.done(1, Command::NodeForget { node: 3 });
    assert_eq!(outcome.changes[0], Change::NodesChanged);
    let catalogue = &world.nodes[0];
    assert!(catalogue.queue_by_name("/", "alone").is_none());
    let shared = catalogue.queue_by_name("/", "shared").expect("it stays");
    assert_eq!(shared.members().len(), 2);
    let again = Command::NodeJoin {
        uuid: [9; 16],
        address: "3:1".to_owned(),
        name: "node-3".to_owned(),
    };
    assert_eq!(
        world.done(1, again).node,
        Some(NodeId(4)),
        "no number twice"
    );
    for node in [2, 4] {
        world.done(1, Command::NodeForget { node });
    }
    let last = world.ask(1, Command::NodeForget { node: 1 });
    assert_eq!(last, Err(CatalogueError::LastNode(NodeId(1))));
}

/// A node that joins with nobody having listed it.
fn stranger(uuid: u8) -> Command {
    Command::NodeJoin {
        uuid: [uuid; 16],
        address: "elsewhere:1".to_owned(),
        name: format!("node-{uuid}"),
    }
}

fn votes(world: &World, node: u32) -> bool {
    let record = world.nodes[0].node(NodeId(node));
    record.expect("it is there").votes
}

#[test]
fn a_node_that_joins_gets_members_of_queues_when_it_votes_and_not_before() {
    let mut world = World::new(1);
    world.done(1, stranger(2));
    world.up.push(2);
    assert!(votes(&world, 1) && !votes(&world, 2));
    assert_eq!(world.declare(2, "q", &[quorum()]), [1]);
    assert_eq!(world.reconciled("q"), [1]);
    world.mirror("all", None);
    assert_eq!(world.declare(1, "ha", &[]), [1]);
    world.done(1, Command::NodePromote { node: 2 });
    assert!(votes(&world, 2));
    assert_eq!(world.reconciled("q"), [1, 2]);
    assert_eq!(world.reconciled("ha"), [1, 2]);
    assert_eq!(world.declare(2, "next", &[quorum()]).len(), 2);
    let unknown = world.ask(1, Command::NodePromote { node: 9 });
    assert_eq!(unknown, Err(CatalogueError::NoNode(NodeId(9))));
}

#[test]
fn the_first_node_of_each_listed_address_votes_and_the_next_one_there_does_not() {
    let mut world = World::new(3);
    assert!([1, 2, 3].iter().all(|node| votes(&world, *node)));
    world.done(1, Command::NodeForget { node: 2 });
    world.done(
        1,
        Command::NodeJoin {
            uuid: [77; 16],
            address: "2:1".to_owned(),
            name: "node-2".to_owned(),
        },
    );
    assert!(!votes(&world, 4), "its disk is another one");
    // It hears again that it is in, and that changes nothing.
    world.done(1, stranger(77));
    assert!(!votes(&world, 4));
}

#[test]
fn a_node_without_a_vote_is_forgotten_like_any_and_the_last_one_with_a_vote_is_not() {
    let mut world = World::new(1);
    world.done(1, stranger(2));
    let last = world.ask(2, Command::NodeForget { node: 1 });
    assert_eq!(last, Err(CatalogueError::LastNode(NodeId(1))));
    world.done(1, Command::NodeForget { node: 2 });
    assert!(world.nodes[0].has_forgotten(NodeId(2)));
}

#[test]
fn a_snapshot_has_the_cluster_and_what_does_not_survive_a_single_nodes_restart() {
    let mut world = World::new(3);
    world.declare(2, "classic", &[]);
    world.declare(1, "quorum", &[quorum()]);
    let mut exclusive = Command::QueueDeclare {
        vhost: "/".to_owned(),
        name: "exclusive".to_owned(),
        durable: false,
        exclusive: Some(2 << 52 | 5),
        auto_delete: false,
        arguments: FieldTable::new(),
        random: [0; 16],
        shards: 2,
        id: None,
    };
    world.done(2, exclusive.clone());
    let bytes = world.nodes[0].snapshot();
    let restored = Catalogue::restore(Config::default(), &bytes).expect("it was made here");
    assert_eq!(restored.snapshot(), bytes);
    let home = |name| restored.queue_by_name("/", name).map(|queue| queue.home());
    assert_eq!(home("classic"), Some(NodeId(2)));
    assert_eq!(home("exclusive"), Some(NodeId(2)));
    // The two go on alike, ids of queues included.
    world.nodes[1] = restored;
    if let Command::QueueDeclare { name, .. } = &mut exclusive {
        "another".clone_into(name);
    }
    world.done(2, exclusive);
    world.declare(3, "later", &[quorum()]);
    let started = Command::NodeStarted {
        node: 2,
        address: "2:2".to_owned(),
        name: "node-2".to_owned(),
    };
    world.done(2, started);
    let catalogue = &world.nodes[1];
    for (name, stays) in [
        ("exclusive", false),
        ("another", false),
        ("classic", true),
        ("quorum", true),
    ] {
        assert_eq!(
            catalogue.queue_by_name("/", name).is_some(),
            stays,
            "{name}"
        );
    }
}

#[test]
fn a_queue_that_was_declared_before_all_nodes_had_come_gets_its_members_when_they_come() {
    let mut world = World::new(1);
    assert_eq!(world.declare(1, "q", &[quorum()]), [1]);
    assert_eq!(world.reconciled("q"), [1], "there is nobody else");
    world.join(2);
    assert_eq!(world.reconciled("q"), [1, 2]);
    world.join(3);
    world.up.retain(|node| *node != 3);
    assert_eq!(world.reconciled("q"), [1, 2], "it is down");
    world.up.push(3);
    assert_eq!(world.reconciled("q"), [1, 2, 3]);
    world.join(4);
    assert_eq!(
        world.reconciled("q"),
        [1, 2, 3],
        "it has all that it is to have"
    );
    world.done(1, Command::NodeForget { node: 2 });
    assert_eq!(world.reconciled("q"), [1, 3, 4]);
    let record = world.nodes[0].queue_by_name("/", "q").expect("it stays");
    let ids: std::collections::BTreeSet<_> = record.members().iter().map(|m| m.0).collect();
    assert_eq!(ids.len(), 3);
    let incarnations = record.members().iter().map(|m| m.0 as u32);
    assert_eq!(
        incarnations.filter(|number| *number == 0).count(),
        1,
        "the founder"
    );
}

impl World {
    fn replicas(&self, queue: QueueId) -> Vec<ReplicaId> {
        let record = self.nodes[0].queue(queue).expect("it is there");
        record.members().to_vec()
    }

    fn set_members(&mut self, origin: u32, queue: QueueId, members: &[ReplicaId]) {
        let command = Command::QueueMembers {
            id: queue.0,
            members: members.iter().map(|member| member.0).collect(),
            size: None,
        };
        self.done(origin, command);
    }
}

#[test]
fn no_membership_is_given_twice_although_nodes_lag_behind_that_are_asked_for_it() {
    let mut world = World::new(4);
    world.declare(1, "q", &[quorum()]);
    let record = world.nodes[0].queue_by_name("/", "q").expect("declared");
    let queue = record.id();
    let founders = world.replicas(queue);
    let mut ever: std::collections::BTreeSet<ReplicaId> = founders.iter().copied().collect();
    let out = founders[2].node();
    let outsider = (1..=4)
        .map(NodeId)
        .find(|node| founders.iter().all(|m| m.node() != *node));
    let rest: Vec<ReplicaId> = founders
        .iter()
        .copied()
        .filter(|m| m.node() != out)
        .collect();
    // Two operators saw the same catalogue: both bring the node back, with the same number.
    world.set_members(1, queue, &rest);
    let seen = world.nodes[0].next_incarnation();
    let mut grown = rest.clone();
    grown.push(ReplicaId::new(out, seen));
    world.set_members(1, queue, &grown);
    let first = *world.replicas(queue).last().expect("it has three");
    assert!(ever.insert(first), "{first:?} was a member before");
    world.set_members(2, queue, &grown);
    assert_eq!(
        world.replicas(queue),
        [&rest[..], &[first]].concat(),
        "it is there"
    );
    // The second one again, when the first has taken the node out once more.
    world.set_members(1, queue, &rest);
    world.set_members(2, queue, &grown);
    let second = *world.replicas(queue).last().expect("it has three");
    assert_eq!(second.node(), out);
    assert!(ever.insert(second), "{second:?} was a member before");
    // One that has heard of nothing since the beginning, and wants one member more.
    let mut stale = founders.clone();
    stale.push(ReplicaId::new(outsider.expect("there are four"), 1));
    world.set_members(2, queue, &stale);
    let now = world.replicas(queue);
    assert_eq!(now.len(), 4);
    assert!(now.contains(&second), "{now:?}: it stays who it was");
    world.set_members(1, queue, &rest);
    world.set_members(2, queue, &founders);
    let third = world.replicas(queue).into_iter().find(|m| m.node() == out);
    assert!(
        ever.insert(third.expect("it is back")),
        "{third:?} was a member before"
    );
    // Nor does a node get two.
    let twice: Vec<ReplicaId> = founders.iter().chain(&founders).copied().collect();
    world.set_members(2, queue, &twice);
    assert_eq!(world.replicas(queue).len(), 3);
}

#[test]
fn a_target_says_how_many_members_a_group_is_to_have_and_nothing_takes_them_away() {
    let mut world = World::new(5);
    let target = ("x-quorum-target-group-size", FieldValue::I64(5));
    assert_eq!(
        world.declare(1, "by argument", &[quorum(), target]).len(),
        3
    );
    assert_eq!(world.reconciled("by argument").len(), 5);
    assert_eq!(world.declare(1, "ha by policy", &[quorum()]).len(), 3);
    let target = FieldTable::from([("target-group-size", FieldValue::I64(4))]);
    world.done(1, policy(target));
    assert_eq!(world.reconciled("ha by policy").len(), 4);
    let name = "ha by policy".to_owned();
    let clear = Command::PolicyClear {
        vhost: "/".to_owned(),
        name: "ha".to_owned(),
        operator: false,
    };
    world.done(1, clear);
    assert_eq!(
        world.reconciled(&name).len(),
        4,
        "no policy takes members away"
    );
}

#[test]
fn what_an_operator_has_taken_away_does_not_come_back_by_itself() {
    let mut world = World::new(3);
    world.declare(1, "q", &[quorum()]);
    let record = world.nodes[0].queue_by_name("/", "q").expect("it is there");
    let (id, first) = (record.id().0, record.members()[0].0);
    let command = Command::QueueMembers {
        id,
        members: vec![first],
        size: Some(1),
    };
    world.done(1, command);
    assert_eq!(world.reconciled("q").len(), 1);
    let bytes = world.nodes[0].snapshot();
    world.nodes[0] = Catalogue::restore(Config::default(), &bytes).expect("it was made here");
    assert_eq!(world.reconciled("q").len(), 1, "a snapshot has that");
}

#[test]
fn a_policy_for_mirrors_gives_queues_that_are_there_their_members_and_takes_them_away() {
    let mut world = World::new(4);
    assert!(world.declare(2, "ha", &[]).is_empty());
    assert!(world.declare(2, "other", &[]).is_empty());
    world.mirror("all", None);
    let from_where_it_lives = world.reconciled("ha");
    assert_eq!(from_where_it_lives[0], 2);
    assert_eq!(from_where_it_lives.len(), 4);
    assert!(
        world.reconciled("other").is_empty(),
        "the policy is not for it"
    );
    world.join(5);
    assert_eq!(
        world.reconciled("ha"),
        [&from_where_it_lives[..], &[5]].concat()
    );
    world.mirror("exactly", Some(FieldValue::I64(2)));
    world.up.retain(|node| *node != 5);
    let two = world.reconciled("ha");
    assert_eq!(two, from_where_it_lives[..2], "who is down goes first");
    world.up.push(5);
    let nodes = ["node-3", "node-4", "elsewhere"].map(FieldValue::text);
    world.mirror("nodes", Some(FieldValue::Array(nodes.into())));
    let named = world.reconciled("ha");
    assert!(named == [3, 4] || named == [4, 3], "{named:?}");
    let nodes = FieldValue::Array(vec![FieldValue::text("elsewhere")]);
    world.mirror("nodes", Some(nodes));
    assert_eq!(
        world.reconciled("ha"),
        named,
        "nobody could have it instead"
    );
    world.done(
        1,
        policy(FieldTable::from([("max-length", FieldValue::I64(9))])),
    );
    assert_eq!(world.reconciled("ha"), named[..1]);
}

#[test]
fn a_queue_is_made_a_replicated_one_only_where_it_lives_and_only_if_it_lasts() {
    let mut world = World::new(3);
    world.declare(2, "classic", &[]);
    let record = world.nodes[0].queue_by_name("/", "classic").expect("it is");
    let id = record.id().0;
    let on = |node: u64| Command::QueueMembers {
        id,
        members: vec![node << 32],
        size: None,
    };
    let elsewhere = world.ask(1, on(1));
    assert!(matches!(
        elsewhere,
        Err(CatalogueError::NotReplicated { .. })
    ));
    assert!(world.ask(1, on(9)).is_err(), "there is no such node");
    world.done(1, on(2));
    world.mirror("all", None);
    let exclusive = Command::QueueDeclare {
        vhost: "/".to_owned(),
        name: "ha exclusive".to_owned(),
        durable: true,
        exclusive: Some(2 << 52 | 5),
        auto_delete: false,
        arguments: FieldTable::new(),
        random: [0; 16],
        shards: 2,
        id: None,
    };
    world.done(2, exclusive);
    assert!(world.reconciled("ha exclusive").is_empty());
}

#[test]
fn what_arguments_may_come_to_is_what_the_leader_says_and_entries_of_older_ones_have_no_bound() {
    let mut world = World::new(3);
    let small = Config {
        argument_bytes_max: 1,
        ..Config::default()
    };
    let bytes = world.nodes[0].snapshot();
    world.nodes[0] = Catalogue::restore(small, &bytes).expect("it was made here");
    let limit = || policy(FieldTable::from([("max-length", FieldValue::I32(1))]));
    let refused = world.ask(1, limit());
    assert_eq!(refused, Err(CatalogueError::ArgumentBytes { max_mb: 1 }));
    world.older = true;
    world.done(1, limit());
    let counted: Vec<u64> = world.nodes.iter().map(Catalogue::argument_bytes).collect();
    assert!(counted[0] > 1 && counted[0] == counted[1], "{counted:?}");
}

#[test]
fn a_group_has_no_more_members_than_a_group_may_have() {
    let most = GROUP_MEMBERS_MAX as u8;
    for (nodes, members) in [(most, most), (most + 1, most)] {
        let mut world = World::new(nodes);
        world.declare(1, "ha early", &[]);
        world.mirror("all", None);
        assert_eq!(world.reconciled("ha early").len(), members as usize);
        assert_eq!(world.declare(1, "ha late", &[]).len(), members as usize);
    }
}

/// A declaration of a queue that does not survive a restart: a connection's own, or a transient
/// one.
fn passing(name: &str, exclusive: Option<u64>) -> Command {
    Command::QueueDeclare {
        vhost: "/".to_owned(),
        name: name.to_owned(),
        durable: exclusive.is_some(),
        exclusive,
        auto_delete: false,
        arguments: FieldTable::new(),
        random: [0; 16],
        shards: 2,
        id: None,
    }
}

/// The connection of that number at node 2.
fn connection(number: u64) -> Option<u64> {
    Some(2 << 52 | number)
}

impl World {
    /// An exclusive, a transient, a classic and a quorum queue of clients at node 2, and a
    /// transient one at node 1.
    fn with_queues_at_two() -> Self {
        let mut world = Self::new(3);
        world.done(2, passing("exclusive", connection(5)));
        world.done(2, passing("transient", None));
        world.declare(2, "classic", &[]);
        world.declare(2, "quorum", &[quorum()]);
        world.done(1, passing("elsewhere", None));
        world
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.nodes[0]
            .queues(None)
            .map(|queue| queue.name().to_owned())
            .collect();
        names.sort_unstable();
        names
    }

    fn id(&self, name: &str) -> QueueId {
        let queue = self.nodes[0].queue_by_name("/", name);
        queue.expect("it is there").id()
    }
}

#[test]
fn what_lives_with_a_nodes_process_goes_when_its_run_is_lost_and_nothing_else_does() {
    let mut world = World::with_queues_at_two();
    let lost = |start| Command::NodeLost { node: 2, start };
    assert_eq!(
        world.done(1, lost(7)),
        Outcome::default(),
        "it is up again by then"
    );
    world.up.retain(|node| *node != 2);
    for other in [6, 8] {
        assert_eq!(
            world.done(1, lost(other)),
            Outcome::default(),
            "another run of it is meant"
        );
    }
    let has = |world: &World, node| world.nodes[0].has_transient_queues(NodeId(node));
    assert!(has(&world, 1) && has(&world, 2) && !has(&world, 3));
    let mut gone: Vec<QueueId> = vec![world.id("exclusive"), world.id("transient")];
    gone.sort_unstable();
    let outcome = world.done(1, lost(7));
    let deleted = outcome.changes.iter().map(|change| match change {
        Change::QueueDeleted(record) => record.id(),
        other => panic!("{other:?}"),
    });
    assert_eq!(deleted.collect::<Vec<_>>(), gone);
    assert_eq!(world.names(), ["classic", "elsewhere", "quorum"]);
    assert!(has(&world, 1) && !has(&world, 2));
    assert_eq!(world.done(1, lost(7)), Outcome::default());
    let unknown = world.ask(1, Command::NodeLost { node: 9, start: 7 });
    assert_eq!(unknown, Err(CatalogueError::NoNode(NodeId(9))));
}

#[test]
fn a_declaration_replaces_a_queue_that_went_with_its_nodes_process() {
    let mut world = World::with_queues_at_two();
    world.done(2, bind("exclusive"));
    world.done(2, bind("transient"));
    let (exclusive, transient) = (world.id("exclusive"), world.id("transient"));
    // As many queues as there may be: a replacement is not one more.
    world.done(
        1,
        Command::VhostLimitSet {
            vhost: "/".to_owned(),
            limit: "max-queues".to_owned(),
            value: 5,
        },
    );
    let again = passing("exclusive", Some(1 << 52 | 1));
    let locked = world.ask(1, again.clone());
    assert!(matches!(locked, Err(CatalogueError::Locked { .. })));
    let known = world.done(1, passing("transient", None));
    assert_eq!((known.queue, known.created), (Some(transient), false));
    world.up.retain(|node| *node != 2);
    for (command, before) in [(again, exclusive), (passing("transient", None), transient)] {
        let outcome = world.done(1, command.clone());
        let queue = outcome.queue.expect("a queue");
        assert!(outcome.created && queue != before);
        match &outcome.changes[..] {
            [Change::QueueDeleted(gone), Change::QueueCreated(created)] => {
                assert_eq!((gone.id(), *created), (before, queue));
            }
            other => panic!("{other:?}"),
        }
        let record = world.nodes[0].queue(queue).expect("it is there");
        assert_eq!(record.home(), NodeId(1));
        let known = world.done(1, command);
        assert_eq!((known.queue, known.created), (Some(queue), false));
    }
    let vhost = world.nodes[0].vhost("/").expect("it is there");
    let bound = vhost.router().bindings_from("amq.fanout").count();
    assert_eq!(bound, 0, "the new queues are bound to nothing yet");
}

#[test]
fn a_declaration_leaves_a_queue_alone_that_outlives_its_nodes_process() {
    let mut world = World::with_queues_at_two();
    let classic = world.id("classic");
    world.up.retain(|node| *node != 2);
    let mut again = passing("classic", None);
    if let Command::QueueDeclare { durable, .. } = &mut again {
        *durable = true;
    }
    let known = world.done(1, again);
    assert_eq!((known.queue, known.created), (Some(classic), false));
    // A node that asks is there, whatever the leader has heard of it.
    let transient = world.id("transient");
    let known = world.done(2, passing("transient", None));
    assert_eq!((known.queue, known.created), (Some(transient), false));
}

/// They are carried out again as they were.
#[test]
fn no_declaration_in_entries_of_an_older_version_replaces_a_queue() {
    let mut world = World::with_queues_at_two();
    let transient = world.id("transient");
    world.older = true;
    world.up.retain(|node| *node != 2);
    let known = world.done(1, passing("transient", None));
    assert_eq!((known.queue, known.created), (Some(transient), false));
}

fn bind(queue: &str) -> Command {
    Command::Bind {
        vhost: "/".to_owned(),
        source: "amq.fanout".to_owned(),
        destination: Endpoint::Queue(queue.to_owned()),
        routing_key: b"k".to_vec(),
        arguments: FieldTable::new(),
    }
}
