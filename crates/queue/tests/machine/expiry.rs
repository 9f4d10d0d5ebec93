//! The effects of time: messages, queues and deliveries that take too long.

use crate::script::{check, run};

#[test]
fn messages_expire() {
    for (script, expected) in [
        (
            "declare ttl=100; publish a; at 99; show; at 100; show",
            "ready a; gone a; nothing",
        ),
        (
            "publish a:ttl=100; at 99; show; at 100; show",
            "ready a; gone a; nothing",
        ),
        (
            "declare ttl=100; publish a:ttl=50; at 50; show",
            "gone a; nothing",
        ),
        (
            "declare ttl=50; publish a:ttl=100; at 50; show",
            "gone a; nothing",
        ),
        (
            "declare ttl=100; publish a b; at 50; publish c; at 100; show",
            "gone a b; ready c",
        ),
        (
            "declare ttl=100 dlx; publish a b; at 100; show",
            "dlx(expired) a b; leaving a b",
        ),
        (
            "declare dlx; publish a:ttl=5; at 5; dead-lettered a; show",
            "dlx(expired) a; gone a; nothing",
        ),
        // Only at the head.
        (
            "publish a b:ttl=10; at 20; show; get g1; show",
            "ready a b; g1<a left=0; gone b; held a",
        ),
        (
            "publish a:ttl=100 b:ttl=10; at 20; show; at 100",
            "ready a b; gone a b",
        ),
        // At the head of each priority log, whatever is above.
        (
            "declare prio=1; publish a:ttl=10 b:p=1; at 10; show",
            "gone a; ready b",
        ),
        (
            "declare prio=2 ttl=10; publish a b:p=1 c:p=2; at 10; show",
            "gone c; gone b; gone a; nothing",
        ),
        (
            "declare prio=255 ttl=10; publish a:p=66 b:p=63 c:p=255 d; at 10",
            "gone c; gone a; gone b; gone d",
        ),
        // At once or never.
        ("publish a:ttl=0; show", "gone a; nothing"),
        ("declare ttl=0; publish a b; show", "gone a b; nothing"),
        ("consume c1; publish a:ttl=0", "c1<a"),
        (
            "declare ttl=0; consume c1 prefetch=1; publish a b; show",
            "c1<a; gone b; held a",
        ),
        (
            "declare ttl=0 dlx; publish a; show",
            "dlx(expired) a; leaving a",
        ),
        (
            "publish a b:ttl=0; show; consume c1",
            "ready a b; c1<a; gone b",
        ),
        (
            "consume c1 prefetch=1; publish a:ttl=0; nack c1 a; show",
            "c1<a; gone a; nothing",
        ),
        ("room c1=0; consume c1; publish a:ttl=0", "gone a"),
        // An expired one is never delivered, nor got, even if no tick came.
        (
            "declare ttl=10; publish a; wall 10; consume c1; show",
            "gone a; nothing",
        ),
        ("declare ttl=10; publish a; wall 9; consume c1", "c1<a"),
        (
            "declare ttl=10; publish a; wall 10; get g1",
            "empty; gone a",
        ),
        // Held messages do not expire; once back they do.
        (
            "declare ttl=10; publish a; get g1; at 50; show; nack g1 a; show",
            "g1<a left=0; held a; gone a; nothing",
        ),
        (
            "declare ttl=10; publish a; get g1; at 5; nack g1 a; show; at 10",
            "g1<a left=0; ready a; gone a",
        ),
        (
            "declare ttl=10; publish a; get g1; at 50; ack g1 a",
            "g1<a left=0; gone a",
        ),
        // The policy may come and go.
        ("publish a; at 50; policy ttl=50; show", "gone a; nothing"),
        (
            "publish a; at 49; policy ttl=50; show; at 50",
            "ready a; gone a",
        ),
        ("declare ttl=50; publish a; policy; at 99; show", "ready a"),
        (
            "declare ttl=50; publish a; policy ttl=70; at 50; show; at 70",
            "ready a; gone a",
        ),
        // Ten years, and as long as numbers go.
        (
            "publish a:ttl=315360000000; at 315359999999; show; at 315360000000",
            "ready a; gone a",
        ),
        (
            "declare ttl=18446744073709551615; at 5; publish a; at 1000000000000; show",
            "ready a",
        ),
        // The head is being read.
        (
            "declare ttl=10; publish a; policy ttl=20; cold a; at 20; show",
            "gone a; nothing",
        ),
        (
            "publish a b; cold a; policy ttl=20; at 20; show; warm",
            "ready a b; gone a b",
        ),
        // The reason is what came first: expiry before length.
        (
            "declare ttl=10 max-length=1 dlx; publish a; at 10; publish b; show",
            "dlx(expired) a; ready b | leaving a",
        ),
        (
            "declare ttl=10 max-length=1 dlx; publish a; wall 10; publish b; show",
            "dlx(expired) a; ready b | leaving a",
        ),
        (
            "declare quorum ttl=10 dlx; publish a; at 10",
            "dlx(expired) a",
        ),
    ] {
        check(script, expected);
    }
}

