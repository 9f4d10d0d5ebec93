//! Publishing, delivering, settling, getting, purging.

use crate::script::check;

#[test]
fn deliveries_and_settles() {
    for (script, expected) in [
        // Waiting and delivering.
        ("publish a b c; show", "ready a b c"),
        ("publish a b; consume c1", "c1<a; c1<b"),
        ("consume c1; publish a b", "c1<a; c1<b"),
        (
            "publish a; consume c1; publish b; show",
            "c1<a; c1<b; held a b",
        ),
        ("show", "nothing"),
        // Accepting, in order, out of order, twice, and what is not held.
        (
            "publish a b c; consume c1; ack c1 a b c; show",
            "c1<a; c1<b; c1<c; gone a b c; nothing",
        ),
        (
            "publish a b c; consume c1; ack c1 b; ack c1 a; ack c1 c",
            "c1<a; c1<b; c1<c; gone b; gone a; gone c",
        ),
        (
            "publish a b c; consume c1; ack c1 c a",
            "c1<a; c1<b; c1<c; gone c; gone a",
        ),
        (
            "publish a; consume c1; ack c1 a; ack c1 a",
            "c1<a; gone a; settled 0",
        ),
        (
            "publish a b c; consume c1; ack c1 b; ack c1 a b c",
            "c1<a; c1<b; c1<c; gone b; gone a; gone c; settled 2",
        ),
        (
            "publish a b; consume c1 prefetch=1; ack c1 b",
            "c1<a; settled 0",
        ),
        (
            "publish a; consume c1; ack c2 a; show",
            "c1<a; settled 0; held a",
        ),
        (
            "publish a b; consume c1 prefetch=1; consume c2 prefetch=1; ack c1 b; ack c2 a",
            "c1<a; c2<b; settled 0; settled 0",
        ),
        // Prefetch, at the bound and one more.
        (
            "consume c1 prefetch=1; publish a b; ack c1 a",
            "c1<a; gone a; c1<b",
        ),
        (
            "consume c1 prefetch=2; publish a b c; show",
            "c1<a; c1<b; ready c | held a b",
        ),
        (
            "consume c1 prefetch=3; publish a b c; show",
            "c1<a; c1<b; c1<c; held a b c",
        ),
        (
            "consume c1 prefetch=2; publish a b c d; ack c1 a b",
            "c1<a; c1<b; gone a b; c1<c; c1<d",
        ),
        (
            "consume c1 prefetch=2; publish a b c; ack c1 b",
            "c1<a; c1<b; gone b; c1<c",
        ),
        // Without acknowledgement: prefetch has no meaning, neighbours leave as one range.
        (
            "consume c1 no-ack; publish a b c; show",
            "c1<<a; c1<<b; c1<<c; gone a b c; nothing",
        ),
        (
            "consume c1 no-ack prefetch=1; publish a b",
            "c1<<a; c1<<b; gone a b",
        ),
        (
            "consume c1 no-ack; publish a; ack c1 a",
            "c1<<a; gone a; settled 0",
        ),
        // Requeueing: the old place, flagged, order kept.
        (
            "publish a b c; consume c1 prefetch=1; nack c1 a; show",
            "c1<a; c1<a*; ready b c | held a",
        ),
        (
            "publish a b c; consume c1; cancel c1; nack c1 b; nack c1 a c; get g1; get g1; get g1",
            "c1<a; c1<b; c1<c; g1<a* left=2; g1<b* left=1; g1<c* left=0",
        ),
        (
            "publish a b c; get g1; get g2; nack g2 b; nack g1 a; consume c1",
            "g1<a left=2; g2<b left=1; c1<a*; c1<b*; c1<c",
        ),
        (
            "publish a b; get g1; nack g1 a; publish c; consume c1",
            "g1<a left=1; c1<a*; c1<b; c1<c",
        ),
        (
            "publish a; consume c1 prefetch=1; return c1 a; return c1 a",
            "c1<a; c1<a*; c1<a*",
        ),
        // Rejecting without a dead-letter exchange drops, with one keeps until it is told.
        (
            "publish a b; consume c1; reject c1 a; show",
            "c1<a; c1<b; gone a; held b",
        ),
        (
            "declare dlx; publish a b; consume c1; reject c1 a b; show",
            "c1<a; c1<b; dlx(rejected) a b; leaving a b",
        ),
        (
            "declare dlx; publish a b; consume c1; reject c1 a b; dead-lettered b; show; dead-lettered a; show",
            "c1<a; c1<b; dlx(rejected) a b; gone b; leaving a; gone a; nothing",
        ),
        (
            "declare dlx; publish a; consume c1; reject c1 a; dead-lettered a; dead-lettered a",
            "c1<a; dlx(rejected) a; gone a; not-leaving",
        ),
        (
            "declare dlx; publish a; consume c1; reject c1 a; ack c1 a; show",
            "c1<a; dlx(rejected) a; settled 0; leaving a",
        ),
        (
            "declare dlx; publish a; consume c1; dead-lettered a; show",
            "c1<a; not-leaving; held a",
        ),
        (
            "declare dlx; publish a; consume c1; reject c1 a; policy; publish b; reject c1 b; show",
            "c1<a; dlx(rejected) a; c1<b; gone b; leaving a",
        ),
        // Cancelling keeps, detaching returns.
        (
            "publish a b; consume c1 prefetch=1; cancel c1; show; ack c1 a; show",
            "c1<a; ready b | held a; gone a; ready b",
        ),
        (
            "publish a b; consume c1 prefetch=1; cancel c1; nack c1 a; show",
            "c1<a; ready a b",
        ),
        (
            "consume c1; cancel c1; cancel c1; cancel c2",
            "unknown; unknown",
        ),
        (
            "publish a b c; consume c1 prefetch=2; detach c1; show",
            "c1<a; c1<b; ready a b c",
        ),
        (
            "publish a b c; consume c1 prefetch=2; ack c1 a; detach c1; consume c2",
            "c1<a; c1<b; gone a; c1<c; c2<b*; c2<c*",
        ),
        (
            "publish a b; consume c1; consume c2; detach c1",
            "c1<a; c1<b; c2<a*; c2<b*",
        ),
        (
            "publish a; consume c1; cancel c1; detach c1; show",
            "c1<a; ready a",
        ),
        (
            "publish a; consume c1; detach c1; ack c1 a; show",
            "c1<a; settled 0; ready a",
        ),
        ("detach c1; detach g1; show", "nothing"),
        (
            "declare dlx; publish a; consume c1; reject c1 a; detach c1; show",
            "c1<a; dlx(rejected) a; leaving a",
        ),
    ] {
        check(script, expected);
    }
}

