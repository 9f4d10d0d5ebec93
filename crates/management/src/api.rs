//! What the HTTP API needs of a node, as a trait of plain values: the shell implements it, a test
//! fakes it.
//!
//! Every call may block for as long as the node needs (a write waits for the disk), and is made
//! from a thread that may be blocked. All counters count from the node's start and never go back;
//! rates are this crate's affair.

pub(crate) mod messages;
mod stats;

use crate::cluster::view::{ClusterChange, ClusterView};
use crate::directory::Queue;
pub use crate::disk::values::{DiskUse, QueueDiskUse};
pub use crate::flows::{FlowStats, FlowsOf, PublishedStats};
pub use crate::held::{HeldAt, HeldLook, Holder, UnsettledMessage};
pub use crate::move_messages::{Move, MoveEnd, MoveMessages};
use crate::question::Question;
pub use crate::streams::start::{Browse, StreamStart};
pub use crate::streams::stats::{
    Browsed, STREAM_ERROR_CODES, StreamConsumerStats, StreamGroup, StreamGroups, StreamMessage,
    StreamProtocolStats, StreamPublisherStats, StreamStanding, StreamTracking,
};
use leveret_auth::{Access, LoginSources};
use leveret_types::{ConnectionId, FieldTable, NodeId, ProtocolError, QueueId};
pub use messages::{Got, LookedAt};
use serde_json::Value;
pub use stats::{
    BrokerStats, ChannelStats, Churn, ConnectionStats, ConsumerStats, DamagedQueue, Descriptors,
    DiskSpace, IO_SYNC_SLOTS, IoStats, Latencies, Listener, LoginCounts, MemoryStats, MemoryUse,
    MessageCounters, NodeFiles, NodeStats, OpenCounts, QueueStats, ReplicaStats, ReplicaSums,
    SpanCounts,
};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::oneshot;

/// On whose behalf something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor<'a> {
    /// The operator at this machine, by the command line's token: may do everything.
    Operator,
    /// A user: permissions hold.
    User(&'a str),
}

/// A login by name and password.
#[derive(Clone, Copy, Debug)]
pub struct Login<'a> {
    /// Name of the user.
    pub user: &'a str,
    /// The password.
    pub password: &'a str,
    /// Where it comes from: some users may log in from this machine only.
    pub from: IpAddr,
}

/// A change to what is declared, as the AMQP method of the same name makes it. Permissions of the
/// actor are the node's affair.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // The fields are those of the AMQP methods of the same names.
pub enum Topology {
    DeclareExchange {
        name: String,
        kind: String,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: FieldTable,
    },
    DeleteExchange {
        name: String,
        if_unused: bool,
    },
    DeclareQueue {
        name: String,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
        arguments: FieldTable,
    },
    DeleteQueue {
        name: String,
        if_unused: bool,
        if_empty: bool,
    },
    PurgeQueue {
        name: String,
    },
    Bind(Binding),
    Unbind(Binding),
}

/// A binding, in the words of AMQP.
#[derive(Clone, Debug, PartialEq)]
pub struct Binding {
    /// The exchange that messages come from.
    pub source: String,
    /// What they go to.
    pub destination: String,
    /// Whether that is a queue (and not an exchange).
    pub to_queue: bool,
    /// Routing key.
    pub routing_key: String,
    /// Arguments.
    pub arguments: FieldTable,
}

/// What became of a change to what is declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Whether something was created that was not there: by this change, and no other one.
    pub created: bool,
    /// The queue that was declared.
    pub queue: Option<QueueId>,
    /// How many messages went, of a purge or a deletion.
    pub messages: u64,
}

/// A message to publish.
#[derive(Clone, Debug, PartialEq)]
pub struct Publish {
    /// Exchange.
    pub exchange: String,
    /// Routing key.
    pub routing_key: String,
    /// Properties by RabbitMQ's names (`content_type`, `headers`, `delivery_mode`...).
    pub properties: FieldTable,
    /// Body.
    pub payload: Vec<u8>,
}

/// What became of a message that was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// There is no queue for it.
    Nowhere,
    /// A queue that it goes to does not take it: it is full, and refuses publishes.
    Refused,
    /// All queues that it goes to have it.
    ByAll,
}

/// How messages are to be got from a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get {
    /// How many at most.
    pub count: u32,
    /// Bytes of each body that are wanted.
    pub shown: usize,
    /// No further one is got when so many bytes have been.
    pub bytes: usize,
    /// What becomes of them.
    pub then: AfterGet,
}

