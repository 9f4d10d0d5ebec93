//! A remote queue, its node's clients and its leader: scripts.
//!
//! A line is `what happens => what is outputs of it`: what the leader is told (`to 2: …`), and what
//! the connection of all clients hears. Nodes 2 and 3 may lead; this one is node 1,
//! and leads where it says so.
//!
//! ```text
//! attach 7 [noack]            a client consumes; also `prefetch=N`, and `narrow` without room
//! cancel|detach|unblock 7     of a consumer
//! publish N, accept 7 0..2    operations; also `reject`, `requeue`, `return`
//! dead-letter 5               another queue's message, which leaves that once it is here
//! get 9 [noack], purge, count, peek 0
//! poll WORDS                  the same of one who asks again, and gets the answer so
//! run MS                      time passes
//! due                         in how many milliseconds something is to be done
//! down 2, up 2                a node goes, and comes
//! narrow-way BYTES            there is room for so many bytes at a time to each node
//! room 2 BYTES                there is room for so many more to a node, and one turn
//! single 2                    the queue is on node 2 alone from now on
//! roomy 7 [N]                 the connection of a consumer that was `narrow` takes all there is,
//!                             or so many messages more
//! active 7, holds 7, wait     what is known of a consumer; who waits for all operations
//! 2 WORDS                     node 2 says something, in the session that there is
//! late 2 WORDS                the same in the session before
//! ```

use super::*;
use crate::delivery_credit::DeliveryCredit;
use crate::effects::{Deferred, Then};
use crate::notify::Afterwards;
use crate::peer_rooms::{PeerRooms, Waiter};
use crate::queue_host::{Get, HostContext};
use crate::quorum::RemoteQueues;
use crate::quorum::protocol::{Event, Fetched, LocalDelivery, Origin};
use crate::quorum::remote_queues::Received;
use leveret_queue::{Outcome, Settle};
use leveret_storage::{Folders, MemoryDisk, Options, ShardLogs, recover};
use leveret_types::MessageParts;
use leveret_types::limits::OUTBOX_MESSAGES_MAX;
use leveret_types::message::MessageSummary;
use std::ops::Range;

const QUEUE: QueueId = QueueId(256);
const HERE: NodeId = NodeId(1);
const CLIENT: Subscriber = Subscriber::Client(ConnectionId(7));
/// What a poller calls its question.
const POLL: u64 = 5;

struct Desk {
    remote_queues: RemoteQueues,
    effects: ShardEffects,
    logs: ShardLogs,
    now: Now,
    credits: Vec<(ConsumerId, Arc<DeliveryCredit>)>,
    outputs: Vec<String>,
    peer_rooms: PeerRooms,
}

fn number<T: std::str::FromStr>(word: &str) -> T {
    let parsed = word.parse();
    parsed.unwrap_or_else(|_| panic!("{word:?} is no number"))
}

fn id(word: &str) -> ConsumerId {
    ConsumerId(number(word))
}

fn range(word: &str) -> Range<u64> {
    let (start, end) = word.split_once("..").expect("a range");
    number(start)..number(end)
}

fn value(words: &[&str], name: &str) -> Option<u32> {
    let mut values = words.iter().filter_map(|word| word.split_once('='));
    let (_, value) = values.find(|(of, _)| *of == name)?;
    Some(number(value))
}

fn consumer(word: &str, words: &[&str]) -> Consumer {
    Consumer {
        id: id(word),
        priority: 0,
        exclusive: false,
        no_ack: words.contains(&"noack"),
        prefetch: value(words, "prefetch").unwrap_or_default(),
        timeout_ms: None,
    }
}

fn message(index: u64, bytes: usize) -> Message {
    let mut body = index.to_le_bytes().to_vec();
    body.resize(bytes.max(8), 0);
    let parts = MessageParts {
        exchange: b"",
        routing_key: b"q",
        properties: &[0, 0],
        body: &body,
    };
    Message::from_parts(parts, MessageSummary::default())
}

