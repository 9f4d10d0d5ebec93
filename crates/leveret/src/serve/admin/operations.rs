//! What an operator does to the broker as a client would: declare, bind, publish, get. Apart
//! because each of these waits, for the disk or for another node's answer.

use super::Admin;
use crate::serve::messages;
use leveret_client::{Reply, Topology as Operation};
use leveret_cluster::Env as _;
use leveret_management::api::{
    Actor, AfterGet, Changed, DelayedMessage, Get, Got, Publish, Taken, Topology,
};
use leveret_node::operator::{self, GotOne};
use leveret_node::{Caller, Env, LogPosition, Question, QueueAnswer};
use leveret_queue::{Oldest, Outcome};
use leveret_queue_host::delayed;
use leveret_queue_host::quorum::protocol::Fetched;
use leveret_queue_host::shard::{LocalQueueStats, Shard};
use leveret_types::{ConnectionId, ProtocolError, QueueId, ReplyCode};
use std::time::{Duration, Instant};

/// How long an operator's command waits for the log before it is said to have failed.
pub(super) const DURABLE_WAIT: Duration = Duration::from_secs(30);
/// How long a message may take to be read from disk.
pub(super) const READ_WAIT: Duration = Duration::from_secs(10);
/// How long a look at one queue waits for its oldest message to be read from disk.
const OLDEST_WAIT: Duration = Duration::from_millis(200);
/// Messages that such a look reads: those at the heads of priorities.
const OLDEST_READS_MAX: usize = 4;

/// A connection id that no client has: operators' declarations belong to nobody.
pub(super) const NOBODY: ConnectionId = ConnectionId(0);

impl Admin {
    pub(super) fn wait(
        &self,
        log_positions: impl IntoIterator<Item = LogPosition>,
    ) -> Result<(), ProtocolError> {
        let deadline = Instant::now() + DURABLE_WAIT;
        for log_position in log_positions {
            if !self.broker.wait_durable(deadline, log_position) {
                return Err(ProtocolError::channel(
                    ReplyCode::ResourceError,
                    "the write-ahead log has not taken the change; is the disk full?",
                ));
            }
        }
        Ok(())
    }

    pub(super) fn caller(&self, actor: Actor<'_>, vhost: &str) -> Caller {
        let rights = match actor {
            Actor::Operator => None,
            Actor::User(user) => Some(self.broker.catalogue().rights(user, vhost, "")),
        };
        Caller {
            connection: NOBODY,
            vhost: vhost.to_owned(),
            rights,
        }
    }

    /// Asks a queue, whose leader may be on another node, and waits for the answer.
    pub(super) fn ask(&self, queue: QueueId, question: Question) -> QueueAnswer {
        self.ask_until(Instant::now() + READ_WAIT, queue, question)
    }

    fn ask_until(&self, deadline: Instant, queue: QueueId, question: Question) -> QueueAnswer {
        let number = self.broker.consumer_id().0;
        let look = || {
            let now = self.broker.now();
            operator::ask(queue, question, number, now, &*self.broker)
        };
        let answer = self.broker.wait_until(deadline, look);
        answer.unwrap_or(QueueAnswer::Unavailable)
    }

    /// The stats of one queue. When its oldest message was taken is read from disk where it must
    /// be, for so long as nobody minds; it is known from then on, or at the next look.
    pub(super) fn local_stats_with_oldest(
        &self,
        queue: QueueId,
    ) -> Option<(LocalQueueStats, bool)> {
        let mut stats = self.local_stats_of(queue)?;
        let deadline = Instant::now() + OLDEST_WAIT;
        for _ in 0..OLDEST_READS_MAX {
            let Oldest::Unknown { before } = stats.0.oldest else {
                break;
            };
            self.ask_until(deadline, queue, Question::Peek(before));
            stats = self.local_stats_of(queue)?;
        }
        Some(stats)
    }

