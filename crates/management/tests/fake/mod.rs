//! A node at the trait seam: a few tables in memory, and a record of what was asked.

#[allow(dead_code)] // Most tests have no cluster.
pub mod cluster;
mod counts;
#[allow(dead_code)] // Most tests hold up nobody.
pub mod gate;
pub mod kept;
mod known;
mod usual;

pub use cluster::Group;
use cluster::Member;
use gate::Gate;
use kept::{Imported, KeptBack};
use known::*;
use leveret_auth::{Access, LoginSources};
use leveret_management::api::*;
use leveret_management::cluster::{ClusterChange, ClusterNode, ClusterView};
use leveret_management::directory::*;
use leveret_management::question::Question;
use leveret_metadata::{
    Command, Definitions, GlobalParameterDefinition, Json, ParameterDefinition,
    PermissionDefinition, PolicyDefinition, TopicPermissionDefinition,
};
use leveret_types::{
    ConnectionId, FieldTable, FieldValue, LatencyCounts, NodeId, ProtocolError, QueueId, ReplyCode,
};
use serde_json::Value;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// The node. What it is asked to change stands in `asked`, one line each.
#[derive(Default)]
pub struct Fake {
    pub asked: Mutex<Vec<String>>,
    /// Whether somebody has logged in from wherever a client comes from.
    pub is_familiar: AtomicBool,
    pub alarm: Mutex<bool>,
    pub stopped: Mutex<bool>,
    pub counters: Mutex<MessageCounters>,
    pub group: Mutex<Option<Group>>,
    /// How many queues there are besides the usual ones.
    pub more_queues: AtomicU64,
    /// How many exchanges there are in `other` besides the usual ones, and bindings in `/`.
    pub more_exchanges: AtomicU64,
    pub more_bindings: AtomicU64,
    /// How many policies, parameters and global parameters there are in `/` besides the usual ones,
    /// and consumers of the first connection: all with these arguments.
    pub more_settings: AtomicU64,
    pub more_consumers: AtomicU64,
    /// Consumers that were copied.
    pub consumers_copied: AtomicU64,
    /// The arguments of these bindings, and of the queues that are there besides the usual ones.
    pub arguments: Mutex<FieldTable>,
    /// How many connections there are besides the usual ones.
    pub more_connections: AtomicU64,
    /// What the first connection has published to `x`: all but one message went into `q`.
    pub published: AtomicU64,
    /// Of how many queues, exchanges, bindings or connections a row has been made.
    pub rows_made: AtomicU64,
    /// How often the figures of all queues have been asked for: nobody is told while this is held.
    pub all_asked: AtomicU64,
    /// How often the records of all queues have been copied.
    pub all_copied: AtomicU64,
    /// The most queues whose records were asked for at once.
    pub most_at_once: AtomicU64,
    /// Whoever asks for records of queues comes by it.
    pub gate: Gate,
    /// Shut where the cluster has no majority.
    pub change_gate: Gate,
    pub all_held: Mutex<()>,
    /// How often all connections have been walked over.
    pub walks: AtomicU64,
    /// How often some queues' figures, or some connections, have been asked for.
    pub stats_asked: AtomicU64,
    /// Queues in which something happened, for whoever samples.
    pub active: Mutex<Vec<(String, QueueStats)>>,
    /// Whether there is a stream `s` in `/`, with a client that publishes and two that read.
    pub has_stream: AtomicBool,
    /// Whether another node leads that stream, of which this one has a replica.
    pub stream_follows: AtomicBool,
    /// What other nodes tell of queues, beside what they do of the group.
    pub told_elsewhere: Mutex<Vec<(NodeId, String)>>,
    /// A queue that cannot be declared.
    pub refused_queue: Mutex<Option<String>>,
    /// A queue or exchange that is not there when it is looked for and is when it is declared.
    pub made_meanwhile: Mutex<Option<String>>,
    /// A queue that nobody has permissions on, where they are asked for by name.
    pub kept_queue: Mutex<Option<String>>,
    /// What delayed exchanges keep back, by when it is due.
    pub kept_back: KeptBack,
    /// Messages that wait in queues, and the one from which on none can be read.
    pub waiting: Mutex<Vec<LookedAt>>,
    pub unreadable_from: Mutex<Option<usize>>,
    /// Messages that clients hold, where this node leads their queue, and who of its clients holds
    /// which.
    pub held: Mutex<Option<Vec<UnsettledMessage>>>,
    pub holders: Mutex<Vec<Holder>>,
    /// Why it cannot be read, where that is not the message's fault.
    pub look_error: Mutex<Option<ReplyCode>>,
    /// A user who is not as usual, or is gone.
    pub other_user: Mutex<Option<(String, Option<User>)>>,
    /// Whether nobody has permissions in any virtual host.
    pub has_no_permissions: AtomicBool,
    /// Logins by where they come from, and those with the password "slow", which wait.
    pub login_sources: LoginSources,
    pub logins: Mutex<Vec<LoginAnswer>>,
    /// How long confirms over AMQP and over the stream protocol took, acknowledgements, and first
    /// deliveries.
    pub latencies: Mutex<[LatencyCounts; 4]>,
    /// Its place in a cluster.
    pub member: Member,
    /// Whether it is in a cluster.
    pub is_clustered: AtomicBool,
    /// Whether another node has just declared the queues, and made the user `management` and the
    /// virtual host `other`: this one hears of that behind a read barrier.
    pub is_behind: AtomicBool,
    /// Read barriers that it was asked for.
    pub barriers: AtomicU64,
}

