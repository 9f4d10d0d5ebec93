//! Views of streams that are quorum queues: any node serves them, and what is settled stays settled
//! whichever node dies.

use crate::script::{check, play_on};
use crate::world::World;
use leveret_types::NodeId;
use leveret_types::limits::{QUORUM_HEADERS_KEPT, VIEW_UNSETTLED_MAX};

/// A stream of node 1's, and clients of all nodes.
const STREAM: &str = "a@1
     b@2
     c@3
     a declare s x-queue-type=stream x-queue-leader-locator=client-local => a: declared s 0 0";

/// A view of it that node 2 leads.
const VIEW: &str =
    "b declare v quorum x-stream-source=s x-queue-leader-locator=client-local => b: declared v 0 0
     run 1000";

fn after_declaring(script: &str) {
    check(&format!("{STREAM}\n{VIEW}\n{script}"));
}

#[test]
fn a_view_goes_on_under_another_leader_with_what_is_not_settled() {
    after_declaring(
        "a publish s m0 m1 m2 m3
         c qos 2 => c: qos-ok
         c consume v t => c: consuming t, deliver 1 m0, deliver 2 m1
         c ack 1 => c: deliver 3 m2
         run 1000
         kill leader v
         run 5000
         c ack 3 => c: deliver 4 again m3
         a publish s m4
         c ack 2 => c: deliver 5 m4
         c ack 5 multiple
         run 1000
         a declare v passive => a: declared v 0 1
         c cancel t => c: cancel-ok t
         c get v => c: get-empty",
    );
}

#[test]
fn what_was_settled_does_not_come_again_after_all_nodes_have_died() {
    after_declaring(
        "a publish s m0 m1 m2 m3
         c consume v t => c: consuming t, deliver 1 m0, deliver 2 m1, deliver 3 m2, deliver 4 m3
         c ack 2
         c ack 4
         run 1000
         kill 1
         kill 2
         kill 3
         start
         run 3000
         d@3
         d consume v t => d: consuming t, deliver 1 again m0, deliver 2 again m2
         d ack 2 multiple
         run 1000
         d declare v passive => d: declared v 0 1",
    );
}

#[test]
fn where_a_view_begins_is_said_once_whoever_leads_it() {
    check(&format!(
        "{STREAM}
         a publish s m0 m1
         b declare v quorum x-stream-source=s x-stream-offset=next \
         x-queue-leader-locator=client-local => b: declared v 0 0
         run 1000
         a publish s m2
         kill leader v
         run 5000
         c consume v t => c: consuming t, deliver 1 m2"
    ));
}

#[test]
fn messages_are_shared_given_back_got_and_counted() {
    after_declaring(
        "a publish s m0 m1 m2
         run 6000
         c declare v passive => c: declared v 3 0
         c qos 1 => c: qos-ok
         b qos 1 => b: qos-ok
         c consume v t => c: consuming t, deliver 1 m0
         b consume v t => b: consuming t, deliver 1 m1
         a declare v passive => a: declared v 1 2
         c reject 1 requeue => c: deliver 2 again count=1 m0
         b nack 1 requeue => b: deliver 2 again acquired=1 m1
         drop c
         b ack 2 => b: deliver 3 again count=2 m0
         b cancel t => b: cancel-ok t
         a get v noack => a: got 1 left=0 m2
         a get v => a: get-empty
         b nack 3 requeue
         run 1000
         a get v => a: got 2 left=0 again count=2 acquired=3 m0
         a consume v u noack => a: consuming u
         a publish s m3 => a: deliver 3 m3",
    );
}

#[test]
fn what_comes_back_too_often_is_dead_lettered_and_so_is_what_is_rejected() {
    check(&format!(
        "{STREAM}
         a declare d quorum => a: declared d 0 0
         b declare v quorum x-stream-source=s x-delivery-limit=1 x-dead-letter-exchange= \
         x-dead-letter-routing-key=d => b: declared v 0 0
         run 1000
         a publish s m0 m1
         c get v => c: got 1 left=1 m0
         c reject 1 requeue
         run 100
         c get v => c: got 2 left=1 again count=1 m0
         c reject 2 requeue
         c get v => c: got 3 left=0 m1
         c reject 3
         run 1000
         c get v => c: get-empty
         a get d noack => a: got 1 left=1 m0
         a get d noack => a: got 2 left=0 m1"
    ));
}

