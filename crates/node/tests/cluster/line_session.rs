//! A protocol that exists in these tests alone: a line for each thing that a client says or hears.
//! It shows that a session needs nothing of the broker but the client port.
//!
//! Its verbs, with what is answered:
//!
//! - `hello USER PASSWORD VHOST`: `hello`
//! - `declare QUEUE KIND`, or `?` for the kind to look it up: `declared QUEUE READY CONSUMERS`
//! - `bind QUEUE EXCHANGE KEY`: `bound`
//! - `delete QUEUE`: `deleted MESSAGES`
//! - `publish EXCHANGE KEY BODY`, with `-` for the default exchange; a body `amqp10:…` is kept as
//!   AMQP 1.0: `confirmed N`, `confirmed ..N` for all up to it, or `rejected N`; `returned BODY`
//!   before it
//! - `subscribe QUEUE NAME prefetch=N [KEY=VALUE]`, or `credit=N`: `subscribed NAME`, then
//!   `deliver NAME NUMBER BODY`
//! - `credit NAME N`
//! - `settle accept FIRST LAST`, or `requeue`, or `reject`
//! - `get QUEUE`: `got NUMBER BODY left=N`, or `empty`
//! - `cancel NAME`: `cancelled NAME`
//!
//! Without being asked a client hears `ended NAME` of a consumer, `blocked REASON` and `unblocked`,
//! and `error CODE TEXT`.

use bytes::Bytes;
use leveret_amqp::Properties;
use leveret_client::{
    Answer, Answered, Awaited, ChannelStatus, Consume, DeliveredTo, Delivery, Flow, Ledger,
    LoginOutcome, Publish, Reply, Request, Session, SessionLatencies, SessionState, SessionStatus,
    Settle, SettleOutcome, Topology,
};
use leveret_types::message::MessageSummary;
use leveret_types::{
    ChannelId, ConsumerId, FieldTable, FieldValue, Message, MessageFormat, MessageParts, Now,
    OutBuffer, ProtocolError, QueueId, ReplyCode, Scope, ShardId,
};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// The protocol has no channels: the port's one of them.
const CHANNEL: ChannelId = ChannelId(1);

/// What was asked, as its answer needs it.
enum Asked {
    Login { vhost: String },
    OpenVhost,
    Begin,
    Declare,
    Bind,
    Delete,
    Subscribe(String),
    Get,
    Cancel(String),
}

/// Who holds a delivery, and where it is in its queue.
struct Held {
    subscription: ConsumerId,
    queue: QueueId,
    priority_log: u8,
    index: u64,
}

/// See the module's description.
pub struct LineSession {
    state: SessionState,
    lines: VecDeque<String>,
    partial: Vec<u8>,
    asked: Option<Asked>,
    out: OutBuffer,
    ledger: Ledger,
    consumers: BTreeMap<String, ConsumerId>,
    held: BTreeMap<u64, Held>,
    deliveries: u64,
    alarm: bool,
    published: bool,
    answered: Answered,
    latencies: SessionLatencies,
    now: Now,
}

impl LineSession {
    pub fn new() -> Self {
        Self {
            state: SessionState::Opening,
            lines: VecDeque::new(),
            partial: Vec::new(),
            asked: None,
            out: OutBuffer::new(),
            ledger: Ledger::default(),
            consumers: BTreeMap::new(),
            held: BTreeMap::new(),
            deliveries: 0,
            alarm: false,
            published: false,
            answered: Answered::default(),
            latencies: SessionLatencies::default(),
            now: Now::default(),
        }
    }

    fn say(&mut self, line: &str) {
        let tail = self.out.tail();
        tail.extend_from_slice(line.as_bytes());
        tail.push(b'\n');
    }

    fn read(&mut self, now: Now, requests: &mut Vec<Request>) {
        while self.asked.is_none() && self.state != SessionState::Closed {
            if self.is_blocked() {
                return;
            }
            let Some(line) = self.lines.pop_front() else {
                return;
            };
            let words: Vec<&str> = line.split_whitespace().collect();
            self.line(&words, now, requests);
        }
    }

    fn ask(&mut self, asked: Asked, request: Request, requests: &mut Vec<Request>) {
        self.asked = Some(asked);
        requests.push(request);
    }

