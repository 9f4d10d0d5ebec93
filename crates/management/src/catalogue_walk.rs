//! Walks over what may be many in the catalogue. Whoever changes the catalogue waits while it is
//! borrowed: a walk borrows it for a few things at a time, and goes on behind the last of them.

use crate::catalogue_directory::{CatalogueDirectory, view};
use crate::directory::{BindingPlace, BindingScope};
use crate::pieces::let_others_run;
use leveret_metadata::{Catalogue, Vhost};
use leveret_routing::Destination;
use leveret_types::QueueId;
use std::sync::Arc;

/// Things that are looked at in one borrow.
const PORTION: usize = 1_024;

/// The names of the virtual hosts that are meant: one, or all.
fn vhosts<K: CatalogueDirectory + ?Sized>(node: &K, only: Option<&str>) -> Vec<String> {
    match only {
        Some(name) => vec![name.to_owned()],
        None => view(node, |catalogue| {
            catalogue
                .vhosts()
                .map(|vhost| vhost.name().to_owned())
                .collect()
        }),
    }
}

/// Borrows the catalogue for `portion` until that has no more to see in the virtual host, or it is
/// gone.
fn in_portions<K: CatalogueDirectory + ?Sized>(
    node: &K,
    vhost: &str,
    mut portion: impl FnMut(&Catalogue, &Vhost) -> bool,
) {
    let mut one = |catalogue: &Catalogue| {
        let record = catalogue.vhost(vhost);
        record.is_some_and(|record| portion(catalogue, record))
    };
    while view(node, &mut one) {
        let_others_run(0);
    }
}

/// See [`Directory::each_queue`](crate::Directory::each_queue).
pub(crate) fn each_queue<K: CatalogueDirectory + ?Sized>(
    node: &K,
    vhost: Option<&str>,
    see: &mut dyn FnMut(QueueId, &str, &str),
) {
    for vhost in vhosts(node, vhost) {
        let mut after: Option<Arc<str>> = None;
        in_portions(node, &vhost, |catalogue, record| {
            let portion = record.queues_after(after.as_deref()).take(PORTION);
            let mut seen = 0;
            let mut last = None;
            for (name, id) in portion {
                seen += 1;
                last = Some(name);
                if catalogue.queue(id).is_some() {
                    see(id, &vhost, name);
                }
            }
            after = last.cloned();
            seen == PORTION
        });
    }
}

/// See [`Directory::each_exchange`](crate::Directory::each_exchange). What is called is told the
/// record of the virtual host beside.
pub(crate) fn each_exchange<K: CatalogueDirectory + ?Sized>(
    node: &K,
    vhost: Option<&str>,
    see: &mut dyn FnMut(&Vhost, &str),
) {
    for vhost in vhosts(node, vhost) {
        // The default exchange, which has no record, is before all others.
        let mut after: Option<Arc<str>> = None;
        in_portions(node, &vhost, |_, record| {
            let last = match &after {
                Some(after) => &**after,
                None => {
                    see(record, "");
                    ""
                }
            };
            let names: Vec<&Arc<str>> = record.exchange_names_after(last).take(PORTION).collect();
            names.iter().for_each(|name| see(record, name));
            after = names.last().map(|name| Arc::clone(name));
            names.len() == PORTION
        });
    }
}

/// See [`Directory::each_binding`](crate::Directory::each_binding).
pub(crate) fn each_binding<K: CatalogueDirectory + ?Sized>(
    node: &K,
    scope: BindingScope<'_>,
    see: &mut dyn FnMut(&str, BindingPlace),
) {
    match scope {
        BindingScope::All => {
            for vhost in vhosts(node, None) {
                each_binding(node, BindingScope::Vhost(&vhost), see);
            }
        }
        BindingScope::Vhost(vhost) => {
            each_implicit(node, vhost, see);
            let mut next = 0;
            in_portions(node, vhost, |_, record| {
                let router = record.router();
                let end = router.binding_numbers().min(next + PORTION as u32);
                let numbers = (next..end).filter(|number| router.binding(*number).is_some());
                numbers.for_each(|number| see(vhost, BindingPlace::Numbered(number)));
                next = end;
                end < router.binding_numbers()
            });
        }
        BindingScope::Source {
            vhost,
            exchange: "",
        } => each_implicit(node, vhost, see),
        BindingScope::Source { vhost, exchange } => numbered(node, vhost, see, &|record| {
            record.router().numbers_from(exchange).collect()
        }),
        BindingScope::ToQueue { vhost, queue } => {
            let id = view(node, |catalogue| catalogue.vhost(vhost)?.queue_id(queue));
            if let Some(id) = id {
                see(vhost, BindingPlace::Implicit(id));
            }
            let to = Destination::Queue(queue);
            numbered(node, vhost, see, &|record| {
                record.router().numbers_to(to).collect()
            });
        }
        BindingScope::ToExchange { vhost, exchange } => {
            let to = Destination::Exchange(exchange);
            numbered(node, vhost, see, &|record| {
                record.router().numbers_to(to).collect()
            });
        }
    }
}

/// The default exchange's bindings to all queues.
fn each_implicit<K: CatalogueDirectory + ?Sized>(
    node: &K,
    vhost: &str,
    see: &mut dyn FnMut(&str, BindingPlace),
) {
    each_queue(node, Some(vhost), &mut |queue, vhost, _| {
        see(vhost, BindingPlace::Implicit(queue));
    });
}

/// The bindings at one end. They have no order in which a walk could go on behind one of them:
/// their numbers are copied in one borrow, which for a hundred thousand takes a fraction of a
/// millisecond.
fn numbered<K: CatalogueDirectory + ?Sized>(
    node: &K,
    vhost: &str,
    see: &mut dyn FnMut(&str, BindingPlace),
    of: &dyn Fn(&Vhost) -> Vec<u32>,
) {
    let numbers = view(node, |catalogue| catalogue.vhost(vhost).map(of));
    for number in numbers.unwrap_or_default() {
        see(vhost, BindingPlace::Numbered(number));
    }
}
