use leveret_stream_protocol::frame::put_frame;
use leveret_stream_protocol::publish::put_message;
use leveret_stream_protocol::server::{StreamMetadata, put_confirm};
use leveret_stream_protocol::{
    Answer, ClientCommand, Key, OffsetSpec, Optional, Request, ResponseCode, ServerCommand,
    Trailing, next_frame,
};

use super::*;

fn login() -> Login {
    Login {
        user: "ann".to_owned(),
        password: "secret".to_owned(),
        virtual_host: "v".to_owned(),
    }
}

/// What a session has sent, as a broker reads it; it is sent no more.
fn sent(out: &mut Vec<u8>) -> Vec<String> {
    let bytes = std::mem::take(out);
    let mut rest = &bytes[..];
    let mut commands = Vec::new();
    while let Some(frame) = next_frame(rest, u32::MAX).unwrap() {
        commands.push(format!("{:?}", ClientCommand::decode(frame).unwrap()));
        rest = &rest[frame.wire_len()..];
    }
    assert!(rest.is_empty());
    commands
}

/// What a broker's command does to a session, as text, and what the session sends for it.
fn on(
    session: &mut Session,
    command: &ServerCommand<'_>,
) -> (Result<Option<String>, Fault>, Vec<String>) {
    let mut bytes = Vec::new();
    command.encode(&mut bytes);
    let frame = next_frame(&bytes, u32::MAX).unwrap().unwrap();
    let mut out = Vec::new();
    let event = session.frame(frame, &mut out);
    let event = event.map(|event| event.map(|event| format!("{event:?}")));
    (event, sent(&mut out))
}

fn answer(correlation_id: u32, answer: Answer<'_>) -> ServerCommand<'_> {
    ServerCommand::Response {
        correlation_id,
        code: ResponseCode::OK,
        answer,
    }
}

const TUNE: ServerCommand<'static> = ServerCommand::Tune {
    frame_max: 500_000,
    heartbeat: 60,
};

/// The broker's side of a handshake.
fn handshake() -> Vec<ServerCommand<'static>> {
    let properties = vec![("product", "RabbitMQ"), ("version", "3.10.8")];
    let mechanisms = vec!["AMQPLAIN", "PLAIN"];
    vec![
        answer(1, Answer::PeerProperties { properties }),
        answer(2, Answer::SaslHandshake { mechanisms }),
        answer(
            3,
            Answer::SaslAuthenticate {
                challenge: Optional(&[]),
            },
        ),
        TUNE,
        answer(
            4,
            Answer::Open {
                properties: Trailing::default(),
            },
        ),
    ]
}

fn open() -> Session {
    let mut session = Session::begin(login(), &mut Vec::new());
    for command in handshake() {
        on(&mut session, &command).0.unwrap();
    }
    assert!(session.is_open());
    session
}

#[test]
fn a_handshake_asks_one_thing_after_another() {
    let mut out = Vec::new();
    let mut session = Session::begin(login(), &mut out);
    let mut asked = vec![sent(&mut out)];
    let mut last = None;
    for command in handshake() {
        assert!(!session.is_open());
        let (event, sent) = on(&mut session, &command);
        last = event.unwrap();
        asked.push(sent);
    }
    assert_eq!(last.as_deref(), Some("Opened"));
    assert!(session.is_open());
    assert_eq!(session.frame_max(), 500_000);
    let product = ("RabbitMQ".to_owned(), "3.10.8".to_owned());
    assert_eq!(session.product(), &product);
    let names = [
        &["PeerProperties"][..],
        &["SaslHandshake"],
        &["SaslAuthenticate"],
        &[],
        &["heartbeat: 0", "Open { vhost: \"v\" }"],
        &[],
    ];
    assert_eq!(asked.len(), names.len());
    for (asked, names) in asked.iter().zip(names) {
        assert_eq!(asked.len(), names.len(), "{asked:?}");
        for (asked, name) in asked.iter().zip(names) {
            assert!(asked.contains(name), "{asked} has no {name}");
        }
    }
    assert!(asked[2][0].contains(&format!("{:?}", b"\0ann\0secret")));
}

#[test]
fn a_handshake_out_of_order_ends_the_connection() {
    let steps = handshake();
    for length in 0..steps.len() {
        for (at, wrong) in steps.iter().enumerate().filter(|(at, _)| *at != length) {
            let mut session = Session::begin(login(), &mut Vec::new());
            for command in &steps[..length] {
                on(&mut session, command).0.unwrap();
            }
            let (event, _) = on(&mut session, wrong);
            let is_fault = matches!(event, Err(Fault::Protocol(_)));
            assert!(is_fault, "step {at} in the place of {length}");
        }
    }
}

