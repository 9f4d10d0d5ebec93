//! Commands about users and virtual hosts, and what belongs to them: permissions, limits, policies,
//! parameters.

use crate::catalogue::{Catalogue, Change, Outcome, TakenOut};
use crate::command::Command;
use crate::error::CatalogueError;
use crate::policy::{Policy, PolicyWanted};
use crate::record::{User, Vhost};
use crate::topology::check_length;
use crate::weights::{value_weight, vhost_weight, weight};
use leveret_auth::{Permission, TopicPermission};
use leveret_types::QueueKind;
use leveret_types::limits::USER_TAGS_MAX;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Limits that a virtual host may have.
const VHOST_LIMITS: &[&str] = &["max-connections", "max-queues"];
/// Limits that a user may have.
const USER_LIMITS: &[&str] = &["max-connections", "max-channels"];

/// The component of the parameter that limits a virtual host.
pub(crate) const LIMITS_COMPONENT: &str = "vhost-limits";

/// Why a parameter of this component is refused: policies and limits are set by commands of their
/// own, which check them, and no other component exists that would read one.
#[must_use]
pub fn refuse_component(component: &str) -> CatalogueError {
    match component {
        "policy" | "operator_policy" | LIMITS_COMPONENT | "global" => {
            CatalogueError::ReservedComponent(component.to_owned())
        }
        _ => CatalogueError::NoComponent(component.to_owned()),
    }
}

/// The outcome of a command that is logged as it is.
fn done(command: &Command, change: Option<Change>) -> Outcome {
    Outcome {
        changes: change.into_iter().collect(),
        log: vec![command.clone()],
        ..Outcome::default()
    }
}

/// The outcome of a command that found everything as it should be.
fn unchanged() -> Outcome {
    Outcome::default()
}

impl Catalogue {
    pub(crate) fn apply_to_vhost(&mut self, command: &Command) -> Result<Outcome, CatalogueError> {
        match command {
            Command::VhostPut { vhost, .. } => self.put_vhost(vhost, command),
            Command::VhostDelete { vhost } => self.delete_vhost(vhost, command),
            Command::VhostLimitSet {
                vhost,
                limit,
                value,
            } => {
                let record = self.vhost_mut(vhost)?;
                set_limit(&mut record.limits, VHOST_LIMITS, limit, *value)?;
                Ok(done(
                    command,
                    Some(Change::VhostChanged(Arc::clone(&record.name))),
                ))
            }
            Command::VhostLimitClear { vhost, limit } => {
                let record = self.vhost_mut(vhost)?;
                if !clear_limit(&mut record.limits, limit.as_deref()) {
                    return Ok(unchanged());
                }
                Ok(done(
                    command,
                    Some(Change::VhostChanged(Arc::clone(&record.name))),
                ))
            }
            other => unreachable!("{other:?} is not about virtual hosts"),
        }
    }

    pub(crate) fn apply_to_parameters(
        &mut self,
        command: &Command,
    ) -> Result<Outcome, CatalogueError> {
        match command {
            Command::PolicySet {
                vhost,
                name,
                operator,
                pattern,
                apply_to,
                priority,
                definition,
            } => {
                check_length(name)?;
                let wanted = PolicyWanted {
                    name,
                    operator: *operator,
                    pattern,
                    apply_to,
                    priority: *priority,
                    definition,
                };
                let policy = Policy::new(wanted, self.replaying)?;
                let of_kind = policies(self.vhost_mut(vhost)?, *operator);
                let before = of_kind.insert(name.clone(), policy.clone());
                self.policy_changed(vhost, before.as_ref(), Some(&policy), command)
            }
            Command::PolicyClear {
                vhost,
                name,
                operator,
            } => {
                self.permit_deletion(command)?;
                let gone = policies(self.vhost_mut(vhost)?, *operator).remove(name);
                self.policy_changed(vhost, gone.as_ref(), None, command)
            }
            Command::ParameterSet {
                vhost,
                component,
                name,
                value,
            } => {
                check_length(component)?;
                check_length(name)?;
                let key = (component.clone(), name.clone());
                let parameters = &mut self.vhost_mut(vhost)?.parameters;
                let before = parameters.insert(key, value.clone());
                self.note_replaced(value_weight(before.as_ref()), value_weight(Some(value)));
                Ok(done(command, None))
            }
            Command::ParameterClear {
                vhost,
                component,
                name,
            } => {
                self.permit_deletion(command)?;
                let key = (component.clone(), name.clone());
                let gone = self.vhost_mut(vhost)?.parameters.remove(&key);
                self.note_replaced(value_weight(gone.as_ref()), 0);
                Ok(done(command, None))
            }
            Command::GlobalParameterSet { name, value } => {
                check_length(name)?;
                let before = self.global_parameters.insert(name.clone(), value.clone());
                self.note_replaced(value_weight(before.as_ref()), value_weight(Some(value)));
                Ok(done(command, None))
            }
            Command::GlobalParameterClear { name } => {
                self.permit_deletion(command)?;
                let gone = self.global_parameters.remove(name);
                self.note_replaced(value_weight(gone.as_ref()), 0);
                Ok(done(command, None))
            }
            other => unreachable!("{other:?} is not about parameters"),
        }
    }

