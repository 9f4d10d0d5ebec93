//! Commands that change very many queues: others get at the catalogue while the shards follow.

use crate::world::World;
use leveret_cluster::Env;
use leveret_cluster::catalogue::{CHANGES_AT_ONCE, SHARD, execute_in_parts, recover};
use leveret_cluster::replace_catalogue;
use leveret_metadata::{Catalogue, Command, Config, Endpoint, QueueRecord};
use leveret_node::Env as _;
use leveret_queue_host::shard::CATALOGUE_LOG;
use leveret_types::limits::BINDINGS_UNLINKED_AT_ONCE;
use leveret_types::message::MessageSummary;
use leveret_types::{FieldTable, FieldValue, Message, MessageParts, NodeId, QueueId, ShardId};

const QUEUES: usize = 10 * CHANGES_AT_ONCE;

/// Carries out a command on all queues of a virtual host; others look at the catalogue as often as
/// they are let in. Answers how often that is, and how often shards are borrowed between at most.
fn carry_out(world: &World, command: &Command, look: impl Fn(&Catalogue)) -> (usize, u64) {
    let env = &world.nodes[&NodeId(1)].env;
    let mut catalogue = env.catalogue.borrow_mut();
    let mut borrowed = vec![env.shards_borrowed.get()];
    let executed = execute_in_parts(&mut catalogue, world.now, command, env, |catalogue| {
        look(catalogue);
        borrowed.push(env.shards_borrowed.get());
    });
    assert!(executed.is_ok(), "{executed:?}");
    borrowed.push(env.shards_borrowed.get());
    let between = borrowed.windows(2).map(|pair| pair[1] - pair[0]);
    (borrowed.len() - 2, between.max().unwrap_or(0))
}

/// A policy that changes all queues.
fn short_queues() -> Command {
    let definition = FieldValue::I64(7);
    Command::PolicySet {
        vhost: "/".to_owned(),
        name: "short".to_owned(),
        pattern: ".*".to_owned(),
        definition: [("max-length".to_owned(), definition)]
            .into_iter()
            .collect(),
        priority: 0,
        apply_to: "queues".to_owned(),
        operator: false,
    }
}

#[test]
fn others_are_let_in_while_all_queues_of_a_virtual_host_get_a_policy_and_go() {
    let mut world = World::new(1);
    world.connect("a", NodeId(1));
    world.rest();
    for number in 0..QUEUES {
        world.say("a", &format!("declare q{number}"));
        world.rest();
    }
    world.heard();
    let env = &world.nodes[&NodeId(1)].env;
    env.with_shard(world.now, SHARD, |shard| {
        recover(&mut shard.logs, Config::default(), |_| ()).expect("a log of the catalogue");
    });
    let (let_in, borrowed) = carry_out(&world, &short_queues(), |catalogue| {
        let mut queues = catalogue.queues(None);
        assert!(queues.all(|queue| queue.settings().length_max == Some(7)));
    });
    assert_eq!(let_in, QUEUES / CHANGES_AT_ONCE);
    assert!(borrowed <= 1 + CHANGES_AT_ONCE as u64, "{borrowed}");

    let vhost = "/".to_owned();
    let delete = Command::VhostDelete { vhost };
    let (let_in, borrowed) = carry_out(&world, &delete, |catalogue| {
        assert!(catalogue.vhost("/").is_none(), "it takes nobody any more");
        assert_eq!(catalogue.queue_count(), 0);
    });
    assert_eq!(let_in, QUEUES / CHANGES_AT_ONCE);
    assert!(borrowed <= 1 + CHANGES_AT_ONCE as u64, "{borrowed}");
    world.rest();
    assert!(world.heard().contains("vhost '/' is deleted"));
    world.nodes[&NodeId(1)].each_shard(world.now, |shard| {
        assert_eq!(shard.queues(), []);
    });
}

/// Gives the only node a log of its catalogue.
fn keep_log(world: &World) {
    world.nodes[&NodeId(1)]
        .env
        .with_shard(world.now, SHARD, |shard| {
            recover(&mut shard.logs, Config::default(), |_| ()).expect("a log of the catalogue");
        });
}

