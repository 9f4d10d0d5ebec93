"""The stream protocol with rstream, RabbitMQ's client for Python."""

import asyncio
import contextlib
import os
import time

import leveret_interop as interop
import pytest
from rstream import (
    AMQPMessage,
    CompressionType,
    Consumer,
    ConsumerOffsetSpecification,
    FilterConfiguration,
    OffsetNotFound,
    OffsetSpecification,
    OffsetType,
    Producer,
    RouteType,
    StreamDoesNotExist,
    SuperStreamConsumer,
    SuperStreamProducer,
    amqp_decoder,
    exceptions,
)

PORT = int(os.environ["STREAM_PORT"])
LOGIN = {"host": "localhost", "port": PORT, "username": "guest", "password": "guest"}


@contextlib.asynccontextmanager
async def producer(**options):
    one = Producer(**LOGIN, **options)
    await one.start()
    try:
        yield one
    finally:
        await one.close()


@contextlib.asynccontextmanager
async def stream(arguments=None):
    """A stream of its own, and a producer; gone afterwards."""
    name = interop.unique("stream")
    async with producer() as one:
        await one.create_stream(name, arguments=arguments or {})
        yield name, one
        await one.delete_stream(name, missing_ok=True)


async def until(condition, what="the condition", seconds=15):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true within {seconds} s"
        await asyncio.sleep(0.01)


async def publish(one, name, bodies, publisher=None, first=None):
    """Publishes, and waits until all is confirmed."""
    confirmed = []

    async def on_confirm(status):
        assert status.is_confirmed, status
        confirmed.append(status.message_id)

    for at, body in enumerate(bodies):
        message = AMQPMessage(body=body)
        message.publishing_id = None if first is None else first + at
        await one.send(
            name,
            message,
            publisher_name=publisher,
            on_publish_confirm=on_confirm,
        )
    await until(lambda: len(confirmed) == len(bodies), "all confirms")


async def read(name, count, spec, **options):
    """The first messages from an offset on, each with its offset."""
    found = []
    consumer = Consumer(**LOGIN)
    await consumer.start()

    async def on_message(message, context):
        found.append((context.offset, bytes(message.body)))

    await consumer.subscribe(
        name, callback=on_message, decoder=amqp_decoder, offset_specification=spec, **options
    )
    await until(lambda: len(found) >= count, f"{count} messages")
    await consumer.close()
    return found


def bodies(start, end):
    return [b"m%d" % number for number in range(start, end)]


async def test_what_is_published_is_confirmed_and_read_from_the_first_message_on():
    async with stream() as (name, one):
        await publish(one, name, bodies(0, 2000))
        first = ConsumerOffsetSpecification(OffsetType.FIRST)
        assert await read(name, 2000, first) == list(enumerate(bodies(0, 2000)))


async def test_every_kind_of_offset():
    async with stream() as (name, one):
        await publish(one, name, bodies(0, 10))
        await asyncio.sleep(0.05)
        between = int(time.time() * 1000)
        await asyncio.sleep(0.05)
        await publish(one, name, bodies(10, 20))
        at_five = ConsumerOffsetSpecification(OffsetType.OFFSET, 5)
        assert (await read(name, 15, at_five))[0] == (5, b"m5")
        later = ConsumerOffsetSpecification(OffsetType.TIMESTAMP, between)
        assert (await read(name, 10, later))[-1] == (19, b"m19")
        last = await read(name, 1, ConsumerOffsetSpecification(OffsetType.LAST))
        assert last[-1] == (19, b"m19")
        reading = asyncio.create_task(
            read(name, 1, ConsumerOffsetSpecification(OffsetType.NEXT))
        )
        await asyncio.sleep(0.5)
        await publish(one, name, [b"next"])
        assert await reading == [(20, b"next")]


async def test_stored_offsets_are_found_again():
    async with stream() as (name, one):
        await publish(one, name, bodies(0, 100))
        consumer = Consumer(**LOGIN)
        await consumer.start()
        await consumer.subscribe(
            name, callback=lambda m, c: None, decoder=amqp_decoder, subscriber_name="app"
        )
        with pytest.raises(OffsetNotFound):
            await consumer.query_offset(name, "app")
        await consumer.store_offset(name, "app", 42)
        found = None
        for _ in range(100):
            with contextlib.suppress(OffsetNotFound):
                found = await consumer.query_offset(name, "app")
            if found == 42:
                break
            await asyncio.sleep(0.05)
        assert found == 42
        await consumer.close()


async def test_what_a_publisher_says_twice_is_stored_once():
    async with stream() as (name, one):
        await publish(one, name, bodies(1, 11), publisher="p", first=1)
        await publish(one, name, bodies(6, 16), publisher="p", first=6)
        first = ConsumerOffsetSpecification(OffsetType.FIRST)
        assert [body for _, body in await read(name, 15, first)] == bodies(1, 16)


async def test_batches_within_an_entry():
    async with stream() as (name, one):
        confirmed = []

        async def on_confirm(status):
            confirmed.append(status)

        for compression in (CompressionType.No, CompressionType.Gzip):
            messages = [AMQPMessage(body=body) for body in bodies(0, 50)]
            await one.send_sub_entry(
                name, messages, compression_type=compression, on_publish_confirm=on_confirm
            )
        await until(lambda: len(confirmed) == 2, "two confirms")
        first = ConsumerOffsetSpecification(OffsetType.FIRST)
        found = [body for _, body in await read(name, 100, first)]
        assert found == bodies(0, 50) * 2


