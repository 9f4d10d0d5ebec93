"""Streams with AMQP 0-9-1: publishing with confirms, reading by offset, what is refused."""

import datetime

import leveret_interop as interop
import pika
import pytest
from leveret_interop import closes, leveret_only, rabbitmq_4, unique

STREAM = {"x-queue-type": "stream"}


@pytest.fixture
def stream(channel):
    name = unique("s")
    channel.queue_declare(name, durable=True, arguments=STREAM)
    yield name
    connection = interop.connect()
    connection.channel().queue_delete(name)
    connection.close()


def fill(stream, *bodies, **properties):
    """Publishes with confirms, so that all is there afterwards."""
    connection = interop.connect()
    channel = connection.channel()
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish("", stream, body.encode(), pika.BasicProperties(**properties))
    connection.close()


def reader(channel, stream, offset=None, prefetch=100, ack=True, **options):
    """A consumer that gathers its deliveries: the list of (method, properties, body)."""
    found = []

    def deliver(_channel, method, properties, body):
        found.append((method, properties, body))
        if ack:
            channel.basic_ack(method.delivery_tag)

    arguments = dict(options.pop("arguments", {}))
    if offset is not None:
        arguments["x-stream-offset"] = offset
    channel.basic_qos(prefetch_count=prefetch)
    tag = channel.basic_consume(stream, deliver, arguments=arguments, **options)
    return found, tag


def texts(found):
    return [body.decode() for _, _, body in found]


def offsets(found):
    return [properties.headers["x-stream-offset"] for _, properties, _ in found]


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        ("first", [0, 1, 2, 3, 4]),
        (0, [0, 1, 2, 3, 4]),
        (3, [3, 4]),
        ("1h", [0, 1, 2, 3, 4]),
        (datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), [0, 1, 2, 3, 4]),
    ],
)
def test_reads_from(connection, channel, stream, offset, expected):
    fill(stream, "0", "1", "2", "3", "4")
    found, _ = reader(channel, stream, offset)
    interop.pump(connection, lambda: len(found) >= len(expected))
    interop.settle_down(connection)
    assert offsets(found) == expected
    assert texts(found) == [str(offset) for offset in expected]
    assert not any(method.redelivered for method, _, _ in found)


def test_reads_from_the_last_chunk(connection, channel, stream):
    fill(stream, "0", "1")
    found, _ = reader(channel, stream, "last")
    interop.pump(connection, lambda: found)
    assert texts(found)[-1:] == ["1"]


@pytest.mark.parametrize("offset", [None, "next", 2])
def test_reads_what_comes(connection, channel, stream, offset):
    fill(stream, "0", "1")
    found, _ = reader(channel, stream, offset)
    interop.settle_down(connection)
    assert found == []
    fill(stream, "2", "3")
    interop.pump(connection, lambda: len(found) == 2)
    assert offsets(found) == [2, 3]


def test_the_prefetch_is_credit(connection, channel, stream):
    fill(stream, *map(str, range(10)))
    found, _ = reader(channel, stream, "first", prefetch=2, ack=False)
    interop.pump(connection, lambda: len(found) == 2)
    interop.settle_down(connection)
    assert texts(found) == ["0", "1"]
    channel.basic_ack(found[1][0].delivery_tag, multiple=True)
    interop.pump(connection, lambda: len(found) == 4)
    interop.settle_down(connection)
    assert texts(found) == ["0", "1", "2", "3"]


@rabbitmq_4
def test_every_settle_is_credit(connection, channel, stream):
    fill(stream, *map(str, range(4)))
    found, _ = reader(channel, stream, "first", prefetch=1, ack=False)
    for number, settle in enumerate(
        [
            lambda tag: channel.basic_nack(tag, requeue=True),
            lambda tag: channel.basic_reject(tag, requeue=False),
            channel.basic_ack,
        ]
    ):
        interop.pump(connection, lambda number=number: len(found) == number + 1)
        settle(found[-1][0].delivery_tag)
    interop.pump(connection, lambda: len(found) == 4)
    assert texts(found) == ["0", "1", "2", "3"]


def test_everyone_reads_everything(connection, channel, stream):
    fill(stream, "0", "1")
    found = [reader(connection.channel(), stream, "first")[0] for _ in range(3)]
    interop.pump(connection, lambda: all(len(one) == 2 for one in found))
    # The queue's messages stay, whoever has read them.
    interop.await_count(channel, stream, 2)


def test_an_exclusive_consumer_is_not_alone(connection, channel, stream):
    fill(stream, "0")
    first, _ = reader(channel, stream, "first", exclusive=True)
    second, _ = reader(connection.channel(), stream, "first", exclusive=True)
    interop.pump(connection, lambda: first and second)


def test_a_cancelled_reader_gets_no_more(connection, channel, stream):
    found, tag = reader(channel, stream, "first")
    channel.basic_cancel(tag)
    fill(stream, "0")
    interop.settle_down(connection)
    assert found == []


