import contextlib
import os
import socket
import urllib.error

import leveret_interop as interop
import pika
import pytest
from leveret_quorum import LEADER, OTHER, leaders

ADDRESSES = [address.rsplit(":", 1) for address in os.environ["CLUSTER_AMQP"].split(",")]
CONTROLS = [address.rsplit(":", 1) for address in os.environ["CLUSTER_CONTROLS"].split(",")]


class Nodes:
    """The nodes of the cluster, by number from 0."""

    def __init__(self):
        self.open = []

    def connect(self, node, vhost="/", **options):
        host, port = ADDRESSES[node]
        connection = pika.BlockingConnection(
            pika.ConnectionParameters(
                host, int(port), vhost, blocked_connection_timeout=60, heartbeat=0, **options
            )
        )
        self.open.append(connection)
        return connection

    def channel(self, node):
        return self.connect(node).channel()

    def url(self, node, scheme="pyamqp"):
        host, port = ADDRESSES[node]
        return f"{scheme}://guest:guest@{host}:{port}//"

    def crash(self, node):
        """kill -9, and a start on what the node has; returns when it accepts."""
        self.control(node, "crash")

    def ctl(self, node, *words):
        """What an operator's command prints at a node."""
        return self.control(node, "ctl", *words)

    def control(self, node, *words):
        host, port = CONTROLS[node]
        with socket.create_connection((host, int(port)), timeout=150) as stream:
            stream.sendall(("\t".join(words) + "\n").encode())
            answer = stream.makefile().readline().rstrip("\n")
        assert answer.startswith("ok"), answer
        return answer[3:].replace("\t", "\n")

    def close(self):
        for connection in self.open:
            with contextlib.suppress(pika.exceptions.AMQPError):
                connection.close()


@pytest.fixture
def nodes():
    nodes = Nodes()
    yield nodes
    nodes.close()


@pytest.fixture(params=["classic", "quorum"])
def arguments(request):
    return {"x-queue-type": request.param}


@pytest.fixture(params=[LEADER, OTHER], ids=["at the leader", "at another node"])
def node(request):
    return request.param


@pytest.fixture
def channel(nodes, node):
    return nodes.channel(node)


def leads(queue):
    """Whether the first node leads a queue; asks for it where another does."""
    view = interop.http("GET", "/api/leveret/cluster")
    own = next(node["name"] for node in view["nodes"] if node["number"] == view["own"])
    if leaders(queue) not in ([], [own]):
        with contextlib.suppress(urllib.error.HTTPError):
            body = {"queue": queue, "node": own}
            interop.http("POST", "/api/leveret/cluster/transfer", body)
    return leaders(queue) == [own]


@pytest.fixture
def declare(nodes):
    """Gives a function that declares a quorum queue that the first node leads."""
    made, channel = [], nodes.channel(LEADER)

    def make(**arguments):
        name = interop.unique()
        named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        named |= {"x-queue-type": "quorum", "x-queue-leader-locator": "client-local"}
        channel.queue_declare(name, durable=True, arguments=named)
        made.append(name)
        # A publish does not wait until its node has heard of the queue; this does.
        for other in range(1, 3):
            with nodes.connect(other) as connection:
                connection.channel().queue_declare(name, passive=True)
        interop.until(lambda: leads(name), what="the queue's leader at the first node")
        return name

    yield make
    with contextlib.suppress(pika.exceptions.AMQPError):
        with nodes.connect(OTHER) as connection:
            for name in made:
                connection.channel().queue_delete(name)


@pytest.fixture
def policy():
    """Gives a function that sets a policy for one queue."""
    made = []

    def make(queue, **definition):
        name = interop.unique("policy")
        named = {key.replace("_", "-"): value for key, value in definition.items()}
        body = {"pattern": f"^{queue}$", "definition": named, "apply-to": "quorum_queues"}
        interop.http("PUT", f"/api/policies/%2F/{name}", body)
        made.append(name)

    yield make
    for name in made:
        interop.http("DELETE", f"/api/policies/%2F/{name}")
