"""A Spark that runs no tasks any more, although its Java lives: who waits for it is told, and is let go.

The tests have a stand-in for Spark, because the real one (tests/servers/spark) can be dead in few ways only.
"""

from __future__ import annotations

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
from tests.spark.conftest import Settings
from tests.tables import rows
from tests.waiting import beside, wait_for

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

    def __getattr__(self, _: str) -> Callable[..., StandIn]:
        """Answers each other call, which only prepares a job."""
        return lambda *_: self

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


@rows(
    "spark, words",
    [
        (StandIn(stage(1, 0, failed=700)), "Spark is dead: .* in vain"),
        (StandIn(stage(1, 0)), "Spark is dead: .* has a core"),
        (StandIn(is_silent=True), "Spark is dead: .* has not answered"),
    ],
)
def test_who_waits_for_a_task_of_a_dead_spark_is_told_and_so_is_who_asks(
    make: Make, spark: StandIn, words: str
) -> None:
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


@rows("act, words", [("cancel", "^poll 4: cancelled$"), ("close", "^poll 4: Spark was stopped$")])
@rows("stages", [(stage(1, 0), stage(2, 2)), ()])
def test_a_wait_for_a_task_ends_whether_or_not_java_answers(
    make: Make, stages: tuple[SparkStageInfo, ...], act: str, words: str
) -> None:
    tasks = make(StayingTasks, StandIn(*stages, is_silent=not stages), 3600.0)
    calls = [beside(tasks.run, "f:g", b"", [b""], "poll 4") for _ in range(3)]
    wait_for(lambda: [one.name for one in threading.enumerate()].count("spark-task-1") >= 1)

    def acted() -> bool:
        getattr(tasks, act)()  # again and again, because a call may not wait yet
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


@rows("kind, answers", [(StayingTasks, False), (BatchJobs, False), (None, False), (StayingTasks, True)])
def test_a_cancel_kills_a_java_that_does_not_answer_and_waits_no_longer(
    make: Make, kind: type[EventTasks] | None, answers: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without tasks Spark starts."""
    if not answers:
        monkeypatch.setattr(pipeline, "_CANCEL_SECONDS", 0.1)
    spark = StandIn(stage(1, 1), is_silent=not answers)
    running = SparkPipeline(Settings(), tmp_path, "test")
    running._spark = cast(Any, Application(spark))
    running._tasks = None if kind is None else make(kind, spark, 3600.0)
    running._is_probed = kind is not None
    beside(running.cancel).result(60)
    if not answers:
        wait_for(spark.killed.is_set, what="killed")
    assert spark.killed.is_set() is not answers
