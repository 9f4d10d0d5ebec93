//! What is fuzzed.

use super::{recovery, streams};
use leveret_storage::fuzz::{self, flipped};

/// A function that takes any bytes, and panics if a promise is broken.
pub struct Target {
    /// Its name, and that of its corpus.
    pub name: &'static str,
    /// It.
    pub run: fn(&[u8]),
}

/// All targets, in the order of the catalogue of `docs/testing.md`.
pub static TARGETS: &[Target] = &[
    Target {
        name: "amqp_frame_stream",
        run: leveret_amqp::fuzz::frame_stream,
    },
    Target {
        name: "amqp_method_decode",
        run: leveret_amqp::fuzz::method_decode,
    },
    Target {
        name: "amqp_table",
        run: leveret_amqp::fuzz::table,
    },
    Target {
        name: "amqp_content",
        run: leveret_amqp::fuzz::content,
    },
    Target {
        name: "session_amqp",
        run: leveret_session::fuzz::session,
    },
    Target {
        name: "session_channel",
        run: leveret_session::fuzz::channel_model,
    },
    Target {
        name: "stream_frame",
        run: leveret_stream_protocol::fuzz::frame_stream,
    },
    Target {
        name: "stream_replica",
        run: leveret_stream::replica::fuzz::message,
    },
    Target {
        name: "stream_session",
        run: leveret_stream_session::fuzz::session,
    },
    Target {
        name: "stream_relay",
        run: leveret_cluster::streams::fuzz::fuzz,
    },
    Target {
        name: "message_entry",
        run: leveret_message::fuzz::entry,
    },
    Target {
        name: "message_properties",
        run: leveret_message::fuzz::properties,
    },
    Target {
        name: "disk_wal_record",
        run: wal_record,
    },
    Target {
        name: "disk_segment",
        run: segment,
    },
    Target {
        name: "disk_index",
        run: index,
    },
    Target {
        name: "disk_snapshot",
        run: snapshot,
    },
    Target {
        name: "superblock",
        run: superblock,
    },
    Target {
        name: "wal_recovery",
        run: wal_recovery,
    },
    Target {
        name: "stream_segment",
        run: stream_segment,
    },
    Target {
        name: "stream_journal",
        run: stream_journal,
    },
    Target {
        name: "group_message",
        run: |input| _ = leveret_replication::fuzz::message(input),
    },
    Target {
        name: "group_record",
        run: |input| _ = leveret_replication::fuzz::record(input),
    },
    Target {
        name: "group_members",
        run: |input| _ = leveret_replication::fuzz::members(input),
    },
    Target {
        name: "group_step",
        run: |input| _ = leveret_replication::fuzz::step(input),
    },
    Target {
        name: "peer_frame",
        run: leveret_cluster::wire::fuzz,
    },
    Target {
        name: "link_frame",
        run: leveret_queue_host::quorum::protocol::fuzz,
    },
    Target {
        name: "group_frame",
        run: leveret_queue_host::quorum::replica::fuzz,
    },
    Target {
        name: "peer_member",
        run: crate::cluster::hostile::fuzz,
    },
    Target {
        name: "topic_match",
        run: leveret_routing::fuzz::topic,
    },
    Target {
        name: "headers_match",
        run: leveret_routing::fuzz::headers,
    },
];

fn wal_record(input: &[u8]) {
    let _ = fuzz::record(input);
    let _ = fuzz::wal_head(input);
    fuzz::wal_file_header(input);
    flipped::batch(input);
}

/// Every sixteenth input changes whole files under a start; the others are quick.
fn or_files(input: &[u8], suffixes: &[&str], quick: impl Fn(&[u8])) {
    match input {
        [0..16, rest @ ..] => recovery::changed_files(rest, suffixes),
        _ => quick(input),
    }
}

fn segment(input: &[u8]) {
    or_files(input, &["seg"], |input| {
        let _ = fuzz::segment_block(input);
        flipped::segment_block(input);
    });
}

fn index(input: &[u8]) {
    let _ = fuzz::segment_footer(input);
    flipped::segment_index(input);
}

fn snapshot(input: &[u8]) {
    or_files(input, &["checkpoint"], |input| {
        let _ = fuzz::checkpoint(input);
        flipped::checkpoint(input);
    });
}

fn superblock(input: &[u8]) {
    or_files(input, &["store"], |input| {
        let _ = fuzz::identity(input);
        flipped::identity(input);
    });
}

fn wal_recovery(input: &[u8]) {
    recovery::changed_files(input, &["wal"]);
}

fn stream_segment(input: &[u8]) {
    match input {
        [0..16, rest @ ..] => streams::changed_files(rest, "stream"),
        _ => {
            let _ = fuzz::streams::segment(input);
            fuzz::streams::flipped_segment(input);
        }
    }
}

fn stream_journal(input: &[u8]) {
    match input {
        [0..16, rest @ ..] => streams::changed_files(rest, "journal"),
        _ => {
            let _ = fuzz::streams::journal(input);
            fuzz::streams::flipped_journal(input);
        }
    }
}
