//! Metrics of exchanges, each with its name, or their sum.

use super::queues::Scope;
use super::text::{Counter, Gauge, Page, Table, labels};
use crate::api::FlowsOf;
use crate::app::App;
use crate::directory::Traffic;

/// Says of each exchange of a page what passes through it.
fn each(app: &App, scope: &Scope, see: &mut dyn FnMut(&Traffic<'_>)) {
    app.node().each_traffic(&mut |traffic| {
        if scope.has_vhost(traffic.vhost) {
            see(traffic);
        }
    });
}

/// What was published to exchanges. Confirms, returns and drops are not counted by exchange: these
/// are zero.
pub(super) fn exchange_metrics(page: &mut Page, app: &App, scope: &Scope, per_object: bool) {
    let row = |labels: String, published: u64| (labels, [published as f64, 0.0, 0.0, 0.0]);
    let (mut rows, mut sum) = (Vec::new(), 0);
    each(app, scope, &mut |traffic| {
        let [published, _] = traffic.published;
        sum += published;
        if per_object {
            let labels = labels(&[("vhost", traffic.vhost), ("exchange", traffic.exchange)]);
            rows.push(row(labels, published));
        }
    });
    if !per_object {
        rows.push(row(String::new(), sum));
    }
    let metrics = [
        (
            "exchange_messages_published_total",
            Counter,
            "Total number of messages published into an exchange",
        ),
        (
            "exchange_messages_confirmed_total",
            Counter,
            "Total number of messages published into an exchange and confirmed",
        ),
        (
            "exchange_messages_unroutable_returned_total",
            Counter,
            "Total number of messages published as mandatory into an exchange and returned to the publisher as unroutable",
        ),
        (
            "exchange_messages_unroutable_dropped_total",
            Counter,
            "Total number of messages published as non-mandatory into an exchange and dropped as unroutable",
        ),
    ];
    page.table(&Table::new(rows), 0, &metrics);
}

/// What came to queues from exchanges: the family `queue_exchange_metrics`.
pub(super) fn queue_exchange_metrics(page: &mut Page, app: &App, scope: &Scope, per_object: bool) {
    let (mut rows, mut sum) = (Vec::new(), 0);
    for flow in app.node().flows(FlowsOf::Node) {
        if !scope.has_named(&flow.vhost, &flow.queue_name) {
            continue;
        }
        sum += flow.messages;
        if per_object {
            let labels = labels(&[
                ("vhost", &flow.vhost),
                ("exchange", &flow.exchange),
                ("queue", &flow.queue_name),
            ]);
            rows.push((labels, [flow.messages as f64]));
        }
    }
    if !per_object {
        rows.push((String::new(), [sum as f64]));
    }
    let metrics = [(
        "queue_exchange_messages_published_total",
        Counter,
        "Total number of messages published into a queue through an exchange",
    )];
    page.table(&Table::new(rows), 0, &metrics);
}

fn named(traffic: &Traffic<'_>) -> String {
    labels(&[
        ("vhost", traffic.vhost),
        ("exchange", traffic.exchange),
        ("type", traffic.kind),
    ])
}

/// That exchanges are there: the family `exchange_names`.
pub(super) fn exchange_names(page: &mut Page, app: &App, scope: &Scope) {
    let mut rows = Vec::new();
    each(app, scope, &mut |traffic| {
        rows.push((named(traffic), [1.0]))
    });
    let metrics = [(
        "exchange_name",
        Gauge,
        "Enumerates exchanges without any additional info",
    )];
    page.table(&Table::new(rows), 0, &metrics);
}

/// How many bindings go out of exchanges: the family `exchange_bindings`.
pub(super) fn exchange_bindings(page: &mut Page, app: &App, scope: &Scope) {
    let mut all = Vec::new();
    each(app, scope, &mut |traffic| {
        let name = (traffic.vhost.to_owned(), traffic.exchange.to_owned());
        all.push((named(traffic), name));
    });
    let rows = all.into_iter().map(|(labels, (vhost, exchange))| {
        let count = app.node().binding_count(&vhost, &exchange);
        (labels, [count as f64])
    });
    let metrics = [(
        "exchange_bindings",
        Gauge,
        "Number of bindings for an exchange",
    )];
    page.table(&Table::new(rows), 0, &metrics);
}
