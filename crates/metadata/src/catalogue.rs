//! The catalogue: what there is, and the one function through which every change goes.

use crate::cluster::{Circumstances, Cluster};
use crate::command::{Command, Endpoint};
use crate::error::CatalogueError;
use crate::membership::{Load, MembershipConfig};
use crate::policy;
use crate::record::{QueueRecord, User, Vhost, resource};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use leveret_auth::{
    HashingAlgorithm, PasswordHash, Rights, TopicPermission, is_loopback, verify_login,
};
use leveret_types::QueueKind;
use leveret_types::limits::{CATALOGUE_ARGUMENTS_BYTES_MAX, EXCHANGES_MAX, QUEUES_MAX, VHOSTS_MAX};
use leveret_types::{ConnectionId, FieldValue, NodeId, ProtocolError, QueueId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;

/// What the operator's configuration says to the catalogue. It decides which commands are accepted,
/// never what an accepted one does: that is written into the command that goes to the log.
#[derive(Clone, Debug)]
pub struct Config {
    /// Queues of all virtual hosts together (`cluster_queue_limit`).
    pub queues_max: usize,
    /// Exchanges of all virtual hosts together (`cluster_exchange_limit`).
    pub exchanges_max: usize,
    /// Virtual hosts (`vhost_max`).
    pub vhosts_max: usize,
    /// What all arguments, definitions of policies and values of parameters come to: see
    /// [`Catalogue::argument_bytes`].
    pub argument_bytes_max: u64,
    /// Type of queues declared without one, where their virtual host does not say
    /// (`default_queue_type`).
    pub default_queue_type: Option<QueueKind>,
    /// A declaration of a classic queue may match an existing quorum queue
    /// (`quorum_queue.property_equivalence.relaxed_checks_on_redeclaration`).
    pub relaxed_redeclaration: bool,
    /// Users who may only log in from this machine (`loopback_users`).
    pub loopback_users: Vec<String>,
    /// How passwords of new users are hashed (`password_hashing_module`).
    pub hashing: HashingAlgorithm,
    /// Milliseconds within which a delivery must be settled where its queue does not say
    /// (`consumer_timeout`); none: no bound.
    pub consumer_timeout_ms: Option<u64>,
    /// Whether that always closes the channel; else a consumer of a quorum queue ends alone, if its
    /// client can be told (`consumer_timeout_response`).
    pub timeout_closes_channel: bool,
    /// How many members the groups of replicated queues have.
    pub membership: MembershipConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            queues_max: QUEUES_MAX,
            exchanges_max: EXCHANGES_MAX,
            vhosts_max: VHOSTS_MAX,
            argument_bytes_max: CATALOGUE_ARGUMENTS_BYTES_MAX,
            default_queue_type: None,
            relaxed_redeclaration: false,
            loopback_users: vec!["guest".to_owned()],
            hashing: HashingAlgorithm::default(),
            consumer_timeout_ms: None,
            timeout_closes_channel: false,
            membership: MembershipConfig::default(),
        }
    }
}

/// Why a login was refused: for the log. The client is told only that it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginRefusal {
    /// No such user, or not its password.
    #[error("user '{0}' - invalid credentials")]
    InvalidCredentials(String),
    /// The user may only log in from this machine.
    #[error("user '{0}' can only connect via localhost")]
    NotLoopback(String),
}

/// Something that changed, for the node to carry out.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A queue exists from now on: [`Catalogue::queue`] describes it.
    QueueCreated(QueueId),
    /// What is in force for a queue changed: its shard must know.
    QueueChanged(QueueId),
    /// A queue is gone, as it last was: its messages go, its consumers are cancelled.
    QueueDeleted(Box<QueueRecord>),
    /// The cluster has other nodes, or they are elsewhere.
    NodesChanged,
    /// An exchange exists from now on.
    ExchangeCreated {
        /// Its virtual host.
        vhost: Arc<str>,
        /// Its name.
        exchange: Arc<str>,
    },
    /// An exchange is gone, and what was kept for it with it; not told of those that go with their
    /// virtual host.
    ExchangeDeleted {
        /// Its virtual host.
        vhost: Arc<str>,
        /// Its name.
        exchange: Arc<str>,
    },
    /// A binding was made: an `x-recent-history` exchange sends what it remembers there.
    Bound {
        /// The virtual host.
        vhost: Arc<str>,
        /// The exchange that messages come from.
        source: Arc<str>,
        /// Where they go.
        destination: Endpoint,
    },
    /// A binding is gone by an unbinding; those that go with their exchange or queue are not named.
    Unbound {
        /// The virtual host.
        vhost: Arc<str>,
        /// The exchange that messages came from.
        source: Arc<str>,
        /// Where they went.
        destination: Endpoint,
    },
    /// A virtual host exists from now on.
    VhostCreated(Arc<str>),
    /// Description, tags, default type, protection, tracing or limits of a virtual host changed.
    VhostChanged(Arc<str>),
    /// A virtual host is gone, and its exchanges with it: its connections are closed. Its queues
    /// have been named before.
    VhostDeleted(Arc<str>),
    /// Password, tags, limits or permissions of a user changed.
    UserChanged(Arc<str>),
    /// A user is gone: its connections are closed.
    UserDeleted(Arc<str>),
}

