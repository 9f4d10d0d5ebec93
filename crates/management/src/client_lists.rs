//! Lists of what clients have: connections, channels, consumers. Of each only a key is held, of
//! those of other nodes too; what its row is made from is asked of the connections' threads, or of
//! its node, when the row is wanted.

use crate::api::{ChannelStats, ConnectionContent, ConnectionStats};
use crate::app::App;
use crate::cluster_lists::{Order, Part};
use crate::connections::{
    ConsumerRow, Shape, channel_details, channel_json, channel_name, connection_json,
};
use crate::directory::Queue;
use crate::history::ranges::Ranges;
use crate::http::chunked_body::write_json;
use crate::http::reply::{ApiError, Reply};
use crate::http::router::Call;
use crate::list_query::{NameFilter, Page};
use crate::ordering::in_order;
use crate::peers::{self, Peers};
use crate::question::Question;
use crate::row_lists::{self, Found, Keyed, Row, Source};
use crate::selection::{ClientKey, ClientSelection, Kind};
use leveret_types::{ConnectionId, NodeId, QueueId};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Names a thing, wherever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// Its node; none for this one.
    node: Option<NodeId>,
    of: ClientKey,
}

impl Key {
    const fn here(of: ClientKey) -> Self {
        Self { node: None, of }
    }

    /// Its connection, if that is one of this node's.
    const fn connection(self) -> Option<ConnectionId> {
        match self.node {
            None => Some(ConnectionId(self.of.0)),
            Some(_) => None,
        }
    }
}

/// Keys of what other nodes' clients have, node by node.
fn keys_elsewhere(parts: Vec<(NodeId, Part<ClientKey>)>) -> impl Iterator<Item = Part<Key>> {
    parts.into_iter().map(|(node, part)| {
        let node = Some(node);
        part.map(|of| Key { node, of })
    })
}

/// What a thing is sorted by where no row need be made for that.
type Field = fn(&ConnectionStats, Option<&ChannelStats>) -> Value;

/// The fields that lists are usually sorted by.
fn field(kind: Kind, name: &str) -> Option<Field> {
    if kind == Kind::Consumers {
        return None;
    }
    if let Some(field) = field_of_connection(kind, name) {
        return Some(field);
    }
    if kind != Kind::Channels {
        return None;
    }
    Some(match name {
        "number" => |_, channel| channel.map(|channel| channel.number).into(),
        "state" => |_, channel| channel.map(|channel| channel.state).into(),
        "consumer_count" => |_, channel| channel.map(|channel| channel.consumers).into(),
        "messages_unacknowledged" => |_, channel| channel.map(|of| of.unacknowledged).into(),
        "messages_unconfirmed" => |_, channel| channel.map(|of| of.unconfirmed).into(),
        "messages_uncommitted" => |_, channel| channel.map(|of| of.uncommitted).into(),
        "prefetch_count" => |_, channel| channel.map(|channel| channel.prefetch).into(),
        _ => return None,
    })
}

fn field_of_connection(kind: Kind, name: &str) -> Option<Field> {
    Some(match (kind, name) {
        (_, "user") => |connection, _| (&*connection.user).into(),
        (_, "vhost") => |connection, _| (&*connection.vhost).into(),
        (Kind::Connections, "state") => |connection, _| connection.state.into(),
        (Kind::Connections, "protocol") => |connection, _| connection.protocol.into(),
        (Kind::Connections, "channels") => |connection, _| connection.channels.into(),
        (Kind::Connections, "connected_at") => |connection, _| connection.connected_at_ms.into(),
        (Kind::Connections, "recv_oct") => |connection, _| connection.received_bytes.into(),
        (Kind::Connections, "send_oct") => |connection, _| connection.sent_bytes.into(),
        _ => return None,
    })
}

/// Whether what is of this connection is selected.
fn is_meant(
    kind: Kind,
    of: &ClientSelection,
    visible: Option<&HashSet<String>>,
    c: &ConnectionStats,
) -> bool {
    let is = |wanted: &Option<String>, it: &str| wanted.as_ref().is_none_or(|name| name == it);
    let may_see = match kind {
        Kind::Connections | Kind::Channels => is(&of.seen_by, &c.user),
        Kind::Consumers => visible.is_none_or(|seen| seen.contains(&c.vhost)),
    };
    may_see && is(&of.user, &c.user) && is(&of.vhost, &c.vhost) && is(&of.protocol, c.protocol)
}