#[test]
fn gets() {
    for (script, expected) in [
        ("get g1", "empty"),
        (
            "publish a b; get g1; get g1; get g1",
            "g1<a left=1; g1<b left=0; empty",
        ),
        (
            "publish a b; get g1 no-ack; show",
            "g1<<a left=1; gone a; ready b",
        ),
        (
            "publish a; get g1; ack g1 a; ack g1 a; show",
            "g1<a left=0; gone a; settled 0; nothing",
        ),
        (
            "publish a; get g1; detach g1; get g2; show",
            "g1<a left=0; g2<a* left=0; held a",
        ),
        (
            "publish a b; get g1; reject g1 a; show",
            "g1<a left=1; gone a; ready b",
        ),
        (
            "publish a; get g1; show; get g1",
            "g1<a left=0; held a; empty",
        ),
        // Consumers that wait go first, so that there is nothing to get while one is able.
        ("consume c1; publish a; get g1", "c1<a; empty"),
        (
            "consume c1 prefetch=1; publish a b; get g1",
            "c1<a; g1<b left=0",
        ),
        (
            "declare prio=2; publish a b:p=2; get g1; get g1",
            "g1<b left=1; g1<a left=0",
        ),
    ] {
        check(script, expected);
    }
}

#[test]
fn purges() {
    for (script, expected) in [
        ("purge", "purged 0"),
        (
            "publish a b c; purge; show",
            "gone a b c; purged 3; nothing",
        ),
        (
            "publish a b c; get g1; purge; show; nack g1 a; show",
            "g1<a left=2; gone b c; purged 2; held a; ready a",
        ),
        (
            "publish a b c; consume c1; cancel c1; nack c1 a c; purge; show",
            "c1<a; c1<b; c1<c; gone a; gone c; purged 2; held b",
        ),
        (
            "declare prio=1; publish a b:p=1 c; purge; show",
            "gone a c; gone b; purged 3; nothing",
        ),
        (
            "declare dlx; publish a; get g1; reject g1 a; publish b; purge; show",
            "g1<a left=0; dlx(rejected) a; gone b; purged 1; leaving a",
        ),
        ("declare dlx; publish a; purge", "gone a; purged 1"),
        (
            "declare ttl=100; publish a; deadline; purge; deadline",
            "at 100; gone a; purged 1; never",
        ),
        (
            "publish a; purge; publish b; consume c1; ack c1 b",
            "gone a; purged 1; c1<b; gone b",
        ),
        (
            "publish a b; cold a; consume c1; purge; warm; publish c",
            "gone a b; purged 2; c1<c",
        ),
    ] {
        check(script, expected);
    }
}

