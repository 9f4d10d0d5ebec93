//! Commands about exchanges, queues and bindings.

use crate::arguments::{self, QueueKind, RELAXED_ARGUMENTS};
use crate::catalogue::{Catalogue, Change, Outcome, reached};
use crate::command::{Command, Endpoint};
use crate::error::CatalogueError;
use crate::policy;
use crate::record::{ExchangeRecord, QueueRecord, Traffic, Vhost, resource};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use leveret_routing::{BindError, Kind, Unbound};
use leveret_types::limits::SHORT_STRING_BYTES_MAX;
use leveret_types::{ConnectionId, FieldTable, FieldValue, NodeId, QueueId};
use std::borrow::Cow;
use std::sync::Arc;

/// Marks the ids of queues that do not survive a restart: they are counted apart, because their
/// declarations are not in the log and replaying it must give the same ids to the others. A log's
/// id is a queue's id times 256, so the highest byte stays free.
const TRANSIENT_ID: u64 = 1 << 54;
/// Bits of a queue's id that are its shard.
const SHARD_BITS: u32 = 8;

/// The name that a queue declared without one gets from these unguessable bytes: `amq.gen-` and 22
/// characters.
#[must_use]
pub fn generated_name(random: [u8; 16]) -> String {
    format!("amq.gen-{}", URL_SAFE_NO_PAD.encode(random))
}

/// A name as the broker takes it: without carriage returns and line feeds.
#[must_use]
pub fn strip_cr_lf(name: &str) -> Cow<'_, str> {
    if name.contains(['\r', '\n']) {
        Cow::Owned(name.replace(['\r', '\n'], ""))
    } else {
        Cow::Borrowed(name)
    }
}

/// The fields of a queue's declaration.
struct QueueWanted<'a> {
    vhost: &'a str,
    name: &'a str,
    durable: bool,
    exclusive: Option<ConnectionId>,
    auto_delete: bool,
    arguments: &'a FieldTable,
    random: &'a [u8; 16],
    shards: u16,
    id: Option<u64>,
}

/// The fields of an exchange's declaration.
struct ExchangeWanted<'a> {
    vhost: &'a str,
    name: &'a str,
    kind: &'a str,
    durable: bool,
    auto_delete: bool,
    internal: bool,
    arguments: &'a FieldTable,
}

/// The fields of a binding.
struct BindingWanted<'a> {
    vhost: &'a str,
    source: &'a str,
    destination: &'a Endpoint,
    routing_key: &'a [u8],
    arguments: &'a FieldTable,
}

impl Catalogue {
    pub(crate) fn apply_to_topology(
        &mut self,
        command: &Command,
    ) -> Result<Outcome, CatalogueError> {
        match command {
            Command::ExchangeDeclare {
                vhost,
                name,
                kind,
                durable,
                auto_delete,
                internal,
                arguments,
            } => {
                let (durable, auto_delete, internal) = (*durable, *auto_delete, *internal);
                let wanted = ExchangeWanted {
                    vhost,
                    name: &strip_cr_lf(name),
                    kind,
                    durable,
                    auto_delete,
                    internal,
                    arguments,
                };
                self.declare_exchange(&wanted)
            }
            Command::ExchangeDelete {
                vhost,
                name,
                if_unused,
            } => self.delete_exchange(vhost, &strip_cr_lf(name), *if_unused),
            Command::QueueDeclare {
                vhost,
                name,
                durable,
                exclusive,
                auto_delete,
                arguments,
                random,
                shards,
                id,
            } => self.declare_queue(&QueueWanted {
                vhost,
                name: &strip_cr_lf(name),
                durable: *durable,
                exclusive: exclusive.map(ConnectionId),
                auto_delete: *auto_delete,
                arguments,
                random,
                shards: *shards,
                id: *id,
            }),
            Command::QueueDelete {
                vhost,
                name,
                connection,
                id,
            } => self.delete_queue(
                vhost,
                &strip_cr_lf(name),
                connection.map(ConnectionId),
                id.map(QueueId),
            ),
            other => unreachable!("{other:?} is not about exchanges or queues"),
        }
    }