#[test]
fn deadlines() {
    for (script, expected) in [
        ("deadline; publish a; deadline", "never; never"),
        (
            "declare ttl=100; deadline; at 7; publish a; deadline",
            "never; at 107",
        ),
        (
            "publish a:ttl=100; deadline; get g1; deadline",
            "at 100; g1<a left=0; never",
        ),
        (
            "publish a b:ttl=100; deadline; get g1; deadline",
            "never; g1<a left=1; at 100",
        ),
        (
            "declare prio=1; publish a:ttl=50 b:p=1:ttl=60; deadline; at 50; deadline",
            "at 50; gone a; at 60",
        ),
        (
            "declare ttl=100; publish a; consume c1; deadline; nack c1 a; cancel c1; nack c1 a; deadline",
            "c1<a; never; c1<a*; at 100",
        ),
        (
            "declare ttl=100 max-length=1; publish a; at 30; publish b; deadline",
            "gone a; at 130",
        ),
        (
            "declare expires=500; deadline; at 100; consume c1; deadline; at 200; cancel c1; deadline",
            "at 500; never; at 700",
        ),
        (
            "declare expires=500 ttl=100; publish a; deadline; at 100; deadline",
            "at 100; gone a; at 500",
        ),
        (
            "declare timeout=1000; at 10000; consume c1; deadline; publish a; deadline; ack c1 a; at 11000; deadline",
            "never; c1<a; at 11000; gone a; never",
        ),
        // A wall clock may jump: what depends on it is looked at every hour.
        ("declare ttl=10000000; publish a; deadline", "at 3600000"),
        ("declare ttl=3600000; publish a; deadline", "at 3600000"),
        ("declare ttl=3600001; publish a; deadline", "at 3600000"),
        (
            "declare ttl=100; publish a; wall 60; deadline; wall 500; deadline",
            "at 40; at 0",
        ),
    ] {
        check(script, expected);
    }
}

