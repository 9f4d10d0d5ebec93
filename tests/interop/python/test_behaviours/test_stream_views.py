"""Views of streams: queues whose messages are a stream's, each with what it has settled."""

import time
import urllib.error
from collections import Counter

import leveret_interop as interop
import pika
import pytest
from leveret_interop import closes, leveret_only, unique

pytestmark = leveret_only

STREAM = {"x-queue-type": "stream"}


@pytest.fixture
def stream(channel):
    name = unique("s")
    channel.queue_declare(name, durable=True, arguments=STREAM)
    yield name
    connection = interop.connect()
    connection.channel().queue_delete(name)
    connection.close()


def fill(stream, numbers):
    """Publishes with confirms, so that all is there afterwards."""
    connection = interop.connect()
    channel = connection.channel()
    channel.confirm_delivery()
    for number in numbers:
        channel.basic_publish("", stream, b"%d" % number)
    connection.close()


def view_of(channel, stream, durable=True, **arguments):
    name = unique("v")
    arguments = {argument.replace("_", "-"): value for argument, value in arguments.items()}
    channel.queue_declare(
        name, durable=durable, arguments={"x-stream-source": stream, **arguments}
    )
    return name


class Worker:
    """A consumer on a connection of its own, which says of each message what becomes of it."""

    def __init__(self, queue, decide, prefetch=50):
        self.connection = interop.connect()
        self.channel = self.connection.channel()
        self.channel.basic_qos(prefetch_count=prefetch)
        self.found = []
        self.decide = decide
        self.channel.basic_consume(queue, self.on_message)

    def on_message(self, channel, method, properties, body):
        number = int(body)
        self.found.append((number, method.redelivered, properties.headers["x-stream-offset"]))
        self.decide(channel, method.delivery_tag, number, method.redelivered)

    def numbers(self):
        return [number for number, _, _ in self.found]


