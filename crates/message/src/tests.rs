#![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

use crate::{
    StreamPosition, SubBatchError, Unpacked, Unpacking, as_amqp091, delivered, entry_of,
    filter_value, to_entry, unpack,
};
use bytes::Bytes;
use leveret_amqp::fuzz::Random;
use leveret_amqp::{Properties, TableBuilder};
use leveret_types::limits::{
    CONVERTED_PROPERTIES_BYTES_MAX, STREAM_SUB_BATCH_BYTES_MAX, TABLE_DEPTH_MAX, TABLE_ENTRIES_MAX,
};
use leveret_types::message::MessageSummary;
use leveret_types::{FieldTable, FieldValue, Message, MessageFormat, MessageParts};
use std::io::Write;

const POSITION: StreamPosition<'static> = StreamPosition {
    stream: "events",
    offset: 41,
};

fn entry(properties: &Properties<'_>, body: &[u8]) -> Vec<u8> {
    let properties = properties.to_bytes();
    let parts = MessageParts {
        exchange: b"logs",
        routing_key: b"a.b",
        properties: &properties,
        body,
    };
    let mut out = Vec::new();
    to_entry(&parts, &mut out);
    out
}

fn with_headers(headers: &FieldTable) -> Vec<u8> {
    let table = TableBuilder::from(headers);
    let properties = Properties {
        headers: Some(table.as_table()),
        ..Properties::default()
    };
    entry(&properties, b"body")
}

fn table<const N: usize>(entries: [(&str, FieldValue); N]) -> FieldTable {
    let mut table = FieldTable::new();
    for (name, value) in entries {
        table.push(name.to_owned(), value);
    }
    table
}

/// The headers of a message, without the offset that each has.
fn headers(message: &Message) -> FieldTable {
    let properties = Properties::decode(message.properties()).unwrap();
    let mut headers = properties.headers().to_table();
    assert!(headers.remove("x-stream-offset").is_some());
    headers
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|p| (p[0] << 4 | p[1]) as u8).collect()
}

