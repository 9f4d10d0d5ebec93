"""Bad input over the stream protocol: commands cut short, doubled, out of turn, with claims that
their bytes do not keep; clients that do not read; batches that lie. All of it over raw sockets."""

import contextlib
import gzip
import random
import socket
import struct
import time

import leveret_interop as interop
import leveret_streams as streams
import pytest
from leveret_streams import Closed, Peer, amqp, batch, encode, frame, logged_in, message, packed, u8, u16, u32, u64

# RabbitMQ's reader has no answer to most of this: it crashes, and the socket is closed unsaid.
pytestmark = interop.leveret_only

MB = 1_000_000


def rss():
    return int(interop.control("rss"))


@pytest.fixture(scope="module")
def neighbour():
    """A connection that publishes and reads all the while: the same one from the first test on."""
    peer = logged_in()
    name = interop.unique("neighbour")
    assert peer.ask(streams.CREATE, name, []) == streams.OK
    assert peer.ask(streams.DECLARE_PUBLISHER, u8(0), "", name) == streams.OK
    assert peer.subscribe(0, name, credit=60_000) == streams.OK
    yield peer
    assert peer.ask(streams.DELETE, name) == streams.OK
    peer.stream.close()


@pytest.fixture(autouse=True)
def undisturbed(neighbour):
    """The common oracle: that connection is served as before, whatever a test has sent."""
    yield
    body = interop.unique("still here").encode()
    chunks = len(neighbour.chunks)
    neighbour.publish_and_wait(0, message(len(neighbour.confirmed), body))
    neighbour.until(lambda: len(neighbour.chunks) > chunks)
    assert body in neighbour.chunks[-1].data


@pytest.fixture
def stream():
    """A stream of the test's own."""
    name = interop.unique("s")
    with logged_in() as peer:
        assert peer.ask(streams.CREATE, name, []) == streams.OK
    yield name
    with logged_in() as peer:
        peer.ask(streams.DELETE, name)


def publisher_of(stream, publisher=1):
    """A connection with a publisher."""
    peer = logged_in()
    assert peer.ask(streams.DECLARE_PUBLISHER, u8(publisher), "", stream) == streams.OK
    return peer


def requests(stream):
    """Every command that has a correlation id: its number, its fields, and how many octets at its
    end may be missing."""
    first = u16(streams.FIRST)
    return [
        (streams.DECLARE_PUBLISHER, (u8(1), "reference", stream), 0),
        (streams.QUERY_SEQUENCE, ("reference", stream), 0),
        (streams.DELETE_PUBLISHER, (u8(1),), 0),
        (streams.SUBSCRIBE, (u8(1), stream, first, u16(10), [("name", "app")]), 15),
        (streams.QUERY_OFFSET, ("reference", stream), 0),
        (streams.UNSUBSCRIBE, (u8(1),), 0),
        (streams.CREATE, (f"{stream}-more", [("max-length-bytes", "1000000")]), 0),
        (streams.DELETE, (f"{stream}-more",), 0),
        (streams.METADATA, ([stream, "none"],), 0),
        (streams.PEER_PROPERTIES, ([("product", "x")],), 0),
        (streams.SASL_AUTHENTICATE, ("PLAIN", b"\0guest\0guest"), 0),
        (streams.OPEN, ("/",), 0),
        (streams.CLOSE, (u16(1), "bye"), 0),
        (streams.ROUTE, ("key", "super"), 0),
        (streams.PARTITIONS, ("super",), 0),
        (streams.EXCHANGE_VERSIONS, ([(u16(8), u16(1), u16(2))],), 0),
        (streams.STREAM_STATS, (stream,), 0),
        (
            streams.CREATE_SUPER_STREAM,
            (f"{stream}-super", [f"{stream}-super-0"], ["0"], [("max-age", "1D")]),
            0,
        ),
        (streams.DELETE_SUPER_STREAM, (f"{stream}-super",), 0),
        (streams.RESOLVE_OFFSET, (stream, first, [("k", "v")]), 10),
    ]


def others(stream):
    """What clients say without a correlation id of their own, as :func:`requests`."""
    return [
        (streams.STORE_OFFSET, ("reference", stream, u64(5)), 0),
        (streams.CREDIT, (u8(1), u16(1)), 0),
        (streams.TUNE, (u32(streams.FRAME_MAX), u32(0)), 0),
        (streams.CONSUMER_UPDATE | streams.RESPONSE, (u32(1), u16(1), u16(streams.NEXT)), 2),
        (streams.CLOSE | streams.RESPONSE, (u32(1), u16(1)), 0),
        (streams.PUBLISH, (u8(1), [(u64(0), b"body")]), 0),
    ]


