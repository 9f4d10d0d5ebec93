//! Exchanges, queues and bindings: what is accepted, what is refused with which words, and what
//! goes with what.

use crate::world::{World, check, check_with};
use leveret_metadata::{Catalogue, Config, Flush, QueueKind};
use leveret_types::limits::{SHORT_STRING_BYTES_MAX, TTL_MS_MAX};
use leveret_types::{ConnectionId, FieldValue, QueueId};

#[test]
fn a_declaration_creates_or_finds() {
    check("queue q durable; queue q durable; queues", "new\n ok\n q");
    check(
        "queue q; queue r exclusive=1; queue s auto; queues",
        "new\n new\n new\n q r s",
    );
    check(
        "exchange x direct durable; exchange x direct durable; exchanges",
        "new\n ok\n x",
    );
    check(
        "exchange amq.direct direct durable; exchange amq.rabbitmq.trace topic durable internal",
        "ok\n ok",
    );
    check("queue q in=v", "530 vhost v not found");
    check("exchange x direct in=v", "530 vhost v not found");
}

#[test]
fn inequivalent_queues() {
    let cases = [
        (
            "durable",
            "",
            "'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'",
        ),
        (
            "",
            "durable",
            "'durable' for queue 'q' in vhost '/': received 'true' but current is 'false'",
        ),
        (
            "durable auto",
            "durable",
            "'auto_delete' for queue 'q' in vhost '/': received 'false' but current is 'true'",
        ),
        (
            "x-message-ttl=1",
            "x-message-ttl=2",
            "'x-message-ttl' for queue 'q' in vhost '/': received '2' but current is '1'",
        ),
        (
            "x-message-ttl=1",
            "",
            "'x-message-ttl' for queue 'q' in vhost '/': received none but current is the value \
                '1' of type 'signedint'",
        ),
        (
            "",
            "x-message-ttl=1l",
            "'x-message-ttl' for queue 'q' in vhost '/': received the value '1' of type 'long' \
                but current is none",
        ),
        (
            "x-overflow=drop-head",
            "x-overflow=reject-publish",
            "'x-overflow' for queue 'q' in vhost '/': received 'reject-publish' but current is \
                'drop-head'",
        ),
        (
            "x-single-active-consumer=true",
            "x-single-active-consumer=false",
            "'x-single-active-consumer' for queue 'q' in vhost '/': received 'false' but current \
                is 'true'",
        ),
        (
            "durable",
            "durable x-queue-type=quorum",
            "'x-queue-type' for queue 'q' in vhost '/': received the value 'quorum' of type \
                'longstr' but current is none",
        ),
        (
            "durable x-queue-type=quorum",
            "durable x-queue-type=classic",
            "'x-queue-type' for queue 'q' in vhost '/': received 'classic' but current is 'quorum'",
        ),
        (
            "durable x-queue-type=quorum",
            "durable",
            "'x-queue-type' for queue 'q' in vhost '/': received none but current is the value \
                'quorum' of type 'longstr'",
        ),
    ];
    for (first, second, expected) in cases {
        let script = format!("queue q {first}; queue q {second}");
        check(&script, &format!("406 inequivalent arg {expected}"));
    }
}

#[test]
fn equivalent_queues() {
    let cases = [
        ("x-max-length=10", "x-max-length=10l"),
        ("foo=1", "foo=2"),
        ("foo=1", ""),
        ("durable x-queue-type=classic", "durable"),
        ("durable", "durable x-queue-type=classic"),
        ("exclusive=3", "exclusive=3"),
        ("x-message-ttl=5 x-expires=7", "x-expires=7 x-message-ttl=5"),
    ];
    for (first, second) in cases {
        check(&format!("queue q {first}; queue q {second}"), "new\n ok");
    }
}