@interop.leveret_only
async def test_only_chunks_that_may_match_a_filter_are_sent():
    async with stream() as (name, _):

        async def value_of(message):
            return message.application_properties["area"]

        async with producer(filter_value_extractor=value_of) as filtered:
            for area in ("east", "west"):
                confirmed = []

                async def on_confirm(status):
                    confirmed.append(status)

                for number in range(100):
                    message = AMQPMessage(
                        body=b"%d" % number, application_properties={"area": area}
                    )
                    await filtered.send(name, message, on_publish_confirm=on_confirm)
                await until(lambda: len(confirmed) == 100, "all confirms")
        found = []
        consumer = Consumer(**LOGIN)
        await consumer.start()
        await consumer.subscribe(
            name,
            callback=lambda m, c: found.append(m.application_properties[b"area"]),
            decoder=amqp_decoder,
            offset_specification=ConsumerOffsetSpecification(OffsetType.FIRST),
            filter_input=FilterConfiguration(values_to_filter=["west"]),
        )
        await until(lambda: len(found) >= 100, "the western ones")
        await consumer.close()
        assert set(found) == {b"west"}


async def test_a_stream_that_exists_or_does_not():
    async with stream() as (name, one):
        assert await one.stream_exists(name)
        with pytest.raises(exceptions.StreamAlreadyExists):
            await one.create_stream(name)
        await one.delete_stream(name)
        assert not await one.stream_exists(name)
        with pytest.raises(StreamDoesNotExist):
            await one.delete_stream(name)


async def test_a_wrong_password_is_refused():
    one = Producer(**{**LOGIN, "password": "wrong"})
    with pytest.raises(exceptions.AuthenticationFailure):
        await one.start()
        await one.create_stream("none")


@interop.leveret_only
async def test_a_super_stream_is_made_published_to_and_read():
    name = interop.unique("super")

    async def key_of(message):
        return message.application_properties["id"]

    super_producer = SuperStreamProducer(
        **LOGIN, super_stream=name, routing_extractor=key_of, routing=RouteType.Hash
    )
    async with producer() as one:
        client = await one.default_client
        names = [f"{name}-{number}" for number in range(3)]
        await client.create_super_stream(name, names, ["0", "1", "2"])
        async with super_producer:
            for number in range(300):
                message = AMQPMessage(
                    body=b"%d" % number, application_properties={"id": str(number)}
                )
                await super_producer.send(message)
        found = []
        consumer = SuperStreamConsumer(**LOGIN, super_stream=name)
        await consumer.start()
        await consumer.subscribe(
            callback=lambda m, c: found.append((c.stream, int(bytes(m.body)))),
            decoder=amqp_decoder,
            offset_specification=ConsumerOffsetSpecification(OffsetType.FIRST),
        )
        await until(lambda: len(found) >= 300, "all messages")
        await consumer.close()
        assert sorted(number for _, number in found) == list(range(300))
        assert {partition for partition, _ in found} == set(names), "spread over all"
        await client.delete_super_stream(name)
        assert not await one.stream_exists(names[0])


@interop.leveret_only
async def test_a_super_stream_is_routed_by_keys():
    name, keys = interop.unique("super"), ["amer", "emea", "apac"]

    async def key_of(message):
        return message.application_properties["key"]

    def routed():
        return SuperStreamProducer(
            **LOGIN, super_stream=name, routing_extractor=key_of, routing=RouteType.Key
        )

    async with producer() as one:
        client = await one.default_client
        await client.create_super_stream(name, [f"{name}-{key}" for key in keys], keys)
        confirmed = []
        for key, count in [("emea", 2), ("apac", 1)]:
            # This client asks where a key leads for its first message, and sends all others there.
            async with routed() as to_one:
                wanted = len(confirmed) + count
                for _ in range(count):
                    message = AMQPMessage(body=key.encode(), application_properties={"key": key})
                    await to_one.send(message, on_publish_confirm=confirmed.append)
                await until(lambda wanted=wanted: len(confirmed) == wanted, "all confirms")
        first = ConsumerOffsetSpecification(OffsetType.FIRST)
        assert await read(f"{name}-emea", 2, first) == [(0, b"emea"), (1, b"emea")]
        assert await read(f"{name}-apac", 1, first) == [(0, b"apac")]
        await client.delete_super_stream(name)


@interop.leveret_only
async def test_of_a_group_one_consumer_at_a_time_is_active():
    async with stream() as (name, one):
        await publish(one, name, bodies(0, 10))
        active, found = [], {"a": [], "b": []}

        async def start(who):
            consumer = Consumer(**LOGIN)
            await consumer.start()

            async def on_update(is_active, _):
                active.append((who, is_active))
                return OffsetSpecification(OffsetType.FIRST, 0)

            await consumer.subscribe(
                name,
                callback=lambda m, c: found[who].append(bytes(m.body)),
                decoder=amqp_decoder,
                properties={"single-active-consumer": "true", "name": "group"},
                subscriber_name=f"{who}",
                consumer_update_listener=on_update,
            )
            return consumer

        first = await start("a")
        await until(lambda: len(found["a"]) == 10, "the first one's messages")
        second = await start("b")
        await asyncio.sleep(0.3)
        assert found["b"] == []
        await first.close()
        await until(lambda: len(found["b"]) == 10, "the second one's messages")
        await second.close()


@interop.leveret_only
async def test_what_was_confirmed_outlives_a_kill():
    name = interop.unique("stream")
    async with producer() as one:
        await one.create_stream(name)
        await publish(one, name, bodies(0, 1000))
    interop.control("crash")
    async with producer() as one:
        await publish(one, name, bodies(1000, 1100))
        first = ConsumerOffsetSpecification(OffsetType.FIRST)
        assert await read(name, 1100, first) == list(enumerate(bodies(0, 1100)))
        await one.delete_stream(name)
