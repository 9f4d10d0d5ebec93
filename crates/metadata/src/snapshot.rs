//! Snapshots: the part of the catalogue that survives a restart, as the commands that make it.

use crate::catalogue::{Catalogue, Config};
use crate::cluster::ClusterSnapshot;
use crate::command::{Command, Endpoint, decode, encode_onto};
use crate::error::CatalogueError;
use crate::record::{ExchangeRecord, User, Vhost};
use crate::table;
use crate::topology::queue_command;
use leveret_routing::Destination;
use leveret_types::FieldTable;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// A snapshot: the commands, and the counter that they alone would not restore (the last queues may
/// have been deleted).
#[derive(Debug, Serialize, Deserialize)]
pub struct Snapshot {
    next_queue: u64,
    commands: Vec<Command>,
    /// Of a cluster's catalogue: then the commands make all that there is, and not only what
    /// survives a restart of this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cluster: Option<ClusterSnapshot>,
}

/// Bytes that a command takes at most beside its arguments, where names are as long as usual: a
/// snapshot with longer ones grows while it is written.
const COMMAND_BYTES: usize = 256;

impl Snapshot {
    /// Its bytes. Takes long where very much is declared.
    #[must_use]
    pub fn encode(self) -> Vec<u8> {
        self.encode_behind(Vec::new())
    }

    /// The same behind other bytes. Beside the bytes themselves, for which there is room from the
    /// beginning, no more is held than the snapshot is.
    #[must_use]
    pub fn encode_behind(mut self, mut head: Vec<u8>) -> Vec<u8> {
        sort_bindings(&mut self.commands);
        let bytes = self.commands.iter().map(|command| {
            let arguments = command.arguments().map_or(0, FieldTable::weight);
            COMMAND_BYTES + arguments
        });
        head.reserve(bytes.sum());
        encode_onto(&mut head, &self);
        head
    }
}

/// Puts the bindings of each virtual host, which stand together, into an order that is always the
/// same.
fn sort_bindings(commands: &mut [Command]) {
    let are_together = |a: &Command, b: &Command| match (a, b) {
        (Command::Bind { vhost, .. }, Command::Bind { vhost: other, .. }) => vhost == other,
        _ => false,
    };
    for bindings in commands.chunk_by_mut(are_together) {
        bindings.sort_unstable_by(binding_order);
    }
}

/// The order of two bindings of one virtual host. Shorter names are before longer ones, as they are
/// in the order of their bytes.
fn binding_order(a: &Command, b: &Command) -> Ordering {
    let (Some(of_a), Some(of_b)) = (bound(a), bound(b)) else {
        return Ordering::Equal;
    };
    let by_ends = of_a.cmp(&of_b);
    by_ends.then_with(|| match (a.arguments(), b.arguments()) {
        (Some(a), Some(b)) => table::compare(a, b),
        _ => Ordering::Equal,
    })
}

/// Bytes in the order that theirs have in a snapshot.
type ByLength<'a> = (usize, &'a [u8]);

/// What a binding binds, in order: source, kind of destination, destination, key.
fn bound(command: &Command) -> Option<(ByLength<'_>, bool, ByLength<'_>, ByLength<'_>)> {
    let Command::Bind {
        source,
        destination,
        routing_key,
        ..
    } = command
    else {
        return None;
    };
    let (is_exchange, name) = match destination {
        Endpoint::Queue(name) => (false, name.as_bytes()),
        Endpoint::Exchange(name) => (true, name.as_bytes()),
    };
    let source = source.as_bytes();
    Some((
        (source.len(), source),
        is_exchange,
        (name.len(), name),
        (routing_key.len(), routing_key),
    ))
}

impl Catalogue {
    /// The bytes of what survives a restart; of a cluster's catalogue, of all that there is. Two
    /// catalogues with the same durable content have the same bytes.
    #[must_use]
    pub fn snapshot(&self) -> Vec<u8> {
        self.declared().encode()
    }

    /// What [`Self::snapshot`] is the bytes of, to be encoded when the catalogue is let go. Its
    /// arguments are the catalogue's own, and not copied.
    #[must_use]
    pub fn declared(&self) -> Snapshot {
        Snapshot {
            next_queue: self.next_queue,
            commands: match self.is_clustered() {
                true => self.commands(|_| true),
                false => self.commands(|command| self.is_durable(command)),
            },
            cluster: self.cluster_snapshot(),
        }
    }

    /// The catalogue that a snapshot holds.
    ///
    /// # Errors
    /// If the bytes are of another version, or damaged.
    pub fn restore(config: Config, bytes: &[u8]) -> Result<Self, CatalogueError> {
        let snapshot: Snapshot = decode("snapshot", bytes)?;
        let mut catalogue = Self::new(config);
        for command in &snapshot.commands {
            catalogue.replay(command)?;
        }
        catalogue.next_queue = catalogue.next_queue.max(snapshot.next_queue);
        if let Some(cluster) = snapshot.cluster {
            catalogue.restore_cluster(cluster);
        }
        Ok(catalogue)
    }

    /// The commands that make, from nothing, what survives a restart.
    #[must_use]
    pub fn durable_commands(&self) -> Vec<Command> {
        let mut commands = self.commands(|command| self.is_durable(command));
        sort_bindings(&mut commands);
        commands
    }

