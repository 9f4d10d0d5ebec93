//! The lists: which columns each has, and where the HTTP API keeps them.

use super::options::Which;
use super::{Context, Failure, Output};
use crate::cli::http::segment;
use crate::cli::table::Rows;
use serde_json::Value;

/// A list: the columns shown when none is named, and every column with its place in the API's JSON.
pub(super) struct List {
    pub(super) default: &'static [&'static str],
    pub(super) columns: &'static [(&'static str, &'static str)],
}

impl List {
    /// The rows of what `fetch` brings, with the columns that the arguments name, after these
    /// lines.
    pub(super) fn show(
        &self,
        context: &Context<'_>,
        lines: &[String],
        fetch: impl FnOnce() -> Result<Value, Failure>,
    ) -> Result<Output, Failure> {
        // Scripts separate columns by commas as well, as rabbitmqctl takes them.
        let named = context.arguments.iter().flat_map(|words| words.split(','));
        let named: Vec<&str> = named.filter(|name| !name.is_empty()).collect();
        let all: Vec<&str> = self.columns.iter().map(|(name, _)| *name).collect();
        let named = match (named.is_empty(), context.options.has("--verbose")) {
            (true, true) => &all,
            (true, false) => self.default,
            (false, _) => &named,
        };
        let mut columns = Vec::new();
        let mut unknown = Vec::new();
        for name in named {
            match self.columns.iter().find(|(known, _)| known == name) {
                Some(column) => columns.push(*column),
                None => unknown.push(*name),
            }
        }
        if !unknown.is_empty() {
            return Err(Failure::usage(format!(
                "Info key(s) {} are not supported",
                unknown.join(",")
            )));
        }
        for line in lines {
            context.banner(line);
        }
        let objects = fetch()?;
        let objects = objects.as_array().map_or(&[][..], Vec::as_slice);
        Ok(Output::Rows(Rows::pick(objects, &columns)))
    }
}

/// Columns whose names are the API's own.
macro_rules! same {
    ($($name:literal)*) => { [$(($name, $name)),*] };
}

const QUEUES: List = List {
    default: &["name", "messages"],
    columns: &[
        ("name", "name"),
        ("vhost", "vhost"),
        ("durable", "durable"),
        ("auto_delete", "auto_delete"),
        ("arguments", "arguments"),
        ("policy", "policy"),
        ("operator_policy", "operator_policy"),
        ("effective_policy_definition", "effective_policy_definition"),
        ("pid", "node"),
        ("leader", "leader"),
        ("node", "node"),
        ("members", "members"),
        ("online", "online"),
        ("owner_pid", "owner_pid_details.name"),
        ("exclusive", "exclusive"),
        ("exclusive_consumer_tag", "exclusive_consumer_tag"),
        ("single_active_consumer_tag", "single_active_consumer_tag"),
        ("messages_ready", "messages_ready"),
        ("messages_unacknowledged", "messages_unacknowledged"),
        ("messages", "messages"),
        ("messages_ready_ram", "messages_ready_ram"),
        ("messages_unacknowledged_ram", "messages_unacknowledged_ram"),
        ("messages_ram", "messages_ram"),
        ("messages_persistent", "messages_persistent"),
        ("messages_dlx", "messages_dlx"),
        ("message_bytes", "message_bytes"),
        ("message_bytes_ready", "message_bytes_ready"),
        (
            "message_bytes_unacknowledged",
            "message_bytes_unacknowledged",
        ),
        ("message_bytes_ram", "message_bytes_ram"),
        ("message_bytes_persistent", "message_bytes_persistent"),
        ("message_bytes_dlx", "message_bytes_dlx"),
        ("head_message_timestamp", "head_message_timestamp"),
        ("oldest_message_age", "oldest_message_age"),
        ("consumers", "consumers"),
        ("consumer_utilisation", "consumer_utilisation"),
        ("consumer_capacity", "consumer_capacity"),
        ("memory", "memory"),
        ("state", "state"),
        ("type", "type"),
    ],
};

const EXCHANGES: List = List {
    default: &["name", "type"],
    columns: &same!["name" "type" "durable" "auto_delete" "internal" "arguments" "policy" "vhost"],
};