def contents(stream):
    """All of these: number, content, where its lengths are, and the octets that may be missing."""
    for key, fields, optional in requests(stream):
        yield key, *encode((u32(1), fields)), optional
    for key, fields, optional in others(stream):
        yield key, *encode(fields), optional


def close_code_of(data):
    """The code with which a connection is closed that has sent this."""
    with logged_in() as peer:
        peer.send(data)
        return peer.close_code()


# The handshake


@pytest.mark.timeout(40)
def test_nothing_sent():
    with Peer(timeout=30) as peer:
        started = time.monotonic()
        assert peer.close_code() is None
        assert 5 < time.monotonic() - started < 20


@pytest.mark.timeout(60)
def test_one_byte_a_second():
    with Peer(timeout=0.5) as peer:
        started = time.monotonic()
        data = b"".join(step for step, _ in peer.steps())
        with pytest.raises((Closed, ConnectionError)):
            for byte in data:
                peer.send(bytes([byte]))
                with contextlib.suppress(TimeoutError):
                    peer.read()
                time.sleep(0.5)
        assert time.monotonic() - started < 30


@pytest.mark.parametrize("step", range(5))
def test_a_frame_of_8193_bytes_before_open(step):
    """It is refused by its size alone; one of 8,192 bytes is waited for."""
    with Peer().log_in(until=step) as peer:
        peer.send(struct.pack(">I", streams.FRAME_MAX_BEFORE_OPEN + 1))
        assert peer.close_code() is None
    with Peer().log_in(until=step) as peer:
        # All of it but its last byte.
        peer.send(frame(streams.HEARTBEAT, bytes(streams.FRAME_MAX_BEFORE_OPEN - 4))[:-1])
        peer.stream.settimeout(0.3)
        with pytest.raises(TimeoutError):
            peer.read()


def test_a_frame_of_8192_bytes_before_open():
    with Peer() as peer:
        # Beside the text: key, version, correlation id, number of pairs, name with its length, and
        # the text's own length.
        text = "x" * (streams.FRAME_MAX_BEFORE_OPEN - 4 - 4 - 4 - 4 - 2)
        data = peer.request(streams.PEER_PROPERTIES, [("ab", text)])
        assert len(data) == 4 + streams.FRAME_MAX_BEFORE_OPEN
        peer.send(data)
        assert peer.answer(streams.PEER_PROPERTIES)[0] == streams.OK


@pytest.mark.parametrize("step", range(5))
def test_every_command_out_of_turn_before_open(stream, step):
    expected = [
        streams.PEER_PROPERTIES, streams.SASL_HANDSHAKE, streams.SASL_AUTHENTICATE, streams.TUNE,
        streams.OPEN,
    ][step]  # fmt: skip
    frames = [(key, frame(key, content)) for key, content, _, _ in contents(stream)]
    frames.append((streams.SASL_HANDSHAKE, frame(streams.SASL_HANDSHAKE, bytes(4))))
    for key, data in frames:
        if key == expected:
            continue
        with Peer().log_in(until=step) as peer:
            peer.send(data)
            assert peer.close_code() is None, hex(key)
            answers = [found for found, _ in peer.others]
            assert answers == [], f"{key:#x} was answered with {answers}"


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("UNKNOWN", b""),
        ("", b""),
        ("PLAIN", b""),
        ("PLAIN", b"guest"),
        ("PLAIN", b"\0guest\0"),
        ("PLAIN", b"\0\xff\xfe\0guest"),
        ("PLAIN", b"\0guest\0" + b"x" * 8_000),
        ("AMQPLAIN", b"\xff" * 50),
        ("EXTERNAL", b""),
    ],
)
def test_responses_that_log_nobody_in(mechanism, response):
    with Peer().log_in(until=2) as peer:
        peer.send(peer.request(streams.SASL_AUTHENTICATE, mechanism, response))
        codes = []
        with contextlib.suppress(Closed):
            while True:
                codes.append(peer.answer(streams.SASL_AUTHENTICATE)[0])
        assert set(codes) <= {streams.NO_MECHANISM, streams.LOGIN_FAILED, streams.SASL_ERROR}
        assert streams.TUNE not in [key for key, _ in peer.others]