const GROUP_NODES: [(NodeId, &str); 3] = [
    (NodeId(1), "leveret@burrow"),
    (NodeId(2), "leveret@form"),
    (NodeId(3), "leveret@warren"),
];

/// The number of the first binding besides the usual ones.
const MORE_BINDINGS: u32 = 1_000;

/// The id of a queue that is declared.
const MADE: QueueId = QueueId(77);

/// Each user's password is its name, and its tag too.
pub const USERS: [&str; 5] = [
    "administrator",
    "monitoring",
    "policymaker",
    "management",
    "nobody",
];

pub fn user(name: &str) -> User {
    User {
        name: name.to_owned(),
        tags: vec![name.to_owned()],
        password_hash: "hash".to_owned(),
        hashing_algorithm: "rabbit_password_hashing_sha256".to_owned(),
        limits: vec![("max-channels".to_owned(), 7)],
    }
}

/// The stream that there may be.
pub const STREAM: QueueId = QueueId(8).of_stream();

impl Fake {
    fn more_connections(&self) -> std::ops::Range<u64> {
        1_000..1_000 + self.more_connections.load(Relaxed)
    }

    /// Figures of the queues that are led here.
    fn known_queues(&self) -> Vec<QueueStats> {
        let more = self.more_queues().map(more_stats);
        let more = more.filter(|queue| self.member.leads(queue.id));
        self.usual_queues().into_iter().chain(more).collect()
    }

    fn usual_queues(&self) -> Vec<QueueStats> {
        let follower = self.group().map(|_| QueueStats {
            id: QueueId(9),
            follows: true,
            ..QueueStats::default()
        });
        [(1, 4), (2, 0), (3, 9)]
            .into_iter()
            .map(|(id, ready)| QueueStats {
                id: QueueId(id),
                ready,
                unacknowledged: 1,
                messages: *self.counters.lock().unwrap(),
                ..QueueStats::default()
            })
            .chain(follower)
            .chain(self.has_stream().then(|| QueueStats {
                follows: self.stream_follows.load(Relaxed),
                ..stream_stats()
            }))
            .filter(|queue| self.member.leads(queue.id))
            .collect()
    }

    fn known_connections(&self) -> Vec<ConnectionStats> {
        let stream = (3, "management", "/", "stream");
        let amqp = [(1, "management", "/"), (2, "administrator", "other")];
        let amqp = amqp.map(|(id, user, vhost)| (id, user, vhost, "AMQP 0-9-1"));
        let amqp = amqp.into_iter().filter(|_| self.member.has_usual());
        amqp.chain(self.has_stream().then_some(stream))
            .map(|(id, user, vhost, protocol)| ConnectionStats {
                id: ConnectionId(id),
                protocol,
                name: format!("127.0.0.1:{id} -> 127.0.0.1:5672"),
                user: user.to_owned(),
                vhost: vhost.to_owned(),
                state: ["running", "blocked"][usize::from(*self.alarm.lock().unwrap())],
                client_properties: [("product", FieldValue::text("<script>"))].into(),
                ..ConnectionStats::default()
            })
            .collect()
    }
}

impl Running for Fake {
    fn authenticate(&self, login: Login<'_>, answer: LoginAnswer) {
        let known = USERS.contains(&login.user) && !self.is_unheard("management", login.user);
        let right = known && login.user == login.password;
        note(&self.login_sources, login, right);
        match login.password {
            "slow" => self.logins.lock().expect("logins").push(answer),
            _ if right => answer.tell(LoginVerdict::Right),
            _ => answer.tell(LoginVerdict::Wrong),
        }
    }

    fn is_clustered(&self) -> bool {
        self.is_clustered.load(Relaxed)
    }

    fn pass_read_barrier(&self) -> bool {
        self.barriers.fetch_add(1, Relaxed);
        self.is_behind.store(false, Relaxed);
        true
    }

    fn login_sources(&self) -> &LoginSources {
        &self.login_sources
    }
    fn is_familiar(&self, _: IpAddr) -> bool {
        self.is_familiar.load(Relaxed)
    }

