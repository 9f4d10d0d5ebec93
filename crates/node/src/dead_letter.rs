//! Dead-lettering: what a message carries with it of where it died, and whether it goes round in
//! circles.

use leveret_amqp::{Properties, TableBuilder};
use leveret_message::as_amqp091;
use leveret_message::with_properties;
use leveret_queue::Reason;
use leveret_types::message::MessageSummary;
use leveret_types::{FieldTable, FieldValue, Message, MessageParts, Now};

/// Headers that dead-lettering writes.
const HEADERS: [&str; 7] = [
    "x-death",
    "x-first-death-queue",
    "x-first-death-reason",
    "x-first-death-exchange",
    "x-last-death-queue",
    "x-last-death-reason",
    "x-last-death-exchange",
];

/// A message after its death.
pub struct Dead {
    /// With the headers that tell of it, published to the dead-letter exchange.
    pub message: Message,
    /// Its deaths, newest first.
    deaths: Vec<FieldTable>,
}

impl Dead {
    /// `message` as it leaves `queue`: to `exchange`, under `routing_key` or the key that it had.
    #[must_use]
    pub fn new(
        message: &Message,
        queue: &str,
        reason: Reason,
        exchange: &str,
        routing_key: Option<&str>,
        now: Now,
    ) -> Self {
        // What it says of its deaths is a header of AMQP 0-9-1, whatever it came in.
        let converted = as_amqp091(message);
        let message = converted.as_ref().unwrap_or(message);
        let mut properties = Properties::trusted(message.properties());
        let headers = properties.headers();
        let mut deaths = recorded_deaths(message, headers.to_table());
        let first = deaths.is_empty();
        let death = Death {
            queue,
            reason,
            at: now,
            exchange: message.exchange(),
            routing_keys: original_keys(message, &headers.to_table()),
            expiration: properties.expiration,
        };
        count_death(&mut deaths, death);

        let dropped: &[&str] = match (message.summary.dead_lettered, routing_key) {
            // A client's claim to an earlier death is not believed.
            (false, None) => &HEADERS,
            (false, Some(_)) => &[
                "CC",
                "x-death",
                "x-first-death-queue",
                "x-first-death-reason",
                "x-first-death-exchange",
                "x-last-death-queue",
                "x-last-death-reason",
                "x-last-death-exchange",
            ],
            (true, None) => &[
                "x-death",
                "x-last-death-queue",
                "x-last-death-reason",
                "x-last-death-exchange",
            ],
            (true, Some(_)) => &[
                "CC",
                "x-death",
                "x-last-death-queue",
                "x-last-death-reason",
                "x-last-death-exchange",
            ],
        };
        let mut table = TableBuilder::copy_of(headers, dropped);
        let list = deaths.iter().cloned().map(FieldValue::Table).collect();
        table.push("x-death", &FieldValue::Array(list));
        let source = String::from_utf8_lossy(message.exchange()).into_owned();
        if first {
            table.push("x-first-death-queue", &FieldValue::text(queue));
            table.push("x-first-death-reason", &FieldValue::text(reason.name()));
            table.push("x-first-death-exchange", &FieldValue::text(&source));
        }
        table.push("x-last-death-queue", &FieldValue::text(queue));
        table.push("x-last-death-reason", &FieldValue::text(reason.name()));
        table.push("x-last-death-exchange", &FieldValue::text(&source));
        properties.headers = Some(table.as_table());
        properties.expiration = None;

        let bytes = properties.to_bytes();
        let parts = MessageParts {
            exchange: exchange.as_bytes(),
            routing_key: routing_key.map_or(message.routing_key(), str::as_bytes),
            properties: &bytes,
            body: message.body(),
        };
        let summary = MessageSummary {
            expiration_ms: None,
            published_ms: now.wall_ms,
            dead_lettered: true,
            ..message.summary
        };
        Self {
            message: Message::from_parts(parts, summary),
            deaths,
        }
    }

    /// Whether putting the message into `queue` would close a circle of expiries and overflows,
    /// which nothing would ever end. A rejection on the way means that somebody has a hand in it.
    #[must_use]
    pub fn is_cycle(&self, queue: &str) -> bool {
        let queue = FieldValue::text(queue);
        let rejected = FieldValue::text(Reason::Rejected.name());
        // The newest death is of the queue that the message has just left; the circle reaches back
        // to the earlier one here.
        let Some(end) = self
            .deaths
            .iter()
            .position(|death| death.get("queue") == Some(&queue))
        else {
            return false;
        };
        !self.deaths[..=end]
            .iter()
            .any(|death| death.get("reason") == Some(&rejected))
    }
}