#[test]
fn refusals_say_what_was_refused() {
    let code = ResponseCode::AUTHENTICATION_FAILURE;
    let mut session = Session::begin(login(), &mut Vec::new());
    for command in &handshake()[..2] {
        on(&mut session, command).0.unwrap();
    }
    let failure = ServerCommand::failure(Key::SaslAuthenticate, 3, code).unwrap();
    assert_eq!(on(&mut session, &failure).0, Err(Fault::Login(code)));

    let mut session = open();
    let code = ResponseCode::STREAM_DOES_NOT_EXIST;
    let failure = ServerCommand::failure(Key::Subscribe, 9, code).unwrap();
    let fault = on(&mut session, &failure).0.unwrap_err();
    let said = "Subscribe was refused: STREAM_DOES_NOT_EXIST";
    assert_eq!(fault.to_string(), said);

    let close = ServerCommand::Close {
        correlation_id: 77,
        code: ResponseCode::OK,
        reason: "stopping",
    };
    let (event, sent) = on(&mut session, &close);
    let fault = event.unwrap_err();
    assert_eq!(fault.to_string(), "closed: OK stopping");
    assert!(sent[0].contains("Closed { correlation_id: 77"), "{sent:?}");
}

#[test]
fn confirms_and_chunks_reach_those_they_are_for() {
    let mut session = open();
    let mut bytes = Vec::new();
    put_confirm(&mut bytes, 3, &[5, 6, 9]);
    let frame = next_frame(&bytes, u32::MAX).unwrap().unwrap();
    let event = session.frame(frame, &mut Vec::new()).unwrap();
    let Some(Event::Confirmed {
        publisher_id: 3,
        publishing_ids,
    }) = event
    else {
        panic!("{event:?}");
    };
    assert_eq!(publishing_ids.iter().collect::<Vec<_>>(), [5, 6, 9]);

    let errors = vec![(7, ResponseCode::PUBLISHER_DOES_NOT_EXIST)];
    let refused = ServerCommand::PublishError {
        publisher_id: 3,
        errors,
    };
    let (event, _) = on(&mut session, &refused);
    assert!(event.unwrap().unwrap().starts_with("NotKept"));

    for committed_chunk in [None, Some(8)] {
        let deliver = ServerCommand::Deliver {
            subscription_id: 2,
            committed_chunk,
            chunk: b"chunk",
        };
        let (event, _) = on(&mut session, &deliver);
        let expected = Event::Delivered {
            subscription_id: 2,
            chunk: b"chunk",
        };
        assert_eq!(event.unwrap(), Some(format!("{expected:?}")));
    }
}

#[test]
fn what_the_broker_asks_is_answered() {
    let mut session = open();
    let (event, sent) = on(&mut session, &ServerCommand::Heartbeat);
    assert_eq!((event, sent), (Ok(None), vec!["Heartbeat".to_owned()]));
    let update = ServerCommand::ConsumerUpdate {
        correlation_id: 12,
        subscription_id: 1,
        active: true,
    };
    let (event, sent) = on(&mut session, &update);
    assert_eq!(event, Ok(None));
    assert!(sent[0].contains("correlation_id: 12"), "{sent:?}");

    let gone = ServerCommand::MetadataUpdate {
        code: ResponseCode::STREAM_NOT_AVAILABLE,
        stream: "s",
    };
    let fault = Fault::StreamGone("s".to_owned());
    assert_eq!(on(&mut session, &gone).0, Err(fault));
    let mut out = Vec::new();
    session.close(&mut out);
    assert_eq!(on(&mut session, &gone).0, Ok(None));
    let closed = answer(5, Answer::Close {});
    let (event, _) = on(&mut session, &closed);
    assert_eq!(event, Ok(Some("Closed".to_owned())));
}

#[test]
fn requests_are_numbered_and_their_answers_known_by_it() {
    let mut session = open();
    let mut out = Vec::new();
    let subscribe = Request::Subscribe {
        subscription_id: 1,
        stream: "s",
        offset: OffsetSpec::Offset(40),
        credit: 10,
        properties: Optional::default(),
    };
    let first = session.request(subscribe, &mut out);
    let streams = vec!["s"];
    let second = session.request(Request::Metadata { streams }, &mut out);
    session.credit(1, 2, &mut out);
    session.store_offset("group", "s", 41, &mut out);
    assert_eq!(second, first + 1);
    let sent = sent(&mut out);
    assert!(sent[0].contains("Offset(40)") && sent[2].contains("Credit"));
    assert!(sent[3].contains("offset: 41"), "{sent:?}");
    let (event, _) = on(&mut session, &answer(first, Answer::Subscribe {}));
    assert!(event.unwrap().unwrap().contains(&first.to_string()));
    let metadata = ServerCommand::Metadata {
        correlation_id: second,
        nodes: vec![(0, "box", 5552)],
        streams: vec![StreamMetadata {
            stream: "s",
            code: ResponseCode::OK,
            leader: 0,
            replicas: vec![],
        }],
    };
    let (event, _) = on(&mut session, &metadata);
    assert!(event.unwrap().unwrap().starts_with("Metadata"));
}

