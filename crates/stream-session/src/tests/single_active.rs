//! Consumers of which one at a time is active.

use super::*;

/// A connection with a subscription 2 of a group.
fn member(properties: Vec<(&str, &str)>) -> Play {
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
        let now = self.now;
        self.session
            .consumer_update(now, "s", 2, active, &mut self.node);
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
        play.expect(&["! join s app 0 2", "> Subscribe OK"]);
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
    play.expect(&["! join s app 1 2", "> Subscribe OK"]);
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
    play.expect(&["! no reader of 7", "! down s app 2", "> update false"]);
    play.update(true);
    play.updated(OffsetSpec::First);
    play.expect(&["! read 7 First 2 None", "> update true"]);
    // What was under way for the time before does not count.
    deliver(&mut play, reader);
    play.expect(&[]);
    play.ask(Request::Unsubscribe { subscription_id: 2 });
    play.expect(&["! no reader of 7", "! leave s app 2", "> Unsubscribe OK"]);
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
    play.expect(&["! leave s app 2", "> gone s STREAM_NOT_AVAILABLE"]);
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
    play.expect(&["! leave s app 2", "> gone s STREAM_NOT_AVAILABLE"]);
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
    play.updated(OffsetSpec::First);
    play.expect(&[
        "! join s app 0 2",
        "! leave s app 2",
        "! join s app 0 2",
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
    assert_eq!(play.session.updating.len(), 1);
    // An answer to one before says nothing any more.
    play.update(true);
    play.lines();
    play.update(false);
    play.updated(OffsetSpec::None);
    play.expect(&["! down s app 2", "> update false"]);
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
    play.expect(&["! store 7 2"]);
    // It is given the time to say how far it has come.
    play.update(false);
    store(&mut play, "app", 3);
    play.expect(&["! no reader of 7", "! store 7 3", "> update false"]);
    play.update(false);
    play.updated(OffsetSpec::None);
    play.lines();
    store(&mut play, "app", 4);
    store(&mut play, "other", 5);
    play.expect(&["! store 7 5"]);
}

#[test]
fn an_offset_that_an_operator_has_set_is_stored_before_the_next_one_is_told() {
    let mut play = member(vec![("name", "app")]);
    play.lines();
    play.session.store_for_group(2, 40, &mut play.node);
    play.update(true);
    play.expect(&["! store 7 40", "> update true"]);
    // One that is in no group has nothing stored for it.
    play.session.store_for_group(1, 41, &mut play.node);
    play.session.store_for_group(9, 41, &mut play.node);
    play.expect(&[]);
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
    play.expect(&["! no reader of 7", "! read 7 Offset(41) 3 Some((1, false))"]);
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
