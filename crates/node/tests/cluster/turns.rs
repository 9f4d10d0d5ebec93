//! How much is done for one connection before others have their turn.

use crate::world::World;
use leveret_cluster::Env as _;
use leveret_node::Env as _;
use leveret_queue_host::notify::Notify;
use leveret_queue_host::shard::Bodies;
use leveret_types::limits::{
    DETACHED_AT_ONCE, EXCLUSIVE_DELETED_AT_ONCE, LEFT_WORK_MAX, RUN_WORK_MAX,
    SOCKET_OUTPUT_BYTES_MAX, TURN_WORK_MAX,
};
use leveret_types::message::MessageSummary;
use leveret_types::{Message, MessageParts, NodeId};

const NODE: NodeId = NodeId(1);
/// Queues that each message of these tests goes to, and what that costs at least and at most.
const QUEUES: usize = 200;
const MESSAGE_WORK: std::ops::Range<usize> = 50 * QUEUES..75 * QUEUES;
/// What it costs to have a queue hear that who held its messages has gone.
const DETACH_WORK: usize = 100;

/// A fanout exchange `f` with its queues.
fn fan_out() -> World {
    let mut world = World::new(1);
    world.connect("a", NODE);
    world.rest();
    world.say("a", "exchange f fanout");
    for number in 0..QUEUES {
        world.say("a", &format!("declare q{number}"));
        world.say("a", &format!("bind q{number} f k"));
    }
    world.pass(100);
    world.heard();
    world
}

/// Says these words, then publishes so many messages, and says the last words, all in one read.
fn send(world: &mut World, first: &[&str], messages: usize, last: &[&str]) {
    let mut words = first.to_vec();
    for _ in 0..messages {
        words.extend(["&", "publish-to", "f", "k", "m"]);
    }
    words.extend(last);
    world.say_all("a", &words);
}

/// Messages that were routed so far.
fn routed(world: &World) -> usize {
    world.nodes[&NODE].env.counters().values().messages_routed as usize
}

#[test]
fn who_waits_for_the_catalogue_has_its_turn_between_the_publishes_of_one_read() {
    let mut world = fan_out();
    let borrowed = |world: &World| world.nodes[&NODE].env.catalogues_borrowed.get();
    let before = borrowed(&world);
    let messages = TURN_WORK_MAX / MESSAGE_WORK.end;
    send(&mut world, &["qos", "0"], messages, &[]);
    assert_eq!(routed(&world), messages);
    let times = (borrowed(&world) - before) as usize;
    let at_least = messages / (RUN_WORK_MAX / MESSAGE_WORK.start + 1);
    assert!((at_least..messages).contains(&times), "{times} times");
}

#[test]
fn a_read_that_is_much_work_is_done_in_turns_and_others_have_theirs_between() {
    let mut world = fan_out();
    world.connect("b", NODE);
    world.rest();
    world.heard();
    let messages = 3 * TURN_WORK_MAX / MESSAGE_WORK.start;
    send(
        &mut world,
        &["confirm"],
        messages,
        &["&", "declare", "q0", "passive"],
    );
    let first = routed(&world);
    assert!(
        first > 0 && first <= TURN_WORK_MAX / MESSAGE_WORK.start + 1,
        "{first}"
    );
    // What happens meanwhile is no turn.
    world.say("b", "declare late");
    world.say("b", "bind late f k");
    assert_eq!(routed(&world), first);
    world.pass(100);
    assert_eq!(routed(&world), messages);
    let heard = world.heard();
    let (answer, confirms) = (
        format!("declared q0 {messages} 0"),
        format!("ack {messages}"),
    );
    assert!(
        heard.contains(&answer) && heard.contains(&confirms),
        "{heard}"
    );
    world.say("b", "declare late passive");
    let late = format!("b: declared late {} 0", messages - first);
    assert_eq!(world.heard(), late);
}

#[test]
fn who_asks_for_much_in_few_words_takes_some_of_it_before_more_is_made() {
    const MESSAGES: usize = 200;
    const BYTES: usize = 100_000;
    let mut world = World::new(1);
    for client in ["a", "b"] {
        world.connect(client, NODE);
        world.rest();
    }
    world.say("a", "declare q");
    world.say("a", &format!("publish q {MESSAGES}x{BYTES}"));
    world.pass(100);
    world.heard();
    let gets = ["get", "q", "noack", "&"].repeat(MESSAGES);
    world.unread.insert("a".to_owned());
    world.say_all("a", &gets[..gets.len() - 1]);
    world.pass(100);
    world.say("b", "declare q passive");
    world.rest();
    let most = SOCKET_OUTPUT_BYTES_MAX / BYTES + 1;
    let left = MESSAGES - most;
    assert_eq!(world.heard(), format!("b: declared q {left} 0"));
    // Who takes it has all of it.
    world.unread.clear();
    world.pass(100);
    let heard = world.heard();
    assert!(heard.contains(&format!("got {MESSAGES} left=0")), "{heard}");
}

