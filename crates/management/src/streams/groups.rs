//! Groups of consumers of streams, seen from outside: those that store an offset under one name in
//! a stream, or in the partitions of a super stream, and those that are connected under it.

use crate::api::{StreamGroups, StreamStart};
use crate::app::App;
use crate::directory::Queue;
use crate::http::reply::{ApiError, Reply};
use crate::http::router::Call;
use crate::list_query;
use crate::peers;
use crate::question::Question;
use crate::streams::{all_consumers, is_super_stream, partitions};
use crate::timestamps::{MOMENTS, moment_ms};
use leveret_types::QueueId;
use leveret_types::limits::STREAM_REFERENCE_BYTES_MAX;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};

type Answer = Result<Reply, ApiError>;

/// What this node tells of the groups whose offsets it keeps. In lists: fields that are 0 are left
/// out on the way between nodes.
pub fn own(app: &App, only: Option<QueueId>) -> Value {
    let row = |kept: StreamGroups| {
        let groups = kept.groups.into_iter();
        let groups = groups.map(|group| json!([group.name, group.offset, group.per_second]));
        let standing = json!([kept.first_offset, kept.committed_offset, kept.last_record]);
        json!({"id": kept.stream.0, "standing": standing, "groups": groups.collect::<Value>()})
    };
    let kept = app.node().stream_groups(only).into_iter();
    kept.map(row).collect()
}

/// What a node answers that was told to set an offset.
pub fn told(set: Option<Result<u64, String>>) -> Value {
    match set {
        None => Value::Null,
        Some(Ok(offset)) => json!([offset]),
        Some(Err(why)) => json!(why),
    }
}

/// What is kept of one stream.
#[derive(Debug, Default)]
struct Kept {
    first: Option<u64>,
    committed: Option<u64>,
    last_record: Option<u64>,
    /// By name: offset, and offsets per second.
    groups: BTreeMap<String, (u64, f64)>,
}

impl Kept {
    /// A row as [`own`] has made it.
    fn of(row: &Value) -> Option<(QueueId, Self)> {
        let group = |group: &Value| {
            let (offset, rate) = (group[1].as_u64()?, group[2].as_f64().unwrap_or(0.0));
            Some((group[0].as_str()?.to_owned(), (offset, rate)))
        };
        let groups = row["groups"].as_array().into_iter().flatten();
        let kept = Self {
            first: row["standing"][0].as_u64(),
            committed: row["standing"][1].as_u64(),
            last_record: row["standing"][2].as_u64(),
            groups: groups.filter_map(group).collect(),
        };
        Some((QueueId(row["id"].as_u64()?), kept))
    }
}

/// What all nodes tell.
fn kept(app: &App, only: Option<QueueId>) -> HashMap<QueueId, Kept> {
    let own = own(app, only);
    let own = own.as_array().cloned().unwrap_or_default();
    let is_told = only.is_some() && !own.is_empty();
    let only = only.map(|stream| stream.0);
    let others = match is_told {
        // One node keeps the offsets of a stream.
        true => Vec::new(),
        false => peers::rows(app, &Question::StreamGroups { only }),
    };
    own.iter().chain(&others).filter_map(Kept::of).collect()
}

/// A stream, or a super stream with its partitions: what groups are of.
struct Source {
    vhost: String,
    name: String,
    is_super: bool,
    partitions: Vec<(QueueId, String)>,
}

/// All streams of these virtual hosts that the user sees; those that are partitions stand under
/// their super stream.
fn sources(call: &Call<'_>, vhost: Option<&str>) -> Vec<Source> {
    let app = call.app;
    let mut seen = HashMap::new();
    let mut sees = |vhost: &str| {
        *seen
            .entry(vhost.to_owned())
            .or_insert_with(|| app.sees(call.who, vhost))
    };
    let queues = app.node().declared_queues(vhost).into_iter();
    let streams = queues.filter(|queue| queue.kind == "stream" && sees(&queue.vhost));
    let key = |queue: &Queue| (queue.vhost.clone(), queue.name.clone());
    let mut streams: BTreeMap<_, _> = streams.map(|queue| (key(&queue), queue.id)).collect();
    let mut sources = Vec::new();
    for exchange in app
        .node()
        .exchanges(vhost)
        .iter()
        .filter(|e| is_super_stream(e))
    {
        let names = partitions(app, &exchange.vhost, &exchange.name).into_iter();
        let found = names.filter_map(|(name, _)| {
            let id = streams.remove(&(exchange.vhost.clone(), name.clone()))?;
            Some((id, name))
        });
        let partitions: Vec<_> = found.collect();
        if !partitions.is_empty() {
            sources.push(Source {
                vhost: exchange.vhost.clone(),
                name: exchange.name.clone(),
                is_super: true,
                partitions,
            });
        }
    }
    sources.extend(streams.into_iter().map(|((vhost, name), id)| Source {
        vhost,
        name: name.clone(),
        is_super: false,
        partitions: vec![(id, name)],
    }));
    sources
}

