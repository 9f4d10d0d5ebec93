//! A leader, what nodes say to it, and what it says and does: scripts.
//!
//! A line is `what happens => what is outputs of it`. Node 0 leads first; `1 WORDS` is said by node
//! 1, whose remote queue is the script itself:
//!
//! ```text
//! 1 present [7 8=0..3@1]      a session begins, with consumers and what they hold; @ is how often
//!                             somebody had that, and `get:9=0..1@0` somebody who only gets
//! 1 present first=3           the first operation without an answer, if it is not the next one
//! 1 absent                    there is nothing to register
//! 1 publish N [WORDS]         messages; `prio=9`, `ttl=MS`, `bytes=N`
//! 1 accept 7 0..3             also `reject`, `requeue` (counted), `return` (not), `release`
//! 1 attach 7 [WORDS]          `prefetch=N`, `prio=N`, `noack`, `exclusive`, `timeout=MS`
//! 1 cancel|detach|credit|get|purge|count|peek|fetch
//! 1 heard N                   what became of all before has reached whom it concerns
//! set WORDS                   settings that are in force from now on
//! commit                      what is under way is written and agreed upon; no time passes
//! run MS                      time passes, and all is written and agreed upon
//! down 1, up 1                the leader loses a node from sight, and finds it
//! lead 1                      node 1 leads from now on
//! hand 1                      the leader begins to hand over to node 1
//! lose                        what is under way between members is lost
//! astray 2 1 WORDS            node 1 says it to node 2, wherever the leader is
//! doubt, sure                 the leader's node has not heard of the others for long; it has again
//! arrived 0..1, refused 0     what becomes of dead letters
//! entries                     how many there are since this was asked last
//! stream 3                    the stream of a `view` has a chunk of so many messages more
//! stream deletes 1            retention deletes so many chunks
//! stream refuses|answers      what it is asked from now on
//! stream late                 its newest chunk comes for the reader that the leader's node had
//!                             when it led before
//! stream lost                 the leader's node loses sight of it
//! due                         in how many milliseconds the leader's node wants to be woken
//! depths                      messages of the queue: all, ready, unsettled
//! known 1                     how many messages are ready as far as node 1 knows
//! grow                        a queue of `two` members has a third one from now on
//! many WORDS                  the same as WORDS, and what is heard is counted by its kind
//! under way                   what is gathered or proposed, and who waits for it
//! ```
//!
//! At the end all members have made the same of it.

use super::super::Replica;
use super::source::{STREAM, Source};
use super::*;
use crate::host_kind::HostKind;
use crate::queue_spec::ViewSpec;
use crate::quorum::protocol::{
    Command, Event, Fetched, Operation, RegisteredSubscription, Registration, TO_LEADER,
    UnsettledRange, decode_to_remote_queue,
};
use crate::stream_events::StreamNews;
use leveret_queue::{Overflow, Settle};
use leveret_stream::{Command as StreamCommand, Event as StreamEvent, SessionId};
use leveret_types::limits::LEADER_LEASE_MS;

/// The priority log of messages without a priority, which need not be named.
pub(super) const PLAIN: u8 = 4;

struct Led {
    world: World,
    /// The node that leads now, and the one that is 0 in the script.
    leader: usize,
    first: usize,
    /// Number of the next operation of each node, and of its next session.
    next: [u64; 3],
    sessions: [u64; 3],
    outputs: Vec<String>,
    /// The last entry when that was asked last.
    entries: u64,
    source: Source,
}

fn place(priority_log: u8, index: u64) -> String {
    match priority_log {
        PLAIN => index.to_string(),
        _ => format!("{priority_log}/{index}"),
    }
}

fn known((redelivered, delivery, acquired): (bool, Option<u32>, Option<u32>)) -> String {
    let again = if redelivered { " again" } else { "" };
    let delivery = delivery.map_or_else(String::new, |count| format!(" failed={count}"));
    let acquired = acquired.map_or_else(String::new, |count| format!(" had={count}"));
    format!("{again}{delivery}{acquired}")
}

