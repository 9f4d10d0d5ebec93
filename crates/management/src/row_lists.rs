//! Lists of what may be many. Of all that is listed only keys are held, which are small; rows are
//! made a few at a time, of a page alone where one is asked for, else while the list is read.

use crate::app::App;
use crate::cluster_lists::{Order, Part};
use crate::http::chunked_body::{ListFrame, Pieces, write_json};
use crate::http::input::Query;
use crate::http::reply::{ApiError, Reply};
use crate::http::router::Call;
use crate::list_query::{self, Filter, NameFilter, Page};
use crate::ordering::{Begun, Unordered, in_order};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::sync::Arc;

/// Rows that are made at once. For each such batch the threads of the connections may be asked for
/// all of theirs, to name owners and consumers, so that it is not small.
pub(crate) const BATCH: usize = 128;

/// The user whose virtual hosts alone are seen into; none where all are, or one is meant, which may
/// be seen by whoever got so far.
pub(crate) fn seen_by(call: &Call<'_>, meant: Option<&str>) -> Option<String> {
    let sees_all = meant.is_some() || call.who.is_monitor();
    (!sees_all).then(|| call.who.name().to_owned())
}

/// The virtual hosts that a user may see into.
pub(crate) fn vhosts_seen_by(app: &App, user: &str) -> HashSet<String> {
    let names = app.node().vhosts().into_iter().map(|vhost| vhost.name);
    let is_seen = |name: &String| app.node().permission(user, name).is_some();
    names.filter(is_seen).collect()
}

/// The virtual hosts whose contents may be seen; none where that is all, or one is meant, which may
/// be seen by whoever got so far.
pub(crate) fn visible_vhosts(call: &Call<'_>, meant: Option<&str>) -> Option<HashSet<String>> {
    let user = seen_by(call, meant)?;
    Some(vhosts_seen_by(call.app, &user))
}

/// This name, shared with the thing before it if that is of the same.
pub(crate) fn shared(last: &mut Arc<str>, name: &str) -> Arc<str> {
    if **last != *name {
        *last = name.into();
    }
    Arc::clone(last)
}

/// A row of a list.
pub(crate) trait Row: Send + 'static {
    /// The row that is this object.
    fn of(fields: Value) -> Self;
    /// All of its fields.
    fn whole(self) -> Value;
    /// The one at a dotted path.
    fn field(self, path: &str) -> Value
    where
        Self: Sized,
    {
        list_query::at(&self.whole(), path).clone()
    }
    /// Appends the text of all of its fields.
    fn write(&self, out: &mut Vec<u8>);
}

impl Row for Value {
    fn of(fields: Value) -> Self {
        fields
    }

    fn whole(self) -> Value {
        self
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_json(out, self);
    }
}

/// A row as its text, which takes a part of what its value does.
impl Row for Box<RawValue> {
    fn of(fields: Value) -> Self {
        serde_json::value::to_raw_value(&fields)
            .unwrap_or_else(|error| unreachable!("a value without a form in JSON: {error}"))
    }

    fn whole(self) -> Value {
        serde_json::from_str(self.get()).unwrap_or_default()
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.get().as_bytes());
    }
}

/// What stands in this field of a row, as far as an order looks at it; nothing where there is no
/// row. All objects are as good as each other, and so are all lists: what is in them is not kept.
pub(crate) fn field_of(row: Option<impl Row>, field: &str) -> Value {
    match row.map_or(Value::Null, |row| row.field(field)) {
        Value::Object(_) => Value::Object(Map::new()),
        Value::Array(_) => Value::Array(Vec::new()),
        other => other,
    }
}

/// Keys, each with what stands in the field that the list is sorted by.
pub(crate) type Keyed<K> = Vec<(Value, K)>;

