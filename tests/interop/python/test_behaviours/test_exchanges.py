"""Routing by each type of exchange, between exchanges, and past them."""

import collections

import leveret_interop as interop
import pika
import pytest
from leveret_interop import leveret_only, unique


@pytest.fixture
def bind(channel):
    """Gives a function that binds a new exclusive queue to an exchange."""

    def make(exchange, key="", arguments=None):
        queue = unique()
        channel.queue_declare(queue, exclusive=True)
        channel.queue_bind(queue, exchange, key, arguments)
        return queue

    return make


def routed(channel, queues):
    """Which of the queues got something; empties them."""
    return [bool(interop.bodies(channel, queue)) for queue in queues]


def publish(channel, exchange, key="", **properties):
    if not channel._delivery_confirmation:  # noqa: SLF001
        channel.confirm_delivery()
    channel.basic_publish(exchange, key, b"x", pika.BasicProperties(**properties))


def test_direct(channel, exchange, bind):
    name = exchange(channel, "direct")
    queues = [bind(name, "a"), bind(name, "a"), bind(name, "b"), bind(name, "")]
    publish(channel, name, "a")
    assert routed(channel, queues) == [True, True, False, False]
    publish(channel, name, "")
    assert routed(channel, queues) == [False, False, False, True]


def test_fanout(channel, exchange, bind):
    name = exchange(channel, "fanout")
    queues = [bind(name, "a"), bind(name, "b")]
    publish(channel, name, "c")
    assert routed(channel, queues) == [True, True]


TOPICS = [
    ("a.b", "a.b", True),
    ("a.*", "a.b", True),
    ("a.*", "a", False),
    ("a.*", "a.b.c", False),
    ("a.#", "a", True),
    ("a.#", "a.b.c", True),
    ("#", "", True),
    ("#", "a.b", True),
    # The empty key has no word at all; a key of one dot has two.
    ("*", "", False),
    ("*", "a", True),
    ("*.*", ".", True),
    ("#.b", "b", True),
    ("#.b", "a.a.b", True),
    ("#.b", "b.a", False),
    ("a.#.b", "a.b", True),
    ("a.#.b", "a.x.y.b", True),
    ("a.#.b", "a.x.y", False),
    ("*.#.*", "a", False),
    ("*.#.*", "a.b", True),
    ("a..b", "a..b", True),
    ("a.*.b", "a..b", True),
    ("a*", "ab", False),
    ("a*", "a*", True),
    ("A.b", "a.b", False),
]


@pytest.mark.parametrize(("pattern", "key", "matches"), TOPICS)
def test_topic(channel, exchange, bind, pattern, key, matches):
    name = exchange(channel, "topic")
    queue = bind(name, pattern)
    publish(channel, name, key)
    assert routed(channel, [queue]) == [matches]


def test_several_matching_bindings_give_one_copy(channel, exchange):
    name = exchange(channel, "topic")
    queue = channel.queue_declare("", exclusive=True).method.queue
    for pattern in ("a.b", "a.*", "#"):
        channel.queue_bind(queue, name, pattern)
    publish(channel, name, "a.b")
    assert interop.bodies(channel, queue) == ["x"]


HEADERS = [
    ({"x-match": "all", "a": 1, "b": "two"}, {"a": 1, "b": "two", "c": 3}, True),
    ({"x-match": "all", "a": 1, "b": "two"}, {"a": 1}, False),
    ({"a": 1}, {"a": 1}, True),
    ({"a": 1}, {"a": 2}, False),
    ({"x-match": "any", "a": 1, "b": 2}, {"b": 2}, True),
    ({"x-match": "any", "a": 1, "b": 2}, {"a": 9, "b": 9}, False),
    ({"x-match": "all", "a": None}, {"a": "anything"}, True),
    ({"x-match": "all", "a": None}, {"b": 1}, False),
    ({"x-match": "all", "x-a": 1, "b": 2}, {"b": 2}, True),
    ({"x-match": "any", "x-a": 1}, {"x-a": 1}, False),
    ({"x-match": "all-with-x", "x-a": 1, "b": 2}, {"b": 2}, False),
    ({"x-match": "all-with-x", "x-a": 1, "b": 2}, {"x-a": 1, "b": 2}, True),
    ({"x-match": "any-with-x", "x-a": 1}, {"x-a": 1}, True),
    ({"x-match": "all", "a": "1"}, {"a": 1}, False),
    ({"x-match": "all"}, {"a": 1}, True),
    ({"x-match": "any"}, {"a": 1}, False),
]


@pytest.mark.parametrize(("arguments", "headers", "matches"), HEADERS)
def test_headers(channel, exchange, bind, arguments, headers, matches):
    name = exchange(channel, "headers")
    queue = bind(name, "", arguments)
    publish(channel, name, headers=headers)
    assert routed(channel, [queue]) == [matches]