#[test]
fn exclusive_queues_are_locked_for_others() {
    let locked = "405 cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could \
        be originally declared on another \
                  connection or the exclusive property value does not match that of the original \
                  declaration.";
    for other in [
        "queue q exclusive=2",
        "queue q",
        "delete-queue q by=2",
        "use q 2",
    ] {
        check(&format!("queue q exclusive=1; {other}"), locked);
    }
    check("queue q; queue q exclusive=1", locked);
    check(
        "queue q exclusive=1; use q 1; delete-queue q by=1; queues",
        "ok\n ok\n none",
    );
    check("queue q exclusive=1; delete-queue q; queues", "ok\n none");
    check("use q 1", "404 no queue 'q' in vhost '/'");
    let mut world = World::new(Config::default());
    for line in [
        "queue b exclusive=1",
        "queue a exclusive=1",
        "queue c exclusive=2",
        "queue d",
    ] {
        assert_eq!(world.run(line).as_deref(), Some("new"));
    }
    let names = |world: &World, connection| -> Vec<String> {
        let queues = world.catalogue.exclusive_queues(ConnectionId(connection));
        queues.iter().map(|q| q.name().to_owned()).collect()
    };
    assert_eq!(names(&world, 1), ["b", "a"]);
    assert_eq!(names(&world, 2), ["c"]);
    assert_eq!(names(&world, 3), Vec::<String>::new());
    assert_eq!(world.run("delete-queue b").as_deref(), Some("ok"));
    assert_eq!(names(&world, 1), ["a"]);
}

#[test]
fn arguments_have_types_and_values() {
    let ten_years = TTL_MS_MAX;
    let cases: &[(String, &str)] = &[
        ("x-message-ttl=-1".into(), "{value_negative,-1}"),
        (
            format!("x-message-ttl={}l", ten_years + 1),
            "{value_too_large,315360000001}",
        ),
        (
            "x-message-ttl=soon".into(),
            "\"expected integer, got longstr\"",
        ),
        (
            "x-message-ttl=1.5".into(),
            "\"expected integer, got double\"",
        ),
        ("x-expires=0".into(), "{value_zero,0}"),
        ("x-expires=-5".into(), "{value_negative,-5}"),
        ("x-max-length=-1".into(), "{value_negative,-1}"),
        (
            "x-max-length-bytes=true".into(),
            "\"expected integer, got bool\"",
        ),
        ("x-max-priority=256".into(), "{max_value_exceeded,256}"),
        ("x-max-priority=-1".into(), "{value_negative,-1}"),
        ("x-overflow=explode".into(), "invalid_overflow"),
        ("x-overflow=1".into(), "{unacceptable_type,signedint}"),
        (
            "x-dead-letter-routing-key=k".into(),
            "routing_key_but_no_dlx_defined",
        ),
        (
            "x-queue-mode=fast".into(),
            "\"unsupported queue mode 'fast'\"",
        ),
        (
            "x-queue-version=3".into(),
            "\"unsupported queue version '3'\"",
        ),
        (
            "x-queue-type=moon".into(),
            "\"unsupported queue type 'moon'\"",
        ),
        ("x-queue-type=1".into(), "{unacceptable_type,signedint}"),
        (
            "x-single-active-consumer=yes".into(),
            "{unacceptable_type,longstr}",
        ),
        (
            "x-queue-leader-locator=here".into(),
            "invalid_queue_locator_arg",
        ),
        (
            "x-queue-type=quorum x-quorum-initial-group-size=0".into(),
            "{value_zero,0}",
        ),
        (
            "x-queue-type=quorum x-dead-letter-strategy=never".into(),
            "invalid_dlx_strategy",
        ),
        ("x-queue-type=stream x-max-age=7d".into(), "invalid_max_age"),
        ("x-queue-type=stream x-max-age=0D".into(), "invalid_max_age"),
        (
            "x-queue-type=stream x-stream-max-segment-size-bytes=0".into(),
            "{value_out_of_range,0}",
        ),
        (
            "x-queue-type=stream x-stream-filter-size-bytes=256".into(),
            "{value_out_of_range,256}",
        ),
        ("x-queue-type=stream x-flush=never".into(), "invalid_flush"),
        (
            "x-queue-type=stream x-flush-interval-ms=60001".into(),
            "{value_out_of_range,60001}",
        ),
        (
            "x-queue-type=quorum x-delivery-limit=many".into(),
            "\"expected integer, got longstr\"",
        ),
    ];
    for (arguments, reason) in cases {
        let bad = arguments
            .split([' ', '='])
            .rfind(|w| w.starts_with("x-"))
            .expect("one");
        let expected = format!("406 invalid arg '{bad}' for queue 'q' in vhost '/': {reason}");
        check(&format!("queue q durable {arguments}"), &expected);
    }
    check(
        "queue q durable x-max-length=-1 x-dead-letter-exchange=1",
        "406 invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue 'q' in vhost '/'",
    );
}

