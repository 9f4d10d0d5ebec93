"""The error-code table: each row with its exact code, scope and text."""

import leveret_interop as interop
import pika
import pytest
from leveret_interop import closes, provoke, raw, rabbitmq_4, unique
from pika import spec


def test_publish_to_a_missing_exchange(channel):
    with closes("channel", 404, "NOT_FOUND - no exchange 'nowhere' in vhost '/'"):
        provoke(channel, lambda c: c.basic_publish("nowhere", "k", b""))


def test_immediate(channel):
    publish = spec.Basic.Publish(exchange="", routing_key="k", immediate=True)
    with closes("connection", 540, "NOT_IMPLEMENTED - immediate=true"):
        provoke(channel, lambda c: raw(c, publish, (spec.BasicProperties(), b"")))


def test_recover_without_requeue(channel):
    with closes("connection", 540, "NOT_IMPLEMENTED - requeue=false"):
        channel.basic_recover(requeue=False)


@pytest.mark.parametrize("settle", ["basic_ack", "basic_nack", "basic_reject"])
def test_unknown_delivery_tag(channel, settle):
    with closes("channel", 406, "PRECONDITION_FAILED - unknown delivery tag 7"):
        provoke(channel, lambda c: getattr(c, settle)(7))


@pytest.mark.parametrize("settle", ["basic_ack", "basic_nack", "basic_reject"])
def test_delivery_tag_used_twice(channel, queue, settle):
    channel.basic_publish("", queue, b"once")
    method, _, _ = interop.get(channel, queue, auto_ack=False)
    channel.basic_ack(method.delivery_tag)
    text = f"PRECONDITION_FAILED - unknown delivery tag {method.delivery_tag}"
    with closes("channel", 406, text):
        provoke(channel, lambda c: getattr(c, settle)(method.delivery_tag))


def test_delivery_tag_of_another_channel(connection, channel, queue):
    channel.basic_publish("", queue, b"here")
    method, _, _ = interop.get(channel, queue, auto_ack=False)
    other = connection.channel()
    with closes("channel", 406, "PRECONDITION_FAILED - unknown delivery tag 1"):
        provoke(other, lambda c: c.basic_ack(method.delivery_tag))
    channel.basic_ack(method.delivery_tag)


def test_ack_of_all_when_there_is_none(channel):
    channel.basic_ack(0, multiple=True)
    channel.basic_qos(prefetch_count=1)


def test_tx_on_a_confirm_channel(channel):
    channel.confirm_delivery()
    text = "PRECONDITION_FAILED - cannot switch from confirm to tx mode"
    with closes("channel", 406, text):
        channel.tx_select()


def test_confirm_on_a_tx_channel(channel):
    channel.tx_select()
    text = "PRECONDITION_FAILED - cannot switch from tx to confirm mode"
    with closes("channel", 406, text):
        channel.confirm_delivery()


@pytest.mark.parametrize("method", ["tx_commit", "tx_rollback"])
def test_tx_without_select(channel, method):
    with closes("channel", 406, "PRECONDITION_FAILED - channel is not transactional"):
        getattr(channel, method)()


REDECLARATIONS = [
    ({"durable": False}, "durable", "'false' but current is 'true'"),
    ({"durable": True, "auto_delete": True}, "auto_delete", "'true' but current is 'false'"),
    (
        {"durable": True, "arguments": {"x-message-ttl": 5}},
        "x-message-ttl",
        "the value '5' of type 'signedint' but current is none",
    ),
]


@pytest.mark.parametrize(("options", "argument", "difference"), REDECLARATIONS)
def test_redeclared_otherwise(channel, queue, options, argument, difference):
    text = (
        f"PRECONDITION_FAILED - inequivalent arg '{argument}' for queue '{queue}' in vhost '/': "
        f"received {difference}"
    )
    with closes("channel", 406, text):
        channel.queue_declare(queue, **options)


def test_redeclared_with_another_value(channel):
    queue = unique()
    channel.queue_declare(queue, exclusive=True, arguments={"x-message-ttl": 10})
    text = (
        f"PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue '{queue}' in vhost '/': "
        "received '11' but current is '10'"
    )
    with closes("channel", 406, text):
        channel.queue_declare(queue, exclusive=True, arguments={"x-message-ttl": 11})


def test_integer_types_are_one(channel):
    queue = unique()
    channel.queue_declare(queue, exclusive=True, arguments={"x-message-ttl": 10_000})
    # pika writes what does not fit 32 bits as 64: force the wider type with the same value.
    wide = pika.data.long(10_000) if hasattr(pika.data, "long") else 10_000
    channel.queue_declare(queue, exclusive=True, arguments={"x-message-ttl": wide})


