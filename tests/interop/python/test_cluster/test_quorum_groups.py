"""What quorum queues refuse, who consumes from them and who is a member."""

import json
import urllib.error

import leveret_interop as interop
import pika
import pytest
from leveret_quorum import (
    LEADER,
    NACK,
    OTHER,
    await_texts,
    consume,
    counts,
    give_back,
    leaders,
    send,
    take,
    texts,
)

# What it refuses


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        ({"durable": False}, 406, "invalid property 'non-durable' for queue '{}' in vhost '/'"),
        (
            {"durable": True, "exclusive": True},
            406,
            "invalid property 'exclusive-owner' for queue '{}' in vhost '/'",
        ),
        (
            {"durable": True, "auto_delete": True},
            406,
            "invalid property 'auto-delete' for queue '{}' in vhost '/'",
        ),
    ],
)
def test_what_a_quorum_queue_cannot_be(channel, options, code, text):
    queue = interop.unique()
    with interop.closes("channel", code, "PRECONDITION_FAILED - " + text.format(queue)):
        channel.queue_declare(queue, arguments={"x-queue-type": "quorum"}, **options)


def test_a_quorum_queue_has_a_name(channel):
    text = "PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_quorum_queue"
    with interop.closes("channel", 406, text):
        channel.queue_declare("", durable=True, arguments={"x-queue-type": "quorum"})


@pytest.mark.parametrize(
    ("kind", "argument", "value", "text"),
    [
        ("quorum", "x-queue-mode", "lazy", "of queue type rabbit_quorum_queue"),
        ("quorum", "x-queue-version", 2, "of queue type rabbit_quorum_queue"),
        ("quorum", "x-max-age", "7D", "of queue type rabbit_quorum_queue"),
        ("classic", "x-delivery-limit", 3, "of queue type rabbit_classic_queue"),
        ("classic", "x-delayed-retry-type", "all", "of queue type rabbit_classic_queue"),
        ("classic", "x-quorum-initial-group-size", 3, "of queue type rabbit_classic_queue"),
        ("classic", "x-dead-letter-strategy", "at-most-once", "of queue type rabbit_classic_queue"),
    ],
)
def test_arguments_of_another_type_of_queue(channel, kind, argument, value, text):
    queue = interop.unique()
    text = f"PRECONDITION_FAILED - invalid arg '{argument}' for queue '{queue}' in vhost '/' {text}"
    with interop.closes("channel", 406, text):
        arguments = {"x-queue-type": kind, argument: value}
        channel.queue_declare(queue, durable=True, arguments=arguments)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("x-delivery-limit", "many"),
        ("x-overflow", "drop-tail"),
        ("x-dead-letter-strategy", "never"),
        ("x-quorum-initial-group-size", 0),
        ("x-quorum-initial-group-size", -1),
        ("x-quorum-initial-group-size", "3"),
        ("x-queue-leader-locator", "nowhere"),
        ("x-delayed-retry-type", "sometimes"),
        ("x-delayed-retry-min", -1),
        ("x-consumer-timeout", -1),
        ("x-max-length", -1),
        ("x-single-active-consumer", "yes"),
    ],
)
def test_values_that_an_argument_cannot_have(channel, argument, value):
    queue = interop.unique()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        arguments = {"x-queue-type": "quorum", argument: value}
        channel.queue_declare(queue, durable=True, arguments=arguments)
    assert caught.value.reply_code == 406
    start = f"PRECONDITION_FAILED - invalid arg '{argument}' for queue '{queue}' in vhost '/': "
    assert caught.value.reply_text.startswith(start)


def test_what_needs_no_effect_is_accepted(declare, channel):
    queue = declare(
        max_in_memory_length=1,
        max_in_memory_bytes=1,
        max_priority=3,
        overflow="reject-publish-dlx",
        consumer_disconnected_timeout=1000,
    )
    send(channel, queue, "a", priority=1)
    send(channel, queue, "b", priority=9)
    assert interop.bodies(channel, queue) == ["b", "a"]


