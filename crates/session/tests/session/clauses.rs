//! What single clauses are there for: the last octet that counts and the first that does not, and
//! what differs in one thing alone from what other conversations have.

use crate::harness::{OPEN, check, check_open};

const LOGGED_IN: &str = "
    header => 0<start
    start-ok PLAIN close notify blocked => ?login PLAIN; 0<tune 2047 131072 60";

const CLOSES: &str = "server-close bye => 0<close 530 NOT_ALLOWED - bye (0,0)";

#[test]
fn whoever_refuses_a_method_is_told_to_name_it() {
    for (said, pending_request, ids) in [
        (
            "exchange-declare x direct",
            "exchange-declare x direct",
            "40,10",
        ),
        ("exchange-delete x", "exchange-delete x", "40,20"),
        ("exchange-bind d s k", "exchange-bind d s k", "40,30"),
        ("exchange-unbind d s k", "exchange-unbind d s k", "40,40"),
        ("declare q", "declare 'q'", "50,10"),
        ("bind q x k", "bind q x k", "50,20"),
        ("purge q", "purge q", "50,30"),
        ("delete q", "delete q", "50,40"),
        ("unbind q x k", "unbind q x k", "50,50"),
        ("consume q d", "consume q d prefetch=0", "60,20"),
        ("cancel c", "cancel", "60,30"),
        ("get q", "get q", "60,70"),
    ] {
        check_open(&format!(
            "1:consume q c => ?1:consume q c prefetch=0; 1<consume-ok c
            fail channel no =>
            1:{said} => ?1:{pending_request}; !closed 1; 1<close 404 NOT_FOUND - no ({ids})"
        ));
    }
}

#[test]
fn an_answer_that_comes_behind_the_brokers_close_is_not_told() {
    let pending_request = [
        ("2:open", "?channel 2"),
        ("update-secret s", "?secret s r"),
        ("1:get q", "?1:get q"),
        // What was wrong behind a publish of which nothing is known yet.
        (
            "pipelined 1:publish x k body + 1:flow",
            "!1:publish #0 x/k body",
        ),
    ];
    for (said, came) in pending_request {
        check_open(&format!(
            "hold =>
            {said} => {came}
            {CLOSES}
            answer =>
            state => Closing
            close-ok => !closed 1
            state => Lingering"
        ));
    }
    let tuned = format!("{LOGGED_IN}\n tune-ok 16 8192 0 =>");
    for (before, said, came) in [
        ("header => 0<start", "start-ok PLAIN close", "?login PLAIN"),
        (tuned.as_str(), "vhost /", "?vhost /"),
    ] {
        check(&format!(
            "{before}
            hold =>
            {said} => {came}
            {CLOSES}
            answer =>
            state => Closing"
        ));
    }
}

#[test]
fn a_client_may_give_up_at_any_step_of_its_login() {
    let securing = "
        header => 0<start
        challenge who =>
        start-ok PLAIN => ?login PLAIN; 0<secure who";
    let opening = format!("{LOGGED_IN}\n tune-ok 16 8192 0 =>");
    for before in [securing, LOGGED_IN, &opening] {
        check(&format!(
            "{before}
            close => 0<close-ok
            state => Lingering
            end => closed by the client"
        ));
    }
    let text = "unexpected method in connection state securing (10,40)";
    check(&format!(
        "{securing}\n vhost / => 0<close 504 CHANNEL_ERROR - {text}"
    ));
}

#[test]
fn sixteen_octets_of_a_frame_are_all_and_one_more_is_not() {
    let octets = "97,98,99,100,101,102,103,104,105,106,107,108,109,110,111,112";
    for (body, which) in [
        ("abcdefghijklmnop", "all"),
        ("abcdefghijklmnopq", "first 16"),
    ] {
        check_open(&format!(
            "0:body {body} => !closed 1; \
                0<close 505 UNEXPECTED_FRAME - type 3, {which} octets = <<{octets}>> (0,0)"
        ));
    }
}

/// An alarm holds back what begins a publish, not content of one that has begun before.
#[test]
fn a_body_that_reads_like_a_publish_is_not_held_back_by_an_alarm() {
    check_open(
        "
        1:publish-method x k =>
        1:content 4 =>
        blocked memory =>
        raw 03 00 01 00 00 00 04 00 3c 00 28 ce => !1:publish #0 x/k \u{0}<\u{0}(
        held => false
        1:publish x k body => 0<blocked memory
        held => true
        ",
    );
}

#[test]
fn settles_are_not_moved_past_what_was_said_between_them() {
    let two = "
        1:consume q c => ?1:consume q c prefetch=0; 1<consume-ok c
        deliver 1 c 10 => true; 1<deliver c 1 x/k body
        deliver 1 c 11 => true; 1<deliver c 2 x/k body";
    check_open(&format!(
        "{two}
        pipelined 1:ack 1 + 1:publish x k a + 1:ack 2 \
            => !1:accept 10; !1:publish #0 x/k a; !1:accept 11"
    ));
}

/// Its consumers went with it: what a queue sent them meanwhile is nobody's on the new channel.
#[test]
fn a_channel_that_is_opened_again_has_no_consumers_of_the_one_before() {
    let consuming = "1:consume q c => ?1:consume q c prefetch=0; 1<consume-ok c";
    for closes in [
        "1:close => !closed 1; 1<close-ok",
        "1:ack 9 => !closed 1; 1<close 406 PRECONDITION_FAILED - unknown delivery tag 9 (60,80)
        1:close-ok =>",
    ] {
        check_open(&format!(
            "{consuming}
            {closes}
            1:open => ?channel 1; 1<open-ok
            deliver 1 c 10 => false
            cancelled 1 c =>
            1:cancel c => 1<cancel-ok c
            {consuming}
            deliver 1 c 11 => true; 1<deliver c 1 x/k body"
        ));
    }
}

