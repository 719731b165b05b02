"""The pipeline: runs one Spark job for each batch.

A job is ``parallelize(payloads).mapPartitions(task).collect()`` in a job group of the adapter's own. So it
runs on every master, and in a session that the user has made.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from connector.config.spark_master import Master, parse_master
from connector.errors import PipelineError, SparkLost
from connector.spark import session as sessions
from connector.spark import shipping
from connector.spark.launcher import FastStart, Launcher, SparkSettings
from connector.spark.reasons import is_lost_worker, java_reason
from connector.spark.scratch import Scratch
from connector.spark.worker import Task, probing, task

if TYPE_CHECKING:
    from pyspark import SparkContext

_POOL: Final = "spark.scheduler.pool"
_START_SECONDS: Final = 120.0
_FIRST_TASK_SECONDS: Final = 60.0
_STEADY_SECONDS: Final = 2.0
_FURTHER_SECONDS: Final = 10.0
_LAST_SECONDS: Final = 3.0
_MOST_JOBS: Final = 64
_IMPORT_FAILED: Final = ("No module named", "cannot import name", "cannot be loaded")
_PLANS_KEPT: Final = 4
ECHO: Final = "connector.spark.worker:echo"
"""The function that returns the payload."""

_log = logging.getLogger("connector.spark")
_numbers = itertools.count(1)


class ExecutorAnswer(NamedTuple):
    """The answer of the workers of one executor.

    Args:
        executor: ``this machine``, or ``HOST (DIRECTORY)``.
        answer: result of the function. Empty after a failure.
        error: reason of the failure. Empty after success.
    """

    executor: str
    answer: bytes
    error: str


class SparkPipeline:
    """Runs module-level functions as Spark jobs.

    PySpark allows only one context, so a process can start only one pipeline at a time. After :meth:`stop`
    the same or another pipeline may be started. All methods are for any thread, and several threads may
    :meth:`run` at a time.

    Args:
        settings: the ``spark:`` section.
        deployment: directory of adapter.yaml.
        application: name shown on a cluster, and the begin of each job's description.
        session: a ``SparkSession`` of the user, which overrides ``spark.master`` and is never stopped.
        ship: paths sent to the workers of a cluster. None = ``*.py`` and ``datahandlers/``.
        output: called from a background thread with each line that workers of ``local`` print. None = lines
            are kept for error texts only.
        jvm_options: further options of the driver's Java. None = use a class-data archive if there is one.
        stop_seconds: seconds that Java may take to end before SIGTERM.
    """

    def __init__(
        self,
        settings: SparkSettings,
        deployment: Path,
        application: str,
        *,
        session: Any = None,
        ship: Sequence[Path] | None = None,
        output: Callable[[str], None] | None = None,
        jvm_options: Sequence[str] | None = None,
        stop_seconds: float = 10.0,
    ) -> None:
        self._settings = settings
        self._deployment = deployment.resolve()
        self._application = application
        self._session = session
        self._ship = ship
        self._launcher = Launcher(
            settings,
            self._deployment,
            application,
            output=output,
            jvm_options=jvm_options,
            stop_seconds=stop_seconds,
        )
        self._group = f"connector {application} {os.getpid()}.{next(_numbers)}"
        self._spark: sessions.SparkApplication | None = None
        self._local = True
        self._archive = ""
        self._stopping = False
        self._stop_lock = threading.Lock()
        self._tasks_lock = threading.Lock()
        self._tasks: OrderedDict[tuple[str, bytes], tuple[Task, Any]] = OrderedDict()
        self._jobs: ThreadPoolExecutor | None = None
        self._scratch: Scratch | None = None
        self._running: list[object] = []
        self._parallelism = 0
        self._counted = 0.0

    # ---- life ----

    def launch(self) -> None:
        """Starts the adapter's own Java for ``local`` and returns at once. :meth:`start` waits for that Java.

        Does nothing if Spark is given, or without the fast start. Raises nothing: :meth:`start` tries again
        after a failure, and raises.
        """
        session = self._session or sessions.present_session()
        if session is not None or sessions.is_submitted() or FastStart is None:
            return
        try:
            master = self._master()
            if master.local:
                self._launch(master)
        except PipelineError:
            self.stop()

    def start(self) -> None:
        """Finds or starts Spark, and ships code. :meth:`probe` then runs the first job.

        Raises:
            PipelineError: no Java, or a wrong or silent master. Raised in bounded time, with advice, and
                nothing is left behind.
        """
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        self._stopping = False
        self._archive = ""
        self._parallelism = 0
        self._jobs = ThreadPoolExecutor(_MOST_JOBS, thread_name_prefix="spark-job")
        with self._bounded(), self._explained("Spark did not start"):
            if self._spark is None:
                self._find()
            if FastStart is not None and isinstance(self._spark, FastStart):
                self._spark.connect()
            self._local = self._context.master.startswith("local")
            if not self._local:
                self._send_files()

    def _find(self) -> None:
        """Takes a given Spark, or launches one."""
        session = self._session or sessions.present_session()
        if session is not None:
            self._use(sessions.GivenSpark(sessions.context_of(session)), "the process has a session")
        elif sessions.is_submitted():
            self._use(sessions.submitted(self._application), "spark-submit has started the adapter")
        else:
            self._launch(self._master())

    def _launch(self, master: Master) -> None:
        self._spark = self._launcher.make(master)
        if FastStart is not None and isinstance(self._spark, FastStart):
            self._spark.launch()

    def _master(self) -> Master:
        return parse_master(str(self._settings.master or "local[*]"))

    @contextmanager
    def _bounded(self) -> Iterator[None]:
        """Kills Java after a time limit, so that every call to Java fails instead of waiting for ever."""
        guard = threading.Timer(_START_SECONDS, self._kill)
        guard.daemon = True
        guard.start()
        try:
            yield
        except PipelineError as error:
            if not guard.is_alive():
                raise PipelineError(f"Spark was not ready within {_START_SECONDS:.0f} s. {error}") from error
            raise
        finally:
            guard.cancel()

    def _kill(self) -> None:
        if self._spark is not None:
            self._spark.kill()

    def _use(self, spark: sessions.SparkApplication, why: str) -> None:
        """Takes a given Spark, and logs which settings of adapter.yaml have no effect."""
        self._spark = spark
        unused = [f"spark.{name}" for name in ("master", "python", "conf") if getattr(self._settings, name)]
        _log.info(
            "the adapter uses a given Spark session",
            extra={"reason": why, "spark_master": spark.context.master, "unused": unused},
        )
        if spark.context.getConf().get("spark.speculation", "false") == "true":
            _log.warning("spark.speculation is on, so Spark may end a slow task in the middle of an event")

    def _send_files(self) -> None:
        ship = shipping.default_ship(self._deployment) if self._ship is None else self._ship
        self._scratch = Scratch()  # Spark reads the archive again for each new executor
        archive = shipping.build_archive(self._scratch.path, self._deployment, ship)
        self._context.addArchive(str(archive))
        self._archive = archive.name

    @property
    def _context(self) -> SparkContext:
        if self._spark is None:
            raise PipelineError("Spark is not running")
        return self._spark.context

    @property
    def alive(self) -> bool:
        """Whether jobs can be run."""
        return not self._stopping and self._spark is not None and self._spark.alive

    @property
    def parallelism(self) -> int:
        """Number of tasks that can run at the same time now, at least 1."""
        now = time.monotonic()
        if self._parallelism and (self._local or now - self._counted < 1.0):
            return self._parallelism
        try:
            context = self._context
            cores = context.defaultParallelism // int(context.getConf().get("spark.task.cpus", "1") or 1)
        except Exception:  # Java is gone, and the next job reports that
            return max(1, self._parallelism)
        self._parallelism, self._counted = max(1, cores), now
        return self._parallelism

    def stop(self) -> None:
        """Ends the adapter's own Spark, and the adapter's jobs. A running job fails. Repeatable."""
        self._stopping = True
        with self._stop_lock:
            spark, self._spark = self._spark, None
            if isinstance(spark, sessions.GivenSpark):
                with suppress(Exception):
                    if self._running:
                        spark.context.cancelJobGroup(self._group)
                    for _, task_settings in self._tasks.values():
                        task_settings.unpersist()
            self._tasks.clear()
            if spark is not None:
                spark.stop()
            if self._jobs is not None:
                self._jobs.shutdown(wait=False)
            if self._scratch is not None:
                self._scratch.remove()
                self._scratch = None

    # ---- jobs ----

    def run(
        self, function: str, task_settings: bytes, payloads: Sequence[bytes], description: str
    ) -> list[bytes]:
        """Runs a job and waits for the end.

        Args:
            function: ``package.module:name`` of ``f(task_settings, deployment, payload) -> answer``.
            task_settings: argument of each call. Unchanged settings are sent to a worker only once.
            payloads: one for each partition, below 2 GiB each.
            description: shown in Spark's UI, after the name of the application.

        Returns:
            The answers, in the order of the payloads.

        Raises:
            PipelineError: a task failed, the job was cancelled, or Spark died. The text says which. Other
                tasks of the job may go on for some seconds.
        """
        return self._run(self._task(function, task_settings), payloads, description) if payloads else []

    def cancel(self) -> None:
        """Cancels the running jobs, so that :meth:`run` raises. For any thread."""
        with suppress(Exception):
            self._context.cancelJobGroup(self._group)

    def probe(self, function: str, task_settings: bytes) -> list[ExecutorAnswer]:
        """Runs ``function`` with an empty payload once on every core.

        On a cluster, first waits at most a minute for an executor, and then while more executors come.

        Raises:
            PipelineError: Spark died, there is no executor, or no worker can be started. A failure of a
                worker is an answer and does not raise.
        """
        call = probing(self._task(function, task_settings))
        with self._bounded():
            if not self._local:
                self._await_executors()
            answers = self._run(call, [b""] * self.parallelism, "start")
        found: dict[str, ExecutorAnswer] = {}
        for one in map(orjson.loads, answers):
            executor = "this machine" if self._local else f"{one['host']} ({one['directory']})"
            if executor not in found or one["error"]:
                error = one["error"] and f"{self._python_hint(one)}{one['error']}"
                found[executor] = ExecutorAnswer(executor, bytes.fromhex(one["answer"]), error)
        return [found[executor] for executor in sorted(found)]

    def _python_hint(self, answer: Mapping[str, str]) -> str:
        """Returns the begin of an error about modules if the workers run another Python than the adapter."""
        is_import = any(words in answer["error"] for words in _IMPORT_FAILED)
        if not is_import or answer["prefix"] == sys.prefix:
            return ""
        is_given = isinstance(self._spark, sessions.GivenSpark) or sessions.is_submitted()
        return (
            f"the workers run {answer['python']} (Python {answer['version']}), "
            f"the adapter runs {sys.executable} (Python {sys.version.split()[0]}); "
            f"set {'PYSPARK_PYTHON or spark.pyspark.python' if is_given else 'spark.python'}; "
        )

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

    def _run(self, call: Task, payloads: Sequence[bytes], description: str) -> list[bytes]:
        with self._explained(description):
            if self._jobs is None:
                raise PipelineError("Spark is not running")
            # A thread of the adapter: the caller's own jobs keep their group and their pool.
            return self._jobs.submit(self._job, call, payloads, description).result()

    def _job(self, call: Task, payloads: Sequence[bytes], description: str) -> list[bytes]:
        context = self._context
        context.setJobGroup(self._group, f"{self._application}: {description}")
        context.setLocalProperty(_POOL, "connector")
        job = object()
        self._running.append(job)
        try:
            answers: list[bytes] = context.parallelize(payloads, len(payloads)).mapPartitions(call).collect()
        finally:
            self._running.remove(job)
        if len(answers) != len(payloads):
            raise PipelineError(f"{len(payloads)} tasks gave {len(answers)} answers")
        return answers

    def _task(self, function: str, task_settings: bytes) -> Task:
        """Returns the task that each partition of a job calls. An executor gets the settings only once."""
        key = (function, hashlib.sha256(task_settings).digest())
        with self._tasks_lock:
            if known := self._tasks.get(key):
                self._tasks.move_to_end(key)
                return known[0]
            with self._explained(""):
                broadcast = self._context.broadcast(task_settings)
            made = task(
                function, broadcast, str(shipping.code_directory()), str(self._deployment), self._archive
            )
            self._tasks[key] = made, broadcast
            if len(self._tasks) > _PLANS_KEPT:
                _, (_, oldest) = self._tasks.popitem(last=False)
                oldest.unpersist()
            return made

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        """Turns any exception of py4j and Spark into a PipelineError with the reason."""
        try:
            yield
        except PipelineError:
            raise
        except Exception as error:
            before = f"{what}: " if what else ""
            if self._stopping:
                raise PipelineError(f"{before}Spark was stopped") from error
            reason = java_reason(error)
            if self._spark is not None and (reason is None or "SparkContext was shut down" in reason):
                # The connection broke, or Java is shutting down and ends in a moment.
                reason = self._spark.why_ended(_LAST_SECONDS) or reason
                raise SparkLost(f"{before}{reason or f'{type(error).__name__}: {error}'}") from error
            failure = SparkLost if is_lost_worker(error) else PipelineError
            raise failure(f"{before}{reason or f'{type(error).__name__}: {error}'}") from error
