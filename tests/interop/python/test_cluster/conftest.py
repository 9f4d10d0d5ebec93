import contextlib
import os
import socket

import pika
import pytest

ADDRESSES = [address.rsplit(":", 1) for address in os.environ["CLUSTER_AMQP"].split(",")]
CONTROLS = [address.rsplit(":", 1) for address in os.environ["CLUSTER_CONTROLS"].split(",")]


class Nodes:
    """The nodes of the cluster, by number from 0."""

    def __init__(self):
        self.open = []

    def connect(self, node):
        host, port = ADDRESSES[node]
        connection = pika.BlockingConnection(
            pika.ConnectionParameters(host, int(port), blocked_connection_timeout=60, heartbeat=0)
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
        host, port = CONTROLS[node]
        with socket.create_connection((host, int(port)), timeout=150) as stream:
            stream.sendall(b"crash\n")
            answer = stream.makefile().readline()
        assert answer.startswith("ok"), answer

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