def test_a_message_keeps_its_properties(connection, channel, stream):
    sent = {
        "content_type": "text/plain",
        "content_encoding": "utf8",
        "delivery_mode": 2,
        "priority": 5,
        "correlation_id": "corr",
        "reply_to": "rep",
        "expiration": "60000",
        "message_id": "mid",
        "timestamp": 1700000000,
        "type": "kind",
        "user_id": "guest",
        "app_id": "app",
    }
    headers = {"a": "text", "n": 5, "b": True, "x-h": "xv", "v": None}
    fill(stream, "body", headers=headers, **sent)
    found, _ = reader(channel, stream, "first")
    interop.pump(connection, lambda: found)
    method, properties, body = found[0]
    assert {name: getattr(properties, name) for name in sent} == sent
    assert properties.headers == {**headers, "x-stream-offset": 0}
    assert (method.exchange, method.routing_key, body) == ("", stream, b"body")


@rabbitmq_4
def test_headers_that_hold_tables_are_kept_if_their_names_begin_with_x(connection, channel, stream):
    kept = {"x-table": {"k": ["v", 1]}, "CC": ["nowhere"]}
    fill(stream, "body", headers={**kept, "table": {"k": 1}, "list": ["v"]})
    found, _ = reader(channel, stream, "first")
    interop.pump(connection, lambda: found)
    assert found[0][1].headers == {**kept, "x-stream-offset": 0}


@pytest.mark.parametrize("size", [0, 1, 300, 70_000, 1_000_000])
def test_bodies_of_any_size(connection, channel, stream, size):
    fill(stream, "." * size)
    found, _ = reader(channel, stream, "first")
    interop.pump(connection, lambda: found)
    assert found[0][2] == b"." * size


def test_an_exchange_feeds_streams_and_queues(connection, channel, stream, queue, exchange):
    fanout = exchange(channel, "fanout")
    channel.queue_bind(stream, fanout)
    channel.queue_bind(queue, fanout)
    channel.confirm_delivery()
    channel.basic_publish(fanout, "key", b"m", mandatory=True)
    assert interop.bodies(channel, queue) == ["m"]
    found, _ = reader(channel, stream, "first")
    interop.pump(connection, lambda: found)
    assert (found[0][0].exchange, found[0][0].routing_key) == (fanout, "key")


def test_sender_selected_distribution(connection, channel, stream):
    channel.confirm_delivery()
    properties = pika.BasicProperties(headers={"BCC": [stream]})
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("", unique("none"), b"lost", mandatory=True)
    channel.basic_publish("", unique("none"), b"m", properties, mandatory=True)
    found, _ = reader(channel, stream, "first")
    interop.pump(connection, lambda: found)
    assert found[0][1].headers == {"x-stream-offset": 0}


def test_an_alternate_exchange_leads_to_a_stream(connection, channel, stream, exchange):
    alternate = exchange(channel, "fanout")
    main = exchange(channel, "direct", arguments={"alternate-exchange": alternate})
    channel.queue_bind(stream, alternate)
    channel.confirm_delivery()
    channel.basic_publish(main, "nobody", b"m", mandatory=True)
    found, _ = reader(channel, stream, "first")
    interop.pump(connection, lambda: found)
    assert texts(found) == ["m"]


@rabbitmq_4
def test_dead_letters_end_in_a_stream(connection, channel, stream):
    queue = unique()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": stream}
    channel.queue_declare(queue, exclusive=True, arguments=arguments)
    channel.basic_publish("", queue, b"m")
    method, _, _ = interop.get(channel, queue, auto_ack=False)
    channel.basic_reject(method.delivery_tag, requeue=False)
    found, _ = reader(channel, stream, "first")
    interop.pump(connection, lambda: found)
    assert texts(found) == ["m"]


@leveret_only
def test_dead_letters_keep_their_history(connection, channel, stream):
    queue = unique()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": stream}
    channel.queue_declare(queue, exclusive=True, arguments=arguments)
    channel.basic_publish("", queue, b"m")
    method, _, _ = interop.get(channel, queue, auto_ack=False)
    channel.basic_reject(method.delivery_tag, requeue=False)
    found, _ = reader(channel, stream, "first")
    interop.pump(connection, lambda: found)
    death = found[0][1].headers["x-death"][0]
    assert (death["queue"], death["reason"], death["count"]) == (queue, "rejected", 1)


def test_transactions(connection, channel, stream):
    channel.tx_select()
    channel.basic_publish("", stream, b"rolled back")
    channel.tx_rollback()
    channel.basic_publish("", stream, b"committed")
    channel.tx_commit()
    found, _ = reader(connection.channel(), stream, "first")
    interop.pump(connection, lambda: found)
    assert texts(found) == ["committed"]


def test_counts_are_the_messages_that_are_kept(channel, stream):
    fill(stream, "0", "1", "2")
    interop.await_count(channel, stream, 3)
    again = channel.queue_declare(stream, durable=True, arguments=STREAM).method
    assert (again.message_count, again.consumer_count) == (3, 0)


