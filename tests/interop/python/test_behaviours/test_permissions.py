"""Who may do what: every route of the HTTP API and every method of AMQP, for each kind of user, on what
is its own and on what is not."""

import base64
import contextlib
import json
import pathlib
import urllib.error
import urllib.request

import leveret_interop as interop
import pika
import pytest
from pika import spec

TABLE = pathlib.Path(__file__).parents[2] / "permissions.txt"
KINDS = ["nobody", "none", "management", "policymaker", "monitoring", "administrator"]
OWN, FOREIGN = "perm-own", "perm-foreign"
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


ROWS = [Row(line) for line in TABLE.read_text().splitlines() if line and not line.startswith("#")]


def status(method, url, user):
    """The status of a request that says nothing that could be carried out."""
    request = urllib.request.Request(interop.HTTP_URL + url, method=method)
    if user != "nobody":
        word = base64.b64encode(f"perm-{user}:word".encode()).decode()
        request.add_header("Authorization", f"Basic {word}")
    data = None
    if url == "/api/login":
        data = b"username=guest&password=guest"
        request.add_header("Content-Type", "application/x-www-form-urlencoded")
    elif method in ("PUT", "POST"):
        data = b"["
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, data, timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        error.read()
        return error.code


@pytest.fixture(scope="module", autouse=True)
def users():
    """The users of the table; a module's worth of them, as they take time to make."""
    permission = {"configure": ".*", "write": ".*", "read": ".*"}
    for vhost in (OWN, FOREIGN):
        interop.http("PUT", f"/api/vhosts/{vhost}", {})
    for kind in KINDS[1:]:
        tags = "" if kind == "none" else kind
        interop.http("PUT", f"/api/users/perm-{kind}", {"password": "word", "tags": tags})
        interop.http("PUT", f"/api/permissions/{OWN}/perm-{kind}", permission)
    yield
    for kind in KINDS[1:]:
        interop.http("DELETE", f"/api/users/perm-{kind}")
    for vhost in (OWN, FOREIGN):
        interop.http("DELETE", f"/api/vhosts/{vhost}")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_route_is_for_whom_the_table_says(row):
    for vhost, expected in row.expected().items():
        found = ""
        for kind, may in zip(KINDS, expected, strict=True):
            if row.name in NEVER and may == "+":
                found += "+"
                continue
            refused = status(row.method, row.url(vhost), kind) in (401, 403)
            found += "-" if refused else "+"
        assert found == expected, f"{row.name} in {vhost}, by {KINDS}"


# AMQP: what a method asks for, of which object. Users have one of the permissions on names that begin
# with `own`, and nothing else; `-` is a user of the virtual host who has none of them.

QUEUE, OTHER, EXCHANGE = "own-q", "own-q2", "own-x"


def declare(channel, queue, **arguments):
    channel.queue_declare(queue, arguments=arguments or None)


#: Method, what of it, who may (`c`onfigure, `w`rite, `r`ead, all of them; `any` of them; none: anybody),
#: what is done. `any` is RabbitMQ's rule since 4.3; the peer, 3.10, lets anybody declare passively.
METHODS = [
    (spec.Channel.Open, "", "", lambda c, p: None),
    (spec.Channel.Close, "", "", lambda c, p: c.connection.channel().close()),
    (spec.Channel.Flow, "", "", lambda c, p: c.flow(True)),
    (spec.Exchange.Declare, "", "c", lambda c, p: c.exchange_declare(p + "-x2")),
    (spec.Exchange.Declare, "passive", "any", lambda c, p: c.exchange_declare(p + "-x", passive=True)),
    (spec.Exchange.Delete, "", "c", lambda c, p: c.exchange_delete(p + "-x2")),
    (spec.Exchange.Bind, "to", "w+r", lambda c, p: c.exchange_bind(p + "-x", EXCHANGE)),
    (spec.Exchange.Bind, "from", "w+r", lambda c, p: c.exchange_bind(EXCHANGE, p + "-x")),
    (spec.Exchange.Unbind, "to", "w+r", lambda c, p: c.exchange_unbind(p + "-x", EXCHANGE)),
    (spec.Exchange.Unbind, "from", "w+r", lambda c, p: c.exchange_unbind(EXCHANGE, p + "-x")),
    (spec.Queue.Declare, "", "c", lambda c, p: declare(c, p + "-q2")),
    (spec.Queue.Declare, "passive", "any", lambda c, p: c.queue_declare(p + "-q", passive=True)),
    (
        spec.Queue.Declare,
        "dead letters to",
        "c+w+r",
        lambda c, p: declare(c, f"own-d-{p}", **{"x-dead-letter-exchange": p + "-x"}),
    ),
    (
        spec.Exchange.Declare,
        "alternate",
        "c+w+r",
        lambda c, p: c.exchange_declare(f"own-a-{p}", arguments={"alternate-exchange": p + "-x"}),
    ),
    (spec.Queue.Bind, "queue", "w+r", lambda c, p: c.queue_bind(p + "-q", EXCHANGE)),
    (spec.Queue.Bind, "exchange", "w+r", lambda c, p: c.queue_bind(QUEUE, p + "-x")),
    (spec.Queue.Unbind, "queue", "w+r", lambda c, p: c.queue_unbind(p + "-q", EXCHANGE)),
    (spec.Queue.Unbind, "exchange", "w+r", lambda c, p: c.queue_unbind(QUEUE, p + "-x")),
    (spec.Queue.Purge, "", "r", lambda c, p: c.queue_purge(p + "-q")),
    (spec.Queue.Delete, "", "c", lambda c, p: c.queue_delete(p + "-q2")),
    (spec.Basic.Qos, "", "", lambda c, p: c.basic_qos(prefetch_count=1)),
    (spec.Basic.Consume, "", "r", lambda c, p: c.basic_consume(p + "-q", lambda *_: None)),
    (spec.Basic.Cancel, "", "", lambda c, p: c.basic_cancel("none-such")),
    (spec.Basic.Publish, "", "w", lambda c, p: c.basic_publish(p + "-x", "k", b"")),
    (spec.Basic.Publish, "default exchange", "no", lambda c, p: c.basic_publish("", p + "-q", b"")),
    (spec.Basic.Get, "", "r", lambda c, p: c.basic_get(p + "-q", auto_ack=True)),
    (spec.Basic.Ack, "", "", lambda c, p: c.basic_ack(0, multiple=True)),
    (spec.Basic.Nack, "", "", lambda c, p: c.basic_nack(0, multiple=True)),
    (spec.Basic.Reject, "", "", None),
    (spec.Basic.Recover, "", "", lambda c, p: c.basic_recover(requeue=True)),
    (spec.Basic.RecoverAsync, "", "", None),
    (spec.Tx.Select, "", "", lambda c, p: c.tx_select()),
    (spec.Tx.Commit, "", "", lambda c, p: (c.tx_select(), c.tx_commit())),
    (spec.Tx.Rollback, "", "", lambda c, p: (c.tx_select(), c.tx_rollback())),
    (spec.Confirm.Select, "", "", lambda c, p: c.confirm_delivery()),
]

