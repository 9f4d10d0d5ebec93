//! Frames that are wrong.

use crate::harness::{OPEN, check, check_open};

#[test]
fn a_frame_that_cannot_be_read_ends_the_connection() {
    let cases = [
        (
            "raw 01 00 01 00 00 00 01 00 00",
            "type 1, 1 octets: {invalid_frame_end_marker,0}",
        ),
        ("raw 04", "type 4, all octets = <<>>: unknown_frame"),
        ("raw 00", "type 0, all octets = <<>>: unknown_frame"),
        (
            "raw 01 00 01 00 00 20 01",
            "type 1, all octets = <<>>: {frame_too_large,8193,8184}",
        ),
        (
            "raw 03 00 01 FF FF FF FF",
            "type 3, all octets = <<>>: {frame_too_large,4294967295,8184}",
        ),
    ];
    for (said, text) in cases {
        check_open(&format!(
            "{said} => !closed 1; 0<close 501 FRAME_ERROR - {text} (0,0)
            state => Closing
            close-ok =>
            state => Closing
            tick 5000 =>
            tick 5999 =>
            state => Closing
            tick 6000 =>
            state => Closed
            "
        ));
    }
    // A size that is just allowed waits for its payload.
    check_open("raw 01 00 01 00 00 20 00 =>\n state => Open");
}

#[test]
fn before_login_frames_are_small() {
    check("header => 0<start\n raw 01 00 00 00 00 20 00 =>\n state => Opening");
    let text = "type 1, all octets = <<>>: {frame_too_large,8193,8184}";
    check(&format!(
        "header => 0<start\n raw 01 00 00 00 00 20 01 => 0<close 501 FRAME_ERROR - {text} (0,0)"
    ));
    let large = OPEN.replace("tune-ok 16 8192 0", "tune-ok 16 131072 0");
    check(&format!(
        "{large}\n raw 01 00 01 00 02 00 00 =>\n state => Open"
    ));
}

#[test]
fn heartbeats_are_empty_and_on_channel_0() {
    check_open("heartbeat =>");
    let text = "type 8, all octets = <<>> (0,0)";
    check_open(&format!(
        "1:heartbeat => !closed 1; 0<close 505 UNEXPECTED_FRAME - {text}"
    ));
    let text = "type 8, all octets = <<7>>: unknown_frame (0,0)";
    check_open(&format!(
        "raw 08 00 00 00 00 00 01 07 CE => !closed 1; 0<close 501 FRAME_ERROR - {text}"
    ));
}

#[test]
fn content_is_not_for_channel_0() {
    let text = "type 3, all octets = <<97>> (0,0)";
    check_open(&format!(
        "0:body a => !closed 1; 0<close 505 UNEXPECTED_FRAME - {text}"
    ));
    let octets = "97,98,99,100,101,102,103,104,105,106,107,108,109,110,111,112";
    let text = format!("type 3, first 16 octets = <<{octets}>> (0,0)");
    check_open(&format!(
        "0:body abcdefghijklmnopq => !closed 1; 0<close 505 UNEXPECTED_FRAME - {text}"
    ));
}

#[test]
fn methods_that_make_no_sense() {
    let cases = [
        // No such method, no such class.
        (
            "00 3C 00 FF",
            "540 NOT_IMPLEMENTED - unknown method 255 of class 60 (60,255)",
        ),
        (
            "00 63 00 01",
            "540 NOT_IMPLEMENTED - unknown method 1 of class 99 (99,1)",
        ),
        // basic.ack without its tag, and with an octet too many.
        (
            "00 3C 00 50",
            "502 SYNTAX_ERROR - the frame ends within a field (60,80)",
        ),
        (
            "00 3C 00 50 00 00 00 00 00 00 00 01 00 00",
            "502 SYNTAX_ERROR - 1 octets too many in the frame (60,80)",
        ),
        // No method at all.
        (
            "00",
            "502 SYNTAX_ERROR - the frame ends within a field (0,0)",
        ),
        // basic.cancel with a tag that is no text.
        (
            "00 3C 00 1E 01 FF 00",
            "501 FRAME_ERROR - Malformed UTF-8 in shortstr (60,30)",
        ),
    ];
    for (payload, text) in cases {
        let size = payload.split(' ').count();
        check_open(&format!(
            "raw 01 00 01 00 00 00 {size:02X} {payload} CE => !closed 1; 0<close {text}"
        ));
    }
}

#[test]
fn a_table_nested_too_deep_is_refused_before_login() {
    // start-ok whose client properties are arrays in arrays.
    let start_ok = |depth: usize| {
        let mut value: Vec<u8> = Vec::new();
        for _ in 1..depth - 1 {
            let size = (value.len() as u32).to_be_bytes();
            value = [&b"A"[..], &size[..], &value[..]].concat();
        }
        let size = (value.len() as u32).to_be_bytes();
        let table = [&b"\x01aA"[..], &size[..], &value[..]].concat();
        let mut payload = vec![0, 10, 0, 11];
        payload.extend((table.len() as u32).to_be_bytes());
        payload.extend(table);
        payload.extend(b"\x05PLAIN\x00\x00\x00\x00\x00");
        let mut frame = vec![1, 0, 0];
        frame.extend((payload.len() as u32).to_be_bytes());
        frame.extend(payload);
        frame.push(0xCE);
        let hex: Vec<String> = frame.iter().map(|octet| format!("{octet:02X}")).collect();
        format!("raw {}", hex.join(" "))
    };
    let refused = "0<close 502 SYNTAX_ERROR - a field table is nested deeper than 100 (10,11)";
    let accepted = "?login PLAIN; 0<tune 2047 131072 60";
    check(&format!(
        "header => 0<start\n{} => {accepted}",
        start_ok(100)
    ));
    check(&format!(
        "header => 0<start\n{} => {refused}",
        start_ok(101)
    ));
    check(&format!(
        "header => 0<start\n{} => {refused}",
        start_ok(1_600)
    ));
}
