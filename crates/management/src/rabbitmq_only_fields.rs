//! Fields that RabbitMQ's answers have and that stand for nothing here: Erlang's processes,
//! Mnesia's tables, the files of its message store. Clients with types want them to be there, so
//! they are zero, or empty.

use serde_json::{Map, Value, json};

/// Erlang collects garbage by process.
pub(crate) fn garbage_collection() -> Value {
    json!({
        "fullsweep_after": 0,
        "max_heap_size": 0,
        "min_bin_vheap_size": 0,
        "min_heap_size": 0,
        "minor_gcs": 0,
    })
}

/// What a connection's process did, and what is not told of its client's certificate.
pub(crate) fn of_connection() -> Value {
    json!({
        "garbage_collection": garbage_collection(),
        "reductions": 0,
        "reductions_details": {"rate": 0.0},
        "peer_cert_issuer": null,
        "peer_cert_serial_number": null,
        "peer_cert_validity": null,
        "ssl_hash": null,
        "ssl_key_exchange": null,
    })
}

/// What a channel's process did.
pub(crate) fn of_channel() -> Value {
    json!({
        "garbage_collection": garbage_collection(),
        "reductions": 0,
        "reductions_details": {"rate": 0.0},
        "cached_segments": 0,
        "pending_raft_commands": 0,
    })
}

/// Counters of a node that nothing here counts.
const OF_NODE: [&str; 13] = [
    "gc_num",
    "gc_bytes_reclaimed",
    "context_switches",
    "io_seek_count",
    "io_seek_avg_time",
    "io_reopen_count",
    "mnesia_ram_tx_count",
    "mnesia_disk_tx_count",
    "msg_store_read_count",
    "msg_store_write_count",
    "queue_index_write_count",
    "queue_index_read_count",
    "queue_index_journal_write_count",
];

/// The Erlang of a node, its tables, and its message store.
pub(crate) fn of_node() -> Value {
    let mut fields = Map::new();
    for name in OF_NODE {
        fields.insert(name.to_owned(), 0.into());
        fields.insert(format!("{name}_details"), json!({"rate": 0.0}));
    }
    fields.insert("metrics_gc_queue_length".to_owned(), json!({}));
    fields.insert("ra_open_file_metrics".to_owned(), json!({}));
    Value::Object(fields)
}
