"""A pytest plugin that writes each test's outcome as one JSON object a line to $LEVERET_REPORT."""

import json
import os


def _reason(report):
    if report.skipped and isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    return crash.message.splitlines()[0] if crash and crash.message else ""


def pytest_configure(config):
    config.addinivalue_line("markers", "env: which broker a foreign suite wants")
    config.addinivalue_line("markers", "celery: settings of Celery's own plugin")


def pytest_collection_modifyitems(config, items):
    """Keeps every nth test where several processes share a suite: $LEVERET_PART is `which/of`."""
    which, _, of = os.environ.get("LEVERET_PART", "").partition("/")
    if of:
        kept = items[int(which) :: int(of)]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


def pytest_runtest_logreport(report):
    # A set-up that fails or skips is the test's outcome; a clean-up matters only if it fails.
    if report.when != "call" and report.passed or report.outcome == "rerun":
        return
    if report.when == "teardown" and report.skipped:
        return
    # A part of a test that passed is not a test; that one failed makes its test fail, too.
    if type(report).__name__ == "SubtestReport" and report.passed:
        return
    # It ran, and failed as its authors say that it does.
    expected = report.skipped and hasattr(report, "wasxfail")
    outcome = "passed" if expected else report.outcome
    line = {"test": report.nodeid, "outcome": outcome, "reason": _reason(report)}
    with open(os.environ["LEVERET_REPORT"], "a", encoding="utf-8") as results:
        results.write(json.dumps(line) + "\n")


def pytest_collectreport(report):
    if report.failed:
        line = {"test": report.nodeid, "outcome": "failed", "reason": "does not load"}
        with open(os.environ["LEVERET_REPORT"], "a", encoding="utf-8") as results:
            results.write(json.dumps(line) + "\n")
