"""A Spark that runs no tasks any more, although its Java lives: who waits for it is told, and is let go.

All but the last tests have a stand-in for Spark, because the real one can be dead in a few ways only.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark import SparkContext, SparkJobInfo, SparkStageInfo

from connector.errors import PipelineError, SparkLost
from connector.spark import dead_spark, pipeline, staying_tasks
from connector.spark.batch_jobs import BatchJobs
from connector.spark.dead_spark import why_dead
from connector.spark.event_tasks import EventTasks
from connector.spark.pipeline import SparkPipeline
from connector.spark.staying_tasks import StayingTasks
from tests.forked_command import PipedProcess
from tests.spark.conftest import Settings
from tests.tables import rows
from tests.waiting import beside, wait_for

ROOT = Path(__file__).parents[2]
GROUP = "mine"


def stage(number: int, active: int, failed: int = 0, tasks: int = 1) -> SparkStageInfo:
    return SparkStageInfo(number, 0, "collect", tasks, active, 0, failed)


class StandIn:
    """A Spark of two cores whose jobs never end: the job 1 has the stage 1 and the group ``mine``, and so on.

    Args:
        stages: of the active jobs.
        is_silent: whether its Java answers nothing but the start of a job.
    """

    master = "local[2,1]"

    def __init__(self, *stages: SparkStageInfo, is_silent: bool = False) -> None:
        self.stages = {one.stageId: one for one in stages}
        self.is_silent = is_silent
        self.killed = threading.Event()

    def _answer(self) -> None:
        if self.is_silent:
            self.killed.wait()
            raise ConnectionError("Java has been killed")

    def getConf(self) -> Any:
        return {"spark.task.cpus": "1"}

    def setJobGroup(self, *_: str) -> None: ...

    def setLocalProperty(self, *_: str) -> None: ...

    def parallelize(self, *_: object) -> StandIn:
        return self

    def mapPartitions(self, _: object) -> StandIn:
        return self

    def collect(self) -> list[bytes]:
        self.killed.wait()
        raise ConnectionError("Java has been killed")

    def cancelJobGroup(self, _: str) -> None:
        self._answer()

    def statusTracker(self) -> Any:
        self._answer()
        return SimpleNamespace(
            getActiveJobsIds=lambda: list(self.stages),
            getActiveStageIds=lambda: list(self.stages),
            getStageInfo=self.stages.get,
            getJobIdsForGroup=lambda group: [1] if group.startswith(GROUP) and 1 in self.stages else [],
            getJobInfo=lambda job: SparkJobInfo(job, cast(Any, [job]), "RUNNING"),
        )


@contextmanager
def explain(what: str) -> Iterator[None]:
    try:
        yield
    except ConnectionError as error:
        raise SparkLost(f"{what}{error}") from error


DEAD = {
    "it runs what it has been given": ("", StandIn(stage(1, 1)), 1, ()),
    "it runs jobs of the program, too": ("", StandIn(stage(1, 1), stage(2, 1)), 1, ()),
    "tasks of the program fail": ("", StandIn(stage(1, 1), stage(2, 1, failed=300, tasks=4)), 1, ()),
    "other jobs have all cores": ("", StandIn(stage(1, 0), stage(2, 2)), 0, [GROUP]),
    "other jobs have all cores, the task has no job": ("", StandIn(stage(2, 2)), 0, [GROUP]),
    "a task that stays is started in vain": ("times in vain", StandIn(stage(1, 0, failed=681)), 0, ()),
    "so are those of another job": ("404 times in vain", StandIn(stage(1, 1), stage(2, 2, 404, 3)), 1, ()),
    "a task that is late is not started": ("has a core for it", StandIn(stage(1, 0)), 0, [GROUP]),
    "nor has it a job": ("has a core for it", StandIn(), 0, [GROUP]),
    "beside another job": ("has a core for it", StandIn(stage(1, 0), stage(2, 1)), 0, [GROUP]),
    "it is started, and does not come": ("has a core for it", StandIn(stage(1, 1), stage(2, 1)), 0, [GROUP]),
}  # fmt: skip


@rows("name", list(DEAD))
def test_a_spark_is_dead_when_it_has_room_for_a_task_that_does_not_begin(name: str) -> None:
    words, spark, jobs, late = DEAD[name]
    reason = why_dead(cast(SparkContext, spark), jobs, late)
    assert (words in reason) if words else not reason, reason


Make = Callable[..., EventTasks]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes tasks in a stand-in. Their times are short, and who gives Spark up kills its Java."""
    monkeypatch.setattr(dead_spark, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(staying_tasks, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(staying_tasks, "_STOP_SECONDS", 0.1)
    made: list[tuple[EventTasks, StandIn]] = []

    def make(kind: type[EventTasks], spark: StandIn, patience: float = 0.1) -> EventTasks:
        monkeypatch.setattr(dead_spark, "READY_SECONDS", patience)
        monkeypatch.setattr(staying_tasks, "_FIRST_READY_SECONDS", patience)
        context, lives = cast(SparkContext, spark), lambda: not spark.killed.is_set()
        tasks: EventTasks
        if kind is BatchJobs:
            tasks = BatchJobs(context, GROUP, "test", tmp_path, "", explain)
        else:
            kill = lambda _: spark.killed.set()  # noqa: E731
            tasks = StayingTasks(context, 1, GROUP, "test", tmp_path, explain, lives, kill)
        made.append((tasks, spark))
        return tasks

    yield make
    for tasks, spark in made:
        spark.killed.set()
        tasks.close()


WAYS = {
    "a task is started in vain": (StandIn(stage(1, 0, failed=700)), "Spark is dead: .* in vain"),
    "a task does not begin": (StandIn(stage(1, 0)), "Spark is dead: .* has a core"),
    "Java does not answer": (StandIn(is_silent=True), "Spark is dead: .* has not answered"),
}


@rows("way", list(WAYS))
def test_who_waits_for_a_task_of_a_dead_spark_is_told_and_so_is_who_asks(make: Make, way: str) -> None:
    spark, words = WAYS[way]
    tasks = make(StayingTasks, spark)
    calls: list[Future[Any]] = [beside(tasks.run, "f:g", b"", [b""], "poll 4") for _ in range(3)]
    for call in [*calls, beside(tasks.probe, "f:g", b"")]:
        with pytest.raises(SparkLost, match=words):
            call.result(60)
    with pytest.raises(SparkLost, match=words):
        tasks.check()
    assert "Spark is dead" in tasks.obstacle
    wait_for(spark.killed.is_set, what="no call to Java waits any more")


def test_a_spark_without_a_ready_task_is_an_obstacle_before_it_is_given_up(make: Make) -> None:
    spark = StandIn(stage(1, 0), stage(2, 2))
    tasks = make(StayingTasks, spark)
    wait_for(lambda: tasks.obstacle == "no task of Spark is ready for events")
    assert not spark.killed.is_set(), "other jobs have all cores"


ENDS: dict[str, tuple[Callable[[EventTasks], None], str]] = {
    "cancelled": (lambda tasks: tasks.cancel(), "^poll 4: cancelled$"),
    "stopped": (lambda tasks: tasks.close(), "^poll 4: Spark was stopped$"),
}


@rows("end", list(ENDS))
def test_a_wait_for_a_task_ends_whether_or_not_java_answers(make: Make, end: str) -> None:
    act, words = ENDS[end]
    for spark in (StandIn(stage(1, 0), stage(2, 2)), StandIn(is_silent=True)):
        tasks = make(StayingTasks, spark, 3600.0)
        calls = [beside(tasks.run, "f:g", b"", [b""], "poll 4") for _ in range(3)]
        wait_for(lambda: [one.name for one in threading.enumerate()].count("spark-task-1") >= 1)

        def acted(tasks: EventTasks = tasks, calls: Any = calls) -> bool:
            act(tasks)  # again and again, because a call may not wait yet
            return all(call.done() for call in calls)

        beside(wait_for, acted).result(60)
        for call in calls:
            with pytest.raises(PipelineError, match=words):
                call.result()


class Application:
    """The stand-in as a pipeline has it."""

    def __init__(self, spark: StandIn) -> None:
        self.kill = spark.killed.set
        self._spark = spark

    @property
    def alive(self) -> bool:
        with suppress(ConnectionError):
            self._spark._answer()
            return True
        return False


@rows("kind", [StayingTasks, BatchJobs, None])
def test_a_cancel_kills_a_java_that_does_not_answer_and_waits_no_longer(
    make: Make, kind: type[EventTasks] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without tasks Spark starts."""
    monkeypatch.setattr(pipeline, "_CANCEL_SECONDS", 0.1)
    spark = StandIn(is_silent=True)
    running = SparkPipeline(Settings(), tmp_path, "test")
    running._spark = cast(Any, Application(spark))
    running._tasks = None if kind is None else make(kind, spark, 3600.0)
    beside(running.cancel).result(60)
    wait_for(spark.killed.is_set, what="killed")


def test_a_cancel_leaves_a_java_that_answers_alone(make: Make, tmp_path: Path) -> None:
    spark = StandIn(stage(1, 1))
    running = SparkPipeline(Settings(), tmp_path, "test")
    running._spark = cast(Any, Application(spark))
    running._tasks = make(StayingTasks, spark, 3600.0)
    running.cancel()
    assert not spark.killed.is_set()


METAOBJECTS = "{business_object: Order, verbs: [Create], attributes: {Id: {type: String, key: true}}}"

ADAPTER = """
provider: {type: dropbox, root: ./data, create: true, durability: none}
connector:
  ApplicationName: shop
  instance: one
  InputDestination: queue://in
  ArchiveDestination: queue://archive
  DataHandlerMimeType: application/json
  PollFrequency: 100
  stop_timeout: 1s
subscriptions: [{object: Order, name: store, process: "processes:store"}]
metaobjects: ./metaobjects
spark: {master: "local[1]"}
"""

PROCESSES = """
import os, pathlib
def store(order, event):
    pathlib.Path(__file__).with_name("pid." + order["Id"]).write_text(str(os.getppid()))
"""

PROGRAM = """
import json, os, signal, sys, threading
from pathlib import Path
from connector.service.adapter import Adapter
from connector.service.loop import Service
from connector.service.observer import Observer
from connector.service.status_document import StatusReader
from connector.spark import dead_spark, staying_tasks
from tests.waiting import wait_for

dead_spark.LOOK_SECONDS = staying_tasks.LOOK_SECONDS = 0.3
staying_tasks._STOP_SECONDS = 0.5
adapter = Adapter.from_file("adapter.yaml")
observer = Observer(adapter)
reader = StatusReader(adapter.configuration, observer._provider)

def send(name):
    path = Path("data/in/incoming")
    body = json.dumps({"BusinessObject": "Order", "Verb": "Create", "Id": name})
    (path / "working" / name).write_text(body)
    (path / "working" / name).rename(path / "target" / name)

def worker_of(name):
    return int(wait_for(lambda: (path := Path("pid." + name)).exists() and path.read_text(), what=name))

def end_executor(worker):
    # as Spark itself does when it has not heard from its executor, and nothing runs then any more
    adapter._connection.pipeline._spark.context._jsc.sc().schedulerBackend().stop()
    os.kill(worker, signal.SIGKILL)

adapter.start()
service = Service(adapter)
thread = threading.Thread(target=service.run)
thread.start()
send("a")
end_executor(worker_of("a"))
ready = wait_for(observer.not_ready, what="not ready")
reasons = wait_for(lambda: reader.read()["reasons"], what="not well")
send("b")
worker = worker_of("b")
wait_for(lambda: not observer.not_ready() and not reader.read()["reasons"], what="ready and well again")
print(json.dumps([ready, reasons]), flush=True)
adapter._connection.pipeline._tasks._spark_watch.close()  # nobody notices now
end_executor(worker)
send("c")
wait_for(lambda: adapter.in_progress, what="claimed")
service.stop()
thread.join()
adapter.stop()
print(json.dumps([path.name for path in Path("data/in/incoming/target").iterdir()]))
"""


@pytest.mark.process
def test_an_adapter_goes_on_in_a_new_spark_when_its_executor_has_ended_and_stops_with_a_dead_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "adapter.yaml").write_text(ADAPTER)
    (tmp_path / "processes.py").write_text(PROCESSES)
    (tmp_path / "metaobjects").mkdir()
    (tmp_path / "metaobjects" / "o.yaml").write_text(METAOBJECTS)
    with PipedProcess(cwd=tmp_path, script=PROGRAM) as process:
        output, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
    (ready, reasons), left = map(json.loads, output.splitlines())
    assert "Spark" in ready
    assert any(reason.startswith("one: ") and "Spark" in reason for reason in reasons)
    assert left == ["c"]
    assert sorted(path.name for path in tmp_path.glob("pid.*")) == ["pid.a", "pid.b"]
