//! Metrics of exchanges, each with its name, or their sum.

use super::queues::Scope;
use super::text::{Counter, Gauge, Page, Table, labels};
use crate::app::App;
use crate::directory::{BindingScope, Exchange};
use std::collections::HashMap;

/// The exchanges of a page.
fn exchanges(app: &App, scope: &Scope) -> Vec<Exchange> {
    let mut all = app.node().exchanges(None);
    all.retain(|exchange| scope.has_vhost(&exchange.vhost));
    all
}

/// What was published to exchanges. Confirms, returns and drops are not counted by exchange: these
/// are zero.
pub(super) fn exchange_metrics(page: &mut Page, app: &App, scope: &Scope, per_object: bool) {
    let all = exchanges(app, scope);
    let row = |labels: String, published: u64| (labels, [published as f64, 0.0, 0.0, 0.0]);
    let rows: Vec<_> = match per_object {
        true => {
            let each = all.iter().map(|exchange| {
                let labels = labels(&[("vhost", &exchange.vhost), ("exchange", &exchange.name)]);
                row(labels, exchange.published_in)
            });
            each.collect()
        }
        false => vec![row(
            String::new(),
            all.iter().map(|exchange| exchange.published_in).sum(),
        )],
    };
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

fn named(exchange: &Exchange) -> String {
    labels(&[
        ("vhost", &exchange.vhost),
        ("exchange", &exchange.name),
        ("type", &exchange.kind),
    ])
}

/// That exchanges are there: the family `exchange_names`.
pub(super) fn exchange_names(page: &mut Page, app: &App, scope: &Scope) {
    let all = exchanges(app, scope);
    let rows = all.iter().map(|exchange| (named(exchange), [1.0]));
    let metrics = [(
        "exchange_name",
        Gauge,
        "Enumerates exchanges without any additional info",
    )];
    page.table(&Table::new(rows), 0, &metrics);
}

/// How many bindings go out of exchanges: the family `exchange_bindings`.
pub(super) fn exchange_bindings(page: &mut Page, app: &App, scope: &Scope) {
    let mut counts: HashMap<(String, String), u64> = HashMap::new();
    for (vhost, binding) in app.node().bindings(BindingScope::All) {
        *counts.entry((vhost, binding.source)).or_default() += 1;
    }
    let all = exchanges(app, scope);
    let rows = all.iter().map(|exchange| {
        let key = (exchange.vhost.clone(), exchange.name.clone());
        let count = counts.get(&key).copied().unwrap_or(0);
        (named(exchange), [count as f64])
    });
    let metrics = [(
        "exchange_bindings",
        Gauge,
        "Number of bindings for an exchange",
    )];
    page.table(&Table::new(rows), 0, &metrics);
}
