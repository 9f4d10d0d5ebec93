//! Behaviour of quorum queues alone: they count how often a message came back.

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
            "c1<a; c1<a*+1; c1<a*1+2; c1<a*1+3",
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
            "c1<a; c1<b; c1<a*1; gone a; g1<b*+1 left=0",
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

/// What RabbitMQ 4.3 counts: acquisitions apart from failed deliveries.
#[test]
fn acquired_counts() {
    for (script, expected) in [
        (
            "declare quorum; publish a; consume c1 prefetch=1; release c1 a; nack c1 a; return c1 a",
            "c1<a; c1<a*+1; c1<a*+2; c1<a*1+3",
        ),
        // A consumer that is too slow has not failed, and nobody else's count changes.
        (
            "declare quorum timeout=1000 limit=0; publish a; consume c1; at 5000; detach c1; get g1",
            "c1<a; late c1; g1<a*+1 left=0",
        ),
        (
            "declare quorum limit=0; publish a; consume c1; forget c1; get g1; show",
            "c1<a; g1<a*+1 left=0; held a",
        ),
        // Of who may have had it nothing is known: it counts with those who give it back.
        (
            "declare quorum; publish a b; restart crash; get g1; forget g1; get g2; forget g2; get g3",
            "g1<a* left=1; g2<a*+2 left=1; g3<a*+3 left=1",
        ),
        (
            "declare; publish a; restart crash; get g1; forget g1; get g2",
            "g1<a* left=0; g2<a* left=0",
        ),
        (
            "declare; publish a; consume c1 prefetch=1; release c1 a",
            "c1<a; c1<a*",
        ),
    ] {
        check(script, expected);
    }
}

#[test]
fn priorities_up_to_the_highest_are_told_apart_and_higher_ones_count_as_it() {
    check(
        "declare quorum; publish a:p=30 b:p=31 c:p=32 d:p=255; get g1; get g1; get g1; get g1",
        "g1<b left=3; g1<c left=2; g1<d left=1; g1<a left=0",
    );
}

#[test]
fn delayed_retries() {
    for (script, expected) in [
        // The wait grows with each failure, up to its bound.
        (
            "declare quorum retry=all:100:250; publish a; consume c1 prefetch=1; return c1 a; at 99; \
             at 100; return c1 a; at 299; at 300; return c1 a; at 549; at 550; return c1 a; \
             at 799; at 800",
            "c1<a; c1<a*1; c1<a*2; c1<a*3; c1<a*4",
        ),
        // What is only given back waits the least, however often.
        (
            "declare quorum retry=returned:100; publish a; consume c1 prefetch=1; nack c1 a; at 100; \
             nack c1 a; at 199; at 200; return c1 a",
            "c1<a; c1<a*+1; c1<a*+2; c1<a*1+3",
        ),
        (
            "declare quorum retry=failed:100; publish a; consume c1 prefetch=1; nack c1 a; return c1 a; at 99; at 100",
            "c1<a; c1<a*+1; c1<a*1+2",
        ),
        // Those behind it go first meanwhile; then it takes its old place.
        (
            "declare quorum retry=failed:100; publish a b c; get g1; return g1 a; get g1; at 100; get g1; get g1",
            "g1<a left=2; g1<b left=1; g1<a*1 left=1; g1<c left=0",
        ),
        // A channel that goes has failed; a node that is lost has not.
        (
            "declare quorum retry=failed:100; publish a; get g1; detach g1; get g1; at 100; get g1",
            "g1<a left=0; empty; g1<a*1 left=0",
        ),
        (
            "declare quorum retry=all:100; publish a; get g1; forget g1; get g1",
            "g1<a left=0; g1<a*+1 left=0",
        ),
        (
            "declare quorum retry=all:100; publish a; get g1; release g1 a; get g1",
            "g1<a left=0; g1<a*+1 left=0",
        ),
        // The delivery limit comes before any wait.
        (
            "declare quorum retry=all:100 limit=1 dlx; publish a; get g1; return g1 a; at 100; get g1; return g1 a",
            "g1<a left=0; g1<a*1 left=0; dlx(delivery_limit) a",
        ),
        (
            "declare quorum retry=all:100; publish a b; get g1; return g1 a; purge; show",
            "g1<a left=1; gone a b; purged 2; nothing",
        ),
        // Across a restart, and a change of who runs the queue.
        (
            "declare quorum retry=all:100; publish a; get g1; return g1 a; restart; get g1; at 100; get g1",
            "g1<a left=0; empty; g1<a*1 left=0",
        ),
        (
            "declare quorum retry=all:100; publish a; get g1; return g1 a; restart; adopt g2 a; show; ack g2 a",
            "g1<a left=0; held a; gone a",
        ),
        (
            "declare quorum retry=all:100; tell-returns; publish a; get g1; return g1 a",
            "g1<a left=0; count 1/1 a@100",
        ),
        // A message that expired while it waited goes when its time has come.
        (
            "declare quorum retry=all:100 ttl=50; publish a; get g1; return g1 a; at 60; show; at 100; show",
            "g1<a left=0; ready a; gone a; nothing",
        ),
        // Neighbours that come back one by one, and due together, go out together.
        (
            "declare quorum retry=all:100; publish a b c; get g1; get g1; get g1; \
             return g1 a; return g1 b; return g1 c; at 99; show; at 100; show; \
             get g2; get g2; get g2",
            "g1<a left=2; g1<b left=1; g1<c left=0; ready a b c; ready a b c; \
             g2<a*1 left=2; g2<b*1 left=1; g2<c*1 left=0",
        ),
        // Classic queues know nothing of it.
        (
            "declare retry=all:100; publish a; get g1; return g1 a; get g1",
            "g1<a left=0; g1<a* left=0",
        ),
        (
            "declare quorum retry=all:100; publish a; get g1; return g1 a; deadline",
            "g1<a left=0; at 100",
        ),
    ] {
        check(script, expected);
    }
}

/// What a queue does whose counts, subscriptions and arrivals are known to others as well.
#[test]
fn replicated_queues() {
    for (script, expected) in [
        (
            "declare quorum; tell-returns; publish a b; consume c1; return c1 a b; detach c1",
            "c1<a; c1<b; count 1/1 a b; c1<a*1; c1<b*1; count 2/2 a b",
        ),
        (
            "declare quorum limit=1; tell-returns; publish a; get g1; return g1 a; get g1; return g1 a",
            "g1<a left=0; count 1/1 a; g1<a*1 left=0; gone a",
        ),
        // Forgotten is not counted.
        (
            "declare quorum; tell-returns; publish a; consume c1; forget c1; consume c2",
            "c1<a; count 0/1 a; c2<a*+1",
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
            "g2<a*+1 left=0",
        ),
        // All of a priority is adopted: those below go on.
        (
            "declare quorum prio=2; publish a:p=2 b:p=0 c:p=0; restart; adopt g1 a; get g2; get g2; get g2",
            "g2<b left=1; g2<c left=0; empty",
        ),
        // What is adopted is due back when it would have been.
        (
            "declare quorum timeout=100; publish a; restart; adopt g1 a; at 99; at 101",
            "late g1",
        ),
        // Who ran the queue before knew of more who had it.
        (
            "declare quorum; publish a; adopt g1 a=3; nack g1 a; get g2",
            "g2<a*+4 left=0",
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
