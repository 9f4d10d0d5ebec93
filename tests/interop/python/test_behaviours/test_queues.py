"""Life and limits of queues: time, length, priority, dead letters, expiry."""

import time

import leveret_interop as interop
import pika
import pytest
from leveret_interop import rabbitmq_4, unique


@pytest.fixture
def declare(channel):
    """Gives a function that declares an exclusive queue with arguments."""

    def make(**arguments):
        name = unique()
        named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        channel.queue_declare(name, exclusive=True, arguments=named)
        return name

    return make


def send(channel, queue, *texts, **properties):
    for text in texts:
        channel.basic_publish("", queue, text.encode(), pika.BasicProperties(**properties))


# Time


def test_queue_ttl(channel, declare):
    queue = declare(message_ttl=200)
    send(channel, queue, "a", "b")
    interop.await_count(channel, queue, 2)
    interop.await_count(channel, queue, 0)


def test_message_ttl(channel, declare):
    queue = declare()
    send(channel, queue, "a", expiration="200")
    send(channel, queue, "b")
    interop.await_count(channel, queue, 2)
    interop.await_count(channel, queue, 1)
    assert interop.bodies(channel, queue) == ["b"]


def test_the_lower_ttl_counts(channel, declare):
    queue = declare(message_ttl=60_000)
    send(channel, queue, "a", expiration="100")
    interop.await_count(channel, queue, 0)
    queue = declare(message_ttl=100)
    send(channel, queue, "a", expiration="60000")
    interop.await_count(channel, queue, 0)


def test_ttl_zero_without_a_consumer(channel, declare):
    queue = declare(message_ttl=0)
    channel.confirm_delivery()
    send(channel, queue, "a")
    interop.await_count(channel, queue, 0)


def test_ttl_zero_with_a_consumer_is_delivered(channel, declare):
    queue = declare(message_ttl=0)
    seen = []
    channel.basic_consume(queue, lambda _c, _m, _p, body: seen.append(body), auto_ack=True)
    send(channel, queue, "a")
    interop.pump(channel.connection, lambda: seen == [b"a"])


def test_a_message_expires_at_the_head_only(channel, declare):
    queue = declare()
    send(channel, queue, "first")
    send(channel, queue, "second", expiration="50")
    interop.await_count(channel, queue, 2)
    time.sleep(0.4)
    assert interop.count(channel, queue) == 2
    assert interop.bodies(channel, queue) == ["first"]


def test_an_expired_message_is_not_delivered(channel, declare):
    queue = declare()
    send(channel, queue, "late", expiration="50")
    time.sleep(0.3)
    assert channel.basic_get(queue)[0] is None


def test_queue_expires_when_unused(connection, channel):
    queue = unique()
    channel.queue_declare(queue, arguments={"x-expires": 400})

    def gone():
        # Looking renews the lease: look more rarely than it lasts.
        time.sleep(0.6)
        other = connection.channel()
        try:
            other.queue_declare(queue, passive=True)
        except pika.exceptions.ChannelClosedByBroker as error:
            assert error.reply_code == 404
            return True
        other.close()
        return False

    interop.until(gone, 10)


def test_a_consumer_keeps_a_queue_from_expiring(channel):
    queue = unique()
    channel.queue_declare(queue, arguments={"x-expires": 300})
    channel.basic_consume(queue, lambda *_: None)
    interop.settle_down(channel.connection, 1.0)
    channel.queue_declare(queue, passive=True)
    channel.queue_delete(queue)


# Length


def test_max_length_drops_the_oldest(channel, declare):
    queue = declare(max_length=2)
    channel.confirm_delivery()
    send(channel, queue, "a", "b", "c")
    assert interop.bodies(channel, queue) == ["b", "c"]


def test_max_length_bytes_counts_bodies(channel, declare):
    queue = declare(max_length_bytes=10)
    channel.confirm_delivery()
    send(channel, queue, "aaaa", "bbbb", "cc")
    assert interop.bodies(channel, queue) == ["aaaa", "bbbb", "cc"]
    send(channel, queue, "aaaa", "bbbb", "ccc")
    assert interop.bodies(channel, queue) == ["bbbb", "ccc"]