#[test]
fn arguments_at_their_limits() {
    for arguments in [
        format!("x-message-ttl={TTL_MS_MAX}l"),
        format!("x-expires={TTL_MS_MAX}l"),
        "x-message-ttl=0".to_owned(),
        "x-message-ttl=134217728000l".to_owned(),
        "x-expires=1".to_owned(),
        "x-max-priority=255".to_owned(),
        "x-max-priority=0".to_owned(),
        "x-max-length=0".to_owned(),
        "x-dead-letter-exchange=x x-dead-letter-routing-key=k".to_owned(),
        "x-queue-mode=lazy x-queue-version=1".to_owned(),
        "x-overflow=reject-publish-dlx".to_owned(),
        "x-queue-type=quorum x-delivery-limit=-1 x-overflow=reject-publish-dlx x-max-priority=3"
            .to_owned(),
        "x-queue-master-locator=min-masters x-queue-leader-locator=client-local".to_owned(),
    ] {
        check(&format!("queue q durable {arguments}"), "new");
    }
}

#[test]
fn arguments_of_other_types_are_refused() {
    for (kind, argument, module) in [
        ("classic", "x-delivery-limit=3", "rabbit_classic_queue"),
        ("classic", "x-max-age=7D", "rabbit_classic_queue"),
        (
            "classic",
            "x-quorum-initial-group-size=3",
            "rabbit_classic_queue",
        ),
        ("quorum", "x-queue-mode=lazy", "rabbit_quorum_queue"),
        ("quorum", "x-flush=os", "rabbit_quorum_queue"),
        ("stream", "x-message-ttl=1", "rabbit_stream_queue"),
        ("stream", "x-max-priority=1", "rabbit_stream_queue"),
        ("stream", "x-max-length=1", "rabbit_stream_queue"),
        ("stream", "x-dead-letter-exchange=d", "rabbit_stream_queue"),
        (
            "stream",
            "x-single-active-consumer=true",
            "rabbit_stream_queue",
        ),
        (
            "quorum",
            "x-stream-max-segment-size-bytes=1",
            "rabbit_quorum_queue",
        ),
    ] {
        let name = argument.split('=').next().expect("a name");
        check(
            &format!("queue q durable x-queue-type={kind} {argument}"),
            &format!("406 invalid arg '{name}' for queue 'q' in vhost '/' of queue type {module}"),
        );
    }
}

#[test]
fn what_a_stream_is_and_what_it_cannot_be() {
    let stream = "x-queue-type=stream";
    let refused =
        |property: &str| format!("406 invalid property '{property}' for queue 's' in vhost '/'");
    check(&format!("queue s {stream}"), &refused("non-durable"));
    check(
        &format!("queue s durable exclusive=1 {stream}"),
        &refused("exclusive-owner"),
    );
    check(
        &format!("queue s durable auto {stream}"),
        &refused("auto-delete"),
    );
    check(
        &format!("queue s durable {stream}; queue s durable {stream} x-max-age=7D"),
        "new\n 406 inequivalent arg 'x-max-age' for queue 's' in vhost '/': received the value \
            '7D' of type 'longstr' but current is none",
    );
    let mut world = World::new(Config::default());
    world.run(&format!(
        "queue s durable {stream} x-max-length-bytes=1000 x-flush=interval"
    ));
    world.run("policy p s max-length-bytes=500 max-age=1m flush-interval-ms=20");
    let record = world.catalogue.queue_by_name("/", "s").expect("it is new");
    assert_eq!(record.kind(), QueueKind::Stream);
    assert!(record.id().is_stream(), "its id says so");
    let settings = record.settings().stream.as_ref().expect("it is a stream");
    let found = (settings.bytes_max, settings.age_ms_max, settings.flush);
    assert_eq!(found, (Some(500), Some(60_000), Flush::Interval(20)));
    world.verify();
}

