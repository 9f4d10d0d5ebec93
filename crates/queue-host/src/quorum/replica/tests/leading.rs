//! What a leader makes of what nodes say to it: each branch as a script, with all that is heard.

use super::led::play;

/// Settles alone gather for a while; what is given back is an entry at once, and one alone.
#[test]
fn what_is_settled_leaves_and_what_is_given_back_comes_again() {
    play(
        "limit=none",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 attach 7 prefetch=2 => 1: attached 7
         1 publish 3
         commit => 1: committed 3, 1: 7 has 0, 1: 7 has 1
         1 accept 7 0..1 => 1: 7 has 2
         commit
         under way => work open
         run 30 => 1: committed 4
         entries => 4
         under way
         1 count => 1: counted 0 2 1
         1 requeue 7 1..2
         commit => 1: committed 5, 1: 7 has 1 again failed=1 had=1
         1 return 7 2..3
         commit => 1: committed 6, 1: 7 has 2 again had=1
         1 release 7 1..2
         commit => 1: committed 7, 1: 7 has 1 again failed=1 had=2
         run 30
         entries => 3
         1 cancel 7 => 1: cancelled 7
         1 accept 7 0..9
         run 30 => 1: committed 8
         1 count => 1: counted 0 0 0
         1 get 9 => 1: got none",
    );
}

#[test]
fn what_came_back_once_is_counted_when_it_comes_back_otherwise() {
    play(
        "limit=none",
        "1 absent
         2 absent
         1 present => 1: committed 0
         2 present => 2: committed 0
         1 attach 7 => 1: attached 7
         1 publish 1
         commit => 1: committed 1, 1: 7 has 0
         1 requeue 7 0..1
         commit => 1: committed 2, 1: 7 has 0 again failed=1 had=1
         2 attach 8 => 2: attached 8
         1 detach 7 => 2: 8 gets m0 at 0 again failed=2 had=2
         run 30
         2 detach 8
         run 30
         2 get 9 => 2: got m0 left=0 again failed=3 had=3
         run 30
         down 2
         run 30
         1 get 9 => 1: got m0 left=0 again failed=3 had=4
         up 2 => 2: leading
         run 300
         lead 1 => 1: leads not, 0: leading, 2: leading
         0 absent
         2 present => 2: committed 0
         2 get 9 => 2: got m0 left=0 again failed=3 had=4",
    );
}

#[test]
fn what_comes_back_too_often_leaves_by_the_limit_that_is_in_force() {
    play(
        "limit=2 dead-letter",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 attach 7 => 1: attached 7
         1 publish 3
         commit => 1: committed 3, 1: 7 has 0, 1: 7 has 1, 1: 7 has 2
         1 requeue 7 0..1
         commit => 1: committed 4, 1: 7 has 0 again failed=1 had=1
         1 return 7 0..1
         commit => 1: committed 5, 1: 7 has 0 again failed=1 had=2
         1 requeue 7 0..1
         commit => 1: committed 6, 1: 7 has 0 again failed=2 had=3
         1 requeue 7 0..1
         commit => 1: committed 7
         run 30 => dead m0 delivery_limit
         1 count => 1: counted 0 2 1
         set limit=1
         1 requeue 7 1..2
         commit => 1: committed 8, 1: 7 has 1 again failed=1 had=1
         1 requeue 7 1..2
         run 30 => 1: committed 9, dead m1 delivery_limit
         arrived 0..2
         run 30
         1 count => 1: counted 0 1 1",
    );
}

#[test]
fn a_dead_letter_that_did_not_arrive_goes_again_and_under_the_next_leader() {
    play(
        "dead-letter",
        "1 absent
         2 absent
         1 present => 1: committed 0
         2 present => 2: committed 0
         1 attach 7 => 1: attached 7
         1 publish 2
         commit => 1: committed 2, 1: 7 has 0, 1: 7 has 1
         1 reject 7 0..2
         run 30 => 1: committed 3, dead m0 rejected, dead m1 rejected
         arrived 0..1
         refused 1
         run 4900
         run 200 => dead m1 rejected
         2 count => 2: counted 0 0 1
         lead 1 => 1: leads not, 2: leads not, 0: leading, 2: leading, dead m1 rejected
         0 absent
         2 present => 2: committed 0
         run 30
         arrived 1..2
         run 30
         2 count => 2: counted 0 0 0
         lead 2 => 2: leads not, 0: leading, 1: leading
         run 30",
    );
}

