//! The client port, by a session of a protocol that is not AMQP 0-9-1: [`crate::line_session`].

use crate::script::check;
use crate::world::World;
use leveret_types::NodeId;
use leveret_types::limits::CREDIT_UNSETTLED_MAX;

const KINDS: [&str; 3] = ["classic", "quorum", "stream"];

/// Where a stream is read from; other queues pass over it.
const FIRST: &str = "x-stream-offset=first";

#[test]
fn every_kind_of_queue_is_published_to_and_consumed_from_on_every_node_with_confirms() {
    for kind in KINDS {
        for reader in ["a", "b", "c"] {
            check(&format!(
                "line a@1
                 line b@2
                 line c@3
                 a declare q {kind} => a: declared q 0 0
                 run 2000
                 a publish - q m1 => a: confirmed 1
                 b publish - q m2 & publish - q m3 => b: confirmed ..2
                 c publish - q m4 => c: confirmed 1
                 {reader} declare q ? => {reader}: declared q 4 0
                 {reader} subscribe q s prefetch=2 {FIRST} => {reader}: subscribed s, \
                 deliver s 1 m1, deliver s 2 m2
                 {reader} settle accept 1 2 => {reader}: deliver s 3 m3, deliver s 4 m4
                 {reader} settle accept 3 4
                 {reader} cancel s => {reader}: cancelled s
                 a publish - q m5 => a: confirmed 2
                 c delete q => c: deleted {}",
                if kind == "stream" { 0 } else { 1 },
            ));
        }
    }
}

#[test]
fn a_consumer_by_credit_is_delivered_what_it_asked_for_and_settles_give_none() {
    for kind in KINDS {
        for node in 1..=3 {
            check(&format!(
                "line a@1
                 line b@{node}
                 a declare q {kind} => a: declared q 0 0
                 run 2000
                 a publish - q m1 & publish - q m2 & publish - q m3 & publish - q m4 \
                 & publish - q m5 => a: confirmed ..5
                 b subscribe q s credit=2 {FIRST} => b: subscribed s, deliver s 1 m1, \
                 deliver s 2 m2
                 b settle accept 1 2
                 b credit s 1 => b: deliver s 3 m3
                 b credit s 1 => b: deliver s 4 m4
                 b settle accept 3 4
                 b credit s 2 => b: deliver s 5 m5
                 a publish - q m6 => a: confirmed 6; b: deliver s 6 m6
                 a publish - q m7 => a: confirmed 7
                 b credit s 1 => b: deliver s 7 m7"
            ));
        }
    }
}

#[test]
fn a_consumer_by_credit_holds_as_many_as_it_may_and_not_one_more() {
    let delivered = |heard: &str| heard.matches("deliver s").count();
    for kind in ["classic", "quorum"] {
        let mut world = World::new(3);
        world.connect_line("a", NodeId(1));
        world.rest();
        let say = |world: &mut World, words: &str| {
            world.send("a", format!("{words}\n").into_bytes());
            world.pass(3_000);
            world.heard()
        };
        say(&mut world, &format!("declare q {kind}"));
        let all = vec!["publish - q m"; CREDIT_UNSETTLED_MAX as usize + 2];
        say(&mut world, &all.join("\n"));
        let heard = say(&mut world, "subscribe q s credit=100000");
        assert_eq!(delivered(&heard), CREDIT_UNSETTLED_MAX as usize, "{kind}");
        let heard = say(&mut world, "settle accept 1 1");
        assert_eq!(delivered(&heard), 1, "{kind}");
    }
}

#[test]
fn a_subscription_waits_with_no_credit() {
    for kind in ["classic", "quorum"] {
        check(&format!(
            "line a@2
             a declare q {kind} => a: declared q 0 0
             run 2000
             a publish - q m1 => a: confirmed 1
             a subscribe q s credit=0 => a: subscribed s
             a credit s 1 => a: deliver s 1 m1
             a settle requeue 1 1
             a credit s 1 => a: deliver s 2 m1"
        ));
    }
}

#[test]
fn one_message_is_got_and_settled_or_nothing_is_there() {
    for kind in ["classic", "quorum"] {
        check(&format!(
            "line a@1
             line b@3
             a declare q {kind} => a: declared q 0 0
             run 2000
             b get q => b: empty
             a publish - q m1 & publish - q m2 => a: confirmed ..2
             b get q => b: got 1 m1 left=1
             b settle requeue 1 1
             b get q => b: got 2 m1 left=1
             b get q => b: got 3 m2 left=0
             b settle accept 2 3
             b get q => b: empty"
        ));
    }
}

