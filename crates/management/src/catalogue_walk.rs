//! Walks over what may be many in the catalogue. Whoever changes the catalogue waits while it is
//! borrowed: a walk borrows it for a few things at a time, and goes on behind the last of them.

use crate::catalogue_directory::{CatalogueDirectory, view};
use crate::directory::{BindingId, BindingScope};
use crate::priority::let_others_run;
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

/// Copies the names of things out of the catalogue, a portion in each borrow: `next` has those
/// behind the last one. Nothing is borrowed while `see` looks at them.
fn copied<K: CatalogueDirectory + ?Sized, N>(
    node: &K,
    mut next: impl FnMut(&Catalogue, Option<&N>) -> Vec<N>,
    mut see: impl FnMut(&N),
) {
    let mut last = None;
    loop {
        let mut found = view(node, |catalogue| next(catalogue, last.as_ref()));
        found.iter().for_each(&mut see);
        if found.len() < PORTION {
            return;
        }
        last = found.pop();
        let_others_run(0);
    }
}

/// See [`Directory::each_policy`](crate::Directory::each_policy).
pub(crate) fn each_policy<K: CatalogueDirectory + ?Sized>(
    node: &K,
    operator: bool,
    see: &mut dyn FnMut(&str, &str),
) {
    for vhost in vhosts(node, None) {
        let next = |catalogue: &Catalogue, last: Option<&Arc<str>>| {
            let record = catalogue.vhost(&vhost).into_iter();
            let last = last.map(|name| &**name);
            let policies = record.flat_map(|record| record.policies_after(operator, last));
            let names = policies.map(|policy| Arc::clone(&policy.name));
            names.take(PORTION).collect()
        };
        copied(node, next, |name| see(&vhost, name));
    }
}

/// See [`Directory::each_parameter`](crate::Directory::each_parameter).
pub(crate) fn each_parameter<K: CatalogueDirectory + ?Sized>(
    node: &K,
    see: &mut dyn FnMut(&str, &str, &str),
) {
    for vhost in vhosts(node, None) {
        let next = |catalogue: &Catalogue, last: Option<&(String, String)>| {
            let record = catalogue.vhost(&vhost).into_iter();
            let parameters = record.flat_map(|record| record.parameters_after(last));
            parameters.take(PORTION).cloned().collect()
        };
        copied(node, next, |(component, name)| see(&vhost, component, name));
    }
}

/// See [`Directory::each_global_parameter`](crate::Directory::each_global_parameter).
pub(crate) fn each_global_parameter<K: CatalogueDirectory + ?Sized>(
    node: &K,
    see: &mut dyn FnMut(&str),
) {
    let next = |catalogue: &Catalogue, last: Option<&String>| {
        let names = catalogue.global_parameters_after(last.map(String::as_str));
        names.take(PORTION).map(str::to_owned).collect()
    };
    copied(node, next, |name| see(name));
}

/// See [`Directory::each_queue`](crate::Directory::each_queue). Nothing is borrowed while `see`
/// looks at a name: whoever changes the catalogue does not wait for that.
pub(crate) fn each_queue<K: CatalogueDirectory + ?Sized>(
    node: &K,
    vhost: Option<&str>,
    see: &mut dyn FnMut(QueueId, &str, &str),
) {
    for vhost in vhosts(node, vhost) {
        let mut after: Option<Arc<str>> = None;
        let mut found: Vec<(QueueId, Arc<str>)> = Vec::new();
        let mut is_more = true;
        while is_more {
            is_more = view(node, |catalogue| {
                let Some(record) = catalogue.vhost(&vhost) else {
                    return false;
                };
                let portion = record.queues_after(after.as_deref()).take(PORTION);
                let portion: Vec<_> = portion.collect();
                after = portion.last().map(|(name, _)| Arc::clone(name));
                let there = portion
                    .iter()
                    .filter(|(_, id)| catalogue.queue(*id).is_some());
                found.extend(there.map(|(name, id)| (*id, Arc::clone(name))));
                portion.len() == PORTION
            });
            for (id, name) in found.drain(..) {
                see(id, &vhost, &name);
            }
            let_others_run(0);
        }
    }
}

/// See [`Directory::each_exchange`](crate::Directory::each_exchange). Nothing is borrowed while
/// `see` looks at a name, as with queues.
pub(crate) fn each_exchange<K: CatalogueDirectory + ?Sized>(
    node: &K,
    vhost: Option<&str>,
    see: &mut dyn FnMut(&str, &str),
) {
    for vhost in vhosts(node, vhost) {
        // The default exchange, which has no record, is before all others.
        let mut found: Vec<Arc<str>> = vec!["".into()];
        let mut is_more = true;
        while is_more {
            let last = found.last().map(Arc::clone).unwrap_or_default();
            let is_first = last.is_empty();
            let mut is_there = false;
            is_more = view(node, |catalogue| {
                let Some(record) = catalogue.vhost(&vhost) else {
                    return false;
                };
                is_there = true;
                let names = record.exchange_names_after(&last).take(PORTION);
                found = names.cloned().collect();
                found.len() == PORTION
            });
            if is_first && is_there {
                see(&vhost, "");
            }
            if is_there {
                found.iter().for_each(|name| see(&vhost, name));
            }
            let_others_run(0);
        }
    }
}

/// Says of each exchange the record of its virtual host, and its name. The catalogue is borrowed:
/// what is called only copies.
pub(crate) fn each_exchange_record<K: CatalogueDirectory + ?Sized>(
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
    see: &mut dyn FnMut(&str, BindingId),
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
                numbers.for_each(|number| see(vhost, BindingId::Numbered(number)));
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
                see(vhost, BindingId::Implicit(id));
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
    see: &mut dyn FnMut(&str, BindingId),
) {
    each_queue(node, Some(vhost), &mut |queue, vhost, _| {
        see(vhost, BindingId::Implicit(queue));
    });
}

/// The bindings at one end. They have no order in which a walk could go on behind one of them:
/// their numbers are copied in one borrow, which for a hundred thousand takes a fraction of a
/// millisecond.
fn numbered<K: CatalogueDirectory + ?Sized>(
    node: &K,
    vhost: &str,
    see: &mut dyn FnMut(&str, BindingId),
    of: &dyn Fn(&Vhost) -> Vec<u32>,
) {
    let numbers = view(node, |catalogue| catalogue.vhost(vhost).map(of));
    for number in numbers.unwrap_or_default() {
        see(vhost, BindingId::Numbered(number));
    }
}
