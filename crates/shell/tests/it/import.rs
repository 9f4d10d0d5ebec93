//! Imports of definitions: others go on with their work meanwhile.

use crate::client::{scratch, start};
use leveret_cluster::Env as _;
use leveret_metadata::{CatalogueError, Command, Definitions, Json, QueueDefinition};
use leveret_node::Env;
use leveret_shell::broker::Broker;
use leveret_types::{FieldTable, FieldValue};
use std::sync::atomic::{AtomicBool, Ordering};

fn queue(name: &str, durable: bool) -> Command {
    Command::QueueDeclare {
        vhost: "/".to_owned(),
        name: name.to_owned(),
        durable,
        exclusive: None,
        auto_delete: false,
        arguments: FieldTable::new(),
        random: [0; 16],
        shards: 1,
        id: None,
    }
}

fn definitions(queues: usize) -> Definitions {
    let queue = |number| QueueDefinition {
        name: format!("q{number}"),
        vhost: "/".to_owned(),
        kind: None,
        durable: true,
        auto_delete: false,
        arguments: Json(FieldValue::Table(FieldTable::new())),
    };
    Definitions {
        queues: (0..queues).map(queue).collect(),
        ..Definitions::default()
    }
}

fn prepared(broker: &Broker, definitions: &Definitions) -> Result<Vec<Command>, CatalogueError> {
    let mut trial = definitions.trial(&broker.catalogue(), None);
    while trial.look(&broker.catalogue())? {}
    trial.commands(1, &mut || broker.random())
}

#[test]
fn what_others_declare_while_an_import_is_prepared_does_not_spoil_it() {
    let scratch = scratch("import-prepared");
    let node = start(scratch.path(), None);
    let broker = &node.broker;
    let definitions = definitions(3);
    let (_, result) = broker.execute_all(broker.now(), &mut || {
        let commands = prepared(broker, &definitions);
        // Nothing is locked, and this one is not as the import would have it: it stays.
        let declared = broker.execute(broker.now(), &queue("q1", false));
        declared.expect("a declaration meanwhile");
        commands
    });
    assert_eq!(result, Ok(()));
    let durable = |name| {
        let catalogue = broker.catalogue();
        catalogue.queue_by_name("/", name).map(|q| q.durable())
    };
    assert_eq!(
        ["q0", "q1", "q2"].map(durable),
        [Some(true), Some(false), Some(true)]
    );
    node.shut_down();
}

#[test]
fn what_is_not_right_is_refused_before_anything_is_done() {
    let scratch = scratch("import-refused");
    let node = start(scratch.path(), None);
    let broker = &node.broker;
    let mut definitions = definitions(3);
    definitions.queues[2].name = String::new();
    let mut preparations = 0;
    let (log_positions, result) = broker.execute_all(broker.now(), &mut || {
        preparations += 1;
        prepared(broker, &definitions)
    });
    assert!(result.is_err(), "{result:?}");
    assert_eq!((preparations, log_positions.len()), (1, 0));
    assert_eq!(broker.catalogue().queue_count(), 0);
    node.shut_down();
}

#[test]
fn others_get_at_the_catalogue_while_an_import_is_carried_out() {
    const QUEUES: usize = 5000;
    let scratch = scratch("import-let-in");
    let node = start(scratch.path(), None);
    let broker = &node.broker;
    let definitions = definitions(QUEUES);
    let is_over = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = 0;
            while !is_over.load(Ordering::Acquire) {
                let now = broker.catalogue().queue_count();
                seen += usize::from(0 < now && now < QUEUES);
            }
            seen
        });
        let mut make = || prepared(broker, &definitions);
        let (_, result) = broker.execute_all(broker.now(), &mut make);
        is_over.store(true, Ordering::Release);
        assert_eq!(result, Ok(()));
        reader.join().expect("the reader")
    });
    assert!(seen > 0, "nobody saw a part of it");
    assert_eq!(broker.catalogue().queue_count(), QUEUES);
    node.shut_down();
}

#[test]
fn memory_is_looked_at_while_an_import_is_carried_out() {
    const QUEUES: usize = 5000;
    let scratch = scratch("import-memory");
    let node = start(scratch.path(), None);
    let broker = &node.broker;
    let definitions = definitions(QUEUES);
    let (_, result) = broker.execute_all(broker.now(), &mut || {
        let commands = prepared(broker, &definitions);
        // All of it is used from here on, and no alarm has told of it yet.
        let mut watermarks = node.timers_and_alarms.watermarks.write();
        (watermarks.memory_bytes, watermarks.memory_full_bytes) = (0, 0);
        commands
    });
    assert_eq!(result, Err(CatalogueError::NoMemory));
    let made = broker.catalogue().queue_count();
    assert!(made < QUEUES / 4, "{made} queues");
    assert_eq!(broker.memory_left(), 0);
    node.shut_down();
}
