//! Consumers, deliveries and what becomes of them.

use crate::harness::{OPEN, check, check_open, check_with};
use leveret_session::Settings;
use leveret_types::limits::UNACKED_SCANNED_MAX;

const CONSUMING: &str = "1:consume q c => ?1:consume q c prefetch=0; 1<consume-ok c";

fn check_consuming(script: &str) {
    check_open(&format!("{CONSUMING}\n{script}"));
}

#[test]
fn a_consumer_gets_deliveries_until_it_is_cancelled() {
    check_open(
        "
        deliver 1 c 10 => false
        1:consume q c exclusive => ?1:consume q c prefetch=0 exclusive; 1<consume-ok c
        deliver 1 c 10 => true; 1<deliver c 1 x/k body
        deliver 1 c 11 redelivered => true; 1<deliver c 2 redelivered x/k body
        1:cancel c => ?1:cancel; 1<cancel-ok c
        deliver 1 c 12 => false
        1:ack 2 multiple => !1:accept 10-11
        1:cancel c => 1<cancel-ok c
        1:cancel unknown nowait =>
        1:consume q c nowait => ?1:consume q c prefetch=0
        1:cancel c nowait => ?1:cancel
        ",
    );
}

#[test]
fn an_acknowledgement_took_from_the_delivery_to_it_and_what_goes_back_counts_as_none() {
    check_consuming(
        "
        now 2000 & deliver 1 c 10 => true; 1<deliver c 1 x/k body
        now 2005 & deliver 1 c 11 => true; 1<deliver c 2 x/k body
        deliver 1 c 12 => true; 1<deliver c 3 x/k body
        deliver 1 c 13 => true; 1<deliver c 4 x/k body
        time 2010 & 1:ack 2 multiple => !1:accept 10-11
        latencies => acknowledged 2 in 15 ms
        1:nack 3 requeue => !1:requeue 12
        latencies =>
        get-has 14 4 =>
        time 2020 & 1:get q => ?1:get q; 1<get-ok 5 x/k left=4 body
        time 2120 & 1:ack 5 => !1:accept 14
        latencies => acknowledged 1 in 100 ms
        ",
    );
}

#[test]
fn when_each_consumer_was_given_the_oldest_that_it_holds_is_known() {
    check_consuming(
        "
        1:consume q d => ?1:consume q d prefetch=0; 1<consume-ok d
        1:consume q e => ?1:consume q e prefetch=0; 1<consume-ok e
        oldest 1 c d e =>
        get-has 9 4 =>
        time 1500 & 1:get q => ?1:get q; 1<get-ok 1 x/k left=4 body
        now 2000 & deliver 1 c 10 => true; 1<deliver c 2 x/k body
        now 3000 & deliver 1 d 11 => true; 1<deliver d 3 x/k body
        deliver 1 c 12 => true; 1<deliver c 4 x/k body
        now 9000 & oldest 1 c d e => c 2000; d 3000
        1:ack 2 => !1:accept 10
        oldest 1 c d e => c 3000; d 3000
        1:cancel d => ?1:cancel; 1<cancel-ok d
        oldest 1 c d e => c 3000
        1:ack 4 multiple => !1:accept 9; !1:accept 11; !1:accept 12
        oldest 1 c d e =>
        ",
    );
}

#[test]
fn what_a_client_holds_is_looked_for_on_the_channels_that_are_named() {
    check_consuming(
        "
        2:open => ?channel 2; 2<open-ok
        2:consume q c => ?2:consume q c prefetch=0; 2<consume-ok c
        deliver 1 c 10 => true; 1<deliver c 1 x/k body
        deliver 1 c 11 => true; 1<deliver c 2 x/k body
        deliver 2 c 12 => true; 2<deliver c 1 x/k body
        held 1 c/11 c/12 => 1:2=11
        held 2 c/11 c/12 => 2:1=12
        held 1,2 c/10 c/12 => 1:1=10; 2:1=12
        held 3 c/10 =>
        1:ack 1 => !1:accept 10
        held 1,2 c/10 c/12 => 2:1=12
        ",
    );
}

