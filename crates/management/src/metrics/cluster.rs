//! Metrics of the cluster and of the replicas of queues.

use super::text::{Counter, Gauge, Kind, Page, Table, Untyped, labels};
use crate::api::{IoStats, NodeStats, ReplicaStats};
use crate::app::App;
use leveret_types::QueueId;
use std::time::{SystemTime, UNIX_EPOCH};

/// Who is reached, and what has a leader. RabbitMQ has the first of these alone.
pub(super) fn cluster(page: &mut Page, app: &App) {
    let view = app.node().cluster();
    let nodes = view.as_ref().map_or(1, |view| view.nodes.len());
    let up = view
        .as_ref()
        .map_or(1, |view| view.nodes.iter().filter(|node| node.up).count());
    let has_leader = view.as_ref().is_none_or(|view| view.leader.is_some());
    let leaderless = app.node().leaderless_queues().len();
    for (name, help, value) in [
        (
            "unreachable_cluster_peers_count",
            "Number of peers in the cluster the current node cannot reach.",
            nodes - up,
        ),
        ("leveret_cluster_nodes", "Nodes of the cluster", nodes),
        (
            "leveret_cluster_nodes_up",
            "Nodes that this node reaches, itself included",
            up,
        ),
        (
            "leveret_catalogue_has_leader",
            "Whether somebody leads the catalogue, as far as this node knows",
            usize::from(has_leader),
        ),
        (
            "leveret_queues_without_leader",
            "Replicated queues with a member here that have no leader",
            leaderless,
        ),
    ] {
        page.one(name, Gauge, help, value as u64);
    }
    let others = view.iter().flat_map(|view| {
        let others = view.nodes.iter().filter(|node| node.number != view.own);
        others.map(|node| (labels(&[("peer", &node.name)]), node.unsent_bytes))
    });
    let help = "Bytes that wait to be sent to another node of the cluster";
    page.metric("leveret_peer_unsent_bytes", Gauge, help, others);
}

/// What Ra counts of parts that replicas do not have here: tables in memory, caches, checkpoints
/// and snapshots of its log, messages between its processes. RabbitMQ shows each; here they stay 0.
const OF_RA: [&str; 34] = [
    "aux_commands",
    "checkpoint_bytes_written",
    "checkpoint_index",
    "checkpoints",
    "checkpoints_promoted",
    "checkpoints_written",
    "command_flushes",
    "effective_machine_version",
    "fetch_term",
    "forced_gcs",
    "invalid_reply_mode_commands",
    "local_queries",
    "major_compaction_segments_compacted",
    "major_compaction_segments_written",
    "major_compactions",
    "max_file_size",
    "max_num_segments",
    "mem_tables",
    "minor_compactions",
    "open_segments",
    "read_cache",
    "read_closed_mem_tbl",
    "read_mem_table",
    "read_ops",
    "read_segment",
    "release_cursors",
    "reserved_1",
    "reserved_2",
    "send_msg_effects_sent",
    "snapshot_bytes_written",
    "snapshot_installed",
    "snapshots_sent",
    "snapshots_written",
    "write_resends",
];

/// Those metrics.
pub(super) fn of_ra(page: &mut Page) {
    for name in OF_RA {
        let help = "Of RabbitMQ's Raft library alone; 0";
        page.one(&format!("raft_{name}"), Untyped, help, 0);
    }
}

/// What the node's log has taken, which the replicas of all queues share, as in RabbitMQ. Here
/// other queues share it too.
pub(super) fn of_log(page: &mut Page, io: &IoStats) {
    for (name, help, value) in [
        (
            "raft_batches",
            "Total number of batches written to the node's log",
            io.log_batches,
        ),
        (
            "raft_bytes_written",
            "Total number of bytes written to the node's log",
            io.log_bytes,
        ),
        (
            "raft_wal_files",
            "Total number of files of the node's log that were begun",
            io.log_files,
        ),
    ] {
        page.one(name, Counter, help, value);
    }
}

/// When the process started.
pub(super) fn start_time(page: &mut Page, node: &NodeStats) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ms = now.map_or(0, |now| now.as_millis());
    let started_ms = now_ms.saturating_sub(u128::from(node.uptime_ms));
    let prefix = std::mem::take(&mut page.prefix);
    let help = "Start time of the process since unix epoch in seconds.";
    let started = started_ms as f64 / 1_000.0;
    page.one("process_start_time_seconds", Gauge, help, started);
    page.prefix = prefix;
}

/// Figures of a replica, and what it has done.
const STATS: usize = 15;
const COUNTS: usize = 12;
const ALL: usize = STATS + COUNTS;

fn stats(replica: &ReplicaStats) -> [f64; ALL] {
    let leads = replica.role == "leader";
    let commit_seconds = replica.commit_ms as f64 / 1e3;
    let counts = &replica.counts;
    // Entries leave the log one by one, when their messages have left.
    let snapshot = 0.0;
    let [term, last, written, applied, committed] = [
        replica.term,
        replica.last_index,
        replica.written,
        replica.applied,
        replica.committed,
    ]
    .map(|figure| figure as f64);
    [
        term,
        last,
        written,
        applied,
        committed,
        snapshot,
        replica.last_index.saturating_sub(replica.applied) as f64,
        f64::from(u8::from(leads)),
        commit_seconds,
        term,
        written,
        applied,
        committed,
        snapshot,
        commit_seconds,
        counts.commands as f64,
        counts.appends as f64,
        counts.empty_appends as f64,
        counts.appends_taken as f64,
        counts.appends_refused as f64,
        counts.requests_sent as f64,
        counts.messages_sent as f64,
        counts.messages_lost as f64,
        counts.trials as f64,
        counts.elections as f64,
        counts.hard_states as f64,
        counts.writes as f64,
    ]
}

