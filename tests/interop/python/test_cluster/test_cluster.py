"""Any node serves any queue, and what was confirmed outlives any node."""

import threading
import time

import kombu
import leveret_interop as interop
import pika
import pytest

PERSISTENT = pika.BasicProperties(delivery_mode=2)
QUORUM = {"x-queue-type": "quorum"}


def drain(channel, queue, seconds=3):
    """Acknowledges all that the queue has until it has had nothing for a while."""
    bodies = []
    for method, _, body in channel.consume(queue, inactivity_timeout=seconds):
        if method is None:
            break
        channel.basic_ack(method.delivery_tag)
        bodies.append(body)
    channel.cancel()
    return bodies


def is_gone(nodes, queue):
    """Whether the first node knows no such queue: it hears of a deletion a moment later."""
    try:
        nodes.channel(0).queue_declare(queue, passive=True)
    except pika.exceptions.ChannelClosedByBroker as closed:
        return closed.reply_code == 404
    return False


def test_a_queue_is_used_from_every_node(nodes, arguments):
    channels = [nodes.channel(node) for node in range(3)]
    queue = interop.unique()
    channels[0].queue_declare(queue, durable=True, arguments=arguments)
    for number, channel in enumerate(channels):
        channel.confirm_delivery()
        for message in range(10):
            channel.basic_publish("", queue, f"{number}-{message}".encode(), PERSISTENT)
    for channel in channels:
        assert channel.queue_declare(queue, passive=True).method.message_count == 30
    taken = []
    for channel in channels:
        for _ in range(5):
            method, _, body = channel.basic_get(queue)
            channel.basic_ack(method.delivery_tag)
            taken.append(body)
    rest = drain(channels[1], queue, seconds=1)
    expected = [f"{number}-{message}".encode() for number in range(3) for message in range(10)]
    assert taken + rest == expected
    channels[2].queue_delete(queue)
    interop.until(lambda: is_gone(nodes, queue), what="the deletion at another node")


def test_bindings_made_at_one_node_route_at_another(nodes, arguments):
    first, second = nodes.channel(0), nodes.channel(1)
    exchange, queue = interop.unique("x"), interop.unique()
    first.exchange_declare(exchange, "topic", durable=True)
    second.queue_declare(queue, durable=True, arguments=arguments)
    second.queue_bind(queue, exchange, "a.*")
    third = nodes.channel(2)
    third.confirm_delivery()

    def is_routed():
        """Whether the third node has heard of the binding, which it does a moment later."""
        try:
            third.basic_publish(exchange, "a.b", b"there", PERSISTENT, mandatory=True)
        except pika.exceptions.UnroutableError:
            return False
        return True

    interop.until(is_routed, what="the binding at the third node")
    assert first.basic_get(queue, auto_ack=True)[2] == b"there"
    first.exchange_delete(exchange)
    first.queue_delete(queue)


def test_a_stream_that_is_led_does_not_count_as_a_queue_without_a_leader(nodes):
    channel, stream = nodes.channel(0), interop.unique("s")
    channel.queue_declare(stream, durable=True, arguments={"x-queue-type": "stream"})

    def leading():
        view = interop.http("GET", "/api/leveret/cluster")
        return view["leaders_unknown"], sum(node["queues_leading"] for node in view["nodes"])

    def is_well():
        check = "/api/health/checks/quorum-queues-without-elected-leaders/all-vhosts"
        return interop.http("GET", check)["status"] == "ok"

    interop.until(lambda: leading()[0] == 0, what="a leader of each")
    before = leading()[1]
    assert is_well()
    channel.queue_delete(stream)
    interop.until(lambda: leading() == (0, before - 1), what="the deletion of one that is led")


def test_limits_of_a_virtual_host_hold_for_all_nodes_together(nodes):
    vhost = interop.unique("limited")
    interop.http("PUT", f"/api/vhosts/{vhost}")
    interop.http("PUT", f"/api/vhost-limits/{vhost}/max-connections", {"value": 2})
    interop.until(lambda: nodes.ctl(2, "list_vhost_limits", "-p", vhost).count("max-connections"))
    first, _ = nodes.connect(0, vhost), nodes.connect(1, vhost)

    def is_refused():
        try:
            nodes.connect(2, vhost).close()
        except pika.exceptions.ProbableAccessDeniedError as refused:
            assert "connection limit (2) is reached" in str(refused)
            return True
        return False

    interop.until(is_refused, what="the third node to know of the connections at the others")
    # Who comes when another has gone is let in at once, wherever that was.
    for node in (2, 0, 1):
        first.close()
        first = nodes.connect(node, vhost)
    interop.http("DELETE", f"/api/vhosts/{vhost}")