#[test]
fn of_very_many_deliveries_the_first_of_each_channel_are_looked_at() {
    let mut script = format!("{OPEN}\n{CONSUMING}\n");
    let half = UNACKED_SCANNED_MAX / 2;
    for tag in 1..=half + 1 {
        script += &format!("deliver 1 c {tag} => true; 1<deliver c {tag} x/k body\n");
    }
    let next = half + 1;
    script += &format!("held 1 c/{next} => 1:{next}={next}\n");
    script += &format!("held 1,2 c/{half} c/{next} => 1:{half}={half}\n");
    check(&script);
}

#[test]
fn a_tag_is_generated_where_none_is_given_and_unique_where_it_is() {
    check_open(
        "
        1:consume q '' => ?1:consume q amq.ctag-3e8-1-1 prefetch=0; 1<consume-ok amq.ctag-3e8-1-1
        1:consume q amq.ctag-3e8-1-2 => ?1:consume q amq.ctag-3e8-1-2 prefetch=0; \
            1<consume-ok amq.ctag-3e8-1-2
        1:consume q '' => ?1:consume q amq.ctag-3e8-1-3 prefetch=0; 1<consume-ok amq.ctag-3e8-1-3
        2:open => ?channel 2; 2<open-ok
        2:consume q amq.ctag-3e8-1-1 => ?2:consume q amq.ctag-3e8-1-1 prefetch=0; \
            2<consume-ok amq.ctag-3e8-1-1
        1:consume q amq.ctag-3e8-1-1 => !closed 1; !closed 2; \
            0<close 530 NOT_ALLOWED - attempt to reuse consumer tag 'amq.ctag-3e8-1-1' (60,20)
        ",
    );
}

#[test]
fn a_channel_has_a_largest_number_of_consumers() {
    let settings = Settings {
        consumers_per_channel_max: 1,
        ..Settings::default()
    };
    let text = "reached maximum (1) of consumers per channel (60,20)";
    check_with(
        &settings,
        &format!(
            "{OPEN}
            {CONSUMING}
            1:cancel c => ?1:cancel; 1<cancel-ok c
            1:consume q d => ?1:consume q d prefetch=0; 1<consume-ok d
            1:consume q e => !closed 1; 0<close 530 NOT_ALLOWED - {text}
            "
        ),
    );
}

#[test]
fn prefetch_is_for_consumers_to_come_or_for_all_together() {
    check_open(
        "
        1:qos 0 10 => 1<qos-ok
        1:consume q a => ?1:consume q a prefetch=10; 1<consume-ok a
        1:qos 0 65535 => 1<qos-ok
        1:consume q b => ?1:consume q b prefetch=65535; 1<consume-ok b
        1:qos 0 7 global => !1:prefetch 7; 1<qos-ok
        1:consume q c => ?1:consume q c prefetch=65535; 1<consume-ok c
        1:qos 0 5 => !1:prefetch 0; 1<qos-ok
        1:qos 0 5 => 1<qos-ok
        1:qos 0 0 global => !1:prefetch 0; 1<qos-ok
        status => 1: consumers=3 prefetch=5 unacked=0 unconfirmed=0 uncommitted=0+0
        1:qos 1 5 => !closed 1; 0<close 540 NOT_IMPLEMENTED - prefetch_size!=0 (1) (60,10)
        ",
    );
}