/// What rows are made from.
pub(crate) trait Source: Send + 'static {
    /// Names one of the things that are listed.
    type Key: Send + 'static;
    /// What a row is.
    type Row: Row;

    /// Told before rows are made of these: other nodes may have to be asked for what they know of
    /// them. What they told of others need not be held any longer. `next` are those that are
    /// prepared next: other nodes may be asked for them already.
    fn prepare(&mut self, _keys: &[Self::Key], _next: &[Self::Key]) {}

    /// How many of the next keys are prepared at once.
    fn ahead(&self) -> usize {
        usize::MAX
    }

    /// One for each key, in their order; none where the thing is gone.
    fn rows(&mut self, keys: &[Self::Key]) -> Vec<Option<Self::Row>>;

    /// What these things are sorted by: the field of that name, nothing of a thing that is gone.
    fn fields(&mut self, keys: &[Self::Key], field: &str) -> Vec<Value> {
        let rows = self.rows(keys).into_iter();
        rows.map(|row| field_of(row, field)).collect()
    }

    /// Looks at some of these things, which are to be put in order: a bounded number, for one turn
    /// of a worker. True when all have been looked at that may be among the first ones.
    fn look_on(&mut self, unordered: &mut Unordered<Self::Key>) -> bool {
        unordered.look_at_batch(self)
    }

    /// How many of the first of these keys, of which there is one at least, are to be in one batch:
    /// fewer than usual where rows may be large, for all rows of a batch are there at once.
    fn batch(&self, keys: &[Self::Key]) -> usize {
        keys.len().min(BATCH)
    }

    /// A row with as much as the query wants.
    fn pick(&self, row: Self::Row, query: &Query) -> Self::Row {
        match query.get("columns") {
            None => row,
            Some(_) => Self::Row::of(list_query::one(row.whole(), query)),
        }
    }

    /// Bytes that are held while the list is read, beside the keys' own size.
    fn held_bytes(&self) -> usize {
        0
    }
}

/// The keys of what is listed, in their usual order.
pub(crate) struct Found<K> {
    /// Each with what stands in the field that the list is to be sorted by, where that is known
    /// without a row.
    keys: Keyed<K>,
    total: usize,
    filter: Option<Filter>,
    by_name: bool,
    has_fields: bool,
}

impl<K> Found<K> {
    /// Nothing yet.
    ///
    /// # Errors
    /// If the query's filter makes no sense.
    pub(crate) fn new(query: &Query) -> Result<Self, ApiError> {
        Self::of(NameFilter::of(query).as_ref(), &Order::of(query, None))
    }

    /// The same with a filter and an order.
    ///
    /// # Errors
    /// If the filter makes no sense.
    pub(crate) fn of(filter: Option<&NameFilter>, order: &Order) -> Result<Self, ApiError> {
        Ok(Self {
            keys: Vec::new(),
            total: 0,
            filter: filter.map(NameFilter::filter).transpose()?,
            by_name: order.is_by_name(),
            has_fields: order.is_by_name(),
        })
    }

    /// The same for things that come with what they are sorted by.
    pub(crate) fn with_fields(mut self) -> Self {
        self.has_fields = true;
        self
    }

    /// Adds the key of a thing, or counts the thing only, where the query filters it out by its
    /// name: what has no name passes no filter.
    pub(crate) fn add(&mut self, name: Option<&str>, key: impl FnOnce() -> K) {
        self.add_with(name, || Value::Null, key);
    }

    /// The same of a thing with what it is sorted by, unless that is its name.
    pub(crate) fn add_with(
        &mut self,
        name: Option<&str>,
        field: impl FnOnce() -> Value,
        key: impl FnOnce() -> K,
    ) {
        self.total += 1;
        let takes = |filter: &Filter| name.is_some_and(|name| filter.takes(name));
        if self.filter.as_ref().is_none_or(takes) {
            let field = match self.by_name {
                true => name.into(),
                false => field(),
            };
            self.keys.push((field, key()));
        }
    }

    /// Brings the keys into their usual order.
    pub(crate) fn sort_by<O: Ord>(&mut self, order: impl Fn(&K) -> O) {
        self.keys.sort_by_key(|(_, key)| order(key));
    }

    /// Leaves only some of those that the filter let through; the others are not even counted.
    pub(crate) fn retain(&mut self, keep: impl Fn(&K) -> bool) {
        self.keys.retain(|(_, key)| keep(key));
        self.total = self.keys.len();
    }

