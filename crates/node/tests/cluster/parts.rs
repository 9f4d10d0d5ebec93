//! Commands that change very many queues: others get at the catalogue while the shards follow.

use crate::world::World;
use leveret_cluster::Env;
use leveret_cluster::catalogue::{CHANGES_AT_ONCE, SHARD, execute_in_parts, recover};
use leveret_metadata::{Catalogue, Command, Config};
use leveret_types::{FieldValue, NodeId};

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
    let definition = FieldValue::I64(7);
    let policy = Command::PolicySet {
        vhost: "/".to_owned(),
        name: "short".to_owned(),
        pattern: ".*".to_owned(),
        definition: [("max-length".to_owned(), definition)]
            .into_iter()
            .collect(),
        priority: 0,
        apply_to: "queues".to_owned(),
        operator: false,
    };
    let (let_in, borrowed) = carry_out(&world, &policy, |catalogue| {
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
