"""Who may do what, as the tables of `permissions.txt` say: every route of the HTTP API, every method of
AMQP and every operation on objects over HTTP, for each kind of user, on what is its own and on what is not."""

import base64
import contextlib
import itertools
import json
import pathlib
import re
import urllib.error
import urllib.parse
import urllib.request

import leveret_interop as interop
import pika
import pytest
from pika import spec

TABLE = pathlib.Path(__file__).parents[2] / "permissions.txt"
KINDS = ["nobody", "none", "management", "policymaker", "monitoring", "administrator"]
OWN, FOREIGN = "perm-own", "perm-foreign"
#: Sets of permissions: `-` has none of them on any object.
LETTERS = ["-", "c", "w", "r", "cwr"]
#: Routes that would end the test if they were carried out: only those are tried who may not.
NEVER = {"POST /api/leveret/stop"}
#: What stands for `{}` where a name that is nobody's will not do.
NAMES = {
    "certificate-expiration": ["1", "weeks"],
    "port-listener": ["1"],
    "protocol-listener": ["amqp"],
    "peek": ["none-such", "1"],
}


class Row:
    def __init__(self, line):
        words = line.split(None, 4)
        self.method, self.path, self.own, self.foreign = words[:4]
        peer = words[4] if len(words) > 4 else ""
        self.peer, _, self.reason = (part.strip() for part in peer.partition(":"))
        self.name = f"{self.method} {self.path}"

    def expected(self):
        """By virtual host, the columns; nothing where the broker does not have the route."""
        if interop.ON_RABBITMQ and self.peer == "absent":
            return {}
        columns = [self.own, self.foreign]
        if interop.ON_RABBITMQ and self.peer:
            columns = self.peer.split("/")
        hosts = zip([OWN, FOREIGN], columns, strict=True)
        return {host: found for host, found in hosts if "." not in found}

    def url(self, vhost):
        names = next((list(v) for k, v in NAMES.items() if f"/{k}/" in self.path), [])
        if self.method == "DELETE" and self.path == "/api/vhosts/{vhost?}":
            vhost = "perm-none-such"
        parts = []
        for part in self.path.split("/"):
            if part.startswith("{vhost"):
                parts.append(vhost)
            elif part == "{}":
                parts.append(names.pop(0) if names else "none-such")
            else:
                parts.append(part)
        return "/".join(parts)


class Need:
    """A row of the table of operations on objects."""

    def __init__(self, line):
        words = line.split()
        self.by = words.pop(0)
        self.method = words.pop(0)
        self.path = words.pop(0) if self.by == "HTTP" else ""
        self.variant, self.needs = words.pop(0), words.pop(0)
        self.peer = words.pop(0).rstrip(":") if words else ""
        self.reason = " ".join(words)
        self.name = " ".join(part for part in (self.method, self.path, self.variant) if part not in ("-", ""))

    def permits(self, tag, letters, prefix):
        needs = self.peer if interop.ON_RABBITMQ and self.peer else self.needs
        if self.by == "HTTP" and tag == "none":
            return False
        if needs.startswith("own:"):
            needs, prefix = needs.removeprefix("own:"), "own"
        if needs == "-":
            return True
        if needs == "no" or prefix != "own" or letters == "-":
            return False
        return needs == "any" or set(needs.split("+")) <= set(letters)


LINES = [line for line in TABLE.read_text().splitlines() if line and not line.startswith("#")]
NEEDS = [Need(line) for line in LINES if line.startswith(("AMQP ", "HTTP "))]
#: Those of the stream protocol's connections are `cargo test -p leveret-management`'s.
OWNERS = [
    Row(line.removeprefix("OWNER "))
    for line in LINES
    if line.startswith("OWNER ") and "/api/stream/" not in line
]
ROWS = [Row(line) for line in LINES if not line.startswith(("AMQP ", "HTTP ", "OWNER ", "STREAM "))]


