"""The bad-input catalogue, B01 to B33, as far as it applies, over raw sockets."""

import random
import socket
import struct
import time

import leveret_interop as interop
import pika
import pytest
from leveret_interop import RawPeer, leveret_only, unique

GREETING = b"AMQP\x00\x00\x09\x01"


def dial(timeout=20):
    return socket.create_connection((interop.HOST, interop.PORT), timeout=timeout)


def frame(kind, channel, payload, end=0xCE):
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + bytes([end])


def method(channel, class_id, method_id, arguments=b""):
    return frame(1, channel, struct.pack(">HH", class_id, method_id) + arguments)


def short(text):
    data = text if isinstance(text, bytes) else text.encode()
    return bytes([len(data)]) + data


def long(data):
    return struct.pack(">I", len(data)) + data


def start_ok(mechanism="PLAIN", response=b"\0guest\0guest", properties=b""):
    return method(0, 10, 11, long(properties) + short(mechanism) + long(response) + short("en_US"))


def read_to_the_end(stream, seconds=15):
    """Everything that comes until the broker closes, in words or without; it must do so in time."""
    stream.settimeout(seconds)
    data = b""
    try:
        while part := stream.recv(65_536):
            data += part
            if close_code(data) is not None:
                break
    except ConnectionError:
        pass
    return data


def methods(data):
    """The methods among whole frames: (channel, class, method, arguments)."""
    found, at = [], 0
    while len(data) - at >= 8:
        kind, channel, size = struct.unpack(">BHI", data[at : at + 7])
        payload = data[at + 7 : at + 7 + size]
        if kind == 1 and len(payload) == size:
            found.append((channel, *struct.unpack(">HH", payload[:4]), payload[4:]))
        at += size + 8
    return found


def close_code(data):
    """The reply code of the connection.close or channel.close in this."""
    for _, class_id, method_id, arguments in methods(data):
        if (class_id, method_id) in ((10, 50), (20, 40)):
            return struct.unpack(">H", arguments[:2])[0]
    return None


def logged_in():
    """A socket with channel 1 open."""
    peer = RawPeer().__enter__()
    peer.login()
    peer.method(1, 20, 10, b"\0")
    peer.read()
    return peer


def answer_code(peer, data):
    """Sends bytes; the reply code of the close that they bring."""
    peer.stream.sendall(data)
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        try:
            _, _, payload = peer.read()
        except (EOFError, ConnectionError, TimeoutError):
            if interop.ON_RABBITMQ:
                pytest.skip("the peer drops the connection, or says nothing")
            raise
        if payload[:4] in (struct.pack(">HH", 10, 50), struct.pack(">HH", 20, 40)):
            peer.stream.close()
            return struct.unpack(">H", payload[4:6])[0]
    raise AssertionError("no close came")


def nested_table(depth):
    """A table with `depth` tables in it, each in the one before."""
    table = b""
    for _ in range(depth):
        table = short("t") + b"F" + long(table)
    return table


def declare(queue, arguments):
    return method(1, 50, 10, b"\0\0" + short(queue) + b"\x08" + long(arguments))


# Transport and handshake


@pytest.mark.timeout(40)
def test_b01_nothing_sent():
    with dial() as stream:
        started = time.monotonic()
        read_to_the_end(stream, 25)
        assert 5 < time.monotonic() - started < 20


@pytest.mark.timeout(60)
def test_b01_one_byte_a_second():
    with dial() as stream:
        started = time.monotonic()
        with pytest.raises((ConnectionError, TimeoutError)):
            data = GREETING + start_ok()
            for byte in data:
                stream.sendall(bytes([byte]))
                time.sleep(1.0)
                stream.settimeout(0.01)
                try:
                    if stream.recv(10_000) == b"":
                        raise ConnectionError
                except TimeoutError:
                    pass
        assert time.monotonic() - started < 30