#[test]
fn who_is_the_active_consumer_stays_it_until_it_goes() {
    play(
        "single",
        "1 absent
         2 absent
         1 present => 1: committed 0
         2 present => 2: committed 0
         1 attach 7 => 1: attached 7, 1: active 7 1
         2 attach 8 => 2: attached 8, 2: active 8 0
         1 publish 2
         commit => 1: committed 2, 1: 7 has 0, 1: 7 has 1
         1 attach 9 exclusive => 1: not attached 9: exclusive consumers do not go with a \
         single active consumer
         1 cancel 7 => 1: cancelled 7, 2: active 8 2
         commit
         1 detach 7 => 2: 8 gets m0 at 0 again failed=1 had=1, 2: 8 gets m1 at 1 again \
         failed=1 had=1
         commit
         down 2
         2 count => 2: leading
         up 2 => 2: leading
         2 present 8!1 => 2: committed 0, 2: active 8 3, 2: 8 gets m0 at 0 again failed=1 \
         had=2, 2: 8 gets m1 at 1 again failed=1 had=2
         1 present => 1: committed 2
         1 attach 9 => 1: attached 9, 1: active 9 0
         commit
         2 detach 8 => 1: active 9 4, 1: 9 has 0 again failed=2 had=3, 1: 9 has 1 again \
         failed=2 had=3
         commit",
    );
}

#[test]
fn who_was_active_for_another_leader_later_is_not_it_for_one_that_has_chosen() {
    play(
        "single",
        "1 present 7 => 1: committed 0
         2 absent => 1: active 7 1
         2 present 8!5 => 2: committed 0, 2: active 8 0
         1 publish 1
         commit => 1: committed 1, 1: 7 has 0
         1 present 7!1 => 1: committed 1, 1: active 7 6, 1: 7 has 0 again had=1
         1 cancel 7 => 1: cancelled 7, 2: active 8 7",
    );
}

#[test]
fn a_queue_goes_with_its_last_consumer_or_subscription_while_that_is_its_rule() {
    play(
        "auto-delete",
        "1 absent
         2 absent
         1 present => 1: committed 0
         2 present => 2: committed 0
         1 get 6 => 1: got none
         1 detach 6
         1 attach 7 => 1: attached 7
         2 attach 8 => 2: attached 8
         1 cancel 7 => 1: cancelled 7
         1 detach 7
         2 cancel 8 => 2: cancelled 8, unused
         set keep
         2 attach 9 => 2: attached 9
         2 detach 9
         set auto-delete
         2 get 12 => 2: got none
         2 detach 12 => unused",
    );
}

/// What it sent before its questions is taken before them, too.
#[test]
fn a_node_that_says_nothing_is_waited_for_as_long_as_it_may_be() {
    play(
        "",
        "1 present => 1: committed 0
         1 publish 2
         1 count
         1 peek 1
         1 get 9
         run 4900
         run 200 => 1: committed 2, 1: counted 2 0 0, 1: peeked m1, 1: got m0 left=1
         1 purge
         run 30 => 1: purged 1
         1 count => 1: counted 0 1 0",
    );
}

#[test]
fn what_is_asked_behind_operations_of_a_node_that_goes_is_answered() {
    play(
        "",
        "1 absent
         2 absent
         1 present => 1: committed 0
         2 present => 2: committed 0
         doubt
         1 publish 1
         2 count
         under way => work open
         down 1
         sure => 2: counted 0 0 0
         under way => open
         2 count => 2: counted 0 0 0
         up 1 => 1: leading",
    );
}

#[test]
fn what_was_asked_in_a_session_that_is_over_takes_nothing() {
    play(
        "",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 publish 1
         1 get 9
         1 present => 1: committed 0
         commit => 1: committed 1
         1 count => 1: counted 1 0 0
         1 publish 1
         1 purge
         1 present => 1: committed 1
         commit => 1: committed 2
         1 count => 1: counted 2 0 0",
    );
}

#[test]
fn what_a_node_gave_back_stays_with_who_had_it_until_that_is_committed() {
    play(
        "limit=none",
        "1 absent
         2 absent
         1 present => 1: committed 0
         2 present => 2: committed 0
         1 attach 7 => 1: attached 7
         1 publish 1
         commit => 1: committed 1, 1: 7 has 0
         2 attach 8 => 2: attached 8
         1 requeue 7 0..1
         1 present 7 => 1: committed 1
         commit => 1: committed 2, 2: 8 gets m0 at 0 again failed=1 had=2
         2 count => 2: counted 0 1 2",
    );
}

