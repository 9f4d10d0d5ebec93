"""aio-pika's patterns: robust connections, iterators, RPC, pools."""

import asyncio

import aio_pika
import leveret_interop as interop
import pytest
from aio_pika.patterns import RPC, Master
from leveret_interop import unique


async def connected():
    return await aio_pika.connect_robust(interop.URL)


async def test_publish_and_iterate():
    async with await connected() as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(unique(), auto_delete=True)
        for number in range(100):
            message = aio_pika.Message(b"%d" % number, headers={"n": number})
            await channel.default_exchange.publish(message, routing_key=queue.name)
        found = []
        async with queue.iterator() as messages:
            async for message in messages:
                async with message.process():
                    found.append((int(message.body), message.headers["n"]))
                if len(found) == 100:
                    break
        assert found == [(number, number) for number in range(100)]


async def test_confirms_of_many_publishes_at_once():
    async with await connected() as connection:
        channel = await connection.channel(publisher_confirms=True)
        queue = await channel.declare_queue(unique(), exclusive=True)
        publishes = [
            channel.default_exchange.publish(aio_pika.Message(b"x"), routing_key=queue.name)
            for _ in range(500)
        ]
        await asyncio.gather(*publishes)
        assert (await queue.declare()).message_count == 500


async def test_unroutable_raises():
    async with await connected() as connection:
        channel = await connection.channel(on_return_raises=True)
        with pytest.raises(aio_pika.exceptions.PublishError):
            await channel.default_exchange.publish(aio_pika.Message(b"x"), routing_key="nowhere")


async def test_rpc_pattern():
    async with await connected() as connection:
        channel = await connection.channel()
        rpc = await RPC.create(channel)

        async def multiply(*, x, y):
            return x * y

        name = unique("multiply")
        await rpc.register(name, multiply, auto_delete=True)
        results = await asyncio.gather(
            *(rpc.call(name, kwargs={"x": x, "y": 2}) for x in range(50))
        )
        assert results == [x * 2 for x in range(50)]


async def test_master_pattern():
    async with await connected() as connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=5)
        master = Master(channel)
        done = []

        async def task(*, number):
            done.append(number)

        name = unique("task")
        worker = await master.create_worker(name, task, auto_delete=True)
        for number in range(50):
            await master.create_task(name, kwargs={"number": number})
        while len(done) < 50:
            await asyncio.sleep(0.01)
        assert sorted(done) == list(range(50))
        await worker.close()


async def test_transaction():
    async with await connected() as connection:
        channel = await connection.channel(publisher_confirms=False)
        queue = await channel.declare_queue(unique(), exclusive=True)
        async with channel.transaction():
            await channel.default_exchange.publish(aio_pika.Message(b"x"), routing_key=queue.name)
        assert (await queue.get(timeout=5)).body == b"x"


async def test_exchange_bindings_and_passive_declarations():
    async with await connected() as connection:
        channel = await connection.channel()
        first = await channel.declare_exchange(unique("x"), "topic", auto_delete=True)
        second = await channel.declare_exchange(unique("x"), "fanout", auto_delete=True)
        await second.bind(first, routing_key="a.#")
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(second)
        await first.publish(aio_pika.Message(b"x"), routing_key="a.b")
        assert (await queue.get(timeout=5)).routing_key == "a.b"
        with pytest.raises(aio_pika.exceptions.ChannelNotFoundEntity):
            await channel.declare_queue(unique(), passive=True)


async def test_robust_connection_comes_back():
    connection = await connected()
    channel = await connection.channel()
    queue = await channel.declare_queue(unique("robust"), durable=True)
    found = asyncio.Queue()
    await queue.consume(found.put, no_ack=True)
    await asyncio.to_thread(interop.control, "restart")
    for _ in range(200):
        try:
            await channel.default_exchange.publish(aio_pika.Message(b"x"), routing_key=queue.name)
            break
        except (aio_pika.exceptions.AMQPError, ConnectionError, RuntimeError):
            await asyncio.sleep(0.1)
    message = await asyncio.wait_for(found.get(), 30)
    assert message.body == b"x"
    await queue.delete(if_unused=False)
    await connection.close()
