"""The stream protocol by hand: for tests that say what no client library says."""

import os
import socket
import struct
import zlib
from typing import NamedTuple

PORT = int(os.environ.get("STREAM_PORT", "0"))

# Commands by number.
DECLARE_PUBLISHER, PUBLISH, PUBLISH_CONFIRM, PUBLISH_ERROR = 0x01, 0x02, 0x03, 0x04
QUERY_SEQUENCE, DELETE_PUBLISHER, SUBSCRIBE, DELIVER = 0x05, 0x06, 0x07, 0x08
CREDIT, STORE_OFFSET, QUERY_OFFSET, UNSUBSCRIBE = 0x09, 0x0A, 0x0B, 0x0C
CREATE, DELETE, METADATA, METADATA_UPDATE = 0x0D, 0x0E, 0x0F, 0x10
PEER_PROPERTIES, SASL_HANDSHAKE, SASL_AUTHENTICATE, TUNE = 0x11, 0x12, 0x13, 0x14
OPEN, CLOSE, HEARTBEAT, ROUTE, PARTITIONS, CONSUMER_UPDATE = 0x15, 0x16, 0x17, 0x18, 0x19, 0x1A
EXCHANGE_VERSIONS, STREAM_STATS = 0x1B, 0x1C
CREATE_SUPER_STREAM, DELETE_SUPER_STREAM, RESOLVE_OFFSET = 0x1D, 0x1E, 0x1F
RESPONSE = 0x8000

# Response codes.
OK, NO_STREAM, SUBSCRIPTION_EXISTS, NO_SUBSCRIPTION, STREAM_EXISTS = 1, 2, 3, 4, 5
NOT_AVAILABLE, NO_MECHANISM, LOGIN_FAILED, SASL_ERROR, SASL_CHALLENGE = 6, 7, 8, 9, 10
LOOPBACK, NO_VHOST, UNKNOWN_FRAME, FRAME_TOO_LARGE, INTERNAL = 11, 12, 13, 14, 15
REFUSED, PRECONDITION, NO_PUBLISHER, NO_OFFSET = 16, 17, 18, 19

# Where a subscription begins.
FIRST, LAST, NEXT, OFFSET, TIMESTAMP = 1, 2, 3, 4, 5

FRAME_MAX = 1_048_576
FRAME_MAX_BEFORE_OPEN = 8_192


class Number(NamedTuple):
    """A number of so many octets, by struct's letter."""

    kind: str
    value: int


def u8(value):
    return Number("B", value)


def u16(value):
    return Number("H", value)


def u32(value):
    return Number("I", value)


def u64(value):
    return Number("Q", value)


class Raw(bytes):
    """Octets as they are, without a length."""


class Length(NamedTuple):
    """Where in a frame's content a length stands, and what it says."""

    at: int
    kind: str
    says: int


def encode(fields):
    """The content of a frame: its octets, and the lengths in it. Text is a string, `bytes` are
    octets with their length, a list is its entries with their number."""
    out, lengths = bytearray(), []

    def put_length(kind, length):
        lengths.append(Length(len(out), kind, length))
        out.extend(struct.pack(">" + kind, length))

    def put(field):
        if isinstance(field, Number):
            out.extend(struct.pack(">" + field.kind, field.value))
        elif isinstance(field, str):
            data = field.encode()
            put_length("h", len(data))
            out.extend(data)
        elif isinstance(field, Raw):
            out.extend(field)
        elif isinstance(field, bytes):
            put_length("i", len(field))
            out.extend(field)
        elif isinstance(field, list):
            put_length("i", len(field))
            for entry in field:
                put(entry)
        else:
            for part in field:
                put(part)

    put(fields)
    return bytes(out), lengths


def frame(key, content=b"", version=1):
    return struct.pack(">IHH", len(content) + 4, key, version) + content


