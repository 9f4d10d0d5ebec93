//! Replicated streams in the catalogue: where they are placed, who leads them, who has them.

use leveret_metadata::{
    Batch, Catalogue, CatalogueError, Change, Command, Config, NodeRecord, Outcome, Proposed,
    QueueRecord,
};
use leveret_types::{FieldTable, FieldValue, NodeId, QueueId};

/// A cluster of three nodes with the virtual host `/`.
struct World {
    catalogue: Catalogue,
    next: u64,
}

impl World {
    fn new() -> Self {
        let mut catalogue = Catalogue::new(Config::default());
        let listed = [2, 3].map(|node| format!("{node}:1"));
        let first = NodeRecord {
            node: 1,
            uuid: [1; 16],
            address: "1:1".to_owned(),
            name: "node-1".to_owned(),
            start: 0,
            applied: 0,
            draining: false,
            votes: true,
        };
        catalogue.found(first, &listed);
        let mut world = Self { catalogue, next: 1 };
        world.done(Command::VhostPut {
            vhost: "/".to_owned(),
            description: None,
            tags: None,
            default_queue_type: None,
            protected: None,
            tracing: None,
        });
        for node in 2..=3 {
            world.done(Command::NodeJoin {
                uuid: [node; 16],
                address: format!("{node}:1"),
                name: format!("node-{node}"),
            });
        }
        world
    }

    fn ask(&mut self, command: Command) -> Result<Outcome, CatalogueError> {
        let id = self.next;
        self.next += 1;
        let proposed = Proposed {
            origin: 1,
            start: 7,
            id,
            command,
        };
        let batch = Batch {
            rules: self.catalogue.rules(),
            up: vec![1, 2, 3],
            commands: vec![proposed],
        };
        let batch = Batch::decode(&batch.encode()).expect("it was encoded");
        let mut answers = self.catalogue.apply_batch(&batch);
        answers.pop().flatten().expect("it is new")
    }

    fn done(&mut self, command: Command) -> Outcome {
        self.ask(command).expect("nothing is wrong with it")
    }

    fn declare(&mut self, name: &str, size: Option<i64>) -> QueueId {
        let mut arguments = FieldTable::from([("x-queue-type", FieldValue::text("stream"))]);
        if let Some(size) = size {
            arguments.set("x-initial-cluster-size", FieldValue::I64(size));
        }
        let declared = self.done(Command::QueueDeclare {
            vhost: "/".to_owned(),
            name: name.to_owned(),
            durable: true,
            exclusive: None,
            auto_delete: false,
            arguments,
            random: [0; 16],
            shards: 2,
            id: None,
        });
        declared.queue.expect("a stream")
    }

    fn record(&self, stream: QueueId) -> &QueueRecord {
        self.catalogue.queue(stream).expect("it is there")
    }

    fn members(&self, stream: QueueId) -> Vec<u32> {
        let members = self.record(stream).members().iter();
        members.map(|member| member.node().0).collect()
    }

    /// Whether this begins an epoch.
    fn lead(&mut self, stream: QueueId, after: u64, epoch: u64, leader: u32) -> bool {
        let outcome = self.done(Command::StreamLeader {
            stream: stream.0,
            after,
            epoch,
            leader,
        });
        outcome.changes == [Change::QueueChanged(stream)]
    }

    fn change(
        &mut self,
        stream: QueueId,
        before: &[u32],
        members: &[u32],
    ) -> Result<bool, CatalogueError> {
        let outcome = self.ask(Command::StreamMembers {
            stream: stream.0,
            before: before.to_vec(),
            members: members.to_vec(),
        })?;
        Ok(outcome.changes == [Change::QueueChanged(stream)])
    }
}

#[test]
fn streams_are_spread_over_the_nodes_and_so_are_their_leaders() {
    let mut world = World::new();
    let all: Vec<QueueId> = (0..6)
        .map(|n| world.declare(&format!("s{n}"), None))
        .collect();
    for node in 1..=3 {
        let led = all
            .iter()
            .filter(|s| world.record(**s).home() == NodeId(node));
        assert_eq!(led.count(), 2, "node {node}");
    }
    assert!(all.iter().all(|s| world.members(*s).len() == 3));
    assert!(all.iter().all(|s| world.record(*s).epoch() == 1));
    let one = world.declare("one", Some(1));
    assert_eq!(world.members(one), [world.record(one).home().0]);
    let more = world.declare("more", Some(100));
    assert_eq!(world.members(more).len(), 3);
}

