//! A quorum view of a stream over nodes that come and go: what was settled does not come again.

use super::{AmqpClient, eventually, free_addresses, log_in, member, publish, select, start};
use crate::client::{self, scratch};
use leveret_amqp::{Method, RawTable, TableBuilder, basic, exchange, queue};
use leveret_cluster::Env;
use leveret_metadata::Command;
use leveret_shell::node::Node;
use leveret_types::{FieldValue, QueueId};

const STREAM: &[(&str, &str)] = &[("x-queue-type", "stream")];
const VIEW: &[(&str, &str)] = &[("x-queue-type", "quorum"), ("x-stream-source", "s")];

fn call(client: &mut AmqpClient, method: &impl leveret_amqp::EncodeMethod, answered: &str) {
    let answer = client.call(1, method).expect("an answer");
    let answer = Method::decode(&answer).expect("a method");
    assert_eq!(answer.name(), answered, "{answer:?}");
}

fn declare(client: &mut AmqpClient, name: &str, said: &[(&str, &str)]) {
    let mut arguments = TableBuilder::new();
    for (argument, value) in said {
        arguments.push(argument, &FieldValue::text(value));
    }
    let declare = queue::Declare {
        queue: name,
        passive: false,
        durable: true,
        exclusive: false,
        auto_delete: false,
        nowait: false,
        arguments: arguments.as_table(),
    };
    call(client, &declare, "queue.declare-ok");
}

/// A stream that an exchange leads to, and a view of it.
fn declare_all(client: &mut AmqpClient) {
    declare(client, "s", STREAM);
    let exchange = exchange::Declare {
        exchange: "x",
        kind: "fanout",
        passive: false,
        durable: true,
        auto_delete: false,
        internal: false,
        nowait: false,
        arguments: RawTable::EMPTY,
    };
    call(client, &exchange, "exchange.declare-ok");
    let bind = queue::Bind {
        queue: "s",
        exchange: "x",
        routing_key: "",
        nowait: false,
        arguments: RawTable::EMPTY,
    };
    call(client, &bind, "queue.bind-ok");
    declare(client, "v", VIEW);
}

/// A client that consumes from the view, a few messages at a time.
fn consumer(node: &Node, prefetch: u16) -> AmqpClient {
    let mut client = log_in(node);
    let prefetch = basic::Qos {
        prefetch_size: 0,
        prefetch_count: prefetch,
        global: false,
    };
    call(&mut client, &prefetch, "basic.qos-ok");
    let consume = basic::Consume {
        queue: "v",
        consumer_tag: "worker",
        no_local: false,
        no_ack: false,
        exclusive: false,
        nowait: false,
        arguments: RawTable::EMPTY,
    };
    call(&mut client, &consume, "basic.consume-ok");
    client
}

/// The next deliveries: the key that each was published with, and whether it may have come before.
#[track_caller]
fn expect(client: &mut AmqpClient, wanted: &[(&str, bool)]) {
    for (key, is_again) in wanted {
        let answer = client.answer().expect("a delivery");
        match Method::decode(&answer).expect("a method") {
            Method::BasicDeliver(found) => {
                let found_key = String::from_utf8_lossy(found.routing_key);
                let found = (found_key.as_ref(), found.redelivered);
                assert_eq!(found, (*key, *is_again));
            }
            other => panic!("{other:?}"),
        }
    }
}

fn ack(client: &mut AmqpClient, delivery_tag: u64, multiple: bool) {
    let ack = basic::Ack {
        delivery_tag,
        multiple,
    };
    client.send(1, &ack).expect("sent");
}

fn fill(client: &mut AmqpClient, keys: &[&str]) {
    for key in keys {
        eventually("the stream is led", || {
            publish(client, "x", key) == "basic.ack"
        });
    }
}

fn id(node: &Node, name: &str) -> QueueId {
    let catalogue = node.broker.catalogue();
    let record = catalogue.queue_by_name("/", name);
    record.expect("it is there").id()
}

/// How many members of the view vote, as the one on this node has it.
fn voters(node: &Node) -> usize {
    let view = id(node, "v");
    let shard = node.broker.shard(node.broker.shard_of(view));
    let status = shard.replica_status(view);
    status.map_or(0, |status| status.group.membership.voters.len())
}

