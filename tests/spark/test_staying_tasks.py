"""Tasks that stay: their lives, their socket and their files. See also test_event_tasks.py."""

from __future__ import annotations

import json
import logging
import os
import secrets
import signal
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connector.errors import PipelineError
from connector.spark import task_links
from connector.spark.pipeline import SparkPipeline
from connector.spark.staying_tasks import StayingTasks
from tests.waiting import is_running, wait_for

Make = Callable[..., StayingTasks]

ECHO = "connector.spark.worker:echo"


@pytest.fixture
def make(request: pytest.FixtureRequest, local: SparkPipeline) -> Iterator[Make]:
    """Makes further tasks that stay, in free slots of the local pipeline."""
    made: list[StayingTasks] = []
    context, place, explained = local._context, local._deployment, local._explain

    def make(count: int = 1) -> StayingTasks:
        group = f"test {request.node.name} {len(made)}"
        made.append(StayingTasks(context, count, group, "test", place, explained, lambda: local.alive, print))
        return made[-1]

    yield make
    for tasks in made:
        tasks.close()


def pid_of(tasks: StayingTasks, plan: bytes = b"") -> int:
    return int(tasks.run("functions:process_id", plan, [b""], "x")[0])


def kill(tasks: StayingTasks, plan: bytes = b"") -> int:
    """Kills the worker of the only task, and returns the process id."""
    pid = pid_of(tasks, plan)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not is_running(pid))
    return pid


def connections(tasks: StayingTasks) -> int:
    """Number of connections to the socket that are open in the driver."""
    lines = Path("/proc/net/unix").read_text().splitlines()
    return sum(line.endswith(f" {tasks._listener.address}") for line in lines) - 1


def jobs_of(tasks: StayingTasks) -> int:
    """Number of jobs so far. A new job begins when the task before has ended."""
    return len(tasks._context.statusTracker().getJobIdsForGroup(tasks._group_of(1)))


def test_a_task_of_a_cancelled_job_takes_no_more_assignments(make: Make) -> None:
    """Spark lets the worker live on for up to 2.5 s, and kills the worker then."""
    tasks = make()
    before, jobs = pid_of(tasks), jobs_of(tasks)
    tasks._context.cancelJobGroup(tasks._group_of(1))
    wait_for(lambda: jobs_of(tasks) > jobs, what="replaced")
    assert pid_of(tasks) != before


def test_a_task_that_has_ended_keeps_no_connection_open(make: Make, tmp_path: Path) -> None:
    """Also if the new task comes before the next assignment."""
    tasks, plan = make(), str(tmp_path / "mark").encode()
    tasks.probe("functions:mark", plan)
    for number in range(1, 4):
        kill(tasks, plan)
        wait_for(lambda: len(list(tmp_path.glob("mark.*"))) > number, what="replaced")  # noqa: B023
        wait_for(lambda: connections(tasks) == 2, what="the two connections of a task")
    assert pid_of(tasks)


def test_the_socket_is_in_a_private_directory_with_a_short_path(make: Make) -> None:
    tasks = make()
    directory = Path(tasks._listener.address).parent
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert len(tasks._listener.address) <= 107
    tasks.close()
    assert not directory.exists()


def test_a_task_comes_past_hundreds_of_strangers_that_say_nothing(make: Make) -> None:
    tasks = make()
    pid_of(tasks)
    silent = [socket.socket(socket.AF_UNIX) for _ in range(200)]
    try:
        for one in silent:
            one.connect(tasks._listener.address)
        before = kill(tasks)
        assert wait_for(lambda: _answer(tasks), what="an answer") != before
        assert connections(tasks) > 1
    finally:
        for one in silent:
            one.close()
    wait_for(lambda: connections(tasks) == 2, what="the strangers have left")


def _answer(tasks: StayingTasks) -> int:
    try:
        return pid_of(tasks)
    except PipelineError:
        return 0