def pump(workers, condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"nothing came within {seconds} s"
        for worker in workers:
            worker.connection.process_data_events(time_limit=0.02)


def accept(channel, tag, _number, _redelivered):
    channel.basic_ack(tag)


def hold(_channel, _tag, _number, _redelivered):
    pass


def test_two_views_each_give_every_message_to_one_of_their_consumers(channel, stream):
    fill(stream, range(1_000))
    views = [view_of(channel, stream) for _ in range(2)]
    for view in views:
        interop.await_count(channel, view, 1_000)
    workers = [[Worker(view, accept) for _ in range(2)] for view in views]
    every = [worker for pair in workers for worker in pair]
    pump(every, lambda: all(sum(len(w.found) for w in pair) >= 1_000 for pair in workers))
    for pair in workers:
        numbers = [number for worker in pair for number in worker.numbers()]
        assert sorted(numbers) == list(range(1_000))
        assert all(worker.found for worker in pair), "both had some"
        assert all(number == offset for w in pair for number, _, offset in w.found)
    for view in views:
        interop.await_count(channel, view, 0)
    # What comes later is delivered as it comes.
    fill(stream, range(1_000, 1_010))
    pump(every, lambda: all(sum(len(w.found) for w in pair) >= 1_010 for pair in workers))
    for worker in every:
        worker.connection.close()


def test_what_is_requeued_comes_again_and_what_is_rejected_is_dead_lettered(channel, stream):
    fill(stream, range(100))
    dead = unique("dead")
    channel.queue_declare(dead, durable=True)
    view = view_of(
        channel, stream, x_dead_letter_exchange="", x_dead_letter_routing_key=dead
    )

    def decide(channel, tag, number, redelivered):
        if number % 10 == 3:
            channel.basic_reject(tag, requeue=False)
        elif number % 10 == 5 and not redelivered:
            channel.basic_nack(tag, requeue=True)
        else:
            channel.basic_ack(tag)

    worker = Worker(view, decide)
    pump([worker], lambda: len(worker.found) >= 110)
    again = [number for number, redelivered, _ in worker.found if redelivered]
    assert sorted(again) == list(range(5, 100, 10))
    assert set(Counter(worker.numbers()).values()) == {1, 2}
    worker.connection.close()
    interop.await_count(channel, dead, 10)
    method, properties, body = interop.get(channel, dead)
    death = properties.headers["x-death"][0]
    assert (body, death["queue"], death["reason"]) == (b"3", view, "rejected")
    interop.await_count(channel, view, 0)


@pytest.mark.timeout(150)
def test_after_a_kill_the_unsettled_come_again_and_the_settled_do_not():
    channel = interop.connect().channel()
    name = unique("s")
    channel.queue_declare(name, durable=True, arguments=STREAM)
    fill(name, range(1_000))
    view = view_of(channel, name)

    def decide(channel, tag, number, _redelivered):
        if number < 500 and number % 7:
            channel.basic_ack(tag)

    worker = Worker(view, decide, prefetch=200)
    pump([worker], lambda: max(worker.numbers(), default=0) >= 599)
    # Settlements are written behind; give them the time that any disk needs.
    time.sleep(1.0)
    interop.control("crash")
    channel = interop.connect().channel()
    unsettled = {number for number in range(1_000) if number >= 500 or number % 7 == 0}
    interop.await_count(channel, view, len(unsettled))
    had = set(worker.numbers())
    worker = Worker(view, accept)
    pump([worker], lambda: len(worker.found) >= len(unsettled))
    assert worker.numbers() == sorted(unsettled)
    flagged = {number for number, redelivered, _ in worker.found if redelivered}
    assert had & unsettled <= flagged, "what was delivered before is flagged"
    fill(name, [5_000])
    pump([worker], lambda: worker.numbers()[-1] == 5_000)
    worker.connection.close()
    # An orderly restart flags nothing that was never delivered.
    fill(name, range(6_000, 6_010))
    interop.control("restart")
    worker = Worker(view, accept)
    pump([worker], lambda: len(worker.found) >= 10)
    assert [(n, r) for n, r, _ in worker.found] == [(n, False) for n in range(6_000, 6_010)]
    worker.connection.close()
    interop.connect().channel().queue_delete(name)


def test_a_delivery_limit_ends_what_comes_back_again_and_again(channel, stream):
    fill(stream, range(3))
    view = view_of(channel, stream, x_delivery_limit=2)

    def decide(channel, tag, number, _redelivered):
        if number == 1:
            channel.basic_reject(tag, requeue=True)
        else:
            channel.basic_ack(tag)

    worker = Worker(view, decide)
    pump([worker], lambda: Counter(worker.numbers()) == {0: 1, 1: 3, 2: 1})
    interop.await_count(channel, view, 0)
    worker.connection.close()


def test_a_view_begins_where_it_is_told(channel, stream):
    fill(stream, range(10))
    after_seven = view_of(channel, stream, x_stream_offset=7)
    later = view_of(channel, stream, x_stream_offset="next")
    interop.await_count(channel, after_seven, 3)
    fill(stream, range(10, 12))
    interop.await_count(channel, later, 2)
    assert interop.bodies(channel, after_seven) == ["7", "8", "9", "10", "11"]
    assert interop.bodies(channel, later) == ["10", "11"]


def test_gets_and_purges(channel, stream):
    fill(stream, range(20))
    view = view_of(channel, stream)
    method, properties, body = channel.basic_get(view)
    assert (body, properties.headers["x-stream-offset"]) == (b"0", 0)
    channel.basic_nack(method.delivery_tag, requeue=True)
    method, _, body = channel.basic_get(view)
    assert (body, method.redelivered) == (b"0", True)
    channel.basic_ack(method.delivery_tag)
    assert channel.queue_purge(view).method.message_count == 19
    assert channel.basic_get(view)[0] is None
    fill(stream, [20])
    assert interop.get(channel, view)[2] == b"20"


def test_nothing_is_published_or_bound_to_a_view(channel, stream):
    view = view_of(channel, stream)
    text = (
        f"PRECONDITION_FAILED - queue '{view}' in vhost '/' is a view of the stream '{stream}': "
        "publish to the stream"
    )
    with closes("channel", 406, text):
        channel.basic_publish("", view, b"no")
        channel.queue_declare(view, passive=True)
    # An alternate exchange may be the default one.
    channel = interop.connect().channel()
    exchange = unique("nowhere")
    alternate = {"alternate-exchange": ""}
    channel.exchange_declare(exchange, "fanout", auto_delete=True, arguments=alternate)
    with closes("channel", 406, text):
        channel.basic_publish(exchange, view, b"no")
        channel.queue_declare(view, passive=True)
    channel = interop.connect().channel()
    channel.exchange_delete(exchange)
    text = (
        f"PRECONDITION_FAILED - queue '{view}' in vhost '/' is a view of the stream '{stream}': "
        "nothing is bound to a view, bind the stream"
    )
    with closes("channel", 406, text):
        channel.queue_bind(view, "amq.topic", "#")


@pytest.mark.parametrize(
    ("argument", "value"),
    [("x-message-ttl", 1_000), ("x-max-length", 10), ("x-max-priority", 3), ("x-max-age", "1D")],
)
def test_arguments_that_are_the_streams_are_refused(channel, stream, argument, value):
    view = unique("v")
    text = (
        f"PRECONDITION_FAILED - invalid arg '{argument}' for queue '{view}' in vhost '/', which "
        "is a view of a stream: a view does not take this argument; set it on the stream, or leave it "
        "out"
    )
    with closes("channel", 406, text):
        channel.queue_declare(
            view, durable=True, arguments={"x-stream-source": stream, argument: value}
        )


def test_a_view_needs_a_stream_and_goes_with_it(channel):
    view, stream = unique("v"), unique("s")
    arguments = {"x-stream-source": stream}
    with closes("channel", 404, f"NOT_FOUND - no queue '{stream}' in vhost '/'"):
        channel.queue_declare(view, durable=True, arguments=arguments)
    channel = interop.connect().channel()
    channel.queue_declare(stream, durable=True, arguments=STREAM)
    fill(stream, range(3))
    channel.queue_declare(view, durable=True, arguments=arguments)
    cancelled = []
    channel.add_on_cancel_callback(cancelled.append)
    found = []
    channel.basic_consume(view, lambda *delivery: found.append(delivery))
    interop.pump(channel.connection, lambda: len(found) == 3)
    interop.connect().channel().queue_delete(stream)
    interop.pump(channel.connection, lambda: cancelled)
    with closes("channel", 404, f"NOT_FOUND - no queue '{view}' in vhost '/'"):
        channel.queue_declare(view, passive=True)


def test_an_operator_sees_what_waits_and_what_is_held(channel, stream):
    fill(stream, range(30))
    view = view_of(channel, stream)
    worker = Worker(view, hold, prefetch=10)
    pump([worker], lambda: len(worker.found) == 10)

    def figures():
        queue = interop.http("GET", f"/api/queues/%2F/{view}")
        return queue["messages_ready"], queue["messages_unacknowledged"], queue["consumers"]

    interop.until(lambda: figures() == (20, 10, 1))
    queue = interop.http("GET", f"/api/queues/%2F/{view}")
    assert queue["type"] == "classic"
    assert queue["arguments"]["x-stream-source"] == stream
    worker.connection.close()
    interop.until(lambda: figures() == (30, 0, 0))


def test_an_operator_puts_nothing_into_a_view(channel, stream):
    view = view_of(channel, stream)
    queue = unique("q")
    channel.queue_declare(queue)
    message = {"properties": {}, "routing_key": view, "payload": "", "payload_encoding": "string"}
    for path, body in (
        ("/api/exchanges/%2F/amq.default/publish", message),
        (f"/api/leveret/queues/%2F/{queue}/moves", {"to": view}),
    ):
        with pytest.raises(urllib.error.HTTPError) as refused:
            interop.http("POST", path, body)
        assert refused.value.code == 400
        assert "publish to the stream" in refused.value.read().decode()
    channel.queue_delete(queue)
    channel.queue_delete(view)