/// What becomes of a message that was got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterGet {
    /// It is accepted: it is gone.
    Accept,
    /// It is requeued as a consumer's `nack` would, marked redelivered.
    Requeue,
    /// It is rejected: dropped or dead-lettered.
    Reject,
}

/// A level of memory or of disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Level {
    /// A part (or a multiple) of the machine's memory.
    Relative(f64),
    /// Bytes.
    Absolute(u64),
}

/// What became of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginVerdict {
    /// The user is let in.
    Right,
    /// Wrong password, no such user, or not from there.
    Wrong,
    /// Too many others wait.
    Busy,
}

/// Logins by name and password over HTTP: each request that brings a password is one.
#[derive(Debug, Default)]
pub(crate) struct LoginTally {
    pub(crate) succeeded: AtomicU64,
    pub(crate) failed: AtomicU64,
}

/// A message that is kept back by a delayed exchange.
#[derive(Clone, Debug, PartialEq)]
pub struct DelayedMessage {
    /// When it is due, in milliseconds since the Unix epoch.
    pub due_ms: u64,
    /// Its place among those that its node keeps back.
    pub index: u64,
    /// Its virtual host.
    pub vhost: String,
    /// The message.
    pub message: Got,
}

/// Who waits to hear what became of a login.
#[derive(Debug)]
pub struct LoginAnswer {
    sender: oneshot::Sender<LoginVerdict>,
    tally: Arc<LoginTally>,
}

impl LoginAnswer {
    /// One who waits, and where the answer comes out. What became of it is counted also if its
    /// client has hung up by then.
    pub(crate) fn new(tally: Arc<LoginTally>) -> (Self, oneshot::Receiver<LoginVerdict>) {
        let (sender, answered) = oneshot::channel();
        (Self { sender, tally }, answered)
    }