#[test]
fn reads_that_take_time() {
    for (script, expected) in [
        ("publish a b; cold a; consume c1; warm", "c1<a; c1<b"),
        (
            "publish a b c; cold b; consume c1; show; warm",
            "c1<a; ready b c | held a; c1<b; c1<c",
        ),
        // While the head is being read nothing behind it goes out, and the log is asked once.
        (
            "publish a b; cold a; consume c1; publish c; publish d; peeks",
            "peeks 1",
        ),
        (
            "publish a; cold a; get g1; get g1; warm; get g1",
            "pending; pending; g1<a left=0",
        ),
        (
            "publish a; cold a; consume c1; detach c1; warm; show",
            "ready a",
        ),
        // What returns before the cold one can go out meanwhile, and so can a higher priority.
        (
            "publish a b; consume c1 prefetch=1; cold b; consume c2; nack c1 a; show",
            "c1<a; c2<a*; ready b | held a",
        ),
        (
            "declare prio=1; publish a; cold a; consume c1; publish b:p=1; show",
            "c1<b; ready a | held b",
        ),
        // A lower priority waits for a higher one that is being read.
        (
            "declare prio=1; publish a b:p=1; cold b; consume c1; show; warm",
            "ready a b; c1<b; c1<a",
        ),
        // Without a consumer nothing is read.
        ("publish a b c; peeks", "peeks 0"),
        ("publish a; consume c1; peeks", "c1<a; peeks 1"),
        ("publish a b; consume c1 prefetch=1; peeks", "c1<a; peeks 1"),
    ] {
        check(script, expected);
    }
}

#[test]
fn damaged_messages_are_set_aside_and_told_once() {
    for (script, expected) in [
        (
            "publish a b; damage a; consume c1; show",
            "damaged a; c1<b; held b | damaged a",
        ),
        (
            "publish a; damage a; consume c1; consume c2; publish b",
            "damaged a; c1<b",
        ),
        (
            "publish a; damage a; get g1; show",
            "empty; damaged a; damaged a",
        ),
        (
            "publish a; damage a; consume c1; purge; show",
            "damaged a; purged 0; damaged a",
        ),
        ("publish a; damage a; show", "ready a"),
        (
            "declare max-length=1; publish a; damage a; publish b; show",
            "damaged a; ready b | damaged a",
        ),
        (
            "publish a b; damage a; policy ttl=10; at 5; show",
            "damaged a; ready b | damaged a",
        ),
        (
            "publish a; damage a; consume c1; cancel c1; restart; show; consume c2",
            "damaged a; ready a; damaged a",
        ),
    ] {
        check(script, expected);
    }
}

#[test]
fn counters_tell_what_happened() {
    check(
        "publish a b c d e; consume c1 prefetch=1; ack c1 a; return c1 b; reject c1 b; cancel c1; nack c1 c; purge; get g1; counters",
        "c1<a; gone a; c1<b; c1<b*; gone b; c1<c; gone c d e; purged 3; empty; \
         enqueued=5 delivered=4 got_empty=1 redelivered=1 accepted=1 requeued=2 rejected=1 purged=3",
    );
    check(
        "declare max-length=1; publish a; publish b; get g1 no-ack; publish c; get g1; consume c1 no-ack; publish d; counters",
        "gone a; g1<<b left=0; gone b; g1<c left=0; c1<<d; gone d; \
         enqueued=4 delivered_settled=1 got=1 got_settled=1 dropped=1",
    );
    check(
        "declare quorum limit=0 ttl=5; publish a; get g1; return g1 a; publish b; at 5; counters",
        "g1<a left=0; gone a; gone b; enqueued=2 got=1 requeued=1 expired=1 delivery_limited=1",
    );
}