@pytest.mark.parametrize(
    ("arguments", "differs"),
    [
        (
            {"x-queue-type": "classic"},
            "'x-queue-type' for queue '{}' in vhost '/': received 'classic' but current is "
            "'quorum'",
        ),
        (
            {},
            "'x-queue-type' for queue '{}' in vhost '/': received none but current is the value "
            "'quorum' of type 'longstr'",
        ),
        (
            {"x-queue-type": "quorum", "x-delivery-limit": 4},
            "'x-delivery-limit' for queue '{}' in vhost '/': received '4' but current is '3'",
        ),
    ],
)
def test_redeclared_otherwise(declare, channel, arguments, differs):
    queue = declare(delivery_limit=3)
    text = "PRECONDITION_FAILED - inequivalent arg " + differs.format(queue)
    with interop.closes("channel", 406, text):
        channel.queue_declare(queue, durable=True, arguments=arguments)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("delivery-limit", "many"),
        ("overflow", "drop-tail"),
        ("dead-letter-strategy", "never"),
        ("delayed-retry-type", "sometimes"),
        ("delayed-retry-min", -1),
        ("consumer-timeout", -1),
        ("queue-leader-locator", "nowhere"),
        ("target-group-size", 0),
        ("no-such-key", 1),
    ],
)
def test_values_that_a_policy_cannot_have(key, value):
    body = {"pattern": "^none$", "definition": {key: value}}
    with pytest.raises(urllib.error.HTTPError) as caught:
        interop.http("PUT", f"/api/policies/%2F/{interop.unique()}", body)
    assert caught.value.code == 400
    reason = json.loads(caught.value.read())["reason"]
    assert reason.startswith("Validation failed\n\n")


# Consumers


def test_the_higher_consumer_comes_first_wherever_it_is(declare, nodes, node):
    queue = declare()
    low, high = nodes.connect(LEADER), nodes.connect(node)
    behind = consume(low.channel(), queue)
    ahead = consume(high.channel(), queue, prefetch=2, arguments={"x-priority": 5})
    send(nodes.channel(2), queue, "a", "b", "c")
    await_texts([low, high], ahead, ["a", "b"])
    await_texts([low, high], behind, ["c"])


def test_a_single_active_consumer_is_followed_by_another(declare, nodes, node):
    queue = declare(single_active_consumer=True)
    first, second = nodes.connect(node), nodes.connect(2)
    active, waiting = consume(first.channel(), queue), consume(second.channel(), queue)
    publisher = nodes.channel(OTHER)
    send(publisher, queue, "a", "b")
    await_texts([first, second], active, ["a", "b"])
    first.close()
    await_texts([second], waiting, ["a", "b"])
    assert [counts(*found[:2]) for found in waiting] == [(True, 1, 1)] * 2
    assert texts(active) == ["a", "b"]


def test_a_higher_consumer_becomes_the_active_one(declare, nodes, node):
    queue = declare(single_active_consumer=True)
    first, second = nodes.connect(node), nodes.connect(2)
    channel = first.channel()
    active = consume(channel, queue)
    send(nodes.channel(OTHER), queue, "a")
    await_texts([first], active, ["a"])
    higher = consume(second.channel(), queue, arguments={"x-priority": 1})
    # It takes over when the one before it holds nothing any more.
    send(nodes.channel(OTHER), queue, "b")
    interop.settle_down(second)
    assert higher == []
    channel.basic_ack(active[0][0].delivery_tag)
    await_texts([first, second], higher, ["b"])
    assert texts(active) == ["a"]


def test_exclusive_consumers_do_not_go_with_a_single_active_one(declare, channel):
    queue = declare(single_active_consumer=True)
    text = f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"
    with interop.closes("channel", 403, text):
        channel.basic_consume(queue, lambda *_: None, exclusive=True)