def test_max_length_zero_keeps_nothing(channel, declare):
    queue = declare(max_length=0)
    channel.confirm_delivery()
    send(channel, queue, "a")
    assert interop.count(channel, queue) == 0


def test_max_length_counts_ready_messages_only(channel, declare):
    queue = declare(max_length=1)
    channel.confirm_delivery()
    send(channel, queue, "a")
    interop.get(channel, queue, auto_ack=False)
    send(channel, queue, "b")
    assert interop.bodies(channel, queue) == ["b"]


def test_reject_publish(channel, declare):
    queue = declare(max_length=1, overflow="reject-publish")
    channel.confirm_delivery()
    send(channel, queue, "a")
    with pytest.raises(pika.exceptions.NackError):
        send(channel, queue, "b")
    assert interop.bodies(channel, queue) == ["a"]
    send(channel, queue, "c")
    assert interop.bodies(channel, queue) == ["c"]


def test_a_transaction_that_is_refused_in_part_is_not_committed(channel, declare):
    queue = declare(max_length=1, overflow="reject-publish")
    channel.tx_select()
    send(channel, queue, "a", "b")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        channel.tx_commit()
    assert closed.value.reply_code == 406
    assert "partial tx completion" in closed.value.reply_text


def test_reject_publish_to_dead_letters(channel, declare):
    dead = declare()
    queue = declare(
        max_length=1,
        overflow="reject-publish-dlx",
        dead_letter_exchange="",
        dead_letter_routing_key=dead,
    )
    channel.confirm_delivery()
    send(channel, queue, "a")
    with pytest.raises(pika.exceptions.NackError):
        send(channel, queue, "b")
    _, properties, body = interop.get(channel, dead)
    assert body == b"b"
    assert properties.headers["x-death"][0]["reason"] == "maxlen"


def test_maxlen_dead_letters_the_oldest(channel, declare):
    dead = declare()
    queue = declare(max_length=1, dead_letter_exchange="", dead_letter_routing_key=dead)
    send(channel, queue, "a", "b")
    _, properties, body = interop.get(channel, dead)
    assert body == b"a"
    assert properties.headers["x-death"][0]["reason"] == "maxlen"
    assert properties.headers["x-first-death-reason"] == "maxlen"


# Dead letters


def test_rejected_message(channel, declare, exchange):
    dead = declare()
    dlx = exchange(channel)
    channel.queue_bind(dead, dlx, "the-key")
    queue = declare(dead_letter_exchange=dlx, dead_letter_routing_key="the-key")
    channel.queue_bind(queue, "amq.direct", "orig")
    channel.basic_publish("amq.direct", "orig", b"x", pika.BasicProperties(headers={"mine": 1}))
    method, _, _ = interop.get(channel, queue, auto_ack=False)
    before = time.time()
    channel.basic_reject(method.delivery_tag, requeue=False)
    method, properties, _ = interop.get(channel, dead)
    assert (method.exchange, method.routing_key) == (dlx, "the-key")
    (death,) = properties.headers["x-death"]
    when = death.pop("time").timestamp()
    assert death == {
        "count": 1,
        "exchange": "amq.direct",
        "queue": queue,
        "reason": "rejected",
        "routing-keys": ["orig"],
    }
    assert properties.headers["mine"] == 1
    assert properties.headers["x-first-death-queue"] == queue
    assert properties.headers["x-first-death-reason"] == "rejected"
    assert properties.headers["x-first-death-exchange"] == "amq.direct"
    # pika reads timestamps as UTC without saying so.
    assert abs(when - time.timezone - before) < 5 or abs(when - before) < 5


@rabbitmq_4
def test_last_death(channel, declare):
    dead = declare()
    queue = declare(dead_letter_exchange="", dead_letter_routing_key=dead)
    send(channel, queue, "x")
    method, _, _ = interop.get(channel, queue, auto_ack=False)
    channel.basic_nack(method.delivery_tag, requeue=False)
    headers = interop.get(channel, dead)[1].headers
    assert headers["x-last-death-queue"] == queue
    assert headers["x-last-death-reason"] == "rejected"
    assert headers["x-last-death-exchange"] == ""


