//! Classic queues, which live on one node and are reached from all.

use crate::client;
use crate::script::check;
use crate::world::World;
use leveret_queue::Counters;
use leveret_types::NodeId;
use std::collections::BTreeSet;

#[test]
fn a_queue_is_declared_published_to_consumed_and_deleted_at_any_node() {
    check(
        "a@1
         b@2
         c@3
         a declare q => a: declared q 0 0
         b declare q passive => b: declared q 0 0
         b confirm => b: select-ok
         b publish q m1 m2 => b: ack 2*
         a declare q passive => a: declared q 2 0
         c consume q t => c: consuming t, deliver 1 m1, deliver 2 m2
         b declare q passive => b: declared q 0 1
         c ack 1
         c nack 2 requeue => c: deliver 3 again m2
         c ack 3
         c cancel t => c: cancel-ok t
         a publish q m3
         b get q => b: got 1 left=0 m3
         b ack 1
         c get q => c: get-empty
         a publish q m4 m5
         c purge q => c: purged 2
         c consume q u => c: consuming u
         b delete q if-unused => b: close 406 PRECONDITION_FAILED - queue 'q' in vhost '/' in use
         a delete q => a: deleted 0; c: cancelled u",
    );
}

#[test]
fn what_a_consumer_on_another_node_held_returns_when_it_or_its_node_goes() {
    check(
        "a@1
         b@2
         c@3
         a declare q => a: declared q 0 0
         b consume q t => b: consuming t
         a publish q m1 m2 => b: deliver 1 m1, deliver 2 m2
         drop b
         c consume q u => c: consuming u, deliver 1 again m1, deliver 2 again m2
         kill 3
         a get q => a: got 1 left=1 again m1",
    );
}

#[test]
fn an_auto_delete_queue_goes_with_the_node_of_its_last_consumer() {
    check(
        "a@1
         b@2
         c@3
         a declare q auto-delete => a: declared q 0 0
         b consume q t => b: consuming t
         c consume q u => c: consuming u
         c cancel u => c: cancel-ok u
         a declare q passive => a: declared q 0 1
         kill 2
         run 30000
         a declare q passive => a: close 404 NOT_FOUND - no queue 'q' in vhost '/'",
    );
}

#[test]
fn a_queue_whose_node_is_down_refuses_and_its_consumers_are_cancelled() {
    check(
        "a@1
         b@2
         a declare q => a: declared q 0 0
         b confirm => b: select-ok
         b publish q m1 => b: ack 1
         b consume q t => b: consuming t, deliver 1 m1
         kill 1 => b: cancelled t
         b publish q m2 => b: nack 2
         b get q => b: close 404 NOT_FOUND - home node '1' of queue 'q' in vhost '/' is down or \
         inaccessible
         start 1
         c@3
         c get q => c: got 1 left=0 again m1",
    );
}

#[test]
fn a_subscribers_queue_on_a_node_that_is_down_holds_up_no_publish_to_others() {
    for kind in ["exclusive", "transient", "transient auto-delete"] {
        let script = format!(
            "a@1
             b@2
             c@3
             a declare q => a: declared q 0 0
             b declare s {kind} => b: declared s 0 0
             a bind q amq.fanout k => a: bind-ok
             b bind s amq.fanout k => b: bind-ok
             a confirm => a: select-ok
             c tx => c: select-ok
             kill 2
             a publish-to amq.fanout k m1 => a: ack 1
             c publish-to amq.fanout k m2
             c commit => c: commit-ok
             a get q => a: got 1 left=1 m1
             a get q => a: got 2 left=0 m2"
        );
        check(&script);
    }
}

