//! Consumers of which one at a time is active.

use super::*;

/// A connection with a subscription 2 of a group.
fn member(properties: Vec<(&str, &str)>) -> Play {
    let mut play = asking(properties);
    if !play.node.requests.is_empty() {
        play.answer(|request| Event::Joined {
            request,
            result: Ok(()),
        });
    }
    play
}

/// One that has asked to be in the group.
fn asking(properties: Vec<(&str, &str)>) -> Play {
    let mut play = Play::with_stream();
    let partitions = vec!["other".to_owned(), "s".to_owned()];
    play.node
        .super_streams
        .push(("super".to_owned(), partitions));
    let mut all = vec![("single-active-consumer", "true")];
    all.extend(properties);
    play.ask(Request::Subscribe {
        subscription_id: 2,
        stream: "s",
        offset: OffsetSpec::Last,
        credit: 3,
        properties: Optional(all),
    });
    play
}

impl Play {
    fn update(&mut self, active: bool) {
        let member = *self.node.members.last().expect("a member");
        self.update_of(member, active, 5);
    }

    fn update_of(&mut self, member: MemberId, is_active: bool, generation: u64) {
        self.hear(Event::Activity {
            stream: QueueId(7),
            member,
            is_active,
            generation: Generation(generation),
        });
    }

    /// The client answers the last update.
    fn updated(&mut self, offset: OffsetSpec) {
        let bytes = self.session.output().to_vec();
        let mut rest = &bytes[..];
        let mut last = 0;
        while let Ok(Some(frame)) = next_frame(rest, u32::MAX) {
            if let Ok(ServerCommand::ConsumerUpdate { correlation_id, .. }) =
                ServerCommand::decode(frame)
            {
                last = correlation_id;
            }
            rest = &rest[frame.wire_len()..];
        }
        self.say(&ClientCommand::ConsumerUpdated {
            correlation_id: last,
            code: ResponseCode::OK,
            offset,
        });
    }
}

#[test]
fn a_consumer_begins_where_it_says_once_it_is_active() {
    for (offset, expected) in [
        (OffsetSpec::None, "Last"),
        (OffsetSpec::Offset(42), "Offset(42)"),
    ] {
        let mut play = member(vec![("name", "app")]);
        play.expect(&["! join 7 app 0", "> Subscribe OK"]);
        play.say(&ClientCommand::Credit {
            subscription_id: 2,
            credit: 1,
        });
        play.expect(&["> credit 2 PRECONDITION_FAILED"]);
        play.update(true);
        play.updated(offset);
        play.expect(&[&*format!("! read 7 {expected} 4 None"), "> update true"]);
        // Nobody has asked for this answer.
        play.updated(offset);
        play.expect(&[]);
    }
}

#[test]
fn a_consumer_that_steps_down_is_sent_nothing_more_and_keeps_its_credit() {
    let mut play = member(vec![("name", "app"), ("super-stream", "super")]);
    play.expect(&["! join 7 app 1", "> Subscribe OK"]);
    play.update(true);
    play.updated(OffsetSpec::None);
    play.expect(&["! read 7 Last 3 None", "> update true"]);
    let reader = *play.node.readers.last().expect("a reader");
    let deliver = |play: &mut Play, reader| {
        play.hear(Event::Chunk {
            reader,
            chunk: chunk(5),
            committed_chunk: 3,
        });
    };
    deliver(&mut play, reader);
    play.expect(&["> deliver 2 None 57"]);
    play.update(false);
    deliver(&mut play, reader);
    play.updated(OffsetSpec::None);
    play.expect(&["! no reader of 7", "! down 7 app", "> update false"]);
    play.update(true);
    play.updated(OffsetSpec::First);
    play.expect(&["! read 7 First 2 None", "> update true"]);
    // What was under way for the time before does not count.
    deliver(&mut play, reader);
    play.expect(&[]);
    play.ask(Request::Unsubscribe { subscription_id: 2 });
    play.expect(&["! no reader of 7", "! leave 7 app", "> Unsubscribe OK"]);
}

#[test]
fn a_group_needs_a_name_and_a_partition_of_its_super_stream() {
    for properties in [
        vec![],
        vec![("name", "")],
        vec![("name", "app"), ("super-stream", "none")],
    ] {
        member(properties).expect(&["> Subscribe PRECONDITION_FAILED"]);
    }
}

#[test]
fn a_consumer_whose_stream_goes_or_cannot_be_read_leaves_its_group() {
    let mut play = member(vec![("name", "app")]);
    play.lines();
    play.hear(Event::Gone { stream: QueueId(7) });
    play.expect(&["! leave 7 app", "> gone s STREAM_NOT_AVAILABLE"]);
    play.update(true);
    play.expect(&[]);
    let mut play = member(vec![("name", "app")]);
    play.update(true);
    play.updated(OffsetSpec::None);
    play.lines();
    play.answer(|request| Event::Subscribed {
        request,
        result: Err(Refusal::NotFound),
    });
    play.expect(&["! leave 7 app", "> gone s STREAM_NOT_AVAILABLE"]);
}

