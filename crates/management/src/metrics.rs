//! Prometheus metrics in the text format, under the names of RabbitMQ's plugin.
//!
//! `/metrics` sums over objects, so that its size does not grow with the number of queues.
//! `/metrics/per-object` shows each queue, channel and connection. `/metrics/detailed` shows the
//! families that the query names, with the prefix `rabbitmq_detailed_`.

mod clients;
mod cluster;
mod deliveries;
mod exchanges;
mod global;
mod node;
mod queues;
mod streams;
mod text;

use crate::api::{BrokerStats, NodeStats};
use crate::app::App;
use crate::http::chunked_body::Pieces;
use crate::http::input::percent_decode;
use crate::http::reply::ApiError;
use crate::overview;
use clients::{
    ClientTables, channel_deliveries, channel_metrics, channel_processes, channel_publishes,
    client_tables, connection_bytes, connection_metrics,
};
use cluster::{RaftRows, cluster, of_log, of_ra, raft, start_time};
use exchanges::{exchange_bindings, exchange_metrics, exchange_names, queue_exchange_metrics};
use global::global;
use leveret_types::limits::METRICS_NAMES_MAX;
use node::{
    auth_attempts, auth_attempts_by_source, churn, identity, node_limits, node_persister,
    node_process, node_usage, sync_histogram, totals,
};
pub(crate) use queues::SharedTable;
use queues::{
    QueueTable, Scope, queue_coarse, queue_consumers, queue_deliveries, queue_info, queue_metrics,
    queue_publishes, queue_table,
};
use std::cell::OnceCell;
use streams::stream_consumers;
use text::{Gauge, Page, labels};

/// One page by its path.
pub fn page(app: &App, path: &str, query: &str) -> Result<Pieces, ApiError> {
    let per_object = match path {
        "/metrics" => app.per_object,
        "/metrics/per-object" => true,
        "/metrics/detailed" => return detailed(app, query),
        "/metrics/memory-breakdown" => return Ok(memory_breakdown(app)),
        _ => return Err(ApiError::NotFound),
    };
    let endpoint = if per_object {
        "per-object"
    } else {
        "aggregated"
    };
    let mut page = Page::new("rabbitmq_");
    let (node, broker) = (app.node().node_stats(), app.node().broker_stats());
    identity(&mut page, &node, endpoint);
    node_usage(&mut page, &node);
    node_limits(&mut page, &node);
    node_process(&mut page, &node);
    node_persister(&mut page, &node);
    sync_histogram(&mut page, &node.io);
    totals(&mut page, app, &broker);
    churn(&mut page, &broker);
    auth_attempts(&mut page, app, &broker);
    if per_object {
        auth_attempts_by_source(&mut page, app);
    }
    global(&mut page, &broker);
    cluster(&mut page, app);
    let shown = match per_object {
        true => RaftRows::Each,
        false => RaftRows::Sums,
    };
    raft(&mut page, app, shown);
    of_ra(&mut page);
    of_log(&mut page, &node.io);
    start_time(&mut page, &node);
    let queues = queue_table(app, &Scope::default(), per_object);
    queue_coarse(&mut page, &queues);
    queue_consumers(&mut page, &queues);
    queue_metrics(&mut page, &queues);
    queue_deliveries(&mut page, &queues);
    queue_publishes(&mut page, &queues);
    if per_object {
        queue_info(&mut page, &queues);
        stream_consumers(&mut page, app, &Scope::default());
    }
    exchange_metrics(&mut page, app, &Scope::default(), per_object);
    let clients = client_tables(app, per_object);
    // Connections have just been looked at: what they have gathered is there.
    queue_exchange_metrics(&mut page, app, &Scope::default(), per_object);
    channel_metrics(&mut page, &clients);
    channel_publishes(&mut page, &clients);
    channel_deliveries(&mut page, &clients);
    channel_processes(&mut page, &clients);
    connection_bytes(&mut page, &clients);
    connection_metrics(&mut page, &clients);
    Ok(page.pieces())
}

/// Where the node's memory is, under RabbitMQ's names for its parts.
fn memory_breakdown(app: &App) -> Pieces {
    const PARTS: [(&str, &str); 25] = [
        ("code", "code_module"),
        ("connection_readers", "client_connection_reader"),
        ("connection_writers", "client_connection_writer"),
        ("connection_channels", "client_connection_channel"),
        ("connection_other", "client_connection_other"),
        ("queue_procs", "classic_queue_erlang_process"),
        ("quorum_queue_procs", "quorum_queue_erlang_process"),
        ("quorum_queue_dlx_procs", "quorum_queue_dlx_erlang_process"),
        ("stream_queue_procs", "stream_erlang_process"),
        (
            "stream_queue_replica_reader_procs",
            "stream_replica_reader_erlang_process",
        ),
        (
            "stream_queue_coordinator_procs",
            "stream_coordinator_erlang_process",
        ),
        ("plugins", "plugin"),
        ("metadata_store", "modern_metadata_store"),
        ("other_proc", "other_erlang_process"),
        ("metrics", "metrics"),
        ("mgmt_db", "management_stats_db"),
        ("mnesia", "classic_metadata_store"),
        ("quorum_ets", "quorum_queue_ets_table"),
        ("metadata_store_ets", "modern_metadata_store_ets_table"),
        ("other_ets", "other_ets_table"),
        ("binary", "binary_heap"),
        ("msg_index", "message_index"),
        ("atom", "atom_table"),
        ("other_system", "other_system"),
        ("allocated_unused", "runtime_allocated_unused"),
    ];
    let memory = overview::own_memory(app);
    let mut page = Page::new("rabbitmq_");
    identity(&mut page, &app.node().node_stats(), "memory-breakdown");
    page.prefix = "rabbitmq_memory_";
    let reserved = [("reserved_unallocated", "runtime_reserved_unallocated")];
    for (part, name) in PARTS.into_iter().chain(reserved) {
        let bytes = memory["memory"][part].as_u64().unwrap_or(0);
        let help = format!("Memory of the part {part}, in bytes");
        page.one(&format!("{name}_bytes"), Gauge, &help, bytes);
    }
    page.pieces()
}

