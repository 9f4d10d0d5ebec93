//! What a client does not take is handed back where much is held, and read again once it reads.

use super::*;
use crate::in_hand::InHand;
use leveret_types::ReaderMemory;

const BYTES: usize = 300 * 1024;

pub(super) fn chunk_at(first_offset: u64, bytes: usize) -> SharedChunk {
    let data = [&(bytes as u32).to_be_bytes()[..], &vec![7; bytes]].concat();
    let header = leveret_stream::ChunkHeader {
        kind: leveret_stream::ChunkKind::User,
        entries: 1,
        records: 1,
        timestamp_ms: 0,
        epoch: 1,
        first_offset,
        crc: 0,
        data_bytes: 0,
        trailer_bytes: 0,
        bloom_bytes: 0,
    };
    SharedChunk::new(header, &[1; 16], &data, b"trailer")
}

/// Chunks of the stream 7, of one message each.
fn stream() -> Vec<SharedChunk> {
    (0..4).map(|at| chunk_at(2 * at, BYTES)).collect()
}

impl Play {
    /// One whose node holds much as soon as it holds anything.
    fn crowded() -> (Self, ReaderMemory) {
        let memory = ReaderMemory::new(1);
        let mut play = Self::with_stream();
        play.session.in_hand = InHand::new(memory.clone());
        (play, memory)
    }

    fn bring(&mut self, reader: ReaderId, chunks: &[SharedChunk]) {
        for chunk in chunks.iter().cloned() {
            let committed_chunk = 3;
            self.hear(Event::Chunk {
                reader,
                chunk,
                committed_chunk,
            });
        }
    }

    /// The socket takes so many octets, or all that there are.
    fn take(&mut self, octets: usize) -> Vec<u8> {
        let mut taken = Vec::new();
        while taken.len() < octets && self.session.output().writable_len() > 0 {
            let out = self.session.output();
            let mut next = out.to_vec();
            next.truncate(octets - taken.len());
            out.advance(next.len());
            taken.extend(next);
            self.session.written(self.now, &mut self.node);
        }
        taken
    }

    /// The streams send what they are asked for by readers that are new.
    fn serve(&mut self, chunks: &[SharedChunk]) {
        for line in std::mem::take(&mut self.node.said) {
            let Some(requested) = line.strip_prefix("! read 7 Offset(") else {
                continue;
            };
            let mut words = requested.split([')', ' ']).filter(|word| !word.is_empty());
            let mut number = || words.next().expect("it is there").parse::<u64>().unwrap();
            let (from, credit) = (number(), number());
            let reader = self.node.readers.remove(0);
            let requested = chunks.iter().filter(|c| c.header().first_offset >= from);
            let requested: Vec<_> = requested.take(credit as usize).cloned().collect();
            self.answer(|request| Event::Subscribed {
                request,
                result: Ok(()),
            });
            self.bring(reader, &requested);
        }
    }

    /// The socket takes all that comes, for as long as anything does.
    fn take_all(&mut self, chunks: &[SharedChunk]) -> Vec<u8> {
        self.session.written(self.now, &mut self.node);
        let mut taken = Vec::new();
        loop {
            self.serve(chunks);
            let next = self.take(usize::MAX);
            if next.is_empty() {
                return taken;
            }
            taken.extend(next);
        }
    }
}

#[test]
fn what_a_client_does_not_take_is_handed_back_and_comes_whole_once_it_reads() {
    let chunks = stream();
    let mut other = Play::with_stream();
    let reader = other.node.readers[0];
    other.bring(reader, &chunks);
    let expected = other.take(usize::MAX);
    assert!(expected.len() > 4 * BYTES);
    for taken in [
        0,
        1,
        12,
        70,
        71,
        1_000,
        BYTES,
        BYTES + 100,
        2 * BYTES,
        4 * BYTES,
    ] {
        let (mut play, memory) = Play::crowded();
        let reader = play.node.readers.remove(0);
        play.bring(reader, &chunks);
        let mut had = play.take(taken);
        play.tick(STREAM_IN_HAND_MS - 1);
        assert!(memory.in_hand_bytes() > 0, "{taken}");
        play.tick(1);
        assert_eq!(memory.in_hand_bytes(), 0, "{taken}");
        assert!(
            play.session.output().len() <= STREAM_OUTPUT_BYTES,
            "{taken}"
        );
        // What comes of chunks that were asked for before goes nowhere.
        if taken < 4 * BYTES {
            play.bring(reader, &chunks);
        }
        play.tick(STREAM_IN_HAND_MS);
        assert_eq!(memory.in_hand_bytes(), 0, "{taken}");
        had.extend(play.take_all(&chunks));
        assert_eq!(had.len(), expected.len(), "{taken}");
        assert!(had == expected, "{taken}");
        assert_eq!(memory.in_hand_bytes(), 0, "{taken}");
        let read = &play.session.status().subscriptions[0];
        assert_eq!((read.offset, read.consumed), (Some(6), 4), "{taken}");
    }
}

