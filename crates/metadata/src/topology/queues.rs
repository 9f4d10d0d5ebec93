//! Queues: declared, equal to what there is, deleted, and what policies make of them.

use super::{check_name, generated_name};
use crate::arguments::{self, RELAXED_ARGUMENTS};
use crate::catalogue::{Catalogue, Change, Outcome, reached};
use crate::cluster::Circumstances;
use crate::command::Command;
use crate::error::CatalogueError;
use crate::kinds::SOURCE;
use crate::policy;
use crate::record::{QueueRecord, Vhost, resource};
use crate::weights::weight;
use leveret_routing::Unbound;
use leveret_types::QueueKind;
use leveret_types::{ConnectionId, FieldTable, FieldValue, NodeId, QueueId};
use std::borrow::Cow;
use std::sync::Arc;

/// Queues that do not survive a restart are counted apart, because their declarations are not in
/// the log and replaying it must give the same ids to the others. A log's id is a queue's id times
/// 256, so the highest byte stays free.
const TRANSIENT_ID: u64 = QueueId::TRANSIENT_MARK;
/// Bits of a queue's id that are its shard.
const SHARD_BITS: u32 = 8;

/// The fields of a queue's declaration.
pub(super) struct QueueWanted<'a> {
    pub(super) vhost: &'a str,
    pub(super) name: &'a str,
    pub(super) durable: bool,
    pub(super) exclusive: Option<ConnectionId>,
    pub(super) auto_delete: bool,
    pub(super) arguments: &'a FieldTable,
    pub(super) random: &'a [u8; 16],
    pub(super) shards: u16,
    pub(super) id: Option<u64>,
}

