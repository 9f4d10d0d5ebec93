//! A client's connection: the session, and what its requests do to the node.
//!
//! Invariant: what a client asked for is answered in the order in which it asked.
//! Invariant: nothing is borrowed from the environment between two calls.

mod alarm_wait;
mod asked;
mod consume;
mod consumers;
mod held_replies;
mod log;
mod login;
mod message_traces;
mod overdue;
mod pending_login;
mod pending_requests;
mod publish;
mod published;
mod publisher;
mod read_barrier;
mod retry;
mod routes;
mod status;
mod stream_arguments;
mod stream_state;
mod streams;
mod subscriptions;
mod topology;
mod transaction;
mod turn;

use crate::env::{ClusterEvent, ConnectionEvent, Env, QueueEvent};
use crate::identity::{Identity, Peer, Traffic};
use crate::login::Login;
use crate::run::{Outcome, Run, Targets, enqueue};
use asked::PendingRequests;
use bytes::Bytes;
use consumers::Consumers;
use held_replies::{Encoded, HeldReplies};
use leveret_client::{Awaited, Consume, Reply, Request, Session, SessionState, Settle};
use leveret_queue_host::notify::Notify;
use leveret_types::{
    ConnectionId, ConsumerId, Message, Now, OutBuffer, ProtocolError, QueueId, ReplyCode, ShardId,
};
use message_traces::Traced;
use pending_login::PendingLogin;
use publisher::Publisher;
use stream_state::Streams;
use turn::Turn;

/// A client's connection, whose session speaks the protocol `S`.
pub struct Connection<S> {
    identity: Identity,
    session: S,
    /// What the client wants and was not carried out yet, behind what waits in `turn`.
    requests: Vec<Request>,
    turn: Turn,
    login: Login,
    pending_login: PendingLogin,
    consumers: Consumers,
    publisher: Publisher,
    /// What it has to do with streams, if anything.
    streams: Option<Box<Streams>>,
    /// A publish that waits for the end of another node's alarm.
    alarm_wait: Option<Box<alarm_wait::AlarmWait>>,
    replies: HeldReplies,
    pending: PendingRequests,
    traffic: Traffic,
    /// Traced messages whose way goes on, if there are any.
    traced: Option<Box<Traced>>,
    has_exclusive: bool,
    /// Whether the socket is gone.
    is_torn_down: bool,
}

impl<S: Session> Connection<S> {
    /// A connection that has just been accepted, with the session that is to speak with its client.
    pub fn new(id: ConnectionId, peer: Peer, session: S, now: Now) -> Self {
        let identity = Identity::new(id, peer, now);
        tracing::debug!(connection = %identity.name, "accepted");
        Self {
            identity,
            session,
            requests: Vec::new(),
            turn: Turn::default(),
            login: Login::default(),
            pending_login: PendingLogin::default(),
            consumers: Consumers::default(),
            publisher: Publisher::default(),
            streams: None,
            alarm_wait: None,
            replies: HeldReplies::default(),
            pending: PendingRequests::default(),
            traffic: Traffic::default(),
            traced: None,
            has_exclusive: false,
            is_torn_down: false,
        }
    }

    /// Its name in logs and listings.
    pub fn name(&self) -> &str {
        &self.identity.name
    }

    /// Whether the client has logged in and opened its virtual host, and is served.
    pub fn open(&self) -> bool {
        self.session.state() == SessionState::Open
    }

    /// Whether [`Self::secure`] has been called.
    pub fn secured(&self) -> bool {
        self.identity.is_secured()
    }

    /// The TLS handshake is over; this is what it showed of the client.
    pub fn secure(&mut self, certificate: Option<Vec<u8>>, status: Option<(String, String)>) {
        self.identity.secure(certificate, status);
    }

    /// Takes in what the socket had; answers how many requests that made.
    pub fn receive<E: Env>(&mut self, now: Now, bytes: Bytes, env: &E) -> usize {
        self.traffic.received_bytes += bytes.len() as u64;
        self.session.receive(now, bytes, &mut self.requests);
        self.process(now, env)
    }

