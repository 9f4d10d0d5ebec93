"""rstream over three nodes, of which the one that leads a stream is killed."""

import asyncio
import contextlib
import itertools
import os
import socket
import time
from collections import Counter

import leveret_interop as interop
import leveret_streams as streams
import pika
import pytest
from rstream import (
    AMQPMessage,
    CompressionType,
    Consumer,
    ConsumerOffsetSpecification,
    FilterConfiguration,
    OffsetSpecification,
    OffsetType,
    Producer,
    RouteType,
    SuperStreamConsumer,
    SuperStreamProducer,
    amqp_decoder,
)
from rstream.recovery import BackOffRecoveryStrategy

pytestmark = pytest.mark.timeout(240)

PORTS = [int(address.rsplit(":", 1)[1]) for address in os.environ["CLUSTER_STREAMS"].split(",")]
CONTROLS = [address.rsplit(":", 1) for address in os.environ["CLUSTER_CONTROLS"].split(",")]

#: How long a client may take to get over the loss of a node: it waits by itself before it tries.
PATIENCE = 90
#: How long one step may take before it is begun anew at another node.
STEP = 10
FIRST = ConsumerOffsetSpecification(OffsetType.FIRST)
NEXT = ConsumerOffsetSpecification(OffsetType.NEXT)


def login(node):
    return {"host": "localhost", "port": PORTS[node], "username": "guest", "password": "guest"}


def leader(stream):
    """The number of the node that leads a stream."""
    for port in itertools.cycle(PORTS):
        with contextlib.suppress(ConnectionError, streams.Closed), streams.Peer(port) as peer:
            found = peer.log_in().leader(stream)
            if found in PORTS:
                return PORTS.index(found)
        time.sleep(0.1)


def crash(node):
    """kill -9 of a node, and a start on what it has; returns when it accepts."""
    host, port = CONTROLS[node]
    with socket.create_connection((host, int(port)), timeout=150) as control:
        control.sendall(b"crash\n")
        answer = control.makefile().readline()
    assert answer.startswith("ok"), answer


async def kill_leader(stream):
    await asyncio.to_thread(lambda: crash(leader(stream)))


async def until(condition, what, seconds=PATIENCE):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true within {seconds} s"
        await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def ended(one):
    """Begins a client of this library's and closes it, though its node may have gone."""
    await asyncio.wait_for(one.start(), STEP)
    try:
        yield one
    finally:
        with contextlib.suppress(Exception):
            await asyncio.wait_for(one.close(), STEP)


async def by_hand(what, work):
    """Does what is to be done at one node after the other, until it succeeds."""
    deadline, node = time.monotonic() + PATIENCE, itertools.cycle(range(len(PORTS)))
    while True:
        try:
            return await work(login(next(node)))
        except Exception as error:
            assert time.monotonic() < deadline, f"{what}: {error!r}"
            await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def stream():
    """A stream of its own with a replica on each node; gone afterwards."""
    name = interop.unique("stream")

    async def create(at):
        async with ended(Producer(**at)) as one:
            await asyncio.wait_for(one.create_stream(name, exists_ok=True), STEP)

    await by_hand("a stream", create)
    yield name
    with streams.Peer(PORTS[0]) as peer:
        peer.log_in().ask(streams.DELETE, name)


async def confirmed_batch(one, name, messages, publisher):
    """Publishes messages, and returns when each of them is confirmed."""
    statuses = []
    sending = one.send_batch(
        name, messages, publisher_name=publisher, on_publish_confirm=statuses.append
    )
    await asyncio.wait_for(sending, STEP)
    deadline = time.monotonic() + STEP
    while len(statuses) < len(messages):
        if time.monotonic() > deadline or not all(status.is_confirmed for status in statuses):
            raise ConnectionError(f"{len(statuses)} of {len(messages)} confirmed")
        await asyncio.sleep(0.002)
    if not all(status.is_confirmed for status in statuses):
        raise ConnectionError("refused")


def numbered(number, publishing_id, **properties):
    message = AMQPMessage(body=b"%d" % number, **properties)
    message.publishing_id = publishing_id
    return message


