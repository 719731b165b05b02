"""Notices that a local Spark has stopped to run tasks, although it seems to live.

The context of Spark lives on when its executor has ended. Spark then starts each further task in vain, some
thousand times a second, and its jobs wait for ever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from connector.spark.master import parse_master

if TYPE_CHECKING:
    from pyspark import SparkContext, SparkStageInfo, StatusTracker

LOOK_SECONDS: Final = 5.0
"""Seconds between two looks."""
READY_SECONDS: Final = 60.0
"""Seconds within which a task should be ready for events, and within which Java should answer a look."""
_MOST_FAILURES: Final = 100
"""Failures of a task, beyond those that the master allows, after which Spark starts the task in vain."""


class SparkWatch:
    """Looks now and then whether a local Spark runs tasks, in a thread of its own.

    Args:
        context: of the adapter's own local Spark.
        count: number of the jobs with a task that stays.
        unready: returns the job groups whose task is not ready for events, and whether the task is late.
        tell: called with the reason, once, when Spark runs no tasks any more.
    """

    def __init__(
        self,
        context: SparkContext,
        count: int,
        unready: Callable[[], Mapping[str, bool]],
        tell: Callable[[str], None],
    ) -> None:
        self._context = context
        self._count = count
        self._unready = unready
        self._tell = tell
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        threading.Thread(target=self._watch, name="spark-watch", daemon=True).start()

    def close(self) -> None:
        """Looks no more. Repeatable."""
        self._is_over.set()

    def _watch(self) -> None:
        while not self._is_over.wait(LOOK_SECONDS):
            silence = f"its Java process has not answered for {READY_SECONDS:g} s"
            silent = threading.Timer(READY_SECONDS, self._tell_once, [silence])
            silent.daemon = True
            silent.start()
            unready = self._unready()
            late = [group for group, is_late in unready.items() if is_late]
            try:
                reason = why_dead(self._context, self._count - len(unready), late)
            except Exception:  # Java ends, and its jobs tell why
                reason = ""
            finally:
                silent.cancel()
            if reason:
                self._tell_once(reason)

    def _tell_once(self, reason: str) -> None:
        with self._lock:
            if self._is_over.is_set():
                return
            self._is_over.set()
        self._tell(f"Spark is dead: {reason}")


def why_dead(context: SparkContext, jobs: int, late: Collection[str]) -> str:
    """Returns why Spark runs no tasks any more. Empty = nothing shows that.

    Args:
        jobs: number of the jobs that are known to run.
        late: job groups of one task each, which should have begun long ago.

    Raises:
        Exception: Java does not answer.
    """
    tracker = context.statusTracker()
    if not late and len(tracker.getActiveJobsIds()) <= jobs:
        return ""
    master = parse_master(context.master)
    stages = list(_stages(tracker, tracker.getActiveStageIds()))
    for one in stages:
        if one.numFailedTasks > (_MOST_FAILURES + master.failures) * one.numTasks:
            return f"it has started a task {one.numFailedTasks:,} times in vain"
    cpus = int(context.getConf().get("spark.task.cpus", "1") or 1)
    has_room = sum(one.numActiveTasks for one in stages) < master.cores // cpus
    if any(has_room or _runs(tracker, group) for group in late):
        return f"a task is not ready for events after {READY_SECONDS:g} s, and Spark has a core for it"
    return ""


def _runs(tracker: StatusTracker, group: str) -> bool:
    """Whether Spark has given a core to the task of a job group. The task waits otherwise, for other jobs."""
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    ids = [stage for job in jobs if job is not None and job.status == "RUNNING" for stage in job.stageIds]
    return any(stage.numActiveTasks for stage in _stages(tracker, ids))


def _stages(tracker: StatusTracker, ids: Sequence[int]) -> Iterator[SparkStageInfo]:
    found = (tracker.getStageInfo(stage) for stage in ids)
    return (stage for stage in found if stage is not None)
