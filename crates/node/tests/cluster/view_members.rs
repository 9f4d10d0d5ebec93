//! Views of streams that get other members than they had: what is settled stays settled, what is
//! not comes, and what was delivered before says so.

use crate::script::check;

/// A stream of three replicas with messages, that node 2 leads, and clients of all nodes.
const STREAM: &str = "a@1
     b@2
     c@3
     b declare s x-queue-type=stream x-queue-leader-locator=client-local => b: declared s 0 0
     b publish s m0 m1 m2 m3 m4 m5";

/// A classic view of node 1's, of which clients hold and have settled some; then a group.
const HELD: &str = "a declare ha x-stream-source=s => a: declared ha 0 0
     c qos 3 => c: qos-ok
     c consume ha t => c: consuming t, deliver 1 m0, deliver 2 m1, deliver 3 m2
     c ack 2 => c: deliver 4 m3
     a get ha => a: got 1 left=1 m4
     a ack 1";

#[test]
fn a_view_that_gets_a_group_goes_on_with_what_it_knows() {
    check(&format!(
        "{STREAM}
         {HELD}
         found ha 1
         grow ha 2
         grow ha 3
         b declare ha passive => b: declared ha 1 1
         c ack 1 => c: deliver 5 m5
         kill 1
         run 5000
         c ack 3 multiple
         b publish s m6 => c: deliver 6 m6
         c ack 6 multiple
         run 1000
         b declare ha passive => b: declared ha 0 1
         b get ha => b: get-empty"
    ));
}

#[test]
fn what_consumers_at_the_views_own_node_held_comes_again_with_its_flag() {
    check(&format!(
        "{STREAM}
         a declare ha x-stream-source=s => a: declared ha 0 0
         a qos 3 => a: qos-ok
         a consume ha t => a: consuming t, deliver 1 m0, deliver 2 m1, deliver 3 m2
         a ack 2 => a: deliver 4 m3
         found ha 1 => a: cancelled t
         grow ha 2
         grow ha 3
         kill 1
         run 5000
         c consume ha u => c: consuming u, deliver 1 again m0, deliver 2 again m2, \
         deliver 3 again m3, deliver 4 m4, deliver 5 m5"
    ));
}

/// Nothing of the change was durable, or all of it. After a crash of a view on one node all that it
/// had read is flagged.
#[test]
fn a_crash_in_the_middle_of_the_change_costs_nothing_that_was_settled() {
    for (stall, unstall, m5) in [("stall 1", "", "again m5"), ("run 1", "run 100", "m5")] {
        check(&format!(
            "{STREAM}
             {HELD}
             run 100
             {stall}
             found ha 1
             {unstall}
             kill 1
             start
             run 3000
             grow ha 2
             grow ha 3
             kill 1
             run 5000
             drop c
             b publish s m6
             b consume ha u => b: consuming u, deliver 1 again m0, deliver 2 again m2, \
             deliver 3 again m3, deliver 4 {m5}, deliver 5 m6"
        ));
    }
}

#[test]
fn a_quorum_view_of_one_node_becomes_one_of_three_and_one_of_one_elsewhere() {
    check(&format!(
        "{STREAM}
         a declare v quorum x-stream-source=s x-quorum-initial-group-size=1 \
         x-queue-leader-locator=client-local => a: declared v 0 0
         run 1000
         c qos 3 => c: qos-ok
         c consume v t => c: consuming t, deliver 1 m0, deliver 2 m1, deliver 3 m2
         c ack 2 => c: deliver 4 m3
         grow v 2
         grow v 3
         c ack 1 => c: deliver 5 m4
         shrink v 1
         kill 1
         run 5000
         c ack 3 => c: deliver 6 again m5
         start 1
         run 3000
         c ack 5
         b publish s m6 => c: deliver 7 m6
         c ack 7
         run 1000
         shrink v 2
         run 1000
         kill 2
         start 2
         run 5000
         d@2
         d declare v passive => d: declared v 0 1
         drop c
         run 1000
         d consume v u => d: consuming u, deliver 1 again count=1 m3, \
         deliver 2 again count=1 acquired=2 m5
         d ack 2 multiple
         run 1000
         kill 3
         start 3
         run 5000
         d publish s m7 => d: deliver 3 m7"
    ));
}

#[test]
fn a_purge_is_kept_by_the_group_that_comes_after_it() {
    check(&format!(
        "{STREAM}
         a declare ha x-stream-source=s => a: declared ha 0 0
         run 6000
         a purge ha => a: purged 6
         found ha 1
         grow ha 2
         grow ha 3
         b publish s m6
         kill 1
         run 5000
         c consume ha t => c: consuming t, deliver 1 m6"
    ));
}