/// What a command did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The queue that a `QueueDeclare` created or found.
    pub queue: Option<QueueId>,
    /// The node that a `NodeJoin` added or found.
    pub node: Option<NodeId>,
    /// Whether a declared thing is new: tells creation from finding it there.
    pub created: bool,
    /// What the node has to carry out, in this order.
    pub changes: Vec<Change>,
    /// What must be in the log before the change counts as durable, in this order: nothing if it
    /// need not survive a restart or nothing has changed. It is not always the command itself:
    /// defaults are written out, and a deletion that follows has its own entry.
    pub log: Vec<Command>,
    /// What the command has taken out of the catalogue as a whole.
    pub taken_out: TakenOut,
}

/// A virtual host with its bindings, which a command has taken out of the catalogue. To free that
/// takes as long as there are bindings in it: it is dropped when the catalogue is borrowed no more.
///
/// It says nothing of what has happened: any two are equal.
#[derive(Clone, Default)]
pub struct TakenOut(Option<Arc<Vhost>>);

impl TakenOut {
    pub(crate) fn vhost(vhost: Vhost) -> Self {
        Self(Some(Arc::new(vhost)))
    }

    /// Whether there is nothing to be freed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl fmt::Debug for TakenOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.as_ref().map(|vhost| vhost.name());
        f.debug_tuple("TakenOut").field(&name).finish()
    }
}

impl PartialEq for TakenOut {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// Where a dead-lettered message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadLetterTarget<'a> {
    /// The exchange; the default one has the empty name.
    pub exchange: &'a str,
    /// The routing key; without one the message keeps its own.
    pub routing_key: Option<&'a str>,
    /// Whether a message stays until it has arrived.
    pub at_least_once: bool,
}

/// Everything that is declared on the node.
#[derive(Debug)]
pub struct Catalogue {
    pub(crate) config: Config,
    pub(crate) vhosts: BTreeMap<String, Vhost>,
    pub(crate) users: BTreeMap<String, User>,
    pub(crate) global_parameters: BTreeMap<String, FieldValue>,
    /// Each in a place of its own: whoever takes one out of many moves a pointer.
    pub(crate) queues: HashMap<QueueId, Box<QueueRecord>, FixedState>,
    /// The exclusive ones of these, by the connections that they go with.
    pub(crate) exclusive: BTreeSet<(ConnectionId, QueueId)>,
    pub(crate) exchange_count: usize,
    /// The virtual hosts whose routers have bindings to unlink, and whether it is known to whoever
    /// sees to that.
    pub(crate) unlinking: BTreeSet<Arc<str>>,
    unlinking_begun: bool,
    pub(crate) argument_bytes: u64,
    /// Virtual hosts and queues that count for limits but are not here: of a copy in which an
    /// import is tried, which has only what that names.
    pub(crate) vhosts_elsewhere: usize,
    pub(crate) queues_elsewhere: usize,
    /// Whether bindings are elsewhere, of such a copy: those that it makes may be there, and count
    /// for nothing.
    pub(crate) bindings_elsewhere: bool,
    /// Numbers of the next queue that survives a restart, and of the next one that does not. The
    /// first is in snapshots.
    pub(crate) next_queue: u64,
    pub(crate) next_transient_queue: u64,
    pub(crate) generation: u64,
    /// Whether commands come from a log: then what followed from them comes from there as well.
    pub(crate) replaying: bool,
    pub(crate) cluster: Cluster,
    /// How many queues each node has.
    pub(crate) load: BTreeMap<u32, Load>,
    /// For whom the command at hand is carried out, in a cluster.
    pub(crate) circumstances: Option<Circumstances>,
}