@pytest.mark.timeout(60)
def test_connections_that_go_at_once_or_stay_without_a_word():
    for _ in range(300):
        peer = Peer()
        peer.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.stream.close()
    idle = [Peer() for _ in range(60)]
    with logged_in() as peer:
        assert peer.lives()
    for peer in idle:
        peer.stream.close()


# Each command


@pytest.mark.timeout(120)
def test_every_command_cut_short(stream):
    for key, content, _, optional in contents(stream):
        for end in range(len(content)):
            if end == len(content) - optional:
                continue
            found = close_code_of(frame(key, content[:end]))
            assert found == streams.UNKNOWN_FRAME, f"{key:#x}: {end} of {len(content)} bytes"


@pytest.mark.timeout(60)
def test_every_command_with_more_than_it_has(stream):
    for key, content, _, _ in contents(stream):
        if key == streams.CONSUMER_UPDATE | streams.RESPONSE:
            # A client sends a number behind an offset that has none.
            content += bytes(8)
        found = close_code_of(frame(key, content + b"\0"))
        assert found == streams.UNKNOWN_FRAME, hex(key)


@pytest.mark.timeout(120)
def test_every_length_that_claims_what_is_not_there(stream):
    claims = {"h": [-2, -32_768, 32_767], "i": [-2, -(2**31), 2**31 - 1, 4_097]}
    for key, content, lengths, _ in contents(stream):
        for length in lengths:
            for says in [*claims[length.kind], length.says + 1]:
                size = struct.calcsize(length.kind)
                lying = struct.pack(">" + length.kind, says)
                data = content[: length.at] + lying + content[length.at + size :]
                found = close_code_of(frame(key, data))
                assert found == streams.UNKNOWN_FRAME, f"{key:#x} at {length.at}: {says}"


@pytest.mark.parametrize(
    ("size", "code"),
    [
        (0, streams.UNKNOWN_FRAME),
        (3, streams.UNKNOWN_FRAME),
        (streams.FRAME_MAX + 1, streams.FRAME_TOO_LARGE),
        (2**31 - 1, streams.FRAME_TOO_LARGE),
        (2**32 - 1, streams.FRAME_TOO_LARGE),
    ],
)
def test_sizes_that_no_frame_has(size, code):
    assert close_code_of(struct.pack(">I", size) + bytes(100)) == code


def test_a_frame_of_a_megabyte_and_one_byte_more(stream):
    with publisher_of(stream) as peer:
        # Beside the body: key, version, publisher, number of entries, publishing id, length.
        body = bytes(streams.FRAME_MAX - 4 - 1 - 4 - 8 - 4)
        peer.publish_and_wait(1, message(1, body))
        peer.publish(1, message(2, body + b"\0"))
        assert peer.close_code() == streams.FRAME_TOO_LARGE


def test_frames_that_claim_a_megabyte_and_send_little_take_little():
    peers = [logged_in() for _ in range(100)]
    before = rss()
    for peer in peers:
        peer.send(struct.pack(">IHH", streams.FRAME_MAX, streams.PUBLISH, 1) + bytes(2_000))
    with logged_in() as peer:
        assert peer.lives()
    grown = rss() - before
    for peer in peers:
        peer.stream.close()
    assert grown < 20 * MB, grown


@pytest.mark.parametrize(
    ("key", "version"),
    [(0, 1), (0x20, 1), (0x7FFF, 1), (0xFFFF, 1)]
    + [(key, version) for key in (1, 2, 7, 9, 0x0F, 0x16) for version in (0, 3, 65_535)]
    + [(key, 2) for key in (1, 7, 9, 0x0F, 0x16)],
)
def test_commands_and_versions_that_nobody_knows(key, version):
    assert close_code_of(frame(key, bytes(20), version)) == streams.UNKNOWN_FRAME


def test_what_only_the_broker_says():
    update, _ = encode((u16(streams.NOT_AVAILABLE), "s"))
    said = [
        (streams.PUBLISH_CONFIRM, encode((u8(1), [u64(1)]))[0]),
        (streams.PUBLISH_ERROR, encode((u8(1), [(u64(1), u16(2))]))[0]),
        (streams.DELIVER, bytes(60)),
        (streams.METADATA_UPDATE, update),
        (streams.CONSUMER_UPDATE, encode((u32(1), u8(1), u8(1)))[0]),
        (streams.TUNE, encode((u32(0), u32(0)))[0]),
        (streams.TUNE | streams.RESPONSE, encode((u32(0), u32(0)))[0]),
        (streams.CLOSE | streams.RESPONSE, encode((u32(1), u16(1)))[0]),
    ]
    said += [(key | streams.RESPONSE, bytes(6)) for key in range(1, 0x10)]
    for key, content in said:
        assert close_code_of(frame(key, content)) == streams.UNKNOWN_FRAME, hex(key)


