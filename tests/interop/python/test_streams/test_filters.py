"""Filtering message by message with rstream: the node sends what matches, at its own offset."""

import asyncio

import leveret_interop as interop
from rstream import (
    AMQPMessage,
    Consumer,
    ConsumerOffsetSpecification,
    FilterConfiguration,
    OffsetType,
    amqp_decoder,
)
from test_streams import LOGIN, producer, stream, until

pytestmark = interop.leveret_only

#: No value is the empty one: this client cannot say none in a frame that has values.
AREAS = ["east", "west", "", "west", "north"]
MESSAGES = 500


def area(number):
    return AREAS[number % len(AREAS)]


async def fill(name, start=0):
    """Publishes messages of all areas in turn, and waits for the confirms."""

    async def value_of(message):
        return area(int(bytes(message.body)))

    confirmed = []

    async def on_confirm(status):
        assert status.is_confirmed, status
        confirmed.append(status.message_id)

    async with producer(filter_value_extractor=value_of) as filtered:
        batch = [AMQPMessage(body=b"%d" % (start + number)) for number in range(MESSAGES)]
        for message in batch:
            await filtered.send(name, message, on_publish_confirm=on_confirm)
        await until(lambda: len(confirmed) == MESSAGES, "all confirms")


class Reading:
    """A consumer that asks for single messages, and whatever the node sends it."""

    def __init__(self, name, values, spec, unfiltered=False, credit=10, **properties):
        self.name, self.values, self.spec = name, values, spec
        self.unfiltered, self.credit = unfiltered, credit
        self.properties = {"filter-messages": "true", **properties}
        self.found = []

    async def __aenter__(self):
        self.consumer = Consumer(**LOGIN)
        await self.consumer.start()

        async def on_message(message, context):
            self.found.append((context.offset, int(bytes(message.body))))

        await self.consumer.subscribe(
            self.name,
            callback=on_message,
            decoder=amqp_decoder,
            offset_specification=self.spec,
            properties=self.properties,
            initial_credit=self.credit,
            filter_input=FilterConfiguration(
                values_to_filter=self.values, match_unfiltered=self.unfiltered
            ),
        )
        return self

    async def __aexit__(self, *_):
        await self.consumer.close()


def wanted(values, start=0, end=MESSAGES):
    return [(number, number) for number in range(start, end) if area(number) in values]


FIRST = ConsumerOffsetSpecification(OffsetType.FIRST)


async def test_only_messages_that_match_are_sent_each_at_its_own_offset():
    async with stream() as (name, _):
        await fill(name)
        for values, unfiltered in ((["west"], False), (["east", "north"], True)):
            expected = wanted(values + [""] * unfiltered)
            async with Reading(name, values, FIRST, unfiltered) as reading:
                await until(lambda r=reading, e=expected: len(r.found) >= len(e), "all that match")
                await asyncio.sleep(0.2)
                assert reading.found == expected
        # What is published while somebody reads comes as well.
        last = ConsumerOffsetSpecification(OffsetType.NEXT)
        async with Reading(name, ["west"], last) as reading:
            await fill(name, start=MESSAGES)
            expected = wanted(["west"], MESSAGES, 2 * MESSAGES)
            await until(lambda: len(reading.found) >= len(expected), "all that match")
            assert reading.found == expected


async def test_a_reader_goes_on_behind_an_offset_with_one_credit():
    async with stream() as (name, _):
        await fill(name)
        at = ConsumerOffsetSpecification(OffsetType.OFFSET, 101)
        expected = wanted(["west"], start=101)
        async with Reading(name, ["west"], at, credit=1) as reading:
            await until(lambda: len(reading.found) >= len(expected), "all that match")
            assert reading.found == expected


async def test_what_was_filtered_outlives_a_kill():
    async with stream() as (name, _):
        await fill(name)
        interop.control("crash")
        expected = wanted(["north"])
        async with Reading(name, ["north"], FIRST) as reading:
            await until(lambda: len(reading.found) >= len(expected), "all that match")
            assert reading.found == expected
