//! Runs conversations.
//!
//! A line is `what happens => what comes of it`. What happens is a client's method (`1:ack 3
//! multiple`: on channel 1), something of the node's (`deliver 1 c 10`), or time (`tick 5000`).
//! What comes of it are requests, with `?` where they ask and `!` where they are sent off, and
//! frames to the client, with their channel and `<`. Two things that happen before the next write
//! to the socket stand in one line, with `&` between them. The node agrees to everything at once,
//! unless told to `fail` the next request, to `hold` its answer or to have a message for `get`.

use bytes::Bytes;
use leveret_amqp::encode;
use leveret_amqp::frame::{FrameKind, next_frame};
use leveret_amqp::{
    ContentHeader, Method, PROTOCOL_HEADER, Properties, RawTable, RawValue, TableBuilder, access,
    basic, channel, confirm, connection, exchange, queue, tx,
};
use leveret_client::{
    Answered, ChannelCounters, Session, SessionLatencies, UnsettledDelivery, UnsettledPosition,
};
use leveret_session::contract::{
    Awaited, Consume, LoginOutcome, Publish, Reply, Request, Settle, SettleOutcome, Topology,
};
use leveret_session::{Connection, Settings, fuzz};
use leveret_types::{ChannelId, FieldValue, Now, ProtocolError, ReplyCode, Scope, ShardId};
use std::fmt::Write as _;
use std::sync::Arc;

/// The method of a publish to `x` with the key `k`, whose content must follow.
pub fn begin_publish(bytes: &mut Vec<u8>, channel: u16) {
    let publish = basic::Publish {
        exchange: b"x",
        routing_key: b"k",
        mandatory: false,
        immediate: false,
    };
    encode::method(bytes, channel, &publish);
}

/// Holds a conversation with a connection that has just been accepted.
pub fn check(script: &str) {
    check_with(&Settings::default(), script);
}

/// The same, with other settings.
pub fn check_with(settings: &Settings, script: &str) {
    for in_octets in [false, true] {
        let mut talk = Talk::new(settings, in_octets);
        for line in script
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
        {
            let (said, expected) = line
                .split_once("=>")
                .expect("a line is said => comes of it");
            let came = talk.line(said.trim());
            let shown = if in_octets {
                "octet by octet"
            } else {
                "in one piece"
            };
            assert_eq!(
                came,
                expected.trim(),
                "after {said:?}, {shown}, in\n{script}"
            );
        }
    }
}

/// Holds a conversation with a connection on which channel 1 is open.
pub fn check_open(script: &str) {
    check(&format!("{OPEN}\n{script}"));
}

/// What it takes to open channel 1.
pub const OPEN: &str = "
    header => 0<start
    start-ok PLAIN close notify blocked => ?login PLAIN; 0<tune 2047 131072 60
    tune-ok 16 8192 0 =>
    vhost / => ?vhost /; 0<open-ok
    1:open => ?channel 1; 1<open-ok";

struct Talk {
    connection: Connection,
    in_octets: bool,
    now: Now,
    requests: Vec<Request>,
    next_reply: Option<Reply>,
    hold: bool,
    delayed_reply: Option<Reply>,
}

impl Talk {
    fn new(settings: &Settings, in_octets: bool) -> Self {
        let now = Now::both(1_000);
        Self {
            connection: Connection::new(Arc::new(settings.clone()), now),
            in_octets,
            now,
            requests: Vec::new(),
            next_reply: None,
            hold: false,
            delayed_reply: None,
        }
    }

    fn line(&mut self, said: &str) -> String {
        let mut shown = Vec::new();
        for happened in said.split('&') {
            self.happen(happened, &mut shown);
        }
        shown.extend(
            self.requests
                .drain(..)
                .filter(|request| !matches!(request, Request::Turn))
                .map(|request| show_request(&request)),
        );
        self.connection.flush();
        let written = self.connection.output().to_vec();
        self.connection.output().advance(written.len());
        show_frames(&written, &mut shown);
        shown.join("; ")
    }

    fn happen(&mut self, said: &str, shown: &mut Vec<String>) {
        let words: Vec<&str> = said.split_whitespace().collect();
        if !self.node(&words, shown) {
            let bytes = client(&words);
            let step = if self.in_octets { 1 } else { bytes.len() };
            for part in bytes.chunks(step.max(1)) {
                self.connection
                    .receive(self.now, Bytes::copy_from_slice(part), &mut self.requests);
                self.answer();
            }
        }
        self.answer();
    }