def test_unknown_arguments_are_not_compared(channel):
    queue = unique()
    channel.queue_declare(queue, exclusive=True, arguments={"foo": "bar"})
    channel.queue_declare(queue, exclusive=True, arguments={"foo": "other", "more": 1})
    channel.queue_declare(queue, exclusive=True)


LOCKED = (
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{}' in vhost '/'. "
    "It could be originally declared on another connection or the exclusive property value does "
    "not match that of the original declaration."
)


@pytest.mark.parametrize(
    "use",
    [
        lambda c, q: c.queue_declare(q, exclusive=True),
        lambda c, q: c.queue_declare(q, passive=True),
        lambda c, q: c.queue_delete(q),
        lambda c, q: c.queue_purge(q),
        lambda c, q: c.queue_bind(q, "amq.direct", "k"),
        lambda c, q: c.basic_get(q),
        lambda c, q: c.basic_consume(q, lambda *_: None),
    ],
    ids=["declare", "passive", "delete", "purge", "bind", "get", "consume"],
)
def test_exclusive_queue_of_another_connection(channel, use):
    owner = interop.connect()
    queue = unique()
    owner.channel().queue_declare(queue, exclusive=True)
    with closes("channel", 405, LOCKED.format(queue)):
        use(channel, queue)
    owner.close()


def test_redeclared_with_other_exclusivity(channel, queue):
    with closes("channel", 405, LOCKED.format(queue)):
        channel.queue_declare(queue, durable=True, exclusive=True)


def test_delete_if_unused(channel, queue):
    channel.basic_consume(queue, lambda *_: None)
    with closes("channel", 406, f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' in use"):
        channel.queue_delete(queue, if_unused=True)


def test_delete_if_empty(channel, queue):
    channel.basic_publish("", queue, b"")
    interop.await_count(channel, queue, 1)
    text = f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' not empty"
    with closes("channel", 406, text):
        channel.queue_delete(queue, if_empty=True)


def test_delete_exchange_if_unused(channel, queue, exchange):
    name = exchange(channel)
    channel.queue_bind(queue, name, "k")
    with closes("channel", 406, f"PRECONDITION_FAILED - exchange '{name}' in vhost '/' in use"):
        channel.exchange_delete(name, if_unused=True)


@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True), (True, True)])
def test_exclusive_consumers_clash(channel, queue, first, second):
    channel.basic_consume(queue, lambda *_: None, exclusive=first)
    text = f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"
    with closes("channel", 403, text):
        channel.basic_consume(queue, lambda *_: None, exclusive=second)


DEFAULT_EXCHANGE = "ACCESS_REFUSED - operation not permitted on the default exchange"


def test_default_exchange_cannot_be_declared(channel):
    with closes("channel", 403, DEFAULT_EXCHANGE):
        channel.exchange_declare("", "direct", durable=True)


def test_default_exchange_cannot_be_deleted(channel):
    # pika's own API wants a name.
    with closes("channel", 403, DEFAULT_EXCHANGE):
        provoke(channel, lambda c: raw(c, spec.Exchange.Delete(exchange="")))


def test_default_exchange_cannot_be_bound(channel, queue):
    with closes("channel", 403, DEFAULT_EXCHANGE):
        channel.queue_bind(queue, "", "k")


def test_default_exchange_cannot_be_unbound(channel, queue):
    with closes("channel", 403, DEFAULT_EXCHANGE):
        channel.queue_unbind(queue, "", queue)


def test_new_exchange_with_a_reserved_name(channel):
    text = "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'"
    with closes("channel", 403, text):
        channel.exchange_declare("amq.mine", "direct")


def test_new_queue_with_a_reserved_name(channel):
    text = "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'"
    with closes("channel", 403, text):
        channel.queue_declare("amq.mine")


@pytest.mark.parametrize(
    ("name", "kind"),
    [("direct", "direct"), ("fanout", "fanout"), ("topic", "topic"), ("headers", "headers"),
     ("match", "headers")],
)
def test_predeclared_exchanges_can_be_redeclared(channel, name, kind):
    channel.exchange_declare(f"amq.{name}", kind, durable=True)


def test_predeclared_exchange_as_another_type(channel):
    text = (
        "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'amq.direct' in vhost '/': "
        "received 'fanout' but current is 'direct'"
    )
    with closes("channel", 406, text):
        channel.exchange_declare("amq.direct", "fanout", durable=True)


def test_delete_a_predeclared_exchange(channel):
    text = "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed"
    with closes("channel", 403, text):
        channel.exchange_delete("amq.direct")