/// It goes with its node's process: it is as if it were gone already.
#[test]
fn what_only_a_subscribers_queue_on_a_node_that_is_down_would_have_is_unroutable() {
    for kind in ["exclusive", "transient", "transient auto-delete"] {
        let script = format!(
            "a@1
             b@2
             line c@3
             t@3
             b declare s {kind} => b: declared s 0 0
             a confirm => a: select-ok
             t tx => t: select-ok
             a publish-mandatory s m1 => a: ack 1
             kill 2
             a publish-mandatory s m2 => a: returned 312 m2, ack 2
             a publish s m3 => a: ack 3
             c publish - s m4 => c: returned m4, confirmed 1
             t publish-mandatory s m5
             t commit => t: returned 312 m5, commit-ok"
        );
        check(&script);
    }
}

/// Simulated nodes number their connections alike: the client that comes is its node's second.
#[test]
fn a_client_that_comes_to_another_node_has_its_queue_anew() {
    for kind in ["exclusive", "transient", "transient auto-delete"] {
        let script = format!(
            "x@1
             a@1
             b@2
             b declare q {kind} => b: declared q 0 0
             b bind q amq.direct k => b: bind-ok
             b publish q m1
             kill 2
             a declare q {kind} => a: declared q 0 0
             a confirm => a: select-ok
             a publish-to amq.direct k m2 => a: ack 1
             a publish q m3 => a: ack 2
             start 2
             a publish q m4 => a: ack 3
             a get q => a: got 1 left=1 m3
             a get q => a: got 2 left=0 m4"
        );
        check(&script);
    }
}

#[test]
fn what_a_client_publishes_right_before_it_closes_is_there() {
    for (close, at) in [
        ("close", 1),
        ("close", 2),
        ("close-connection", 1),
        ("close-connection", 2),
    ] {
        let mut world = World::new(3);
        world.connect("a", NodeId(1));
        world.connect("b", NodeId(at));
        world.say("a", "declare q");
        world.heard();
        // One read of the socket has it all.
        let words = ["publish", "q", "m1", "m2"];
        world.send("b", [client::say(&words), client::say(&[close])].concat());
        world.pass(1_000);
        world.heard();
        world.say("a", "get q");
        world.pass(1_000);
        assert_eq!(world.heard(), "a: got 1 left=1 m1", "{close} at node {at}");
    }
}

#[test]
fn what_is_behind_a_publish_that_fails_never_happened() {
    let mut world = World::new(3);
    world.connect("a", NodeId(1));
    world.connect("b", NodeId(1));
    world.say("a", "declare q");
    world.heard();
    let (bad, good) = (["publish-to", "no-such", "q", "m1"], ["publish", "q", "m2"]);
    world.send("b", [client::say(&bad), client::say(&good)].concat());
    world.pass(1_000);
    assert!(world.heard().contains("404"));
    world.say("a", "get q");
    assert_eq!(world.heard(), "a: get-empty");
}

/// What a client hears that sends all of this at once.
fn heard_of(node: u32, said: &[&str]) -> String {
    let mut world = World::new(3);
    world.connect("a", NodeId(node));
    world.rest();
    world.heard();
    let bytes = said.iter().map(|words| {
        let words: Vec<&str> = words.split_whitespace().collect();
        client::say(&words)
    });
    world.send("a", bytes.collect::<Vec<_>>().concat());
    world.pass(1_000);
    world.heard()
}

