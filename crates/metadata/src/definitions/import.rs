//! From definitions to the commands that make them.

use super::{
    BindingDefinition, Definitions, ExchangeDefinition, ParameterDefinition, PermissionDefinition,
    PolicyDefinition, QueueDefinition, TopicPermissionDefinition, UserDefinition, VhostDefinition,
};
use crate::accounts::{LIMITS_COMPONENT, refuse_component};
use crate::catalogue::Catalogue;
use crate::command::{Command, Endpoint};
use crate::error::CatalogueError;
use crate::kinds::SOURCE;
use crate::table::Json;
use leveret_auth::password::SALT_BYTES_GIVEN;
use leveret_auth::{HashingAlgorithm, PasswordHash};
use leveret_types::QueueKind;
use leveret_types::limits::IMPORT_UNSUPPORTED_NAMED_MAX;
use leveret_types::{FieldTable, FieldValue};
use std::collections::{BTreeMap, BTreeSet};

impl Definitions {
    /// The commands that import these definitions into `catalogue`, each of which it will accept in
    /// this order. Queues, exchanges and bindings that exist are left as they are, all else is
    /// replaced.
    ///
    /// `vhost` is where items go that name none: an import into one virtual host. `salt` gives
    /// unguessable bytes for passwords in clear text; `shards` is how many shards queues are spread
    /// over. Who holds a lock meanwhile that others wait for should use [`Self::trial`] instead.
    ///
    /// # Errors
    /// The items that are not right, by name: the first of them, and how many more there are.
    /// Nothing has changed then.
    pub fn to_commands(
        &self,
        catalogue: &Catalogue,
        vhost: Option<&str>,
        shards: u16,
        salt: &mut dyn FnMut() -> [u8; SALT_BYTES_GIVEN],
    ) -> Result<Vec<Command>, CatalogueError> {
        let mut trial = self.trial(catalogue, vhost);
        while trial.look(catalogue)? {}
        trial.commands(shards, salt)
    }

    /// The commands, each of which `trial` has accepted: it has what they need of the catalogue,
    /// which will accept what it does.
    pub(super) fn tried_in(
        &self,
        trial: Catalogue,
        vhost: Option<&str>,
        shards: u16,
        salt: &mut dyn FnMut() -> [u8; SALT_BYTES_GIVEN],
    ) -> Result<Vec<Command>, CatalogueError> {
        let mut import = Import {
            trial,
            vhost,
            commands: Vec::new(),
            faults: Faults::default(),
            refused: BTreeSet::new(),
            has_homeless: false,
        };
        // Into one virtual host goes what can be in one: who has rights elsewhere gets none here.
        if vhost.is_none() {
            self.import_accounts(&mut import, salt);
        }
        // Limits hold for what comes after an import: an export may have more than they allow.
        let (limits, others): (Vec<_>, Vec<_>) = self
            .parameters
            .iter()
            .partition(|parameter| parameter.component == LIMITS_COMPONENT);
        for parameter in others {
            import.item(&parameter.vhost, &[], |import| import.parameter(parameter));
        }
        for policy in &self.policies {
            import.item(&policy.vhost, &[], |import| import.policy(policy));
        }
        self.import_topology(&mut import, shards);
        for limit in limits {
            import.item(&limit.vhost, &[], |import| import.parameter(limit));
        }
        import.faults.into_result()?;
        Ok(import.commands)
    }

    fn import_accounts(
        &self,
        import: &mut Import<'_>,
        salt: &mut dyn FnMut() -> [u8; SALT_BYTES_GIVEN],
    ) {
        for parameter in &self.global_parameters {
            let result = import.add(
                format!("global parameter '{}'", parameter.name),
                Command::GlobalParameterSet {
                    name: parameter.name.clone(),
                    value: parameter.value.0.clone(),
                },
            );
            import.keep(None, result);
        }
        for vhost in &self.vhosts {
            let result = import.vhost(vhost);
            import.keep(Some((Refused::Vhost, "", &vhost.name)), result);
        }
        for user in &self.users {
            let hashing = import.trial.config().hashing;
            let result = import.user(user, password_of(user, hashing, salt));
            import.keep(Some((Refused::User, "", &user.name)), result);
        }
        for permission in &self.permissions {
            let user = [(Refused::User, &*permission.user)];
            import.item(&permission.vhost, &user, |import| {
                import.permission(permission)
            });
        }
        for permission in &self.topic_permissions {
            let user = [(Refused::User, &*permission.user)];
            import.item(&permission.vhost, &user, |import| {
                import.topic_permission(permission)
            });
        }
    }

