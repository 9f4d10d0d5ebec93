"""The HTTP API, judged by RabbitMQ: the same objects on both, their keys, types and codes compared.

`rabbitmq-api.json` is what Debian's RabbitMQ answered; on RabbitMQ the tests check that it still does (and write it anew with
`RECORD=1`), on Leveret that nothing of it is missing but for what the tables of differences say.
"""

import base64
import contextlib
import fnmatch
import json
import os
import pathlib
import urllib.error
import urllib.request

import leveret_interop as interop
import pytest

RECORDED = pathlib.Path(__file__).with_name("rabbitmq-api.json")
VHOST = "api-shape"
TOKEN = "Basic " + base64.b64encode(b"guest:guest").decode()

#: Query that asks for figures over time.
RANGES = "msg_rates_age=60&msg_rates_incr=5&lengths_age=60&lengths_incr=5&data_rates_age=60&data_rates_incr=5&node_stats_age=60&node_stats_incr=5"

#: Answers that are compared, with the node's and the connection's name put in: every `GET` that RabbitMQ 3.10 has.
ANSWERS = [
    "overview", f"overview?{RANGES}", "cluster-name", "nodes", "nodes/{node}", f"nodes/{{node}}?{RANGES}", "nodes/{node}?memory=true&binary=true",
    "nodes/{node}/memory", "nodes/{node}/memory/relative", "nodes/{node}/memory/ets", "extensions", "definitions", "all-configuration",
    f"definitions/{VHOST}", "parameters", "parameters/vhost-limits", f"parameters/vhost-limits/{VHOST}", "global-parameters",
    "global-parameters/api-shape", "policies", f"policies/{VHOST}", f"policies/{VHOST}/limits", "operator-policies",
    f"operator-policies/{VHOST}", f"operator-policies/{VHOST}/bound", "vhost-limits", f"vhost-limits/{VHOST}", "connections",
    "connections/{connection}", f"connections/{{connection}}?{RANGES}", "connections/username/guest", "connections/{connection}/channels",
    "channels", "channels/{channel}", f"channels/{{channel}}?{RANGES}", "consumers", f"consumers/{VHOST}", "exchanges", f"exchanges/{VHOST}",
    f"exchanges/{VHOST}/x", f"exchanges/{VHOST}/x?{RANGES}", f"exchanges/{VHOST}/amq.default", f"exchanges/{VHOST}/x/bindings/source",
    f"exchanges/{VHOST}/x/bindings/destination", "queues", f"queues/{VHOST}", f"queues/{VHOST}/classic", f"queues/{VHOST}/classic?{RANGES}",
    f"queues/{VHOST}/quorum", f"queues/{VHOST}/quorum?{RANGES}", f"queues/{VHOST}/stream", f"queues/{VHOST}?page=1&page_size=2&sort=name",
    f"queues/{VHOST}?columns=name,messages,message_stats.publish", f"queues/{VHOST}?disable_stats=true",
    f"queues/{VHOST}?disable_stats=true&enable_queue_totals=true", f"queues/{VHOST}/classic/bindings", "bindings", f"bindings/{VHOST}",
    f"bindings/{VHOST}/e/x/q/classic", f"bindings/{VHOST}/e/x/q/classic/k", f"bindings/{VHOST}/e/x/e/y", f"bindings/{VHOST}/e/x/e/y/k",
    "vhosts", f"vhosts/{VHOST}", f"vhosts/{VHOST}?{RANGES}", f"vhosts/{VHOST}/permissions", f"vhosts/{VHOST}/topic-permissions",
    f"vhosts/{VHOST}/connections", f"vhosts/{VHOST}/channels", "users", "users/guest", "users/guest/permissions",
    "users/guest/topic-permissions", "users/without-permissions", "permissions", f"permissions/{VHOST}/guest", "topic-permissions",
    f"topic-permissions/{VHOST}/guest", "user-limits", "user-limits/guest", "feature-flags", "whoami", "auth", "auth/attempts/{node}",
    "auth/attempts/{node}/source", "health/checks/alarms", "health/checks/local-alarms", "health/checks/virtual-hosts",
    "health/checks/node-is-quorum-critical", "health/checks/node-is-mirror-sync-critical", "health/checks/certificate-expiration/1/days",
    "health/checks/port-listener/{port}", "health/checks/protocol-listener/http", f"aliveness-test/{VHOST}", "healthchecks/node",
    "healthchecks/node/{node}",
]  # fmt: skip