/// What this node's clients have of what is selected.
fn find(
    app: &App,
    kind: Kind,
    of: &ClientSelection,
    order: &Order,
) -> Result<Found<ClientKey>, ApiError> {
    let seen_by = of.seen_by.as_deref().filter(|_| kind == Kind::Consumers);
    let visible = seen_by.map(|user| row_lists::vhosts_seen_by(app, user));
    let field = order.field.as_deref().and_then(|name| field(kind, name));
    let mut found = Found::of(of.name.as_ref(), order)?;
    if field.is_some() {
        found = found.with_fields();
    }
    let queue = of.queue.map(QueueId);
    let mut see = |content: ConnectionContent| {
        let c = &content.connection;
        if !is_meant(kind, of, visible.as_ref(), c) {
            return;
        }
        each_in(kind, &content, queue, &mut |name, channel, key| {
            let of_it = || field.map(|field| field(c, channel)).into();
            found.add_with(name, of_it, || key);
        });
    };
    match &of.connection {
        None => app.node().each_connection(&mut see),
        Some(name) => {
            if let Some(mut content) = app.node().connection(name) {
                if kind == Kind::Consumers {
                    content.consumers = app.node().consumers_on(content.connection.id);
                }
                see(content);
            }
        }
    }
    // Consumers have no order of their own.
    found.sort_by(|key| match kind {
        Kind::Connections | Kind::Channels => *key,
        Kind::Consumers => ClientKey::default(),
    });
    Ok(found)
}

type SeeInConnection<'a> = dyn FnMut(Option<&str>, Option<&ChannelStats>, ClientKey) + 'a;

/// The things of one connection, each with its name and the channel that it is.
fn each_in(
    kind: Kind,
    content: &ConnectionContent,
    queue: Option<QueueId>,
    see: &mut SeeInConnection<'_>,
) {
    let c = &content.connection;
    match kind {
        Kind::Connections => see(Some(&c.name), None, ClientKey(c.id.0, 0, 0)),
        Kind::Channels => {
            for channel in &content.channels {
                let name = channel_name(c, channel.number);
                let key = ClientKey(c.id.0, channel.number, 0);
                see(Some(&name), Some(channel), key);
            }
        }
        Kind::Consumers => {
            for consumer in &content.consumers {
                if queue.is_none_or(|queue| queue == consumer.queue) {
                    let key = ClientKey(c.id.0, consumer.channel, consumer.id);
                    see(None, None, key);
                }
            }
        }
    }
}

/// The first of what this node's clients have, for another node's list.
pub(crate) fn own_part(
    app: &Arc<App>,
    kind: Kind,
    of: &ClientSelection,
    order: &Order,
) -> Option<Part<ClientKey>> {
    let mut source = Clients::new(app, kind, Ranges::default());
    // A filter without sense lets nothing through; who asks has looked before.
    let found = find(app, kind, of, order).ok()?;
    let of_node = |key| Key::here(key);
    Some(
        found
            .map(of_node)
            .part(&mut source, order)
            .map(|key| key.of),
    )
}

/// The rows of these, in their order, for another node's list: as JSON, `null` for what is gone.
pub(crate) fn own_rows(
    app: &Arc<App>,
    kind: Kind,
    keys: Vec<ClientKey>,
    ranges: Ranges,
) -> Vec<u8> {
    let mut source = Clients::new(app, kind, ranges);
    let keys: Vec<Key> = keys.into_iter().map(Key::here).collect();
    let mut out = b"[".to_vec();
    let mut rest: &[Key] = &keys;
    while !rest.is_empty() {
        let (batch, others) = rest.split_at(source.batch(rest));
        for row in source.rows(batch) {
            if out.len() > 1 {
                out.push(b',');
            }
            let row = row.map_or(Value::Null, Row::whole);
            write_json(&mut out, &peers::without_zeros(row));
        }
        rest = others;
    }
    out.push(b']');
    out
}

