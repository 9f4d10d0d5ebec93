//! Chunks come for the client's credit, and so many of them at once.

use super::*;

impl Play {
    /// A subscription of the stream 7, for which nothing is read yet.
    fn read(&mut self, subscription_id: u8, credit: u16) {
        self.say(&subscribe(subscription_id, "s", credit));
        if subscription_id == 0 {
            self.answer(|request| Event::Found {
                request,
                result: Ok(QueueId(7)),
            });
        }
        self.answer(|request| Event::Subscribed {
            request,
            result: Ok(()),
        });
    }

    fn credit(&mut self, subscription_id: u8, credit: u16) {
        self.say(&ClientCommand::Credit {
            subscription_id,
            credit,
        });
    }

    fn chunk(&mut self, reader: ReaderId) {
        self.hear(Event::Chunk {
            reader,
            chunk: chunk(5),
            committed_chunk: 3,
        });
    }
}

#[test]
fn chunks_are_delivered_for_credit_in_the_version_that_the_client_reads() {
    let mut play = Play::with_stream();
    let reader = play.node.readers[0];
    let hear = |play: &mut Play| {
        play.hear(Event::Chunk {
            reader,
            chunk: chunk(5),
            committed_chunk: 3,
        });
    };
    hear(&mut play);
    // The header is as it was, filter and trailer are left out.
    play.expect(&["> deliver 1 None 57"]);
    play.ask(Request::ExchangeCommandVersions {
        versions: vec![(8, 1, 2)],
    });
    play.expect(&["> ExchangeCommandVersions OK 20"]);
    hear(&mut play);
    play.expect(&["> deliver 1 Some(3) 57"]);
    // Eight of ten chunks are under way: what there is more follows as they come, several at once.
    play.say(&ClientCommand::Credit {
        subscription_id: 1,
        credit: 3,
    });
    play.expect(&["! credit 7 3"]);
    play.say(&ClientCommand::Credit {
        subscription_id: 1,
        credit: 2,
    });
    play.expect(&[]);
    hear(&mut play);
    hear(&mut play);
    play.expect(&["> deliver 1 Some(3) 57", "> deliver 1 Some(3) 57"]);
    hear(&mut play);
    play.expect(&["! credit 7 2", "> deliver 1 Some(3) 57"]);
    play.say(&ClientCommand::Credit {
        subscription_id: 2,
        credit: 1,
    });
    play.expect(&["> credit 2 SUBSCRIPTION_ID_DOES_NOT_EXIST"]);
    play.ask(Request::Unsubscribe { subscription_id: 1 });
    play.expect(&["! no reader of 7", "> Unsubscribe OK"]);
    hear(&mut play);
    play.expect(&[]);
    play.ask(Request::Unsubscribe { subscription_id: 1 });
    play.expect(&["> Unsubscribe SUBSCRIPTION_ID_DOES_NOT_EXIST"]);
}

/// Chunks for which the streams were given credit.
fn credit_given(play: &mut Play) -> u32 {
    let more = play.node.said.drain(..).filter_map(|line| {
        let chunks = line.strip_prefix("! credit 7 ")?;
        Some(chunks.parse::<u32>().expect("a number"))
    });
    more.sum()
}

#[test]
fn a_client_that_does_not_read_is_sent_a_bounded_number_of_bytes() {
    let mut play = Play::with_stream();
    let reader = play.node.readers[0];
    play.say(&ClientCommand::Credit {
        subscription_id: 1,
        credit: u16::MAX,
    });
    // The streams send all that they may.
    let bytes = 512 * 1024;
    let mut under_way = 10 + credit_given(&mut play);
    while under_way > 0 {
        under_way -= 1;
        play.hear(Event::Chunk {
            reader,
            chunk: chunk(bytes),
            committed_chunk: 3,
        });
        under_way += credit_given(&mut play);
    }
    let most = OUTBOX_BYTES_MAX + (STREAM_CHUNKS_UNDER_WAY_MAX as usize + 1) * (bytes + 100);
    let output_bytes = play.session.output_bytes();
    assert!(
        output_bytes > OUTBOX_BYTES_MAX && output_bytes <= most,
        "{output_bytes}"
    );
    // Little of it is given to the socket.
    assert!(play.session.output().len() <= STREAM_OUTPUT_BYTES + bytes + 100);
    assert!(!play.session.reading());
    // As soon as it reads, it goes on.
    let (mut chunks, mut lent) = (0, 0);
    while play.session.output_bytes() > 0 {
        lent += credit_given(&mut play);
        let is_chunk = |line: &String| line.starts_with("> deliver 1");
        chunks += play.lines().into_iter().filter(is_chunk).count();
        play.session.written(play.now, &mut play.node);
    }
    assert_eq!(chunks, output_bytes / bytes);
    assert!(lent + credit_given(&mut play) > STREAM_CHUNKS_UNDER_WAY_MAX / 2);
}

