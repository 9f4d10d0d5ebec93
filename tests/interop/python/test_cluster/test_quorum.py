"""What quorum queues do with messages, at the node that leads them and at one that does not."""

import socket
import time

import leveret_interop as interop
import pika
import pytest
from leveret_quorum import LEADER, NACK, OTHER, REJECT, consume, death, give_back, send, take

# What is counted


@pytest.mark.parametrize(
    ("how", "failed"), [([REJECT], 1), ([NACK], None), ([NACK, REJECT, NACK], 1)]
)
def test_a_reject_is_a_failed_delivery_and_a_nack_is_not(declare, channel, how, failed):
    queue = declare()
    send(channel, queue, "a")
    for number, way in enumerate(how):
        tag, counted = take(channel, queue)
        assert (counted[0], counted[2]) == (number > 0, number or None)
        give_back(channel, tag, way)
    assert take(channel, queue)[1] == (True, failed, len(how))


@pytest.mark.parametrize("ending", ["channel", "connection", "socket"])
def test_who_goes_with_a_message_has_failed(declare, nodes, node, ending):
    queue = declare()
    holder, other = nodes.connect(node), nodes.channel(2)
    send(other, queue, "a", "b")
    channel = holder.channel()
    found = consume(channel, queue)
    interop.pump(holder, lambda: len(found) == 2)
    if ending == "channel":
        # pika gives back what a consumer of a channel that it closes has not settled.
        channel._impl.close()  # noqa: SLF001
        interop.pump(holder, lambda: channel._impl.is_closed)  # noqa: SLF001
    elif ending == "connection":
        holder.close()
    else:
        holder._impl._transport._sock.shutdown(socket.SHUT_RDWR)  # noqa: SLF001
    for _ in range(2):
        assert take(other, queue)[1] == (True, 1, 1)


def test_the_default_delivery_limit_is_twenty(declare, channel):
    queue = declare()
    send(channel, queue, "poison")
    for returns in range(21):
        tag, counted = take(channel, queue)
        assert counted == ((True, returns, returns) if returns else (False, None, None))
        channel.basic_reject(tag, requeue=True)
    interop.await_count(channel, queue, 0)
    assert channel.basic_get(queue)[0] is None


def test_no_limit_and_nacks_without_end(declare, channel):
    unlimited, limited = declare(delivery_limit=-1), declare(delivery_limit=0)
    for queue, how in [(unlimited, REJECT), (limited, NACK)]:
        send(channel, queue, "a")
        for _ in range(25):
            give_back(channel, take(channel, queue)[0], how)
        assert take(channel, queue)[1] == (True, 25 if how == REJECT else None, 25)


def test_poison_goes_to_the_dead_letter_exchange(declare, channel):
    dead = declare()
    queue = declare(delivery_limit=1, dead_letter_exchange="", dead_letter_routing_key=dead)
    send(channel, queue, "poison")
    for _ in range(2):
        give_back(channel, take(channel, queue)[0], REJECT)
    _, properties, body = interop.get(channel, dead)
    assert body == b"poison"
    (found,) = properties.headers["x-death"]
    assert (found["queue"], found["reason"], found["count"]) == (queue, "delivery_limit", 1)
    assert properties.headers["x-first-death-reason"] == "delivery_limit"


def test_the_lower_of_policy_and_argument_limits_deliveries(declare, channel, policy):
    queue = declare(delivery_limit=9)
    policy(queue, delivery_limit=1)
    send(channel, queue, "poison")
    for _ in range(2):
        give_back(channel, take(channel, queue)[0], REJECT)
    interop.await_count(channel, queue, 0)


