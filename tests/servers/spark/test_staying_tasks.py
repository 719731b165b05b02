"""Tasks of Spark that take events: whatever dies, stands still or is cancelled, nothing is lost.

One run bears many kills where it can, because a start of Spark costs seconds.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from connector.java import find_java
from tests.crash.conftest import Deploy
from tests.crash.harness import CrashDeployment, assert_settled_once
from tests.forked_command import PipedProcess
from tests.runs import Run, parent_of
from tests.spark.standalone import executor_options, java_home_for_executors
from tests.waiting import is_running, wait_for

QUEUES = ("a", "b")


def _fill(deployment: CrashDeployment, *names: str) -> list[str]:
    """Sends messages to each queue."""
    return [i for queue in QUEUES for i in deployment.fill(queue, names)]


def _children(run: Run, parent: int | None) -> list[int]:
    return [pid for pid in run.members() if is_running(pid) and parent_of(pid) == parent]


def _daemon(run: Run) -> int:
    """PySpark's daemon, the child of Java."""
    (daemon,) = wait_for(lambda: _children(run, run.java()), what="a daemon")
    return daemon


def _takes_events(pid: int) -> bool:
    """Whether a process is a worker, a runner of one, or PySpark's daemon."""
    with suppress(OSError):
        return b"pyspark.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _kill(pid: int | None) -> None:
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def test_workers_and_runners_killed_again_and_again_delay_an_adapter_and_no_more(deploy: Deploy) -> None:
    """Each process counts for itself, so that each new worker and each new runner is killed in its turn."""
    deployment = deploy(inputs=QUEUES, connector={"PollQuantity": 6, "max_attempts": 1000}, java=True)
    ids = _fill(deployment, *["", "sleep:0.002"] * 30)
    faults = "task.answered:6=kill,done:11=kill"
    run = deployment.start("--drain", "--json", fault=faults)
    assert run.wait(300) == 0, run.errors
    run.await_gone()
    runners = len({delivery.pid for delivery in deployment.deliveries()})
    assert runners > 5, "nothing was killed"
    assert_settled_once(deployment, ids, kills=runners, tasks=1)


def test_one_run_survives_all_that_happens_to_its_tasks(deploy: Deploy) -> None:
    """Each time that something happens, an event is at work and others wait behind it.

    In the end the driver is killed, which has not read the answer to an assignment.
    """
    deployment = deploy(
        inputs=QUEUES,
        connector={
            "PollQuantity": 5,
            "PollFrequency": 100,
            "RestartRetryCount": 5,
            "stop_timeout": "3s",
            "worker_events": 9,
        },
        java=True,
    )
    run = deployment.start("--json", fault="task.connect=pause,task.answered=pause")
    paused = wait_for(lambda: len(found := run.paused("task.connect")) == 2 and found)
    _kill(paused[0])  # in the handshake
    wait_for(lambda: set(run.paused("task.connect")) - set(paused), what="replaced")
    ids: list[str] = []
    kills = 0

    def beside(name: str, happen: Callable[[list[int]], object], *, kill: bool = True) -> None:
        """Lets something happen while an event is at work, or one of each queue, and waits for all events.

        Quick destinations share a batch. An event of the one may then wait for an event of the other.
        """
        nonlocal kills
        kills += kill
        ids.extend(_fill(deployment, "sleep:0.25", f"gate:{name}", "", ""))
        happen(wait_for(lambda: deployment.reached(name), 120, f"{name}: {run.errors}"))
        deployment.open(name)
        deployment.await_archived(ids)

    def kill_idle_workers() -> None:
        """Also those that take events although their daemon was killed."""
        daemon = _daemon(run)
        for worker in run.members():
            if worker != daemon and _takes_events(worker):
                with suppress(ProcessLookupError):  # a worker of a Java that is gone ends by itself
                    _kill(worker)

    with _going_on(run):
        beside("worker", lambda runners: run.signal_parent_of(runners[0]))
        beside("runner", lambda runners: _kill(runners[0]))
        beside("stopped", lambda runners: _stop_while_it_ends(deployment, runners[0], "stopped"), kill=False)
        beside("hangup", lambda runners: run.signal_one(_daemon(run), signal.SIGHUP), kill=False)
        beside("end", lambda runners: run.signal_one(_daemon(run), signal.SIGTERM))
        beside("java", lambda runners: _kill(run.java()))
        kill_idle_workers()
        beside("daemon", lambda runners: _kill(_daemon(run)))
        beside("workers", lambda runners: list(map(run.signal_parent_of, runners)))
        beside("last", lambda runners: None, kill=False)
        kill_idle_workers()  # so that the next answer is the first one of its worker
        ids += deployment.fill("a", ["gate:answer", "", ""])
        deployment.await_gate(run, "answer", 1)
    run.signal_driver(signal.SIGSTOP)
    deployment.open("answer")
    run.await_pause("task.answered")
    run.kill_while_paused(whole_group=False)
    deployment.java = False
    deployment.drain()
    assert_settled_once(deployment, ids, kills=kills + 1)
    assert max(_events_of_each_runner(deployment).values()) <= 9
    assert "a worker is replaced after many events" in run.errors


