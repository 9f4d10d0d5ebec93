//! A node that is cut off from most others: what operators have carried out there, several commands
//! together, and what becomes of what clients publish.

use super::client::scratch;
use super::{all_vote_and_are_up, start, start_all, three};
use super::{declare as declare_queue, eventually, free_addresses, log_in, member, select};
use crate::messages::publish;
use leveret_amqp::Method;
use leveret_cluster::Env as _;
use leveret_metadata::{CatalogueError, Command};
use leveret_shell::broker::Broker;
use leveret_shell::node::Node;
use leveret_types::limits::{PEER_OUTBOX_BYTES_MAX, PENDING_OPERATION_BYTES_MAX};
use leveret_types::{FieldTable, NodeId, QueueId};
use std::collections::BTreeSet;

fn declare(name: &str) -> Command {
    Command::QueueDeclare {
        vhost: "/".to_owned(),
        name: name.to_owned(),
        durable: true,
        exclusive: None,
        auto_delete: false,
        arguments: FieldTable::new(),
        random: [0; 16],
        shards: 1,
        id: None,
    }
}

fn delete(name: &str) -> Command {
    Command::QueueDelete {
        vhost: "/".to_owned(),
        name: name.to_owned(),
        connection: None,
        id: None,
    }
}

fn clear_policy(name: &str) -> Command {
    Command::PolicyClear {
        vhost: "/".to_owned(),
        name: name.to_owned(),
        operator: false,
    }
}

/// Has them carried out in their order.
fn carry_out(broker: &Broker, commands: &[Command]) -> Result<(), CatalogueError> {
    let (_, result) = broker.execute_all(broker.now(), &mut || Ok(commands.to_vec()));
    result
}

fn queue(node: &Node, name: &str) -> Option<QueueId> {
    let catalogue = node.broker.catalogue();
    catalogue.queue_by_name("/", name).map(|queue| queue.id())
}

fn leader(node: &Node) -> Option<NodeId> {
    node.broker.cluster().and_then(|cluster| cluster.leader())
}

#[test]
fn of_commands_together_a_minority_answers_those_before_the_first_that_changes_something() {
    let scratch = scratch("cluster-minority-together");
    let addresses = free_addresses();
    let mut nodes = three(scratch.path(), addresses);
    let left = nodes.remove(0);
    carry_out(&left.broker, &[declare("first"), declare("second")]).expect("a majority is up");
    nodes.into_iter().for_each(Node::shut_down);
    let own = left.broker.node_id();
    eventually("it is alone", || {
        left.broker.peers().up().is_empty() && leader(&left) != Some(own)
    });
    // All of them are known to change nothing.
    let known = [declare("first"), declare("second"), declare("first")];
    assert_eq!(carry_out(&left.broker, &known), Ok(()));
    // That one of them is refused without the others being asked is known as well.
    let refused = carry_out(&left.broker, &[declare("first"), clear_policy("nothing")]);
    let refused = refused.expect_err("there is none");
    assert_ne!(refused, CatalogueError::NoMajority);
    // Those behind one that waits may be about what that one changes: they wait with it, and are
    // carried out behind it.
    let before = queue(&left, "first").expect("it was declared");
    let together = [declare("second"), delete("first"), declare("first")];
    let returned = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| carry_out(&left.broker, &together));
        let returned = start(member(scratch.path(), addresses[1], &[], b"secret"));
        assert_eq!(waiting.join().expect("no panic"), Ok(()));
        returned
    });
    for node in [&left, &returned] {
        eventually("it is declared again", || {
            queue(node, "first").is_some_and(|queue| queue != before)
        });
        assert!(queue(node, "second").is_some());
    }
    returned.shut_down();
    left.shut_down();
}

/// The node keeps more than may wait on the link to another one. Sent at once it would break that
/// link, and again after each reconnection.
#[test]
fn what_a_minority_kept_of_many_queues_goes_as_the_link_takes_it() {
    const BODY_BYTES: usize = 120_000;
    let scratch = scratch("cluster-minority-kept");
    let addresses = free_addresses::<3>();
    // All that a node may keep, in one shard.
    let config = |own, join: &[_]| {
        let mut config = member(scratch.path(), own, join, b"secret");
        config.settings.shard_count = 1;
        config
    };
    let mut nodes = start_all(addresses.map(|own| config(own, &addresses)).into());
    all_vote_and_are_up(&nodes);
    let left = nodes.remove(0);
    let mut client = log_in(&left);
    let of_each = (PENDING_OPERATION_BYTES_MAX - 1) / (BODY_BYTES + 1_000);
    let queues = PEER_OUTBOX_BYTES_MAX / (of_each * BODY_BYTES) + 3;
    for queue in 0..queues {
        let name = format!("q{queue}");
        assert_eq!(declare_queue(&mut client, &name, false, "quorum"), Ok(0));
    }
    select(&mut client);
    nodes.into_iter().for_each(Node::shut_down);
    eventually("it is alone", || left.broker.peers().up().is_empty());
    let body = vec![b'm'; BODY_BYTES];
    for queue in 0..queues {
        let bytes = publish(&format!("q{queue}"), &body);
        for _ in 0..of_each {
            client.send_bytes(&bytes).expect("it is read");
        }
    }
    let returned = start(config(addresses[1], &[]));
    let mut waiting: BTreeSet<u64> = (1..=(queues * of_each) as u64).collect();
    while let Some(first) = waiting.first().copied() {
        let answer = client.answer().expect("an answer");
        match Method::decode(&answer) {
            Ok(Method::BasicAck(ack)) => {
                let from = if ack.multiple {
                    first
                } else {
                    ack.delivery_tag
                };
                waiting.retain(|tag| !(from..=ack.delivery_tag).contains(tag));
            }
            other => panic!("{other:?}"),
        }
    }
    returned.shut_down();
    left.shut_down();
}
