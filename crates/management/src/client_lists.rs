//! Lists of what clients have: connections, channels, consumers. Of each only a key is held; what
//! its row is made from is asked of the connections' threads when the row is wanted.

use crate::api::{ConnectionContent, ConnectionStats};
use crate::app::App;
use crate::connections::{Shape, channel_json, channel_name, connection_json, consumer_json};
use crate::directory::Queue;
use crate::listing::{self, Found, Source};
use crate::peers;
use crate::question::Question;
use crate::ranges::Ranges;
use crate::reply::{ApiError, Reply, fingerprint};
use crate::route::Call;
use leveret_types::{ConnectionId, QueueId};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Connections,
    Channels,
    Consumers,
}

/// Where things are looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Among<'a> {
    /// In all connections.
    All,
    /// In the connection of this name.
    Connection(&'a str),
}

/// Names a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// A connection of this node.
    Connection(ConnectionId),
    /// A channel of such a connection.
    Channel(ConnectionId, u16),
    /// A consumer on such a channel, by its tag's fingerprint.
    Consumer(ConnectionId, u16, u64),
    /// What another node tells, by its place.
    Elsewhere(u32),
}

impl Key {
    const fn connection(self) -> Option<ConnectionId> {
        match self {
            Self::Connection(id) | Self::Channel(id, _) | Self::Consumer(id, ..) => Some(id),
            Self::Elsewhere(_) => None,
        }
    }

    /// Where a thing stands among those of its kind, those of other nodes last. Consumers have no
    /// order of their own.
    fn order(self) -> (bool, ConnectionId, u16) {
        match self {
            Self::Connection(id) => (false, id, 0),
            Self::Channel(id, number) => (false, id, number),
            Self::Consumer(..) => (false, ConnectionId(0), 0),
            Self::Elsewhere(_) => (true, ConnectionId(0), 0),
        }
    }
}

/// The connection that a thing belongs to, as far as lists choose by it.
pub(crate) struct Of<'a> {
    pub(crate) user: &'a str,
    pub(crate) vhost: &'a str,
    pub(crate) protocol: &'a str,
}

/// What other nodes tell of their clients, as it came: a row's text takes a part of its value.
struct Elsewhere {
    texts: Vec<Box<RawValue>>,
    shape: Value,
}

impl Elsewhere {
    /// Asks the other nodes.
    fn ask(app: &App, kind: Kind, ranges: Ranges) -> Self {
        let (question, shape) = match kind {
            Kind::Connections => (Question::Connections { ranges }, Shape::Connection),
            Kind::Channels => (Question::Channels { ranges }, Shape::Channel),
            Kind::Consumers => (Question::Consumers, Shape::Consumer),
        };
        Self {
            texts: peers::texts(app, &question),
            shape: shape.of(app),
        }
    }

    fn row(&self, at: u32) -> Option<Value> {
        let row = serde_json::from_str(self.texts.get(at as usize)?.get()).ok()?;
        Some(peers::shaped(&self.shape, row))
    }

    fn bytes(&self) -> usize {
        self.texts.iter().map(|text| text.get().len()).sum()
    }
}

/// Shows the key of each thing that may be seen and is meant, with the name that filters look at.
fn each(
    call: &Call<'_>,
    kind: Kind,
    among: Among<'_>,
    ranges: Ranges,
    is_meant: &dyn Fn(&Of<'_>) -> bool,
    see: &mut dyn FnMut(Option<&str>, Key),
) -> Elsewhere {
    let visible = listing::visible_vhosts(call, None);
    let is_wanted = |of: &Of<'_>| {
        let may_see = match kind {
            Kind::Connections | Kind::Channels => {
                call.who.is_monitor() || of.user == call.who.name()
            }
            Kind::Consumers => visible.as_ref().is_none_or(|seen| seen.contains(of.vhost)),
        };
        may_see && is_meant(of)
    };
    let mut see_content = |content: ConnectionContent| {
        let c = &content.connection;
        let (user, vhost, protocol) = (&*c.user, &*c.vhost, c.protocol);
        if is_wanted(&Of {
            user,
            vhost,
            protocol,
        }) {
            each_in(kind, &content, see);
        }
    };
    let node = call.app.node();
    let mut is_here = false;
    match among {
        Among::All => node.each_connection(&mut see_content),
        Among::Connection(name) => {
            let content = node.connection(name);
            is_here = content.is_some();
            content.into_iter().for_each(see_content);
        }
    }
    if is_here {
        let (texts, shape) = (Vec::new(), Value::Null);
        return Elsewhere { texts, shape };
    }
    let elsewhere = Elsewhere::ask(call.app, kind, ranges);
    for at in 0..elsewhere.texts.len() as u32 {
        let Some(row) = elsewhere.row(at) else {
            continue;
        };
        let text = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned();
        let (user, vhost, connection) = match kind {
            Kind::Connections => (&row["user"], &row["vhost"], &row["name"]),
            Kind::Channels => (
                &row["user"],
                &row["vhost"],
                &row["connection_details"]["name"],
            ),
            Kind::Consumers => {
                let channel = &row["channel_details"];
                (
                    &channel["user"],
                    &row["queue"]["vhost"],
                    &channel["connection_name"],
                )
            }
        };
        let is_among = match among {
            Among::All => true,
            Among::Connection(name) => connection == name,
        };
        let (user, vhost, protocol) = (text(user), text(vhost), text(&row["protocol"]));
        let of = Of {
            user: &user,
            vhost: &vhost,
            protocol: &protocol,
        };
        if is_among && is_wanted(&of) {
            see(row["name"].as_str(), Key::Elsewhere(at));
        }
    }
    elsewhere
}

