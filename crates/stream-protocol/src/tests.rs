use crate::client::ClientCommand;
use crate::code::ResponseCode;
use crate::error::DecodeError;
use crate::frame::{Frame, next_frame};
use crate::fuzz;
use crate::fuzz_frames::{every_frame, lines};
use crate::key::Key;
use crate::server::ServerCommand;
use leveret_types::limits::STREAM_FRAME_BYTES_MAX;
use std::collections::BTreeSet;

fn frame(bytes: &[u8]) -> Frame<'_> {
    let frame = next_frame(bytes, STREAM_FRAME_BYTES_MAX).expect("a frame");
    frame.expect("a whole frame")
}

fn decoded(side: char, frame: Frame<'_>) -> Result<Vec<u8>, DecodeError> {
    let mut out = Vec::new();
    match side {
        'C' => ClientCommand::decode(frame)?.encode(&mut out),
        _ => ServerCommand::decode(frame)?.encode(&mut out),
    }
    Ok(out)
}

#[test]
fn every_command_is_read_and_written_to_the_octet() {
    let mut keys = BTreeSet::new();
    for (side, name, bytes) in lines() {
        let frame = frame(&bytes);
        keys.insert(frame.key);
        assert_eq!(decoded(side, frame), Ok(bytes.clone()), "{side} {name}");
    }
    assert_eq!(keys.len(), Key::ALL.len());
}

#[test]
fn no_command_is_read_from_a_part_of_itself_or_with_more_behind_it() {
    for (side, name, bytes) in lines() {
        let whole = frame(&bytes);
        for cut in 0..whole.content.len() {
            let part = Frame {
                content: &whole.content[..cut],
                ..whole
            };
            // What may be left out at the end may be cut there, and a chunk anywhere.
            if let Ok(shorter) = decoded(side, part) {
                let optional = [
                    "Subscribe",
                    "Open",
                    "SaslAuthenticate",
                    "Deliver",
                    "ConsumerUpdated",
                ];
                let answer = side == 'S' && cut == 6;
                assert!(answer || optional.contains(&name), "{side} {name} {cut}");
                assert!(shorter.len() <= bytes.len());
            }
        }
        let longer = [whole.content, b"x"].concat();
        let longer = Frame {
            content: &longer,
            ..whole
        };
        if name != "Deliver" {
            assert!(decoded(side, longer).is_err(), "{side} {name}");
        }
    }
}

#[test]
fn commands_of_other_numbers_versions_and_directions_are_unknown() {
    let of = |key, response, version| Frame {
        key,
        response,
        version,
        content: &[0; 64],
    };
    for (frame, expected) in [
        (of(0, false, 1), DecodeError::UnknownCommand { key: 0 }),
        (
            of(0x20, false, 1),
            DecodeError::UnknownCommand { key: 0x20 },
        ),
        (
            of(0x7FFF, true, 1),
            DecodeError::UnknownCommand { key: 0xFFFF },
        ),
        (of(3, false, 1), DecodeError::UnknownCommand { key: 3 }),
        (of(1, true, 1), DecodeError::UnknownCommand { key: 0x8001 }),
        (
            of(2, false, 3),
            DecodeError::UnknownVersion { key: 2, version: 3 },
        ),
        (
            of(2, false, 0),
            DecodeError::UnknownVersion { key: 2, version: 0 },
        ),
        (
            of(1, false, 2),
            DecodeError::UnknownVersion { key: 1, version: 2 },
        ),
    ] {
        assert_eq!(ClientCommand::decode(frame).err(), Some(expected));
    }
    let update = of(2, false, 1);
    assert!(ServerCommand::decode(update).is_err());
}

#[test]
fn an_answer_to_an_update_may_say_a_number_that_its_offset_does_not_have() {
    let content = [&[0, 0, 0, 9, 0, 1, 0, 1][..], &[0; 8]].concat();
    for length in [8, 16] {
        let frame = Frame {
            key: 0x1A,
            response: true,
            version: 1,
            content: &content[..length],
        };
        match ClientCommand::decode(frame) {
            Ok(ClientCommand::ConsumerUpdated { offset, .. }) => {
                assert_eq!(offset, crate::OffsetSpec::First);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_deliver_is_the_same_with_its_chunk_from_elsewhere() {
    for committed_chunk in [None, Some(42)] {
        let deliver = ServerCommand::Deliver {
            subscription_id: 3,
            committed_chunk,
            chunk: b"chunk",
        };
        let (mut whole, mut parts) = (Vec::new(), Vec::new());
        deliver.encode(&mut whole);
        crate::server::put_deliver_head(&mut parts, 3, committed_chunk, 5);
        parts.extend_from_slice(b"chunk");
        assert_eq!(whole, parts);
    }
}

#[test]
fn confirms_may_be_more_than_a_list_has_entries() {
    let ids: Vec<u64> = (0..10_000).collect();
    let mut bytes = Vec::new();
    crate::server::put_confirm(&mut bytes, 9, &ids);
    match ServerCommand::decode(frame(&bytes)) {
        Ok(ServerCommand::PublishConfirm { publishing_ids, .. }) => {
            assert_eq!(publishing_ids.iter().collect::<Vec<_>>(), ids);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn changed_frames_break_nothing() {
    let mut state = 1_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for seed in fuzz::seeds() {
        for _ in 0..200 {
            let mut input = seed.clone();
            for _ in 0..random() % 4 {
                let at = (random() % input.len() as u64) as usize;
                input[at] = random() as u8;
            }
            fuzz::frame_stream(&input);
        }
    }
    assert!(every_frame().len() > 31);
}

#[test]
fn a_refused_virtual_host_is_told_with_an_empty_map_which_clients_read_all_the_same() {
    let code = ResponseCode::VIRTUAL_HOST_ACCESS_FAILURE;
    let refused = ServerCommand::failure(Key::Open, 7, code).unwrap();
    let mut bytes = Vec::new();
    refused.encode(&mut bytes);
    assert_eq!(
        bytes,
        [0, 0, 0, 14, 0x80, 0x15, 0, 1, 0, 0, 0, 7, 0, 12, 0, 0, 0, 0]
    );
}

#[test]
fn every_command_of_a_client_has_a_row_in_the_table_of_permissions() {
    use Key::{
        ConsumerUpdate, Deliver, MetadataUpdate, Open, PeerProperties, PublishConfirm,
        PublishError, SaslAuthenticate, SaslHandshake, Tune,
    };
    let of_the_broker = [
        PublishConfirm,
        PublishError,
        Deliver,
        MetadataUpdate,
        ConsumerUpdate,
        Tune,
    ];
    let before_login = [PeerProperties, SaslHandshake, SaslAuthenticate, Open];
    let table = include_str!("../../../tests/interop/permissions.txt");
    let rows = table
        .lines()
        .filter_map(|line| line.strip_prefix("STREAM "));
    let rows: Vec<_> = rows.filter_map(|row| row.split(' ').next()).collect();
    let wanted = Key::ALL.into_iter();
    let wanted = wanted.filter(|key| !of_the_broker.contains(key) && !before_login.contains(key));
    let wanted: Vec<_> = wanted.map(|key| format!("{key:?}")).collect();
    assert_eq!(rows, wanted);
}
