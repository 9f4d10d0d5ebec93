//! The language of the tests: a script of statements, and the line of words that a queue answers
//! with.
//!
//! Statements are separated by `;`. Messages have names; consumers and other subscriptions are
//! named `c1`, `g2`.
//!
//! ```text
//! declare [quorum] [ttl=] [expires=] [max-length=] [max-bytes=] [overflow=drop|reject|dlx] [dlx] [prio=] [sac] [limit=] [timeout=]
//!         [at-least-once] [retry=all|failed|returned:min[:max]]
//! policy ...               the same words; what is not named is unset
//! publish a b:p=3:ttl=100:size=10    one batch, then a pump
//! consume c1 [prefetch=] [priority=] [exclusive] [no-ack] [timeout=]; cancel c1; detach c1; room c1=2; unblock c1
//! ack c1 a b; nack c1 a; return c1 a; reject c1 a     nack does not count towards the delivery limit, return does
//! release c1 a
//! get g1 [no-ack]; purge; dead-lettered a; touch; restart [crash]
//! forget c1; adopt c1 a b=2; tell-returns; announce 10 20; withdraw 10
//! hold-election; resume-election [c1]
//! cold a b; warm; damage a
//! at 1000 (both clocks, and a tick); wall 1000 (that clock alone); show; counters; able; deadline; peeks
//! ```
//!
//! Answers: `c1<a` delivered, with `*` redelivered, `*2` and a delivery count of 2, `<<` settled by
//! being sent, `+3` and an acquired count of 3 where that is not the delivery count; `gone a b` one
//! range that left; `dlx(expired) a`; `refused a`; `refused-dlx a`; `count 2/3 a@40` of both counts
//! and when it is ready; `active c1`; `waits c1`; `late c1`; `damaged a`; `queue-expired`.

use crate::world::{MessageState, World};
use leveret_queue::{
    AttachError, Consumer, DelayedRetry, Delivery, Effect, Got, Meta, Offer, Outcome, Overflow,
    Position, QueueKind, Retried, Settings,
};
use leveret_types::{ConsumerId, Now};

/// Runs a script and compares what the queue did.
#[track_caller]
pub fn check(script: &str, expected: &str) {
    let (_, actual) = run(script);
    assert_eq!(actual, expected, "\nscript: {script}");
}

/// Runs a script, and gives the world and what the queue did.
pub fn run(script: &str) -> (World, String) {
    let mut runner = Runner {
        world: World::new(QueueKind::Classic, Settings::default()),
        said: Vec::new(),
    };
    for statement in script
        .split(';')
        .map(str::trim)
        .filter(|statement| !statement.is_empty())
    {
        let words: Vec<&str> = statement.split_whitespace().collect();
        runner.statement(words[0], &words[1..]);
        runner.tell();
    }
    (runner.world, runner.said.join("; "))
}

struct Runner {
    world: World,
    said: Vec<String>,
}

fn number(text: &str) -> u64 {
    text.parse()
        .unwrap_or_else(|_| panic!("{text} is no number"))
}

fn subscription(name: &str) -> ConsumerId {
    let digits = name.trim_start_matches(char::is_alphabetic);
    ConsumerId(number(digits) * 2 + u64::from(name.starts_with('g')))
}

fn subscription_name(id: ConsumerId) -> String {
    format!("{}{}", if id.0 % 2 == 1 { 'g' } else { 'c' }, id.0 / 2)
}

fn settings(words: &[&str]) -> (QueueKind, Settings) {
    let mut settings = Settings::default();
    let mut kind = QueueKind::Classic;
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match key {
            "quorum" => kind = QueueKind::Quorum,
            "ttl" => settings.ttl_ms = Some(number(value)),
            "expires" => settings.expires_ms = Some(number(value)),
            "max-length" => settings.length_max = Some(number(value)),
            "max-bytes" => settings.length_bytes_max = Some(number(value)),
            "overflow" => {
                settings.overflow = match value {
                    "drop" => Overflow::DropHead,
                    "reject" => Overflow::RejectPublish,
                    "dlx" => Overflow::RejectPublishDlx,
                    other => panic!("overflow {other}"),
                }
            }
            "dlx" => settings.dead_letter = true,
            "at-least-once" => settings.dead_letter_at_least_once = true,
            "prio" => settings.priority_max = number(value) as u8,
            "sac" => settings.single_active = true,
            "limit" => settings.delivery_limit = value.parse().ok(),
            "timeout" => settings.consumer_timeout_ms = Some(number(value)),
            "retry" => {
                let mut parts = value.split(':');
                settings.delayed_retry = Some(DelayedRetry {
                    of: match parts.next() {
                        Some("all") => Retried::All,
                        Some("failed") => Retried::Failed,
                        Some("returned") => Retried::Returned,
                        other => panic!("retry {other:?}"),
                    },
                    min_ms: parts.next().map_or(0, number),
                    max_ms: parts.next().map_or(u64::MAX, number),
                });
            }
            other => panic!("setting {other}"),
        }
    }
    (kind, settings)
}