def test_the_handshake_once_more():
    with Peer() as peer:
        repeated = [peer.steps()[step][0] for step in (0, 1, 3, 4)]
    for data in repeated:
        assert close_code_of(data) == streams.UNKNOWN_FRAME


def test_an_answer_to_an_update_that_nobody_has_sent_says_nothing():
    with logged_in() as peer:
        answer, _ = encode((u32(77), u16(1), u16(streams.FIRST)))
        peer.send(frame(streams.CONSUMER_UPDATE | streams.RESPONSE, answer) * 1_000)
        assert peer.lives()


def test_every_command_doubled(stream):
    """Both in one write: the second one finds what the first has done."""
    more, whole = f"{stream}-more", f"{stream}-super"
    first, none = u16(streams.FIRST), []
    table = [
        (streams.DECLARE_PUBLISHER, (u8(7), "", stream), streams.OK, streams.PRECONDITION),
        (streams.DELETE_PUBLISHER, (u8(7),), streams.OK, streams.NO_PUBLISHER),
        (
            streams.SUBSCRIBE,
            (u8(7), stream, first, u16(1), none),
            streams.OK,
            streams.SUBSCRIPTION_EXISTS,
        ),
        (streams.UNSUBSCRIBE, (u8(7),), streams.OK, streams.NO_SUBSCRIPTION),
        (streams.QUERY_SEQUENCE, ("r", stream), streams.OK, streams.OK),
        (streams.QUERY_OFFSET, ("r", stream), streams.NO_OFFSET, streams.NO_OFFSET),
        (streams.STREAM_STATS, (stream,), streams.OK, streams.OK),
        (streams.EXCHANGE_VERSIONS, ([(u16(8), u16(1), u16(1))],), streams.OK, streams.OK),
        (streams.CREATE, (more, none), streams.OK, streams.STREAM_EXISTS),
        (streams.DELETE, (more,), streams.OK, streams.NO_STREAM),
        (
            streams.CREATE_SUPER_STREAM,
            (whole, [f"{whole}-0"], ["0"], none),
            streams.OK,
            streams.STREAM_EXISTS,
        ),
        (streams.PARTITIONS, (whole,), streams.OK, streams.OK),
        (streams.ROUTE, ("0", whole), streams.OK, streams.OK),
        (streams.DELETE_SUPER_STREAM, (whole,), streams.OK, streams.NO_STREAM),
        (streams.SASL_AUTHENTICATE, ("PLAIN", b"\0guest\0guest"), streams.OK, streams.OK),
    ]
    with logged_in() as peer:
        for key, fields, once, twice in table:
            peer.send(peer.request(key, *fields) + peer.request(key, *fields))
            found = (peer.answer(key)[0], peer.answer(key)[0])
            assert found == (once, twice), hex(key)
        close = peer.request(streams.CLOSE, u16(streams.OK), "bye")
        peer.send(close + close)
        assert peer.answer(streams.CLOSE)[0] == streams.OK
        assert peer.close_code() is None


def test_messages_doubled(stream):
    with logged_in() as peer:
        assert peer.ask(streams.DECLARE_PUBLISHER, u8(1), "", stream) == streams.OK
        assert peer.ask(streams.DECLARE_PUBLISHER, u8(2), "named", stream) == streams.OK
        for publisher in (1, 2):
            entry = message(5, amqp(b"body"))
            peer.publish(publisher, entry, entry)
            peer.publish(publisher, entry)
        # Each is confirmed. Without a name each is kept, under a name the first alone.
        peer.until(lambda: len(peer.confirmed) == 6)
        assert peer.subscribe(1, stream, credit=100) == streams.OK
        peer.until(lambda: sum(chunk.records for chunk in peer.chunks) >= 4)
        assert peer.lives()
        assert sum(chunk.records for chunk in peer.chunks) == 4


# Bounds


def test_256_publishers_and_one_more(stream):
    with logged_in() as peer:
        for publisher in range(256):
            assert peer.ask(streams.DECLARE_PUBLISHER, u8(publisher), "", stream) == streams.OK
        for publisher in (0, 255):
            code = peer.ask(streams.DECLARE_PUBLISHER, u8(publisher), "more", stream)
            assert code == streams.PRECONDITION
        for publisher in range(256):
            peer.publish(publisher, message(1, amqp(b"body")))
        peer.until(lambda: len(peer.confirmed) == 256)
        assert sorted(peer.confirmed) == [(publisher, 1) for publisher in range(256)]
        assert peer.ask(streams.DELETE_PUBLISHER, u8(9)) == streams.OK
        assert peer.ask(streams.DECLARE_PUBLISHER, u8(9), "", stream) == streams.OK