    fn line(&mut self, words: &[&str], now: Now, requests: &mut Vec<Request>) {
        let owned = |word: &str| word.to_owned();
        let topology = |operation| Request::Topology {
            channel: CHANNEL,
            operation,
        };
        match *words {
            ["hello", user, password, vhost] => {
                let login = Request::Login {
                    mechanism: owned("PLAIN"),
                    response: format!("\0{user}\0{password}").into_bytes(),
                };
                let vhost = owned(vhost);
                self.ask(Asked::Login { vhost }, login, requests);
            }
            ["declare", name, kind] => {
                let mut arguments = FieldTable::new();
                if kind != "?" {
                    arguments.set("x-queue-type", FieldValue::text(kind));
                }
                let declare = Topology::QueueDeclare {
                    name: owned(name),
                    passive: kind == "?",
                    durable: true,
                    exclusive: false,
                    auto_delete: false,
                    arguments,
                };
                self.ask(Asked::Declare, topology(declare), requests);
            }
            ["bind", queue, exchange, key] => {
                let bind = Topology::QueueBind {
                    queue: owned(queue),
                    exchange: owned(exchange),
                    routing_key: key.into(),
                    arguments: FieldTable::new(),
                };
                self.ask(Asked::Bind, topology(bind), requests);
            }
            ["delete", queue] => {
                let delete = Topology::QueueDelete {
                    queue: owned(queue),
                    if_unused: false,
                    if_empty: false,
                };
                self.ask(Asked::Delete, topology(delete), requests);
            }
            ["publish", exchange, key, body] => {
                let exchange = exchange.trim_start_matches('-');
                self.publish(exchange, key, body, now, requests);
            }
            ["subscribe", queue, name, flow, ref arguments @ ..] => {
                let consume = consume(queue, name, flow, arguments);
                self.ask(
                    Asked::Subscribe(owned(name)),
                    Request::Consume(consume),
                    requests,
                );
            }
            ["credit", name, messages] => requests.push(Request::Credit {
                channel: CHANNEL,
                consumer: self.consumers[name],
                messages: number(messages) as u32,
            }),
            ["settle", outcome, first, last] => {
                let outcome = match outcome {
                    "accept" => SettleOutcome::Accept,
                    "requeue" => SettleOutcome::Requeue,
                    _ => SettleOutcome::Reject,
                };
                self.settle(number(first)..number(last) + 1, outcome, requests);
            }
            ["get", queue] => {
                let get = Request::Get {
                    channel: CHANNEL,
                    queue: owned(queue),
                    no_ack: false,
                };
                self.ask(Asked::Get, get, requests);
            }
            ["cancel", name] => {
                let cancel = Request::Cancel {
                    channel: CHANNEL,
                    consumer: self.consumers[name],
                };
                self.ask(Asked::Cancel(owned(name)), cancel, requests);
            }
            _ => self.say(&format!("error 503 unknown line {words:?}")),
        }
    }

    fn publish(
        &mut self,
        exchange: &str,
        key: &str,
        body: &str,
        now: Now,
        requests: &mut Vec<Request>,
    ) {
        self.published = true;
        let (format, properties, body) = written(body);
        let parts = MessageParts {
            exchange: exchange.as_bytes(),
            routing_key: key.as_bytes(),
            properties: &properties,
            body: &body,
        };
        let summary = MessageSummary {
            persistent: true,
            published_ms: now.wall_ms,
            format,
            ..MessageSummary::default()
        };
        requests.push(Request::Publish(Publish {
            channel: CHANNEL,
            number: self.ledger.issue(now.monotonic_ms),
            mandatory: true,
            message: Message::from_parts(parts, summary),
        }));
    }

    /// Deliveries of one queue to one consumer that lie one behind the other are settled as one
    /// range.
    fn settle(&mut self, numbers: Range<u64>, outcome: SettleOutcome, to: &mut Vec<Request>) {
        let mut settles: Vec<Settle> = Vec::new();
        for number in numbers {
            let Some(held) = self.held.remove(&number) else {
                continue;
            };
            match settles.last_mut() {
                Some(last)
                    if last.subscription == held.subscription
                        && last.priority_log == held.priority_log
                        && last.range.end == held.index =>
                {
                    last.range.end += 1;
                }
                _ => settles.push(Settle {
                    channel: CHANNEL,
                    subscription: held.subscription,
                    queue: held.queue,
                    priority_log: held.priority_log,
                    range: held.index..held.index + 1,
                    outcome,
                }),
            }
        }
        to.extend(settles.into_iter().map(Request::Settle));
    }

    fn hold(&mut self, delivery: &Delivery) -> u64 {
        self.deliveries += 1;
        let held = Held {
            subscription: delivery.consumer,
            queue: delivery.queue,
            priority_log: delivery.priority_log,
            index: delivery.index,
        };
        self.held.insert(self.deliveries, held);
        self.deliveries
    }

