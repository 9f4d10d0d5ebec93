//! Leaders that begin, that wait for what nodes have to say, and that hand over in vain: scripts.

use super::led::play;

/// Bodies that are too large for all to stay in memory.
#[test]
fn a_message_that_is_read_first_is_sent_to_each_node_that_asks() {
    play(
        "",
        "1 absent
         2 absent
         1 present => 1: committed 0
         2 present => 2: committed 0
         1 publish 12 bytes=30000
         run 300 => 1: committed 5, 1: committed 10, 1: committed 12
         lead 1 => 1: leads not, 2: leads not, 0: leading, 2: leading
         0 present get:7=0..2@0 => 0: committed 0
         2 present get:8=2..4@0 => 2: committed 0
         0 fetch 7 1
         0 fetch 7 0
         2 get 9
         2 fetch 8 2
         commit => 0: fetched m0, 2: fetched m2, 2: got m4 left=7
         0 fetch 7 1 => 0: fetched m1
         0 fetch 7 1 => 0: fetched m1
         commit
         0 accept 7 0..1
         0 fetch 7 0 => 0: fetched gone
         run 30 => 0: committed 1",
    );
}

/// Nobody has heard of the other node when the subscription goes.
#[test]
fn what_a_subscription_claimed_that_goes_is_free_once_all_have_spoken() {
    play(
        "",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 publish 2
         run 300 => 1: committed 2
         lead 2 => 1: leads not, 0: leading, 1: leading
         1 present get:7=0..1@0 => 1: committed 2
         1 detach 7
         1 get 9
         run 30
         0 absent => 1: got m0 left=1 again failed=1 had=1
         run 30",
    );
}

#[test]
fn a_node_that_is_gone_is_not_waited_for() {
    play(
        "",
        "1 present 7 => 1: committed 0
         1 publish 1
         run 30
         down 2
         run 10 => 1: committed 1, 1: 7 has 0
         up 2 => 2: leading",
    );
}

#[test]
fn what_a_node_that_is_lost_held_goes_to_others_at_once() {
    play(
        "",
        "1 absent
         2 absent
         1 present => 1: committed 0
         2 present => 2: committed 0
         1 attach 7 => 1: attached 7
         1 publish 1
         run 30 => 1: committed 1, 1: 7 has 0
         2 attach 8 => 2: attached 8
         down 1 => 2: 8 gets m0 at 0 again had=1
         run 30
         2 count => 2: counted 0 1 1
         up 1 => 1: leading",
    );
}

#[test]
fn a_node_is_waited_for_to_the_millisecond_and_nothing_is_due_after_that() {
    play(
        "",
        "1 present => 1: committed 0
         1 publish 1
         run 4990
         due => in 10 ms
         run 10 => 1: committed 1
         due => in 50 ms
         run 1000
         due => never",
    );
}

#[test]
fn what_comes_while_leadership_is_handed_over_in_vain_is_taken_after_that() {
    play(
        "limit=none",
        "1 absent
         2 absent
         1 present => 1: committed 0
         2 present => 2: committed 0
         1 attach 7 => 1: attached 7
         2 attach 8 prefetch=1 => 2: attached 8
         1 publish 3
         run 300 => 1: committed 3, 1: 7 has 0, 1: 7 has 2, 2: 8 gets m1 at 1
         hand 1
         lose
         1 publish 2
         1 accept 7 0..1
         1 requeue 7 2..3
         1 get 9
         1 count
         commit
         under way => work open
         1 publish 1
         run 100
         under way => work open
         run 600 => 1: committed 8, 1: got none, 1: 7 has 2 again failed=1 had=1, 1: 7 gets m3 \
         at 3, 1: 7 gets m4 at 4, 1: 7 gets m5 at 5, 1: counted 0 5 2
         run 300
         1 count => 1: counted 0 5 2
         entries => 4",
    );
}

/// A node's remote queue has room for so many messages of a consumer, or so many bytes of them.
#[test]
fn no_more_is_under_way_to_a_consumer_on_another_node_than_it_has_room_for() {
    play(
        "",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 publish 2100 bytes=8
         many run 300 => 1: committed x1
         1 attach 7 => 1: attached 7
         many run 30 => 1: has x2048
         1 credit 7 1023 0
         many 1 credit 7 1 0 => 1: has x52
         1 detach 7
         1 purge
         run 300 => 1: purged 2100
         1 count => 1: counted 0 0 0
         1 publish 5 bytes=300000
         run 300 => 1: committed 2101, 1: committed 2102, 1: committed 2103, 1: committed 2104, \
         1: committed 2105
         1 attach 8 => 1: attached 8
         run 30 => 1: 8 has 2100, 1: 8 has 2101, 1: 8 has 2102
         1 credit 8 1 300000
         1 credit 8 1 300000 => 1: 8 has 2103",
    );
}

#[test]
fn what_is_held_stays_with_who_has_it_though_a_node_never_says_what_it_holds() {
    play(
        "",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 publish 2
         run 300 => 1: committed 2
         lead 2 => 1: leads not, 0: leading, 1: leading
         1 present get:7=0..1@0 => 1: committed 2
         1 get 9
         run 4990
         run 10 => 1: got m1 left=0
         1 count => 1: counted 0 2 0
         1 accept 7 0..1
         run 30 => 1: committed 3
         1 count => 1: counted 0 1 0",
    );
}

#[test]
fn what_others_have_sent_is_taken_though_a_node_goes_before() {
    play(
        "",
        "1 absent
         2 absent
         1 present => 1: committed 0
         2 present => 2: committed 0
         doubt
         1 publish 1
         2 publish 1
         down 1
         sure
         run 30 => 2: committed 1
         2 count => 2: counted 1 0 0
         up 1 => 1: leading",
    );
}

#[test]
fn a_get_that_waits_is_answered_though_another_node_goes_before() {
    play(
        "",
        "1 absent
         2 absent
         1 present => 1: committed 0
         2 present => 2: committed 0
         1 publish 2
         run 300 => 1: committed 2
         doubt
         1 get 9
         2 get 8
         down 1
         sure
         run 30 => 2: got m0 left=1
         2 count => 2: counted 1 1 0
         up 1 => 1: leading",
    );
}