#[test]
fn an_answer_that_comes_after_another_subscription_of_its_id_makes_nobody_active() {
    let mut play = member(vec![("name", "app")]);
    play.update(true);
    play.ask(Request::Unsubscribe { subscription_id: 2 });
    play.ask(Request::Subscribe {
        subscription_id: 2,
        stream: "s",
        offset: OffsetSpec::Last,
        credit: 3,
        properties: Optional(vec![("single-active-consumer", "true"), ("name", "app")]),
    });
    play.answer(|request| Event::Joined {
        request,
        result: Ok(()),
    });
    play.updated(OffsetSpec::First);
    play.expect(&[
        "! join 7 app 0",
        "! leave 7 app",
        "! join 7 app 0",
        "> Subscribe OK",
        "> update true",
        "> Unsubscribe OK",
        "> Subscribe OK",
    ]);
}

#[test]
fn a_client_that_answers_no_update_is_waited_for_with_the_last_one_alone() {
    let mut play = member(vec![("name", "app")]);
    for number in 0..1_000 {
        play.update(number % 2 == 0);
    }
    assert_eq!(play.session.activations.counts().0, 1);
    // An answer to one before says nothing any more.
    play.update(true);
    play.lines();
    play.update(false);
    play.updated(OffsetSpec::None);
    play.expect(&["! down 7 app", "> update false"]);
}

#[test]
fn a_client_that_does_not_answer_an_update_is_closed_and_leaves_its_group() {
    for active in [true, false] {
        let mut play = member(vec![("name", "app")]);
        // The session may have heard nothing for long when it is told.
        play.now = Now::both(play.now.monotonic_ms + 10_000);
        play.update(active);
        play.lines();
        let until_ms = play.now.monotonic_ms + STREAM_CONSUMER_UPDATE_MS_MAX;
        play.tick(STREAM_CONSUMER_UPDATE_MS_MAX - 1);
        assert!(play.session.is_open());
        assert_eq!(play.session.deadline(), Some(until_ms));
        play.lines();
        play.tick(1);
        play.expect(&["! leave", "> close PRECONDITION_FAILED"]);
    }
}

#[test]
fn an_update_that_is_answered_or_whose_subscription_has_gone_closes_nothing() {
    for is_answered in [true, false] {
        let mut play = member(vec![("name", "app")]);
        play.update(true);
        match is_answered {
            true => play.updated(OffsetSpec::None),
            false => play.ask(Request::Unsubscribe { subscription_id: 2 }),
        }
        play.tick(STREAM_CONSUMER_UPDATE_MS_MAX);
        assert!(play.session.is_open());
    }
}

#[test]
fn who_was_active_stores_no_offset_once_it_has_stepped_down() {
    let mut play = member(vec![("name", "app")]);
    play.lines();
    let store = |play: &mut Play, reference: &str, offset| {
        play.say(&ClientCommand::StoreOffset {
            reference,
            stream: "s",
            offset,
        });
    };
    store(&mut play, "app", 1);
    play.expect(&[]);
    play.update(true);
    play.updated(OffsetSpec::None);
    play.lines();
    store(&mut play, "app", 2);
    play.expect(&["! store 7 2 Member(Generation(5))"]);
    // It is given the time to say how far it has come.
    play.update(false);
    store(&mut play, "app", 3);
    play.expect(&[
        "! no reader of 7",
        "! store 7 3 Member(Generation(5))",
        "> update false",
    ]);
    play.update(false);
    play.updated(OffsetSpec::None);
    play.lines();
    store(&mut play, "app", 4);
    store(&mut play, "other", 5);
    play.expect(&["! store 7 5"]);
}

#[test]
fn who_was_active_and_lost_its_stream_stores_under_that_generation() {
    let mut play = member(vec![("name", "app")]);
    play.update(true);
    play.updated(OffsetSpec::None);
    play.lines();
    let store = |play: &mut Play, reference: &str| {
        play.say(&ClientCommand::StoreOffset {
            reference,
            stream: "s",
            offset: 9,
        });
    };
    // The leader is lost alone: what is read of a replica here ends with it.
    play.hear(Event::Lost { stream: QueueId(7) });
    play.expect(&[
        "! no reader of 7",
        "! no reader of 7",
        "! leave 7 app",
        "> gone s STREAM_NOT_AVAILABLE",
    ]);
    for (reference, by) in [("app", " Member(Generation(5))"), ("other", "")] {
        play.node.requests.clear();
        store(&mut play, reference);
        play.answer(|request| Event::Found {
            request,
            result: Ok(QueueId(7)),
        });
        play.expect(&["! look up / s", &*format!("! store 7 9{by}")]);
    }
}