def test_whatever_dies_while_events_run_side_by_side_only_they_come_again(deploy: Deploy) -> None:
    """Each worker has half of the events that are at work. All of them wait at a gate."""
    settings = {"PollQuantity": 20, "order": "none", "parallel": 8, "stop_timeout": "3s"}
    deployment = deploy(inputs=QUEUES, connector={**settings, "max_attempts": 1000}, java=True)
    ids: list[str] = []
    victims = ("runner", "worker", "java", "everything")
    for victim in victims:
        ids += _fill(deployment, "sleep:0.1", *[f"gate:{victim}"] * 8, *["", "sleep:0.002"] * 10)
        deployment.java = victim != "everything"
        run = deployment.start("--drain", "--json")
        runners = wait_for(lambda: len(found := _at_work(deployment)) == 8 and set(found), 120)
        if victim == "runner":
            _kill(min(runners))
        elif victim == "worker":
            run.signal_parent_of(min(runners))
        elif victim == "java":
            _kill(run.java())
        else:
            run.kill_everything()
        deployment.open(victim)
        run.wait(120)
        run.await_gone()
        deployment.drain()  # what is in doubt runs alone, and would wait for the next gate
    run = deployment.start("--drain", "--json", fault="task.answered:9=kill,done:31=kill")
    ids += _fill(deployment, *["", "sleep:0.002"] * 20)
    run.wait(120)
    deployment.drain()
    assert_settled_once(deployment, ids, kills=len(victims), tasks=8 + 8)


def _at_work(deployment: CrashDeployment) -> list[int]:
    """The living runner of each event that has begun and not ended."""
    last = {one.id: one for one in deployment.deliveries()}
    return [one.pid for one in last.values() if one.word == "begin" and is_running(one.pid)]


def _stop_while_it_ends(deployment: CrashDeployment, runner: int, name: str) -> None:
    """Stops the worker of a runner at a gate, until the event of the runner has ended."""
    worker = parent_of(runner)
    identity = [one.id for one in deployment.deliveries() if one.pid == runner][-1]
    os.kill(worker, signal.SIGSTOP)
    deployment.open(name)
    wait_for(lambda: ("end", identity) in {(one.word, one.id) for one in deployment.deliveries()})
    os.kill(worker, signal.SIGCONT)


def _events_of_each_runner(deployment: CrashDeployment) -> Counter[int]:
    return Counter(one.pid for one in deployment.deliveries() if one.word == "begin")


@contextmanager
def _going_on(run: Run) -> Iterator[None]:
    """Lets each process go on that waits at a named place."""
    done = threading.Event()

    def go_on() -> None:
        while not done.wait(0.02):
            run.go_on()

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_a_stop_ends_in_time_while_java_stands_still_and_a_second_signal_at_once(deploy: Deploy) -> None:
    """The only worker is gone, no other can be started, and an event waits for one."""
    deployment = deploy(
        inputs=("a",), connector={"stop_timeout": "1s"}, spark={"master": "local[1]"}, java=True
    )
    ids: list[str] = []
    status = []
    for signals in (1, 2):
        run = deployment.start()
        ids += deployment.fill("a", [""])
        deployment.await_archived(ids)
        java, runner = run.java(), deployment.deliveries()[-1].pid
        assert java is not None
        run.signal_one(java, signal.SIGSTOP)
        run.signal_parent_of(runner)
        waiting = deployment.fill("a", [""])
        wait_for(lambda: not os.listdir(deployment.folder("a")), what="claimed")
        for _ in range(signals):
            run.signal_driver(signal.SIGTERM)
            run.await_text("stopping")
        status.append(run.wait(60))
        if is_running(java):
            os.kill(java, signal.SIGCONT)
        run.await_gone()
        ids += waiting
    assert status == [0, 128 + signal.SIGTERM]
    deployment.java = False
    deployment.drain()
    assert_settled_once(deployment, ids, kills=2)


OWN_SPARK = """
import json, pathlib, threading
from connector import Adapter
from tests.waiting import wait_for

here = pathlib.Path.cwd()
said = {}

def own_jobs(context):
    said["python"] = context.parallelize(range(20), 4).map(lambda number: number + 1).sum()

def beside():
    wait_for(lambda: len(list(here.glob("reached.1.*"))) >= 2)  # all tasks are busy
    from pyspark import SparkContext

    context = SparkContext.getOrCreate()
    own_jobs(context)
    jobs = context._jsc.sc().statusStore().jobsList(None)  # what Spark's UI shows
    found = [jobs.apply(number) for number in range(jobs.size())]
    said["jobs"] = sorted(job.description().get() for job in found if job.status().toString() == "RUNNING")
    context.cancelAllJobs()  # as the button of Spark's UI does
    (here / "cancelled").touch()
    own_jobs(context)

with Adapter.from_file("adapter.yaml") as adapter:
    thread = threading.Thread(target=beside)
    thread.start()
    said["code"] = adapter.drain().code.name
    thread.join()
    said["again"] = adapter.drain().code.name
print(json.dumps(said))
"""


