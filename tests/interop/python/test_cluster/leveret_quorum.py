"""What the tests of quorum queues share."""

import leveret_interop as interop
import pika

#: The node that leads the queues of the tests, and one that does not.
LEADER, OTHER = 0, 1
REJECT, NACK = "reject", "nack"


def send(channel, queue, *texts, **properties):
    """Publishes and waits for the confirms."""
    channel.confirm_delivery()
    for text in texts:
        channel.basic_publish("", queue, text.encode(), pika.BasicProperties(**properties))


def take(channel, queue, seconds=10):
    """The next message, held: its delivery tag and what is counted of it."""
    method, properties, _ = interop.get(channel, queue, auto_ack=False, seconds=seconds)
    return method.delivery_tag, counts(method, properties)


def counts(method, properties):
    headers = properties.headers or {}
    failed, acquired = (headers.get(f"x-{of}-count") for of in ("delivery", "acquired"))
    return method.redelivered, failed, acquired


def give_back(channel, tag, how):
    if how == REJECT:
        channel.basic_reject(tag, requeue=True)
    else:
        channel.basic_nack(tag, requeue=True)


def consume(channel, queue, prefetch=10, **options):
    """A consumer that settles nothing; the list that its deliveries come to."""
    found = []
    channel.basic_qos(prefetch_count=prefetch)
    channel.basic_consume(queue, lambda _channel, *delivery: found.append(delivery), **options)
    return found


def texts(found):
    return [body.decode() for _, _, body in found]


def await_texts(connections, found, wanted):
    def arrived():
        for connection in connections:
            connection.process_data_events(time_limit=0.01)
        return texts(found) == wanted

    interop.until(arrived, what=f"{wanted}")


def death(properties):
    return properties.headers["x-death"][0]["reason"]


def leaders(queue):
    """The names of the members that lead: one, and none while one is chosen."""
    status = interop.http("GET", f"/api/queues/quorum/%2F/{queue}/status")
    return [row["Node Name"] for row in status if row["Raft State"] == "leader"]
