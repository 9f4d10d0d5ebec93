"""One stream for two protocols: rstream writes and pika reads, and the other way round."""

import asyncio

import leveret_interop as interop
import pika
from rstream import AMQPMessage, CompressionType, ConsumerOffsetSpecification, OffsetType
from rstream import Consumer, Properties, amqp_decoder
from test_streams import LOGIN, publish, stream, until

FIRST = ConsumerOffsetSpecification(OffsetType.FIRST, None)


def pika_reads(name, count):
    """The first messages of a stream: a list of (method, properties, body)."""
    connection = interop.connect()
    channel = connection.channel()
    channel.basic_qos(prefetch_count=10)
    found = []

    def deliver(_channel, method, properties, body):
        found.append((method, properties, body))
        channel.basic_ack(method.delivery_tag)

    channel.basic_consume(name, deliver, arguments={"x-stream-offset": "first"})
    interop.pump(connection, lambda: len(found) >= count, 20)
    connection.close()
    return found


def pika_publishes(name, bodies, **properties):
    connection = interop.connect()
    channel = connection.channel()
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish("", name, body, pika.BasicProperties(**properties))
    connection.close()


async def test_pika_reads_what_a_stream_client_wrote():
    async with stream() as (name, one):
        message = AMQPMessage(
            body=b"hello",
            properties=Properties(message_id="mid", content_type="text/plain", group_id="app"),
            application_properties={"text": "value", "number": 7},
        )
        confirmed = []

        async def on_confirm(status):
            confirmed.append(status.is_confirmed)

        await one.send(name, message, on_publish_confirm=on_confirm)
        await until(lambda: confirmed == [True])
        method, properties, body = (await asyncio.to_thread(pika_reads, name, 1))[0]
        assert (method.exchange, method.routing_key, body) == ("", name, b"hello")
        assert (properties.message_id, properties.content_type) == ("mid", "text/plain")
        assert properties.app_id == "app"
        assert properties.headers == {"text": "value", "number": 7, "x-stream-offset": 0}


async def test_pika_reads_batches_plain_and_gzipped():
    async with stream() as (name, one):
        for compression in (CompressionType.No, CompressionType.Gzip):
            messages = [AMQPMessage(body=b"%d" % at) for at in range(50)]
            confirmed = []

            async def on_confirm(status, confirmed=confirmed):
                confirmed.append(status.is_confirmed)

            await one.send_sub_entry(
                name, messages, compression_type=compression, on_publish_confirm=on_confirm
            )
            await until(lambda confirmed=confirmed: confirmed == [True])
        found = await asyncio.to_thread(pika_reads, name, 100)
        assert [int(body) for _, _, body in found] == [*range(50), *range(50)]
        offsets = [properties.headers["x-stream-offset"] for _, properties, _ in found]
        assert offsets == list(range(100))


async def test_a_stream_client_reads_what_pika_wrote():
    async with stream() as (name, _):
        await asyncio.to_thread(
            pika_publishes,
            name,
            [b"hello"],
            message_id="mid",
            content_type="text/plain",
            app_id="app",
            headers={"text": "value", "flag": True},
        )
        found = []
        consumer = Consumer(**LOGIN)
        await consumer.start()

        async def on_message(message, _context):
            found.append(message)

        await consumer.subscribe(
            name, callback=on_message, decoder=amqp_decoder, offset_specification=FIRST
        )
        await until(lambda: found)
        await consumer.close()
        message = found[0]
        text = lambda value: value.decode() if isinstance(value, bytes) else value  # noqa: E731
        assert bytes(message.body) == b"hello"
        assert text(message.properties.message_id) == "mid"
        assert text(message.properties.group_id) == "app"
        headers = {text(k): text(v) for k, v in message.application_properties.items()}
        assert headers == {"text": "value", "flag": True}
        annotations = {text(k): text(v) for k, v in message.message_annotations.items()}
        assert (annotations["x-exchange"], annotations["x-routing-key"]) == ("", name)


async def test_both_write_and_both_read_in_one_order():
    async with stream() as (name, one):
        for at in range(0, 40, 2):
            await publish(one, name, [b"%d" % at])
            await asyncio.to_thread(pika_publishes, name, [b"%d" % (at + 1)])
        found = await asyncio.to_thread(pika_reads, name, 40)
        assert [int(body) for _, _, body in found] == list(range(40))


def view_is_empty(view, count):
    """Takes so many messages of a view; it has nothing more, and says so at once."""
    connection = interop.connect()
    channel = connection.channel()
    taken = [interop.get(channel, view)[2] for _ in range(count)]
    interop.await_count(channel, view, 0)
    assert channel.basic_get(view, auto_ack=True)[0] is None
    connection.close()
    return taken


@interop.leveret_only
async def test_a_view_is_empty_though_consumers_store_offsets_behind_its_last_message():
    async with stream() as (name, one):
        connection = interop.connect()
        views = [(interop.unique("view"), kind) for kind in ("classic", "quorum")]
        for view, kind in views:
            arguments = {"x-stream-source": name, "x-queue-type": kind}
            connection.channel().queue_declare(view, durable=True, arguments=arguments)
        connection.close()
        reader = Consumer(**LOGIN)
        await reader.start()
        for number in range(3):
            body = b"%d" % number
            await publish(one, name, [body])
            await reader.store_offset(name, "group", number)
            # The stream keeps what is stored as a message that nobody is sent.
            path = f"/api/queues/%2F/{name}"
            await until(lambda: interop.http("GET", path)["committed_offset"] == 2 * number + 1)  # noqa: B023
            for view, _ in views:
                assert await asyncio.to_thread(view_is_empty, view, 1) == [body]
        await reader.close()
