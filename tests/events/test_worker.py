"""Supervision: events that crash, kill or stall the process that handles them, among others that do not."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import time
from contextlib import closing
from typing import Any, cast

import pytest

from connector.errors import PipelineError
from connector.events.run.task_answer import unpack_answer
from connector.messaging.destination import parse_destination
from connector.service.assembly import make_provider, make_requests, make_task_settings
from connector.status import ReturnCode
from tests.events.conftest import A_AND_B, ORDER, Bench, EventDeployment
from tests.forked_command import PipedProcess
from tests.tables import rows
from tests.waiting import is_running, wait_for

pytestmark = pytest.mark.process


def test_a_worker_reads_every_key_without_what_reads_a_configuration(bench: Bench) -> None:
    configuration = bench.deploy(max_attempts=3, AgentTraceLevel=2).configuration
    provider, nothing = make_provider(configuration), cast(Any, None)
    requests = make_requests(configuration, provider)
    settings = make_task_settings(configuration, provider, nothing, requests)
    given = configuration.connector
    left = {name for name in type(given).model_fields if not hasattr(settings.connector, name)}
    assert left == {"inputs"}
    with pytest.raises(AttributeError, match="max_attempts"):
        settings.connector.max_attempts = 4
    program = (
        "import pickle, sys; connector = pickle.load(sys.stdin.buffer).connector; "
        "print(connector.max_attempts, connector.reply_matching.reply); "
        "sys.exit(any(name in sys.modules for name in ('pydantic', 'yaml', 'connector.config')))"
    )
    run = [sys.executable, "-c", program]
    told = subprocess.run(run, input=pickle.dumps(settings), capture_output=True, check=True, timeout=240)
    assert told.stdout.split() == [b"3", b"JMSCorrelationID"]


def test_an_event_that_ends_its_worker_runs_again_in_its_place(bench: Bench) -> None:
    deployment = bench.deploy(max_attempts=3)
    once = {"x1": "", "x2": "a: exit-once 3", "x3": "", "x4": "a: exit-once 4", "x5": ""}
    always = {"y1": "a: exit 3", "y2": "", "y3": "a: exit 0", "y4": "", "y5": "a: kill", "y6": ""}
    deployment.drop_customers(**once, **always)
    for number in range(3):
        deployment.drop("orders", ORDER, f"4.o{number}.T")
    found = deployment.outcomes(isolated=True)
    failed = {identity: reason for identity, (kind, reason) in found.items() if kind != "published"}
    assert failed == {
        f"ID:{name}": f"its worker {end}; it was tried 3 times (max_attempts)"
        for name, end in (
            ("y1", "ended with status 3"),
            ("y3", "ended with status 0"),
            ("y5", "was ended by SIGKILL"),
        )
    }
    for identity in failed:
        assert deployment.properties("error", identity)["connector_attempts"] == 3
    calls = [(call["id"][3:], call["count"]) for call in bench.calls()]
    group = [f"{name} {count}" for name, count in calls if not name.startswith("o")]
    assert group[:7] == ["x1 1", "x2 1", "x2 2", "x3 1", "x4 1", "x4 2", "x5 1"]
    assert group[7:] == [
        f"{name} {count}" for name, what in always.items() for count in range(1, 4 if what else 2)
    ]
    assert sorted(call for call in calls if call[0].startswith("o")) == [("o0", 1), ("o1", 1), ("o2", 1)]


def test_where_nothing_may_run_twice_it_stays_in_doubt(bench: Bench) -> None:
    one = {"object": "*", "process": "processes:a", "name": "a", "timeout": "1s"}
    deployment = bench.deploy(
        subscriptions=[one], InProgressDestination="queue://busy", InDoubtEvents="Ignore"
    )
    deployment.drop_customers(a="", b="a: exit 3", c="", d="a: hang", e="")
    with deployment.running(isolated=True) as adapter, closing(deployment.provider.connect()) as operator:
        adapter.drain()
        counts = adapter.summary.as_dict()
        busy = parse_destination("queue://busy")
        assert operator.owners(busy) == {}, "an operator can have them while the adapter lives"
        assert [one.delivery_count for one in operator.find_unowned(busy)] == [1, 1]
    assert (counts["claimed"], counts["published"], counts["in_doubt"]) == (5, 3, 2)
    assert bench.deliveries() == [(f"ID:{name}", 1) for name in "abcde"]
    assert sorted(deployment.ids("busy")) == ["ID:b", "ID:d"]
    assert deployment.ids("archive") == ["ID:a", "ID:c", "ID:e"]


def test_a_process_that_closes_all_files_and_never_returns_is_ended_by_its_timeout(bench: Bench) -> None:
    one = {"object": "*", "process": "processes:a", "name": "a", "timeout": "1s"}
    deployment = bench.deploy(subscriptions=[one], max_attempts=1)
    deployment.drop_customers(a="", b="a: closes", c="")
    found = deployment.outcomes(isolated=True)
    assert [found[f"ID:{name}"][0] for name in "abc"] == ["published", "failed", "published"]
    assert "did not return from a in time" in found["ID:b"][1]


def test_a_cancelled_batch_waits_some_seconds_for_a_task_that_stays(bench: Bench) -> None:
    """Such a task may be on another machine, or its process cannot be ended."""
    deployment = bench.deploy(stop_timeout="1h")
    deployment.drop_customers(x="")
    waits: list[float] = []
    with deployment.running() as adapter, pytest.MonkeyPatch.context() as patch:
        inbound = adapter._connection.inbound
        assert inbound is not None

        def run(*_: Any, **__: Any) -> list[bytes]:
            adapter.abort()
            raise PipelineError("cancelled")

        patch.setattr(adapter.pipeline, "run", run)
        patch.setattr(inbound.jobs._journals, "wait", lambda seconds, _: waits.append(seconds))
        assert adapter.poll().code is ReturnCode.APPRESPONSETIMEOUT
    assert waits == [5.0]


@rows("in_progress", [None, "queue://busy"])
def test_an_event_given_back_after_a_crash_stops_the_rest_and_counts(
    bench: Bench, in_progress: str | None
) -> None:
    deployment = bench.deploy(subscriptions=A_AND_B, InProgressDestination=in_progress)
    deployment.drop_customers(x1="a: exit-once 3; b: inactive", x2="")
    with deployment.running(isolated=True) as adapter:
        for _ in range(3):
            assert adapter.poll().code is ReturnCode.APPRESPONSETIMEOUT
    assert deployment.ids("busy" if in_progress else "customers")[0] == "ID:x1"
    assert "ID:x2" in deployment.ids("customers")
    calls = [f"{call['id']} {call['who']} {call['count']}" for call in bench.calls()]
    assert calls == ["ID:x1 a 1", "ID:x1 a 2", *["ID:x1 b 2"] * 3]


def test_an_assignment_runs_once_however_often_it_is_handed_out(bench: Bench) -> None:
    deployment = bench.deploy()
    deployment.drop_customers(x="")
    ends: list[str | None] = []
    with deployment.running(isolated=True) as adapter, pytest.MonkeyPatch.context() as patch:
        run = adapter.pipeline.run

        def run_twice(*arguments: Any, **how: Any) -> list[bytes]:
            answers = run(*arguments, **how)
            ends.extend(unpack_answer(answer).ended for answer in run(*arguments, **how))
            return answers

        patch.setattr(adapter.pipeline, "run", run_twice)
        adapter.poll()
    assert ends == ["was given the task twice; the first run counts"]
    assert (bench.called(), deployment.ids("archive")) == (["ID:x"], ["ID:x"])


# -- the death of the parent ---------------------------------------------------------------------------

DRIVER = """\
import sys
from connector.testing.deployment import Deployment