#[test]
fn what_comes_of_a_publish_is_said_before_what_is_sent_behind_it_is_answered() {
    let not_found = "close 404 NOT_FOUND - no exchange 'no-such' in vhost '/'";
    let bad = "publish-to no-such q m1";
    for node in [1, 2] {
        for behind in [
            "qos 5",
            "flow",
            "tx",
            "confirm",
            "cancel t",
            "recover",
            "declare q",
            "get q",
            "ack 7",
            "commit",
        ] {
            let heard = heard_of(node, &[bad, behind]);
            assert_eq!(heard, format!("a: {not_found}"), "{behind}");
        }
        // Both sides have closed the channel; the client's closing is answered.
        let heard = heard_of(node, &[bad, "close"]);
        assert_eq!(heard, format!("a: {not_found}, close-ok"));
        let heard = heard_of(node, &[bad, "close-connection"]);
        assert_eq!(heard, format!("a: {not_found}, close-ok"));
        let lost = "publish-mandatory no-such-queue m1";
        for (behind, answer) in [
            ("qos 5", "qos-ok"),
            ("close", "close-ok"),
            ("close-connection", "close-ok"),
        ] {
            let heard = heard_of(node, &[lost, behind]);
            assert_eq!(heard, format!("a: returned 312 m1, {answer}"));
        }
    }
    // Nothing behind the publish has taken effect.
    check(
        "a@1
         b@1
         a declare q => a: declared q 0 0
         a publish q m1
         b get q => b: got 1 left=0 m1",
    );
    let heard = heard_of(1, &["declare q", "publish q m1", "get q", bad, "ack 1"]);
    assert_eq!(
        heard,
        format!("a: declared q 0 0, got 1 left=0 m1, {not_found}")
    );
}

#[test]
fn a_transaction_refuses_what_cannot_be_published_when_it_is_published() {
    for node in [1, 2] {
        let bad = ["tx", "publish-to no-such q m1"];
        let close = "close 404 NOT_FOUND - no exchange 'no-such' in vhost '/'";
        assert_eq!(heard_of(node, &bad), format!("a: select-ok, {close}"));
    }
    check(
        "a@1
         a declare q => a: declared q 0 0
         a tx => a: select-ok
         a publish q m1
         a publish-to amq.fanout q m2
         a commit => a: commit-ok
         a get q => a: got 1 left=0 m1",
    );
}

#[test]
fn any_secret_is_accepted_of_a_user_who_has_none_that_runs_out() {
    check(
        "a@1
         a update-secret whatever => a: update-secret-ok
         a declare q => a: declared q 0 0",
    );
}

#[test]
fn the_pseudo_queue_of_direct_replies_is_there_before_anybody_consumes_from_it() {
    check(
        "a@1
         a declare amq.rabbitmq.reply-to => a: declared amq.rabbitmq.reply-to 0 1
         a declare amq.rabbitmq.reply-to passive => a: declared amq.rabbitmq.reply-to 0 1
         a consume amq.rabbitmq.reply-to t noack => a: consuming t
         a declare amq.rabbitmq.reply-to.x passive => a: close 404 NOT_FOUND - \
         no queue 'amq.rabbitmq.reply-to.x' in vhost '/'",
    );
}

#[test]
fn a_queue_of_another_connection_cannot_be_unbound() {
    check(
        "a@1
         b@1
         a declare q exclusive => a: declared q 0 0
         a bind q amq.direct k => a: bind-ok
         b unbind q amq.direct k => b: close 405 RESOURCE_LOCKED - cannot obtain exclusive access \
         to locked queue 'q' in vhost '/'. It could be originally declared on another connection \
         or the exclusive property value does not match that of the original declaration.
         a unbind q amq.direct k => a: unbind-ok
         a unbind gone amq.direct k => a: unbind-ok",
    );
}

/// The other connection's node may not have heard of the queue yet when it is asked. Simulated
/// nodes number their connections alike: the stranger is its node's second.
#[test]
fn a_queue_of_a_connection_of_another_node_cannot_be_unbound() {
    for (owner, stranger) in [(1, 2), (2, 3), (3, 1)] {
        let script = format!(
            "a@{owner}
             c@{stranger}
             b@{stranger}
             a declare q exclusive => a: declared q 0 0
             a bind q amq.direct k => a: bind-ok
             b unbind q amq.direct k => b: close 405 RESOURCE_LOCKED - cannot obtain exclusive \
             access to locked queue 'q' in vhost '/'. It could be originally declared on another \
             connection or the exclusive property value does not match that of the original \
             declaration.
             a unbind q amq.direct k => a: unbind-ok
             b@{stranger}
             b unbind gone amq.direct k => b: unbind-ok"
        );
        check(&script);
    }
}