def test_jobs_of_the_program_run_while_all_tasks_are_busy_and_may_cancel_all_jobs(deploy: Deploy) -> None:
    deployment = deploy(inputs=QUEUES, connector={"stop_timeout": "2s"})
    ids = _fill(deployment, "sleep:0.2", "gate:1", "", "")
    program = _Program(deployment, OWN_SPARK)
    try:
        program.wait_for((deployment.directory / "cancelled").exists)
        program.wait_for(lambda: len(deployment.reached("1")) > 2)  # runs again
        deployment.open("1")
        said = json.loads(program.end())
    finally:
        program.kill()
    assert said == {
        "python": 210,
        "jobs": ["crash: task 1 of 2 takes events", "crash: task 2 of 2 takes events"],
        "code": "SUCCEED",
        "again": "SUCCEED",
    }
    assert_settled_once(deployment, ids, kills=1)


IN_A_SESSION = """
import pathlib, sys, threading, time
from pyspark.sql import SparkSession
from connector import Adapter
from connector.errors import ConnectorError
from tests.waiting import wait_for

session = SparkSession.builder.master("local[3]").config("spark.ui.enabled", "false").getOrCreate()
context = session.sparkContext
here = pathlib.Path.cwd()

def slow(number):
    time.sleep(0.2)  # the job goes on beside the jobs of the adapter
    return number

def jobs():
    wait_for((here / "cancel").exists)
    context.cancelAllJobs()
    (here / "sum").write_text(str(context.parallelize(range(20), 1).map(slow).sum()))

threading.Thread(target=jobs, daemon=True).start()
while True:
    try:
        with Adapter.from_file("adapter.yaml", spark=session) as adapter:
            while True:
                adapter.drain()
                adapter.wait(0.05, listens=True)
    except ConnectorError as error:
        print(error, file=sys.stderr, flush=True)
"""


def test_kills_of_an_adapter_in_a_session_of_the_user_that_runs_a_job_for_each_batch(deploy: Deploy) -> None:
    """Runners die by themselves, the rest is done to them. Jobs of the program run beside."""
    deployment = deploy(
        inputs=QUEUES, connector={"PollQuantity": 5, "stop_timeout": "3s", "max_attempts": 1000}
    )
    program = _Program(deployment, IN_A_SESSION, CONNECTOR_FAULT="done:9=kill")
    ids = deployment.fill("a", [""] * 20)
    kills = 0

    def archived() -> bool:
        return set(ids) <= set(deployment.ids("archive"))

    def beside(name: str, happen: Callable[[int], object]) -> None:
        nonlocal kills
        kills += 1
        ids.extend(_fill(deployment, "sleep:0.2", f"gate:{name}", "", ""))
        program.wait_for(lambda: deployment.reached(name))
        happen(deployment.reached(name)[0])
        deployment.open(name)
        program.wait_for(archived)

    try:
        program.wait_for(archived)
        beside("runner", _kill)
        beside("worker", lambda runner: _kill(parent_of(runner)))
        beside("stopped", lambda runner: _stop_while_it_ends(deployment, runner, "stopped"))
        beside("hangup", lambda runner: os.kill(parent_of(parent_of(runner)), signal.SIGHUP))
        beside("end", lambda runner: os.kill(parent_of(parent_of(runner)), signal.SIGTERM))
        beside("cancel", lambda _: (deployment.directory / "cancel").touch())
        own = deployment.directory / "sum"
        program.wait_for(lambda: own.exists() and own.read_text() == "190")
        ids.extend(deployment.fill("a", ["sleep:0.2", "gate:driver", "", ""]))
        program.wait_for(lambda: deployment.reached("driver"))
    finally:
        program.kill()
    deployment.open("driver")
    deployment.drain()
    runners = len({delivery.pid for delivery in deployment.deliveries()})
    assert_settled_once(deployment, ids, kills=runners + kills, tasks=2)


class _Program:
    """A program of a user with an adapter."""

    def __init__(self, deployment: CrashDeployment, text: str, **environment: str) -> None:
        self._errors = deployment.directory / "errors"
        java_home = java_home_for_executors(find_java(), deployment.directory / "java")
        with open(self._errors, "wb") as errors:
            self._process = PipedProcess(
                script=text,
                cwd=deployment.directory,
                stderr=errors.fileno(),
                PYSPARK_PYTHON=sys.executable,
                JAVA_HOME=str(java_home),
                JAVA_TOOL_OPTIONS=executor_options(),
                **environment,
            )

    def wait_for(self, condition: Callable[[], object]) -> None:
        """Waits for a condition, as long as the program runs."""
        wait_for(lambda: condition() or self._process.poll() is not None)
        assert self._process.poll() is None, self._errors.read_text()

    def end(self) -> str:
        """Returns the output of a program that ends well."""
        output, _ = self._process.communicate(timeout=240)
        assert self._process.returncode == 0, self._errors.read_text()
        return output

    def kill(self) -> None:
        self._process.end()