#[test]
fn what_a_quorum_queue_cannot_be() {
    let quorum = "x-queue-type=quorum";
    let refused =
        |property: &str| format!("406 invalid property '{property}' for queue 'q' in vhost '/'");
    check(&format!("queue q {quorum}"), &refused("non-durable"));
    check(
        &format!("queue q durable exclusive=1 {quorum}"),
        &refused("exclusive-owner"),
    );
    check(
        &format!("queue q durable auto {quorum}"),
        &refused("auto-delete"),
    );
    check(
        &format!("queue - durable {quorum}"),
        "406 Cannot declare a server-named queue for type rabbit_quorum_queue",
    );
}

#[test]
fn names() {
    check("queue -; queues", "new\n amq.gen--_v7-_v7-_v7-_v7-_v7-w");
    check(
        "queue amq.mine",
        "403 queue name 'amq.mine' contains reserved prefix 'amq.*'",
    );
    check(
        "exchange amq.mine direct",
        "403 exchange name 'amq.mine' contains reserved prefix 'amq.*'",
    );
    check("queue a\\nb; queue ab; queues", "new\n ok\n ab");
    check(
        "exchange a\\nb direct; bind a\\nb q\\n k",
        "404 no queue 'q' in vhost '/'",
    );
    let longest = "n".repeat(SHORT_STRING_BYTES_MAX);
    check(&format!("queue {longest}"), "new");
    check(
        &format!("queue {longest}n"),
        "406 invalid name: 256 bytes, at most 255 are allowed, and none is too few",
    );
}

#[test]
fn the_default_exchange_cannot_be_touched() {
    for line in [
        "exchange - direct",
        "delete-exchange -",
        "bind - q k",
        "unbind - q k",
        "exchange x fanout; bind x @ k",
    ] {
        check(
            &format!("queue q; {line}"),
            "403 operation not permitted on the default exchange",
        );
    }
    let catalogue = Catalogue::new(Config::default());
    let text = catalogue.check_exchange("/", "").map_err(|e| e.to_string());
    assert_eq!(
        text,
        Err("operation not permitted on the default exchange".to_owned())
    );
    let text = catalogue
        .check_exchange("/", "x")
        .map_err(|e| e.to_string());
    assert_eq!(text, Err("no exchange 'x' in vhost '/'".to_owned()));
}

#[test]
fn inequivalent_exchanges() {
    let cases = [
        (
            "direct",
            "fanout",
            "'type' for exchange 'x' in vhost '/': received 'fanout' but current is 'direct'",
        ),
        (
            "direct",
            "x-random",
            "'type' for exchange 'x' in vhost '/': received ''x-random'' but current is 'direct'",
        ),
        (
            "direct durable",
            "direct",
            "'durable' for exchange 'x' in vhost '/': received 'false' but current is 'true'",
        ),
        (
            "direct auto",
            "direct",
            "'auto_delete' for exchange 'x' in vhost '/': received 'false' but current is 'true'",
        ),
        (
            "direct",
            "direct internal",
            "'internal' for exchange 'x' in vhost '/': received 'true' but current is 'false'",
        ),
        (
            "direct alternate-exchange=a",
            "direct",
            "'alternate-exchange' for exchange 'x' in vhost '/': received none but current is the \
                value 'a' of type 'longstr'",
        ),
        (
            "direct alternate-exchange=a",
            "direct alternate-exchange=b",
            "'alternate-exchange' for exchange 'x' in vhost '/': received 'b' but current is 'a'",
        ),
    ];
    for (first, second, expected) in cases {
        check(
            &format!("exchange x {first}; exchange x {second}"),
            &format!("406 inequivalent arg {expected}"),
        );
    }
    check("exchange x direct foo=1; exchange x direct foo=2", "ok");
    check("exchange x moon", "406 unknown exchange type 'moon'");
    check(
        "exchange x direct alternate-exchange=1",
        "406 invalid type 'signedint' for arg 'alternate-exchange' in exchange 'x' in vhost '/'",
    );
    check(
        "exchange x x-delayed-message",
        "406 Invalid argument, 'x-delayed-type' must be an existing exchange type",
    );
}

