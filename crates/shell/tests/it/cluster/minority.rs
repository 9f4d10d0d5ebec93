//! What operators have carried out at a node that is cut off from most others: several commands
//! together.

use super::client::scratch;
use super::{eventually, free_addresses, member, start, three};
use leveret_cluster::Env as _;
use leveret_metadata::{CatalogueError, Command};
use leveret_shell::broker::Broker;
use leveret_shell::node::Node;
use leveret_types::{FieldTable, NodeId, QueueId};

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
