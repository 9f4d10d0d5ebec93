//! What is freed while a command is carried out, counted at the allocator: whoever needs the
//! catalogue waits for that.

use leveret_metadata::{Catalogue, Change, Command, Config, Endpoint};
use leveret_types::limits::BINDINGS_UNLINKED_AT_ONCE;
use leveret_types::{FieldTable, FieldValue};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Queues, each with a binding.
const QUEUES: usize = 5_000;
/// What may be freed with a virtual host, whatever is in it.
const FREED_MAX: usize = 100;

/// The system's allocator, which counts what each thread frees.
struct Counting;

thread_local! {
    static FREED: Cell<usize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// An allocator can only be written in unsafe code; this one hands every call on unchanged.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        FREED.set(FREED.get() + 1);
        unsafe { System.dealloc(at, layout) }
    }
}

/// How often something is freed.
fn freed<R>(work: impl FnOnce() -> R) -> (usize, R) {
    let before = FREED.get();
    let result = work();
    (FREED.get() - before, result)
}

fn declare(vhost: &str, name: &str) -> Command {
    Command::QueueDeclare {
        vhost: vhost.to_owned(),
        name: name.to_owned(),
        durable: true,
        auto_delete: false,
        exclusive: None,
        arguments: FieldTable::default(),
        random: [0; 16],
        shards: 1,
        id: None,
    }
}

fn bind(vhost: &str, name: &str) -> Command {
    Command::Bind {
        vhost: vhost.to_owned(),
        source: "amq.direct".to_owned(),
        destination: Endpoint::Queue(name.to_owned()),
        routing_key: name.as_bytes().to_vec(),
        arguments: FieldTable::default(),
    }
}

fn put_vhost() -> Command {
    Command::VhostPut {
        vhost: "v".to_owned(),
        description: None,
        tags: None,
        default_queue_type: None,
        protected: None,
        tracing: None,
    }
}

#[test]
fn of_a_queue_with_very_many_bindings_few_are_freed_at_once_and_none_is_seen() {
    let mut catalogue = Catalogue::new(Config::default());
    let mut apply = |command| catalogue.apply(&command).expect("accepted");
    apply(put_vhost());
    apply(declare("v", "q"));
    let with_arguments = FieldTable::from([("a", FieldValue::text("b"))]);
    for number in 0..QUEUES {
        let mut bound = bind("v", "q");
        if let Command::Bind {
            routing_key,
            arguments,
            ..
        } = &mut bound
        {
            *routing_key = number.to_string().into_bytes();
            *arguments = with_arguments.clone();
        }
        apply(bound);
    }
    let id = catalogue.queue_by_name("v", "q").expect("a queue").id();
    let delete = Command::queue_delete("v", "q", id);
    let (while_borrowed, outcome) = freed(|| catalogue.apply(&delete));
    assert_eq!(outcome.map(|outcome| outcome.log.len()), Ok(1));
    assert!(
        while_borrowed < 10 * BINDINGS_UNLINKED_AT_ONCE,
        "{while_borrowed}"
    );
    let router = catalogue.vhost("v").expect("it is there").router();
    assert_eq!((router.binding_count(), router.bindings().count()), (0, 0));
    assert_eq!(
        (catalogue.queue_count(), catalogue.argument_bytes()),
        (0, 0)
    );

    assert!(catalogue.begin_to_unlink());
    assert!(!catalogue.begin_to_unlink(), "somebody sees to it");
    let mut parts = 1;
    while catalogue.unlink(BINDINGS_UNLINKED_AT_ONCE) {
        parts += 1;
    }
    assert_eq!(parts, (QUEUES + 1).div_ceil(BINDINGS_UNLINKED_AT_ONCE) - 1);
    assert!(!catalogue.begin_to_unlink(), "nothing is left");
}

#[test]
fn a_virtual_host_is_taken_out_as_a_whole_and_freed_with_what_its_deletion_answers() {
    let mut catalogue = Catalogue::new(Config::default());
    let mut apply = |command| catalogue.apply(&command).expect("accepted");
    apply(put_vhost());
    for number in 0..QUEUES {
        let name = format!("q{number}");
        apply(declare("v", &name));
        apply(bind("v", &name));
    }
    let vhost = "v".to_owned();
    let (while_borrowed, outcome) = freed(|| apply(Command::VhostDelete { vhost }));
    assert!(while_borrowed <= FREED_MAX, "{while_borrowed}");
    assert!(catalogue.vhost("v").is_none());
    assert_eq!(
        (catalogue.queue_count(), catalogue.argument_bytes()),
        (0, 0)
    );

    let deleted = |change: &&Change| matches!(change, Change::QueueDeleted(_));
    assert_eq!(outcome.changes.iter().filter(deleted).count(), QUEUES);
    assert!(!outcome.taken_out.is_empty());
    let (with_it, ()) = freed(|| drop(outcome.taken_out));
    assert!(with_it > QUEUES, "its bindings: {with_it}");
}