    /// Takes in what was posted from elsewhere.
    pub fn event<E: Env>(&mut self, now: Now, event: ConnectionEvent, env: &E) {
        self.session.set_now(now);
        match event {
            ConnectionEvent::Queue(event) => self.queue_event(event, now, env),
            ConnectionEvent::Cluster(ClusterEvent::Executed { id, result }) => {
                self.executed(id, result, now, env);
            }
            ConnectionEvent::LoginChecked(verdict) => self.login_checked(verdict, now, env),
            ConnectionEvent::Cluster(
                ClusterEvent::ReadBarrierPassed | ClusterEvent::CountsRenewed,
            ) => self.look_again(now, env),
            ConnectionEvent::Stream(news) => self.stream_news(news, now, env),
            ConnectionEvent::Close(error) => {
                self.finish_turn(now, env);
                self.session.close(error);
            }
        }
        self.process(now, env);
    }

    fn queue_event<E: Env>(&mut self, event: QueueEvent, now: Now, env: &E) {
        match event {
            QueueEvent::Deliver(delivery) => self.deliver(&delivery, env),
            QueueEvent::Reply(reply) => {
                self.trace_got(&reply, env);
                self.reply(now, reply);
            }
            QueueEvent::CancelConsumer(consumer) => self.queue_of_consumer_gone(consumer),
            QueueEvent::TimedOut(subscription) => self.timed_out(subscription, now, env),
            QueueEvent::Committed { queue, through } => {
                self.session.committed(queue, through);
                self.trace_committed(queue, through, env);
                self.release_committed(queue, through, now);
            }
            QueueEvent::Refused { queue, sequences } => {
                self.session.refused(queue, &sequences);
                self.refuse_committed(queue, &sequences);
                self.trace_refused(queue, &sequences, env);
            }
            QueueEvent::Room(queue) => self.publisher.full_queues.retain(|full| *full != queue),
            QueueEvent::Answered { queue, answer } => self.answered(queue, answer, now, env),
        }
    }

    /// The write-ahead log has become durable further.
    pub fn durable<E: Env>(&mut self, now: Now, env: &E) {
        self.session.set_now(now);
        for shard in 0..env.settings().shard_count {
            let shard = ShardId(shard);
            self.session.durable(shard, env.durable(shard));
        }
        self.trace_durable(env);
        self.replies.awaiting = self.session.awaits_durability();
        while self.replies.lift_barrier(env) {
            self.session.output().lift_barrier();
        }
        if self.replies.durable(env) && self.release_held(now) {
            self.process(now, env);
        }
    }

    /// Whether [`Self::durable`] is to be called when the write-ahead log goes on.
    pub fn awaiting(&self) -> bool {
        self.replies.await_log()
    }

    fn consumer_cancelled(&mut self, consumer: ConsumerId) {
        if let Some(subscription) = self.consumers.remove(consumer) {
            let channel = subscription.channel;
            self.consumers.wait_no_more(channel, consumer);
            self.session.consumer_cancelled(consumer);
        }
    }

    /// The socket holds bytes that are left unread for now: see [`Self::reading`]. The client lived
    /// at `at`.
    pub fn unread(&mut self, at: Now) {
        self.session.unread(at);
    }

    /// Its time has come: see [`Self::deadline`].
    pub fn tick<E: Env>(&mut self, now: Now, env: &E) {
        if let Some(reply) = self.pending_login.take_due(now) {
            self.reply(now, reply);
        }
        if self.is_alarm_wait_due(now) {
            self.look_at_alarms(now, env);
        }
        self.begin_turn();
        self.session.tick(now, &mut self.requests);
        self.deliver_from_streams(env);
        self.process(now, env);
    }