fn delivery(consumer: ConsumerId, index: u64, words: &[&str]) -> leveret_client::Delivery {
    let acquired_count = value(words, "had");
    let local = LocalDelivery {
        consumer,
        priority_log: 0,
        index,
        redelivered: acquired_count.is_some() || words.contains(&"again"),
        delivery_count: None,
        acquired_count,
        bytes: 8,
        entry: 1,
        term: 1,
    };
    let bytes = value(words, "bytes").unwrap_or(8) as usize;
    local.complete(QUEUE, message(index, bytes))
}

/// What a node says.
fn event(words: &[&str]) -> Event {
    let rest = words.get(2..).unwrap_or_default();
    let request = || number::<u64>(words[1]);
    match words[0] {
        "leading" => Event::Leading {
            term: number(words[1]),
        },
        "not-leader" => Event::NotLeader {
            term: number(words[1]),
            leader: rest.first().map(|node| NodeId(number(node))),
        },
        "committed" => Event::Committed {
            through: number(words[1]),
        },
        "refused" => Event::Refused {
            sequences: range(words[1]),
        },
        "attached" => Event::Attached {
            consumer: id(words[1]),
            result: Ok(()),
        },
        "not-attached" => Event::Attached {
            consumer: id(words[1]),
            result: Err(AttachError::ExclusiveTaken),
        },
        "delivers" => Event::Deliver(delivery(id(words[1]), number(rest[0]), rest)),
        "cancelled" => Event::Cancelled(id(words[1])),
        "got" => Event::Got {
            subscription: id(words[1]),
            got: rest
                .first()
                .map(|index| (delivery(id(words[1]), number(index), rest), 3)),
        },
        "purged" => Event::Purged {
            request: request(),
            count: number(rest[0]),
        },
        "counted" => Event::Counted {
            request: request(),
            queue_counts: QueueCounts {
                ready: number(rest[0]),
                ..QueueCounts::default()
            },
        },
        "peeked" => Event::Peeked {
            request: request(),
            fetched: Fetched::Gone,
        },
        "timed-out" => Event::TimedOut(id(words[1])),
        "active" => Event::Active {
            consumer: id(words[1]),
            activation: number(rest[0]),
        },
        word => panic!("{word:?} is said by no leader"),
    }
}

fn operation(of: &Operation) -> String {
    match of {
        Operation::Publish(message) => {
            let body = message.body()[..8].try_into().expect("eight bytes");
            format!("m{}", u64::from_le_bytes(body))
        }
        Operation::Settle(settle) => {
            let outcome = match settle.outcome {
                Outcome::Accept => "accept",
                Outcome::Reject => "reject",
                Outcome::Requeue { count: true } => "requeue",
                Outcome::Requeue { count: false } => "return",
                Outcome::Release => "release",
            };
            format!("{outcome} {} {:?}", settle.subscription.0, settle.range)
        }
        Operation::Nothing => "nothing".to_owned(),
    }
}

fn registration(of: &crate::quorum::protocol::Registration) -> String {
    let mut text = format!("present {}", of.first_sequence);
    for subscription in &of.subscriptions {
        let kind = match subscription.consumer {
            Some(_) => "",
            None => "get:",
        };
        text.push_str(&format!(" {kind}{}", subscription.id.0));
        if subscription.activation > 0 {
            text.push_str(&format!("!{}", subscription.activation));
        }
        for unsettled in &subscription.unsettled {
            text.push_str(&format!("={:?}@{}", unsettled.range, unsettled.acquired));
            if unsettled.settled_by > 0 {
                text.push_str(&format!("#{}", unsettled.settled_by));
            }
        }
    }
    text
}

fn command(of: &Command) -> String {
    match of {
        Command::Register(of) => registration(of),
        Command::NothingToRegister { term } => format!("absent {term}"),
        Command::Operations { first, operations } => {
            let all: Vec<String> = operations.iter().map(operation).collect();
            format!("{first}: {}", all.join(" & "))
        }
        Command::Acknowledged { first } => format!("heard {first}"),
        Command::Attach(consumer) => format!("attach {}", consumer.id.0),
        Command::Cancel(consumer) => format!("cancel {}", consumer.0),
        Command::Detach(consumer) => format!("detach {}", consumer.0),
        Command::Credit {
            consumer,
            messages,
            bytes,
        } => format!("credit {} {messages} {bytes}", consumer.0),
        Command::Get { subscription, .. } => format!("get {}", subscription.0),
        Command::Purge { request } => format!("purge {request}"),
        Command::Count { request } => format!("count {request}"),
        Command::Peek { request, before } => format!("peek {request} {before}"),
        Command::Fetch { index, .. } => format!("fetch {index}"),
    }
}