    fn node_stats(&self) -> NodeStats {
        NodeStats {
            name: match self.member.share {
                None | Some((0, _)) => "leveret@burrow".to_owned(),
                Some((part, _)) => format!("leveret@burrow-{part}"),
            },
            cluster_name: "hares".to_owned(),
            cluster_id: "id-1".to_owned(),
            memory: MemoryUse {
                alarm: *self.alarm.lock().unwrap(),
                ..MemoryUse::default()
            },
            descriptors: Descriptors {
                max: 1_024,
                ..Descriptors::default()
            },
            files: NodeFiles {
                config: vec!["/etc/leveret.toml".into()],
                ..NodeFiles::default()
            },
            mechanisms: vec!["PLAIN", "EXTERNAL"],
            plugins: &["rabbitmq_stream"],
            tags: [vec![("region".to_owned(), "eu".to_owned())], Vec::new()],
            listeners: vec![Listener {
                protocol: "amqp",
                address: "127.0.0.1:5672".parse().unwrap(),
            }],
            serving: !*self.stopped.lock().unwrap(),
            io: io(),
            certificates: vec![("/c.pem".into(), 0)],
            ..NodeStats::default()
        }
    }

    fn broker_stats(&self) -> BrokerStats {
        let (messages, latencies) = (self.counters.lock(), self.latencies.lock());
        counts::of_node(*messages.unwrap(), *latencies.unwrap(), self.has_stream())
    }

    fn look(
        &self,
        _: Actor<'_>,
        _: &str,
        queue: &str,
        before: u64,
        count: usize,
    ) -> Result<Vec<LookedAt>, ProtocolError> {
        let waiting = self.waiting.lock().unwrap();
        let unreadable = self.unreadable_from.lock().unwrap();
        let first = usize::try_from(before).unwrap_or(usize::MAX);
        let end = unreadable.unwrap_or(waiting.len());
        if unreadable.is_some_and(|at| at == first) {
            let text = format!("a message of '{queue}' cannot be read");
            let code = *self.look_error.lock().unwrap();
            let code = code.unwrap_or(ReplyCode::PreconditionFailed);
            return Err(ProtocolError::channel(code, text));
        }
        let end = if first > end { waiting.len() } else { end };
        let found = waiting.iter().take(end).skip(first).take(count);
        Ok(found.cloned().collect())
    }

    fn held_messages(
        &self,
        _: Actor<'_>,
        _: &str,
        _: &str,
        look: &HeldLook,
    ) -> Result<Option<Vec<UnsettledMessage>>, ProtocolError> {
        let is_meant =
            |held: &&UnsettledMessage| look.of.as_ref().is_none_or(|of| of.contains(&held.at.0));
        let before = usize::try_from(look.before).unwrap_or(usize::MAX);
        let held = self.held.lock().unwrap();
        Ok(held.as_ref().map(|held| {
            let meant = held.iter().filter(is_meant);
            meant.skip(before).take(look.count).cloned().collect()
        }))
    }

    fn holders(&self, held: &[HeldAt]) -> Vec<Holder> {
        let all = self.holders.lock().unwrap();
        let asked = all.iter().filter(|holder| held.contains(&holder.at));
        asked.cloned().collect()
    }

    fn consumers_tagged(&self, _: QueueId, tag: &str) -> Vec<u64> {
        let all = self.holders.lock().unwrap();
        let tagged = all
            .iter()
            .filter(|holder| holder.consumer_tag.as_deref() == Some(tag));
        tagged.map(|holder| holder.at.0).collect()
    }

    fn queues_of(&self, queues: &[QueueId]) -> Vec<QueueStats> {
        self.stats_asked.fetch_add(1, Relaxed);
        queues.iter().filter_map(|id| self.queue(*id)).collect()
    }

    fn each_led(&self, see: &mut dyn FnMut(QueueStats)) {
        self.all_asked.fetch_add(1, Relaxed);
        drop(self.all_held.lock().unwrap());
        let led = self.known_queues().into_iter();
        led.filter(|queue| !queue.follows).for_each(see);
    }

    fn queue(&self, queue: QueueId) -> Option<QueueStats> {
        if self.more_queues().contains(&queue.0) {
            return Some(more_stats(queue.0)).filter(|queue| self.member.leads(queue.id));
        }
        self.usual_queues().into_iter().find(|q| q.id == queue)
    }

    fn active_queues(&self) -> Vec<(String, QueueStats)> {
        std::mem::take(&mut self.active.lock().unwrap())
    }

    fn depths(&self, see: &mut dyn FnMut(&str, [u64; 3])) {
        see("/", [6, 4, 2]);
        see("other", [10, 9, 1]);
    }

    fn each_connection(&self, see: &mut dyn FnMut(ConnectionContent)) {
        self.walks.fetch_add(1, Relaxed);
        let known = self.known_connections().into_iter();
        let known = known.map(|connection| self.content_of(connection));
        known.for_each(&mut *see);
        let more = self.more_connections();
        more.for_each(|id| see(more_connection(id, &self.member)));
    }

