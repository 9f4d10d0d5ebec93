"""What a restart keeps, whether it was asked for or not."""

import time

import leveret_interop as interop
import pika
import pytest
from leveret_interop import leveret_only

DURABLE = pika.BasicProperties(delivery_mode=2)


def prepare(suffix):
    connection = interop.connect()
    channel = connection.channel()
    channel.exchange_declare(f"kept-{suffix}", "topic", durable=True)
    channel.exchange_declare(f"lost-{suffix}", "topic")
    arguments = {"x-max-priority": 3}
    channel.queue_declare(f"kept-{suffix}", durable=True, arguments=arguments)
    channel.queue_declare(f"lost-{suffix}")
    channel.queue_bind(f"kept-{suffix}", f"kept-{suffix}", "a.#")
    channel.confirm_delivery()
    for number in range(200):
        channel.basic_publish(f"kept-{suffix}", "a.b", b"%d" % number, DURABLE)
    channel.basic_publish("", f"kept-{suffix}", b"urgent", pika.BasicProperties(
        delivery_mode=2, priority=3, headers={"h": [1, "x"]}))
    channel.basic_publish("", f"kept-{suffix}", b"transient")
    taken, _, _ = interop.get(channel, f"kept-{suffix}", auto_ack=False)
    for _ in range(50):
        method, _, _ = interop.get(channel, f"kept-{suffix}", auto_ack=False)
        channel.basic_ack(method.delivery_tag)
    # A settlement has no confirm: one that is answered after it shows that it was read.
    channel.basic_qos(prefetch_count=0)
    assert taken.delivery_tag == 1
    return connection


def audit(suffix, settled_may_return):
    connection = interop.connect()
    channel = connection.channel()
    channel.exchange_declare(f"kept-{suffix}", passive=True)
    with interop.closes(
        "channel", 404, f"NOT_FOUND - no exchange 'lost-{suffix}' in vhost '/'"
    ):
        channel.exchange_declare(f"lost-{suffix}", passive=True)
    channel = connection.channel()
    with interop.closes("channel", 404, f"NOT_FOUND - no queue 'lost-{suffix}' in vhost '/'"):
        channel.queue_declare(f"lost-{suffix}", passive=True)
    channel = connection.channel()
    method, properties, body = interop.get(channel, f"kept-{suffix}")
    assert (body, properties.headers, method.redelivered) == (b"urgent", {"h": [1, "x"]}, True)
    rest = interop.bodies(channel, f"kept-{suffix}")
    assert "transient" not in rest
    numbers = [int(text) for text in rest]
    assert numbers == sorted(numbers)
    assert set(range(50, 200)) <= set(numbers)
    if not settled_may_return:
        assert numbers == list(range(50, 200))
    channel.confirm_delivery()
    channel.basic_publish(f"kept-{suffix}", "a.b", b"after")
    assert interop.bodies(channel, f"kept-{suffix}") == ["after"]
    channel.queue_delete(f"kept-{suffix}")
    channel.exchange_delete(f"kept-{suffix}")
    connection.close()


@pytest.mark.timeout(150)
def test_restart():
    prepare("restart")
    interop.control("restart")
    audit("restart", settled_may_return=False)


@pytest.mark.timeout(150)
def test_kill():
    prepare("kill")
    # Settlements are written behind; give them the time that any disk needs.
    time.sleep(1.0)
    interop.control("crash")
    audit("kill", settled_may_return=True)


@leveret_only
@pytest.mark.timeout(150)
def test_delays_survive():
    connection = interop.connect()
    channel = connection.channel()
    arguments = {"x-delayed-type": "direct"}
    channel.exchange_declare("delayed", "x-delayed-message", durable=True, arguments=arguments)
    channel.queue_declare("delayed", durable=True)
    channel.queue_bind("delayed", "delayed", "k")
    channel.confirm_delivery()
    started = time.monotonic()
    channel.basic_publish(
        "delayed", "k", b"later", pika.BasicProperties(delivery_mode=2, headers={"x-delay": 5000})
    )
    interop.control("crash")
    channel = interop.connect().channel()
    assert interop.count(channel, "delayed") == 0
    assert interop.get(channel, "delayed")[2] == b"later"
    assert time.monotonic() - started >= 5.0
    channel.queue_delete("delayed")
    channel.exchange_delete("delayed")


@pytest.mark.timeout(150)
def test_ttl_goes_on_over_a_restart():
    channel = interop.connect().channel()
    channel.queue_declare("ageing", durable=True, arguments={"x-message-ttl": 3_000})
    channel.confirm_delivery()
    channel.basic_publish("", "ageing", b"x", DURABLE)
    interop.control("restart")
    channel = interop.connect().channel()
    interop.await_count(channel, "ageing", 0)
    channel.queue_delete("ageing")


@pytest.mark.timeout(150)
def test_dead_letters_survive():
    channel = interop.connect().channel()
    channel.queue_declare("dead", durable=True)
    channel.queue_declare(
        "dying",
        durable=True,
        arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
    )
    channel.confirm_delivery()
    for number in range(100):
        channel.basic_publish("", "dying", b"%d" % number, DURABLE)
    for _ in range(100):
        method, _, _ = interop.get(channel, "dying", auto_ack=False)
        channel.basic_reject(method.delivery_tag, requeue=False)
    interop.await_count(channel, "dead", 100)
    # RabbitMQ has once forgotten a queue that was declared within the last two seconds, for which
    # Erlang's disk log may keep what it is to write.
    time.sleep(3.0 if interop.ON_RABBITMQ else 1.0)
    interop.control("crash")
    channel = interop.connect().channel()
    assert interop.bodies(channel, "dead") == [str(number) for number in range(100)]
    assert interop.count(channel, "dying") == 0
    channel.queue_delete("dead")
    channel.queue_delete("dying")