#[test]
fn an_epoch_has_one_leader_which_is_a_member() {
    let mut world = World::new();
    let stream = world.declare("s", Some(2));
    let members = world.members(stream);
    let stranger = (1..=3).find(|node| !members.contains(node)).expect("one");
    assert!(!world.lead(stream, 1, 2, stranger));
    assert!(!world.lead(stream, 1, 1, members[1]), "no later epoch");
    assert!(world.lead(stream, 1, 4, members[1]));
    assert!(!world.lead(stream, 1, 4, members[0]), "somebody was first");
    let record = world.record(stream);
    assert_eq!((record.epoch(), record.home()), (4, NodeId(members[1])));
    assert!(!world.lead(QueueId(1), 0, 1, 1), "no stream");
}

#[test]
fn members_change_one_at_a_time_and_the_leader_stays() {
    let mut world = World::new();
    let stream = world.declare("s", Some(1));
    let leader = world.record(stream).home().0;
    let [second, third] = [1, 2].map(|step| (leader - 1 + step) % 3 + 1);
    let refused = |result: Result<bool, CatalogueError>| {
        matches!(result, Err(CatalogueError::StreamMembers { .. }))
    };
    assert!(refused(world.change(
        stream,
        &[leader],
        &[leader, second, third]
    )));
    assert!(refused(world.change(stream, &[leader], &[leader, leader])));
    assert_eq!(world.change(stream, &[leader], &[leader, second]), Ok(true));
    let late = world.change(stream, &[leader], &[leader, third]);
    assert_eq!(late, Ok(false), "they are others by then");
    assert!(refused(world.change(stream, &[leader, second], &[second])));
    assert!(world.lead(stream, 1, 2, second));
    assert_eq!(world.change(stream, &[leader, second], &[second]), Ok(true));
    assert_eq!(world.members(stream), [second]);
    let unknown = world.change(stream, &[second], &[second, 9]);
    assert_eq!(unknown, Err(CatalogueError::NoNode(NodeId(9))));
    let queue = Command::QueueMembers {
        id: stream.0,
        members: vec![1],
        size: None,
    };
    assert!(world.ask(queue).is_err(), "that is for queues");
}

#[test]
fn a_stream_grows_to_what_it_was_declared_with_unless_an_operator_took_a_replica_away() {
    let mut world = World::new();
    let stream = world.declare("s", Some(2));
    let members = world.members(stream);
    let leader = world.record(stream).home().0;
    let due = |world: &World, up: &[u32]| {
        let is_up = |node: NodeId| up.contains(&node.0);
        let record = world.record(stream);
        world.catalogue.stream_member_due(record, is_up)
    };
    assert_eq!(due(&world, &[1, 2, 3]), None, "it has what it should have");
    assert_eq!(world.change(stream, &members, &[leader]), Ok(true));
    assert_eq!(due(&world, &[1, 2, 3]), None, "it was taken away");
    // Declared with more replicas than there are nodes.
    let more = world.declare("more", Some(5));
    assert_eq!(world.record(more).group_size(), 5);
    let due_of = |world: &World| {
        let record = world.record(more);
        world.catalogue.stream_member_due(record, |_| true)
    };
    assert_eq!(due_of(&world), None, "nobody is left");
    let has = world.members(more);
    let leads = world.record(more).home().0;
    let gone = *has.iter().find(|node| **node != leads).expect("a follower");
    let left: Vec<u32> = has.iter().copied().filter(|node| *node != gone).collect();
    assert_eq!(world.change(more, &has, &left), Ok(true));
    assert_eq!(due_of(&world), None);
    let again: Vec<u32> = left.iter().copied().chain([gone]).collect();
    assert_eq!(world.change(more, &left, &again), Ok(true));
    assert_eq!(world.record(more).group_size(), 3);
}

#[test]
fn groups_that_retention_waits_for_are_said_by_an_argument_and_checked() {
    let mut world = World::new();
    let declare = |name: &str, groups: &str| Command::QueueDeclare {
        vhost: "/".to_owned(),
        name: name.to_owned(),
        durable: true,
        exclusive: None,
        auto_delete: false,
        arguments: FieldTable::from([
            ("x-queue-type", FieldValue::text("stream")),
            ("x-retention-groups", FieldValue::text(groups)),
            ("x-retention-groups-alarm-bytes", FieldValue::I64(5_000)),
        ]),
        random: [0; 16],
        shards: 2,
        id: None,
    };
    let declared = world.done(declare("s", "billing, search"));
    let record = world.record(declared.queue.expect("a stream"));
    let settings = record.settings().stream.as_deref().expect("a stream's");
    let names = settings.retention_groups.iter().map(|name| name.as_bytes());
    assert!(names.eq([&b"billing"[..], b"search"]));
    assert_eq!(settings.retention_alarm_bytes, 5_000);
    for groups in ["", "billing,,search", &vec!["g"; 1_000].concat()] {
        let refused = world.ask(declare("other", groups));
        assert!(refused.is_err(), "{groups}");
    }
}