    /// Whether anybody still waits: a client that hung up does not.
    #[must_use]
    pub fn waits(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Tells what became of it.
    pub fn tell(self, verdict: LoginVerdict) {
        match verdict {
            LoginVerdict::Right => self.tally.succeeded.fetch_add(1, Ordering::Relaxed),
            LoginVerdict::Wrong => self.tally.failed.fetch_add(1, Ordering::Relaxed),
            LoginVerdict::Busy => 0,
        };
        // Whoever asked may have gone.
        let _ = self.sender.send(verdict);
    }
}

/// A connection with what is in it.
#[derive(Clone, Debug, Default)]
pub struct ConnectionContent {
    /// The connection.
    pub connection: ConnectionStats,
    /// Its channels, in no order.
    pub channels: Vec<ChannelStats>,
    /// Its consumers, in no order; none where it is shown without.
    pub consumers: Vec<ConsumerStats>,
    /// What its channels have published, by channel and exchange.
    pub published: Vec<PublishedStats>,
}

/// Waits for what other nodes answer; who drops it does not.
pub type Answers = Box<dyn FnOnce() -> Vec<(NodeId, Vec<u8>)> + Send>;

/// The part of a node that has nothing to do with the catalogue.
pub trait Running: Send + Sync + 'static {
    /// Whether this user may log in: password, loopback. The check of a slow password waits for its
    /// turn and is told from another thread; it is not run if nobody waits for it by then.
    fn authenticate(&self, login: Login<'_>, answer: LoginAnswer);
    /// Logins by where they come from, over all protocols.
    fn login_sources(&self) -> &LoginSources;
    /// Whether somebody has logged in from this address of late, over whatever protocol.
    fn is_familiar(&self, _address: IpAddr) -> bool {
        false
    }
    /// Whether other nodes may know what this one has not heard of yet.
    fn is_clustered(&self) -> bool {
        false
    }
    /// Waits until this node has seen all that its cluster has agreed on by now, for a bounded
    /// time. False where that cannot be: this node knows as much as it ever will, or too little is
    /// known.
    fn pass_read_barrier(&self) -> bool {
        false
    }
    /// What the node is and how it is.
    fn node_stats(&self) -> NodeStats;
    /// Its name, which takes no look at how it is.
    fn name(&self) -> String {
        self.node_stats().name
    }
    /// Counters of the whole node.
    fn broker_stats(&self) -> BrokerStats;
    /// Where the node's memory is.
    fn memory(&self) -> MemoryStats {
        MemoryStats::default()
    }
    /// What its clients have open of users and virtual hosts that have a limit on it, as another
    /// node of its kind reads it.
    fn limited_counts(&self) -> Value {
        Value::Null
    }
    /// Says of each queue that is led here its figures, in no order, but for tags of consumers. Few
    /// are copied at a time.
    fn each_led(&self, see: &mut dyn FnMut(QueueStats));
    /// One queue; none where it is gone.
    fn queue(&self, queue: QueueId) -> Option<QueueStats>;
    /// Those of these queues that are here, in no order.
    fn queues_of(&self, queues: &[QueueId]) -> Vec<QueueStats> {
        queues.iter().filter_map(|id| self.queue(*id)).collect()
    }
    /// The queues in which something happened since this was asked last, each with its virtual
    /// host, in no order; no more than are sampled. Who samples asks.
    fn active_queues(&self) -> Vec<(String, QueueStats)> {
        Vec::new()
    }
    /// Says of each queue that this node leads and that is not empty its virtual host, and how many
    /// messages it has: all, those that wait, those that are not settled.
    fn depths(&self, _see: &mut dyn FnMut(&str, [u64; 3])) {}
    /// Shows each connection that has logged in, with what is in it, in no order. No thread of the
    /// node works for many of them at once, and none is held when it has been shown.
    fn each_connection(&self, see: &mut dyn FnMut(ConnectionContent));
    /// Those of these connections that are there, in no order, without their consumers.
    fn connections_of(&self, ids: &[ConnectionId]) -> Vec<ConnectionContent>;
    /// Those of these consumers that are there, named by their connections and on these: each
    /// connection with those alone, and without its channels.
    fn consumers_by_id(&self, consumers: &[(ConnectionId, u64)]) -> Vec<ConnectionContent>;
    /// The connection of that name, without its consumers; none where it has not logged in or is
    /// gone.
    fn connection(&self, name: &str) -> Option<ConnectionContent>;
    /// The consumers of a connection, in no order.
    fn consumers_on(&self, connection: ConnectionId) -> Vec<ConsumerStats>;
    /// What came to queues from exchanges, in no order. What connections have gathered is in it
    /// once they have been looked at.
    fn flows(&self, _of: FlowsOf<'_>) -> Vec<FlowStats> {
        Vec::new()
    }
    /// Consumers of a queue, no more than so many, each with its connection, in no order.
    fn consumers_of(
        &self,
        queue: QueueId,
        at_most: usize,
    ) -> Vec<(Arc<ConnectionStats>, ConsumerStats)>;
    /// All publishers of the stream protocol, in no order.
    fn stream_publishers(&self) -> Vec<StreamPublisherStats> {
        Vec::new()
    }
    /// All subscriptions of the stream protocol, in no order.
    fn stream_consumers(&self) -> Vec<StreamConsumerStats> {
        Vec::new()
    }
    /// What a stream keeps by name; none if it is not here.
    fn stream_tracking(&self, _stream: QueueId) -> Option<StreamTracking> {
        None
    }
    /// Stores an offset in a stream for a consumer's name; false if the stream is not here, or the
    /// name is none of a consumer.
    fn store_stream_offset(&self, _stream: QueueId, _name: &str, _offset: u64) -> bool {
        false
    }
    /// The groups of streams whose offsets this node keeps: of all that have any, or of one stream,
    /// whether it has any or not.
    fn stream_groups(&self, _only: Option<QueueId>) -> Vec<StreamGroups> {
        Vec::new()
    }
    /// Stores an offset for a group, and answers which. None where the stream's offsets are not
    /// kept here.
    ///
    /// # Errors
    /// Why it cannot be, for an operator.
    fn set_stream_group(
        &self,
        _stream: QueueId,
        _name: &str,
        _to: StreamStart,
    ) -> Option<Result<u64, String>> {
        None
    }
    /// Has the consumers of a group that are connected to this node go on behind an offset, which
    /// was stored.
    fn move_stream_group(&self, _stream: &Queue, _name: &str, _offset: u64) {}
    /// Forgets the offset of a group: whether there was one. None where the stream's offsets are
    /// not kept here.
    fn forget_stream_group(&self, _stream: QueueId, _name: &str) -> Option<bool> {
        None
    }
    /// Shows messages of a stream, and leaves all as it is; none where nothing of it is here.
    fn browse_stream(
        &self,
        _actor: Actor<'_>,
        _vhost: &str,
        _stream: &str,
        _browse: &Browse,
    ) -> Result<Option<Browsed>, ProtocolError> {
        Ok(None)
    }
    /// Gives a stream that this node leads a replica on another node, or takes that one away; false
    /// where this node does not lead it.
    ///
    /// # Errors
    /// Why nothing changes, for an operator.
    fn change_stream_replica(
        &self,
        _stream: QueueId,
        _node: &str,
        _adds: bool,
    ) -> Result<bool, String> {
        Ok(false)
    }
    /// Closes a connection with 320 and this reason; false where it is gone.
    fn close_connection(&self, connection: ConnectionId, reason: &str) -> bool;
    /// Changes what is declared; durable when it returns.
    fn change(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        change: Topology,
    ) -> Result<Changed, ProtocolError>;
    /// Deletes a queue, whatever it holds, if it is this one: another one that has come to its name
    /// stays. Durable when it returns.
    fn delete_this_queue(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        name: &str,
        queue: QueueId,
    ) -> Result<(), ProtocolError>;
    /// Whether the actor has this permission on queues of that name.
    ///
    /// # Errors
    /// If not, as the actor is told.
    fn permit_queue(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        access: Access,
        queue: &str,
    ) -> Result<(), ProtocolError>;
    /// Publishes, and says what became of the message; durable when it returns.
    fn publish(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        message: Publish,
    ) -> Result<Taken, ProtocolError>;
    /// Gets messages from a queue.
    fn get(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        queue: &str,
        get: Get,
    ) -> Result<Vec<Got>, ProtocolError>;
    /// Looks at the ready message of a queue that has so many before it, and leaves it there.
    fn peek(
        &self,
        _actor: Actor<'_>,
        _vhost: &str,
        _queue: &str,
        _before: u64,
    ) -> Result<Option<Got>, ProtocolError> {
        Ok(None)
    }
    /// Looks at ready messages of a queue, from the one on that has so many before it, and leaves
    /// them there: so many, fewer where they are large or no more are there.
    ///
    /// # Errors
    /// If there is no such queue, the actor may not read it, it has no leader, or
    /// ([`leveret_types::ReplyCode::PreconditionFailed`]) the first of them cannot be read.
    fn look(
        &self,
        _actor: Actor<'_>,
        _vhost: &str,
        _queue: &str,
        _before: u64,
        _count: usize,
    ) -> Result<Vec<LookedAt>, ProtocolError> {
        Ok(Vec::new())
    }
    /// Looks at messages of a queue that clients hold, and leaves them there: those of one holder
    /// after those of another, in the order of the queue; fewer than are wanted where they are
    /// large. None where this node does not lead the queue.
    ///
    /// # Errors
    /// If there is no such queue, or the actor may not read it.
    fn held_messages(
        &self,
        _actor: Actor<'_>,
        _vhost: &str,
        _queue: &str,
        _look: &HeldLook,
    ) -> Result<Option<Vec<UnsettledMessage>>, ProtocolError> {
        Ok(None)
    }
    /// Who of this node's clients holds which of these messages.
    fn holders(&self, _held: &[HeldAt]) -> Vec<Holder> {
        Vec::new()
    }
    /// The consumers of this tag that clients of this node have at a queue, by the numbers under
    /// which they hold messages.
    fn consumers_tagged(&self, _queue: QueueId, _tag: &str) -> Vec<u64> {
        Vec::new()
    }
    /// Begins to move messages of a queue.
    ///
    /// # Errors
    /// If there is no such queue, the actor may not do so, or too many moves run.
    fn begin_move(
        &self,
        _actor: Actor<'_>,
        _vhost: &str,
        _queue: &str,
        _wanted: MoveMessages,
    ) -> Result<Move, ProtocolError> {
        Ok(Move::default())
    }
    /// The moves that run on this node, or did lately, oldest first.
    fn moves(&self) -> Vec<Move> {
        Vec::new()
    }
    /// Stops a move behind the messages that are under way; whether this node knows it.
    fn stop_move(&self, _number: u64) -> bool {
        false
    }
    /// How many messages delayed exchanges of this node keep back, and some of them by when they
    /// are due: the first from that moment and place on.
    fn delayed(&self, _from: (u64, u64), _most: usize) -> (u64, Vec<DelayedMessage>) {
        (0, Vec::new())
    }
    /// Drops such a message; whether it was there. Durable when it returns.
    ///
    /// # Errors
    /// If the log does not take it.
    fn cancel_delayed(&self, _due_ms: u64, _index: u64) -> Result<bool, ProtocolError> {
        Ok(false)
    }
    /// What this node has on its disk.
    fn disk(&self) -> DiskUse {
        DiskUse::default()
    }
    /// The configuration in force, key by key; secrets are hidden.
    fn configuration(&self) -> Vec<(String, String)> {
        Vec::new()
    }
    /// Replicated queues that have no leader, as virtual host and name.
    fn leaderless_queues(&self) -> Vec<(String, String)> {
        Vec::new()
    }
    /// Replicated queues that would lose their majority with this node.
    fn critical_queues(&self) -> Vec<(String, String)> {
        Vec::new()
    }
    /// How the replica of a queue stands that is here; none if there is none.
    fn replica(&self, _queue: QueueId) -> Option<ReplicaStats> {
        None
    }
    /// The queues of which something cannot be read on this node.
    fn damaged_queues(&self) -> Vec<DamagedQueue> {
        Vec::new()
    }
    /// The node that leads a replicated queue, as far as is known here.
    fn queue_leader(&self, _queue: QueueId) -> Option<NodeId> {
        None
    }
    /// Whether a node of the cluster is up, seen from here.
    fn is_up(&self, _node: NodeId) -> bool {
        true
    }
    /// The cluster; none of a node alone.
    fn cluster(&self) -> Option<ClusterView> {
        None
    }
    /// Does something to the cluster; answers how many queues it concerns.
    ///
    /// # Errors
    /// Why not, for the operator.
    fn change_cluster(&self, _change: &ClusterChange) -> Result<usize, String> {
        Err("this node is in no cluster".to_owned())
    }
    /// Asks the other nodes of the cluster that are up, each of which answers as
    /// [`answer`](crate::answers::answer) does; who does not in time is left out.
    fn ask_peers(&self, _question: &Question) -> Vec<(NodeId, Vec<u8>)> {
        Vec::new()
    }
    /// The same of some of the nodes.
    fn ask_nodes(&self, _nodes: &[NodeId], _question: &Question) -> Vec<(NodeId, Vec<u8>)> {
        Vec::new()
    }
    /// Asks the other nodes, or some of them, and does not wait: who wants the answers does.
    fn begin_asking(&self, only: Option<&[NodeId]>, question: &Question) -> Answers {
        let answers = match only {
            None => self.ask_peers(question),
            Some(nodes) => self.ask_nodes(nodes, question),
        };
        Box::new(move || answers)
    }
    /// How many nodes the cluster has, and how many it is to have.
    fn cluster_size(&self) -> (usize, usize) {
        (1, 1)
    }
    /// Sets the memory above which publishers are held back, until the next start.
    fn set_memory_watermark(&self, level: Level);
    /// Sets the free space below which publishers are held back, until the next start.
    fn set_disk_limit(&self, level: Level);
    /// Takes clients, or closes all connections and takes none.
    fn set_serving(&self, serving: bool);
    /// Lets clients connect, or no new ones; connections that are open go on.
    ///
    /// # Errors
    /// Why not, for the operator.
    fn set_listening(&self, _listen: bool) -> Result<(), String> {
        Err("this node has no listeners that can be suspended".to_owned())
    }
    /// Has the log take lines of this level (`debug`, `info`, `warning`, `error`, `none`) and
    /// graver ones, until the next start.
    ///
    /// # Errors
    /// Why not, for the operator.
    fn set_log_level(&self, _level: &str) -> Result<(), String> {
        Err("this node has no log".to_owned())
    }
    /// Puts the log file away, or opens it anew where somebody has moved it.
    ///
    /// # Errors
    /// Why not, for the operator.
    fn rotate_logs(&self) -> Result<(), String> {
        Err("this node has no log file".to_owned())
    }

    /// Writes to the log for good that somebody has changed something, or, with the reason, that
    /// it was refused. For what [`Running::change`] and the catalogue's directory do not write
    /// down.
    fn note_change(&self, _by: &str, _operation: &str, _object: &str, _refused: Option<&str>) {}

    /// Begins to stop the node; returns at once.
    fn stop(&self);
}