#[test]
fn a_queue_that_is_declared_passively_is_in_use() {
    for at in ["a", "b"] {
        let script = "a@1
         b@2
         a declare q x-expires=2000 => a: declared q 0 0
         a declare p x-expires=2000 => a: declared p 0 0
         run 1500
         @ declare q passive => @: declared q 0 0
         run 1500
         @ declare q passive => @: declared q 0 0
         a declare p passive => a: close 404 NOT_FOUND - no queue 'p' in vhost '/'";
        check(
            &script
                .replace("@ ", &format!("{at} "))
                .replace("@:", &format!("{at}:")),
        );
    }
}

#[test]
fn a_declaration_is_made_again_if_the_queue_is_deleted_before_it_is_answered() {
    for is_there in [true, false] {
        let mut world = World::new(3);
        world.connect("a", NodeId(1));
        world.rest();
        if is_there {
            world.say("a", "declare q");
        }
        world.heard();
        world.send("a", client::say(&["declare", "q"]));
        let deletion = leveret_metadata::Command::QueueDelete {
            vhost: "/".to_owned(),
            name: "q".to_owned(),
            connection: None,
            id: None,
        };
        let node = &world.nodes[&NodeId(1)];
        let asked = node.env.proposals.borrow().len();
        assert_eq!(asked, 1, "the declaration waits to be agreed on");
        node.env.proposals.borrow_mut().push((None, deletion));
        world.rest();
        assert_eq!(world.heard(), "a: declared q 0 0");
        world.say("a", "declare q passive");
        assert_eq!(world.heard(), "a: declared q 0 0", "it is there");
    }
}

#[test]
fn the_bound_of_a_channel_is_shared_by_its_queues_and_consumers() {
    // Whoever was there first has all that it may; what comes back goes round.
    check(
        "a@1
         b@1
         a declare q => a: declared q 0 0
         a declare p => a: declared p 0 0
         a publish q q1 q2 q3 q4 q5 q6 q7 q8 q9
         a publish p p1 p2 p3 p4 p5 p6
         b qos 4 global => b: qos-ok
         b consume q t => b: consuming t, deliver 1 q1, deliver 2 q2, deliver 3 q3, deliver 4 q4
         b consume p u => b: consuming u
         b ack 1 => b: deliver 5 q5
         b ack 2 => b: deliver 6 p1
         b ack 3 => b: deliver 7 q6
         b ack 7 multiple => b: deliver 8 p2, deliver 9 p3, deliver 10 q7, deliver 11 p4
         b consume q v => b: consuming v
         b ack 8 => b: deliver 12 q8
         a purge p => a: purged 2
         b ack 0 multiple => b: deliver 13 q9",
    );
}

#[test]
fn an_ack_under_the_bound_of_a_channel_looks_at_few_of_its_consumers() {
    // All want more, and as many as there is room for get it.
    let looks = |consumers: u32| {
        let mut world = World::new(1);
        world.connect("a", NodeId(1));
        world.rest();
        world.heard();
        let mut hear = |words: &str| {
            let before = world.nodes[&NodeId(1)].env.shards_borrowed.get();
            world.say("a", words);
            world.rest();
            let borrowed = world.nodes[&NodeId(1)].env.shards_borrowed.get() - before;
            (world.heard(), borrowed)
        };
        hear("qos 1 global");
        for number in 0..consumers {
            hear(&format!("declare q{number}"));
            hear(&format!("publish q{number} {number}.1 {number}.2"));
            hear(&format!("consume q{number} t{number}"));
        }
        let (mut most, mut delivered) = (0, BTreeSet::new());
        for tag in 1..2 * consumers {
            let (heard, borrowed) = hear(&format!("ack {tag}"));
            let next = format!("a: deliver {} ", tag + 1);
            assert!(heard.starts_with(&next), "{heard}");
            let (_, message) = heard.rsplit_once(' ').expect("looked at above");
            assert!(delivered.insert(message.to_owned()), "{message} again");
            most = most.max(borrowed);
        }
        most
    };
    assert_eq!(looks(50), looks(2));
}