    /// The node's answers to what was asked.
    fn answer(&mut self) {
        while self.connection.suspended() && self.delayed_reply.is_none() {
            let Some(agreed) = self.requests.last().and_then(fuzz::oblige) else {
                return;
            };
            let reply = self.next_reply.take().unwrap_or(agreed);
            if std::mem::take(&mut self.hold) {
                self.delayed_reply = Some(reply);
                return;
            }
            self.connection.reply(self.now, reply, &mut self.requests);
        }
    }

    /// What does not come from the client. False if it does.
    fn node(&mut self, words: &[&str], shown: &mut Vec<String>) -> bool {
        let connection = &mut self.connection;
        match words {
            ["deliver", number, tag, index, options @ ..] => {
                let consumer = fuzz::consumer_of(ChannelId(int(number) as u16), tag);
                let mut delivery = fuzz::delivery(consumer, int(index));
                delivery.redelivered = options.contains(&"redelivered");
                let count = options.iter().find_map(|o| o.strip_prefix("count="));
                delivery.delivery_count = count.map(|c| int(c) as u32);
                let count = options.iter().find_map(|o| o.strip_prefix("acquired="));
                delivery.acquired_count = count.map(|c| int(c) as u32);
                shown.push(format!("{}", connection.deliver(&delivery)));
            }
            ["accepted", number, publish, waits @ ..] => {
                let wait = |w: &&str| {
                    let (shard, position) = w.split_once('@').expect("shard@position");
                    (Awaited::Shard(ShardId(int(shard) as u16)), int(position))
                };
                let waits: Vec<_> = waits.iter().map(wait).collect();
                connection.accepted(ChannelId(int(number) as u16), int(publish), &waits);
            }
            ["rejected", number, publish] => {
                connection.rejected(ChannelId(int(number) as u16), int(publish));
            }
            ["durable", shard, through] => {
                connection.durable(ShardId(int(shard) as u16), int(through));
            }
            ["returned", number] => {
                let message = fuzz::delivery(Default::default(), 0).message;
                let channel = ChannelId(int(number) as u16);
                connection.returned(channel, &message, ReplyCode::NoRoute, "NO_ROUTE");
            }
            ["cancelled", number, tag] => {
                let consumer = fuzz::consumer_of(ChannelId(int(number) as u16), tag);
                connection.consumer_cancelled(consumer);
            }
            ["blocked", reason] => connection.blocked(Some(reason)),
            ["unblocked"] => {
                connection.blocked(None);
                connection.receive(self.now, Bytes::new(), &mut self.requests);
            }
            ["held"] => shown.push(connection.is_blocked().to_string()),
            // Time passes while the socket takes nothing of a message to the client.
            ["stuck", ms] => {
                let message = fuzz::delivery(Default::default(), 0).message;
                connection.returned(ChannelId(1), &message, ReplyCode::NoRoute, "NO_ROUTE");
                self.now = Now::both(int(ms));
                connection.tick(self.now, &mut self.requests);
                shown.push(format!("{} unsent", connection.unsent_bytes()));
            }
            // What is said from now on waits for more than the socket.
            ["barrier"] => connection.output().put_barrier(),
            ["lift"] => connection.output().lift_barrier(),
            ["failed", number, scope, text @ ..] => {
                let error = error(scope, &text.join(" "));
                let channel = ChannelId(int(number) as u16);
                connection.fail(self.now, channel, error, &mut self.requests);
            }
            ["server-close", text] => connection.close(error("connection", text)),
            ["teardown"] => connection.teardown(&mut self.requests),
            ["state"] => shown.push(format!("{:?}", connection.state())),
            ["end"] => shown.push(
                connection
                    .end()
                    .map_or_else(String::new, ToString::to_string),
            ),
            ["user"] => shown.push(connection.user().to_owned()),
            ["answered"] => {
                let Answered { confirmed, refused } = connection.take_answered();
                shown.push(format!("{confirmed} confirmed, {refused} refused"));
            }
            ["who"] => shown.push(show_who(connection)),
            ["ends-output"] => shown.push(connection.ends_output().to_string()),
            ["flood", count] => {
                let octets = Bytes::from_static(&[0xCE; 4_096]);
                for _ in 0..int(count) {
                    connection.receive(self.now, octets.clone(), &mut self.requests);
                }
            }
            ["suspended"] => shown.push(connection.suspended().to_string()),
            ["status"] => {
                let mut channels: Vec<_> = connection.channels().collect();
                channels.sort_by_key(|f| f.number);
                shown.extend(channels.iter().map(show_channel));
            }
            ["counted"] => {
                let channels = connection.channels();
                shown.extend(channels.map(|channel| show_counters(&channel.counters)));
            }
            _ => return self.node_mood(words, shown),
        }
        true
    }