with Deployment(sys.argv[1]).running(isolated=True) as adapter:
    adapter.drain()
"""


def start_and_kill(bench: Bench, deployment: EventDeployment) -> int:
    """Kills a driver in the middle of its first event; the pid of the runner that has lost its parent."""
    with PipedProcess(deployment.directory, script=DRIVER, stderr=2) as driver:  # the runner keeps a pipe
        wait_for((deployment.directory / "waiting").exists)
    (call,) = bench.calls()
    pid = int(call["pid"])
    assert pid != driver.pid
    return pid


def test_a_runner_that_loses_its_parent_finishes_the_event_at_work_and_no_other(bench: Bench) -> None:
    deployment = bench.deploy(stop_timeout="60s")
    deployment.drop_customers(x1="a: wait-for go", x2="", x3="")
    runner = start_and_kill(bench, deployment)
    time.sleep(0.2)  # nothing shows that it has noticed, and an event at work shall end all the same
    assert is_running(runner)
    deployment.write("go", "")
    wait_for(lambda: not is_running(runner))
    deployment.drain()  # what the orphan has done is done, the others were untouched
    assert bench.deliveries() == [("ID:x1", 1), ("ID:x2", 1), ("ID:x3", 1)]
    assert len(deployment.names("archive")) == 3


def test_a_runner_that_loses_its_parent_does_not_outlive_stop_timeout(bench: Bench) -> None:
    deployment = bench.deploy(stop_timeout="500ms")
    deployment.drop_customers(x1="a: wait-for never", x2="")
    runner = start_and_kill(bench, deployment)
    wait_for(lambda: not is_running(runner))
    deployment.write("never", "")
    deployment.drain()
    assert bench.deliveries() == [("ID:x1", 1), ("ID:x1", 2), ("ID:x2", 1)]


# -- what it logs --------------------------------------------------------------------------------------


@rows(
    "logging, line",
    [
        ({}, r"\d{4}-\d\d-\d\dT[\d:.]+Z \[warning *\] a request gets no reply .*"),
        (
            {"format": "json"},
            r'\{"event": "a request gets no reply", "level": "warning", "logger": "connector\.events", '
            r'.*"timestamp": "[^"]+Z"\}',
        ),
        ({"level": "error"}, None),
    ],
)
def test_a_worker_logs_in_the_format_and_from_the_level_of_the_adapter(
    bench: Bench, logging: dict[str, str], line: str | None
) -> None:
    """On its standard error stream, about a request whose reply has nowhere to go."""
    subscriptions = [{"object": "*", "process": "processes:a", "reply": True}]
    deployment = bench.deploy(subscriptions=subscriptions, more={"logging": logging})
    deployment.send("orders", ORDER, reply_to="queue://orders~EXPIRED")
    driver = PipedProcess(bench.directory, script=DRIVER)
    _, errors = driver.communicate()
    assert driver.returncode == 0, errors
    found = [one for one in errors.splitlines() if "gets no reply" in one]
    assert len(found) == (line is not None)
    assert all(re.fullmatch(str(line), one) for one in found), found


@rows("stays, fails, published", [(False, 3, True), (False, 4, False), (True, 1, True), (True, 2, False)])
def test_a_job_that_met_ended_workers_runs_again(
    bench: Bench, stays: bool, fails: int, published: bool
) -> None:
    """Spark hands out idle workers that have ended, one a job. With three tasks there may be three.

    Of tasks that stay all are known to be alive. So an event that ends them is not repeated three times.
    """
    deployment = bench.deploy()
    deployment.drop_customers(x="")
    with deployment.running(isolated=True, parallelism=3) as adapter:
        run, left = adapter.pipeline.run, [fails]
        adapter.pipeline.tasks_stay = stays

        def fail(*arguments: Any, **how: Any) -> list[bytes]:
            if left[0]:
                left[0] -= 1
                raise PipelineError("Python worker exited unexpectedly (crashed)")
            return run(*arguments, **how)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(adapter.pipeline, "run", fail)
            report = adapter.poll()
    assert report.code is (ReturnCode.SUCCEED if published else ReturnCode.APPRESPONSETIMEOUT)
    assert bench.called() == (["ID:x"] if published else [])
    assert len(deployment.messages("customers")) == (not published)
