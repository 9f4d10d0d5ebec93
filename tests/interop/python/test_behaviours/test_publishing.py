"""Confirms, returns, transactions, properties, CC and BCC."""

import struct

import leveret_interop as interop
import pika
import pytest
from leveret_interop import unique
from pika import spec


def confirms_of(channel, publish):
    """The confirms that come back for a publish."""
    seen = []
    for method in (spec.Basic.Ack, spec.Basic.Nack):
        channel._impl.callbacks.add(  # noqa: SLF001
            channel.channel_number,
            method,
            lambda *frame, kind=method.NAME: seen.append(kind),
            one_shot=False,
        )
    publish()
    interop.pump(channel.connection, lambda: seen)
    return seen


def publish_raw(channel, exchange, key, mandatory=False):
    method = spec.Basic.Publish(exchange=exchange, routing_key=key, mandatory=mandatory)
    interop.raw(channel, method, (spec.BasicProperties(), b"x"))


def select_confirms(channel):
    """Behind pika's back, which else waits for one confirm at a time."""
    interop.raw(channel, spec.Confirm.Select(nowait=True))


def test_confirm(channel, queue):
    select_confirms(channel)
    assert confirms_of(channel, lambda: publish_raw(channel, "", queue)) == ["Basic.Ack"]


def test_unroutable_is_confirmed(channel):
    select_confirms(channel)
    assert confirms_of(channel, lambda: publish_raw(channel, "", "nowhere")) == ["Basic.Ack"]


def test_return_comes_before_the_confirm():
    with interop.RawPeer() as peer:
        peer.login()
        peer.method(1, 20, 10, b"\0")
        peer.method(1, 85, 10, b"\0")
        peer.method(1, 60, 40, b"\0\0\0\x07nowhere\x01")
        peer.stream.sendall(b"\x02\0\x01\0\0\0\x0e\0\x3c" + bytes(12) + b"\xce")
        frames = [peer.read() for _ in range(5)]
    methods = [struct.unpack(">HH", payload[:4]) for kind, _, payload in frames if kind == 1]
    assert methods == [(20, 11), (85, 11), (60, 50), (60, 80)]
    # The return carries the message: a header, and no body frame for an empty one.
    assert [kind for kind, _, _ in frames] == [1, 1, 1, 2, 1]


def test_returned_message(channel):
    channel.confirm_delivery()
    with pytest.raises(pika.exceptions.UnroutableError) as caught:
        channel.basic_publish(
            "amq.direct", "nobody", b"body", pika.BasicProperties(app_id="me"), mandatory=True
        )
    (returned,) = caught.value.messages
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert (returned.method.exchange, returned.method.routing_key) == ("amq.direct", "nobody")
    assert (returned.properties.app_id, returned.body) == ("me", b"body")


def test_confirms_count_every_publish(channel, queue):
    select_confirms(channel)
    tags = []
    channel._impl.callbacks.add(  # noqa: SLF001
        channel.channel_number,
        spec.Basic.Ack,
        lambda frame: tags.append((frame.method.delivery_tag, frame.method.multiple)),
        one_shot=False,
    )
    for _ in range(500):
        publish_raw(channel, "", queue)
    interop.pump(channel.connection, lambda: covered(tags) == set(range(1, 501)))


def covered(tags):
    """The publish numbers that these confirms cover; a number twice is an error."""
    found, lowest = set(), 1
    for tag, multiple in tags:
        numbers = range(lowest, tag + 1) if multiple else [tag]
        new = {number for number in numbers if number not in found}
        assert new or multiple, f"{tag} confirmed twice"
        found |= new
        if multiple:
            lowest = tag + 1
    return found


def test_properties_and_headers_come_back_as_sent(channel, queue):
    properties = pika.BasicProperties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={
            "text": "ü",
            "small": -5,
            "large": 2**40,
            "yes": True,
            "table": {"inner": [1, "two", {"three": None}]},
            "bytes": b"\x00\xff",
        },
        delivery_mode=2,
        priority=9,
        correlation_id="c",
        reply_to="r",
        expiration="60000",
        message_id="m",
        timestamp=1_700_000_000,
        type="t",
        user_id="guest",
        app_id="a",
        cluster_id="cl",
    )
    channel.basic_publish("", queue, b"\x00body", properties)
    method, got, body = interop.get(channel, queue)
    assert body == b"\x00body"
    assert (method.exchange, method.routing_key, method.redelivered) == ("", queue, False)
    sent = properties.__dict__ | {"headers": got.headers}
    assert got.__dict__ == sent
    assert got.headers["table"] == {"inner": [1, "two", {"three": None}]}
    assert got.headers["bytes"] in (b"\x00\xff", "\x00\xff")
    assert (got.headers["large"], got.headers["small"], got.headers["yes"]) == (2**40, -5, True)


@pytest.mark.parametrize("size", [0, 1, 4_095, 131_064, 131_065, 1_000_000])
def test_body_sizes(channel, queue, size):
    body = bytes(number % 251 for number in range(size))
    channel.basic_publish("", queue, body)
    assert interop.get(channel, queue)[2] == body


def test_get_counts_what_is_left(channel, queue):
    channel.confirm_delivery()
    for number in range(3):
        channel.basic_publish("", queue, str(number).encode())
    assert [interop.get(channel, queue)[0].message_count for _ in range(3)] == [2, 1, 0]
    assert channel.basic_get(queue)[0] is None