#[test]
fn a_node_brings_no_subscription_that_is_another_nodes() {
    play(
        "",
        "1 absent
         2 absent
         1 present => 1: committed 0
         2 present => 2: committed 0
         1 attach 7 => 1: attached 7
         2 present get:7 => 2: committed 0
         2 attach 7
         1 attach 7
         1 publish 1
         commit => 1: committed 1, 1: 7 has 0
         2 credit 7 1 1
         1 count => 1: counted 0 1 1",
    );
}

#[test]
fn what_nobody_could_have_got_is_not_flagged_though_others_were_handed_out() {
    play(
        "",
        "1 absent
         2 absent
         2 present => 2: committed 0
         2 publish 1
         run 30 => 2: committed 1
         2 attach 7 prefetch=1 => 2: attached 7
         commit => 2: 7 gets m0 at 0
         2 accept 7 0..1
         run 30 => 2: committed 2
         2 detach 7
         2 publish 3
         run 300 => 2: committed 5
         lead 1 => 2: leads not, 0: leading, 2: leading
         0 absent
         2 present => 2: committed 5
         2 get 9
         run 30 => 2: got m1 left=2
         2 get 9 noack => 2: got m2 left=1
         run 30
         2 count => 2: counted 1 1 0",
    );
}

#[test]
fn messages_go_by_priority_and_come_back_to_their_places() {
    play(
        "limit=none",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 publish 2 prio=9
         1 publish 2
         1 publish 1 prio=0
         1 attach 7 => 1: attached 7
         commit => 1: committed 2, 1: committed 5, 1: 7 has 9/0, 1: 7 has 9/1, 1: 7 has 0, \
         1: 7 has 1, 1: 7 has 0/0
         1 accept 7 9/0..1
         1 return 7 9/1..2
         1 requeue 7 0..2
         commit => 1: committed 8, 1: 7 has 9/1 again had=1, 1: 7 has 0 again failed=1 \
         had=1, 1: 7 has 1 again failed=1 had=1
         1 cancel 7 => 1: cancelled 7
         1 detach 7
         1 purge
         commit => 1: purged 4
         1 count => 1: counted 0 0 0",
    );
}

#[test]
fn who_has_a_higher_priority_is_served_as_far_as_it_may_hold() {
    play(
        "",
        "1 absent
         2 absent
         1 present => 1: committed 0
         2 present => 2: committed 0
         1 attach 7 prefetch=1 => 1: attached 7
         2 attach 8 prio=5 prefetch=1 => 2: attached 8
         1 publish 3
         commit => 1: committed 3, 1: 7 has 1, 2: 8 gets m0 at 0
         2 accept 8 0..1 => 2: 8 gets m2 at 2
         2 attach 9 exclusive => 2: not attached 9: the queue is in exclusive use
         1 credit 77 1 64
         2 detach 8
         1 attach 10 noack => 1: attached 10, 1: 10 gets m2 at 2 again failed=1 had=1
         commit
         1 accept 10 2..3
         run 30 => 1: committed 4, 2: committed 1
         1 count => 1: counted 0 1 2",
    );
}

#[test]
fn messages_expire_by_the_time_to_live_that_is_in_force() {
    play(
        "ttl=1000",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 publish 2
         1 publish 1 ttl=100
         run 300 => 1: committed 2, 1: committed 3
         1 count => 1: counted 3 0 0
         set ttl=none
         run 900
         1 count => 1: counted 3 0 0
         set ttl=100 dead-letter
         run 30 => dead m0 expired, dead m1 expired, dead m2 expired
         1 count => 1: counted 0 0 0
         1 publish 1
         run 90 => 1: committed 4
         run 40 => dead m3 expired
         arrived 0..4
         run 30
         1 count => 1: counted 0 0 0",
    );
}

#[test]
fn the_lengths_that_are_in_force_drop_and_refuse() {
    play(
        "length=2",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 publish 3
         run 30 => 1: committed 3
         set length=1 dead-letter
         run 30 => dead m1 maxlen
         1 count => 1: counted 1 0 0
         set refuse
         1 publish 1 => 1: refused 4..5
         commit => 1: committed 4
         set refuse-dead
         1 publish 1 => 1: refused 5..6, dead m4 maxlen
         commit => 1: committed 5
         set length=none bytes=70
         1 publish 1 => 1: refused 6..7, dead m5 maxlen
         commit => 1: committed 6
         set bytes=none
         1 publish 1
         commit => 1: committed 7
         1 peek 0 => 1: peeked m2
         1 peek 1 => 1: peeked m6
         1 peek 2 => 1: peeked gone",
    );
}

