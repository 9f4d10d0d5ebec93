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

#: Answers that are compared, with the node's and the connection's name put in.
ANSWERS = [
    "overview", "cluster-name", "nodes", "nodes/{node}", "nodes/{node}/memory", "nodes/{node}/memory/relative", "extensions",
    f"definitions/{VHOST}", "parameters", "global-parameters", f"policies/{VHOST}", f"policies/{VHOST}/limits",
    f"operator-policies/{VHOST}", "vhost-limits", f"vhost-limits/{VHOST}", "connections", "connections/{connection}",
    "connections/username/guest", "connections/{connection}/channels", "channels", "channels/{channel}", "consumers",
    f"consumers/{VHOST}", f"exchanges/{VHOST}", f"exchanges/{VHOST}/x", f"exchanges/{VHOST}/x/bindings/source",
    f"exchanges/{VHOST}/x/bindings/destination", f"queues/{VHOST}", f"queues/{VHOST}/classic", f"queues/{VHOST}/quorum",
    f"queues/{VHOST}?page=1&page_size=2&sort=name", f"queues/{VHOST}/classic/bindings", f"bindings/{VHOST}",
    f"bindings/{VHOST}/e/x/q/classic", "vhosts", f"vhosts/{VHOST}", f"vhosts/{VHOST}/permissions", "users", "users/guest",
    "users/guest/permissions", "users/without-permissions", "permissions", f"permissions/{VHOST}/guest", "topic-permissions",
    "user-limits", "feature-flags", "whoami", "health/checks/alarms", "health/checks/local-alarms",
    "health/checks/virtual-hosts", "health/checks/node-is-quorum-critical", f"aliveness-test/{VHOST}",
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
    ("DELETE", "connections/none", None),
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
    ("definitions/*", "*[].vhost", "gone from RabbitMQ 4, as such a file is for any virtual host"),
    ("*", "*idle_since", "said of what is idle, which is so at once here"),
    ("queues*", "*paged_out", "gone from RabbitMQ 4"),
    ("queues*", "*single_active_consumer_ctag", "gone from RabbitMQ 4"),
    ("health/checks/node-is-quorum-critical", "reason", "said where the check does not pass"),
    ("global-parameters", "*internal_cluster_id*", "the id is not a parameter"),
]  # fmt: skip

#: Requests that are answered with another code, and why.
CODES = {
    "GET nodes/none": (404, "RabbitMQ fails at a node that it does not know"),
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


def shape(value, at="", out=None):
    """Every path in a value with the JSON types that stand there."""
    out = {} if out is None else out
    kinds = {dict: "object", list: "list", str: "text", bool: "bool", int: "number", float: "number", type(None): "null"}
    out.setdefault(at, set()).add(kinds[type(value)])
    if isinstance(value, dict):
        for key, below in value.items():
            if key not in OPAQUE:
                shape(below, f"{at}.{key}" if at else key, out)
    elif isinstance(value, list):
        for below in value:
            shape(below, f"{at}[]", out)
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
        ("PUT", f"exchanges/{VHOST}/x", {"type": "direct", "durable": True}),
        ("POST", f"bindings/{VHOST}/e/x/q/classic", {"routing_key": "k"}),
        ("PUT", f"policies/{VHOST}/limits", {"pattern": "^classic$", "definition": {"max-length": 100}, "apply-to": "queues"}),
        ("PUT", f"vhost-limits/{VHOST}/max-queues", {"value": 100}),
    ]:
        status, text = ask(method, path, body)
        assert status in (201, 204), (path, status, text)
    connection = interop.connect(vhost=VHOST)
    channel = connection.channel()
    for queue in ("classic", "quorum"):
        channel.basic_publish("", queue, b"waits")
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
    yield {
        "node": quote(json.loads(ask("GET", "nodes")[1])[0]["name"]),
        "connection": quote(row["connection_details"]["name"]),
        "channel": quote(row["name"]),
    }
    with contextlib.suppress(Exception):
        connection.close()
    ask("DELETE", f"vhosts/{VHOST}")


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
    for path in ANSWERS:
        status, text = ask("GET", path.format(**world))
        found[path] = {field: "/".join(sorted(types)) for field, types in shape(json.loads(text or b"null")).items()}
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


def test_requests_have_rabbitmqs_codes(world):
    found = {}
    for method, path, body in REQUESTS:
        name = f"{method} {path}" + (f" {json.dumps(body)}" if body is not None else "")
        while name in found:
            name += " again"
        found[name] = ask(method, path, body)[0]
    if interop.ON_RABBITMQ and os.environ.get("RECORD"):
        record("codes", found)
    expected = recorded("codes")
    if not interop.ON_RABBITMQ:
        expected.update({name: code for name, (code, _) in CODES.items() if name in expected})
    assert {name: (expected.get(name), code) for name, code in found.items() if code != expected.get(name)} == {}
