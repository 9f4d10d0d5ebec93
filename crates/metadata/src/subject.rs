//! What a command does and to what, in words for an operator's log.

use crate::command::{Command, Endpoint};
use crate::record::resource;

impl Command {
    /// The operation, and the object that it changes.
    #[must_use]
    pub fn subject(&self) -> (&'static str, String) {
        match self {
            Self::VhostPut { vhost, .. } => ("set virtual host", format!("vhost '{vhost}'")),
            Self::VhostDelete { vhost } => ("delete virtual host", format!("vhost '{vhost}'")),
            Self::UserPut { user, .. } => ("set user", format!("user '{user}'")),
            Self::UserDelete { user } => ("delete user", format!("user '{user}'")),
            Self::PermissionSet { vhost, user, .. } => {
                ("set permissions", resource("user", user, vhost))
            }
            Self::PermissionClear { vhost, user } => {
                ("clear permissions", resource("user", user, vhost))
            }
            Self::TopicPermissionSet { vhost, user, .. } => {
                ("set topic permissions", resource("user", user, vhost))
            }
            Self::TopicPermissionClear { vhost, user, .. } => {
                ("clear topic permissions", resource("user", user, vhost))
            }
            Self::VhostLimitSet { vhost, limit, .. } => {
                ("set limit", resource("limit", limit, vhost))
            }
            Self::VhostLimitClear { vhost, .. } => ("clear limits", format!("vhost '{vhost}'")),
            Self::UserLimitSet { user, limit, .. } => {
                ("set limit", format!("limit '{limit}' of user '{user}'"))
            }
            Self::UserLimitClear { user, .. } => ("clear limits", format!("user '{user}'")),
            Self::GlobalParameterSet { name, .. } => {
                ("set global parameter", format!("parameter '{name}'"))
            }
            Self::GlobalParameterClear { name } => {
                ("clear global parameter", format!("parameter '{name}'"))
            }
            Self::NodeJoin { name, address, .. } => {
                ("add node", format!("node '{name}' at {address}"))
            }
            Self::NodeForget { node } => ("forget node", format!("node {node}")),
            Self::NodeStarted { node, .. } => ("start node", format!("node {node}")),
            Self::NodeDrain { node, draining } => match draining {
                true => ("drain node", format!("node {node}")),
                false => ("revive node", format!("node {node}")),
            },
            Self::NodePromote { node } => ("let node vote", format!("node {node}")),
            Self::QueueMembers { id, .. } => ("change members", format!("queue {id}")),
            Self::StreamLeader { stream, .. } => ("change leader", format!("stream {stream}")),
            Self::StreamMembers { stream, .. } => ("change members", format!("stream {stream}")),
            Self::Look => ("look", String::new()),
            of_vhost => of_vhost.subject_in_vhost(),
        }
    }

    /// The same of what has a name in a virtual host.
    fn subject_in_vhost(&self) -> (&'static str, String) {
        match self {
            Self::PolicySet {
                vhost,
                name,
                operator,
                ..
            } => ("set policy", policy(name, vhost, *operator)),
            Self::PolicyClear {
                vhost,
                name,
                operator,
            } => ("clear policy", policy(name, vhost, *operator)),
            Self::ParameterSet { vhost, name, .. } => {
                ("set parameter", resource("parameter", name, vhost))
            }
            Self::ParameterClear { vhost, name, .. } => {
                ("clear parameter", resource("parameter", name, vhost))
            }
            Self::ExchangeDeclare { vhost, name, .. } => {
                ("declare exchange", resource("exchange", name, vhost))
            }
            Self::ExchangeDelete { vhost, name, .. } => {
                ("delete exchange", resource("exchange", name, vhost))
            }
            Self::SuperStreamDeclare { vhost, name, .. } => {
                ("make super stream", resource("exchange", name, vhost))
            }
            Self::QueueDeclare { vhost, name, .. } => {
                ("declare queue", resource("queue", name, vhost))
            }
            Self::QueueDelete { vhost, name, .. } => {
                ("delete queue", resource("queue", name, vhost))
            }
            Self::Bind {
                vhost, destination, ..
            } => ("bind", end(destination, vhost)),
            Self::Unbind {
                vhost, destination, ..
            } => ("unbind", end(destination, vhost)),
            other => unreachable!("{other:?} has no name in a virtual host"),
        }
    }
}

fn policy(name: &str, vhost: &str, operator: bool) -> String {
    let kind = if operator {
        "operator policy"
    } else {
        "policy"
    };
    resource(kind, name, vhost)
}

fn end(endpoint: &Endpoint, vhost: &str) -> String {
    match endpoint {
        Endpoint::Queue(name) => resource("queue", name, vhost),
        Endpoint::Exchange(name) => resource("exchange", name, vhost),
    }
}