    pub(crate) fn apply_to_bindings(
        &mut self,
        command: &Command,
    ) -> Result<Outcome, CatalogueError> {
        let (Command::Bind {
            vhost,
            source,
            destination,
            routing_key,
            arguments,
        }
        | Command::Unbind {
            vhost,
            source,
            destination,
            routing_key,
            arguments,
        }) = command
        else {
            unreachable!("{command:?} is not about bindings");
        };
        let wanted = BindingWanted {
            vhost,
            source: &strip_cr_lf(source),
            destination: &stripped(destination),
            routing_key,
            arguments,
        };
        match command {
            Command::Bind { .. } => self.bind(&wanted),
            _ => self.unbind(&wanted),
        }
    }

    pub(crate) fn vhost_mut(&mut self, name: &str) -> Result<&mut Vhost, CatalogueError> {
        self.vhosts
            .get_mut(name)
            .ok_or_else(|| CatalogueError::NoVhost(name.to_owned()))
    }

    fn vhost_or_error(&self, name: &str) -> Result<&Vhost, CatalogueError> {
        self.vhost(name)
            .ok_or_else(|| CatalogueError::NoVhost(name.to_owned()))
    }

    // --- exchanges -----------------------------------------------------------------------------

    fn declare_exchange(&mut self, wanted: &ExchangeWanted<'_>) -> Result<Outcome, CatalogueError> {
        let kind = Kind::parse(wanted.kind, wanted.arguments)?;
        if wanted.name.is_empty() {
            return Err(CatalogueError::DefaultExchange);
        }
        let resource = resource("exchange", wanted.name, wanted.vhost);
        if let Some(current) = self.vhost_or_error(wanted.vhost)?.exchange(wanted.name) {
            check_exchange_equivalence(&resource, current, wanted)?;
            return Ok(Outcome::default());
        }
        check_name("exchange", wanted.name)?;
        check_alternate_type(&resource, wanted.arguments)?;
        let limit = self.config.exchanges_max;
        if self.exchange_count >= limit && !self.replaying {
            return Err(CatalogueError::ExchangeLimit { resource, limit });
        }
        self.insert_exchange(wanted, kind)
    }

    /// Creates the exchanges that every virtual host has.
    pub(crate) fn predeclare_exchanges(&mut self, vhost: &str) -> Result<(), CatalogueError> {
        let predeclared = [
            ("amq.direct", "direct", false),
            ("amq.fanout", "fanout", false),
            ("amq.topic", "topic", false),
            ("amq.headers", "headers", false),
            ("amq.match", "headers", false),
            ("amq.rabbitmq.trace", "topic", true),
        ];
        for (name, kind, internal) in predeclared {
            let arguments = &FieldTable::new();
            let wanted = ExchangeWanted {
                vhost,
                name,
                kind,
                durable: true,
                auto_delete: false,
                internal,
                arguments,
            };
            self.insert_exchange(&wanted, Kind::parse(kind, arguments)?)?;
        }
        Ok(())
    }

    fn insert_exchange(
        &mut self,
        wanted: &ExchangeWanted<'_>,
        kind: Kind,
    ) -> Result<Outcome, CatalogueError> {
        let vhost = self.vhost_mut(wanted.vhost)?;
        let (policy, definition) = vhost.exchange_policy(wanted.name);
        let name: Arc<str> = wanted.name.into();
        let record = ExchangeRecord {
            name: Arc::clone(&name),
            kind: wanted.kind.into(),
            durable: wanted.durable,
            auto_delete: wanted.auto_delete,
            internal: wanted.internal,
            arguments: wanted.arguments.clone(),
            policy,
            traffic: Traffic::default(),
        };
        let alternate = alternate(&record.arguments, &definition);
        let added = vhost.router.add_exchange(
            &name,
            kind,
            wanted.internal,
            wanted.auto_delete,
            alternate.as_deref(),
        );
        assert!(
            added,
            "exchange {name:?} is in the router but not in the catalogue"
        );
        vhost.exchanges.insert(Arc::clone(&name), record);
        let change = Change::ExchangeCreated {
            vhost: Arc::clone(&vhost.name),
            exchange: name,
        };
        self.exchange_count += 1;
        let log = if wanted.durable {
            vec![exchange_command(wanted)]
        } else {
            Vec::new()
        };
        Ok(Outcome {
            created: true,
            changes: vec![change],
            log,
            ..Outcome::default()
        })
    }