#[test]
fn a_transaction_that_is_much_work_is_committed_in_turns_and_answered_once_it_is_whole() {
    let mut world = fan_out();
    let messages = 3 * TURN_WORK_MAX / MESSAGE_WORK.start;
    send(&mut world, &["tx"], messages, &["&", "commit"]);
    let first = routed(&world);
    assert!(first > 0 && first < messages / 2, "{first} of {messages}");
    world.rest();
    assert_eq!(world.heard(), "a: select-ok");
    world.pass(100);
    assert_eq!(world.heard(), "a: commit-ok");
    world.say("a", "declare q7 passive");
    assert_eq!(world.heard(), format!("a: declared q7 {messages} 0"));
}

#[test]
fn a_transaction_whose_client_goes_while_it_is_committed_is_committed_as_a_whole() {
    let mut world = fan_out();
    let messages = 2 * LEFT_WORK_MAX / MESSAGE_WORK.start;
    send(&mut world, &["tx"], messages, &["&", "commit"]);
    let first = routed(&world);
    assert!(first > 0 && first < messages / 2, "{first} of {messages}");
    world.drop_client("a");
    assert_eq!(routed(&world), messages);
}

#[test]
fn a_client_that_has_gone_leaves_no_more_to_do_than_is_done_for_one() {
    let mut world = fan_out();
    world.say("a", "declare own exclusive");
    let messages = 2 * LEFT_WORK_MAX / MESSAGE_WORK.start;
    send(&mut world, &["qos", "0"], messages, &[]);
    world.drop_client("a");
    let done = routed(&world);
    let most = (TURN_WORK_MAX + LEFT_WORK_MAX) / MESSAGE_WORK.start + 2;
    assert!(
        (LEFT_WORK_MAX / MESSAGE_WORK.end..=most).contains(&done),
        "{done}"
    );
    world.pass(100);
    assert_eq!(routed(&world), done);
    // What was the connection's alone is gone with it.
    world.connect("b", NODE);
    world.rest();
    world.heard();
    world.say("b", "declare own passive");
    assert!(world.heard().contains("close 404"), "it is gone");
}

#[test]
fn very_many_exclusive_queues_go_with_others_let_in_between() {
    let mut world = World::new(1);
    world.connect("a", NODE);
    world.rest();
    let exclusive = |world: &World| {
        let catalogue = world.nodes[&NODE].env.catalogue.borrow();
        catalogue.queues(None).count()
    };
    for count in [
        EXCLUSIVE_DELETED_AT_ONCE,
        EXCLUSIVE_DELETED_AT_ONCE + 1,
        1_500,
    ] {
        world.connect("owner", NODE);
        world.rest();
        for number in 0..count {
            world.say("owner", &format!("declare q{number} exclusive"));
        }
        assert_eq!(exclusive(&world), count);
        world.drop_client("owner");
        let env = &world.nodes[&NODE].env;
        assert_eq!(env.deferred_count(), count - EXCLUSIVE_DELETED_AT_ONCE);
        env.deferred_work_most.set(0);
        world.pass(100);
        assert_eq!(exclusive(&world), 0);
        let most = world.nodes[&NODE].env.deferred_work_most.get();
        assert!(most < 2 * TURN_WORK_MAX, "{most} in a turn");
    }
}