#[test]
fn who_keeps_a_message_too_long_is_told_and_gets_no_more() {
    play(
        "timeout=1000",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 attach 7 => 1: attached 7
         1 attach 8 timeout=5000 => 1: attached 8
         1 publish 2
         commit => 1: committed 2, 1: 7 has 0, 1: 8 has 1
         run 900
         run 1200 => 1: timed out 7
         1 detach 7 => 1: 8 has 0 again had=1
         run 30
         1 publish 1
         run 30 => 1: committed 3, 1: 8 has 2
         set timeout=100
         run 6000 => 1: timed out 8",
    );
}

#[test]
fn a_queue_that_nobody_uses_expires() {
    play(
        "expires=1000",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 attach 7 => 1: attached 7
         run 2000
         1 cancel 7 => 1: cancelled 7
         run 900
         1 get 9 => 1: got none
         run 900
         run 200 => expired
         set expires=none
         run 3000",
    );
}

#[test]
fn what_must_arrive_counts_until_it_has() {
    play(
        "dead-letter at-least-once refuse length=3",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 publish 3
         1 attach 7 => 1: attached 7
         commit => 1: committed 3, 1: 7 has 0, 1: 7 has 1, 1: 7 has 2
         1 reject 7 0..3
         run 30 => 1: committed 4, dead m0 rejected, dead m1 rejected, dead m2 rejected
         1 publish 1 => 1: refused 5..6
         commit => 1: committed 5
         arrived 0..2
         run 30
         1 publish 1
         commit => 1: committed 6, 1: 7 has 3
         refused 2
         run 6000 => dead m2 rejected
         arrived 2..3
         run 30
         1 count => 1: counted 0 1 1",
    );
}

#[test]
fn a_leader_that_may_not_be_one_gives_nothing_out_until_it_knows() {
    play(
        "",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 publish 3
         1 attach 7 prefetch=1 => 1: attached 7
         commit => 1: committed 3, 1: 7 has 0
         doubt
         1 accept 7 0..1
         1 get 9
         1 peek 0
         1 publish 1
         1 count
         commit
         sure => 1: 7 has 1
         run 30 => 1: committed 5, 1: got m2 left=1, 1: peeked m3, 1: counted 1 2 1",
    );
}

#[test]
fn a_message_is_sent_to_who_holds_it() {
    play(
        "",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 attach 7 => 1: attached 7
         1 publish 1
         commit => 1: committed 1, 1: 7 has 0
         1 fetch 7 0 => 1: fetched m0
         1 fetch 8 0 => 1: fetched gone
         1 fetch 7 1 => 1: fetched gone
         1 accept 7 0..1
         1 fetch 7 0 => 1: fetched gone
         run 30 => 1: committed 2
         1 fetch 7 0 => 1: fetched gone",
    );
}

#[test]
fn what_a_node_that_was_lost_held_is_others_when_it_comes_back() {
    play(
        "",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 attach 7 => 1: attached 7
         1 publish 3
         commit => 1: committed 3, 1: 7 has 0, 1: 7 has 1, 1: 7 has 2
         down 1
         run 30
         2 present => 2: committed 0
         2 get 9 => 2: got m0 left=2 again had=1
         up 1 => 1: leading
         1 present get:7=0..1@0 8=1..2@1 => 1: committed 3, 1: 8 has 2 again had=1
         1 accept 7 0..1
         1 accept 8 1..2
         2 accept 9 0..1
         run 30 => 1: committed 5, 2: committed 1
         1 count => 1: counted 0 1 1",
    );
}

#[test]
fn who_holds_messages_keeps_them_under_the_next_leader() {
    play(
        "",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 attach 7 => 1: attached 7
         1 publish 4
         commit => 1: committed 4, 1: 7 has 0, 1: 7 has 1, 1: 7 has 2, 1: 7 has 3
         1 accept 7 0..1
         run 300 => 1: committed 5
         lead 2 => 1: leads not, 0: leading, 1: leading
         1 present 7=0..4@0 => 1: committed 5
         0 absent
         run 30
         1 accept 7 1..2
         1 reject 7 2..3
         1 detach 7
         run 30 => 1: committed 7
         1 count => 1: counted 1 0 0",
    );
}