fn fetched_words(fetched: &Fetched) -> String {
    match fetched {
        Fetched::Message(message) => format!("m{}", number_of(message)),
        Fetched::Gone => "gone".to_owned(),
        Fetched::Unreadable => "unreadable".to_owned(),
    }
}

fn words(event: &Event) -> String {
    match event {
        Event::Leading { .. } => "leading".to_owned(),
        Event::NotLeader { leader, .. } => match leader {
            Some(_) => "another leads".to_owned(),
            None => "leads not".to_owned(),
        },
        Event::Committed { through } => format!("committed {through}"),
        Event::Refused { sequences } => format!("refused {sequences:?}"),
        Event::Attached { consumer, result } => match result {
            Ok(()) => format!("attached {}", consumer.0),
            Err(error) => format!("not attached {}: {error}", consumer.0),
        },
        Event::Deliver(of) => format!(
            "{} gets m{} at {}{}",
            of.consumer.0,
            number_of(&of.message),
            place(of.priority_log, of.index),
            known((of.redelivered, of.delivery_count, of.acquired_count)),
        ),
        Event::DeliverLocal(of) => format!(
            "{} has {}{}",
            of.consumer.0,
            place(of.priority_log, of.index),
            known((of.redelivered, of.delivery_count, of.acquired_count)),
        ),
        Event::Fetched { fetched, .. } => format!("fetched {}", fetched_words(fetched)),
        Event::Cancelled(consumer) => format!("cancelled {}", consumer.0),
        Event::Got { got: None, .. } => "got none".to_owned(),
        Event::Got {
            got: Some((of, left)),
            ..
        } => format!(
            "got m{} left={left}{}",
            number_of(&of.message),
            known((of.redelivered, of.delivery_count, of.acquired_count)),
        ),
        Event::Purged { count, .. } => format!("purged {count}"),
        Event::Counted { queue_counts, .. } => format!(
            "counted {} {} {}",
            queue_counts.ready, queue_counts.unsettled, queue_counts.consumers
        ),
        Event::Peeked { fetched, .. } => format!("peeked {}", fetched_words(fetched)),
        Event::TimedOut(consumer) => format!("timed out {}", consumer.0),
        Event::Active {
            consumer,
            activation,
        } => format!("active {} {activation}", consumer.0),
    }
}

fn number<T: std::str::FromStr>(word: &str) -> T {
    let parsed = word.parse();
    parsed.unwrap_or_else(|_| panic!("{word:?} is no number"))
}

/// `0..3`, or `9/0..3` in another priority log.
fn range(word: &str) -> (u8, std::ops::Range<u64>) {
    let (priority_log, range) = match word.split_once('/') {
        Some((priority_log, range)) => (number(priority_log), range),
        None => (PLAIN, word),
    };
    let (start, end) = range.split_once("..").expect("a range");
    (priority_log, number(start)..number(end))
}

/// The value of `name=value` among words.
fn value<T: std::str::FromStr>(words: &[&str], name: &str) -> Option<T> {
    let mut values = words.iter().filter_map(|word| word.split_once('='));
    let (_, value) = values.find(|(of, _)| *of == name)?;
    Some(number(value))
}

fn consumer(id: &str, words: &[&str]) -> Consumer {
    Consumer {
        id: ConsumerId(number(id)),
        priority: value(words, "prio").unwrap_or_default(),
        exclusive: words.contains(&"exclusive"),
        no_ack: words.contains(&"noack"),
        prefetch: value(words, "prefetch").unwrap_or_default(),
        timeout_ms: value(words, "timeout"),
    }
}

