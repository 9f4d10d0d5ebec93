"""What the interoperability tests share: connections, expectations, and the harness's control port."""

import contextlib
import json
import os
import socket
import struct
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

import pika
import pytest

URL = os.environ["AMQP_URL"]
HTTP_URL = os.environ["HTTP_URL"]
ON_RABBITMQ = os.environ.get("BROKER") == "rabbitmq"
HOST, PORT = (lambda address: (address.hostname, address.port))(urllib.parse.urlparse(URL))

#: Marks a test of what RabbitMQ 4 does and Debian's 3.10 does not do yet.
rabbitmq_4 = pytest.mark.skipif(ON_RABBITMQ, reason="RabbitMQ 4 behaviour; the peer is 3.10")
#: Marks a test of what Leveret adds, or of what is a plugin that Debian's package does not have.
leveret_only = pytest.mark.skipif(ON_RABBITMQ, reason="the peer does not have this")


def parameters(user="guest", password="guest", vhost="/", **options):
    return pika.ConnectionParameters(
        host=HOST,
        port=PORT,
        virtual_host=vhost,
        credentials=pika.PlainCredentials(user, password),
        blocked_connection_timeout=60,
        socket_timeout=10,
        **options,
    )


def connect(**options):
    return pika.BlockingConnection(parameters(**options))


def unique(prefix="q"):
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def until(condition, seconds=15, what="the condition"):
    """Waits for a condition; its first true value is the result."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"{what} did not come true within {seconds} s"
        time.sleep(0.02)


@contextlib.contextmanager
def closes(scope, code, text):
    """The block must end the channel or the connection with exactly this code and text."""
    kinds = {
        "channel": pika.exceptions.ChannelClosedByBroker,
        "connection": pika.exceptions.ConnectionClosedByBroker,
    }
    with pytest.raises(tuple(kinds.values())) as caught:
        yield
    error = caught.value
    assert isinstance(error, kinds[scope]), f"wanted a {scope} error, got {error!r}"
    assert (error.reply_code, error.reply_text) == (code, text)


def provoke(channel, action):
    """Runs an action, then a call that waits, so that an error sent asynchronously arrives."""
    action(channel)
    channel.basic_qos(prefetch_count=0)


def raw(channel, method, content=None):
    """Sends a method, and maybe a (properties, body), that pika's own API does not offer."""
    channel._impl._send_method(method, content)  # noqa: SLF001
    channel.connection._flush_output()  # noqa: SLF001


def get(channel, queue, auto_ack=True, seconds=10):
    """The next message, waited for: (method, properties, body)."""
    return until(
        lambda: (lambda got: got if got[0] else None)(channel.basic_get(queue, auto_ack=auto_ack)),
        seconds,
        f"a message in {queue}",
    )


def bodies(channel, queue):
    """All bodies that are ready, taken off."""
    found = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return found
        found.append(body.decode())


def count(channel, queue):
    return channel.queue_declare(queue, passive=True).method.message_count


def await_count(channel, queue, wanted, seconds=10):
    until(lambda: count(channel, queue) == wanted, seconds, f"{wanted} messages in {queue}")


def collect(channel, queue, number, seconds=10, **options):
    """Consumes until so many deliveries came; gives them as (method, properties, body)."""
    found = []
    tag = channel.basic_consume(
        queue, lambda _channel, *delivery: found.append(delivery), auto_ack=True, **options
    )
    pump(channel.connection, lambda: len(found) >= number, seconds)
    channel.basic_cancel(tag)
    return found


def pump(connection, condition, seconds=10):
    """Lets pika handle events until a condition is true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"nothing came within {seconds} s"
        connection.process_data_events(time_limit=0.05)


def settle_down(connection, seconds=0.3):
    """Lets pika handle events for a while, to show that something does not come."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        connection.process_data_events(time_limit=0.05)


def http(method, path, body=None):
    """A call of the management API as guest; the decoded answer."""
    request = urllib.request.Request(HTTP_URL + path, method=method)
    request.add_header("Authorization", "Basic Z3Vlc3Q6Z3Vlc3Q=")
    data = None
    if body is not None:
        data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, data, timeout=10) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def define(**definitions):
    """Imports a piece of a definitions file."""
    http("POST", "/api/definitions", definitions)


def control(*words):
    """A command to the harness: restart, crash, alive, rss, or ctl and its arguments."""
    host, port = os.environ["BROKER_CONTROL"].rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=150) as stream:
        stream.sendall(("\t".join(words) + "\n").encode())
        answer = stream.makefile().readline().rstrip("\n")
    assert answer.startswith("ok"), answer
    return answer[3:].replace("\t", "\n")


class RawPeer:
    """A connection that does nothing by itself."""

    def __enter__(self):
        self.stream = socket.create_connection((HOST, PORT), timeout=20)
        self.stream.sendall(b"AMQP\x00\x00\x09\x01")
        _, _, payload = self.read()
        (length,) = struct.unpack(">I", payload[6:10])
        rest = payload[10 + length :]
        (length,) = struct.unpack(">I", rest[:4])
        self.mechanisms = rest[4 : 4 + length].decode()
        return self

    def __exit__(self, *_):
        self.stream.close()

    def read_exactly(self, count):
        data = b""
        while len(data) < count:
            part = self.stream.recv(count - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def read(self):
        kind, channel, size = struct.unpack(">BHI", self.read_exactly(7))
        payload = self.read_exactly(size + 1)
        assert payload[-1] == 0xCE
        return kind, channel, payload[:-1]

    def method(self, channel, class_id, method_id, arguments):
        payload = struct.pack(">HH", class_id, method_id) + arguments
        frame = struct.pack(">BHI", 1, channel, len(payload)) + payload + b"\xce"
        self.stream.sendall(frame)

    def login(self, heartbeat=0):
        self.method(
            0, 10, 11, b"\0\0\0\0\x05PLAIN" + struct.pack(">I", 12) + b"\0guest\0guest" + b"\x05en_US"
        )
        _, _, payload = self.read()
        assert payload[:4] == struct.pack(">HH", 10, 30)
        self.tuned = struct.unpack(">HIH", payload[4:])
        self.method(0, 10, 31, struct.pack(">HIH", *self.tuned[:2], heartbeat))
        self.method(0, 10, 40, b"\x01/\0\0")
        _, _, payload = self.read()
        assert payload[:4] == struct.pack(">HH", 10, 41)
