//! The end of a connection.

use crate::harness::{check, check_open};
use leveret_client::Session;
use leveret_session::{Settings, fuzz};
use leveret_types::limits::LATE_BYTES_MAX;
use leveret_types::{ChannelId, Now, ProtocolError, ReplyCode};

#[test]
fn a_client_closes() {
    check_open(
        "
        3:open => ?channel 3; 3<open-ok
        2:open => ?channel 2; 2<open-ok
        close => !closed 1; !closed 2; !closed 3; 0<close-ok
        state => Lingering
        ends-output => false
        end => closed by the client
        1:open =>
        teardown =>
        ",
    );
}

#[test]
fn a_client_that_has_closed_is_read_on_until_it_closes_its_socket() {
    check_open(
        "
        pipelined close + 1:publish x k late => !closed 1; 0<close-ok
        1:publish x k later =>
        raw 41 42 43 =>
        server-close again =>
        teardown =>
        state => Lingering
        deadline => Some(31000)
        tick 30999 =>
        state => Lingering
        tick 31000 =>
        state => Closed
        deadline => None
        ",
    );
    // Not for ever more, either: `flood` is 4,096 times as many octets.
    check_open(&format!(
        "
        close => !closed 1; 0<close-ok
        flood {0} =>
        state => Lingering
        flood 1 =>
        state => Closed
        ",
        LATE_BYTES_MAX / 4_096 - 1
    ));
}

#[test]
fn a_client_that_sends_more_than_it_said_is_read_on_for_a_second() {
    let oversize = "1:publish-method x k =>
        1:content 3 =>
        1:body abcd => !closed 1; 0<close 501 \
        FRAME_ERROR - content body frame exceeds remaining content size (60,40)";
    check_open(&format!(
        "{oversize}
        tick 1000 =>
        tick 1999 =>
        state => Closing
        tick 2000 =>
        state => Closed"
    ));
    check_open(&format!(
        "{oversize}
        close-ok =>
        state => Lingering"
    ));
    check_open(&format!(
        "{oversize}
        flood {} =>
        state => Closed",
        LATE_BYTES_MAX / 4_096
    ));
}

#[test]
fn the_broker_closes() {
    check_open(
        "
        server-close shutdown => 0<close 530 NOT_ALLOWED - shutdown (0,0)
        state => Closing
        1:declare q =>
        server-close again =>
        blocked memory =>
        deliver 1 c 1 => false
        deadline => Some(1000)
        tick 1000 => !closed 1
        deadline => Some(31000)
        tick 30999 =>
        state => Closing
        close-ok =>
        state => Lingering
        ends-output => true
        deadline => Some(60999)
        end => NOT_ALLOWED (530): shutdown
        1:declare q =>
        tick 60999 =>
        state => Closed
        deadline => None
        ",
    );
    // A client that does not answer is dropped in the end.
    check_open(
        "
        server-close shutdown => 0<close 530 NOT_ALLOWED - shutdown (0,0)
        tick 2000 => !closed 1
        tick 31999 =>
        state => Closing
        tick 32000 =>
        state => Closed
        ",
    );
    // Both at once.
    check_open(
        "
        server-close shutdown => 0<close 530 NOT_ALLOWED - shutdown (0,0)
        close => 0<close-ok
        state => Closing
        close-ok => !closed 1
        state => Lingering
        ",
    );
    check("server-close early =>\n state => Closed");
}

#[test]
fn a_socket_that_is_gone_takes_its_channels_along() {
    check_open(
        "
        2:open => ?channel 2; 2<open-ok
        1:ack 1 => !closed 1; 1<close 406 PRECONDITION_FAILED - unknown delivery tag 1 (60,80)
        hold =>
        2:declare q => ?2:declare 'q'
        teardown => !closed 2
        state => Closed
        suspended => false
        ",
    );
}