/// `7`, `7=0..3@1` or `get:7=0..3@1`, with `#N` of a settle that was sent; `only:7` is exclusive.
fn subscription(word: &str) -> RegisteredSubscription {
    let (word, only_gets) = match word.strip_prefix("get:") {
        Some(word) => (word, true),
        None => (word, false),
    };
    let (word, only) = match word.strip_prefix("only:") {
        Some(word) => (word, "exclusive"),
        None => (word, ""),
    };
    let (word, activation) = word.split_once('!').unwrap_or((word, "0"));
    let (id, held) = match word.split_once('=') {
        Some((id, held)) => (id, Some(held)),
        None => (word, None),
    };
    let held = held.map(|held| {
        let (held, settled_by) = held.split_once('#').unwrap_or((held, "0"));
        let (held, acquired) = held.split_once('@').expect("how often");
        let (priority_log, range) = range(held);
        UnsettledRange {
            priority_log,
            range,
            acquired: number(acquired),
            settled_by: number(settled_by),
        }
    });
    RegisteredSubscription {
        id: ConsumerId(number(id)),
        consumer: (!only_gets).then(|| consumer(id, &[only])),
        activation: number(activation),
        unsettled: held.into_iter().collect(),
    }
}

/// What was heard by its kind, with how often: `1: has x3`.
fn counted(outputs: Vec<String>) -> Vec<String> {
    let mut kinds: Vec<(String, u32)> = Vec::new();
    for said in outputs {
        let is_kind =
            |word: &&str| !word.contains(|c: char| c.is_ascii_digit() && !word.ends_with(':'));
        let kind = said
            .split(' ')
            .filter(is_kind)
            .collect::<Vec<_>>()
            .join(" ");
        match kinds.iter_mut().find(|(of, _)| *of == kind) {
            Some((_, count)) => *count += 1,
            None => kinds.push((kind, 1)),
        }
    }
    kinds
        .iter()
        .map(|(kind, count)| format!("{kind} x{count}"))
        .collect()
}

fn outcome(word: &str) -> Option<Outcome> {
    Some(match word {
        "accept" => Outcome::Accept,
        "reject" => Outcome::Reject,
        "requeue" => Outcome::Requeue { count: true },
        "return" => Outcome::Requeue { count: false },
        "release" => Outcome::Release,
        _ => return None,
    })
}

/// Says what settings are to be.
fn set(spec: &mut QueueSpec, words: &[&str]) {
    let settings = &mut spec.settings;
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let value = || (value != "none").then(|| number(value));
        match name {
            "length" => settings.length_max = value(),
            "bytes" => settings.length_bytes_max = value(),
            "ttl" => settings.ttl_ms = value(),
            "expires" => settings.expires_ms = value(),
            "timeout" => settings.consumer_timeout_ms = value(),
            "limit" => settings.delivery_limit = value().map(|limit: u64| limit as u32),
            "dead-letter" => settings.dead_letter = true,
            "at-least-once" => settings.dead_letter_at_least_once = true,
            "refuse" => settings.overflow = Overflow::RejectPublish,
            "refuse-dead" => settings.overflow = Overflow::RejectPublishDlx,
            "drop" => settings.overflow = Overflow::DropHead,
            "single" => settings.single_active = true,
            "auto-delete" => spec.auto_delete = true,
            "keep" => spec.auto_delete = false,
            "two" => {
                spec.members.truncate(2);
                spec.founders.truncate(2);
            }
            "view" => {
                spec.view = Some(Box::new(ViewSpec {
                    source: Some(STREAM),
                    name: "s".into(),
                    start: None,
                }));
            }
            _ => panic!("{word:?} is no setting"),
        }
    }
}

impl Led {
    fn new(settings: &str) -> Self {
        let mut spec = spec(3);
        set(&mut spec, &settings.split_whitespace().collect::<Vec<_>>());
        let mut world = World::new(1, 3, spec);
        let first = world.begun_to_lead();
        world.ways.clear();
        let pending = std::mem::take(&mut world.pending);
        let mut led = Self {
            world,
            leader: first,
            first,
            next: [1; 3],
            sessions: [1; 3],
            outputs: Vec::new(),
            entries: 0,
            source: Source::default(),
        };
        for (at, session, command) in pending {
            led.ask_stream(at, session, &command);
        }
        led
    }

