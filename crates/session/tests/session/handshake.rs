//! From the first octet to an open virtual host.

use crate::harness::{check, check_with};
use leveret_session::Settings;

#[test]
fn a_client_logs_in() {
    check(
        "
        state => Opening
        header => 0<start
        start-ok PLAIN => ?login PLAIN; 0<tune 2047 131072 60
        tune-ok 16 8192 30 =>
        state => Opening
        vhost / => ?vhost /; 0<open-ok
        state => Open
        ",
    );
}

#[test]
fn a_client_may_send_all_of_it_at_once() {
    check(
        "
        header => 0<start
        pipelined start-ok PLAIN + tune-ok 16 8192 30 + vhost / + 1:open \
            => ?login PLAIN; ?vhost /; ?channel 1; 0<tune 2047 131072 60; 0<open-ok; 1<open-ok
        ",
    );
}

#[test]
fn strangers_are_told_what_is_spoken_here() {
    let header = "0<header";
    let strangers = [
        (
            "raw 41 4D 51 50 00 01 00 00",
            "an AMQP 1.0 client on a port for AMQP 0-9-1",
        ),
        (
            "raw 41 4D 51 50 03 01 00 00",
            "an AMQP 1.0 client on a port for AMQP 0-9-1",
        ),
        (
            "raw 41 4D 51 50 00 00 08 00",
            "an AMQP client of version 0 0 8 0",
        ),
        ("raw 16 03 01 02 00", "a TLS client on a port without TLS"),
        ("text GET_/_HTTP/1.1", "an HTTP client on the AMQP port"),
        (
            "text hello",
            "a client that did not start with the AMQP protocol header",
        ),
        (
            "raw 00",
            "a client that did not start with the AMQP protocol header",
        ),
    ];
    for (said, guess) in strangers {
        check(&format!(
            "{said} => {header}\n state => Closed\n end => {guess}"
        ));
    }
    // The header of AMQP 0-9 is as good.
    check("raw 41 4D 51 50 01 01 00 09 => 0<start");
}

#[test]
fn a_login_may_take_more_than_one_round() {
    check(
        "
        header => 0<start
        challenge who =>
        start-ok PLAIN => ?login PLAIN; 0<secure who
        challenge again =>
        secure-ok me => ?login PLAIN; 0<secure again
        secure-ok really => ?login PLAIN; 0<tune 2047 131072 60
        ",
    );
}

#[test]
fn a_refused_login_is_told_to_those_who_understand_it() {
    check(
        "
        header => 0<start
        refuse =>
        start-ok PLAIN close => ?login PLAIN; 0<close 403 ACCESS_REFUSED - refused (0,0)
        state => Closing
        close-ok =>
        state => Lingering
        tick 10999 =>
        state => Lingering
        tick 11000 =>
        state => Closed
        ",
    );
    check(
        "
        header => 0<start
        refuse =>
        start-ok PLAIN => ?login PLAIN
        state => Closed
        end => refused
        ",
    );
}

#[test]
fn a_mechanism_that_is_not_offered_is_no_mechanism() {
    check(
        "
        header => 0<start
        start-ok EXTERNAL => \
            0<close 503 COMMAND_INVALID - unknown authentication mechanism 'EXTERNAL' (10,11)
        ",
    );
    // A part of the list is not an item of it.
    check(
        "
        header => 0<start
        start-ok AMQ => 0<close 503 COMMAND_INVALID - unknown authentication mechanism 'AMQ' (10,11)
        ",
    );
    let settings = Settings {
        mechanisms: "EXTERNAL".to_owned(),
        ..Settings::default()
    };
    check_with(
        &settings,
        "header => 0<start\n start-ok EXTERNAL => ?login EXTERNAL; 0<tune 2047 131072 60",
    );
}

const LOGGED_IN: &str = "
    header => 0<start
    start-ok PLAIN => ?login PLAIN; 0<tune 2047 131072 60";

#[test]
fn what_is_negotiated_lies_within_bounds() {
    let refused = |what: &str, text: &str| {
        check(&format!(
            "{LOGGED_IN}\n{what} => 0<close 530 NOT_ALLOWED - negotiated {text} (10,30)"
        ));
    };
    let accepted = |what: &str| {
        check(&format!(
            "{LOGGED_IN}\n{what} =>\n vhost / => ?vhost /; 0<open-ok"
        ));
    };
    accepted("tune-ok 1 4096 0");
    accepted("tune-ok 2047 131072 65535");
    refused(
        "tune-ok 1 4095 0",
        "frame_max = 4095 is lower than the minimum allowed value (4096)",
    );
    refused(
        "tune-ok 1 1 0",
        "frame_max = 1 is lower than the minimum allowed value (4096)",
    );
    refused(
        "tune-ok 1 131073 0",
        "frame_max = 131073 is higher than the maximum allowed value (131072)",
    );
    refused(
        "tune-ok 1 4294967295 0",
        "frame_max = 4294967295 is higher than the maximum allowed value (131072)",
    );
    refused(
        "tune-ok 1 0 0",
        "frame_max = 0 (no limit) is higher than the maximum allowed value (131072)",
    );
    refused(
        "tune-ok 0 4096 0",
        "channel_max = 0 (no limit) is higher than the maximum allowed value (2047)",
    );
    refused(
        "tune-ok 2048 4096 0",
        "channel_max = 2048 is higher than the maximum allowed value (2047)",
    );
}