    fn put_vhost(&mut self, name: &str, command: &Command) -> Result<Outcome, CatalogueError> {
        let Command::VhostPut {
            description,
            tags,
            default_queue_type,
            protected,
            tracing,
            ..
        } = command
        else {
            unreachable!("{command:?} does not put a virtual host");
        };
        check_length(name)?;
        check_tags(tags.as_deref())?;
        let default = match default_queue_type.as_deref() {
            None => None,
            // What RabbitMQ's exports have where there is none.
            Some("" | "undefined") => Some(None),
            Some(text) => match QueueKind::parse(text) {
                Some(kind) => Some(Some(kind)),
                None => return Err(CatalogueError::QueueType(text.to_owned())),
            },
        };
        let created = !self.vhosts.contains_key(name);
        if created {
            let limit = self.config.vhosts_max;
            if self.vhosts.len() + self.vhosts_elsewhere >= limit && !self.replaying {
                return Err(CatalogueError::VhostLimit {
                    vhost: name.to_owned(),
                    limit,
                });
            }
            self.vhosts.insert(name.to_owned(), Vhost::new(name));
            self.predeclare_exchanges(name)?;
        }
        let vhost = self.vhost_mut(name)?;
        set_if_given(&mut vhost.description, description.as_ref());
        set_if_given(&mut vhost.tags, tags.as_ref());
        set_if_given(&mut vhost.default_queue_type, default.as_ref());
        set_if_given(&mut vhost.protected, protected.as_ref());
        set_if_given(&mut vhost.tracing, tracing.as_ref());
        let name = Arc::clone(&vhost.name);
        let change = if created {
            Change::VhostCreated(name)
        } else {
            Change::VhostChanged(name)
        };
        Ok(Outcome {
            created,
            ..done(command, Some(change))
        })
    }

    fn delete_vhost(&mut self, name: &str, command: &Command) -> Result<Outcome, CatalogueError> {
        let vhost = self.vhost_mut(name)?;
        if vhost.protected && !self.replaying {
            return Err(CatalogueError::ProtectedVhost(name.to_owned()));
        }
        let mut outcome = Outcome::default();
        let Some(vhost) = self.vhosts.remove(name) else {
            return Ok(outcome);
        };
        // Bindings and exchanges go with the virtual host, not one by one. Nothing is freed here,
        // as the catalogue is borrowed.
        outcome.changes.reserve(vhost.queues.len());
        for id in vhost.queues.values() {
            let record = self.forget_queue(*id);
            outcome.changes.extend(record.map(Change::QueueDeleted));
        }
        self.exchange_count -= vhost.exchanges.len();
        self.argument_bytes -= vhost_weight(&vhost);
        let deleted = Change::VhostDeleted(Arc::clone(&vhost.name));
        outcome.changes.push(deleted);
        outcome.taken_out = TakenOut::vhost(vhost);
        for user in self.users.values_mut() {
            user.permissions.remove(name);
            user.topic_permissions.retain(|(of, _), _| of != name);
        }
        // The one command stands for all that went with it.
        outcome.log = vec![command.clone()];
        Ok(outcome)
    }

    /// Whether there is what a command deletes, which refuses to delete nothing.
    fn permit_deletion(&self, command: &Command) -> Result<(), CatalogueError> {
        self.refused_deletion(command).map_or(Ok(()), Err)
    }

    fn policy_changed(
        &mut self,
        vhost: &str,
        before: Option<&Policy>,
        since: Option<&Policy>,
        command: &Command,
    ) -> Result<Outcome, CatalogueError> {
        let weight_of = |policy: Option<&Policy>| policy.map_or(0, |of| weight(&of.definition));
        self.note_replaced(weight_of(before), weight_of(since));
        let mut outcome = done(command, None);
        // Imports set much again as it is.
        if before != since {
            self.refresh_policies(vhost, before, since, &mut outcome)?;
        }
        Ok(outcome)
    }