    /// Where a node of the script is.
    fn at(&self, word: &str) -> usize {
        (self.first + number::<usize>(word)) % 3
    }

    fn run<R>(&mut self, at: usize, run: impl FnOnce(&mut Running, Now) -> R) -> R {
        let now = self.world.now;
        let running = self.world.nodes[at].running.as_mut().expect("it runs");
        let result = run(running, now);
        running.shard.finish(now);
        let effects = std::mem::take(&mut running.shard.effects);
        for (to, frame) in effects.peer {
            let to = to.0 as usize - 1;
            let bytes = Bytes::from(frame.pieces.concat());
            if let Ok(said) = decode_to_remote_queue(QUEUE, bytes.clone()) {
                self.hear(to, &said.messages);
            } else if bytes[0] != TO_LEADER {
                self.world
                    .ways
                    .entry((at, to))
                    .or_default()
                    .push_back(frame);
            }
        }
        for (session, command) in effects.streams {
            self.ask_stream(at, session, &command);
        }
        for deferred in effects.deferred {
            self.outputs.push(match deferred {
                Deferred::DeadLetter(dead) => {
                    let number = number_of(&dead.message);
                    format!("dead m{number} {}", dead.reason.name())
                }
                Deferred::DeleteQueue { expired: true, .. } => "expired".to_owned(),
                Deferred::DeleteQueue { .. } => "unused".to_owned(),
                other => format!("{other:?}"),
            });
        }
        result
    }

    /// A node's view asks its stream something.
    fn ask_stream(&mut self, at: usize, session: SessionId, command: &StreamCommand) {
        assert_eq!(session, SessionId::Queue(QUEUE));
        let (outputs, event) = self.source.pending(at, command);
        self.outputs.extend(outputs);
        if let Some(event) = event {
            self.hear_stream(at, event);
        }
    }

    /// The stream says something to a node's view.
    fn hear_stream(&mut self, at: usize, event: StreamEvent) {
        self.run(at, |running, now| {
            let news = StreamNews::Event(event);
            running.shard.hear_stream(now, QUEUE, news);
        });
    }

    /// The stream sends what readers may have.
    fn stream(&mut self) {
        loop {
            let due = self.source.take_due();
            if due.is_empty() {
                return;
            }
            due.into_iter()
                .for_each(|(at, of)| self.hear_stream(at, of));
        }
    }

    fn hear(&mut self, to: usize, events: &[Event]) {
        let node = (to + 3 - self.first) % 3;
        let said = events
            .iter()
            .map(|event| format!("{node}: {}", words(event)));
        self.outputs.extend(said);
    }

    /// Writes, reads and agrees until nothing is left to be done.
    fn commit(&mut self) {
        for _ in 0..30 {
            self.stream();
            for at in 0..3 {
                self.run(at, |running, now| {
                    let mut chunks: Vec<SealedChunk> = Vec::new();
                    running.shard.before_seal(now);
                    running.shard.seal(&mut chunks);
                    while !chunks.is_empty() {
                        let outcome = running.wal.write(&mut chunks).expect("it writes");
                        let written = outcome.written.iter();
                        let written = written.map(|(_, chunk, place)| (*chunk, *place));
                        running.shard.logs.on_durable(written.collect::<Vec<_>>());
                    }
                    running.shard.on_durable(now);
                    for request in running.shard.logs.take_reads() {
                        let loaded = running.reader.read(request);
                        let logs = running.shard.logs.loaded(loaded);
                        running.shard.loaded(now, logs);
                    }
                });
            }
            let ways = std::mem::take(&mut self.world.ways);
            for ((from, to), frames) in ways {
                let from = self.world.nodes[from].id;
                for frame in frames {
                    let bytes = Bytes::from(frame.pieces.concat());
                    self.run(to, |running, now| {
                        running.shard.receive_peer(now, from, frame.queue, bytes);
                    });
                }
            }
        }
    }

