//! The parameters that queries may have: what each is, and which resources read it. Handlers read
//! no other ones (`Query::get` sees to that in tests), and the API's document lists these.

use serde_json::{Value, json};

/// What a parameter's text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Integer,
    Flag,
}

/// A parameter.
struct Parameter {
    name: &'static str,
    kind: Kind,
    what: &'static str,
}

const fn text(name: &'static str, what: &'static str) -> Parameter {
    let kind = Kind::Text;
    Parameter { name, kind, what }
}

const fn integer(name: &'static str, what: &'static str) -> Parameter {
    let kind = Kind::Integer;
    Parameter { name, kind, what }
}

const fn flag(name: &'static str, what: &'static str) -> Parameter {
    let kind = Kind::Flag;
    Parameter { name, kind, what }
}

/// Of each resource that shows rows or an object.
const COLUMNS: &[Parameter] = &[text(
    "columns",
    "fields that are wanted, with commas between; parts of fields by dotted paths",
)];

/// Of lists.
const LIST: &[Parameter] = &[
    integer(
        "page",
        "the page that is wanted, from 1; all rows without it",
    ),
    integer("page_size", "rows of a page"),
    text(
        "name",
        "only rows whose name has this text, whatever the case",
    ),
    flag("use_regex", "whether `name` is a regular expression"),
    text("sort", "the field to sort by, a dotted path"),
    flag("sort_reverse", "whether the order is turned round"),
];

/// Of what shows figures over time. An age and a distance are needed, in seconds.
const OVER_TIME: &[Parameter] = &[
    integer(
        "msg_rates_age",
        "seconds of rates of messages that are wanted",
    ),
    integer("msg_rates_incr", "seconds between two samples of them"),
    integer(
        "lengths_age",
        "seconds of numbers of messages that are wanted",
    ),
    integer("lengths_incr", "seconds between two samples of them"),
    integer(
        "data_rates_age",
        "seconds of bytes received and sent that are wanted",
    ),
    integer("data_rates_incr", "seconds between two samples of them"),
    integer(
        "node_stats_age",
        "seconds of figures of the node that are wanted",
    ),
    integer("node_stats_incr", "seconds between two samples of them"),
];

const DISABLE_STATS: &[Parameter] = &[flag("disable_stats", "whether figures are left out")];

/// Of queues.
const QUEUE_STATS: &[Parameter] = &[
    flag("disable_stats", "whether figures are left out"),
    flag(
        "enable_queue_totals",
        "whether numbers of messages are told though figures are left out",
    ),
];

const QUEUE_TYPE: &[Parameter] = &[text(
    "type",
    "only queues of this type: classic, quorum, stream",
)];

const IF_UNUSED: &[Parameter] = &[flag("if-unused", "whether it stays if it is in use")];
const IF_EMPTY: &[Parameter] = &[flag("if-empty", "whether it stays if messages are in it")];

const TRUNCATE: &[Parameter] = &[integer("truncate", "bytes of a body that are shown")];
const POSITION: &[Parameter] = &[
    integer(
        "position",
        "the first message that is looked at; 1: the next to be handed out",
    ),
    integer("count", "messages that are wanted"),
];

const OF_CONSUMER: &[Parameter] = &[text("consumer", "only those of consumers with this tag")];

const UNACKED: &[Parameter] = &[flag(
    "unacked",
    "whether messages that clients hold are searched, not those that are ready",
)];

const SEARCH: &[Parameter] = &[
    text("key", "a text within the routing key"),
    text(
        "header",
        "a header's name, or name:value; also several times",
    ),
    text("body", "a text within the body"),
    text("json", "a JSON pointer into the body, or pointer:value"),
    integer("older_than", "seconds since the broker took it, at least"),
];

const BROWSE: &[Parameter] = &[
    text("offset", "where to begin: first, last, or an offset"),
    integer("timestamp", "where to begin: milliseconds since 1970"),
    integer("count", "messages that are wanted"),
    text("filter", "filter values, with commas between"),
    flag(
        "match_unfiltered",
        "whether messages without a filter value are wanted too",
    ),
];

const ROUTE: &[Parameter] = &[
    text("routing_key", "the message's routing key"),
    text("headers", "the message's headers, an object of JSON"),
];