/// The stream or super stream that the path names. A stream's own name goes before.
fn source(call: &Call<'_>) -> Result<Source, ApiError> {
    let (vhost, name) = (call.param(0), call.param(1));
    let named = |is_super, partitions| Source {
        vhost: vhost.to_owned(),
        name: name.to_owned(),
        is_super,
        partitions,
    };
    let node = call.app.node();
    let stream = |name: &str| {
        let queue = node.declared_queue(vhost, name);
        let queue = queue.filter(|queue| queue.kind == "stream")?;
        Some((queue.id, queue.name))
    };
    if let Some(stream) = stream(name) {
        return Ok(named(false, vec![stream]));
    }
    let exchange = node.exchange(vhost, name).filter(is_super_stream);
    let exchange = exchange.ok_or(ApiError::NotFound)?;
    let partitions = partitions(call.app, vhost, &exchange.name).into_iter();
    Ok(named(
        true,
        partitions.filter_map(|(name, _)| stream(&name)).collect(),
    ))
}

/// The consumers that are connected under names, by virtual host and stream, and then by name.
type Members = HashMap<(String, String), BTreeMap<String, Vec<Value>>>;

fn members(app: &App) -> Members {
    let mut members = Members::new();
    for row in all_consumers(app) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let name = text(&row["properties"]["name"]);
        if !name.is_empty() {
            let key = (text(&row["queue"]["vhost"]), text(&row["queue"]["name"]));
            let of_stream = members.entry(key).or_default();
            of_stream.entry(name).or_default().push(row);
        }
    }
    members
}

/// A partition with what is known of it.
struct Partition<'a> {
    stream: &'a str,
    kept: Option<&'a Kept>,
    members: Option<&'a BTreeMap<String, Vec<Value>>>,
}

impl<'a> Partition<'a> {
    /// The partitions of a source, each looked up once.
    fn all(
        source: &'a Source,
        kept: &'a HashMap<QueueId, Kept>,
        members: &'a Members,
    ) -> Vec<Self> {
        let of = |(id, stream): &'a (QueueId, String)| Self {
            stream,
            kept: kept.get(id),
            members: members.get(&(source.vhost.clone(), stream.clone())),
        };
        source.partitions.iter().map(of).collect()
    }

    /// The names of its groups.
    fn names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let stored = self.kept.into_iter().flat_map(|kept| kept.groups.keys());
        let connected = self.members.into_iter().flat_map(BTreeMap::keys);
        stored.chain(connected).map(String::as_str)
    }
}

/// The groups of a stream or super stream, by name.
fn groups_in(source: &Source, kept: &HashMap<QueueId, Kept>, members: &Members) -> Vec<Value> {
    let partitions = Partition::all(source, kept, members);
    let names: BTreeSet<&str> = partitions.iter().flat_map(Partition::names).collect();
    let group = |name| group_json(source, name, &partitions);
    names.into_iter().map(group).collect()
}

