//! A move while it runs.

use super::destination;
use super::table::Begun;
use crate::serve::admin::operations::{DURABLE_WAIT, NOBODY, READ_WAIT};
use leveret_client::Delivery;
use leveret_cluster::Env as _;
use leveret_management::api::{MoveEnd, MoveMessages};
use leveret_node::dead_letter::redriven;
use leveret_node::operator::{GotOne, Published};
use leveret_node::{Caller, Env, Question, QueueAnswer, operator};
use leveret_queue::{Outcome, Settle};
use leveret_queue_host::quorum::protocol::Fetched;
use leveret_shell::broker::Broker;
use leveret_types::limits::{
    MOVE_BATCH_BYTES, MOVE_BATCH_MESSAGES_MAX, MOVE_HELD_MAX, MOVE_PLACES_MAX,
};
use leveret_types::{ConsumerId, Message, ProtocolError, QueueId, RangeSet};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

/// A message on its way to its new queue.
struct Sent {
    delivery: Delivery,
    to: String,
    queue: QueueId,
    published: Published,
}

/// A move that runs.
pub struct Running {
    broker: Arc<Broker>,
    begun: Arc<Begun>,
    source: QueueId,
    vhost: String,
    queue: String,
    /// The user whose rights hold; none where an operator may do all.
    user: Option<String>,
    wanted: MoveMessages,
    /// Messages that it looks at, at most.
    most: u64,
    subscription: ConsumerId,
    /// Messages that stay, by priority log.
    held: BTreeMap<u8, RangeSet>,
    held_count: usize,
    looked_at: u64,
}

/// Whether a move goes on.
enum Next {
    GoesOn,
    Ends(MoveEnd),
}

impl Running {
    pub fn new(
        broker: &Arc<Broker>,
        source: QueueId,
        begun: Arc<Begun>,
        is_operator: bool,
    ) -> Self {
        let told = begun.told().clone();
        Self {
            broker: Arc::clone(broker),
            begun,
            source,
            vhost: told.vhost,
            queue: told.queue,
            user: (!is_operator).then_some(told.user),
            wanted: told.wanted,
            most: told.messages,
            subscription: broker.consumer_id(),
            held: BTreeMap::new(),
            held_count: 0,
            looked_at: 0,
        }
    }

    /// Runs it to its end.
    pub fn run(mut self) {
        let end = loop {
            match self.batch() {
                Ok(Next::GoesOn) => {}
                Ok(Next::Ends(end)) => break end,
                Err(why) => break MoveEnd::Failed(why),
            }
        };
        self.give_back();
        let now_ms = self.broker.now().wall_ms;
        tracing::info!(queue = ?self.queue, vhost = ?self.vhost, ?end, "a move of messages has ended");
        self.begun.end(now_ms, end);
    }

    /// On whose behalf: permissions may change while it runs.
    fn caller(&self) -> Caller {
        let catalogue = self.broker.catalogue();
        let rights = |user: &String| catalogue.rights(user, &self.vhost, "");
        Caller {
            connection: NOBODY,
            vhost: self.vhost.clone(),
            rights: self.user.as_ref().map(rights),
        }
    }

    /// Takes messages, as many as may be under way, and sees to them.
    fn batch(&mut self) -> Result<Next, String> {
        let caller = self.caller();
        let source = caller.gettable_queue(&self.queue, &*self.broker);
        if source.map_err(|error| error.text.into_owned())? != self.source {
            return Err("the queue is another than it was".to_owned());
        }
        if self.wanted.dry_run {
            return self.look(&caller);
        }
        let mut sent = Vec::new();
        let next = self.gather(&caller, &mut sent);
        self.broker.run_deferred_work();
        for one in sent {
            self.finish(one)?;
        }
        next
    }

    fn gather(&mut self, caller: &Caller, sent: &mut Vec<Sent>) -> Result<Next, String> {
        let mut known = HashMap::new();
        let mut bytes = 0;
        while sent.len() < MOVE_BATCH_MESSAGES_MAX && bytes < MOVE_BATCH_BYTES {
            if self.begun.stops() {
                return Ok(Next::Ends(MoveEnd::Stopped));
            }
            if self.looked_at >= self.most {
                return Ok(Next::Ends(MoveEnd::Done));
            }
            if self.held_count + sent.len() >= MOVE_HELD_MAX {
                return Err(format!(
                    "{MOVE_HELD_MAX} messages before the next one stay: no more are held back"
                ));
            }
            let Some(delivery) = self.take()? else {
                return Ok(Next::Ends(MoveEnd::Done));
            };
            self.looked_at += 1;
            self.begun.told().looked_at = self.looked_at;
            let found = self.way(caller, &mut known, &delivery.message);
            match found {
                Err(why) => {
                    self.begun.kept(&why);
                    self.hold(&delivery);
                }
                Ok((to, queue)) => {
                    let message = self.message(&delivery.message);
                    bytes += message.body().len();
                    let published =
                        operator::put(&message, queue, self.broker.now(), &*self.broker);
                    sent.push(Sent {
                        delivery,
                        to,
                        queue,
                        published,
                    });
                }
            }
        }
        Ok(Next::GoesOn)
    }