def test_tx_commit_publishes(channel, queue):
    other = channel.connection.channel()
    channel.tx_select()
    channel.basic_publish("", queue, b"one")
    channel.basic_publish("", queue, b"two")
    channel.basic_qos(prefetch_count=0)
    assert interop.count(other, queue) == 0
    channel.tx_commit()
    interop.await_count(other, queue, 2)
    assert interop.bodies(other, queue) == ["one", "two"]


def test_tx_rollback_publishes_nothing(channel, queue):
    channel.tx_select()
    channel.basic_publish("", queue, b"one")
    channel.tx_rollback()
    channel.tx_commit()
    assert interop.count(channel, queue) == 0


def test_tx_rollback_keeps_deliveries_unsettled(connection, queue):
    connection.channel().basic_publish("", queue, b"one")
    channel = connection.channel()
    channel.tx_select()
    method, _, _ = interop.get(channel, queue, auto_ack=False)
    channel.basic_ack(method.delivery_tag)
    channel.tx_rollback()
    # Rolled back: the same tag can be settled again.
    channel.basic_ack(method.delivery_tag)
    channel.tx_commit()
    channel.close()
    assert interop.count(connection.channel(), queue) == 0


def test_tx_acks_wait_for_the_commit(connection, queue):
    connection.channel().basic_publish("", queue, b"one")
    channel = connection.channel()
    channel.tx_select()
    method, _, _ = interop.get(channel, queue, auto_ack=False)
    channel.basic_ack(method.delivery_tag)
    channel.close()
    again = interop.get(connection.channel(), queue)
    assert again[0].redelivered


def test_tx_publish_to_a_missing_exchange_closes(channel):
    channel.tx_select()
    with interop.closes("channel", 404, "NOT_FOUND - no exchange 'nowhere' in vhost '/'"):
        channel.basic_publish("nowhere", "k", b"")
        channel.tx_commit()


def test_cc_and_bcc(channel):
    first, copied, hidden = (unique() for _ in range(3))
    for queue in (first, copied, hidden):
        channel.queue_declare(queue, exclusive=True)
    headers = {"CC": [copied], "BCC": [hidden]}
    channel.basic_publish("", first, b"x", pika.BasicProperties(headers=headers))
    for queue in (first, copied, hidden):
        method, properties, _ = interop.get(channel, queue)
        assert method.routing_key == first
        assert properties.headers == {"CC": [copied]}


def test_cc_counts_as_routed(channel, queue):
    channel.confirm_delivery()
    properties = pika.BasicProperties(headers={"CC": [queue]})
    channel.basic_publish("", "nowhere", b"x", properties, mandatory=True)
    assert interop.get(channel, queue)[2] == b"x"


def test_cc_to_the_same_queue_gives_one_copy(channel, queue):
    properties = pika.BasicProperties(headers={"CC": [queue], "BCC": [queue]})
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"x", properties)
    assert interop.bodies(channel, queue) == ["x"]


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_cc_that_is_no_list(channel, queue, header):
    properties = pika.BasicProperties(headers={header: "text"})
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        interop.provoke(channel, lambda c: c.basic_publish("", queue, b"", properties))
    assert caught.value.reply_code == 406
    assert "longstr" in caught.value.reply_text


def test_order_over_one_channel(channel, queue):
    for number in range(2_000):
        channel.basic_publish("", queue, str(number).encode())
    found = interop.collect(channel, queue, 2_000, 30)
    assert [int(body) for _, _, body in found] == list(range(2_000))


def test_a_channel_tells_what_happened_to_its_messages(queue):
    """Listings and dashboards show it for each channel; who slows a queue down is found by it."""
    name = unique("told")
    connection = interop.connect(client_properties={"connection_name": name})
    publishing, consuming = connection.channel(), connection.channel()
    publishing.confirm_delivery()
    for body in (b"1", b"2", b"3", b"4"):
        publishing.basic_publish("", queue, body)
    with pytest.raises(pika.exceptions.UnroutableError):
        publishing.basic_publish("", unique("nowhere"), b"", mandatory=True)
    first, _, _ = consuming.basic_get(queue)
    consuming.basic_nack(first.delivery_tag, requeue=True)
    assert consuming.basic_get(queue)[0].redelivered
    consuming.basic_get(queue, auto_ack=True)
    for method, _, _ in consuming.consume(queue, inactivity_timeout=5):
        consuming.basic_ack(method.delivery_tag)
        if method.delivery_tag == 5:
            break
    empty = consuming.queue_declare("", exclusive=True).method.queue
    assert consuming.basic_get(empty)[0] is None
    wanted = {
        1: {"publish": 5, "confirm": 5, "return_unroutable": 1},
        2: {"get": 2, "get_no_ack": 1, "get_empty": 1, "deliver": 2, "ack": 2, "redeliver": 1},
    }

    def told():
        connection.process_data_events(0)
        listed = interop.http("GET", "/api/channels")
        # Of a channel that it has only begun to count RabbitMQ says this with an empty list.
        own = [row for row in listed if (row.get("connection_details") or {}).get("name") in names()]
        found = {row["number"]: row.get("message_stats", {}) for row in own}
        return all(
            found.get(number, {}).get(key) == count
            for number, counts in wanted.items()
            for key, count in counts.items()
        )

    def names():
        listed = interop.http("GET", "/api/connections")
        return [row["name"] for row in listed if row.get("user_provided_name") == name]

    interop.until(told, seconds=30, what="what the channels tell")
    connection.close()
