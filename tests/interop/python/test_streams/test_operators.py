"""What operators see of clients of the stream protocol, over the HTTP API of a running node."""

import asyncio
import urllib.error
import urllib.request

import leveret_interop as interop
import pytest
from rstream import AMQPMessage, Consumer, ConsumerOffsetSpecification, OffsetType, amqp_decoder
from test_mixed import pika_reads
from test_streams import LOGIN, producer, publish, stream, until

pytestmark = interop.leveret_only


def get(path):
    return interop.http("GET", f"/api/{path}")


async def rows(path, name, count):
    """The rows of a stream, once there are so many: figures are asked for, not pushed."""
    found = []

    def there():
        found[:] = [row for row in get(path) if row["queue"]["name"] == name]
        return len(found) == count

    await until(there, f"{count} rows of {path}")
    return found


async def test_publishers_and_consumers_are_seen_with_what_they_did():
    async with stream() as (name, one):
        await publish(one, name, [b"a", b"b", b"c"], publisher="orders", first=1)
        publishers = await rows("stream/publishers", name, 1)
        assert publishers[0]["reference"] == "orders"
        assert (publishers[0]["published"], publishers[0]["confirmed"], publishers[0]["errored"]) == (3, 3, 0)
        assert await rows(f"stream/publishers/%2F/{name}", name, 1) == publishers

        received = []
        reader = Consumer(**LOGIN)
        await reader.start()
        await reader.subscribe(
            name,
            lambda message, context: received.append(message),
            decoder=amqp_decoder,
            subscriber_name="group",
            offset_specification=ConsumerOffsetSpecification(OffsetType.FIRST, None),
        )
        running = asyncio.create_task(reader.run())
        await until(lambda: len(received) == 3, "three messages")
        consumers = await rows("stream/consumers", name, 1)
        assert (consumers[0]["consumed"], consumers[0]["offset"], consumers[0]["offset_lag"]) == (3, 2, 0)
        assert (consumers[0]["active"], consumers[0]["activity_status"]) == (True, "up")
        of_amqp = await rows("consumers", name, 1)
        assert of_amqp[0]["consumer_tag"].startswith("stream.subid-")

        await reader.store_offset(name, "group", 2)
        await until(lambda: get(f"stream/%2F/{name}/tracking")["offsets"].get("group") == 2, "the offset")
        assert get(f"stream/%2F/{name}/tracking?type=writer") == {"writers": {"orders": 3}}
        interop.http("PUT", f"/api/leveret/streams/%2F/{name}/offsets/group", {"offset": 1})
        await until(lambda: get(f"stream/%2F/{name}/tracking")["offsets"]["group"] == 1, "the operator's offset")

        queue = get(f"queues/%2F/{name}")
        assert (queue["segments"], queue["first_offset"], queue["leader"]) == (1, 0, queue["node"])
        assert sum(queue["readers"].values()) == 1

        connection = consumers[0]["connection_details"]["name"]
        path = f"stream/connections/%2F/{urllib.request.quote(connection, safe='')}"
        assert get(path)["protocol"] == "stream"
        assert len(get(f"{path}/consumers")) == 1 and get(f"{path}/publishers") == []
        interop.http("DELETE", f"/api/{path}")
        await rows("stream/consumers", name, 0)
        running.cancel()


async def test_an_operator_moves_messages_of_a_queue_to_a_stream():
    async with stream() as (name, _):
        connection = interop.connect()
        channel = connection.channel()
        queue = interop.unique("moved")
        channel.queue_declare(queue, durable=True)
        channel.confirm_delivery()
        for number in range(300):
            channel.basic_publish("", queue, b"%d" % number)
        path = f"leveret/queues/%2F/{queue}/moves"
        begun = interop.http("POST", f"/api/{path}", {"to": name})
        await until(lambda: get(f"{path}/{begun['id']}")["state"] != "running", "the end")
        ended = get(f"{path}/{begun['id']}")
        assert (ended["state"], ended["moved"], ended["kept"]) == ("done", {name: 300}, {})
        found = [body for _, _, body in pika_reads(name, 300)]
        assert found == [b"%d" % number for number in range(300)]
        assert channel.queue_declare(queue, passive=True).method.message_count == 0
        channel.queue_delete(queue)
        connection.close()


async def test_a_super_stream_is_made_used_and_deleted_over_http():
    name = interop.unique("invoices")
    path = f"/api/stream/super-streams/%2F/{name}"
    interop.http("PUT", path, {"partitions": 2, "arguments": {"max-length-bytes": 1000000}})
    found = [row for row in get("stream/super-streams/%2F") if row["name"] == name]
    assert [partition["binding_key"] for partition in found[0]["partitions"]] == ["0", "1"]
    async with producer() as one:
        await one.send_wait(f"{name}-1", AMQPMessage(body=b"x"))
    with pytest.raises(urllib.error.HTTPError) as refused:
        interop.http("PUT", path, {"partitions": 2})
    assert refused.value.code == 400
    interop.http("DELETE", path)
    assert all(row["name"] != name for row in get("stream/super-streams"))
    with pytest.raises(urllib.error.HTTPError) as gone:
        get(f"queues/%2F/{name}-0")
    assert gone.value.code == 404