    /// What the node is to do next, and time.
    fn node_mood(&mut self, words: &[&str], shown: &mut Vec<String>) -> bool {
        match words {
            ["fail", scope, text @ ..] => {
                self.next_reply = Some(Reply::Failed(error(scope, &text.join(" "))));
            }
            ["refuse"] => {
                let text = "refused".to_owned();
                self.next_reply = Some(Reply::Login(LoginOutcome::Refused { text }));
            }
            ["challenge", text] => {
                let challenge = LoginOutcome::Challenge(text.as_bytes().to_vec());
                self.next_reply = Some(Reply::Login(challenge));
            }
            ["get-has", index, left, options @ ..] => {
                let mut delivery = fuzz::delivery(Default::default(), int(index));
                delivery.redelivered = options.contains(&"redelivered");
                self.next_reply = Some(Reply::Got(Some((delivery, int(left) as u32))));
            }
            ["hold"] => self.hold = true,
            ["answer"] => {
                let reply = self.delayed_reply.take().expect("an answer is held");
                self.connection.reply(self.now, reply, &mut self.requests);
            }
            ["tick", ms] => {
                self.now = Now::both(int(ms));
                self.connection.tick(self.now, &mut self.requests);
            }
            ["time", ms] => self.now = Now::both(int(ms)),
            // The same, and the connection is told.
            ["now", ms] => {
                self.now = Now::both(int(ms));
                self.connection.set_now(self.now);
            }
            ["oldest", number, tags @ ..] => {
                let channel = ChannelId(int(number) as u16);
                let oldest = self.connection.oldest_unsettled(&[channel]);
                for tag in tags {
                    let id = fuzz::consumer_of(channel, tag);
                    let found = oldest.iter().find(|(of, _)| *of == id);
                    shown.extend(found.map(|(_, ms)| format!("{tag} {ms}")));
                }
            }
            // Channels that are looked at, and `tag/index` of messages that are looked for.
            ["held", channels, places @ ..] => {
                let numbers = channels.split(',').map(|number| int(number) as u16);
                let channels: Vec<_> = numbers.map(ChannelId).collect();
                let place = |place: &&str| {
                    let (tag, index) = place.split_once('/').expect("tag/index");
                    let of = |number: &ChannelId| UnsettledPosition {
                        subscription: fuzz::consumer_of(*number, tag),
                        priority_log: 0,
                        index: int(index),
                    };
                    channels.iter().map(of).collect::<Vec<_>>()
                };
                let mut places: Vec<_> = places.iter().flat_map(place).collect();
                places.sort_unstable();
                let delivery = self.connection.unsettled_among(&channels, &places);
                let show = |of: &UnsettledDelivery| {
                    format!("{}:{}={}", of.channel.0, of.tag, of.place.index)
                };
                shown.extend(delivery.iter().map(show));
            }
            ["latencies"] => shown.push(show_latencies(&mut self.connection)),
            // The socket holds more, which is left there; the client lived at that time.
            ["unread", ms] => self.connection.unread(Now::both(int(ms))),
            ["beat"] => self.connection.beat(),
            ["deadline"] => shown.push(format!("{:?}", self.connection.deadline())),
            _ => return false,
        }
        true
    }
}

/// How many publishes were confirmed, messages delivered for the first time and deliveries
/// acknowledged, and after which times together.
fn show_latencies(connection: &mut Connection) -> String {
    let mut shown = Vec::new();
    let SessionLatencies {
        confirms,
        waits,
        acknowledgements,
    } = connection.latencies();
    for (name, of) in [
        ("confirmed", confirms),
        ("waited", waits),
        ("acknowledged", acknowledgements),
    ] {
        of.drain(|told| shown.push(format!("{name} {} in {} ms", told.count, told.total_ms)));
    }
    shown.join(", ")
}

/// Who is there, by what listings and the node ask a session for.
fn show_who(connection: &Connection) -> String {
    let status = Session::status(connection);
    let (user, vhost) = (connection.user(), connection.vhost());
    let name = connection.client_name().unwrap_or_default();
    let hears = (connection.hears_of_cancels(), connection.alarmed());
    format!(
        "{} user={user} vhost={vhost} name={name} frame={} channels={} heartbeat={} unsent={} \
         cancels={} alarm={}",
        status.protocol,
        status.frame_max,
        status.channel_max,
        status.heartbeat_seconds,
        status.unsent_bytes > 0,
        hears.0,
        hears.1,
    )
}