/// The things of one connection.
fn each_in(kind: Kind, content: &ConnectionContent, see: &mut dyn FnMut(Option<&str>, Key)) {
    let c = &content.connection;
    match kind {
        Kind::Connections => see(Some(&c.name), Key::Connection(c.id)),
        Kind::Channels => {
            for channel in &content.channels {
                let name = channel_name(c, channel.number);
                see(Some(&name), Key::Channel(c.id, channel.number));
            }
        }
        Kind::Consumers => {
            for consumer in &content.consumers {
                let tag = fingerprint(consumer.tag.as_bytes());
                see(None, Key::Consumer(c.id, consumer.channel, tag));
            }
        }
    }
}

/// How many there are of what may be seen.
pub(crate) fn count(call: &Call<'_>, kind: Kind) -> usize {
    let mut count = 0;
    let ranges = Ranges::default();
    each(call, kind, Among::All, ranges, &|_| true, &mut |_, _| {
        count += 1
    });
    count
}

/// What may be seen and is meant, as the query asks for it.
///
/// # Errors
/// If the query makes no sense.
pub(crate) fn list(
    call: &Call<'_>,
    kind: Kind,
    among: Among<'_>,
    is_meant: impl Fn(&Of<'_>) -> bool,
) -> Result<Reply, ApiError> {
    let ranges = Ranges::of(&call.query)?;
    let mut found = Found::new(&call.query)?;
    let mut see = |name: Option<&str>, key: Key| found.add(name, || key);
    let elsewhere = each(call, kind, among, ranges, &is_meant, &mut see);
    found.sort_by(|key| key.order());
    let source = Clients {
        app: Arc::clone(call.app),
        node: call.app.node().node_stats().name,
        ranges,
        elsewhere,
    };
    listing::list(found, source, &call.query)
}

/// What rows are made from.
struct Clients {
    app: Arc<App>,
    node: String,
    ranges: Ranges,
    elsewhere: Elsewhere,
}

/// The most rows of one connection that are made at once: its thread copies all that is in it for
/// each batch.
const OF_ONE_MAX: usize = 2_048;

impl Source for Clients {
    type Key = Key;
    type Row = Value;

    fn rows(&mut self, keys: &[Key]) -> Vec<Option<Value>> {
        let wanted: HashSet<Key> = keys.iter().copied().collect();
        let mut ids: Vec<ConnectionId> = keys.iter().filter_map(|key| key.connection()).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut rows: HashMap<Key, Value> = HashMap::new();
        for content in self.app.node().connections_of(&ids) {
            self.rows_in(&content, &wanted, &mut rows);
        }
        let row = |key: &Key| match key {
            Key::Elsewhere(at) => self.elsewhere.row(*at),
            key => rows.remove(key),
        };
        keys.iter().map(row).collect()
    }

    fn batch(&self, keys: &[Key]) -> usize {
        let usual = keys.len().min(listing::BATCH);
        // What is of the last one's connection goes with it.
        let last = keys[usual - 1].connection();
        let more = keys[usual..].iter().take(OF_ONE_MAX);
        usual
            + more
                .take_while(|key| last.is_some() && key.connection() == last)
                .count()
    }

    fn held_bytes(&self) -> usize {
        self.elsewhere.bytes()
    }
}

impl Clients {
    /// The rows that are wanted of what is in a connection.
    fn rows_in(
        &self,
        content: &ConnectionContent,
        wanted: &HashSet<Key>,
        rows: &mut HashMap<Key, Value>,
    ) {
        let (app, node, ranges) = (&self.app, &*self.node, &self.ranges);
        let c: &ConnectionStats = &content.connection;
        let key = Key::Connection(c.id);
        if wanted.contains(&key) {
            rows.insert(key, connection_json(app, node, c, ranges));
        }
        for channel in &content.channels {
            let key = Key::Channel(c.id, channel.number);
            if wanted.contains(&key) {
                rows.insert(key, channel_json(app, node, c, channel, ranges));
            }
        }
        let keyed = content.consumers.iter().map(|consumer| {
            let tag = fingerprint(consumer.tag.as_bytes());
            (Key::Consumer(c.id, consumer.channel, tag), consumer)
        });
        let consumers: Vec<_> = keyed.filter(|(key, _)| wanted.contains(key)).collect();
        if consumers.is_empty() {
            return;
        }
        let ids: Vec<QueueId> = consumers
            .iter()
            .map(|(_, consumer)| consumer.queue)
            .collect();
        let queues = app.node().queues_by_id(&ids).into_iter();
        let queues: HashMap<QueueId, Queue> = queues.map(|queue| (queue.id, queue)).collect();
        for (key, consumer) in consumers {
            let queue = queues.get(&consumer.queue);
            let row = queue.and_then(|queue| consumer_json(node, queue, Some(c), consumer));
            rows.extend(row.map(|row| (key, row)));
        }
    }
}