#[test]
fn queues_expire() {
    for (script, expected) in [
        (
            "declare expires=100; at 99; at 100; at 200",
            "queue-expired",
        ),
        (
            "declare expires=100; at 99; touch; at 198; at 199",
            "queue-expired",
        ),
        (
            "declare expires=100; at 99; get g1; at 198; at 199",
            "empty; queue-expired",
        ),
        (
            "declare expires=100; consume c1; at 500; cancel c1; at 599; at 600",
            "queue-expired",
        ),
        (
            "declare expires=100; consume c1; at 500; detach c1; at 600",
            "queue-expired",
        ),
        (
            "declare expires=100; consume c1; consume c2; at 50; cancel c1; at 500; cancel c2; at 600",
            "queue-expired",
        ),
        // Messages and publishes do not keep it alive, nor does who merely holds.
        (
            "declare expires=100; publish a; at 50; publish b; at 100",
            "queue-expired",
        ),
        (
            "declare expires=100; publish a; get g1; at 100; ack g1 a",
            "g1<a left=0; queue-expired; gone a",
        ),
        // Used again after it was told, it may be told again.
        (
            "declare expires=100; at 100; touch; at 199; at 200",
            "queue-expired; queue-expired",
        ),
        // Told again as long as it is there and nobody uses it.
        (
            "declare expires=100; at 100; deadline; at 5099; at 5100; at 5200; consume c1; at 90000",
            "queue-expired; at 5100; queue-expired",
        ),
        (
            "declare expires=100; at 100; get g1; deadline; at 199; at 200",
            "queue-expired; empty; at 200; queue-expired",
        ),
        (
            "at 1000; policy expires=100; at 1099; at 1100",
            "queue-expired",
        ),
        (
            "declare expires=100; at 50; policy expires=300; at 349; at 350",
            "queue-expired",
        ),
        (
            "declare expires=100; at 50; policy expires=100 ttl=7; at 100",
            "queue-expired",
        ),
        ("declare expires=100; at 50; policy; at 5000", ""),
        // The lease runs on the clock that does not jump.
        ("declare expires=100; wall 100000; deadline", "at 100"),
        ("at 100000000", ""),
    ] {
        check(script, expected);
    }
}

#[test]
fn deliveries_time_out() {
    for (script, expected) in [
        (
            "declare timeout=1000; consume c1; publish a; at 1000; at 1001; at 9000",
            "c1<a; late c1",
        ),
        (
            "consume c1 timeout=1000; publish a; at 1001",
            "c1<a; late c1",
        ),
        (
            "declare timeout=1000; consume c1 timeout=5000; publish a; at 4000; at 5001",
            "c1<a; late c1",
        ),
        (
            "declare timeout=1000; consume c1; publish a; ack c1 a; at 9000",
            "c1<a; gone a",
        ),
        (
            "declare timeout=1000; consume c1; publish a; at 500; publish b; ack c1 a; at 1500; show; at 2000",
            "c1<a; c1<b; gone a; held b; late c1",
        ),
        (
            "declare timeout=1000; publish a; get g1; at 1001",
            "g1<a left=0; late g1",
        ),
        (
            "declare timeout=1000; consume c1 no-ack; publish a; at 5000",
            "c1<<a; gone a",
        ),
        // It gets nothing more, and what it has may still be settled or returned.
        (
            "declare timeout=1000; consume c1; publish a; at 1001; publish b; ack c1 a; show; detach c1; consume c2",
            "c1<a; late c1; gone a; ready b; c2<b",
        ),
        (
            "declare timeout=1000; consume c1; publish a; at 1001; detach c1; show",
            "c1<a; late c1; ready a",
        ),
        (
            "declare timeout=1000; consume c1; consume c2; publish a b; at 1001",
            "c1<a; c2<b; late c1; late c2",
        ),
        (
            "declare timeout=1000; consume c1 prefetch=1; consume c2; publish a; at 900; publish b; at 1001; at 2000",
            "c1<a; c2<b; late c1; late c2",
        ),
        // Deliveries made while there was no timeout have none.
        (
            "consume c1; publish a; policy timeout=1000; at 5000; publish b; at 6000",
            "c1<a; c1<b; late c1",
        ),
        (
            "declare timeout=1000; consume c1; publish a; policy; publish b; at 5000",
            "c1<a; c1<b",
        ),
        ("consume c1; publish a; at 1000000000", "c1<a"),
    ] {
        check(script, expected);
    }
}

#[test]
fn an_idle_queue_asks_its_log_for_nothing() {
    let (world, _) = run("declare ttl=1000; publish a b c; at 1; at 2; at 3; at 4");
    assert_eq!(world.log.peeks, 1, "the head's expiry is remembered");
}