fn group_json(source: &Source, name: &str, partitions: &[Partition<'_>]) -> Value {
    let (mut lag, mut rate) = (0, 0.0);
    let (mut rows, mut connected) = (Vec::new(), Vec::new());
    for partition in partitions {
        let kept = partition.kept;
        let committed = kept.and_then(|kept| kept.committed);
        let stored = kept.and_then(|kept| kept.groups.get(name));
        let last = kept.and_then(|kept| kept.last_record);
        let behind = stored.map(|(offset, _)| match last {
            Some(last) => last.saturating_sub(*offset),
            None => 0,
        });
        lag += behind.unwrap_or(0);
        rate += stored.map_or(0.0, |(_, rate)| *rate);
        rows.push(json!({
            "stream": partition.stream,
            "offset": stored.map(|(offset, _)| offset),
            "first_offset": kept.and_then(|kept| kept.first),
            "committed_offset": committed,
            "lag": behind,
            "rate": stored.map_or(0.0, |(_, rate)| *rate),
        }));
        let members = partition.members.and_then(|members| members.get(name));
        connected.extend(members.into_iter().flatten().cloned());
    }
    json!({
        "name": name,
        "vhost": source.vhost,
        "stream": source.name,
        "super_stream": source.is_super,
        "partitions": rows,
        "members": connected,
        "unused": connected.is_empty(),
        "lag": lag,
        "rate": rate,
    })
}

fn list(call: &Call<'_>, vhost: Option<&str>) -> Answer {
    let (kept, members) = (kept(call.app, None), members(call.app));
    let sources = sources(call, vhost);
    let rows = sources
        .iter()
        .flat_map(|source| groups_in(source, &kept, &members));
    let wanted = |row: &Value| !call.query.flag("unused") || row["unused"] == true;
    list_query::list_of(rows.filter(wanted).collect(), &call.query)
}

/// `GET /api/leveret/stream-groups`, with `?unused=true` of those alone that nobody is connected
/// under.
pub fn groups(call: &Call<'_>) -> Answer {
    list(call, None)
}

/// `GET /api/leveret/stream-groups/{vhost}`
pub fn groups_of_vhost(call: &Call<'_>) -> Answer {
    list(call, Some(call.param(0)))
}

/// What is kept of the partitions of a stream or super stream.
fn kept_of(app: &App, source: &Source) -> HashMap<QueueId, Kept> {
    match source.partitions.as_slice() {
        [(only, _)] => kept(app, Some(*only)),
        _ => kept(app, None),
    }
}

/// `GET /api/leveret/stream-groups/{vhost}/{stream}`: those of a stream or super stream.
pub fn groups_of_stream(call: &Call<'_>) -> Answer {
    let source = source(call)?;
    let rows = groups_in(&source, &kept_of(call.app, &source), &members(call.app));
    list_query::list_of(rows, &call.query)
}

/// The group that the path names.
fn found(call: &Call<'_>, source: &Source) -> Result<Value, ApiError> {
    let (kept, members) = (kept_of(call.app, source), members(call.app));
    let partitions = Partition::all(source, &kept, &members);
    let name = call.param(2);
    let mut names = partitions.iter().flat_map(Partition::names);
    match names.any(|known| known == name) {
        true => Ok(group_json(source, name, &partitions)),
        false => Err(ApiError::NotFound),
    }
}

/// `GET /api/leveret/stream-groups/{vhost}/{stream}/{name}`
pub fn group(call: &Call<'_>) -> Answer {
    let group = found(call, &source(call)?)?;
    Ok(Reply::Json(list_query::one(group, &call.query)))
}

/// Where a body says that a group is to go on.
fn stream_start(call: &Call<'_>) -> Result<StreamStart, ApiError> {
    let bad = || {
        ApiError::BadRequest(format!(
            "the body must have \"offset\" (\"first\", \"last\" or a whole number, 0 or more) or \
             \"timestamp\" ({MOMENTS})"
        ))
    };
    let body = call.body()?;
    match (body.get("offset"), body.get("timestamp")) {
        (Some(offset), None) if offset == "first" => Ok(StreamStart::First),
        (Some(offset), None) if offset == "last" => Ok(StreamStart::Last),
        (Some(offset), None) => offset.as_u64().map(StreamStart::Offset).ok_or_else(bad),
        (None, Some(time)) => {
            let date = || moment_ms(time.as_str()?);
            let time = time.as_i64().or_else(date);
            time.map(StreamStart::TimestampMs).ok_or_else(bad)
        }
        _ => Err(bad()),
    }
}

fn unavailable(stream: &str) -> ApiError {
    ApiError::Unavailable(format!(
        "the stream '{stream}' is not available: try again when it has a leader"
    ))
}

/// `PUT /api/leveret/stream-groups/{vhost}/{stream}/{name}`: sets the offset of a group in each
/// partition, or in the one that `partition` in the body names. A name that nobody has stored under
/// and is connected under is refused, unless `create` in the body is true.
pub fn set(call: &Call<'_>) -> Answer {
    let (source, to, name) = (source(call)?, stream_start(call)?, call.param(2));
    if !(1..=STREAM_REFERENCE_BYTES_MAX).contains(&name.len()) {
        let text = format!("a group's name has 1 to {STREAM_REFERENCE_BYTES_MAX} bytes");
        return Err(ApiError::BadRequest(text));
    }
    let body = call.body()?;
    let only = body
        .get("partition")
        .map(|_| body.text("partition"))
        .transpose()?;
    if !body.flag_or("create", false)? {
        refuse_unknown(call.app, &source, name)?;
    }
    let chosen = source.partitions.iter();
    let chosen = chosen.filter(|(_, stream)| only.is_none_or(|only| only == stream));
    let mut rows = Vec::new();
    for (id, stream) in chosen {
        let offset = set_one(call.app, (*id, stream), name, to)?;
        move_consumers(call.app, (&source.vhost, stream), name, offset);
        rows.push(json!({"stream": stream, "offset": offset}));
    }
    match rows.is_empty() {
        true => Err(ApiError::NotFound),
        false => Ok(Reply::Json(json!({"name": name, "partitions": rows}))),
    }
}

/// Refuses a group that is not there: its name may be mistyped.
fn refuse_unknown(app: &App, source: &Source, name: &str) -> Result<(), ApiError> {
    let (kept, members) = (kept_of(app, source), members(app));
    let partitions = Partition::all(source, &kept, &members);
    let mut names = partitions.iter().flat_map(Partition::names);
    // Where nothing is known of the stream, that is what is said.
    match kept.is_empty() || names.any(|known| known == name) {
        true => Ok(()),
        false => Err(ApiError::BadRequest(format!(
            "the stream '{}' has no group '{name}': check the name, or make it with --create \
             (\"create\": true)",
            source.name
        ))),
    }
}

fn set_one(
    app: &App,
    (id, stream): (QueueId, &str),
    name: &str,
    to: StreamStart,
) -> Result<u64, ApiError> {
    let own = told(app.node().set_stream_group(id, name, to));
    let answer = if own.is_null() {
        let name = name.to_owned();
        let question = Question::SetStreamGroup {
            stream: id.0,
            name,
            to,
        };
        let answers = peers::ask(app, &question).into_iter();
        let mut answers = answers.map(|(_, answer)| answer);
        answers
            .find(|answer| !answer.is_null())
            .unwrap_or(Value::Null)
    } else {
        own
    };
    match &answer {
        Value::String(why) => Err(ApiError::BadRequest(format!("stream '{stream}': {why}"))),
        answer => answer[0].as_u64().ok_or_else(|| unavailable(stream)),
    }
}

/// Has the consumers of a group go on behind the offset that was set, on whatever node they are.
fn move_consumers(app: &App, (vhost, stream): (&str, &str), name: &str, offset: u64) {
    if let Some(queue) = app.node().declared_queue(vhost, stream) {
        app.node().move_stream_group(&queue, name, offset);
    }
    let (vhost, stream, name) = (vhost.to_owned(), stream.to_owned(), name.to_owned());
    let question = Question::MoveStreamGroup {
        vhost,
        stream,
        name,
        offset,
    };
    drop(peers::ask(app, &question));
}

/// `DELETE /api/leveret/stream-groups/{vhost}/{stream}/{name}`: forgets the offsets of a group that
/// nobody is connected under.
pub fn delete(call: &Call<'_>) -> Answer {
    let source = source(call)?;
    let group = found(call, &source)?;
    let members = group["members"].as_array().map_or(0, Vec::len);
    if members > 0 {
        return Err(ApiError::Precondition(format!(
            "the group '{}' has {members} consumers, which would store their offset again: close \
             them first",
            call.param(2)
        )));
    }
    for (id, stream) in &source.partitions {
        forget_one(call.app, (*id, stream), call.param(2))?;
    }
    Ok(Reply::Done)
}

fn forget_one(app: &App, (id, stream): (QueueId, &str), name: &str) -> Result<(), ApiError> {
    if app.node().forget_stream_group(id, name).is_some() {
        return Ok(());
    }
    let name = name.to_owned();
    let answers = peers::ask(app, &Question::ForgetStreamGroup { stream: id.0, name });
    let is_done = answers.iter().any(|(_, told)| told.is_boolean());
    is_done.then_some(()).ok_or_else(|| unavailable(stream))
}
