"""Consumers: prefetch, order, priorities, exclusivity, single active consumer, cancellation."""

import leveret_interop as interop
import pika
import pytest
from leveret_interop import closes, unique


def consumer(channel, queue, **options):
    """A consumer that gathers its deliveries: the list of (method, properties, body)."""
    found = []
    found_tag = channel.basic_consume(queue, lambda _c, *got: found.append(got), **options)
    return found, found_tag


def texts(found):
    return [body.decode() for _, _, body in found]


def send(channel, queue, *bodies, **properties):
    for body in bodies:
        channel.basic_publish("", queue, body.encode(), pika.BasicProperties(**properties))


def test_prefetch_for_each_consumer(connection, channel, queue):
    channel.basic_qos(prefetch_count=2)
    first, _ = consumer(channel, queue)
    second, _ = consumer(channel, queue)
    send(channel, queue, *map(str, range(10)))
    interop.pump(connection, lambda: len(first) + len(second) == 4)
    interop.settle_down(connection)
    assert (len(first), len(second)) == (2, 2)
    channel.basic_ack(first[0][0].delivery_tag)
    interop.pump(connection, lambda: len(first) == 3)


def test_prefetch_applies_to_later_consumers(connection, channel, queue):
    channel.basic_qos(prefetch_count=1)
    first, _ = consumer(channel, queue)
    channel.basic_qos(prefetch_count=3)
    send(channel, queue, *map(str, range(10)))
    interop.pump(connection, lambda: len(first) == 1)
    second, _ = consumer(channel, queue)
    interop.pump(connection, lambda: len(second) == 3)
    interop.settle_down(connection)
    assert (len(first), len(second)) == (1, 3)


def test_prefetch_for_the_channel(connection, channel, queue):
    channel.basic_qos(prefetch_count=3, global_qos=True)
    first, _ = consumer(channel, queue)
    second, _ = consumer(channel, queue)
    send(channel, queue, *map(str, range(10)))
    interop.pump(connection, lambda: len(first) + len(second) == 3)
    interop.settle_down(connection)
    assert len(first) + len(second) == 3
    channel.basic_ack((first or second)[0][0].delivery_tag)
    interop.pump(connection, lambda: len(first) + len(second) == 4)


def test_prefetch_for_the_channel_is_given_back_when_the_queue_is_gone(
    connection, channel, queue
):
    channel.basic_qos(prefetch_count=1, global_qos=True)
    doomed = interop.unique()
    channel.queue_declare(doomed)
    first, _ = consumer(channel, doomed)
    send(channel, doomed, "held")
    interop.pump(connection, lambda: len(first) == 1)
    channel.queue_delete(doomed)
    second, _ = consumer(channel, queue)
    send(channel, queue, "next")
    channel.basic_ack(first[0][0].delivery_tag)
    interop.pump(connection, lambda: len(second) == 1)


def test_prefetch_for_the_channel_is_not_for_quorum_queues(connection, channel, queue):
    quorum = unique()
    channel.queue_declare(quorum, durable=True, arguments={"x-queue-type": "quorum"})
    send(channel, quorum, "a")
    channel.basic_qos(prefetch_count=1, global_qos=True)
    # Without a bound, or no longer with one, the queue is like any other.
    channel.basic_qos(prefetch_count=0, global_qos=True)
    found, tag = consumer(channel, quorum)
    interop.pump(connection, lambda: texts(found) == ["a"])
    channel.basic_cancel(tag)
    channel.basic_qos(prefetch_count=1, global_qos=True)
    consumer(channel, queue)
    text = f"NOT_IMPLEMENTED - queue '{quorum}' in vhost '/' does not support global qos"
    with closes("connection", 540, text):
        consumer(channel, quorum)
    with interop.connect() as other:
        other.channel().queue_delete(quorum)