    fn delete_exchange(
        &mut self,
        vhost: &str,
        name: &str,
        if_unused: bool,
    ) -> Result<Outcome, CatalogueError> {
        if name.is_empty() {
            return Err(CatalogueError::DefaultExchange);
        }
        let resource = resource("exchange", name, vhost);
        if name.starts_with("amq.") {
            return Err(CatalogueError::SystemExchange { resource });
        }
        let Some(exchange) = self.vhost_or_error(vhost)?.router.exchange(name) else {
            return Ok(Outcome::default());
        };
        if if_unused && exchange.outgoing > 0 {
            return Err(CatalogueError::InUse { resource });
        }
        let mut outcome = Outcome::default();
        self.remove_exchange(vhost, name, &mut outcome)?;
        Ok(outcome)
    }

    /// Takes an exchange out, and those that go because of it.
    fn remove_exchange(
        &mut self,
        vhost: &str,
        name: &str,
        outcome: &mut Outcome,
    ) -> Result<(), CatalogueError> {
        let mut pending: Vec<Arc<str>> = vec![name.into()];
        while let Some(name) = pending.pop() {
            let record = self.vhost_mut(vhost)?;
            let Some(exchange) = record.exchanges.remove(&name) else {
                continue;
            };
            let unbound = record.router.remove_exchange(&name).unwrap_or_default();
            outcome.changes.push(Change::ExchangeDeleted {
                vhost: Arc::clone(&record.name),
                exchange: name,
            });
            if exchange.durable {
                outcome.log.push(Command::ExchangeDelete {
                    vhost: vhost.to_owned(),
                    name: exchange.name.to_string(),
                    if_unused: false,
                });
            }
            self.exchange_count -= 1;
            if !self.replaying {
                pending.extend(unbound.idle_exchanges);
            }
        }
        Ok(())
    }

    /// Deletes the auto-delete exchanges that have lost their last binding.
    pub(crate) fn remove_idle(
        &mut self,
        vhost: &str,
        unbound: Unbound,
        outcome: &mut Outcome,
    ) -> Result<(), CatalogueError> {
        if self.replaying {
            return Ok(());
        }
        unbound
            .idle_exchanges
            .iter()
            .try_for_each(|name| self.remove_exchange(vhost, name, outcome))
    }

    // --- queues --------------------------------------------------------------------------------

    fn declare_queue(&mut self, wanted: &QueueWanted<'_>) -> Result<Outcome, CatalogueError> {
        let vhost = self.vhost_or_error(wanted.vhost)?;
        let generated = wanted.name.is_empty();
        let name = match generated {
            true => generated_name(*wanted.random),
            false => wanted.name.to_owned(),
        };
        let resource = resource("queue", &name, wanted.vhost);
        if let Some(current) = vhost.queue_id(&name).and_then(|id| self.queue(id)) {
            self.check_queue_equivalence(&resource, current, wanted)?;
            return Ok(Outcome {
                queue: Some(current.id),
                ..Outcome::default()
            });
        }
        let arguments = self.with_default_type(wanted);
        let kind = arguments::kind_of(&resource, &arguments)?;
        if generated && kind != QueueKind::Classic {
            return Err(CatalogueError::ServerNamed {
                queue_type: kind.module_name(),
            });
        }
        if !generated && !self.replaying {
            check_name("queue", &name)?;
        }
        arguments::validate(&resource, kind, &arguments)?;
        check_quorum_properties(&resource, kind, wanted)?;
        if !self.replaying {
            self.check_queue_limits(vhost, &name)?;
        }
        self.insert_queue(wanted, &name, kind, arguments)
    }