def test_a_consumer_that_goes_gives_back_what_it_held_elsewhere(nodes, arguments):
    queue = interop.unique()
    publisher = nodes.channel(0)
    publisher.queue_declare(queue, durable=True, arguments=arguments)
    publisher.confirm_delivery()
    publisher.basic_publish("", queue, b"held", PERSISTENT)
    holder = nodes.connect(1)
    assert holder.channel().basic_get(queue)[2] == b"held"
    holder.close()
    other = nodes.channel(2)
    method, _, body = interop.until(lambda: (got := other.basic_get(queue))[0] and got)
    assert (body, method.redelivered) == (b"held", True)
    other.basic_ack(method.delivery_tag)
    publisher.queue_delete(queue)


def test_queues_of_subscribers_at_a_lost_node_hold_up_no_publisher_and_go(nodes):
    """Beside a durable queue an exchange leads to two of a node that dies and stays down: a client's
    exclusive one, and a transient one."""
    exchange, kept, shared = interop.unique("x"), interop.unique(), interop.unique()
    channel = nodes.channel(0)
    channel.exchange_declare(exchange, "fanout", durable=True)
    channel.queue_declare(kept, durable=True, arguments=QUORUM)
    subscriber = nodes.channel(2)
    own = subscriber.queue_declare("", exclusive=True).method.queue
    subscriber.queue_declare(shared)
    for queue in (kept, own, shared):
        subscriber.queue_bind(queue, exchange)
    publishers = [nodes.channel(node) for node in range(2)]
    for publisher in publishers:
        publisher.confirm_delivery()

    def is_taken(publisher):
        """Until its node has noticed, publishes to the lost node wait, and are refused then."""
        try:
            publisher.basic_publish(exchange, "", b"after", PERSISTENT)
        except pika.exceptions.NackError:
            return False
        return True

    nodes.control(2, "kill")
    try:
        for publisher in publishers:
            # Long before these queues are deleted.
            interop.until(lambda of=publisher: is_taken(of), 5, what="a confirm")
        interop.until(lambda: is_gone(nodes, shared), 30, what="the end of the transient queue")
        interop.until(lambda: is_gone(nodes, own), 30, what="the end of the exclusive queue")
        assert all(is_taken(publisher) for publisher in publishers)
    finally:
        nodes.control(2, "start")
    assert len(drain(channel, kept)) >= 4
    channel.exchange_delete(exchange)
    channel.queue_delete(kept)


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_what_was_confirmed_outlives_the_death_of_any_node(nodes, victim):
    """Publishers at the two other nodes go on while one is killed and comes back."""
    queue = interop.unique()
    others = [node for node in range(3) if node != victim]
    nodes.channel(others[0]).queue_declare(queue, durable=True, arguments=QUORUM)
    confirmed, ending = [[], []], threading.Event()

    def publish(number, node):
        channel = nodes.connect(node).channel()
        channel.confirm_delivery()
        message = 0
        while not ending.is_set():
            body = f"{number}-{message}".encode()
            channel.basic_publish("", queue, body, PERSISTENT)
            confirmed[number].append(body)
            message += 1

    threads = [
        threading.Thread(target=publish, args=(number, node)) for number, node in enumerate(others)
    ]
    for thread in threads:
        thread.start()
    try:
        interop.until(lambda: all(len(of) > 20 for of in confirmed), what="confirms")
        nodes.crash(victim)
        before = [len(of) for of in confirmed]
        interop.until(
            lambda: all(len(of) > count + 20 for of, count in zip(confirmed, before)),
            what="confirms after the death",
        )
    finally:
        ending.set()
        for thread in threads:
            thread.join(timeout=30)
    found = drain(nodes.channel(victim), queue)
    for number in range(2):
        of_one = [body for body in found if body.startswith(b"%d-" % number)]
        assert of_one == confirmed[number], "lost, doubled or out of order"
    nodes.channel(others[0]).queue_delete(queue)


def test_kombu_with_quorum_queues_at_each_node(nodes):
    name = interop.unique()
    exchange = kombu.Exchange(name, type="direct", durable=True)
    queue = kombu.Queue(name, exchange, routing_key="k", durable=True, queue_arguments=QUORUM)
    heard = []

    def on_message(body, message):
        heard.append(body)
        message.ack()

    options = {"confirm_publish": True}
    connections = [kombu.Connection(nodes.url(n), transport_options=options) for n in range(3)]
    for number, connection in enumerate(connections):
        with connection.Producer() as producer:
            for message in range(10):
                producer.publish(
                    {"from": number, "message": message},
                    exchange=exchange,
                    routing_key="k",
                    declare=[queue],
                    delivery_mode=2,
                )
    consumer = connections[2].Consumer(queue, callbacks=[on_message], prefetch_count=5)
    with consumer:
        deadline = time.monotonic() + 15
        while len(heard) < 30 and time.monotonic() < deadline:
            connections[2].drain_events(timeout=5)
    expected = [{"from": number, "message": m} for number in range(3) for m in range(10)]
    assert heard == expected
    queue(connections[1].default_channel).delete()
    for connection in connections:
        connection.release()