def test_both_prefetches(connection, channel, queue):
    channel.basic_qos(prefetch_count=2)
    channel.basic_qos(prefetch_count=3, global_qos=True)
    first, _ = consumer(channel, queue)
    second, _ = consumer(channel, queue)
    send(channel, queue, *map(str, range(10)))
    interop.pump(connection, lambda: len(first) + len(second) == 3)
    interop.settle_down(connection)
    assert len(first) + len(second) == 3
    assert max(len(first), len(second)) == 2


def test_prefetch_does_not_bind_automatic_acks(connection, channel, queue):
    channel.basic_qos(prefetch_count=1)
    found, _ = consumer(channel, queue, auto_ack=True)
    send(channel, queue, *map(str, range(10)))
    interop.pump(connection, lambda: len(found) == 10)


def test_round_robin(connection, channel, queue):
    channel.basic_qos(prefetch_count=100)
    all_found = [consumer(connection.channel(), queue)[0] for _ in range(3)]
    interop.settle_down(connection)
    send(channel, queue, *map(str, range(9)))
    interop.pump(connection, lambda: sum(map(len, all_found)) == 9)
    assert [len(found) for found in all_found] == [3, 3, 3]


def test_multiple_ack(connection, channel, queue):
    send(channel, queue, *map(str, range(5)))
    found, _ = consumer(channel, queue)
    interop.pump(connection, lambda: len(found) == 5)
    channel.basic_ack(found[2][0].delivery_tag, multiple=True)
    channel.close()
    other = connection.channel()
    interop.await_count(other, queue, 2)
    assert interop.bodies(other, queue) == ["3", "4"]


def test_ack_of_everything(connection, channel, queue):
    send(channel, queue, *map(str, range(5)))
    found, _ = consumer(channel, queue)
    interop.pump(connection, lambda: len(found) == 5)
    channel.basic_ack(0, multiple=True)
    channel.close()
    assert interop.count(connection.channel(), queue) == 0


def test_requeued_messages_keep_their_place(connection, channel, queue):
    send(channel, queue, "a", "b", "c", "d")
    taken = [interop.get(channel, queue, auto_ack=False)[0].delivery_tag for _ in range(3)]
    channel.basic_nack(taken[1], requeue=True)
    channel.basic_nack(taken[0], requeue=True)
    channel.basic_nack(taken[2], requeue=True)
    interop.await_count(channel, queue, 4)
    assert interop.bodies(channel, queue) == ["a", "b", "c", "d"]


def test_multiple_nack(connection, channel, queue):
    send(channel, queue, *map(str, range(4)))
    found, tag = consumer(channel, queue)
    interop.pump(connection, lambda: len(found) == 4)
    channel.basic_cancel(tag)
    channel.basic_nack(found[2][0].delivery_tag, multiple=True, requeue=False)
    channel.basic_nack(0, multiple=True, requeue=True)
    interop.await_count(channel, queue, 1)
    method, _, body = interop.get(channel, queue)
    assert (body, method.redelivered) == (b"3", True)


def test_unsettled_come_back_when_the_channel_closes(connection, channel, queue):
    send(channel, queue, "a", "b")
    found, _ = consumer(channel, queue)
    interop.pump(connection, lambda: len(found) == 2)
    assert not any(method.redelivered for method, _, _ in found)
    channel.close()
    again = interop.collect(connection.channel(), queue, 2)
    assert texts(again) == ["a", "b"]
    assert all(method.redelivered for method, _, _ in again)


def test_recover_delivers_again(connection, channel, queue):
    send(channel, queue, "a", "b")
    found, _ = consumer(channel, queue)
    interop.pump(connection, lambda: len(found) == 2)
    channel.basic_recover(requeue=True)
    interop.pump(connection, lambda: len(found) == 4)
    assert sorted(texts(found)[2:]) == ["a", "b"]
    assert all(method.redelivered for method, _, _ in found[2:])


def test_delivery_tags_count_up_over_consumers(connection, channel, queue):
    first, _ = consumer(channel, queue)
    second, _ = consumer(channel, queue)
    send(channel, queue, *map(str, range(6)))
    interop.pump(connection, lambda: len(first) + len(second) == 6)
    tags = sorted(method.delivery_tag for method, _, _ in first + second)
    assert tags == [1, 2, 3, 4, 5, 6]