def test_a_stream_is_deleted_whoever_reads_it(connection, channel, stream):
    fill(stream, "0")
    reader(channel, stream, "first")
    interop.settle_down(connection)
    other = interop.connect()
    deleted = other.channel().queue_delete(stream, if_unused=True, if_empty=True).method
    other.close()
    assert deleted.message_count == 0


@leveret_only
def test_the_readers_of_a_deleted_stream_are_cancelled(connection, channel, stream):
    cancelled = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    _, tag = reader(channel, stream, "first")
    other = interop.connect()
    other.channel().queue_delete(stream)
    other.close()
    interop.pump(connection, lambda: cancelled == [tag])


def test_get_is_refused(channel, stream):
    text = (
        "NOT_IMPLEMENTED - basic.get not supported by stream queues "
        f"queue '{stream}' in vhost '/'"
    )
    with closes("connection", 540, text):
        channel.basic_get(stream)


def test_purge_is_refused(channel, stream):
    text = (
        "NOT_IMPLEMENTED - queue.purge not supported by stream queues "
        f"queue '{stream}' in vhost '/'"
    )
    with closes("connection", 540, text):
        channel.queue_purge(stream)


@rabbitmq_4
def test_a_prefetch_is_wanted(channel, stream):
    text = (
        "PRECONDITION_FAILED - consumer prefetch count is not set for stream "
        f"queue '{stream}' in vhost '/'"
    )
    with closes("channel", 406, text):
        reader(channel, stream, "first", prefetch=0)


@rabbitmq_4
def test_acknowledgements_are_wanted(channel, stream):
    text = (
        "NOT_IMPLEMENTED - automatic acknowledgement not supported by stream "
        f"queue '{stream}' in vhost '/'"
    )
    with closes("connection", 540, text):
        reader(channel, stream, "first", auto_ack=True)


def test_a_priority_is_refused(channel, stream):
    text = (
        f"PRECONDITION_FAILED - invalid arg 'x-priority' for queue '{stream}' in vhost '/' "
        "of queue type rabbit_stream_queue"
    )
    with closes("channel", 406, text):
        reader(channel, stream, "first", arguments={"x-priority": 1})


@leveret_only
@pytest.mark.parametrize("offset", ["bogus", "5x", True])
def test_an_offset_that_is_none_is_refused(channel, stream, offset):
    # RabbitMQ closes the connection with 541 INTERNAL_ERROR.
    text = (
        f"PRECONDITION_FAILED - invalid arg 'x-stream-offset' for queue '{stream}' in vhost '/': "
        "it is first, last, next, an offset, a timestamp, or an interval such as 1h"
    )
    with closes("channel", 406, text):
        reader(channel, stream, offset)


@rabbitmq_4
@leveret_only
def test_only_messages_that_match_are_delivered_where_that_is_asked_for(channel, stream):
    filling = interop.connect()
    publisher = filling.channel()
    publisher.tx_select()
    # One chunk has them all.
    for number in range(30):
        value = ["red", "blue", None][number % 3]
        headers = {"x-stream-filter-value": value} if value else None
        properties = pika.BasicProperties(headers=headers)
        publisher.basic_publish("", stream, b"%d" % number, properties)
    publisher.tx_commit()
    filling.close()
    arguments = {"x-stream-filter": "red", "x-stream-filter-messages": True}
    # Those that do not match take none of the prefetch.
    found, _ = reader(channel, stream, "first", prefetch=20, ack=False, arguments=arguments)
    interop.pump(channel.connection, lambda: len(found) == 10)
    assert offsets(found) == list(range(0, 30, 3))
    interop.settle_down(channel.connection)
    assert len(found) == 10


@rabbitmq_4  # Streams have filters since RabbitMQ 3.13: before, the argument says nothing.
def test_only_chunks_that_match_a_filter_are_delivered(connection, channel, stream):
    for value in ["red", "blue", None, "red"]:
        fill(stream, str(value), headers={"x-stream-filter-value": value} if value else None)
    found, _ = reader(channel, stream, "first", arguments={"x-stream-filter": "red"})
    interop.pump(connection, lambda: len(found) == 2)
    interop.settle_down(connection)
    assert texts(found) == ["red", "red"]
    arguments = {"x-stream-filter": ["blue"], "x-stream-match-unfiltered": True}
    found, _ = reader(connection.channel(), stream, "first", arguments=arguments)
    interop.pump(connection, lambda: len(found) == 2)
    assert texts(found) == ["blue", "None"]


def test_many_messages_in_order(connection, channel, stream):
    publisher = interop.connect()
    sender = publisher.channel()
    for number in range(20_000):
        sender.basic_publish("", stream, str(number).encode())
    publisher.close()
    found, _ = reader(channel, stream, "first", prefetch=500)
    interop.pump(connection, lambda: len(found) == 20_000, 25)
    assert offsets(found) == list(range(20_000))
    assert texts(found) == [str(number) for number in range(20_000)]