impl Runner {
    fn statement(&mut self, verb: &str, words: &[&str]) {
        match verb {
            "declare" => {
                let (kind, settings) = settings(words);
                self.world = World::new(kind, settings);
            }
            "policy" => {
                let (_, settings) = settings(words);
                self.world
                    .call(|queue, now, _, _| queue.update_settings(now, settings));
                self.world.pump();
            }
            "publish" => self.publish(words),
            "consume" => self.consume(words),
            "ack" => self.settle(words, Outcome::Accept),
            "nack" => self.settle(words, Outcome::Requeue { count: false }),
            "return" => self.settle(words, Outcome::Requeue { count: true }),
            "release" => self.settle(words, Outcome::Release),
            "reject" => self.settle(words, Outcome::Reject),
            "cancel" => {
                let known = self
                    .world
                    .call(|queue, now, _, out| queue.cancel(now, subscription(words[0]), out));
                self.note_if(!known, "unknown");
                self.world.pump();
            }
            "detach" => {
                self.world.detach(subscription(words[0]));
                self.world.pump();
            }
            "forget" => {
                self.world.forget(subscription(words[0]));
                self.world.pump();
            }
            "hold-election" => self.world.queue.hold_election(),
            "resume-election" => {
                let before = words.first().map(|name| subscription(name));
                self.world
                    .call(|queue, now, _, out| queue.resume_election(now, before, out));
                self.world.pump();
            }
            "tell-returns" => self.world.queue.tell_returns(),
            "announce" => words
                .iter()
                .for_each(|size| self.world.queue.announce(number(size) as u32)),
            "withdraw" => words
                .iter()
                .for_each(|size| self.world.queue.withdraw(number(size) as u32)),
            "adopt" => {
                for word in &words[1..] {
                    let (name, acquired) = word.split_once('=').unwrap_or((*word, "0"));
                    let position = self.position(name);
                    let acquired = number(acquired) as u32;
                    let count = self.world.adopt(subscription(words[0]), position, acquired);
                    self.note_if(count == 0, "not-ready");
                }
                self.world.pump();
            }
            "room" => {
                let (name, room) = words[0].split_once('=').expect("room c1=2");
                self.world
                    .log
                    .room
                    .insert(subscription(name), number(room) as u32);
            }
            "unblock" => {
                self.world
                    .call(|queue, now, _, _| queue.unblock(now, subscription(words[0])));
                self.world.pump();
            }
            "get" => self.get(words),
            "purge" => {
                let count = self.world.call(|queue, _, _, out| queue.purge(out));
                self.tell();
                self.said.push(format!("purged {count}"));
            }
            "touch" => self.world.call(|queue, now, _, _| queue.touch(now)),
            "restart" => self.world.restart(words != ["crash"]),
            "dead-lettered" => self.dead_lettered(words),
            _ => self.surroundings(verb, words),
        }
    }

    fn surroundings(&mut self, verb: &str, words: &[&str]) {
        match verb {
            "cold" => words.iter().for_each(|name| {
                let position = self.position(name);
                self.world.log.cold.insert(position);
            }),
            "warm" => {
                self.world.log.cold.clear();
                self.world.call(|queue, _, _, _| queue.resume());
                self.world.pump();
            }
            "damage" => words.iter().for_each(|name| {
                let position = self.position(name);
                self.world.log.damaged.insert(position);
            }),
            "at" => {
                self.world.now = Now::both(number(words[0]));
                self.world
                    .call(|queue, now, log, out| queue.tick(now, log, out));
            }
            "wall" => self.world.now.wall_ms = number(words[0]),
            "show" => self.show(),
            "deadline" => {
                let deadline = self.world.queue.next_deadline_ms(self.world.now);
                self.said
                    .push(deadline.map_or("never".to_owned(), |at| format!("at {at}")));
            }
            "able" => self.said.push(format!(
                "able {}",
                self.world.queue.counts(self.world.now).able_ms
            )),
            "peeks" => self.said.push(format!("peeks {}", self.world.log.peeks)),
            "counters" => self.counters(),
            other => panic!("statement {other}"),
        }
    }