def test_cancelled_consumer_gets_no_more(connection, channel, queue):
    found, tag = consumer(channel, queue)
    channel.basic_cancel(tag)
    send(channel, queue, "a")
    interop.settle_down(connection)
    assert found == []
    interop.await_count(channel, queue, 1)


def test_cancel_leaves_deliveries_unsettled(connection, channel, queue):
    send(channel, queue, "a")
    found, tag = consumer(channel, queue)
    interop.pump(connection, lambda: len(found) == 1)
    channel.basic_cancel(tag)
    assert interop.count(channel, queue) == 0
    channel.basic_ack(found[0][0].delivery_tag)
    channel.basic_qos(prefetch_count=1)


def test_cancel_of_an_unknown_consumer_is_answered(channel):
    interop.raw(channel, pika.spec.Basic.Cancel(consumer_tag="unknown"))
    channel.basic_qos(prefetch_count=1)


def test_consumer_tags_are_made(connection, queue):
    channel = connection.channel()
    seen = []
    channel._impl.callbacks.add(  # noqa: SLF001
        channel.channel_number,
        pika.spec.Basic.ConsumeOk,
        lambda frame: seen.append(frame.method.consumer_tag),
    )
    interop.raw(channel, pika.spec.Basic.Consume(queue=queue))
    interop.pump(connection, lambda: seen)
    assert seen[0].startswith("amq.ctag-")
    channel.close()


def test_cancel_notice_when_the_queue_goes(connection, channel):
    queue = unique()
    channel.queue_declare(queue)
    cancelled = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    _, tag = consumer(channel, queue)
    connection.channel().queue_delete(queue)
    interop.pump(connection, lambda: cancelled == [tag])


def test_higher_consumer_priority_first(connection, channel, queue):
    channel.basic_qos(prefetch_count=2)
    low, _ = consumer(channel, queue, arguments={"x-priority": -5})
    middle, _ = consumer(channel, queue)
    high, _ = consumer(channel, queue, arguments={"x-priority": 10})
    interop.settle_down(connection)
    send(channel, queue, *map(str, range(5)))
    interop.pump(connection, lambda: len(low) + len(middle) + len(high) == 5)
    assert (len(high), len(middle), len(low)) == (2, 2, 1)


def test_single_active_consumer(connection, channel):
    queue = unique()
    channel.queue_declare(queue, exclusive=True, arguments={"x-single-active-consumer": True})
    first_channel, second_channel = connection.channel(), connection.channel()
    first, _ = consumer(first_channel, queue)
    second, _ = consumer(second_channel, queue)
    send(channel, queue, "a", "b")
    interop.pump(connection, lambda: len(first) == 2)
    assert second == []
    first_channel.close()
    interop.pump(connection, lambda: len(second) == 2)
    send(channel, queue, "c")
    interop.pump(connection, lambda: texts(second) == ["a", "b", "c"])


def test_single_active_consumer_refuses_exclusive(channel):
    queue = unique()
    channel.queue_declare(queue, exclusive=True, arguments={"x-single-active-consumer": True})
    text = (
        f"ACCESS_REFUSED - queue '{queue}' in vhost '/' has single active consumer enabled, "
        "exclusive consume is not allowed"
    )
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.basic_consume(queue, lambda *_: None, exclusive=True)
    assert caught.value.reply_code == 403, text


def test_exclusive_consumer_makes_way(connection, channel, queue):
    _, tag = consumer(channel, queue, exclusive=True)
    channel.basic_cancel(tag)
    found, _ = consumer(channel, queue)
    send(channel, queue, "a")
    interop.pump(connection, lambda: texts(found) == ["a"])


def test_own_messages_come_despite_no_local(connection, channel, queue):
    # no-local is accepted and not honoured.
    seen = []
    channel._impl._send_method(  # noqa: SLF001
        pika.spec.Basic.Consume(queue=queue, consumer_tag="t", no_local=True, no_ack=True)
    )
    channel._impl.callbacks.add(  # noqa: SLF001
        channel.channel_number, pika.spec.Basic.ConsumeOk, lambda _frame: seen.append(True)
    )
    interop.pump(connection, lambda: seen)