fn detailed(app: &App, query: &str) -> Result<Pieces, ApiError> {
    let bad = || ApiError::BadRequest("the query is not percent-encoded UTF-8".to_owned());
    let (mut families, mut scope) = (Vec::new(), Scope::default());
    for (number, pair) in query.split('&').filter(|p| !p.is_empty()).enumerate() {
        if number == METRICS_NAMES_MAX {
            let text = format!("a query may have {METRICS_NAMES_MAX} names");
            return Err(ApiError::BadRequest(text));
        }
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = percent_decode(&value.replace('+', " ")).ok_or_else(bad)?;
        match name {
            "family" => families.push(value),
            "vhost" => drop(scope.vhosts.insert(value)),
            "queue" => drop(scope.queues.insert(value)),
            _ => {}
        }
    }
    let mut page = Page::new("rabbitmq_");
    let (node, broker) = (app.node().node_stats(), app.node().broker_stats());
    identity(&mut page, &node, "detailed");
    page.prefix = "rabbitmq_detailed_";
    families.sort_unstable();
    // A family named twice is there once: the format forbids more.
    families.dedup();
    let tables = Tables::default();
    // Metadata of queues go with what is told of them, once.
    let of_queues = [
        "queue_coarse_metrics",
        "queue_metrics",
        "queue_consumer_count",
    ];
    let is_info = |family: &String| family == "queue_info";
    if families.iter().any(|family| of_queues.contains(&&**family)) && !families.iter().any(is_info)
    {
        families.push("queue_info".to_owned());
    }
    for family in &families {
        one_family(&mut page, app, family, (&scope, &tables), (&node, &broker));
    }
    Ok(page.pieces())
}

/// What families of a page share.
#[derive(Default)]
struct Tables {
    queues: OnceCell<QueueTable>,
    clients: OnceCell<ClientTables>,
}

fn one_family(
    page: &mut Page,
    app: &App,
    family: &str,
    (scope, tables): (&Scope, &Tables),
    (node, broker): (&NodeStats, &BrokerStats),
) {
    let queues = || {
        let table = &tables.queues;
        table.get_or_init(|| queue_table(app, scope, true))
    };
    let clients = || tables.clients.get_or_init(|| client_tables(app, true));
    match family {
        "connection_churn_metrics" => churn(page, broker),
        "auth_attempt_metrics" => auth_attempts(page, app, broker),
        "auth_attempt_detailed_metrics" => auth_attempts_by_source(page, app),
        "node_metrics" => node_limits(page, node),
        "node_coarse_metrics" => node_usage(page, node),
        "node_persister_metrics" => node_persister(page, node),
        "ra_metrics" => {
            raft(page, app, RaftRows::EachWithCounts);
            of_ra(page);
            of_log(page, &node.io);
        }
        "queue_coarse_metrics" => queue_coarse(page, queues()),
        "queue_metrics" => {
            let queues = queues();
            queue_consumers(page, queues);
            queue_metrics(page, queues);
        }
        "queue_consumer_count" => queue_consumers(page, queues()),
        "queue_delivery_metrics" => queue_deliveries(page, queues()),
        "stream_consumer_metrics" => stream_consumers(page, app, scope),
        "queue_info" => queue_info(page, queues()),
        "exchange_metrics" => exchange_metrics(page, app, scope, true),
        "queue_exchange_metrics" => queue_exchange_metrics(page, app, scope, true),
        "channel_metrics" => channel_metrics(page, clients()),
        "channel_exchange_metrics" => channel_publishes(page, clients()),
        "channel_process_metrics" => channel_processes(page, clients()),
        "channel_queue_metrics" => channel_deliveries(page, clients()),
        "channel_queue_exchange_metrics" => queue_publishes(page, queues()),
        "connection_metrics" => connection_metrics(page, clients()),
        "connection_coarse_metrics" => connection_bytes(page, clients()),
        "exchange_names" => in_cluster(page, |page| exchange_names(page, app, scope)),
        "exchange_bindings" => in_cluster(page, |page| exchange_bindings(page, app, scope)),
        "vhost_status" => in_cluster(page, |page| {
            let vhosts = app.node().vhosts();
            let up = vhosts.iter().map(|v| (labels(&[("vhost", &v.name)]), 1));
            let help = "Whether a given vhost is running";
            page.metric("vhost_status", Gauge, help, up);
        }),
        _ => {}
    }
}

/// Families whose metrics every node has alike have a prefix of their own.
fn in_cluster(page: &mut Page, write: impl FnOnce(&mut Page)) {
    let prefix = std::mem::replace(&mut page.prefix, "rabbitmq_cluster_");
    write(page);
    page.prefix = prefix;
}
