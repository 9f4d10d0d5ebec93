//! The leader of a view of a stream, what is said to it, and what it makes of that: scripts.

use super::led::play;

#[test]
fn what_the_stream_has_is_delivered_once_an_entry_says_so() {
    play(
        "view",
        "1 absent
         2 absent
         1 present => 1: committed 0
         stream 3
         1 count
         1 attach 7 prefetch=2 => 1: attached 7, reads from 0
         stream 1
         under way => work open urgent
         1 count
         commit => 1: counted 4 0 1, 1: 7 gets m0 at 0/0, 1: 7 gets m1 at 0/1, 1: counted 2 2 1
         1 accept 7 0/0..1 => 1: 7 gets m2 at 0/2
         run 30 => 1: committed 1
         1 count => 1: counted 1 2 1
         depths => [3, 1, 2]
         1 publish 1 => 1: refused 2..3
         1 reject 7 0/1..2 => 1: 7 gets m3 at 0/3
         1 requeue 7 0/2..3
         run 30 => 1: committed 4, 1: 7 gets m2 at 0/2 again failed=1 had=1
         1 fetch 7 0/2 => 1: fetched m2
         1 fetch 7 0/0 => 1: fetched gone
         1 cancel 7 => 1: cancelled 7
         1 detach 7
         1 peek 0
         1 peek 1
         1 peek 2
         run 30 => 1: peeked m2, 1: peeked m3, 1: peeked gone",
    );
}

#[test]
fn who_leads_next_reads_again_what_is_not_settled() {
    play(
        "view",
        "1 absent
         2 absent
         1 present => 1: committed 0
         stream 4
         stream 4
         1 attach 7 prefetch=3 => 1: attached 7, reads from 0
         run 30 => 1: 7 gets m0 at 0/0, 1: 7 gets m1 at 0/1, 1: 7 gets m2 at 0/2
         1 accept 7 0/1..2 => 1: 7 gets m3 at 0/3
         run 300 => 1: committed 1
         lead 1 => 1: leads not, leaves the stream, 0: leading, 2: leading
         0 absent
         2 present => 2: committed 0
         1 present
         2 count => 2: counted 7 0 0
         2 attach 8 => 2: attached 8, reads from 0
         run 30 => 2: 8 gets m0 at 0/0 again, 2: 8 gets m2 at 0/2 again, 2: 8 gets m3 at 0/3 \
         again, 2: 8 gets m4 at 0/4 again, 2: 8 gets m5 at 0/5 again, 2: 8 gets m6 at 0/6 \
         again, 2: 8 gets m7 at 0/7 again
         2 accept 8 0/0..8
         run 30 => 2: committed 1
         2 count => 2: counted 0 0 1
         stream 2
         run 300 => 2: 8 gets m8 at 0/8, 2: 8 gets m9 at 0/9
         lead 0 => 2: leads not, leaves the stream, 1: leading, 2: leading
         1 absent
         2 present 8=0/8..10@0 => 2: committed 1, reads from 8
         run 30
         stream 1
         run 30 => 2: 8 gets m10 at 0/10
         2 count => 2: counted 0 3 1",
    );
}

#[test]
fn a_purge_takes_what_came_before_it_and_who_leads_next_goes_on_behind() {
    play(
        "view",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 attach 7 prefetch=1 => 1: attached 7, reads from 0
         stream 3
         1 purge
         stream 2
         under way => work open
         commit => reads no more, reads from 5, 1: purged 5
         1 count => 1: counted 0 0 1
         stream 2
         run 30 => 1: 7 gets m5 at 0/5
         1 count => 1: counted 1 1 1
         1 cancel 7 => 1: cancelled 7
         1 purge => reads no more, reads from 7
         run 30 => 1: purged 1
         1 count => 1: counted 0 1 0
         stream 3
         run 5000
         depths => [4, 3, 1]
         1 purge => reads no more, reads from 10
         run 300 => 1: purged 3
         depths => [1, 0, 1]
         lead 2 => 1: leads not, leaves the stream, 0: leading, 1: leading
         0 absent
         1 present 7=0/5..6@0 => 1: committed 0, reads from 5
         1 count => 1: counted 0 1 1
         stream 1
         1 get 9
         run 30 => 1: got none, 1: 7 gets m10 at 0/10",
    );
}