#[test]
fn a_snapshot_has_who_leads_and_that_of_an_older_version_has_streams_of_one_node() {
    let mut world = World::new();
    let stream = world.declare("s", None);
    let second = world.members(stream)[1];
    assert!(world.lead(stream, 1, 2, second));
    let bytes = world.catalogue.snapshot();
    let restored = Catalogue::restore(Config::default(), &bytes).expect("it was made here");
    assert_eq!(restored.snapshot(), bytes);
    assert_eq!(restored.queue(stream), Some(world.record(stream)));
    // What older versions wrote had no epochs, and what has none is written as they did.
    let has = |bytes: &[u8], text: &[u8]| bytes.windows(text.len()).any(|part| part == text);
    assert!(has(&bytes, b"epoch"));
    world.done(Command::queue_delete("/", "s", stream));
    assert!(!has(&world.catalogue.snapshot(), b"epoch"));
}

#[test]
fn the_bytes_of_the_commands_stay() {
    let leader = Command::StreamLeader {
        stream: 7,
        after: 1,
        epoch: 2,
        leader: 3,
    };
    let members = Command::StreamMembers {
        stream: 7,
        before: vec![1],
        members: vec![1, 2],
    };
    let hex = |bytes: Vec<u8>| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    assert_eq!(
        hex(leader.encode()),
        "01a16c53747265616d4c6561646572a46673747265616d076561667465720165\
         65706f636802666c656164657203"
    );
    assert_eq!(
        hex(members.encode()),
        "01a16d53747265616d4d656d62657273a36673747265616d07666265666f7265\
         8101676d656d62657273820102"
    );
    for command in [leader, members] {
        assert_eq!(Command::decode(&command.encode()), Ok(command));
    }
}

/// A super stream of streams that are there.
fn super_stream(name: &str, partitions: &[(&str, &str)]) -> Command {
    let owned = |(stream, key): &(&str, &str)| ((*stream).to_owned(), (*key).to_owned());
    Command::SuperStreamDeclare {
        vhost: "/".to_owned(),
        name: name.to_owned(),
        arguments: FieldTable::from([("x-super-stream", FieldValue::Bool(true))]),
        partitions: partitions.iter().map(owned).collect(),
    }
}

#[test]
fn a_super_stream_is_made_with_all_of_its_partitions_in_one() {
    let mut world = World::new();
    world.declare("a", None);
    world.declare("b", None);
    let command = super_stream("s", &[("b", "first"), ("a", "second")]);
    assert!(world.catalogue.would_create(&command));
    let made = world.done(command.clone());
    assert!(made.created);
    let of_binding = |change: &&Change| matches!(change, Change::Bound { .. });
    assert_eq!(made.changes.iter().filter(of_binding).count(), 2);
    assert_eq!(made.log.len(), 3, "the exchange and its bindings");
    let router = world.catalogue.vhost("/").expect("it is there").router();
    let partitions = router.partitions("s").into_iter();
    let partitions: Vec<&str> = partitions.map(|partition| partition.stream).collect();
    assert_eq!(partitions, ["b", "a"]);
    // One that is there is left as it is.
    assert!(!world.catalogue.would_create(&command));
    let again = world.done(super_stream("s", &[("a", "another")]));
    assert_eq!(again, Outcome::default());
}

#[test]
fn nothing_is_left_of_a_super_stream_of_which_a_partition_cannot_be_bound() {
    let mut world = World::new();
    world.declare("a", None);
    let bytes = world.catalogue.argument_bytes();
    let refused = world.ask(super_stream("s", &[("a", "first"), ("none", "second")]));
    assert!(matches!(refused, Err(CatalogueError::NotFound { .. })));
    let vhost = world.catalogue.vhost("/").expect("it is there");
    assert!(vhost.exchange("s").is_none());
    assert!(vhost.router().exchange("s").is_none());
    assert_eq!(world.catalogue.argument_bytes(), bytes);
    world.done(super_stream("s", &[("a", "first")]));
}
