//! Channels: opening, closing, numbering, and what belongs to none.

use crate::harness::{OPEN, check, check_open};

#[test]
fn channels_open_and_close() {
    check_open(
        "
        2:open => ?channel 2; 2<open-ok
        1:close => !closed 1; 1<close-ok
        1:open => ?channel 1; 1<open-ok
        status => 1: consumers=0 prefetch=0 unacked=0 unconfirmed=0 uncommitted=0+0; \
            2: consumers=0 prefetch=0 unacked=0 unconfirmed=0 uncommitted=0+0
        ",
    );
}

#[test]
fn a_channel_is_opened_once_and_before_its_use() {
    check_open(
        "1:open => !closed 1; 0<close 504 CHANNEL_ERROR - second 'channel.open' seen (20,10)",
    );
    let expected = "!closed 1; 0<close 504 CHANNEL_ERROR - expected 'channel.open'";
    for (said, ids) in [
        ("2:ack 1", "60,80"),
        ("2:close", "20,40"),
        ("2:close-ok", "20,41"),
        ("2:declare q", "50,10"),
        ("2:publish-method x k", "60,40"),
    ] {
        check_open(&format!("{said} => {expected} ({ids})"));
    }
    check_open(
        "
        1:close => !closed 1; 1<close-ok
        1:ack 1 => 0<close 504 CHANNEL_ERROR - expected 'channel.open' (60,80)
        ",
    );
}

#[test]
fn there_are_as_many_channels_as_were_negotiated() {
    let text = "number of channels opened (2) has reached the negotiated channel_max (2)";
    let open = OPEN.replace("tune-ok 16 8192 0", "tune-ok 2 8192 0");
    check(&format!(
        "{open}
        2:open => ?channel 2; 2<open-ok
        3:open => !closed 1; !closed 2; 0<close 530 NOT_ALLOWED - {text} (20,10)
        "
    ));
    let text = "channel 3 is above the negotiated channel_max (2)";
    check(&format!(
        "{open}\n 3:open => !closed 1; 0<close 504 CHANNEL_ERROR - {text} (20,10)"
    ));
    // A channel that is closing still counts.
    let text = "number of channels opened (2) has reached the negotiated channel_max (2)";
    check(&format!(
        "{open}
        2:open => ?channel 2; 2<open-ok
        1:ack 9 => !closed 1; 1<close 406 PRECONDITION_FAILED - unknown delivery tag 9 (60,80)
        3:open => !closed 2; 0<close 530 NOT_ALLOWED - {text} (20,10)
        "
    ));
}

#[test]
fn the_node_may_refuse_a_channel() {
    check_open(
        "
        fail connection too many =>
        2:open => ?channel 2; !closed 1; 0<close 530 NOT_ALLOWED - too many (20,10)
        ",
    );
}

#[test]
fn after_an_error_nothing_is_heard_until_the_client_agrees() {
    check_open(
        "
        1:declare q => ?1:declare 'q'; 1<declare-ok q 3 2
        1:ack 1 => !closed 1; 1<close 406 PRECONDITION_FAILED - unknown delivery tag 1 (60,80)
        1:ack 1 =>
        1:declare q =>
        1:publish x k body =>
        1:body stray =>
        1:open =>
        status =>
        1:close-ok =>
        1:open => ?channel 1; 1<open-ok
        1:purge '' => !closed 1; 1<close 404 NOT_FOUND - no previously declared queue (50,30)
        ",
    );
}

#[test]
fn both_sides_may_close_at_once() {
    check_open(
        "
        1:ack 1 => !closed 1; 1<close 406 PRECONDITION_FAILED - unknown delivery tag 1 (60,80)
        1:close => 1<close-ok
        1:declare q =>
        1:close-ok =>
        1:open => ?channel 1; 1<open-ok
        ",
    );
}

#[test]
fn an_error_of_one_channel_is_no_error_of_another() {
    check_open(
        "
        2:open => ?channel 2; 2<open-ok
        1:ack 1 => !closed 1; 1<close 406 PRECONDITION_FAILED - unknown delivery tag 1 (60,80)
        2:declare q => ?2:declare 'q'; 2<declare-ok q 3 2
        ",
    );
}

#[test]
fn flow_and_access() {
    check_open(
        "
        1:flow on => 1<flow-ok active
        1:access => 1<request-ok 1
        1:flow-ok =>
        1:cancel-ok tag =>
        1:flow off => !closed 1; 0<close 540 NOT_IMPLEMENTED - active=false (20,20)
        ",
    );
}

#[test]
fn what_only_a_broker_says_is_not_for_a_client_to_say() {
    check_open(
        "1:deliver => !closed 1; 0<close 503 COMMAND_INVALID - unimplemented method (60,60)",
    );
    check_open(
        "1:close-ok => !closed 1; 0<close 503 COMMAND_INVALID - unimplemented method (20,41)",
    );
}