#[test]
fn deliveries_are_settled_alone_and_together() {
    let four = "
        deliver 1 c 10 => true; 1<deliver c 1 x/k body
        deliver 1 c 11 => true; 1<deliver c 2 x/k body
        deliver 1 c 12 => true; 1<deliver c 3 x/k body
        deliver 1 c 20 => true; 1<deliver c 4 x/k body";
    let cases = [
        ("1:ack 1", "!1:accept 10"),
        ("1:ack 2 multiple", "!1:accept 10-11"),
        ("1:ack 4 multiple", "!1:accept 10-12; !1:accept 20"),
        ("1:ack 0 multiple", "!1:accept 10-12; !1:accept 20"),
        ("1:nack 2 multiple requeue", "!1:requeue 10-11"),
        ("1:nack 3", "!1:reject 12"),
        ("1:nack 0 multiple", "!1:reject 10-12; !1:reject 20"),
        ("1:reject 3 requeue", "!1:requeue-rejected 12"),
        ("1:reject 1", "!1:reject 10"),
        (
            "1:recover requeue",
            "!1:requeue 10-12; !1:requeue 20; 1<recover-ok",
        ),
        ("1:recover-async requeue", "!1:requeue 10-12; !1:requeue 20"),
        // Neighbours that are settled one by one are merged in one batch, in whatever order holes
        // are left.
        ("pipelined 1:ack 1 + 1:ack 2 + 1:ack 3", "!1:accept 10-12"),
        (
            "pipelined 1:ack 2 + 1:ack 4 + 1:ack 3",
            "!1:accept 11-12; !1:accept 20",
        ),
        (
            "pipelined 1:ack 1 + 1:nack 2 + 1:ack 3",
            "!1:accept 10; !1:reject 11; !1:accept 12",
        ),
        (
            "pipelined 1:ack 2 + 1:ack 3 multiple",
            "!1:accept 11-12; !1:accept 10",
        ),
    ];
    for (said, came) in cases {
        check_consuming(&format!("{four}\n{said} => {came}"));
    }
}

/// What the management's pages and monitoring make rates of.
#[test]
fn what_happens_to_the_messages_of_a_channel_is_counted() {
    check_open(
        "
        1:consume q c => ?1:consume q c prefetch=0; 1<consume-ok c
        1:consume q auto noack => ?1:consume q auto prefetch=0 noack; 1<consume-ok auto
        counted =>
        deliver 1 c 10 => true; 1<deliver c 1 x/k body
        deliver 1 c 11 redelivered => true; 1<deliver c 2 redelivered x/k body
        counted => delivered=2 redelivered=1
        deliver 1 auto 12 => true; 1<deliver auto 3 x/k body
        counted => delivered=2 delivered-auto-ack=1 redelivered=1
        1:ack 1 => !1:accept 10
        1:nack 2 requeue => !1:requeue 11
        counted => delivered=2 delivered-auto-ack=1 redelivered=1 acknowledged=1
        ",
    );
    check_open(
        "
        1:get q => ?1:get q; 1<get-empty
        get-has 10 4 =>
        1:get q => ?1:get q; 1<get-ok 1 x/k left=4 body
        get-has 11 3 =>
        1:get q noack => ?1:get q noack; 1<get-ok 2 x/k left=3 body
        counted => got=1 got-auto-ack=1 got-empty=1
        get-has 12 2 redelivered =>
        1:get q => ?1:get q; 1<get-ok 3 redelivered x/k left=2 body
        counted => got=2 got-auto-ack=1 got-empty=1 redelivered=1
        ",
    );
    check_open(
        "
        1:publish x k body => !1:publish #0 x/k body
        1:confirm => 1<select-ok
        1:publish x k body => !1:publish #1 x/k body
        returned 1 => 1<return 312 NO_ROUTE x/k body
        counted => published=2 returned=1
        accepted 1 1 => 1<ack 1
        counted => published=2 confirmed=1 returned=1
        ",
    );
}

#[test]
fn a_tag_is_settled_once() {
    let unknown = |said: &str, tag: &str, ids: &str| {
        check_consuming(&format!(
            "deliver 1 c 10 => true; 1<deliver c 1 x/k body
            deliver 1 c 11 => true; 1<deliver c 2 x/k body
            1:ack 1 => !1:accept 10
            {said} => !closed 1; \
                1<close 406 PRECONDITION_FAILED - unknown delivery tag {tag} ({ids})
            deliver 1 c 12 => false
            "
        ));
    };
    unknown("1:ack 1", "1", "60,80");
    unknown("1:ack 1 multiple", "1", "60,80");
    unknown("1:ack 3", "3", "60,80");
    unknown("1:ack 3 multiple", "3", "60,80");
    unknown("1:ack 0", "0", "60,80");
    unknown(
        "1:nack 18446744073709551615 multiple",
        "18446744073709551615",
        "60,120",
    );
    unknown("1:reject 1", "1", "60,90");
    check_open("1:ack 0 multiple =>");
    check_open("1:nack 0 multiple requeue =>");
    check_open(
        "1:nack 1 => !closed 1; 1<close 406 PRECONDITION_FAILED - unknown delivery tag 1 (60,120)",
    );
}

