"""Super streams for AMQP publishers: keys lead to the partitions that stream clients choose."""

import contextlib
import urllib.error

import leveret_interop as interop
import pika
import pytest
from rstream import (
    AMQPMessage,
    Consumer,
    OffsetSpecification,
    OffsetType,
    amqp_decoder,
    exceptions,
)
from test_mixed import pika_reads
from test_streams import LOGIN, producer, until

pytestmark = interop.leveret_only

HASHED = {"super-stream-routing": "hash"}


@contextlib.contextmanager
def super_stream(arguments, partitions=3):
    """A super stream of its own; gone afterwards."""
    name = interop.unique("super")
    path = f"/api/stream/super-streams/%2F/{name}"
    interop.http("PUT", path, {"partitions": partitions, "arguments": arguments})
    try:
        yield name
    finally:
        interop.http("DELETE", path)


def count(stream):
    """How many messages a stream has, once it says so."""
    return interop.http("GET", f"/api/queues/%2F/{stream}").get("messages", 0)


def keys_in(stream, number):
    return [method.routing_key for method, _, _ in pika_reads(stream, number)] if number else []


def publish(channel, exchange, keys):
    for key in keys:
        channel.basic_publish(exchange, key, key.encode(), mandatory=True)


async def test_a_key_reaches_the_partition_that_stream_clients_choose():
    # What the tests of the clients for Go and .NET expect of three partitions.
    wanted = {
        0: ["hello2", "hello5", "hello7", "hello9"],
        1: ["hello1", "hello3", "hello8", "hello88"],
        2: ["hello4", "hello6", "hello10"],
    }
    with super_stream(HASHED) as name:
        connection = interop.connect()
        channel = connection.channel()
        channel.confirm_delivery()
        publish(channel, name, [key for keys in wanted.values() for key in keys])
        for number, keys in wanted.items():
            stream = f"{name}-{number}"
            await until(lambda s=stream, k=keys: count(s) == len(k))
            assert keys_in(stream, len(keys)) == keys
        connection.close()


async def test_a_publisher_that_runs_hashes_over_partitions_that_are_added():
    with super_stream(HASHED, partitions=1) as name:
        connection = interop.connect()
        channel = connection.channel()
        channel.confirm_delivery()
        publish(channel, name, ["hello1", "hello2"])
        await until(lambda: count(f"{name}-0") == 2)
        interop.http("POST", f"/api/leveret/super-streams/%2F/{name}/partitions", {"partitions": 2})
        # Of three, the second and the first.
        publish(channel, name, ["hello1", "hello2"])
        await until(lambda: (count(f"{name}-0"), count(f"{name}-1")) == (3, 1))
        connection.close()


async def test_keys_come_first_where_that_is_asked_for():
    with super_stream({"super-stream-routing": "key-or-hash"}) as name:
        connection = interop.connect()
        channel = connection.channel()
        channel.confirm_delivery()
        # The hash of "0" is that of the third; "hello1" is no key.
        publish(channel, name, ["0", "hello1"])
        await until(lambda: [count(f"{name}-{n}") for n in range(3)] == [1, 1, 0])
        connection.close()


async def test_without_hashes_a_key_that_nothing_has_is_returned():
    with super_stream({}) as name:
        connection = interop.connect()
        channel = connection.channel()
        channel.confirm_delivery()
        with pytest.raises(pika.exceptions.UnroutableError):
            publish(channel, name, ["hello1"])
        connection.close()


async def test_hashes_lead_on_from_other_exchanges():
    with super_stream(HASHED) as name:
        connection = interop.connect()
        channel = connection.channel()
        channel.confirm_delivery()
        first = interop.unique("first")
        alternate = {"alternate-exchange": name}
        channel.exchange_declare(first, "topic", arguments=alternate, auto_delete=True)
        # Nothing is bound to it: its alternate exchange is the super stream.
        publish(channel, first, ["hello1"])
        channel.exchange_bind(name, first, "hello.*")
        publish(channel, first, ["hello.4"])
        await until(lambda: sum(count(f"{name}-{n}") for n in range(3)) == 2)
        body = {
            "properties": {}, "routing_key": "hello4", "payload": "x", "payload_encoding": "string"
        }
        # So it is where a message comes over HTTP.
        answer = interop.http("POST", f"/api/exchanges/%2F/{name}/publish", body)
        assert answer == {"routed": True}
        await until(lambda: count(f"{name}-2") > 0)
        assert "hello4" in keys_in(f"{name}-2", count(f"{name}-2"))
        assert "hello1" in keys_in(f"{name}-1", count(f"{name}-1"))
        channel.exchange_delete(first)
        connection.close()


