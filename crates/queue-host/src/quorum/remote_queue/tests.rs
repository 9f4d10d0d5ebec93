//! A remote queue between its clients and leaders: scripts.

use super::desk::play;

#[test]
fn a_leader_is_told_in_order_and_answers_reach_who_asked() {
    play(
        "attach 7 => to 2: present 1 get:7
         publish 2
         2 committed 0 => to 2: 1: m1 & m2, to 2: attach 7
         2 attached 7 => attached 7
         count => to 2: count 2
         publish 1 => to 2: 3: m3
         purge => to 2: purge 3
         peek 3 => to 2: peek 4 3
         2 committed 2 => committed 2
         2 counted 2 4 => counted 4
         2 counted 2 5
         2 counted 3 6
         2 purged 3 9 => purged 9
         2 peeked 4 => peeked
         2 committed 3 => committed 3
         2 committed 3",
    );
}

#[test]
fn what_clients_hold_is_said_to_the_next_leader_with_what_was_settled_since() {
    play(
        "attach 7 => to 2: present 1 get:7
         2 committed 0 => to 2: attach 7
         2 attached 7 => attached 7
         2 delivers 7 0 => 7 gets 0
         2 delivers 7 1 had=2 => 7 gets 1
         2 delivers 7 2 had=2 => 7 gets 2
         2 delivers 7 3 again => 7 gets 3
         2 delivers 7 5 => 7 gets 5
         get 9 => to 2: get 9
         2 got 9 4 => got 4 left=3
         accept 7 0..1 => to 2: 1: accept 7 0..1
         requeue 7 1..2 => to 2: 2: requeue 7 1..2
         publish 1 => to 2: 3: m3
         2 not-leader 2 3 => to 3: present 1 7=2..3@2=3..4@1=5..6@0=0..1@0#1=1..2@2#2 \
         get:9=4..5@0
         3 committed 0 => to 3: 1: accept 7 0..1 & requeue 7 1..2 & m3
         3 attached 7
         return 7 2..4 => to 3: 4: return 7 2..3 & return 7 3..4
         accept 7 0..9 => settled 1, to 3: 6: accept 7 5..6
         accept 9 4..5 => to 3: 7: accept 9 4..5
         holds 9 => false
         3 not-leader 5
         run 60 => to 2: present 1 7=0..1@0#1=1..2@2#2=2..3@2#4=3..4@1#5=5..6@0#6 \
         get:9=4..5@0#7
         2 leading 4 => to 2: present 1 7=0..1@0#1=1..2@2#2=2..3@2#4=3..4@1#5=5..6@0#6 \
         get:9=4..5@0#7
         2 leading 5 => to 2: present 1 7=0..1@0#1=1..2@2#2=2..3@2#4=3..4@1#5=5..6@0#6 \
         get:9=4..5@0#7
         2 committed 6 => to 2: 7: accept 9 4..5, committed 6",
    );
}

#[test]
fn settles_of_neighbours_that_were_not_sent_are_one_operation() {
    play(
        "attach 7 => to 2: present 1 get:7
         2 committed 0 => to 2: attach 7
         2 attached 7 => attached 7
         2 delivers 7 0 => 7 gets 0
         2 delivers 7 1 => 7 gets 1
         2 delivers 7 2 had=1 => 7 gets 2
         2 delivers 7 3 had=1 => 7 gets 3
         2 delivers 7 5 had=1 => 7 gets 5
         2 delivers 7 6 had=1 => 7 gets 6
         down 2
         accept 7 0..1
         accept 7 1..2
         accept 7 2..3
         accept 7 3..4
         accept 7 5..6
         requeue 7 6..7
         run 60 => to 3: present 1 7=0..2@0#1=2..4@1#2=5..6@1#3=6..7@1#4
         3 committed 0 => to 3: 1: accept 7 0..2 & accept 7 2..4 & accept 7 5..6 & requeue \
         7 6..7
         accept 7 0..9 => settled 0",
    );
}

#[test]
fn a_consumer_that_another_leader_refuses_is_cancelled_and_one_that_is_new_is_told() {
    play(
        "attach 7 => to 2: present 1 get:7
         2 committed 0 => to 2: attach 7
         2 not-attached 7 => to 2: detach 7, not attached 7
         holds 7 => false
         attach 8 => to 2: attach 8
         2 attached 8 => attached 8
         2 attached 9 => to 2: detach 9
         2 not-attached 9
         2 timed-out 8 => timed out 8
         2 timed-out 9
         active 8 => None
         2 active 8 3
         2 active 9 3
         active 8 => Some(true)
         2 active 8 0
         active 8 => Some(false)
         active 9 => None
         down 2
         run 60 => to 3: present 1 8
         3 committed 0
         3 not-attached 8 => to 3: detach 8, cancelled 8
         holds 8 => false",
    );
}