    fn note_if(&mut self, condition: bool, word: &str) {
        if condition {
            self.tell();
            self.said.push(word.to_owned());
        }
    }

    fn publish(&mut self, words: &[&str]) {
        for word in words {
            let mut parts = word.split(':');
            let name = parts.next().unwrap_or_default();
            let mut meta = Meta {
                bytes: 1,
                published_ms: self.world.now.wall_ms,
                expiration_ms: None,
            };
            let mut priority = None;
            for part in parts {
                match part.split_once('=') {
                    Some(("p", value)) => priority = Some(number(value) as u8),
                    Some(("ttl", value)) => meta.expiration_ms = Some(number(value)),
                    Some(("size", value)) => meta.bytes = number(value) as u32,
                    _ => panic!("property {part}"),
                }
            }
            match self.world.publish(name, priority, meta) {
                Ok(_) | Err(Offer::Take) => {}
                Err(Offer::Reject { dead_letter: false }) => {
                    self.note_if(true, &format!("refused {name}"))
                }
                Err(Offer::Reject { dead_letter: true }) => {
                    self.note_if(true, &format!("refused-dlx {name}"))
                }
            }
        }
        self.world.pump();
    }

    fn consume(&mut self, words: &[&str]) {
        let mut consumer = Consumer {
            id: subscription(words[0]),
            priority: 0,
            exclusive: false,
            no_ack: false,
            prefetch: 0,
            timeout_ms: None,
        };
        for word in &words[1..] {
            match word.split_once('=').unwrap_or((word, "")) {
                ("prefetch", value) => consumer.prefetch = number(value) as u32,
                ("priority", value) => consumer.priority = value.parse().expect("a priority"),
                ("exclusive", _) => consumer.exclusive = true,
                ("no-ack", _) => consumer.no_ack = true,
                ("timeout", value) => consumer.timeout_ms = Some(number(value)),
                (other, _) => panic!("option {other}"),
            }
        }
        match self.world.attach(consumer) {
            Ok(()) => self.world.pump(),
            Err(AttachError::ExclusiveTaken) => self.said.push("exclusive-taken".to_owned()),
            Err(AttachError::ExclusiveOnSingleActive) => {
                self.said.push("exclusive-on-sac".to_owned())
            }
            Err(other) => panic!("{other}"),
        }
    }

    /// Settles runs of neighbouring messages with one call each, then pumps.
    fn settle(&mut self, words: &[&str], outcome: Outcome) {
        let positions: Vec<Position> = words[1..].iter().map(|name| self.position(name)).collect();
        for run in
            positions.chunk_by(|a, b| a.priority_log == b.priority_log && a.index + 1 == b.index)
        {
            let range = run[0].index..run[0].index + run.len() as u64;
            let count =
                self.world
                    .settle(subscription(words[0]), run[0].priority_log, range, outcome);
            self.note_if(count < run.len() as u64, &format!("settled {count}"));
        }
        self.world.pump();
    }

    fn dead_lettered(&mut self, words: &[&str]) {
        for name in words {
            let Position {
                priority_log,
                index,
            } = self.position(name);
            let count = self
                .world
                .call(|queue, _, _, out| queue.dead_lettered(priority_log, index..index + 1, out));
            self.note_if(count == 0, "not-leaving");
        }
    }

    fn get(&mut self, words: &[&str]) {
        let got = self
            .world
            .get(subscription(words[0]), words.contains(&"no-ack"));
        let answer = match got {
            Got::Message { delivery, ready } => {
                format!("{} left={ready}", self.delivery(&delivery))
            }
            Got::Empty => "empty".to_owned(),
            Got::Pending => "pending".to_owned(),
        };
        self.said.push(answer);
    }