# Direct reply-to

REPLY_TO = "amq.rabbitmq.reply-to"


def test_direct_reply_to(connection, channel, queue):
    replies, _ = consumer(channel, REPLY_TO, auto_ack=True)
    send(channel, queue, "question", reply_to=REPLY_TO, correlation_id="7")
    server = interop.connect()
    served = server.channel()
    _, properties, _ = interop.get(served, queue)
    assert properties.reply_to.startswith(REPLY_TO + ".")
    assert served.queue_declare(properties.reply_to, passive=True).method.consumer_count == 1
    answer = pika.BasicProperties(correlation_id=properties.correlation_id)
    served.basic_publish("", properties.reply_to, b"answer", answer)
    interop.pump(connection, lambda: len(replies) == 1)
    method, got, body = replies[0]
    assert (method.exchange, body, got.correlation_id) == ("", b"answer", "7")
    assert method.routing_key == properties.reply_to
    server.close()


def test_direct_reply_to_without_a_consumer(channel, queue):
    text = "PRECONDITION_FAILED - fast reply consumer does not exist"
    with interop.closes("channel", 406, text):
        interop.provoke(channel, lambda c: send(c, queue, "q", reply_to=REPLY_TO))


def test_direct_reply_to_wants_automatic_acks(channel):
    text = "PRECONDITION_FAILED - reply consumer cannot acknowledge"
    with interop.closes("channel", 406, text):
        channel.basic_consume(REPLY_TO, lambda *_: None)


def test_direct_reply_to_twice(channel):
    channel.basic_consume(REPLY_TO, lambda *_: None, auto_ack=True)
    text = "PRECONDITION_FAILED - reply consumer already set"
    with interop.closes("channel", 406, text):
        channel.basic_consume(REPLY_TO, lambda *_: None, auto_ack=True)


def test_reply_to_nobody_is_returned(channel):
    channel.confirm_delivery()
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("", REPLY_TO + ".g2dkABBjbGllbnQ", b"x", mandatory=True)


def test_a_request_in_confirm_mode(connection, channel, queue):
    replies, _ = consumer(channel, REPLY_TO, auto_ack=True)
    channel.confirm_delivery()
    send(channel, queue, "question", reply_to=REPLY_TO)
    _, properties, _ = interop.get(channel, queue)
    channel.basic_publish("", properties.reply_to, b"to myself")
    interop.pump(connection, lambda: texts(replies) == ["to myself"])


def consume_one(connection, channel, queue):
    found, _ = consumer(channel, queue)
    interop.pump(connection, lambda: len(found) == 1)


def consume_one_and_cancel(connection, channel, queue):
    found, tag = consumer(channel, queue)
    interop.pump(connection, lambda: len(found) == 1)
    # pika would reject what came and nobody took: it is told to let it be.
    channel._impl.basic_cancel(tag)  # noqa: SLF001


def get_one(_connection, channel, queue):
    interop.get(channel, queue, auto_ack=False)


@interop.rabbitmq_4
@pytest.mark.parametrize("hold", [consume_one, consume_one_and_cancel, get_one])
def test_a_delivery_that_is_held_too_long_closes_its_channel(connection, channel, hold):
    queue = channel.queue_declare(
        unique(), exclusive=True, arguments={"x-consumer-timeout": 300}
    ).method.queue
    send(channel, queue, "held")
    hold(connection, channel, queue)
    text = (
        f"PRECONDITION_FAILED - delivery acknowledgement on channel {channel.channel_number} timed out. "
        "This timeout value can be configured, see consumers doc guide to learn more"
    )
    with interop.closes("channel", 406, text):
        interop.until(lambda: channel.basic_qos(prefetch_count=0), what="the end of the channel")
    other = connection.channel()
    method, _, _ = interop.get(other, queue)
    assert method.redelivered