fn int(text: &str) -> u64 {
    text.parse()
        .unwrap_or_else(|_| panic!("{text:?} is no number"))
}

fn error(scope: &str, text: &str) -> ProtocolError {
    let error = match scope {
        "channel" => ProtocolError::channel(ReplyCode::NotFound, text.to_owned()),
        "connection" => ProtocolError::connection(ReplyCode::NotAllowed, text.to_owned()),
        other => panic!("unknown scope {other}"),
    };
    assert!(matches!(error.scope, Scope::Channel | Scope::Connection));
    error
}

/// The bytes of what a client says.
fn client(words: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    match words {
        ["header"] => out.extend(PROTOCOL_HEADER),
        ["text", text] => out.extend(text.replace('_', " ").bytes()),
        ["raw", octets @ ..] => {
            out.extend(
                octets
                    .iter()
                    .map(|o| u8::from_str_radix(o, 16).expect("hexadecimal")),
            );
        }
        ["heartbeat"] => out.extend(encode::HEARTBEAT),
        ["pipelined", rest @ ..] => {
            for words in rest.split(|word| *word == "+") {
                out.extend(client(words));
            }
        }
        [first, rest @ ..] => match first.split_once(':') {
            Some((number, verb)) => on_channel(&mut out, int(number) as u16, verb, rest),
            None => on_connection(&mut out, first, rest),
        },
        [] => {}
    }
    out
}

fn on_connection(out: &mut Vec<u8>, verb: &str, words: &[&str]) {
    match (verb, words) {
        ("start-ok", [mechanism, able @ ..]) => {
            let names = [
                ("close", "authentication_failure_close"),
                ("notify", "consumer_cancel_notify"),
                ("blocked", "connection.blocked"),
            ];
            let has = names.iter().filter(|(short, _)| able.contains(short));
            let table = has
                .map(|(_, name)| ((*name).to_owned(), FieldValue::Bool(true)))
                .collect();
            let mut properties = TableBuilder::new();
            properties.push("capabilities", &FieldValue::Table(table));
            properties.push("connection_name", &FieldValue::text("test"));
            let start_ok = connection::StartOk {
                client_properties: properties.as_table(),
                mechanism,
                response: b"\0guest\0guest",
                locale: "en_US",
            };
            encode::method(out, 0, &start_ok);
        }
        ("secure-ok", [response]) => {
            let response = response.as_bytes();
            encode::method(out, 0, &connection::SecureOk { response });
        }
        ("tune-ok", [channel_max, frame_max, heartbeat]) => {
            let tune_ok = connection::TuneOk {
                channel_max: int(channel_max) as u16,
                frame_max: int(frame_max) as u32,
                heartbeat: int(heartbeat) as u16,
            };
            encode::method(out, 0, &tune_ok);
        }
        ("vhost", [virtual_host]) => encode::method(out, 0, &connection::Open { virtual_host }),
        ("update-secret", [secret]) => {
            let (new_secret, reason) = (secret.as_bytes(), "r");
            encode::method(out, 0, &connection::UpdateSecret { new_secret, reason });
        }
        ("close", []) => {
            let (reply_code, reply_text, class_id, method_id) = (200, "bye", 0, 0);
            let close = connection::Close {
                reply_code,
                reply_text,
                class_id,
                method_id,
            };
            encode::method(out, 0, &close);
        }
        ("close-ok", []) => encode::method(out, 0, &connection::CloseOk {}),
        other => panic!("unknown: {other:?}"),
    }
}

