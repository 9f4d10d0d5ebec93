//! What an import makes nothing of.

use super::Definitions;
use super::import::is_brokers;
use crate::catalogue::Catalogue;
use crate::policy;
use crate::topology::PREDECLARED;

/// Why, of an object.
const NAME: &str = "only a broker gives names that begin with 'amq.', so an import makes none";
/// Why, of a binding.
const END: &str =
    "an import makes nothing of such a name, and binds it only where it is there already";

/// Why, of a policy.
const COSTLY: &str = "its pattern takes too much work for each name, so it applies to nothing: \
                      replace the pattern";

impl Definitions {
    /// What an import into `catalogue` passes over: queues and exchanges with names that only a
    /// broker gives and that are not there, and their bindings. A line for each, with the reason.
    /// Once it is done, policies that apply to nothing as well.
    /// `vhost` is where items go that name none, as in [`Self::trial`].
    #[must_use]
    pub fn passed_over(&self, catalogue: &Catalogue, vhost: Option<&str>) -> Vec<String> {
        let no_queue = |vhost: &str, name: &str| {
            is_brokers(name) && catalogue.queue_by_name(vhost, name).is_none()
        };
        let no_exchange = |vhost: &str, name: &str| {
            let is_there = || catalogue.vhost(vhost)?.exchange(name);
            let is_everywhere = PREDECLARED.iter().any(|(known, ..)| *known == name);
            // The default exchange has no name, and is there as well.
            is_brokers(name) && !name.is_empty() && !is_everywhere && is_there().is_none()
        };
        let at = |named: &str| vhost.unwrap_or(named).to_owned();
        let mut lines = Vec::new();
        for queue in &self.queues {
            let vhost = at(&queue.vhost);
            // One without any name is refused.
            if !queue.name.is_empty() && no_queue(&vhost, &queue.name) {
                lines.push(format!("queue '{}' in vhost '{vhost}': {NAME}", queue.name));
            }
        }
        for exchange in &self.exchanges {
            let vhost = at(&exchange.vhost);
            if no_exchange(&vhost, &exchange.name) {
                let name = &exchange.name;
                lines.push(format!("exchange '{name}' in vhost '{vhost}': {NAME}"));
            }
        }
        for binding in &self.bindings {
            let vhost = at(&binding.vhost);
            let (from, to) = (&binding.source, &binding.destination);
            let no_end = match &*binding.destination_type {
                "exchange" => no_exchange(&vhost, to),
                _ => !to.is_empty() && no_queue(&vhost, to),
            };
            if !from.is_empty() && (no_end || no_exchange(&vhost, from)) {
                let kind = &binding.destination_type;
                lines.push(format!(
                    "binding from '{from}' to {kind} '{to}' in vhost '{vhost}': {END}"
                ));
            }
        }
        let costly = catalogue.policies_too_costly();
        if !costly.is_empty() {
            let of_users = self.policies.iter().map(|p| (false, &p.vhost, &p.name));
            let parameters = self.parameters.iter();
            let of_operators = parameters.filter(|p| p.component == "operator_policy");
            let of_operators = of_operators.map(|p| (true, &p.vhost, &p.name));
            let all = of_users.chain(of_operators);
            let all = all.map(|(operator, of, name)| policy::called(operator, name, &at(of)));
            let all = all.filter(|called| costly.contains(called));
            lines.extend(all.map(|called| format!("{called}: {COSTLY}")));
        }
        lines
    }
}