    fn answered(&mut self, asked: Asked, reply: Reply, requests: &mut Vec<Request>) {
        match (asked, reply) {
            (_, Reply::Failed(error)) => self.error(&error),
            (Asked::Login { vhost }, Reply::Login(LoginOutcome::Accepted { .. })) => {
                self.ask(Asked::OpenVhost, Request::OpenVhost { vhost }, requests);
            }
            (Asked::Login { .. }, _) => {
                self.say("error 403 refused");
                self.state = SessionState::Closed;
            }
            (Asked::OpenVhost, _) => {
                let channel = CHANNEL;
                self.ask(Asked::Begin, Request::OpenChannel { channel }, requests);
            }
            (Asked::Begin, _) => {
                self.state = SessionState::Open;
                self.say("hello");
            }
            (
                Asked::Declare,
                Reply::Queue {
                    name,
                    messages,
                    consumers,
                },
            ) => {
                self.say(&format!("declared {name} {messages} {consumers}"));
            }
            (Asked::Bind, _) => self.say("bound"),
            (Asked::Delete, Reply::Count(count)) => self.say(&format!("deleted {count}")),
            (Asked::Subscribe(name), Reply::Consuming { consumer }) => {
                self.say(&format!("subscribed {name}"));
                self.consumers.insert(name, consumer);
            }
            (Asked::Get, Reply::Got(Some((delivery, left)))) => {
                let number = self.hold(&delivery);
                let body = read(&delivery.message);
                self.say(&format!("got {number} {body} left={left}"));
            }
            (Asked::Get, _) => self.say("empty"),
            (Asked::Cancel(name), _) => {
                self.consumers.remove(&name);
                self.say(&format!("cancelled {name}"));
            }
            (_, reply) => panic!("{reply:?} answers something else"),
        }
    }

    fn error(&mut self, error: &ProtocolError) {
        self.say(&format!("error {} {}", error.code.code(), error.text));
        if error.scope == Scope::Connection {
            self.state = SessionState::Closed;
        }
    }
}

/// Before the body of a message that is to be kept in AMQP 1.0.
const SECTIONS: &str = "amqp10:";
/// How a section of data of less than 256 octets begins, before its length.
const DATA: [u8; 4] = [0, 0x53, 0x75, 0xa0];

/// The format, the properties and the body of a message.
fn written(body: &str) -> (MessageFormat, Vec<u8>, Vec<u8>) {
    match body.strip_prefix(SECTIONS) {
        Some(data) => {
            let body = [&DATA[..], &[data.len() as u8], data.as_bytes()].concat();
            (MessageFormat::Amqp10, Vec::new(), body)
        }
        None => {
            let properties = Properties {
                delivery_mode: Some(2),
                ..Properties::default()
            };
            (MessageFormat::Amqp091, properties.to_bytes(), body.into())
        }
    }
}

/// The same of a message that has arrived.
fn read(message: &Message) -> String {
    let (prefix, body) = match message.summary.format {
        MessageFormat::Amqp091 => ("", message.body()),
        MessageFormat::Amqp10 => (SECTIONS, &message.body()[DATA.len() + 1..]),
    };
    format!("{prefix}{}", String::from_utf8_lossy(body))
}

fn number(word: &str) -> u64 {
    word.parse()
        .unwrap_or_else(|_| panic!("{word} is no number"))
}

fn consume(queue: &str, name: &str, flow: &str, words: &[&str]) -> Consume {
    let flow = match flow.split_once('=') {
        Some(("credit", messages)) => Flow::Credit(number(messages) as u32),
        Some((_, messages)) => Flow::Prefetch(number(messages) as u16),
        None => panic!("{flow} bounds nothing"),
    };
    let mut arguments = FieldTable::new();
    for (key, value) in words.iter().filter_map(|word| word.split_once('=')) {
        arguments.set(key, FieldValue::text(value));
    }
    Consume {
        channel: CHANNEL,
        queue: queue.to_owned(),
        tag: name.to_owned(),
        no_ack: false,
        exclusive: false,
        flow,
        arguments,
    }
}

impl Session for LineSession {
    fn set_now(&mut self, now: Now) {
        self.now = now;
    }

