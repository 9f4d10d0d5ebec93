//! Frames that have not arrived whole, where many clients have begun one.

use super::*;
use leveret_stream_protocol::frame::put_frame;
use leveret_types::limits::{
    UNFINISHED_CHECK_MS, UNFINISHED_CROWD_MS_MAX, UNFINISHED_CROWD_SILENCE_MS, UNFINISHED_MS_MAX,
    UNFINISHED_NODE_BYTES_MAX, UNFINISHED_SILENCE_MS,
};
use leveret_types::unfinished::{Reservation, Unfinished};

const FRAME_BYTES: usize = 1_000_000;
/// More than any frame may hold without a place.
const BEGINNING: usize = 200_000;

/// A publish by a publisher that was not declared.
fn frame() -> Vec<u8> {
    let mut frame = Vec::new();
    let body = FRAME_BYTES - 4 - 4 - 1 - 4 - 8 - 4;
    put_frame(&mut frame, 2, 1, |out| {
        out.push(9);
        out.extend(1_u32.to_be_bytes());
        out.extend(7_u64.to_be_bytes());
        out.extend((body as u32).to_be_bytes());
        out.resize(out.len() + body, b'x');
    });
    assert_eq!(frame.len(), FRAME_BYTES);
    frame
}

/// A connection that is served, and room for so many bytes of unfinished frames.
fn with_room(bytes: usize) -> (Play, Reservation, Arc<Unfinished>) {
    let unfinished = Arc::new(Unfinished::default());
    let most = UNFINISHED_NODE_BYTES_MAX - bytes;
    let reservation = reserved(&unfinished, "another", most);
    let play = another(&unfinished);
    (play, reservation, unfinished)
}

/// Room for so many bytes that a user holds.
fn reserved(unfinished: &Arc<Unfinished>, user: &str, bytes: usize) -> Reservation {
    let mut reservation = unfinished.reserve(user, bytes);
    assert!(reservation.grow(bytes, 1));
    reservation
}

fn another(unfinished: &Arc<Unfinished>) -> Play {
    let settings = Settings {
        unfinished: Arc::clone(unfinished),
        ..Settings::new("here", 5552)
    };
    let mut play = Play::new();
    play.session = Session::new(Arc::new(settings), play.now);
    play.opened()
}

/// Whatever has room for the socket is given the bytes, as an IO thread does.
fn send(play: &mut Play, mut bytes: &[u8]) {
    while !bytes.is_empty() && play.session.reading() {
        let room = play.session.room().map(|room| {
            let count = room.len().min(bytes.len());
            room[..count].copy_from_slice(&bytes[..count]);
            count
        });
        let count = room.unwrap_or(bytes.len().min(100_000));
        match room {
            Some(_) => play
                .session
                .receive_into_room(play.now, count, &mut play.node),
            None => play.bytes(bytes[..count].to_vec()),
        }
        bytes = &bytes[count..];
    }
    assert!(bytes.is_empty() || !play.session.reading());
}

#[test]
fn a_large_frame_is_read_on_as_soon_as_all_of_them_fit_and_not_before() {
    let (mut first, reservation, unfinished) = with_room(FRAME_BYTES);
    send(&mut first, &frame()[..BEGINNING]);
    assert!(first.session.reading(), "there is room for just this one");
    let left = UNFINISHED_NODE_BYTES_MAX - unfinished.bytes();
    assert!(left < FRAME_BYTES / 2, "{left}");
    let mut second = another(&unfinished);
    send(&mut second, &frame()[..100_000]);
    assert!(!second.session.reading(), "there is none for another");
    assert_eq!(second.session.lacks_bytes(), Some(FRAME_BYTES - 100_000));
    assert_eq!(first.session.lacks_bytes(), None);
    let check_ms = second.now.monotonic_ms + UNFINISHED_CHECK_MS;
    assert_eq!(second.session.deadline(), Some(check_ms));
    second.tick(UNFINISHED_CHECK_MS);
    assert!(!second.session.reading());
    send(&mut first, &frame()[BEGINNING..]);
    assert_eq!(first.lines().len(), 1, "it is answered");
    second.tick(UNFINISHED_CHECK_MS);
    assert!(second.session.reading());
    send(&mut second, &frame()[100_000..]);
    assert_eq!(second.lines().len(), 1);
    drop(reservation);
    assert_eq!(unfinished.bytes(), 0);
}