@pytest.mark.parametrize(
    "header",
    [b"AMQP\x00\x01\x09\x01", b"AMQP\x09\x09\x09\x09", b"GET / HT", b"\x16\x03\x01\x02\x00\x01\x00\x01"],
    ids=["other version", "nonsense version", "http", "tls"],
)
def test_b02_wrong_header(header):
    with dial() as stream:
        stream.sendall(header)
        assert read_to_the_end(stream) in (b"AMQP\x00\x00\x09\x01", b"")


def test_b03_connect_and_reset():
    for _ in range(500):
        stream = dial()
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        stream.close()
    started = time.monotonic()
    interop.connect().close()
    assert time.monotonic() - started < 1.0


def test_b03_idle_half_open_sockets():
    idle = [dial() for _ in range(60)]
    started = time.monotonic()
    interop.connect().close()
    assert time.monotonic() - started < 1.0
    for stream in idle:
        stream.close()


@pytest.mark.parametrize("size", [8_193, 65_536, 0x7FFF_FFFF, 0xFFFF_FFFF])
def test_b04_frame_too_large_before_login(size):
    with dial() as stream:
        stream.sendall(GREETING + struct.pack(">BHI", 1, 0, size) + bytes(1_000))
        if interop.ON_RABBITMQ:
            pytest.skip("the peer allows 128 kB before login")
        data = read_to_the_end(stream)
        assert close_code(data) in (501, None)


def test_b04_length_without_data():
    with dial() as stream:
        stream.sendall(GREETING + struct.pack(">BHI", 1, 0, 4_000))
        read_to_the_end(stream, 25)


@pytest.mark.parametrize("size", [7_000, 40_000, 128_000])
def test_b05_nesting_before_login(size):
    """What kills a decoder that recurses: a table in a table in a table."""
    depth = size // 7
    with dial() as stream:
        stream.sendall(GREETING)
        try:
            stream.sendall(start_ok(properties=nested_table(depth)))
        except ConnectionError:
            return
        if not interop.ON_RABBITMQ:
            data = read_to_the_end(stream)
            assert (10, 30) not in [found[1:3] for found in methods(data)], "it was let in"


def test_b05_many_empty_entries_before_login():
    with dial() as stream:
        stream.sendall(GREETING + start_ok(properties=(short("") + b"V") * 3_900))
        data = stream.recv(65_536)
        assert data


@pytest.mark.parametrize("depth", [99, 100, 101])
def test_b05_depth_of_a_table(depth):
    """A hundred deep is accepted, one more refused. The outermost table is the first."""
    peer = logged_in()
    queue = unique()
    request = declare(queue, nested_table(depth - 1))
    if depth <= 100 or interop.ON_RABBITMQ:
        peer.stream.sendall(request)
        assert peer.read()[2][:4] == struct.pack(">HH", 50, 11)
        peer.stream.sendall(method(1, 50, 40, b"\0\0" + short(queue) + b"\0"))
        peer.read()
        peer.stream.close()
    else:
        assert answer_code(peer, request) == 502


@pytest.mark.parametrize(
    ("tune", "accepted"),
    [
        ((2_047, 131_072, 0), True),
        ((1, 4_096, 0), True),
        ((2_047, 4_095, 0), False),
        ((2_047, 1, 0), False),
        ((2_047, 131_073, 0), False),
        ((2_048, 131_072, 0), False),
        ((65_535, 131_072, 0), False),
        ((2_047, 0xFFFF_FFFF, 0), False),
        ((2_047, 131_072, 65_535), True),
    ],
)
def test_b06_tune(tune, accepted):
    with RawPeer() as peer:
        peer.stream.sendall(start_ok())
        peer.read()
        peer.method(0, 10, 31, struct.pack(">HIH", *tune))
        peer.method(0, 10, 40, b"\x01/\0\0")
        data = b""
        peer.stream.settimeout(3)
        try:
            while part := peer.stream.recv(65_536):
                data += part
                if (10, 41) in [found[1:3] for found in methods(data)]:
                    break
        except (TimeoutError, ConnectionError):
            pass
        opened = (10, 41) in [found[1:3] for found in methods(data)]
        assert opened == accepted, methods(data)