const OF_USER: &[Parameter] = &[text("user", "only those of this user")];
const UNUSED: &[Parameter] = &[flag("unused", "only groups without a connected consumer")];
const OPTIONAL: &[Parameter] = &[flag(
    "optional",
    "whether a node alone answers null, not 404",
)];
const LIMIT: &[Parameter] = &[integer("limit", "messages that are wanted")];
const DELAYED: &[Parameter] = &[
    text("vhost", "only those of this virtual host"),
    text("exchange", "only those of exchanges of this name"),
    text(
        "queue",
        "only those of delayed exchanges that this queue is bound to; needs vhost",
    ),
    text("from", "where to go on: what an earlier list told as next"),
];
const IMPORT: &[Parameter] = &[
    flag(
        "skip_unsupported",
        "whether what is not supported is left out; else the import is refused",
    ),
    flag(
        "passed_over",
        "whether the answer (200) lists what was passed over, what was left out (left_out) and \
         what was taken without effect (without_effect), a line each",
    ),
];
const MEMORY: &[Parameter] = &[
    flag("memory", "whether the parts of its memory are told, too"),
    flag("binary", "whether binaries are told, too: there are none"),
];
const WRITER: &[Parameter] = &[text(
    "type",
    "only offsets (offset) or only publishers (writer)",
)];
const PATH: &[Parameter] = &[text(
    "path",
    "a path below /api/ with its query, which is watched; also several times",
)];

/// All of them, for who looks for a name.
static GROUPS: [&[Parameter]; 24] = [
    UNACKED,
    OF_CONSUMER,
    COLUMNS,
    LIST,
    OVER_TIME,
    DISABLE_STATS,
    QUEUE_STATS,
    QUEUE_TYPE,
    IF_UNUSED,
    IF_EMPTY,
    TRUNCATE,
    POSITION,
    SEARCH,
    BROWSE,
    ROUTE,
    OF_USER,
    UNUSED,
    OPTIONAL,
    LIMIT,
    DELAYED,
    IMPORT,
    MEMORY,
    WRITER,
    PATH,
];

/// Fields of the form that logs in, which is written as a query is.
const FORM: [&str; 2] = ["username", "password"];

/// Whether a parameter of this name is known.
pub(crate) fn is_known(name: &str) -> bool {
    let mut all = GROUPS.iter().copied().flatten();
    all.any(|parameter| parameter.name == name) || FORM.contains(&name)
}

/// Lists: all rows, or a page of them.
#[rustfmt::skip]
const LISTS: [&str; 60] = [
    "/api/nodes", "/api/connections", "/api/connections/username/{}", "/api/connections/{}/channels",
    "/api/channels", "/api/consumers", "/api/consumers/{vhost}", "/api/queues",
    "/api/queues/detailed", "/api/queues/{vhost}", "/api/queues/{vhost}/{}/bindings",
    "/api/stream/connections", "/api/stream/connections/{vhost}",
    "/api/stream/connections/{vhost}/{}/consumers", "/api/stream/connections/{vhost}/{}/publishers",
    "/api/stream/consumers", "/api/stream/consumers/{vhost}", "/api/stream/publishers",
    "/api/stream/publishers/{vhost}", "/api/stream/publishers/{vhost}/{}",
    "/api/stream/super-streams", "/api/stream/super-streams/{vhost}", "/api/exchanges",
    "/api/exchanges/{vhost}", "/api/exchanges/{vhost}/{}/bindings/source",
    "/api/exchanges/{vhost}/{}/bindings/destination", "/api/bindings", "/api/bindings/{vhost}",
    "/api/bindings/{vhost}/e/{}/q/{}", "/api/bindings/{vhost}/e/{}/e/{}", "/api/vhosts",
    "/api/vhosts/{vhost}/permissions", "/api/vhosts/{vhost}/topic-permissions",
    "/api/vhosts/{vhost}/connections", "/api/vhosts/{vhost}/channels", "/api/users",
    "/api/users/without-permissions", "/api/users/{}/permissions",
    "/api/users/{}/topic-permissions", "/api/permissions", "/api/topic-permissions",
    "/api/topic-permissions/{vhost}/{}", "/api/vhost-limits", "/api/vhost-limits/{vhost}",
    "/api/user-limits", "/api/user-limits/{}", "/api/policies", "/api/policies/{vhost}",
    "/api/operator-policies", "/api/operator-policies/{vhost}", "/api/parameters",
    "/api/parameters/{}", "/api/parameters/{}/{vhost}", "/api/global-parameters",
    "/api/users/{}/queues", "/api/leveret/changes", "/api/leveret/stream-groups",
    "/api/leveret/stream-groups/{vhost}", "/api/leveret/stream-groups/{vhost}/{}",
    "/api/connections/{}/sessions",
];

/// What shows one object with the columns that are wanted.
#[rustfmt::skip]
const OBJECTS: [&str; 18] = [
    "/api/overview", "/api/nodes/{}", "/api/connections/{}", "/api/channels/{}",
    "/api/queues/{vhost}/{}", "/api/stream/connections/{vhost}/{}", "/api/exchanges/{vhost}/{}",
    "/api/vhosts/{vhost?}", "/api/users/{}", "/api/permissions/{vhost}/{}",
    "/api/topic-permissions/{vhost}/{}/{}", "/api/policies/{vhost}/{}",
    "/api/operator-policies/{vhost}/{}", "/api/parameters/{}/{vhost}/{}",
    "/api/global-parameters/{}", "/api/leveret/stream-groups/{vhost}/{}/{}",
    "/api/bindings/{vhost}/e/{}/q/{}/{}", "/api/bindings/{vhost}/e/{}/e/{}/{}",
];