    /// When [`Self::tick`] is to be called at the latest, in monotonic milliseconds.
    pub fn deadline(&self) -> Option<u64> {
        let delayed = self.pending_login.due_ms();
        let is_waiting = !self.requests.is_empty() && self.goes_on() && !self.waits_for_output();
        let waiting = (is_waiting || self.has_stream_deliveries_due()).then_some(0);
        let alarm = self.alarm_wait.as_ref().map(|wait| wait.again_ms());
        [delayed, waiting, alarm, self.session.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether the socket is to be read.
    pub fn reading(&self) -> bool {
        !(self.session.suspended()
            || self.pending.retry.is_some()
            || self.session.is_blocked()
            || self.waits_for_turn()
            || self.alarm_wait.is_some()
            || !self.publisher.full_queues.is_empty()
            || !self.streams_keep_up())
    }

    /// Bytes that are missing of a publish that waits for room: see [`Session::lacks_bytes`].
    pub fn lacks_bytes(&self) -> Option<usize> {
        self.session.lacks_bytes()
    }

    /// Whether it waits for the check of a password, which nobody needs once the client has gone.
    pub const fn checking(&self) -> bool {
        self.pending_login.checking.is_some()
    }

    /// Whether it has published anything: only then is it held back with the publishers.
    pub fn publishes(&self) -> bool {
        self.session.published_yet()
    }

    /// Merges what has gathered into frames: before the output is written.
    pub fn flush(&mut self) {
        self.session.flush();
        self.traffic.flushed(self.session.output().len());
    }

    /// What is to be written to the socket.
    pub fn output(&mut self) -> &mut OutBuffer {
        self.session.output()
    }

    /// Says something that needs no answer: a client that has gone is found out by that, though
    /// what it sent last is not read.
    pub fn beat(&mut self) {
        self.session.beat();
    }

    /// Publishes count as confirmed, or refused, once their clients are told so; and messages as
    /// delivered.
    fn count_answered<E: Env>(&mut self, env: &E) {
        let counters = env.counters();
        counters.answered(self.session.take_answered());
        let latencies = self.session.latencies();
        latencies.confirms.drain(|told| counters.confirms.add(told));
        latencies.waits.drain(|told| counters.waits.add(told));
    }

    /// The socket has taken what it can: queues may deliver more.
    pub fn written<E: Env>(&mut self, now: Now, env: &E) {
        self.count_answered(env);
        let left = self.session.output().len();
        self.traffic.written(left);
        if self.session.output().writable_len() > 0 {
            return;
        }
        self.output_taken();
        self.stream_output_written();
        let Encoded { messages, bytes } = self.replies.take_encoded();
        if messages > 0 && self.consumers.credit.give(messages, bytes) {
            self.unblock_consumers(now, env);
        }
    }

    /// Whether the connection is over, but for what is still to be written, and for the client to
    /// close its socket.
    pub fn over(&self) -> bool {
        use SessionState::{Closed, Lingering};
        matches!(self.session.state(), Lingering | Closed)
    }

    /// Whether the client is to see the end of the output once that is written.
    pub fn ends_output(&self) -> bool {
        self.session.ends_output()
    }

    /// Whether the socket is to be dropped once the output is written.
    pub fn closed(&self) -> bool {
        self.session.state() == SessionState::Closed
    }

    /// The alarms have changed: publishes are held back, or go on.
    pub fn alarms_changed<E: Env>(&mut self, now: Now, env: &E) {
        self.look_at_alarms(now, env);
    }

    /// The node is going down.
    pub fn shut_down<E: Env>(&mut self, now: Now, env: &E) {
        self.finish_turn(now, env);
        self.session.close(ProtocolError::connection(
            ReplyCode::ConnectionForced,
            "broker forced connection closure with reason 'shutdown'",
        ));
    }

    /// The socket is gone: everything that the connection had is given back.
    pub fn teardown<E: Env>(&mut self, now: Now, env: &E) {
        self.count_answered(env);
        self.finish_commit(now, env);
        self.give_up_alarm_wait();
        self.session.teardown(&mut self.requests);
        self.is_torn_down = true;
        self.consumers.credit.close();
        // Nobody waits for a look any more, and what is to be given back does not.
        self.pending.retry = None;
        self.pending_login.checking = None;
        self.stop_waiting_for_streams();
        self.process_left(now, env);
        self.detach_left_behind(now, env);
        // Nothing more is published, and what the client still sends is read off the socket.
        self.publisher.full_queues.clear();
        self.publisher.gather();
        self.leave_streams(env);
        self.delete_exclusive_queues(now, env);
        self.note_end();
        self.log_out(env);
    }

    /// Whether requests are carried out: none waits for its answer or for an alarm, and the streams
    /// have room.
    fn goes_on(&self) -> bool {
        self.pending.retry.is_none() && self.alarm_wait.is_none() && self.streams_keep_up()
    }

    fn request<E: Env>(&mut self, request: Request, run: &mut Run<'_, E>) {
        match request {
            Request::Publish(publish) => self.publish(publish, run),
            Request::Check(publish) => self.check(publish, run),
            Request::Settle(settle) => self.settle(&settle, run),
            Request::ChannelPrefetch { channel, limit } => {
                self.limit_channel(channel, limit, run);
            }
            Request::ChannelClosed { channel, error } => {
                if let Some(error) = error {
                    self.note_channel_error(channel, &error);
                }
                self.close_channel(channel, run);
            }
            Request::Login {
                mechanism,
                response,
            } => {
                run.release();
                self.log_in(&mechanism, &response, run.now, run.env);
            }
            Request::OpenVhost { vhost } => {
                run.release();
                self.open_vhost(&vhost, run.now, run.env);
            }
            Request::UpdateSecret { reason, .. } => self.update_secret(&reason, run.now),
            Request::OpenChannel { channel } => {
                run.release();
                self.open_channel(channel, run.now, run.env);
            }
            Request::Topology { operation, .. } => {
                run.release();
                self.topology(operation, run.now, run.env);
            }
            Request::Consume(consume) => {
                run.release();
                self.consume(consume, run.now, run.env);
            }
            Request::Cancel { channel, consumer } => {
                run.release();
                self.cancel(channel, consumer, run.now, run.env);
            }
            Request::Get {
                channel,
                queue,
                no_ack,
            } => {
                run.release();
                self.get(channel, &queue, no_ack, run.now, run.env);
            }
            Request::Credit {
                channel: _,
                consumer,
                messages,
            } => {
                run.release();
                self.credit(consumer, messages, run.now, run.env);
            }
            Request::Turn => self.reply(run.now, Reply::Done),
            Request::Commit { .. } => {
                run.release();
                self.commit(run.now, run.env);
            }
        }
    }

    /// Answers what the session asked; what it goes on to want is in `self.requests`.
    fn reply(&mut self, now: Now, reply: Reply) {
        if self.session.suspended() {
            self.session.reply(now, reply, &mut self.requests);
        }
    }

    fn fail(&mut self, now: Now, error: ProtocolError) {
        self.reply(now, Reply::Failed(error));
    }
}

/// Who does what this client wants of a queue.
enum Host {
    /// The queue's shard, by the verbs of [`leveret_queue_host::queue_host`].
    Shard,
    /// A session that the connection itself has with the queue: see [`streams`].
    Session,
}

impl Host {
    const fn of(queue: QueueId) -> Self {
        match queue.is_stream() {
            true => Self::Session,
            false => Self::Shard,
        }
    }
}

/// What a client does to queues, by who does it. Nothing else of a connection asks for that: what
/// is not here is said to the shard and to the session, and whom it does not concern passes it
/// over.
impl<S: Session> Connection<S> {
    /// Puts a message into queues. `notify` hears from those of the cluster, when they have
    /// committed it.
    fn enqueue<E: Env>(
        &mut self,
        message: &Message,
        targets: &[QueueId],
        notify: &Notify,
        run: &mut Run<'_, E>,
    ) -> Outcome {
        let is_in_session = |queue: &QueueId| matches!(Host::of(*queue), Host::Session);
        if !targets.iter().any(is_in_session) {
            return enqueue(message, targets, notify, run);
        }
        let (own, others): (Targets, Targets) = targets.iter().copied().partition(is_in_session);
        let mut outcome = enqueue(message, &others, notify, run);
        outcome.is_nowhere = false;
        let numbers = self.publish_to_streams(&own, message, run.env);
        let numbered = own.iter().copied().map(Awaited::Queue).zip(numbers);
        outcome.waits.extend(numbered);
        outcome
    }

    /// The number up to which a queue must have committed for all that was done to it here to be;
    /// nothing if it is. The connection hears of it.
    fn uncommitted_through<E: Env>(&mut self, queue: QueueId, now: Now, env: &E) -> Option<u64> {
        match Host::of(queue) {
            Host::Session => {
                self.flush_streams(env);
                self.published_to_stream(queue)
            }
            Host::Shard => env.with_shard(now, env.shard_of(queue), |shard| {
                shard.wait_for_queue(queue, self.identity.id)
            }),
        }
    }

    /// Begins a consumer that is permitted.
    fn begin_consumer<E: Env>(&mut self, consume: Consume, queue: QueueId, now: Now, env: &E) {
        match Host::of(queue) {
            Host::Session => self.consume_stream(consume, queue, now, env),
            Host::Shard => self.attach(consume, queue, now, env),
        }
    }

    /// Takes note of what became of messages that a consumer had.
    fn settle_where_hosted<E: Env>(&mut self, settle: &Settle, run: &mut Run<'_, E>) {
        match Host::of(settle.queue) {
            Host::Session => self.settle_stream(settle, run.env),
            Host::Shard => self.settle_in_shard(settle, run),
        }
    }
}
