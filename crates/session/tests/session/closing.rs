//! The end of a connection.

use crate::harness::{check, check_open};

#[test]
fn a_client_closes() {
    check_open(
        "
        3:open => ?channel 3; 3<open-ok
        2:open => ?channel 2; 2<open-ok
        close => !closed 1; !closed 2; !closed 3; 0<close-ok
        state => Closed
        end => closed by the client
        1:open =>
        teardown =>
        ",
    );
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
        state => Closed
        deadline => None
        end => NOT_ALLOWED (530): shutdown
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
        state => Closed
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