/// What shows figures over time.
#[rustfmt::skip]
const OVER_TIME_AT: [&str; 26] = [
    "/api/overview", "/api/nodes", "/api/nodes/{}", "/api/connections",
    "/api/connections/username/{}", "/api/connections/{}", "/api/connections/{}/channels",
    "/api/channels", "/api/channels/{}", "/api/consumers", "/api/consumers/{vhost}",
    "/api/queues", "/api/queues/{vhost}/{}", "/api/exchanges", "/api/exchanges/{vhost}/{}",
    "/api/vhosts", "/api/vhosts/{vhost?}", "/api/vhosts/{vhost}/connections",
    "/api/vhosts/{vhost}/channels", "/api/queues/detailed", "/api/queues/{vhost}",
    "/api/exchanges/{vhost}", "/api/users/{}/queues", "/api/stream/connections",
    "/api/stream/connections/{vhost}", "/api/leveret/queues/{vhost}/{}/growth",
];

/// What a method of a resource reads beside what lists and figures have in common.
fn own(method: &str, pattern: &str) -> &'static [&'static [Parameter]] {
    match (method, pattern) {
        ("GET", "/api/queues" | "/api/queues/detailed" | "/api/queues/{vhost}") => {
            &[QUEUE_TYPE, QUEUE_STATS]
        }
        ("GET", "/api/queues/{vhost}/{}") => &[QUEUE_STATS],
        ("DELETE", "/api/queues/{vhost}/{}") => &[IF_UNUSED, IF_EMPTY],
        ("DELETE", "/api/exchanges/{vhost}/{}") => &[IF_UNUSED],
        ("GET", "/api/vhosts" | "/api/vhosts/{vhost?}") => &[DISABLE_STATS],
        ("GET", "/api/nodes/{}") => &[MEMORY],
        ("GET", "/api/stream/{vhost}/{}/tracking") => &[WRITER],
        ("GET", "/api/leveret/live") => &[PATH],
        ("GET", "/api/leveret/changes") => &[OF_USER],
        ("GET", "/api/leveret/cluster") => &[OPTIONAL],
        ("GET", "/api/leveret/delayed") => &[DELAYED, LIMIT, TRUNCATE],
        (
            "POST" | "PUT",
            "/api/definitions" | "/api/definitions/{vhost}" | "/api/all-configuration",
        ) => &[IMPORT],
        ("GET", "/api/leveret/exchanges/{vhost}/{}/route") => &[ROUTE],
        ("GET", "/api/leveret/queues/{vhost}/{}/messages") => &[POSITION, TRUNCATE],
        ("GET", "/api/leveret/queues/{vhost}/{}/unacked") => &[OF_CONSUMER, POSITION, TRUNCATE],
        ("GET", "/api/leveret/queues/{vhost}/{}/search") => {
            &[SEARCH, UNACKED, OF_CONSUMER, POSITION, TRUNCATE]
        }
        ("GET", "/api/leveret/streams/{vhost}/{}/messages") => &[BROWSE],
        (
            "GET",
            "/api/leveret/stream-groups"
            | "/api/leveret/stream-groups/{vhost}"
            | "/api/leveret/stream-groups/{vhost}/{}",
        ) => &[UNUSED],
        _ => &[],
    }
}

/// Whether a resource is a list of rows.
pub(crate) fn is_list(pattern: &str) -> bool {
    LISTS.contains(&pattern)
}

/// What a method of a resource reads of a query, as OpenAPI lists it.
pub(crate) fn described(method: &str, pattern: &str) -> Vec<Value> {
    let mut groups: Vec<&[Parameter]> = own(method, pattern).to_vec();
    if method == "GET" {
        if is_list(pattern) {
            groups.extend([LIST, COLUMNS]);
        } else if OBJECTS.contains(&pattern) {
            groups.push(COLUMNS);
        }
        if OVER_TIME_AT.contains(&pattern) {
            groups.push(OVER_TIME);
        }
    }
    groups.into_iter().flatten().map(one).collect()
}

fn one(parameter: &Parameter) -> Value {
    let kind = match parameter.kind {
        Kind::Text => "string",
        Kind::Integer => "integer",
        Kind::Flag => "boolean",
    };
    json!({
        "name": parameter.name,
        "in": "query",
        "description": parameter.what,
        "schema": {"type": kind},
    })
}
