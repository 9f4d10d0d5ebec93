//! Transactions: nothing leaves before the commit, and a rollback undoes it.

use crate::harness::check_open;
use bytes::Bytes;
use leveret_amqp::frame::FrameKind;
use leveret_amqp::{ContentHeader, Properties, basic, encode, tx};
use leveret_session::contract::Request;
use leveret_session::{Connection, Settings, fuzz};
use leveret_types::Now;

fn check_tx(script: &str) {
    let ready = "
        1:tx => 1<select-ok
        1:consume q c => ?1:consume q c prefetch=0; 1<consume-ok c
        deliver 1 c 10 => true; 1<deliver c 1 x/k body
        deliver 1 c 11 => true; 1<deliver c 2 x/k body
        deliver 1 c 12 => true; 1<deliver c 3 x/k body";
    check_open(&format!("{ready}\n{script}"));
}

#[test]
fn a_commit_sends_off_what_has_gathered() {
    check_tx(
        "
        1:publish x k one => !1:check #0 x/k one
        1:ack 1 =>
        1:publish x k two mandatory mode=2 => !1:check #0 x/k two mandatory persistent
        1:nack 3 requeue =>
        status => 1: consumers=1 prefetch=0 unacked=1 unconfirmed=0 uncommitted=2+2 tx
        1:commit => !1:publish #0 x/k one; !1:publish #0 x/k two mandatory persistent; \
            !1:accept 10; !1:requeue 12; ?1:commit; 1<commit-ok
        1:commit => ?1:commit; 1<commit-ok
        status => 1: consumers=1 prefetch=0 unacked=1 unconfirmed=0 uncommitted=0+0 tx
        1:tx => 1<select-ok
        ",
    );
}

#[test]
fn a_rollback_forgets_publishes_and_gives_deliveries_back() {
    check_tx(
        "
        1:publish x k one => !1:check #0 x/k one
        1:ack 2 =>
        1:ack 3 multiple =>
        1:rollback => 1<rollback-ok
        status => 1: consumers=1 prefetch=0 unacked=3 unconfirmed=0 uncommitted=0+0 tx
        1:commit => ?1:commit; 1<commit-ok
        1:ack 2 multiple =>
        1:commit => !1:accept 10-11; ?1:commit; 1<commit-ok
        1:reject 3 =>
        1:rollback => 1<rollback-ok
        1:reject 3 requeue =>
        1:commit => !1:requeue-rejected 12; ?1:commit; 1<commit-ok
        ",
    );
}

#[test]
fn what_is_asked_behind_a_publish_waits_until_that_is_checked() {
    check_open(
        "
        1:tx => 1<select-ok
        hold =>
        pipelined 1:publish x k body + 1:declare q => !1:check #0 x/k body
        failed 1 channel gone => !closed 1; 1<close 404 NOT_FOUND - gone (0,0)
        answer =>",
    );
}

#[test]
fn a_tag_is_settled_once_in_a_transaction_too() {
    check_tx(
        "
        1:ack 1 =>
        1:ack 1 => !closed 1; 1<close 406 PRECONDITION_FAILED - unknown delivery tag 1 (60,80)
        ",
    );
}

#[test]
fn what_was_not_committed_is_gone_with_the_channel() {
    check_tx(
        "
        1:publish x k one => !1:check #0 x/k one
        1:ack 1 =>
        1:close => !closed 1; 1<close-ok
        1:open => ?channel 1; 1<open-ok
        1:publish x k two => !1:publish #0 x/k two
        ",
    );
}

#[test]
fn recovery_does_not_wait_for_a_commit() {
    check_tx(
        "
        1:ack 1 =>
        1:recover requeue => !1:requeue 11-12; 1<recover-ok
        1:commit => !1:accept 10; ?1:commit; 1<commit-ok
        ",
    );
}

#[test]
fn the_node_may_refuse_a_commit() {
    check_tx(
        "
        1:publish nowhere k one => !1:check #0 nowhere/k one
        fail channel no exchange 'nowhere' in vhost '/' =>
        1:commit => !1:publish #0 nowhere/k one; ?1:commit; !closed 1; \
            1<close 404 NOT_FOUND - no exchange 'nowhere' in vhost '/' (90,20)
        ",
    );
}

#[test]
fn only_a_transactional_channel_commits() {
    let closed = "!closed 1; 1<close 406 PRECONDITION_FAILED - channel is not transactional";
    check_open(&format!("1:commit => {closed} (90,20)"));
    check_open(&format!("1:rollback => {closed} (90,30)"));
}

#[test]
fn a_time_to_live_begins_with_the_commit() {
    let settings = Settings::default();
    let mut connection = fuzz::open_connection(settings);
    let say = |connection: &mut Connection, now_ms: u64, bytes: Vec<u8>| {
        fuzz::drive(connection, Now::both(now_ms), Bytes::from(bytes))
    };
    let mut bytes = Vec::new();
    encode::method(&mut bytes, 1, &tx::Select {});
    let publish = basic::Publish {
        exchange: b"x",
        routing_key: b"k",
        mandatory: false,
        immediate: false,
    };
    encode::method(&mut bytes, 1, &publish);
    let properties = Properties {
        expiration: Some(b"1000"),
        ..Properties::default()
    };
    encode::frame(&mut bytes, FrameKind::Header, 1, |out| {
        let header = ContentHeader {
            class: 60,
            body_size: 0,
            properties: &properties.to_bytes(),
        };
        header.encode(out);
    });
    say(&mut connection, 2_000, bytes);
    let mut bytes = Vec::new();
    encode::method(&mut bytes, 1, &tx::Commit {});
    let requests = say(&mut connection, 60_000, bytes);
    let [Request::Publish(publish), Request::Commit { .. }] = &requests[..] else {
        panic!("{requests:?}");
    };
    assert_eq!(publish.message.summary.expiration_ms, Some(1_000));
    assert_eq!(publish.message.summary.published_ms, 60_000);
}
