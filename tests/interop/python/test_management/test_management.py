"""What operators do through the HTTP API, with AMQPStorm's client of it."""

import os

import pytest
from amqpstorm.management import ApiError, ManagementApi
from leveret_interop import HTTP_URL, unique, until

NODES = int(os.environ.get("NODES", "1"))


@pytest.fixture
def api():
    with ManagementApi(HTTP_URL, "guest", "guest", timeout=10) as api:
        yield api


@pytest.fixture
def vhost(api):
    name = unique("py/storm")
    api.virtual_host.create(name)
    yield name
    api.virtual_host.delete(name)


def ready(api, vhost, queue, wanted):
    until(
        lambda: api.queue.get(queue, virtual_host=vhost)["messages_ready"] == wanted,
        what=f"{wanted} messages in {queue}",
    )


def test_virtual_hosts(api, vhost):
    found = api.virtual_host.get(vhost)
    assert found["name"] == vhost
    assert set(found["cluster_state"].values()) == {"running"}
    assert len(found["cluster_state"]) == NODES
    assert vhost in [row["name"] for row in api.virtual_host.list()]
    other = unique("gone")
    api.virtual_host.create(other)
    api.virtual_host.delete(other)
    with pytest.raises(ApiError) as caught:
        api.virtual_host.get(other)
    assert caught.value.error_code == 404


def test_users_and_permissions(api, vhost):
    name = unique("user")
    api.user.create(name, "s3cret", tags="management,monitoring")
    assert sorted(api.user.get(name)["tags"]) == ["management", "monitoring"]
    api.user.set_permission(name, vhost, "^c", "^w", "^r")
    wanted = {"user": name, "vhost": vhost, "configure": "^c", "write": "^w", "read": "^r"}
    assert api.user.get_permission(name, vhost) == wanted
    assert wanted in api.virtual_host.get_permissions(vhost)
    with ManagementApi(HTTP_URL, name, "s3cret") as theirs:
        assert theirs.whoami()["name"] == name
        with pytest.raises(ApiError) as caught:
            theirs.user.list()
        assert caught.value.error_code == 401
    api.user.delete_permission(name, vhost)
    assert api.user.get_permissions(name) == []
    api.user.delete([name])
    assert name not in [user["name"] for user in api.user.list()]


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_messages_through_an_exchange(api, vhost, kind):
    api.exchange.declare("in", "topic", virtual_host=vhost, durable=True)
    api.exchange.declare("out", "fanout", virtual_host=vhost, durable=True)
    arguments = {"x-queue-type": kind, "x-max-length": 5}
    api.queue.declare("q", virtual_host=vhost, durable=True, arguments=arguments)
    queue = api.queue.get("q", virtual_host=vhost)
    assert (queue["type"], queue["arguments"]) == (kind, arguments)
    if kind == "quorum":
        assert len(queue["members"]) == NODES
    api.exchange.bind("out", "in", "a.*", virtual_host=vhost)
    api.queue.bind("q", "out", "k", virtual_host=vhost)
    assert [b["source"] for b in api.queue.bindings("q", virtual_host=vhost)] == ["", "out"]
    sent = api.basic.publish("body", "a.b", "in", vhost, {"priority": 3, "headers": {"n": 7}})
    assert sent == {"routed": True}
    assert api.basic.publish("body", "b", "in", vhost) == {"routed": False}
    ready(api, vhost, "q", 1)
    (peeked,) = api.basic.get("q", vhost, requeue=True, to_dict=True)
    assert (peeked["payload"], peeked["properties"]["headers"]) == ("body", {"n": 7})
    ready(api, vhost, "q", 1)
    (taken,) = api.basic.get("q", vhost)
    assert taken.body == "body"
    ready(api, vhost, "q", 0)
    for number in range(7):
        api.basic.publish(str(number), "q", virtual_host=vhost)
    ready(api, vhost, "q", 5)
    api.queue.purge("q", virtual_host=vhost)
    ready(api, vhost, "q", 0)
    api.queue.unbind("q", "out", "k", virtual_host=vhost)
    api.exchange.unbind("out", "in", "a.*", virtual_host=vhost)
    assert len(api.queue.bindings("q", virtual_host=vhost)) == 1
    api.queue.delete("q", virtual_host=vhost)
    assert api.queue.list(virtual_host=vhost) == []


def test_pages_of_queues_are_fetched_until_the_last(api, vhost):
    names = [f"page-{number:02}" for number in range(12)]
    for name in ["other", *names]:
        api.queue.declare(name, virtual_host=vhost, durable=True)
    found = api.queue.list(virtual_host=vhost, name="^page", use_regex=True, page_size=5)
    assert sorted(queue["name"] for queue in found) == names


def test_nodes_overview_and_health(api, vhost):
    overview = api.overview()
    nodes = api.nodes()
    assert len(nodes) == NODES
    assert overview["node"] in [node["name"] for node in nodes]
    for node in nodes:
        one = api.node(node["name"])
        assert one["running"]
        assert one["mem_used"] > 0
    assert api.aliveness_test(vhost) == {"status": "ok"}
    assert api.healthchecks.get() == {"status": "ok"}
    assert api.cluster_name()["name"]
