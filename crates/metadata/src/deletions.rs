//! Deletions of what is not there, which a node can answer by itself: whether the others know what
//! it does not is as little asked as it is for a declaration that finds what it wants.

use crate::catalogue::{Catalogue, Outcome};
use crate::command::Command;
use crate::error::CatalogueError;
use crate::record::{User, Vhost, resource};
use crate::topology::strip_cr_lf;
use leveret_types::QueueId;
use std::collections::BTreeMap;

impl Catalogue {
    /// The answer to a deletion that deletes nothing: it is done already, or there is nothing that
    /// it could be about, as [`Catalogue::apply`] would have it. Nothing if there is something to
    /// be deleted, or the command does not delete.
    pub(crate) fn deletes_nothing(
        &self,
        command: &Command,
    ) -> Option<Result<Outcome, CatalogueError>> {
        let is_there = match command {
            Command::ExchangeDelete { vhost, name, .. } => {
                let exchange = self.exchange_to_delete(vhost, &strip_cr_lf(name));
                exchange.map(|found| found.is_some())
            }
            Command::QueueDelete {
                vhost, name, id, ..
            } => {
                let queue = self.queue_to_delete(vhost, &strip_cr_lf(name), id.map(QueueId));
                queue.map(|found| found.is_some())
            }
            Command::VhostDelete { vhost } => self.vhost_or_error(vhost).map(|_| true),
            Command::UserDelete { user } => self.user_or_error(user).map(|_| true),
            Command::VhostLimitClear { vhost, limit } => {
                let found = self.vhost_or_error(vhost);
                found.map(|vhost| is_any(&vhost.limits, limit.as_deref()))
            }
            Command::UserLimitClear { user, limit } => {
                let found = self.user_or_error(user);
                found.map(|user| is_any(&user.limits, limit.as_deref()))
            }
            Command::PermissionClear { vhost, user } => {
                let found = self.user_in(vhost, user);
                found.map(|user| user.permissions.contains_key(vhost))
            }
            Command::TopicPermissionClear {
                vhost,
                user,
                exchange,
            } => {
                let found = self.user_in(vhost, user);
                found.map(|user| user.has_topic_permission(vhost, exchange.as_deref()))
            }
            Command::PolicyClear { .. }
            | Command::ParameterClear { .. }
            | Command::GlobalParameterClear { .. } => {
                return self.refused_deletion(command).map(Err);
            }
            _ => return None,
        };
        match is_there {
            Ok(true) => None,
            Ok(false) => Some(Ok(Outcome::default())),
            Err(error) => Some(Err(error)),
        }
    }

    /// Why a policy or a parameter cannot be deleted; nothing if it can.
    pub(crate) fn refused_deletion(&self, command: &Command) -> Option<CatalogueError> {
        let find = |name: &str| self.vhost_or_error(name);
        let (is_there, resource) = match command {
            Command::PolicyClear {
                vhost,
                name,
                operator,
            } => {
                let found = find(vhost).map(|of| match *operator {
                    true => of.operator_policies.contains_key(name),
                    false => of.policies.contains_key(name),
                });
                let kind = if *operator {
                    "operator policy"
                } else {
                    "policy"
                };
                (found, resource(kind, name, vhost))
            }
            Command::ParameterClear {
                vhost,
                component,
                name,
            } => {
                let key = (component.clone(), name.clone());
                let found = find(vhost).map(|of| of.parameters.contains_key(&key));
                let kind = format!("parameter of {component}");
                (found, resource(&kind, name, vhost))
            }
            Command::GlobalParameterClear { name } => {
                let found = self.global_parameters.contains_key(name);
                (Ok(found), format!("global parameter '{name}'"))
            }
            other => unreachable!("{other:?} deletes neither a policy nor a parameter"),
        };
        match is_there {
            Ok(true) => None,
            Ok(false) => Some(CatalogueError::NotFound { resource }),
            Err(error) => Some(error),
        }
    }

    pub(crate) fn vhost_or_error(&self, name: &str) -> Result<&Vhost, CatalogueError> {
        self.vhost(name)
            .ok_or_else(|| CatalogueError::NoVhost(name.to_owned()))
    }

    fn user_or_error(&self, name: &str) -> Result<&User, CatalogueError> {
        self.user(name)
            .ok_or_else(|| CatalogueError::NoUser(name.to_owned()))
    }

    /// A user, if the virtual host is there as well.
    fn user_in(&self, vhost: &str, user: &str) -> Result<&User, CatalogueError> {
        self.vhost_or_error(vhost)?;
        self.user_or_error(user)
    }
}

impl User {
    /// Whether it has a topic permission in a virtual host, on this exchange or on any.
    fn has_topic_permission(&self, vhost: &str, exchange: Option<&str>) -> bool {
        let mut all = self.topic_permissions.keys();
        all.any(|(of, on)| of == vhost && exchange.is_none_or(|exchange| exchange == on))
    }
}

/// Whether there is this limit, or any.
fn is_any(limits: &BTreeMap<String, i64>, limit: Option<&str>) -> bool {
    match limit {
        Some(limit) => limits.contains_key(limit),
        None => !limits.is_empty(),
    }
}