#[test]
fn what_asks_for_all_back_without_an_answer_does_not_wait_for_what_comes_of_publishes() {
    check_open(
        "
        1:consume q c => ?1:consume q c prefetch=0; 1<consume-ok c
        deliver 1 c 10 => true; 1<deliver c 1 x/k body
        hold =>
        pipelined 1:publish x k a + 1:recover-async requeue \
            => !1:publish #0 x/k a; !1:requeue 10
        suspended => false
        ",
    );
}

#[test]
fn what_a_transaction_does_is_counted_when_it_is_said() {
    check_open(
        "
        1:tx => 1<select-ok
        1:consume q c => ?1:consume q c prefetch=0; 1<consume-ok c
        deliver 1 c 10 => true; 1<deliver c 1 x/k body
        deliver 1 c 11 => true; 1<deliver c 2 x/k body
        1:ack 1 =>
        1:nack 2 requeue =>
        counted => delivered=2 acknowledged=1
        1:publish x k one => !1:check #0 x/k one
        counted => published=1 delivered=2 acknowledged=1
        1:rollback => 1<rollback-ok
        1:recover requeue => !1:requeue 10-11; 1<recover-ok
        counted => published=1 delivered=2 acknowledged=1
        ",
    );
}

#[test]
fn to_choose_again_how_a_channel_publishes_loses_nothing() {
    let idle = "1: consumers=0 prefetch=0 unacked=0";
    check_open(&format!(
        "1:tx => 1<select-ok
        1:publish x k one => !1:check #0 x/k one
        1:tx => 1<select-ok
        status => {idle} unconfirmed=0 uncommitted=1+0 tx
        1:commit => !1:publish #0 x/k one; ?1:commit; 1<commit-ok"
    ));
    check_open(&format!(
        "1:confirm => 1<select-ok
        1:publish x k a => !1:publish #1 x/k a
        1:confirm => 1<select-ok
        1:publish x k b => !1:publish #2 x/k b
        status => {idle} unconfirmed=2 uncommitted=0+0 confirm
        accepted 1 1 & accepted 1 2 => 1<ack 2 multiple"
    ));
}

#[test]
fn what_was_refused_is_counted_apart_from_what_was_confirmed() {
    check_open(
        "
        1:confirm => 1<select-ok
        answered => 0 confirmed, 0 refused
        pipelined 1:publish x k a + 1:publish x k b + 1:publish x k c \
            => !1:publish #1 x/k a; !1:publish #2 x/k b; !1:publish #3 x/k c
        accepted 1 1 0@1 =>
        accepted 1 2 0@1 =>
        answered => 0 confirmed, 0 refused
        rejected 1 3 => 1<nack 3
        answered => 0 confirmed, 1 refused
        durable 0 1 => 1<ack 1; 1<ack 2
        answered => 2 confirmed, 0 refused
        answered => 0 confirmed, 0 refused
        ",
    );
}

/// Whatever listings and the node ask a session for.
#[test]
fn a_session_tells_who_is_there_and_what_was_agreed() {
    let open = OPEN.replace("tune-ok 16 8192 0", "tune-ok 16 65536 30");
    let who = "AMQP 0-9-1 user=guest vhost=/ name=test frame=65536 channels=16 heartbeat=30";
    check(&format!(
        "who => AMQP 0-9-1 user= vhost= name= frame=8192 channels=0 heartbeat=0 unsent=false \
            cancels=false alarm=false
        {open}
        who => {who} unsent=false cancels=true alarm=false
        blocked disk =>
        who => {who} unsent=false cancels=true alarm=true
        unblocked =>
        returned 1 & who => {who} unsent=true cancels=true alarm=false; \
            1<return 312 NO_ROUTE x/k body"
    ));
    let unable = OPEN.replace(" close notify blocked", " close blocked");
    check(&format!(
        "{unable}
        who => AMQP 0-9-1 user=guest vhost=/ name=test frame=8192 channels=16 heartbeat=0 \
            unsent=false cancels=false alarm=false"
    ));
}

#[test]
fn octets_that_wait_in_the_socket_are_a_sign_of_life_of_when_they_came() {
    let open = OPEN.replace("tune-ok 16 8192 0", "tune-ok 16 8192 10");
    check(&format!(
        "{open}
        unread 15000 =>
        unread 9000 =>
        tick 34999 =>
        state => Open
        tick 35000 => !closed 1
        end => missed heartbeats from the client"
    ));
}

#[test]
fn a_client_is_asked_for_a_sign_of_life_with_or_without_heartbeats() {
    check_open(&format!(
        "beat => 0<heartbeat
        barrier =>
        1:declare q => ?1:declare 'q'
        beat => 0<heartbeat
        lift => 1<declare-ok q 3 2
        {CLOSES}
        beat =>"
    ));
    check("header => 0<start\n beat =>");
    let open = OPEN.replace("tune-ok 16 8192 0", "tune-ok 16 8192 10");
    check(&format!(
        "{open}
        tick 6000 =>
        beat => 0<heartbeat
        tick 11000 =>
        heartbeat =>
        tick 16000 => 0<heartbeat"
    ));
}