#[test]
fn what_is_no_frame_of_the_protocol_ends_the_connection() {
    let mut bytes = Vec::new();
    put_frame(&mut bytes, 0x77, 1, |_| {});
    let frame = next_frame(&bytes, u32::MAX).unwrap().unwrap();
    let event = open().frame(frame, &mut Vec::new());
    assert!(matches!(event, Err(Fault::Protocol(_))));
}

/// A chunk from offset 100 with these entries, of so many records.
fn chunk(entries: &[u8], records: u32) -> Vec<u8> {
    let mut crc = flate2::Crc::new();
    crc.update(entries);
    let mut bytes = vec![0x50, 0, 0, 2];
    bytes.extend_from_slice(&records.to_be_bytes());
    bytes.extend_from_slice(&[0; 16]);
    bytes.extend_from_slice(&100_u64.to_be_bytes());
    bytes.extend_from_slice(&crc.sum().to_be_bytes());
    bytes.extend_from_slice(&(entries.len() as u32).to_be_bytes());
    // Trailer and filter have sizes, and are not sent.
    bytes.extend_from_slice(&[0, 0, 0, 9, 16, 0, 0, 0]);
    bytes.extend_from_slice(entries);
    bytes
}

/// Two messages, and between them a batch of two.
fn entries() -> Vec<u8> {
    let message = |body: &[u8]| {
        let mut entry = Vec::new();
        put_message(&mut entry, 0, body);
        entry.split_off(8)
    };
    let batch = [message(b"two"), message(b"")].concat();
    let mut entries = message(b"one");
    entries.extend_from_slice(&[0x80, 0, 2, 0, 0, 0, 11, 0, 0, 0, batch.len() as u8]);
    entries.extend_from_slice(&batch);
    entries.extend_from_slice(&message(b"four"));
    entries
}

fn messages(bytes: &[u8]) -> Result<Vec<(u64, Vec<u8>)>, ChunkError> {
    let mut found = Vec::new();
    let take = |record: Record<'_>| found.push((record.offset, record.body.to_vec()));
    Chunk::parse(bytes)?.each(take)?;
    Ok(found)
}

#[test]
fn messages_of_a_chunk_have_their_offsets_also_in_batches() {
    let expected: [(u64, &[u8]); 4] = [(100, b"one"), (101, b"two"), (102, b""), (103, b"four")];
    let expected = expected.map(|(offset, body)| (offset, body.to_vec()));
    assert_eq!(messages(&chunk(&entries(), 4)), Ok(expected.to_vec()));
}

#[test]
fn damage_of_a_chunk_shows_wherever_it_is() {
    let whole = chunk(&entries(), 4);
    for length in 0..whole.len() {
        assert_eq!(
            messages(&whole[..length]),
            Err(ChunkError::Truncated),
            "{length}"
        );
    }
    for at in 48..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 4;
        let found = messages(&damaged);
        assert!(
            matches!(found, Err(ChunkError::Checksum { first: 100, .. })),
            "{at}"
        );
    }
    let mut other = whole;
    other[0] = 0x40;
    assert_eq!(messages(&other), Err(ChunkError::Magic(0x40)));
    for said in [3, 5] {
        let found = messages(&chunk(&entries(), said));
        let error = ChunkError::Records {
            first: 100,
            said,
            found: 4,
        };
        assert_eq!(found, Err(error));
    }
    let compressed = chunk(b"\x90\0\x01\0\0\0\x01\0\0\0\x01x", 1);
    assert_eq!(messages(&compressed), Err(ChunkError::Compressed(1)));
    // A message of 2 GiB, of which there is one octet.
    let claimed = chunk(b"\x7F\xFF\xFF\xFFx", 1);
    assert_eq!(messages(&claimed), Err(ChunkError::Truncated));
}

#[test]
fn a_section_holds_what_was_put_into_it() {
    for length in [0, 1, 255, 256, 70_000] {
        let data = vec![7; length];
        let mut body = Vec::new();
        put_section(&mut body, length);
        body.extend_from_slice(&data);
        assert_eq!(body.len(), section_bytes(length), "{length}");
        assert_eq!(section_data(&body), Some(&data[..]), "{length}");
        assert_eq!(section_data(&body[..body.len() - 1]), None, "{length}");
    }
    assert_eq!(section_data(b"\0\x53\x77\xA0\x01x"), None);
}