#[test]
fn dead_letters_that_must_arrive_do_so_under_another_leader() {
    check(&format!(
        "{STREAM}
         b declare v quorum x-stream-source=s x-dead-letter-strategy=at-least-once \
         x-dead-letter-exchange= x-dead-letter-routing-key=d \
         x-queue-leader-locator=client-local => b: declared v 0 0
         run 1000
         a publish s m0
         c get v => c: got 1 left=0 m0
         c reject 1
         run 1000
         kill leader v
         run 10000
         a declare d quorum => a: declared d 0 0
         run 6000
         a get d noack => a: got 1 left=0 m0
         run 6000
         a get d noack => a: get-empty
         a get v => a: get-empty"
    ));
}

#[test]
fn a_dead_letter_to_a_view_goes_nowhere_and_stays_where_it_must_arrive() {
    check(&format!(
        "{STREAM}
         b declare v quorum x-stream-source=s => b: declared v 0 0
         a declare d quorum x-dead-letter-strategy=at-least-once x-overflow=reject-publish \
         x-dead-letter-exchange= x-dead-letter-routing-key=v => a: declared d 0 0
         run 1000
         a publish d m0
         c get d => c: got 1 left=0 m0
         c reject 1
         run 6000
         c get v => c: get-empty
         a delete v => a: deleted 0
         a declare v quorum => a: declared v 0 0
         run 6000
         c get v noack => c: got 2 left=0 m0"
    ));
}

#[test]
fn a_purge_gives_up_what_the_stream_has_and_nothing_that_comes_later() {
    after_declaring(
        "a publish s m0 m1 m2
         c get v => c: got 1 left=2 m0
         c purge v => c: purged 2
         run 1000
         kill leader v
         run 5000
         a publish s m3
         c consume v t => c: consuming t, deliver 2 m3
         c reject 1 requeue => c: deliver 3 again count=1 m0
         a publish s m4 & purge v => a: purged 1
         a publish s m5 => c: deliver 4 m5",
    );
}

#[test]
fn what_a_view_does_not_do_is_refused() {
    after_declaring(
        "a publish v m => a: close 406 PRECONDITION_FAILED - queue 'v' in vhost '/' is a view of \
         the stream 's': publish to the stream",
    );
    after_declaring(
        "a bind v amq.topic k => a: close 406 PRECONDITION_FAILED - queue 'v' in vhost '/' is a \
         view of the stream 's': nothing is bound to a view, bind the stream",
    );
    after_declaring(
        "a declare v quorum => a: close 406 PRECONDITION_FAILED - inequivalent arg \
         'x-stream-source' for queue 'v' in vhost '/': received none but current is the value 's' \
         of type 'longstr'",
    );
}

#[test]
fn a_view_goes_with_its_stream_and_one_of_its_name_begins_anew() {
    after_declaring(
        "a publish s m0
         c consume v t => c: consuming t, deliver 1 m0
         a delete s => a: deleted 0; c: cancelled t
         run 1000
         b declare v passive => b: close 404 NOT_FOUND - no queue 'v' in vhost '/'
         a declare s x-queue-type=stream => a: declared s 0 0
         d@2
         d declare v quorum x-stream-source=s => d: declared v 0 0
         a publish s m1
         d consume v u => d: consuming u, deliver 1 m1",
    );
}

#[test]
fn the_death_of_the_streams_node_delays_a_view() {
    after_declaring(
        "a publish s m0 m1
         c qos 1 => c: qos-ok
         c consume v t => c: consuming t, deliver 1 m0
         run 100
         kill 1
         run 3000
         c ack 1 => c: deliver 2 m1
         c ack 2
         start 1
         run 3000
         d@1
         d publish s m2 => c: deliver 3 m2",
    );
}

