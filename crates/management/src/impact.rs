//! `/api/leveret/nodes/{}/impact`: what breaks if a node stops now.

use crate::app::App;
use crate::connections;
use crate::directory::Queue;
use crate::http::reply::{ApiError, Reply};
use crate::http::router::Call;
use crate::overview::knows_node;
use crate::selection::ClientSelection;
use leveret_types::QueueId;
use leveret_types::limits::IMPACT_QUEUES_SHOWN;
use serde_json::{Value, json};

/// Queues whose records are held at once.
const BATCH: usize = 1_024;

/// What becomes of a queue when a node stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Nothing: it has no replica there.
    Untouched,
    /// It goes on with one replica less, and another leader if it was led there.
    GoesOn,
    /// So many replicas are left that it has no majority: it stands still until one is back.
    StandsStill,
    /// It lives there alone: nobody can use it until the node is back.
    Gone,
}

/// What becomes of a queue when the node of this name stops. On a node without cluster all stop.
fn fate(queue: &Queue, node: &str, is_up: impl Fn(&str) -> bool) -> Fate {
    let nodes = &queue.nodes;
    if nodes.is_empty() {
        return Fate::Gone;
    }
    let others = nodes.iter().filter(|(_, name)| name != node);
    if others.clone().count() == nodes.len() {
        return Fate::Untouched;
    }
    match others.filter(|(_, name)| is_up(name)).count() {
        _ if nodes.len() == 1 => Fate::Gone,
        left if 2 * left > nodes.len() => Fate::GoesOn,
        _ => Fate::StandsStill,
    }
}

/// Queues of one fate: all are counted, some are named.
#[derive(Default)]
struct Queues {
    count: u64,
    named: Vec<Value>,
}

impl Queues {
    fn add(&mut self, queue: &Queue) {
        self.count += 1;
        if self.named.len() < IMPACT_QUEUES_SHOWN {
            let (name, vhost) = (&queue.name, &queue.vhost);
            let named = json!({"name": name, "vhost": vhost, "type": queue.kind});
            self.named.push(named);
        }
    }

    fn json(self) -> Value {
        json!({"count": self.count, "queues": self.named})
    }
}

fn queues(app: &App, node: &str) -> [Queues; 3] {
    let mut found: [Queues; 3] = Default::default();
    let mut ids: Vec<QueueId> = Vec::new();
    app.node().each_queue(None, &mut |id, _, _| ids.push(id));
    for batch in ids.chunks(BATCH) {
        for queue in app.node().queues_by_id(batch) {
            let is_up = |name: &str| {
                let mut nodes = queue.nodes.iter();
                nodes.any(|(number, known)| known == name && app.node().is_up(*number))
            };
            let at = match fate(&queue, node, is_up) {
                Fate::Untouched => continue,
                Fate::Gone => 0,
                Fate::StandsStill => 1,
                Fate::GoesOn => 2,
            };
            found[at].add(&queue);
        }
    }
    found
}

/// Whether nothing can be declared any more without the node: the catalogue loses its majority.
fn catalogue_stands_still(app: &App, node: &str) -> bool {
    let Some(cluster) = app.node().cluster() else {
        return true;
    };
    let voters = cluster.nodes.iter().filter(|voter| voter.votes);
    let left = voters
        .clone()
        .filter(|voter| voter.up && voter.name != node);
    2 * left.count() <= voters.count()
}

/// `GET /api/leveret/nodes/{node}/impact`
pub fn impact(call: &Call<'_>) -> Result<Reply, ApiError> {
    let (app, node) = (call.app, call.param(0));
    if !knows_node(app, node) {
        return Err(ApiError::NotFound);
    }
    let [gone, still, goes_on] = queues(app, node);
    let clients = connections::everywhere(app, ClientSelection::default());
    let clients = clients.filter(|client| client["node"] == node).count();
    let stops_catalogue = catalogue_stands_still(app, node);
    let is_harmless = gone.count == 0 && still.count == 0 && !stops_catalogue;
    Ok(Reply::Json(json!({
        "node": node,
        "harmless": is_harmless,
        "connections_closed": clients,
        "declarations_stop": stops_catalogue,
        "queues_gone": gone.json(),
        "queues_without_majority": still.json(),
        "queues_going_on": goes_on.json(),
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_types::NodeId;

    #[test]
    fn a_queue_goes_on_as_long_as_most_of_its_replicas_are_left() {
        let queue = |nodes: &[&str]| Queue {
            nodes: (1..)
                .map(NodeId)
                .zip(nodes.iter().map(|n| (*n).to_owned()))
                .collect(),
            ..Queue::default()
        };
        for (nodes, down, expected) in [
            (&[][..], "", Fate::Gone),
            (&["a"], "", Fate::Gone),
            (&["b"], "", Fate::Untouched),
            (&["a", "b"], "", Fate::StandsStill),
            (&["a", "b", "c"], "", Fate::GoesOn),
            (&["a", "b", "c"], "c", Fate::StandsStill),
            (&["b", "c", "d"], "c", Fate::Untouched),
            (&["a", "b", "c", "d", "e"], "c", Fate::GoesOn),
        ] {
            let found = fate(&queue(nodes), "a", |node| node != down);
            assert_eq!(found, expected, "{nodes:?} without a, {down} down");
        }
    }
}