def ask(method, url, user, body=None, data=None):
    """Status and text of a request; `user` is a name, whose password is `word`, or nobody."""
    request = urllib.request.Request(interop.HTTP_URL + url, method=method)
    if user != "nobody":
        word = base64.b64encode(f"{user}:word".encode()).decode()
        request.add_header("Authorization", f"Basic {word}")
    if body is not None:
        data = json.dumps(body).encode()
    if data is not None:
        request.add_header("Content-Type", "application/json")
    if url == "/api/login":
        data = b"username=guest&password=guest"
        request.add_header("Content-Type", "application/x-www-form-urlencoded")
    try:
        with urllib.request.urlopen(request, data, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def answer(method, url, user):
    """The answer to a request that says nothing that could be carried out."""
    return ask(method, url, user, data=b"[" if method in ("PUT", "POST") else None)


def is_denied(code, text):
    """Whether it says that the user may not: since 4.3, a virtual host of others is as if it were not there."""
    return code in (401, 403) or (code == 404 and json.loads(text or "{}") == {"error": "not_found", "reason": "Not Found"})


def user_of(tag, letters):
    return f"perm-{tag}-{letters}"


@pytest.fixture(scope="module", autouse=True)
def users():
    """A user for each tag and each set of permissions, for the whole module: they take time to make."""
    for vhost in (OWN, FOREIGN):
        interop.http("PUT", f"/api/vhosts/{vhost}", {})
    kinds = [(kind, letters) for kind in KINDS[1:] for letters in [*LETTERS, "all"]]
    for kind, letters in kinds:
        name = user_of(kind, letters)
        tags = "" if kind == "none" else kind
        interop.http("PUT", f"/api/users/{name}", {"password": "word", "tags": tags})
        may = {what: "^own" if what[0] in letters else "" for what in ("configure", "write", "read")}
        if letters == "all":
            may = {"configure": ".*", "write": ".*", "read": ".*"}
        interop.http("PUT", f"/api/permissions/{OWN}/{name}", may)
    yield
    for kind, letters in kinds:
        interop.http("DELETE", f"/api/users/{user_of(kind, letters)}")
    for vhost in (OWN, FOREIGN):
        interop.http("DELETE", f"/api/vhosts/{vhost}")


def letters_of(row):
    """The permissions with which a route is tried; the probe of a virtual host declares a queue itself."""
    return ["all"] if row.path.startswith("/api/aliveness-test/") else ["all", "-"]


@pytest.mark.parametrize(
    ("row", "letters"),
    [(row, letters) for row in ROWS for letters in letters_of(row)],
    ids=lambda of: of if isinstance(of, str) else of.name,
)
def test_a_route_is_for_whom_the_table_says(row, letters):
    """With all permissions on objects as with none: what an operation needs besides is another table's."""
    for vhost, expected in row.expected().items():
        found = ""
        for kind, may in zip(KINDS, expected, strict=True):
            if row.name in NEVER and may == "+":
                found += "+"
                continue
            user = kind if kind == "nobody" else user_of(kind, letters)
            refused = is_denied(*answer(row.method, row.url(vhost), user))
            found += "-" if refused else "+"
        assert found == expected, f"{row.name} in {vhost}, by {KINDS}"


# Operations on objects. `p` is the prefix of the object that is tried, `own` or `other`.

QUEUE, EXCHANGE = "own-q", "own-x"


def declare(channel, queue, **arguments):
    channel.queue_declare(queue, durable=True, arguments=arguments or None)


def dead_letter(channel, p):
    declare(channel, f"own-d-{p}", **{"x-dead-letter-exchange": p + "-x"})


def alternate(channel, p):
    arguments = {"alternate-exchange": p + "-x"}
    channel.exchange_declare(f"own-a-{p}", durable=True, arguments=arguments)


def prepare(channel, row, p):
    """What refers to another object is there before it is declared again, and not otherwise."""
    for word, there, away in (
        ("dead-letter", dead_letter, channel.queue_delete),
        ("alternate", alternate, channel.exchange_delete),
    ):
        if row.variant.startswith(word):
            away(f"own-{word[0]}-{p}")
        if row.variant == word + "-again":
            there(channel, p)


#: What is done for a row of the table, by its name.
METHODS = {
    "channel.open": lambda c, p: None,
    "channel.close": lambda c, p: c.connection.channel().close(),
    "channel.flow": lambda c, p: c.flow(True),
    "exchange.declare": lambda c, p: c.exchange_declare(p + "-x2"),
    "exchange.declare passive": lambda c, p: c.exchange_declare(p + "-x", passive=True),
    "exchange.declare alternate": alternate,
    "exchange.declare alternate-again": alternate,
    "exchange.delete": lambda c, p: c.exchange_delete(p + "-x2"),
    "exchange.bind to": lambda c, p: c.exchange_bind(p + "-x", EXCHANGE),
    "exchange.bind from": lambda c, p: c.exchange_bind(EXCHANGE, p + "-x"),
    "exchange.unbind to": lambda c, p: c.exchange_unbind(p + "-x", EXCHANGE),
    "exchange.unbind from": lambda c, p: c.exchange_unbind(EXCHANGE, p + "-x"),
    "queue.declare": lambda c, p: declare(c, p + "-q2"),
    "queue.declare passive": lambda c, p: c.queue_declare(p + "-q", passive=True),
    "queue.declare dead-letter": dead_letter,
    "queue.declare dead-letter-again": dead_letter,
    "queue.bind queue": lambda c, p: c.queue_bind(p + "-q", EXCHANGE),
    "queue.bind exchange": lambda c, p: c.queue_bind(QUEUE, p + "-x"),
    "queue.unbind queue": lambda c, p: c.queue_unbind(p + "-q", EXCHANGE),
    "queue.unbind exchange": lambda c, p: c.queue_unbind(QUEUE, p + "-x"),
    "queue.purge": lambda c, p: c.queue_purge(p + "-q"),
    "queue.delete": lambda c, p: c.queue_delete(p + "-q2"),
    "basic.qos": lambda c, p: c.basic_qos(prefetch_count=1),
    "basic.consume": lambda c, p: c.basic_consume(p + "-q", lambda *_: None),
    "basic.cancel": lambda c, p: c.basic_cancel("none-such"),
    "basic.publish": lambda c, p: c.basic_publish(p + "-x", "k", b""),
    "basic.publish default": lambda c, p: c.basic_publish("", p + "-q", b""),
    "basic.get": lambda c, p: c.basic_get(p + "-q", auto_ack=True),
    "basic.ack": lambda c, p: c.basic_ack(0, multiple=True),
    "basic.nack": lambda c, p: c.basic_nack(0, multiple=True),
    "basic.reject": lambda c, p: c.basic_reject(99),
    "basic.recover": lambda c, p: c.basic_recover(requeue=True),
    "basic.recover-async": lambda c, p: interop.raw(c, spec.Basic.RecoverAsync(True)),
    "tx.select": lambda c, p: c.tx_select(),
    "tx.commit": lambda c, p: (c.tx_select(), c.tx_commit()),
    "tx.rollback": lambda c, p: (c.tx_select(), c.tx_rollback()),
    "confirm.select": lambda c, p: c.confirm_delivery(),
}

QUEUES, EXCHANGES, BINDINGS = (f"/api/{what}/{OWN}" for what in ("queues", "exchanges", "bindings"))
GET = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
PUBLISH = {"properties": {}, "routing_key": "own-q", "payload": "", "payload_encoding": "string"}
KEY = {"routing_key": "k"}


def binding(kind):
    """The paths of a binding whose other end is the user's own: by the side that is tried."""
    there = {"to": lambda p: (EXCHANGE, p + "-x"), "from": lambda p: (p + "-x", EXCHANGE)}
    if kind == "q":
        there = {"to": lambda p: (EXCHANGE, p + "-q"), "from": lambda p: (p + "-x", QUEUE)}
    path = lambda ends: f"{BINDINGS}/e/{ends[0]}/{kind}/{ends[1]}"  # noqa: E731
    return {side: (lambda p, ends=ends: path(ends(p))) for side, ends in there.items()}


TO_QUEUE, TO_EXCHANGE = binding("q"), binding("e")

#: For names that are used once.
NUMBERS = itertools.count()


def super_stream(p, rest=None, body=None, before=()):
    """What is asked of a super stream that is there before; `{}` stands for its name."""
    name = f"{p}-ss{next(NUMBERS)}"
    path = f"/api/stream/super-streams/{OWN}/{name}"
    made = [("PUT", path, {"partitions": 2})]
    made += [(method, there.replace("{}", name), said) for method, there, said in before]
    return rest.replace("{}", name) if rest else path, body, made


PARTITIONS = f"/api/leveret/super-streams/{OWN}/{{}}/partitions"
DRAINED = f"/api/leveret/super-streams/{OWN}/{{}}/drained/{{}}-0"


def move(p):
    """A move that has begun: its id is in what was answered."""
    path = f"/api/leveret/queues/{OWN}/{p}-k/moves"
    there = lambda text: f"{path}/{urllib.parse.quote(json.loads(text)['id'], safe='')}"  # noqa: E731
    return there, None, [("POST", path, {"dry_run": True})]


#: What is asked for a row of the table, by its name: path (or what makes it of the last answer),
#: body, and what is done before by who may do all: requests with their bodies.
REQUESTS = {
    "GET /api/queues/{vhost}/{}": lambda p: (f"{QUEUES}/{p}-q", None, None),
    "PUT /api/queues/{vhost}/{}": lambda p: (f"{QUEUES}/{p}-h", {}, None),
    "PUT /api/queues/{vhost}/{} dead-letter": lambda p: (
        f"{QUEUES}/own-d-{p}",
        {"arguments": {"x-dead-letter-exchange": p + "-x"}},
        None,
    ),
    "DELETE /api/queues/{vhost}/{}": lambda p: (f"{QUEUES}/{p}-h", None, [("PUT", f"{QUEUES}/{p}-h", {})]),
    "GET /api/queues/{vhost}/{}/bindings": lambda p: (f"{QUEUES}/{p}-q/bindings", None, None),
    "DELETE /api/queues/{vhost}/{}/contents": lambda p: (f"{QUEUES}/{p}-q/contents", None, None),
    "POST /api/queues/{vhost}/{}/get": lambda p: (f"{QUEUES}/{p}-q/get", GET, None),
    "GET /api/exchanges/{vhost}/{}": lambda p: (f"{EXCHANGES}/{p}-x", None, None),
    "PUT /api/exchanges/{vhost}/{}": lambda p: (f"{EXCHANGES}/{p}-h", {"type": "direct"}, None),
    "PUT /api/exchanges/{vhost}/{} alternate": lambda p: (
        f"{EXCHANGES}/own-a-{p}",
        {"type": "direct", "arguments": {"alternate-exchange": p + "-x"}},
        None,
    ),
    "DELETE /api/exchanges/{vhost}/{}": lambda p: (
        f"{EXCHANGES}/{p}-h",
        None,
        [("PUT", f"{EXCHANGES}/{p}-h", {"type": "direct"})],
    ),
    "POST /api/exchanges/{vhost}/{}/publish": lambda p: (f"{EXCHANGES}/{p}-x/publish", PUBLISH, None),
    "POST /api/exchanges/{vhost}/{}/publish default": lambda p: (
        f"{EXCHANGES}/amq.default/publish",
        PUBLISH,
        None,
    ),
    "POST /api/bindings/{vhost}/e/{}/q/{} queue": lambda p: (TO_QUEUE["to"](p), KEY, None),
    "POST /api/bindings/{vhost}/e/{}/q/{} exchange": lambda p: (TO_QUEUE["from"](p), KEY, None),
    "DELETE /api/bindings/{vhost}/e/{}/q/{}/{} queue": lambda p: unbound(TO_QUEUE["to"](p)),
    "DELETE /api/bindings/{vhost}/e/{}/q/{}/{} exchange": lambda p: unbound(TO_QUEUE["from"](p)),
    "POST /api/bindings/{vhost}/e/{}/e/{} to": lambda p: (TO_EXCHANGE["to"](p), KEY, None),
    "POST /api/bindings/{vhost}/e/{}/e/{} from": lambda p: (TO_EXCHANGE["from"](p), KEY, None),
    "DELETE /api/bindings/{vhost}/e/{}/e/{}/{} to": lambda p: unbound(TO_EXCHANGE["to"](p)),
    "DELETE /api/bindings/{vhost}/e/{}/e/{}/{} from": lambda p: unbound(TO_EXCHANGE["from"](p)),
    "GET /api/queues/quorum/{vhost}/{}/peek/{}": lambda p: (
        f"/api/queues/quorum/{OWN}/{p}-k/peek/1",
        None,
        None,
    ),
    "GET /api/leveret/streams/{vhost}/{}/messages": lambda p: (
        f"/api/leveret/streams/{OWN}/{p}-s/messages",
        None,
        None,
    ),
    "GET /api/leveret/queues/{vhost}/{}/messages": lambda p: (
        f"/api/leveret/queues/{OWN}/{p}-k/messages",
        None,
        None,
    ),
    "GET /api/leveret/queues/{vhost}/{}/unacked": lambda p: (
        f"/api/leveret/queues/{OWN}/{p}-k/unacked",
        None,
        None,
    ),
    "GET /api/leveret/queues/{vhost}/{}/search": lambda p: (
        f"/api/leveret/queues/{OWN}/{p}-k/search?key=k",
        None,
        None,
    ),
    "POST /api/leveret/queues/{vhost}/{}/moves": lambda p: (
        f"/api/leveret/queues/{OWN}/{p}-k/moves",
        {},
        None,
    ),
    "DELETE /api/leveret/queues/{vhost}/{}/moves/{}": move,
    "PUT /api/stream/super-streams/{vhost}/{}": lambda p: (
        f"/api/stream/super-streams/{OWN}/{p}-ss{next(NUMBERS)}",
        {"partitions": 1},
        None,
    ),
    "DELETE /api/stream/super-streams/{vhost}/{}": super_stream,
    "POST /api/leveret/super-streams/{vhost}/{}/partitions": lambda p: super_stream(
        p, PARTITIONS, {"partitions": 1}
    ),
    "PUT /api/leveret/super-streams/{vhost}/{}/drained/{}": lambda p: super_stream(p, DRAINED, {}),
    "DELETE /api/leveret/super-streams/{vhost}/{}/drained/{}": lambda p: super_stream(
        p, DRAINED, before=[("PUT", DRAINED, {})]
    ),
    "GET /api/aliveness-test/{vhost}": lambda p: (f"/api/aliveness-test/{OWN}", None, None),
}


def unbound(path):
    return f"{path}/k", None, [("POST", path, KEY)]


def is_of_table(by):
    return [row for row in NEEDS if row.by == by]


#: Methods that a broker sends, and answers to them; those of a connection come before there is
#: anything to be permitted, or end it.
ANSWERS = {
    "channel.open-ok", "channel.flow-ok", "channel.close-ok", "access.request", "access.request-ok",
    "exchange.declare-ok", "exchange.delete-ok", "exchange.bind-ok", "exchange.unbind-ok",
    "queue.declare-ok", "queue.bind-ok", "queue.purge-ok", "queue.delete-ok", "queue.unbind-ok",
    "basic.qos-ok", "basic.consume-ok", "basic.cancel-ok", "basic.return", "basic.deliver",
    "basic.get-ok", "basic.get-empty", "basic.recover-ok",
    "tx.select-ok", "tx.commit-ok", "tx.rollback-ok", "confirm.select-ok",
}  # fmt: skip


def test_no_method_is_without_a_row_and_no_row_without_what_is_done():
    names = [method.NAME for method in spec.methods.values()]
    every = {re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower() for name in names}
    amqp = is_of_table("AMQP")
    missing = every - {row.method for row in amqp} - ANSWERS
    assert {name for name in missing if not name.startswith("connection.")} == set()
    assert sorted(row.name for row in amqp) == sorted(METHODS)
    assert sorted(row.name for row in is_of_table("HTTP")) == sorted(REQUESTS)


def test_every_difference_has_its_reason():
    assert [row.name for row in [*ROWS, *OWNERS, *NEEDS] if row.peer and not row.reason] == []


@pytest.fixture(scope="module")
def objects(users):
    """Objects of both prefixes."""
    del users
    # Not one of the users: their connections are closed by name.
    interop.http("PUT", f"/api/permissions/{OWN}/guest", dict.fromkeys(("configure", "write", "read"), ".*"))
    boss = interop.connect(vhost=OWN)
    channel = boss.channel()
    for prefix in ("own", "other"):
        channel.queue_declare(f"{prefix}-q", durable=True)
        channel.queue_declare(f"{prefix}-k", durable=True, arguments={"x-queue-type": "quorum"})
        channel.queue_declare(f"{prefix}-s", durable=True, arguments={"x-queue-type": "stream"})
        channel.exchange_declare(f"{prefix}-x", "fanout", durable=True)
        # What is peeked at.
        channel.basic_publish("", f"{prefix}-k", b"")
        interop.await_count(channel, f"{prefix}-k", 1)
    yield channel
    boss.close()


@pytest.fixture(scope="module")
def connections(objects):
    """A connection of each user, by its name: made when it is asked for."""
    del objects
    made = {}

    def connection(user):
        if user not in made or made[user].is_closed:
            made[user] = interop.connect(vhost=OWN, user=user, password="word")
        return made[user]

    yield connection
    for each in made.values():
        with contextlib.suppress(pika.exceptions.AMQPError):
            each.close()


def is_refused(connection, prefix, action):
    """Whether the broker refuses (403) what this user does."""
    channel = connection.channel()
    try:
        action(channel, prefix)
        # What is refused without an answer of its own is told before this one.
        channel.basic_qos(prefetch_count=0)
        channel.close()
    except pika.exceptions.ChannelClosedByBroker as error:
        return error.reply_code == 403
    return False


@pytest.mark.parametrize("tag", KINDS[1:])
@pytest.mark.parametrize("row", is_of_table("AMQP"), ids=lambda row: row.name)
def test_a_method_needs_what_the_table_says(objects, connections, row, tag):
    for letters in LETTERS:
        connection = connections(user_of(tag, letters))
        for prefix in ("own", "other"):
            prepare(objects, row, prefix)
            expected = row.permits(tag, letters, prefix)
            found = not is_refused(connection, prefix, METHODS[row.name])
            assert found == expected, f"{tag} with {letters} on {prefix}"


@pytest.mark.parametrize("tag", KINDS[1:])
@pytest.mark.parametrize("row", is_of_table("HTTP"), ids=lambda row: row.name)
def test_an_operation_over_http_needs_what_the_table_says(objects, row, tag):
    if interop.ON_RABBITMQ and row.peer == "absent":
        pytest.skip(row.reason)
    for letters in LETTERS:
        for prefix in ("own", "other"):
            prepare(objects, row, prefix)
            path, body, before = REQUESTS[row.name](prefix)
            text = ""
            for there, at, said in before or []:
                code, text = ask(there, at, user_of("administrator", "all"), said)
                assert code < 300, text
            path = path(text) if callable(path) else path
            code, text = ask(row.method, path, user_of(tag, letters), body)
            expected = row.permits(tag, letters, prefix)
            assert code < 300 or code in (401, 403) or not expected, f"{code} {text}"
            assert (code < 300) == expected, f"{tag} with {letters} on {prefix}: {code} {text}"


# The peer counts connections each five seconds.
@pytest.mark.timeout(150)
@pytest.mark.parametrize("row", OWNERS, ids=lambda row: row.name)
def test_a_connection_is_its_users_own_affair(users, row):
    """What a user must not see is not there for it, in a list or by its name."""
    del users
    columns = row.peer.split("/") if interop.ON_RABBITMQ and row.peer else (row.own, row.foreign)
    for of, expected in zip(("own", "foreign"), columns, strict=True):
        found = "".join(
            "." if may == "." else "-" if is_kept_from(row, kind, of == "own") else "+"
            for kind, may in zip(KINDS, expected, strict=True)
        )
        assert found == expected, f"{row.name}, {of}, by {KINDS}"


def is_kept_from(row, kind, is_own):
    # Of whose connection it is, and that is nobody's who asks.
    owner = user_of(kind, "all") if is_own else user_of("none", "cwr")
    connection = interop.connect(vhost=OWN, user=owner, password="word")
    try:
        connection.channel()
        listed = lambda: json.loads(ask("GET", "/api/channels", user_of("administrator", "all"))[1])  # noqa: E731
        # The peer has no details of a connection until it has counted it once.
        mine = lambda: [c for c in listed() if c.get("user") == owner and c["connection_details"]]  # noqa: E731
        channel = interop.until(mine, what="the channel in the list")[-1]
        name = channel["connection_details"]["name"]
        if row.path.startswith("/api/channels/"):
            name = channel["name"]
        elif "/username/" in row.path:
            name = owner
        path = row.path.replace("{}", urllib.parse.quote(name, safe=""))
        user = kind if kind == "nobody" else user_of(kind, "all")
        code, text = ask(row.method, path, user)
        if row.method == "DELETE":
            # Who is refused by silence has closed nothing.
            with contextlib.suppress(pika.exceptions.AMQPError):
                connection.process_data_events(time_limit=0.3)
            is_open = connection.is_open
            assert is_open or code < 300, f"{code} {text}"
            return is_open
        return code in (401, 403, 404) or text == "[]"
    finally:
        with contextlib.suppress(pika.exceptions.AMQPError):
            connection.close()


def test_who_has_nothing_in_a_virtual_host_does_not_get_in():
    for tag in KINDS[1:]:
        # Refused by name, or by a reset where the client sees that first.
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            interop.connect(vhost=FOREIGN, user=user_of(tag, "cwr"), password="word")