#[test]
fn very_many_consumers_of_a_client_that_is_gone_leave_with_others_let_in_between() {
    let mut world = World::new(1);
    for name in ["owner", "b"] {
        world.connect(name, NODE);
    }
    world.rest();
    let consumers = 3 * DETACHED_AT_ONCE;
    world.say("b", "declare q");
    world.say("owner", "qos 1");
    for number in 0..consumers {
        world.say("owner", &format!("consume q t{number}"));
    }
    world.pass(100);
    world.heard();
    world.drop_client("owner");
    let env = &world.nodes[&NODE].env;
    assert_eq!(env.deferred_count(), 1, "the rest of them");
    env.deferred_work_most.set(0);
    let parts = MessageParts {
        properties: &[0, 0],
        ..MessageParts::default()
    };
    let message = Message::from_parts(parts, MessageSummary::default());
    let queue = {
        let catalogue = env.catalogue.borrow();
        catalogue.queue_by_name("/", "q").expect("a queue").id()
    };
    env.with_shard(world.now, env.shard_of(queue), |shard| {
        let bodies = &mut Bodies::default();
        shard.publish(world.now, queue, &message, bodies, &Notify::Nobody);
        let counts = shard.last_queue_counts(world.now, queue);
        assert_eq!(
            (counts.ready, counts.unsettled),
            (1, 0),
            "for whoever is there"
        );
        assert_eq!(counts.consumers as usize, consumers - DETACHED_AT_ONCE);
    });
    world.pass(100);
    let most = world.nodes[&NODE].env.deferred_work_most.get();
    assert!(most < 2 * TURN_WORK_MAX, "{most} in a turn");
    world.say("b", "declare q passive");
    assert_eq!(world.heard(), "b: declared q 1 0");
}

#[test]
fn what_shards_hand_over_at_once_is_carried_out_with_others_let_in_between() {
    let mut world = fan_out();
    world.say(
        "a",
        "declare source x-dead-letter-exchange=f x-dead-letter-routing-key=k",
    );
    let messages = 40;
    world.say("a", &format!("publish source {messages}x1"));
    world.pass(100);
    let borrowed = |world: &World| world.nodes[&NODE].env.catalogues_borrowed.get();
    world.say("a", "consume source t");
    let before = borrowed(&world);
    world.say("a", &format!("nack {messages} multiple"));
    world.pass(100);
    let times = (borrowed(&world) - before) as usize;
    let at_least = messages / (RUN_WORK_MAX / MESSAGE_WORK.start + 1);
    assert!(times >= at_least, "{times} times");
    world.heard();
    world.say("a", "declare q3 passive");
    assert_eq!(world.heard(), format!("a: declared q3 {messages} 0"));
}

#[test]
fn what_shards_hand_over_at_once_is_carried_out_in_turns() {
    let mut world = fan_out();
    world.say(
        "a",
        "declare source x-dead-letter-exchange=f x-dead-letter-routing-key=k",
    );
    let messages = 4 * TURN_WORK_MAX / MESSAGE_WORK.start;
    world.say("a", &format!("publish source {messages}x1"));
    world.pass(100);
    world.say("a", "consume source t");
    world.say("a", &format!("nack {messages} multiple"));
    world.pass(100);
    let most = world.nodes[&NODE].env.deferred_work_most.get();
    let turn = TURN_WORK_MAX..TURN_WORK_MAX + MESSAGE_WORK.end;
    assert!(turn.contains(&most), "{most}");
    world.heard();
    world.say("a", "declare q3 passive");
    assert_eq!(world.heard(), format!("a: declared q3 {messages} 0"));
    world.say("a", "declare source passive");
    assert_eq!(world.heard(), "a: declared source 0 1");
}

#[test]
fn who_held_messages_for_a_channel_that_is_closed_leaves_in_turns() {
    let mut world = World::new(1);
    world.connect("a", NODE);
    world.connect("b", NODE);
    world.rest();
    // As many consumers as two turns are for, each with a message, and cancelled.
    let consumers = 2 * TURN_WORK_MAX / DETACH_WORK;
    world.say("a", "declare q");
    world.say("a", &format!("publish q {consumers}x1"));
    world.say("a", "qos 1");
    world.pass(100);
    let tags: Vec<String> = (0..consumers).map(|number| number.to_string()).collect();
    for tags in tags.chunks(100) {
        let words = tags.iter().flat_map(|tag| {
            let tag = tag.as_str();
            ["consume", "q", tag, "&", "cancel", tag, "&"]
        });
        let mut words: Vec<&str> = words.collect();
        words.pop();
        world.say_all("a", &words);
        world.pass(100);
    }
    world.heard();
    let ready = |world: &mut World| {
        world.say("b", "declare q passive");
        let heard = world.heard();
        let (_, ready) = heard.split_once("b: declared q ")?;
        ready.strip_suffix(" 0")?.parse::<usize>().ok()
    };
    let left = ready(&mut world).expect("it is there");
    let held = consumers - left;
    assert!(held > consumers * 9 / 10, "{held}");
    world.say_all("a", &["close"]);
    let first = ready(&mut world).expect("it is there") - left;
    assert!(first > 0 && first <= consumers * 3 / 4, "{first}");
    world.pass(100);
    world.heard();
    assert_eq!(ready(&mut world), Some(consumers));
}