/// What may be seen of what is selected, on all nodes, all in one turn.
fn all_parts(
    source: &mut Clients,
    of: ClientSelection,
    order: Order,
) -> Result<Part<Key>, ApiError> {
    let found = find(&source.app, source.kind, &of, &order)?.map(Key::here);
    let own = found.part(source, &order);
    Ok(with_others(own, source, of, &order))
}

/// What this node has, and what the others have.
fn with_others(
    own: Part<Key>,
    source: &mut Clients,
    of: ClientSelection,
    order: &Order,
) -> Part<Key> {
    let (kind, node) = (source.kind, source.app.node());
    let is_here = |name: &String| node.connection(name).is_some();
    let others = match of.connection.as_ref().is_some_and(is_here) {
        true => Vec::new(),
        false => {
            let order = order.clone();
            source.peers.parts(&Question::Clients { kind, of, order })
        }
    };
    let parts = std::iter::once(own).chain(keys_elsewhere(others));
    Part::joined(parts, order)
}

/// The rows of all that is selected, this node's first, then node by node: they are made while they
/// are read.
pub(crate) fn everywhere(
    app: &Arc<App>,
    kind: Kind,
    of: ClientSelection,
    ranges: &Ranges,
) -> impl Iterator<Item = Value> + use<> {
    let mut source = Clients::new(app, kind, *ranges);
    // No name is filtered, so that nothing is refused.
    let part = all_parts(&mut source, of, Order::usual()).ok();
    rows_of(source, part.map(|part| part.first).unwrap_or_default())
}

/// The same of what is selected on other nodes.
pub(crate) fn elsewhere(
    app: &Arc<App>,
    kind: Kind,
    of: ClientSelection,
) -> impl Iterator<Item = Value> + use<> {
    let mut source = Clients::new(app, kind, Ranges::default());
    let order = Order::usual();
    let parts = source.peers.parts(&Question::Clients { kind, of, order });
    let keys = keys_elsewhere(parts).flat_map(|part| part.first).collect();
    rows_of(source, keys)
}

fn rows_of(mut source: Clients, keys: Keyed<Key>) -> impl Iterator<Item = Value> {
    let keys: Vec<Key> = keys.into_iter().map(|(_, key)| key).collect();
    let some: Vec<Vec<Key>> = keys.chunks(row_lists::BATCH).map(<[Key]>::to_vec).collect();
    some.into_iter().flat_map(move |keys| {
        source.prepare(&keys, &[]);
        let rows = source.rows(&keys);
        let rows = rows.into_iter().flatten().map(Row::whole);
        rows.collect::<Vec<Value>>()
    })
}

/// How many there are of what may be seen.
pub(crate) fn count(call: &Call<'_>, kind: Kind) -> usize {
    let mut source = Clients::new(call.app, kind, Ranges::default());
    let of = ClientSelection {
        seen_by: row_lists::seen_by(call, None),
        ..ClientSelection::default()
    };
    let order = Order {
        first: 0,
        ..Order::usual()
    };
    all_parts(&mut source, of, order).map_or(0, |part| part.total)
}

/// What may be seen and is selected, as the query asks for it.
///
/// # Errors
/// If the query makes no sense.
pub(crate) fn list(call: &Call<'_>, kind: Kind, of: ClientSelection) -> Result<Reply, ApiError> {
    let query = &call.query;
    let page = Page::of(query)?;
    let source = Clients::new(call.app, kind, Ranges::of(query)?);
    let of = ClientSelection {
        seen_by: row_lists::seen_by(call, None),
        name: NameFilter::of(query),
        ..of
    };
    let (order, wanted) = (Order::of(query, page), query.clone());
    let found = find(call.app, kind, &of, &order)?.map(Key::here);
    in_order(found, source, &order.clone(), move |own, mut source| {
        let all = with_others(own, &mut source, of, &order);
        row_lists::reply(all, source, page, &wanted)
    })
}

