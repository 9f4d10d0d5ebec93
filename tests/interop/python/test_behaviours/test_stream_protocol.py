"""The stream protocol, command by command: answers, codes, chunks, as RabbitMQ's stream plugin has
them since 3.10."""

import struct
import time

import leveret_interop as interop
import leveret_streams as streams
import pytest
from leveret_interop import unique
from leveret_streams import Closed, Peer, Read, amqp, batch, encode, frame, logged_in, message, packed, u8, u16, u32, u64

FIRST, LAST, NEXT = (u16(streams.FIRST),), (u16(streams.LAST),), (u16(streams.NEXT),)


@pytest.fixture
def peer():
    with logged_in() as peer:
        yield peer


@pytest.fixture
def stream(peer):
    name = unique("s")
    assert peer.ask(streams.CREATE, name, []) == streams.OK
    yield name
    with logged_in() as other:
        other.ask(streams.DELETE, name)


@pytest.fixture
def publisher(peer, stream):
    """The connection with a publisher of the number 1."""
    assert peer.ask(streams.DECLARE_PUBLISHER, u8(1), "", stream) == streams.OK
    return peer


def bodies(count, start=0):
    return [amqp(b"%d" % number) for number in range(start, start + count)]


def fill(publisher, count, start=0):
    """Publishes messages that are a chunk of their own."""
    entries = [message(start + at, body) for at, body in enumerate(bodies(count, start))]
    publisher.publish_and_wait(1, *entries)


def read_from(stream, offset, records):
    """The first offset, and the records, of what a subscription is given until it has so many."""
    with logged_in() as peer:
        assert peer.subscribe(7, stream, offset) == streams.OK
        peer.until(lambda: sum(chunk.records for chunk in peer.chunks) >= records)
        return peer.chunks[0].first_offset, sum(chunk.records for chunk in peer.chunks)


# The handshake


def test_the_handshake():
    with Peer() as peer:
        steps = peer.steps()
        peer.send(steps[0][0])
        _, read = peer.answer(streams.PEER_PROPERTIES)
        properties = dict(read.list(read.pair))
        assert {"product", "version", "platform"} <= set(properties)
        peer.send(steps[1][0])
        _, read = peer.answer(streams.SASL_HANDSHAKE)
        assert {"PLAIN", "AMQPLAIN"} <= set(read.list(read.string))
        peer.send(steps[2][0])
        assert peer.answer(streams.SASL_AUTHENTICATE)[0] == streams.OK
        key, content = peer.read()
        assert (key, struct.unpack(">II", content)) == (streams.TUNE, (streams.FRAME_MAX, 60))
        peer.send(steps[3][0] + steps[4][0])
        code, read = peer.answer(streams.OPEN)
        assert code == streams.OK
        assert {"advertised_host", "advertised_port"} == set(dict(read.list(read.pair)))


@pytest.mark.parametrize(
    ("mechanism", "response", "code"),
    [
        ("PLAIN", b"\0guest\0wrong", streams.LOGIN_FAILED),
        ("PLAIN", b"\0nobody\0guest", streams.LOGIN_FAILED),
        ("MAGIC", b"", streams.NO_MECHANISM),
    ],
)
def test_who_does_not_log_in(mechanism, response, code):
    with Peer().log_in(until=2) as peer:
        assert peer.ask(streams.SASL_AUTHENTICATE, mechanism, response) == code
        assert peer.close_code() is None


def test_a_virtual_host_that_is_not_there():
    with Peer().log_in(until=4) as peer:
        assert peer.ask(streams.OPEN, "nowhere") == streams.NO_VHOST
        assert peer.close_code() is None


@interop.rabbitmq_4
def test_the_second_version_is_that_of_publish(peer):
    read = peer.tell(streams.EXCHANGE_VERSIONS, [(u16(streams.DELIVER), u16(1), u16(1))])
    found = read.list(lambda: tuple(read.number("H") for _ in range(3)))
    assert found[1][:2] == (streams.PUBLISH, 1)
    known = {key for key, _, _ in found}
    assert set(range(streams.DECLARE_PUBLISHER, streams.PEER_PROPERTIES)) - known <= {
        streams.PUBLISH_CONFIRM, streams.PUBLISH_ERROR, streams.DELIVER, streams.METADATA_UPDATE,
    }  # fmt: skip