@pytest.mark.parametrize(
    "data",
    [
        method(0, 10, 40, b"\x01/\0\0"),
        method(0, 10, 31, struct.pack(">HIH", 1, 4_096, 0)),
        method(1, 20, 10, b"\0"),
        frame(3, 1, b"body"),
        frame(2, 1, bytes(14)),
    ],
    ids=["open", "tune-ok", "channel.open", "body", "header"],
)
def test_b07_out_of_turn_before_login(data):
    with RawPeer() as peer:
        peer.stream.sendall(data)
        answer = read_to_the_end(peer.stream)
        assert (10, 41) not in [found[1:3] for found in methods(answer)]


@pytest.mark.timeout(40)
def test_b07_an_error_before_login_does_not_linger():
    """A peer that never answers the close must not keep its socket beyond the handshake's time."""
    with RawPeer() as peer:
        peer.stream.sendall(method(0, 10, 40, b"\x01/\0\0"))
        started = time.monotonic()
        peer.stream.settimeout(30)
        try:
            while peer.stream.recv(65_536):
                pass
        except ConnectionError:
            pass
        assert time.monotonic() - started < 15


def test_b07_second_start_ok():
    with RawPeer() as peer:
        peer.login()
        peer.stream.sendall(start_ok())
        if interop.ON_RABBITMQ:
            pytest.skip("the peer says nothing")
        answer = read_to_the_end(peer.stream)
        assert close_code(answer) in (503, 504, 505, 540)


SASL = [
    ("UNKNOWN", b""),
    ("PLAIN", b""),
    ("PLAIN", b"guest"),
    ("PLAIN", b"\0guest"),
    ("PLAIN", b"\0guest\0"),
    ("PLAIN", b"\0gu\0est\0guest"),
    ("PLAIN", b"\0\xff\xfe\0guest"),
    ("PLAIN", b"\0guest\0" + b"x" * 7_000),
    ("AMQPLAIN", b""),
    ("AMQPLAIN", b"\xff" * 50),
    ("AMQPLAIN", short("LOGIN") + b"F" + long(nested_table(3))),
    ("AMQPLAIN", short("LOGIN") + b"S" + long(b"guest") + short("PASSWORD") + b"S" + long(b"")),
    ("ANONYMOUS", b""),
    ("EXTERNAL", b""),
]


@pytest.mark.parametrize(("mechanism", "response"), SASL)
def test_b08_sasl(mechanism, response):
    with RawPeer() as peer:
        peer.stream.sendall(start_ok(mechanism, response))
        answer = read_to_the_end(peer.stream)
        assert (10, 30) not in [found[1:3] for found in methods(answer)]


def test_b08_an_unknown_user_waits_as_long_as_a_known_one():
    def refusal_s(response):
        with RawPeer() as peer:
            started = time.monotonic()
            peer.stream.sendall(start_ok("PLAIN", response))
            read_to_the_end(peer.stream)
            return time.monotonic() - started

    known = refusal_s(b"\0guest\0wrong")
    unknown = refusal_s(b"\0nobody\0wrong")
    assert abs(known - unknown) < 0.5


# Frames


@pytest.mark.parametrize("end", [0, 0xCD, 0xFF])
def test_b13_frame_end(end):
    assert answer_code(logged_in(), frame(1, 1, struct.pack(">HH", 20, 10) + b"\0", end)) == 501


@pytest.mark.parametrize("kind", [0, 4, 7, 9, 255])
def test_b13_frame_type(kind):
    assert answer_code(logged_in(), frame(kind, 1, b"abcd")) in (501, 505)


def test_b13_channel_zero():
    assert answer_code(logged_in(), method(0, 50, 10, b"\0\0\0\0\0\0\0\0")) in (501, 503, 504)


def test_b14_frame_over_the_negotiated_size():
    peer = logged_in()
    peer.stream.sendall(struct.pack(">BHI", 3, 1, 131_073) + bytes(131_074))
    try:
        assert close_code(read_to_the_end(peer.stream)) in (501, None)
    finally:
        peer.stream.close()