class Publishing:
    """Publishes numbers under a name, a hundred at a time.

    The client connects again by itself, and then sends what comes next: of a publisher with a name
    what was lost before that would be refused as said already. So it is let connect no more by
    itself, and the test begins anew with the first message that is not confirmed.
    """

    def __init__(self, stream):
        self.stream, self.confirmed = stream, 0

    async def run(self, is_done):
        async def publish(at):
            producer = Producer(**at, recovery_strategy=BackOffRecoveryStrategy(False))
            async with ended(producer) as one:
                while not is_done():
                    numbers = range(self.confirmed, self.confirmed + 100)
                    messages = [numbered(number, number + 1) for number in numbers]
                    await confirmed_batch(one, self.stream, messages, "publisher")
                    self.confirmed += 100

        await by_hand("a publisher", publish)


async def publish_once(name, publisher, messages, **options):
    """Publishes messages under a name of their own, again and again until all are confirmed."""

    async def publish(at):
        async with ended(Producer(**at, **options)) as one:
            await confirmed_batch(one, name, messages, publisher)

    await by_hand("a publisher", publish)


@contextlib.asynccontextmanager
async def reading(name, spec, **options):
    """What a consumer is given, each with its offset. It connects again by itself."""
    found = []

    async def on_message(message, context):
        found.append((context.offset, int(bytes(message.body))))

    async def subscribe(at):
        consumer = Consumer(**at, recovery_strategy=BackOffRecoveryStrategy(True, jitter=2))
        await asyncio.wait_for(consumer.start(), STEP)
        subscribing = consumer.subscribe(
            name, callback=on_message, decoder=amqp_decoder, offset_specification=spec, **options
        )
        await asyncio.wait_for(subscribing, STEP)
        return consumer

    consumer = await by_hand("a consumer", subscribe)
    try:
        yield found
    finally:
        with contextlib.suppress(Exception):
            await asyncio.wait_for(consumer.close(), STEP)


async def read(name, spec, last, **options):
    """What comes from there on to this number."""
    async with reading(name, spec, **options) as found:
        await until(lambda: found and found[-1][1] == last, f"the number {last}")
        return found


def pika_reads(address, name, count):
    """What a consumer of AMQP 0-9-1 is given at a node, from the first message on."""
    connection = pika.BlockingConnection(pika.URLParameters(f"amqp://guest:guest@{address}/%2f"))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=1_000)
    found = []

    def deliver(_channel, method, properties, body):
        found.append((properties.headers["x-stream-offset"], int(body)))
        channel.basic_ack(method.delivery_tag)

    channel.basic_consume(name, deliver, arguments={"x-stream-offset": "first"})
    interop.pump(connection, lambda: len(found) >= count, PATIENCE)
    connection.close()
    return found


async def test_what_is_confirmed_is_there_once_though_the_leaders_node_is_killed():
    async with stream() as name, reading(name, FIRST) as found:
        publishing = Publishing(name)
        await publishing.run(lambda: publishing.confirmed >= 1_000)
        await asyncio.sleep(0.05)
        between = int(time.time() * 1000)
        await asyncio.sleep(0.05)
        killing = asyncio.create_task(kill_leader(name))
        await publishing.run(killing.done)
        await killing
        enough = publishing.confirmed + 1_000
        await publishing.run(lambda: publishing.confirmed >= enough)
        numbers = list(range(publishing.confirmed))
        # The consumer that was there all the while has got over it too.
        await until(lambda: {number for _, number in found} == set(numbers), "all numbers")
        whole = await read(name, FIRST, numbers[-1])
        assert [number for _, number in whole] == numbers
        for address in os.environ["CLUSTER_AMQP"].split(","):
            assert await asyncio.to_thread(pika_reads, address, name, len(whole)) == whole
        # Whatever a consumer asks to begin with.
        middle = ConsumerOffsetSpecification(OffsetType.OFFSET, whole[1_234][0])
        assert await read(name, middle, numbers[-1]) == whole[1_234:]
        later = ConsumerOffsetSpecification(OffsetType.TIMESTAMP, between)
        assert await read(name, later, numbers[-1]) == whole[1_000:]
        end = await read(name, ConsumerOffsetSpecification(OffsetType.LAST), numbers[-1])
        assert end == whole[-len(end) :]
        async with reading(name, NEXT) as new:
            await publishing.run(lambda: publishing.confirmed > len(numbers))
            await until(lambda: len(new) >= 100, "what is new")
            assert [number for _, number in new] == list(range(len(numbers), publishing.confirmed))


async def test_filters_before_and_after_the_leaders_node_is_killed():
    async def value_of(message):
        return message.application_properties["area"]

    async with stream() as name:
        for part in range(2):
            for area in ("east", "west"):
                messages = [
                    numbered(100 * part + n, n + 1, application_properties={"area": area})
                    for n in range(100)
                ]
                publisher = f"{area}-{part}"
                await publish_once(name, publisher, messages, filter_value_extractor=value_of)
            if part == 0:
                await kill_leader(name)
        west = FilterConfiguration(values_to_filter=["west"])
        found = await read(name, FIRST, 199, filter_input=west)
        assert [number for _, number in found] == list(range(200))