def test_counts_outlive_the_leader(declare, nodes):
    queue = declare(delivery_limit=2)
    channel = nodes.channel(OTHER)
    send(channel, queue, "poison")
    give_back(channel, take(channel, queue)[0], NACK)
    give_back(channel, take(channel, queue)[0], REJECT)
    # The return has to be in the log before the leader goes.
    interop.await_count(channel, queue, 1)
    nodes.crash(LEADER)
    tag, counted = take(channel, queue, 30)
    assert counted == (True, 1, 2)
    give_back(channel, tag, REJECT)
    give_back(channel, take(channel, queue)[0], REJECT)
    interop.await_count(channel, queue, 0)


# Time


def test_messages_expire_by_the_lower_time(declare, channel):
    dead = declare()
    options = {"dead_letter_exchange": "", "dead_letter_routing_key": dead}
    for ttl, expiration in [(200, None), (60_000, "200"), (200, "60000")]:
        queue = declare(message_ttl=ttl, **options)
        send(channel, queue, "late", expiration=expiration)
        _, properties, body = interop.get(channel, dead)
        assert (body, death(properties)) == (b"late", "expired")
        assert properties.expiration is None
        assert properties.headers["x-death"][0].get("original-expiration") == expiration


def test_messages_expire_by_a_policy(declare, channel, policy):
    queue = declare()
    send(channel, queue, "late")
    policy(queue, message_ttl=100)
    interop.await_count(channel, queue, 0)


def test_time_goes_on_while_a_leader_is_dead(declare, nodes):
    queue = declare(message_ttl=1500)
    channel = nodes.channel(OTHER)
    send(channel, queue, "late")
    nodes.crash(LEADER)
    interop.await_count(channel, queue, 0, seconds=30)


# Length


def test_the_head_is_dropped(declare, channel):
    dead = declare()
    options = {"dead_letter_exchange": "", "dead_letter_routing_key": dead}
    for limit in [{"max_length": 2}, {"max_length_bytes": 2}]:
        queue = declare(**limit, **options)
        send(channel, queue, "a", "b", "c")
        _, properties, body = interop.get(channel, dead)
        assert (body, death(properties)) == (b"a", "maxlen")
        assert interop.bodies(channel, queue) == ["b", "c"]


def test_publishes_are_refused(declare, channel):
    queue = declare(max_length=2, overflow="reject-publish")
    send(channel, queue, "a", "b")
    with pytest.raises(pika.exceptions.NackError):
        for _ in range(3):
            send(channel, queue, "too many")
    channel.queue_purge(queue)
    send(channel, queue, "c")
    assert interop.bodies(channel, queue) == ["c"]


def test_publishes_are_refused_by_a_policy_that_comes_later(declare, channel, policy):
    queue = declare()
    send(channel, queue, "a", "b", "c")
    policy(queue, max_length=2, overflow="reject-publish")

    def refused():
        try:
            send(channel, queue, "d")
        except pika.exceptions.NackError:
            return True
        return False

    interop.until(refused, what="a refusal")
    assert interop.bodies(channel, queue)[:3] == ["a", "b", "c"]


def test_refusing_to_the_dead_letter_exchange_is_dropping(declare, channel):
    dead = declare()
    options = {"dead_letter_exchange": "", "dead_letter_routing_key": dead}
    queue = declare(max_length=1, overflow="reject-publish-dlx", **options)
    send(channel, queue, "a", "b")
    assert interop.get(channel, dead)[2] == b"a"
    assert interop.bodies(channel, queue) == ["b"]


# Dead letters


def test_at_least_once_waits_for_a_queue_to_take_it(declare, channel, nodes):
    dead, dlx = declare(), interop.unique("x")
    queue = declare(
        dead_letter_exchange=dlx, dead_letter_strategy="at-least-once", overflow="reject-publish"
    )
    send(channel, queue, "dead")
    channel.basic_reject(take(channel, queue)[0], requeue=False)
    interop.await_count(channel, queue, 0)
    nodes.crash(LEADER)
    channel = nodes.channel(OTHER)
    channel.exchange_declare(dlx, "fanout", durable=True)
    channel.queue_bind(dead, dlx)
    _, properties, body = interop.get(channel, dead, seconds=30)
    assert (body, death(properties)) == (b"dead", "rejected")
    channel.exchange_delete(dlx)


