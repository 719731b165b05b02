"""Messages that end, block or mislead the worker that handles them, among good ones."""

from __future__ import annotations

from typing import Final

import pytest

from tests.crash.conftest import Deploy
from tests.crash.harness import CrashDeployment
from tests.waiting import wait_for

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
    """Two queues with good messages around each bad one; bounded time although one never returns."""
    deployment = deploy(
        inputs=("a", "b"), connector={"order": order, "max_attempts": 2}, store={"timeout": "2s"}
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
    reasons = _reasons(deployment)
    for what, words in FAILURES.items():
        assert words in reasons[harmful[what]]
        assert ("tried 2 times" in reasons[harmful[what]]) != what.startswith("sysexit")
    assert run.errors.count("x" * 99) == 2000
    assert deployment.leftovers() == []
    run.await_gone()


HANDLER = """
import ctypes, json, os, re, signal
from connector.businessobjects.instance import BusinessObject

class Handler:
    mime_types = ("application/x-obeying",)
    options = ()

    def __init__(self, options, definitions):
        self.definitions = definitions

    def to_business_object(self, body, hint):
        values = json.loads(body)
        what = values.get("Second")
        if what == "hang":
            re.match("^([a-z]+)+$", "a" * 64 + "1")
        elif what == "segv":
            ctypes.string_at(0)
        elif what == "exit":
            os._exit(3)
        elif what == "group":
            os.killpg(0, signal.SIGKILL)
        elif what == "terminate":
            os.killpg(0, signal.SIGTERM)
        elif what == "memory":
            b"x" * (1 << 33)
        elif what == "interrupt":
            raise KeyboardInterrupt(what)
        return BusinessObject(self.definitions, values.pop("BusinessObject"), values.pop("Verb"), values)

    def to_body(self, bo):
        return "{}"
"""

CONVERSIONS: Final = {
    "hang": "data handler Handler: did not end within 2 s (convert_timeout)",
    "segv": "its worker was ended by SIGSEGV during the conversion; it was tried alone, too",
    "exit": "its worker ended with status 3 during the conversion; it was tried alone, too",
    "memory": "raised MemoryError: there is no more within worker_memory",
    "interrupt": "raised KeyboardInterrupt: interrupt",
}
OF_SPARK: Final = {"group": "tried alone", "terminate": "alone"}
"""They end the worker of Spark, too. Without Spark that is the adapter."""


@pytest.mark.parametrize("provider_type", ["sqlite"])
def test_bodies_that_harm_their_conversion_hold_up_no_service(deploy: Deploy) -> None:
    send_harmful_bodies(deploy, java=False)


def send_harmful_bodies(deploy: Deploy, java: bool) -> None:
    """Sends them to a service, and compares what it does.

    With Spark all objects go to a queue: no delivery is journalled that could tell of what was begun.
    """
    out = {"object": "Customer", "destination": "queue://out", "mime_type": "application/json"}
    deployment = deploy(
        inputs=("a", "b"),
        connector={"DataHandlerClassName": "obeying:Handler", "convert_timeout": "2s", "max_attempts": 2},
        only=[out] if java else [],
        java=java,
    )
    (deployment.directory / "obeying.py").write_text(HANDLER)
    run = deployment.start()
    good, harmful = [], {}
    for what in ("hang", "segv", *OF_SPARK) if java else CONVERSIONS:
        good += deployment.fill("a", ["", ""])
        (harmful[what],) = deployment.fill("a", [""], second=what)
        good += deployment.fill("b", [""])
    good += deployment.fill("a", [""])
    wait_for(lambda: set(deployment.ids("error")) == set(harmful.values()), what=lambda: run.errors)
    deployment.await_archived(good)
    run.stop()
    assert deployment.ids("archive") == dict.fromkeys(good, 1)
    if java:
        assert deployment.count("out") == len(good)
    else:
        assert deployment.begun() == dict.fromkeys(good, 1)
    assert "APPRESPONSETIMEOUT" not in run.errors
    assert "connected again" not in run.errors
    reasons = {
        str(one.message_id): str(one.properties["connector_reason"]) for one in deployment.messages("error")
    }
    for what, identity in harmful.items():
        assert {**CONVERSIONS, **OF_SPARK}[what] in reasons[identity]
    assert deployment.leftovers() == []
    run.await_gone()


def test_a_stray_fork_calls_no_further_subscription(deploy: Deploy) -> None:
    """A process whose fork comes back into the worker ends there: the next subscriber is called once."""
    deployment = deploy(
        subscriptions=[{"object": "Customer", "name": "second", "process": "processes:second"}]
    )
    ids = deployment.fill("in", ["stray", ""])
    deployment.drain()
    assert deployment.begun("second") == dict.fromkeys(ids, 1)
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)


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
