"""Supervision: events that crash, kill or stall the process that handles them, among others that do not."""

from __future__ import annotations

import pickle
import re
import time
from typing import Any

import orjson
import pytest

from connector.errors import PipelineError
from connector.events.job import FUNCTION
from connector.events.task_answer import unpack_answer
from connector.events.task_settings import Assignment
from connector.service.assembly import make_provider, make_task_settings
from connector.status import ReturnCode
from connector.testing.pipeline import InProcessPipeline
from tests.events.conftest import Bench, EventDeployment
from tests.forked_command import PipedProcess
from tests.tables import Table, rows
from tests.waiting import is_running, wait_for

pytestmark = pytest.mark.process


WITH_TIMEOUT = ({"object": "*", "process": "processes:a", "name": "a", "timeout": "1s"},)


def test_an_event_that_ends_its_worker_once_runs_again_in_its_place(bench: Bench) -> None:
    deployment = bench.deploy()
    deployment.drop_customers(x1="", x2="a: exit-once 3", x3="", x4="a: exit-once 4", x5="")
    for number in range(3):
        deployment.drop("orders", '{"BusinessObject": "Order"}', f"4.o{number}.T")
    found = deployment.outcomes(isolated=True)
    assert {kind for kind, _ in found.values()} == {"published"}
    calls = [(call["id"][3:], call["count"]) for call in bench.calls()]
    group = [call for call in calls if call[0].startswith("x")]
    assert group == [("x1", 1), ("x2", 1), ("x2", 2), ("x3", 1), ("x4", 1), ("x4", 2), ("x5", 1)]
    assert sorted(call for call in calls if call[0].startswith("o")) == [("o0", 1), ("o1", 1), ("o2", 1)]


def test_an_event_that_always_ends_its_worker_has_failed_after_max_attempts(bench: Bench) -> None:
    said = {
        "exit 3": "ended with status 3",
        "exit 0": "ended with status 0",
        "kill": "was ended by SIGKILL",
    }
    deployment = bench.deploy(max_attempts=3)
    expected: list[tuple[str, int]] = []
    for number, what in enumerate(said):
        deployment.drop_customers(**{f"{number}-bad": f"a: {what}", f"{number}-good": ""})
        expected += [(f"ID:{number}-bad", count) for count in (1, 2, 3)] + [(f"ID:{number}-good", 1)]
    found = deployment.outcomes(isolated=True)
    with Table() as table:
        for number, (what, words) in enumerate(said.items()):
            with table.row(what):
                assert found[f"ID:{number}-good"] == ("published", "")
                outcome, reason = found[f"ID:{number}-bad"]
                assert outcome == "failed"
                assert words in reason
                assert "3 times (max_attempts)" in reason
                assert deployment.properties("error", f"ID:{number}-bad")["connector_attempts"] == 3
    assert bench.deliveries() == expected


def test_a_process_that_does_not_return_is_ended_after_its_timeout(bench: Bench) -> None:
    deployment = bench.deploy(subscriptions=WITH_TIMEOUT, max_attempts=2)
    deployment.drop_customers(good1="", bad="a: hang", slow="a: hang-once", good2="")
    found = deployment.outcomes(isolated=True)
    assert {i: kind for i, (kind, _) in found.items()} == {
        "ID:good1": "published",
        "ID:bad": "failed",
        "ID:slow": "published",
        "ID:good2": "published",
    }
    assert "did not return from a in time" in found["ID:bad"][1]
    calls = [(call["id"][3:], call["count"]) for call in bench.calls()]
    assert calls == [("good1", 1), ("bad", 1), ("bad", 2), ("slow", 1), ("slow", 2), ("good2", 1)]


def test_several_harmful_events_among_many_leave_the_good_ones_alone(bench: Bench) -> None:
    deployment = bench.deploy(subscriptions=WITH_TIMEOUT, max_attempts=2, order="none", PollQuantity=20)
    harmful = {5: "a: kill", 17: "a: hang", 18: "a: exit 1", 33: "a: fail x"}
    deployment.drop_customers(**{f"x{n:02}": harmful.get(n, "") for n in range(50)})
    found = deployment.outcomes(isolated=True, parallelism=3)
    assert {i for i, (kind, _) in found.items() if kind == "failed"} == {f"ID:x{n:02}" for n in harmful}
    good = [f"ID:x{n:02}" for n in range(50) if n not in harmful]
    called = bench.called()
    assert [called.count(i) for i in good] == [1] * len(good)
    assert [called.count(f"ID:x{n:02}") for n in harmful] == [2, 2, 2, 1]


def test_what_was_confirmed_before_the_worker_ended_may_be_repeated_and_is_told_so(bench: Bench) -> None:
    subscriptions = [
        {"object": "*", "process": "processes:a", "name": "a"},
        {"object": "*", "process": "processes:b", "name": "b"},
        {"object": "*", "destination": "queue://copies", "name": "q"},
    ]
    deployment = bench.deploy(subscriptions=subscriptions)
    deployment.drop_customers(x="b: exit-once 1")
    deployment.drain(isolated=True)
    assert [(call["who"], call["count"]) for call in bench.calls()] == [
        ("a", 1),
        ("b", 1),
        ("a", 2),
        ("b", 2),
    ]
    assert len(deployment.messages("copies")) == 1