fn on_channel(out: &mut Vec<u8>, number: u16, verb: &str, words: &[&str]) {
    let has = |option: &str| words.contains(&option);
    let word = |at: usize| words.get(at).copied().unwrap_or("").trim_matches('\'');
    let text = |at: usize| word(at).as_bytes();
    let (nowait, multiple, requeue) = (has("nowait"), has("multiple"), has("requeue"));
    let delivery_tag = || int(word(0));
    match verb {
        "open" => encode::method(out, number, &channel::Open {}),
        "close" => {
            let (reply_code, reply_text, class_id, method_id) = (200, "bye", 0, 0);
            let close = channel::Close {
                reply_code,
                reply_text,
                class_id,
                method_id,
            };
            encode::method(out, number, &close);
        }
        "close-ok" => encode::method(out, number, &channel::CloseOk {}),
        "flow" => encode::method(out, number, &channel::Flow { active: has("on") }),
        "flow-ok" => encode::method(out, number, &channel::FlowOk { active: true }),
        "access" => {
            let (realm, yes) = ("/data", true);
            let (exclusive, passive, active, write, read) = (yes, yes, yes, yes, yes);
            let request = access::Request {
                realm,
                exclusive,
                passive,
                active,
                write,
                read,
            };
            encode::method(out, number, &request);
        }
        "ack" => encode::method(
            out,
            number,
            &basic::Ack {
                delivery_tag: delivery_tag(),
                multiple,
            },
        ),
        "nack" => {
            let nack = basic::Nack {
                delivery_tag: delivery_tag(),
                multiple,
                requeue,
            };
            encode::method(out, number, &nack);
        }
        "reject" => {
            encode::method(
                out,
                number,
                &basic::Reject {
                    delivery_tag: delivery_tag(),
                    requeue,
                },
            );
        }
        "recover" => encode::method(out, number, &basic::Recover { requeue }),
        "recover-async" => encode::method(out, number, &basic::RecoverAsync { requeue }),
        "qos" => {
            let qos = basic::Qos {
                prefetch_size: int(word(0)) as u32,
                prefetch_count: int(word(1)) as u16,
                global: has("global"),
            };
            encode::method(out, number, &qos);
        }
        "consume" => {
            let consume = basic::Consume {
                queue: word(0),
                consumer_tag: word(1),
                no_local: false,
                no_ack: has("noack"),
                exclusive: has("exclusive"),
                nowait,
                arguments: RawTable::EMPTY,
            };
            encode::method(out, number, &consume);
        }
        "cancel" => encode::method(
            out,
            number,
            &basic::Cancel {
                consumer_tag: word(0),
                nowait,
            },
        ),
        "cancel-ok" => encode::method(
            out,
            number,
            &basic::CancelOk {
                consumer_tag: word(0),
            },
        ),
        "get" => encode::method(
            out,
            number,
            &basic::Get {
                queue: word(0),
                no_ack: has("noack"),
            },
        ),
        "publish" => {
            publish_method(out, number, words);
            let body = text(2);
            content_header(out, number, body.len() as u64, &words[3..]);
            if !body.is_empty() {
                encode::frame(out, FrameKind::Body, number, |out| {
                    out.extend_from_slice(body)
                });
            }
        }
        "publish-method" => publish_method(out, number, words),
        "content" => content_header(out, number, int(word(0)), &words[1..]),
        "body" => encode::frame(out, FrameKind::Body, number, |out| {
            out.extend_from_slice(text(0));
        }),
        "heartbeat" => encode::frame(out, FrameKind::Heartbeat, number, |_| {}),
        "deliver" => {
            let deliver = basic::Deliver {
                consumer_tag: b"c",
                delivery_tag: 1,
                redelivered: false,
                exchange: b"",
                routing_key: b"",
            };
            encode::method(out, number, &deliver);
        }
        "confirm" => encode::method(out, number, &confirm::Select { nowait }),
        "tx" => encode::method(out, number, &tx::Select {}),
        "commit" => encode::method(out, number, &tx::Commit {}),
        "rollback" => encode::method(out, number, &tx::Rollback {}),
        verb => on_topology(out, number, verb, words),
    }
}

fn publish_method(out: &mut Vec<u8>, number: u16, words: &[&str]) {
    let publish = basic::Publish {
        exchange: words[0].trim_matches('\'').as_bytes(),
        routing_key: words[1].as_bytes(),
        mandatory: words.contains(&"mandatory"),
        immediate: words.contains(&"immediate"),
    };
    encode::method(out, number, &publish);
}

fn content_header(out: &mut Vec<u8>, number: u16, body_size: u64, words: &[&str]) {
    let option = |name: &str| {
        words
            .iter()
            .find_map(|w| w.strip_prefix(name)?.strip_prefix('='))
    };
    let class = option("class").map_or(60, |class| int(class) as u16);
    let properties = Properties {
        expiration: option("expiration").map(str::as_bytes),
        delivery_mode: option("mode").map(|mode| int(mode) as u8),
        priority: option("priority").map(|priority| int(priority) as u8),
        ..Properties::default()
    };
    let properties = match option("properties") {
        Some(hex) => hex.as_bytes().to_vec(),
        None => properties.to_bytes(),
    };
    encode::frame(out, FrameKind::Header, number, |out| {
        ContentHeader {
            class,
            body_size,
            properties: &properties,
        }
        .encode(out);
    });
}

