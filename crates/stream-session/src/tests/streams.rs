//! Streams and super streams: made, deleted, looked up and asked about.

use super::*;

#[test]
fn streams_are_made_and_deleted() {
    let mut play = Play::open();
    let create = |play: &mut Play, stream, arguments| {
        play.ask(Request::Create { stream, arguments });
    };
    create(&mut play, "s", vec![("max-age", "1s"), ("unknown", "x")]);
    play.answer(|request| Event::Declared {
        request,
        result: Ok(QueueId(7)),
    });
    play.expect(&["! declare s Some(1000)", "> Create OK"]);
    for (refusal, code) in [
        (Refusal::Exists, "STREAM_ALREADY_EXISTS"),
        (
            Refusal::Precondition("other".to_owned()),
            "PRECONDITION_FAILED",
        ),
    ] {
        create(&mut play, "s", vec![]);
        play.answer(|request| Event::Declared {
            request,
            result: Err(refusal),
        });
        play.expect(&["! declare s None", &*format!("> Create {code}")]);
    }
    play.node.refuses.push("configure x");
    for (stream, arguments, code) in [
        ("x", vec![], "ACCESS_REFUSED"),
        (" ", vec![], "PRECONDITION_FAILED"),
        ("a\nb", vec![], "PRECONDITION_FAILED"),
        ("s", vec![("max-age", "soon")], "PRECONDITION_FAILED"),
    ] {
        create(&mut play, stream, arguments);
        play.expect(&[&*format!("> Create {code}")]);
    }
    play.ask(Request::Delete { stream: "x" });
    play.expect(&["> Delete ACCESS_REFUSED"]);
    play.ask(Request::Delete { stream: "none" });
    play.answer(|request| Event::Deleted {
        request,
        result: Err(Refusal::NotFound),
    });
    play.expect(&["! delete none", "> Delete STREAM_DOES_NOT_EXIST"]);
}

#[test]
fn who_deletes_a_stream_hears_the_answer_before_that_it_is_gone() {
    let mut play = Play::with_stream();
    play.ask(Request::Delete { stream: "s" });
    play.hear(Event::Gone { stream: QueueId(7) });
    play.expect(&["! delete s"]);
    play.answer(|request| Event::Deleted {
        request,
        result: Ok(()),
    });
    play.expect(&["> Delete OK", "> gone s STREAM_NOT_AVAILABLE"]);
    let status = play.session.status();
    assert_eq!(
        (status.publishers.len(), status.subscriptions.len()),
        (0, 0)
    );
    // It is told once, and another stream's end not at all.
    play.hear(Event::Gone { stream: QueueId(7) });
    play.hear(Event::Gone { stream: QueueId(8) });
    play.expect(&[]);
}

#[test]
fn what_streams_tell_of_themselves() {
    let mut play = Play::with_stream();
    let stats = StreamStats {
        first_chunk: Some(3),
        committed_offset: Some(9),
        ..Default::default()
    };
    play.ask(Request::StreamStats { stream: "s" });
    play.answer(|request| Event::Stats {
        request,
        result: Ok(stats),
    });
    play.expect(&[
        "! stats of 7",
        r#"> StreamStats OK [("first_chunk_id", 3), ("committed_chunk_id", -1), ("last_chunk_id", -1), ("committed_offset", 9)]"#,
    ]);
    play.ask(Request::ResolveOffsetSpec {
        stream: "s",
        offset: OffsetSpec::Last,
        properties: Optional::default(),
    });
    play.answer(|request| Event::ResolvedOffset {
        request,
        result: Ok(5),
    });
    play.expect(&["! resolve 7 Last", "> ResolveOffsetSpec OK 4 5"]);
    play.ask(Request::QueryOffset {
        reference: "app",
        stream: "s",
    });
    play.answer(|request| Event::StoredOffset {
        request,
        result: Ok(None),
    });
    play.expect(&["! offset of 7", "> QueryOffset NO_OFFSET 0"]);
    play.node.refuses.push("read s");
    play.ask(Request::QueryOffset {
        reference: "app",
        stream: "s",
    });
    play.expect(&["> QueryOffset ACCESS_REFUSED 0"]);
}

#[test]
fn offsets_are_stored_without_an_answer() {
    let mut play = Play::with_stream();
    let store = |play: &mut Play, reference, stream| {
        play.say(&ClientCommand::StoreOffset {
            reference,
            stream,
            offset: 42,
        });
    };
    store(&mut play, "app", "s");
    play.expect(&["! store 7 42"]);
    store(&mut play, "app", "other");
    play.answer(|request| Event::Found {
        request,
        result: Ok(QueueId(8)),
    });
    play.expect(&["! look up / other", "! store 8 42"]);
    store(&mut play, "app", "none");
    play.answer(|request| Event::Found {
        request,
        result: Err(Refusal::NotFound),
    });
    play.node.refuses.push("read x");
    store(&mut play, "app", "x");
    store(&mut play, "", "s");
    play.expect(&["! look up / none"]);
    assert!(play.session.reading());
}

