"""A Celery application with quorum queues, as its documentation sets them."""

import os

import celery

app = celery.Celery("leveret_tasks", broker=os.environ.get("TASKS_BROKERS"))
app.conf.update(
    task_default_queue=os.environ.get("TASKS_QUEUE"),
    task_default_exchange_type="topic",
    task_default_queue_type="quorum",
    task_acks_late=True,
    broker_transport_options={"confirm_publish": True},
    broker_connection_retry_on_startup=True,
    # A node that is killed is not looked for in vain for long.
    broker_connection_timeout=4,
    worker_cancel_long_running_tasks_on_connection_loss=True,
)


@app.task
def note(what):
    """Writes down that it ran, where the test looks."""
    with open(os.environ["TASKS_NOTES"], "a") as notes:
        notes.write(f"{what}\n")
