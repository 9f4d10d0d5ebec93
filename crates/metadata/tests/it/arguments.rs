//! What clients may give as arguments, at the limits of its size and depth, is read again: a
//! catalogue that cannot be read keeps a node from starting.

use leveret_metadata::{Catalogue, CatalogueError, Command, Config, Endpoint};
use leveret_types::limits::{COMMAND_BYTES_MAX, DEFINITIONS_DEPTH_MAX, FRAME_BYTES_MAX};
use leveret_types::{FieldTable, FieldValue};

fn vhost() -> Command {
    Command::VhostPut {
        vhost: "/".to_owned(),
        description: None,
        tags: None,
        default_queue_type: None,
        protected: None,
        tracing: None,
    }
}

/// A command of each kind that keeps a value of a client or an operator.
fn commands(value: &FieldValue) -> Vec<Command> {
    let vhost = || "/".to_owned();
    let table = || FieldTable::from([("x-v", value.clone())]);
    vec![
        Command::QueueDeclare {
            vhost: vhost(),
            name: "q".to_owned(),
            durable: true,
            exclusive: None,
            auto_delete: false,
            arguments: table(),
            random: [0; 16],
            shards: 1,
            id: None,
        },
        Command::ExchangeDeclare {
            vhost: vhost(),
            name: "x".to_owned(),
            kind: "headers".to_owned(),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: table(),
        },
        Command::Bind {
            vhost: vhost(),
            source: "x".to_owned(),
            destination: Endpoint::Queue("q".to_owned()),
            routing_key: vec![0xFF; 255],
            arguments: table(),
        },
        Command::GlobalParameterSet {
            name: "g".to_owned(),
            value: value.clone(),
        },
    ]
}

/// A value inside so many tables, or arrays.
fn nested(depth: usize, wrap: impl Fn(FieldValue) -> FieldValue) -> FieldValue {
    (0..depth).fold(FieldValue::Void, |value, _| wrap(value))
}

#[test]
fn arguments_of_any_size_and_depth_that_clients_may_send_are_read_again() {
    let in_table = |value| FieldValue::Table(FieldTable::from([("a", value)]));
    let in_array = |value| FieldValue::Array(vec![value]);
    let in_both = |value| in_table(in_array(value));
    // The reader of CBOR has a buffer of 4,096 bytes.
    let sizes = [0, 1, 4_095, 4_096, 4_097, 100_000, FRAME_BYTES_MAX as usize];
    let bytes = |size| vec![b'z'; size];
    let long = sizes.map(|size| FieldValue::LongString(bytes(size)));
    let binary = sizes.map(|size| FieldValue::Bytes(bytes(size)));
    let deep = [
        nested(DEFINITIONS_DEPTH_MAX, in_table),
        nested(DEFINITIONS_DEPTH_MAX, in_array),
        nested(DEFINITIONS_DEPTH_MAX / 2, in_both),
        in_array(FieldValue::LongString(bytes(4_097))),
    ];
    for value in long.into_iter().chain(binary).chain(deep) {
        let what = || format!("{value:?}").chars().take(40).collect::<String>();
        let mut catalogue = Catalogue::new(Config::default());
        catalogue.apply(&vhost()).expect("a virtual host");
        for command in commands(&value) {
            let read = Command::decode(&command.encode());
            assert!(read.is_ok_and(|read| read == command), "{}", what());
            catalogue.apply(&command).expect("it is taken");
        }
        let snapshot = catalogue.snapshot();
        let restored = Catalogue::restore(Config::default(), &snapshot);
        let restored = restored.unwrap_or_else(|error| panic!("{}: {error}", what()));
        assert!(restored.snapshot() == snapshot, "{}", what());
    }
}

#[test]
fn names_and_texts_of_operators_are_read_again_whatever_their_length() {
    let text = "y".repeat(100_000);
    let commands = [
        Command::VhostPut {
            vhost: "/".to_owned(),
            description: Some(text.clone()),
            tags: Some(vec![text.clone()]),
            default_queue_type: Some(text.clone()),
            protected: None,
            tracing: None,
        },
        Command::PolicySet {
            vhost: "/".to_owned(),
            name: text.clone(),
            operator: false,
            pattern: text.clone(),
            apply_to: "queues".to_owned(),
            priority: 0,
            definition: FieldTable::from([("max-length", FieldValue::I64(1))]),
        },
    ];
    for command in commands {
        assert_eq!(Command::decode(&command.encode()), Ok(command));
    }
}

#[test]
fn what_could_not_be_read_again_is_told_before_it_is_written_down() {
    let in_array = |value| FieldValue::Array(vec![value]);
    let too_deep = nested(10 * DEFINITIONS_DEPTH_MAX, in_array);
    for command in commands(&too_deep) {
        let told = command.check_writable();
        assert!(matches!(told, Err(CatalogueError::Unreadable { .. })));
    }
    // What is around the text takes less than 1,000 bytes, and 255 of its own where it is a key.
    let long = |more: usize| FieldValue::LongString(vec![b'z'; COMMAND_BYTES_MAX - 1_000 + more]);
    for (fits, not) in commands(&long(0)).iter().zip(commands(&long(1_000))) {
        assert_eq!(fits.check_writable(), Ok(()));
        let told = not.check_size();
        assert!(matches!(told, Err(CatalogueError::CommandBytes { .. })));
        assert_eq!(not.check_writable(), told);
    }
    for command in commands(&FieldValue::Void) {
        assert_eq!(command.check_writable(), Ok(()));
    }
}