def test_the_routing_key_is_kept_without_another(channel, declare, exchange):
    dead = declare()
    dlx = exchange(channel, "fanout")
    channel.queue_bind(dead, dlx)
    queue = declare(dead_letter_exchange=dlx, message_ttl=50)
    send(channel, queue, "x")
    method, properties, _ = interop.get(channel, dead)
    assert method.routing_key == queue
    assert properties.headers["x-death"][0]["reason"] == "expired"


def test_expiration_is_removed_and_remembered(channel, declare):
    dead = declare()
    queue = declare(dead_letter_exchange="", dead_letter_routing_key=dead)
    send(channel, queue, "x", expiration="50")
    _, properties, _ = interop.get(channel, dead)
    assert properties.expiration is None
    (death,) = properties.headers["x-death"]
    assert death["original-expiration"] == "50"
    assert death["reason"] == "expired"


def test_deaths_that_a_client_republishes_count_anew(channel, declare):
    """RabbitMQ 4 no longer counts on from a header that a client sent; 3.10 did."""
    dead = declare()
    queue = declare(dead_letter_exchange="", dead_letter_routing_key=dead)
    send(channel, queue, "x")
    for count in (1, 2, 3):
        method, _, _ = interop.get(channel, queue, auto_ack=False)
        channel.basic_reject(method.delivery_tag, requeue=False)
        _, properties, body = interop.get(channel, dead)
        (death,) = properties.headers["x-death"]
        assert death["count"] == (count if interop.ON_RABBITMQ else 1)
        assert (death["queue"], death["reason"]) == (queue, "rejected")
        channel.basic_publish("", queue, body, pika.BasicProperties(headers=properties.headers))


def test_deaths_are_newest_first(channel, declare):
    last = declare()
    second = declare(dead_letter_exchange="", dead_letter_routing_key=last, message_ttl=50)
    first = declare(dead_letter_exchange="", dead_letter_routing_key=second)
    send(channel, first, "x")
    method, _, _ = interop.get(channel, first, auto_ack=False)
    channel.basic_reject(method.delivery_tag, requeue=False)
    headers = interop.get(channel, last)[1].headers
    deaths = [(death["queue"], death["reason"]) for death in headers["x-death"]]
    assert deaths == [(second, "expired"), (first, "rejected")]
    assert headers["x-first-death-queue"] == first


def test_a_cycle_without_a_rejection_is_dropped(channel):
    queue = unique()
    arguments = {
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": queue,
        "x-message-ttl": 50,
    }
    channel.queue_declare(queue, exclusive=True, arguments=arguments)
    send(channel, queue, "x")
    interop.await_count(channel, queue, 0)
    time.sleep(0.2)
    assert interop.count(channel, queue) == 0


def test_a_cycle_with_a_rejection_goes_on(channel):
    first, second = unique(), unique()
    for queue, after, more in ((first, second, {}), (second, first, {"x-message-ttl": 50})):
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": after} | more
        channel.queue_declare(queue, exclusive=True, arguments=arguments)
    send(channel, first, "x")
    for _ in range(3):
        method, _, _ = interop.get(channel, first, auto_ack=False)
        channel.basic_reject(method.delivery_tag, requeue=False)
    deaths = interop.get(channel, first)[1].headers["x-death"]
    assert {(death["queue"], death["count"]) for death in deaths} == {(first, 3), (second, 3)}


def test_dead_letters_to_a_missing_exchange_are_dropped(channel, declare):
    queue = declare(dead_letter_exchange="nowhere", message_ttl=50)
    send(channel, queue, "x")
    interop.await_count(channel, queue, 0)
    channel.queue_declare(queue, passive=True)


def test_dead_letters_keep_cc_without_a_key(channel, declare, exchange):
    dead, copied = declare(), declare()
    dlx = exchange(channel)
    channel.queue_bind(copied, dlx, "copy")
    queue = declare(dead_letter_exchange=dlx, message_ttl=50)
    channel.queue_bind(dead, dlx, queue)
    send(channel, queue, "x", headers={"CC": ["copy"]})
    assert interop.get(channel, dead)[2] == b"x"
    assert interop.get(channel, copied)[2] == b"x"


def test_purged_and_deleted_messages_do_not_die(channel, declare):
    dead = declare()
    queue = declare(dead_letter_exchange="", dead_letter_routing_key=dead)
    channel.confirm_delivery()
    send(channel, queue, "x", "y")
    assert channel.queue_purge(queue).method.message_count == 2
    send(channel, queue, "z")
    assert channel.queue_delete(queue).method.message_count == 1
    assert interop.count(channel, dead) == 0


