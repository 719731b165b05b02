"""Messages that end, block or mislead the worker that handles them, among good ones."""

from __future__ import annotations

from typing import Final

import pytest

from tests.crash.conftest import Deploy
from tests.crash.harness import CrashDeployment

FAILURES: Final = {
    "exit:3": "ended with status 3",
    "kill": "SIGKILL",
    "segv": "SIGSEGV",
    "hang": "did not return from store in time",
    "sysexit:0": "SystemExit: 0",
    "sysexit:5": "SystemExit: 5",
}
"""What a process does, and what is said of it."""
HARMLESS: Final = ("print:2000", "fork:10", "stray")
"""A fork that stays for ten seconds, and one that comes back into the worker."""


def _reasons(deployment: CrashDeployment) -> dict[str, str]:
    """Reason by message id, from the adapter's own list of events."""
    events = deployment.runs[-1].summary["events"]
    return {event["id"]: event["reason"] for event in events if event["outcome"] == "failed"}


@pytest.mark.parametrize(("provider_type", "order"), [("dropbox", "destination"), ("postgresql", "none")])
def test_messages_that_kill_or_block_their_worker_fail_and_the_good_ones_are_delivered_once(
    deploy: Deploy, order: str
) -> None:
    """Two queues with good messages around each bad one; bounded time although one never returns.

    A fork that comes back into the worker ends there: the next subscriber is called once.
    """
    deployment = deploy(
        inputs=("a", "b"),
        connector={"order": order, "max_attempts": 2},
        store={"timeout": "2s"},
        subscriptions=[{"object": "Customer", "name": "second", "process": "processes:second"}],
    )
    good, harmful = deployment.fill("a", [*[""] * 20, *HARMLESS]), {}
    for number, what in enumerate(FAILURES):
        (harmful[what],) = deployment.fill("ab"[number % 2], [what])
        good += deployment.fill("a", [""] * 10) + deployment.fill("b", [""] * 10)
    run = deployment.drain()

    assert deployment.ids("archive") == dict.fromkeys(good, 1)
    assert deployment.ids("error") == dict.fromkeys(harmful.values(), 1)
    once = [*good, harmful["sysexit:0"], harmful["sysexit:5"]]
    assert deployment.begun() == dict.fromkeys(harmful.values(), 2) | dict.fromkeys(once, 1)
    assert [d.count for d in deployment.deliveries() if d.id == harmful["exit:3"]] == [1, 2]
    assert {one: deployment.begun("second")[one] for one in good} == dict.fromkeys(good, 1)
    reasons = _reasons(deployment)
    for what, words in FAILURES.items():
        assert words in reasons[harmful[what]]
        assert ("tried 2 times" in reasons[harmful[what]]) != what.startswith("sysexit")
    assert run.errors.count("x" * 99) == 2000
    assert deployment.leftovers() == []
    run.await_gone()


def test_what_a_process_raises_after_another_has_ended_the_worker_is_told_alone(deploy: Deploy) -> None:
    """No exception of the connector stands before it. A KeyboardInterrupt is one like any other."""
    deployment = deploy(connector={"max_attempts": 1})
    deployment.fill("in", ["kill"])
    (raised,) = deployment.fill("in", ["raise:no such street"])
    (interrupted,) = deployment.fill("in", ["interrupt:enough"])
    run = deployment.drain()
    reasons = _reasons(deployment)
    assert reasons[raised].startswith("store: ValueError: no such street (processes.py:")
    assert reasons[interrupted].startswith("store: KeyboardInterrupt: enough (processes.py:")
    assert run.errors.count("a business process has failed") == 2
    assert "RunnerEnded" not in run.errors
    assert "During handling" not in run.errors