#[test]
fn a_view_reads_only_while_somebody_wants_something() {
    play(
        "view",
        "1 absent
         2 absent
         1 present => 1: committed 0
         stream 3
         run 4900
         run 100
         1 count => 1: counted 3 0 0
         1 get 9 => reads from 0
         run 30 => 1: got m0 left=2
         1 get 9 => 1: got m1 left=1
         1 get 9 => 1: got m2 left=0
         1 get 9 => 1: got none
         1 accept 9 0/0..9
         run 9900 => 1: committed 1
         run 100 => reads no more
         stream 2
         1 attach 7 => 1: attached 7, reads from 2
         run 30 => 1: 7 gets m3 at 0/3, 1: 7 gets m4 at 0/4
         1 cancel 7 => 1: cancelled 7
         run 12000
         1 detach 7
         run 10000 => reads no more
         1 get 9 noack => reads from 3
         run 30 => 1: got m3 left=1 again failed=1 had=1
         1 count => 1: counted 1 0 0",
    );
}

#[test]
fn dead_letters_of_a_view_are_read_for_that_by_who_leads_next() {
    play(
        "view dead-letter",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 attach 7 => 1: attached 7, reads from 0
         stream 2
         stream 2
         run 30 => 1: 7 gets m0 at 0/0, 1: 7 gets m1 at 0/1, 1: 7 gets m2 at 0/2, 1: 7 gets m3 \
         at 0/3
         1 reject 7 0/0..3
         run 30 => 1: committed 1, dead m0 rejected, dead m1 rejected, dead m2 rejected
         arrived 0/0..1
         run 300
         1 count => 1: counted 0 1 1
         lead 2 => 1: leads not, leaves the stream, 0: leading, 1: leading, reads from 1, dead \
         m1 rejected, dead m2 rejected
         run 30
         0 absent
         1 absent
         arrived 0/1..2
         run 300
         stream deletes 2
         lead 0 => leaves the stream, 1: leading, 2: leading, reads from 2
         1 present => 1: committed 1
         2 absent
         run 30
         1 count => 1: counted 0 0 0",
    );
}

#[test]
fn what_the_stream_has_deleted_leaves_the_view_with_who_held_it() {
    play(
        "view",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 attach 7 prefetch=1 => 1: attached 7, reads from 0
         stream 2
         stream 2
         stream 2
         run 300 => 1: 7 gets m0 at 0/0
         1 count => 1: counted 5 1 1
         stream deletes 2
         lead 2 => 1: leads not, leaves the stream, 0: leading, 1: leading
         0 absent
         1 present 7=0/0..1@0 => 1: committed 0, reads from 4
         run 30 => 1: 7 gets m4 at 0/4 again, 1: 7 gets m5 at 0/5 again
         1 count => 1: counted 0 2 1
         1 requeue 7 0/0..1
         run 30 => 1: committed 1
         1 count => 1: counted 0 2 1",
    );
}

#[test]
fn a_stream_that_is_lost_is_read_again_after_a_while() {
    play(
        "view",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 attach 7 prefetch=1 => 1: attached 7, reads from 0
         stream 2
         run 30 => 1: 7 gets m0 at 0/0
         stream lost => reads no more
         1 accept 7 0/0..1 => 1: 7 gets m1 at 0/1
         stream 2
         run 490 => 1: committed 1
         run 10 => reads from 1
         1 accept 7 0/1..2 => 1: 7 gets m2 at 0/2
         stream refuses
         stream lost => reads no more
         1 accept 7 0/2..3 => 1: 7 gets m3 at 0/3
         run 1100 => 1: committed 3, reads from 3, reads no more, reads from 3, reads no more
         stream answers
         run 500 => reads from 3
         1 count => 1: counted 0 1 1",
    );
}

