"""The contract of both ways to run assignments in Spark: tasks that stay, and one job a batch.

Both run in the same Spark. The jobs use the slots that the tasks that stay leave free.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from connector.errors import PipelineError, SparkLost
from connector.spark.batch_jobs import BatchJobs
from connector.spark.event_tasks import EventTasks
from connector.spark.pipeline import SparkPipeline
from connector.spark.staying_tasks import StayingTasks
from tests.waiting import beside, is_running, wait_for

Make = Callable[[], EventTasks]

ECHO = "connector.spark.worker:echo"


@pytest.fixture(params=[StayingTasks, BatchJobs], ids=["staying_tasks", "batch_jobs"])
def make(request: pytest.FixtureRequest, local: SparkPipeline) -> Iterator[Make]:
    """Makes further tasks in the Spark of the local pipeline. There is room for two that stay."""
    made: list[EventTasks] = []
    context, place, explained = local._context, local._deployment, local._explain

    def make() -> EventTasks:
        group = f"test {request.node.name} {len(made)}"
        if request.param is StayingTasks:
            made.append(StayingTasks(context, 1, group, "test", place, explained, lambda: local.alive, print))
        else:
            made.append(BatchJobs(context, group, "test", place, "", explained))
        return made[-1]

    yield make
    for tasks in made:
        tasks.close()


@pytest.fixture(scope="module")
def batch_jobs(local: SparkPipeline) -> Iterator[EventTasks]:
    tasks = BatchJobs(local._context, "batches", "test", local._deployment, "", local._explain)
    yield tasks
    tasks.close()


@pytest.fixture(params=["staying_tasks", "batch_jobs"])
def tasks(request: pytest.FixtureRequest, local: SparkPipeline, batch_jobs: EventTasks) -> EventTasks:
    return local._running() if request.param == "staying_tasks" else batch_jobs


def test_each_way_says_whether_its_tasks_stay(local: SparkPipeline, batch_jobs: EventTasks) -> None:
    assert (local.tasks_stay, batch_jobs.stays) == (True, False)


def test_answers_come_in_the_order_of_the_payloads(tasks: EventTasks) -> None:
    answers = tasks.run("functions:upper", b"plan:", [b"a", b"", b"c\x00\xff"], "x")
    assert answers == [b"plan:A", b"plan:", b"plan:C\x00\xff"]
    payloads = [b"%d" % number for number in range(9 * tasks.parallelism)]
    assert tasks.run(ECHO, b"", payloads, "x") == payloads


def test_a_large_payload_a_large_answer_and_large_settings_arrive_whole(tasks: EventTasks) -> None:
    large = os.urandom(1 << 20) * 5
    assert tasks.run(ECHO, b"", [large, b"small"], "x") == [large, b"small"]
    answers = tasks.run("functions:upper", large, [b"a", b"b", b"c"], "x")
    assert answers == [large + letter for letter in (b"A", b"B", b"C")]


def test_settings_that_change_again_and_again_are_those_of_the_run(tasks: EventTasks) -> None:
    """More than a task keeps, in every order, equal ones as other objects, and of several functions."""
    choices = random.Random(27)
    for _ in range(60 if tasks.stays else 6):
        plan = b"%d:" % choices.randrange(6)
        payloads = [b"x"] * choices.randint(1, 4)
        assert tasks.run("functions:upper", plan, payloads, "x") == [plan + b"X"] * len(payloads)
        assert tasks.run(ECHO, b"%d" % choices.randrange(3), [b"y"], "x") == [b"y"]


@pytest.mark.parametrize(
    ("function", "text"),
    [
        ("functions:fail", r"ValueError: no such customer"),
        ("functions:refuse", r"processes.py has no function 'book'"),
        ("functions:none", r"AttributeError: module 'functions' has no attribute 'none'"),
        ("nowhere:f", r"No module named 'nowhere'"),
    ],
)
def test_an_exception_is_an_error_with_its_text_and_the_next_run_is_well(
    tasks: EventTasks, function: str, text: str
) -> None:
    for payloads in ([b""], [b"", b"", b""]):
        with pytest.raises(PipelineError, match=rf"^poll 7: [^\n]*{text}$"):
            tasks.run(function, b"", payloads, "poll 7")
        assert tasks.run(ECHO, b"", [b"a", b"b"], "x") == [b"a", b"b"]


def test_an_exception_is_the_same_error_beside_a_session(local: SparkPipeline, tasks: EventTasks) -> None:
    """PySpark converts exceptions as soon as the process has a session."""
    assert local.session() is not None
    with pytest.raises(PipelineError, match=r"^poll 7: [^\n]*ValueError: no such customer$") as caught:
        tasks.run("functions:fail", b"", [b""], "poll 7")
    assert not isinstance(caught.value, SparkLost), "Spark is well"


def test_payloads_that_share_tasks_run_side_by_side_in_one_process(tasks: EventTasks) -> None:
    number = 3 * tasks.parallelism
    answers = tasks.run("functions:meet", b"", [b""] * number, "x", shares=True)
    assert len(answers) == number
    assert 1 <= len(set(answers)) <= tasks.parallelism


def test_shared_payloads_have_answers_in_order_errors_and_a_worker_that_dies(tasks: EventTasks) -> None:
    payloads = [b"%d" % number for number in range(9 * tasks.parallelism)]
    assert tasks.run(ECHO, b"", payloads, "x", shares=True) == payloads
    with pytest.raises(PipelineError, match=r"^poll 7: [^\n]*ValueError: no such customer$"):
        tasks.run("functions:fail", b"", [b"", b"", b""], "poll 7", shares=True)
    with pytest.raises(PipelineError, match=r"task \d: "):
        tasks.run("functions:die", b"", [b"live", b"die"], "x", shares=True)
    assert tasks.run("functions:die", b"", [b"a", b"b"], "x", shares=True) == [b"a", b"b"]


def test_a_worker_that_dies_is_an_error_and_the_next_run_is_well(tasks: EventTasks) -> None:
    with pytest.raises(PipelineError, match=r"task \d: Python worker exited unexpectedly"):
        tasks.run("functions:die", b"", [b"live", b"die"], "x")
    assert tasks.run("functions:die", b"", [b"a", b"b"], "x") == [b"a", b"b"]


def has_ended(pid: int) -> bool:
    return not is_running(pid)


def test_workers_that_are_killed_while_idle_cost_no_more_than_a_run_each(tasks: EventTasks) -> None:
    pids = {tasks.run("functions:process_id", b"", [b""], "x")[0] for _ in range(5)}
    assert len(pids) <= 2, "workers are reused"
    for pid in pids:
        os.kill(int(pid), signal.SIGKILL)
        wait_for(partial(has_ended, int(pid)))
    failures = 0
    while True:
        try:
            assert tasks.run(ECHO, b"", [b"a", b"b", b"c"], "x") == [b"a", b"b", b"c"]
            break
        except PipelineError:
            failures += 1
    assert failures <= tasks.parallelism


def test_a_cancel_ends_what_runs_and_the_next_run_is_well(tasks: EventTasks, tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    def cancel() -> None:
        wait_for(lambda: list(tmp_path.glob("gate.*")), what="at the gate")
        tasks.cancel()

    cancelling = beside(cancel)
    with pytest.raises(PipelineError, match=r"^poll 3: "):
        tasks.run("functions:hold", b"", [str(gate).encode()], "poll 3")
    cancelling.result(120)
    assert tasks.run("functions:upper", b"", [b"a"], "x") == [b"A"]
    tasks.cancel()  # nothing runs
    assert tasks.run("functions:upper", b"", [b"b"], "x") == [b"B"]


def test_runs_of_many_threads_get_their_own_answers(tasks: EventTasks) -> None:
    """Some of them fail, and some change the settings. None gets what another has asked for."""

    def use(thread: int) -> None:
        choices = random.Random(thread)
        for number in range(12 if tasks.stays else 2):
            plan = b"%d:" % choices.randrange(4)
            payloads = [b"%d.%d.%d" % (thread, number, one) for one in range(choices.randint(1, 5))]
            assert tasks.run("functions:upper", plan, payloads, "x") == [plan + one for one in payloads]
            if choices.random() < 0.2:
                with pytest.raises(PipelineError, match=f"^{thread}: .*no such customer"):
                    tasks.run("functions:fail", plan, payloads, str(thread))

    number_of_threads = 16 if tasks.stays else 6  # each run of the others is a job
    with ThreadPoolExecutor(number_of_threads) as threads:
        for done in [threads.submit(use, thread) for thread in range(number_of_threads)]:
            done.result()


def test_a_probe_asks_each_task_and_its_error_is_an_answer(tasks: EventTasks) -> None:
    found = tasks.probe("functions:upper", b"seen")
    assert [(one.answer, one.error) for one in found] == [(b"seen", "")] * tasks.parallelism
    assert {one.version for one in found} == {sys.version.split()[0]}
    failed = tasks.probe("functions:fail", b"")
    assert [(one.answer, one.error) for one in failed] == (
        [(b"", "ValueError: no such customer")] * tasks.parallelism
    )
    assert tasks.run(ECHO, b"", [b"a"], "x") == [b"a"]


def test_probes_of_two_threads_do_not_wait_for_each_other_for_ever(tasks: EventTasks) -> None:
    with ThreadPoolExecutor(4) as threads:
        probes = [threads.submit(tasks.probe, "functions:upper", b"%d" % n) for n in range(4)]
        for number, probe in enumerate(probes):
            assert {one.answer for one in probe.result(120)} == {b"%d" % number}


def test_what_is_closed_while_it_runs_is_an_error_and_leaves_no_task(make: Make, tmp_path: Path) -> None:
    tasks, gate = make(), tmp_path / "gate"
    with ThreadPoolExecutor(2) as threads:
        running = [
            threads.submit(tasks.run, "functions:hold", b"", [str(gate).encode()], "poll 5") for _ in range(2)
        ]
        number = 1 if tasks.stays else 2  # there is one task that stays
        wait_for(lambda: len(list(tmp_path.glob("gate.*"))) == number, what="at the gate")
        closing = beside(tasks.close)
        try:
            for one in running:
                with pytest.raises(PipelineError, match=r"^poll 5: "):
                    one.result(120)
        finally:
            gate.touch()
    closing.result(120)
    tasks.close()  # repeatable
    with pytest.raises(PipelineError):
        tasks.run(ECHO, b"", [b"a"], "x")


def test_the_jobs_say_what_they_are(make: Make, local: SparkPipeline, tmp_path: Path) -> None:
    tasks, gate = make(), tmp_path / "gate"
    tracker = local._context.statusTracker()
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(tasks.run, "functions:hold", b"", [str(gate).encode()], "poll 5")
        wait_for(lambda: list(tmp_path.glob("gate.*")), what="at the gate")
        assert isinstance(tasks, StayingTasks | BatchJobs)
        group = tasks._group_of(1) if isinstance(tasks, StayingTasks) else tasks._group
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        states = [job.status for job in jobs if job is not None]
        gate.touch()
        running.result(120)
    assert "RUNNING" in states
