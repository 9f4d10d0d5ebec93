"""The handshake, heartbeats, alarms, permissions."""

import contextlib
import socket
import struct
import time

import leveret_interop as interop
import pika
import pytest
from leveret_interop import RawPeer, closes, rabbitmq_4, unique


def test_server_properties(connection):
    properties = connection._impl.server_properties  # noqa: SLF001
    assert properties["product"] == "RabbitMQ"
    major, minor, _ = properties["version"].split(".")[:3]
    assert (int(major), int(minor)) >= ((3, 10) if interop.ON_RABBITMQ else (4, 0))
    for key in ("platform", "copyright", "information", "cluster_name"):
        assert properties[key]
    assert properties["capabilities"] == {
        "publisher_confirms": True,
        "exchange_exchange_bindings": True,
        "basic.nack": True,
        "consumer_cancel_notify": True,
        "connection.blocked": True,
        "consumer_priorities": True,
        "authentication_failure_close": True,
        "per_consumer_qos": True,
        "direct_reply_to": True,
    }


def test_mechanisms():
    with RawPeer() as peer:
        assert {"PLAIN", "AMQPLAIN"} <= set(peer.mechanisms.split())


@rabbitmq_4
def test_frame_max_before_login():
    with RawPeer() as peer:
        peer.login()
        assert peer.tuned == (2047, 131_072, 60)


def test_wrong_protocol_header_is_answered():
    with socket.create_connection((interop.HOST, interop.PORT), timeout=10) as stream:
        stream.sendall(b"AMQP\x02\x00\x00\x00")
        assert stream.recv(100) == b"AMQP\x00\x00\x09\x01"
        with contextlib.suppress(ConnectionResetError):
            assert stream.recv(100) == b""


def test_heartbeats_come_at_half_the_interval():
    with RawPeer() as peer:
        peer.login(heartbeat=2)
        started = time.monotonic()
        for _ in range(3):
            assert peer.read() == (8, 0, b"")
            peer.stream.sendall(b"\x08\0\0\0\0\0\0\xce")
        assert 1.5 < time.monotonic() - started < 6.5


def test_a_silent_client_is_disconnected():
    with RawPeer() as peer:
        peer.login(heartbeat=1)
        started = time.monotonic()
        with pytest.raises((EOFError, ConnectionError)):
            while True:
                peer.read()
        assert 1.0 < time.monotonic() - started < 8


def test_a_client_that_talks_without_heartbeats_stays():
    with RawPeer() as peer:
        peer.login(heartbeat=1)
        peer.method(1, 20, 10, b"\0")
        deadline = time.monotonic() + 4
        answers = 0
        while time.monotonic() < deadline:
            # Any traffic counts.
            peer.method(1, 60, 10, struct.pack(">IHB", 0, 1, 0))
            while True:
                kind, _, payload = peer.read()
                if kind == 1 and payload[:4] == struct.pack(">HH", 60, 11):
                    answers += 1
                    break
            time.sleep(0.3)
        assert answers > 5


def test_close_is_answered():
    with RawPeer() as peer:
        peer.login()
        peer.method(0, 10, 50, struct.pack(">H", 200) + b"\x02ok\0\0\0\0")
        assert peer.read()[2] == struct.pack(">HH", 10, 51)


def test_update_secret(connection):
    channel = connection._impl  # noqa: SLF001
    seen = []
    channel.callbacks.add(0, pika.spec.Connection.UpdateSecretOk, lambda _: seen.append(True))
    channel._send_method(  # noqa: SLF001
        0, pika.spec.Connection.UpdateSecret(new_secret="guest", reason="renewed")
    )
    interop.pump(connection, lambda: seen)


def test_alarm_blocks_publishers_and_not_consumers(connection, queue):
    consumer_channel = connection.channel()
    for number in range(3):
        consumer_channel.basic_publish("", queue, str(number).encode())
    consumer = interop.connect()
    consuming = consumer.channel()
    interop.await_count(consuming, queue, 3)
    publisher = interop.connect()
    events = []
    publisher.add_on_connection_blocked_callback(
        lambda _, frame: events.append(("blocked", frame.method.reason))
    )
    publisher.add_on_connection_unblocked_callback(lambda *_: events.append(("unblocked",)))
    publishing = publisher.channel()
    interop.control("ctl", "set_vm_memory_high_watermark", "absolute", "1")
    try:
        publishing.basic_publish("", queue, b"blocked")
        interop.pump(publisher, lambda: events, 20)
        assert events == [("blocked", "low on memory")]
        assert len(interop.collect(consuming, queue, 3)) == 3
    finally:
        interop.control("ctl", "set_vm_memory_high_watermark", "0.4")
    interop.pump(publisher, lambda: len(events) == 2, 20)
    assert events[1] == ("unblocked",)
    interop.await_count(consuming, queue, 1)
    publisher.close()
    consumer.close()


# Permissions