@pytest.mark.parametrize("where", ["queue", "consumer", "policy"])
def test_who_holds_too_long_loses_it_and_has_not_failed(declare, nodes, node, policy, where):
    queue = declare(**({"consumer_timeout": 1000} if where == "queue" else {}))
    if where == "policy":
        policy(queue, consumer_timeout=1000)
    channel = nodes.channel(node)
    options = {"arguments": {"x-consumer-timeout": 1000}} if where == "consumer" else {}
    cancelled, other = [], declare()
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    found = consume(channel, queue, consumer_tag="slow", **options)
    found_elsewhere = consume(channel, other)
    send(nodes.channel(2), queue, "held")
    await_texts([channel.connection], found, ["held"])
    interop.until(
        lambda: channel.connection.process_data_events(0.01) or cancelled == ["slow"],
        what="the end of the consumer",
    )
    taker = nodes.channel(2)
    tag, counted = take(taker, queue)
    assert counted == (True, None, 1)
    # What its client says of it now means nothing, and the channel is as it was.
    channel.basic_ack(found[0][0].delivery_tag)
    send(channel, other, "still here")
    await_texts([channel.connection], found_elsewhere, ["still here"])
    give_back(taker, tag, NACK)
    assert take(taker, queue)[1] == (True, None, 2)


def test_who_cannot_be_told_loses_its_channel(declare, nodes, node):
    queue = declare(consumer_timeout=1000)
    deaf = {"capabilities": {"consumer_cancel_notify": False}}
    channel = nodes.connect(node, client_properties=deaf).channel()
    found = consume(channel, queue)
    send(nodes.channel(2), queue, "held")
    await_texts([channel.connection], found, ["held"])
    text = (
        f"PRECONDITION_FAILED - delivery acknowledgement on channel {channel.channel_number} timed out. "
        "This timeout value can be configured, see consumers doc guide to learn more"
    )
    with interop.closes("channel", 406, text):
        interop.until(lambda: channel.basic_qos(prefetch_count=0), what="the end of the channel")
    assert take(nodes.channel(2), queue)[1] == (True, None, 1)


# Members


def members(queue):
    found = interop.http("GET", f"/api/queues/%2F/{queue}")
    return found["leader"], sorted(found["members"])


@pytest.mark.parametrize(
    ("argument", "size", "wanted"),
    [
        ("x-quorum-initial-group-size", 1, 1),
        ("x-quorum-initial-group-size", 2, 2),
        ("x-quorum-initial-group-size", 7, 3),
        ("x-initial-cluster-size", 1, 1),
    ],
)
def test_a_group_is_as_large_as_it_is_to_be(channel, nodes, argument, size, wanted):
    queue = interop.unique()
    arguments = {"x-queue-type": "quorum", argument: size, "x-queue-leader-locator": "client-local"}
    channel.queue_declare(queue, durable=True, arguments=arguments)
    # The management API does not wait until its node has heard of the queue; this does.
    nodes.channel(LEADER).queue_declare(queue, passive=True)
    assert len(members(queue)[1]) == wanted
    channel.queue_delete(queue)


def change(what, node, queue):
    interop.http("POST", f"/api/leveret/cluster/{what}", {"node": node, "queues": f"^{queue}$"})


def test_a_member_goes_and_comes_and_the_messages_stay(declare, nodes, node):
    queue = declare()
    channel = nodes.channel(node)
    send(channel, queue, "a", "b")
    leader, before = members(queue)
    victim = next(name for name in before if name != leader)
    change("shrink", victim, queue)
    interop.until(lambda: victim not in members(queue)[1], what="one member fewer")
    send(channel, queue, "c")
    change("grow", victim, queue)
    interop.until(lambda: members(queue)[1] == before, what="the member again")
    interop.until(lambda: roles(queue) == ["follower", "follower", "leader"], what="three voters")
    nodes.crash(LEADER)
    interop.await_count(nodes.channel(OTHER), queue, 3, seconds=30)
    assert interop.bodies(nodes.channel(OTHER), queue) == ["a", "b", "c"]