@pytest.mark.parametrize("size", [1, 3, 7, 1_000])
def test_b14_fragments(size):
    peer = RawPeer().__enter__()
    peer.login()
    queue = unique()
    data = method(1, 20, 10, b"\0") + declare(queue, b"")
    data += method(1, 60, 40, b"\0\0" + short("") + short(queue) + b"\0")
    data += frame(2, 1, struct.pack(">HHQH", 60, 0, 300, 0)) + frame(3, 1, bytes(300))
    data += method(1, 60, 70, b"\0\0" + short(queue) + b"\x01")
    peer.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for at in range(0, len(data), size):
        peer.stream.sendall(data[at : at + size])
    seen = []
    while True:
        kind, _, payload = peer.read()
        seen.append(kind)
        if kind == 3:
            assert payload == bytes(300)
            break
    peer.stream.close()


def test_b14_a_megabyte_of_frames_at_once():
    peer = logged_in()
    qos = method(1, 60, 10, struct.pack(">IHB", 0, 1, 0))
    count = 1_000_000 // len(qos)
    started = time.monotonic()
    peer.stream.settimeout(30)
    # Both ways at once: the answers must not fill the pipes.
    sent, got, data = 0, 0, b""
    payload = qos * count
    while got < count:
        if sent < len(payload):
            sent += peer.stream.send(payload[sent : sent + 65_536])
        data += peer.stream.recv(65_536)
        got += len(data) // 12
        data = data[len(data) // 12 * 12 :]
    assert time.monotonic() - started < 15
    peer.stream.close()


def test_b15_channel_over_the_maximum():
    with RawPeer() as peer:
        peer.login()
        assert answer_code(peer, method(2_048, 20, 10, b"\0")) in (501, 504, 530)


def test_b15_second_open():
    assert answer_code(logged_in(), method(1, 20, 10, b"\0")) == 504


def test_b15_method_on_a_closed_channel():
    assert answer_code(logged_in(), method(2, 60, 10, struct.pack(">IHB", 0, 1, 0))) == 504


def test_b15_frames_while_a_channel_closes_are_ignored():
    peer = logged_in()
    missing = method(1, 50, 10, b"\0\0" + short("missing") + b"\x01" + long(b""))
    peer.stream.sendall(missing + declare(unique(), b"") + missing)
    _, _, payload = peer.read()
    assert payload[:6] == struct.pack(">HHH", 20, 40, 404)
    peer.stream.sendall(method(1, 20, 41) + method(1, 20, 10, b"\0"))
    assert peer.read()[2][:4] == struct.pack(">HH", 20, 11)
    peer.stream.close()


@pytest.mark.timeout(90)
def test_b16_a_consumer_that_never_reads():
    """The broker's memory must not grow with what such a client does not take."""
    connection = interop.connect()
    channel = connection.channel()
    queue = unique()
    channel.queue_declare(queue)
    peer = logged_in()
    peer.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    consume = b"\0\0" + short(queue) + short("t") + b"\x02" + long(b"")
    peer.stream.sendall(method(1, 60, 20, consume))
    peer.read()
    before = int(interop.control("rss"))
    body = bytes(100_000)
    channel.confirm_delivery()
    for _ in range(600):
        channel.basic_publish("", queue, body)
    grown = int(interop.control("rss")) - before
    peer.stream.close()
    channel.queue_delete(queue)
    connection.close()
    if not interop.ON_RABBITMQ:
        # 60 MB went in; what the cache of newest bodies may hold is allowed, copies are not.
        assert grown < 160_000_000, grown


# Methods and content


@pytest.mark.parametrize(
    ("class_id", "method_id"),
    [(99, 1), (0, 0), (65_535, 65_535), (60, 999), (10, 999), (50, 12)],
)
def test_b17_unknown_method(class_id, method_id):
    assert answer_code(logged_in(), method(1, class_id, method_id)) in (501, 502, 503, 540, 505)


@pytest.mark.parametrize("cut", [1, 2, 3, 5, 8])
def test_b17_truncated_method(cut):
    whole = struct.pack(">HH", 50, 10) + b"\0\0" + short("queue") + b"\x08" + long(b"")
    assert answer_code(logged_in(), frame(1, 1, whole[:-cut])) in (501, 502)


@pytest.mark.parametrize("wrong_way", [(60, 60), (60, 50), (50, 11), (20, 11), (60, 71)])
def test_b17_wrong_direction(wrong_way):
    assert answer_code(logged_in(), method(1, *wrong_way, bytes(40))) in (501, 502, 503, 505, 540)


PUBLISH = method(1, 60, 40, b"\0\0" + short("") + short("k") + b"\0")
HEADER = frame(2, 1, struct.pack(">HHQH", 60, 0, 5, 0))


@pytest.mark.parametrize(
    "data",
    [
        HEADER,
        frame(3, 1, b"body"),
        PUBLISH + PUBLISH,
        PUBLISH + frame(3, 1, b"12345"),
        PUBLISH + method(1, 60, 10, struct.pack(">IHB", 0, 1, 0)),
        PUBLISH + HEADER + HEADER,
        PUBLISH + HEADER + method(1, 20, 10, b"\0"),
    ],
    ids=["header alone", "body alone", "publish twice", "body too early", "method for header",
         "header twice", "method for body"],
)
def test_b18_content_out_of_turn(data):
    assert answer_code(logged_in(), data) == 505


def test_b19_more_body_than_declared():
    data = PUBLISH + HEADER + frame(3, 1, b"123") + frame(3, 1, b"4567890")
    assert answer_code(logged_in(), data) in (501, 502, 505)


@pytest.mark.parametrize("size", [2**40, 2**63, 2**64 - 1])
def test_b19_declared_size_without_end(size):
    peer = logged_in()
    header = frame(2, 1, struct.pack(">HHQH", 60, 0, size, 0))
    if interop.ON_RABBITMQ:
        peer.stream.sendall(PUBLISH + header + frame(3, 1, b"x"))
        peer.stream.close()
        return
    assert answer_code(peer, PUBLISH + header + frame(3, 1, b"x")) in (406, 501)


def test_b19_very_many_empty_bodies():
    peer = logged_in()
    header = frame(2, 1, struct.pack(">HHQH", 60, 0, 0, 0))
    peer.stream.sendall((PUBLISH + header) * 20_000)
    peer.stream.sendall(method(1, 60, 10, struct.pack(">IHB", 0, 1, 0)))
    assert peer.read()[2][:4] == struct.pack(">HH", 60, 11)
    peer.stream.close()


@pytest.mark.parametrize(
    "flags",
    [b"\x00\x01\x00\x01\x00\x01\x00\x01", b"\xff\xff", b"\x80\x00", b"\x00\x02", b"\x00\x01", b""],
    ids=["continuation", "all", "content type without data", "unknown bit", "promised more", "none"],
)
def test_b20_property_flags(flags):
    """Refused, or read as RabbitMQ reads it; never the end of the process."""
    peer = logged_in()
    header = frame(2, 1, struct.pack(">HHQ", 60, 0, 1) + flags)
    peer.stream.sendall(PUBLISH + header + frame(3, 1, b"x"))
    peer.stream.sendall(method(1, 60, 10, struct.pack(">IHB", 0, 1, 0)))
    try:
        _, _, payload = peer.read()
        assert payload[:4] in (struct.pack(">HH", *known) for known in ((10, 50), (20, 40), (60, 11)))
    except (EOFError, ConnectionError):
        pass
    peer.stream.close()


def test_b20_class_of_the_header():
    header = frame(2, 1, struct.pack(">HHQH", 50, 0, 1, 0))
    assert answer_code(logged_in(), PUBLISH + header) in (501, 502, 505)


NAMES = ["with\0nul", "‮right to left", "😀" * 63, "\x1b[31m", "new\nline", "' OR 1=1", "../../etc"]


@pytest.mark.parametrize("name", NAMES)
def test_b21_names(name):
    connection = interop.connect()
    channel = connection.channel()
    channel._impl._send_method(  # noqa: SLF001
        pika.spec.Queue.Declare(queue=name, exclusive=True, nowait=True)
    )
    channel.confirm_delivery()
    stripped = name.replace("\n", "").replace("\r", "")
    channel.basic_publish("", stripped, b"x", mandatory=True)
    connection.close()


def test_b21_name_that_is_not_utf8():
    peer = logged_in()
    peer.stream.sendall(declare_raw(b"\xff\xfe\xfd"))
    _, _, payload = peer.read()
    assert payload[:4] in (struct.pack(">HH", *known) for known in ((50, 11), (10, 50), (20, 40)))
    peer.stream.close()


def declare_raw(name):
    return method(1, 50, 10, b"\0\0" + bytes([len(name)]) + name + b"\x0c" + long(b""))


KNOWN_TAGS = set(b"tbBsuUIilfdDSATFVx")


@pytest.mark.parametrize("tag", [t for t in range(0, 256, 5) if t not in KNOWN_TAGS])
def test_b22_unknown_field_type(tag):
    table = short("a") + bytes([tag]) + bytes(8)
    assert answer_code(logged_in(), declare(unique(), table)) in (501, 502)


@pytest.mark.parametrize(
    "table",
    [
        short("a") + b"S" + struct.pack(">I", 0xFFFF_FFFF),
        short("a") + b"S" + struct.pack(">I", 100) + b"short",
        short("a") + b"A" + struct.pack(">I", 100) + b"t\x01",
        short("a") + b"F" + struct.pack(">I", 100) + b"x",
        short("a") + b"I\0",
        short("a") + b"D\xff",
        b"\xff" + b"a" * 20,
    ],
    ids=["string past all", "string past the frame", "array past the frame", "table past the frame",
         "half a number", "half a decimal", "half a name"],
)
def test_b22_values_cut_short(table):
    assert answer_code(logged_in(), declare(unique(), table)) in (501, 502)


def test_b22_extreme_values():
    table = short("a") + b"D\xff\xff\xff\xff\xff"
    table += short("b") + b"T" + b"\xff" * 8
    table += short("c") + b"l" + b"\x80" + bytes(7)
    table += short("d") + b"d" + struct.pack(">d", float("nan"))
    table += short("e") + b"f" + struct.pack(">f", float("-inf"))
    peer = logged_in()
    peer.stream.sendall(declare(unique(), table))
    if interop.ON_RABBITMQ:
        pytest.skip("the peer drops the connection: it cannot read a NaN")
    assert peer.read()[2][:4] == struct.pack(">HH", 50, 11)
    peer.stream.close()


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("x-expires", b"l" + struct.pack(">q", 2**62)),
        ("x-message-ttl", b"l" + struct.pack(">q", -(2**62))),
        ("x-message-ttl", b"d" + struct.pack(">d", 1.5)),
        ("x-message-ttl", b"t\x01"),
        ("x-message-ttl", b"V"),
        ("x-max-length", b"F" + long(b"")),
        ("x-max-priority", b"I" + struct.pack(">i", 256)),
        ("x-max-priority", b"S" + long(b"high")),
        ("x-dead-letter-routing-key", b"S" + long(b"k")),
        ("x-overflow", b"I" + bytes(4)),
        ("x-queue-type", b"S" + long(b"marble")),
        ("x-queue-type", b"I" + bytes(4)),
        ("x-single-active-consumer", b"S" + long(b"yes")),
    ],
)
def test_b23_queue_arguments(argument, value):
    assert answer_code(logged_in(), declare(unique(), short(argument) + value)) in (406, 540)


