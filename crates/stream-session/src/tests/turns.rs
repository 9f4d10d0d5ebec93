//! The share of a client's input that one turn handles.

use super::*;
use leveret_types::limits::{LATE_BYTES_MAX, STREAM_FRAMES_PER_TURN_MAX};

/// A client that has sent so many questions in one piece.
fn with_questions(count: usize, work_of_each: usize) -> Play {
    let mut play = Play::open();
    let partitions = vec!["s".to_owned()];
    play.node.super_streams.push(("super".into(), partitions));
    play.node.work_of_partitions = work_of_each;
    let mut bytes = Vec::new();
    for correlation_id in 0..count as u32 {
        let request = Request::Partitions {
            super_stream: "super",
        };
        ClientCommand::Request {
            correlation_id,
            request,
        }
        .encode(&mut bytes);
    }
    play.bytes(bytes);
    play
}

/// The numbers of the questions that were answered since.
fn answered(play: &mut Play) -> Vec<u32> {
    let out = play.session.output();
    let bytes = out.to_vec();
    out.advance(bytes.len());
    let (mut rest, mut numbers) = (&bytes[..], Vec::new());
    while let Ok(Some(frame)) = next_frame(rest, u32::MAX) {
        match ServerCommand::decode(frame).expect("a command") {
            ServerCommand::Response { correlation_id, .. } => numbers.push(correlation_id),
            command => panic!("{command:?}"),
        }
        rest = &rest[frame.wire_len()..];
    }
    numbers
}

#[test]
fn a_turn_looks_at_its_number_of_frames_and_leaves_the_rest_to_the_next_one() {
    let most = STREAM_FRAMES_PER_TURN_MAX as u32;
    let mut play = with_questions(2 * most as usize + 1, 0);
    assert!(play.session.take_work() >= most as usize);
    for turn in [0..most, most..2 * most] {
        assert_eq!(answered(&mut play), Vec::from_iter(turn));
        assert!(!play.session.reading());
        // What comes of other things meanwhile does not lengthen the turn.
        play.session.written(play.now, &mut play.node);
        assert_eq!(answered(&mut play), []);
        assert_eq!(play.session.deadline(), Some(0));
        play.tick(0);
    }
    assert_eq!(answered(&mut play), [2 * most]);
    assert!(play.session.reading() && play.session.deadline() != Some(0));
    assert_eq!(play.session.take_work(), most as usize + 1);
}

#[test]
fn frames_that_fill_a_turn_leave_nothing_behind() {
    let mut play = with_questions(STREAM_FRAMES_PER_TURN_MAX, 0);
    assert_eq!(answered(&mut play).len(), STREAM_FRAMES_PER_TURN_MAX);
    assert!(play.session.reading() && play.session.deadline() != Some(0));
}

#[test]
fn questions_that_take_much_work_are_few_in_a_turn() {
    let work = STREAM_FRAMES_PER_TURN_MAX / 4 - 1;
    let mut play = with_questions(10, work);
    assert_eq!(answered(&mut play), [0, 1, 2, 3]);
    play.tick(0);
    assert_eq!(answered(&mut play), [4, 5, 6, 7]);
    play.tick(0);
    assert_eq!(answered(&mut play), [8, 9]);
    assert!(play.session.reading());
}

#[test]
fn a_client_whose_frames_wait_for_their_turn_is_not_taken_for_dead() {
    let mut play = with_questions(STREAM_FRAMES_PER_TURN_MAX + 1, 0);
    play.session.terms.heartbeat_seconds = 1;
    play.tick(2_000);
    assert!(!play.session.is_over());
}

#[test]
fn of_a_client_that_cannot_be_understood_a_bounded_number_of_bytes_is_read() {
    let mut play = Play::open();
    play.bytes(u32::MAX.to_be_bytes().to_vec());
    assert!(play.lines().iter().any(|line| line.starts_with("> close")));
    let piece = LATE_BYTES_MAX / 8;
    for _ in 1..8 {
        play.bytes(vec![7; piece]);
        assert!(!play.session.is_over());
    }
    play.bytes(vec![7; piece - 5]);
    assert!(
        !play.session.is_over(),
        "with the beginning, one byte is left"
    );
    play.bytes(vec![7]);
    assert!(play.session.is_over());
}