impl Catalogue {
    pub(super) fn declare_queue(
        &mut self,
        wanted: &QueueWanted<'_>,
    ) -> Result<Outcome, CatalogueError> {
        let vhost = self.vhost_or_error(wanted.vhost)?;
        let generated = wanted.name.is_empty();
        let name = match generated {
            true => generated_name(*wanted.random),
            false => wanted.name.to_owned(),
        };
        let resource = resource("queue", &name, wanted.vhost);
        let current = vhost.queue_id(&name).and_then(|id| self.queue(id));
        let lost = current.filter(|current| self.is_lost(current));
        if let Some(current) = current.filter(|_| lost.is_none()) {
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
        self.check_source(vhost, &resource, &arguments)?;
        check_lasting_properties(&resource, kind, wanted)?;
        let lost = lost.map(|lost| lost.id);
        if !self.replaying && lost.is_none() {
            self.check_queue_limits(vhost, &name)?;
        }
        let mut outcome = Outcome::default();
        if let Some(lost) = lost {
            let unbound = self.remove_queue(lost, &mut outcome);
            self.remove_idle(wanted.vhost, unbound, &mut outcome)?;
        }
        self.insert_queue(wanted, &name, kind, arguments, outcome)
    }

    /// Whether a queue went with its node's process, as far as the leader of the cluster's
    /// catalogue knew: it is still there because the node may only have been cut off for a moment.
    fn is_lost(&self, queue: &QueueRecord) -> bool {
        let went_down = |around: &Circumstances| {
            let is_up = queue.home == around.origin || around.up.contains(&queue.home);
            around.replaces_lost && !is_up
        };
        let goes_with_process = !queue.survives_restart() && queue.members.is_empty();
        goes_with_process && self.circumstances.as_ref().is_some_and(went_down)
    }

    /// The queue that a declaration finds as it is wanted.
    pub(super) fn declared_queue(&self, wanted: &QueueWanted<'_>) -> Option<QueueId> {
        let id = self.vhost(wanted.vhost)?.queue_id(wanted.name)?;
        let resource = resource("queue", wanted.name, wanted.vhost);
        let equal = self.check_queue_equivalence(&resource, self.queue(id)?, wanted);
        equal.is_ok().then_some(id)
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

    /// Whether the stream is there that a queue is to be a view of. An entry of the log was checked
    /// when it was made, and a snapshot has its queues in no order.
    fn check_source(
        &self,
        vhost: &Vhost,
        resource: &str,
        arguments: &FieldTable,
    ) -> Result<(), CatalogueError> {
        let source = arguments.get(SOURCE).and_then(FieldValue::as_text);
        let Some(source) = source.filter(|_| !self.replaying) else {
            return Ok(());
        };
        let of_source = crate::record::resource("queue", source, &vhost.name);
        match vhost.queue_id(source) {
            Some(id) if id.is_stream() => Ok(()),
            Some(_) => Err(CatalogueError::NotAStream {
                source_resource: of_source,
                resource: resource.to_owned(),
            }),
            None => Err(CatalogueError::NotFound {
                resource: of_source,
            }),
        }
    }

    fn check_queue_limits(&self, vhost: &Vhost, name: &str) -> Result<(), CatalogueError> {
        let queue = name.to_owned();
        if let Some(limit) = vhost
            .limit("max-queues")
            .filter(|limit| reached(*limit, vhost.queues.len() + vhost.queues_elsewhere))
        {
            return Err(CatalogueError::QueueLimitOfVhost {
                queue,
                vhost: vhost.name.to_string(),
                limit,
            });
        }
        let limit = self.config.queues_max;
        if self.queues.len() + self.queues_elsewhere >= limit {
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
        mut outcome: Outcome,
    ) -> Result<Outcome, CatalogueError> {
        let durable = wanted.durable && wanted.exclusive.is_none();
        let id = self.allocate(durable, kind, wanted);
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
            founders: Vec::new(),
            home: NodeId::default(),
            epoch: 0,
            group_size: 0,
        };
        vhost.policies_in_force().apply(&mut record);
        self.place(&mut record);
        let vhost = self.vhost_mut(wanted.vhost)?;
        let added = vhost.router.add_queue(name, id);
        assert!(
            added,
            "queue {name:?} is in the router but not in the catalogue"
        );
        vhost.queues.insert(Arc::clone(&record.name), id);
        if let Some(source) = &record.settings.source {
            let views = vhost.views.entry(source.clone()).or_default();
            views.insert(id);
        }
        if durable {
            outcome.log.push(queue_command(&record));
        }
        self.note_placed(&record);
        if let Some(connection) = record.exclusive {
            self.exclusive.insert((connection, id));
        }
        self.argument_bytes += weight(&record.arguments);
        let before = self.queues.insert(id, Box::new(record));
        assert!(before.is_none(), "queue id {id} is in use");
        outcome.queue = Some(id);
        outcome.created = true;
        outcome.changes.push(Change::QueueCreated(id));
        Ok(outcome)
    }

    /// Whether this id was given to a queue, which may be deleted by now. Of one that does not
    /// survive a restart that is not known any more.
    #[must_use]
    pub fn has_given(&self, id: QueueId) -> bool {
        let id = id.unmarked().0;
        id & TRANSIENT_ID != 0 || id >> SHARD_BITS < self.next_queue
    }

    /// The id of a new queue: shards take turns.
    fn allocate(&mut self, durable: bool, kind: QueueKind, wanted: &QueueWanted<'_>) -> QueueId {
        if let Some(id) = wanted.id {
            let number = (QueueId(id).unmarked().0 & !TRANSIENT_ID) >> SHARD_BITS;
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
        let id = QueueId(mark | (number << SHARD_BITS) | (number % shards));
        match kind {
            QueueKind::Stream => id.of_stream(),
            QueueKind::Classic | QueueKind::Quorum => id,
        }
    }

    pub(super) fn delete_queue(
        &mut self,
        vhost: &str,
        name: &str,
        connection: Option<ConnectionId>,
        id: Option<QueueId>,
    ) -> Result<Outcome, CatalogueError> {
        let Some(queue) = self.queue_to_delete(vhost, name, id)? else {
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
        if id.is_stream() {
            for view in self.views_of(vhost, name) {
                self.remove_queue(view, &mut outcome);
            }
        }
        Ok(outcome)
    }

    /// The queue that is to be deleted; nothing if there is none, or only another one of its name.
    pub(crate) fn queue_to_delete(
        &self,
        vhost: &str,
        name: &str,
        id: Option<QueueId>,
    ) -> Result<Option<&QueueRecord>, CatalogueError> {
        self.vhost_or_error(vhost)?;
        let queue = self.queue_by_name(vhost, name);
        Ok(queue.filter(|queue| id.is_none_or(|id| id == queue.id)))
    }

    /// The views of a stream, in the order of their ids. They have no bindings.
    fn views_of(&self, vhost: &str, stream: &str) -> Vec<QueueId> {
        let views = self.vhost(vhost).and_then(|vhost| vhost.views.get(stream));
        views.into_iter().flatten().copied().collect()
    }

    /// Takes a queue out of all that there is beside its virtual host.
    pub(crate) fn forget_queue(&mut self, id: QueueId) -> Option<Box<QueueRecord>> {
        let record = self.queues.remove(&id)?;
        self.argument_bytes -= weight(&record.arguments);
        self.note_gone(&record);
        if let Some(connection) = record.exclusive {
            self.exclusive.remove(&(connection, id));
        }
        Some(record)
    }

    /// Takes a queue out of everything.
    pub(crate) fn remove_queue(&mut self, id: QueueId, outcome: &mut Outcome) -> Unbound {
        let Some(record) = self.forget_queue(id) else {
            return Unbound::default();
        };
        let mut unbound = Unbound::default();
        if let Some(vhost) = self.vhosts.get_mut(&*record.vhost) {
            vhost.queues.remove(&record.name);
            vhost.forget_view(&record);
            unbound = vhost.router.remove_queue(&record.name).unwrap_or_default();
            self.argument_bytes -= unbound.argument_bytes;
            if vhost.router.has_to_unlink() {
                self.unlinking.insert(Arc::clone(&vhost.name));
            }
        }
        if record.survives_restart() {
            outcome.log.push(record.deletion());
        }
        outcome.changes.push(Change::QueueDeleted(record));
        unbound
    }
}

/// What a quorum queue or a stream cannot be.
fn check_lasting_properties(
    resource: &str,
    kind: QueueKind,
    wanted: &QueueWanted<'_>,
) -> Result<(), CatalogueError> {
    if kind == QueueKind::Classic {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Config;
    use crate::command::Command;

    #[test]
    fn views_are_known_by_their_streams_and_by_nothing_else() {
        let mut catalogue = Catalogue::new(Config::default());
        let vhost = Command::VhostPut {
            vhost: "/".to_owned(),
            description: None,
            tags: None,
            default_queue_type: None,
            protected: None,
            tracing: None,
        };
        catalogue.apply(&vhost).expect("a virtual host");
        let mut declare = |name: &str, arguments: FieldTable| {
            let command = Command::QueueDeclare {
                vhost: "/".to_owned(),
                name: name.to_owned(),
                durable: true,
                exclusive: None,
                auto_delete: false,
                arguments,
                random: [0; 16],
                shards: 1,
                id: None,
            };
            let outcome = catalogue.apply(&command).expect("a declaration");
            outcome.queue.expect("a queue")
        };
        let text = |name: &'static str, value| FieldTable::from([(name, FieldValue::text(value))]);
        declare("s", text("x-queue-type", "stream"));
        let view = declare("v", text(SOURCE, "s"));
        declare("q", FieldTable::new());
        let known = |catalogue: &Catalogue| -> Vec<(String, Vec<QueueId>)> {
            let views = catalogue.vhost("/").into_iter().flat_map(|v| &v.views);
            let each = views.map(|(of, views)| (of.to_string(), views.iter().copied().collect()));
            each.collect()
        };
        assert_eq!(known(&catalogue), [("s".to_owned(), vec![view])]);
        let gone = catalogue.delete_queue("/", "s", None, None);
        assert_eq!(gone.map(|gone| gone.changes.len()), Ok(2));
        assert_eq!(known(&catalogue), []);
        assert_eq!(catalogue.queue_count(), 1);
    }
}