fn answer(of: &QueueAnswer) -> String {
    match of {
        QueueAnswer::Attached { consumer, result } => match result {
            Ok(()) => format!("attached {}", consumer.0),
            Err(_) => format!("not attached {}", consumer.0),
        },
        QueueAnswer::Got(Some((delivery, left))) => format!("got {} left={left}", delivery.index),
        QueueAnswer::Got(None) => "got none".to_owned(),
        QueueAnswer::Purged(count) => format!("purged {count}"),
        QueueAnswer::Counted(counts) => format!("counted {}", counts.ready),
        QueueAnswer::Peeked(_) => "peeked".to_owned(),
        QueueAnswer::Unavailable => "unavailable".to_owned(),
    }
}

fn posted(of: &QueueEvent) -> String {
    match of {
        QueueEvent::Deliver(of) => format!("{} gets {}", of.consumer.0, of.index),
        QueueEvent::Reply(_) => "done".to_owned(),
        QueueEvent::CancelConsumer(consumer) => format!("cancelled {}", consumer.0),
        QueueEvent::TimedOut(consumer) => format!("timed out {}", consumer.0),
        QueueEvent::Committed { through, .. } => format!("committed {through}"),
        QueueEvent::Refused { sequences, .. } => format!("refused {sequences:?}"),
        QueueEvent::Room(_) => "room".to_owned(),
        QueueEvent::Answered { answer: of, .. } => answer(of),
    }
}

impl Desk {
    fn new() -> Self {
        let origin = Origin {
            node: HERE,
            start: 1,
        };
        let folders = Folders::within(std::path::Path::new("/store"));
        let recovered = recover(&MemoryDisk::new(), &folders, &Options::default());
        let mut desk = Self {
            remote_queues: RemoteQueues::new(origin, 1),
            effects: ShardEffects::default(),
            logs: recovered.expect("a store").shards.remove(0),
            now: Now::both(1_000),
            credits: Vec::new(),
            outputs: Vec::new(),
            peer_rooms: PeerRooms::unbounded(),
        };
        let nodes = [NodeId(2), NodeId(3)];
        desk.remote_queues.place(QUEUE, &nodes, false);
        for node in nodes {
            desk.remote_queues.peer_up(desk.now, node);
        }
        desk
    }

