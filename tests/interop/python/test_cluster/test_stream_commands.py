"""What `rabbitmq-streams` lists of clients that are connected to any node, asked at any node."""

import csv
import os

import leveret_interop as interop
import leveret_streams as streams
import pytest
from leveret_streams import Peer, amqp, encode, frame, message, u8, u16, u64

PORTS = [int(address.rsplit(":", 1)[1]) for address in os.environ["CLUSTER_STREAMS"].split(",")]
ALL = range(len(PORTS))


@pytest.fixture
def peers():
    """A connection at each node."""
    peers = [Peer(port).log_in() for port in PORTS]
    yield peers
    for peer in peers:
        peer.stream.close()


@pytest.fixture
def stream(peers):
    """A stream that every node has heard of."""
    name = interop.unique("s")
    assert peers[0].ask(streams.CREATE, name, []) == streams.OK
    for node in ALL:
        interop.until(lambda node=node: peers[node].leader(name), what="a leader of the stream")
    yield name
    with Peer(PORTS[0]).log_in() as peer:
        peer.ask(streams.DELETE, name)


def listed(nodes, node, *words):
    """The rows of a list as a node's command prints it."""
    text = nodes.ctl(node, "-q", *words, "--formatter", "csv")
    return list(csv.DictReader(text.splitlines()))


def of_stream(rows, name):
    return [row for row in rows if row["stream"] == name]


def test_clients_at_all_nodes_are_listed_at_each(nodes, peers, stream):
    for node, peer in enumerate(peers):
        assert peer.ask(streams.DECLARE_PUBLISHER, u8(1), f"p{node}", stream) == streams.OK
        assert peer.subscribe(node, stream, properties=[("name", f"app{node}")]) == streams.OK
        peer.publish_and_wait(1, *[message(n, amqp(b"body")) for n in range(1, 11)])
    for peer in peers:
        peer.until(lambda peer=peer: sum(chunk.records for chunk in peer.chunks) == 30)
    published = {(f"p{node}", "10", "10", "0") for node in ALL}
    columns = ["stream", "reference", "messages_published", "messages_confirmed", "messages_errored"]

    def publishers(node):
        rows = of_stream(listed(nodes, node, "list_stream_publishers", *columns), stream)
        return {tuple(row[column] for column in columns[1:]) for row in rows}

    def consumers(node):
        names = ["stream", "subscription_id", "messages_consumed", "active"]
        rows = of_stream(listed(nodes, node, "list_stream_consumers", *names), stream)
        return {(row["subscription_id"], row["messages_consumed"], row["active"]) for row in rows}

    def subscriptions(node):
        rows = listed(nodes, node, "list_stream_connections", "node", "subscriptions")
        return len({row["node"] for row in rows if row["subscriptions"] == "1"})

    for node in ALL:
        interop.until(lambda n=node: publishers(n) == published, what=f"publishers at {node}")
        read = {(str(other), "30", "true") for other in ALL}
        interop.until(lambda n=node: consumers(n) == read, what=f"consumers at {node}")
        interop.until(lambda n=node: subscriptions(n) == 3, what=f"connections at {node}")
    assert peers[1].ask(streams.UNSUBSCRIBE, u8(1)) == streams.OK
    assert peers[2].ask(streams.DELETE_PUBLISHER, u8(1)) == streams.OK
    for node in ALL:
        interop.until(lambda n=node: len(publishers(n)) == 2, what="the publisher gone")
        interop.until(lambda n=node: len(consumers(n)) == 2, what="the consumer gone")


def take_turn(peer):
    """Answers the next update of a consumer; whether it is active from now on."""
    peer.until(lambda: any(key == streams.CONSUMER_UPDATE for key, _ in peer.others))
    at = next(at for at, (key, _) in enumerate(peer.others) if key == streams.CONSUMER_UPDATE)
    read = streams.Read(peer.others.pop(at)[1])
    correlation, _subscription, active = read.number("I"), read.number("B"), read.number("B")
    answer, _ = encode((streams.u32(correlation), u16(streams.OK), u16(streams.FIRST)))
    peer.send(frame(streams.CONSUMER_UPDATE | streams.RESPONSE, answer))
    return active == 1


def test_a_group_whose_members_are_at_different_nodes_is_listed_at_each(nodes, peers, stream):
    group = [("single-active-consumer", "true"), ("name", "group")]
    assert peers[1].subscribe(1, stream, properties=group) == streams.OK
    assert take_turn(peers[1])
    assert peers[2].subscribe(2, stream, properties=group) == streams.OK

    def groups(node):
        rows = of_stream(listed(nodes, node, "list_stream_consumer_groups"), stream)
        return [(row["reference"], row["partition_index"], row["consumers"]) for row in rows]

    def states(node):
        members = ["list_stream_group_consumers", "--stream", stream, "--reference", "group"]
        return {(row["subscription_id"], row["state"]) for row in listed(nodes, node, *members)}

    both = {("1", "active (connected)"), ("2", "waiting (connected)")}
    for node in ALL:
        interop.until(lambda n=node: groups(n) == [("group", "-1", "2")], what="the group")
        interop.until(lambda n=node: states(n) == both, what="its members")
    assert peers[1].ask(streams.UNSUBSCRIBE, u8(1)) == streams.OK
    assert take_turn(peers[2])
    for node in ALL:
        left = {("2", "active (connected)")}
        interop.until(
            lambda n=node: groups(n) == [("group", "-1", "1")] and states(n) == left,
            what="the one that is left",
        )


def test_what_is_tracked_is_the_same_at_each_node_also_when_the_leader_was_killed(nodes, peers, stream):
    assert peers[0].ask(streams.DECLARE_PUBLISHER, u8(1), "writer", stream) == streams.OK
    peers[0].publish_and_wait(1, *[message(n, amqp(b"body")) for n in range(1, 51)])
    for node, peer in enumerate(peers):
        stored, _ = encode((f"app{node}", stream, u64(10 + node)))
        peer.send(frame(streams.STORE_OFFSET, stored))

    def tracked(node, *which):
        rows = listed(nodes, node, "list_stream_tracking", stream, *which)
        return {tuple(row.values()) for row in rows}

    offsets = {("offset", f"app{node}", str(10 + node)) for node in ALL}
    everything = offsets | {("writer", "writer", "50")}

    def are_tracked():
        for node in ALL:
            interop.until(lambda n=node: tracked(n, "--all") == everything, 30, "what is tracked")
            assert tracked(node, "--offset") == offsets
            assert tracked(node, "--writer") == everything - offsets

    are_tracked()
    nodes.crash(PORTS.index(peers[0].leader(stream)))
    are_tracked()
    nodes.ctl(1, "-q", "reset_offset", "--stream", stream, "--reference", "app1")
    for node in ALL:
        interop.until(lambda n=node: ("offset", "app1", "0") in tracked(n), what="the offset 0")