    /// The commands that make what there is, of its topology as far as `wanted`. Bindings are in no
    /// order.
    fn commands(&self, wanted: impl Fn(&Command) -> bool) -> Vec<Command> {
        let mut commands = Vec::new();
        for (name, value) in &self.global_parameters {
            commands.push(Command::GlobalParameterSet {
                name: name.clone(),
                value: value.clone(),
            });
        }
        for vhost in self.vhosts.values() {
            vhost_commands(vhost, &mut commands);
        }
        for user in self.users.values() {
            user_commands(user, &mut commands);
        }
        for vhost in self.vhosts.values() {
            self.topology_commands(vhost, &wanted, &mut commands);
        }
        commands
    }

    fn topology_commands(
        &self,
        vhost: &Vhost,
        wanted: &impl Fn(&Command) -> bool,
        commands: &mut Vec<Command>,
    ) {
        let declared = vhost
            .exchanges
            .values()
            .filter(|exchange| !exchange.name.starts_with("amq."));
        let exchanges = declared.map(|exchange| exchange_command(&vhost.name, exchange));
        commands.extend(exchanges.filter(wanted));
        let queues = vhost.queues.values().filter_map(|id| self.queue(*id));
        commands.extend(queues.map(queue_command).filter(wanted));
        let bindings = vhost.router.bindings().map(|binding| Command::Bind {
            vhost: vhost.name.to_string(),
            source: binding.source.to_owned(),
            destination: match binding.destination {
                Destination::Queue(name) => Endpoint::Queue(name.to_owned()),
                Destination::Exchange(name) => Endpoint::Exchange(name.to_owned()),
            },
            routing_key: binding.routing_key.to_vec(),
            arguments: binding.arguments.clone(),
        });
        commands.extend(bindings.filter(wanted));
    }
}

/// The declaration of an exchange that exists.
pub(crate) fn exchange_command(vhost: &str, exchange: &ExchangeRecord) -> Command {
    Command::ExchangeDeclare {
        vhost: vhost.to_owned(),
        name: exchange.name.to_string(),
        kind: exchange.kind.to_string(),
        durable: exchange.durable,
        auto_delete: exchange.auto_delete,
        internal: exchange.internal,
        arguments: exchange.arguments.clone(),
    }
}

/// The commands that make a virtual host and its limits.
pub(crate) fn declared_vhost(vhost: &Vhost) -> Vec<Command> {
    let name = || vhost.name.to_string();
    let put = Command::VhostPut {
        vhost: name(),
        description: Some(vhost.description.clone()),
        tags: Some(vhost.tags.clone()),
        default_queue_type: vhost.default_queue_type.map(|kind| kind.name().to_owned()),
        protected: Some(vhost.protected),
        tracing: Some(vhost.tracing),
    };
    let limits = vhost
        .limits
        .iter()
        .map(|(limit, value)| Command::VhostLimitSet {
            vhost: name(),
            limit: limit.clone(),
            value: *value,
        });
    [put].into_iter().chain(limits).collect()
}

fn vhost_commands(vhost: &Vhost, commands: &mut Vec<Command>) {
    let name = || vhost.name.to_string();
    commands.append(&mut declared_vhost(vhost));
    for ((component, parameter), value) in &vhost.parameters {
        commands.push(Command::ParameterSet {
            vhost: name(),
            component: component.clone(),
            name: parameter.clone(),
            value: value.clone(),
        });
    }
    let user_policies = vhost.policies.values().map(|policy| (policy, false));
    let operator_policies = vhost
        .operator_policies
        .values()
        .map(|policy| (policy, true));
    for (policy, operator) in user_policies.chain(operator_policies) {
        commands.push(Command::PolicySet {
            vhost: name(),
            name: policy.name.to_string(),
            operator,
            pattern: policy.pattern.as_str().to_owned(),
            apply_to: policy.apply_to.name().to_owned(),
            priority: policy.priority,
            definition: policy.definition.clone(),
        });
    }
}

/// The command that makes a user, without limits and permissions.
pub(crate) fn declared_user(user: &User) -> Command {
    Command::UserPut {
        user: user.name.to_string(),
        password: Some(user.password.clone()),
        tags: Some(user.tags.clone()),
    }
}

fn user_commands(user: &User, commands: &mut Vec<Command>) {
    let name = || user.name.to_string();
    commands.push(declared_user(user));
    for (limit, value) in &user.limits {
        commands.push(Command::UserLimitSet {
            user: name(),
            limit: limit.clone(),
            value: *value,
        });
    }
    for (vhost, permission) in &user.permissions {
        commands.push(Command::PermissionSet {
            vhost: vhost.clone(),
            user: name(),
            configure: permission.configure.as_str().to_owned(),
            write: permission.write.as_str().to_owned(),
            read: permission.read.as_str().to_owned(),
        });
    }
    for ((vhost, exchange), topic) in &user.topic_permissions {
        commands.push(Command::TopicPermissionSet {
            vhost: vhost.clone(),
            user: name(),
            exchange: exchange.clone(),
            write: topic.write().to_owned(),
            read: topic.read().to_owned(),
        });
    }
}
