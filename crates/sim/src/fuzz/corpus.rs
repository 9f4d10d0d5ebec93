//! The inputs that fuzzing begins with: files in `fuzz/corpus`, and how they came to be.

use super::target::TARGETS;
use leveret_amqp::fuzz::Random;
use leveret_amqp::{EncodeMethod, RawTable, basic, confirm, encode, exchange, queue, tx};
use leveret_amqp::{PROTOCOL_HEADER, TableBuilder};
use leveret_session::fuzz::{frames, handshake};
use std::io;
use std::path::{Path, PathBuf};

/// The folder of a target's corpus.
#[must_use]
pub fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target)
}

/// The corpus of a target, in the order of the files' names.
#[must_use]
pub fn load(target: &str) -> Vec<Vec<u8>> {
    let Ok(entries) = std::fs::read_dir(folder(target)) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    paths.sort_unstable();
    paths
        .iter()
        .filter_map(|path| std::fs::read(path).ok())
        .collect()
}

/// Writes the corpora anew. Inputs that fuzzing has found are files of other names and stay.
///
/// # Errors
/// What the disk says.
pub fn write() -> io::Result<usize> {
    let mut count = 0;
    for target in TARGETS {
        let folder = folder(target.name);
        std::fs::create_dir_all(&folder)?;
        for (number, input) in seeds(target.name).into_iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number:02}")), input)?;
            count += 1;
        }
    }
    Ok(count)
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let mut random = Random::new(target.len() as u64);
    let mut some = |count: u64, most: u64| -> Vec<Vec<u8>> {
        (0..count).map(|_| random.bytes(most)).collect()
    };
    match target {
        "amqp_frame_stream" => streams(),
        "amqp_method_decode" => methods(),
        "amqp_table" => tables(),
        "amqp_content" => contents(),
        "session_amqp" => some(6, 80).into_iter().chain(sessions()).collect(),
        "session_channel" => some(8, 200)
            .into_iter()
            .map(|s| [vec![s.len() as u8], s].concat())
            .collect(),
        "stream_frame" => leveret_stream_protocol::fuzz::seeds(),
        "stream_replica" => leveret_stream::replica::fuzz::seeds(),
        "stream_relay" => leveret_cluster::streams::fuzz::seeds(),
        "message_entry" => leveret_message::fuzz::seeds(),
        "message_properties" => leveret_message::fuzz::property_seeds(),
        "stream_session" => leveret_stream_session::fuzz::seeds(),
        "topic_match" => [
            &b"a.b.c\na.*.c\n#\na.#\n*.b.#"[..],
            b".\n#.#\n*",
            b"a\na\na.#.a",
            b"x..y\n*.*.*\n#.y",
        ]
        .map(<[u8]>::to_vec)
        .into(),
        "headers_match" => some(6, 24),
        "wal_recovery" => changes(None, 10),
        "group_message" | "group_record" | "group_members" | "group_step" => {
            leveret_replication::fuzz::seeds(target)
        }
        "peer_member" => crate::cluster::hostile::seeds(),
        "peer_frame" => leveret_cluster::wire::seeds(),
        "link_frame" => leveret_queue_host::quorum::protocol::seeds(),
        "group_frame" => leveret_queue_host::quorum::replica::seeds(),
        "stream_segment" | "stream_journal" => {
            let [segments, journals] = leveret_storage::fuzz::streams::seeds();
            let known = match target {
                "stream_segment" => segments,
                _ => journals,
            };
            known.into_iter().chain(changes_of_streams()).collect()
        }
        "disk_segment" | "disk_snapshot" | "superblock" => some(5, 400)
            .into_iter()
            .chain(changes(Some(3), 6))
            .collect(),
        _ => some(8, 600),
    }
}

/// Scripts of changes to files: of each kind one, and some of several.
fn changes(prefix: Option<u8>, count: u64) -> Vec<Vec<u8>> {
    let mut random = Random::new(count);
    let script = |kind: u64| {
        let mut input: Vec<u8> = prefix.into_iter().collect();
        input.push(kind as u8);
        for _ in 0..random.below(4) + 1 {
            input.push(kind as u8);
            input.extend((0..7).map(|_| random.below(256) as u8));
        }
        input
    };
    (0..count).map(script).collect()
}

