"""Messages that end, block or mislead the worker that handles them, among good ones."""

from __future__ import annotations

import signal

import pytest

from tests.crash.conftest import Deploy
from tests.crash.harness import CrashDeployment
from tests.waiting import wait_for


def _reasons(deployment: CrashDeployment) -> dict[str, str]:
    """Reason by message id, from the adapter's own list of events."""
    events = deployment.runs[-1].summary["events"]
    return {event["id"]: event["reason"] for event in events if event["outcome"] == "failed"}


@pytest.mark.parametrize(
    ("provider_type", "order"),
    [("dropbox", "destination"), ("dropbox", "none"), ("sqlite", "destination"), ("postgresql", "none")],
)
def test_messages_that_kill_or_block_their_worker_fail_and_the_good_ones_are_delivered_once(
    deploy: Deploy, provider_type: str, order: str
) -> None:
    """Two queues of a hundred good messages each; bounded time although one message never returns."""
    deployment = deploy(
        inputs=("a", "b"),
        connector={"order": order, "max_attempts": 2},
        store={"timeout": "1s"},
        java=provider_type == "dropbox" and order == "destination",
    )
    good = deployment.fill("a", [""] * 50)
    exits = deployment.fill("a", ["exit:3"])
    killed = deployment.fill("a", ["kill"])
    good += deployment.fill("b", [""] * 50)
    hangs = deployment.fill("b", ["hang"])
    crashes = deployment.fill("b", ["segv"])
    harmful = [*exits, *killed, *hangs, *crashes]
    good += deployment.fill("a", [""] * 50) + deployment.fill("b", [""] * 50)
    run = deployment.drain()

    assert sorted(deployment.ids("archive").elements()) == sorted(good)
    assert deployment.ids("error") == dict.fromkeys(harmful, 1)
    begun = deployment.begun()
    assert {i: begun[i] for i in good} == dict.fromkeys(good, 1)
    assert {i: begun[i] for i in [*exits, *killed, *hangs, *crashes]} == dict.fromkeys(
        [*exits, *killed, *hangs, *crashes], 2
    )
    assert [d.count for d in deployment.deliveries() if d.word == "begin" and d.id in exits] == [1, 2]
    reasons = _reasons(deployment)
    assert "ended with status 3" in reasons[exits[0]]
    assert "SIGKILL" in reasons[killed[0]]
    assert "did not return from store in time" in reasons[hangs[0]]
    assert "SIGSEGV" in reasons[crashes[0]]
    assert all("tried 2 times" in reason for reason in reasons.values())
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
        elif what == "parent":
            os.kill(os.getppid(), signal.SIGKILL)
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

CONVERSIONS = {
    "hang": "data handler Handler: did not end within 2 s (convert_timeout)",
    "segv": "its worker was ended by SIGSEGV during the conversion; it was tried alone, too",
    "exit": "its worker ended with status 3 during the conversion; it was tried alone, too",
    "group": "during the conversion; it was tried alone, too",
    "memory": "raised MemoryError: there is no more within worker_memory",
    "interrupt": "raised KeyboardInterrupt: interrupt",
}


@pytest.mark.parametrize(("provider_type", "java"), [("dropbox", True), ("sqlite", False)])
def test_bodies_that_harm_their_conversion_hold_up_no_service(
    deploy: Deploy, provider_type: str, java: bool
) -> None:
    deployment = deploy(
        inputs=("a", "b"),
        connector={"DataHandlerClassName": "obeying:Handler", "convert_timeout": "2s"},
        java=java,
    )
    (deployment.directory / "obeying.py").write_text(HANDLER)
    run = deployment.start()
    good, harmful = [], {}
    for what in CONVERSIONS:
        if what == "group" and not java:  # the group of a worker without Spark is that of the adapter
            continue
        good += deployment.fill("a", ["", ""])
        (harmful[what],) = deployment.fill("a", [""], second=what)
        good += deployment.fill("b", [""])
    good += deployment.fill("a", [""])
    wait_for(lambda: set(deployment.ids("error")) == set(harmful.values()), what="the harmful ones")
    wait_for(lambda: sorted(deployment.ids("archive").elements()) == sorted(good), what="the good ones")
    run.stop()
    assert deployment.begun() == dict.fromkeys(good, 1)
    assert "APPRESPONSETIMEOUT" not in run.errors
    assert "connected again" not in run.errors
    for what in harmful:
        assert CONVERSIONS[what] in run.errors
    assert deployment.leftovers() == []