const BINDINGS: List = List {
    default: &[
        "source_name",
        "source_kind",
        "destination_name",
        "destination_kind",
        "routing_key",
        "arguments",
    ],
    columns: &[
        ("source_name", "source"),
        ("source_kind", "source_kind"),
        ("destination_name", "destination"),
        ("destination_kind", "destination_type"),
        ("routing_key", "routing_key"),
        ("arguments", "arguments"),
        ("vhost", "vhost"),
    ],
};

const CONNECTIONS: List = List {
    default: &["user", "peer_host", "peer_port", "state"],
    columns: &[
        ("pid", "pid"),
        ("name", "name"),
        ("port", "port"),
        ("host", "host"),
        ("peer_port", "peer_port"),
        ("peer_host", "peer_host"),
        ("ssl", "ssl"),
        ("ssl_protocol", "ssl_protocol"),
        ("ssl_cipher", "ssl_cipher"),
        ("peer_cert_subject", "peer_cert_subject"),
        ("state", "state"),
        ("channels", "channels"),
        ("protocol", "protocol"),
        ("auth_mechanism", "auth_mechanism"),
        ("user", "user"),
        ("vhost", "vhost"),
        ("timeout", "timeout"),
        ("frame_max", "frame_max"),
        ("channel_max", "channel_max"),
        ("client_properties", "client_properties"),
        ("connected_at", "connected_at"),
        ("recv_oct", "recv_oct"),
        ("recv_cnt", "recv_cnt"),
        ("send_oct", "send_oct"),
        ("send_cnt", "send_cnt"),
        ("send_pend", "send_pend"),
        ("node", "node"),
    ],
};

const CHANNELS: List = List {
    default: &["pid", "user", "consumer_count", "messages_unacknowledged"],
    columns: &[
        ("pid", "pid"),
        ("connection", "connection_details.name"),
        ("name", "name"),
        ("number", "number"),
        ("user", "user"),
        ("vhost", "vhost"),
        ("transactional", "transactional"),
        ("confirm", "confirm"),
        ("consumer_count", "consumer_count"),
        ("messages_unacknowledged", "messages_unacknowledged"),
        ("messages_uncommitted", "messages_uncommitted"),
        ("acks_uncommitted", "acks_uncommitted"),
        ("messages_unconfirmed", "messages_unconfirmed"),
        ("prefetch_count", "prefetch_count"),
        ("global_prefetch_count", "global_prefetch_count"),
        ("state", "state"),
    ],
};

const CONSUMERS: List = List {
    default: &[
        "queue_name",
        "channel_pid",
        "consumer_tag",
        "ack_required",
        "prefetch_count",
        "active",
        "arguments",
    ],
    columns: &[
        ("queue_name", "queue.name"),
        ("channel_pid", "channel_details.pid"),
        ("consumer_tag", "consumer_tag"),
        ("ack_required", "ack_required"),
        ("prefetch_count", "prefetch_count"),
        ("active", "active"),
        ("activity_status", "activity_status"),
        ("arguments", "arguments"),
    ],
};

const VHOSTS: List = List {
    default: &["name"],
    columns: &[
        ("name", "name"),
        ("tracing", "tracing"),
        ("description", "description"),
        ("tags", "tags"),
        ("default_queue_type", "default_queue_type"),
        ("cluster_state", "cluster_state"),
    ],
};

const FLAGS: List = List {
    default: &["name", "state"],
    columns: &same!["name" "state" "stability" "provided_by" "desc" "doc_url"],
};

const DEPRECATED: List = List {
    default: &["name", "deprecation_phase", "provided_by", "desc"],
    columns: &same!["name" "deprecation_phase" "provided_by" "desc" "doc_url"],
};

pub(super) fn of_vhost(context: &Context<'_>, what: &str) -> Result<Value, Failure> {
    let path = format!("/api/{what}/{}", segment(context.vhost()));
    context.target.get(&path).map_err(|error| match error {
        crate::cli::target::CallError::Refused(404, _) => super::users::no_vhost(context.vhost()),
        other => other.into(),
    })
}

