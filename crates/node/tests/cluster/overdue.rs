//! Consumers that keep a delivery for longer than they may.

use crate::script::{check, play};
use crate::world::World;
use leveret_metadata::Config;

#[test]
fn a_slow_consumer_of_a_quorum_queue_ends_alone() {
    for node in 1..=3 {
        check(&format!(
            "a@{node}
             b@1
             a declare q quorum x-consumer-timeout=1000 => a: declared q 0 0
             a declare other quorum => a: declared other 0 0
             run 1000
             a qos 2 => a: qos-ok
             a consume q t => a: consuming t
             a consume other u => a: consuming u
             b publish q m1 m2 => a: deliver 1 m1, deliver 2 m2
             run 1500 => a: cancelled t
             b get q => b: got 1 left=1 again acquired=1 m1
             b get q => b: got 2 left=0 again acquired=1 m2
             a ack 1
             a reject 2 requeue
             b publish other m3 => a: deliver 3 m3
             b declare q passive => b: declared q 0 0
             a cancel t => a: cancel-ok t"
        ));
    }
}

#[test]
fn what_comes_too_late_in_a_transaction_means_nothing() {
    check(
        "a@1
         b@2
         a declare q quorum x-consumer-timeout=1000 => a: declared q 0 0
         run 1000
         a tx => a: select-ok
         a consume q t => a: consuming t
         b publish q m1 => a: deliver 1 m1
         a ack 1
         run 1500 => a: cancelled t
         a commit => a: commit-ok
         b get q => b: got 1 left=0 again acquired=1 m1",
    );
}

#[test]
fn what_went_back_does_not_count_towards_a_later_bound_of_the_channel() {
    check(
        "a@1
         b@2
         a declare q quorum x-consumer-timeout=1000 => a: declared q 0 0
         a declare c => a: declared c 0 0
         run 1000
         a consume q t => a: consuming t
         b publish q m1 m2 => a: deliver 1 m1, deliver 2 m2
         run 1500 => a: cancelled t
         a qos 2 global => a: qos-ok
         a consume c u => a: consuming u
         b publish c m3 m4 m5 => a: deliver 3 m3, deliver 4 m4
         a ack 1
         a ack 3 => a: deliver 5 m5",
    );
}

#[test]
fn a_channel_closes_for_what_nobody_consumes_any_more() {
    for words in ["get q", "consume q t"] {
        let held = match words {
            "get q" => "a: got 1 left=0 m1",
            _ => "a: consuming t, deliver 1 m1",
        };
        check(&format!(
            "a@1
             b@2
             a declare q quorum x-consumer-timeout=1000 => a: declared q 0 0
             run 1000
             b publish q m1
             a {words} => {held}
             a cancel t => a: cancel-ok t
             run 1500 => a: close 406 PRECONDITION_FAILED - delivery acknowledgement on channel 1 \
             timed out. This timeout value can be configured, see consumers doc guide to learn more
             b get q => b: got 1 left=0 again acquired=1 m1"
        ));
    }
}

#[test]
fn a_slow_consumer_of_a_classic_queue_loses_its_channel() {
    check(
        "a@1
         a declare q x-consumer-timeout=1000 => a: declared q 0 0
         a consume q t => a: consuming t
         a publish q m1 => a: deliver 1 m1
         run 1500 => a: close 406 PRECONDITION_FAILED - delivery acknowledgement on channel 1 \
         timed out. This timeout value can be configured, see consumers doc guide to learn more",
    );
}

#[test]
fn where_the_configuration_says_so_a_slow_consumer_of_a_quorum_queue_loses_its_channel_too() {
    let config = Config {
        timeout_closes_channel: true,
        ..Config::default()
    };
    play(
        World::configured(3, config),
        "a@2
         a declare q quorum x-consumer-timeout=1000 => a: declared q 0 0
         run 1000
         a consume q t => a: consuming t
         a publish q m1 => a: deliver 1 m1
         run 1500 => a: close 406 PRECONDITION_FAILED - delivery acknowledgement on channel 1 \
         timed out. This timeout value can be configured, see consumers doc guide to learn more",
    );
}