#[test]
fn a_consumer_whose_stream_has_no_leader_asks_again_until_it_is_in_its_group() {
    let mut play = asking(vec![("name", "app")]);
    let unavailable = |play: &mut Play| {
        play.answer(|request| Event::Joined {
            request,
            result: Err(Refusal::NotAvailable("no leader".to_owned())),
        });
    };
    unavailable(&mut play);
    play.expect(&["! join 7 app 0", "> Subscribe OK"]);
    let now_ms = play.now.monotonic_ms;
    assert_eq!(play.session.deadline(), Some(now_ms + STREAM_JOIN_AGAIN_MS));
    play.tick(STREAM_JOIN_AGAIN_MS - 1);
    play.expect(&[]);
    play.tick(1);
    play.expect(&["! join 7 app 0"]);
    unavailable(&mut play);
    play.tick(STREAM_JOIN_AGAIN_MS);
    play.expect(&["! join 7 app 0"]);
    play.answer(|request| Event::Joined {
        request,
        result: Ok(()),
    });
    play.tick(STREAM_JOIN_AGAIN_MS);
    play.expect(&[]);
    play.update(true);
    play.expect(&["> update true"]);
}

#[test]
fn a_consumer_that_may_not_join_hears_it_whenever_that_is_known() {
    for is_late in [false, true] {
        let mut play = asking(vec![("name", "app")]);
        play.lines();
        if is_late {
            play.answer(|request| Event::Joined {
                request,
                result: Err(Refusal::NotAvailable("no leader".to_owned())),
            });
            play.tick(STREAM_JOIN_AGAIN_MS);
            play.lines();
        }
        play.answer(|request| Event::Joined {
            request,
            result: Err(Refusal::Precondition("too many".to_owned())),
        });
        match is_late {
            false => play.expect(&["> Subscribe PRECONDITION_FAILED"]),
            true => play.expect(&["! leave 7 app", "> gone s STREAM_NOT_AVAILABLE"]),
        }
        play.tick(STREAM_JOIN_AGAIN_MS);
        play.expect(&[]);
    }
}

#[test]
fn the_newest_generations_are_remembered() {
    let mut play = Play::with_stream();
    for n in 0..=STREAM_ACTIVE_REMEMBERED_MAX {
        let name = n.to_string();
        play.ask(Request::Subscribe {
            subscription_id: 2,
            stream: "s",
            offset: OffsetSpec::Last,
            credit: 3,
            properties: Optional(vec![("single-active-consumer", "true"), ("name", &*name)]),
        });
        play.answer(|request| Event::Joined {
            request,
            result: Ok(()),
        });
        let member = *play.node.members.last().expect("a member");
        play.update_of(member, true, n as u64 + 1);
        play.ask(Request::Unsubscribe { subscription_id: 2 });
    }
    let (_, remembered) = play.session.activations.counts();
    assert_eq!(remembered, STREAM_ACTIVE_REMEMBERED_MAX);
    assert_eq!(
        play.session.activations.stores_by("0", "s"),
        StoredBy::Anyone
    );
    let second = StoredBy::Member(Generation(2));
    assert_eq!(play.session.activations.stores_by("1", "s"), second);
}

#[test]
fn consumers_of_a_group_are_read_for_from_where_an_operator_says() {
    let mut play = Play::with_stream();
    play.ask(Request::Subscribe {
        subscription_id: 2,
        stream: "s",
        offset: OffsetSpec::First,
        credit: 3,
        properties: Optional(vec![("name", "app"), ("filter.0", "red")]),
    });
    play.answer(|request| Event::Subscribed {
        request,
        result: Ok(()),
    });
    play.lines();
    let before = *play.node.readers.last().expect("a reader");
    let move_to = |play: &mut Play, stream, group, offset| {
        let (now, to) = (play.now, (QueueId(stream), group, offset));
        play.session.move_readers(now, to, &mut play.node);
    };
    move_to(&mut play, 7, "app", 40);
    play.expect(&[
        "! no reader of 7",
        "! read 7 Offset(41) 3 Some((1, \"of chunks\"))",
    ]);
    // What is under way for the place before is not for it.
    play.hear(Event::Chunk {
        reader: before,
        chunk: chunk(5),
        committed_chunk: 3,
    });
    play.expect(&[]);
    move_to(&mut play, 7, "other", 1);
    move_to(&mut play, 8, "app", 1);
    play.expect(&[]);
    // If it cannot be read for any more, the client hears that, and subscribes again.
    play.answer(|request| Event::Subscribed {
        request,
        result: Err(Refusal::NotFound),
    });
    play.expect(&["> gone s STREAM_NOT_AVAILABLE"]);
}