    pub(super) fn change_topology(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        change: Topology,
    ) -> Result<Changed, ProtocolError> {
        let now = self.broker.now();
        let caller = self.caller(actor, vhost);
        let ask = |queue, question| self.ask(queue, question);
        let carried = caller.topology_asking(operation(change), now, &*self.broker, ask)?;
        self.broker.run_deferred_work();
        self.wait(carried.log_position)?;
        Ok(Changed {
            created: carried.created,
            queue: carried.queue,
            messages: match carried.reply {
                Reply::Count(count) => u64::from(count),
                _ => 0,
            },
        })
    }

    pub(super) fn delete_queue_by_id(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        name: &str,
        queue: QueueId,
    ) -> Result<(), ProtocolError> {
        let caller = self.caller(actor, vhost);
        let now = self.broker.now();
        let log_position = caller.delete_this_queue(name, queue, now, &*self.broker)?;
        self.broker.run_deferred_work();
        self.wait(log_position)
    }

    pub(super) fn publish_message(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        message: Publish,
    ) -> Result<Taken, ProtocolError> {
        let now = self.broker.now();
        let message = messages::from_operator(&message, now)?;
        let caller = self.caller(actor, vhost);
        let mut published = caller.publish(&message, now, &*self.broker)?;
        self.broker.run_deferred_work();
        self.wait(std::mem::take(&mut published.log_positions))?;
        let deadline = Instant::now() + DURABLE_WAIT;
        let is_taken = self.broker.wait_until(deadline, || published.is_taken());
        let is_taken = is_taken.ok_or_else(|| {
            ProtocolError::channel(
                ReplyCode::ResourceError,
                "a queue that the message goes to has not taken it; has it a leader?",
            )
        })?;
        let is_routed = published.is_routed;
        published.told(&*self.broker);
        Ok(match (is_routed, is_taken) {
            (false, _) => Taken::Nowhere,
            (true, false) => Taken::Refused,
            (true, true) => Taken::ByAll,
        })
    }

    /// A stream that this operator may read.
    pub(super) fn readable_stream(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        stream: &str,
    ) -> Result<QueueId, ProtocolError> {
        let caller = self.caller(actor, vhost);
        caller.queue_to_look_into(stream, &*self.broker)
    }

    pub(super) fn look_at(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        queue: &str,
        before: u64,
    ) -> Result<Option<Got>, ProtocolError> {
        let id = self
            .caller(actor, vhost)
            .readable_queue(queue, &*self.broker)?;
        let unavailable = |why: &str| {
            let text = format!("queue '{queue}' in vhost '{vhost}' {why}");
            Err(ProtocolError::channel(ReplyCode::PreconditionFailed, text))
        };
        match self.ask(id, Question::Peek(before)) {
            QueueAnswer::Peeked(Fetched::Message(message)) => {
                Ok(Some(messages::to_operator(&message, false, before)))
            }
            QueueAnswer::Peeked(Fetched::Gone) => Ok(None),
            QueueAnswer::Peeked(Fetched::Unreadable) => unavailable("cannot read that message"),
            _ => unavailable("has no leader that answers"),
        }
    }

    pub(super) fn delayed_messages(
        &self,
        from: (u64, u64),
        most: usize,
    ) -> (u64, Vec<DelayedMessage>) {
        let (total, first) = {
            let shard = self.broker.shard(delayed::SHARD);
            (shard.delayed_count(), shard.first_delayed(from, most))
        };
        let deadline = Instant::now() + READ_WAIT;
        let look = |which| {
            let now = self.broker.now();
            let look = || {
                let work = |shard: &mut Shard| shard.show_delayed(which);
                self.broker.with_shard(now, delayed::SHARD, work).ok()
            };
            let (due_ms, index) = which;
            let (vhost, message) = self.broker.wait_until(deadline, look)??;
            Some(DelayedMessage {
                due_ms,
                index,
                vhost,
                message: messages::to_operator(&message, false, 0),
            })
        };
        (total, first.into_iter().filter_map(look).collect())
    }

    pub(super) fn drop_delayed(&self, which: (u64, u64)) -> Result<bool, ProtocolError> {
        let now = self.broker.now();
        let work = |shard: &mut Shard| {
            let was_there = shard.cancel_delayed(which);
            (was_there, shard.urgent_log_position())
        };
        let (was_there, place) = self.broker.with_shard(now, delayed::SHARD, work);
        self.wait([place])?;
        Ok(was_there)
    }