/// With `channel_max = 0` the client has as many channels as it asks for.
#[test]
fn the_number_of_channels_may_be_the_clients_choice() {
    let settings = Settings {
        channel_max: 0,
        ..Settings::default()
    };
    let above = "5001:open => !closed 5000; 0<close 504 CHANNEL_ERROR - \
        channel 5001 is above the negotiated channel_max (5000) (20,10)";
    for (chosen, highest, beyond) in [
        ("5000", 5_000, above),
        ("65535", 65_535, ""),
        ("0", 65_535, ""),
    ] {
        check_with(
            &settings,
            &format!(
                "
                header => 0<start
                start-ok PLAIN => ?login PLAIN; 0<tune 0 131072 60
                tune-ok {chosen} 8192 0 =>
                vhost / => ?vhost /; 0<open-ok
                {highest}:open => ?channel {highest}; {highest}<open-ok
                {beyond}
                "
            ),
        );
    }
}

#[test]
fn a_virtual_host_may_be_refused() {
    check(&format!(
        "{LOGGED_IN}
        tune-ok 16 8192 0 =>
        fail connection vhost nowhere not found =>
        vhost nowhere => ?vhost nowhere; 0<close 530 NOT_ALLOWED - vhost nowhere not found (10,40)
        state => Closing
        "
    ));
}

#[test]
fn methods_come_in_their_order() {
    let early = |said: &str, state: &str, ids: &str| {
        let text =
            format!("504 CHANNEL_ERROR - unexpected method in connection state {state} ({ids})");
        format!("{said} => 0<close {text}")
    };
    check(&format!(
        "header => 0<start\n{}",
        early("vhost /", "starting", "10,40")
    ));
    check(&format!(
        "header => 0<start\n{}",
        early("tune-ok 1 4096 0", "starting", "10,31")
    ));
    check(&format!(
        "header => 0<start\n{}",
        early("close", "starting", "10,50")
    ));
    check(&format!(
        "{LOGGED_IN}\n{}",
        early("vhost /", "tuning", "10,40")
    ));
    check(&format!(
        "{LOGGED_IN}\n{}",
        early("start-ok PLAIN", "tuning", "10,11")
    ));
    let tuned = format!("{LOGGED_IN}\n tune-ok 16 8192 0 =>");
    check(&format!(
        "{tuned}\n{}",
        early("tune-ok 16 8192 0", "opening", "10,31")
    ));
    check(&format!(
        "{tuned}\n{}",
        early("update-secret s", "opening", "10,70")
    ));
    let open = format!("{tuned}\n vhost / => ?vhost /; 0<open-ok");
    check(&format!("{open}\n{}", early("vhost /", "running", "10,40")));
    check(&format!("{open}\n{}", early("0:open", "running", "20,10")));
    check(&format!("{open}\n{}", early("0:ack 1", "running", "60,80")));
    check(&format!(
        "{open}\n{}",
        early("close-ok", "running", "10,51")
    ));
}

#[test]
fn a_mistake_before_the_virtual_host_is_open_gives_no_more_time_than_the_handshake_has() {
    check(
        "
        header => 0<start
        tick 4000 =>
        vhost / => 0<close 504 CHANNEL_ERROR - \
            unexpected method in connection state starting (10,40)
        tick 10999 =>
        state => Closing
        tick 11000 =>
        state => Closed
        ",
    );
}

#[test]
fn channels_wait_for_the_virtual_host() {
    let frame = "type 1, first 16 octets = <<0,20,0,10,0>>";
    let refused = frame.replace("first 16", "all");
    check(&format!(
        "header => 0<start\n 1:open => 0<close 505 UNEXPECTED_FRAME - {refused} (0,0)"
    ));
}

#[test]
fn a_client_may_give_up_before_the_end() {
    check(&format!(
        "{LOGGED_IN}\n close => 0<close-ok\n state => Lingering\n end => closed by the client"
    ));
}

#[test]
fn a_secret_is_renewed() {
    let open = format!("{LOGGED_IN}\n tune-ok 16 8192 0 =>\n vhost / => ?vhost /; 0<open-ok");
    check(&format!(
        "{open}
        update-secret new => ?secret new r; 0<update-secret-ok
        fail connection New secret was refused by one of the backends =>
        update-secret bad => ?secret bad r; \
            0<close 530 NOT_ALLOWED - New secret was refused by one of the backends (10,70)
        "
    ));
}

#[test]
fn a_connection_knows_its_user() {
    check(
        "
        user =>
        header => 0<start
        start-ok PLAIN => ?login PLAIN; 0<tune 2047 131072 60
        user => guest
        ",
    );
}