/// Has a command carried out by the only node, which keeps it in its log.
fn apply_on(world: &World, command: &Command) {
    let env = &world.nodes[&NodeId(1)].env;
    let mut catalogue = env.catalogue.borrow_mut();
    let executed = execute_in_parts(&mut catalogue, world.now, command, env, |_| ());
    executed.expect("it is carried out");
}

#[test]
fn others_are_let_in_while_very_many_exchanges_go_with_the_queue_that_they_are_bound_to() {
    let world = World::new(1);
    let env = &world.nodes[&NodeId(1)].env;
    let (vhost, queue) = (|| "/".to_owned(), || "q".to_owned());
    let exchange = |name: &str, auto_delete| Command::ExchangeDeclare {
        vhost: vhost(),
        name: name.to_owned(),
        kind: "x-recent-history".to_owned(),
        durable: true,
        auto_delete,
        internal: false,
        arguments: FieldTable::new(),
    };
    keep_log(&world);
    let apply = |command: &Command| apply_on(&world, command);
    apply(&Command::QueueDeclare {
        vhost: vhost(),
        name: queue(),
        durable: true,
        exclusive: None,
        auto_delete: false,
        arguments: FieldTable::new(),
        random: [0; 16],
        shards: 2,
        id: None,
    });
    for number in 0..QUEUES {
        apply(&exchange(&format!("x{number}"), true));
        apply(&Command::Bind {
            vhost: vhost(),
            source: format!("x{number}"),
            destination: Endpoint::Queue(queue()),
            routing_key: Vec::new(),
            arguments: FieldTable::new(),
        });
    }
    let parts = MessageParts {
        properties: &[0, 0],
        ..MessageParts::default()
    };
    let message = Message::from_parts(parts, MessageSummary::default());
    let remembered = || env.history().recall("/", "x0", 0..u64::MAX).messages.len();
    env.history().remember("/", "x0", 1, &message);
    let delete = Command::QueueDelete {
        vhost: vhost(),
        name: queue(),
        connection: None,
        id: None,
    };
    let (let_in, _) = carry_out(&world, &delete, |catalogue| {
        let vhost = catalogue.vhost("/").expect("it is there");
        assert!(vhost.exchange("x0").is_none(), "nobody finds it any more");
    });
    // The queue is one of those that go.
    assert_eq!(let_in, QUEUES / CHANGES_AT_ONCE + 1);
    assert_eq!(remembered(), 0);

    // Of one that comes while the end of the one before is not followed yet.
    env.history().remember("/", "x0", 1, &message);
    apply(&exchange("x0", false));
    assert_eq!(remembered(), 0, "a new exchange remembers nothing");
    env.history().remember("/", "x0", 1, &message);
    let gone = leveret_metadata::Change::ExchangeDeleted {
        vhost: "/".into(),
        exchange: "x0".into(),
    };
    let catalogue = env.catalogue.borrow();
    leveret_cluster::catalogue::follow(&catalogue, &gone, world.now, env);
    assert_eq!(remembered(), 1, "that was the one before");
}

#[test]
fn very_many_bindings_of_what_is_deleted_are_unlinked_with_others_let_in_between() {
    let mut world = World::new(1);
    world.connect("a", NodeId(1));
    world.rest();
    world.say("a", "declare q");
    world.rest();
    let env = &world.nodes[&NodeId(1)].env;
    keep_log(&world);
    let apply = |command: &Command| apply_on(&world, command);
    for number in 0..4 * BINDINGS_UNLINKED_AT_ONCE {
        apply(&Command::Bind {
            vhost: "/".to_owned(),
            source: "amq.topic".to_owned(),
            destination: Endpoint::Queue("q".to_owned()),
            routing_key: format!("k.{number}").into_bytes(),
            arguments: FieldTable::new(),
        });
    }
    apply(&Command::QueueDelete {
        vhost: "/".to_owned(),
        name: "q".to_owned(),
        connection: None,
        id: None,
    });
    let has_to_unlink = |world: &World| {
        let catalogue = world.nodes[&NodeId(1)].env.catalogue.borrow();
        let router = catalogue.vhost("/").expect("it is there").router();
        assert_eq!(router.binding_count(), 0, "nobody sees them");
        router.has_to_unlink()
    };
    assert!(has_to_unlink(&world));
    assert_eq!(env.deferred_count(), 1);
    world.pass(100);
    assert!(!has_to_unlink(&world));
}