def test_at_most_once_loses_what_no_queue_takes(declare, channel):
    dlx = interop.unique("x")
    # Without reject-publish it is not at least once.
    queue = declare(dead_letter_exchange=dlx, dead_letter_strategy="at-least-once")
    dead = declare()
    send(channel, queue, "lost")
    channel.basic_reject(take(channel, queue)[0], requeue=False)
    interop.await_count(channel, queue, 0)
    channel.exchange_declare(dlx, "fanout", durable=True)
    channel.queue_bind(dead, dlx)
    # What was kept would go again within 5 s.
    interop.settle_down(channel.connection, 7)
    assert channel.basic_get(dead)[0] is None
    channel.exchange_delete(dlx)


# Priorities


def test_thirty_two_priorities(declare, channel):
    queue = declare()
    for priority in [0, 31, 4, 5, 200, 3, 30, 32]:
        send(channel, queue, str(priority), priority=priority)
    send(channel, queue, "none")
    wanted = ["31", "200", "32", "30", "5", "4", "none", "3", "0"]
    assert interop.bodies(channel, queue) == wanted


def test_priorities_outlive_the_leader(declare, nodes):
    queue = declare()
    channel = nodes.channel(OTHER)
    for priority in [0, 31, 4]:
        send(channel, queue, str(priority), priority=priority)
    nodes.crash(LEADER)
    interop.await_count(channel, queue, 3, seconds=30)
    assert interop.bodies(channel, queue) == ["31", "4", "0"]


# Delayed retries


@pytest.mark.parametrize(
    ("kind", "how", "delays"),
    [
        ("all", REJECT, [0.5, 1.0, 1.2, 1.2]),
        ("failed", REJECT, [0.5, 1.0]),
        ("returned", NACK, [0.5, 0.5, 0.5]),
        ("all", NACK, [0.5, 0.5]),
        ("failed", NACK, [0, 0]),
        ("returned", REJECT, [0, 0]),
        ("disabled", REJECT, [0, 0]),
    ],
)
def test_what_comes_back_waits_as_it_is_to(declare, channel, kind, how, delays):
    # What is not to wait is told from what waits for long.
    least, most = (500, 1200) if any(delays) else (5000, 5000)
    queue = declare(delayed_retry_type=kind, delayed_retry_min=least, delayed_retry_max=most)
    send(channel, queue, "a")
    tag, _ = take(channel, queue)
    for delay in delays:
        start = time.monotonic()
        give_back(channel, tag, how)
        tag, _ = take(channel, queue)
        assert delay - 0.05 <= time.monotonic() - start < delay + 0.7


def test_a_policy_delays_and_others_go_first(declare, channel, policy):
    queue = declare()
    policy(queue, delayed_retry_type="all", delayed_retry_min=3000, delayed_retry_max=3000)
    send(channel, queue, "a", "b")
    first = interop.get(channel, queue, auto_ack=False)
    assert first[2] == b"a"
    give_back(channel, first[0].delivery_tag, REJECT)
    assert interop.get(channel, queue)[2] == b"b"
    assert channel.basic_get(queue)[0] is None
    assert interop.get(channel, queue)[2] == b"a"


def test_a_delay_outlives_the_leader(declare, nodes):
    queue = declare(delayed_retry_type="all", delayed_retry_min=12_000)
    channel = nodes.channel(OTHER)
    send(channel, queue, "a")
    tag, _ = take(channel, queue)
    start = time.monotonic()
    give_back(channel, tag, REJECT)
    interop.until(lambda: channel.basic_get(queue)[0] is None)
    nodes.crash(LEADER)
    assert take(channel, queue, 40)[1] == (True, 1, 1)
    assert 11.9 <= time.monotonic() - start < 24