    /// The arguments of a new queue: where they do not name a type, and the queue may be of the
    /// default type, that is put in.
    fn with_default_type<'a>(&self, wanted: &QueueWanted<'a>) -> Cow<'a, FieldTable> {
        let default = self.default_queue_kind(wanted.vhost);
        let fits = wanted.durable
            && wanted.exclusive.is_none()
            && !wanted.auto_delete
            && !wanted.name.is_empty();
        match default {
            Some(kind)
                if fits && !self.replaying && wanted.arguments.get("x-queue-type").is_none() =>
            {
                let mut arguments = wanted.arguments.clone();
                arguments.set("x-queue-type", FieldValue::text(kind.name()));
                Cow::Owned(arguments)
            }
            _ => Cow::Borrowed(wanted.arguments),
        }
    }

    fn check_queue_limits(&self, vhost: &Vhost, name: &str) -> Result<(), CatalogueError> {
        let queue = name.to_owned();
        if let Some(limit) = vhost
            .limit("max-queues")
            .filter(|limit| reached(*limit, vhost.queues.len()))
        {
            return Err(CatalogueError::QueueLimitOfVhost {
                queue,
                vhost: vhost.name.to_string(),
                limit,
            });
        }
        let limit = self.config.queues_max;
        if self.queues.len() >= limit {
            return Err(CatalogueError::QueueLimit { queue, limit });
        }
        Ok(())
    }

    fn check_queue_equivalence(
        &self,
        resource: &str,
        current: &QueueRecord,
        wanted: &QueueWanted<'_>,
    ) -> Result<(), CatalogueError> {
        let received_type = wanted
            .arguments
            .get("x-queue-type")
            .and_then(FieldValue::as_text);
        let relaxed = self.config.relaxed_redeclaration
            && current.kind == QueueKind::Quorum
            && received_type == Some("classic");
        if relaxed {
            return RELAXED_ARGUMENTS.iter().try_for_each(|name| {
                arguments::check_argument(resource, name, &current.arguments, wanted.arguments)
            });
        }
        if current.exclusive != wanted.exclusive {
            return Err(CatalogueError::Locked {
                resource: resource.to_owned(),
            });
        }
        let property = |name: &str, current: bool, received: bool| {
            arguments::check_property(resource, name, &current.to_string(), &received.to_string())
        };
        property("durable", current.durable, wanted.durable)?;
        property("auto_delete", current.auto_delete, wanted.auto_delete)?;
        // A declaration that leaves the type to the default is content with what the default was
        // when the queue was created.
        let default = self.default_queue_kind(&current.vhost);
        let ignore_type = received_type.is_none()
            && (current.kind == QueueKind::Classic || default == Some(current.kind));
        arguments::check_equivalence(
            resource,
            current.kind,
            &current.arguments,
            wanted.arguments,
            ignore_type,
        )
    }

    fn insert_queue(
        &mut self,
        wanted: &QueueWanted<'_>,
        name: &str,
        kind: QueueKind,
        arguments: Cow<'_, FieldTable>,
    ) -> Result<Outcome, CatalogueError> {
        let durable = wanted.durable && wanted.exclusive.is_none();
        let id = self.allocate(durable, wanted);
        let vhost = self.vhost_mut(wanted.vhost)?;
        let mut record = QueueRecord {
            id,
            vhost: Arc::clone(&vhost.name),
            name: name.into(),
            kind,
            durable: wanted.durable,
            auto_delete: wanted.auto_delete,
            exclusive: wanted.exclusive,
            arguments: arguments.into_owned(),
            policy: None,
            operator_policy: None,
            settings: policy::QueueSettings::default(),
            members: Vec::new(),
            home: NodeId::default(),
            group_size: 0,
        };
        apply_policies(vhost, &mut record);
        self.place(&mut record);
        let vhost = self.vhost_mut(wanted.vhost)?;
        let added = vhost.router.add_queue(name, id);
        assert!(
            added,
            "queue {name:?} is in the router but not in the catalogue"
        );
        vhost.queues.insert(Arc::clone(&record.name), id);
        let log = if durable {
            vec![queue_command(&record)]
        } else {
            Vec::new()
        };
        self.note_placed(&record);
        let before = self.queues.insert(id, record);
        assert!(before.is_none(), "queue id {id} is in use");
        Ok(Outcome {
            queue: Some(id),
            created: true,
            changes: vec![Change::QueueCreated(id)],
            log,
            ..Outcome::default()
        })
    }

    /// The id of a new queue: shards take turns.
    fn allocate(&mut self, durable: bool, wanted: &QueueWanted<'_>) -> QueueId {
        if let Some(id) = wanted.id {
            let number = (id & !TRANSIENT_ID) >> SHARD_BITS;
            self.next_queue = self.next_queue.max(number + 1);
            return QueueId(id);
        }
        // The nodes of a cluster may have different numbers of shards, and take theirs of all.
        let shards = match self.circumstances {
            Some(_) => 1 << SHARD_BITS,
            None => u64::from(wanted.shards.clamp(1, 1 << SHARD_BITS)),
        };
        let (counter, mark) = match durable {
            true => (&mut self.next_queue, 0),
            false => (&mut self.next_transient_queue, TRANSIENT_ID),
        };
        let number = *counter;
        *counter += 1;
        QueueId(mark | (number << SHARD_BITS) | (number % shards))
    }

    fn delete_queue(
        &mut self,
        vhost: &str,
        name: &str,
        connection: Option<ConnectionId>,
        id: Option<QueueId>,
    ) -> Result<Outcome, CatalogueError> {
        self.vhost_or_error(vhost)?;
        let Some(queue) = self
            .queue_by_name(vhost, name)
            .filter(|queue| id.is_none_or(|id| id == queue.id))
        else {
            return Ok(Outcome::default());
        };
        if queue.exclusive.is_some() && connection.is_some() && queue.exclusive != connection {
            return Err(CatalogueError::Locked {
                resource: queue.resource(),
            });
        }
        let mut outcome = Outcome::default();
        let id = queue.id;
        let unbound = self.remove_queue(id, &mut outcome);
        self.remove_idle(vhost, unbound, &mut outcome)?;
        Ok(outcome)
    }

    /// Takes a queue out of everything.
    pub(crate) fn remove_queue(&mut self, id: QueueId, outcome: &mut Outcome) -> Unbound {
        let Some(record) = self.queues.remove(&id) else {
            return Unbound::default();
        };
        self.note_gone(&record);
        let mut unbound = Unbound::default();
        if let Some(vhost) = self.vhosts.get_mut(&*record.vhost) {
            vhost.queues.remove(&record.name);
            unbound = vhost.router.remove_queue(&record.name).unwrap_or_default();
        }
        if record.survives_restart() {
            outcome.log.push(record.deletion());
        }
        outcome.changes.push(Change::QueueDeleted(Box::new(record)));
        unbound
    }

    /// Sees which policies apply to every queue and exchange of a virtual host now, and names what
    /// changed.
    pub(crate) fn refresh_policies(
        &mut self,
        name: &str,
        outcome: &mut Outcome,
    ) -> Result<(), CatalogueError> {
        let vhost = self
            .vhosts
            .get_mut(name)
            .ok_or_else(|| CatalogueError::NoVhost(name.to_owned()))?;
        for id in vhost.queues.values() {
            let Some(record) = self.queues.get_mut(id) else {
                continue;
            };
            let before = record.settings.clone();
            apply_policies(vhost, record);
            if record.settings != before {
                outcome.changes.push(Change::QueueChanged(*id));
            }
        }
        let names: Vec<Arc<str>> = vhost.exchanges.keys().cloned().collect();
        for name in names {
            let (policy, definition) = vhost.exchange_policy(&name);
            if let Some(exchange) = vhost.exchanges.get_mut(&name) {
                exchange.policy = policy;
                let alternate = alternate(&exchange.arguments, &definition);
                vhost.router.set_alternate(&name, alternate.as_deref());
            }
        }
        Ok(())
    }

    // --- bindings ------------------------------------------------------------------------------

    fn bind(&mut self, wanted: &BindingWanted<'_>) -> Result<Outcome, CatalogueError> {
        let destination_is_default =
            matches!(wanted.destination, Endpoint::Exchange(name) if name.is_empty());
        if wanted.source.is_empty() || destination_is_default {
            return Err(CatalogueError::DefaultExchange);
        }
        let durable = self.is_durable(&bind_command(wanted));
        let vhost = self.vhost_mut(wanted.vhost)?;
        let destination = wanted.destination.as_destination();
        let bound = vhost.router.bind(
            wanted.source,
            destination,
            wanted.routing_key,
            wanted.arguments,
        );
        let created = bound.map_err(|error| match error {
            BindError::NoSource => CatalogueError::NotFound {
                resource: resource("exchange", wanted.source, wanted.vhost),
            },
            BindError::NoDestination => CatalogueError::NotFound {
                resource: match wanted.destination {
                    Endpoint::Queue(name) => resource("queue", name, wanted.vhost),
                    Endpoint::Exchange(name) => resource("exchange", name, wanted.vhost),
                },
            },
            other => CatalogueError::Binding(other),
        })?;
        if !created {
            return Ok(Outcome::default());
        }
        let change = Change::Bound {
            vhost: Arc::clone(&vhost.name),
            source: wanted.source.into(),
            destination: wanted.destination.clone(),
        };
        let log = if durable {
            vec![bind_command(wanted)]
        } else {
            Vec::new()
        };
        Ok(Outcome {
            created,
            changes: vec![change],
            log,
            ..Outcome::default()
        })
    }

    fn unbind(&mut self, wanted: &BindingWanted<'_>) -> Result<Outcome, CatalogueError> {
        if wanted.source.is_empty() {
            return Err(CatalogueError::DefaultExchange);
        }
        let command = Command::Unbind {
            vhost: wanted.vhost.to_owned(),
            source: wanted.source.to_owned(),
            destination: wanted.destination.clone(),
            routing_key: wanted.routing_key.to_vec(),
            arguments: wanted.arguments.clone(),
        };
        let durable = self.is_durable(&command);
        let vhost = self.vhost_mut(wanted.vhost)?;
        let destination = wanted.destination.as_destination();
        let gone = vhost.router.unbind(
            wanted.source,
            destination,
            wanted.routing_key,
            wanted.arguments,
        );
        let Some(unbound) = gone else {
            return Ok(Outcome::default());
        };
        let change = Change::Unbound {
            vhost: Arc::clone(&vhost.name),
            source: wanted.source.into(),
            destination: wanted.destination.clone(),
        };
        let mut outcome = Outcome {
            changes: vec![change],
            ..Outcome::default()
        };
        if durable {
            outcome.log.push(command);
        }
        self.remove_idle(wanted.vhost, unbound, &mut outcome)?;
        Ok(outcome)
    }
}

