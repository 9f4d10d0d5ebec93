"""Views of a replicated stream in a cluster: the stream's leader dies, and the node of the view."""

import contextlib
import time

import leveret_interop as interop
import pika
from leveret_quorum import LEADER, OTHER

#: The node that has the view, which does not lead the stream.
VIEW = 2
MESSAGES = 600


def fill(nodes, stream, numbers):
    """Publishes with confirms at a node that stays; again what the loss of the leader leaves open."""
    channel = nodes.channel(OTHER)
    channel.confirm_delivery()
    for number in numbers:
        deadline = time.monotonic() + 40
        while True:
            try:
                channel.basic_publish("", stream, b"%d" % number)
                break
            except (pika.exceptions.NackError, pika.exceptions.UnroutableError):
                assert time.monotonic() < deadline, "the stream takes nothing"
                time.sleep(0.1)


#: What makes a view one that is on several nodes, and led by the node that it is declared at.
QUORUM = {"x-queue-type": "quorum", "x-queue-leader-locator": "client-local"}


def declared(nodes, of_view=None):
    """A stream of three replicas that the first node leads, and a view of it at another node."""
    stream, view = interop.unique("stream"), interop.unique("view")
    arguments = {"x-queue-type": "stream", "x-queue-leader-locator": "client-local"}
    nodes.channel(LEADER).queue_declare(stream, durable=True, arguments=arguments)

    def declare():
        with contextlib.suppress(pika.exceptions.ChannelClosedByBroker):
            arguments = {"x-stream-source": stream, **(of_view or {})}
            nodes.channel(VIEW).queue_declare(view, durable=True, arguments=arguments)
            return True

    interop.until(declare, what="the view's declaration")
    return stream, view


class Worker:
    """A consumer of a view, on a connection that it makes anew when it is lost."""

    def __init__(self, nodes, view, node, prefetch=50):
        self.nodes, self.view, self.node, self.prefetch = nodes, view, node, prefetch
        self.settled, self.again = [], []
        self.connection = None

    def consume(self):
        self.connection = self.nodes.connect(self.node)
        channel = self.connection.channel()
        channel.basic_qos(prefetch_count=self.prefetch)
        channel.basic_consume(self.view, self.on_message)

    def on_message(self, channel, method, properties, body):
        offset = properties.headers["x-stream-offset"]
        self.settled.append((offset, int(body)))
        if method.redelivered:
            self.again.append(offset)
        channel.basic_ack(method.delivery_tag)

    def work(self, condition, seconds=60):
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"{len(self.settled)} came within {seconds} s"
            try:
                if self.connection is None:
                    self.consume()
                self.connection.process_data_events(time_limit=0.05)
            except (pika.exceptions.AMQPError, OSError):
                self.connection = None
                time.sleep(0.1)

    def numbers(self):
        return {number for _, number in self.settled}

    def deliveries_of(self, numbers):
        numbers = set(numbers)
        return sum(number in numbers for _, number in self.settled)


def has_all(worker, count):
    return lambda: worker.numbers() >= set(range(count))


def test_a_view_goes_on_when_the_leader_of_its_stream_is_killed(nodes):
    stream, view = declared(nodes)
    fill(nodes, stream, range(MESSAGES))
    worker = Worker(nodes, view, VIEW)
    worker.work(has_all(worker, MESSAGES))
    time.sleep(0.1)
    nodes.crash(LEADER)
    fill(nodes, stream, range(MESSAGES, 2 * MESSAGES))
    worker.work(has_all(worker, 2 * MESSAGES))
    # The view's node lived: what was settled does not come again.
    assert worker.deliveries_of(range(MESSAGES)) == MESSAGES
    by_offset = dict(worker.settled)
    assert len(by_offset) == len(worker.settled), "an offset is one message"
    nodes.channel(OTHER).queue_delete(stream)


