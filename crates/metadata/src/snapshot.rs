//! Snapshots: the part of the catalogue that survives a restart, as the commands that make it.

use crate::catalogue::{Catalogue, Config};
use crate::cluster::ClusterSnapshot;
use crate::command::{Command, Endpoint, decode, encode_onto};
use crate::error::CatalogueError;
use crate::record::{ExchangeRecord, User, Vhost};
use crate::table;
use crate::topology::queue_command;
use leveret_routing::{Binding, Destination};
use leveret_types::FieldTable;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

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
        let mut begun = self.begin_snapshot();
        while begun.go_on(self, u32::MAX) {}
        begun.finish()
    }

    /// Begins a snapshot whose bindings are copied in pieces. Commands may be carried out between:
    /// replayed behind the snapshot, all those since now give what there is.
    #[must_use]
    pub fn begin_snapshot(&self) -> BegunSnapshot {
        let mut commands = self.commands_of_accounts();
        for vhost in self.vhosts.values() {
            self.names_commands(vhost, &|command| self.is_kept(command), &mut commands);
        }
        let bindings = self.vhosts.values().map(|vhost| BindingsLeft {
            vhost: Arc::clone(&vhost.name),
            arrivals: vhost.router.arrivals(),
            numbers: 0..vhost.router.binding_numbers(),
        });
        let mut left: Vec<BindingsLeft> = bindings.collect();
        left.reverse();
        BegunSnapshot {
            snapshot: Snapshot {
                next_queue: self.next_queue,
                commands,
                cluster: self.cluster_snapshot(),
            },
            left,
        }
    }

    /// Whether what a command makes is in snapshots.
    fn is_kept(&self, command: &Command) -> bool {
        self.is_clustered() || self.is_durable(command)
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
        let mut commands = self.commands_of_accounts();
        for vhost in self.vhosts.values() {
            self.names_commands(vhost, &wanted, &mut commands);
            let bindings = vhost.router.bindings();
            let bindings = bindings.map(|binding| bind_command(&vhost.name, &binding));
            commands.extend(bindings.filter(&wanted));
        }
        commands
    }

    /// The commands that make parameters, virtual hosts and users, with what belongs to them.
    fn commands_of_accounts(&self) -> Vec<Command> {
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
        commands
    }

    /// The commands that make the exchanges and queues of a virtual host.
    fn names_commands(
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
    }
}

/// A snapshot whose bindings are not all copied yet: see [`Catalogue::begin_snapshot`].
///
/// What happens to a binding meanwhile is in the log behind the snapshot. There its last change
/// decides, and it makes no difference whether the snapshot has the binding already, or still.
/// Bindings of what has come since are left to the log, for the snapshot has nothing that they
/// could lead from or to.
#[derive(Debug)]
pub struct BegunSnapshot {
    snapshot: Snapshot,
    /// By virtual host, the next one last.
    left: Vec<BindingsLeft>,
}

/// The bindings of a virtual host that are to be copied.
#[derive(Debug)]
struct BindingsLeft {
    /// The very name that it has: another virtual host may be called the same later.
    vhost: Arc<str>,
    /// How many queues and exchanges had come when the snapshot was begun.
    arrivals: u64,
    numbers: Range<u32>,
}

impl BegunSnapshot {
    /// Looks at up to `most` places of bindings, and copies what is there. Answers whether there
    /// are more.
    pub fn go_on(&mut self, catalogue: &Catalogue, most: u32) -> bool {
        let Some(next) = self.left.last_mut() else {
            return false;
        };
        let end = next
            .numbers
            .start
            .saturating_add(most)
            .min(next.numbers.end);
        let numbers = next.numbers.start..end;
        next.numbers.start = end;
        let vhost = catalogue.vhost(&next.vhost);
        if let Some(vhost) = vhost.filter(|vhost| Arc::ptr_eq(&vhost.name, &next.vhost)) {
            let bindings = numbers.filter_map(|at| vhost.router.binding_among(next.arrivals, at));
            let bindings = bindings.map(|binding| bind_command(&vhost.name, &binding));
            let kept = bindings.filter(|command| catalogue.is_kept(command));
            self.snapshot.commands.extend(kept);
        }
        if next.numbers.is_empty() {
            self.left.pop();
        }
        !self.left.is_empty()
    }

    /// The snapshot, once there are no more.
    #[must_use]
    pub fn finish(self) -> Snapshot {
        self.snapshot
    }
}

/// The command that makes a binding that exists.
fn bind_command(vhost: &str, binding: &Binding<'_>) -> Command {
    Command::Bind {
        vhost: vhost.to_owned(),
        source: binding.source.to_owned(),
        destination: match binding.destination {
            Destination::Queue(name) => Endpoint::Queue(name.to_owned()),
            Destination::Exchange(name) => Endpoint::Exchange(name.to_owned()),
        },
        routing_key: binding.routing_key.to_vec(),
        arguments: binding.arguments.clone(),
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