    fn flows(&self, of: FlowsOf<'_>) -> Vec<FlowStats> {
        let known = known_flow(self.published.load(Relaxed));
        let is_meant = known.messages > 0
            && match of {
                FlowsOf::Node => true,
                FlowsOf::Vhost(vhost) => *known.vhost == *vhost,
                FlowsOf::Queue(queue) => known.queue == queue,
                FlowsOf::Exchange { vhost, exchange } => {
                    (&*known.vhost, &*known.exchange) == (vhost, exchange)
                }
            };
        is_meant.then_some(known).into_iter().collect()
    }

    fn connections_of(&self, ids: &[ConnectionId]) -> Vec<ConnectionContent> {
        self.stats_asked.fetch_add(1, Relaxed);
        self.rows_made.fetch_add(ids.len() as u64, Relaxed);
        let known = self.known_connections();
        let of = |id: &ConnectionId| match self.more_connections().contains(&id.0) {
            true => Some(more_connection(id.0, &self.member)),
            false => {
                let known = known.iter().find(|c| c.id == *id).cloned();
                known.map(|connection| self.content_without_consumers(connection))
            }
        };
        ids.iter().filter_map(of).collect()
    }

    fn consumers_by_id(&self, consumers: &[(ConnectionId, u64)]) -> Vec<ConnectionContent> {
        let mut consumers = consumers.to_vec();
        consumers.sort_unstable();
        let of_connections = consumers.chunk_by(|a, b| a.0 == b.0);
        let ids: Vec<ConnectionId> = of_connections.clone().map(|some| some[0].0).collect();
        let mut contents = self.connections_of(&ids);
        for (content, some) in contents.iter_mut().zip(of_connections) {
            let found = some.iter().filter_map(|(of, id)| self.consumer(*of, *id));
            content.consumers = found.collect();
        }
        contents
    }

    fn connection(&self, name: &str) -> Option<ConnectionContent> {
        let mut known = self.known_connections().into_iter();
        let known = known.find(|connection| connection.name == name);
        let mut more = self.more_connections();
        let more = || {
            more.find_map(|id| {
                let content = more_connection(id, &self.member);
                (content.connection.name == name).then_some(content)
            })
        };
        let known = known.map(|connection| self.content_without_consumers(connection));
        known.or_else(more)
    }

    fn consumers_on(&self, connection: ConnectionId) -> Vec<ConsumerStats> {
        let all = (0..).map_while(|id| self.consumer(connection, id));
        all.collect()
    }

    fn consumers_of(
        &self,
        queue: QueueId,
        at_most: usize,
    ) -> Vec<(Arc<ConnectionStats>, ConsumerStats)> {
        let first = self.known_connections().into_iter().next().map(Arc::new);
        let all = first.into_iter().flat_map(|first| {
            let consumers = self.consumers_on(first.id).into_iter();
            consumers.map(move |of| (Arc::clone(&first), of))
        });
        all.filter(|(_, of)| of.queue == queue)
            .take(at_most)
            .collect()
    }

    fn stream_publishers(&self) -> Vec<StreamPublisherStats> {
        let publisher = StreamPublisherStats {
            connection: ConnectionId(3),
            id: 7,
            queue: STREAM,
            reference: "orders".to_owned(),
            published: 40,
            confirmed: 39,
            errored: 1,
        };
        self.has_stream().then_some(publisher).into_iter().collect()
    }

    fn stream_consumers(&self) -> Vec<StreamConsumerStats> {
        match self.has_stream() {
            true => vec![stream_consumer(0, true), stream_consumer(1, false)],
            false => Vec::new(),
        }
    }

    fn stream_tracking(&self, stream: QueueId) -> Option<StreamTracking> {
        let is_it = self.has_stream() && stream == STREAM;
        is_it.then(|| StreamTracking {
            offsets: vec![("group".to_owned(), 0), ("other".to_owned(), 17)],
            writers: vec![("orders".to_owned(), 39)],
        })
    }

    fn store_stream_offset(&self, stream: QueueId, name: &str, offset: u64) -> bool {
        self.ask(format!("store {} {name} {offset}", stream.unmarked()));
        stream == STREAM
    }

    fn stream_groups(&self, only: Option<QueueId>) -> Vec<StreamGroups> {
        let is_it = self.has_stream() && only.is_none_or(|only| only == STREAM);
        let group = |name: &str, offset, per_second| StreamGroup {
            name: name.to_owned(),
            offset,
            per_second,
        };
        let kept = StreamGroups {
            stream: STREAM,
            first_offset: Some(0),
            committed_offset: Some(39),
            last_record: Some(36),
            groups: vec![group("group", 0, 0.0), group("other", 17, 2.5)],
        };
        is_it.then_some(kept).into_iter().collect()
    }

    fn set_stream_group(
        &self,
        stream: QueueId,
        name: &str,
        to: StreamStart,
    ) -> Option<Result<u64, String>> {
        self.ask(format!("set {} {name} {to:?}", stream.unmarked()));
        match to {
            StreamStart::TimestampMs(0) => Some(Err("it is damaged".to_owned())),
            StreamStart::TimestampMs(1) => None,
            _ => Some(Ok(12)),
        }
    }