/// Header that counts how often a message was sent back to the queue in which it died.
pub const REDRIVEN: &str = "x-redriven";

/// The queue in which a message died first, and the reason, as far as its headers say.
#[must_use]
pub fn first_death(message: &Message) -> (Option<String>, Option<String>) {
    let converted = as_amqp091(message);
    let message = converted.as_ref().unwrap_or(message);
    let headers = Properties::trusted(message.properties())
        .headers()
        .to_table();
    let text = |name| headers.get(name)?.as_text().map(str::to_owned);
    (text("x-first-death-queue"), text("x-first-death-reason"))
}

/// A message that goes back to the queue in which it died, with one more in [`REDRIVEN`].
#[must_use]
pub fn redriven(message: &Message) -> Message {
    let converted = as_amqp091(message);
    let message = converted.as_ref().unwrap_or(message);
    let mut properties = Properties::trusted(message.properties());
    let headers = properties.headers();
    let before = headers.get(REDRIVEN.as_bytes());
    let before = before.and_then(|count| count.as_integer()).unwrap_or(0);
    let mut table = TableBuilder::copy_of(headers, &[REDRIVEN]);
    let count = FieldValue::I64(before.max(0).saturating_add(1));
    table.push(REDRIVEN, &count);
    properties.headers = Some(table.as_table());
    with_properties(message, &properties)
}

/// The deaths that the broker has recorded, newest first.
fn recorded_deaths(message: &Message, headers: FieldTable) -> Vec<FieldTable> {
    if !message.summary.dead_lettered {
        return Vec::new();
    }
    let Some(FieldValue::Array(list)) = headers.get("x-death") else {
        return Vec::new();
    };
    list.iter()
        .filter_map(|death| match death {
            FieldValue::Table(table) => Some(table.clone()),
            _ => None,
        })
        .collect()
}

/// The routing keys that a message was published with: its own, and those of its `CC` header.
fn original_keys(message: &Message, headers: &FieldTable) -> FieldValue {
    let mut keys = vec![FieldValue::LongString(message.routing_key().to_vec())];
    if let Some(FieldValue::Array(copies)) = headers.get("CC") {
        keys.extend(copies.iter().cloned());
    }
    FieldValue::Array(keys)
}

/// What `x-death` says of a message that has died for the first time in a queue for a reason.
struct Death<'a> {
    queue: &'a str,
    reason: Reason,
    at: Now,
    /// The exchange to which the message was published, and the keys.
    exchange: &'a [u8],
    routing_keys: FieldValue,
    /// The message's own time to live.
    expiration: Option<&'a [u8]>,
}