#[test]
fn what_was_sent_to_who_read_before_is_not_heard_by_who_leads_again() {
    play(
        "view",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 attach 7 => 1: attached 7, reads from 0
         stream 1
         run 300 => 1: 7 gets m0 at 0/0
         lead 2 => 1: leads not, leaves the stream, 0: leading, 1: leading
         stream 1
         stream 1
         stream 1
         run 300
         lead 0 => leaves the stream, 1: leading, 2: leading, reads from 0
         2 absent
         1 present 7=0/0..1@0 => 1: committed 0
         stream late
         run 30 => 1: 7 gets m1 at 0/1, 1: 7 gets m2 at 0/2, 1: 7 gets m3 at 0/3
         doubt
         stream 1
         1 count => 1: counted 1 4 1
         commit
         sure
         run 30 => 1: 7 gets m4 at 0/4
         1 count => 1: counted 0 5 1",
    );
}

/// One chunk may have more than a view reads ahead; what is to be dead-lettered lies behind that.
#[test]
fn what_is_beyond_that_which_may_be_ready_is_given_as_soon_as_there_is_room() {
    play(
        "view dead-letter",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 attach 7 => 1: attached 7, reads from 0
         1 attach 8 => 1: attached 8
         1 attach 9 => 1: attached 9
         stream 5000
         many run 300 => 1: gets at x5000
         many 1 reject 7 0/4990..5000
         run 300 => 1: committed 1, dead m4992 rejected, dead m4995 rejected, dead m4998 rejected
         lead 2 => 1: leads not, leaves the stream, 0: leading, 1: leading, reads from 0
         0 absent
         many 1 present 10 11 12 => 1: committed x1, 1: gets at again x4997, dead rejected x3
         many commit
         many run 300",
    );
}

#[test]
fn a_member_that_comes_has_of_a_view_what_the_others_have() {
    play(
        "view two",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 attach 7 prefetch=2 => 1: attached 7, reads from 0
         stream 4
         run 30 => 1: 7 gets m0 at 0/0, 1: 7 gets m1 at 0/1
         1 accept 7 0/0..1 => 1: 7 gets m2 at 0/2
         run 30 => 1: committed 1
         grow
         run 300
         lead 2 => 1: leads not, leaves the stream, 0: leading, 1: leading
         0 absent
         1 present => 1: committed 1
         1 attach 8 => 1: attached 8, reads from 1
         run 30 => 1: 8 gets m1 at 0/1 again, 1: 8 gets m2 at 0/2 again, 1: 8 gets m3 at 0/3 again",
    );
}

#[test]
fn what_the_stream_says_while_leadership_is_handed_over_in_vain_is_delivered_after_that() {
    play(
        "view",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 attach 7 => 1: attached 7, reads from 0
         stream 1
         run 300 => 1: 7 gets m0 at 0/0
         hand 1
         lose
         stream 2
         1 accept 7 0/0..1
         1 purge
         commit
         under way => work open urgent
         stream 1
         run 700 => 1: committed 1, reads no more, reads from 4, 1: purged 3
         1 count => 1: counted 0 0 1
         stream 1
         run 30 => 1: 7 gets m4 at 0/4",
    );
}

#[test]
fn a_stream_that_refuses_who_leads_next_is_asked_again() {
    play(
        "view",
        "1 absent
         2 absent
         1 present => 1: committed 0
         run 300
         stream refuses
         lead 2 => 1: leads not, leaves the stream, 0: leading, 1: leading
         0 absent
         1 present => 1: committed 0
         1 attach 7 => 1: attached 7, reads from 0, reads no more
         stream 2
         run 1000 => reads from 0, reads no more, reads from 0, reads no more
         stream answers
         run 500 => reads from 0, 1: 7 gets m0 at 0/0, 1: 7 gets m1 at 0/1",
    );
}

#[test]
fn a_follower_knows_how_many_messages_of_a_view_are_not_settled() {
    play(
        "view",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 attach 7 => 1: attached 7, reads from 0
         stream 3
         run 300 => 1: 7 gets m0 at 0/0, 1: 7 gets m1 at 0/1, 1: 7 gets m2 at 0/2
         known 1 => 3
         1 accept 7 0/0..1
         run 300 => 1: committed 1
         known 1 => 2
         known 2 => 2",
    );
}