#[test]
fn frames_that_come_meanwhile_are_behind_the_rest_of_a_chunk() {
    let (mut play, _) = Play::crowded();
    let reader = play.node.readers.remove(0);
    play.bring(reader, &stream()[..1]);
    let mut had = play.take(1_000);
    play.tick(STREAM_IN_HAND_MS);
    let (subscription_id, credit) = (9, 1);
    play.say(&ClientCommand::Credit {
        subscription_id,
        credit,
    });
    had.extend(play.take_all(&stream()));
    let mut rest = &had[..];
    let mut lines = Vec::new();
    while let Ok(Some(frame)) = next_frame(rest, u32::MAX) {
        lines.push(brief(&ServerCommand::decode(frame).expect("it is there")));
        rest = &rest[frame.wire_len()..];
    }
    let behind = "credit 9 SUBSCRIPTION_ID_DOES_NOT_EXIST";
    assert_eq!(lines[1], behind, "{lines:?}");
    assert!(rest.is_empty());
}

#[test]
fn nothing_is_handed_back_where_little_is_held() {
    let mut play = Play::with_stream();
    let reader = play.node.readers[0];
    play.bring(reader, &stream());
    let bytes_before = play.session.output_bytes();
    for _ in 0..5 {
        play.tick(STREAM_IN_HAND_MS);
    }
    assert!(play.session.output_bytes() >= bytes_before);
    assert!(!play.node.said.iter().any(|line| line.contains("no reader")));
}

#[test]
fn where_much_is_held_one_chunk_is_under_way_at_a_time() {
    let (mut play, memory) = Play::crowded();
    let reader = play.node.readers[0];
    let others = memory.block(vec![0; 2].into());
    let small = chunk_at(0, 5);
    play.bring(reader, &vec![small.clone(); 10]);
    play.lines();
    let (subscription_id, credit) = (1, 100);
    play.say(&ClientCommand::Credit {
        subscription_id,
        credit,
    });
    play.expect(&["! credit 7 1"]);
    play.bring(reader, std::slice::from_ref(&small));
    play.expect(&["! credit 7 1", "> deliver 1 None 57"]);
    drop(others);
    play.bring(reader, &[small]);
    play.expect(&["! credit 7 16", "> deliver 1 None 57"]);
}

#[test]
fn a_thousand_clients_that_do_not_read_hold_next_to_nothing() {
    let memory = ReaderMemory::default();
    let chunks = stream();
    let mut all: Vec<Play> = (0..1_000).map(|_| Play::with_stream()).collect();
    for play in &mut all {
        play.session.in_hand = InHand::new(memory.clone());
        let reader = play.node.readers[0];
        play.bring(reader, &chunks);
    }
    assert!(memory.in_hand_bytes() > memory.bytes_max());
    let mut left = 0;
    for play in &mut all {
        play.tick(STREAM_IN_HAND_MS);
        left += play.session.output_bytes();
    }
    // Those that come last may keep what they have.
    let most = memory.bytes_max() / 2 + 1_000 * 1_024;
    assert!(left <= most && memory.in_hand_bytes() <= most, "{left}");
}

#[test]
fn a_client_whose_half_of_a_chunk_cannot_be_completed_is_dropped() {
    let ends: [fn(&mut Play); 5] = [
        |play| {
            let request = play.node.requests.remove(0);
            let result = Err(Refusal::NotFound);
            play.hear(Event::Subscribed { request, result });
        },
        |play| {
            let reader = *play.node.readers.last().expect("it is there");
            let refusal = Refusal::NotFound;
            play.hear(Event::ReaderEnded { reader, refusal });
        },
        |play| {
            let stream = QueueId(7);
            play.hear(Event::Gone { stream });
        },
        |play| {
            let reader = *play.node.readers.last().expect("it is there");
            play.bring(reader, &[chunk_at(0, BYTES + 1)]);
        },
        |play| {
            let text = "it has to go";
            play.session.end_forced(text, &mut play.node);
        },
    ];
    for end in ends {
        let (mut play, memory) = Play::crowded();
        let reader = play.node.readers[0];
        play.bring(reader, &stream());
        play.take(1_000);
        play.tick(STREAM_IN_HAND_MS);
        play.session.written(play.now, &mut play.node);
        assert!(!play.session.is_over());
        end(&mut play);
        assert!(play.session.is_over());
        assert!(play.session.output().is_empty());
        assert_eq!(memory.in_hand_bytes(), 0);
    }
}

#[test]
fn the_rest_of_a_chunk_is_asked_for_again_where_its_replica_is_lost() {
    let (mut play, _) = Play::crowded();
    let reader = play.node.readers.remove(0);
    play.bring(reader, &stream()[..1]);
    let mut had = play.take(1_000);
    play.tick(STREAM_IN_HAND_MS);
    play.session.written(play.now, &mut play.node);
    play.node.said.clear();
    let first = play.node.readers.remove(0);
    play.node.requests.clear();
    play.hear(Event::Lost { stream: QueueId(7) });
    play.bring(first, &stream()[..1]);
    assert_eq!(play.session.output().writable_len(), 0);
    had.extend(play.take_all(&stream()));
    assert!(had.len() > BYTES && next_frame(&had, u32::MAX).expect("it is there").is_some());
}