def test_256_subscriptions_and_one_more(stream):
    with publisher_of(stream) as peer:
        for subscription in range(256):
            assert peer.subscribe(subscription, stream) == streams.OK
        assert peer.subscribe(0, stream) == streams.SUBSCRIPTION_EXISTS
        peer.publish_and_wait(1, message(1, amqp(b"body")))
        peer.until(lambda: len(peer.chunks) == 256)
        assert {chunk.subscription for chunk in peer.chunks} == set(range(256))


def test_publishers_and_subscriptions_that_are_not_there(stream):
    with logged_in() as peer:
        peer.publish(9, message(1, b"a"), message(2, b"b"))
        peer.until(lambda: len(peer.refused) == 2)
        assert peer.refused == [(9, 1, streams.NO_PUBLISHER), (9, 2, streams.NO_PUBLISHER)]
        peer.send(frame(streams.CREDIT, encode((u8(9), u16(1)))[0]))
        key, content = peer.read()
        assert (key, content) == (
            streams.CREDIT | streams.RESPONSE,
            struct.pack(">HB", streams.NO_SUBSCRIPTION, 9),
        )
        for key, fields in [
            (streams.DECLARE_PUBLISHER, (u8(1), "", "none")),
            (streams.QUERY_SEQUENCE, ("r", "none")),
            (streams.QUERY_OFFSET, ("r", "none")),
            (streams.STREAM_STATS, ("none",)),
            (streams.DELETE, ("none",)),
            (streams.ROUTE, ("k", "none")),
            (streams.PARTITIONS, ("none",)),
            (streams.DELETE_SUPER_STREAM, ("none",)),
            (streams.RESOLVE_OFFSET, ("none", u16(streams.FIRST), [])),
        ]:
            assert peer.ask(key, *fields) == streams.NO_STREAM, hex(key)
        assert peer.subscribe(1, "none") == streams.NO_STREAM
        # Offsets are stored without an answer: it goes nowhere.
        peer.send(frame(streams.STORE_OFFSET, encode(("r", "none", u64(2**64 - 1)))[0]))
        assert peer.lives()


def test_offsets_at_the_ends_of_their_range(stream):
    with publisher_of(stream) as peer:
        peer.publish_and_wait(1, message(1, amqp(b"body")))
        offsets = [
            (u16(streams.OFFSET), u64(2**64 - 1)),
            (u16(streams.OFFSET), u64(2**63)),
            (u16(streams.TIMESTAMP), u64(2**63)),
            (u16(streams.TIMESTAMP), u64(2**63 - 1)),
            (u16(streams.TIMESTAMP), u64(2**64 - 1)),
        ]
        for subscription, offset in enumerate(offsets):
            code = peer.subscribe(subscription, stream, offset)
            assert code in (streams.OK, streams.NO_OFFSET), offset
            assert peer.lives()
        peer.send(frame(streams.STORE_OFFSET, encode(("r", stream, u64(2**64 - 1)))[0]))
        assert peer.lives()
        assert peer.subscribe(99, stream) == streams.OK
        peer.until(lambda: any(chunk.subscription == 99 for chunk in peer.chunks))
    for kind in (6, 7, 255, 65_535):
        subscribe, _ = encode((u32(1), u8(1), stream, u16(kind), u16(1)))
        assert close_code_of(frame(streams.SUBSCRIBE, subscribe)) == streams.UNKNOWN_FRAME


NAMES = ["", " ", "\n", "a\nb", "a\rb", "x" * 256, "ü" * 128]


@pytest.mark.parametrize("name", NAMES)
def test_names_that_no_stream_has(name):
    with logged_in() as peer:
        assert peer.ask(streams.CREATE, name, []) == streams.PRECONDITION
        for whole, partition in [(name, "p"), ("whole", name)]:
            code = peer.ask(streams.CREATE_SUPER_STREAM, whole, [partition], ["0"], [])
            assert code == streams.PRECONDITION