    pub(super) fn take_messages(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        name: &str,
        get: Get,
    ) -> Result<Vec<Got>, ProtocolError> {
        let caller = self.caller(actor, vhost);
        let queue = caller.gettable_queue(name, &*self.broker)?;
        let subscription = self.broker.consumer_id();
        let (mut got, mut taken) = (Vec::new(), Vec::new());
        let mut bytes_left = get.bytes;
        let deadline = Instant::now() + READ_WAIT;
        let look = || {
            let now = self.broker.now();
            operator::get(queue, subscription, now, &*self.broker).ok()
        };
        while got.len() < get.count as usize && bytes_left > 0 {
            let (mut delivery, left) = match self.broker.wait_until(deadline, look) {
                Some(GotOne::Message(delivery, left)) => (delivery, left),
                Some(GotOne::Nothing) => break,
                // Whoever got some may ask for the rest.
                Some(GotOne::Unavailable) | None if !got.is_empty() => break,
                Some(GotOne::Unavailable) | None => return Err(no_answer(vhost, name)),
            };
            caller.trace_got(&delivery, &*self.broker);
            let shown = messages::shown(&delivery, left, get.shown);
            bytes_left = bytes_left.saturating_sub(shown.shown_bytes());
            got.push(shown);
            // Only what is shown of it is kept until all are settled.
            delivery.message = messages::nothing();
            taken.push(delivery);
        }
        let outcome = match get.then {
            AfterGet::Accept => Outcome::Accept,
            AfterGet::Requeue => Outcome::Requeue { count: false },
            AfterGet::Reject => Outcome::Reject,
        };
        for delivery in &taken {
            operator::settle(delivery, outcome, self.broker.now(), &*self.broker);
        }
        self.broker.run_deferred_work();
        Ok(got)
    }
}

fn no_answer(vhost: &str, queue: &str) -> ProtocolError {
    let text = format!("queue '{queue}' in vhost '{vhost}' has no leader that answers");
    ProtocolError::channel(ReplyCode::InternalError, text)
}

fn operation(change: Topology) -> Operation {
    match change {
        Topology::DeclareExchange {
            name,
            kind,
            durable,
            auto_delete,
            internal,
            arguments,
        } => Operation::ExchangeDeclare {
            name,
            kind,
            passive: false,
            durable,
            auto_delete,
            internal,
            arguments,
        },
        Topology::DeleteExchange { name, if_unused } => {
            Operation::ExchangeDelete { name, if_unused }
        }
        Topology::DeclareQueue {
            name,
            durable,
            exclusive,
            auto_delete,
            arguments,
        } => Operation::QueueDeclare {
            name,
            passive: false,
            durable,
            exclusive,
            auto_delete,
            arguments,
        },
        Topology::DeleteQueue {
            name,
            if_unused,
            if_empty,
        } => Operation::QueueDelete {
            queue: name,
            if_unused,
            if_empty,
        },
        Topology::PurgeQueue { name } => Operation::QueuePurge { queue: name },
        Topology::Bind(binding) => bound(binding, true),
        Topology::Unbind(binding) => bound(binding, false),
    }
}

fn bound(binding: leveret_management::api::Binding, bind: bool) -> Operation {
    let leveret_management::api::Binding {
        source,
        destination,
        to_queue,
        routing_key,
        arguments,
    } = binding;
    let routing_key = routing_key.into_bytes();
    match (to_queue, bind) {
        (true, true) => Operation::QueueBind {
            queue: destination,
            exchange: source,
            routing_key,
            arguments,
        },
        (true, false) => Operation::QueueUnbind {
            queue: destination,
            exchange: source,
            routing_key,
            arguments,
        },
        (false, true) => Operation::ExchangeBind {
            destination,
            source,
            routing_key,
            arguments,
        },
        (false, false) => Operation::ExchangeUnbind {
            destination,
            source,
            routing_key,
            arguments,
        },
    }
}