#[test]
fn a_consumer_that_is_cancelled_is_no_consumer_for_the_next_leader() {
    play(
        "attach 7 => to 2: present 1 get:7
         2 committed 0 => to 2: attach 7
         2 attached 7 => attached 7
         2 delivers 7 0 => 7 gets 0
         cancel 7 => to 2: cancel 7
         down 2
         run 60 => to 3: present 1 get:7=0..1@0
         3 committed 0 => to 3: cancel 7
         3 cancelled 7 => done
         holds 7 => true
         accept 7 0..1 => to 3: 1: accept 7 0..1
         holds 7 => false
         cancel 7 => to 3: cancel 7
         3 cancelled 7 => done",
    );
}

#[test]
fn a_detach_takes_questions_and_what_comes_late_with_it() {
    play(
        "attach 7 => to 2: present 1 get:7
         2 committed 0 => to 2: attach 7
         2 attached 7 => attached 7
         get 9 => to 2: get 9
         detach 9 => to 2: detach 9
         2 got 9 3 had=1 => to 2: 1: release 9 3..4
         2 got 9
         attach 8 => to 2: attach 8
         detach 8 => to 2: detach 8
         2 attached 8 => to 2: detach 8
         2 delivers 8 4 => to 2: detach 8
         2 delivers 8 5 => to 2: detach 8
         detach 7 => to 2: detach 7
         2 delivers 7 6 => to 2: detach 7
         detach 7
         run 30
         2 committed 1",
    );
}

#[test]
fn what_has_no_answer_in_time_is_given_up() {
    play(
        "count => to 2: present 1
         2 committed 0 => to 2: count 1
         run 1000
         attach 7 => to 2: attach 7
         get 9 => to 2: get 9
         cancel 6 => to 2: cancel 6
         purge => to 2: purge 5
         run 3999
         run 1 => unavailable
         run 999
         run 1 => to 2: detach 7, unavailable, unavailable, done, unavailable
         2 attached 7 => to 2: detach 7
         2 got 9 1 => to 2: 1: release 9 1..2
         2 purged 4 3
         holds 9 => false
         run 10000",
    );
}

#[test]
fn who_asks_again_gets_the_answer_once_and_does_not_ask_twice() {
    play(
        "poll get 9 => to 2: present 1 get:9
         2 committed 0 => to 2: get 9
         poll get 9
         2 got 9 3
         poll get 9 => got 3 left=3
         poll get 9 => to 2: get 9
         2 got 9
         poll get 9 => got none
         poll count => to 2: count 3
         poll count
         2 counted 3 5
         poll count => counted 5
         poll count => to 2: count 4
         run 5000
         poll count => unavailable
         poll purge => to 2: purge 5
         2 purged 5 2
         poll purge => purged 2
         poll peek 1 => to 2: peek 6 1
         2 peeked 6
         poll peek 1 => peeked",
    );
}

#[test]
fn where_the_only_node_is_down_nothing_waits() {
    play(
        "single 2
         attach 7 => to 2: present 1 get:7
         publish 2
         2 committed 0 => to 2: 1: m1 & m2, to 2: attach 7
         2 attached 7 => attached 7
         2 delivers 7 0 => 7 gets 0
         attach 8 => to 2: attach 8
         count => to 2: count 3
         cancel 7 => to 2: cancel 7
         wait => until Some(2)
         down 2 => unavailable, unavailable, done, refused 1..2, refused 2..3, committed 2
         holds 7 => false
         get 9 => unavailable
         publish 1 => rejected
         attach 10 => unavailable
         poll count
         poll count => unavailable
         up 2
         publish 1
         2 committed 2
         remove => committed 3",
    );
}

/// As in RabbitMQ. What the broker itself wants here may have another place to go to.
#[test]
fn publishes_under_way_to_a_queue_that_is_deleted_are_confirmed_and_dead_letters_go_again() {
    play(
        "attach 7 => to 2: present 1 get:7
         publish 2
         dead-letter 5
         2 committed 0 => to 2: 1: m1 & m2 & m5, to 2: attach 7
         2 attached 7 => attached 7
         2 refused 2..3 => refused 2..3
         count => to 2: count 2
         remove => not arrived 5, unavailable, cancelled 7, committed 3",
    );
}

#[test]
fn what_the_next_leader_says_was_refused_is_not_confirmed_though_it_is_committed() {
    play(
        "publish 3 => to 2: present 1
         dead-letter 7
         dead-letter 8
         2 committed 0 => to 2: 1: m1 & m2 & m3 & m7 & m8
         down 2
         run 60 => to 3: present 1
         3 refused 2..5 => not arrived 7, refused 2..3, refused 3..4
         3 committed 5 => arrived 8, committed 5",
    );
}