def test_either_side_closes(peer):
    assert peer.ask(streams.CLOSE, u16(streams.OK), "bye") == streams.OK
    assert peer.close_code() is None


def test_a_command_that_nobody_knows_closes_the_connection(peer):
    peer.send(frame(0x7F, bytes(4)))
    assert peer.close_code() == streams.UNKNOWN_FRAME


def test_heartbeats_are_sent_as_agreed():
    with Peer().log_in(heartbeat=1) as peer:
        peer.until(lambda: any(key == streams.HEARTBEAT for key, _ in peer.others))


# Streams


def test_streams_are_made_and_deleted(peer):
    name = unique("s")
    for code in (streams.OK, streams.STREAM_EXISTS):
        assert peer.ask(streams.CREATE, name, []) == code
    for code in (streams.OK, streams.NO_STREAM):
        assert peer.ask(streams.DELETE, name) == code


def test_a_stream_has_a_name(peer):
    assert peer.ask(streams.CREATE, "", []) == streams.PRECONDITION


# RabbitMQ closes the connection without a word.
@interop.leveret_only
def test_arguments_are_read(peer):
    for value, code in [("7D", streams.OK), ("soon", streams.PRECONDITION)]:
        name = unique("s")
        assert peer.ask(streams.CREATE, name, [("max-age", value)]) == code
        peer.ask(streams.DELETE, name)


def test_metadata(peer, stream):
    peer.send(peer.request(streams.METADATA, [stream, "none"]))
    read = peer.answer(streams.METADATA)
    nodes = read.list(lambda: (read.number("H"), read.string(), read.number("I")))

    def one():
        name, code, leader = read.string(), read.number("H"), read.number("H")
        return name, code, leader, read.list(lambda: read.number("H"))

    (known, unknown) = sorted(read.list(one), key=lambda row: row[0] == "none")
    (node,) = nodes
    assert node[2] == streams.PORT
    assert known == (stream, streams.OK, node[0], [])
    assert unknown[:3] == ("none", streams.NO_STREAM, 0xFFFF)


def test_who_uses_a_stream_hears_that_it_is_gone(publisher, stream):
    assert publisher.subscribe(1, stream) == streams.OK
    with logged_in() as other:
        assert other.ask(streams.DELETE, stream) == streams.OK
    publisher.until(lambda: any(key == streams.METADATA_UPDATE for key, _ in publisher.others))
    read = Read(next(content for key, content in publisher.others if key == streams.METADATA_UPDATE))
    assert (read.number("H"), read.string()) == (streams.NOT_AVAILABLE, stream)
    assert publisher.lives()
    assert publisher.ask(streams.DELETE_PUBLISHER, u8(1)) == streams.NO_PUBLISHER
    assert publisher.ask(streams.UNSUBSCRIBE, u8(1)) == streams.NO_SUBSCRIPTION


# Publishing


def test_publishers_are_declared_and_deleted(peer, stream):
    assert peer.ask(streams.DECLARE_PUBLISHER, u8(1), "", "none") == streams.NO_STREAM
    assert peer.ask(streams.DECLARE_PUBLISHER, u8(1), "a", stream) == streams.OK
    # The same number, and the same name for the same stream.
    assert peer.ask(streams.DECLARE_PUBLISHER, u8(1), "b", stream) == streams.PRECONDITION
    assert peer.ask(streams.DECLARE_PUBLISHER, u8(2), "a", stream) == streams.PRECONDITION
    assert peer.ask(streams.DELETE_PUBLISHER, u8(1)) == streams.OK
    assert peer.ask(streams.DELETE_PUBLISHER, u8(1)) == streams.NO_PUBLISHER


@interop.rabbitmq_4
def test_a_reference_is_of_255_bytes_at_most(peer, stream):
    assert peer.ask(streams.DECLARE_PUBLISHER, u8(1), "r" * 256, stream) == streams.PRECONDITION
    assert peer.ask(streams.DECLARE_PUBLISHER, u8(1), "r" * 255, stream) == streams.OK


