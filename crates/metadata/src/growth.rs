//! Which commands make something that is not there yet, and so take memory for good.

use crate::catalogue::Catalogue;
use crate::command::{Command, Endpoint};
use crate::record::Vhost;
use crate::topology::strip_cr_lf;

impl Catalogue {
    /// Whether a command would make a new object: false where that is there, however it is, where
    /// something that it needs is missing, and of all that changes or takes away. Nothing else
    /// about the command is checked.
    #[must_use]
    pub fn would_create(&self, command: &Command) -> bool {
        match command {
            Command::ExchangeDeclare { vhost, name, .. }
            | Command::SuperStreamDeclare { vhost, name, .. } => self
                .vhost(vhost)
                .is_some_and(|vhost| !has_exchange(vhost, name)),
            Command::QueueDeclare { vhost, name, .. } => self
                .vhost(vhost)
                .is_some_and(|vhost| name.is_empty() || !has_queue(vhost, name)),
            Command::Bind { .. } => self.would_bind(command),
            Command::VhostPut { vhost, .. } => self.vhost(vhost).is_none(),
            Command::PolicySet {
                vhost,
                name,
                operator,
                ..
            } => self.vhost(vhost).is_some_and(|vhost| match operator {
                true => !vhost.operator_policies().any(|p| *p.name == **name),
                false => !vhost.policies().any(|p| *p.name == **name),
            }),
            Command::ParameterSet {
                vhost,
                component,
                name,
                ..
            } => self.vhost(vhost).is_some_and(|vhost| {
                !vhost
                    .parameters()
                    .any(|(of, known, _)| (of, known) == (component, name))
            }),
            Command::GlobalParameterSet { name, .. } => {
                !self.global_parameters().any(|(known, _)| known == name)
            }
            _ => self.would_let_in(command),
        }
    }

    /// The same of users and what they may do.
    fn would_let_in(&self, command: &Command) -> bool {
        match command {
            Command::UserPut { user, .. } => self.user(user).is_none(),
            Command::PermissionSet { vhost, user, .. } => self
                .user(user)
                .is_some_and(|user| user.permission(vhost).is_none()),
            Command::TopicPermissionSet {
                vhost,
                user,
                exchange,
                ..
            } => self.user(user).is_some_and(|user| {
                !user
                    .topic_permissions()
                    .any(|(of, at, _)| (of, at) == (vhost, exchange))
            }),
            _ => false,
        }
    }

    /// The same of a binding: both of its ends are there, and it is not.
    fn would_bind(&self, command: &Command) -> bool {
        let Command::Bind {
            vhost,
            source,
            destination,
            ..
        } = command
        else {
            return false;
        };
        let ends = self.vhost(vhost).is_some_and(|vhost| {
            let destination = match destination {
                Endpoint::Queue(name) => has_queue(vhost, name),
                Endpoint::Exchange(name) => has_exchange(vhost, name),
            };
            has_exchange(vhost, source) && destination
        });
        ends && self.unchanged_by(command).is_none()
    }
}

/// Whether there is an exchange of this name; the default one is everywhere.
fn has_exchange(vhost: &Vhost, name: &str) -> bool {
    let name = strip_cr_lf(name);
    name.is_empty() || vhost.exchange(&name).is_some()
}

fn has_queue(vhost: &Vhost, name: &str) -> bool {
    vhost.queue_id(&strip_cr_lf(name)).is_some()
}