#[test]
fn a_leader_is_told_now_and_then_that_it_need_not_remember_what_it_refused() {
    let all = |text: fn(u64) -> String, by: &str| {
        let all: Vec<String> = (1..=65).map(text).collect();
        all.join(by)
    };
    let messages = all(|number| format!("m{number}"), " & ");
    let refused = |numbers: std::ops::Range<u64>| {
        let lines = numbers.map(|number| {
            let range = format!("{number}..{}", number + 1);
            format!("2 refused {range} => refused {range}\n")
        });
        lines.collect::<String>()
    };
    play(&format!(
        "publish 65 => to 2: present 1
         2 committed 0 => to 2: 1: {messages}
         {}2 committed 63
         {}2 committed 64 => to 2: heard 65
         2 refused 65..66 => refused 65..66
         2 committed 65",
        refused(1..64),
        refused(64..65),
    ));
}

#[test]
fn what_is_refused_is_told_once_and_its_number_is_kept() {
    play(
        "publish 3 => to 2: present 1
         2 committed 0 => to 2: 1: m1 & m2 & m3
         2 refused 2..3 => refused 2..3
         2 refused 2..9 => refused 3..4
         2 committed 2 => committed 2
         publish 1 => to 2: 4: m4
         down 2
         run 60 => to 3: present 3
         3 committed 3 => to 3: 4: m4
         wait => until Some(4)
         publish 1 => to 3: 5: m5
         wait => until Some(5)
         attach 7 => to 3: attach 7
         3 attached 7 => attached 7
         3 delivers 7 0 => 7 gets 0
         accept 7 0..1 => to 3: 6: accept 7 0..1
         wait => until Some(6), to 3: 7: nothing
         3 committed 4 => committed 4, committed 4
         3 committed 5 => committed 5, committed 5
         3 committed 6 => committed 6
         3 committed 7
         wait => until None",
    );
}

#[test]
fn the_leader_is_looked_for_later_each_time_and_whoever_says_so_is_believed() {
    play(
        "publish 1 => to 2: present 1
         run 999
         run 1 => to 3: present 1
         run 100
         run 1000 => to 2: present 1
         run 2000 => to 3: present 1, to 2: present 1
         3 leading 7 => to 3: present 1
         2 leading 6
         2 not-leader 9 2
         3 not-leader 7 2 => to 2: present 1
         2 not-leader 8 3 => to 3: present 1
         3 not-leader 8 2 => to 2: present 1
         2 not-leader 9 3
         run 2000 => to 3: present 1, to 2: present 1
         down 2
         down 3
         run 3000
         up 3
         run 60 => to 3: present 1
         3 committed 0 => to 3: 1: m1
         up 2
         run 100
         3 committed 1 => committed 1
         run 3000",
    );
}

#[test]
fn a_leader_of_which_nobody_wants_anything_is_told_that_all_is_gone() {
    play(
        "attach 7 => to 2: present 1 get:7
         2 committed 0 => to 2: attach 7
         2 attached 7 => attached 7
         down 2
         detach 7
         run 1000
         run 100 => to 3: present 1
         3 committed 0
         down 3
         run 5000",
    );
}

#[test]
fn who_is_told_of_another_leader_while_nobody_uses_the_queue_has_nothing_to_say() {
    play(
        "attach 7 => to 2: present 1 get:7
         3 attached 7
         2 committed 0 => to 2: attach 7
         2 attached 7 => attached 7
         2 leading 5 => to 2: present 1 7
         2 committed 0
         detach 7 => to 2: detach 7
         2 committed 0
         3 leading 4
         3 leading 6 => to 3: present 1
         3 committed 0
         down 3
         2 leading 7 => to 2: present 1",
    );
}

#[test]
fn what_has_no_room_waits_and_credit_goes_back_by_the_quarter() {
    play(
        "attach 7 => to 2: present 1 get:7
         2 committed 0 => to 2: attach 7
         2 attached 7 => attached 7
         2 delivers 7 0 bytes=200000 => 7 gets 0
         2 delivers 7 1 bytes=62144 => to 2: credit 7 2 262144, 7 gets 1
         attach 8 narrow => to 2: attach 8
         2 attached 8 => attached 8
         2 delivers 8 2 bytes=300000
         2 delivers 8 3
         unblock 8
         accept 8 3..4 => to 2: 1: accept 8 3..4
         roomy 8
         unblock 8 => to 2: credit 8 2 300008, 8 gets 2, 8 gets 3
         attach 9 noack narrow => to 2: attach 9
         2 attached 9 => attached 9
         2 delivers 9 5
         cancel 9 => to 2: cancel 9
         2 cancelled 9 => 9 gets 5, done
         holds 9 => false
         attach 10 narrow => to 2: attach 10
         2 attached 10 => attached 10
         2 delivers 10 6 had=1
         cancel 10 => to 2: cancel 10
         2 cancelled 10 => to 2: 2: release 10 6..7, done
         holds 10 => false",
    );
}