@pytest.mark.parametrize("name", ["with\0nul", "\u202eright to left", "😀" * 60, "\x1b[31m", "../../etc", "' OR 1=1"])
def test_strange_names_are_names(name):
    name += interop.unique("-")[:10]
    with logged_in() as peer:
        assert peer.ask(streams.CREATE, name, []) == streams.OK
        assert peer.ask(streams.DECLARE_PUBLISHER, u8(1), "", name) == streams.OK
        peer.publish_and_wait(1, message(1, amqp(b"body")))
        assert peer.ask(streams.DELETE, name) == streams.OK


def test_text_that_is_no_text(stream):
    """Every string of every command, in octets that are not UTF-8."""
    for key, content, lengths, _ in contents(stream):
        for length in lengths:
            if length.kind == "h" and length.says > 0:
                at = length.at + 2
                data = content[:at] + b"\xff" + content[at + 1 :]
                assert close_code_of(frame(key, data)) == streams.UNKNOWN_FRAME, hex(key)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max-length-bytes", "many"),
        ("max-length-bytes", "-1"),
        ("max-length-bytes", "9" * 30),
        ("max-age", "soon"),
        ("max-age", "9999999999999999Y"),
        ("stream-max-segment-size-bytes", "0"),
        ("stream-max-segment-size-bytes", "3000000001"),
        ("stream-filter-size-bytes", "256"),
        ("flush", "never"),
    ],
)
def test_arguments_that_no_stream_has(name, value):
    with logged_in() as peer:
        code = peer.ask(streams.CREATE, interop.unique("s"), [(name, value)])
        assert code == streams.PRECONDITION


def test_super_streams_that_cannot_be():
    name = interop.unique("super")
    for partitions, keys in [
        ([], []),
        (["a", "a"], ["0", "1"]),
        (["a", "b"], ["0"]),
        (["a"], ["0", "1"]),
        ([f"{name}-{n}" for n in range(1_001)], [str(n) for n in range(1_001)]),
    ]:
        with logged_in() as peer:
            code = peer.ask(streams.CREATE_SUPER_STREAM, name, partitions, keys, [])
            assert code == streams.PRECONDITION
            assert peer.ask(streams.PARTITIONS, name) == streams.NO_STREAM


def test_filters_that_are_too_many(stream):
    values = [(f"filter.{n}", "v") for n in range(256)]
    long = [("filter.0", "v" * 16_385)]
    with logged_in() as peer:
        for subscription, properties in enumerate([values, long]):
            code = peer.subscribe(subscription, stream, properties=properties)
            assert code == streams.PRECONDITION


# Clients that do not read, and storms


def patient(stream):
    """A connection that takes little before it is read."""
    peer = Peer()
    peer.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    return peer.log_in()


@pytest.mark.timeout(90)
def test_a_consumer_that_never_reads(stream):
    with publisher_of(stream) as publisher, patient(stream) as idle:
        for subscription in range(50):
            assert idle.subscribe(subscription, stream, (u16(streams.NEXT),), 65_535) == streams.OK
        before = rss()
        body = amqp(bytes(100_000))
        for number in range(100):
            entries = [message(10 * number + n, body) for n in range(10)]
            publisher.publish_and_wait(1, *entries)
        grown = rss() - before
        # 100 MB were published, and there are fifty subscriptions to each of them.
        assert grown < 80 * MB, grown
        # Who reads gets all.
        with logged_in() as reader:
            assert reader.subscribe(1, stream, credit=60_000) == streams.OK
            reader.until(lambda: sum(chunk.records for chunk in reader.chunks) == 1_000)


def send_while_taken(peer, data, bytes_max, seconds=2):
    """Sends the same again and again, until nothing is taken for so long."""
    sent, view = 0, memoryview(data)
    peer.stream.settimeout(seconds)
    with contextlib.suppress(TimeoutError):
        while sent < bytes_max:
            sent += peer.stream.send(view[sent % len(data) :])


@pytest.mark.timeout(90)
@pytest.mark.parametrize("storm", ["publishes", "credit", "metadata", "refused publishes"])
def test_answers_that_nobody_reads(stream, storm):
    with patient(stream) as peer:
        assert peer.ask(streams.DECLARE_PUBLISHER, u8(1), "", stream) == streams.OK
        entries = b"".join(message(n, b"") for n in range(5_000))
        data = {
            "publishes": frame(streams.PUBLISH, struct.pack(">BI", 1, 5_000) + entries),
            "credit": frame(streams.CREDIT, encode((u8(9), u16(1)))[0]) * 5_000,
            "metadata": frame(streams.METADATA, encode((u32(1), ["none"] * 500))[0]) * 20,
            "refused publishes": frame(streams.PUBLISH, struct.pack(">BI", 9, 5_000) + entries),
        }[storm]
        before = rss()
        send_while_taken(peer, data, 60 * MB)
        grown = rss() - before
        assert grown < 80 * MB, grown