def test_every_message_is_confirmed_by_its_id(publisher):
    publisher.publish(1, *[message(number * 3, b"x") for number in range(100)])
    publisher.until(lambda: len(publisher.confirmed) == 100)
    assert sorted(publisher.confirmed) == [(1, number * 3) for number in range(100)]


def test_who_publishes_without_being_declared_is_told_of_each_message(peer):
    peer.publish(9, message(5, b"a"), message(6, b"b"))
    peer.until(lambda: len(peer.refused) == 2)
    assert peer.refused == [(9, 5, streams.NO_PUBLISHER), (9, 6, streams.NO_PUBLISHER)]


def test_what_is_published_twice_under_a_name_is_there_once(peer, stream):
    assert peer.ask(streams.DECLARE_PUBLISHER, u8(1), "name", stream) == streams.OK
    assert peer.tell(streams.QUERY_SEQUENCE, "name", stream).number("Q") == 0
    for first, count in [(1, 3), (2, 4)]:
        peer.publish_and_wait(1, *[message(first + at, amqp(b"x")) for at in range(count)])
    assert peer.tell(streams.QUERY_SEQUENCE, "name", stream).number("Q") == 5
    assert read_from(stream, FIRST, 5) == (0, 5)


def test_a_batch_within_an_entry_counts_its_messages_and_is_confirmed_once(publisher, stream):
    entry = batch(7, 3, packed(*bodies(3)))
    publisher.publish_and_wait(1, entry)
    fill(publisher, 1)
    assert publisher.confirmed[0] == (1, 7)
    with logged_in() as reader:
        assert reader.subscribe(1, stream) == streams.OK
        reader.until(lambda: len(reader.chunks) == 2)
        of_batch, behind = reader.chunks
        assert (of_batch.entries, of_batch.records, of_batch.data) == (1, 3, entry[8:])
        assert (behind.first_offset, behind.records) == (3, 1)


# Reading


def test_a_subscription_begins_with_the_chunk_that_it_asks_for(publisher, stream):
    fill(publisher, 5)
    time.sleep(0.05)
    between = int(time.time() * 1000)
    time.sleep(0.05)
    fill(publisher, 5, 5)
    assert read_from(stream, FIRST, 10) == (0, 10)
    assert read_from(stream, LAST, 5) == (5, 5)
    # The chunk that has the offset, from its beginning on.
    assert read_from(stream, (u16(streams.OFFSET), u64(3)), 10) == (0, 10)
    assert read_from(stream, (u16(streams.OFFSET), u64(5)), 5) == (5, 5)
    assert read_from(stream, (u16(streams.TIMESTAMP), u64(between)), 5) == (5, 5)
    assert read_from(stream, (u16(streams.TIMESTAMP), u64(0)), 10) == (0, 10)
    with logged_in() as reader:
        assert reader.subscribe(1, stream, NEXT) == streams.OK
        assert reader.subscribe(2, stream, (u16(streams.OFFSET), u64(10))) == streams.OK
        fill(publisher, 2, 10)
        reader.until(lambda: len(reader.chunks) == 2)
        assert {(c.subscription, c.first_offset) for c in reader.chunks} == {(1, 10), (2, 10)}


def test_chunks_are_sent_for_credit(publisher, stream):
    for number in range(4):
        fill(publisher, 1, number)
    with logged_in() as reader:
        assert reader.subscribe(1, stream, credit=2) == streams.OK
        reader.until(lambda: len(reader.chunks) == 2)
        reader.stream.settimeout(0.3)
        with pytest.raises(TimeoutError):
            reader.read()
        reader.stream.settimeout(20)
        reader.send(frame(streams.CREDIT, encode((u8(1), u16(1)))[0]))
        reader.until(lambda: len(reader.chunks) == 3)


def test_subscriptions_and_their_refusals(peer, stream):
    assert peer.subscribe(1, "none") == streams.NO_STREAM
    assert peer.subscribe(1, stream) == streams.OK
    assert peer.subscribe(1, stream) == streams.SUBSCRIPTION_EXISTS
    for code in (streams.OK, streams.NO_SUBSCRIPTION):
        assert peer.ask(streams.UNSUBSCRIBE, u8(1)) == code
    peer.send(frame(streams.CREDIT, encode((u8(1), u16(1)))[0]))
    refused = struct.pack(">HB", streams.NO_SUBSCRIPTION, 1)
    assert peer.read() == (streams.CREDIT | streams.RESPONSE, refused)


