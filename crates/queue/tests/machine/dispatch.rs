//! The recipient of the next message: turns, priorities, exclusiveness, the single active consumer.

use crate::script::check;

#[test]
fn turns() {
    for (script, expected) in [
        (
            "consume c1; consume c2; publish a b c d",
            "c1<a; c2<b; c1<c; c2<d",
        ),
        (
            "consume c1; consume c2; publish a; publish b; publish c",
            "c1<a; c2<b; c1<c",
        ),
        (
            "consume c1; consume c2; consume c3; publish a b; publish c d",
            "c1<a; c2<b; c3<c; c1<d",
        ),
        // Out of credit, a consumer loses its turn and comes back at the end.
        (
            "consume c1 prefetch=1; consume c2; publish a b c; ack c1 a; publish d e",
            "c1<a; c2<b; c2<c; gone a; c2<d; c1<e",
        ),
        (
            "consume c1 prefetch=1; consume c2 prefetch=1; publish a b c; ack c2 b",
            "c1<a; c2<b; gone b; c2<c",
        ),
        (
            "consume c1 prefetch=1; consume c2 prefetch=1; publish a b; ack c2 b; ack c1 a; publish c",
            "c1<a; c2<b; gone b; gone a; c2<c",
        ),
        // A consumer that goes takes its turn along.
        (
            "consume c1; consume c2; publish a; cancel c2; publish b",
            "c1<a; c1<b",
        ),
        (
            "consume c1; consume c2; consume c3; cancel c1; publish a b c",
            "c2<a; c3<b; c2<c",
        ),
        (
            "consume c1; consume c2 no-ack; publish a b c d",
            "c1<a; c2<<b; c1<c; gone b; c2<<d; gone d",
        ),
        // The channel's room.
        (
            "room c1=1; consume c1; publish a b; show",
            "c1<a; ready b | held a",
        ),
        (
            "room c1=0; consume c1; publish a; room c1=1; unblock c1",
            "c1<a",
        ),
        (
            "room c1=1; consume c1; publish a b; room c1=5; ack c1 a; show; unblock c1",
            "c1<a; gone a; ready b; c1<b",
        ),
        (
            "room c1=0; consume c1; consume c2; publish a b",
            "c2<a; c2<b",
        ),
        (
            "room c1=0; room c2=0; consume c1; consume c2; publish a; room c2=9; unblock c2; room c1=9; unblock c1; publish b c",
            "c2<a; c2<b; c1<c",
        ),
        ("room c1=0; consume c1 no-ack; publish a; show", "ready a"),
        ("unblock c7; show", "nothing"),
        (
            "room c1=0; consume c1; publish a; cancel c1; unblock c1; show",
            "ready a",
        ),
        (
            "consume c1 prefetch=1; publish a b; unblock c1; show",
            "c1<a; ready b | held a",
        ),
    ] {
        check(script, expected);
    }
}

#[test]
fn consumer_priorities() {
    for (script, expected) in [
        (
            "consume c1; consume c2 priority=10; publish a b",
            "c2<a; c2<b",
        ),
        (
            "consume c1 priority=10; consume c2; publish a b",
            "c1<a; c1<b",
        ),
        ("consume c1 priority=-1; consume c2; publish a", "c2<a"),
        (
            "consume c1 priority=1 prefetch=1; consume c2; publish a b; ack c1 a; publish c",
            "c1<a; c2<b; gone a; c1<c",
        ),
        (
            "room c1=1; consume c1 priority=1; consume c2; publish a b c",
            "c1<a; c2<b; c2<c",
        ),
        (
            "consume c1 priority=5; consume c2 priority=5; consume c3; publish a b c",
            "c1<a; c2<b; c1<c",
        ),
        (
            "consume c1 priority=2 prefetch=1; consume c2 priority=1 prefetch=1; consume c3; publish a b c d",
            "c1<a; c2<b; c3<c; c3<d",
        ),
        (
            "consume c1 priority=1; consume c2; cancel c1; publish a",
            "c2<a",
        ),
        (
            "consume c1 priority=1 prefetch=1; consume c2; publish a; cancel c2; consume c3 priority=-3; ack c1 a; publish b c",
            "c1<a; gone a; c1<b; c3<c",
        ),
        (
            "consume c1 priority=9223372036854775807; consume c2 priority=-9223372036854775808; publish a",
            "c1<a",
        ),
    ] {
        check(script, expected);
    }
}