def test_headers_with_a_bad_match(channel, exchange, queue):
    name = exchange(channel, "headers")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.queue_bind(queue, name, "", {"x-match": "some"})
    assert caught.value.reply_code == 406
    assert caught.value.reply_text.startswith("PRECONDITION_FAILED - Invalid x-match field value")


def test_exchange_to_exchange(channel, exchange, bind):
    first, second = exchange(channel, "topic"), exchange(channel, "fanout")
    channel.exchange_bind(second, first, "a.#")
    queue = bind(second)
    publish(channel, first, "a.b")
    assert routed(channel, [queue]) == [True]
    publish(channel, first, "b")
    assert routed(channel, [queue]) == [False]
    channel.exchange_unbind(second, first, "a.#")
    publish(channel, first, "a.b")
    assert routed(channel, [queue]) == [False]


def test_a_cycle_of_exchanges_gives_one_copy(channel, exchange, bind):
    first, second, third = (exchange(channel, "fanout") for _ in range(3))
    channel.exchange_bind(second, first)
    channel.exchange_bind(third, second)
    channel.exchange_bind(first, third)
    channel.exchange_bind(first, first)
    queue = bind(second)
    publish(channel, first)
    assert interop.bodies(channel, queue) == ["x"]


def test_alternate_exchange(channel, exchange, bind):
    other = exchange(channel, "fanout")
    queue = bind(other)
    name = exchange(channel, "direct", arguments={"alternate-exchange": other})
    known = bind(name, "known")
    publish(channel, name, "known")
    assert routed(channel, [queue, known]) == [False, True]
    channel.basic_publish(name, "unknown", b"x", mandatory=True)
    method, _, _ = interop.get(channel, queue)
    assert (method.exchange, method.routing_key) == (name, "unknown")


def test_a_cycle_of_alternates_ends(channel, exchange):
    first, second = unique("x"), unique("x")
    channel.exchange_declare(first, "direct", arguments={"alternate-exchange": second})
    channel.exchange_declare(second, "direct", arguments={"alternate-exchange": first})
    channel.confirm_delivery()
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish(first, "k", b"x", mandatory=True)
    channel.exchange_delete(first)
    channel.exchange_delete(second)


def test_internal_exchange_routes_what_is_bound_to_it(channel, exchange, bind):
    inner = exchange(channel, "fanout", internal=True)
    outer = exchange(channel, "fanout")
    channel.exchange_bind(inner, outer)
    queue = bind(inner)
    publish(channel, outer)
    assert routed(channel, [queue]) == [True]


def test_auto_delete_exchange(connection, channel, queue):
    name = unique("x")
    channel.exchange_declare(name, "direct", auto_delete=True)
    channel.queue_bind(queue, name, "k")
    channel.queue_unbind(queue, name, "k")
    with interop.closes("channel", 404, f"NOT_FOUND - no exchange '{name}' in vhost '/'"):
        channel.exchange_declare(name, passive=True)


def test_deleting_an_exchange_unbinds(channel, exchange, queue):
    name = exchange(channel, "direct")
    channel.queue_bind(queue, name, "k")
    channel.exchange_delete(name)
    channel.exchange_declare(name, "direct")
    publish(channel, name, "k")
    assert interop.count(channel, queue) == 0


def test_bindings_differ_by_arguments(channel, exchange, queue):
    name = exchange(channel, "headers")
    channel.queue_bind(queue, name, "", {"a": 1})
    channel.queue_bind(queue, name, "", {"a": 2})
    channel.queue_unbind(queue, name, "", {"a": 1})
    publish(channel, name, headers={"a": 1})
    assert interop.count(channel, queue) == 0
    publish(channel, name, headers={"a": 2})
    assert interop.count(channel, queue) == 1


def test_binding_twice_is_one_binding(channel, exchange, queue):
    name = exchange(channel, "direct")
    channel.queue_bind(queue, name, "k")
    channel.queue_bind(queue, name, "k")
    publish(channel, name, "k")
    assert interop.bodies(channel, queue) == ["x"]
    channel.queue_unbind(queue, name, "k")
    publish(channel, name, "k")
    assert interop.count(channel, queue) == 0


def test_default_exchange_routes_by_queue_name(channel, queue):
    publish(channel, "", queue)
    assert interop.bodies(channel, queue) == ["x"]


def test_consistent_hash(channel, exchange, bind):
    name = exchange(channel, "x-consistent-hash")
    light, heavy = bind(name, "1"), bind(name, "3")
    for number in range(400):
        publish(channel, name, f"key-{number}")
    counts = [len(interop.bodies(channel, queue)) for queue in (light, heavy)]
    assert sum(counts) == 400
    assert 0.12 < counts[0] / 400 < 0.42, counts


def test_consistent_hash_keeps_a_key_in_its_queue(channel, exchange, bind):
    name = exchange(channel, "x-consistent-hash")
    queues = [bind(name, "1") for _ in range(4)]
    for _ in range(3):
        publish(channel, name, "same")
    counts = [len(interop.bodies(channel, queue)) for queue in queues]
    assert sorted(counts) == [0, 0, 0, 3]


