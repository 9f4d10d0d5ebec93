//! The end of a connection, and the messages that announce it.

use super::*;
use crate::session::Ending;

#[test]
fn either_side_may_close() {
    let mut play = Play::with_stream();
    play.ask(Request::Close {
        code: ResponseCode::OK,
        reason: "bye",
    });
    play.expect(&["! leave", "> Close OK"]);
    assert!(play.session.is_over());
    let mut play = Play::with_stream();
    play.session
        .close(ResponseCode::INTERNAL_ERROR, "shutdown", &mut play.node);
    play.expect(&["! leave", "> close INTERNAL_ERROR"]);
    play.say(&ClientCommand::Closed {
        correlation_id: 1,
        code: ResponseCode::OK,
    });
    assert!(play.session.is_over());
    play.session.teardown(&mut play.node);
    play.expect(&[]);
}

#[test]
fn a_client_that_did_nothing_wrong_hears_no_close_and_so_connects_again() {
    let mut play = Play::with_stream();
    play.session
        .end_forced("the broker is shutting down", &mut play.node);
    play.expect(&["! leave"]);
    assert!(play.session.is_over());
    let why = Ending::Forced("the broker is shutting down".to_owned());
    assert_eq!(play.session.ending(), Some(&why));
}

#[test]
fn who_is_silent_is_dropped_and_who_hears_nothing_gets_heartbeats() {
    let mut play = Play::new();
    assert_eq!(play.session.deadline(), Some(1_000 + HANDSHAKE_MS_MAX));
    play.tick(HANDSHAKE_MS_MAX);
    assert!(play.session.is_over());
    let mut play = Play::open();
    let second = 1_000;
    play.session.beat();
    play.expect(&["> heartbeat"]);
    play.tick(30 * second);
    play.expect(&["> heartbeat"]);
    play.say(&ClientCommand::Heartbeat);
    play.tick(119 * second);
    play.expect(&["> heartbeat"]);
    assert!(play.session.is_open());
    play.tick(second);
    assert!(play.session.is_over());
}

#[test]
fn a_client_that_takes_nothing_is_not_waited_for_beyond_the_time_for_a_close() {
    let mut play = Play::with_stream();
    play.session.beat();
    play.session
        .end_forced("an operator closed it", &mut play.node);
    play.tick(CLOSE_MS_MAX - 1);
    assert!(!play.session.output().is_empty());
    play.tick(1);
    assert!(play.session.is_over() && play.session.output().is_empty());
    assert_eq!(play.session.deadline(), None);
}