    /// So much time passes.
    fn pass(&mut self, ms: u64) {
        let end = self.world.now.monotonic_ms + ms;
        while self.world.now.monotonic_ms < end {
            let step = (end - self.world.now.monotonic_ms).min(10);
            self.world.wait(step);
            for at in 0..3 {
                self.run(at, |running, now| {
                    if running.shard.next_deadline_ms() <= now.monotonic_ms {
                        running.shard.tick(now);
                    }
                });
            }
            self.commit();
        }
    }

    fn say(&mut self, at: usize, command: Command) {
        let from = self.world.nodes[at].id;
        let session = self.sessions[(at + 3 - self.first) % 3];
        self.run(self.leader, |running, now| {
            running.shard.with_replicas(now, |replicas, context| {
                replicas.receive(context, from, QUEUE, session, command);
            });
        });
    }

    fn operations(&mut self, at: usize, operations: Vec<Operation>) {
        let next = &mut self.next[(at + 3 - self.first) % 3];
        let first = *next;
        *next += operations.len() as u64;
        self.say(at, Command::Operations { first, operations });
    }

    fn publish(&mut self, at: usize, count: &str, words: &[&str]) {
        let bytes = value(words, "bytes").unwrap_or(64);
        let operations = (0..number(count)).map(|_: u64| {
            let number = self.world.ledger.next;
            self.world.ledger.next += 1;
            let expiration_ms = value(words, "ttl");
            let mut message = message(number, bytes, expiration_ms, self.world.now.wall_ms);
            message.summary.priority = value(words, "prio");
            Operation::Publish(message)
        });
        let operations = operations.collect();
        self.operations(at, operations);
    }

    /// What a node says.
    fn node_says(&mut self, at: usize, words: &[&str]) {
        let (request, id) = (1, words.get(1).map_or("0", |word| word));
        let subscription_of = |word: &str| ConsumerId(number(word));
        let rest = words.get(2..).unwrap_or_default();
        let command = match words[0] {
            "present" => {
                let node = (at + 3 - self.first) % 3;
                self.sessions[node] += 1;
                let subscriptions = words[1..].iter().copied();
                let subscriptions = subscriptions.filter(|word| !word.starts_with("first="));
                Command::Register(Box::new(Registration {
                    start: 1 << 41,
                    term: 0,
                    first_sequence: value(words, "first").unwrap_or(self.next[node]),
                    subscriptions: subscriptions.map(subscription).collect(),
                }))
            }
            "absent" => Command::NothingToRegister { term: self.term() },
            "publish" => return self.publish(at, id, rest),
            "nothing" => return self.operations(at, vec![Operation::Nothing]),
            "heard" => Command::Acknowledged { first: number(id) },
            "attach" => Command::Attach(consumer(id, rest)),
            "cancel" => Command::Cancel(subscription_of(id)),
            "detach" => Command::Detach(subscription_of(id)),
            "credit" => Command::Credit {
                consumer: subscription_of(id),
                messages: number(rest[0]),
                bytes: number(rest[1]),
            },
            "get" => Command::Get {
                subscription: subscription_of(id),
                no_ack: rest.contains(&"noack"),
            },
            "purge" => Command::Purge { request },
            "count" => Command::Count { request },
            "peek" => Command::Peek {
                request,
                before: number(id),
            },
            "fetch" => {
                let (priority_log, index) = match rest[0].split_once('/') {
                    Some((priority_log, index)) => (number(priority_log), index),
                    None => (PLAIN, rest[0]),
                };
                Command::Fetch {
                    consumer: subscription_of(id),
                    priority_log,
                    index: number(index),
                }
            }
            word => {
                let outcome = outcome(word).unwrap_or_else(|| panic!("{word:?} is no word"));
                let (priority_log, range) = range(rest[0]);
                let settle = Operation::Settle(Settle {
                    subscription: subscription_of(id),
                    priority_log,
                    range,
                    outcome,
                });
                return self.operations(at, vec![settle]);
            }
        };
        self.say(at, command);
    }