/// What a frame claims to be long holds nothing; who sends a little of many keeps nobody waiting.
#[test]
fn what_frames_claim_keeps_nobody_waiting() {
    let unfinished = Arc::new(Unfinished::default());
    let mut claiming: Vec<Play> = (0..300).map(|_| another(&unfinished)).collect();
    for play in &mut claiming {
        send(play, &frame()[..10]);
        send(play, &frame()[10..1_000]);
        assert!(play.session.reading());
    }
    assert_eq!(unfinished.bytes(), 0);
    let mut honest = another(&unfinished);
    send(&mut honest, &frame());
    assert_eq!(honest.lines().len(), 1, "it is answered");
}

#[test]
fn small_frames_need_no_room() {
    let (mut play, _place, _) = with_room(0);
    let mut small = frame();
    let length = (120_000 - 4) as u32;
    small[..4].copy_from_slice(&length.to_be_bytes());
    send(&mut play, &small[..60_000]);
    assert!(play.session.reading());
}

fn is_given_up(play: &mut Play) -> bool {
    let lines = play.lines();
    lines.iter().any(|line| line.starts_with("> close"))
}

/// What is borne of a frame of a user who holds no more, and of one who holds nearly all.
#[test]
fn a_frame_that_does_not_come_on_or_not_whole_in_time_is_given_up_for_those_who_wait() {
    for (holds_all, pace, expected_ms) in [
        (false, 0, UNFINISHED_SILENCE_MS),
        (false, 1, UNFINISHED_MS_MAX),
        (true, 0, UNFINISHED_CROWD_SILENCE_MS),
        (true, 1, UNFINISHED_CROWD_MS_MAX),
    ] {
        let user = if holds_all { "guest" } else { "another" };
        let unfinished = Arc::new(Unfinished::default());
        let most = UNFINISHED_NODE_BYTES_MAX - FRAME_BYTES;
        let _most = reserved(&unfinished, user, most);
        let mut slow = another(&unfinished);
        let begun_ms = slow.now.monotonic_ms;
        let frame = frame();
        send(&mut slow, &frame[..BEGINNING]);
        let mut waits = unfinished.reserve("waits", FRAME_BYTES);
        let mut at = BEGINNING;
        while !is_given_up(&mut slow) {
            assert!(slow.now.monotonic_ms < begun_ms + 2 * UNFINISHED_MS_MAX);
            let now_ms = slow.now.monotonic_ms;
            assert!(!waits.grow(FRAME_BYTES, now_ms));
            send(&mut slow, &frame[at..at + pace]);
            at += pace;
            slow.tick(UNFINISHED_CHECK_MS);
        }
        assert_eq!(
            slow.now.monotonic_ms - begun_ms,
            expected_ms,
            "{user} {pace}"
        );
        let now_ms = slow.now.monotonic_ms;
        assert!(waits.grow(FRAME_BYTES, now_ms));
    }
}

#[test]
fn a_frame_is_not_given_up_while_nobody_waits() {
    let (mut slow, _place, unfinished) = with_room(FRAME_BYTES);
    send(&mut slow, &frame()[..BEGINNING]);
    slow.tick(UNFINISHED_MS_MAX);
    assert!(!is_given_up(&mut slow));
    let mut second = another(&unfinished);
    second.now = slow.now;
    send(&mut second, &frame()[..100_000]);
    slow.tick(UNFINISHED_CHECK_MS);
    assert!(is_given_up(&mut slow));
    second.tick(UNFINISHED_CHECK_MS);
    assert!(second.session.reading());
}

#[test]
fn who_finishes_a_frame_and_begins_the_next_at_once_goes_behind_who_waits() {
    let (mut greedy, _place, unfinished) = with_room(FRAME_BYTES);
    send(&mut greedy, &frame()[..BEGINNING]);
    let mut honest = another(&unfinished);
    send(&mut honest, &frame()[..100_000]);
    assert!(!honest.session.reading());
    send(&mut greedy, &frame()[BEGINNING..]);
    send(&mut greedy, &frame()[..BEGINNING]);
    assert!(!greedy.session.reading(), "it is the other's turn");
    honest.tick(UNFINISHED_CHECK_MS);
    assert!(honest.session.reading());
    send(&mut honest, &frame()[100_000..]);
    assert_eq!(honest.lines().len(), 1);
    greedy.tick(UNFINISHED_CHECK_MS);
    assert!(greedy.session.reading());
}

#[test]
fn who_leaves_in_the_middle_of_a_frame_gives_its_room_back() {
    let (mut play, reservation, unfinished) = with_room(FRAME_BYTES);
    send(&mut play, &frame()[..BEGINNING]);
    play.session.teardown(&mut play.node);
    drop(reservation);
    assert_eq!(unfinished.bytes(), 0);
}