// --- helpers -----------------------------------------------------------------------------------

fn stripped(endpoint: &Endpoint) -> Endpoint {
    match endpoint {
        Endpoint::Queue(name) => Endpoint::Queue(strip_cr_lf(name).into_owned()),
        Endpoint::Exchange(name) => Endpoint::Exchange(strip_cr_lf(name).into_owned()),
    }
}

/// Whether clients may give something new this name.
fn check_name(kind: &'static str, name: &str) -> Result<(), CatalogueError> {
    if name.starts_with("amq.") {
        return Err(CatalogueError::Reserved {
            kind,
            name: name.to_owned(),
        });
    }
    check_length(name)
}

/// Whether a name is neither empty nor too long for a short string.
pub(crate) fn check_length(name: &str) -> Result<(), CatalogueError> {
    match name.len() {
        1..=SHORT_STRING_BYTES_MAX => Ok(()),
        length => Err(CatalogueError::NameLength(length)),
    }
}

fn check_exchange_equivalence(
    resource: &str,
    current: &ExchangeRecord,
    wanted: &ExchangeWanted<'_>,
) -> Result<(), CatalogueError> {
    let check = |name: &str, current: &str, received: &str| {
        arguments::check_property(resource, name, current, received)
    };
    check("type", &atom(&current.kind), &atom(wanted.kind))?;
    check(
        "durable",
        &current.durable.to_string(),
        &wanted.durable.to_string(),
    )?;
    check(
        "auto_delete",
        &current.auto_delete.to_string(),
        &wanted.auto_delete.to_string(),
    )?;
    check(
        "internal",
        &current.internal.to_string(),
        &wanted.internal.to_string(),
    )?;
    arguments::check_argument(
        resource,
        "alternate-exchange",
        &current.arguments,
        wanted.arguments,
    )
}