def test_a_view_whose_node_is_killed_loses_nothing_and_keeps_what_was_settled(nodes):
    stream, view = declared(nodes)
    fill(nodes, stream, range(MESSAGES))
    # At another node than the view's, which carries what is said to the view.
    worker = Worker(nodes, view, OTHER)
    worker.work(lambda: len(worker.settled) >= MESSAGES // 2)
    # What is settled is on disk after 5 ms; what comes until then may come again, flagged.
    settled = len(worker.settled)
    time.sleep(0.2)
    nodes.crash(VIEW)
    worker.connection = None
    fill(nodes, stream, range(MESSAGES, MESSAGES + 100))
    worker.work(has_all(worker, MESSAGES + 100), 90)
    again = [o for o in worker.again if o in {offset for offset, _ in worker.settled[:settled]}]
    # At most what one prefetch had on its way.
    assert len(again) <= worker.prefetch, again
    nodes.channel(OTHER).queue_delete(stream)


def test_a_quorum_view_keeps_what_was_settled_whichever_node_is_killed(nodes):
    stream, view = declared(nodes, QUORUM)
    fill(nodes, stream, range(MESSAGES))
    worker = Worker(nodes, view, OTHER)
    worker.work(lambda: len(worker.settled) >= MESSAGES // 2)
    # The worker lives, and so does its node, which keeps what the leader had not committed.
    nodes.crash(VIEW)
    fill(nodes, stream, range(MESSAGES, MESSAGES + 100))
    worker.work(has_all(worker, MESSAGES + 100), 90)
    nodes.crash(LEADER)
    fill(nodes, stream, range(MESSAGES + 100, MESSAGES + 200))
    worker.work(has_all(worker, MESSAGES + 200), 90)
    assert worker.deliveries_of(range(MESSAGES)) == MESSAGES, "what was settled came again"
    by_offset = dict(worker.settled)
    assert len(by_offset) == len(worker.settled), "an offset is one message"
    nodes.channel(OTHER).queue_delete(stream)


def test_what_is_published_over_http_is_confirmed_by_a_stream_wherever_it_is_led(nodes):
    for at in (LEADER, OTHER):
        stream, exchange = interop.unique("stream"), interop.unique("all")
        arguments = {"x-queue-type": "stream", "x-queue-leader-locator": "client-local"}
        channel = nodes.channel(at)
        channel.queue_declare(stream, durable=True, arguments=arguments)
        channel.exchange_declare(exchange, "fanout")
        channel.queue_bind(stream, exchange)
        fill(nodes, stream, range(1))
        for number in range(1, 20):
            body = {"properties": {}, "routing_key": "", "payload": str(number), "payload_encoding": "string"}
            answer = interop.http("POST", f"/api/exchanges/%2F/{exchange}/publish", body)
            assert answer == {"routed": True}
        # All are in the stream already: its end is where the answers say that it is.
        read = []
        channel.basic_qos(prefetch_count=50)
        channel.basic_consume(
            stream,
            lambda _channel, *delivery: read.append(int(delivery[2])),  # noqa: B023
            arguments={"x-stream-offset": "first"},
        )
        interop.pump(channel.connection, lambda: len(read) >= 20)  # noqa: B023
        assert read == list(range(20))
        channel.queue_delete(stream)
        channel.exchange_delete(exchange)


def test_readers_of_a_stream_are_counted_at_all_nodes(nodes):
    stream = interop.unique("stream")
    arguments = {"x-queue-type": "stream", "x-queue-leader-locator": "client-local"}
    nodes.channel(OTHER).queue_declare(stream, durable=True, arguments=arguments)
    fill(nodes, stream, range(1))
    for at in (LEADER, OTHER, VIEW, VIEW):
        channel = nodes.channel(at)
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume(stream, lambda *_: None)
    one = f"/api/queues/%2F/{stream}"
    interop.until(lambda: interop.http("GET", one)["consumers"] == 4, what="four consumers")
    shown = interop.http("GET", one)
    assert len(shown["consumer_details"]) == 4
    assert sorted(shown["readers"].values()) == [1, 1, 2]
    listed = interop.http("GET", f"/api/queues/%2F?name={stream}&page=1")["items"][0]
    assert (listed["consumers"], listed["readers"]) == (4, shown["readers"])
    nodes.channel(OTHER).queue_delete(stream)