def test_where_nothing_may_run_twice_it_stays_in_doubt(bench: Bench) -> None:
    deployment = bench.deploy(
        subscriptions=WITH_TIMEOUT, InProgressDestination="queue://busy", InDoubtEvents="Ignore"
    )
    deployment.drop_customers(a="", b="a: exit 3", c="", d="a: kill", e="a: hang", f="")
    counts = deployment.drain(isolated=True).summary.as_dict()
    assert (counts["claimed"], counts["published"], counts["in_doubt"]) == (6, 3, 3)
    assert bench.deliveries() == [(f"ID:{name}", 1) for name in "abcdef"]
    assert sorted(deployment.ids("busy")) == ["ID:b", "ID:d", "ID:e"]
    assert deployment.ids("archive") == ["ID:a", "ID:c", "ID:f"]


def test_an_event_that_is_given_back_after_a_crash_stops_the_rest(bench: Bench) -> None:
    deployment = bench.deploy()
    deployment.drop_customers(x1="a: exit-once 1", x2="a: inactive", x3="")
    with deployment.running(isolated=True) as adapter:
        report = adapter.poll()
        assert report.code is ReturnCode.APPRESPONSETIMEOUT
        assert sorted(deployment.ids("customers")) == ["ID:x2", "ID:x3"]
    assert bench.called() == ["ID:x1", "ID:x1", "ID:x2"]


def test_an_assignment_runs_once_however_often_it_is_handed_out(bench: Bench) -> None:
    deployment = bench.deploy()
    deployment.drop_customers(x="")
    provider = make_provider(deployment.configuration)
    connection = provider.connect("test", "one")
    journals = provider.state("test").journals(connection.client_id, "one")
    journals.make()
    (poller,) = [connection.poller(deployment.configuration.connector.inputs[0].destination)]
    claim = poller.take(1, 0)
    assert claim is not None
    task_settings = pickle.dumps(
        make_task_settings(deployment.configuration, deployment.provider, connection.access())
    )
    item = (0, str(claim.destination), claim.reference, claim.delivery_count)
    payload = pickle.dumps(Assignment(journals.file(1, 0, 0), [[item]]))
    pipeline = InProcessPipeline(deployment.directory)
    try:
        (answer,) = pipeline.run(FUNCTION, task_settings, [payload], "first")
        first = unpack_answer(answer)
        assert ([outcome.kind for outcome in first.outcomes.values()], first.ended) == (["published"], None)
        (answer,) = pipeline.run(FUNCTION, task_settings, [payload], "second")
        second = unpack_answer(answer)
        assert second.outcomes == {}
        assert second.ended == "was given the task twice; the first run counts"
    finally:
        pipeline.stop()
        connection.close()
    assert bench.called() == ["ID:x"]


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


def log_of_a_worker(bench: Bench, **logging: str) -> list[str]:
    """The lines on the standard error stream about a request whose reply has nowhere to go."""
    subscriptions = [{"object": "*", "process": "processes:a", "reply": True}]
    deployment = bench.deploy(subscriptions=subscriptions, more={"logging": logging})
    deployment.send("orders", '{"BusinessObject": "Order"}', reply_to="queue://orders~EXPIRED")
    driver = PipedProcess(bench.directory, script=DRIVER)
    _, errors = driver.communicate()
    assert driver.returncode == 0, errors
    return [line for line in errors.splitlines() if "gets no reply" in line]


def test_a_worker_logs_with_time_and_level_for_people(bench: Bench) -> None:
    (line,) = log_of_a_worker(bench)
    assert re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z \[warning *\] ", line)


def test_a_worker_logs_with_time_and_level_for_programs(bench: Bench) -> None:
    (line,) = log_of_a_worker(bench, format="json")
    record = orjson.loads(line)
    assert (record["level"], record["logger"]) == ("warning", "connector.events")
    assert record["timestamp"].endswith("Z")


def test_a_worker_logs_nothing_below_the_level_of_the_adapter(bench: Bench) -> None:
    assert log_of_a_worker(bench, level="error") == []


@rows("fails, published", [(1, True), (3, True), (4, False)])
def test_a_job_that_met_ended_workers_runs_again(bench: Bench, fails: int, published: bool) -> None:
    """Spark hands out idle workers that have ended, one a job. With three tasks there may be three."""
    deployment = bench.deploy()
    deployment.drop_customers(x="")
    with deployment.running(isolated=True, parallelism=3) as adapter:
        run, left = adapter.pipeline.run, [fails]

        def fail(*arguments: Any) -> list[bytes]:
            if left[0]:
                left[0] -= 1
                raise PipelineError("Python worker exited unexpectedly (crashed)")
            return run(*arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(adapter.pipeline, "run", fail)
            report = adapter.poll()
    assert report.code is (ReturnCode.SUCCEED if published else ReturnCode.APPRESPONSETIMEOUT)
    assert bench.called() == (["ID:x"] if published else [])
    assert len(deployment.messages("customers")) == (not published)
