import leveret_interop as interop
import pytest


@pytest.fixture(autouse=True)
def bystander():
    """The common oracle: another connection works on all the while, and so does the process."""
    connection = interop.connect()
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    yield
    channel.basic_publish("", queue, b"still here")
    assert interop.get(channel, queue)[2] == b"still here"
    connection.close()
    assert interop.control("alive") == "true"