/// The same for files of streams, some of which have lost what was synced in the journal.
fn changes_of_streams() -> impl Iterator<Item = Vec<u8>> {
    let scripts = changes(Some(3), 8)
        .into_iter()
        .zip([0, 0xFF].into_iter().cycle());
    scripts.map(|(mut script, lost)| {
        script.insert(2, lost);
        script
    })
}

fn streams() -> Vec<Vec<u8>> {
    let open = [
        vec![3, 200, 0, 7, 1, 90, 30, 255],
        PROTOCOL_HEADER.to_vec(),
        handshake(),
    ]
    .concat();
    let talk = [vec![9; 8], frames(&[20, 3, 7, 1, 12, 9, 18, 0, 22, 70])].concat();
    let broken = [vec![0; 8], handshake()[..20].to_vec(), vec![0xCE, 0, 0]].concat();
    vec![open, talk, broken, vec![1; 8]]
}

fn payload(method: &impl EncodeMethod) -> Vec<u8> {
    let mut out = Vec::new();
    encode::method(&mut out, 1, method);
    // Without the frame's header and its end.
    out[7..out.len() - 1].to_vec()
}

fn methods() -> Vec<Vec<u8>> {
    let table = TableBuilder::from(&Random::new(5).table(3));
    let arguments = table.as_table();
    let mut all = vec![
        payload(&queue::Declare {
            queue: "q",
            passive: false,
            durable: true,
            exclusive: false,
            auto_delete: true,
            nowait: false,
            arguments,
        }),
        payload(&exchange::Declare {
            exchange: "e",
            kind: "topic",
            passive: false,
            durable: true,
            auto_delete: false,
            internal: false,
            nowait: false,
            arguments,
        }),
        payload(&basic::Publish {
            exchange: b"",
            routing_key: b"q",
            mandatory: true,
            immediate: false,
        }),
        payload(&basic::Consume {
            queue: "q",
            consumer_tag: "c",
            no_local: false,
            no_ack: true,
            exclusive: false,
            nowait: false,
            arguments: RawTable::EMPTY,
        }),
        payload(&basic::Ack {
            delivery_tag: 1 << 40,
            multiple: true,
        }),
        payload(&confirm::Select { nowait: true }),
        payload(&tx::Commit {}),
    ];
    let mut rest = &handshake()[..];
    while let Ok(Some(frame)) = leveret_amqp::next_frame(rest, 4096) {
        all.push(frame.payload.to_vec());
        rest = &rest[frame.wire_len()..];
    }
    all
}

fn tables() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = (0..8)
        .map(|seed| {
            TableBuilder::from(&Random::new(seed).table(6))
                .as_table()
                .as_bytes()
                .to_vec()
        })
        .collect();
    // Nested as deep as a table may be: each level is a name, a kind and a length.
    let mut nested = Vec::new();
    for _ in 0..99 {
        let length = (nested.len() as u32).to_be_bytes();
        nested = [&[1, b'n', b'F'][..], &length, &nested].concat();
    }
    all.push(nested);
    all
}

fn contents() -> Vec<Vec<u8>> {
    let header = |size: u64, flags: u16, properties: &[u8]| {
        [
            &[0, 60, 0, 0][..],
            &size.to_be_bytes(),
            &flags.to_be_bytes(),
            properties,
        ]
        .concat()
    };
    let table = TableBuilder::from(&Random::new(9).table(3));
    let table = table.as_table().as_bytes();
    let headers = [&(table.len() as u32).to_be_bytes()[..], table].concat();
    vec![
        header(0, 0, &[]),
        header(1 << 40, 0x8000, b"\x04text"),
        header(5, 0x2000, &headers),
        header(5, 0x1800, &[2, 9]),
        header(9, 0x0001, &[0, 0]),
    ]
}

fn sessions() -> Vec<Vec<u8>> {
    let behind = [vec![1, 7], frames(&[20, 1, 7, 0, 13, 5])].concat();
    let script = vec![3, 9, 11, 0, 20, 64, 7, 3, 16, 9, 17, 9, 19, 0];
    let whole = [vec![0, 3], PROTOCOL_HEADER.to_vec(), handshake()].concat();
    vec![behind, script, whole]
}