#: Requests whose codes are compared: method, path, body.
REQUESTS = [
    ("GET", "nothing", None),
    ("GET", "queues/none", None),
    ("GET", f"queues/{VHOST}/none", None),
    ("GET", f"exchanges/{VHOST}/none", None),
    ("GET", "vhosts/none", None),
    ("GET", "users/none", None),
    ("GET", "nodes/none", None),
    ("GET", "connections/none", None),
    ("GET", "channels/none", None),
    ("GET", f"policies/{VHOST}/none", None),
    ("GET", f"permissions/{VHOST}/none", None),
    ("GET", f"bindings/{VHOST}/e/x/q/none", None),
    ("GET", f"bindings/{VHOST}/e/x/q/classic/none", None),
    ("GET", "global-parameters/none", None),
    ("GET", f"queues/{VHOST}?page=0", None),
    ("GET", f"queues/{VHOST}?page=99", None),
    ("GET", f"queues/{VHOST}?page=1&page_size=501", None),
    ("PATCH", f"queues/{VHOST}/classic", None),
    ("OPTIONS", "overview", None),
    ("PUT", f"queues/{VHOST}/classic", {"durable": True}),
    ("PUT", f"queues/{VHOST}/classic", {"durable": False}),
    ("PUT", f"queues/{VHOST}/bad", {"arguments": {"x-max-length": "many"}}),
    ("PUT", f"queues/{VHOST}/bad", {"arguments": {"x-queue-type": "none"}}),
    ("PUT", f"queues/{VHOST}/amq.bad", {}),
    ("PUT", f"exchanges/{VHOST}/x", {"type": "fanout"}),
    ("PUT", f"exchanges/{VHOST}/bad", {"type": "none"}),
    ("DELETE", f"exchanges/{VHOST}/amq.direct", None),
    ("POST", f"bindings/{VHOST}/e/x/q/none", {}),
    ("POST", f"bindings/{VHOST}/e/x/q/classic", {"routing_key": "k"}),
    ("DELETE", f"bindings/{VHOST}/e/x/q/classic/none", None),
    ("PUT", "users/new", {"password": "x"}),
    ("PUT", "users/new", {"password": "x", "tags": ""}),
    ("PUT", "users/new", {"password": "y", "tags": ""}),
    ("DELETE", "users/new", None),
    ("DELETE", "users/new", None),
    ("PUT", f"permissions/{VHOST}/none", {"configure": "", "write": "", "read": ""}),
    ("PUT", f"permissions/{VHOST}/guest", {"configure": ""}),
    ("PUT", f"permissions/{VHOST}/guest", {"configure": "(", "write": "", "read": ""}),
    ("PUT", f"policies/{VHOST}/bad", {"pattern": "("}),
    ("PUT", f"policies/{VHOST}/bad", {"pattern": "a", "definition": {"none": 1}}),
    ("PUT", f"policies/{VHOST}/bad", {"pattern": "a", "definition": {}}),
    ("PUT", f"parameters/none/{VHOST}/p", {"value": 1}),
    ("PUT", f"vhost-limits/{VHOST}/none", {"value": 1}),
    ("PUT", f"vhost-limits/{VHOST}/max-queues", {"value": "x"}),
    ("POST", f"exchanges/{VHOST}/none/publish", {"routing_key": "", "payload": "", "payload_encoding": "string", "properties": {}}),
    ("POST", f"exchanges/{VHOST}/x/publish", {"routing_key": "", "payload": "%", "payload_encoding": "base64", "properties": {}}),
    ("POST", f"exchanges/{VHOST}/x/publish", {"routing_key": "k", "payload": "a", "payload_encoding": "string", "properties": {}}),
    ("POST", f"queues/{VHOST}/classic/get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}),
    ("POST", f"queues/{VHOST}/classic/get", {"count": 1, "ackmode": "none", "encoding": "auto"}),
    ("POST", f"queues/{VHOST}/classic/actions", {"action": "none"}),
    ("DELETE", f"queues/{VHOST}/classic?if-empty=true", None),
    ("DELETE", f"queues/{VHOST}/classic/contents", None),
    ("GET", "definitions/none", None),
    ("POST", "definitions", {}),
    ("POST", "users/bulk-delete", {}),
    ("PUT", "feature-flags/none/enable", None),
    ("POST", f"vhosts/{VHOST}/start/none", None),
    ("POST", "rebalance/queues", None),
    ("DELETE", "reset", None),
    ("DELETE", "reset/{node}", None),
    ("DELETE", "connections/none", None),
    ("DELETE", "connections/username/none", None),
    ("GET", "connections/username/none", None),
    ("GET", "connections/none/channels", None),
    ("GET", "consumers/none", None),
    ("GET", "vhosts/none/connections", None),
    ("GET", "users/none/permissions", None),
    ("GET", "vhosts/none/permissions", None),
    ("GET", f"topic-permissions/{VHOST}/none", None),
    ("GET", "user-limits/none", None),
    ("GET", "vhost-limits/none", None),
    ("GET", f"operator-policies/{VHOST}/none", None),
    ("GET", f"queues/{VHOST}/none/bindings", None),
    ("GET", f"exchanges/{VHOST}/none/bindings/source", None),
    ("GET", "parameters/none", None),
    ("GET", f"parameters/vhost-limits/{VHOST}/none", None),
    ("GET", "aliveness-test/none", None),
    ("GET", f"queues/{VHOST}?page=a", None),
    ("GET", f"queues/{VHOST}?msg_rates_age=a&msg_rates_incr=1", None),
    ("GET", "health/checks/port-listener/1", None),
    ("GET", "health/checks/port-listener/a", None),
    ("GET", "health/checks/protocol-listener/none", None),
    ("GET", "health/checks/certificate-expiration/1/aeons", None),
    ("DELETE", "auth/attempts/{node}", None),
    ("DELETE", "auth/attempts/{node}/source", None),
    ("DELETE", f"queues/{VHOST}/none", None),
    ("DELETE", f"queues/{VHOST}/none/contents", None),
    ("POST", f"queues/{VHOST}/none/get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}),
    ("POST", f"queues/{VHOST}/classic/get", {"count": "x", "ackmode": "ack_requeue_true", "encoding": "auto"}),
    ("POST", f"queues/{VHOST}/classic/get", {}),
    ("DELETE", f"exchanges/{VHOST}/none", None),
    ("PUT", f"exchanges/{VHOST}/amq.bad", {"type": "direct"}),
    ("PUT", f"exchanges/{VHOST}/bad", {}),
    ("DELETE", f"policies/{VHOST}/none", None),
    ("DELETE", f"operator-policies/{VHOST}/none", None),
    ("PUT", f"operator-policies/{VHOST}/bad", {"pattern": "a", "definition": {"dead-letter-exchange": "x"}}),
    ("DELETE", f"permissions/{VHOST}/none", None),
    ("DELETE", f"vhost-limits/{VHOST}/max-connections", None),
    ("PUT", "user-limits/guest/none", {"value": 1}),
    ("PUT", "user-limits/none/max-channels", {"value": 1}),
    ("DELETE", "user-limits/guest/max-channels", None),
    ("DELETE", "global-parameters/none", None),
    ("PUT", "global-parameters/new", {"value": [1, "a"]}),
    ("PUT", "global-parameters/new", {}),
    ("DELETE", "global-parameters/new", None),
    ("PUT", "vhosts/new", {"description": "d", "tags": "a,b"}),
    ("PUT", "vhosts/new", {"description": "e"}),
    ("DELETE", "vhosts/new", None),
    ("DELETE", "vhosts/new", None),
    ("PUT", "users/new", {"password_hash": "x", "tags": ""}),
    ("PUT", "users/new", {"password": "x", "tags": 7}),
    ("PUT", "cluster-name", {}),
    ("POST", f"bindings/{VHOST}/e/none/q/classic", {}),
    ("POST", f"bindings/{VHOST}/e/x/e/y", {"routing_key": "other"}),
    ("DELETE", f"bindings/{VHOST}/e/x/e/y/other", None),
    ("POST", f"exchanges/{VHOST}/x/publish", {"routing_key": "k"}),
    ("POST", f"exchanges/{VHOST}/x/publish", {"routing_key": "k", "payload": "a", "payload_encoding": "none", "properties": {}}),
    ("POST", f"exchanges/{VHOST}/x/publish", {"routing_key": "k", "payload": "a", "payload_encoding": "string", "properties": {"delivery_mode": "x"}}),
    ("POST", "definitions", {"queues": "x"}),
    ("POST", "definitions", {"queues": [{"name": "q", "vhost": "none"}]}),
    ("POST", f"definitions/{VHOST}", {}),
    ("PATCH", "overview", None),
    ("POST", "overview", {}),
    ("PUT", "queues", {}),
    ("DELETE", "whoami", None),
]

#: Fields that Leveret does not have, by answer and field, and why.
FIELDS = [
    ("*", "*backing_queue_status*", "inner figures of a storage that is not there, and gone from RabbitMQ 4"),
    ("overview", "sample_retention_policies.*", "rates are measured between two questions"),
    ("overview", "exchange_types[].internal_purpose", "no exchange type is another's tool"),
    ("*", "*contexts[].cowboy_opts", "there is no Cowboy"),
    ("*", "*socket_opts*", "sockets tune themselves"),
    ("*", "*listeners[].socket_opts", "RabbitMQ has a list where there is none"),
    ("nodes*", "auth_mechanisms*", "the mechanisms that are spoken"),
    ("nodes*", "*applications*", "there is one program"),
    ("nodes*", "*config_files[]", "a node needs none"),
    ("nodes*", "*log_files[]", "a node may log to its console alone"),
    ("nodes*", "*cluster_links[]*", "nodes are linked in another way"),
    ("nodes*", "*ets_tables*", "there are no tables of Erlang's"),
    ("extensions", "*", "the page loads no scripts of plugins"),
    ("parameters", "*", "no component has parameters"),
    ("feature-flags", "*", "other flags; all are enabled"),
    ("connections*", "*garbage_collection.*", "there is no garbage"),
    ("channels*", "*garbage_collection.*", "there is no garbage"),
    ("queues*", "*garbage_collection.*", "there is no garbage"),
    ("queues*", "*recoverable_slaves", "mirrored queues are gone"),
    ("queues*", "*slave_nodes*", "mirrored queues are gone"),
    ("queues*", "*synchronised_slave_nodes*", "mirrored queues are gone"),
    ("queues*", "*open_files.*", "files are the log's, not a queue's"),
    ("nodes*", "*metrics_gc_queue_length.*", "there is no garbage"),
    ("nodes*", "*ra_open_file_metrics.*", "files are not opened by group"),
    ("nodes*", "*queue_slave_procs", "mirrored queues are gone"),
    ("nodes*", "binary.*", "bodies of messages are not told apart by who has them"),
    *((f"nodes/*[?]{RANGES}", f"{name}*_details.*", "not sampled: there is no such thing, and it is 0") for name in (
        "context_switches", "gc_", "io_reopen", "io_seek", "mnesia_", "msg_store_", "proc_used", "queue_index_",
    )),
    *((f"nodes/*[?]{RANGES}", f"io_{name}_avg_time_details.*", "a mean over all time, which has no rate") for name in ("read", "sync", "write")),
    (f"*[?]{RANGES}", "reductions_details.*", "not sampled: there is no such thing, and it is 0"),
    ("definitions/*", "*[].vhost", "gone from RabbitMQ 4, as such a file is for any virtual host"),
    ("*", "*idle_since", "said of what is idle, which is so at once here"),
    ("queues*", "*paged_out", "gone from RabbitMQ 4"),
    ("queues*", "*single_active_consumer_ctag", "gone from RabbitMQ 4"),
    ("queues*", "*totals", "nothing where there are no figures"),
    ("queues*", "*type_specific", "nothing where there are no figures"),
    ("global-parameters", "*internal_cluster_id*", "the id is not a parameter"),
]  # fmt: skip

#: Requests that are answered with another code, and why.
CODES = {
    "GET nodes/none": (404, "RabbitMQ fails at a node that it does not know"),
    "GET connections/none/channels": (404, "RabbitMQ fails at a connection that it does not know"),
    'POST definitions {"queues": "x"}': (400, "RabbitMQ fails at definitions that are none"),
    'PUT users/new {"password": "x", "tags": 7}': (400, "RabbitMQ fails at tags that are none"),
    **{
        f"POST {path} {json.dumps(body)}": code
        for method, path, body in REQUESTS
        for code in [
            (404, "as in RabbitMQ 4") if path == f"exchanges/{VHOST}/none/publish" else None,
            (400, "RabbitMQ fails at a mode that it does not know") if (body or {}).get("ackmode") == "none" else None,
        ]
        if code
    },
}


#: What is refused in other words than RabbitMQ 3.10's: by what those say, or by the request, and why.
WORDS = [
    ("*key_missing*", "the field that is missing is named in words, not in Erlang's terms"),
    ("Validation failed*", "what is wrong is said without Erlang's terms"),
    ("*Unrecognised terms*", "what is wrong is said without Erlang's terms"),
    ("Access refused.", "what is refused, and why, is said too"),
    ("unsupported", "the flag is named"),
    ("invalid exchange type*", "as in RabbitMQ 4"),
    ("404 NOT_FOUND - no exchange*", "as in RabbitMQ 4"),
    ("NOT_FOUND - no queue*", "as for all other calls of a queue that is not there"),
    ("Request to node*", "as in RabbitMQ 4"),
]


def ask(method, path, body=None):
    request = urllib.request.Request(f"{interop.HTTP_URL}/api/{path}", method=method)
    request.add_header("Authorization", TOKEN)
    data = None
    if body is not None or method in ("PUT", "POST"):
        data = json.dumps(body if body is not None else {}).encode()
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, data=data, timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def quote(text):
    return urllib.request.quote(text, safe="")


#: Fields whose contents are clients' or the configuration's own.
OPAQUE = ("arguments", "client_properties", "definition", "effective_policy_definition", "cluster_state", "capabilities", "cluster_tags")


def shape(value, node, at="", out=None):
    """Every path in a value with the JSON types that stand there; `{node}` for the node's name in one."""
    out = {} if out is None else out
    kinds = {dict: "object", list: "list", str: "text", bool: "bool", int: "number", float: "number", type(None): "null"}
    out.setdefault(at, set()).add(kinds[type(value)])
    if isinstance(value, dict):
        for key, below in value.items():
            if key not in OPAQUE:
                name = key.replace(node, "{node}")
                shape(below, node, f"{at}.{name}" if at else name, out)
    elif isinstance(value, list):
        for below in value:
            shape(below, node, f"{at}[]", out)
    return out


@pytest.fixture(scope="module")
def world():
    """The objects that are looked at; gives what stands for names in paths."""
    ask("DELETE", f"vhosts/{VHOST}")
    for method, path, body in [
        ("PUT", f"vhosts/{VHOST}", {}),
        ("PUT", f"permissions/{VHOST}/guest", {"configure": ".*", "write": ".*", "read": ".*"}),
        ("PUT", f"queues/{VHOST}/classic", {"durable": True}),
        ("PUT", f"queues/{VHOST}/quorum", {"durable": True, "arguments": {"x-queue-type": "quorum"}}),
        ("PUT", f"queues/{VHOST}/stream", {"durable": True, "arguments": {"x-queue-type": "stream"}}),
        ("PUT", f"exchanges/{VHOST}/x", {"type": "direct", "durable": True}),
        ("PUT", f"exchanges/{VHOST}/y", {"type": "topic", "durable": True}),
        ("POST", f"bindings/{VHOST}/e/x/e/y", {"routing_key": "k"}),
        ("PUT", f"operator-policies/{VHOST}/bound", {"pattern": "^none$", "definition": {"max-length": 100}, "apply-to": "queues"}),
        ("PUT", f"topic-permissions/{VHOST}/guest", {"exchange": "y", "write": ".*", "read": ".*"}),
        ("PUT", "user-limits/guest/max-channels", {"value": 2000}),
        ("PUT", "global-parameters/api-shape", {"value": {"a": 1}}),
        ("POST", f"bindings/{VHOST}/e/x/q/classic", {"routing_key": "k"}),
        ("PUT", f"policies/{VHOST}/limits", {"pattern": "^classic$", "definition": {"max-length": 100}, "apply-to": "queues"}),
        ("PUT", f"vhost-limits/{VHOST}/max-queues", {"value": 100}),
    ]:
        status, text = ask(method, path, body)
        assert status in (201, 204), (path, status, text)
    connection = interop.connect(vhost=VHOST)
    channel = connection.channel()
    for queue in ("classic", "quorum", "stream"):
        channel.basic_publish("", queue, b"waits")
    channel.basic_publish("x", "k", b"waits")
    channel.basic_get("classic", auto_ack=False)
    channel.basic_consume("quorum", lambda *_: None)
    connection.process_data_events(0.2)

    def listed():
        connection.process_data_events(0)
        channels = json.loads(ask("GET", "channels")[1])
        return next((c for c in channels if c.get("vhost") == VHOST and c.get("consumer_count")), None)

    def settled():
        # RabbitMQ's figures come some seconds late.
        queue = json.loads(ask("GET", f"queues/{VHOST}/classic")[1])
        return queue.get("messages", 0) > 0 and "message_stats" in queue

    row = interop.until(listed, 30, "the channel in the list")
    interop.until(settled, 30, "figures of the queue")

    def sampled():
        # Every five seconds a sample is taken.
        connection.process_data_events(0)
        shown = [f"connections/{quote(row['connection_details']['name'])}?{RANGES}", f"channels/{quote(row['name'])}?{RANGES}", f"exchanges/{VHOST}/x?{RANGES}"]
        return all(b'"samples"' in ask("GET", path)[1] for path in shown)

    interop.until(sampled, 30, "samples of the connection")
    # RabbitMQ tells of a node what it told of itself last, which may have been before it served this.
    interop.until(lambda: json.loads(ask("GET", "nodes")[1])[0].get("contexts"), 30, "where the node serves HTTP")
    yield {
        "node": quote(json.loads(ask("GET", "nodes")[1])[0]["name"]),
        "connection": quote(row["connection_details"]["name"]),
        "channel": quote(row["name"]),
        "port": interop.PORT,
    }
    with contextlib.suppress(Exception):
        connection.close()
    for path in (f"vhosts/{VHOST}", "user-limits/guest/max-channels", "global-parameters/api-shape"):
        ask("DELETE", path)


def split(fields):
    return {field: set(types.split("/")) for field, types in fields.items()}


def recorded(part):
    return json.loads(RECORDED.read_text()).get(part, {}) if RECORDED.exists() else {}


def record(part, value):
    whole = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    whole[part] = value
    # One line for each answer.
    parts = [
        json.dumps(part) + ": {\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v, sort_keys=True)}" for k, v in whole[part].items()) + "\n}"
        for part in sorted(whole)
    ]
    RECORDED.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def missing(answer, expected, got):
    """What RabbitMQ's answer has and this one lacks, or has in another type."""
    for field, types in expected.items():
        if any(fnmatch.fnmatchcase(answer, a) and fnmatch.fnmatchcase(field, f.replace("[", "[[]")) for a, f, _ in FIELDS):
            continue
        # Of an empty list nothing is known.
        parents = [field[:at] for at in range(len(field)) if field[at : at + 2] == "[]"]
        if any(got.get(parent) == {"list"} and f"{parent}[]" not in got for parent in parents):
            continue
        if field not in got:
            yield f"{field} ({'/'.join(sorted(types))})"
        elif not got[field] <= types | {"null"}:
            yield f"{field}: {'/'.join(sorted(types))} -> {'/'.join(sorted(got[field]))}"


def test_answers_have_rabbitmqs_fields(world):
    found, wrong = {}, {}
    expected = recorded("answers")
    node = urllib.request.unquote(world["node"])
    for path in ANSWERS:
        status, text = ask("GET", path.format(**world))
        found[path] = {field: "/".join(sorted(types)) for field, types in shape(json.loads(text or b"null"), node).items()}
        if not interop.ON_RABBITMQ and path in expected:
            lacks = sorted(missing(path, split(expected[path]), split(found[path])))
            if status != 200 or lacks:
                wrong[path] = lacks or status
    if interop.ON_RABBITMQ and os.environ.get("RECORD"):
        record("answers", found)
    elif interop.ON_RABBITMQ:
        lost = {path: sorted(set(expected[path]) - set(found[path])) for path in ANSWERS}
        assert {path: fields for path, fields in lost.items() if fields} == {}
    assert wrong == {}, json.dumps(wrong, indent=1)


def test_lists_name_the_active_and_the_exclusive_consumer_of_each_queue(channel):
    wanted = {}
    for number in range(3):
        single, exclusive = interop.unique(), interop.unique()
        channel.queue_declare(single, exclusive=True, arguments={"x-single-active-consumer": True})
        channel.queue_declare(exclusive, exclusive=True)
        for tag in (f"first-{number}", f"second-{number}"):
            channel.basic_consume(single, lambda *_: None, consumer_tag=tag)
        channel.basic_consume(exclusive, lambda *_: None, consumer_tag=f"alone-{number}", exclusive=True)
        wanted[single] = (f"first-{number}", None)
        wanted[exclusive] = (None, f"alone-{number}")

    def found():
        _, text = ask("GET", "queues")
        rows = {row["name"]: row for row in json.loads(text)}
        tags = ("single_active_consumer_tag", "exclusive_consumer_tag")
        return {name: tuple(rows.get(name, {}).get(tag) or None for tag in tags) for name in wanted}

    interop.until(lambda: found() == wanted, 20, "that all tags are listed")


def words(text):
    """What an error's body says: its `error`, and its `reason` where that is one for people."""
    try:
        body = json.loads(text)
    except ValueError:
        return None
    return [body.get("error"), body.get("reason") if isinstance(body.get("reason"), str) else None]


def test_requests_have_rabbitmqs_codes(world):
    found, said = {}, {}
    for method, path, body in REQUESTS:
        name = f"{method} {path}" + (f" {json.dumps(body)}" if body is not None else "")
        while name in found:
            name += " again"
        status, text = ask(method, path.format(**world), body)
        found[name] = status
        if status >= 400:
            said[name] = words(text)
    if interop.ON_RABBITMQ and os.environ.get("RECORD"):
        record("codes", found)
        record("words", said)
    expected = recorded("codes")
    if not interop.ON_RABBITMQ:
        expected.update({name: code for name, (code, _) in CODES.items() if name in expected})
    assert {name: (expected.get(name), code) for name, code in found.items() if code != expected.get(name)} == {}
    if not interop.ON_RABBITMQ:
        assert other_words(said, {name for name, code in found.items() if code == recorded("codes").get(name)}) == {}


def other_words(said, names):
    """What is refused with RabbitMQ's code and in other words, without a reason in the table."""
    spoken = recorded("words")
    others = {name: (spoken[name], said[name]) for name in names & said.keys() if spoken.get(name) and spoken[name][1] and said[name] != spoken[name]}
    excused = {name for name, (theirs, _) in others.items() if any(fnmatch.fnmatchcase(theirs[1], pattern) for pattern, _ in WORDS)}
    return {name: words for name, words in others.items() if name not in excused}