/// An id of AMQP 1.0, as which property or header it is read.
type Id = (&'static [u8], Option<&'static [u8]>, Option<FieldValue>);
/// An entry, its body and its type.
type Written = (&'static [u8], &'static [u8], Option<&'static [u8]>);

fn text(value: &str) -> FieldValue {
    FieldValue::text(value)
}

#[test]
fn an_entry_is_written_as_rabbitmq_4_writes_it() {
    let written = entry(&Properties::default(), b"hello");
    let expected = [
        // header: not durable, no priority, no ttl, first acquirer
        &b"\x00\x53\x70\xC0\x05\x04\x42\x40\x40\x41"[..],
        // message-annotations
        b"\x00\x53\x72\xC1\x27\x04\xA3\x0Ax-exchange\xA1\x04logs\xA3\x0Dx-routing-key\xA1\x03a.b",
        // data
        b"\x00\x53\x75\xA0\x05hello",
    ];
    assert_eq!(written, expected.concat());
}

#[test]
fn each_property_has_its_place() {
    let headers = table([("n", FieldValue::I64(5)), ("x-h", text("v"))]);
    let headers = TableBuilder::from(&headers);
    let properties = Properties {
        content_type: Some(b"text/plain"),
        content_encoding: Some(b"utf8"),
        headers: Some(headers.as_table()),
        delivery_mode: Some(2),
        priority: Some(5),
        correlation_id: Some(b"corr"),
        reply_to: Some(b"rep"),
        expiration: Some(b"60000"),
        message_id: Some(b"urn:uuid:01234567-89ab-cdef-0123-456789abcdef"),
        timestamp: Some(1_700_000_000),
        kind: Some(b"kind"),
        user_id: Some(b"guest"),
        app_id: Some(b"app"),
        cluster_id: None,
    };
    let written = entry(&properties, b"full");
    let expected = [
        &b"\x00\x53\x70\xC0\x0A\x04\x41\x50\x05\x70\x00\x00\xEA\x60\x41"[..],
        b"\x00\x53\x72\xC1\x43\x08\xA3\x0Ax-exchange\xA1\x04logs\xA3\x0Dx-routing-key\xA1\x03a.b",
        b"\xA3\x0Cx-basic-type\xA1\x04kind\xA3\x03x-h\xA1\x01v",
        b"\x00\x53\x73\xC0\x47\x0B\x98\x01\x23\x45\x67\x89\xAB\xCD\xEF\x01\x23\x45\x67\x89\xAB\xCD\xEF",
        b"\xA0\x05guest\x40\x40\xA1\x03rep\xA1\x04corr\xA3\x0Atext/plain\xA3\x04utf8",
        b"\x40\x83\x00\x00\x01\x8B\xCF\xE5\x68\x00\xA1\x03app",
        b"\x00\x53\x74\xC1\x0D\x02\xA1\x01n\x81\x00\x00\x00\x00\x00\x00\x00\x05",
        b"\x00\x53\x75\xA0\x04full",
    ];
    assert_eq!(written, expected.concat());

    let message = delivered(&written, POSITION);
    let read = Properties::decode(message.properties()).unwrap();
    let expected = Properties {
        headers: read.headers,
        ..properties
    };
    assert_eq!(read, expected);
    assert_eq!(message.summary.priority, Some(5));
    assert!(message.summary.persistent);
    assert_eq!(
        (message.exchange(), message.routing_key()),
        (&b"logs"[..], &b"a.b"[..])
    );
    assert_eq!(message.body(), b"full");
}

/// Entries that Debian's RabbitMQ 3.10 has written for pika: type and application are properties of
/// the application there, and the header section is missing.
#[test]
fn entries_of_rabbitmq_3_are_read() {
    let full = bytes(
        "005372c16a0aa30d782d726f7574696e672d6b6579a1026732a30a782d65786368616e6765a100a31078
         2d62617369632d7072696f726974795005a315782d62617369632d64656c69766572792d6d6f64655002
         a312782d62617369632d65787069726174696f6ea1053630303030005373c0390da1036d6964a0056775
         6573744040a103726570a104636f7272a30a746578742f706c61696ea3047574663840830000018bcfe5
         6800404040005374c14a0ea10c782d62617369632d74797065a1046b696e64a10e782d62617369632d61
         70702d6964a103617070a10161a10474657874a1016e5405a101625601a103782d68a1027876a1017640
         005375a00466756c6c",
    );
    let message = delivered(&full, POSITION);
    let read = Properties::decode(message.properties()).unwrap();
    let expected = Properties {
        content_type: Some(b"text/plain"),
        content_encoding: Some(b"utf8"),
        headers: read.headers,
        delivery_mode: Some(2),
        priority: Some(5),
        correlation_id: Some(b"corr"),
        reply_to: Some(b"rep"),
        expiration: Some(b"60000"),
        message_id: Some(b"mid"),
        timestamp: Some(1_700_000_000),
        kind: Some(b"kind"),
        user_id: Some(b"guest"),
        app_id: Some(b"app"),
        cluster_id: None,
    };
    assert_eq!(read, expected);
    let expected = table([
        ("a", text("text")),
        ("n", FieldValue::I32(5)),
        ("b", FieldValue::Bool(true)),
        ("x-h", text("xv")),
        ("v", FieldValue::Void),
    ]);
    assert_eq!(headers(&message), expected);
    assert_eq!(
        (message.exchange(), message.routing_key()),
        (&b""[..], &b"g2"[..])
    );
    assert_eq!(message.body(), b"full");
}

#[test]
fn headers_come_back_as_they_went_but_for_what_amqp_1_0_has_no_place_for() {
    let nested = FieldValue::Table(table([("k", FieldValue::Array(vec![text("v")]))]));
    let kept = table([
        ("x-nested", nested.clone()),
        (
            "x-list",
            FieldValue::Array(vec![FieldValue::U16(9), text("t")]),
        ),
        ("text", text("wört")),
        ("bytes", FieldValue::Bytes(vec![0xFF, 0])),
        ("bool", FieldValue::Bool(false)),
        ("i8", FieldValue::I8(-1)),
        ("u8", FieldValue::U8(200)),
        ("i16", FieldValue::I16(-300)),
        ("u16", FieldValue::U16(60_000)),
        ("i32", FieldValue::I32(-70_000)),
        ("u32", FieldValue::U32(0)),
        ("i64", FieldValue::I64(i64::MIN)),
        ("f32", FieldValue::F32(1.5)),
        ("f64", FieldValue::F64(-2.5)),
        ("time", FieldValue::Timestamp(1_700_000_000)),
        ("void", FieldValue::Void),
    ]);
    assert_eq!(headers(&delivered(&with_headers(&kept), POSITION)), kept);
    for (name, value) in [
        ("list", FieldValue::Array(vec![text("t")])),
        ("table", nested),
        ("decimal", FieldValue::Decimal { scale: 1, value: 5 }),
        ("x-decimal", FieldValue::Decimal { scale: 1, value: 5 }),
        ("x-exchange", text("forged")),
        ("x-basic-type", text("forged")),
    ] {
        let read = delivered(&with_headers(&table([(name, value)])), POSITION);
        assert!(headers(&read).get(name).is_none(), "{name}");
    }
}

#[test]
fn octets_that_are_no_text_are_binary_and_come_back() {
    let properties = Properties {
        reply_to: Some(b"\xFFreply"),
        app_id: Some(b"\xFFapp"),
        kind: Some(b"\xFFkind"),
        ..Properties::default()
    };
    let message = delivered(&entry(&properties, b""), POSITION);
    let read = Properties::decode(message.properties()).unwrap();
    let parts = (read.reply_to, read.app_id, read.kind);
    assert_eq!(
        parts,
        (properties.reply_to, properties.app_id, properties.kind)
    );
}

#[test]
fn copies_and_deaths_have_annotations_of_their_own() {
    let death = FieldValue::Table(table([
        ("count", FieldValue::I64(3)),
        ("reason", text("expired")),
        ("queue", text("waiting")),
        ("time", FieldValue::Timestamp(1_700_000_000)),
        ("exchange", text("e")),
        (
            "routing-keys",
            FieldValue::Array(vec![text("k"), text("l")]),
        ),
        ("original-expiration", text("5")),
    ]));
    let sent = table([
        ("CC", FieldValue::Array(vec![text("copy")])),
        ("x-death", FieldValue::Array(vec![death])),
        ("x-first-death-reason", text("expired")),
    ]);
    let entry = with_headers(&sent);
    let has = |name: &[u8]| entry.windows(name.len()).any(|part| part == name);
    assert!(has(b"\xA3\x04x-cc") && has(b"\xA3\x0Cx-opt-deaths") && !has(b"x-death"));
    assert_eq!(headers(&delivered(&entry, POSITION)), sent);
    // What is no record of the broker's is not handed on as one.
    for forged in [
        FieldValue::Array(vec![text("x")]),
        text("x"),
        FieldValue::Array(vec![]),
    ] {
        let entry = with_headers(&table([("x-death", forged)]));
        assert!(headers(&delivered(&entry, POSITION)).is_empty());
    }
}

#[test]
fn an_expiration_that_the_header_cannot_hold_is_an_annotation() {
    for (expiration, is_annotated) in [("4294967295", false), ("4294967296", true)] {
        let properties = Properties {
            expiration: Some(expiration.as_bytes()),
            ..Properties::default()
        };
        let entry = entry(&properties, b"");
        let name = b"x-basic-expiration";
        assert_eq!(
            entry.windows(name.len()).any(|part| part == name),
            is_annotated
        );
        let message = delivered(&entry, POSITION);
        let read = Properties::decode(message.properties()).unwrap();
        assert_eq!(read.expiration, Some(expiration.as_bytes()));
    }
}

#[test]
fn ids_are_text_numbers_uuids_or_a_header() {
    let cases: [Id; 5] = [
        (b"\xA1\x02id", Some(b"id"), None),
        (b"\x53\x07", Some(b"7"), None),
        (
            b"\x98\x01\x23\x45\x67\x89\xAB\xCD\xEF\x01\x23\x45\x67\x89\xAB\xCD\xEF",
            Some(b"urn:uuid:01234567-89ab-cdef-0123-456789abcdef"),
            None,
        ),
        (
            b"\xA0\x02\xFF\x00",
            None,
            Some(FieldValue::Bytes(vec![0xFF, 0])),
        ),
        (b"\x40", None, None),
    ];
    for (encoded, id, header) in cases {
        let list = [&[encoded.len() as u8 + 1, 1], encoded].concat();
        let entry = [b"\x00\x53\x73\xC0", &list[..], b"\x00\x53\x75\xA0\x00"].concat();
        let message = delivered(&entry, POSITION);
        let read = Properties::decode(message.properties()).unwrap();
        assert_eq!(read.message_id, id);
        assert_eq!(headers(&message).get("x-message-id"), header.as_ref());
    }
    // Only what is written back to the same text is taken for a UUID.
    for not in [
        "urn:uuid:01234567-89AB-cdef-0123-456789abcdef",
        "urn:uuid:0123",
        "urn:uuid:",
    ] {
        let properties = Properties {
            message_id: Some(not.as_bytes()),
            ..Properties::default()
        };
        let message = delivered(&entry(&properties, b""), POSITION);
        let read = Properties::decode(message.properties()).unwrap();
        assert_eq!(read.message_id, Some(not.as_bytes()));
    }
}

#[test]
fn what_a_stream_client_wrote_is_read() {
    let cases: [Written; 7] = [
        (b"\x00\x53\x75\xA0\x05hello", b"hello", None),
        (b"\x00\x53\x75\xB0\0\0\0\x05hello", b"hello", None),
        (b"\x00\x80\0\0\0\0\0\0\0\x75\xA0\x05hello", b"hello", None),
        (b"\x00\xA3\x10amqp:data:binary\xA0\x05hello", b"hello", None),
        (
            b"\x00\x53\x75\xA0\x03hel\x00\x53\x75\xA0\x02lo",
            b"hello",
            None,
        ),
        (
            b"\x00\x53\x77\xA1\x05hello",
            b"\x00\x53\x77\xA1\x05hello",
            Some(b"amqp-1.0"),
        ),
        (b"\x00\x53\x76\x45", b"\x00\x53\x76\x45", Some(b"amqp-1.0")),
    ];
    for (entry, body, kind) in cases {
        let message = delivered(entry, POSITION);
        let read = Properties::decode(message.properties()).unwrap();
        assert_eq!((message.body(), read.kind), (body, kind), "{entry:?}");
        assert_eq!(
            (message.exchange(), message.routing_key()),
            (&b""[..], &b"events"[..])
        );
        let offset = read.headers().to_table();
        assert_eq!(offset.get("x-stream-offset"), Some(&FieldValue::I64(41)));
        // The sections of a body go back as they are.
        let mut again = Vec::new();
        to_entry(&message.parts(), &mut again);
        assert!(kind.is_none() || again.ends_with(entry));
        assert_eq!(delivered(&again, POSITION).body(), body);
    }
}

#[test]
fn what_is_no_message_is_delivered_as_it_is() {
    let cases: [&[u8]; 8] = [
        b"",
        b"plain bytes",
        b"\x00\x53\x75\xA0\x06hello",
        b"\x00\x53\x79\xA0\x00",
        b"\x00\x53\x75\xA1\x05hello",
        b"\x00\x00\x53\x75\xA0\x00",
        b"\x00\x53\x72\xC1\xFF",
        b"\x00\xA3\x03foo\x40",
    ];
    for entry in cases {
        let message = delivered(entry, POSITION);
        assert_eq!(message.body(), entry);
        assert!(
            Properties::decode(message.properties())
                .unwrap()
                .kind
                .is_none()
        );
    }
}

/// A map of annotations with one entry, `x-a`, of this value.
fn annotated(value: &[u8]) -> Vec<u8> {
    let items = [&b"\xA3\x03x-a"[..], value].concat();
    let size = (items.len() as u32 + 4).to_be_bytes();
    let head = [&b"\x00\x53\x72\xD1"[..], &size, &[0, 0, 0, 2]].concat();
    [&head[..], &items, b"\x00\x53\x75\xA0\x01b"].concat()
}

#[test]
fn headers_are_bounded_in_number_depth_and_size() {
    // Each item takes no octet, so that any number can be claimed.
    let array = |count: usize| {
        let count = (count as u32).to_be_bytes();
        annotated(&[&b"\xF0\0\0\0\x05"[..], &count, b"\x40"].concat())
    };
    let lists = |depth: usize| {
        let mut value = b"\x45".to_vec();
        for _ in 1..depth {
            let size = (value.len() as u32 + 4).to_be_bytes();
            value = [&b"\xD0"[..], &size, &[0, 0, 0, 1], &value].concat();
        }
        annotated(&value)
    };
    let texts = |size: usize| {
        let len = (size as u32).to_be_bytes();
        annotated(&[&b"\xB1"[..], &len, &vec![b'a'; size]].concat())
    };
    let other_bytes = 2 + 4 + (1 + 15 + 1 + 8) + (1 + 3 + 1 + 4);
    let bounds = [
        // The offset and the array itself count as well.
        (array(TABLE_ENTRIES_MAX - 2), array(TABLE_ENTRIES_MAX - 1)),
        (array(0), array(u32::MAX as usize)),
        (lists(TABLE_DEPTH_MAX - 1), lists(TABLE_DEPTH_MAX)),
        (lists(1), lists(20_000)),
        (
            texts(CONVERTED_PROPERTIES_BYTES_MAX - other_bytes),
            texts(CONVERTED_PROPERTIES_BYTES_MAX - other_bytes + 1),
        ),
    ];
    for (number, (most, more)) in bounds.iter().enumerate() {
        let message = delivered(most, POSITION);
        assert_eq!(message.body(), b"b", "{number}");
        assert!(headers(&message).get("x-a").is_some());
        let message = delivered(more, POSITION);
        assert_eq!(message.body(), more, "{number}");
        let read = Properties::decode(message.properties()).unwrap();
        assert_eq!(read.kind, Some(&b"amqp-1.0"[..]));
    }
}

#[test]
fn a_filter_value_is_a_short_text() {
    let long = "a".repeat(256);
    let cases = [
        (text("blue"), Some(&b"blue"[..])),
        (text(&long[..255]), Some(&long.as_bytes()[..255])),
        (text(&long), None),
        (FieldValue::LongString(vec![0xFF]), None),
        (FieldValue::I64(5), None),
    ];
    for (value, expected) in cases {
        let headers = table([("x-stream-filter-value", value)]);
        let builder = TableBuilder::from(&headers);
        let properties = Properties {
            headers: Some(builder.as_table()),
            ..Properties::default()
        };
        assert_eq!(filter_value(&properties.to_bytes()), expected);
    }
    assert_eq!(filter_value(&Properties::default().to_bytes()), None);
}

fn gzip(bytes: &[u8]) -> Bytes {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap().into()
}

#[test]
fn batches_are_read_plain_and_gzipped() {
    let plain = b"\0\0\0\x01a\0\0\0\x00\0\0\0\x02bc";
    for (compression, body) in [(0, Bytes::from_static(plain)), (1, gzip(plain))] {
        let messages: Vec<Bytes> = unpack(compression, 3, body.clone()).unwrap().collect();
        assert_eq!(messages, [&b"a"[..], b"", b"bc"]);
        for count in [0, 2, 4] {
            let refused = unpack(compression, count, body.clone()).map(drop);
            assert_eq!(refused, Err(SubBatchError::Messages));
        }
        for cut in 1..body.len() {
            assert!(
                unpack(compression, 3, body.slice(..cut)).is_err(),
                "{compression} {cut}"
            );
        }
    }
    for codec in [2, 3, 4, 7] {
        let refused = unpack(codec, 1, Bytes::new()).map(drop);
        assert_eq!(refused, Err(SubBatchError::Codec(codec)));
    }
}

/// Takes a batch message by message, so many bytes a turn; what came of it, and how many turns.
fn taken(compression: u8, records: u16, body: Bytes, turn: usize) -> (Vec<Bytes>, u16, usize) {
    let mut unpacking = Unpacking::begin(compression, records, body).unwrap();
    let (mut messages, mut turns, mut budget) = (Vec::new(), 1, turn);
    loop {
        match unpacking.next(&mut budget) {
            Ok(Some(Unpacked::Message(message))) => messages.push(message),
            Ok(Some(Unpacked::End)) | Err(_) => return (messages, unpacking.left(), turns),
            Ok(None) => (turns, budget) = (turns + 1, turn),
        }
    }
}

#[test]
fn messages_of_a_batch_come_as_they_are_asked_for_and_none_of_a_broken_one() {
    // Messages of a byte and of more than is decompressed ahead, an empty one at the end.
    let lengths = [1, 0, 16 * 1024 - 4, 16 * 1024 - 3, 100_000, 7, 40_000, 0];
    let bodies = lengths.map(|len| Bytes::from(vec![b'm'; len]));
    let framed = bodies.iter().map(|body| {
        let head = (body.len() as u32).to_be_bytes();
        [&head[..], body].concat()
    });
    let plain = framed.collect::<Vec<_>>().concat();
    for (compression, body) in [(0, Bytes::from(plain.clone())), (1, gzip(&plain))] {
        for turn in [usize::MAX, 50_000, 1_000] {
            let (messages, left, turns) = taken(compression, 8, body.clone(), turn);
            assert_eq!((&messages[..], left), (&bodies[..], 0));
            assert!(compression == 0 || turns > plain.len() / turn);
        }
        // It claims more than it has, or fewer, or a part of it is missing.
        let half = body.slice(..body.len() / 2);
        for (records, body) in [(9, body.clone()), (3, body), (8, half)] {
            if let Ok(unpacking) = Unpacking::begin(compression, records, body.clone()) {
                assert_eq!(unpacking.left(), records);
                let (messages, left, _) = taken(compression, records, body, 1_000);
                assert_eq!((messages.len(), left), (0, records));
            }
        }
    }
}

#[test]
fn of_a_batch_that_swells_no_more_is_taken_than_there_may_be() {
    let head = |len: u32| len.to_be_bytes();
    let zeros = |len: usize| vec![0; len];
    let most = STREAM_SUB_BATCH_BYTES_MAX;
    let just = gzip(&[&head(most as u32 - 4)[..], &zeros(most - 4)].concat());
    assert_eq!(taken(1, 1, just, usize::MAX).0[0].len(), most - 4);
    for (claimed, len) in [(most as u32 - 3, most), (u32::MAX, 100)] {
        let over = gzip(&[&head(claimed)[..], &zeros(len)].concat());
        assert_eq!(taken(1, 1, over, usize::MAX).1, 1);
    }
    // Empty messages without end.
    let many = taken(1, u16::MAX, gzip(&zeros(2 * most)), usize::MAX);
    assert_eq!(many.1, u16::MAX);
}

#[test]
fn a_batch_that_swells_is_refused() {
    let message = |bytes: usize| {
        let mut plain = (bytes as u32).to_be_bytes().to_vec();
        plain.resize(4 + bytes, 0);
        gzip(&plain)
    };
    let most = STREAM_SUB_BATCH_BYTES_MAX - 4;
    assert_eq!(unpack(1, 1, message(most)).unwrap().count(), 1);
    let refused = unpack(1, 1, message(most + 1)).map(drop);
    assert_eq!(refused, Err(SubBatchError::TooLarge));
}

#[test]
fn random_messages_survive_the_way_there_and_back() {
    for seed in 1..400 {
        let mut random = Random::new(seed);
        let builder = TableBuilder::from(&random.table(4));
        let properties = Properties {
            headers: Some(builder.as_table()),
            timestamp: Some(random.next_u64()),
            ..Properties::default()
        };
        crate::fuzz::properties(&properties.to_bytes());
        let mut changed = entry(&properties, b"body");
        for _ in 0..20 {
            let at = random.below(changed.len() as u64) as usize;
            changed[at] = random.below(256) as u8;
            crate::fuzz::entry(&changed);
        }
    }
}

#[test]
fn a_message_that_is_kept_in_amqp_1_0_is_converted_where_it_leaves() {
    let properties = Properties {
        content_type: Some(b"text/plain"),
        ..Properties::default()
    };
    let parts = MessageParts {
        exchange: b"e",
        routing_key: b"k",
        properties: &properties.to_bytes(),
        body: b"m",
    };
    let plain = Message::from_parts(parts, MessageSummary::default());
    assert!(as_amqp091(&plain).is_none(), "it is one already");
    let mut sections = Vec::new();
    entry_of(&plain, &mut sections);
    let split = sections.len() - b"\x00\x53\x75\xa0\x01m".len();
    let kept = Message::from_parts(
        MessageParts {
            properties: &sections[..split],
            body: &sections[split..],
            ..parts
        },
        MessageSummary {
            persistent: true,
            format: MessageFormat::Amqp10,
            ..MessageSummary::default()
        },
    );
    let left = as_amqp091(&kept).expect("it is another format");
    assert_eq!(
        (left.exchange(), left.routing_key()),
        (&b"e"[..], &b"k"[..])
    );
    assert_eq!(left.body(), b"m");
    let properties = Properties::decode(left.properties()).unwrap();
    assert_eq!(properties.content_type, Some(&b"text/plain"[..]));
    assert!(left.summary.persistent && left.summary.format == MessageFormat::Amqp091);
    // A stream has it as it came.
    let mut entry = Vec::new();
    entry_of(&kept, &mut entry);
    assert_eq!(entry, sections);
}

#[test]
fn what_claims_to_be_amqp_1_0_and_is_not_is_delivered_as_it_is() {
    let parts = MessageParts {
        properties: b"\xff",
        body: b"no sections",
        ..MessageParts::default()
    };
    let summary = MessageSummary {
        format: MessageFormat::Amqp10,
        ..MessageSummary::default()
    };
    let left = as_amqp091(&Message::from_parts(parts, summary)).expect("it is another format");
    assert_eq!(left.body(), b"\xffno sections");
}