#[test]
fn a_consumer_without_acks_waits_while_the_bound_of_its_channel_is_used_up() {
    check(
        "a@1
         b@1
         a declare q => a: declared q 0 0
         a declare p => a: declared p 0 0
         b qos 2 global => b: qos-ok
         b consume q t => b: consuming t
         b consume p u noack => b: consuming u
         a publish p p1 p2 p3 => b: deliver 1 p1, deliver 2 p2, deliver 3 p3
         a publish q q1 q2 => b: deliver 4 q1, deliver 5 q2
         a publish p p4 p5
         b ack 4 => b: deliver 6 p4, deliver 7 p5",
    );
}

#[test]
fn what_queues_count_together_follows_each_of_them() {
    // On a lone node, which hosts both types alike, and where a quorum queue has replicas.
    for nodes in [1, 3] {
        let mut world = World::new(nodes);
        world.connect("a", NodeId(1));
        world.counters();
        for words in [
            "declare q",
            "declare r quorum",
            "publish q q1 q2 q3 q4",
            "publish r r1 r2 r3",
            "get q",
            "ack 1",
            "get r",
            "nack 2 requeue",
            "get r noack",
            "consume q t",
            "ack 0 multiple",
            "cancel t",
            "consume r u",
            "ack 0 multiple",
            "publish q q5",
            "purge q",
            "get q",
        ] {
            world.say("a", words);
            world.counters();
        }
        world.heard();
        let [classic, quorum] = world.counters();
        assert_eq!((classic.got, classic.got_empty, classic.purged), (1, 1, 1));
        assert_eq!((classic.delivered, classic.accepted), (3, 4));
        assert_eq!(
            (quorum.got, quorum.got_settled, quorum.redelivered),
            (1, 1, 1)
        );
        assert_eq!((quorum.delivered, quorum.accepted), (2, 2));
        world.say("a", "declare e x-message-ttl=50");
        world.say("a", "declare f quorum x-message-ttl=50");
        world.say("a", "publish e e1 e2");
        world.say("a", "publish f f1");
        world.counters();
        world.pass(1_000);
        let [classic, quorum] = world.counters();
        assert_eq!((classic.expired, quorum.expired), (2, 1));
        for queue in ["q", "r", "e", "f"] {
            world.say("a", &format!("delete {queue}"));
            world.counters();
        }
        let none = [Counters::default(); 2];
        assert_eq!(world.counters(), none, "what is gone counts no more");
    }
}

#[test]
fn a_delayed_message_waits_for_a_queue_whose_node_is_down_when_it_is_due() {
    check(
        "a@1
         b@2
         b declare q => b: declared q 0 0
         a exchange d x-delayed-message x-delayed-type=fanout => a: declare-ok
         a bind q d => a: bind-ok
         a confirm => a: select-ok
         a publish-delayed d m1 1000 => a: ack 1
         kill 2
         run 60000
         start 2
         run 60000
         c@2
         c get q => c: got 1 left=0 m1
         c ack 1
         run 600000
         c get q => c: get-empty",
    );
}

#[test]
fn where_a_delayed_message_goes_to_other_queues_too_they_have_it_after_a_minute() {
    check(
        "a@1
         b@2
         a declare p => a: declared p 0 0
         b declare q => b: declared q 0 0
         a exchange d x-delayed-message x-delayed-type=fanout => a: declare-ok
         a bind p d => a: bind-ok
         a bind q d => a: bind-ok
         a confirm => a: select-ok
         a publish-delayed d m1 1000 => a: ack 1
         kill 2
         run 55000
         a get p => a: get-empty
         run 60000
         a get p => a: got 1 left=0 m1
         start 2
         run 600000
         a get p => a: get-empty",
    );
}