    fn term(&mut self) -> u64 {
        self.replica(self.leader, |replica| replica.group.term())
    }

    fn replica<R>(&mut self, at: usize, run: impl FnOnce(&Replica) -> R) -> R {
        self.run(at, |running, now| {
            let shard = &mut running.shard;
            shard.with_replicas(now, |replicas, _| run(&replicas.map[&QUEUE]))
        })
    }

    fn act(&mut self, said: &str) {
        let words: Vec<&str> = said.split_whitespace().collect();
        let leader = self.leader;
        match words[..] {
            ["commit"] => self.commit(),
            ["run", ms] => self.pass(number(ms)),
            ["set", ref words @ ..] => {
                set(&mut self.world.spec, words);
                self.update();
            }
            ["down", node] => {
                let peer = self.world.nodes[self.at(node)].id;
                self.run(leader, |running, now| running.shard.peer_down(now, peer));
            }
            ["up", node] => {
                let peer = self.world.nodes[self.at(node)].id;
                self.run(leader, |running, now| running.shard.peer_up(now, peer));
            }
            ["lead", node] => {
                let to = self.at(node);
                let id = self.world.nodes[to].id;
                self.run(leader, |running, now| {
                    let result = running.shard.transfer_leader(now, QUEUE, id);
                    assert!(matches!(result, Some(Ok(()))), "{result:?}");
                });
                self.commit();
                assert_eq!(self.world.leader(), Some(to), "it leads");
                self.leader = to;
            }
            ["hand", node] => {
                let id = self.world.nodes[self.at(node)].id;
                self.run(leader, |running, now| {
                    let result = running.shard.transfer_leader(now, QUEUE, id);
                    assert!(matches!(result, Some(Ok(()))), "{result:?}");
                });
            }
            ["lose"] => self.world.ways.clear(),
            [node, ref words @ ..] if node.parse::<usize>().is_ok() => {
                self.node_says(self.at(node), words);
            }
            _ => self.act_on_leader(&words),
        }
    }

    fn update(&mut self) {
        for at in 0..3 {
            let spec = self.world.spec.clone();
            self.run(at, |running, now| {
                running.shard.update_queue(now, QUEUE, spec)
            });
        }
    }