@pytest.mark.parametrize(
    ("arguments", "vary"),
    [
        ({"hash-header": "h"}, lambda number: {"headers": {"h": str(number)}}),
        ({"hash-property": "message_id"}, lambda number: {"message_id": str(number)}),
        ({"hash-property": "correlation_id"}, lambda number: {"correlation_id": str(number)}),
    ],
)
def test_consistent_hash_by_something_else(channel, exchange, bind, arguments, vary):
    name = exchange(channel, "x-consistent-hash", arguments=arguments)
    queues = [bind(name, "1") for _ in range(2)]
    for number in range(60):
        publish(channel, name, "same", **vary(number))
    counts = [len(interop.bodies(channel, queue)) for queue in queues]
    assert sum(counts) == 60
    assert min(counts) > 5, counts


def test_random(channel, exchange, bind):
    name = exchange(channel, "x-random")
    queues = [bind(name) for _ in range(2)]
    for _ in range(60):
        publish(channel, name)
    counts = [len(interop.bodies(channel, queue)) for queue in queues]
    assert sum(counts) == 60
    assert min(counts) > 5, counts


@leveret_only
@pytest.mark.parametrize("kind", ["x-modulus-hash", "x-local-random"])
def test_one_queue_gets_each_message(channel, exchange, bind, kind):
    name = exchange(channel, kind)
    queues = [bind(name) for _ in range(3)]
    for number in range(90):
        publish(channel, name, f"key-{number}")
    counts = [len(interop.bodies(channel, queue)) for queue in queues]
    assert sum(counts) == 90
    assert min(counts) > 5, counts


def test_recent_history(channel, exchange, bind):
    name = exchange(channel, "x-recent-history", arguments={"x-recent-history-length": 2})
    early = bind(name)
    channel.confirm_delivery()
    for text in ("a", "b", "c"):
        channel.basic_publish(name, "", text.encode())
    channel.basic_publish(
        name, "", b"kept out", pika.BasicProperties(headers={"x-recent-history-no-store": True})
    )
    late = bind(name)
    interop.await_count(channel, late, 2)
    assert collections.Counter(interop.bodies(channel, late)) == {"b": 1, "c": 1}
    assert len(interop.bodies(channel, early)) == 4


@leveret_only
def test_delayed_message(channel, exchange, bind):
    name = exchange(channel, "x-delayed-message", arguments={"x-delayed-type": "topic"})
    queue = bind(name, "a.*")
    channel.confirm_delivery()
    for text, delay in (("late", 600), ("soon", 200), ("now", 0)):
        headers = {"x-delay": delay} if delay else {}
        properties = pika.BasicProperties(headers=headers)
        channel.basic_publish(name, "a.b", text.encode(), properties)
    assert interop.bodies(channel, queue) == ["now"]
    got = [interop.get(channel, queue) for _ in range(2)]
    assert [body for _, _, body in got] == [b"soon", b"late"]
    # pika reads 64-bit integers as unsigned.
    delays = [properties.headers["x-delay"] for _, properties, _ in got]
    assert [delay - 2**64 if delay > 2**63 else delay for delay in delays] == [-200, -600]


@leveret_only
def test_delayed_message_wants_a_type(channel):
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.exchange_declare(unique("x"), "x-delayed-message")
    assert caught.value.reply_code == 406


def test_firehose(channel, queue, bind):
    copies = bind("amq.rabbitmq.trace", "#")
    interop.control("ctl", "trace_on")
    try:
        channel.confirm_delivery()
        channel.basic_publish("", queue, b"traced", pika.BasicProperties(message_id="m"))
        assert interop.get(channel, queue)[2] == b"traced"
        interop.await_count(channel, copies, 2)
        published = interop.get(channel, copies)
        delivered = interop.get(channel, copies)
    finally:
        interop.control("ctl", "trace_off")
    assert published[0].routing_key == "publish."
    assert delivered[0].routing_key == f"deliver.{queue}"
    assert published[2] == delivered[2] == b"traced"
    headers = published[1].headers
    assert headers["routed_queues"] == [queue]
    assert headers["properties"]["message_id"] == "m"
    assert (headers["exchange_name"], headers["routing_keys"]) == ("", [queue])
    assert (headers["vhost"], headers["user"], headers["channel"]) == ("/", "guest", 1)
    assert delivered[1].headers["redelivered"] == 0


def test_firehose_copies_what_is_got_over_http(channel, queue, bind):
    copies = bind("amq.rabbitmq.trace", "deliver.#")
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"traced")
    interop.control("ctl", "trace_on")
    try:
        asked = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
        interop.http("POST", f"/api/queues/%2F/{queue}/get", asked)
        interop.await_count(channel, copies, 1)
        delivered = interop.get(channel, copies)
    finally:
        interop.control("ctl", "trace_off")
    assert delivered[0].routing_key == f"deliver.{queue}"
    assert delivered[2] == b"traced"
    assert delivered[1].headers["user"] == "guest"
