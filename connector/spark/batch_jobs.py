"""One Spark job for each batch: ``parallelize(payloads).mapPartitions(task).collect()`` in a group of ours.

So a batch runs on every master, and in a session that the user has made.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from connector.errors import PipelineError
from connector.spark import shipping
from connector.spark.event_tasks import POOL, EventTasks, Explain, WorkerAnswer
from connector.spark.worker import ECHO, PartitionFunction, probing, task

if TYPE_CHECKING:
    from pyspark import SparkContext

_FIRST_TASK_SECONDS: Final = 60.0
_STEADY_SECONDS: Final = 2.0
_FURTHER_SECONDS: Final = 10.0
_COUNT_SECONDS: Final = 1.0
_MOST_JOBS: Final = 64
_PLANS_KEPT: Final = 4


class BatchJobs(EventTasks):
    """Runs each batch as a Spark job.

    Args:
        application: begins the description of each job.
        archive: name of the shipped archive in Spark's files. Empty = nothing was shipped.
    """

    stays = False

    def __init__(
        self,
        context: SparkContext,
        group: str,
        application: str,
        deployment: Path,
        archive: str,
        explain: Explain,
    ) -> None:
        self._context = context
        self._group = group
        self._application = application
        self._deployment = deployment
        self._archive = archive
        self._explain = explain
        self._lock = threading.Lock()
        self._tasks: OrderedDict[tuple[str, bytes], tuple[PartitionFunction, Any]] = OrderedDict()
        self._threads = ThreadPoolExecutor(_MOST_JOBS, thread_name_prefix="spark-job")
        self._running: list[object] = []
        self._parallelism = 0
        self._counted = 0.0

    @property
    def parallelism(self) -> int:
        now = time.monotonic()
        if self._parallelism and now - self._counted < _COUNT_SECONDS:
            return self._parallelism
        try:
            conf = self._context.getConf()
            cores = self._context.defaultParallelism // int(conf.get("spark.task.cpus", "1") or 1)
        except Exception:  # Java is gone, and the next job reports that
            return max(1, self._parallelism)
        self._parallelism, self._counted = max(1, cores), now
        return self._parallelism

    def run(
        self,
        function: str,
        task_settings: bytes,
        payloads: Sequence[bytes],
        description: str,
        *,
        shares: bool = False,
    ) -> list[bytes]:
        call = self._task(function, task_settings, shares=shares)
        return self._run(call, payloads, description, shares=shares)

    def probe(self, function: str, task_settings: bytes) -> list[WorkerAnswer]:
        """Calls ``function`` on every core. On a cluster, first waits at most a minute for an executor.

        More executors may come for some seconds.
        """
        if not self._context.master.startswith("local"):
            self._await_executors()
        call = probing(self._task(function, task_settings))
        answers = [orjson.loads(one) for one in self._run(call, [b""] * self.parallelism, "start")]
        return [WorkerAnswer(**{**one, "answer": bytes.fromhex(one["answer"])}) for one in answers]

    def check(self) -> None:
        """Does nothing. The next job finds out."""

    def cancel(self) -> None:
        with suppress(Exception):
            self._context.cancelJobGroup(self._group)

    def close(self) -> None:
        with suppress(Exception):
            if self._running:
                self._context.cancelJobGroup(self._group)
            for _, task_settings in self._tasks.values():
                task_settings.unpersist()
        self._tasks.clear()
        self._threads.shutdown(wait=False)

    def _run(
        self, call: PartitionFunction, payloads: Sequence[bytes], description: str, *, shares: bool = False
    ) -> list[bytes]:
        """Runs a job. With ``shares`` several payloads may share a partition, where they run side by side."""
        most = self.parallelism if shares else len(payloads)
        with self._explain(description):
            # A thread of the adapter: the caller's own jobs keep their group and their pool.
            return self._threads.submit(self._job, call, payloads, description, most).result()

    def _job(
        self, call: PartitionFunction, payloads: Sequence[bytes], description: str, most: int
    ) -> list[bytes]:
        context = self._context
        context.setJobGroup(self._group, f"{self._application}: {description}")
        context.setLocalProperty(POOL, "connector")
        job = object()
        self._running.append(job)
        try:
            parts = min(len(payloads), most)
            answers: list[bytes] = context.parallelize(payloads, parts).mapPartitions(call).collect()
        finally:
            self._running.remove(job)
        if len(answers) != len(payloads):
            raise PipelineError(f"{len(payloads)} tasks gave {len(answers)} answers")
        return answers

    def _task(self, function: str, task_settings: bytes, *, shares: bool = False) -> PartitionFunction:
        """Returns the task that each partition of a job calls. An executor gets the settings only once."""
        key = (function, hashlib.sha256(task_settings).digest())
        with self._lock:
            if known := self._tasks.get(key):
                self._tasks.move_to_end(key)
                return known[0]
            with self._explain(""):
                broadcast = self._context.broadcast(task_settings)
            code = str(shipping.code_directory())
            made = task(function, broadcast, code, str(self._deployment), self._archive, shares=shares)
            self._tasks[key] = made, broadcast
            if len(self._tasks) > _PLANS_KEPT:
                _, (_, oldest) = self._tasks.popitem(last=False)
                oldest.unpersist()
            return made

    def _await_executors(self) -> None:
        """Waits for the first executor, and then until no more come."""
        first = threading.Timer(_FIRST_TASK_SECONDS, self._cancel_waiting)
        first.daemon = True
        first.start()
        try:
            self.run(ECHO, b"", [b""], "await an executor")
        except PipelineError as error:
            if first.is_alive():
                raise
            raise PipelineError(
                f"{self._context.master} gave no executor within {_FIRST_TASK_SECONDS:.0f} s: its cores or "
                "memory are taken, its workers cannot start Java, or they do not reach this machine"
                f" at {self._context.getConf().get('spark.driver.host')} (spark.driver.host)"
            ) from error
        finally:
            first.cancel()
        began = changed = time.monotonic()
        count = 0
        while (now := time.monotonic()) - changed < _STEADY_SECONDS and now - began < _FURTHER_SECONDS:
            self._parallelism = 0
            if self.parallelism != count:
                count, changed = self.parallelism, now
            time.sleep(0.1)

    def _cancel_waiting(self) -> None:
        with suppress(Exception):
            tracker = self._context.statusTracker()
            jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._group)]
            stages = [
                tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds
            ]
            if not any(stage is not None and stage.numActiveTasks for stage in stages):
                self.cancel()