    fn show(&mut self) {
        let places = [
            ("ready", MessageState::Ready),
            ("leaving", MessageState::Leaving),
            ("damaged", MessageState::Damaged),
        ];
        let mut all: Vec<String> = Vec::new();
        let named = |which: &dyn Fn(MessageState) -> bool| {
            let known = self.world.known.values().filter(|known| which(known.state));
            known
                .map(|known| format!(" {}", known.name))
                .collect::<String>()
        };
        for (word, place) in places {
            let names = named(&|at| at == place);
            if !names.is_empty() {
                all.push(format!("{word}{names}"));
            }
        }
        let unsettled_messages = named(&|at| matches!(at, MessageState::Unsettled(_)));
        if !unsettled_messages.is_empty() {
            all.insert(
                usize::from(!all.is_empty() && all[0].starts_with("ready")),
                format!("held{unsettled_messages}"),
            );
        }
        self.said.push(if all.is_empty() {
            "nothing".to_owned()
        } else {
            all.join(" | ")
        });
    }

    fn counters(&mut self) {
        let text = format!("{:?}", self.world.queue.counters());
        let fields = text
            .trim_start_matches("Counters { ")
            .trim_end_matches(" }")
            .split(", ");
        let set: Vec<String> = fields
            .filter(|f| !f.ends_with(": 0"))
            .map(|f| f.replace(": ", "="))
            .collect();
        self.said.push(set.join(" "));
    }

    fn position(&self, name: &str) -> Position {
        let found = self
            .world
            .known
            .iter()
            .chain(&self.world.gone)
            .find(|(_, known)| known.name == name);
        *found.unwrap_or_else(|| panic!("no message {name}")).0
    }

    fn name(&self, position: &Position) -> &str {
        let known = self
            .world
            .known
            .get(position)
            .or(self.world.gone.get(position));
        &known
            .expect("an effect names a message that was published")
            .name
    }

    fn names(&self, priority_log: u8, range: std::ops::Range<u64>) -> String {
        range
            .map(|index| {
                format!(
                    " {}",
                    self.name(&Position {
                        priority_log,
                        index
                    })
                )
            })
            .collect()
    }

    fn delivery(&self, delivery: &Delivery) -> String {
        let name = self.name(&delivery.position);
        let arrow = if delivery.settled { "<<" } else { "<" };
        let flag = if delivery.redelivered { "*" } else { "" };
        let mut count = delivery
            .delivery_count
            .map(|count| count.to_string())
            .unwrap_or_default();
        if let Some(acquired) = delivery.acquired_count
            && delivery.acquired_count != delivery.delivery_count
        {
            count.push_str(&format!("+{acquired}"));
        }
        format!(
            "{}{arrow}{name}{flag}{count}",
            subscription_name(delivery.consumer)
        )
    }

    /// Says what the effects since the last time were.
    fn tell(&mut self) {
        for effect in std::mem::take(&mut self.world.effects) {
            let text = match &effect {
                Effect::Deliver(delivery) => self.delivery(delivery),
                Effect::Settled {
                    priority_log,
                    range,
                    ..
                } => {
                    format!("gone{}", self.names(*priority_log, range.clone()))
                }
                Effect::DeadLetter {
                    priority_log,
                    range,
                    reason,
                } => {
                    format!(
                        "dlx({}){}",
                        reason.name(),
                        self.names(*priority_log, range.clone())
                    )
                }
                Effect::Returned {
                    priority_log,
                    range,
                    returns,
                } => {
                    let names = self.names(*priority_log, range.clone());
                    let at = match returns.ready_ms {
                        0 => String::new(),
                        at => format!("@{at}"),
                    };
                    format!("count {}/{}{names}{at}", returns.failed, returns.acquired)
                }
                Effect::Activate { consumer } => format!("active {}", subscription_name(*consumer)),
                Effect::Deactivate { consumer } => {
                    format!("waits {}", subscription_name(*consumer))
                }
                Effect::TimedOut { subscription } => {
                    format!("late {}", subscription_name(*subscription))
                }
                Effect::Damaged { position } => format!("damaged {}", self.name(position)),
                Effect::Expired => "queue-expired".to_owned(),
            };
            self.said.push(text);
        }
    }
}