#[test]
fn what_finds_no_queue_is_returned_and_then_confirmed() {
    check(
        "line a@1
         a publish - nowhere m1 => a: returned m1, confirmed 1
         a declare q classic => a: declared q 0 0
         a bind q amq.topic k.* => a: bound
         a publish amq.topic k.1 m2 => a: confirmed 2
         a get q => a: got 1 m2 left=0",
    );
}

#[test]
fn errors_are_told_in_the_words_of_the_broker() {
    check(
        "line a@2
         a declare q ? => a: error 404 no queue 'q' in vhost '/'
         a get q => a: error 404 no queue 'q' in vhost '/'
         a publish nowhere k m1 => a: error 404 no exchange 'nowhere' in vhost '/'
         a declare s stream => a: declared s 0 0
         a get s => a: error 540 basic.get not supported by stream queues queue 's' in vhost '/'",
    );
}

#[test]
fn the_end_of_a_queue_ends_its_consumers_on_every_node() {
    for kind in KINDS {
        check(&format!(
            "line a@1
             line b@2
             line c@3
             a declare q {kind} => a: declared q 0 0
             run 2000
             b subscribe q s prefetch=9 => b: subscribed s
             c subscribe q t credit=9 => c: subscribed t
             a delete q => a: deleted 0; b: ended s; c: ended t"
        ));
    }
}

#[test]
fn what_a_client_holds_returns_when_it_goes() {
    for kind in ["classic", "quorum"] {
        check(&format!(
            "line a@1
             line b@2
             a declare q {kind} => a: declared q 0 0
             run 2000
             a publish - q m1 => a: confirmed 1
             b subscribe q s credit=5 => b: subscribed s, deliver s 1 m1
             a get q => a: empty
             drop b
             a get q => a: got 1 m1 left=0"
        ));
    }
}

#[test]
fn an_alarm_holds_publishers_and_nobody_else() {
    check(
        "line a@1
         a declare q classic => a: declared q 0 0
         a publish - q m1 => a: confirmed 1
         disk-alarm 1 on => a: blocked low on disk
         a get q & publish - q m2 => a: got 1 m1 left=0
         disk-alarm 1 off => a: unblocked, confirmed 2
         a get q => a: got 2 m2 left=0",
    );
}

#[test]
fn clients_of_both_protocols_use_the_same_queues() {
    for kind in KINDS {
        check(&format!(
            "line a@2
             b@3
             a declare q {kind} => a: declared q 0 0
             run 2000
             b confirm => b: select-ok
             b publish q m1 => b: ack 1
             a publish - q m2 => a: confirmed 1
             a subscribe q s prefetch=1 {FIRST} => a: subscribed s, deliver s 1 m1
             drop a
             b qos 9 => b: qos-ok
             b consume q t {FIRST} => b: consuming t, deliver 1{} m1, deliver 2 m2",
            match kind {
                "classic" => " again",
                "quorum" => " again count=1",
                _ => "",
            },
        ));
    }
}

#[test]
fn a_message_is_kept_in_its_format_and_converted_where_it_leaves_in_another() {
    for kind in KINDS {
        let is_stream = kind == "stream";
        check(&format!(
            "line a@1
             line b@2
             c@3
             a declare q {kind} => a: declared q 0 0
             run 2000
             a publish - q amqp10:m1 => a: confirmed 1
             b subscribe q s credit=1 {FIRST} => b: subscribed s, deliver s 1 {}
             drop b
             c qos 9 => c: qos-ok
             c consume q t {FIRST} => c: consuming t, deliver 1{} m1",
            // What AMQP 0-9-1 and this protocol read of a stream was converted for them.
            if is_stream { "m1" } else { "amqp10:m1" },
            match kind {
                "classic" => " again",
                "quorum" => " again count=1",
                _ => "",
            },
        ));
    }
}

#[test]
fn a_message_in_another_format_is_dead_lettered_as_amqp_0_9_1() {
    check(
        "a@2
         line b@1
         a declare dead => a: declared dead 0 0
         a declare q quorum x-dead-letter-exchange= x-dead-letter-routing-key=dead \
         => a: declared q 0 0
         run 2000
         b publish - q amqp10:m1 => b: confirmed 1
         b get q => b: got 1 amqp10:m1 left=0
         b settle reject 1 1
         run 1000
         b get dead => b: got 2 m1 left=0",
    );
}