fn on_topology(out: &mut Vec<u8>, number: u16, verb: &str, words: &[&str]) {
    let has = |option: &str| words.contains(&option);
    let word = |at: usize| words.get(at).copied().unwrap_or("").trim_matches('\'');
    let (nowait, arguments) = (has("nowait"), RawTable::EMPTY);
    let (passive, durable, auto_delete) = (has("passive"), has("durable"), has("auto-delete"));
    let (if_unused, if_empty) = (has("if-unused"), has("if-empty"));
    match verb {
        "declare" => {
            let (queue, exclusive) = (word(0), has("exclusive"));
            let declare = queue::Declare {
                queue,
                passive,
                durable,
                exclusive,
                auto_delete,
                nowait,
                arguments,
            };
            encode::method(out, number, &declare);
        }
        "bind" => {
            let (queue, exchange, routing_key) = (word(0), word(1), word(2));
            let bind = queue::Bind {
                queue,
                exchange,
                routing_key,
                nowait,
                arguments,
            };
            encode::method(out, number, &bind);
        }
        "unbind" => {
            let (queue, exchange, routing_key) = (word(0), word(1), word(2));
            let unbind = queue::Unbind {
                queue,
                exchange,
                routing_key,
                arguments,
            };
            encode::method(out, number, &unbind);
        }
        "purge" => encode::method(
            out,
            number,
            &queue::Purge {
                queue: word(0),
                nowait,
            },
        ),
        "delete" => {
            let queue = word(0);
            encode::method(
                out,
                number,
                &queue::Delete {
                    queue,
                    if_unused,
                    if_empty,
                    nowait,
                },
            );
        }
        "exchange-declare" => {
            let (exchange, kind, internal) = (word(0), word(1), has("internal"));
            let declare = exchange::Declare {
                exchange,
                kind,
                passive,
                durable,
                auto_delete,
                internal,
                nowait,
                arguments,
            };
            encode::method(out, number, &declare);
        }
        "exchange-delete" => {
            let exchange = word(0);
            encode::method(
                out,
                number,
                &exchange::Delete {
                    exchange,
                    if_unused,
                    nowait,
                },
            );
        }
        "exchange-bind" => {
            let (destination, source, routing_key) = (word(0), word(1), word(2));
            let bind = exchange::Bind {
                destination,
                source,
                routing_key,
                nowait,
                arguments,
            };
            encode::method(out, number, &bind);
        }
        "exchange-unbind" => {
            let (destination, source, routing_key) = (word(0), word(1), word(2));
            let unbind = exchange::Unbind {
                destination,
                source,
                routing_key,
                nowait,
                arguments,
            };
            encode::method(out, number, &unbind);
        }
        other => panic!("unknown: {other} {words:?}"),
    }
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The names of those that are true, each with a space before it.
fn flags(flags: &[(&str, bool)]) -> String {
    let set = flags.iter().filter(|(_, set)| *set);
    set.map(|(name, _)| format!(" {name}")).collect()
}

fn show_request(request: &Request) -> String {
    match request {
        Request::Login { mechanism, .. } => format!("?login {mechanism}"),
        Request::OpenVhost { vhost } => format!("?vhost {vhost}"),
        Request::UpdateSecret { secret, reason } => format!("?secret {} {reason}", text_of(secret)),
        Request::OpenChannel { channel } => format!("?channel {channel}"),
        Request::ChannelClosed { channel, .. } => format!("!closed {channel}"),
        Request::Topology { channel, operation } => format!("?{channel}:{}", show(operation)),
        Request::Consume(consume) => show_consume(consume),
        Request::Cancel { channel, .. } => format!("?{channel}:cancel"),
        Request::Get {
            channel,
            queue,
            no_ack,
        } => {
            format!("?{channel}:get {queue}{}", flags(&[("noack", *no_ack)]))
        }
        Request::ChannelPrefetch { channel, limit } => format!("!{channel}:prefetch {limit}"),
        Request::Credit {
            channel, messages, ..
        } => format!("!{channel}:credit {messages}"),
        Request::Publish(publish) => show_publish(publish),
        Request::Check(publish) => show_publish(publish).replace(":publish", ":check"),
        Request::Settle(settle) => show_settle(settle),
        Request::Turn => "?turn".to_owned(),
        Request::Commit { channel } => format!("?{channel}:commit"),
    }
}

fn show_consume(consume: &Consume) -> String {
    let Consume {
        channel,
        queue,
        tag,
        flow,
        no_ack,
        exclusive,
        ..
    } = consume;
    let flags = flags(&[("noack", *no_ack), ("exclusive", *exclusive)]);
    format!(
        "?{channel}:consume {queue} {tag} prefetch={}{flags}",
        flow.prefetch()
    )
}

fn show_publish(publish: &Publish) -> String {
    let Publish {
        channel,
        number,
        mandatory,
        message,
    } = publish;
    let [exchange, key, body] =
        [message.exchange(), message.routing_key(), message.body()].map(text_of);
    let summary = message.summary;
    let mut shown = format!("!{channel}:publish #{number} {exchange}/{key} {body}");
    shown += &flags(&[
        ("mandatory", *mandatory),
        ("persistent", summary.persistent),
    ]);
    if let Some(priority) = summary.priority {
        let _ = write!(shown, " priority={priority}");
    }
    if let Some(expiration) = summary.expiration_ms {
        let _ = write!(shown, " expiration={expiration}");
    }
    shown.trim_end().to_owned()
}

fn show_settle(settle: &Settle) -> String {
    let what = match settle.outcome {
        SettleOutcome::Accept => "accept",
        SettleOutcome::RequeueRejected => "requeue-rejected",
        SettleOutcome::Requeue => "requeue",
        SettleOutcome::Reject => "reject",
    };
    let last = settle.range.end - 1;
    let range = if settle.range.start == last {
        String::new()
    } else {
        format!("-{last}")
    };
    format!("!{}:{what} {}{range}", settle.channel, settle.range.start)
}

fn show(operation: &Topology) -> String {
    match operation {
        Topology::ExchangeDeclare {
            name,
            kind,
            passive,
            durable,
            auto_delete,
            internal,
            ..
        } => {
            let flags = flags(&[
                ("passive", *passive),
                ("durable", *durable),
                ("auto-delete", *auto_delete),
                ("internal", *internal),
            ]);
            format!("exchange-declare {name} {kind}{flags}")
        }
        Topology::ExchangeDelete { name, if_unused } => {
            format!(
                "exchange-delete {name}{}",
                flags(&[("if-unused", *if_unused)])
            )
        }
        Topology::ExchangeBind {
            destination,
            source,
            routing_key,
            ..
        } => {
            format!(
                "exchange-bind {destination} {source} {}",
                text_of(routing_key)
            )
        }
        Topology::ExchangeUnbind {
            destination,
            source,
            routing_key,
            ..
        } => {
            format!(
                "exchange-unbind {destination} {source} {}",
                text_of(routing_key)
            )
        }
        Topology::QueueDeclare {
            name,
            passive,
            durable,
            exclusive,
            auto_delete,
            ..
        } => {
            let flags = flags(&[
                ("passive", *passive),
                ("durable", *durable),
                ("exclusive", *exclusive),
                ("auto-delete", *auto_delete),
            ]);
            format!("declare '{name}'{flags}")
        }
        Topology::QueueBind {
            queue,
            exchange,
            routing_key,
            ..
        } => {
            format!("bind {queue} {exchange} {}", text_of(routing_key))
        }
        Topology::QueueUnbind {
            queue,
            exchange,
            routing_key,
            ..
        } => {
            format!("unbind {queue} {exchange} {}", text_of(routing_key))
        }
        Topology::QueuePurge { queue } => format!("purge {queue}"),
        Topology::QueueDelete {
            queue,
            if_unused,
            if_empty,
        } => {
            let flags = flags(&[("if-unused", *if_unused), ("if-empty", *if_empty)]);
            format!("delete {queue}{flags}")
        }
    }
}

fn show_channel(channel: &leveret_session::ChannelStatus) -> String {
    format!(
        "{}: consumers={} prefetch={} unacked={} unconfirmed={} uncommitted={}+{}{}",
        channel.number,
        channel.consumers,
        channel.prefetch,
        channel.unacknowledged,
        channel.unconfirmed,
        channel.uncommitted,
        channel.uncommitted_acks,
        flags(&[("confirm", channel.confirm), ("tx", channel.transactional)])
    )
}

/// The counters of a channel that are not zero.
fn show_counters(of: &ChannelCounters) -> String {
    let counters = [
        ("published", of.published),
        ("confirmed", of.confirmed),
        ("returned", of.returned),
        ("delivered", of.delivered),
        ("delivered-auto-ack", of.delivered_auto_ack),
        ("got", of.got),
        ("got-auto-ack", of.got_auto_ack),
        ("got-empty", of.got_empty),
        ("redelivered", of.redelivered),
        ("acknowledged", of.acknowledged),
    ];
    let counted = counters.iter().filter(|(_, count)| *count > 0);
    let shown: Vec<String> = counted
        .map(|(name, count)| format!("{name}={count}"))
        .collect();
    shown.join(" ")
}

/// The frames that were written, with content behind its method.
fn show_frames(mut written: &[u8], shown: &mut Vec<String>) {
    if let Some(rest) = written.strip_prefix(&PROTOCOL_HEADER) {
        shown.push("0<header".to_owned());
        written = rest;
    }
    while let Some(frame) = next_frame(written, u32::MAX).expect("frames can be read") {
        written = &written[frame.wire_len()..];
        match frame.kind {
            FrameKind::Method => {
                let method = Method::decode(frame.payload).expect("methods can be read");
                shown.push(format!("{}<{}", frame.channel, show_method(&method)));
            }
            FrameKind::Header => {
                let header = ContentHeader::decode(frame.payload).expect("headers can be read");
                let properties = Properties::decode(header.properties).expect("and properties");
                if let Some(RawValue::I64(count)) = properties.headers().get(b"x-delivery-count") {
                    let last = shown.last_mut().expect("a header follows a method");
                    let _ = write!(last, " count={count}");
                }
                if let Some(RawValue::I64(count)) = properties.headers().get(b"x-acquired-count") {
                    let last = shown.last_mut().expect("a header follows a method");
                    let _ = write!(last, " acquired={count}");
                }
            }
            FrameKind::Body => {
                let last = shown.last_mut().expect("a body follows a header");
                let _ = write!(last, " {}", text_of(frame.payload));
            }
            FrameKind::Heartbeat => shown.push("0<heartbeat".to_owned()),
        }
    }
    assert!(written.is_empty(), "half a frame was written");
}

fn show_method(method: &Method<'_>) -> String {
    let (_, name) = method.name().split_once('.').expect("class.method");
    match method {
        Method::ConnectionTune(m) => {
            format!("tune {} {} {}", m.channel_max, m.frame_max, m.heartbeat)
        }
        Method::ConnectionSecure(m) => format!("secure {}", text_of(m.challenge)),
        Method::ConnectionClose(m) => {
            let (code, text) = (m.reply_code, m.reply_text);
            format!("close {code} {text} ({},{})", m.class_id, m.method_id)
        }
        Method::ConnectionBlocked(m) => format!("blocked {}", m.reason),
        Method::ChannelClose(m) => {
            let (code, text) = (m.reply_code, m.reply_text);
            format!("close {code} {text} ({},{})", m.class_id, m.method_id)
        }
        Method::ChannelFlowOk(m) => format!("flow-ok{}", flags(&[("active", m.active)])),
        Method::AccessRequestOk(m) => format!("request-ok {}", m.ticket),
        Method::QueueDeclareOk(m) => {
            format!(
                "declare-ok {} {} {}",
                m.queue, m.message_count, m.consumer_count
            )
        }
        Method::QueuePurgeOk(m) => format!("purge-ok {}", m.message_count),
        Method::QueueDeleteOk(m) => format!("delete-ok {}", m.message_count),
        Method::BasicConsumeOk(m) => format!("consume-ok {}", m.consumer_tag),
        Method::BasicCancel(m) => {
            format!(
                "cancel {}{}",
                m.consumer_tag,
                flags(&[("nowait", m.nowait)])
            )
        }
        Method::BasicCancelOk(m) => format!("cancel-ok {}", m.consumer_tag),
        Method::BasicReturn(m) => {
            let [text, exchange, key] = [m.reply_text, m.exchange, m.routing_key].map(text_of);
            format!("return {} {text} {exchange}/{key}", m.reply_code)
        }
        Method::BasicDeliver(m) => {
            let [tag, exchange, key] = [m.consumer_tag, m.exchange, m.routing_key].map(text_of);
            let redelivered = flags(&[("redelivered", m.redelivered)]);
            format!(
                "deliver {tag} {}{redelivered} {exchange}/{key}",
                m.delivery_tag
            )
        }
        Method::BasicGetOk(m) => {
            let [exchange, key] = [m.exchange, m.routing_key].map(text_of);
            let redelivered = flags(&[("redelivered", m.redelivered)]);
            format!(
                "get-ok {}{redelivered} {exchange}/{key} left={}",
                m.delivery_tag, m.message_count
            )
        }
        Method::BasicAck(m) => {
            format!(
                "ack {}{}",
                m.delivery_tag,
                flags(&[("multiple", m.multiple)])
            )
        }
        Method::BasicNack(m) => {
            format!(
                "nack {}{}",
                m.delivery_tag,
                flags(&[("multiple", m.multiple)])
            )
        }
        _ => name.to_owned(),
    }
}