#[test]
fn declarations_are_asked_and_answered() {
    check_open(
        "
        1:exchange-declare x direct durable => ?1:exchange-declare x direct durable; 1<declare-ok
        1:exchange-declare x topic passive internal auto-delete \
            => ?1:exchange-declare x topic passive auto-delete internal; 1<declare-ok
        1:exchange-declare x direct nowait => ?1:exchange-declare x direct
        1:exchange-bind d s k => ?1:exchange-bind d s k; 1<bind-ok
        1:exchange-bind d s k nowait => ?1:exchange-bind d s k
        1:exchange-unbind d s k => ?1:exchange-unbind d s k; 1<unbind-ok
        1:exchange-unbind d s k nowait => ?1:exchange-unbind d s k
        1:exchange-delete x if-unused => ?1:exchange-delete x if-unused; 1<delete-ok
        1:exchange-delete x nowait => ?1:exchange-delete x
        1:declare q durable exclusive auto-delete \
            => ?1:declare 'q' durable exclusive auto-delete; 1<declare-ok q 3 2
        1:declare q passive => ?1:declare 'q' passive; 1<declare-ok q 3 2
        1:declare q nowait => ?1:declare 'q'
        1:bind q x k => ?1:bind q x k; 1<bind-ok
        1:bind q x k nowait => ?1:bind q x k
        1:unbind q x k => ?1:unbind q x k; 1<unbind-ok
        1:purge q => ?1:purge q; 1<purge-ok 5
        1:purge q nowait => ?1:purge q
        1:delete q if-unused if-empty => ?1:delete q if-unused if-empty; 1<delete-ok 5
        1:delete q nowait => ?1:delete q
        ",
    );
}

#[test]
fn an_empty_name_is_the_last_queue_declared_on_the_channel() {
    check_open(
        "
        1:declare '' => ?1:declare ''; 1<declare-ok amq.gen-1 3 2
        1:bind '' x k => ?1:bind amq.gen-1 x k; 1<bind-ok
        1:bind '' x '' => ?1:bind amq.gen-1 x amq.gen-1; 1<bind-ok
        1:unbind '' x '' => ?1:unbind amq.gen-1 x amq.gen-1; 1<unbind-ok
        1:declare q nowait => ?1:declare 'q'
        1:consume '' c => ?1:consume q c prefetch=0; 1<consume-ok c
        1:get '' => ?1:get q; 1<get-empty
        1:purge '' => ?1:purge q; 1<purge-ok 5
        1:delete '' => ?1:delete q; 1<delete-ok 5
        1:bind q x '' => ?1:bind q x ; 1<bind-ok
        2:open => ?channel 2; 2<open-ok
        2:get '' => !closed 2; 2<close 404 NOT_FOUND - no previously declared queue (60,70)
        ",
    );
    for (said, ids) in [
        ("1:bind '' x k", "50,20"),
        ("1:bind '' x ''", "50,20"),
        ("1:unbind '' x ''", "50,50"),
        ("1:consume '' c", "60,20"),
        ("1:delete ''", "50,40"),
    ] {
        let text = "no previously declared queue";
        check_open(&format!(
            "{said} => !closed 1; 1<close 404 NOT_FOUND - {text} ({ids})"
        ));
    }
}

#[test]
fn what_the_node_refuses_closes_what_it_says_and_names_the_method() {
    check_open(
        "
        fail channel no queue 'q' in vhost '/' =>
        1:declare q passive nowait \
            => ?1:declare 'q' passive; !closed 1; \
            1<close 404 NOT_FOUND - no queue 'q' in vhost '/' (50,10)
        1:close-ok =>
        1:open => ?channel 1; 1<open-ok
        fail channel no queue =>
        1:consume q c => ?1:consume q c prefetch=0; !closed 1; \
            1<close 404 NOT_FOUND - no queue (60,20)
        1:close-ok =>
        1:open => ?channel 1; 1<open-ok
        fail connection deprecated =>
        1:declare q => ?1:declare 'q'; !closed 1; 0<close 530 NOT_ALLOWED - deprecated (50,10)
        ",
    );
}

#[test]
fn nothing_is_looked_at_while_an_answer_is_owed() {
    check_open(
        "
        hold =>
        pipelined 1:declare q + 1:publish x k body + 1:declare r => ?1:declare 'q'
        suspended => true
        heartbeat =>
        answer => !1:publish #0 x/k body; ?1:declare 'r'; 1<declare-ok q 3 2; 1<declare-ok r 3 2
        suspended => false
        ",
    );
}

#[test]
fn an_answer_may_find_its_channel_closed() {
    check_open(
        "
        hold =>
        1:declare q => ?1:declare 'q'
        failed 1 channel gone => !closed 1; 1<close 404 NOT_FOUND - gone (0,0)
        answer =>
        1:close-ok =>
        1:open => ?channel 1; 1<open-ok
        hold =>
        1:consume q c => ?1:consume q c prefetch=0
        server-close shutdown => 0<close 530 NOT_ALLOWED - shutdown (0,0)
        answer =>
        close-ok => !closed 1
        state => Lingering
        ",
    );
}