# Priority


def test_higher_priorities_first(channel, declare):
    queue = declare(max_priority=10)
    channel.confirm_delivery()
    for priority in (0, 5, 10, 5, 200, None):
        send(channel, queue, str(priority), priority=priority)
    assert interop.bodies(channel, queue) == ["10", "200", "5", "5", "0", "None"]


def test_no_priorities_without_the_argument(channel, declare):
    queue = declare()
    channel.confirm_delivery()
    send(channel, queue, "low", priority=0)
    send(channel, queue, "high", priority=9)
    assert interop.bodies(channel, queue) == ["low", "high"]


def test_requeued_priority_keeps_its_place(channel, declare):
    queue = declare(max_priority=3)
    channel.confirm_delivery()
    send(channel, queue, "a", priority=3)
    send(channel, queue, "b", priority=3)
    method, _, _ = interop.get(channel, queue, auto_ack=False)
    channel.basic_nack(method.delivery_tag, requeue=True)
    interop.await_count(channel, queue, 2)
    assert interop.bodies(channel, queue) == ["a", "b"]


# Names, counts, life


def test_server_named_queues_differ(channel):
    names = {channel.queue_declare("", exclusive=True).method.queue for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("amq.gen-") for name in names)


def test_the_last_declared_queue_is_meant(channel):
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind("", "amq.direct", "last-declared")
    channel.basic_publish("amq.direct", "last-declared", b"x")
    assert interop.get(channel, queue)[2] == b"x"


def test_declare_ok_counts(channel, queue):
    channel.confirm_delivery()
    send(channel, queue, "a", "b")
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume(queue, lambda *_: None)
    answer = interop.until(
        lambda: (lambda ok: ok if ok.message_count == 1 else None)(
            channel.queue_declare(queue, passive=True).method
        )
    )
    assert (answer.message_count, answer.consumer_count) == (1, 1)


def test_auto_delete_after_the_last_consumer(connection, channel):
    queue = unique()
    channel.queue_declare(queue, auto_delete=True)
    tags = [channel.basic_consume(queue, lambda *_: None) for _ in range(2)]
    channel.basic_cancel(tags[0])
    channel.queue_declare(queue, passive=True)
    channel.basic_cancel(tags[1])
    with interop.closes("channel", 404, f"NOT_FOUND - no queue '{queue}' in vhost '/'"):
        connection.channel().queue_declare(queue, passive=True)


def test_auto_delete_never_consumed_stays(channel):
    queue = unique()
    channel.queue_declare(queue, auto_delete=True)
    channel.basic_get(queue)
    channel.queue_declare(queue, passive=True)
    channel.queue_delete(queue)


def test_exclusive_queues_go_with_their_connection(channel):
    owner = interop.connect()
    queue = unique()
    owner.channel().queue_declare(queue, exclusive=True)
    owner.close()
    with interop.closes("channel", 404, f"NOT_FOUND - no queue '{queue}' in vhost '/'"):
        interop.until(lambda: channel.queue_declare(queue, passive=True) and False)


def test_purge_leaves_the_unsettled(channel, queue):
    channel.confirm_delivery()
    send(channel, queue, "a", "b", "c")
    method, _, _ = interop.get(channel, queue, auto_ack=False)
    assert channel.queue_purge(queue).method.message_count == 2
    channel.basic_nack(method.delivery_tag, requeue=True)
    interop.await_count(channel, queue, 1)


def test_delete_counts_messages(channel):
    queue = unique()
    channel.queue_declare(queue)
    channel.confirm_delivery()
    send(channel, queue, "a", "b")
    assert channel.queue_delete(queue).method.message_count == 2


def test_quorum_queue_type_is_accepted(channel):
    queue = unique()
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
    channel.confirm_delivery()
    send(channel, queue, "a", delivery_mode=2)
    assert interop.get(channel, queue)[2] == b"a"
    channel.queue_delete(queue)


def test_lazy_mode_is_accepted(channel, declare):
    queue = declare(queue_mode="lazy")
    channel.confirm_delivery()
    send(channel, queue, "a")
    assert interop.bodies(channel, queue) == ["a"]
