//! What the catalogue keeps of each thing.

use crate::command::Command;
use crate::policy::{Policy, QueueSettings};
use leveret_auth::{PasswordHash, Permission, TopicPermission};
use leveret_routing::Router;
use leveret_types::QueueKind;
use leveret_types::{ConnectionId, FieldTable, FieldValue, NodeId, QueueId, ReplicaId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A queue.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueRecord {
    pub(crate) id: QueueId,
    pub(crate) vhost: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) kind: QueueKind,
    pub(crate) durable: bool,
    pub(crate) auto_delete: bool,
    pub(crate) exclusive: Option<ConnectionId>,
    pub(crate) arguments: FieldTable,
    pub(crate) policy: Option<Arc<str>>,
    pub(crate) operator_policy: Option<Arc<str>>,
    pub(crate) settings: QueueSettings,
    pub(crate) members: Vec<ReplicaId>,
    /// Whom its group began with, once it was given others.
    pub(crate) founders: Vec<ReplicaId>,
    pub(crate) home: NodeId,
    pub(crate) epoch: u64,
    pub(crate) group_size: usize,
}

impl QueueRecord {
    /// Keeps whom the group began with, before it is given others.
    pub(crate) fn keep_founders(&mut self) {
        let began_with_these = self.members.iter().all(|member| member.incarnation() == 0);
        if self.founders.is_empty() && began_with_these {
            self.founders = self.members.clone();
        }
    }

    /// Its id: the lowest eight bits are its shard.
    #[must_use]
    pub const fn id(&self) -> QueueId {
        self.id
    }
    /// The members of its group, the preferred leader first; none of a queue that is not
    /// replicated.
    #[must_use]
    pub fn members(&self) -> &[ReplicaId] {
        &self.members
    }
    /// The members that its group began with: what a member of these begins with that has lost
    /// what it had, for it had acknowledged nothing.
    #[must_use]
    pub fn founders(&self) -> &[ReplicaId] {
        match self.founders.is_empty() {
            true => &self.members,
            false => &self.founders,
        }
    }
    /// How many members its group is to have where neither its arguments nor a policy nor the
    /// configuration has a target; 0 where nobody said.
    #[must_use]
    pub const fn group_size(&self) -> usize {
        self.group_size
    }
    /// The node that a queue that is not replicated lives on, and the one that leads a stream; 0
    /// outside clusters.
    #[must_use]
    pub const fn home(&self) -> NodeId {
        self.home
    }
    /// Which of its leaders a replicated stream has, counted from 1; 0 of all else.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }
    /// Its virtual host.
    #[must_use]
    pub fn vhost(&self) -> &str {
        &self.vhost
    }
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Its type.
    #[must_use]
    pub const fn kind(&self) -> QueueKind {
        self.kind
    }
    /// Whether it was declared durable.
    #[must_use]
    pub const fn durable(&self) -> bool {
        self.durable
    }
    /// Whether it survives a restart: durable, and not bound to a connection.
    #[must_use]
    pub const fn survives_restart(&self) -> bool {
        self.durable && self.exclusive.is_none()
    }
    /// Whether it goes with its last consumer.
    #[must_use]
    pub const fn auto_delete(&self) -> bool {
        self.auto_delete
    }
    /// The connection that it belongs to, if it is exclusive.
    #[must_use]
    pub const fn exclusive(&self) -> Option<ConnectionId> {
        self.exclusive
    }
    /// Its arguments as declared, with the type where a default gave it one.
    #[must_use]
    pub const fn arguments(&self) -> &FieldTable {
        &self.arguments
    }
    /// Name of the policy that applies to it.
    #[must_use]
    pub fn policy(&self) -> Option<&str> {
        self.policy.as_deref()
    }
    /// Name of the operator policy that applies to it.
    #[must_use]
    pub fn operator_policy(&self) -> Option<&str> {
        self.operator_policy.as_deref()
    }
    /// What is in force for it.
    #[must_use]
    pub const fn settings(&self) -> &QueueSettings {
        &self.settings
    }
    /// The command that deletes this incarnation of it, in the broker's own name.
    #[must_use]
    pub fn deletion(&self) -> Command {
        Command::queue_delete(&self.vhost, &self.name, self.id)
    }
    /// The queue as error texts name it.
    #[must_use]
    pub fn resource(&self) -> String {
        resource("queue", &self.name, &self.vhost)
    }
}