#[test]
fn metadata_names_the_node_of_each_stream_that_exists() {
    let mut play = Play::open();
    play.ask(Request::Metadata {
        streams: vec!["a", "b"],
    });
    play.answer(|request| Event::Found {
        request,
        result: Err(Refusal::NotFound),
    });
    play.expect(&["! look up / a", "! look up / b"]);
    play.answer(|request| Event::Found {
        request,
        result: Ok(QueueId(8)),
    });
    play.expect(&[r#"> metadata [(0, "here", 5552)] [("a", 2, 65535), ("b", 1, 0)]"#]);
    play.ask(Request::Metadata { streams: vec![] });
    play.expect(&[r#"> metadata [(0, "here", 5552)] []"#]);
}

#[test]
fn metadata_names_no_node_that_has_not_said_where_it_is() {
    let mut play = Play::open();
    let there = Reached::At("there".to_owned(), 1);
    play.node.leaders = vec![("a", Reached::Unknown), ("b", there)];
    play.node.replicas = vec![Reached::Unknown, Reached::Here];
    play.ask(Request::Metadata {
        streams: vec!["a", "b"],
    });
    for stream in [7, 8] {
        play.answer(|request| Event::Found {
            request,
            result: Ok(QueueId(stream)),
        });
    }
    play.expect(&[
        "! look up / a",
        "! look up / b",
        r#"> metadata [(0, "here", 5552), (1, "there", 1)] [("a", 1, 65535), ("b", 1, 1)] replicas [[0], [0]]"#,
    ]);
}

fn make(partitions: &[&'static str]) -> Request<'static> {
    Request::CreateSuperStream {
        name: "super",
        partitions: partitions.to_vec(),
        binding_keys: partitions.iter().map(|p| &p[p.len() - 1..]).collect(),
        arguments: vec![],
    }
}

#[test]
fn the_arguments_of_a_super_stream_reach_its_partitions_and_the_whole() {
    let mut play = Play::open();
    play.ask(Request::CreateSuperStream {
        name: "super",
        partitions: vec!["super-0"],
        binding_keys: vec!["0"],
        arguments: vec![("super-stream-routing", "hash")],
    });
    play.answer(|request| Event::Declared {
        request,
        result: Ok(QueueId(7)),
    });
    play.expect(&["! declare super-0 None", "> CreateSuperStream OK"]);
    let given = ("super-stream-routing".to_owned(), "hash".to_owned());
    assert_eq!(play.node.given, [given]);
}

#[test]
fn nothing_is_published_to_a_drained_partition() {
    let mut play = Play::with_stream();
    play.bytes(publish(1, &[1]));
    play.node.drained.push("s");
    play.bytes(publish(1, &[2, 3]));
    play.say(&declare(2, "", "s"));
    play.node.drained.clear();
    play.bytes(publish(1, &[4]));
    play.expect(&[
        "! publish 7 [1] [None]",
        "! publish 7 [4] [None]",
        r#"> error 1 [(2, "PRECONDITION_FAILED"), (3, "PRECONDITION_FAILED")]"#,
        "> DeclarePublisher PRECONDITION_FAILED",
    ]);
}

#[test]
fn super_streams_are_made_and_deleted_with_their_partitions() {
    let mut play = Play::open();
    play.ask(make(&["super-0", "super-1"]));
    for _ in 0..2 {
        play.answer(|request| Event::Declared {
            request,
            result: Ok(QueueId(7)),
        });
    }
    play.expect(&[
        "! declare super-0 None",
        "! declare super-1 None",
        "> CreateSuperStream OK",
    ]);
    play.ask(make(&["super-0"]));
    play.expect(&["> CreateSuperStream STREAM_ALREADY_EXISTS"]);
    play.ask(Request::Partitions {
        super_stream: "super",
    });
    play.ask(Request::Route {
        routing_key: "1",
        super_stream: "super",
    });
    play.ask(Request::Route {
        routing_key: "9",
        super_stream: "super",
    });
    play.expect(&[
        r#"> Partitions OK ["super-0", "super-1"]"#,
        r#"> Route OK ["super-1"]"#,
        "> Route OK []",
    ]);
    play.ask(Request::DeleteSuperStream { name: "super" });
    play.answer(|request| Event::Deleted {
        request,
        result: Err(Refusal::NotFound),
    });
    play.answer(|request| Event::Deleted {
        request,
        result: Ok(()),
    });
    play.expect(&[
        "! delete super-0",
        "! delete super-1",
        "> DeleteSuperStream OK",
    ]);
    play.ask(Request::DeleteSuperStream { name: "super" });
    play.ask(Request::Partitions {
        super_stream: "super",
    });
    play.ask(Request::Route {
        routing_key: "1",
        super_stream: "super",
    });
    play.expect(&[
        "> DeleteSuperStream STREAM_DOES_NOT_EXIST",
        "> Partitions STREAM_DOES_NOT_EXIST []",
        "> Route STREAM_DOES_NOT_EXIST []",
    ]);
}

#[test]
fn a_super_stream_that_cannot_be_made_leaves_no_partitions() {
    let mut play = Play::open();
    play.ask(make(&["super-0", "super-1"]));
    play.answer(|request| Event::Declared {
        request,
        result: Ok(QueueId(7)),
    });
    play.answer(|request| Event::Declared {
        request,
        result: Err(Refusal::Exists),
    });
    play.lines();
    play.answer(|request| Event::Deleted {
        request,
        result: Ok(()),
    });
    play.expect(&["> CreateSuperStream STREAM_ALREADY_EXISTS"]);
    play.node.refuses_super_streams = true;
    play.ask(make(&["super-0"]));
    play.answer(|request| Event::Declared {
        request,
        result: Ok(QueueId(7)),
    });
    play.answer(|request| Event::Deleted {
        request,
        result: Ok(()),
    });
    play.expect(&[
        "! declare super-0 None",
        "! delete super-0",
        "> CreateSuperStream INTERNAL_ERROR",
    ]);
    for partitions in [&[][..], &["super-0", "super-0"]] {
        play.ask(make(partitions));
        play.expect(&["> CreateSuperStream PRECONDITION_FAILED"]);
    }
    play.node.refuses.push("super");
    play.ask(make(&["super-0"]));
    play.expect(&["> CreateSuperStream ACCESS_REFUSED"]);
}

#[test]
fn a_client_hears_the_same_however_its_bytes_are_split() {
    for seed in crate::fuzz::seeds() {
        for cut in [0, 3, 200] {
            for refuses in 0..4 {
                let mut input = seed.clone();
                input[..2].copy_from_slice(&[cut, refuses]);
                crate::fuzz::session(&input);
            }
        }
    }
}

#[test]
fn a_super_stream_has_a_thousand_partitions_and_not_one_more() {
    let names: Vec<String> = (0..=STREAM_PARTITIONS_MAX)
        .map(|n| format!("p{n}"))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for (count, line) in [
        (STREAM_PARTITIONS_MAX, "! declare p0 None"),
        (
            STREAM_PARTITIONS_MAX + 1,
            "> CreateSuperStream PRECONDITION_FAILED",
        ),
    ] {
        let mut play = Play::open();
        play.ask(Request::CreateSuperStream {
            name: "super",
            partitions: names[..count].to_vec(),
            binding_keys: names[..count].to_vec(),
            arguments: vec![],
        });
        play.expect(&[line]);
    }
}

/// What comes of a super stream of this name, partition and key.
fn made(play: &mut Play, name: &str, partition: &str, key: &str) -> String {
    play.ask(Request::CreateSuperStream {
        name,
        partitions: vec!["p", partition],
        binding_keys: vec!["k", key],
        arguments: vec![],
    });
    let line = play.lines().remove(0);
    play.session.teardown(&mut play.node);
    line
}

#[test]
fn names_and_keys_of_a_super_stream_are_within_bounds_before_anything_is_made() {
    let (longest, too_long) = ("x".repeat(255), "x".repeat(256));
    for (name, partition, key, is_made) in [
        (&*longest, "q", "k", true),
        (&*too_long, "q", "k", false),
        ("super", &*longest, "k", true),
        ("super", &*too_long, "k", false),
        ("super", "q", &*longest, true),
        ("super", "q", &*too_long, false),
        // As in RabbitMQ: what has the key goes to both.
        ("super", "q", "k", true),
        ("super", "q", "", true),
        ("super", "p", "other", false),
        ("super", "", "other", false),
        ("super", " ", "other", false),
        ("super", "q\n", "other", false),
        ("super", "amq.q", "other", false),
        ("amq.super", "q", "other", false),
        ("", "q", "other", false),
    ] {
        let line = made(&mut Play::open(), name, partition, key);
        let expected = match is_made {
            true => "! declare p None",
            false => "> CreateSuperStream PRECONDITION_FAILED",
        };
        assert_eq!(line, expected, "{name} {partition} {key}");
    }
    // One is made after the other, so that the first would be there.
    let mut play = Play::open();
    play.node.exchanges.push("orders");
    let line = made(&mut play, "orders", "q", "other");
    assert_eq!(line, "> CreateSuperStream STREAM_ALREADY_EXISTS");
}

#[test]
fn a_super_stream_needs_a_key_for_each_partition() {
    for (partitions, binding_keys) in [(vec!["p"], vec![]), (vec!["p"], vec!["a", "b"])] {
        let mut play = Play::open();
        play.ask(Request::CreateSuperStream {
            name: "super",
            partitions,
            binding_keys,
            arguments: vec![],
        });
        play.expect(&["> CreateSuperStream PRECONDITION_FAILED"]);
    }
}

#[test]
fn a_stream_that_is_lost_while_a_secret_is_renewed_is_told_of_behind_the_answer() {
    let mut play = Play::with_stream();
    play.say(&plain());
    play.hear(Event::Lost { stream: QueueId(7) });
    play.expect(&["! log in PLAIN |guest|guest", "! no reader of 7"]);
    play.log_in("guest");
    play.expect(&["> SaslAuthenticate OK", "> gone s STREAM_NOT_AVAILABLE"]);
}

#[test]
fn what_another_node_may_have_made_is_looked_for_again_before_anything_behind_it() {
    let route = Request::Route {
        routing_key: "0",
        super_stream: "super",
    };
    let partitions = Request::Partitions {
        super_stream: "super",
    };
    let deletion = Request::DeleteSuperStream { name: "super" };
    for (request, found, missing) in [
        (
            route,
            r#"> Route OK ["super-0"]"#,
            "> Route STREAM_DOES_NOT_EXIST []",
        ),
        (
            partitions,
            r#"> Partitions OK ["super-0"]"#,
            "> Partitions STREAM_DOES_NOT_EXIST []",
        ),
        (
            deletion,
            "> DeleteSuperStream OK",
            "> DeleteSuperStream STREAM_DOES_NOT_EXIST",
        ),
    ] {
        for is_made in [true, false] {
            let mut play = Play::open();
            play.node.may_be_behind = true;
            play.ask(request.clone());
            play.say(&declare(1, "", "s"));
            play.expect(&[]);
            assert!(!play.session.reading());
            if is_made {
                let super_stream = ("super".to_owned(), vec!["super-0".to_owned()]);
                play.node.super_streams.push(super_stream);
            }
            play.node.may_be_behind = false;
            play.retry();
            if play.node.said == ["! delete super-0"] {
                play.answer(|request| Event::Deleted {
                    request,
                    result: Ok(()),
                });
            }
            let said = play.lines();
            let answer = if is_made { found } else { missing };
            assert!(said.contains(&answer.to_owned()), "{said:?}");
            // What came behind it is looked at now.
            assert!(said.contains(&"! look up / s".to_owned()), "{said:?}");
            play.retry();
            play.expect(&[]);
        }
    }
}

#[test]
fn what_a_client_asks_behind_a_second_look_is_looked_for_twice_itself() {
    let mut play = Play::open();
    play.node.may_be_behind = true;
    play.node.falls_behind = true;
    for super_stream in ["missing", "super"] {
        play.ask(Request::Partitions { super_stream });
    }
    play.node.may_be_behind = false;
    play.retry();
    play.expect(&["> Partitions STREAM_DOES_NOT_EXIST []"]);
    let super_stream = ("super".to_owned(), vec!["super-0".to_owned()]);
    play.node.super_streams.push(super_stream);
    play.node.may_be_behind = false;
    play.retry();
    play.expect(&["> Partitions OK [\"super-0\"]"]);
}

#[test]
fn a_super_stream_that_cannot_be_taken_away_keeps_its_partitions() {
    let mut play = Play::open();
    let super_stream = ("super".to_owned(), vec!["super-0".to_owned()]);
    play.node.super_streams.push(super_stream);
    play.node.refuses_super_streams = true;
    play.ask(Request::DeleteSuperStream { name: "super" });
    play.expect(&["> DeleteSuperStream STREAM_NOT_AVAILABLE"]);
}

#[test]
fn a_super_stream_that_another_node_may_have_deleted_is_looked_for_again_before_it_exists() {
    let make = Request::CreateSuperStream {
        name: "super",
        partitions: vec!["super-0"],
        binding_keys: vec!["0"],
        arguments: Vec::new(),
    };
    for is_there in [true, false] {
        let mut play = Play::open();
        let super_stream = ("super".to_owned(), vec!["super-0".to_owned()]);
        play.node.super_streams.push(super_stream);
        play.node.may_be_behind = true;
        play.ask(make.clone());
        play.expect(&[]);
        if !is_there {
            play.node.super_streams.clear();
        }
        play.node.may_be_behind = false;
        play.retry();
        play.expect(&[match is_there {
            true => "> CreateSuperStream STREAM_ALREADY_EXISTS",
            false => "! declare super-0 None",
        }]);
    }
}