    fn with<R>(&mut self, run: impl FnOnce(&mut RemoteQueue, &mut HostContext<'_>) -> R) -> R {
        let context = &mut HostContext {
            now: self.now,
            node: HERE,
            logs: &mut self.logs,
            effects: &mut self.effects,
            answers: &mut Vec::new(),
            scratch: &mut Vec::new(),
        };
        let remote_queue = self.remote_queues.used(QUEUE).expect("it is placed");
        run(remote_queue, context)
    }

    fn with_context<R>(
        &mut self,
        run: impl FnOnce(&mut RemoteQueues, &mut RemoteContext<'_>) -> R,
    ) -> R {
        let context = &mut RemoteContext {
            now: self.now,
            node: HERE,
            effects: &mut self.effects,
        };
        run(&mut self.remote_queues, context)
    }

    /// Does what a shard does after each event.
    fn finish(&mut self) {
        let outputs = &mut self.outputs;
        while self.remote_queues.pop_dirty().is_some() {
            self.remote_queues.locate(self.now, QUEUE, None);
            let peer_rooms = &mut self.peer_rooms;
            self.remote_queues.flush(QUEUE, peer_rooms, |node, _, put| {
                let said = match put {
                    Put::Operations(first, operations) => Command::Operations {
                        first,
                        operations: operations.cloned().collect(),
                    },
                    Put::Message(message) => message,
                };
                outputs.push(format!("to {}: {}", node.0, command(&said)));
            });
            self.remote_queues.note_deadline(QUEUE);
        }
        for deferred in std::mem::take(&mut self.effects.deferred) {
            let Deferred::Afterwards {
                then: Then::DeadLettered { index, .. },
                refused,
            } = deferred
            else {
                panic!("{deferred:?}");
            };
            let became = if refused { "not arrived" } else { "arrived" };
            outputs.push(format!("{became} {index}"));
        }
        let posts = std::mem::take(&mut self.effects.posts);
        outputs.extend(posts.iter().map(|(_, event)| posted(event)));
    }

    fn attach(&mut self, consumer: Consumer) {
        let credit = Arc::<DeliveryCredit>::default();
        self.credits.push((consumer.id, Arc::clone(&credit)));
        let credit = ConsumerCredit {
            connection: credit,
            limiter: None,
        };
        let attached = self.with(|of, context| of.attach(context, consumer, CLIENT, credit));
        assert_eq!(attached, Ok(When::Later));
    }

    fn publish(&mut self, count: &str, words: &[&str]) {
        for _ in 0..number(count) {
            let number = self.known().map_or(1, |of| of.pending_operations.next());
            let bytes = value(words, "bytes").unwrap_or(8) as usize;
            let (message, notify) = (message(number, bytes), Notify::Connection(ConnectionId(7)));
            let kept = self
                .with(|of, context| of.publish(context, &message, &mut Bodies::default(), &notify));
            match kept {
                Enqueued::Kept { .. } => {}
                other => self.outputs.push(format!("{other:?}").to_lowercase()),
            }
        }
    }

    fn dead_letter(&mut self, index: u64) {
        let then = Afterwards::new(Then::DeadLettered {
            queue: QueueId(512),
            priority_log: 0,
            index,
        });
        let (message, notify) = (message(index, 8), Notify::Then(Arc::clone(&then)));
        self.with(|of, context| of.publish(context, &message, &mut Bodies::default(), &notify));
        assert!(then.filled().is_none(), "it is under way");
    }

    fn known(&self) -> Option<&RemoteQueue> {
        self.remote_queues.known(QUEUE)
    }

    fn ask(&mut self, asker: Asker, words: &[&str]) {
        let said = self.with(|of, context| match words[0] {
            "get" => {
                let get = Get {
                    subscription: id(words[1]),
                    subscriber: (asker != Asker::Poll(POLL)).then_some(CLIENT),
                    no_ack: words.contains(&"noack"),
                };
                match of.get(context, get) {
                    GetOutcome::Message(delivery, left) => {
                        Some(QueueAnswer::Got(Some((delivery, left))))
                    }
                    GetOutcome::Empty => Some(QueueAnswer::Got(None)),
                    GetOutcome::Unavailable => Some(QueueAnswer::Unavailable),
                    GetOutcome::Pending => None,
                    _ => panic!("it is no answer"),
                }
            }
            "purge" => of.purge(context, asker),
            "count" => of.count(context, asker),
            "peek" => of.peek(context, asker, number(words[1])),
            word => panic!("{word:?} is not asked"),
        });
        self.outputs.extend(said.iter().map(answer));
    }

    fn settle(&mut self, outcome: Outcome, words: &[&str]) {
        let settle = Settle {
            subscription: id(words[1]),
            priority_log: 0,
            range: range(words[2]),
            outcome,
        };
        let count = self.with(|of, context| of.settle(context, settle.clone()));
        if count != settle.range.end - settle.range.start {
            self.outputs.push(format!("settled {count}"));
        }
    }

    fn act(&mut self, words: &[&str]) {
        let client = Asker::Connection(ConnectionId(7));
        match *words {
            ["attach", of, ref words @ ..] => {
                self.attach(consumer(of, words));
                if words.contains(&"narrow") {
                    let (_, credit) = self.credits.last().expect("it was just attached");
                    while credit.take(1) {}
                }
            }
            ["roomy", of, ref count @ ..] => {
                let found = self
                    .credits
                    .iter()
                    .find(|(consumer, _)| *consumer == id(of));
                let (_, credit) = found.expect("it is attached");
                let count = count.first().map_or(OUTBOX_MESSAGES_MAX, |of| number(of));
                credit.give(count, count);
            }
            ["cancel", of] => {
                self.with(|queue, context| queue.cancel(context, id(of), CLIENT));
            }
            ["detach", of] => self.with(|queue, context| queue.detach(context, id(of))),
            ["unblock", of] => self.with(|queue, context| queue.unblock(context, id(of))),
            ["publish", count, ref words @ ..] => self.publish(count, words),
            ["accept", ..] => self.settle(Outcome::Accept, words),
            ["reject", ..] => self.settle(Outcome::Reject, words),
            ["requeue", ..] => self.settle(Outcome::Requeue { count: true }, words),
            ["return", ..] => self.settle(Outcome::Requeue { count: false }, words),
            ["wait"] => {
                let until = self.with(|queue, _| queue.wait_for_all(ConnectionId(8)));
                self.outputs.push(format!("until {until:?}"));
            }
            ["poll", ref words @ ..] => self.ask(Asker::Poll(POLL), words),
            ["get" | "purge" | "count" | "peek", ..] => self.ask(client, words),
            ["run", ms] => {
                for _ in 0..number::<u64>(ms) {
                    self.now.monotonic_ms += 1;
                    self.with_context(|queues, context| queues.tick(context));
                    self.finish();
                }
            }
            ["due"] => self
                .outputs
                .push(match self.remote_queues.next_deadline_ms() {
                    Some(at) => format!("in {} ms", at.saturating_sub(self.now.monotonic_ms)),
                    None => "never".to_owned(),
                }),
            ["down", node] => {
                let node = NodeId(number(node));
                self.with_context(|queues, context| queues.peer_down(node, context));
            }
            ["up", node] => self.remote_queues.peer_up(self.now, NodeId(number(node))),
            ["single", node] => {
                let nodes = [NodeId(number(node))];
                self.remote_queues.place(QUEUE, &nodes, true);
            }
            ["narrow-way", bytes] => {
                self.peer_rooms = PeerRooms::bounded(number(bytes));
                for node in [2, 3] {
                    self.peer_rooms.open(NodeId(node));
                }
            }
            ["room", node, bytes] => {
                let node = NodeId(number(node));
                self.peer_rooms.give(node, number(bytes));
                let who = self.peer_rooms.begin_turn(node);
                assert_eq!(who, Some(Waiter::Operations(QUEUE)));
                self.remote_queues.used(QUEUE);
                self.finish();
                self.peer_rooms.end_turn(node);
            }
            ["dead-letter", index] => self.dead_letter(number(index)),
            ["remove"] => self.with_context(|queues, context| queues.remove(QUEUE, context)),
            ["active", of] => {
                let active = self.with(|queue, _| queue.single_active(id(of)));
                self.outputs.push(format!("{active:?}"));
            }
            ["holds", of] => {
                let holds = self.with(|queue, _| queue.holds(id(of)));
                self.outputs.push(holds.to_string());
            }
            ["late", ref words @ ..] => {
                let session = self.known().map_or(0, RemoteQueue::session);
                self.leader_says(session - 1, words);
            }
            _ => {
                let session = self.known().map_or(0, RemoteQueue::session);
                self.leader_says(session, words);
            }
        }
        self.finish();
    }

    fn leader_says(&mut self, session: u64, words: &[&str]) {
        match *words {
            [node, ref words @ ..] => {
                let (node, said) = (NodeId(number(node)), event(words));
                let received = self.with_context(|queues, context| {
                    queues.receive(QUEUE, node, session, said, context)
                });
                if let Received::Answer(said) = received {
                    self.outputs
                        .push(format!("to {}: {}", node.0, command(&said)));
                }
            }
            [] => panic!("nothing is said"),
        }
    }
}

/// Plays a script.
pub(super) fn play(script: &str) {
    let mut desk = Desk::new();
    let lines = script.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty()) {
        let (said, expected) = line.split_once("=>").unwrap_or((line, ""));
        desk.act(&said.split_whitespace().collect::<Vec<_>>());
        let outputs = std::mem::take(&mut desk.outputs).join(", ");
        assert_eq!(outputs, expected.trim(), "after {said:?} in\n{script}");
    }
}
