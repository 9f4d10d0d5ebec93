"""Celery with quorum queues, and a worker that knows all nodes of the cluster."""

import os
import pathlib
import subprocess
import sys
import threading
import time

import leveret_interop as interop
import pytest

TASKS = pathlib.Path(__file__).parent


class Worker:
    """A worker in a process of its own, and the application that sends it tasks."""

    def __init__(self, folder, nodes):
        self.notes = folder / "notes"
        self.notes.write_text("")
        self.log = folder / "worker.log"
        self.queue = interop.unique("tasks")
        self.environment = {
            **os.environ,
            "TASKS_BROKERS": ";".join(nodes.url(node) for node in range(3)),
            "TASKS_QUEUE": self.queue,
            "TASKS_NOTES": str(self.notes),
        }
        command = [sys.executable, "-m", "celery", "-A", "leveret_tasks", "worker"]
        command += ["--pool", "threads", "--concurrency", "4", "--loglevel", "INFO"]
        self.process = subprocess.Popen(
            command,
            cwd=TASKS,
            env=self.environment,
            stdout=self.log.open("w"),
            stderr=subprocess.STDOUT,
        )
        interop.until(lambda: "ready." in self.log.read_text(), 60, what="the worker")

    def send(self, node, names, countdown=None):
        """Sends a task for each name, in a process whose only broker is that node."""
        script = "import leveret_tasks, sys\n"
        script += "for name in sys.argv[1:]:\n"
        script += f"    leveret_tasks.note.apply_async((name,), countdown={countdown})\n"
        environment = {**self.environment, "TASKS_BROKERS": node}
        subprocess.run(
            [sys.executable, "-c", script, *names],
            cwd=TASKS,
            env=environment,
            check=True,
            timeout=60,
        )

    def ran(self):
        return self.notes.read_text().split()

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=60)


@pytest.fixture
def worker(tmp_path, nodes):
    worker = Worker(tmp_path, nodes)
    yield worker
    worker.stop()
    nodes.channel(0).queue_delete(worker.queue)


def test_tasks_sent_at_each_node_run_once(worker, nodes):
    names = [[f"{node}-{task}" for task in range(10)] for node in range(3)]
    for node in range(3):
        worker.send(nodes.url(node), names[node])
    interop.until(lambda: len(worker.ran()) >= 30, 60, what="thirty tasks")
    assert sorted(worker.ran()) == sorted(sum(names, []))
    assert nodes.channel(1).queue_declare(worker.queue, passive=True).method.message_count == 0


def test_tasks_with_a_countdown_wait_in_the_broker(worker, nodes):
    sent = time.monotonic()
    worker.send(nodes.url(1), ["late"], countdown=3)
    worker.send(nodes.url(2), ["soon"])
    interop.until(lambda: worker.ran() == ["soon", "late"], 60, what="both tasks")
    assert time.monotonic() - sent >= 3


def test_no_task_is_lost_with_any_node(worker, nodes):
    """Tasks are sent through one node while another is killed: the worker finds its way."""
    names = []
    for victim in range(3):
        killing = threading.Thread(target=nodes.crash, args=(victim,))
        killing.start()
        batch = [f"{victim}-{task}" for task in range(20)]
        worker.send(nodes.url((victim + 1) % 3), batch)
        names += batch
        killing.join()
    interop.until(lambda: set(worker.ran()) == set(names), 90, what="all tasks")
