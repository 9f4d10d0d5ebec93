//! Prometheus metrics in the text format, under the names of RabbitMQ's plugin.
//!
//! `/metrics` sums over objects, so that its size does not grow with the number of queues.
//! `/metrics/per-object` shows each queue, channel and connection. `/metrics/detailed` shows the
//! families that the query names, with the prefix `rabbitmq_detailed_`.

mod clients;
mod global;
mod node;
mod queues;
mod text;

use crate::app::App;
use crate::input::percent_decode;
use crate::pieces::Pieces;
use crate::reply::ApiError;
use clients::{channel_metrics, connection_metrics};
use global::global;
use node::{churn, identity, node_metrics, totals};
pub(crate) use queues::SharedTable;
use queues::{Scope, queue_coarse, queue_metrics, queue_table};
use text::{Gauge, Page, labels};

/// One page by its path.
pub fn page(app: &App, path: &str, query: &str) -> Result<Pieces, ApiError> {
    let per_object = match path {
        "/metrics" => app.per_object,
        "/metrics/per-object" => true,
        "/metrics/detailed" => return detailed(app, query),
        "/metrics/memory-breakdown" => false,
        _ => return Err(ApiError::NotFound),
    };
    let mut page = Page::new("rabbitmq_");
    let (node, broker) = (app.node().node_stats(), app.node().broker_stats());
    identity(&mut page, &node);
    node_metrics(&mut page, &node);
    totals(&mut page, app, &broker);
    churn(&mut page, app, &broker);
    global(&mut page, &broker);
    let scope = Scope::default();
    let queues = queue_table(app, &scope, per_object);
    queue_coarse(&mut page, &queues);
    queue_metrics(&mut page, &queues);
    channel_metrics(&mut page, app, per_object);
    connection_metrics(&mut page, app, per_object);
    Ok(page.pieces())
}

fn detailed(app: &App, query: &str) -> Result<Pieces, ApiError> {
    let bad = || ApiError::BadRequest("the query is not percent-encoded UTF-8".to_owned());
    let (mut families, mut scope) = (Vec::new(), Scope::default());
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = percent_decode(&value.replace('+', " ")).ok_or_else(bad)?;
        match name {
            "family" => families.push(value),
            "vhost" => scope.vhosts.push(value),
            "queue" => scope.queues.push(value),
            _ => {}
        }
    }
    let mut page = Page::new("rabbitmq_");
    let (node, broker) = (app.node().node_stats(), app.node().broker_stats());
    identity(&mut page, &node);
    page.prefix = "rabbitmq_detailed_";
    for family in &families {
        match family.as_str() {
            "connection_churn_metrics" => churn(&mut page, app, &broker),
            "node_metrics" | "node_coarse_metrics" => node_metrics(&mut page, &node),
            "queue_coarse_metrics" => queue_coarse(&mut page, &queue_table(app, &scope, true)),
            "queue_metrics" | "queue_consumer_count" => {
                queue_metrics(&mut page, &queue_table(app, &scope, true));
            }
            "channel_metrics" => channel_metrics(&mut page, app, true),
            "connection_metrics" | "connection_coarse_metrics" => {
                connection_metrics(&mut page, app, true);
            }
            "vhost_status" => {
                page.prefix = "rabbitmq_cluster_";
                let vhosts = app.node().vhosts();
                let up = vhosts.iter().map(|v| (labels(&[("vhost", &v.name)]), 1));
                page.metric(
                    "vhost_status",
                    Gauge,
                    "Whether a given vhost is running",
                    up,
                );
                page.prefix = "rabbitmq_detailed_";
            }
            _ => {}
        }
    }
    Ok(page.pieces())
}
