//! Heartbeats and patience. Conversations begin at 1,000 ms.

use crate::harness::{OPEN, check, check_open};

#[test]
fn a_handshake_has_ten_seconds() {
    check(
        "
        deadline => Some(11000)
        tick 10999 =>
        header => 0<start
        state => Opening
        tick 11000 =>
        state => Closed
        end => the client did not open a virtual host in time
        ",
    );
    // One octet a second is no progress.
    check(
        "
        time 9000 =>
        raw 41 =>
        deadline => Some(11000)
        tick 11000 =>
        state => Closed
        ",
    );
    check(&format!(
        "{OPEN}\n deadline => None\n tick 100000 =>\n state => Open"
    ));
}

fn with_heartbeat(seconds: u16) -> String {
    OPEN.replace("tune-ok 16 8192 0", &format!("tune-ok 16 8192 {seconds}"))
}

#[test]
fn a_client_is_dropped_after_two_heartbeats_of_silence() {
    check(&format!(
        "{}
        time 5000 =>
        heartbeat =>
        tick 24999 =>
        state => Open
        tick 25000 => !closed 1
        state => Closed
        end => missed heartbeats from the client
        ",
        with_heartbeat(10)
    ));
    // Whatever the client says shows that it lives.
    check(&format!(
        "{}
        time 20000 =>
        1:declare q => ?1:declare 'q'; 1<declare-ok q 3 2
        tick 39999 =>
        state => Open
        tick 40000 => !closed 1
        ",
        with_heartbeat(10)
    ));
}

#[test]
fn heartbeats_overtake_answers_that_wait_for_the_log() {
    check(&format!(
        "{}
        barrier =>
        1:declare q => ?1:declare 'q'
        tick 11000 => 0<heartbeat
        heartbeat =>
        tick 16000 => 0<heartbeat
        lift => 1<declare-ok q 3 2
        ",
        with_heartbeat(10)
    ));
}

#[test]
fn heartbeats_go_out_at_half_the_interval_when_nothing_else_does() {
    check(&format!(
        "{}
        deadline => Some(6000)
        tick 5999 =>
        tick 6000 =>
        deadline => Some(11000)
        tick 11000 => 0<heartbeat
        heartbeat =>
        tick 16000 => 0<heartbeat
        1:declare q => ?1:declare 'q'; 1<declare-ok q 3 2
        tick 21000 =>
        tick 26000 => 0<heartbeat
        ",
        with_heartbeat(10)
    ));
}

#[test]
fn no_heartbeats_where_none_were_agreed() {
    check(&format!(
        "{OPEN}\n deadline => None\n tick 1000000 =>\n state => Open"
    ));
}

#[test]
fn a_client_that_is_not_read_cannot_miss_heartbeats() {
    check(&format!(
        "{}
        1:publish x k body => !1:publish #0 x/k body
        blocked memory => 0<blocked memory
        blocked memory =>
        1:publish x k late =>
        tick 100000 =>
        state => Open
        deadline => Some(105000)
        unblocked => !1:publish #0 x/k late; 0<unblocked
        unblocked =>
        deadline => Some(100000)
        tick 100001 =>
        tick 120000 =>
        state => Open
        tick 120001 => !closed 1
        ",
        with_heartbeat(10)
    ));
    // The same while the node owes an answer.
    check(&format!(
        "{}
        hold =>
        1:declare q => ?1:declare 'q'
        tick 100000 =>
        state => Open
        answer => 1<declare-ok q 3 2
        tick 100001 =>
        state => Open
        tick 120001 => !closed 1
        ",
        with_heartbeat(10)
    ));
}

#[test]
fn blocking_is_told_to_those_who_understand_it() {
    let unable = OPEN.replace(" close notify blocked", "");
    check(&format!("{unable}\n blocked memory =>\n unblocked =>"));
}

#[test]
fn an_alarm_holds_publishes_back_and_nothing_before_them() {
    check_open(
        "
        1:publish x k one => !1:publish #0 x/k one
        blocked memory => 0<blocked memory
        held => false
        1:get q => ?1:get q; 1<get-empty
        pipelined 1:declare q + 1:publish x k two + 1:get q => ?1:declare 'q'; 1<declare-ok q 3 2
        held => true
        1:cancel c =>
        unblocked => !1:publish #0 x/k two; ?1:get q; 0<unblocked; 1<get-empty; 1<cancel-ok c
        held => false
        ",
    );
    // Who has not published is told with its first publish.
    check_open(
        "
        blocked disk =>
        1:consume q c => ?1:consume q c prefetch=0; 1<consume-ok c
        deliver 1 c 10 => true; 1<deliver c 1 x/k body
        1:ack 1 => !1:accept 10
        1:publish x k one => 0<blocked disk
        blocked disk =>
        held => true
        1:publish x k two =>
        unblocked => !1:publish #0 x/k one; !1:publish #0 x/k two; 0<unblocked
        ",
    );
    // A connection that the broker closes is heard all the same.
    check_open(
        "
        blocked disk =>
        1:publish x k one => 0<blocked disk
        server-close shutdown => 0<close 530 NOT_ALLOWED - shutdown (0,0)
        close-ok => !closed 1
        state => Lingering
        ",
    );
    // So it is where another alarm comes, and it publishes on a channel that is not known.
    check_open(
        "
        server-close shutdown => 0<close 530 NOT_ALLOWED - shutdown (0,0)
        blocked disk =>
        1:publish x k late =>
        2:open =>
        2:publish x k late =>
        held => false
        close-ok => !closed 1
        state => Lingering
        ",
    );
}

#[test]
fn an_alarm_does_not_excuse_silence_of_a_client_that_is_read() {
    check(&format!(
        "{}
        1:publish x k body => !1:publish #0 x/k body
        blocked memory => 0<blocked memory
        tick 20999 =>
        state => Open
        tick 21000 => !closed 1
        end => missed heartbeats from the client
        ",
        with_heartbeat(10)
    ));
}

#[test]
fn a_client_that_is_silent_is_dropped_with_what_it_does_not_take() {
    check(&format!(
        "{}
        stuck 21000 => 0 unsent; !closed 1
        state => Closed
        ",
        with_heartbeat(10)
    ));
}

#[test]
fn a_delivery_is_heartbeat_enough() {
    check(&format!(
        "{}
        1:consume q c => ?1:consume q c prefetch=0; 1<consume-ok c
        tick 6000 =>
        heartbeat =>
        deliver 1 c 1 => true; 1<deliver c 1 x/k body
        tick 11000 =>
        heartbeat =>
        tick 16000 => 0<heartbeat
        ",
        with_heartbeat(10)
    ));
}

#[test]
fn silence_counts_from_when_the_virtual_host_is_open() {
    check(
        "
        header => 0<start
        start-ok PLAIN close notify blocked => ?login PLAIN; 0<tune 2047 131072 60
        tune-ok 16 8192 2 =>
        hold =>
        vhost / => ?vhost /
        time 9000 =>
        answer => 0<open-ok
        tick 12999 =>
        state => Open
        tick 13000 =>
        state => Closed",
    );
}

#[test]
fn who_is_dropped_for_its_silence_hears_no_more() {
    check(&format!(
        "{}
        tick 6000 =>
        tick 11000 => 0<heartbeat
        tick 21000 => !closed 1",
        with_heartbeat(10)
    ));
}