/// A thing of a virtual host as error texts name it: `queue 'q' in vhost '/'`.
pub(crate) fn resource(kind: &str, name: &str, vhost: &str) -> String {
    format!("{kind} '{name}' in vhost '{vhost}'")
}

/// What passed through an exchange since the node's start, counted by whoever routes.
///
/// It is no part of the catalogue's state: it is never written, and any two are equal.
#[derive(Clone, Debug, Default)]
pub struct Traffic(Arc<TrafficCounters>);

#[derive(Debug, Default)]
struct TrafficCounters {
    published_in: AtomicU64,
    published_out: AtomicU64,
}

impl Traffic {
    /// Counts a message that was published to the exchange and went into `queues` queues.
    #[inline]
    pub fn count(&self, queues: usize) {
        self.0.published_in.fetch_add(1, Ordering::Relaxed);
        let queues = u64::try_from(queues).unwrap_or(u64::MAX);
        self.0.published_out.fetch_add(queues, Ordering::Relaxed);
    }

    /// Messages published to the exchange, and messages that queues have got from it.
    #[must_use]
    pub fn values(&self) -> (u64, u64) {
        (
            self.0.published_in.load(Ordering::Relaxed),
            self.0.published_out.load(Ordering::Relaxed),
        )
    }
}

impl PartialEq for Traffic {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// An exchange. What routing needs of it lies in the router.
#[derive(Clone, Debug, PartialEq)]
pub struct ExchangeRecord {
    pub(crate) name: Arc<str>,
    pub(crate) kind: Box<str>,
    pub(crate) durable: bool,
    pub(crate) auto_delete: bool,
    pub(crate) internal: bool,
    pub(crate) arguments: FieldTable,
    pub(crate) policy: Option<Arc<str>>,
    pub(crate) traffic: Traffic,
}

impl ExchangeRecord {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Name of its type, as declared.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }
    /// Whether it survives a restart.
    #[must_use]
    pub const fn durable(&self) -> bool {
        self.durable
    }
    /// Whether it goes when the last binding from it goes.
    #[must_use]
    pub const fn auto_delete(&self) -> bool {
        self.auto_delete
    }
    /// Whether clients may not publish to it.
    #[must_use]
    pub const fn internal(&self) -> bool {
        self.internal
    }
    /// Its arguments as declared.
    #[must_use]
    pub const fn arguments(&self) -> &FieldTable {
        &self.arguments
    }
    /// Name of the policy that applies to it.
    #[must_use]
    pub fn policy(&self) -> Option<&str> {
        self.policy.as_deref()
    }
}

/// A virtual host.
#[derive(Debug)]
pub struct Vhost {
    pub(crate) name: Arc<str>,
    pub(crate) description: String,
    pub(crate) tags: Vec<String>,
    pub(crate) default_queue_type: Option<QueueKind>,
    pub(crate) protected: bool,
    pub(crate) tracing: bool,
    /// `max-connections` and `max-queues`.
    pub(crate) limits: BTreeMap<String, i64>,
    pub(crate) router: Router,
    pub(crate) exchanges: BTreeMap<Arc<str>, ExchangeRecord>,
    /// Of the default exchange, which has no record.
    pub(crate) default_traffic: Traffic,
    pub(crate) queues: BTreeMap<Arc<str>, QueueId>,
    /// Queues that count for limits but are not here: see [`crate::Catalogue`]'s.
    pub(crate) queues_elsewhere: usize,
    /// Those of its queues that are views, by the names of their streams.
    pub(crate) views: BTreeMap<Box<str>, BTreeSet<QueueId>>,
    pub(crate) policies: BTreeMap<String, Policy>,
    pub(crate) operator_policies: BTreeMap<String, Policy>,
    /// By component and name.
    pub(crate) parameters: BTreeMap<(String, String), FieldValue>,
}

/// Names behind this one.
const fn behind(name: &str) -> (Bound<&str>, Bound<&str>) {
    (Bound::Excluded(name), Bound::Unbounded)
}