#[test]
fn a_leader_that_is_cut_off_settles_nothing_and_gives_nothing_out() {
    after_declaring(
        "a publish s m0 m1
         b qos 1 => b: qos-ok
         b consume v t => b: consuming t, deliver 1 m0
         run 1000
         isolate 2
         run 5000
         b ack 1
         run 1000
         c consume v t => c: consuming t, deliver 1 again m0, deliver 2 again m1
         c ack 2 multiple
         c cancel t => c: cancel-ok t
         heal
         run 5000
         a publish s m2 => b: deliver 2 m2",
    );
}

/// A member that was away gets the state, and leads with it.
#[test]
fn a_member_that_was_away_is_sent_what_is_not_settled() {
    let mut world = World::new(3);
    play_on(&mut world, &format!("{STREAM}\n{VIEW}"));
    world.kill(NodeId(3));
    world.say("a", "qos 2");
    world.say("a", "consume v t");
    for number in 0..3 * QUORUM_HEADERS_KEPT {
        world.say("a", &format!("publish s m{number}"));
        // All but the first, each an entry of its own.
        if number > 0 {
            world.say("a", &format!("ack {}", number + 1));
        }
        world.pass(100);
    }
    world.heard();
    world.start(NodeId(3));
    world.pass(3_000);
    world.transfer("v", NodeId(3));
    assert_eq!(world.leader("v"), Some(NodeId(3)));
    world.say("a", "publish s last");
    let last = 3 * QUORUM_HEADERS_KEPT + 1;
    assert_eq!(world.heard(), format!("a: deliver {last} last"));
    world.drop_client("a");
    world.pass(1_000);
    world.connect("d", NodeId(3));
    world.pass(1_000);
    world.say("d", "consume v t");
    world.pass(1_000);
    let heard = world.heard();
    assert!(
        heard.contains("deliver 1 again count=1 m0, deliver 2 again count=1 last"),
        "{heard}"
    );
    assert!(!heard.contains("deliver 3"), "{heard}");
}

/// A node that is up for all that the next leader knows is awaited by it, which reads the stream
/// for the purge meanwhile.
#[test]
fn a_purge_takes_what_the_next_leader_was_given_before_it_may_act() {
    let mut world = World::new(5);
    let view = VIEW.replace("quorum", "quorum x-quorum-initial-group-size=3");
    play_on(&mut world, &format!("{STREAM}\n{view}"));
    let (members, _) = world.members("v");
    let is_outside = |node: &NodeId| members.iter().all(|member| member.node() != *node);
    // The first node has the stream.
    let silent = (2..=5).map(NodeId).find(is_outside);
    let silent = silent.expect("a queue has three members");
    play_on(&mut world, "a publish s m0 m1 m2\n run 6000");
    world.mute.insert(silent);
    let leader = world.leader("v").expect("it is led");
    world.kill(leader);
    world.pass(4_000);
    // Entries are not committed from now on.
    let writing = std::mem::take(&mut world.syncing);
    world.say("a", "purge v");
    world.pass(3_000);
    assert_eq!(world.heard(), "");
    world.syncing = writing;
    world.pass(1_000);
    assert_eq!(world.heard(), "a: purged 3");
    world.say("a", "consume v t");
    world.say("a", "publish s m3");
    assert_eq!(world.heard(), "a: consuming t, deliver 1 m3");
}

/// So many messages are out at most, whoever leads.
#[test]
fn a_view_hands_out_as_many_messages_as_may_be_unsettled_and_no_more() {
    let mut world = World::new(3);
    play_on(&mut world, &format!("{STREAM}\n{VIEW}"));
    let most = VIEW_UNSETTLED_MAX;
    world.say("a", &format!("publish s {}x1", most + 2));
    world.say("c", "consume v t");
    world.pass(2_000);
    let deliveries = |world: &mut World| world.heard().matches("deliver").count();
    assert_eq!(deliveries(&mut world), most);
    world.say("c", "ack 1");
    world.pass(1_000);
    assert_eq!(deliveries(&mut world), 1);
    let leader = world.leader("v").expect("it is led");
    world.kill(leader);
    world.pass(5_000);
    assert_eq!(
        deliveries(&mut world),
        0,
        "as many are out under the next leader"
    );
    world.say("c", "ack 2");
    world.pass(1_000);
    assert_eq!(deliveries(&mut world), 1);
}
