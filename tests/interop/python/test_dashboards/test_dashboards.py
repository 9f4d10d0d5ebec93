"""Dashboards and alert rules, judged by a real Prometheus that scrapes three nodes under load."""

import json
import math
import os
import pathlib
import re
import socket
import subprocess
import threading
import urllib.parse
import urllib.request

import leveret_interop as interop
import pika
import pytest

ROOT = pathlib.Path(__file__).parents[4]
CLUSTER = "hares"
NODES = os.environ["CLUSTER_AMQP"].split(",")
METRICS = os.environ["CLUSTER_METRICS"].split(",")
#: Over how long rates are measured here: dashboards ask for a minute and more, which takes as long.
WINDOW = "8s"


def rows():
    """The panels of RabbitMQ's dashboards, and what each asks for."""
    for line in (ROOT / "tests/interop/dashboards.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            yield tuple(part.strip() for part in line.split("|"))


def joined(query):
    """A row's query in Prometheus' language."""
    word, *metrics = query.split()
    identity = f'* on(instance) group_left(rabbitmq_cluster, rabbitmq_node) rabbitmq_identity_info{{rabbitmq_cluster="{CLUSTER}"}}'
    terms = {
        "now": lambda metric: f"sum by (rabbitmq_node) ({metric} {identity})",
        "rate": lambda metric: f"sum by (rabbitmq_node) (rate({metric}[{WINDOW}]) {identity})",
        "ratio": lambda metric: f"sum by (rabbitmq_node) (rate({metric}[{WINDOW}]) {identity})",
    }
    return " / ".join(terms[word](metric) for metric in metrics)


def own_queries():
    """The queries of our own dashboard, with its variable and its windows as they are here."""
    dashboard = json.loads((ROOT / "packaging/grafana/leveret.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            query = target["expr"].replace("$cluster", CLUSTER)
            yield panel["title"], re.sub(r"\[\d+m\]", f"[{WINDOW}]", query)


class Load:
    """Clients of all nodes that publish, consume, get, and declare, until they are told to end."""

    def __init__(self):
        self.over = threading.Event()
        self.failed = []
        self.threads = [threading.Thread(target=self.run, args=(node,)) for node in range(len(NODES))]
        for thread in self.threads:
            thread.start()

    def run(self, node):
        try:
            self.work(node)
        except Exception as error:  # noqa: BLE001
            self.failed.append(repr(error))

    def work(self, node):
        host, port = NODES[node].rsplit(":", 1)
        parameters = pika.ConnectionParameters(host, int(port), heartbeat=0)
        connection = pika.BlockingConnection(parameters)
        channel = connection.channel()
        channel.confirm_delivery()
        queues = []
        for kind in ("classic", "quorum"):
            queue = f"dashboards-{kind}-{node}"
            channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})
            queues.append(queue)
        consuming = connection.channel()
        consuming.basic_qos(prefetch_count=10)
        consuming.basic_consume(queues[0], lambda c, method, *_: c.basic_ack(method.delivery_tag))
        round_ = 0
        while not self.over.is_set():
            for queue in queues:
                channel.basic_publish("", queue, b"x" * (10 + 1_000 * (round_ % 3)))
            channel.basic_get(queues[1], auto_ack=round_ % 2 == 0)
            other = pika.BlockingConnection(parameters)
            other.channel().queue_declare("", exclusive=True)
            other.close()
            connection.process_data_events(0.1)
            round_ += 1
        connection.close()

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join(30)
        assert self.failed == []


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    """A Prometheus that has scraped the three nodes under load for longer than its rates look back."""
    interop.http("PUT", "/api/cluster-name", {"name": CLUSTER})
    folder = tmp_path_factory.mktemp("prometheus")
    rules = ROOT / "packaging/prometheus/leveret-alerts.yml"
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        f"rule_files: [{json.dumps(str(rules))}]\n"
        "scrape_configs:\n"
        f"  - {{job_name: leveret, static_configs: [{{targets: {json.dumps(METRICS)}}}]}}\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    log = (folder / "log").open("w")
    process = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            "--storage.tsdb.retention.size=64MB",
            f"--web.listen-address={address}",
        ],
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    load = Load()
    try:
        yield Prometheus(address)
    finally:
        process.terminate()
        process.wait(30)
        load.end()


class Prometheus:
    def __init__(self, address):
        self.address = address
        # Rates need two scrapes of a counter that has changed by then.
        interop.until(lambda: self.has("min(count_over_time(up[30s]) >= 10)"), 60, "ten scrapes of each node")
        interop.until(lambda: self.has("count(up == 1) == 3"), 30, "all nodes scraped")

    def ask(self, path):
        with urllib.request.urlopen(f"http://{self.address}/api/v1/{path}", timeout=20) as answer:
            return json.load(answer)["data"]

    def values(self, query):
        """The numbers that a query comes to."""
        found = self.ask("query?" + urllib.parse.urlencode({"query": query}))["result"]
        values = [float(series["value"][1]) for series in found]
        return [value for value in values if not math.isnan(value)]

    def has(self, query):
        try:
            return self.values(query)
        except OSError:
            return []


def test_no_panel_of_rabbitmqs_dashboards_is_empty(prometheus):
    empty = [row for row in rows() if len(prometheus.values(joined(row[2]))) < len(METRICS)]
    assert empty == []


def test_figures_are_those_of_the_load(prometheus):
    for query, least in [
        ("rate rabbitmq_global_messages_received_total", 1.0),
        ("rate rabbitmq_global_messages_confirmed_total", 1.0),
        ("rate rabbitmq_global_messages_acknowledged_total", 0.5),
        ("rate rabbitmq_raft_commit_index", 1.0),
        ("rate rabbitmq_connections_opened_total", 0.5),
        ("ratio rabbitmq_message_size_bytes_sum rabbitmq_message_size_bytes_count", 10.0),
    ]:
        values = prometheus.values(joined(query))
        assert len(values) == len(METRICS), (query, values)
        assert min(values) >= least or "raft" in query and max(values) >= least, (query, values)


def test_no_panel_of_our_own_dashboard_is_empty(prometheus):
    queries = list(own_queries())
    assert len(queries) > 20
    assert [row for row in queries if not prometheus.values(row[1])] == []


def test_our_alert_rules_are_evaluated_and_none_fires(prometheus):
    def evaluated():
        groups = prometheus.ask("rules?type=alert")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        return rules if rules and all(rule["health"] == "ok" for rule in rules) else None

    rules = interop.until(evaluated, 30, "all rules evaluated")
    firing = {rule["name"] for rule in rules if rule["state"] == "firing"}
    # How full this machine's drive is, and how slow, is not the test's affair.
    assert firing - {"LeveretDiskSoonFull", "LeveretSlowSyncs"} == set()
