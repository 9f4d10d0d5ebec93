"""A partition of a super stream is drained in a cluster: asked for at another node than its leader's,
and kept when that one dies."""

import contextlib
import time
import urllib.error

import leveret_interop as interop
import pika
import pytest
from conftest import ADDRESSES
from leveret_quorum import LEADER

PARTITIONS = 3
KEYS = [f"hello{number}" for number in range(12)]


@pytest.fixture
def super_stream():
    name = interop.unique("super")
    path = f"/api/stream/super-streams/%2F/{name}"
    arguments = {"super-stream-routing": "hash"}
    interop.http("PUT", path, {"partitions": PARTITIONS, "arguments": arguments})
    yield name
    interop.http("DELETE", path)


def names(nodes):
    """What the nodes are called, in their order here."""
    connections = [nodes.connect(at) for at in range(len(ADDRESSES))]
    found = {}

    def are_listed():
        for listed in interop.http("GET", "/api/connections"):
            found[listed["port"]] = listed["node"]
        return all(int(port) in found for _, port in ADDRESSES)

    interop.until(are_listed, what="a connection at each node")
    for connection in connections:
        connection.close()
    return [found[int(port)] for _, port in ADDRESSES]


def leader(stream):
    return interop.http("GET", f"/api/queues/%2F/{stream}").get("leader")


def move_to(node, stream):
    """Has a stream led by a node, once its replica there can."""

    def is_there():
        if leader(stream) != node:
            with contextlib.suppress(urllib.error.HTTPError):
                body = {"queue": stream, "node": node}
                interop.http("POST", "/api/leveret/cluster/transfer", body)
        return leader(stream) == node

    interop.until(is_there, seconds=30, what="the stream's leader at that node")


def ready(stream):
    return interop.http("GET", f"/api/queues/%2F/{stream}").get("messages", 0)


def counts_each_message_once():
    """Whether all queues together have what each of them has, however many replicas it has."""
    total = interop.http("GET", "/api/overview")["queue_totals"]["messages"]
    return total == sum(queue.get("messages", 0) for queue in interop.http("GET", "/api/queues"))


def publish(nodes, at, exchange, key, body=b"m"):
    """Publishes with a confirm, again while the stream has no leader; the code of a refusal."""
    deadline = time.monotonic() + 40
    while True:
        channel = nodes.channel(at)
        channel.confirm_delivery()
        try:
            channel.basic_publish(exchange, key, body, mandatory=True)
            return None
        except pika.exceptions.ChannelClosedByBroker as refused:
            return refused.reply_code, refused.reply_text
        except (pika.exceptions.NackError, pika.exceptions.UnroutableError):
            assert time.monotonic() < deadline, "it is not taken"
            time.sleep(0.1)
        finally:
            with contextlib.suppress(pika.exceptions.AMQPError):
                channel.connection.close()


def is_refused(nodes, at, stream):
    answer = publish(nodes, at, "", stream)
    return answer is not None and "drained partition" in answer[1]


def reads(nodes, at, stream, count, offset="first"):
    """The bodies of so many messages."""
    found = []

    def read(channel, method, _properties, body):
        found.append(body)
        channel.basic_ack(method.delivery_tag)

    channel = nodes.channel(at)
    channel.basic_qos(prefetch_count=10)
    channel.basic_consume(stream, read, arguments={"x-stream-offset": offset})
    interop.pump(channel.connection, lambda: len(found) >= count, 40)
    channel.connection.close()
    return found


def test_a_partition_stays_drained_and_is_read_when_its_leader_dies(nodes, super_stream):
    called = names(nodes)
    partitions = [f"{super_stream}-{number}" for number in range(PARTITIONS)]
    interop.until(lambda: all(map(leader, partitions)), what="the partitions' leaders")
    partition, at = partitions[2], 1
    move_to(called[at], partition)
    other = 2
    before = [b"%d" % number for number in range(20)]
    for body in before:
        assert publish(nodes, LEADER, "", partition, body) is None
    interop.until(lambda: ready(partition) == len(before), what="the messages that were published")
    interop.until(counts_each_message_once, what="a total that counts each message once")
    # The HTTP API is the first node's, which does not lead it.
    path = f"/api/leveret/super-streams/%2F/{super_stream}/drained/{partition}"
    interop.http("PUT", path)
    for node in range(3):
        interop.until(lambda n=node: is_refused(nodes, n, partition), what=f"node {node}'s refusal")
        for key in KEYS:
            assert publish(nodes, node, super_stream, key) is None
    count = ready(partition)
    assert reads(nodes, other, partition, 20)[:20] == before
    nodes.crash(at)
    interop.until(lambda: leader(partition), seconds=40, what="another leader")
    assert interop.http("GET", path)["drained"] is True
    for node in range(3):
        assert is_refused(nodes, node, partition)
        for key in KEYS:
            assert publish(nodes, node, super_stream, key) is None
        assert reads(nodes, node, partition, 20)[:20] == before
    # What the nodes took before they heard of it, and nothing since.
    assert len(reads(nodes, other, partition, count)) == count
    interop.until(lambda: ready(partition) == count, what="as many messages as before")
    interop.http("DELETE", path)
    interop.until(lambda: not is_refused(nodes, at, partition), what="publishes again")
    assert len(reads(nodes, other, partition, count + 1)) == count + 1