#[test]
fn what_waits_for_room_over_the_end_of_a_session_gives_none_of_the_next_ones_back() {
    play(
        "attach 8 narrow => to 2: present 1 get:8
         2 committed 0 => to 2: attach 8
         2 attached 8 => attached 8
         2 delivers 8 2 bytes=300000
         down 2
         run 60 => to 3: present 1 8=2..3@0
         3 committed 0
         3 attached 8
         roomy 8
         unblock 8 => 8 gets 2
         3 delivers 8 3 bytes=262144 => to 3: credit 8 1 262144, 8 gets 3",
    );
}

#[test]
fn who_wants_nothing_of_a_queue_looks_for_no_leader() {
    play(
        "active 7 => None
         holds 7 => false
         accept 99 0..1 => settled 0
         due => never
         up 3
         run 3000
         due => never",
    );
}

#[test]
fn what_was_said_in_the_session_before_means_nothing() {
    play(
        "publish 1 => to 2: present 1
         2 committed 0 => to 2: 1: m1
         down 2
         run 60 => to 3: present 1
         late 3 committed 1
         3 committed 0 => to 3: 1: m1
         late 3 committed 1
         3 not-leader 4
         run 60 => to 3: present 1
         late 3 refused 1..2
         3 refused 1..2 => refused 1..2",
    );
}

#[test]
fn an_answer_to_a_get_is_for_who_asked_that_and_nobody_else() {
    play(
        "poll get 9 => to 2: present 1 get:9
         2 committed 0 => to 2: get 9
         get 8 => to 2: get 8
         2 got 8 1 => got 1 left=3
         poll get 9
         2 got 9 2
         poll get 9 => got 2 left=3",
    );
}

#[test]
fn consumers_of_a_queue_whose_only_node_goes_are_cancelled() {
    play(
        "single 2
         attach 7 => to 2: present 1 get:7
         2 committed 0 => to 2: attach 7
         2 attached 7 => attached 7
         attach 8 => to 2: attach 8
         down 2 => unavailable, cancelled 7
         holds 7 => false
         holds 8 => false",
    );
}

/// A leader on this node takes the connection's room itself, and waits for no credit.
#[test]
fn what_a_leader_on_this_node_delivers_has_room_already_and_keeps_its_place() {
    play(
        "attach 8 narrow => to 2: present 1 get:8
         2 committed 0 => to 2: attach 8
         2 attached 8 => attached 8
         2 delivers 8 2
         2 delivers 8 3
         1 leading 5 => to 1: present 1 8=2..4@0
         1 committed 0
         1 delivers 8 4
         1 delivers 8 5
         unblock 8 => to 1: credit 8 0 0
         roomy 8 1
         unblock 8 => to 1: credit 8 0 0, 8 gets 2
         roomy 8 1
         unblock 8 => to 1: credit 8 0 0, 8 gets 3, 8 gets 4, 8 gets 5
         1 delivers 8 6 => 8 gets 6
         accept 8 2..7 => to 1: 1: accept 8 2..7",
    );
}

/// A message of 33 bytes weighs 100 with its place.
#[test]
fn what_is_kept_for_a_leader_goes_as_far_as_there_is_room_and_what_is_behind_it_stays_behind_it() {
    play(
        "narrow-way 250
         publish 6 bytes=33 => to 2: present 1
         count
         2 committed 0 => to 2: 1: m1 & m2
         publish 1
         2 committed 1 => committed 1
         room 2 100000 => to 2: 3: m3 & m4 & m5
         room 2 100000 => to 2: 6: m6, to 2: count 1, to 2: 7: m7
         2 committed 7 => committed 7",
    );
    // Another leader is told all that has no answer, by the room on the way there.
    play(
        "narrow-way 250
         publish 4 bytes=33 => to 2: present 1
         2 committed 0 => to 2: 1: m1 & m2
         2 not-leader 2 3 => to 3: present 1
         3 committed 1 => to 3: 2: m2 & m3, committed 1
         room 3 1 => to 3: 4: m4
         3 committed 4 => committed 4",
    );
}

#[test]
fn a_message_that_is_larger_than_all_room_goes_when_it_is_its_turn() {
    play(
        "narrow-way 100
         publish 2 bytes=1000000 => to 2: present 1
         2 committed 0
         room 2 100 => to 2: 1: m1
         room 2 100 => to 2: 2: m2
         2 committed 2 => committed 2",
    );
}