impl Catalogue {
    /// A catalogue with nothing in it.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            vhosts: BTreeMap::new(),
            users: BTreeMap::new(),
            global_parameters: BTreeMap::new(),
            queues: HashMap::default(),
            exclusive: BTreeSet::new(),
            exchange_count: 0,
            unlinking: BTreeSet::new(),
            unlinking_begun: false,
            argument_bytes: 0,
            vhosts_elsewhere: 0,
            queues_elsewhere: 0,
            bindings_elsewhere: false,
            next_queue: 1,
            next_transient_queue: 1,
            generation: 0,
            replaying: false,
            cluster: Cluster::default(),
            load: BTreeMap::new(),
            circumstances: None,
        }
    }

    /// What a new node starts with: virtual host `/`, and an administrator who may do everything in
    /// it.
    #[must_use]
    pub fn defaults(user: &str, password: PasswordHash, vhost: &str) -> Vec<Command> {
        let everything = || ".*".to_owned();
        vec![
            Command::VhostPut {
                vhost: vhost.to_owned(),
                description: Some("Default virtual host".to_owned()),
                tags: None,
                default_queue_type: None,
                protected: None,
                tracing: None,
            },
            Command::UserPut {
                user: user.to_owned(),
                password: Some(password),
                tags: Some(vec!["administrator".to_owned()]),
            },
            Command::PermissionSet {
                vhost: vhost.to_owned(),
                user: user.to_owned(),
                configure: everything(),
                write: everything(),
                read: everything(),
            },
        ]
    }

    /// Checks a command and carries it out.
    ///
    /// # Errors
    /// What is wrong with it; nothing has changed then.
    pub fn apply(&mut self, command: &Command) -> Result<Outcome, CatalogueError> {
        self.check_argument_bytes(command)?;
        let outcome = self.dispatch(command)?;
        if !outcome.changes.is_empty() || !outcome.log.is_empty() {
            self.generation += 1;
        }
        Ok(outcome)
    }

    /// Carries out a command from the log or a snapshot: bounds that may have been lowered since do
    /// not count, and what followed from it is not derived again but comes from the log as well.
    ///
    /// # Errors
    /// If it does not fit what was replayed before.
    pub fn replay(&mut self, command: &Command) -> Result<(), CatalogueError> {
        self.replaying = true;
        let outcome = self.apply(command);
        self.replaying = false;
        while self.unlink(usize::MAX) {}
        outcome.map(drop)
    }

    /// Whether what was deleted has left bindings that [`Self::unlink`] is to take away, and this
    /// was not asked since: whoever asks sees to it.
    pub fn begin_to_unlink(&mut self) -> bool {
        !self.unlinking.is_empty() && !std::mem::replace(&mut self.unlinking_begun, true)
    }

    /// Takes up to `most` bindings of what was deleted out of the routing tables, which a deletion
    /// does itself where they are not many. Answers whether there are more. Nothing changes for
    /// anybody who looks or routes.
    pub fn unlink(&mut self, most: usize) -> bool {
        if let Some(name) = self.unlinking.first() {
            let vhost = self.vhosts.get_mut(&**name);
            if !vhost.is_some_and(|vhost| vhost.router.unlink(most)) {
                self.unlinking.pop_first();
            }
        }
        self.unlinking_begun &= !self.unlinking.is_empty();
        self.unlinking_begun
    }

    fn dispatch(&mut self, command: &Command) -> Result<Outcome, CatalogueError> {
        match command {
            Command::VhostPut { .. }
            | Command::VhostDelete { .. }
            | Command::VhostLimitSet { .. }
            | Command::VhostLimitClear { .. } => self.apply_to_vhost(command),
            Command::PolicySet { .. }
            | Command::PolicyClear { .. }
            | Command::ParameterSet { .. }
            | Command::ParameterClear { .. }
            | Command::GlobalParameterSet { .. }
            | Command::GlobalParameterClear { .. } => self.apply_to_parameters(command),
            Command::UserPut { .. }
            | Command::UserDelete { .. }
            | Command::UserLimitSet { .. }
            | Command::UserLimitClear { .. } => self.apply_to_user(command),
            Command::PermissionSet { .. }
            | Command::PermissionClear { .. }
            | Command::TopicPermissionSet { .. }
            | Command::TopicPermissionClear { .. } => self.apply_to_permissions(command),
            Command::ExchangeDeclare { .. }
            | Command::ExchangeDelete { .. }
            | Command::QueueDeclare { .. }
            | Command::QueueDelete { .. } => self.apply_to_topology(command),
            Command::Bind { .. } | Command::Unbind { .. } => self.apply_to_bindings(command),
            Command::SuperStreamDeclare { .. } => self.declare_super_stream(command),
            Command::NodeJoin { .. }
            | Command::NodeForget { .. }
            | Command::NodeStarted { .. }
            | Command::NodeLost { .. }
            | Command::NodeDrain { .. }
            | Command::NodePromote { .. }
            | Command::QueueMembers { .. }
            | Command::StreamLeader { .. }
            | Command::StreamMembers { .. }
            | Command::Look => self.apply_to_cluster(command),
        }
    }

    /// Whether the effect of a command would have to survive a restart.
    #[must_use]
    pub fn is_durable(&self, command: &Command) -> bool {
        match command {
            Command::ExchangeDeclare { durable, .. } => *durable,
            Command::QueueDeclare {
                durable, exclusive, ..
            } => *durable && exclusive.is_none(),
            Command::ExchangeDelete { vhost, name, .. } => self.is_exchange_durable(vhost, name),
            Command::QueueDelete { vhost, name, .. } => self.survives_restart(vhost, name),
            Command::Bind {
                vhost,
                source,
                destination,
                ..
            }
            | Command::Unbind {
                vhost,
                source,
                destination,
                ..
            } => self.is_binding_durable(vhost, source, destination),
            _ => true,
        }
    }

    fn is_exchange_durable(&self, vhost: &str, name: &str) -> bool {
        let exchange = self.vhost(vhost).and_then(|vhost| vhost.exchange(name));
        exchange.is_some_and(|exchange| exchange.durable)
    }

    fn survives_restart(&self, vhost: &str, queue: &str) -> bool {
        let queue = self.queue_by_name(vhost, queue);
        queue.is_some_and(QueueRecord::survives_restart)
    }

    /// Whether a binding between these would have to survive a restart.
    pub(crate) fn is_binding_durable(&self, vhost: &str, source: &str, to: &Endpoint) -> bool {
        self.is_exchange_durable(vhost, source)
            && match to {
                Endpoint::Queue(name) => self.survives_restart(vhost, name),
                Endpoint::Exchange(name) => self.is_exchange_durable(vhost, name),
            }
    }

    /// A number that grows whenever something changed that routing, permissions or settings depend
    /// on: what was derived under another generation may be wrong.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// The configuration.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    // --- lookups -------------------------------------------------------------------------------

    /// A virtual host.
    #[must_use]
    #[inline]
    pub fn vhost(&self, name: &str) -> Option<&Vhost> {
        self.vhosts.get(name)
    }

    /// All virtual hosts by name.
    pub fn vhosts(&self) -> impl ExactSizeIterator<Item = &Vhost> {
        self.vhosts.values()
    }

    /// The policies that apply to nothing, because their patterns would take too long: what each is
    /// called in texts. An earlier version took them, or definitions brought them.
    #[must_use]
    pub fn policies_too_costly(&self) -> Vec<String> {
        let of_vhost = |vhost: &'_ Vhost| -> Vec<String> {
            let users = vhost.policies().map(|policy| (false, policy));
            let operators = vhost.operator_policies().map(|policy| (true, policy));
            let costly = users.chain(operators);
            let costly = costly.filter(|(_, policy)| policy.pattern.is_too_costly());
            let called = costly
                .map(|(operator, policy)| policy::called(operator, &policy.name, vhost.name()));
            called.collect()
        };
        self.vhosts().flat_map(of_vhost).collect()
    }

    /// A queue.
    #[must_use]
    #[inline]
    pub fn queue(&self, id: QueueId) -> Option<&QueueRecord> {
        self.queues.get(&id).map(Box::as_ref)
    }

    /// A queue by virtual host and name.
    #[must_use]
    pub fn queue_by_name(&self, vhost: &str, name: &str) -> Option<&QueueRecord> {
        self.queue(self.vhost(vhost)?.queue_id(name)?)
    }

    /// All queues, or those of one virtual host, by virtual host and name.
    pub fn queues<'a>(&'a self, vhost: Option<&'a str>) -> impl Iterator<Item = &'a QueueRecord> {
        self.vhosts
            .values()
            .filter(move |candidate| vhost.is_none_or(|name| *candidate.name == *name))
            .flat_map(|vhost| vhost.queue_ids())
            .filter_map(|id| self.queue(id))
    }

    /// How many queues there are.
    #[must_use]
    pub fn queue_count(&self) -> usize {
        self.queues.len()
    }

    /// How many exchanges there are, default exchanges not counted.
    #[must_use]
    pub const fn exchange_count(&self) -> usize {
        self.exchange_count
    }

    /// The exclusive queues of a connection, which go with it, by their ids. Looks at no other
    /// queue.
    pub fn exclusive_queues(&self, connection: ConnectionId) -> Vec<&QueueRecord> {
        let of = (connection, QueueId(0))..=(connection, QueueId(u64::MAX));
        let ids = self.exclusive.range(of);
        ids.filter_map(|(_, id)| self.queue(*id)).collect()
    }

    /// A queue that a connection may use.
    ///
    /// # Errors
    /// 404 if there is none of that name, 405 if it is another connection's.
    pub fn usable_queue(
        &self,
        vhost: &str,
        name: &str,
        connection: ConnectionId,
    ) -> Result<&QueueRecord, CatalogueError> {
        let queue = self
            .queue_by_name(vhost, name)
            .ok_or_else(|| CatalogueError::NotFound {
                resource: resource("queue", name, vhost),
            })?;
        match queue.exclusive {
            Some(owner) if owner != connection => Err(CatalogueError::Locked {
                resource: queue.resource(),
            }),
            _ => Ok(queue),
        }
    }

    /// Checks a passive declaration of an exchange.
    ///
    /// # Errors
    /// 404 if there is none of that name, 403 for the default one.
    pub fn check_exchange(&self, vhost: &str, name: &str) -> Result<(), CatalogueError> {
        if name.is_empty() {
            return Err(CatalogueError::DefaultExchange);
        }
        match self.vhost(vhost).and_then(|vhost| vhost.exchange(name)) {
            Some(_) => Ok(()),
            None => Err(CatalogueError::NotFound {
                resource: resource("exchange", name, vhost),
            }),
        }
    }

    /// Type of durable queues that are declared without one in a virtual host.
    #[must_use]
    pub fn default_queue_kind(&self, vhost: &str) -> Option<QueueKind> {
        let of_vhost = self.vhost(vhost).and_then(Vhost::default_queue_type);
        of_vhost.or(self.config.default_queue_type)
    }

    /// Where a queue's dead messages go; nothing if they go nowhere.
    #[must_use]
    pub fn dead_letter_of<'a>(&self, queue: &'a QueueRecord) -> Option<DeadLetterTarget<'a>> {
        Some(DeadLetterTarget {
            exchange: queue.settings.dead_letter_exchange.as_deref()?,
            routing_key: queue.settings.dead_letter_routing_key.as_deref(),
            at_least_once: queue.settings.dead_letter_at_least_once,
        })
    }

    /// A user.
    #[must_use]
    pub fn user(&self, name: &str) -> Option<&User> {
        self.users.get(name)
    }

    /// All users by name.
    pub fn users(&self) -> impl ExactSizeIterator<Item = &User> {
        self.users.values()
    }

    /// All global parameters by name.
    pub fn global_parameters(&self) -> impl ExactSizeIterator<Item = (&str, &FieldValue)> {
        self.global_parameters
            .iter()
            .map(|(name, value)| (name.as_str(), value))
    }

    /// A global parameter.
    #[must_use]
    pub fn global_parameter(&self, name: &str) -> Option<&FieldValue> {
        self.global_parameters.get(name)
    }

    /// The names of the global parameters behind this one, or of all, in order.
    pub fn global_parameters_after(&self, last: Option<&str>) -> impl Iterator<Item = &str> {
        let start = last.map_or(Bound::Unbounded, Bound::Excluded);
        self.global_parameters
            .range::<str, _>((start, Bound::Unbounded))
            .map(|(name, _)| name.as_str())
    }

    /// What a user may do in a virtual host: nothing if either does not exist.
    #[must_use]
    pub fn rights(&self, user: &str, vhost: &str, client_id: &str) -> Rights {
        let permission = self.user(user).and_then(|user| user.permission(vhost));
        let topics = self.topic_permissions(user, vhost);
        Rights::new(user, vhost, permission.cloned(), topics, client_id)
    }

    /// Whether rights that were made earlier are what [`Self::rights`] would make now. It costs a
    /// look at the texts of the user's topic permissions, where to make them compiles each.
    #[must_use]
    pub fn is_current(&self, rights: &Rights) -> bool {
        let (user, vhost) = (rights.user(), rights.vhost());
        let permission = self.user(user).and_then(|user| user.permission(vhost));
        rights.is_made_of(permission, self.topic_permissions(user, vhost))
    }

    /// A user's topic permissions in a virtual host, with the exchange of each.
    fn topic_permissions(
        &self,
        user: &str,
        vhost: &str,
    ) -> impl Iterator<Item = (&str, &TopicPermission)> {
        let all = self.user(user).into_iter();
        let all = all.flat_map(|user| user.topic_permissions());
        all.filter(move |(of, ..)| *of == vhost)
            .map(|(_, exchange, topic)| (exchange, topic))
    }

    /// Lets a user in by password. `peer` is nothing for entrances that are this machine's own.
    ///
    /// With argon2id this takes a while: callers that hold a lock on the catalogue clone the hash
    /// and use [`leveret_auth::verify_login`] outside of it.
    ///
    /// # Errors
    /// Why not, for the log.
    pub fn login(
        &self,
        user: &str,
        password: &[u8],
        peer: Option<IpAddr>,
    ) -> Result<&User, LoginRefusal> {
        let record = self.user(user);
        let hash = record.map(User::password);
        if !verify_login(hash, password, self.config.hashing) {
            return Err(LoginRefusal::InvalidCredentials(user.to_owned()));
        }
        let found = record.ok_or_else(|| LoginRefusal::InvalidCredentials(user.to_owned()))?;
        self.check_loopback(user, peer)?;
        Ok(found)
    }

    /// Whether a user may log in from this address.
    ///
    /// # Errors
    /// If it is bound to this machine and the address is not.
    pub fn check_loopback(&self, user: &str, peer: Option<IpAddr>) -> Result<(), LoginRefusal> {
        let bound = self.config.loopback_users.iter().any(|name| name == user);
        if bound && !peer.is_none_or(is_loopback) {
            return Err(LoginRefusal::NotLoopback(user.to_owned()));
        }
        Ok(())
    }

    /// Whether a user may open one more connection to a virtual host, given how many there are of
    /// each.
    ///
    /// # Errors
    /// 530 NOT_ALLOWED with the limit that is reached, or because the virtual host does not exist
    /// or is not open to the user.
    pub fn check_open(
        &self,
        user: &str,
        vhost: &str,
        vhost_connections: usize,
        user_connections: usize,
    ) -> Result<(), ProtocolError> {
        let record = self
            .vhost(vhost)
            .ok_or_else(|| CatalogueError::NoVhost(vhost.to_owned()))?;
        if let Some(limit) = record
            .limit("max-connections")
            .filter(|l| reached(*l, vhost_connections))
        {
            let (vhost, user) = (vhost.to_owned(), user.to_owned());
            return Err(CatalogueError::ConnectionLimitOfVhost { vhost, user, limit }.into());
        }
        let user_limit = self
            .user(user)
            .and_then(|user| user.limit("max-connections"));
        if let Some(limit) = user_limit.filter(|limit| reached(*limit, user_connections)) {
            return Err(CatalogueError::ConnectionLimitOfUser {
                user: user.to_owned(),
                limit,
            }
            .into());
        }
        self.rights(user, vhost, "").check_vhost()
    }

    /// Whether a user may open one more channel, given how many it has on all its connections.
    ///
    /// # Errors
    /// 530 NOT_ALLOWED with the limit.
    pub fn check_channel(&self, user: &str, channels: usize) -> Result<(), ProtocolError> {
        let limit = self.user(user).and_then(|user| user.limit("max-channels"));
        match limit.filter(|limit| reached(*limit, channels)) {
            Some(limit) => Err(CatalogueError::ChannelLimitOfUser {
                user: user.to_owned(),
                limit,
            }
            .into()),
            None => Ok(()),
        }
    }
}

/// Whether one more would be too many.
pub(crate) fn reached(limit: i64, count: usize) -> bool {
    i64::try_from(count).is_ok_and(|count| count >= limit)
}