/// The list that a command shows; none if it shows none of these.
pub(super) fn list(command: &str) -> Option<&'static List> {
    Some(match command {
        "list_queues" | "list_unresponsive_queues" => &QUEUES,
        "list_exchanges" => &EXCHANGES,
        "list_bindings" => &BINDINGS,
        "list_connections" => &CONNECTIONS,
        "list_channels" => &CHANNELS,
        "list_consumers" => &CONSUMERS,
        "list_vhosts" => &VHOSTS,
        "list_feature_flags" => &FLAGS,
        "list_deprecated_features" => &DEPRECATED,
        _ => return None,
    })
}

pub fn list_queues(context: &Context<'_>) -> Result<Output, Failure> {
    let seconds = context.options.address.timeout.as_secs_f64();
    let lines = [
        format!("Timeout: {seconds:.1} seconds ..."),
        format!("Listing queues for vhost {} ...", context.vhost()),
    ];
    QUEUES.show(context, &lines, || {
        let mut queues = of_vhost(context, "queues")?;
        for queue in queues.as_array_mut().into_iter().flatten() {
            // Of a classic queue the API says only where it is.
            if queue.get("leader").is_none() {
                queue["leader"] = queue["node"].clone();
            }
        }
        if let Some(which) = context.options.which {
            let own = context.target.name()?;
            let all = queues.as_array_mut().into_iter();
            all.for_each(|all| all.retain(|queue| is_wanted(queue, which, &own)));
        }
        Ok(queues)
    })
}

/// Whether a queue is one of those that are listed; `own` is the name of the node that is asked.
fn is_wanted(queue: &Value, which: Which, own: &str) -> bool {
    let is_down = queue["state"] == "down";
    match which {
        Which::Online => !is_down,
        Which::Offline => is_down,
        Which::Local => queue["leader"] == own,
    }
}

pub fn list_exchanges(context: &Context<'_>) -> Result<Output, Failure> {
    let line = format!("Listing exchanges for vhost {} ...", context.vhost());
    EXCHANGES.show(context, &[line], || of_vhost(context, "exchanges"))
}

pub fn list_bindings(context: &Context<'_>) -> Result<Output, Failure> {
    let line = format!("Listing bindings for vhost {}...", context.vhost());
    BINDINGS.show(context, &[line], || {
        let mut bindings = of_vhost(context, "bindings")?;
        for binding in bindings.as_array_mut().into_iter().flatten() {
            binding["source_kind"] = "exchange".into();
        }
        Ok(bindings)
    })
}

pub fn list_consumers(context: &Context<'_>) -> Result<Output, Failure> {
    let line = format!("Listing consumers in vhost {} ...", context.vhost());
    CONSUMERS.show(context, &[line], || of_vhost(context, "consumers"))
}

/// A list of the whole node, with its line and its path.
fn of_node(context: &Context<'_>, list: &List, line: &str, path: &str) -> Result<Output, Failure> {
    list.show(context, &[line.to_owned()], || {
        Ok(context.target.get(path)?)
    })
}

pub fn list_connections(context: &Context<'_>) -> Result<Output, Failure> {
    let line = "Listing connections ...";
    of_node(context, &CONNECTIONS, line, "/api/connections")
}

pub fn list_channels(context: &Context<'_>) -> Result<Output, Failure> {
    of_node(context, &CHANNELS, "Listing channels ...", "/api/channels")
}

pub fn list_vhosts(context: &Context<'_>) -> Result<Output, Failure> {
    of_node(context, &VHOSTS, "Listing vhosts ...", "/api/vhosts")
}

pub fn list_feature_flags(context: &Context<'_>) -> Result<Output, Failure> {
    let line = "Listing feature flags ...";
    of_node(context, &FLAGS, line, "/api/feature-flags")
}

pub fn list_deprecated_features(context: &Context<'_>) -> Result<Output, Failure> {
    let line = "Listing deprecated features ...";
    of_node(context, &DEPRECATED, line, "/api/deprecated-features")
}

/// Queues whose shard does not answer: there are none, or the node would not answer either.
pub fn list_unresponsive_queues(context: &Context<'_>) -> Result<Output, Failure> {
    let line = "Listing unresponsive queues for vhost ...".replace("vhost", context.vhost());
    QUEUES.show(context, &[line], || Ok(Value::Array(Vec::new())))
}