#[test]
fn deletion() {
    check(
        "delete-queue q; delete-exchange x; unbind x q k",
        "ok\n ok\n ok",
    );
    check(
        "delete-exchange amq.fanout",
        "403 deletion of system exchange 'amq.fanout' in vhost '/' not allowed",
    );
    check(
        "exchange x fanout; queue q; bind x q k; delete-exchange x if-unused; delete-exchange x; \
            exchanges; bindings",
        "406 exchange 'x' in vhost '/' in use\n ok\n none\n 0",
    );
    check(
        "exchange x fanout; exchange y fanout; bind y @x k; delete-exchange x if-unused; bindings",
        "ok\n 0",
    );
    check(
        "queue q durable; exchange x fanout durable; bind x q k; delete-queue q; bindings; queues",
        "ok\n 0\n none",
    );
    check(
        "queue q durable; delete-queue q id=77; queues; delete-queue q id=257; queues",
        "ok\n q\n ok\n none",
    );
}

#[test]
fn bindings() {
    check("bind x q k", "404 no exchange 'x' in vhost '/'");
    check(
        "exchange x fanout; bind x q k",
        "404 no queue 'q' in vhost '/'",
    );
    check(
        "exchange x fanout; bind x @y k",
        "404 no exchange 'y' in vhost '/'",
    );
    check(
        "exchange x fanout; queue q; bind x q k; bind x q k; bindings; unbind x q k; unbind x q \
            k; bindings",
        "new\n ok\n 1\n ok\n ok\n 0",
    );
    check(
        "queue q; bind amq.match q k x-match=most",
        "406 Invalid x-match field value <<\"most\">>; expected all, any, all-with-x, or \
            any-with-x",
    );
    check(
        "exchange h x-consistent-hash; queue q; bind h q k",
        "406 The binding key must be an integer: <<\"k\">>",
    );
    check(
        "queue q; bind amq.topic q #.#.#",
        "406 topic binding key must not contain more than 2 '#' wildcards",
    );
}

#[test]
fn auto_delete_exchanges_go_with_their_last_binding() {
    let world = |script: &str| {
        let mut world = World::new(Config::default());
        for line in script.split(';') {
            let answer = world.run(line.trim()).expect("a command");
            assert!(answer == "new" || answer == "ok", "{line}: {answer}");
        }
        world.verify();
        world
    };
    let mut by_unbind =
        world("exchange x fanout durable auto; queue q durable; bind x q k; unbind x q k");
    assert_eq!(
        by_unbind.changed(),
        "exchange x created, queue created, x bound, x unbound, exchange x deleted"
    );
    // The binding is not durable, so neither it nor its end is in the log; the exchange is, and its
    // end must be.
    let mut by_queue = world("exchange x fanout durable auto; queue q; bind x q k; delete-queue q");
    assert_eq!(
        by_queue.changed(),
        "exchange x created, queue created, x bound, queue q deleted, exchange x deleted"
    );
    let mut chain = world(
        "exchange a fanout durable auto; exchange b fanout durable auto; queue q durable; bind a \
            @b k; bind b q k; delete-queue q",
    );
    assert!(
        chain
            .changed()
            .ends_with("queue q deleted, exchange b deleted, exchange a deleted")
    );
}

