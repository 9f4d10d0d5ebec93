//! Length limits and priorities of messages.

use crate::script::check;

#[test]
fn drop_head() {
    for (script, expected) in [
        ("declare max-length=2; publish a b; show", "ready a b"),
        (
            "declare max-length=2; publish a b c; show",
            "gone a; ready b c",
        ),
        (
            "declare max-length=2; publish a b c d e; show",
            "gone a b c; ready d e",
        ),
        (
            "declare max-length=0; publish a b; show",
            "gone a b; nothing",
        ),
        (
            "declare max-length=0; consume c1; publish a b",
            "c1<a; c1<b",
        ),
        // Only what is ready counts, and a batch is delivered before it is cut.
        (
            "declare max-length=1; consume c1 prefetch=1; publish a b; show",
            "c1<a; ready b | held a",
        ),
        (
            "declare max-length=1; consume c1 prefetch=1; publish a b c; show",
            "c1<a; gone b; ready c | held a",
        ),
        // What returns pushes out the oldest: itself.
        (
            "declare max-length=1; publish a; get g1; publish b; nack g1 a; show",
            "g1<a left=0; gone a; ready b",
        ),
        (
            "declare max-length=1 dlx; publish a; get g1; publish b; nack g1 a; show",
            "g1<a left=0; dlx(maxlen) a; ready b | leaving a",
        ),
        // Bytes.
        (
            "declare max-bytes=10; publish a:size=5 b:size=5; show",
            "ready a b",
        ),
        (
            "declare max-bytes=10; publish a:size=5 b:size=6; show",
            "gone a; ready b",
        ),
        (
            "declare max-bytes=10; publish a:size=11; show",
            "gone a; nothing",
        ),
        (
            "declare max-bytes=10; publish a:size=3 b:size=3 c:size=10; show",
            "gone a b; ready c",
        ),
        (
            "declare max-bytes=10; publish a:size=10 b:size=0 c:size=0; show",
            "ready a b c",
        ),
        (
            "declare max-bytes=0; publish a:size=0 b:size=1; show",
            "gone a b; nothing",
        ),
        (
            "declare max-bytes=10; publish a:size=8; get g1; publish b:size=8; nack g1 a; show",
            "g1<a left=0; gone a; ready b",
        ),
        (
            "declare max-length=1 max-bytes=10; publish a:size=1 b:size=1; show",
            "gone a; ready b",
        ),
        (
            "declare max-length=5 max-bytes=1; publish a:size=1 b:size=1; show",
            "gone a; ready b",
        ),
        // With a dead-letter exchange.
        (
            "declare max-length=1 dlx; publish a b c; show; dead-lettered a; dead-lettered b; show",
            "dlx(maxlen) a b; ready c | leaving a b; gone a; gone b; ready c",
        ),
        (
            "declare max-bytes=5 dlx; publish a:size=6; show",
            "dlx(maxlen) a; leaving a",
        ),
        // A policy that comes later.
        (
            "publish a b c; policy max-length=1; show",
            "gone a b; ready c",
        ),
        ("publish a b c; policy max-length=3; show", "ready a b c"),
        (
            "declare max-length=1; publish a; policy; publish b c; show",
            "ready a b c",
        ),
        (
            "publish a:size=4 b:size=4; policy max-bytes=7; show",
            "gone a; ready b",
        ),
        // The head that is being read cannot be dropped yet; the limit holds once it is there.
        (
            "declare max-length=1; publish a; cold a; publish b; show; warm; show",
            "ready a b; gone a; ready b",
        ),
        (
            "declare max-length=1; publish a; cold a; publish b; publish c; warm",
            "gone a b",
        ),
        // Higher priorities are at the head.
        (
            "declare max-length=2 prio=5; publish a:p=1 b:p=5 c:p=1; show",
            "gone b; ready a c",
        ),
        (
            "declare max-length=1 prio=5; publish a b:p=5; show",
            "gone b; ready a",
        ),
        (
            "declare max-length=1; publish a b; get g1; ack g1 b; publish c; show",
            "gone a; g1<b left=0; gone b; ready c",
        ),
    ] {
        check(script, expected);
    }
}

#[test]
fn reject_publish() {
    for (script, expected) in [
        (
            "declare max-length=2 overflow=reject; publish a b; show",
            "ready a b",
        ),
        (
            "declare max-length=2 overflow=reject; publish a b c; show",
            "refused c; ready a b",
        ),
        (
            "declare max-length=0 overflow=reject; consume c1; publish a",
            "refused a",
        ),
        (
            "declare max-length=1 overflow=reject; publish a b; get g1; publish c; show",
            "refused b; g1<a left=0; ready c | held a",
        ),
        (
            "declare max-length=1 overflow=reject; publish a; get g1; publish b; nack g1 a; publish c; show",
            "g1<a left=0; refused c; ready a b",
        ),
        // What the same batch brought before and a consumer can take does not count.
        (
            "declare max-length=1 overflow=reject; consume c1; publish a b c",
            "c1<a; c1<b; c1<c",
        ),
        (
            "declare max-length=1 overflow=reject; consume c1 prefetch=1; publish a b c; show",
            "c1<a; refused c; ready b | held a",
        ),
        (
            "declare max-bytes=10 overflow=reject; publish a:size=10; publish b:size=1; publish c:size=0; show",
            "refused b; ready a c",
        ),
        (
            "declare max-bytes=10 overflow=reject; publish a:size=11; show",
            "refused a; nothing",
        ),
        (
            "declare max-length=1 overflow=dlx dlx; publish a b; show",
            "refused-dlx b; ready a",
        ),
        (
            "declare max-length=1 overflow=dlx; publish a b; show",
            "refused b; ready a",
        ),
        (
            "declare max-length=1 overflow=reject dlx; publish a b",
            "refused b",
        ),
        (
            "declare overflow=reject; publish a b c; show",
            "ready a b c",
        ),
        (
            "declare overflow=reject max-length=1 ttl=10; publish a; at 10; publish b; show",
            "gone a; ready b",
        ),
        // Nothing that is there is dropped.
        (
            "publish a b c; policy max-length=1 overflow=reject; show; publish d",
            "ready a b c; refused d",
        ),
        (
            "declare max-length=1 overflow=reject; publish a b; policy max-length=1; publish c; show",
            "refused b; gone a; ready c",
        ),
    ] {
        check(script, expected);
    }
}