def test_processes_that_exit_print_and_fork_harm_no_other_message(deploy: Deploy) -> None:
    """sys.exit is a failure of that event alone; a fork that stays, or returns, delivers nothing twice."""
    deployment = deploy()
    good = deployment.fill("in", ["", "print:2000"])
    exits = deployment.fill("in", ["sysexit:0", "sysexit:5"])
    good += deployment.fill("in", ["fork:600"])
    strays = deployment.fill("in", ["stray"], second="")
    good += deployment.fill("in", [""] * 20)
    run = deployment.drain()
    assert sorted(deployment.ids("archive").elements()) == sorted(good + strays)
    assert deployment.ids("error") == dict.fromkeys(exits, 1)
    assert "SystemExit: 5" in _reasons(deployment)[exits[1]]
    assert {i: n for i, n in deployment.begun().items() if n != 1} == {}
    assert deployment.leftovers() == []
    assert run.errors.count("x" * 99) == 2000
    run.kill_everything()


def test_a_stray_fork_calls_no_further_subscription(deploy: Deploy) -> None:
    """A process whose fork comes back into the worker ends there: the next subscriber is called once."""
    deployment = deploy(
        subscriptions=[{"object": "Customer", "name": "second", "process": "processes:second"}], java=False
    )
    ids = deployment.fill("in", ["stray", ""])
    deployment.drain()
    assert deployment.begun("second") == dict.fromkeys(ids, 1)
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)


def test_a_worker_of_spark_that_is_killed_costs_no_message(deploy: Deploy) -> None:
    """First the one in which the next job waits for its turn: that costs nothing.

    Then not the runner but its watcher, which is Spark's own process: the job fails, the journal decides.
    """
    deployment = deploy(inputs=("a", "b"), connector={"PollQuantity": 5})
    ids = deployment.fill("a", ["", "gate:1", "", "", ""] + [""] * 10)
    run = deployment.start("--drain", "--json")
    runner = wait_for(lambda: deployment.reached("1"))[0]
    idle = wait_for(lambda: run.siblings_of_parent(runner), what="a second worker of Spark")
    for pid in idle:
        run.signal_one(pid, signal.SIGKILL)
    wait_for(lambda: not set(idle) & set(run.members()))
    more = deployment.fill("a", [""] * 20 + ["gate:2"] + [""] * 20) + deployment.fill("b", [""] * 20)
    deployment.open("1")
    runner = wait_for(lambda: deployment.reached("2"))[0]
    first_poll = set(ids[:5])  # how much of the rest shares the batch of the second gate depends on the time
    wait_for(lambda: first_poll <= set(deployment.ids("archive")))
    settled = list(deployment.ids("archive"))
    run.signal_parent_of(runner)
    deployment.open("2")
    _assert_each_settled_once(deployment, ids + more)
    assert {i: deployment.begun()[i] for i in settled} == dict.fromkeys(settled, 1)


def test_where_spark_runs_a_task_again_it_finds_its_journal_taken(deploy: Deploy) -> None:
    """Spark runs it again up to four times. It does nothing."""
    deployment = deploy(inputs=("a", "b"), spark={"master": "local[2,4]"})
    ids = deployment.fill("a", [""] * 20 + ["gate:1"] + [""] * 20) + deployment.fill("b", [""] * 20)
    run = deployment.start("--drain", "--json")
    runner = wait_for(lambda: deployment.reached("1"))[0]
    run.signal_parent_of(runner)
    deployment.open("1")
    _assert_each_settled_once(deployment, ids)


def _assert_each_settled_once(deployment: CrashDeployment, ids: list[str]) -> None:
    """After one worker was killed, of at most two that were at work."""
    assert deployment.runs[-1].wait() == 0, deployment.runs[-1].errors
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)
    repeated = {i: n for i, n in deployment.begun().items() if n > 1}
    assert len(repeated) <= 2
    assert deployment.leftovers() == []


def test_what_a_process_raises_after_another_has_ended_the_worker_is_told_alone(deploy: Deploy) -> None:
    """No exception of the connector stands before it. A KeyboardInterrupt is one like any other."""
    deployment = deploy(connector={"max_attempts": 1}, java=False)
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


def test_a_body_that_ends_its_spark_worker_and_leaves_no_trace_fails_alone(deploy: Deploy) -> None:
    """Its objects go to a queue, so no delivery is journalled, and its runner ends in order."""
    deployment = deploy(
        connector={"DataHandlerClassName": "obeying:Handler", "max_attempts": 2},
        only=[{"object": "Customer", "destination": "queue://out", "mime_type": "application/json"}],
        java=True,
    )
    (deployment.directory / "obeying.py").write_text(HANDLER)
    good, harmful = deployment.fill("in", [""]), []
    for what in ("parent", "terminate"):
        harmful += deployment.fill("in", [""], second=what)
        good += deployment.fill("in", ["", ""])
    run = deployment.drain()
    assert deployment.ids("error") == dict.fromkeys(harmful, 1)
    assert deployment.ids("archive") == dict.fromkeys(good, 1)
    assert len(deployment.names("out")) == len(good)
    assert all("alone" in reason for reason in _reasons(deployment).values())
    assert deployment.leftovers() == []
    run.await_gone()
