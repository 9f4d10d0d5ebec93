//! Which policies apply to queues and exchanges, and what is in force for them then.

use super::exchanges::alternate;
use crate::catalogue::{Catalogue, Change, Outcome};
use crate::error::CatalogueError;
use crate::policy::{self, Policy};
use crate::record::{QueueRecord, Vhost};
use leveret_types::FieldTable;
use std::collections::HashMap;
use std::sync::Arc;

/// The policies of a virtual host, while the queues that they apply to are gone through.
pub(crate) struct PoliciesInForce<'a> {
    user: Vec<&'a Policy>,
    operator: Vec<&'a Policy>,
    /// Definitions of policies and operator policies merged, by the names of both.
    merged: HashMap<(Option<&'a str>, Option<&'a str>), FieldTable>,
}

impl Vhost {
    pub(crate) fn policies_in_force(&self) -> PoliciesInForce<'_> {
        PoliciesInForce {
            user: by_priority(self.policies.values()),
            operator: by_priority(self.operator_policies.values()),
            merged: HashMap::new(),
        }
    }
}

/// Policies in an order in which the first that applies is the one in force.
fn by_priority<'a>(policies: impl Iterator<Item = &'a Policy>) -> Vec<&'a Policy> {
    let mut policies: Vec<&Policy> = policies.collect();
    policies.sort_by_key(|policy| std::cmp::Reverse(policy.priority));
    policies
}

impl PoliciesInForce<'_> {
    /// Sees which policies apply to a queue; whether something else is in force for it than before.
    pub(crate) fn apply(&mut self, record: &mut QueueRecord) -> bool {
        let applies = |policy: &&&Policy| policy.applies_to_queue(&record.name, record.kind);
        let user = self.user.iter().find(applies).copied();
        let operator = self.operator.iter().find(applies).copied();
        let names = (user.map(|of| &*of.name), operator.map(|of| &*of.name));
        let merged = self.merged.entry(names);
        let definition = merged.or_insert_with(|| policy::merge(user, operator));
        let settings = policy::resolve(record.kind, &record.arguments, definition);
        record.policy = user.map(|policy| Arc::clone(&policy.name));
        record.operator_policy = operator.map(|policy| Arc::clone(&policy.name));
        let is_changed = settings != record.settings;
        record.settings = settings;
        is_changed
    }
}

impl Catalogue {
    /// Sees which policies apply to the queues and exchanges of a virtual host now, and names what
    /// changed. One policy was set or cleared: what neither the one `before` nor the one `since`
    /// applies to stays as it is.
    pub(crate) fn refresh_policies(
        &mut self,
        name: &str,
        before: Option<&Policy>,
        since: Option<&Policy>,
        outcome: &mut Outcome,
    ) -> Result<(), CatalogueError> {
        let vhost = self
            .vhosts
            .get_mut(name)
            .ok_or_else(|| CatalogueError::NoVhost(name.to_owned()))?;
        let ends = || [before, since].into_iter().flatten();
        let mut policies = vhost.policies_in_force();
        for (name, id) in &vhost.queues {
            let Some(record) = self.queues.get_mut(id) else {
                continue;
            };
            let concerns = |policy: &Policy| policy.applies_to_queue(name, record.kind);
            if ends().any(concerns) && policies.apply(record) {
                outcome.changes.push(Change::QueueChanged(*id));
            }
        }
        let names = vhost.exchanges.keys();
        let concerned = names.filter(|name| ends().any(|of| of.applies_to_exchange(name)));
        for name in concerned.cloned().collect::<Vec<Arc<str>>>() {
            let (policy, definition) = vhost.exchange_policy(&name);
            if let Some(exchange) = vhost.exchanges.get_mut(&name) {
                exchange.policy = policy;
                let alternate = alternate(&exchange.arguments, &definition);
                vhost.router.set_alternate(&name, alternate.as_deref());
            }
        }
        Ok(())
    }
}