    fn move_stream_group(&self, stream: &Queue, name: &str, offset: u64) {
        self.ask(format!("move {} {name} {offset}", stream.name));
    }

    fn forget_stream_group(&self, stream: QueueId, name: &str) -> Option<bool> {
        self.ask(format!("forget {} {name}", stream.unmarked()));
        Some(true)
    }

    fn browse_stream(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        stream: &str,
        browse: &Browse,
    ) -> Result<Option<Browsed>, ProtocolError> {
        self.ask(format!("browse {actor:?} {vhost} {stream} {browse:?}"));
        let message = |offset, payload: &[u8]| StreamMessage {
            offset,
            timestamp_ms: 1_000,
            content: Ok(Got {
                exchange: String::new(),
                routing_key: "s".to_owned(),
                redelivered: false,
                remaining: 0,
                properties: [("app_id", FieldValue::text("shop"))].into(),
                payload: payload.to_vec(),
                body_bytes: payload.len(),
            }),
        };
        let unreadable = StreamMessage {
            content: Err((30, "packed".to_owned())),
            ..message(2, b"")
        };
        Ok(Some(Browsed {
            messages: vec![message(0, b"[7]"), message(1, b"\xff\x00"), unreadable],
            next_offset: 32,
            first_offset: Some(0),
            committed_offset: Some(39),
        }))
    }

    fn change_stream_replica(
        &self,
        stream: QueueId,
        node: &str,
        adds: bool,
    ) -> Result<bool, String> {
        self.ask(format!("replica {} {node} {adds}", stream.unmarked()));
        match node {
            "alone" => Ok(false),
            "nowhere" => Err("the cluster has no node nowhere".to_owned()),
            _ => Ok(stream == STREAM),
        }
    }

    fn close_connection(&self, connection: ConnectionId, reason: &str) -> bool {
        self.ask(format!("close {connection} {reason}"));
        true
    }

    fn change(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        change: Topology,
    ) -> Result<Changed, ProtocolError> {
        self.ask(format!("{actor:?} {vhost} {change:?}"));
        match change {
            Topology::DeclareQueue { name, .. }
                if name == "refused"
                    || Some(&name) == self.refused_queue.lock().unwrap().as_ref() =>
            {
                Err(ProtocolError::channel(
                    ReplyCode::AccessRefused,
                    "configure access to queue 'refused' in vhost '/' refused for user 'x'",
                ))
            }
            Topology::DeclareQueue { name, .. } if name == "other" => Err(ProtocolError::channel(
                ReplyCode::PreconditionFailed,
                "inequivalent arg 'durable' for queue 'other'",
            )),
            Topology::DeclareQueue { name, .. } => Ok(Changed {
                created: self.declared_queue(vhost, &name).is_none()
                    && !self.is_made_meanwhile(&name),
                queue: Some(MADE),
                messages: 0,
            }),
            Topology::DeclareExchange { name, .. } => Ok(Changed {
                created: !self.is_made_meanwhile(&name),
                ..Changed::default()
            }),
            _ => Ok(Changed {
                created: true,
                ..Changed::default()
            }),
        }
    }

    fn delete_this_queue(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        name: &str,
        queue: QueueId,
    ) -> Result<(), ProtocolError> {
        self.ask(format!(
            "{actor:?} {vhost} DeleteQueue {name} {}",
            queue.unmarked()
        ));
        Ok(())
    }

    fn permit_queue(
        &self,
        _: Actor<'_>,
        _: &str,
        _: Access,
        queue: &str,
    ) -> Result<(), ProtocolError> {
        let is_kept = self.kept_queue.lock().unwrap().as_deref() == Some(queue);
        let refused = || ProtocolError::channel(ReplyCode::AccessRefused, "refused");
        (!is_kept).then_some(()).ok_or_else(refused)
    }

    fn publish(&self, _: Actor<'_>, vhost: &str, message: Publish) -> Result<Taken, ProtocolError> {
        self.ask(format!("{vhost} {message:?}"));
        Ok(match message.routing_key.as_str() {
            "q" | "aliveness-test" => Taken::ByAll,
            "full" => Taken::Refused,
            _ => Taken::Nowhere,
        })
    }

    fn get(&self, _: Actor<'_>, _: &str, queue: &str, get: Get) -> Result<Vec<Got>, ProtocolError> {
        self.ask(format!("get {queue} {get:?}"));
        let got = |payload: &[u8]| Got {
            exchange: "x".to_owned(),
            routing_key: "k".to_owned(),
            redelivered: false,
            remaining: 3,
            properties: [("delivery_mode", FieldValue::U8(2))].into(),
            payload: payload.to_vec(),
            body_bytes: payload.len(),
        };
        Ok(vec![got(b"text"), got(&[0xFF, 0x00])])
    }

    fn leaderless_queues(&self) -> Vec<(String, String)> {
        vec![("other".to_owned(), "orphan".to_owned())]
    }