def test_exchange_redeclared_otherwise(channel, exchange):
    name = exchange(channel, durable=True)
    text = (
        f"PRECONDITION_FAILED - inequivalent arg 'durable' for exchange '{name}' in vhost '/': "
        "received 'false' but current is 'true'"
    )
    with closes("channel", 406, text):
        channel.exchange_declare(name, "direct")


def test_missing_vhost():
    # pika reads a close at this stage as a denial, and keeps what the broker said.
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError) as caught:
        interop.connect(vhost="nowhere")
    assert "(530) 'NOT_ALLOWED - vhost nowhere not found'" in str(caught.value)


def test_wrong_password():
    with pytest.raises(pika.exceptions.ProbableAuthenticationError) as caught:
        interop.connect(password="wrong")
    assert "403" in str(caught.value)
    assert "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN." in str(
        caught.value
    )


def test_consumer_tag_in_use(channel, queue):
    channel.basic_consume(queue, lambda *_: None, consumer_tag="mine")
    consume = spec.Basic.Consume(queue=queue, consumer_tag="mine")
    with closes("connection", 530, "NOT_ALLOWED - attempt to reuse consumer tag 'mine'"):
        provoke(channel, lambda c: raw(c, consume))


@rabbitmq_4
def test_unknown_exchange_type(channel):
    text = "PRECONDITION_FAILED - unknown exchange type 'round'"
    with closes("channel", 406, text):
        channel.exchange_declare(unique("x"), "round")


def test_prefetch_size(channel):
    with closes("connection", 540, "NOT_IMPLEMENTED - prefetch_size!=0 (9)"):
        channel.basic_qos(prefetch_size=9)


def test_publish_to_an_internal_exchange(channel, exchange):
    name = exchange(channel, internal=True)
    text = f"ACCESS_REFUSED - cannot publish to internal exchange '{name}' in vhost '/'"
    with closes("channel", 403, text):
        provoke(channel, lambda c: c.basic_publish(name, "k", b""))


@pytest.mark.parametrize(
    "use",
    [
        lambda c: c.basic_get(""),
        lambda c: c.basic_consume("", lambda *_: None),
        lambda c: c.queue_purge(""),
        lambda c: c.queue_delete(""),
    ],
    ids=["get", "consume", "purge", "delete"],
)
def test_no_previously_declared_queue(channel, use):
    with closes("channel", 404, "NOT_FOUND - no previously declared queue"):
        use(channel)


@pytest.mark.parametrize(
    "use",
    [
        lambda c: c.queue_declare("missing", passive=True),
        lambda c: c.basic_get("missing"),
        lambda c: c.basic_consume("missing", lambda *_: None),
        lambda c: c.queue_purge("missing"),
        lambda c: c.queue_bind("missing", "amq.direct", "k"),
    ],
    ids=["passive", "get", "consume", "purge", "bind"],
)
def test_missing_queue(channel, use):
    with closes("channel", 404, "NOT_FOUND - no queue 'missing' in vhost '/'"):
        use(channel)


@pytest.mark.parametrize(
    "use",
    [
        lambda c, _: c.exchange_declare("missing", passive=True),
        lambda c, q: c.queue_bind(q, "missing", "k"),
        lambda c, _: c.exchange_bind("missing", "amq.direct", "k"),
        lambda c, _: c.exchange_bind("amq.direct", "missing", "k"),
    ],
    ids=["passive", "bind", "exchange bind to", "exchange bind from"],
)
def test_missing_exchange(channel, queue, use):
    with closes("channel", 404, "NOT_FOUND - no exchange 'missing' in vhost '/'"):
        use(channel, queue)


def test_deleting_what_is_not_there_succeeds(channel, queue):
    assert channel.queue_delete("missing").method.message_count == 0
    channel.exchange_delete("missing")
    channel.queue_unbind(queue, "amq.direct", "missing")


def test_channel_max():
    connection = interop.connect(channel_max=5)
    for _ in range(5):
        connection.channel()
    with pytest.raises(pika.exceptions.NoFreeChannels):
        connection.channel()
    connection.close()


@rabbitmq_4
@pytest.mark.parametrize("size", [16_777_216, 16_777_217])
def test_message_size_at_and_over_the_limit(channel, queue, size):
    if size == 16_777_216:
        channel.confirm_delivery()
        channel.basic_publish("", queue, bytes(size))
        return
    text = f"PRECONDITION_FAILED - message size {size} is larger than configured max size 16777216"
    with closes("channel", 406, text):
        provoke(channel, lambda c: c.basic_publish("", queue, bytes(size)))


def test_user_id_of_another(channel, queue):
    text = (
        "PRECONDITION_FAILED - user_id property set to 'mallory' but authenticated user was 'guest'"
    )
    properties = pika.BasicProperties(user_id="mallory")
    with closes("channel", 406, text):
        provoke(channel, lambda c: c.basic_publish("", queue, b"", properties))