#[test]
fn confirms_that_are_ready_leave_before_a_close() {
    let published = "
        1:confirm => 1<select-ok
        1:publish x k body => !1:publish #1 x/k body
        accepted 1 1 0@5 =>
        ";
    for closes in [
        "durable 0 5 & 1:close => !closed 1; 1<ack 1; 1<close-ok",
        "durable 0 5 & close => !closed 1; 1<ack 1; 0<close-ok",
        "durable 0 5 & server-close shutdown => \
         1<ack 1; 0<close 530 NOT_ALLOWED - shutdown (0,0)",
        "durable 0 5 & 1:ack 7 => !closed 1; 1<ack 1; \
         1<close 406 PRECONDITION_FAILED - unknown delivery tag 7 (60,80)",
    ] {
        check_open(&format!("{published}{closes}"));
    }
}

#[test]
fn nothing_follows_a_close() {
    let consuming = "1:consume q c => ?1:consume q c prefetch=0; 1<consume-ok c";
    let closes = "server-close shutdown => 0<close 530 NOT_ALLOWED - shutdown (0,0)";
    check_open(&format!(
        "{consuming}
        deliver 1 c 1 => true; 1<deliver c 1 x/k body
        {closes}
        deliver 1 c 2 => false
        returned 1 =>
        cancelled 1 c =>
        durable 0 5 =>"
    ));
    check_open(&format!(
        "{consuming}
        close => !closed 1; 0<close-ok
        deliver 1 c 1 => false
        returned 1 =>
        cancelled 1 c =>"
    ));
}

#[test]
fn a_confirm_that_is_late_for_the_brokers_close_is_not_sent() {
    check_open(
        "
        1:confirm => 1<select-ok
        1:publish x k body => !1:publish #1 x/k body
        accepted 1 1 0@5 =>
        server-close shutdown => 0<close 530 NOT_ALLOWED - shutdown (0,0)
        durable 0 5 =>",
    );
}

#[test]
fn what_is_behind_something_that_failed_does_not_count() {
    let (now, text) = (Now::both(1_000), "gone".to_owned());
    let mut connection = fuzz::open_connection(Settings::default());
    let shown = |of: &dyn Session| of.channels().len();
    assert_eq!(shown(&connection), 1);
    let counts = |of: &dyn Session| [1, 2].map(|number| of.counts(ChannelId(number)));
    assert_eq!(counts(&connection), [true, true]);
    let error = ProtocolError::channel(ReplyCode::NotFound, text.clone());
    connection.fail(now, ChannelId(1), error, &mut Vec::new());
    assert_eq!(counts(&connection), [false, true]);
    assert_eq!(shown(&connection), 0);
    let error = ProtocolError::connection(ReplyCode::NotAllowed, text);
    connection.fail(now, ChannelId(2), error, &mut Vec::new());
    assert_eq!(counts(&connection), [false, false]);
}

#[test]
fn only_the_connections_own_agreement_ends_the_brokers_close() {
    check_open(
        "
        server-close shutdown => 0<close 530 NOT_ALLOWED - shutdown (0,0)
        raw 01 00 01 00 00 00 04 00 0a 00 33 ce =>
        state => Closing
        raw 02 00 00 00 00 00 04 00 0a 00 33 ce =>
        state => Closing
        close-ok => !closed 1
        state => Lingering",
    );
}

#[test]
fn patience_counts_from_the_last_that_happened() {
    let closes = "server-close shutdown => 0<close 530 NOT_ALLOWED - shutdown (0,0)";
    check_open(&format!(
        "
        tick 5000 =>
        {closes}
        deadline => Some(5000)"
    ));
    check_open(&format!(
        "
        time 5000 =>
        failed 1 channel gone => !closed 1; 1<close 404 NOT_FOUND - gone (0,0)
        {closes}
        deadline => Some(5000)"
    ));
    check_open(
        "
        hold =>
        pipelined 1:declare q + close => ?1:declare 'q'
        time 5000 =>
        answer => !closed 1; 1<declare-ok q 3 2; 0<close-ok
        deadline => Some(35000)",
    );
}