/// What rows are made from.
struct Clients {
    app: Arc<App>,
    node: String,
    kind: Kind,
    ranges: Ranges,
    peers: Peers,
    /// What other nodes tell of theirs, as it came: a row's text takes a part of its value.
    told: HashMap<Key, Box<RawValue>>,
    /// What a row of theirs has, whatever they say.
    shape: Value,
}

/// The most rows of one connection that are made at once: its thread is asked for each batch, and
/// copies all of its channels where it is channels that are listed.
const OF_ONE_MAX: usize = 2_048;
/// Queues of consumers that are looked up at once: each comes with its arguments.
const QUEUES_AT_ONCE: usize = 8;
/// Things of which other nodes are asked while a list is read before its next rows are made: what
/// they tell is held.
const AHEAD: usize = 1_024;
/// The same where figures over time are told, of which there may be hundreds for each.
const AHEAD_OVER_TIME: usize = 64;

impl Source for Clients {
    type Key = Key;
    type Row = Box<RawValue>;

    fn prepare(&mut self, keys: &[Key], _next: &[Key]) {
        self.told = HashMap::new();
        let mut by_node: BTreeMap<NodeId, Vec<ClientKey>> = BTreeMap::new();
        for key in keys {
            if let Some(node) = key.node {
                by_node.entry(node).or_default().push(key.of);
            }
        }
        if !by_node.is_empty() && self.shape.is_null() {
            self.shape = Shape::of(self.kind, &self.app);
        }
        for (node, keys) in by_node {
            for keys in keys.chunks(Question::CLIENTS_MAX) {
                self.ask(node, keys);
            }
        }
    }

    fn ahead(&self) -> usize {
        match self.ranges.is_none() {
            true => AHEAD,
            false => AHEAD_OVER_TIME,
        }
    }

    fn rows(&mut self, keys: &[Key]) -> Vec<Option<Self::Row>> {
        self.made_of_rows(keys, Row::of, |text| text)
    }

    fn fields(&mut self, keys: &[Key], field: &str) -> Vec<Value> {
        let fields = self.made_of_rows(
            keys,
            |row| row_lists::field_of(Some(row), field),
            |text| row_lists::field_of(Some(text), field),
        );
        fields.into_iter().map(Option::unwrap_or_default).collect()
    }

    fn batch(&self, keys: &[Key]) -> usize {
        let usual = keys.len().min(row_lists::BATCH);
        // What is of the last one's connection goes with it.
        let last = keys[usual - 1].connection();
        let more = keys[usual..].iter().take(OF_ONE_MAX);
        usual
            + more
                .take_while(|key| last.is_some() && key.connection() == last)
                .count()
    }

    fn held_bytes(&self) -> usize {
        let row = |text: &RawValue| text.get().len() + size_of::<(Key, Box<RawValue>)>();
        self.told.values().map(|text| row(text)).sum()
    }
}

impl Clients {
    fn new(app: &Arc<App>, kind: Kind, ranges: Ranges) -> Self {
        Self {
            app: Arc::clone(app),
            node: app.node().name(),
            kind,
            ranges,
            peers: Peers::of(app),
            told: HashMap::new(),
            shape: Value::Null,
        }
    }

    /// Asks a node for some of its clients' rows.
    fn ask(&mut self, node: NodeId, keys: &[ClientKey]) {
        let question = Question::ClientsOf {
            kind: self.kind,
            keys: keys.to_vec(),
            ranges: self.ranges,
        };
        let answer = self.peers.ask_one(node, &question).unwrap_or_default();
        let rows: Vec<Option<Box<RawValue>>> = serde_json::from_slice(&answer).unwrap_or_default();
        for (of, row) in keys.iter().zip(rows) {
            let (node, of) = (Some(node), *of);
            self.told.extend(row.map(|row| (Key { node, of }, row)));
        }
    }

