//! Lists of what may be many. Of all that is listed only keys are held, which are small; rows are
//! made a few at a time, of a page alone where one is asked for, else while the list is read.

use crate::input::Query;
use crate::list_query::{self, Filter, Page};
use crate::pieces::{Pieces, write_json};
use crate::reply::{ApiError, Reply};
use crate::route::Call;
use serde_json::Value;
use std::collections::HashSet;
use std::sync::Arc;

/// Rows that are made at once. For each such batch the threads of the connections may be asked for
/// all of theirs, to name owners and consumers, so that it is not small.
pub(crate) const BATCH: usize = 128;

/// The virtual hosts whose contents may be seen; none where that is all, or one is meant, which may
/// be seen by whoever got so far.
pub(crate) fn visible_vhosts(call: &Call<'_>, meant: Option<&str>) -> Option<HashSet<String>> {
    if meant.is_some() || call.who.is_monitor() {
        return None;
    }
    let names = call.app.node().vhosts().into_iter().map(|vhost| vhost.name);
    Some(names.filter(|name| call.app.sees(call.who, name)).collect())
}

/// This name, shared with the thing before it if that is of the same.
pub(crate) fn shared(last: &mut Arc<str>, name: &str) -> Arc<str> {
    if **last != *name {
        *last = name.into();
    }
    Arc::clone(last)
}

/// What filters look at. An order by it needs no rows.
const NAME: &str = "name";

/// A row of a list.
pub(crate) trait Row: Send + 'static {
    /// The row that is this object.
    fn of(fields: Value) -> Self;
    /// All of its fields.
    fn whole(self) -> Value;
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

/// What stands in this field of a row; nothing where there is no row.
pub(crate) fn field_of(row: Option<impl Row>, field: &str) -> Value {
    row.map_or(Value::Null, |row| {
        list_query::at(&row.whole(), field).clone()
    })
}

/// Which rows will be wanted of a source.
pub(crate) enum Wanted<'a, K> {
    /// Those of all things that were found.
    All,
    /// Those of these.
    These(&'a [K]),
}

/// What rows are made from.
pub(crate) trait Source: Send + 'static {
    /// Names one of the things that are listed.
    type Key: Send + 'static;
    /// What a row is.
    type Row: Row;

    /// Told once, before the first row is made.
    fn prepare(&mut self, _wanted: Wanted<'_, Self::Key>) {}

    /// One for each key, in their order; none where the thing is gone.
    fn rows(&mut self, keys: &[Self::Key]) -> Vec<Option<Self::Row>>;

    /// What these things are sorted by: the field of that name, nothing of a thing that is gone.
    fn fields(&mut self, keys: &[Self::Key], field: &str) -> Vec<Value> {
        let rows = self.rows(keys).into_iter();
        rows.map(|row| field_of(row, field)).collect()
    }

    /// How many of the first of these keys, of which there is one at least, are to be in one batch.
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
    /// Each with its name where the list is to be sorted by that.
    keys: Vec<(Value, K)>,
    total: usize,
    filter: Option<Filter>,
    by_name: bool,
}

impl<K> Found<K> {
    /// Nothing yet.
    ///
    /// # Errors
    /// If the query's filter makes no sense.
    pub(crate) fn new(query: &Query) -> Result<Self, ApiError> {
        Ok(Self {
            keys: Vec::new(),
            total: 0,
            filter: Filter::of(query)?,
            by_name: query.get("sort") == Some(NAME),
        })
    }

    /// Adds the key of a thing, or counts the thing only, where the query filters it out by its
    /// name: what has no name passes no filter.
    pub(crate) fn add(&mut self, name: Option<&str>, key: impl FnOnce() -> K) {
        self.total += 1;
        let takes = |filter: &Filter| name.is_some_and(|name| filter.takes(name));
        if self.filter.as_ref().is_none_or(takes) {
            let name = name.filter(|_| self.by_name).into();
            self.keys.push((name, key()));
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
}

/// The list as the query asks for it: the whole of it, or one page.
///
/// # Errors
/// If the query makes no sense, or asks for a page that is not there.
pub(crate) fn list<S: Source>(
    found: Found<S::Key>,
    mut source: S,
    query: &Query,
) -> Result<Reply, ApiError> {
    let page = Page::of(query)?;
    let (total, filtered) = (found.total, found.keys.len());
    let sort = query.get("sort");
    let needs_all = page.is_none() || sort.is_some_and(|field| field != NAME);
    if needs_all {
        source.prepare(Wanted::All);
    }
    let mut keys = match sort {
        // Without a sort the names are nothing, and the order stays.
        None | Some(NAME) => list_query::sorted(found.keys),
        Some(field) => {
            let keys = found.keys.into_iter().map(|(_, key)| key).collect();
            sorted(&mut source, keys, field)
        }
    };
    if query.flag("sort_reverse") {
        keys.reverse();
    }
    let Some(page) = page else {
        return Ok(whole(keys, source, query));
    };
    let shown = page.cut(keys)?;
    if !needs_all {
        source.prepare(Wanted::These(&shown));
    }
    let rows = rows_of(&mut source, &shown, query).into_iter();
    page.reply(rows.map(Row::whole).collect(), filtered, total)
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

fn sorted<S: Source>(source: &mut S, keys: Vec<S::Key>, field: &str) -> Vec<S::Key> {
    let mut fields = Vec::with_capacity(keys.len());
    let mut rest: &[S::Key] = &keys;
    while !rest.is_empty() {
        let (batch, others) = rest.split_at(source.batch(rest));
        fields.extend(source.fields(batch, field));
        rest = others;
    }
    list_query::sorted(fields.into_iter().zip(keys).collect())
}

/// All rows, made while they are read.
fn whole<S: Source>(keys: Vec<S::Key>, mut source: S, query: &Query) -> Reply {
    let held_bytes = keys.capacity() * size_of::<S::Key>() + source.held_bytes();
    let query = query.clone();
    let mut left = 0;
    let batch = move || {
        loop {
            let rest = &keys[left..];
            if rest.is_empty() {
                return Vec::new();
            }
            let count = source.batch(rest);
            left += count;
            let rows = rows_of(&mut source, &rest[..count], &query);
            // An empty batch would be the end; its things may be gone, and others follow.
            if !rows.is_empty() {
                return rows;
            }
        }
    };
    let pieces = Pieces::of_rows(batch, Row::write, held_bytes);
    Reply::Pieces("application/json", pieces)
}