/// Messages of the view that nobody has settled, at the node that leads it.
fn unsettled(nodes: &[&Node]) -> Option<u64> {
    nodes.iter().find_map(|node| {
        let view = id(node, "v");
        let shard = node.broker.shard(node.broker.shard_of(view));
        let stats = shard.local_stats(node.broker.now(), view)?;
        let is_led_here = shard.replica_leader(view) == Some(node.broker.node_id());
        is_led_here.then_some(stats.counts.ready + stats.counts.unsettled)
    })
}

#[test]
fn a_quorum_view_of_a_node_alone_goes_on_with_three_members_and_with_one_again() {
    let scratch = scratch("cluster-view-founded");
    let addresses = free_addresses::<3>();
    let folder = scratch.path().join(addresses[0].port().to_string());
    std::fs::create_dir_all(&folder).expect("a folder");
    let alone = client::start(&folder, None);
    let mut publisher = log_in(&alone);
    select(&mut publisher);
    declare_all(&mut publisher);
    fill(&mut publisher, &["0", "1", "2", "3", "4"]);
    let mut worker = consumer(&alone, 3);
    expect(&mut worker, &[("0", false), ("1", false), ("2", false)]);
    ack(&mut worker, 2, false);
    expect(&mut worker, &[("3", false)]);
    drop((worker, publisher));
    alone.shut_down();

    let mut founder = member(scratch.path(), addresses[0], &[], b"secret");
    founder.catalogue.membership.trigger_interval_ms = 100;
    let first = start(founder);
    let joined = |own| start(member(scratch.path(), own, &addresses[..1], b"secret"));
    let others: Vec<Node> = addresses[1..].iter().copied().map(joined).collect();
    eventually("the view has all members", || voters(&first) == 3);
    // What was settled alone stays so, and what was delivered there says so.
    let mut worker = consumer(&others[0], 10);
    expect(
        &mut worker,
        &[("0", true), ("2", true), ("3", true), ("4", false)],
    );
    ack(&mut worker, 1, false);
    eventually("it is settled", || unsettled(&[&first]) == Some(3));
    // The stream stays where it was, and its node goes: the view settles meanwhile.
    first.shut_down();
    ack(&mut worker, 2, false);
    let both = [&others[0], &others[1]];
    eventually("it is settled", || unsettled(&both) == Some(2));

    let first = start(member(scratch.path(), addresses[0], &[], b"secret"));
    let mut publisher = log_in(&others[0]);
    select(&mut publisher);
    fill(&mut publisher, &["5"]);
    expect(&mut worker, &[("5", false)]);
    ack(&mut worker, 5, false);
    let last = others[1].broker.node_id();
    let rest = {
        let catalogue = others[1].broker.catalogue();
        let record = catalogue.queue_by_name("/", "v").expect("it is there");
        let members = record.members().iter();
        let rest = members.filter(|member| member.node() == last);
        rest.map(|member| member.0).collect()
    };
    let shrink = Command::QueueMembers {
        id: id(&others[1], "v").0,
        members: rest,
        size: Some(1),
    };
    let shrunk = others[1].broker.execute_in_cluster(&shrink);
    shrunk.expect("a majority is up");
    eventually("it is alone again", || voters(&others[1]) == 1);
    fill(&mut publisher, &["6"]);
    expect(&mut worker, &[("6", false)]);
    ack(&mut worker, 6, false);
    eventually("two are left", || unsettled(&[&others[1]]) == Some(2));
    drop(worker);
    eventually("both are ready", || {
        let view = id(&others[1], "v");
        let shard = others[1].broker.shard(others[1].broker.shard_of(view));
        let stats = shard.local_stats(others[1].broker.now(), view);
        stats.is_some_and(|stats| stats.counts.unsettled == 0)
    });
    let mut worker = consumer(&first, 10);
    expect(&mut worker, &[("3", true), ("4", true)]);
    ack(&mut worker, 2, true);
    eventually("nothing is left", || unsettled(&[&others[1]]) == Some(0));
    drop((worker, publisher));
    others.into_iter().for_each(Node::shut_down);
    first.shut_down();
}