def test_a_member_goes_and_comes_as_rabbitmqs_api_has_it(declare):
    queue = declare()
    leader, before = members(queue)
    victim = next(name for name in before if name != leader)
    replicas = f"/api/queues/quorum/%2F/{queue}/replicas"
    interop.http("DELETE", f"{replicas}/delete", {"node": victim})
    interop.until(lambda: victim not in members(queue)[1], what="one member fewer")
    interop.http("POST", f"{replicas}/add", {"node": victim})
    interop.until(lambda: members(queue)[1] == before, what="the member again")
    interop.http("DELETE", f"{replicas}/delete", {"node": victim})
    body = {"vhost_pattern": "^/$", "queue_pattern": f"^{queue}$", "strategy": "even"}
    interop.http("POST", f"/api/queues/quorum/replicas/on/{victim}/grow", body)
    interop.until(lambda: members(queue)[1] == before, what="the member once more")
    with pytest.raises(urllib.error.HTTPError) as caught:
        interop.http("POST", f"{replicas}/add", {"node": "rabbit@nowhere"})
    assert caught.value.code == 400


def roles(queue):
    """How each member that votes sees itself."""
    status = interop.http("GET", f"/api/queues/quorum/%2F/{queue}/status")
    return sorted(row["Raft State"] for row in status if row["Membership"] == "voter")


def test_a_target_brings_members(channel, nodes, policy):
    queue = interop.unique()
    arguments = {"x-queue-type": "quorum", "x-quorum-initial-group-size": 1}
    channel.queue_declare(queue, durable=True, arguments=arguments)
    nodes.channel(LEADER).queue_declare(queue, passive=True)
    send(channel, queue, "a")
    assert len(members(queue)[1]) == 1
    policy(queue, target_group_size=3)
    interop.until(lambda: len(members(queue)[1]) == 3, 30, "three members")
    assert interop.bodies(channel, queue) == ["a"]
    channel.queue_delete(queue)


def test_another_member_leads_when_it_is_told_to(declare, nodes):
    queue = declare()
    connection = nodes.connect(OTHER)
    found = consume(connection.channel(), queue)
    send(nodes.channel(2), queue, "a")
    await_texts([connection], found, ["a"])
    leader, names = members(queue)
    successor = next(name for name in names if name != leader)
    body = {"queue": queue, "node": successor}
    interop.http("POST", "/api/leveret/cluster/transfer", body)
    interop.until(lambda: leaders(queue) == [successor], what="the new leader")
    send(nodes.channel(2), queue, "b")
    # What the consumer holds stays with it.
    await_texts([connection], found, ["a", "b"])
    assert [method.redelivered for method, _, _ in found] == [False, False]


def test_queues_are_quorum_queues_where_the_virtual_host_says_so(nodes, node):
    vhost = interop.unique("vhost")
    interop.http("PUT", f"/api/vhosts/{vhost}", {"default_queue_type": "quorum"})
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    interop.http("PUT", f"/api/permissions/{vhost}/guest", everything)
    with nodes.connect(node, vhost) as connection:
        connection.channel().queue_declare("q", durable=True)
        quorum = {"x-queue-type": "quorum"}
        connection.channel().queue_declare("q", durable=True, arguments=quorum)
        text = (
            "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'q' in vhost "
            f"'{vhost}': received 'classic' but current is 'quorum'"
        )
        with interop.closes("channel", 406, text):
            classic = {"x-queue-type": "classic"}
            connection.channel().queue_declare("q", durable=True, arguments=classic)
    interop.http("DELETE", f"/api/vhosts/{vhost}")


# Restarts


def test_transient_messages_outlive_every_node(declare, nodes):
    queue = declare()
    with nodes.connect(OTHER) as connection:
        send(connection.channel(), queue, "transient", delivery_mode=1)
    for node in range(3):
        nodes.crash(node)
    assert interop.get(nodes.channel(OTHER), queue, seconds=30)[2] == b"transient"