impl Vhost {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            tags: Vec::new(),
            default_queue_type: None,
            protected: false,
            tracing: false,
            limits: BTreeMap::new(),
            router: Router::new(),
            exchanges: BTreeMap::new(),
            default_traffic: Traffic::default(),
            queues: BTreeMap::new(),
            queues_elsewhere: 0,
            views: BTreeMap::new(),
            policies: BTreeMap::new(),
            operator_policies: BTreeMap::new(),
            parameters: BTreeMap::new(),
        }
    }

    /// Takes a queue out of the views, if it is one.
    pub(crate) fn forget_view(&mut self, queue: &QueueRecord) {
        let Some(source) = queue.settings.source.as_deref() else {
            return;
        };
        if let Some(views) = self.views.get_mut(source) {
            views.remove(&queue.id);
            if views.is_empty() {
                self.views.remove(source);
            }
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Its description.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }
    /// Its tags.
    #[must_use]
    pub fn tags(&self) -> &[String] {
        &self.tags
    }
    /// Type of durable queues that are declared without one.
    #[must_use]
    pub const fn default_queue_type(&self) -> Option<QueueKind> {
        self.default_queue_type
    }
    /// Whether its deletion is refused.
    #[must_use]
    pub const fn protected(&self) -> bool {
        self.protected
    }
    /// Whether messages are copied to `amq.rabbitmq.trace`.
    #[must_use]
    #[inline]
    pub const fn tracing(&self) -> bool {
        self.tracing
    }
    /// A limit (`max-connections`, `max-queues`), where one is set and not negative.
    #[must_use]
    pub fn limit(&self, name: &str) -> Option<i64> {
        self.limits.get(name).copied().filter(|limit| *limit >= 0)
    }
    /// All limits as set.
    pub fn limits(&self) -> impl Iterator<Item = (&str, i64)> {
        self.limits
            .iter()
            .map(|(name, value)| (name.as_str(), *value))
    }
    /// Its exchanges and bindings, to route by. Listings find bindings there, too.
    #[must_use]
    #[inline]
    pub const fn router(&self) -> &Router {
        &self.router
    }
    /// An exchange; the default one has no record.
    #[must_use]
    #[inline]
    pub fn exchange(&self, name: &str) -> Option<&ExchangeRecord> {
        self.exchanges.get(name)
    }
    /// What passed through an exchange; the default one has the empty name.
    #[must_use]
    #[inline]
    pub fn traffic(&self, exchange: &str) -> Option<&Traffic> {
        match exchange {
            "" => Some(&self.default_traffic),
            name => self.exchanges.get(name).map(|record| &record.traffic),
        }
    }
    /// Its exchanges by name, the default one left out.
    pub fn exchanges(&self) -> impl ExactSizeIterator<Item = &ExchangeRecord> {
        self.exchanges.values()
    }
    /// The id of a queue.
    #[must_use]
    #[inline]
    pub fn queue_id(&self, name: &str) -> Option<QueueId> {
        self.queues.get(name).copied()
    }
    /// Its queues by name.
    pub fn queue_ids(&self) -> impl ExactSizeIterator<Item = QueueId> {
        self.queues.values().copied()
    }
    /// The names of its exchanges behind this one, in order, the default one left out.
    pub fn exchange_names_after<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Arc<str>> {
        self.exchanges
            .range::<str, _>(behind(name))
            .map(|(name, _)| name)
    }
    /// Its queues behind this name, or all, by name.
    pub fn queues_after<'a>(
        &'a self,
        name: Option<&str>,
    ) -> impl Iterator<Item = (&'a Arc<str>, QueueId)> {
        let range = name.map_or((Bound::Unbounded, Bound::Unbounded), behind);
        self.queues
            .range::<str, _>(range)
            .map(|(name, id)| (name, *id))
    }
    /// Its policies by name.
    pub fn policies(&self) -> impl ExactSizeIterator<Item = &Policy> {
        self.policies.values()
    }
    /// Its operator policies by name.
    pub fn operator_policies(&self) -> impl ExactSizeIterator<Item = &Policy> {
        self.operator_policies.values()
    }
    /// Its policies, users' or operators', behind this name, or all, by name.
    pub fn policies_after(
        &self,
        operator: bool,
        name: Option<&str>,
    ) -> impl Iterator<Item = &Policy> {
        let policies = match operator {
            true => &self.operator_policies,
            false => &self.policies,
        };
        let range = name.map_or((Bound::Unbounded, Bound::Unbounded), behind);
        policies.range::<str, _>(range).map(|(_, policy)| policy)
    }
    /// A policy, a user's or an operator's.
    #[must_use]
    pub fn policy(&self, operator: bool, name: &str) -> Option<&Policy> {
        match operator {
            true => self.operator_policies.get(name),
            false => self.policies.get(name),
        }
    }
    /// The value of a runtime parameter.
    #[must_use]
    pub fn parameter(&self, component: &str, name: &str) -> Option<&FieldValue> {
        self.parameters
            .get(&(component.to_owned(), name.to_owned()))
    }
    /// Components and names of its runtime parameters behind this one, or of all, in order.
    pub fn parameters_after(
        &self,
        last: Option<&(String, String)>,
    ) -> impl Iterator<Item = &(String, String)> {
        let start = last.map_or(Bound::Unbounded, Bound::Excluded);
        self.parameters
            .range((start, Bound::Unbounded))
            .map(|(key, _)| key)
    }
    /// Its runtime parameters as (component, name, value), policies and limits left out.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, &str, &FieldValue)> {
        self.parameters
            .iter()
            .map(|((component, name), value)| (&**component, &**name, value))
    }
    /// The merged definition of the policies that apply to an exchange, and the policy's name.
    pub(crate) fn exchange_policy(&self, name: &str) -> (Option<Arc<str>>, FieldTable) {
        let policy = crate::policy::for_exchange(self.policies.values(), name);
        let operator = crate::policy::for_exchange(self.operator_policies.values(), name);
        (
            policy.map(|p| Arc::clone(&p.name)),
            crate::policy::merge(policy, operator),
        )
    }
}

