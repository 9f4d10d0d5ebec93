//! Quorum queues: any node serves them, and a confirm outlives any one of them.

use crate::script::check;

#[test]
fn a_queue_is_declared_published_to_consumed_and_deleted_at_any_node() {
    check(
        "a@1
         b@2
         c@3
         a declare q quorum => a: declared q 0 0
         run 1000
         b declare q passive => b: declared q 0 0
         b confirm => b: select-ok
         b publish q m1 m2 => b: ack 2*
         a declare q passive => a: declared q 2 0
         c consume q t => c: consuming t, deliver 1 m1, deliver 2 m2
         b declare q passive => b: declared q 0 1
         c ack 1
         c reject 2 requeue => c: deliver 3 again count=1 m2
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
