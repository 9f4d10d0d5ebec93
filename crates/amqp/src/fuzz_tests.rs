use super::*;
use crate::encode;
use crate::frame::FrameKind;
use crate::generated::{Method, basic, queue};
use crate::method::peek_ids;

/// One of each method, with fields that are not zero.
fn every_method() -> Vec<Vec<u8>> {
    let spec = include_str!("../spec/methods.txt");
    let lines = spec
        .lines()
        .filter(|l| !l.trim().is_empty() && !l.starts_with('#'));
    lines.map(payload_of).collect()
}

fn payload_of(line: &str) -> Vec<u8> {
    let mut words = line.split_whitespace();
    let ids = words.nth(1).unwrap().split_once('.').unwrap();
    let mut out = Vec::new();
    out.extend(ids.0.parse::<u16>().unwrap().to_be_bytes());
    out.extend(ids.1.parse::<u16>().unwrap().to_be_bytes());
    let mut bits = 0;
    for word in words.filter(|w| w.contains(':')) {
        let (name, kind) = word.split_once(':').unwrap();
        let fill = u8::from(!name.starts_with("reserved"));
        if kind == "bit" {
            let octet = if bits % 8 == 0 { 0 } else { out.pop().unwrap() };
            out.push(octet | fill << (bits % 8));
            bits += 1;
            continue;
        }
        bits = 0;
        match (kind, fill) {
            ("octet", _) => out.push(fill),
            ("short", _) => out.extend(u16::from(fill).to_be_bytes()),
            ("long", _) => out.extend(u32::from(fill).to_be_bytes()),
            ("longlong", _) => out.extend(u64::from(fill).to_be_bytes()),
            ("shortstr", 0) => out.push(0),
            ("shortstr", _) => out.extend(b"\x02ab"),
            ("longstr", 0) => out.extend([0; 4]),
            ("longstr", _) => out.extend(b"\0\0\0\x03abc"),
            ("table", _) => out.extend(b"\0\0\0\x04\x01kt\x01"),
            other => panic!("{other:?}"),
        }
    }
    out
}

#[test]
fn every_method_is_read_and_written_to_the_octet() {
    let methods = every_method();
    assert_eq!(methods.len(), 66);
    for payload in methods {
        let method = Method::decode(&payload).unwrap();
        assert_eq!(method.ids(), peek_ids(&payload));
        let mut again = Vec::new();
        method.encode(&mut again);
        assert_eq!(again, payload, "{}", method.name());
        for cut in 0..payload.len() {
            assert!(
                Method::decode(&payload[..cut]).is_err(),
                "{} {cut}",
                method.name()
            );
        }
        let longer = [&payload[..], &[0]].concat();
        assert!(Method::decode(&longer).is_err(), "{}", method.name());
    }
}

#[test]
fn no_other_method_exists() {
    let known: Vec<_> = every_method().iter().map(|p| peek_ids(p)).collect();
    for (class, method) in (0..100).flat_map(|class| (0..130).map(move |m| (class, m))) {
        let payload = [class as u8 as u16, method].map(u16::to_be_bytes).concat();
        let unknown =
            Method::decode(&payload) == Err(crate::DecodeError::UnknownMethod { class, method });
        assert_eq!(unknown, !known.contains(&(class, method)));
    }
}

#[test]
fn names_that_are_no_text_are_refused_but_where_messages_carry_them() {
    let declare = queue::DeclareOk {
        queue: "ab",
        message_count: 0,
        consumer_count: 0,
    };
    let mut payload = Vec::new();
    crate::EncodeMethod::encode(&declare, &mut payload);
    payload[5] = 0xFF;
    assert_eq!(Method::decode(&payload), Err(crate::DecodeError::NotUtf8));
    let publish = basic::Publish {
        exchange: b"\xFF",
        routing_key: b"\xFE\x00",
        mandatory: true,
        immediate: false,
    };
    let mut payload = Vec::new();
    crate::EncodeMethod::encode(&publish, &mut payload);
    assert_eq!(Method::decode(&payload), Ok(Method::BasicPublish(publish)));
}

/// Changes a few octets, cuts or repeats.
fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..random.below(4) {
        let length = bytes.len() as u64;
        if length == 0 {
            return;
        }
        let at = random.below(length) as usize;
        match random.below(4) {
            0 => bytes[at] = random.below(256) as u8,
            1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes.truncate(at),
            _ => bytes.insert(at, random.below(256) as u8),
        }
    }
}

#[test]
fn promises_hold_over_mutated_input() {
    let methods = every_method();
    for seed in 1..20_000 {
        let mut random = Random::new(seed);
        let mut payload = methods[random.below(methods.len() as u64) as usize].clone();
        mutate(&mut random, &mut payload);
        method_decode(&payload);

        let mut stream = random.bytes(9);
        for _ in 0..random.below(4) {
            let kind =
                [FrameKind::Method, FrameKind::Header, FrameKind::Body][random.below(3) as usize];
            let channel = random.below(9) as u16;
            encode::frame(&mut stream, kind, channel, |out| {
                out.extend_from_slice(&payload)
            });
        }
        mutate(&mut random, &mut stream);
        frame_stream(&stream);

        let table_builder = TableBuilder::from(&random.table(5));
        let mut entries = table_builder.as_table().as_bytes().to_vec();
        mutate(&mut random, &mut entries);
        table(&entries);

        let properties = Properties {
            headers: Some(table_builder.as_table()),
            expiration: Some(b"60000"),
            priority: Some(9),
            ..Properties::default()
        };
        let mut header = Vec::new();
        let properties = &properties.to_bytes();
        ContentHeader {
            class: 60,
            body_size: random.next_u64(),
            properties,
        }
        .encode(&mut header);
        mutate(&mut random, &mut header);
        content(&header);
    }
}
