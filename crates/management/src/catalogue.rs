//! What an administrator declares, by HTTP: a module for each kind of thing. Here is what they have
//! in common: how a change is answered, and how lists are.

pub mod definitions;
pub mod limits;
pub mod parameters;
pub mod permissions;
pub mod policies;
pub mod users;
pub mod vhosts;

use crate::directory::{AlterError, Alteration};
use crate::http::reply::{ApiError, Reply};
use crate::http::router::Call;
use crate::list_query;
use crate::row_lists::{self, Found, Source};
use leveret_types::limits::USER_TAGS_MAX;
use serde_json::Value;
use std::marker::PhantomData;

type Answer = Result<Reply, ApiError>;

impl From<AlterError> for ApiError {
    fn from(error: AlterError) -> Self {
        match error {
            AlterError::NotFound(_) => Self::NotFound,
            AlterError::Invalid(text) => Self::BadRequest(text),
            AlterError::Failed(text) => Self::Failed(text),
            AlterError::Unavailable(text) => Self::Unavailable(text),
        }
    }
}

fn alter(call: &Call<'_>, alteration: impl Into<Alteration>) -> Result<(), ApiError> {
    Ok(call.app.node().alter(call.who.name(), alteration.into())?)
}

/// Creates (201) or changes (204).
fn put(call: &Call<'_>, existed: bool, alteration: impl Into<Alteration>) -> Answer {
    // What the change refers to and is not there is the client's mistake, not a missing resource.
    match alter(call, alteration) {
        Err(ApiError::NotFound) => Err(ApiError::BadRequest(
            "the change refers to something that does not exist".to_owned(),
        )),
        Err(other) => Err(other),
        Ok(()) if existed => Ok(Reply::Done),
        Ok(()) => Ok(Reply::Created(None)),
    }
}

fn delete(call: &Call<'_>, alteration: impl Into<Alteration>) -> Answer {
    alter(call, alteration).map(|()| Reply::Done)
}

/// What rows are made from that have as much in them as their author liked: each is made of the
/// catalogue when it is to be written, and none is beside it.
struct OneByOne<K, F> {
    row: F,
    /// Bytes of the names of all that is listed.
    name_bytes: usize,
    of: PhantomData<fn(K)>,
}

impl<K, F> Source for OneByOne<K, F>
where
    K: Send + 'static,
    F: FnMut(&K) -> Option<Value> + Send + 'static,
{
    type Key = K;
    type Row = Value;

    fn rows(&mut self, keys: &[K]) -> Vec<Option<Value>> {
        keys.iter().map(&mut self.row).collect()
    }

    fn batch(&self, _keys: &[K]) -> usize {
        1
    }

    fn held_bytes(&self) -> usize {
        self.name_bytes
    }
}

/// The list of what was found, whose names have so many bytes: `row` finds one thing again.
fn list_one_by_one<K: Send + 'static>(
    call: &Call<'_>,
    found: Found<K>,
    name_bytes: usize,
    row: impl FnMut(&K) -> Option<Value> + Send + 'static,
) -> Answer {
    let source = OneByOne {
        row,
        name_bytes,
        of: PhantomData,
    };
    row_lists::list(found, source, &call.query)
}

fn list(call: &Call<'_>, items: impl IntoIterator<Item = Value>) -> Answer {
    list_query::list_of(items.into_iter().collect(), &call.query)
}

/// The same of rows without a name: a filter looks at this field of theirs.
fn list_by(call: &Call<'_>, rows: impl Iterator<Item = Value>, field: &str) -> Answer {
    list_query::list(rows.collect(), &call.query, |row| row[field].as_str())
}

/// One thing, with as much as the query wants.
fn found<T>(call: &Call<'_>, thing: Option<T>, json: impl FnOnce(&T) -> Value) -> Answer {
    thing
        .map(|thing| Reply::Json(list_query::one(json(&thing), &call.query)))
        .ok_or(ApiError::NotFound)
}

/// Tags: a list of strings, or one string with commas.
fn tags(value: &Value) -> Result<Vec<String>, ApiError> {
    let bad = || ApiError::BadRequest("tags must be strings".to_owned());
    let tags: Vec<String> = match value {
        Value::String(text) => text
            .split(',')
            .map(|tag| tag.trim().to_owned())
            .filter(|tag| !tag.is_empty())
            .collect(),
        Value::Array(items) => items
            .iter()
            .map(|tag| tag.as_str().map(str::to_owned).ok_or_else(bad))
            .collect::<Result<_, _>>()?,
        _ => return Err(bad()),
    };
    if tags.len() > USER_TAGS_MAX {
        return Err(ApiError::BadRequest(format!(
            "at most {USER_TAGS_MAX} tags"
        )));
    }
    Ok(tags)
}

fn limits_json(limits: &[(String, i64)]) -> Value {
    let pair = |(name, value): &(String, i64)| (name.clone(), Value::from(*value));
    Value::Object(limits.iter().map(pair).collect())
}