@pytest.fixture(scope="module")
def visitor():
    """A user with rights to what starts with `mine` in a virtual host of its own."""
    interop.define(
        vhosts=[{"name": "guarded"}, {"name": "closed"}],
        users=[{"name": "visitor", "password": "secret", "tags": ""}],
        permissions=[
            {"user": "visitor", "vhost": "guarded", "configure": "^mine", "write": "^mine",
             "read": "^mine"},
            {"user": "guest", "vhost": "guarded", "configure": ".*", "write": ".*", "read": ".*"},
        ],
        topic_permissions=[
            {"user": "visitor", "vhost": "guarded", "exchange": "mine-topic",
             "write": "^{username}\\.", "read": "^{username}\\."},
        ],
    )
    owner = interop.connect(vhost="guarded")
    channel = owner.channel()
    channel.queue_declare("theirs")
    channel.queue_declare("mine-queue")
    channel.exchange_declare("theirs", "topic")
    channel.exchange_declare("mine-topic", "topic")
    owner.close()
    return {"user": "visitor", "password": "secret", "vhost": "guarded"}


def refused(what, kind, name):
    # RabbitMQ 4 says which access; 3.10 does not.
    access = "access" if interop.ON_RABBITMQ else f"{what} access"
    return f"ACCESS_REFUSED - {access} to {kind} '{name}' in vhost 'guarded' refused for user 'visitor'"


REFUSALS = [
    ("configure", "queue", "new", lambda c: c.queue_declare("new")),
    ("configure", "queue", "theirs", lambda c: c.queue_delete("theirs")),
    ("configure", "exchange", "new", lambda c: c.exchange_declare("new", "direct")),
    ("configure", "exchange", "theirs", lambda c: c.exchange_delete("theirs")),
    ("read", "queue", "theirs", lambda c: c.basic_get("theirs")),
    ("read", "queue", "theirs", lambda c: c.basic_consume("theirs", lambda *_: None)),
    ("read", "queue", "theirs", lambda c: c.queue_purge("theirs")),
    ("write", "queue", "theirs", lambda c: c.queue_bind("theirs", "mine-topic", "visitor.a")),
    ("read", "exchange", "theirs", lambda c: c.queue_bind("mine-queue", "theirs", "k")),
    ("write", "exchange", "theirs", lambda c: c.basic_publish("theirs", "k", b"")),
    ("write", "exchange", "amq.default", lambda c: c.basic_publish("", "mine-queue", b"")),
]


@pytest.mark.parametrize(
    ("what", "kind", "name", "use"), REFUSALS, ids=[f"{r[0]} {r[1]} {i}" for i, r in enumerate(REFUSALS)]
)
def test_refused(visitor, what, kind, name, use):
    connection = interop.connect(**visitor)
    with closes("channel", 403, refused(what, kind, name)):
        interop.provoke(connection.channel(), use)
    connection.close()


def test_allowed(visitor):
    connection = interop.connect(**visitor)
    channel = connection.channel()
    channel.queue_declare("mine-too", auto_delete=True)
    channel.queue_bind("mine-too", "mine-topic", "visitor.x")
    channel.basic_publish("mine-topic", "visitor.x", b"x")
    assert interop.get(channel, "mine-too")[2] == b"x"
    channel.queue_delete("mine-too")
    connection.close()


@pytest.mark.parametrize(
    ("what", "use"),
    [
        ("write", lambda c: c.basic_publish("mine-topic", "other.x", b"")),
        ("read", lambda c: c.queue_bind("mine-queue", "mine-topic", "other.#")),
    ],
    ids=["publish", "bind"],
)
def test_refused_topic(visitor, what, use):
    connection = interop.connect(**visitor)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        interop.provoke(connection.channel(), use)
    assert caught.value.reply_code == 403
    text = caught.value.reply_text
    assert "to topic 'other." in text and "in exchange 'mine-topic' in vhost 'guarded'" in text
    connection.close()


def test_vhost_without_permissions(visitor):
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError) as caught:
        interop.connect(**visitor | {"vhost": "closed"})
    assert (
        "(530) \"NOT_ALLOWED - access to vhost 'closed' refused for user 'visitor'\""
        in str(caught.value)
    )


def test_vhosts_are_apart(visitor, channel):
    with closes("channel", 404, "NOT_FOUND - no queue 'mine-queue' in vhost '/'"):
        channel.queue_declare("mine-queue", passive=True)


def test_policy_applies_to_living_queues(channel):
    queue = unique("policed")
    channel.queue_declare(queue)
    channel.confirm_delivery()
    for text in ("a", "b", "c"):
        channel.basic_publish("", queue, text.encode())
    policy = {"pattern": f"^{queue}$", "definition": {"max-length": 1}, "apply-to": "queues"}
    interop.http("PUT", "/api/policies/%2F/short", policy)
    interop.await_count(channel, queue, 1)
    assert interop.bodies(channel, queue) == ["c"]
    interop.http("DELETE", "/api/policies/%2F/short")
    channel.queue_delete(queue)
