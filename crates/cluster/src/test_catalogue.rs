//! The catalogue of a cluster of three nodes, for tests.

use leveret_metadata::{Batch, Catalogue, Command, Config, NodeRecord, Proposed};
use leveret_types::{FieldTable, FieldValue, NodeId, QueueId, ReplicaId};
use std::collections::BTreeSet;

/// See the module's description. Commands come from node 1.
pub(crate) struct TestCatalogue {
    pub(crate) catalogue: Catalogue,
    /// Who is up, for the places of new queues.
    pub(crate) up: BTreeSet<u32>,
    next: u64,
}

impl TestCatalogue {
    pub(crate) fn of_three_nodes() -> Self {
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
        let mut world = Self {
            catalogue,
            up: BTreeSet::from([1, 2, 3]),
            next: 1,
        };
        world.apply(Command::VhostPut {
            vhost: "/".to_owned(),
            description: None,
            tags: None,
            default_queue_type: None,
            protected: None,
            tracing: None,
        });
        for node in 2..=3 {
            world.join(node);
        }
        world
    }

    /// A node joins; only those that were listed when the cluster was founded vote at once.
    pub(crate) fn join(&mut self, node: u8) {
        self.apply(Command::NodeJoin {
            uuid: [node; 16],
            address: format!("{node}:1"),
            name: format!("node-{node}"),
        });
    }

    pub(crate) fn apply(&mut self, command: Command) -> Option<QueueId> {
        let proposed = Proposed {
            origin: 1,
            start: 7,
            id: self.next,
            command,
        };
        self.next += 1;
        let batch = Batch {
            rules: self.catalogue.rules(),
            up: self.up.iter().copied().collect(),
            commands: vec![proposed],
        };
        let mut answers = self.catalogue.apply_batch(&batch);
        let outcome = answers.pop().flatten().expect("it is new");
        outcome.expect("nothing is wrong with it").queue
    }

    /// Declares a queue of a kind in the virtual host `/`.
    pub(crate) fn declare(&mut self, name: &str, kind: &str) -> QueueId {
        let declared = self.apply(Command::QueueDeclare {
            vhost: "/".to_owned(),
            name: name.to_owned(),
            durable: true,
            exclusive: None,
            auto_delete: false,
            arguments: FieldTable::from([("x-queue-type", FieldValue::text(kind))]),
            random: [0; 16],
            shards: 2,
            id: None,
        });
        declared.expect("a queue")
    }

    /// Gives a quorum queue members on these nodes, the one that is to lead it first.
    pub(crate) fn set_members(&mut self, queue: QueueId, nodes: &[u32]) {
        let members = nodes.iter().map(|node| ReplicaId::new(NodeId(*node), 0).0);
        self.apply(Command::QueueMembers {
            id: queue.0,
            members: members.collect(),
            size: None,
        });
    }
}
