//! What is counted by pairs: what comes to queues from exchanges, who publishes it, and what
//! consumers get of it.

use crate::script::play_on;
use crate::world::World;
use leveret_node::Env as _;
use leveret_types::NodeId;

/// What came to queues from exchanges at a node, with what its connections have gathered.
fn flows(world: &mut World, node: u32) -> Vec<(String, String, u64)> {
    let node = world.nodes.get_mut(&NodeId(node)).expect("it is up");
    for connection in node.connections.values_mut() {
        connection.gather_published();
    }
    let flows = node.env.registry().flows().all(Some("/"));
    let names = flows.iter().map(|flow| {
        let (exchange, queue) = (flow.exchange.to_string(), flow.queue_name.to_string());
        (exchange, queue, flow.messages())
    });
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// What a client's channels have published: to which exchange, and how much of it to which queue.
fn published(world: &World, name: &str) -> Vec<(String, u64, Vec<u64>)> {
    let client = &world.clients[name];
    let connection = &world.nodes[&client.node].connections[&client.connection];
    let published = connection.status().published.into_iter();
    let counts = published.map(|to| {
        let queues = to.queues.iter().map(|(_, messages)| *messages);
        (to.exchange.to_string(), to.messages, queues.collect())
    });
    counts.collect()
}

fn row(exchange: &str, queue: &str, messages: u64) -> (String, String, u64) {
    (exchange.to_owned(), queue.to_owned(), messages)
}

const DECLARED: &str = "a@1
    a declare q => a: declared q 0 0
    a declare p => a: declared p 0 0
    a exchange x topic => a: declare-ok
    a bind q x # => a: bind-ok
    a bind p x p.# => a: bind-ok";

#[test]
fn what_comes_to_a_queue_is_counted_by_exchange_at_the_publishers_node() {
    let mut world = World::new(3);
    play_on(
        &mut world,
        &format!(
            "{DECLARED}
             b@2
             a publish q m m m
             a publish-to x p.1 m
             a publish-to x p.1 m
             a publish-to x q.1 m
             a publish-to x p.2 m
             b publish q m"
        ),
    );
    let at_first = [row("", "q", 3), row("x", "p", 3), row("x", "q", 4)];
    assert_eq!(flows(&mut world, 1), at_first);
    assert_eq!(flows(&mut world, 2), [row("", "q", 1)]);
    assert_eq!(
        published(&world, "a"),
        [(String::new(), 3, vec![3]), ("x".to_owned(), 4, vec![4, 3]),]
    );
}

#[test]
fn sums_outlive_the_channel_and_the_connection_and_end_with_the_queue() {
    let mut world = World::new(1);
    play_on(
        &mut world,
        &format!(
            "{DECLARED}
             a publish q m m
             a publish q m
             a close => a: close-ok"
        ),
    );
    assert_eq!(published(&world, "a"), []);
    assert_eq!(flows(&mut world, 1), [row("", "q", 3)]);
    play_on(
        &mut world,
        "b@1
         b publish q m m
         drop b
         c@1
         c publish-to x p.1 m",
    );
    let after = [row("", "q", 5), row("x", "p", 1), row("x", "q", 1)];
    assert_eq!(flows(&mut world, 1), after);
    play_on(
        &mut world,
        "c delete q => c: deleted 6
         c declare q => c: declared q 0 0
         c publish q m",
    );
    let anew = [row("", "q", 1), row("x", "p", 1)];
    assert_eq!(
        flows(&mut world, 1),
        anew,
        "a queue of the same name begins anew"
    );
}

#[test]
fn what_a_consumer_got_and_acknowledged_is_counted() {
    let mut world = World::new(3);
    play_on(
        &mut world,
        "a@1
         b@2
         a declare q quorum => a: declared q 0 0
         b consume q t => b: consuming t
         a publish q m1 m2 => b: deliver 1 m1, deliver 2 m2
         b nack 2 requeue => b: deliver 3 again acquired=1 m2
         b ack 1",
    );
    let client = &world.clients["b"];
    let status = world.nodes[&client.node].connections[&client.connection].status();
    let consumer = &status.consumers[0];
    assert_eq!(consumer.delivered.messages, 3);
    assert_eq!(consumer.delivered.redelivered, 1);
    assert_eq!(consumer.acknowledged, 1);
}