@pytest.mark.parametrize("priority", [0, 9, 255])
def test_b24_priority(priority):
    connection = interop.connect()
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.confirm_delivery()
    properties = pika.BasicProperties(priority=priority)
    channel.basic_publish("", queue, b"x", properties)
    assert interop.get(channel, queue)[1].priority == priority
    connection.close()


@pytest.mark.parametrize("mode", [0, 3, 255])
def test_b24_delivery_mode(mode):
    """Refused, or carried as it is; never taken for something else."""
    connection = interop.connect()
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.confirm_delivery()
    try:
        channel.basic_publish("", queue, b"x", pika.BasicProperties(delivery_mode=mode))
        assert interop.get(channel, queue)[1].delivery_mode == mode
    except pika.exceptions.ChannelClosedByBroker as error:
        assert error.reply_code == 406
    connection.close()


def test_b25_very_many_copies():
    connection = interop.connect()
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    headers = {"CC": [f"{queue}-{number}" for number in range(1_000)]}
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"x", pika.BasicProperties(headers=headers))
    assert interop.get(channel, queue)[2] == b"x"
    connection.close()


@pytest.mark.parametrize(
    "death", ["text", 5, [], ["text"], [{}], [{"count": "many"}], [{"queue": 5, "reason": None}]]
)
def test_b25_forged_deaths(death):
    connection = interop.connect()
    channel = connection.channel()
    dead, queue = unique(), unique()
    channel.queue_declare(dead, exclusive=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel.queue_declare(queue, exclusive=True, arguments=arguments)
    properties = pika.BasicProperties(headers={"x-death": death})
    channel.basic_publish("", queue, b"x", properties)
    method_frame, _, _ = interop.get(channel, queue, auto_ack=False)
    channel.basic_reject(method_frame.delivery_tag, requeue=False)
    if not interop.ON_RABBITMQ:
        assert interop.get(channel, dead)[2] == b"x"
    connection.close()


@pytest.mark.parametrize("token", ["", "x", "g2dkABBjbGllbnRAbG9jYWxob3N0", "A" * 200, "%00", "é"])
def test_b25_forged_reply_tokens(token):
    connection = interop.connect()
    channel = connection.channel()
    channel.confirm_delivery()
    with pytest.raises((pika.exceptions.UnroutableError, pika.exceptions.ChannelClosedByBroker)):
        channel.basic_publish("", f"amq.rabbitmq.reply-to.{token}", b"x", mandatory=True)
    connection.close()


@pytest.mark.parametrize("tag", [0, 1, 2, 2**63, 2**64 - 1])
def test_b26_delivery_tags(tag):
    ack = struct.pack(">Q", tag) + b"\0"
    assert answer_code(logged_in(), method(1, 60, 80, ack)) == 406


def test_b27_prefetch_of_all():
    peer = logged_in()
    peer.stream.sendall(method(1, 60, 10, struct.pack(">IHB", 0, 65_535, 0)))
    assert peer.read()[2][:4] == struct.pack(">HH", 60, 11)
    peer.stream.close()


def test_b27_very_many_consumers():
    connection = interop.connect()
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    for number in range(2_000):
        interop.raw(
            channel, pika.spec.Basic.Consume(queue=queue, consumer_tag=str(number), nowait=True)
        )
    assert channel.queue_declare(queue, passive=True).method.consumer_count == 2_000
    connection.close()


def test_b28_a_storm_of_acks():
    peer = logged_in()
    peer.stream.sendall(method(1, 60, 80, struct.pack(">Q", 0) + b"\x01") * 50_000)
    peer.stream.sendall(method(1, 60, 10, struct.pack(">IHB", 0, 1, 0)))
    assert peer.read()[2][:4] == struct.pack(">HH", 60, 11)
    peer.stream.close()


def test_b28_an_exchange_bound_to_itself_many_times():
    connection = interop.connect()
    channel = connection.channel()
    name = unique("x")
    channel.exchange_declare(name, "topic", auto_delete=False)
    for number in range(200):
        channel.exchange_bind(name, name, f"*.{number}")
        channel.exchange_bind(name, name, "#")
    channel.confirm_delivery()
    started = time.monotonic()
    channel.basic_publish(name, "a.5", b"x")
    assert time.monotonic() - started < 1.0
    channel.exchange_delete(name)
    connection.close()


# Algorithmic complexity


def test_b29_topics_that_explode():
    connection = interop.connect()
    channel = connection.channel()
    name = unique("x")
    channel.exchange_declare(name, "topic")
    queue = channel.queue_declare("", exclusive=True).method.queue
    words = random.Random(1)
    for _ in range(300):
        pattern = ".".join(words.choice(["*", "a", "a", "b"]) for _ in range(20))
        channel.queue_bind(queue, name, "#." + pattern)
    channel.confirm_delivery()
    started = time.monotonic()
    for _ in range(5):
        channel.basic_publish(name, "." * 255, b"x")
        channel.basic_publish(name, ".".join(["a"] * 127), b"x")
    assert time.monotonic() - started < 10
    channel.exchange_delete(name)
    connection.close()


@leveret_only
@pytest.mark.parametrize(("pattern", "accepted"), [("#.a.#", True), ("#.a.#.b.#", False)])
def test_b29_hashes_in_a_binding(pattern, accepted):
    connection = interop.connect()
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    if accepted:
        channel.queue_bind(queue, "amq.topic", pattern)
    else:
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
            channel.queue_bind(queue, "amq.topic", pattern)
        assert caught.value.reply_code == 406
    connection.close()


def test_b30_a_match_of_very_many_headers():
    connection = interop.connect()
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    arguments = {f"h{number}": number for number in range(2_000)}
    channel.queue_bind(queue, "amq.headers", "", arguments | {"x-match": "all"})
    channel.confirm_delivery()
    channel.basic_publish("amq.headers", "", b"x", pika.BasicProperties(headers=arguments))
    assert interop.get(channel, queue)[2] == b"x"
    connection.close()


@pytest.mark.parametrize("weight", ["0", "-1", "abc", "", str(2**31), str(2**70), "1.5"])
def test_b30_weights(weight):
    """Refused or bounded: a weight must not be a number of buckets to allocate."""
    if interop.ON_RABBITMQ and weight in (str(2**31), str(2**70)):
        pytest.skip("takes the peer down, CVE-2026-67219")
    connection = interop.connect()
    channel = connection.channel()
    name = unique("x")
    channel.exchange_declare(name, "x-consistent-hash")
    queue = channel.queue_declare("", exclusive=True).method.queue
    started = time.monotonic()
    try:
        channel.queue_bind(queue, name, weight)
        connection.channel().exchange_delete(name)
    except pika.exceptions.ChannelClosedByBroker as error:
        assert error.reply_code == 406
    except pika.exceptions.ConnectionClosed:
        assert interop.ON_RABBITMQ
    assert time.monotonic() - started < 3
    if connection.is_open:
        connection.close()


@leveret_only
@pytest.mark.parametrize("pattern", ["(a+)+$", "(" * 500 + ")" * 500, "a" * 2_000, "[", "(?R)"])
def test_b31_patterns_from_users(pattern):
    body = {"pattern": pattern, "definition": {"max-length": 5}, "apply-to": "queues"}
    try:
        interop.http("PUT", "/api/policies/%2F/pattern", body)
        connection = interop.connect()
        started = time.monotonic()
        connection.channel().queue_declare("a" * 200 + "!", exclusive=True)
        assert time.monotonic() - started < 1.0
        connection.close()
        interop.http("DELETE", "/api/policies/%2F/pattern")
    except interop.urllib.error.HTTPError as error:
        assert error.code == 400


def test_b32_very_many_names():
    connection = interop.connect()
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    for number in range(3_000):
        interop.raw(
            channel,
            pika.spec.Queue.Bind(
                queue=queue, exchange="amq.direct", routing_key=f"{number:0>200}", nowait=True
            ),
        )
    channel.confirm_delivery()
    channel.basic_publish("amq.direct", f"{2_999:0>200}", b"x", mandatory=True)
    assert interop.get(channel, queue)[2] == b"x"
    connection.close()