/// Where the leaders are counted, and where the times are of which their mean is shown, not their
/// sum.
const LEADERS: usize = 7;
const TIMES: [usize; 2] = [8, 14];

/// Figures of a replica, by the names that RabbitMQ has.
const METRICS: [(&str, Kind, &str); STATS] = [
    ("raft_term", Gauge, "Current term of the member"),
    ("raft_last_index", Gauge, "Last index of the log"),
    (
        "raft_last_written_index",
        Gauge,
        "Last index of the log that is durable",
    ),
    (
        "raft_last_applied",
        Gauge,
        "Last index of the log that has been applied",
    ),
    (
        "raft_commit_index",
        Gauge,
        "Last index of the log that is committed",
    ),
    ("raft_snapshot_index", Gauge, "Index of the last snapshot"),
    (
        "leveret_raft_entries_behind",
        Gauge,
        "Entries of the log that have not been applied",
    ),
    (
        "leveret_raft_leaders",
        Gauge,
        "Whether the member leads its group",
    ),
    (
        "raft_commit_latency_seconds",
        Gauge,
        "Time from an entry's proposal to its commit, of the last one",
    ),
    // The same by the names that RabbitMQ had before 4.2, which its dashboards still ask for.
    ("raft_term_total", Counter, "Current term of the member"),
    (
        "raft_log_last_written_index",
        Gauge,
        "Last index of the log that is durable",
    ),
    (
        "raft_log_last_applied_index",
        Gauge,
        "Last index of the log that has been applied",
    ),
    (
        "raft_log_commit_index",
        Gauge,
        "Last index of the log that is committed",
    ),
    (
        "raft_log_snapshot_index",
        Gauge,
        "Index of the last snapshot",
    ),
    (
        "raft_entry_commit_latency_seconds",
        Gauge,
        "Time from an entry's proposal to its commit, of the last one",
    ),
];

/// What a replica has done, by the same names.
const COUNTERS: [(&str, Kind, &str); COUNTS] = [
    (
        "raft_commands",
        Counter,
        "Total number of entries that the member proposed as the leader",
    ),
    (
        "raft_aer_received_follower",
        Counter,
        "Total number of appends received from a leader",
    ),
    (
        "raft_aer_received_follower_empty",
        Counter,
        "Total number of appends without entries received from a leader",
    ),
    (
        "raft_aer_replies_success",
        Counter,
        "Total number of appends that other members have taken",
    ),
    (
        "raft_aer_replies_fail",
        Counter,
        "Total number of appends that other members have refused",
    ),
    (
        "raft_rpcs_sent",
        Counter,
        "Total number of messages to other members that ask for an answer",
    ),
    (
        "raft_msgs_sent",
        Counter,
        "Total number of messages to other members",
    ),
    (
        "raft_dropped_sends",
        Counter,
        "Total number of messages to members whose nodes were known to be down",
    ),
    (
        "raft_pre_vote_elections",
        Counter,
        "Total number of times the member asked whether it would be voted for",
    ),
    (
        "raft_elections",
        Counter,
        "Total number of times the member stood for election",
    ),
    (
        "raft_term_and_voted_for_updates",
        Counter,
        "Total number of times term or vote were written",
    ),
    (
        "raft_write_ops",
        Counter,
        "Total number of writes to the log of the member",
    ),
];

/// What is shown of the replicas of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RaftRows {
    /// Their sums, and those of what they have done.
    Sums,
    /// Each by its queue.
    Each,
    /// Each by its queue, and what it has done.
    EachWithCounts,
}

/// The replicas here. A node alone has none, and looks at no queue for that.
pub(super) fn raft(page: &mut Page, app: &App, shown: RaftRows) {
    let per_object = shown != RaftRows::Sums;
    let mut rows: Vec<(String, [f64; ALL])> = Vec::new();
    let mut sums = [0.0; ALL];
    let mut slowest = 0.0_f64;
    if app.node().cluster().is_some() {
        let mut queues: Vec<(QueueId, String)> = Vec::new();
        app.node().each_queue(None, &mut |id, vhost, name| {
            let labels = match per_object {
                true => labels(&[("vhost", vhost), ("queue", name)]),
                false => String::new(),
            };
            queues.push((id, labels));
        });
        for (id, labels) in queues {
            let Some(replica) = app.node().replica(id) else {
                continue;
            };
            let stats = stats(&replica);
            slowest = slowest.max(stats[TIMES[0]]);
            match per_object {
                true => rows.push((labels, stats)),
                false => sums
                    .iter_mut()
                    .zip(stats)
                    .for_each(|(sum, figure)| *sum += figure),
            }
        }
    }
    if !per_object {
        for at in TIMES {
            sums[at] /= sums[LEADERS].max(1.0);
        }
        rows.push((String::new(), sums));
    }
    if !per_object {
        let help = "Longest time from an entry's proposal to its commit, of the last one of each \
                    queue";
        let of = labels(&[("ra_system", "quorum_queues")]);
        page.metric(
            "raft_max_commit_latency_seconds",
            Gauge,
            help,
            [(of, slowest)],
        );
    }
    let table = Table::new(rows);
    page.table(&table, 0, &METRICS);
    if shown != RaftRows::Each {
        page.table(&table, STATS, &COUNTERS);
    }
}