    /// Looks at messages where they are, and says what would become of each: nobody can tell from
    /// them later that somebody looked.
    fn look(&mut self, caller: &Caller) -> Result<Next, String> {
        let mut known = HashMap::new();
        for _ in 0..MOVE_BATCH_MESSAGES_MAX {
            if self.begun.stops() {
                return Ok(Next::Ends(MoveEnd::Stopped));
            }
            if self.looked_at >= self.most {
                return Ok(Next::Ends(MoveEnd::Done));
            }
            let Some(message) = self.peek()? else {
                return Ok(Next::Ends(MoveEnd::Done));
            };
            self.looked_at += 1;
            self.begun.told().looked_at = self.looked_at;
            match self.way(caller, &mut known, &message) {
                Err(why) => self.begun.kept(&why),
                Ok((to, _)) => self.begun.moved(&to),
            }
        }
        Ok(Next::GoesOn)
    }

    /// The queue that a message goes to, with its name; why it stays, otherwise.
    fn way(
        &self,
        caller: &Caller,
        known: &mut HashMap<String, Result<QueueId, ProtocolError>>,
        message: &Message,
    ) -> Result<(String, QueueId), String> {
        let to = destination(&self.wanted, &self.queue, message)?;
        // Whoever published the messages may have named as many queues as there are messages.
        if known.len() >= MOVE_PLACES_MAX {
            known.clear();
        }
        let look = || caller.queue_to_put_into(&to, &*self.broker);
        match known.entry(to.clone()).or_insert_with(look) {
            Ok(queue) => Ok((to, *queue)),
            Err(error) => Err(format!("{to}: {}", error.text)),
        }
    }

    /// The message behind those that were looked at; nothing if there is none.
    fn peek(&self) -> Result<Option<Message>, String> {
        let number = self.broker.consumer_id().0;
        let question = Question::Peek(self.looked_at);
        let look = || {
            let now = self.broker.now();
            operator::ask(self.source, question, number, now, &*self.broker)
        };
        match self.broker.wait_until(Instant::now() + READ_WAIT, look) {
            Some(QueueAnswer::Peeked(Fetched::Message(message))) => Ok(Some(message)),
            Some(QueueAnswer::Peeked(Fetched::Gone)) => Ok(None),
            _ => Err("a message could not be read in time".to_owned()),
        }
    }

    /// The message as its new queue gets it. Its time to live begins there.
    fn message(&self, message: &Message) -> Message {
        let mut message = match self.wanted.to {
            None => redriven(message),
            Some(_) => message.clone(),
        };
        message.summary.published_ms = self.broker.now().wall_ms;
        message
    }

    fn take(&self) -> Result<Option<Delivery>, String> {
        let look = || {
            let now = self.broker.now();
            operator::get(self.source, self.subscription, now, &*self.broker).ok()
        };
        match self.broker.wait_until(Instant::now() + READ_WAIT, look) {
            Some(GotOne::Message(delivery, _)) => Ok(Some(delivery)),
            Some(GotOne::Nothing) => Ok(None),
            Some(GotOne::Unavailable) => Err("the queue has no leader that answers".to_owned()),
            None => Err("a message could not be read in time".to_owned()),
        }
    }

    /// Waits until the new queue has a message, and settles it where it was.
    fn finish(&mut self, mut sent: Sent) -> Result<(), String> {
        let deadline = Instant::now() + DURABLE_WAIT;
        let mut places = std::mem::take(&mut sent.published.log_positions).into_iter();
        let is_durable = places.all(|place| self.broker.wait_durable(deadline, place));
        let took = || sent.published.is_taken();
        let is_taken = self.broker.wait_until(deadline, took);
        if let (true, Some(true)) = (is_durable, is_taken) {
            sent.published.told(&*self.broker);
            self.begun.moved(&sent.to);
            match self.wanted.copy {
                true => self.hold(&sent.delivery),
                false => {
                    let now = self.broker.now();
                    operator::settle(&sent.delivery, Outcome::Accept, now, &*self.broker);
                }
            }
            return Ok(());
        }
        self.hold(&sent.delivery);
        match is_taken {
            Some(false) => {
                let why = operator::why_refused(sent.queue, self.broker.now(), &*self.broker);
                self.begun.kept(&format!("{}: {why}", sent.to));
                Ok(())
            }
            _ => Err(format!("'{}' has not confirmed a message in time", sent.to)),
        }
    }

    /// Keeps a message from being looked at again.
    fn hold(&mut self, delivery: &Delivery) {
        let log = self.held.entry(delivery.priority_log).or_default();
        log.insert(delivery.index);
        self.held_count += 1;
    }

    /// Puts back what stays.
    fn give_back(&mut self) {
        let now = self.broker.now();
        let shard = self.broker.shard_of(self.source);
        for (priority_log, held) in std::mem::take(&mut self.held) {
            for range in held.iter() {
                let settle = Settle {
                    subscription: self.subscription,
                    priority_log,
                    range,
                    outcome: Outcome::Requeue { count: false },
                };
                let queue = self.source;
                self.broker.with_shard(now, shard, |shard| {
                    shard.settle(now, queue, settle);
                });
            }
        }
        self.broker.run_deferred_work();
    }
}