    fn queue_leader(&self, queue: QueueId) -> Option<NodeId> {
        self.group().filter(|_| queue == QueueId(9))?.leader
    }

    fn is_up(&self, node: NodeId) -> bool {
        self.group().is_none_or(|group| group.down != Some(node))
    }

    fn delayed(&self, from: (u64, u64), most: usize) -> (u64, Vec<DelayedMessage>) {
        self.kept_back.first(from, most)
    }

    fn cancel_delayed(&self, due_ms: u64, index: u64) -> Result<bool, ProtocolError> {
        Ok(self.kept_back.cancel((due_ms, index)))
    }

    fn ask_nodes(&self, nodes: &[NodeId], question: &Question) -> Vec<(NodeId, Vec<u8>)> {
        if self.member.share.is_some() {
            return self.member.ask(Some(nodes), question);
        }
        let mut answers = self.ask_peers(question);
        answers.retain(|(node, _)| nodes.contains(node));
        answers
    }

    fn ask_peers(&self, question: &Question) -> Vec<(NodeId, Vec<u8>)> {
        if self.member.share.is_some() {
            return self.member.ask(None, question);
        }
        let leads = self.group().and_then(|group| group.leads);
        let answer = match question {
            Question::QueueOrder { .. } => r#"{"total": 1, "filtered": 1, "first": [[7, 9]]}"#,
            Question::QueuesOf { ids, .. } if ids.contains(&9) => r#"[{"id": 9, "messages": 7}]"#,
            Question::QueuesOf { .. } | Question::StreamReplica { .. } => "[]",
            _ => return Vec::new(),
        };
        let of_group = leads.map(|node| (node, answer.into()));
        let told = self.told_elsewhere.lock().unwrap().clone().into_iter();
        let told = told.map(|(node, text)| (node, text.into_bytes()));
        of_group.into_iter().chain(told).collect()
    }

    fn replica(&self, queue: QueueId) -> Option<ReplicaStats> {
        self.group().and_then(|_| cluster::replica(queue))
    }

    fn cluster(&self) -> Option<ClusterView> {
        let group = self.group()?;
        let nodes = GROUP_NODES.map(|(node, name)| ClusterNode {
            number: node.0,
            name: name.to_owned(),
            up: group.down != Some(node),
            unsent_bytes: u64::from(node.0) * 7,
            ..ClusterNode::default()
        });
        Some(ClusterView {
            own: 1,
            nodes: nodes.into(),
            ..ClusterView::default()
        })
    }

    fn change_cluster(&self, change: &ClusterChange) -> Result<usize, String> {
        self.ask(format!("{change:?}"));
        match change {
            ClusterChange::AddMember { node, .. } if node == "nowhere" => {
                Err("the cluster has no node nowhere".to_owned())
            }
            _ => Ok(1),
        }
    }

    fn set_memory_watermark(&self, level: Level) {
        self.ask(format!("memory {level:?}"));
    }

    fn set_disk_limit(&self, level: Level) {
        self.ask(format!("disk {level:?}"));
    }

    fn set_serving(&self, serving: bool) {
        *self.stopped.lock().unwrap() = !serving;
        self.ask(format!("serving {serving}"));
    }

    fn stop(&self) {
        self.ask("stop".to_owned());
    }
}

impl Directory for Fake {
    fn counts(&self) -> Counts {
        Counts {
            vhosts: 2,
            exchanges: 2,
            queues: 3,
            bindings: 2,
        }
    }

    fn vhosts(&self) -> Vec<Vhost> {
        ["/", "other"]
            .map(|name| Vhost {
                name: name.to_owned(),
                limits: vec![("max-queues".to_owned(), 9)],
                ..Vhost::default()
            })
            .into()
    }

    fn vhost(&self, name: &str) -> Option<Vhost> {
        self.vhosts().into_iter().find(|v| v.name == name)
    }

    fn users(&self) -> Vec<User> {
        USERS.iter().map(|name| user(name)).collect()
    }

    fn user(&self, name: &str) -> Option<User> {
        let other = self.other_user.lock().unwrap().clone();
        if let Some((_, user)) = other.filter(|(of, _)| of == name) {
            return user;
        }
        let mut users = self.users().into_iter();
        users.find(|u| u.name == name && !self.is_unheard("management", name))
    }

    /// Every user has permissions in `/`, nobody in `other`.
    fn permissions(&self) -> Vec<PermissionDefinition> {
        USERS
            .iter()
            .filter_map(|name| self.permission(name, "/"))
            .collect()
    }

    fn permission(&self, user: &str, vhost: &str) -> Option<PermissionDefinition> {
        let is_there = USERS.contains(&user) && vhost == "/";
        (is_there && !self.has_no_permissions.load(Relaxed)).then(|| PermissionDefinition {
            user: user.to_owned(),
            vhost: vhost.to_owned(),
            configure: ".*".to_owned(),
            write: ".*".to_owned(),
            read: String::new(),
        })
    }