    /// The keys of those that the filter let through.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.keys.iter().map(|(_, key)| key)
    }

    /// The same with other keys.
    pub(crate) fn map<T>(self, mut key: impl FnMut(K) -> T) -> Found<T> {
        let keys = self.keys.into_iter();
        Found {
            keys: keys.map(|(field, of)| (field, key(of))).collect(),
            total: self.total,
            filter: self.filter,
            by_name: self.by_name,
            has_fields: self.has_fields,
        }
    }

    /// What is wanted of them, in order, where they need not be looked at for that.
    pub(crate) fn begin(self, order: &Order) -> Begun<K> {
        let (total, filtered) = (self.total, self.keys.len());
        if order.field.is_some() && !self.has_fields {
            let keys = self.keys.into_iter().map(|(_, key)| key).collect();
            return Begun::Unordered(Unordered::new(keys, total, order));
        }
        Begun::Ordered(Part {
            total,
            filtered,
            first: order.first_of(self.keys),
        })
    }

    /// What is wanted of them, in order, all in one turn.
    pub(crate) fn part<S: Source<Key = K>>(self, source: &mut S, order: &Order) -> Part<K> {
        match self.begin(order) {
            Begun::Ordered(part) => part,
            Begun::Unordered(mut unordered) => {
                while !source.look_on(&mut unordered) {}
                unordered.part()
            }
        }
    }
}

/// The list as the query asks for it: the whole of it, or one page.
///
/// # Errors
/// If the query makes no sense, or asks for a page that is not there.
pub(crate) fn list<S: Source>(
    found: Found<S::Key>,
    source: S,
    query: &Query,
) -> Result<Reply, ApiError> {
    let page = Page::of(query)?;
    let wanted = query.clone();
    in_order(
        found,
        source,
        &Order::of(query, page),
        move |part, source| reply(part, source, page, &wanted),
    )
}

/// The list whose first things these are.
///
/// # Errors
/// If there is no such page.
pub(crate) fn reply<S: Source>(
    part: Part<S::Key>,
    source: S,
    page: Option<Page>,
    query: &Query,
) -> Result<Reply, ApiError> {
    let mut keys: Vec<S::Key> = part.first.into_iter().map(|(_, key)| key).collect();
    let frame = match page {
        None => ListFrame::list(),
        Some(page) => {
            keys = page.cut(keys, part.filtered)?;
            page.frame(part.filtered, part.total)?
        }
    };
    // They are in the room that they had with their fields, several times theirs.
    keys.shrink_to_fit();
    Ok(framed(frame, keys, source, query))
}

/// The rows of these, as far as they are there, with as much as the query wants.
fn rows_of<S: Source>(source: &mut S, mut keys: &[S::Key], query: &Query) -> Vec<S::Row> {
    let mut all = Vec::new();
    while !keys.is_empty() {
        let (batch, rest) = keys.split_at(source.batch(keys));
        let rows = source.rows(batch).into_iter().flatten();
        all.extend(rows.map(|row| source.pick(row, query)));
        keys = rest;
    }
    all
}

/// All rows within what stands around them, made while they are read.
fn framed<S: Source>(frame: ListFrame, keys: Vec<S::Key>, mut source: S, query: &Query) -> Reply {
    let ahead = move |from: usize, keys: &[S::Key], source: &mut S| {
        let behind = |at: usize| at.saturating_add(source.ahead()).min(keys.len());
        let to = behind(from);
        let next = to..behind(to);
        source.prepare(&keys[from..to], &keys[next]);
        to
    };
    let (mut left, mut prepared) = (0, ahead(0, &keys, &mut source));
    let held_bytes = keys.capacity() * size_of::<S::Key>() + source.held_bytes();
    let query = query.clone();
    let batch = move || {
        while left < keys.len() {
            if left == prepared {
                prepared = ahead(left, &keys, &mut source);
            }
            let rest = &keys[left..prepared];
            let count = source.batch(rest);
            left += count;
            let rows = rows_of(&mut source, &rest[..count], &query);
            // An empty batch would be the end; its things may be gone, and others follow.
            if !rows.is_empty() {
                return rows;
            }
        }
        Vec::new()
    };
    let pieces = Pieces::of_framed_rows(frame, batch, Row::write, held_bytes);
    Reply::Pieces("application/json", pieces)
}