    fn import_topology(&self, import: &mut Import<'_>, shards: u16) {
        for exchange in &self.exchanges {
            let what = (Refused::Exchange, &*exchange.name);
            import.declared(&exchange.vhost, what, &[], |import| {
                import.exchange(exchange)
            });
        }
        // A view needs its stream.
        let is_view = |queue: &&QueueDefinition| names_source(queue).is_some();
        let (views, others): (Vec<_>, Vec<_>) = self.queues.iter().partition(is_view);
        for queue in others.into_iter().chain(views) {
            let what = (Refused::Queue, &*queue.name);
            let source = names_source(queue).map(|source| (Refused::Queue, source));
            import.declared(&queue.vhost, what, source.as_slice(), |import| {
                import.queue(queue, shards)
            });
        }
        for binding in &self.bindings {
            let to = match binding.destination_type.as_str() {
                "exchange" => Refused::Exchange,
                _ => Refused::Queue,
            };
            let ends = [
                (Refused::Exchange, &*binding.source),
                (to, &*binding.destination),
            ];
            import.item(&binding.vhost, &ends, |import| import.binding(binding));
        }
    }
}

/// The stream that a queue is to be a view of.
pub(super) fn names_source(queue: &QueueDefinition) -> Option<&str> {
    let source = queue.arguments.as_table()?.get(SOURCE)?;
    source.as_text()
}

/// The hash that an imported user gets: none that a password fits where neither is given.
fn password_of(
    user: &UserDefinition,
    hashing: HashingAlgorithm,
    salt: &mut dyn FnMut() -> [u8; SALT_BYTES_GIVEN],
) -> Result<Option<PasswordHash>, CatalogueError> {
    if let Some(text) = &user.password_hash {
        let algorithm = match user.hashing_algorithm.as_deref() {
            // Files that people wrote, and those of old versions, name none.
            None => HashingAlgorithm::of_hash(text),
            Some(name) => HashingAlgorithm::parse(name).ok_or_else(|| {
                CatalogueError::Definitions(format!("unknown hashing algorithm '{name}'"))
            })?,
        };
        return Ok(Some(PasswordHash::parse(algorithm, text)?));
    }
    match &user.password {
        Some(password) => Ok(Some(PasswordHash::new(
            hashing,
            password.as_bytes(),
            &salt(),
        )?)),
        None => Ok(Some(PasswordHash::none())),
    }
}

/// What names begin with that only the broker gives. A file has them where a client has let the
/// broker name a queue that lasts, or of a plugin; they are passed over, as RabbitMQ does, unless
/// they are here: see [`Definitions::passed_over`].
const RESERVED: &str = "amq.";

pub(super) fn is_brokers(name: &str) -> bool {
    name.is_empty() || name.starts_with(RESERVED)
}

/// What is wrong in definitions: the first of it, and how much there is.
#[derive(Default)]
struct Faults {
    first: Vec<CatalogueError>,
    count: usize,
    /// Whether something else than a missing object is among them.
    has_other: bool,
}

impl Faults {
    fn add(&mut self, error: CatalogueError) {
        self.count += 1;
        self.has_other |= !error.is_not_found();
        if self.first.len() < IMPORT_UNSUPPORTED_NAMED_MAX {
            self.first.push(error);
        }
    }

    /// One fault as it is, several as a list.
    fn into_result(mut self) -> Result<(), CatalogueError> {
        match self.first.len() {
            0 => return Ok(()),
            1 => return Err(self.first.remove(0)),
            _ => {}
        }
        let lines = self.first.iter().map(|error| {
            let line = error.to_string();
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        });
        let mut lines: Vec<String> = lines.collect();
        if self.count > lines.len() {
            lines.push(format!("and {} more", self.count - lines.len()));
        }
        Err(CatalogueError::Faults {
            count: self.count,
            lines: lines.join("\n"),
            is_not_found: !self.has_other,
        })
    }
}

/// Kinds of objects that others in the same file need.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Refused {
    Vhost,
    User,
    Exchange,
    Queue,
}