#[test]
fn priorities() {
    for (script, expected) in [
        (
            "declare prio=10; publish a b:p=5 c:p=10 d:p=5; consume c1",
            "c1<c; c1<b; c1<d; c1<a",
        ),
        // Above the maximum counts as the maximum; without a maximum there are no priorities.
        (
            "declare prio=2; publish a:p=2 b:p=9; consume c1",
            "c1<a; c1<b",
        ),
        (
            "declare prio=2; publish a:p=9 b:p=2 c:p=3; consume c1",
            "c1<a; c1<b; c1<c",
        ),
        ("publish a b:p=9 c:p=1; consume c1", "c1<a; c1<b; c1<c"),
        (
            "declare prio=255; publish a:p=0 b:p=255 c:p=254 d:p=64 e:p=63 f:p=128 g:p=127; consume c1",
            "c1<b; c1<c; c1<f; c1<g; c1<d; c1<e; c1<a",
        ),
        (
            "declare prio=1; consume c1 prefetch=1; publish a b c:p=1; ack c1 c; ack c1 a",
            "c1<c; gone c; c1<a; gone a; c1<b",
        ),
        (
            "declare prio=1; consume c1 prefetch=1; publish a; publish b c:p=1; ack c1 a",
            "c1<a; gone a; c1<c",
        ),
        // What returns goes to its place in its priority log.
        (
            "declare prio=1; publish a:p=1 b c; consume c1 prefetch=1; ack c1 a; publish d:p=1; nack c1 b",
            "c1<a; gone a; c1<b; c1<d",
        ),
        (
            "declare prio=1; publish a b:p=1; consume c1; cancel c1; nack c1 a; nack c1 b; get g1",
            "c1<b; c1<a; g1<b* left=1",
        ),
        // Each subscription's positions are told apart by priority log.
        (
            "declare prio=1; publish a b:p=1; consume c1; ack c1 a; show",
            "c1<b; c1<a; gone a; held b",
        ),
        (
            "declare prio=3; publish a b:p=3; consume c1; detach c1; show; consume c2",
            "c1<b; c1<a; ready a b; c2<b*; c2<a*",
        ),
        // A quorum queue has 32, strictly, and 4 for who does not say.
        (
            "declare quorum; publish a b:p=4 c:p=5 d:p=3 e; consume c1",
            "c1<c; c1<a; c1<b; c1<e; c1<d",
        ),
        (
            "declare quorum; publish a:p=31 b:p=32 c:p=255 d:p=30; consume c1",
            "c1<a; c1<b; c1<c; c1<d",
        ),
        (
            "declare quorum; publish a:p=0 b:p=1; consume c1",
            "c1<b; c1<a",
        ),
    ] {
        check(script, expected);
    }
}

/// What stays until its new queue has it counts; with another strategy it does not.
#[test]
fn what_must_be_dead_lettered_counts_until_it_has_gone() {
    const LENGTH: &str = "declare quorum max-length=2 overflow=reject dlx";
    const BYTES: &str = "declare quorum max-bytes=10 overflow=reject dlx";
    for (declare, script, expected) in [
        (
            LENGTH,
            "at-least-once; publish a; get g1; reject g1 a; publish b; publish c; show",
            "g1<a left=0; dlx(rejected) a; refused c; ready b | leaving a",
        ),
        (
            LENGTH,
            "; publish a; get g1; reject g1 a; publish b; publish c; show",
            "g1<a left=0; dlx(rejected) a; ready b c | leaving a",
        ),
        (
            LENGTH,
            "at-least-once; publish a b; get g1; get g1; reject g1 a b; publish c; dead-lettered a; publish d; publish e; show",
            "g1<a left=1; g1<b left=0; dlx(rejected) a b; refused c; gone a; refused e; ready d | leaving b",
        ),
        (
            BYTES,
            "at-least-once; publish a:size=6; get g1; reject g1 a; publish b:size=4; publish c:size=1; show",
            "g1<a left=0; dlx(rejected) a; refused c; ready b | leaving a",
        ),
        (
            BYTES,
            "at-least-once; publish a:size=6; get g1; reject g1 a; publish b:size=5; dead-lettered a; publish c:size=10; show",
            "g1<a left=0; dlx(rejected) a; refused b; gone a; ready c",
        ),
        // Where the head is dropped, nothing stays.
        (
            "declare max-length=1 dlx",
            "at-least-once; publish a b; show",
            "dlx(maxlen) a; ready b | leaving a",
        ),
    ] {
        check(&format!("{declare} {script}"), expected);
    }
}