    fn act_on_leader(&mut self, words: &[&str]) {
        let leader = self.leader;
        match *words {
            ["astray", to, ref words @ ..] => {
                let to = self.at(to);
                let before = std::mem::replace(&mut self.leader, to);
                self.act(&words.join(" "));
                self.leader = before;
            }
            ["doubt"] => {
                let now_ms = self.world.now.monotonic_ms;
                self.run(leader, |running, _| {
                    running.shard.set_peers_checked_ms(now_ms)
                });
                self.world.wait(LEADER_LEASE_MS + 1);
            }
            ["sure"] => {
                let now_ms = self.world.now.monotonic_ms;
                self.run(leader, |running, _| {
                    running.shard.set_peers_checked_ms(now_ms)
                });
            }
            ["arrived", of] => {
                let (priority_log, range) = range(of);
                self.run(leader, |running, now| {
                    running.shard.dead_lettered(now, QUEUE, priority_log, range);
                });
            }
            ["refused", index] => self.run(leader, |running, now| {
                let index = number(index);
                running.shard.not_dead_lettered(now, QUEUE, PLAIN, index);
            }),
            ["stream", ref words @ ..] => self.act_on_stream(words),
            ["many", ref words @ ..] => {
                self.act(&words.join(" "));
                self.outputs = counted(std::mem::take(&mut self.outputs));
            }
            ["entries"] => {
                let last = self.replica(leader, |replica| replica.group.last_index());
                let before = std::mem::replace(&mut self.entries, last);
                self.outputs.push((last - before).to_string());
            }
            ["due"] => {
                let now_ms = self.world.now.monotonic_ms;
                let due_ms = self.run(leader, |running, _| running.shard.next_deadline_ms());
                self.outputs.push(match due_ms {
                    u64::MAX => "never".to_owned(),
                    at => format!("in {} ms", at.saturating_sub(now_ms)),
                });
            }
            ["depths"] => {
                let depths = self.run(leader, |running, _| running.shard.depths());
                let said = depths.iter().map(|(_, of)| format!("{of:?}"));
                self.outputs.extend(said);
            }
            ["known", node] => {
                let at = self.at(node);
                let counts = self.run(at, |running, now| {
                    running.shard.last_queue_counts(now, QUEUE)
                });
                self.outputs.push(counts.ready.to_string());
            }
            ["grow"] => {
                let third = ReplicaId::new(NodeId(3), 7);
                self.world.spec.members.push(third);
                self.update();
            }
            ["under", "way"] => {
                let said = self.run(leader, |running, now| {
                    running.shard.with_replicas(now, |replicas, _| {
                        let work = replicas.has_work_under_way(QUEUE).expect("it leads");
                        [
                            (work, "work"),
                            (replicas.has_open(), "open"),
                            (replicas.is_urgent(), "urgent"),
                        ]
                    })
                });
                let said = said.into_iter().filter(|(is, _)| *is);
                let said: Vec<&str> = said.map(|(_, word)| word).collect();
                self.outputs.push(said.join(" "));
            }
            _ => panic!("{words:?} is nothing that happens"),
        }
    }

    fn act_on_stream(&mut self, words: &[&str]) {
        match *words {
            ["deletes", chunks] => self.source.delete(number(chunks)),
            ["refuses"] => self.source.refuses = true,
            ["answers"] => self.source.refuses = false,
            ["late"] => {
                let late = self.source.late(self.leader);
                self.hear_stream(self.leader, late);
            }
            ["lost"] => {
                self.source.lose(self.leader);
                let lost = StreamEvent::Lost { stream: STREAM };
                self.hear_stream(self.leader, lost);
            }
            [count] => {
                self.source.append(number(count));
                self.stream();
            }
            _ => panic!("{words:?} is nothing that a stream does"),
        }
    }

    /// All members have made the same of the entries.
    fn check(&mut self) {
        self.commit();
        self.pass(1_000);
        let states: Vec<_> = (0..3)
            .map(|at| {
                self.run(at, |running, now| {
                    running.shard.with_replicas(now, |replicas, context| {
                        replicas.state(context.logs, QUEUE).expect("it is here")
                    })
                })
            })
            .collect();
        assert_eq!(states[0], states[1]);
        assert_eq!(states[0], states[2]);
        for of in &states[0].priority_logs {
            let is_live = |range: &std::ops::Range<u64>| {
                let mut live = of.live.iter();
                live.any(|(live, ())| live.start <= range.start && range.end <= live.end)
            };
            let mut known = of.returns.iter().map(|(range, _)| range);
            assert!(
                known.all(is_live),
                "of what has left nothing is known: {of:?}"
            );
            let mut leaving = of.leaving.iter().map(|(range, _)| range);
            assert!(leaving.all(is_live), "{of:?}");
        }
    }
}

/// Plays a script with a queue of these settings, which a node has just begun to lead.
pub(super) fn play(settings: &str, script: &str) {
    let mut led = Led::new(settings);
    let lines = script.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty()) {
        let (said, expected) = line.split_once("=>").unwrap_or((line, ""));
        led.act(said.trim());
        let outputs = std::mem::take(&mut led.outputs).join(", ");
        assert_eq!(outputs, expected.trim(), "after {said:?} in\n{script}");
    }
    led.check();
}