/// A durable binding goes while one that is not durable keeps the exchange alive: a replay, which
/// does not see the second one, must not take the exchange for idle.
#[test]
fn the_log_does_not_derive_deletions() {
    check(
        "exchange x fanout durable auto; queue d durable; queue t; bind x d k; bind x t k; unbind \
            x d k; bind x d l; exchanges",
        "x",
    );
}

#[test]
fn ids_are_never_used_again_and_survive_a_replay() {
    let mut world = World::new(Config::default());
    for line in [
        "queue a durable",
        "queue t",
        "queue b durable",
        "delete-queue b",
        "queue c durable",
    ] {
        world.run(line);
    }
    let id = |world: &World, name: &str| world.catalogue.queue_by_name("/", name).map(|q| q.id());
    assert_eq!(id(&world, "a"), Some(QueueId(1 << 8 | 1)));
    assert_eq!(id(&world, "c"), Some(QueueId(3 << 8 | 1)));
    assert_eq!(id(&world, "t"), Some(QueueId(1 << 54 | 1 << 8 | 1)));
    world.run("delete-queue c");
    world.verify();
    let mut restored =
        Catalogue::restore(Config::default(), &world.catalogue.snapshot()).expect("a snapshot");
    world.catalogue = Catalogue::new(Config::default());
    std::mem::swap(&mut restored, &mut world.catalogue);
    world.run("queue d durable");
    assert_eq!(id(&world, "d"), Some(QueueId(4 << 8)));
}

#[test]
fn limits_of_queues_and_exchanges() {
    let two = || Config {
        queues_max: 2,
        exchanges_max: 8,
        vhosts_max: 1,
        ..Config::default()
    };
    check_with(
        two(),
        "queue a; queue b; queue c; queue a",
        "new\n new\n 406 cannot declare queue 'c': queue limit in cluster (2) is reached\n ok",
    );
    check_with(
        two(),
        "exchange a direct; exchange b direct; exchange c direct; exchange a direct",
        "new\n new\n 406 cannot declare exchange 'c' in vhost '/': exchange limit of 8 is \
            reached\n ok",
    );
    check_with(
        two(),
        "vhost v",
        "406 cannot create vhost 'v': vhost limit of 1 is reached",
    );
    check(
        "limit max-queues 1; queue a; queue b; queue a; limit max-queues -1; queue b; limit \
            max-queues 0; queue c; unlimit; queue c",
        "new
         406 cannot declare queue 'b': queue limit in vhost '/' (1) is reached
         ok\n ok\n new\n ok
         406 cannot declare queue 'c': queue limit in vhost '/' (0) is reached
         ok\n new",
    );
}

/// A catalogue that has room for arguments of so many names of three letters, with a number each.
fn room_for(arguments: u64) -> Config {
    let of_one = leveret_types::entry_weight("foo", &FieldValue::I32(1)) as u64;
    Config {
        argument_bytes_max: arguments * of_one,
        ..Config::default()
    }
}