#[test]
fn of_two_who_claim_a_message_who_got_it_later_has_it() {
    play(
        "",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 attach 7 => 1: attached 7
         1 publish 3
         run 300 => 1: committed 3, 1: 7 has 0, 1: 7 has 1, 1: 7 has 2
         lead 2 => 1: leads not, 0: leading, 1: leading
         1 present 7=0..2@0 get:8=1..3@4 => 1: committed 3
         0 present get:9=2..3@5 => 0: committed 0
         1 accept 7 0..3
         run 30 => 1: committed 4
         1 accept 8 0..3
         run 30 => 1: committed 5
         1 count => 1: counted 0 1 1
         0 accept 9 0..3
         run 30 => 0: committed 1
         1 count => 1: counted 0 0 1",
    );
}

#[test]
fn what_a_new_leader_is_told_that_somebody_holds_returns_when_that_goes() {
    play(
        "",
        "1 present => 1: committed 0
         1 publish 2
         2 absent
         run 300 => 1: committed 2
         lead 2 => 1: leads not, 0: leading, 1: leading
         0 absent
         1 present get:7=0..1@0 => 1: committed 2
         1 detach 7
         run 30
         1 get 9 => 1: got m0 left=1 again failed=1 had=1
         run 30",
    );
}

#[test]
fn what_is_asked_is_answered_in_the_order_in_which_it_was_asked() {
    play(
        "",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 publish 3
         1 count
         1 purge
         1 publish 1
         1 count
         under way => work open
         commit => 1: committed 3, 1: counted 3 0 0, 1: committed 4, 1: counted 1 0 0, 1: \
         purged 3
         run 30
         1 count => 1: counted 1 0 0",
    );
}

#[test]
fn who_only_gets_gives_back_what_it_holds_when_it_goes() {
    play(
        "limit=none",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 publish 3
         1 get 9
         1 get 9
         commit => 1: committed 3, 1: got m0 left=2, 1: got m1 left=1
         1 detach 9
         run 30
         1 get 10 noack => 1: got m0 left=2 again failed=1 had=1
         1 get 11
         down 1
         run 30
         up 1 => 1: leading
         1 present => 1: committed 3
         1 count => 1: counted 2 0 0",
    );
}

#[test]
fn operations_count_once_in_whatever_session_they_come() {
    play(
        "",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 publish 2
         commit => 1: committed 2
         1 nothing
         run 30 => 1: committed 3
         1 present => 1: committed 3
         1 publish 1
         1 present => 1: committed 3
         run 300 => 1: committed 4
         lead 2 => 1: leads not, 0: leading, 1: leading
         0 absent
         1 present => 1: committed 4
         1 count => 1: counted 3 0 0",
    );
}

#[test]
fn who_is_no_leader_says_who_is() {
    play(
        "",
        "1 absent
         2 absent
         1 present => 1: committed 0
         astray 2 1 count => 1: another leads
         astray 2 1 present => 1: another leads
         astray 2 1 absent
         1 present => 1: committed 0
         1 count => 1: counted 0 0 0",
    );
}

#[test]
fn a_consumer_that_comes_again_where_another_is_the_only_one_is_refused() {
    play(
        "",
        "1 absent
         2 absent
         1 present => 1: committed 0
         2 present => 2: committed 0
         1 attach 7 exclusive => 1: attached 7
         2 present only:8 get:9 => 2: not attached 8: the queue is in exclusive use, 2: committed 0
         2 count => 2: counted 0 0 1
         1 cancel 7 => 1: cancelled 7
         2 present only:8 => 2: committed 0
         1 publish 1
         commit => 1: committed 1, 2: 8 gets m0 at 0",
    );
}

#[test]
fn an_entry_is_urgent_if_somebody_waits_to_be_handed_a_message_by_it() {
    play(
        "",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 publish 20
         under way => work open
         run 300 => 1: committed 20
         1 get 9
         under way => work open urgent
         commit => 1: got m0 left=19
         under way
         1 accept 9 0..1
         under way => work open
         run 30 => 1: committed 21",
    );
}

#[test]
fn who_gets_one_by_one_waits_for_few_entries() {
    play(
        "",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 publish 20
         run 300 => 1: committed 20
         entries => 3
         1 get 9
         commit => 1: got m0 left=19
         1 publish 1
         commit => 1: committed 21
         1 get 9 => 1: got m1 left=19
         1 get 9 => 1: got m2 left=18
         1 get 9 => 1: got m3 left=17
         entries => 2",
    );
}