/// A user.
#[derive(Clone, Debug)]
pub struct User {
    pub(crate) name: Arc<str>,
    pub(crate) password: PasswordHash,
    pub(crate) tags: Vec<String>,
    /// `max-connections` and `max-channels`.
    pub(crate) limits: BTreeMap<String, i64>,
    /// By virtual host.
    pub(crate) permissions: BTreeMap<String, Arc<Permission>>,
    /// By virtual host and exchange.
    pub(crate) topic_permissions: BTreeMap<(String, String), TopicPermission>,
}

impl User {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            password: PasswordHash::none(),
            tags: Vec::new(),
            limits: BTreeMap::new(),
            permissions: BTreeMap::new(),
            topic_permissions: BTreeMap::new(),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The hash of its password.
    #[must_use]
    pub const fn password(&self) -> &PasswordHash {
        &self.password
    }
    /// Its tags: `administrator`, `monitoring`, `policymaker`, `management`, `impersonator`,
    /// `protected`, and free ones.
    #[must_use]
    pub fn tags(&self) -> &[String] {
        &self.tags
    }
    /// Whether it has a tag.
    #[must_use]
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|own| own == tag)
    }
    /// A limit (`max-connections`, `max-channels`), where one is set and not negative.
    #[must_use]
    pub fn limit(&self, name: &str) -> Option<i64> {
        self.limits.get(name).copied().filter(|limit| *limit >= 0)
    }
    /// All limits as set.
    pub fn limits(&self) -> impl Iterator<Item = (&str, i64)> {
        self.limits
            .iter()
            .map(|(name, value)| (name.as_str(), *value))
    }
    /// Its permissions in a virtual host.
    #[must_use]
    pub fn permission(&self, vhost: &str) -> Option<&Arc<Permission>> {
        self.permissions.get(vhost)
    }
    /// Its permissions by virtual host.
    pub fn permissions(&self) -> impl ExactSizeIterator<Item = (&str, &Permission)> {
        self.permissions
            .iter()
            .map(|(vhost, permission)| (vhost.as_str(), &**permission))
    }
    /// Its topic permissions as (virtual host, exchange, patterns).
    pub fn topic_permissions(&self) -> impl Iterator<Item = (&str, &str, &TopicPermission)> {
        self.topic_permissions
            .iter()
            .map(|((vhost, exchange), topic)| (&**vhost, &**exchange, topic))
    }
}
