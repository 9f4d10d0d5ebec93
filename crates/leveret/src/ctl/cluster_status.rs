//! `cluster_status`, in the sections and with the JSON keys that RabbitMQ's has.

use super::{Context, Failure, Output, cluster};
use crate::cli::table::show;
use serde_json::{Map, Value, json};

/// What the nodes tell.
struct Told {
    overview: Value,
    /// The nodes, by name.
    nodes: Vec<Value>,
    feature_flags: Vec<Value>,
    /// The cluster as the asked node sees it; none if it is in none.
    view: Option<Value>,
}

pub fn cluster_status(context: &Context<'_>) -> Result<Output, Failure> {
    let name = context.target.name()?;
    context.banner(format!("Cluster status of node {name} ..."));
    let mut nodes = rows(context.target.get("/api/nodes")?);
    nodes.sort_by_key(|node| show(&node["name"]));
    let flags = context.target.get("/api/feature-flags");
    let told = Told {
        overview: context.target.get("/api/overview")?,
        nodes,
        feature_flags: flags.map(rows).unwrap_or_default(),
        view: cluster::view(context)?,
    };
    Ok(Output::Object(told.object(), told.text()))
}

impl Told {
    fn names(&self, wanted: impl Fn(&Value) -> bool) -> Vec<String> {
        let wanted = self.nodes.iter().filter(|node| wanted(node));
        wanted.map(|node| show(&node["name"])).collect()
    }

    /// The names of the nodes that vote, and of the others, each sorted.
    fn by_vote(&self) -> (Vec<String>, Vec<String>) {
        let nodes = self.view.as_ref().map(|view| rows(view["nodes"].clone()));
        let mut nodes = nodes.unwrap_or_default();
        nodes.sort_by_key(|node| show(&node["name"]));
        let names = |votes: bool| {
            let wanted = nodes.iter().filter(|node| (node["votes"] == true) == votes);
            wanted.map(|node| show(&node["name"])).collect()
        };
        (names(true), names(false))
    }

    fn alarms(&self) -> Vec<Value> {
        let of_node = |node: &Value| {
            let name = node["name"].clone();
            let alarms = [("mem_alarm", "memory"), ("disk_free_alarm", "disk")];
            let on = alarms.into_iter().filter(|(field, _)| node[*field] == true);
            on.map(|(_, resource)| json!({"node": name, "resource": resource}))
                .collect::<Vec<_>>()
        };
        self.nodes.iter().flat_map(of_node).collect()
    }

    /// The listeners, each with its node's name.
    fn listeners(&self) -> Vec<(String, &Value)> {
        let all = self.overview["listeners"].as_array().into_iter().flatten();
        let mut all: Vec<_> = all.map(|one| (show(&one["node"]), one)).collect();
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        all
    }

    fn version_of(&self, node: &Value) -> String {
        match &node["rabbitmq_version"] {
            Value::Null => show(&self.overview["rabbitmq_version"]),
            version => show(version),
        }
    }

    /// For each node what `of` says of it.
    fn by_node(&self, of: impl Fn(&Value) -> Value) -> Value {
        let each = self
            .nodes
            .iter()
            .map(|node| (show(&node["name"]), of(node)));
        Value::Object(each.collect())
    }

    fn object(&self) -> Value {
        let (voters, others) = self.by_vote();
        let names = self.names(|_| true).into_iter();
        let mut listeners: Map<String, Value> = names.map(|name| (name, json!([]))).collect();
        for (node, listener) in self.listeners() {
            let mut listener = listener.clone();
            let same = [("interface", "ip_address"), ("purpose", "protocol")];
            for (name, of) in same {
                listener[name] = listener[of].clone();
            }
            let of_node = listeners.entry(node).or_insert_with(|| json!([]));
            if let Some(of_node) = of_node.as_array_mut() {
                of_node.push(listener);
            }
        }
        let flag = |flag: &Value| json!({"name": flag["name"], "state": flag["state"]});
        json!({
            "cluster_name": self.overview["cluster_name"],
            "disk_nodes": self.names(|_| true),
            "ram_nodes": [],
            "running_nodes": self.names(|node| node["running"] == true),
            "voting_nodes": voters,
            "non_voting_nodes": others,
            "versions": self.by_node(|node| json!({
                "rabbitmq_name": self.overview["product_name"],
                "rabbitmq_version": self.version_of(node),
                "erlang_version": node["erlang_version"],
            })),
            "cpu_cores": self.by_node(|node| node["processors"].clone()),
            "maintenance_status": self.by_node(|node| maintenance(node).into()),
            "listeners": listeners,
            "alarms": self.alarms(),
            "partitions": {},
            "feature_flags": self.feature_flags.iter().map(flag).collect::<Value>(),
        })
    }

    fn text(&self) -> String {
        let name = show(&self.overview["cluster_name"]);
        let mut sections = vec![
            ("Basics", vec![format!("Cluster name: {name}")]),
            ("Disk Nodes", self.names(|_| true)),
            ("Running Nodes", self.names(|node| node["running"] == true)),
        ];
        if self.view.is_some() {
            let (voters, others) = self.by_vote();
            sections.push(("Voting Nodes", voters));
            sections.push(("Nodes Without a Vote", others));
        }
        let each = |line: &dyn Fn(&Value, &str) -> String| {
            let nodes = self.nodes.iter();
            nodes.map(|node| line(node, &show(&node["name"]))).collect()
        };
        let product = show(&self.overview["product_name"]);
        let version = |node: &Value, name: &str| {
            format!("{name}: {product}, as RabbitMQ {}", self.version_of(node))
        };
        let alarm = |alarm: &Value| {
            let (resource, node) = (show(&alarm["resource"]), show(&alarm["node"]));
            format!("{resource} alarm on node {node}")
        };
        let listener = |(node, one): (String, &Value)| {
            let described = super::node::describe_listener(one);
            format!("Node: {node}, interface: {described}")
        };
        let flag = |flag: &Value| {
            let (name, state) = (show(&flag["name"]), show(&flag["state"]));
            format!("Flag: {name}, state: {state}")
        };
        sections.extend([
            ("Versions", each(&version)),
            (
                "CPU Cores",
                each(&|node, name| {
                    let cores = show(&node["processors"]);
                    format!("Node: {name}, available CPU cores: {cores}")
                }),
            ),
            (
                "Maintenance status",
                each(&|node, name| format!("Node: {name}, status: {}", maintenance(node))),
            ),
            ("Alarms", self.alarms().iter().map(alarm).collect()),
            ("Network Partitions", Vec::new()),
            (
                "Listeners",
                self.listeners().into_iter().map(listener).collect(),
            ),
            (
                "Feature flags",
                self.feature_flags.iter().map(flag).collect(),
            ),
        ]);
        let shown = sections.into_iter().map(|(title, lines)| {
            let lines = match lines.is_empty() {
                true => "(none)".to_owned(),
                false => lines.join("\n"),
            };
            format!("{title}\n\n{lines}\n")
        });
        shown.collect::<Vec<_>>().join("\n")
    }
}

/// What RabbitMQ says of a node that is drained, and of one that is not.
fn maintenance(node: &Value) -> &'static str {
    match (&node["being_drained"], &node["running"]) {
        (Value::Bool(true), _) => "marked for maintenance",
        (_, Value::Bool(true)) => "not under maintenance",
        _ => "unknown",
    }
}

fn rows(list: Value) -> Vec<Value> {
    match list {
        Value::Array(rows) => rows,
        _ => Vec::new(),
    }
}