def test_offsets_are_stored_and_found(peer, publisher, stream):
    fill(publisher, 3)
    assert peer.ask(streams.QUERY_OFFSET, "app", stream) == streams.NO_OFFSET
    assert peer.ask(streams.QUERY_OFFSET, "app", "none") == streams.NO_STREAM
    peer.send(frame(streams.STORE_OFFSET, encode(("app", stream, u64(2)))[0]))

    def stored():
        peer.send(peer.request(streams.QUERY_OFFSET, "app", stream))
        code, read = peer.answer(streams.QUERY_OFFSET)
        return code == streams.OK and read.number("Q") == 2

    interop.until(stored, what="the stored offset")


# Permissions


@pytest.fixture
def stranger(stream):
    """A connection of a user who may read that stream, and write or configure nothing."""
    user = unique("u")
    interop.control("ctl", "add_user", user, "secret")
    interop.control("ctl", "set_permissions", "-p", "/", user, "^$", "^$", f"^{stream}$")
    with logged_in(user=user, password="secret") as peer:
        yield peer
    interop.control("ctl", "delete_user", user)


def test_who_may_do_what(stranger, stream):
    refused = streams.REFUSED
    assert stranger.ask(streams.CREATE, unique("s"), []) == refused
    assert stranger.ask(streams.DELETE, stream) == refused
    assert stranger.ask(streams.DECLARE_PUBLISHER, u8(1), "", stream) == refused
    assert stranger.subscribe(1, stream) == streams.OK
    assert stranger.subscribe(2, f"{stream}-other") == refused
    assert stranger.ask(streams.QUERY_OFFSET, "app", f"{stream}-other") == refused


def test_a_virtual_host_without_permissions(stranger):
    user = unique("u")
    interop.control("ctl", "add_user", user, "secret")
    with Peer().log_in(user=user, password="secret", until=4) as peer:
        assert peer.ask(streams.OPEN, "/") == streams.NO_VHOST
    interop.control("ctl", "delete_user", user)


# Beside AMQP 0-9-1


def test_a_stream_that_was_declared_over_amqp_and_the_other_way_round(peer, channel):
    name = unique("s")
    arguments = {"x-queue-type": "stream"}
    channel.queue_declare(name, durable=True, arguments=arguments)
    assert peer.ask(streams.CREATE, name, []) == streams.STREAM_EXISTS
    channel.confirm_delivery()
    channel.basic_publish("", name, b"over amqp")
    assert peer.subscribe(1, name) == streams.OK
    peer.until(lambda: peer.chunks)
    assert b"over amqp" in peer.chunks[0].data
    assert peer.ask(streams.DELETE, name) == streams.OK
    assert peer.ask(streams.CREATE, name, []) == streams.OK
    assert channel.queue_declare(name, passive=True).method.message_count == 0
    channel.queue_delete(name)
    assert peer.ask(streams.DELETE, name) == streams.NO_STREAM


def test_a_queue_that_is_no_stream(peer, queue):
    assert peer.ask(streams.DECLARE_PUBLISHER, u8(1), "", queue) == streams.NO_STREAM
    assert peer.subscribe(1, queue) == streams.NO_STREAM


def test_what_is_published_is_read_over_amqp(publisher, stream, connection, channel):
    fill(publisher, 3)
    publisher.publish_and_wait(1, batch(9, 2, packed(*bodies(2, 3))))
    channel.basic_qos(prefetch_count=10)
    found = []
    channel.basic_consume(
        stream,
        lambda _channel, method, properties, body: found.append(
            (properties.headers["x-stream-offset"], body)
        ),
        arguments={"x-stream-offset": "first"},
    )
    interop.pump(connection, lambda: len(found) >= 5)
    assert found == [(number, b"%d" % number) for number in range(5)]


# Super streams, of which the exchange is declared over AMQP 0-9-1