def test_own_user_id(channel, queue):
    channel.basic_publish("", queue, b"", pika.BasicProperties(user_id="guest"))
    assert interop.get(channel, queue)[1].user_id == "guest"


INVALID_ARGUMENTS = [
    ("x-message-ttl", -1, "{value_negative,-1}"),
    ("x-message-ttl", "abc", '"expected integer, got longstr"'),
    ("x-expires", 0, "{value_zero,0}"),
    ("x-expires", -5, "{value_negative,-5}"),
    ("x-max-length", -1, "{value_negative,-1}"),
    ("x-max-length-bytes", "many", '"expected integer, got longstr"'),
    ("x-max-priority", -1, "{value_negative,-1}"),
    ("x-max-priority", 256, "{max_value_exceeded,256}"),
    ("x-overflow", "explode", "invalid_overflow"),
]


@pytest.mark.parametrize(("argument", "value", "why"), INVALID_ARGUMENTS)
def test_invalid_queue_argument(channel, argument, value, why):
    queue = unique()
    text = f"PRECONDITION_FAILED - invalid arg '{argument}' for queue '{queue}' in vhost '/': {why}"
    with closes("channel", 406, text):
        channel.queue_declare(queue, exclusive=True, arguments={argument: value})


def test_dead_letter_exchange_that_is_a_number(channel):
    queue = unique()
    text = (
        "PRECONDITION_FAILED - invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue "
        f"'{queue}' in vhost '/'"
    )
    with closes("channel", 406, text):
        channel.queue_declare(queue, exclusive=True, arguments={"x-dead-letter-exchange": 5})


def test_ttl_of_ten_years_and_one_more(channel):
    ten_years = 315_360_000_000
    queue = unique()
    channel.queue_declare(queue, exclusive=True, arguments={"x-message-ttl": ten_years})
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.queue_declare(
            unique(), exclusive=True, arguments={"x-message-ttl": ten_years + 1}
        )
    assert caught.value.reply_code == 406
    assert "{value_too_" in caught.value.reply_text


@pytest.mark.parametrize("expiration", ["abc", "-1", "1e9", "1.5", str(2**64)])
def test_invalid_expiration(channel, queue, expiration):
    properties = pika.BasicProperties(expiration=expiration)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        provoke(channel, lambda c: c.basic_publish("", queue, b"", properties))
    assert caught.value.reply_code == 406
    assert caught.value.reply_text.startswith(
        f"PRECONDITION_FAILED - invalid expiration '{expiration}': "
    )


def test_line_ends_are_stripped_from_names(channel):
    queue = unique()
    # pika would wait for an answer with the name as it was sent.
    raw(channel, spec.Queue.Declare(queue=f"{queue}\r\n", exclusive=True, nowait=True))
    channel.queue_declare(queue, passive=True)


def test_flow_off_is_not_implemented(channel):
    with closes("connection", 540, "NOT_IMPLEMENTED - active=false"):
        provoke(channel, lambda c: raw(c, spec.Channel.Flow(active=False)))


def test_flow_on_is_answered(channel):
    channel._impl.flow(True)  # noqa: SLF001
    channel.basic_qos(prefetch_count=1)


def test_after_a_channel_error_other_channels_live(connection, channel, queue):
    other = connection.channel()
    with closes("channel", 404, "NOT_FOUND - no queue 'missing' in vhost '/'"):
        channel.queue_declare("missing", passive=True)
    other.basic_publish("", queue, b"still here")
    assert interop.get(other, queue)[2] == b"still here"


def test_a_closed_channel_number_can_be_opened_again(connection, channel):
    number = channel.channel_number
    with closes("channel", 404, "NOT_FOUND - no queue 'missing' in vhost '/'"):
        channel.queue_declare("missing", passive=True)
    again = connection.channel(number)
    again.queue_declare("", exclusive=True)


def test_closed_by_the_operator():
    connection = interop.connect(client_properties={"connection_name": unique("victim")})
    channel = connection.channel()
    name = connection._impl.params.client_properties["connection_name"]  # noqa: SLF001

    def find():
        for row in interop.http("GET", "/api/connections"):
            if row.get("client_properties", {}).get("connection_name") == name:
                return row["name"]
        return None

    found = interop.until(find, 20, "the connection in the list")
    path = "/api/connections/" + interop.urllib.parse.quote(found, safe="")
    interop.http("DELETE", path)
    text = "CONNECTION_FORCED - Closed via management plugin"
    with closes("connection", 320, text):
        while True:
            channel.basic_qos(prefetch_count=1)