/// An exchange's type as Erlang prints it: quoted where it has a dash.
fn atom(kind: &str) -> Cow<'_, str> {
    if kind.contains('-') {
        Cow::Owned(format!("'{kind}'"))
    } else {
        Cow::Borrowed(kind)
    }
}

fn check_alternate_type(resource: &str, arguments: &FieldTable) -> Result<(), CatalogueError> {
    match arguments.get("alternate-exchange") {
        None | Some(FieldValue::LongString(_)) => Ok(()),
        Some(other) => Err(CatalogueError::InvalidArgumentType {
            type_name: other.type_name(),
            argument: "alternate-exchange",
            resource: resource.to_owned(),
        }),
    }
}

/// Where an exchange's unroutable messages go: its argument, else its policy.
fn alternate(arguments: &FieldTable, policy: &FieldTable) -> Option<String> {
    let value = arguments
        .get("alternate-exchange")
        .or_else(|| policy.get("alternate-exchange"));
    value.and_then(FieldValue::as_text).map(str::to_owned)
}

/// What a quorum queue cannot be.
fn check_quorum_properties(
    resource: &str,
    kind: QueueKind,
    wanted: &QueueWanted<'_>,
) -> Result<(), CatalogueError> {
    if kind != QueueKind::Quorum {
        return Ok(());
    }
    let refused = [
        (wanted.auto_delete, "auto-delete"),
        (wanted.exclusive.is_some(), "exclusive-owner"),
        (!wanted.durable, "non-durable"),
    ];
    match refused.into_iter().find(|(has, _)| *has) {
        Some((_, property)) => Err(CatalogueError::InvalidProperty {
            property,
            resource: resource.to_owned(),
        }),
        None => Ok(()),
    }
}