/// An import under way.
struct Import<'a> {
    trial: Catalogue,
    vhost: Option<&'a str>,
    commands: Vec<Command>,
    faults: Faults,
    /// Objects that were refused, by kind, virtual host and name: what needs one of them is not
    /// refused beside it for that reason.
    refused: BTreeSet<(Refused, String, String)>,
    /// Whether an item names no virtual host and none is imported into: one fault for all of them.
    has_homeless: bool,
}

impl Import<'_> {
    fn add(&mut self, item: String, command: Command) -> Result<(), CatalogueError> {
        match self.trial.apply(&command) {
            Ok(_) => {
                self.commands.push(command);
                Ok(())
            }
            Err(error) => Err(CatalogueError::Definition {
                item,
                error: Box::new(error),
            }),
        }
    }

    /// Keeps a fault, and the object that has it if others may need that.
    fn keep(&mut self, object: Option<(Refused, &str, &str)>, result: Result<(), CatalogueError>) {
        if let Err(error) = result {
            self.faults.add(error);
            if let Some((kind, vhost, name)) = object {
                self.refused
                    .insert((kind, vhost.to_owned(), name.to_owned()));
            }
        }
    }

    /// Whether an object was refused that something in a virtual host needs.
    fn lacks(&self, vhost: &str, needs: &[(Refused, &str)]) -> bool {
        let is_refused = |kind, vhost: &str, name: &str| {
            let key = (kind, vhost.to_owned(), name.to_owned());
            self.refused.contains(&key)
        };
        if self.refused.is_empty() {
            return false;
        }
        is_refused(Refused::Vhost, "", vhost)
            || needs.iter().any(|(kind, name)| match kind {
                Refused::User | Refused::Vhost => is_refused(*kind, "", name),
                Refused::Exchange | Refused::Queue => is_refused(*kind, vhost, name),
            })
    }

    /// Whether an item is in a virtual host. The first one that is in none is a fault.
    fn has_home(&mut self, vhost: &str) -> bool {
        if vhost.is_empty() && !std::mem::replace(&mut self.has_homeless, true) {
            let text = "items name no virtual host: import them into one";
            self.faults
                .add(CatalogueError::Definitions(text.to_owned()));
        }
        !vhost.is_empty()
    }

    /// Imports an item that needs others, unless one of them was refused.
    fn item(
        &mut self,
        vhost: &str,
        needs: &[(Refused, &str)],
        import: impl FnOnce(&mut Self) -> Result<(), CatalogueError>,
    ) {
        let vhost = self.vhost.unwrap_or(vhost);
        if self.has_home(vhost) && !self.lacks(vhost, needs) {
            let result = import(self);
            self.keep(None, result);
        }
    }

    /// The same of an object that others may need.
    fn declared(
        &mut self,
        vhost: &str,
        (kind, name): (Refused, &str),
        needs: &[(Refused, &str)],
        import: impl FnOnce(&mut Self) -> Result<(), CatalogueError>,
    ) {
        let vhost = self.vhost.unwrap_or(vhost);
        if self.has_home(vhost) && !self.lacks(vhost, needs) {
            let result = import(self);
            self.keep(Some((kind, vhost, name)), result);
        }
    }

    fn permission(&mut self, permission: &PermissionDefinition) -> Result<(), CatalogueError> {
        let vhost = self.vhost_of(&permission.vhost);
        self.add(
            format!(
                "permission of user '{}' in vhost '{vhost}'",
                permission.user
            ),
            Command::PermissionSet {
                vhost,
                user: permission.user.clone(),
                configure: permission.configure.clone(),
                write: permission.write.clone(),
                read: permission.read.clone(),
            },
        )
    }

    fn topic_permission(
        &mut self,
        permission: &TopicPermissionDefinition,
    ) -> Result<(), CatalogueError> {
        let vhost = self.vhost_of(&permission.vhost);
        self.add(
            format!(
                "topic permission of user '{}' in vhost '{vhost}'",
                permission.user
            ),
            Command::TopicPermissionSet {
                vhost,
                user: permission.user.clone(),
                exchange: permission.exchange.clone(),
                write: permission.write.clone(),
                read: permission.read.clone(),
            },
        )
    }

    /// The virtual host of an item: the one that is imported into, else its own.
    fn vhost_of(&self, named: &str) -> String {
        self.vhost.unwrap_or(named).to_owned()
    }

    fn vhost(&mut self, vhost: &VhostDefinition) -> Result<(), CatalogueError> {
        let metadata = &vhost.metadata;
        let tags = if vhost.tags.0.is_empty() {
            &metadata.tags
        } else {
            &vhost.tags
        };
        let default = vhost
            .default_queue_type
            .as_ref()
            .or(metadata.default_queue_type.as_ref());
        self.add(
            format!("vhost '{}'", vhost.name),
            Command::VhostPut {
                vhost: vhost.name.clone(),
                description: vhost
                    .description
                    .clone()
                    .or_else(|| metadata.description.clone()),
                tags: Some(tags.0.clone()),
                default_queue_type: default.cloned(),
                protected: vhost.protected_from_deletion,
                tracing: vhost.tracing,
            },
        )
    }

    fn user(
        &mut self,
        user: &UserDefinition,
        password: Result<Option<PasswordHash>, CatalogueError>,
    ) -> Result<(), CatalogueError> {
        let item = format!("user '{}'", user.name);
        let password = password.map_err(|error| CatalogueError::Definition {
            item: item.clone(),
            error: Box::new(error),
        })?;
        self.add(
            item.clone(),
            Command::UserPut {
                user: user.name.clone(),
                password,
                tags: Some(user.tags.0.clone()),
            },
        )?;
        for (limit, value) in integers(&item, &user.limits)? {
            self.add(
                item.clone(),
                Command::UserLimitSet {
                    user: user.name.clone(),
                    limit,
                    value,
                },
            )?;
        }
        Ok(())
    }

    fn parameter(&mut self, parameter: &ParameterDefinition) -> Result<(), CatalogueError> {
        let vhost = self.vhost_of(&parameter.vhost);
        let item = format!("parameter '{}' of {}", parameter.name, parameter.component);
        match parameter.component.as_str() {
            LIMITS_COMPONENT => {
                for (limit, value) in integers(&item, &parameter.value)? {
                    let vhost = vhost.clone();
                    self.add(
                        item.clone(),
                        Command::VhostLimitSet {
                            vhost,
                            limit,
                            value,
                        },
                    )?;
                }
                Ok(())
            }
            "operator_policy" | "policy" => {
                let operator = parameter.component == "operator_policy";
                let empty = FieldTable::new();
                let value = parameter.value.as_table().unwrap_or(&empty);
                let text = |key: &str| value.get(key).and_then(FieldValue::as_text);
                let definition = match value.get("definition") {
                    Some(FieldValue::Table(definition)) => definition.clone(),
                    _ => FieldTable::new(),
                };
                self.add(
                    item,
                    Command::PolicySet {
                        vhost,
                        name: parameter.name.clone(),
                        operator,
                        pattern: text("pattern").unwrap_or_default().to_owned(),
                        apply_to: text("apply-to").unwrap_or("all").to_owned(),
                        priority: value
                            .get("priority")
                            .and_then(FieldValue::as_integer)
                            .unwrap_or(0),
                        definition,
                    },
                )
            }
            component => Err(CatalogueError::Definition {
                item,
                error: Box::new(refuse_component(component)),
            }),
        }
    }

    fn policy(&mut self, policy: &PolicyDefinition) -> Result<(), CatalogueError> {
        let vhost = self.vhost_of(&policy.vhost);
        let item = format!("policy '{}' in vhost '{vhost}'", policy.name);
        self.add(
            item,
            Command::PolicySet {
                vhost,
                name: policy.name.clone(),
                operator: false,
                pattern: policy.pattern.clone(),
                apply_to: policy.apply_to.clone(),
                priority: policy.priority,
                definition: policy.definition.as_table().cloned().unwrap_or_default(),
            },
        )
    }

    fn exchange(&mut self, exchange: &ExchangeDefinition) -> Result<(), CatalogueError> {
        let vhost = self.vhost_of(&exchange.vhost);
        let record = self.trial.vhost(&vhost);
        if is_brokers(&exchange.name)
            || record.is_some_and(|v| v.exchange(&exchange.name).is_some())
        {
            return Ok(());
        }
        let item = format!("exchange '{}' in vhost '{vhost}'", exchange.name);
        self.add(
            item,
            Command::ExchangeDeclare {
                vhost,
                name: exchange.name.clone(),
                kind: exchange.kind.clone(),
                durable: exchange.durable,
                auto_delete: exchange.auto_delete,
                internal: exchange.internal,
                arguments: exchange.arguments.as_table().cloned().unwrap_or_default(),
            },
        )
    }

    /// Whether a binding is of an exchange or queue whose name the broker gave and that is not
    /// here.
    fn names_what_is_left_out(&self, vhost: &str, source: &str, destination: &Endpoint) -> bool {
        let has_exchange = |name: &str| {
            let record = self.trial.vhost(vhost);
            record.is_none_or(|record| record.exchange(name).is_some())
        };
        let is_missing = match destination {
            Endpoint::Exchange(name) => is_brokers(name) && !has_exchange(name),
            Endpoint::Queue(name) => {
                is_brokers(name) && self.trial.queue_by_name(vhost, name).is_none()
            }
        };
        is_missing || is_brokers(source) && !has_exchange(source)
    }

    fn queue(&mut self, queue: &QueueDefinition, shards: u16) -> Result<(), CatalogueError> {
        let vhost = self.vhost_of(&queue.vhost);
        let is_here = self.trial.queue_by_name(&vhost, &queue.name).is_some();
        if is_here || queue.name.starts_with(RESERVED) {
            return Ok(());
        }
        let item = format!("queue '{}' in vhost '{vhost}'", queue.name);
        let mut arguments = queue.arguments.as_table().cloned().unwrap_or_default();
        // The type beside the arguments keeps a queue what it was, whatever the default is here.
        let default = self
            .trial
            .default_queue_kind(&vhost)
            .unwrap_or(QueueKind::Classic);
        if let Some(kind) = queue.kind.as_deref().filter(|kind| *kind != default.name())
            && arguments.get("x-queue-type").is_none()
        {
            arguments.set("x-queue-type", FieldValue::text(kind));
        }
        if queue.name.is_empty() {
            let error = Box::new(CatalogueError::NameLength(0));
            return Err(CatalogueError::Definition { item, error });
        }
        self.add(
            item,
            Command::QueueDeclare {
                vhost,
                name: queue.name.clone(),
                durable: queue.durable,
                exclusive: None,
                auto_delete: queue.auto_delete,
                arguments,
                random: [0; 16],
                shards,
                id: None,
            },
        )
    }

    fn binding(&mut self, binding: &BindingDefinition) -> Result<(), CatalogueError> {
        let vhost = self.vhost_of(&binding.vhost);
        if binding.source.is_empty() {
            // Older exports name the default exchange's bindings, which every queue has anyway.
            return Ok(());
        }
        let item = format!(
            "binding from '{}' to {} '{}' in vhost '{vhost}'",
            binding.source, binding.destination_type, binding.destination
        );
        let destination = match binding.destination_type.as_str() {
            "exchange" => Endpoint::Exchange(binding.destination.clone()),
            "queue" => Endpoint::Queue(binding.destination.clone()),
            _ => {
                let error = CatalogueError::Definitions(
                    "the destination's type is neither queue nor exchange".to_owned(),
                );
                let error = Box::new(error);
                return Err(CatalogueError::Definition { item, error });
            }
        };
        if self.names_what_is_left_out(&vhost, &binding.source, &destination) {
            return Ok(());
        }
        self.add(
            item,
            Command::Bind {
                vhost,
                source: binding.source.clone(),
                destination,
                routing_key: binding.routing_key.clone().into_bytes(),
                arguments: binding.arguments.as_table().cloned().unwrap_or_default(),
            },
        )
    }
}

/// The entries of an object of integers.
fn integers(item: &str, value: &Json) -> Result<BTreeMap<String, i64>, CatalogueError> {
    let invalid =
        || CatalogueError::Definitions(format!("{item}: limits must be an object of integers"));
    match &value.0 {
        FieldValue::Table(table) => table
            .iter()
            .map(|(name, value)| Ok((name.to_owned(), value.as_integer().ok_or_else(invalid)?)))
            .collect(),
        // RabbitMQ writes an empty proplist as an empty list.
        FieldValue::Array(items) if items.is_empty() => Ok(BTreeMap::new()),
        _ => Err(invalid()),
    }
}