/// Puts this death first: one more of the same queue and reason if there was one, else a new one.
fn count_death(deaths: &mut Vec<FieldTable>, new: Death<'_>) {
    let (queue, reason) = (
        FieldValue::text(new.queue),
        FieldValue::text(new.reason.name()),
    );
    let known = deaths.iter().position(|death| {
        death.get("queue") == Some(&queue) && death.get("reason") == Some(&reason)
    });
    if let Some(at) = known {
        let mut death = deaths.remove(at);
        let count = death
            .get("count")
            .and_then(FieldValue::as_integer)
            .unwrap_or(0);
        death.set("count", FieldValue::I64(count.saturating_add(1)));
        deaths.insert(0, death);
        return;
    }
    let mut death = FieldTable::from([
        ("count", FieldValue::I64(1)),
        ("reason", reason),
        ("queue", queue),
        ("time", FieldValue::Timestamp(new.at.wall_ms / 1_000)),
        ("exchange", FieldValue::LongString(new.exchange.to_vec())),
        ("routing-keys", new.routing_keys),
    ]);
    if let Some(expiration) = new.expiration {
        death.set(
            "original-expiration",
            FieldValue::LongString(expiration.to_vec()),
        );
    }
    deaths.insert(0, death);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(headers: Option<&TableBuilder>, expiration: Option<&[u8]>) -> Message {
        let properties = Properties {
            headers: headers.map(TableBuilder::as_table),
            expiration,
            ..Properties::default()
        };
        let bytes = properties.to_bytes();
        let parts = MessageParts {
            exchange: b"orders",
            routing_key: b"new",
            properties: &bytes,
            body: b"1",
        };
        Message::from_parts(parts, MessageSummary::default())
    }

    fn headers(message: &Message) -> FieldTable {
        Properties::decode(message.properties())
            .expect("valid")
            .headers()
            .to_table()
    }

    fn die(message: &Message, queue: &str, reason: Reason) -> Dead {
        Dead::new(message, queue, reason, "dlx", None, Now::both(5_000))
    }

    #[test]
    fn a_message_that_goes_back_says_how_often() {
        let dead = die(&message(None, None), "q", Reason::Rejected).message;
        let (queue, reason) = first_death(&dead);
        assert_eq!(
            (queue.as_deref(), reason.as_deref()),
            (Some("q"), Some("rejected"))
        );
        let twice = redriven(&redriven(&dead));
        let mut expected = headers(&dead);
        expected.set(REDRIVEN, FieldValue::I64(2));
        assert_eq!(headers(&twice), expected);
        assert_eq!(twice.summary, dead.summary);
        assert_eq!(first_death(&message(None, None)), (None, None));
    }

    #[test]
    fn the_first_death_is_told_whole() {
        let dead = die(&message(None, Some(b"60")), "q", Reason::Expired).message;
        let table = headers(&dead);
        let expected = FieldTable::from([
            ("count", FieldValue::I64(1)),
            ("reason", FieldValue::text("expired")),
            ("queue", FieldValue::text("q")),
            ("time", FieldValue::Timestamp(5)),
            ("exchange", FieldValue::text("orders")),
            (
                "routing-keys",
                FieldValue::Array(vec![FieldValue::text("new")]),
            ),
            ("original-expiration", FieldValue::text("60")),
        ]);
        assert_eq!(
            table.get("x-death"),
            Some(&FieldValue::Array(vec![FieldValue::Table(expected)]))
        );
        assert_eq!(
            table.get("x-first-death-queue"),
            Some(&FieldValue::text("q"))
        );
        assert_eq!(
            table.get("x-last-death-exchange"),
            Some(&FieldValue::text("orders"))
        );
        assert_eq!(Properties::trusted(dead.properties()).expiration, None);
        assert_eq!(dead.exchange(), b"dlx");
        assert_eq!(dead.routing_key(), b"new");
    }

    #[test]
    fn deaths_of_one_queue_and_reason_are_counted_and_the_newest_comes_first() {
        let one = die(&message(None, None), "a", Reason::Expired).message;
        let two = die(&one, "b", Reason::Rejected).message;
        let three = die(&two, "a", Reason::Expired).message;
        let table = headers(&three);
        let Some(FieldValue::Array(deaths)) = table.get("x-death") else {
            panic!("no x-death")
        };
        let told: Vec<_> = deaths
            .iter()
            .map(|death| match death {
                FieldValue::Table(t) => (t.get("queue").cloned(), t.get("count").cloned()),
                _ => panic!("not a table"),
            })
            .collect();
        assert_eq!(
            told,
            [
                (Some(FieldValue::text("a")), Some(FieldValue::I64(2))),
                (Some(FieldValue::text("b")), Some(FieldValue::I64(1))),
            ]
        );
        assert_eq!(
            table.get("x-first-death-reason"),
            Some(&FieldValue::text("expired"))
        );
        assert_eq!(
            table.get("x-last-death-queue"),
            Some(&FieldValue::text("a"))
        );
        assert_eq!(
            table
                .iter()
                .filter(|(name, _)| *name == "x-last-death-queue")
                .count(),
            1
        );
    }

    #[test]
    fn a_death_that_a_client_claims_is_not_believed() {
        let mut forged = TableBuilder::new();
        forged.push(
            "x-death",
            &FieldValue::Array(vec![FieldValue::Table(FieldTable::from([
                ("queue", FieldValue::text("q")),
                ("reason", FieldValue::text("expired")),
                ("count", FieldValue::I64(99)),
            ]))]),
        );
        let dead = die(&message(Some(&forged), None), "q", Reason::Expired);
        let table = headers(&dead.message);
        let Some(FieldValue::Array(deaths)) = table.get("x-death") else {
            panic!("no x-death")
        };
        let FieldValue::Table(death) = &deaths[0] else {
            panic!("not a table")
        };
        assert_eq!(death.get("count"), Some(&FieldValue::I64(1)));
        assert_eq!(deaths.len(), 1);
    }

    #[test]
    fn a_circle_without_a_rejection_ends() {
        let one = die(&message(None, None), "a", Reason::Expired);
        assert!(one.is_cycle("a"), "straight back");
        assert!(!one.is_cycle("b"));
        let two = die(&one.message, "b", Reason::MaxLength);
        assert!(two.is_cycle("a"));
        let rejected = die(&one.message, "b", Reason::Rejected);
        assert!(!rejected.is_cycle("a"), "somebody rejected it on the way");
    }
}