async def test_batches_within_an_entry_before_and_after_the_leaders_node_is_killed():
    codecs = (CompressionType.No, CompressionType.Gzip)

    async def publish(name, first):
        async def batches(at):
            async with ended(Producer(**at)) as one:
                confirmed = []
                for part, codec in enumerate(codecs):
                    numbers = range(first + 50 * part, first + 50 * part + 50)
                    await one.send_sub_entry(
                        name,
                        [AMQPMessage(body=b"%d" % number) for number in numbers],
                        compression_type=codec,
                        on_publish_confirm=confirmed.append,
                    )
                await until(lambda: len(confirmed) == len(codecs), "the confirms", STEP)

        await by_hand("a publisher", batches)

    async with stream() as name:
        await publish(name, 0)
        await kill_leader(name)
        await publish(name, 100)
        found = await read(name, FIRST, 199)
        counts = Counter(number for _, number in found)
        assert set(counts) == set(range(200))
        # What was confirmed before is there once; what comes after may have been sent twice.
        assert all(counts[number] == 1 for number in range(100))


class Member:
    """A consumer of all partitions of a super stream, with the others of its group one by one. It
    connects again by itself."""

    def __init__(self, name, at):
        self.found = []
        self.name = name
        self.consumer = SuperStreamConsumer(
            **at, super_stream=name, recovery_strategy=BackOffRecoveryStrategy(True, jitter=2)
        )

    async def join(self):
        async def what_comes(_is_active, _context):
            return OffsetSpecification(OffsetType.NEXT, 0)

        group = {"single-active-consumer": "true", "name": "group", "super-stream": self.name}
        await self.consumer.start()
        await self.consumer.subscribe(
            callback=lambda message, _: self.found.append(bytes(message.body)),
            decoder=amqp_decoder,
            offset_specification=NEXT,
            properties=group,
            subscriber_name="member",
            consumer_update_listener=what_comes,
        )
        return self

    async def leave(self):
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self.consumer.close(), STEP)


async def key_of(message):
    return message.application_properties["key"]


async def publish_keyed(name, bodies):
    async def publish(at):
        producer = SuperStreamProducer(
            **at, super_stream=name, routing_extractor=key_of, routing=RouteType.Hash
        )
        async with ended(producer) as one:
            confirmed = []
            for body in bodies:
                properties = {"key": body.decode()}
                message = AMQPMessage(body=body, application_properties=properties)
                await one.send(message, on_publish_confirm=confirmed.append)
            await until(lambda: len(confirmed) == len(bodies), "the confirms", STEP)
            assert all(status.is_confirmed for status in confirmed)

    await by_hand("a publisher", publish)


async def shared(name, members):
    """Publishes until each of the messages that were published together goes to one member."""

    async def is_shared():
        bodies = [interop.unique("b").encode() for _ in range(90)]
        await publish_keyed(name, bodies)
        counts = Counter()

        def count():
            counts.clear()
            counts.update(body for member in members for body in member.found)
            return all(counts[body] for body in bodies)

        with contextlib.suppress(AssertionError):
            await until(count, "all messages", STEP)
        # A second active consumer would be given them at the same time.
        await asyncio.sleep(0.3)
        count()
        return all(counts[body] == 1 for body in bodies)

    deadline = time.monotonic() + PATIENCE
    while not await is_shared():
        assert time.monotonic() < deadline, "no messages went to one member each"


async def test_a_super_streams_group_has_one_reader_of_each_partition_when_a_leader_is_killed():
    name = interop.unique("super")
    partitions = [f"{name}-{number}" for number in range(3)]

    async def create(at):
        async with ended(Producer(**at)) as one:
            client = await one.default_client
            await client.create_super_stream(name, partitions, ["0", "1", "2"])

    await by_hand("a super stream", create)

    async def join(at):
        return await asyncio.wait_for(Member(name, at).join(), STEP)

    members = [await by_hand("a member", join) for _ in range(2)]
    await shared(name, members)
    await kill_leader(partitions[0])
    await shared(name, members)
    for member in members:
        await member.leave()
    with streams.Peer(PORTS[0]) as peer:
        assert peer.log_in().ask(streams.DELETE_SUPER_STREAM, name) == streams.OK