#[test]
fn exclusive_consumers() {
    for (script, expected) in [
        ("consume c1 exclusive; consume c2", "exclusive-taken"),
        (
            "consume c1 exclusive; consume c2 exclusive",
            "exclusive-taken",
        ),
        ("consume c1; consume c2 exclusive", "exclusive-taken"),
        (
            "consume c1 exclusive; cancel c1; consume c2; publish a",
            "c2<a",
        ),
        (
            "consume c1 exclusive; detach c1; consume c2 exclusive; consume c3",
            "exclusive-taken",
        ),
        (
            "consume c1; cancel c1; consume c2 exclusive; publish a",
            "c2<a",
        ),
        // A refused one leaves no trace.
        (
            "consume c1; consume c2 exclusive; consume c3; publish a b",
            "exclusive-taken; c1<a; c3<b",
        ),
        (
            "consume c1 exclusive; consume c2; publish a; get g1",
            "exclusive-taken; c1<a; empty",
        ),
        // Somebody who got a message, or was cancelled and still holds one, is no consumer.
        (
            "publish a; get g1; consume c1 exclusive; publish b",
            "g1<a left=0; c1<b",
        ),
        (
            "publish a; consume c1; cancel c1; consume c2 exclusive; publish b",
            "c1<a; c2<b",
        ),
    ] {
        check(script, expected);
    }
}