#[test]
fn the_chunks_under_way_are_bounded_for_a_connection_and_not_for_a_subscription_alone() {
    let mut play = Play::open();
    let all: Vec<u8> = (0..=u8::MAX).collect();
    for &id in &all {
        play.read(id, 0);
    }
    play.lines();
    let mut under_way = 0;
    let mut steps = Vec::new();
    for &id in &all {
        play.credit(id, u16::MAX);
        under_way += credit_given(&mut play);
        steps.push(under_way);
    }
    let most = STREAM_CHUNKS_UNDER_WAY_PER_CONNECTION_MAX;
    // Up to the limit each has half of what is left, beyond it each one has a single chunk.
    assert_eq!(steps[..6], [16, 24, 30, most, most + 1, most + 2]);
    assert_eq!(under_way, most + 252);
}

#[test]
fn what_a_subscription_begins_with_is_within_the_bound_of_its_connection() {
    let mut play = Play::open();
    for id in 0..8 {
        play.read(id, 100);
    }
    let reads = play.lines().into_iter().filter_map(|line| {
        let line = line.strip_prefix("! read 7 First ")?.to_owned();
        line.split(' ').next()?.parse::<u32>().ok()
    });
    assert_eq!(reads.collect::<Vec<_>>(), [16, 8, 4, 2, 1, 1, 1, 1]);
}

#[test]
fn a_subscription_of_a_quiet_stream_keeps_no_other_from_its_chunks() {
    let mut play = Play::open();
    // These have all of the room, and nothing comes for them.
    let quiet = 6;
    for id in 0..100 {
        play.read(id, 100);
    }
    play.lines();
    let busy: Vec<ReaderId> = play.node.readers[quiet..].to_vec();
    for _ in 0..20 {
        for reader in &busy {
            play.chunk(*reader);
            assert_eq!(
                credit_given(&mut play),
                1,
                "each chunk that comes makes room"
            );
        }
        play.lines();
    }
}

#[test]
fn subscriptions_take_turns_for_the_room_that_chunks_leave() {
    let mut play = Play::open();
    for id in 0..10 {
        play.read(id, 1_000);
    }
    play.lines();
    let readers = play.node.readers.clone();
    let mut under_way = vec![16, 8, 4, 2, 1, 1, 1, 1, 1, 1];
    let mut had = vec![0; readers.len()];
    for step in 0..2_000_usize {
        // The streams send what they may, one after the other.
        let from = step % readers.len();
        let at = (from..from + readers.len()).map(|at| at % readers.len());
        let at = at.filter(|at| under_way[*at] > 0).collect::<Vec<_>>()[0];
        play.node.credited.clear();
        play.chunk(readers[at]);
        under_way[at] -= 1;
        had[at] += 1;
        for (reader, chunks) in play.node.credited.drain(..) {
            let to = readers.iter().position(|of| *of == reader);
            under_way[to.expect("one of them")] += chunks;
        }
        let most = STREAM_CHUNKS_UNDER_WAY_PER_CONNECTION_MAX + readers.len() as u32;
        assert!(under_way.iter().sum::<u32>() <= most);
        play.lines();
    }
    assert!(had.iter().all(|had| *had >= 100), "{had:?}");
}