    fn receive(&mut self, now: Now, bytes: Bytes, requests: &mut Vec<Request>) {
        self.partial.extend_from_slice(&bytes);
        while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.partial.drain(..=end).collect();
            self.lines
                .push_back(String::from_utf8_lossy(&line).into_owned());
        }
        self.read(now, requests);
    }

    fn reply(&mut self, now: Now, reply: Reply, requests: &mut Vec<Request>) {
        let asked = self.asked.take().expect("an answer to something");
        self.answered(asked, reply, requests);
        self.read(now, requests);
    }

    fn fail(&mut self, _: Now, _: ChannelId, error: ProtocolError, _: &mut Vec<Request>) {
        self.error(&error);
    }

    fn close(&mut self, error: ProtocolError) {
        self.error(&error);
        self.state = SessionState::Closed;
    }

    fn teardown(&mut self, requests: &mut Vec<Request>) {
        (self.asked, self.state) = (None, SessionState::Closed);
        requests.push(Request::ChannelClosed {
            channel: CHANNEL,
            error: None,
        });
    }

    fn deliver(&mut self, delivery: &Delivery) -> bool {
        let mut consumers = self.consumers.iter();
        let Some((name, _)) = consumers.find(|(_, id)| **id == delivery.consumer) else {
            return false;
        };
        let name = name.clone();
        let number = self.hold(delivery);
        let body = read(&delivery.message);
        self.say(&format!("deliver {name} {number} {body}"));
        true
    }

    fn returned(&mut self, _: ChannelId, message: &Message, _: ReplyCode, _: &str) {
        let body = read(message);
        self.say(&format!("returned {body}"));
    }

    fn consumer_cancelled(&mut self, consumer: ConsumerId) {
        let mut consumers = self.consumers.iter();
        if let Some((name, _)) = consumers.find(|(_, id)| **id == consumer) {
            let name = name.clone();
            self.consumers.remove(&name);
            self.say(&format!("ended {name}"));
        }
    }

    fn blocked(&mut self, reason: Option<&str>) {
        let was_on = std::mem::replace(&mut self.alarm, reason.is_some());
        match reason {
            Some(reason) if !was_on => self.say(&format!("blocked {reason}")),
            None if was_on => self.say("unblocked"),
            _ => {}
        }
    }

    fn accepted(&mut self, _: ChannelId, number: u64, waits: &[(Awaited, u64)]) {
        self.ledger.accept(number, waits);
    }

    fn rejected(&mut self, _: ChannelId, number: u64) {
        self.ledger.reject(number);
    }

    fn durable(&mut self, shard: ShardId, through: u64) {
        self.ledger.durable(shard, through);
    }

    fn committed(&mut self, queue: QueueId, through: u64) {
        self.ledger.committed(queue, through);
    }

    fn refused(&mut self, queue: QueueId, sequences: &Range<u64>) {
        self.ledger.refused(queue, sequences.clone());
    }

    fn awaits_durability(&self) -> bool {
        self.ledger.awaits_durability()
    }

    fn flush(&mut self) {
        let (mut lines, answered) = (Vec::new(), &mut self.answered);
        let now_ms = self.now.monotonic_ms;
        let latencies = &mut self.latencies.confirms;
        self.ledger.flush(now_ms, latencies, |answer: Answer| {
            let verb = match answer.confirmed {
                true => "confirmed",
                false => "rejected",
            };
            answered.note(answer);
            let all = if answer.multiple { ".." } else { "" };
            lines.push(format!("{verb} {all}{}", answer.number));
        });
        lines.iter().for_each(|line| self.say(line));
    }

    fn take_answered(&mut self) -> Answered {
        self.answered.take()
    }

    fn latencies(&mut self) -> &mut SessionLatencies {
        &mut self.latencies
    }

    fn output(&mut self) -> &mut OutBuffer {
        &mut self.out
    }

    fn suspended(&self) -> bool {
        self.asked.is_some()
    }

    fn counts(&self, _: ChannelId) -> bool {
        true
    }

    fn state(&self) -> SessionState {
        self.state
    }

    fn alarmed(&self) -> bool {
        self.alarm
    }

    /// Only publishers wait for the end of an alarm.
    fn is_blocked(&self) -> bool {
        let next = self.lines.front();
        self.alarm && next.is_some_and(|line| line.starts_with("publish"))
    }

    fn published_yet(&self) -> bool {
        self.published
    }

    fn status(&self) -> SessionStatus {
        SessionStatus {
            protocol: "lines",
            client_properties: FieldTable::new(),
            frame_max: 0,
            channel_max: 0,
            heartbeat_seconds: 0,
            unsent_bytes: self.out.len() as u64,
        }
    }

    fn channels(&self) -> Vec<ChannelStatus> {
        Vec::new()
    }

    // It has no clock, no half-closed sockets and no transactions.
    fn tick(&mut self, _: Now, _: &mut Vec<Request>) {}
    fn unread(&mut self, _: Now) {}
    fn beat(&mut self) {}
    fn deadline(&self) -> Option<u64> {
        None
    }
    fn ends_output(&self) -> bool {
        false
    }
    fn is_transactional(&self, _: ChannelId) -> bool {
        false
    }
    fn hears_of_cancels(&self) -> bool {
        true
    }
    fn delivered_to(&self, _: ConsumerId) -> DeliveredTo {
        DeliveredTo::default()
    }
    fn oldest_unsettled(&self, _: &[ChannelId]) -> Vec<(ConsumerId, u64)> {
        Vec::new()
    }
    fn unsettled_by(&self, _: ChannelId, consumer: ConsumerId) -> usize {
        let held = self.held.values();
        held.filter(|held| held.subscription == consumer).count()
    }
}