def test_credit_beyond_all_bounds(stream):
    with publisher_of(stream) as peer:
        assert peer.subscribe(1, stream, credit=65_535) == streams.OK
        peer.send(frame(streams.CREDIT, encode((u8(1), u16(65_535)))[0]) * 70_000)
        peer.publish_and_wait(1, message(1, amqp(b"body")))
        peer.until(lambda: peer.chunks)


def test_whatever_is_sent(stream):
    """Frames of every kind with octets that are thrown in: closed or served, and nothing else."""
    dice = random.Random(5_552)
    valid = [frame(key, content) for key, content, _, _ in contents(stream)]
    for _ in range(150):
        data = bytearray(b"".join(dice.sample(valid, 4)))
        for _ in range(dice.randrange(1, 6)):
            data[dice.randrange(4, len(data))] = dice.randrange(256)
        with logged_in() as peer:
            with contextlib.suppress(ConnectionError):
                peer.send(bytes(data))
                peer.stream.shutdown(socket.SHUT_WR)
            peer.close_code()


# Batches that lie. They are kept as they come, since clients pack and unpack them; who unpacks them
# here are consumers of AMQP 0-9-1, views and those who browse.

GZIPPED = gzip.compress(packed(amqp(b"a"), amqp(b"b")))

REFUSED_BATCHES = {
    "no messages": batch(2, 0, packed(amqp(b"a"))),
    "no messages and no bytes": batch(2, 0, b""),
    "less data than it says": batch(2, 1, packed(amqp(b"a")), size=10_000),
    "more data than it says": batch(2, 1, packed(amqp(b"a")), size=3),
    "4 GiB of data": batch(2, 1, packed(amqp(b"a")), size=2**32 - 1),
    "half a head": batch(2, 1, b"")[:-5],
}


@pytest.mark.parametrize("lie", REFUSED_BATCHES.values(), ids=REFUSED_BATCHES.keys())
def test_batches_that_are_refused(stream, lie):
    with publisher_of(stream) as peer:
        peer.publish(1, message(1, amqp(b"before")), lie)
        assert peer.close_code() == streams.UNKNOWN_FRAME
    # Nothing of that frame is kept.
    with publisher_of(stream) as peer:
        peer.publish_and_wait(1, message(1, amqp(b"after")))
        assert peer.subscribe(1, stream) == streams.OK
        peer.until(lambda: peer.chunks)
        assert (peer.chunks[0].first_offset, peer.chunks[0].records) == (0, 1)


#: Of each the messages that it counts, and those that can be read.
LYING_BATCHES = {
    "no bytes": (65_535, batch(2, 65_535, b""), []),
    "fewer messages than it says": (3, batch(2, 3, packed(amqp(b"a"))), []),
    "more messages than it says": (1, batch(2, 1, packed(amqp(b"a"), amqp(b"b"))), []),
    "half a message": (2, batch(2, 2, packed(amqp(b"a"), amqp(b"b"))[:-1]), []),
    "a message of 2 GiB": (1, batch(2, 1, struct.pack(">I", 2**31 - 1) + b"x"), []),
    "a message of 4 GiB": (1, batch(2, 1, struct.pack(">I", 2**32 - 1) + b"x"), []),
    # What it says to have before it was packed is not relied on.
    "4 GiB unpacked": (1, batch(2, 1, packed(amqp(b"a")), uncompressed=2**32 - 1), [b"a"]),
    "nothing unpacked": (2, batch(2, 2, GZIPPED, codec=1, uncompressed=0), [b"a", b"b"]),
    "no gzip": (2, batch(2, 2, b"no gzip at all", codec=1), []),
    "no bytes of gzip": (2, batch(2, 2, b"", codec=1), []),
    "gzip cut short": (2, batch(2, 2, GZIPPED[:-5], codec=1), []),
    "gzip whose checksum lies": (2, batch(2, 2, GZIPPED[:-8] + bytes(8), codec=1), []),
    "gzip of fewer messages": (3, batch(2, 3, GZIPPED, codec=1), []),
    "gzip of gzip": (1, batch(2, 1, gzip.compress(GZIPPED), codec=1), []),
    "gzip that grows a thousandfold": (1, batch(2, 1, gzip.compress(bytes(64 * MB)), codec=1), []),
    "snappy that is none": (2, batch(2, 2, b"no snappy", codec=2), []),
    "lz4 that is none": (2, batch(2, 2, b"no lz4", codec=3), []),
    "zstd that is none": (2, batch(2, 2, b"no zstd", codec=4), []),
    "a codec that nobody knows": (2, batch(2, 2, GZIPPED, codec=7), []),
}