def test_a_stranger_with_another_secret_is_refused_and_told(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    tasks = make()
    with (
        caplog.at_level(logging.WARNING, "connector.spark"),
        pytest.raises(AuthenticationError),
        Client(tasks._listener.address, "AF_UNIX", authkey=secrets.token_bytes(32)),
    ):
        pass
    wait_for(lambda: "a connection to the tasks was refused" in caplog.messages)
    assert pid_of(tasks)


def test_a_task_that_proves_the_secret_and_says_no_more_is_refused_after_a_while(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(task_links, "_HANDSHAKE_SECONDS", 1)
    listener = task_links.TaskListener(lambda *_: None)
    try:
        with Client(listener.address, "AF_UNIX", authkey=listener.secret) as silent:
            assert silent.poll(60), "the end of the connection"
        wait_for(lambda: "a connection to the tasks was refused" in caplog.messages)
    finally:
        listener.close()
        listener.remove()


@given(garbage=st.lists(st.binary(max_size=40), max_size=3))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_garbage_at_the_socket_is_refused(local: SparkPipeline, garbage: list[bytes]) -> None:
    tasks = local._running()
    assert isinstance(tasks, StayingTasks)
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(tasks._listener.address)
        for part in garbage:
            try:
                stranger.sendall(part)
            except BrokenPipeError:
                break
    assert tasks.run(ECHO, b"", [b"a"], "x") == [b"a"]
    wait_for(lambda: not [one for one in threading.enumerate() if one.name == "spark-greet"])


def test_a_task_that_dies_three_times_before_its_first_answer_is_an_error_and_tried_again(
    make: Make, tmp_path: Path
) -> None:
    tasks, flag = make(), tmp_path / "flag"
    plan = str(flag).encode()
    assert [one.error for one in tasks.probe("functions:leave", plan)] == [""]
    flag.touch()
    kill(tasks, plan)
    with pytest.raises(PipelineError, match=r"^poll 4: task 1: Python worker exited"):
        tasks.run("functions:leave", plan, [b"a"], "poll 4")
    assert Path(f"{flag}.deaths").read_text().count("x") >= 3
    flag.unlink()
    assert wait_for(lambda: _echoed(tasks, plan), what="an answer") == [b"b"]


def test_a_task_that_dies_again_and_again_is_replaced_while_another_answers(
    make: Make, tmp_path: Path
) -> None:
    """A body that kills all workers, and comes again, may meet a task that has only begun each time."""
    tasks, flag = make(2), tmp_path / "flag"
    plan = str(flag).encode()

    def pids() -> set[int]:
        return {int(path.suffix[1:]) for path in tmp_path.glob("mark.*")}

    tasks.probe("functions:leave_unless_first", plan)
    flag.touch()
    first = int(tasks.run("functions:leave_unless_first", plan, [b"x"], "x")[0])
    (other,) = pids() - {first}
    os.kill(other, signal.SIGKILL)

    def died_often() -> bool:
        assert int(tasks.run("functions:leave_unless_first", plan, [b"x"], "x")[0]) == first
        tasks.check()
        return len(pids()) > 6

    wait_for(died_often, what="five deaths")
    flag.unlink()
    before = pids()
    wait_for(lambda: [pid for pid in pids() - before if is_running(pid)], what="replaced")


def _echoed(tasks: StayingTasks, plan: bytes) -> list[bytes]:
    try:
        return tasks.run("functions:leave", plan, [b"b"], "x")
    except PipelineError:
        return []


def test_files_and_threads_stay_flat_over_thousands_of_assignments(make: Make) -> None:
    tasks = make()

    def some(number: int) -> None:
        for one in range(number):
            payloads = [b"x"] * (1 + one % 3)
            assert len(tasks.run("functions:upper", b"%d" % (one % 5), payloads, "x")) == len(payloads)

    def counts() -> list[int]:
        (worker,) = tasks.run("functions:count", b"", [b""], "x")
        return [len(os.listdir("/proc/self/fd")), *map(int, worker.split())]

    tasks._spark_watch.close()  # its first look opens a connection to Java
    tasks.run(ECHO, b"", [b""] * 70, "x")  # all threads of the driver
    some(100)
    before, threads = counts(), threading.active_count()
    some(2000)
    assert counts() == before
    assert threading.active_count() < threads + 10  # Py4J may open a connection late, but not one for each


def test_workers_are_forks_of_one_process_that_has_imported_what_events_need(local: SparkPipeline) -> None:
    [answer] = local.run("functions:origin", b"", [b""], "x")
    facts = json.loads(answer)
    assert "connector.spark.daemon" in facts.pop("parent")
    # The programs of a business process must not find the packages of the adapter. Spark adds its own jar.
    found = [entry for entry in facts.pop("path").split(os.pathsep) if not entry.endswith(".jar")]
    assert found == [
        os.path.abspath(one) for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one
    ]
    assert facts == {"threads": 1, "variables": [], "has events": True}