def message(publishing_id, body):
    """An entry of a publish."""
    return struct.pack(">QI", publishing_id, len(body)) + body


def batch(publishing_id, records, data, *, codec=0, uncompressed=None, size=None):
    """An entry that holds several messages, or says so."""
    uncompressed = len(data) if uncompressed is None else uncompressed
    size = len(data) if size is None else size
    return struct.pack(">QBHII", publishing_id, 0x80 | codec << 4, records, uncompressed, size) + data


def packed(*bodies):
    """What a batch that is not compressed has as its data."""
    return b"".join(struct.pack(">I", len(body)) + body for body in bodies)


def amqp(body):
    """A message as clients write it: a section of AMQP 1.0 with the body."""
    return b"\x00\x53\x75\xb0" + struct.pack(">I", len(body)) + body


class Read:
    """Reads fields off the front of a frame's content."""

    def __init__(self, content):
        self.rest = content

    def number(self, kind):
        size = struct.calcsize(">" + kind)
        (value,) = struct.unpack(">" + kind, self.rest[:size])
        self.rest = self.rest[size:]
        return value

    def take(self, size):
        taken, self.rest = self.rest[:size], self.rest[size:]
        assert len(taken) == size, "a frame that is too short"
        return taken

    def string(self):
        length = self.number("h")
        return None if length < 0 else self.take(length).decode()

    def list(self, entry):
        return [entry() for _ in range(max(self.number("i"), 0))]

    def pair(self):
        return self.string(), self.string()


class Chunk(NamedTuple):
    """What `Deliver` brings."""

    subscription: int
    entries: int
    records: int
    first_offset: int
    data: bytes


def chunk(content):
    """The chunk of a `Deliver` of version 1; its checksum must be that of its data."""
    read = Read(content)
    subscription = read.number("B")
    _magic, kind = read.number("B"), read.number("B")
    entries, records = read.number("H"), read.number("I")
    _time, _epoch, first_offset = read.number("q"), read.number("Q"), read.number("Q")
    crc, size = read.number("I"), read.number("I")
    read.take(8)
    assert kind == 0, f"a chunk of kind {kind} for a client"
    data = read.take(size)
    assert zlib.crc32(data) == crc, "a chunk whose checksum is not that of its data"
    return Chunk(subscription, entries, records, first_offset, data)


class Closed(Exception):
    """The broker has closed the connection: with a code, or without a word."""

    def __init__(self, code=None, reason=None):
        super().__init__(f"{code} {reason}")
        self.code, self.reason = code, reason


