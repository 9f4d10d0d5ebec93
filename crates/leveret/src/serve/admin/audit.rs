//! One line in the log for what an operator changes: who, what, and to which object.

use leveret_management::api::{Actor, Topology};
use leveret_metadata::Command;
use std::fmt::Display;

/// The name of who acts, as the log has it.
pub fn name_of(actor: Actor<'_>) -> &str {
    match actor {
        Actor::Operator => "(operator)",
        Actor::User(user) => user,
    }
}

/// What these commands do together.
pub fn subject_of_all(commands: &[Command]) -> (&'static str, String) {
    match commands {
        [command] => command.subject(),
        [] => ("change nothing", String::new()),
        many if many.iter().all(deletes_user) => {
            let users: Vec<String> = many.iter().map(|command| command.subject().1).collect();
            ("delete users", users.join(", "))
        }
        many => ("import definitions", format!("{} changes", many.len())),
    }
}

const fn deletes_user(command: &Command) -> bool {
    matches!(command, Command::UserDelete { .. })
}

/// What a change of exchanges, queues or bindings does.
pub fn subject(change: &Topology, vhost: &str) -> (&'static str, String) {
    let of = |kind: &str, name: &str| format!("{kind} '{name}' in vhost '{vhost}'");
    match change {
        Topology::DeclareExchange { name, .. } => ("declare exchange", of("exchange", name)),
        Topology::DeleteExchange { name, .. } => ("delete exchange", of("exchange", name)),
        Topology::DeclareQueue { name, .. } => ("declare queue", of("queue", name)),
        Topology::DeleteQueue { name, .. } => ("delete queue", of("queue", name)),
        Topology::PurgeQueue { name } => ("purge queue", of("queue", name)),
        Topology::Bind(binding) => ("bind", of(end(binding.to_queue), &binding.destination)),
        Topology::Unbind(binding) => ("unbind", of(end(binding.to_queue), &binding.destination)),
    }
}

const fn end(to_queue: bool) -> &'static str {
    match to_queue {
        true => "queue",
        false => "exchange",
    }
}

/// What the lines are known by: each user has an allowance of lines of his own.
pub const TARGET: &str = "leveret::audit";

/// Notes it. Names are shown with what would break a line escaped.
pub fn note(by: &str, operation: &str, object: &str, refused: Option<&dyn Display>) {
    match refused {
        None => tracing::info!(target: TARGET, ?by, operation, ?object, "changed by an operator"),
        Some(reason) => {
            let reason = reason.to_string();
            tracing::info!(target: TARGET, ?by, operation, ?object, ?reason, "refused to an operator");
        }
    }
}