    fn topic_permissions(&self) -> Vec<TopicPermissionDefinition> {
        Vec::new()
    }

    fn each_policy(&self, operator: bool, see: &mut dyn FnMut(&str, &str)) {
        self.more_settings().for_each(|name| see("/", &name));
        see("/", if operator { "op" } else { "ttl" });
    }

    fn policy(&self, operator: bool, vhost: &str, name: &str) -> Option<PolicyDefinition> {
        let definition = match (operator, vhost, name) {
            (true, "/", "op") | (false, "/", "ttl") => [("message-ttl", FieldValue::I64(5))].into(),
            (_, "/", name) if name.starts_with("more-") => self.more_arguments(),
            _ => return None,
        };
        Some(PolicyDefinition {
            vhost: "/".to_owned(),
            name: name.to_owned(),
            pattern: "^q".to_owned(),
            apply_to: "queues".to_owned(),
            priority: 1,
            definition: Json(FieldValue::Table(definition)),
        })
    }

    fn each_parameter(&self, see: &mut dyn FnMut(&str, &str, &str)) {
        self.more_settings()
            .for_each(|name| see("/", "mine", &name));
    }

    fn parameter(&self, vhost: &str, component: &str, name: &str) -> Option<ParameterDefinition> {
        let is_there = (vhost, component) == ("/", "mine") && name.starts_with("more-");
        is_there.then(|| ParameterDefinition {
            component: component.to_owned(),
            vhost: vhost.to_owned(),
            name: name.to_owned(),
            value: Json(FieldValue::Table(self.more_arguments())),
        })
    }

    fn each_global_parameter(&self, see: &mut dyn FnMut(&str)) {
        see("cluster_name");
        self.more_settings().for_each(|name| see(&name));
    }

    fn global_parameter(&self, name: &str) -> Option<GlobalParameterDefinition> {
        Some(GlobalParameterDefinition {
            name: name.to_owned(),
            value: Json(match name {
                "cluster_name" => FieldValue::text("hares"),
                name if name.starts_with("more-") => FieldValue::Table(self.more_arguments()),
                _ => return None,
            }),
        })
    }

    fn exchange_count(&self, vhost: &str) -> usize {
        self.exchanges(Some(vhost)).len()
    }