def amqp_reads(stream, count, offset="first"):
    """What a consumer of AMQP 0-9-1 is given: offsets and bodies."""
    connection = interop.connect()
    channel = connection.channel()
    channel.basic_qos(prefetch_count=10)
    found = []

    def deliver(_channel, method, properties, body):
        found.append((properties.headers["x-stream-offset"], body))
        channel.basic_ack(method.delivery_tag)

    channel.basic_consume(stream, deliver, arguments={"x-stream-offset": offset})
    interop.pump(connection, lambda: len(found) >= count, 20)
    interop.settle_down(connection, 0.2)
    connection.close()
    return found


def view_gives(stream, count):
    """What a queue whose messages are the stream's gives, until it has no more."""
    connection = interop.connect()
    channel = connection.channel()
    view = interop.unique("view")
    channel.queue_declare(view, durable=True, arguments={"x-stream-source": stream})
    bodies = [interop.get(channel, view)[2] for _ in range(count)]
    assert channel.basic_get(view, auto_ack=True)[0] is None
    channel.queue_delete(view)
    connection.close()
    return bodies


@pytest.mark.parametrize(("records", "lie", "readable"), LYING_BATCHES.values(), ids=LYING_BATCHES.keys())
def test_batches_that_lie(stream, records, lie, readable):
    with publisher_of(stream) as peer:
        before, after = message(1, amqp(b"before")), message(3, amqp(b"after"))
        peer.publish_and_wait(1, before, lie, after)
        assert peer.subscribe(1, stream) == streams.OK
        total = records + 2
        peer.until(lambda: sum(chunk.records for chunk in peer.chunks) >= total)
        # Readers of streams get what was published, octet by octet, and count what it counts.
        data = b"".join(chunk.data for chunk in peer.chunks)
        assert data == before[8:] + lie[8:] + after[8:]
        assert sum(chunk.records for chunk in peer.chunks) == total
    expected = [(0, b"before"), *enumerate(readable, 1), (records + 1, b"after")]
    assert amqp_reads(stream, len(expected)) == expected
    assert view_gives(stream, len(expected)) == [body for _, body in expected]
    page = interop.http("GET", f"/api/leveret/streams/%2F/{stream}/messages")
    shown = {row["offset"]: row.get("payload") for row in page["messages"]}
    assert (shown[0], shown[records + 1]) == ("before", "after")


@pytest.mark.timeout(90)
def test_batches_that_claim_billions_of_messages(stream):
    """A frame of a megabyte counts 3,600,000,000 messages: whoever passes over them does not count
    them one by one."""
    before, after = message(0, amqp(b"before")), message(60_000, amqp(b"after"))
    lies = [batch(number, 65_535, b"") for number in range(1, 55_001)]
    offset = 1 + 65_535 * len(lies)
    with publisher_of(stream) as peer:
        peer.publish_and_wait(1, before, *lies)
        peer.publish_and_wait(1, after)
        assert peer.subscribe(1, stream, credit=1_000) == streams.OK
        peer.until(lambda: sum(chunk.records for chunk in peer.chunks) > offset)
        assert sum(chunk.records for chunk in peer.chunks) == offset + 1
    expected = [(0, b"before"), (offset, b"after")]
    started = time.monotonic()
    assert amqp_reads(stream, 2) == expected
    assert amqp_reads(stream, 1, offset // 2) == expected[1:]
    assert view_gives(stream, 2) == [b"before", b"after"]
    page = interop.http("GET", f"/api/leveret/streams/%2F/{stream}/messages?offset={offset}")
    assert [row["offset"] for row in page["messages"]] == [offset]
    assert time.monotonic() - started < 40


@pytest.mark.timeout(90)
def test_batches_that_grow_a_thousandfold_take_little(stream):
    before = rss()
    with publisher_of(stream) as peer:
        bomb = gzip.compress(bytes(64 * MB))
        for number in range(8):
            peer.publish_and_wait(1, batch(number, 1, bomb, codec=1))
        peer.publish_and_wait(1, message(99, amqp(b"after")))
    assert amqp_reads(stream, 1) == [(8, b"after")]
    grown = rss() - before
    # Unpacked they have 512 MB.
    assert grown < 100 * MB, grown