#[test]
fn recovery_without_requeueing_is_not_there() {
    let closed = "!closed 1; 0<close 540 NOT_IMPLEMENTED - requeue=false";
    check_open(&format!("1:recover => {closed} (60,110)"));
    check_open(&format!("1:recover-async => {closed} (60,100)"));
}

#[test]
fn what_needs_no_settling_has_a_tag_that_cannot_be_settled() {
    check_open(
        "
        1:consume q auto noack => ?1:consume q auto prefetch=0 noack; 1<consume-ok auto
        1:consume q c => ?1:consume q c prefetch=0; 1<consume-ok c
        deliver 1 c 10 => true; 1<deliver c 1 x/k body
        deliver 1 auto 11 => true; 1<deliver auto 2 x/k body
        deliver 1 c 12 => true; 1<deliver c 3 x/k body
        status => 1: consumers=2 prefetch=0 unacked=2 unconfirmed=0 uncommitted=0+0
        1:ack 3 => !1:accept 12
        1:ack 2 => !closed 1; 1<close 406 PRECONDITION_FAILED - unknown delivery tag 2 (60,80)
        ",
    );
}

#[test]
fn get_takes_one_message() {
    check_open(
        "
        1:get q => ?1:get q; 1<get-empty
        get-has 10 4 =>
        1:get q => ?1:get q; 1<get-ok 1 x/k left=4 body
        get-has 11 3 =>
        1:get q noack => ?1:get q noack; 1<get-ok 2 x/k left=3 body
        1:ack 1 => !1:accept 10
        1:ack 2 => !closed 1; 1<close 406 PRECONDITION_FAILED - unknown delivery tag 2 (60,80)
        ",
    );
}

#[test]
fn a_message_that_came_back_says_how_often() {
    check_consuming(
        "
        deliver 1 c 10 count=0 => true; 1<deliver c 1 x/k body
        deliver 1 c 10 redelivered count=3 => true; 1<deliver c 2 redelivered x/k count=3 body
        deliver 1 c 10 redelivered acquired=2 => true; 1<deliver c 3 redelivered x/k acquired=2 body
        deliver 1 c 9 count=1 acquired=2 => true; 1<deliver c 4 x/k count=1 acquired=2 body
        ",
    );
}

#[test]
fn a_consumer_that_ends_by_itself_is_told_to_those_who_understand_it() {
    check_consuming(
        "
        deliver 1 c 10 => true; 1<deliver c 1 x/k body
        cancelled 1 c => 1<cancel c nowait
        cancelled 1 c =>
        deliver 1 c 11 => false
        1:cancel c => 1<cancel-ok c
        1:ack 1 => !1:accept 10
        1:consume q c => ?1:consume q c prefetch=0; 1<consume-ok c
        ",
    );
    let unable = OPEN.replace(" close notify blocked", "");
    check(&format!(
        "{unable}\n{CONSUMING}\n cancelled 1 c =>\n deliver 1 c 11 => false"
    ));
}

#[test]
fn a_closed_channel_delivers_nothing() {
    check_consuming(
        "
        2:open => ?channel 2; 2<open-ok
        2:consume q d => ?2:consume q d prefetch=0; 2<consume-ok d
        deliver 1 c 10 => true; 1<deliver c 1 x/k body
        1:close => !closed 1; 1<close-ok
        deliver 1 c 11 => false
        deliver 2 d 12 => true; 2<deliver d 1 x/k body
        cancelled 1 c =>
        close => !closed 2; 0<close-ok
        deliver 2 d 13 => false
        ",
    );
}