    pub(crate) fn apply_to_user(&mut self, command: &Command) -> Result<Outcome, CatalogueError> {
        match command {
            Command::UserPut {
                user,
                password,
                tags,
            } => {
                check_length(user)?;
                check_tags(tags.as_deref())?;
                let created = !self.users.contains_key(user);
                let record = self
                    .users
                    .entry(user.clone())
                    .or_insert_with(|| User::new(user));
                set_if_given(&mut record.password, password.as_ref());
                set_if_given(&mut record.tags, tags.as_ref());
                let change = Change::UserChanged(Arc::clone(&record.name));
                Ok(Outcome {
                    created,
                    ..done(command, Some(change))
                })
            }
            Command::UserDelete { user } => match self.users.remove(user) {
                Some(record) => Ok(done(command, Some(Change::UserDeleted(record.name)))),
                None => Err(CatalogueError::NoUser(user.clone())),
            },
            Command::UserLimitSet { user, limit, value } => {
                let record = self.user_mut(user)?;
                set_limit(&mut record.limits, USER_LIMITS, limit, *value)?;
                Ok(user_changed(record, command))
            }
            Command::UserLimitClear { user, limit } => {
                let record = self.user_mut(user)?;
                match clear_limit(&mut record.limits, limit.as_deref()) {
                    true => Ok(user_changed(record, command)),
                    false => Ok(unchanged()),
                }
            }
            other => unreachable!("{other:?} is not about users"),
        }
    }

    pub(crate) fn apply_to_permissions(
        &mut self,
        command: &Command,
    ) -> Result<Outcome, CatalogueError> {
        match command {
            Command::PermissionSet {
                vhost,
                user,
                configure,
                write,
                read,
            } => {
                self.vhost_mut(vhost)?;
                let permission = Arc::new(Permission::new(configure, write, read)?);
                let record = self.user_mut(user)?;
                record.permissions.insert(vhost.clone(), permission);
                Ok(user_changed(record, command))
            }
            Command::PermissionClear { vhost, user } => {
                self.vhost_mut(vhost)?;
                let record = self.user_mut(user)?;
                match record.permissions.remove(vhost) {
                    Some(_) => Ok(user_changed(record, command)),
                    None => Ok(unchanged()),
                }
            }
            Command::TopicPermissionSet {
                vhost,
                user,
                exchange,
                write,
                read,
            } => {
                self.vhost_mut(vhost)?;
                let permission = TopicPermission::new(write, read)?;
                let record = self.user_mut(user)?;
                record
                    .topic_permissions
                    .insert((vhost.clone(), exchange.clone()), permission);
                Ok(user_changed(record, command))
            }
            Command::TopicPermissionClear {
                vhost,
                user,
                exchange,
            } => {
                self.vhost_mut(vhost)?;
                let record = self.user_mut(user)?;
                let goes = |of: &str, name: &str| {
                    of == vhost && exchange.as_ref().is_none_or(|exchange| exchange == name)
                };
                let permissions = &mut record.topic_permissions;
                let before = permissions.len();
                permissions.retain(|(of, name), _| !goes(of, name));
                match permissions.len() < before {
                    true => Ok(user_changed(record, command)),
                    false => Ok(unchanged()),
                }
            }
            other => unreachable!("{other:?} is not about permissions"),
        }
    }

    fn user_mut(&mut self, name: &str) -> Result<&mut User, CatalogueError> {
        self.users
            .get_mut(name)
            .ok_or_else(|| CatalogueError::NoUser(name.to_owned()))
    }
}

fn user_changed(user: &User, command: &Command) -> Outcome {
    done(command, Some(Change::UserChanged(Arc::clone(&user.name))))
}

fn policies(vhost: &mut Vhost, operator: bool) -> &mut BTreeMap<String, Policy> {
    if operator {
        &mut vhost.operator_policies
    } else {
        &mut vhost.policies
    }
}

fn set_if_given<T: Clone>(field: &mut T, given: Option<&T>) {
    if let Some(value) = given {
        field.clone_from(value);
    }
}

fn check_tags(tags: Option<&[String]>) -> Result<(), CatalogueError> {
    let tags = tags.unwrap_or_default();
    if tags.len() > USER_TAGS_MAX {
        return Err(CatalogueError::TooManyTags(tags.len()));
    }
    tags.iter().try_for_each(|tag| check_length(tag))
}

fn set_limit(
    limits: &mut BTreeMap<String, i64>,
    known: &[&str],
    limit: &str,
    value: i64,
) -> Result<(), CatalogueError> {
    if !known.contains(&limit) {
        return Err(CatalogueError::UnknownLimit(limit.to_owned()));
    }
    limits.insert(limit.to_owned(), value);
    Ok(())
}

/// Takes a limit away, or all of them; whether there was any.
fn clear_limit(limits: &mut BTreeMap<String, i64>, limit: Option<&str>) -> bool {
    match limit {
        Some(limit) => limits.remove(limit).is_some(),
        None => !std::mem::take(limits).is_empty(),
    }
}