/// Sees which policies apply to a queue, and what is in force for it then.
fn apply_policies(vhost: &Vhost, record: &mut QueueRecord) {
    let user = policy::for_queue(vhost.policies.values(), &record.name, record.kind);
    let operator = policy::for_queue(vhost.operator_policies.values(), &record.name, record.kind);
    record.policy = user.map(|policy| Arc::clone(&policy.name));
    record.operator_policy = operator.map(|policy| Arc::clone(&policy.name));
    let definition = policy::merge(user, operator);
    record.settings = policy::resolve(record.kind, &record.arguments, &definition);
}

fn exchange_command(wanted: &ExchangeWanted<'_>) -> Command {
    Command::ExchangeDeclare {
        vhost: wanted.vhost.to_owned(),
        name: wanted.name.to_owned(),
        kind: wanted.kind.to_owned(),
        durable: wanted.durable,
        auto_delete: wanted.auto_delete,
        internal: wanted.internal,
        arguments: wanted.arguments.clone(),
    }
}

/// The declaration of a queue that exists: with its generated name, its default type and its id
/// written out.
pub(crate) fn queue_command(record: &QueueRecord) -> Command {
    Command::QueueDeclare {
        vhost: record.vhost.to_string(),
        name: record.name.to_string(),
        durable: record.durable,
        exclusive: record.exclusive.map(|connection| connection.0),
        auto_delete: record.auto_delete,
        arguments: record.arguments.clone(),
        random: [0; 16],
        shards: 1,
        id: Some(record.id.0),
    }
}

fn bind_command(wanted: &BindingWanted<'_>) -> Command {
    Command::Bind {
        vhost: wanted.vhost.to_owned(),
        source: wanted.source.to_owned(),
        destination: wanted.destination.clone(),
        routing_key: wanted.routing_key.to_vec(),
        arguments: wanted.arguments.clone(),
    }
}