#[test]
fn single_active_consumer() {
    for (script, expected) in [
        // Who has taken over gets messages as each is settled, not only when all are.
        (
            "declare quorum sac; publish a b c d; consume c1 prefetch=1; \
             consume c2 prefetch=2 priority=5; ack c1 a; ack c2 b; ack c2 c",
            "active c1; c1<a; gone a; waits c1; active c2; c2<b; c2<c; gone b; c2<d; gone c",
        ),
        (
            "declare quorum sac; publish a b c d; consume c1 prefetch=1; \
             consume c2 prefetch=2 priority=5; detach c1; ack c2 a; ack c2 b",
            "active c1; c1<a; active c2; c2<a*1; c2<b; gone a; c2<c; gone b; c2<d",
        ),
        (
            "declare sac; consume c1; consume c2; publish a b",
            "active c1; c1<a; c1<b",
        ),
        (
            "declare sac; consume c1; consume c2; publish a; cancel c1; publish b",
            "active c1; c1<a; active c2; c2<b",
        ),
        (
            "declare sac; consume c1; consume c2; publish a; detach c1",
            "active c1; c1<a; active c2; c2<a*",
        ),
        (
            "declare sac; consume c1; consume c2; cancel c2; publish a",
            "active c1; c1<a",
        ),
        (
            "declare sac; consume c1; cancel c1; publish a; show",
            "active c1; ready a",
        ),
        ("declare sac; consume c1 exclusive", "exclusive-on-sac"),
        // Out of credit or without room, it stays the active one.
        (
            "declare sac; consume c1 prefetch=1; consume c2; publish a b; show",
            "active c1; c1<a; ready b | held a",
        ),
        (
            "declare sac; room c1=0; consume c1; consume c2; publish a; room c1=1; unblock c1",
            "active c1; c1<a",
        ),
        (
            "declare sac; consume c1; consume c2; unblock c2; publish a b",
            "active c1; c1<a; c1<b",
        ),
        // The next one is chosen by priority, then by who came first.
        (
            "declare sac; consume c1; consume c2; consume c3 priority=1; cancel c1",
            "active c1; active c3",
        ),
        (
            "declare sac; consume c1; consume c2; consume c3; cancel c1; cancel c2",
            "active c1; active c2; active c3",
        ),
        // A classic queue's active one stays whoever comes.
        (
            "declare sac; consume c1; consume c2 priority=9; publish a",
            "active c1; c1<a",
        ),
        (
            "declare sac; consume c1; consume c2; publish a; cancel c1; ack c1 a; publish b",
            "active c1; c1<a; active c2; gone a; c2<b",
        ),
        // A quorum queue's yields to a higher priority, once it holds nothing.
        (
            "declare quorum sac; consume c1; consume c2 priority=1; publish a",
            "active c1; waits c1; active c2; c2<a",
        ),
        (
            "declare quorum sac; consume c1; publish a; consume c2 priority=1; publish b; show; ack c1 a",
            "active c1; c1<a; ready b | held a; gone a; waits c1; active c2; c2<b",
        ),
        (
            "declare quorum sac; consume c1; publish a b; consume c2 priority=1; publish c; ack c1 a; nack c1 b",
            "active c1; c1<a; c1<b; gone a; waits c1; active c2; c2<b*+1; c2<c",
        ),
        (
            "declare quorum sac; consume c1; publish a; consume c2 priority=1; publish b; cancel c2",
            "active c1; c1<a; c1<b",
        ),
        (
            "declare quorum sac; consume c1; publish a; consume c2 priority=1; detach c1",
            "active c1; c1<a; active c2; c2<a*1",
        ),
        (
            "declare quorum sac; consume c1; publish a; consume c2 priority=1; cancel c1; publish b",
            "active c1; c1<a; active c2; c2<b",
        ),
        (
            "declare quorum sac; consume c1; consume c2; publish a",
            "active c1; c1<a",
        ),
        (
            "declare quorum sac; consume c1; publish a; consume c2 priority=1; unblock c1; publish b; show",
            "active c1; c1<a; ready b | held a",
        ),
        (
            "declare quorum sac; consume c1 priority=1; cancel c1; consume c2; consume c3 priority=1; publish a",
            "active c1; active c2; waits c2; active c3; c3<a",
        ),
        // An election that is put off is for those who are there at its end.
        (
            "declare quorum sac; hold-election; consume c1; consume c2; publish a; show; resume-election c2",
            "ready a; active c2; c2<a",
        ),
        (
            "declare quorum sac; hold-election; consume c1; consume c2; publish a; resume-election c9",
            "active c1; c1<a",
        ),
        (
            "declare quorum sac; consume c1; consume c2; hold-election; forget c1; consume c1; publish a; resume-election c1",
            "active c1; active c1; c1<a",
        ),
        (
            "declare quorum sac; consume c1; consume c2; hold-election; forget c1; publish a; resume-election c1",
            "active c1; active c2; c2<a",
        ),
        (
            "declare quorum sac; consume c1; hold-election; consume c2; publish a; resume-election c2",
            "active c1; c1<a",
        ),
        (
            "declare quorum sac; hold-election; consume c1; consume c2 priority=1; resume-election c1; publish a",
            "active c1; waits c1; active c2; c2<a",
        ),
        (
            "declare quorum sac; consume c1; publish a; consume c2 priority=1; hold-election; ack c1 a; publish b; show; resume-election c1",
            "active c1; c1<a; gone a; ready b; waits c1; active c2; c2<b",
        ),
        (
            "hold-election; consume c1; publish a; resume-election c1",
            "c1<a",
        ),
    ] {
        check(script, expected);
    }
}

#[test]
fn capacity_is_the_time_in_which_a_consumer_could_take_a_message() {
    for (script, expected) in [
        ("at 1000; able", "able 0"),
        ("consume c1; at 1000; able", "able 1000"),
        (
            "consume c1 prefetch=1; at 100; publish a; at 300; able; ack c1 a; at 350; able",
            "c1<a; able 100; gone a; able 150",
        ),
        ("consume c1; at 100; cancel c1; at 900; able", "able 100"),
        (
            "room c1=0; consume c1; at 100; publish a; at 200; able; room c1=5; unblock c1; at 260; able",
            "able 100; c1<a; able 160",
        ),
    ] {
        check(script, expected);
    }
}