#: Methods of a connection: they come before there is anything to be permitted, or end it.
OF_CONNECTIONS = {"StartOk", "SecureOk", "TuneOk", "Open", "Close", "CloseOk", "UpdateSecret"}
#: Methods that a broker sends, and answers to them.
ANSWERS = {
    "Channel.OpenOk", "Channel.FlowOk", "Channel.CloseOk", "Access.Request", "Access.RequestOk",
    "Exchange.DeclareOk", "Exchange.DeleteOk", "Exchange.BindOk", "Exchange.UnbindOk",
    "Queue.DeclareOk", "Queue.BindOk", "Queue.PurgeOk", "Queue.DeleteOk", "Queue.UnbindOk",
    "Basic.QosOk", "Basic.ConsumeOk", "Basic.CancelOk", "Basic.Return", "Basic.Deliver",
    "Basic.GetOk", "Basic.GetEmpty", "Basic.RecoverOk",
    "Tx.SelectOk", "Tx.CommitOk", "Tx.RollbackOk", "Confirm.SelectOk",
}  # fmt: skip


def test_no_method_is_without_a_row():
    known = {method.NAME for method, *_ in METHODS} | ANSWERS
    every = {method.NAME for method in spec.methods.values()}
    assert {name for name in every - known if not name.startswith("Connection.")} == set()


@pytest.fixture(scope="module")
def objects(users):
    """Objects of both prefixes, and a user for each set of permissions."""
    del users
    boss = interop.connect(vhost=OWN, user="perm-administrator", password="word")
    channel = boss.channel()
    for prefix in ("own", "other"):
        channel.queue_declare(f"{prefix}-q", durable=True)
        channel.exchange_declare(f"{prefix}-x", "fanout", durable=True)
    for letters in ("-", "c", "w", "r", "cwr"):
        name = f"perm-amqp-{letters}"
        interop.http("PUT", f"/api/users/{name}", {"password": "word", "tags": ""})
        may = {what: "^own" if what[0] in letters else "" for what in ("configure", "write", "read")}
        interop.http("PUT", f"/api/permissions/{OWN}/{name}", may)
    yield
    boss.close()
    for letters in ("-", "c", "w", "r", "cwr"):
        interop.http("DELETE", f"/api/users/perm-amqp-{letters}")


def refused(letters, prefix, action):
    """Whether the broker refuses (403) what this user does."""
    connection = interop.connect(vhost=OWN, user=f"perm-amqp-{letters}", password="word")
    try:
        channel = connection.channel()
        action(channel, prefix)
        # What is refused without an answer of its own is told before this one.
        channel.basic_qos(prefetch_count=0)
    except pika.exceptions.ChannelClosedByBroker as error:
        return error.reply_code == 403
    finally:
        with contextlib.suppress(pika.exceptions.AMQPError):
            connection.close()
    return False


@pytest.mark.parametrize(
    ("method", "what", "needs", "action"),
    [row for row in METHODS if row[3]],
    ids=lambda value: getattr(value, "NAME", value) if not callable(value) else "",
)
def test_a_method_needs_what_the_table_says(objects, method, what, needs, action):
    del objects, method, what
    if needs == "any" and interop.ON_RABBITMQ:
        needs = ""
    wanted = set(needs.split("+")) - {"", "any"}
    for letters in ("-", "c", "w", "r", "cwr"):
        for prefix in ("own", "other"):
            may = needs == "" or (prefix == "own" and letters != "-" and wanted <= set(letters))
            assert refused(letters, prefix, action) == (not may), f"{letters} on {prefix}"


def test_who_has_nothing_in_a_virtual_host_does_not_get_in(objects):
    del objects
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError):
        interop.connect(vhost=FOREIGN, user="perm-amqp-cwr", password="word")