async def test_a_super_stream_that_hashes_is_declared_over_amqp():
    connection = interop.connect()
    channel = connection.channel()
    channel.confirm_delivery()
    name = interop.unique("declared")
    arguments = {"x-super-stream": True, "x-super-stream-routing": "hash"}
    channel.exchange_declare(name, "direct", durable=True, arguments=arguments)
    with pytest.raises(pika.exceptions.UnroutableError):
        publish(channel, name, ["hello1"])
    for number in range(3):
        stream = f"{name}-{number}"
        channel.queue_declare(stream, durable=True, arguments={"x-queue-type": "stream"})
        order = {"x-stream-partition-order": number}
        channel.queue_bind(stream, name, str(number), arguments=order)
    publish(channel, name, ["hello1"])
    await until(lambda: count(f"{name}-1") == 1)
    # As it is for who does not ask; refused for who asks for something else.
    channel.exchange_declare(name, "direct", durable=True, arguments={"x-super-stream": True})
    other = {"x-super-stream": True, "x-super-stream-routing": "key"}
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        channel.exchange_declare(name, "direct", durable=True, arguments=other)
    assert refused.value.reply_code == 406
    assert "inequivalent arg 'x-super-stream-routing'" in refused.value.reply_text
    interop.http("DELETE", f"/api/stream/super-streams/%2F/{name}")
    connection.close()


async def test_a_drained_partition_takes_no_publishes_and_is_read_to_its_end():
    with super_stream(HASHED) as name:
        connection = interop.connect()
        channel = connection.channel()
        channel.confirm_delivery()
        publish(channel, name, ["hello1", "hello4"])
        async with producer() as running:
            await running.send_wait(f"{name}-2", AMQPMessage(body=b"before"))
            await until(lambda: [count(f"{name}-{n}") for n in range(3)] == [0, 1, 2])
            path = f"/api/leveret/super-streams/%2F/{name}/drained/{name}-2"
            interop.http("PUT", path)
            assert interop.http("GET", path)["drained"] is True
            # Its key goes to another one, the others stay; the running channel forgets its routes.
            publish(channel, name, ["hello1", "hello4"])
            await until(lambda: sum(count(f"{name}-{n}") for n in range(2)) == 3)
            assert count(f"{name}-1") >= 2 and count(f"{name}-2") == 2
            client = await running.default_client
            assert await client.partitions(name) == [f"{name}-{n}" for n in range(3)]
            assert f"{name}-2" not in await client.route("hello4", name)
            with pytest.raises(exceptions.PreconditionFailed):
                await client.declare_publisher(f"{name}-2", "late", 77)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
            channel.basic_publish("", f"{name}-2", b"refused")
        assert "drained partition" in refused.value.reply_text
        by_hand = {"properties": {}, "routing_key": f"{name}-2", "payload": "refused", "payload_encoding": "string"}
        with pytest.raises(urllib.error.HTTPError) as refused:
            interop.http("POST", "/api/exchanges/%2F/amq.default/publish", by_hand)
        assert "drained partition" in refused.value.read().decode()
        assert keys_in(f"{name}-2", 2) == ["hello4", f"{name}-2"]
        interop.http("DELETE", path)
        async with producer() as late:
            await late.send_wait(f"{name}-2", AMQPMessage(body=b"again"))
        connection.close()


@contextlib.asynccontextmanager
async def of_group(stream, found):
    """A consumer of a group of which one at a time is active; what it gets is added to a list."""
    consumer = Consumer(**LOGIN)
    await consumer.start()

    async def from_the_first(_is_active, _):
        return OffsetSpecification(OffsetType.FIRST, 0)

    await consumer.subscribe(
        stream,
        callback=lambda message, _: found.append(bytes(message.body)),
        decoder=amqp_decoder,
        properties={"single-active-consumer": "true", "name": "group"},
        subscriber_name="member",
        consumer_update_listener=from_the_first,
    )
    yield consumer
    with contextlib.suppress(Exception):
        await consumer.close()


async def test_a_drained_partition_is_read_by_its_group_over_a_crash():
    with super_stream(HASHED) as name:
        drained = f"{name}-2"
        async with producer() as running:
            for number in range(10):
                await running.send_wait(drained, AMQPMessage(body=b"%d" % number))
        wanted = [b"%d" % number for number in range(10)]
        path = f"/api/leveret/super-streams/%2F/{name}/drained/{drained}"
        interop.http("PUT", path)
        first, second = [], []
        async with of_group(drained, first) as active, of_group(drained, second):
            await until(lambda: first == wanted, "the active one's messages")
            assert second == []
            await active.close()
            await until(lambda: second == wanted, "the next one's messages")
            interop.control("crash")
        assert interop.http("GET", path)["drained"] is True
        connection = interop.connect()
        channel = connection.channel()
        channel.confirm_delivery()
        # Its key goes to another one still.
        publish(channel, name, ["hello4", "hello6", "hello10"])
        await until(lambda: sum(count(f"{name}-{n}") for n in range(2)) == 3)
        async with producer() as late:
            client = await late.default_client
            assert drained not in await client.route("hello4", name)
            with pytest.raises(exceptions.PreconditionFailed):
                await client.declare_publisher(drained, "late", 77)
        third, fourth = [], []
        async with of_group(drained, third) as active, of_group(drained, fourth):
            await until(lambda: third == wanted, "all of it again")
            interop.http("DELETE", path)
            publish(channel, name, ["hello4"])
            await until(lambda: len(third) == 11, "what is published once it is open")
            assert fourth == []
            await active.close()
            await until(lambda: len(fourth) == 11, "the next one's messages")
        connection.close()