#[test]
fn others_are_let_in_while_very_many_bindings_are_copied_into_a_snapshot() {
    const BINDINGS: usize = 5_000;
    let world = World::new(1);
    let env = &world.nodes[&NodeId(1)].env;
    env.with_shard(world.now, SHARD, |shard| {
        recover(&mut shard.logs, Config::default(), |_| ()).expect("a log of the catalogue");
    });
    for number in 0..BINDINGS {
        let command = Command::Bind {
            vhost: "/".to_owned(),
            source: "amq.topic".to_owned(),
            destination: Endpoint::Exchange("amq.fanout".to_owned()),
            routing_key: format!("k.{number}").into_bytes(),
            arguments: FieldTable::new(),
        };
        let mut catalogue = env.catalogue.borrow_mut();
        let executed = execute_in_parts(&mut catalogue, world.now, &command, env, |_| ());
        executed.expect("it is carried out");
    }
    let before = env.catalogues_borrowed.get();
    leveret_cluster::catalogue::snapshot(env);
    let borrowed = env.catalogues_borrowed.get() - before;
    assert!(borrowed as usize > BINDINGS / 1_024, "{borrowed}");
    let snapshot = env.with_shard(world.now, SHARD, |shard| {
        shard.logs.state(CATALOGUE_LOG).to_vec()
    });
    let restored = Catalogue::restore(Config::default(), &snapshot).expect("a snapshot");
    let router = restored.vhost("/").expect("it is there").router();
    assert_eq!(router.binding_count(), BINDINGS);
}

#[test]
fn others_are_let_in_while_the_shards_follow_a_catalogue_that_has_come_as_a_whole() {
    let mut world = World::new(1);
    world.connect("a", NodeId(1));
    world.rest();
    for number in 0..QUEUES {
        for kind in ["kept", "gone"] {
            world.say("a", &format!("declare {kind}{number}"));
        }
        world.rest();
    }
    let env = &world.nodes[&NodeId(1)].env;
    let (config, bytes) = {
        let catalogue = env.catalogue.borrow();
        (catalogue.config().clone(), catalogue.declared().encode())
    };
    let mut next = Catalogue::restore(config, &bytes).expect("a catalogue");
    let mut commands = vec![short_queues()];
    for number in 0..QUEUES {
        commands.push(Command::QueueDelete {
            vhost: "/".to_owned(),
            name: format!("gone{number}"),
            connection: None,
            id: None,
        });
        commands.push(Command::QueueDeclare {
            vhost: "/".to_owned(),
            name: format!("new{number}"),
            durable: true,
            exclusive: None,
            auto_delete: false,
            arguments: FieldTable::new(),
            random: [0; 16],
            shards: 2,
            id: None,
        });
    }
    for command in &commands {
        next.apply(command).expect("it is carried out");
    }
    env.shards_borrowed_in_change.set(0);
    replace_catalogue(next, || true, world.now, env);
    let borrowed = env.shards_borrowed_in_change.get();
    assert!(borrowed <= CHANGES_AT_ONCE as u64, "{borrowed}");
    let mut found: Vec<QueueId> = Vec::new();
    for shard in 0..env.shard_count() {
        env.with_shard(world.now, ShardId(shard), |shard| {
            found.extend(shard.queues());
        });
    }
    let catalogue = env.catalogue.borrow();
    let mut known: Vec<QueueId> = catalogue.queues(None).map(QueueRecord::id).collect();
    found.sort_unstable();
    known.sort_unstable();
    assert_eq!(known.len(), 2 * QUEUES);
    assert_eq!(found, known);
}