def test_partitions_and_routes(peer, channel):
    name = unique("super")
    channel.exchange_declare(name, "direct", durable=True, arguments={"x-super-stream": True})
    partitions = [f"{name}-{key}" for key in "abc"]
    # They come in their order, not in that of their names or declarations.
    for order, partition in [(2, partitions[0]), (0, partitions[1]), (1, partitions[2])]:
        assert peer.ask(streams.CREATE, partition, []) == streams.OK
        key = partition[-1]
        channel.queue_bind(partition, name, key, {"x-stream-partition-order": order})
    read = peer.tell(streams.PARTITIONS, name)
    assert read.list(read.string) == [partitions[1], partitions[2], partitions[0]]
    for key, wanted in [("b", [partitions[1]]), ("nothing", [])]:
        read = peer.tell(streams.ROUTE, key, name)
        assert read.list(read.string) == wanted
    assert peer.ask(streams.PARTITIONS, "none") == streams.NO_STREAM
    for partition in partitions:
        peer.ask(streams.DELETE, partition)
    channel.exchange_delete(name)


def test_a_frame_beyond_what_was_agreed_ends_the_connection(publisher):
    with pytest.raises((Closed, ConnectionError)):
        publisher.send(struct.pack(">IHH", streams.FRAME_MAX + 1, streams.PUBLISH, 1))
        publisher.send(bytes(streams.FRAME_MAX - 3))
        while True:
            publisher.read()


@interop.rabbitmq_4
def test_other_arguments_of_a_stream_that_exists_are_refused(peer, stream):
    assert peer.ask(streams.CREATE, stream, [("max-length-bytes", "1000000")]) == streams.PRECONDITION


@interop.rabbitmq_4
def test_figures_of_a_stream(publisher, stream):
    def figures():
        read = publisher.tell(streams.STREAM_STATS, stream)
        found = dict(read.list(lambda: (read.string(), read.number("q"))))
        return found["first_chunk_id"], found["committed_chunk_id"], found["committed_offset"]

    assert figures() == (-1, -1, -1)
    fill(publisher, 3)
    fill(publisher, 2, 3)
    interop.until(lambda: figures() == (0, 3, 4), what="the figures")


@interop.rabbitmq_4
def test_a_super_stream_is_made_and_deleted(peer):
    name = unique("super")
    partitions, keys = [f"{name}-0", f"{name}-1"], ["0", "1"]
    for code in (streams.OK, streams.STREAM_EXISTS):
        assert peer.ask(streams.CREATE_SUPER_STREAM, name, partitions, keys, []) == code
    read = peer.tell(streams.PARTITIONS, name)
    assert read.list(read.string) == partitions
    for code in (streams.OK, streams.NO_STREAM):
        assert peer.ask(streams.DELETE_SUPER_STREAM, name) == code
    assert peer.ask(streams.DELETE, partitions[0]) == streams.NO_STREAM


@interop.rabbitmq_4
def test_an_offset_is_resolved(publisher, stream):
    fill(publisher, 3)
    fill(publisher, 2, 3)
    for offset, resolved in [(FIRST, 0), (LAST, 3), (NEXT, 5), ((u16(streams.OFFSET), u64(4)), 4)]:
        read = publisher.tell(streams.RESOLVE_OFFSET, stream, offset, [])
        assert (read.number("H"), read.number("Q")) == (streams.OFFSET, resolved)


@interop.rabbitmq_4
def test_of_a_group_one_consumer_is_active(peer, stream):
    group = [("single-active-consumer", "true"), ("name", "group")]

    def updates():
        found = []
        for key, content in peer.others:
            if key == streams.CONSUMER_UPDATE:
                read = Read(content)
                found.append((read.number("I"), read.number("B"), read.number("B")))
        return found

    assert peer.subscribe(1, stream, properties=group) == streams.OK
    assert peer.subscribe(2, stream, properties=group) == streams.OK
    peer.until(lambda: len(updates()) == 1)
    correlation, subscription, active = updates()[0]
    assert (subscription, active) == (1, 1)
    answer, _ = encode((u32(correlation), u16(streams.OK), u16(streams.FIRST)))
    peer.send(frame(streams.CONSUMER_UPDATE | streams.RESPONSE, answer))
    assert peer.ask(streams.UNSUBSCRIBE, u8(1)) == streams.OK
    peer.until(lambda: len(updates()) == 2)
    assert updates()[1][1:] == (2, 1)
