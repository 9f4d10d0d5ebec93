//! What only quorum queues do: they count how often a message came back.

use crate::script::check;

#[test]
fn delivery_limits() {
    for (script, expected) in [
        // Returned counts, nacked does not; a channel that goes counts.
        (
            "declare quorum; publish a; consume c1 prefetch=1; return c1 a; return c1 a",
            "c1<a; c1<a*1; c1<a*2",
        ),
        (
            "declare quorum; publish a; consume c1 prefetch=1; nack c1 a; return c1 a; nack c1 a",
            "c1<a; c1<a*; c1<a*1; c1<a*1",
        ),
        (
            "declare quorum; publish a b; consume c1; detach c1; consume c2",
            "c1<a; c1<b; c2<a*1; c2<b*1",
        ),
        (
            "declare quorum; publish a; get g1; detach g1; get g2",
            "g1<a left=0; g2<a*1 left=0",
        ),
        // At the limit, and above.
        (
            "declare quorum limit=1; publish a; get g1; return g1 a; show; get g1; return g1 a; show",
            "g1<a left=0; ready a; g1<a*1 left=0; gone a; nothing",
        ),
        (
            "declare quorum limit=1 dlx; publish a; get g1; return g1 a; get g1; return g1 a; show",
            "g1<a left=0; g1<a*1 left=0; dlx(delivery_limit) a; leaving a",
        ),
        (
            "declare quorum limit=0; publish a; get g1; return g1 a; show",
            "g1<a left=0; gone a; nothing",
        ),
        (
            "declare quorum limit=0; publish a; get g1; nack g1 a; show",
            "g1<a left=0; ready a",
        ),
        (
            "declare quorum limit=0 dlx; publish a b; consume c1; detach c1; show",
            "c1<a; c1<b; dlx(delivery_limit) a b; leaving a b",
        ),
        // Of a range, each by its own count.
        (
            "declare quorum limit=1; publish a b c; consume c1 prefetch=3; return c1 b; cancel c1; return c1 a b c; show",
            "c1<a; c1<b; c1<c; c1<b*1; gone b; ready a c",
        ),
        (
            "declare quorum limit=none; publish a; consume c1 prefetch=1; return c1 a; return c1 a; return c1 a",
            "c1<a; c1<a*1; c1<a*2; c1<a*3",
        ),
        (
            "declare quorum limit=5; publish a; get g1; return g1 a; get g1; return g1 a; policy limit=2; get g1; return g1 a; show",
            "g1<a left=0; g1<a*1 left=0; g1<a*2 left=0; gone a; nothing",
        ),
        // Classic queues do not count.
        (
            "declare limit=0; publish a; consume c1 prefetch=1; return c1 a; detach c1; show",
            "c1<a; c1<a*; ready a",
        ),
        // The count goes with the message.
        (
            "declare quorum; publish a b; consume c1; return c1 a; ack c1 a; cancel c1; nack c1 b; get g1",
            "c1<a; c1<b; c1<a*1; gone a; g1<b* left=0",
        ),
    ] {
        check(script, expected);
    }
}

#[test]
fn the_default_limit_is_twenty() {
    let returns = "get g1; return g1 a; ".repeat(20);
    let (world, _) = crate::script::run(&format!("declare quorum; publish a; {returns}"));
    assert_eq!(
        world.queue.counts(world.now).ready,
        1,
        "20 returns are allowed"
    );
    let (world, _) = crate::script::run(&format!(
        "declare quorum; publish a; {returns} get g1; return g1 a"
    ));
    assert_eq!(world.queue.counts(world.now).ready, 0, "21 are not");
}

/// What a queue does whose counts, holders and arrivals are known to others as well.
#[test]
fn replicated_queues() {
    for (script, expected) in [
        (
            "declare quorum; tell-returns; publish a b; consume c1; return c1 a b; detach c1",
            "c1<a; c1<b; count 1 a b; c1<a*1; c1<b*1; count 2 a b",
        ),
        (
            "declare quorum limit=1; tell-returns; publish a; get g1; return g1 a; get g1; return g1 a",
            "g1<a left=0; count 1 a; g1<a*1 left=0; gone a",
        ),
        // Forgotten is not counted.
        (
            "declare quorum; tell-returns; publish a; consume c1; forget c1; consume c2",
            "c1<a; c2<a*",
        ),
        // What a living consumer has stays with it and counts against its credit.
        (
            "declare quorum; publish a b c; restart; adopt c1 b; consume c2; show; ack c1 b",
            "c2<a*; c2<c; held a b c; gone b",
        ),
        (
            "declare quorum; publish a; get g1; adopt g2 a; show",
            "g1<a left=0; not-ready; held a",
        ),
        (
            "declare quorum; room c1=0; consume c1 prefetch=1; publish a b; adopt c1 a; room c1=9; unblock c1; show; ack c1 a",
            "ready b | held a; gone a; c1<b",
        ),
        (
            "declare quorum; publish a; adopt g1 a; nack g1 a; get g2",
            "g2<a* left=0",
        ),
        // What is on its way counts where publishes are refused, and only there.
        (
            "declare quorum max-length=2 overflow=reject; announce 1; publish a b; withdraw 1; publish c d",
            "refused b; refused d",
        ),
        (
            "declare quorum max-bytes=10 overflow=reject; announce 5; publish a:size=5 b:size=1; withdraw 5; publish c:size=5 d",
            "refused b; refused d",
        ),
        (
            "declare quorum max-length=1; announce 1; publish a; show",
            "ready a",
        ),
    ] {
        check(script, expected);
    }
}