    fn each_traffic(&self, see: &mut dyn FnMut(&Traffic<'_>)) {
        self.each_exchange(None, &mut |vhost, exchange| {
            see(&Traffic {
                vhost,
                exchange,
                kind: "topic",
                published: [0; 2],
            });
        });
    }

    fn exchanges(&self, vhost: Option<&str>) -> Vec<Exchange> {
        let all = [
            exchange("/", ""),
            exchange("/", "x"),
            exchange("/", "y"),
            exchange("other", "x"),
        ];
        let super_stream = Exchange {
            kind: "direct".to_owned(),
            arguments: [("x-super-stream", FieldValue::Bool(true))].into(),
            ..exchange("/", "orders")
        };
        all.into_iter()
            .chain(self.has_stream().then_some(super_stream))
            .filter(|x| vhost.is_none_or(|v| v == x.vhost))
            .collect()
    }

    fn each_exchange(&self, vhost: Option<&str>, see: &mut dyn FnMut(&str, &str)) {
        let mut all = self.exchanges(vhost);
        all.sort_by(|a, b| (&a.vhost, &a.name).cmp(&(&b.vhost, &b.name)));
        all.iter().for_each(|x| see(&x.vhost, &x.name));
        let more = self.more_exchanges.load(Relaxed);
        let more = vhost.is_none_or(|vhost| vhost == "other").then_some(more);
        for number in 0..more.unwrap_or_default() {
            see("other", &format!("z-{number:08}"));
        }
    }

    fn exchange(&self, vhost: &str, name: &str) -> Option<Exchange> {
        self.rows_made.fetch_add(1, Relaxed);
        if name.starts_with("z-") {
            return Some(exchange(vhost, name));
        }
        self.exchanges(Some(vhost))
            .into_iter()
            .find(|x| x.name == name)
    }

    fn declared_queues(&self, vhost: Option<&str>) -> Vec<Queue> {
        self.all_copied.fetch_add(1, Relaxed);
        let more = self.more_queues().map(more_queue);
        self.usual_records()
            .into_iter()
            .chain(more)
            .filter(|q| vhost.is_none_or(|v| v == q.vhost))
            .collect()
    }

    fn each_queue(&self, vhost: Option<&str>, see: &mut dyn FnMut(QueueId, &str, &str)) {
        let mut usual = self.usual_records();
        usual.sort_by(|a, b| (&a.vhost, &a.name).cmp(&(&b.vhost, &b.name)));
        let more = || self.more_queues().map(more_queue);
        let is_before = |queue: &Queue| (&*queue.vhost, &*queue.name) < ("/", "more-");
        let (before, behind): (Vec<Queue>, Vec<Queue>) = usual.into_iter().partition(is_before);
        for queue in before.into_iter().chain(more()).chain(behind) {
            if vhost.is_none_or(|vhost| vhost == queue.vhost) {
                see(queue.id, &queue.vhost, &queue.name);
            }
        }
    }

    fn queues_within(&self, ids: &[QueueId], bytes: usize) -> usize {
        let of_one = self.more_arguments().weight().max(1);
        ids.len().min(bytes / of_one).max(1)
    }

    fn queues_by_id(&self, ids: &[QueueId]) -> Vec<Queue> {
        self.gate.pass();
        self.rows_made.fetch_add(ids.len() as u64, Relaxed);
        self.most_at_once.fetch_max(ids.len() as u64, Relaxed);
        let usual: Vec<Queue> = match ids.iter().all(|id| self.more_queues().contains(&id.0)) {
            true => Vec::new(),
            false => self.usual_records(),
        };
        let by_id = |id: &QueueId| match self.more_queues().contains(&id.0) {
            true => Some(Queue {
                arguments: self.more_arguments(),
                ..more_queue(id.0)
            }),
            false => usual.iter().find(|queue| queue.id == *id).cloned(),
        };
        ids.iter().filter_map(by_id).collect()
    }

    fn declared_queue(&self, vhost: &str, name: &str) -> Option<Queue> {
        if self.is_behind.load(Relaxed) {
            return None;
        }
        if ["orders-a", "orders-b"].contains(&name) {
            return Some(Queue {
                name: name.to_owned(),
                ..stream()
            });
        }
        self.declared_queues(Some(vhost))
            .into_iter()
            .find(|q| q.name == name)
    }

    fn bindings(&self, scope: BindingScope<'_>) -> Vec<(String, Binding)> {
        let bind = |to: &str, to_queue, key: &str| {
            let binding = Binding {
                source: "x".to_owned(),
                destination: to.to_owned(),
                to_queue,
                routing_key: key.to_owned(),
                arguments: FieldTable::new(),
            };
            ("/".to_owned(), binding)
        };
        let mut all = vec![
            bind("q", true, "a.*"),
            bind("q", true, ""),
            bind("y", false, "#"),
        ];
        if self.has_stream() {
            for (key, order) in [("b", 1), ("a", 0)] {
                let (vhost, mut binding) = bind(&format!("orders-{key}"), true, key);
                binding.source = "orders".to_owned();
                binding.arguments = [("x-stream-partition-order", FieldValue::I64(order))].into();
                all.push((vhost, binding));
            }
        }
        all.retain(|(vhost, binding)| scope.takes(vhost, binding));
        all
    }

    fn each_binding(&self, scope: BindingScope<'_>, see: &mut dyn FnMut(&str, BindingId)) {
        let all = self.bindings(BindingScope::All);
        for (number, (vhost, binding)) in (0..).zip(&all) {
            if scope.takes(vhost, binding) {
                see(vhost, BindingId::Numbered(number));
            }
        }
        if matches!(scope, BindingScope::All) {
            let more = self.more_bindings.load(Relaxed) as u32;
            (0..more).for_each(|number| see("/", BindingId::Numbered(MORE_BINDINGS + number)));
        }
    }

    fn binding_at(&self, vhost: &str, id: BindingId) -> Option<Binding> {
        self.rows_made.fetch_add(1, Relaxed);
        let BindingId::Numbered(number) = id else {
            return None;
        };
        if number >= MORE_BINDINGS {
            return Some(known::more_binding(number, self.more_arguments()));
        }
        let mut all = self.bindings(BindingScope::All).into_iter();
        let found = all.nth(number as usize).filter(|(of, _)| of == vhost);
        found.map(|(_, binding)| binding)
    }

    fn alter(&self, by: &str, alteration: Alteration) -> Result<(), AlterError> {
        self.change_gate.pass();
        self.ask(match alteration {
            Alteration::Command(
                Command::UserDelete { user: name } | Command::VhostDelete { vhost: name },
            ) if name == "none" => return Err(AlterError::NotFound(name)),
            Alteration::Command(Command::PolicySet { pattern, .. }) if pattern == "(" => {
                return Err(AlterError::Invalid("the pattern is broken".to_owned()));
            }
            Alteration::Command(command) => format!("{by}: {command:?}"),
            other @ (Alteration::PutUser { .. } | Alteration::DeleteUsers(_)) => {
                format!("{by}: {other:?}")
            }
        });
        Ok(())
    }

    fn hash_password(&self, password: &str) -> String {
        format!("hash of {password}")
    }

    fn export(&self, vhost: Option<&str>) -> Definitions {
        let bindings = self.more_bindings.load(Relaxed);
        known::definitions(vhost.unwrap_or("/"), bindings, self.more_arguments())
    }

    fn import(&self, by: &str, vhost: Option<&str>, definitions: &Value) -> Imported {
        self.ask(format!("{by}: import into {vhost:?}: {definitions}"));
        kept::imported(definitions)
    }
}