    /// What `make` makes of the row of each, or `take` of its text where that is made without a
    /// value: at once, for many rows may be wanted of a connection, and the value of one takes
    /// several times its text.
    fn made_of_rows<T>(
        &self,
        keys: &[Key],
        make: impl Fn(Value) -> T,
        take: impl Fn(Box<RawValue>) -> T,
    ) -> Vec<Option<T>> {
        let own = keys.iter().filter(|key| key.node.is_none());
        let wanted: HashSet<ClientKey> = own.map(|key| key.of).collect();
        let mut rows: HashMap<ClientKey, T> = HashMap::new();
        for content in self.contents_with(&wanted) {
            match self.kind {
                Kind::Consumers => self.consumers_in(&content, &mut |key, text| {
                    rows.insert(key, take(text));
                }),
                Kind::Connections | Kind::Channels => {
                    self.rows_in(&content, &wanted, &mut |key, row| {
                        rows.insert(key, make(row));
                    });
                }
            }
        }
        let row = |key: &Key| match key.node {
            Some(_) => self.told_row(key).map(&make),
            None => rows.remove(&key.of),
        };
        keys.iter().map(row).collect()
    }

    fn told_row(&self, key: &Key) -> Option<Value> {
        let row = serde_json::from_str(self.told.get(key)?.get()).ok()?;
        Some(peers::shaped(&self.shape, row))
    }

    /// The connections that these are of, with what rows of these are made from.
    fn contents_with(&self, wanted: &HashSet<ClientKey>) -> Vec<ConnectionContent> {
        let node = self.app.node();
        if wanted.is_empty() {
            return Vec::new();
        }
        if self.kind == Kind::Consumers {
            let consumers = wanted.iter().map(|key| (ConnectionId(key.0), key.2));
            return node.consumers_by_id(&consumers.collect::<Vec<_>>());
        }
        let mut ids: Vec<ConnectionId> = wanted.iter().map(|key| ConnectionId(key.0)).collect();
        ids.sort_unstable();
        ids.dedup();
        node.connections_of(&ids)
    }

    /// The rows that are wanted of what is in a connection.
    fn rows_in(
        &self,
        content: &ConnectionContent,
        wanted: &HashSet<ClientKey>,
        see: &mut dyn FnMut(ClientKey, Value),
    ) {
        let (app, node, ranges) = (&self.app, &*self.node, &self.ranges);
        let c: &ConnectionStats = &content.connection;
        match self.kind {
            Kind::Connections => {
                let key = ClientKey(c.id.0, 0, 0);
                see(key, connection_json(app, node, c, ranges));
            }
            Kind::Channels => {
                for channel in &content.channels {
                    let key = ClientKey(c.id.0, channel.number, 0);
                    if wanted.contains(&key) {
                        see(key, channel_json(app, node, c, channel, ranges));
                    }
                }
            }
            // Their texts are made without values.
            Kind::Consumers => {}
        }
    }

    /// The texts of the rows of a connection's consumers.
    fn consumers_in(
        &self,
        content: &ConnectionContent,
        see: &mut dyn FnMut(ClientKey, Box<RawValue>),
    ) {
        let c = &content.connection;
        // They stand channel by channel.
        let mut channel: Option<(u16, Value)> = None;
        // A connection's consumers are often those of a few queues.
        let mut queues: HashMap<QueueId, Queue> = HashMap::new();
        for consumers in content.consumers.chunks(QUEUES_AT_ONCE) {
            let ids = consumers.iter().map(|consumer| consumer.queue);
            let mut missing: Vec<QueueId> = ids.filter(|id| !queues.contains_key(id)).collect();
            missing.sort_unstable();
            missing.dedup();
            if queues.len() + missing.len() > QUEUES_AT_ONCE {
                queues.retain(|id, _| consumers.iter().any(|consumer| consumer.queue == *id));
            }
            if !missing.is_empty() {
                let found = self.app.node().queues_by_id(&missing).into_iter();
                queues.extend(found.map(|queue| (queue.id, queue)));
            }
            for consumer in consumers {
                let Some(queue) = queues.get(&consumer.queue) else {
                    continue;
                };
                let number = consumer.channel;
                let known = channel.take().filter(|(known, _)| *known == number);
                let details = || channel_details(&self.node, c, number);
                let (_, details) = channel.insert(known.unwrap_or_else(|| (number, details())));
                let row = ConsumerRow::of(&self.app, queue, details, consumer);
                see(ClientKey(c.id.0, number, consumer.id), row.text());
            }
        }
    }
}
