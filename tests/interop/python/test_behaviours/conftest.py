import contextlib

import leveret_interop as interop
import pika
import pytest


@pytest.fixture
def connection():
    connection = interop.connect()
    yield connection
    with contextlib.suppress(pika.exceptions.AMQPError):
        connection.close()


@pytest.fixture
def channel(connection):
    return connection.channel()


@pytest.fixture
def queue(channel):
    name = interop.unique()
    channel.queue_declare(name, durable=True)
    yield name
    connection = interop.connect()
    connection.channel().queue_delete(name)
    connection.close()


@pytest.fixture
def exchange():
    """Gives a function that declares an exchange of a type; all are removed at the end."""
    made = []

    def declare(channel, kind="direct", **options):
        name = interop.unique("x")
        channel.exchange_declare(name, kind, **options)
        made.append(name)
        return name

    yield declare
    connection = interop.connect()
    channel = connection.channel()
    for name in made:
        channel.exchange_delete(name)
    connection.close()