#[test]
fn arguments_are_bounded_all_together() {
    let default = leveret_types::limits::CATALOGUE_ARGUMENTS_BYTES_MAX;
    assert_eq!(Config::default().argument_bytes_max, default);
    let full = "406 the arguments of all queues, exchanges and bindings, with policies and \
                parameters, would take more than the 1 MB that they may: delete what is not \
                needed, or give it fewer and shorter arguments";
    let mut world = World::new(room_for(5));
    let mut run = |line: &str| world.run(line).unwrap_or_default();
    for (line, answer) in [
        // As much as there may be, and one more of each kind.
        ("queue q durable", "new"),
        ("queue r durable", "new"),
        ("exchange h headers durable", "new"),
        ("bind h q k x-a=1 x-b=2", "new"),
        ("bind h r k x-a=1 x-b=2", "new"),
        ("bind h r k x-a=1", "new"),
        ("bind h q k x-a=1", full),
        ("queue s durable foo=1", full),
        ("exchange i direct foo=1", full),
        ("policy p max-length=1", full),
        // What is there may be declared again, and what has no arguments has room.
        ("bind h q k x-b=2 x-a=1", "ok"),
        ("bind h q k", "new"),
        ("queue s durable", "new"),
        // What goes leaves room, whatever it goes with.
        ("unbind h r k x-a=1", "ok"),
        ("bind h q k x-a=1", "new"),
        ("bind h q k x-b=1", full),
        ("delete-queue r", "ok"),
        ("bind h q k x-b=1", "new"),
        ("bind h q k x-c=1", "new"),
        ("bind h q k x-d=1", full),
        ("delete-exchange h", "ok"),
    ] {
        assert_eq!(run(line), answer, "{line}");
    }
    assert_eq!(world.catalogue.argument_bytes(), 0);
    world.verify();
}

#[test]
fn a_virtual_host_takes_its_arguments_along() {
    let mut world = World::new(Config::default());
    for line in [
        "vhost v",
        "queue q durable x-max-length=3 in=v",
        "queue t exclusive=1 x-message-ttl=5 in=v",
        "exchange h headers durable alternate-exchange=x in=v",
        "bind h q k x-a=1 in=v",
        "bind h @h k x-a=1 in=v",
        "policy p max-length=1 in=v",
        "operator-policy p max-length=1 in=v",
    ] {
        assert!(
            world
                .run(line)
                .is_some_and(|answer| !answer.starts_with('4')),
            "{line}"
        );
    }
    assert!(world.catalogue.argument_bytes() > 0);
    assert_eq!(world.run("delete-vhost v").as_deref(), Some("ok"));
    assert_eq!(world.catalogue.argument_bytes(), 0);
    world.verify();
}

#[test]
fn default_queue_types() {
    let kind =
        |world: &World, name: &str| world.catalogue.queue_by_name("/", name).map(|q| q.kind());
    let mut world = World::new(Config {
        default_queue_type: Some(QueueKind::Quorum),
        ..Config::default()
    });
    for line in [
        "queue q durable",
        "queue t",
        "queue a durable auto",
        "queue e durable exclusive=1",
        "queue c durable x-queue-type=classic",
        "queue - durable",
    ] {
        assert_eq!(world.run(line).as_deref(), Some("new"), "{line}");
    }
    assert_eq!(kind(&world, "q"), Some(QueueKind::Quorum));
    for name in ["t", "a", "e", "c"] {
        assert_eq!(kind(&world, name), Some(QueueKind::Classic), "{name}");
    }
    // Each is found again by what declared it, and the replay needs no default.
    assert_eq!(world.run("queue q durable").as_deref(), Some("ok"));
    assert_eq!(world.run("queue c durable").as_deref(), Some("ok"));
    world.verify();
    check(
        "vhost / default=quorum; queue q durable; queue q durable; queue q durable \
            x-queue-type=quorum",
        "new\n ok\n ok",
    );
    check(
        "vhost / default=quorum; vhost / default=; queue q durable; queue q durable \
            x-queue-type=classic",
        "new\n ok",
    );
    check(
        "vhost / default=stream; queue q durable; queue q durable x-queue-type=stream",
        "new\n ok",
    );
    check(
        "vhost / default=moon",
        "406 invalid queue type 'moon'; known are classic, quorum and stream",
    );
}

#[test]
fn relaxed_redeclaration() {
    let relaxed = || Config {
        relaxed_redeclaration: true,
        ..Config::default()
    };
    check_with(
        relaxed(),
        "queue q durable x-queue-type=quorum; queue q x-queue-type=classic; queue q \
            x-queue-type=classic x-message-ttl=1",
        "new\n ok\n 406 inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': received the \
            value '1' of type 'signedint' but current is none",
    );
}
