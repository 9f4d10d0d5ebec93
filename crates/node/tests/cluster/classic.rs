//! Classic queues, which live on one node and are reached from all.

use crate::script::check;

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