class Peer:
    """A connection that does nothing by itself but note what comes beside the answers."""

    def __init__(self, port=None, timeout=20):
        self.stream = socket.create_connection(("127.0.0.1", port or PORT), timeout=timeout)
        self.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.correlation = 0
        self.confirmed, self.refused, self.chunks, self.others = [], [], [], []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()

    # The handshake.

    def steps(self, user="guest", password="guest", vhost="/", heartbeat=0, frame_max=FRAME_MAX):
        """The frames of the handshake, in their order, and how many the broker answers each with."""
        response = f"\0{user}\0{password}".encode()
        return [
            (self.request(PEER_PROPERTIES, [("product", "by hand")]), 1),
            (self.request(SASL_HANDSHAKE), 1),
            (self.request(SASL_AUTHENTICATE, "PLAIN", response), 2),
            (frame(TUNE, encode((u32(frame_max), u32(heartbeat)))[0]), 0),
            (self.request(OPEN, vhost), 1),
        ]

    def log_in(self, until=5, **options):
        """So many steps of the handshake."""
        for data, answers in self.steps(**options)[:until]:
            self.stream.sendall(data)
            for _ in range(answers):
                self.read()
        self.others.clear()
        return self

    # Frames.

    def request(self, key, *fields):
        """A frame with a correlation id of its own."""
        self.correlation += 1
        return frame(key, struct.pack(">I", self.correlation) + encode(fields)[0])

    def send(self, data):
        self.stream.sendall(data)

    def read_exactly(self, count):
        data = bytearray()
        while len(data) < count:
            part = self.stream.recv(min(count - len(data), 1 << 20))
            if not part:
                raise Closed
            data += part
        return bytes(data)

    def read(self):
        """The next frame: key and content. What is no answer is noted as well."""
        try:
            (size,) = struct.unpack(">I", self.read_exactly(4))
            assert size < 1 << 26, f"a frame of {size} bytes"
            data = self.read_exactly(size)
        except ConnectionError as error:
            raise Closed from error
        key, _version = struct.unpack(">HH", data[:4])
        content = data[4:]
        read = Read(content)
        if key == CLOSE:
            read.number("I")
            raise Closed(read.number("H"), read.string())
        if key == PUBLISH_CONFIRM:
            publisher = read.number("B")
            self.confirmed += [(publisher, i) for i in read.list(lambda: read.number("Q"))]
        elif key == PUBLISH_ERROR:
            publisher = read.number("B")
            errors = read.list(lambda: (read.number("Q"), read.number("H")))
            self.refused += [(publisher, *error) for error in errors]
        elif key == DELIVER:
            self.chunks.append(chunk(content))
        else:
            self.others.append((key, content))
        return key, content

    def answer(self, key):
        """The next answer to such a request: its code, and what follows it."""
        keys = {key | RESPONSE}
        if os.environ.get("BROKER") == "rabbitmq" and key in (ROUTE, PARTITIONS):
            # RabbitMQ 3.10 answers these two under the number of the request.
            keys.add(key)
        while True:
            found, content = self.read()
            if found in keys:
                self.others.pop()
                read = Read(content)
                read.number("I")
                return read if key == METADATA else (read.number("H"), read)

    def ask(self, key, *fields):
        """Sends a request; the code of its answer."""
        self.send(self.request(key, *fields))
        return self.answer(key)[0]

    def tell(self, key, *fields):
        """Sends a request; what its answer, which must be well, says."""
        self.send(self.request(key, *fields))
        code, read = self.answer(key)
        assert code == OK, code
        return read

    def until(self, condition):
        while not condition():
            self.read()

    def close_code(self):
        """The code with which the broker closes; none where it does so without a word."""
        try:
            while True:
                self.read()
        except Closed as closed:
            return closed.code

    def lives(self):
        """Whether a request is answered."""
        self.send(self.request(METADATA, []))
        try:
            self.answer(METADATA)
        except Closed:
            return False
        return True

    def leader(self, stream):
        """The port of the node that leads a stream, as this node tells it; none without one."""
        self.send(self.request(METADATA, [stream]))
        read = self.answer(METADATA)
        nodes = read.list(lambda: (read.number("H"), read.string(), read.number("I")))
        ports = {number: port for number, _, port in nodes}

        def one():
            _name, code, leader = read.string(), read.number("H"), read.number("H")
            read.list(lambda: read.number("H"))
            return ports.get(leader) if code == OK else None

        return read.list(one)[0]

    # What most tests begin with.

    def publish(self, publisher, *entries, version=1):
        """Publishes entries as they are, in one frame."""
        content = struct.pack(">BI", publisher, len(entries)) + b"".join(entries)
        self.send(frame(PUBLISH, content, version))

    def publish_and_wait(self, publisher, *entries):
        """Publishes, and waits for as many confirms."""
        wanted = len(self.confirmed) + len(entries)
        self.publish(publisher, *entries)
        self.until(lambda: len(self.confirmed) >= wanted or self.refused)
        assert self.refused == []

    def subscribe(self, subscription, stream, offset=(u16(FIRST),), credit=10, properties=()):
        return self.ask(
            SUBSCRIBE, u8(subscription), stream, offset, u16(credit), list(properties)
        )


def logged_in(**options):
    return Peer().log_in(**options)
