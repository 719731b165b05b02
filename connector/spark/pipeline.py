"""The pipeline: the life of Spark, and one of two ways to run batches in it.

In the adapter's own local Spark the tasks stay (:mod:`connector.spark.staying_tasks`). On a cluster, under
``spark-submit`` and in a session of the user's, each batch is a job (:mod:`connector.spark.batch_jobs`).
"""

from __future__ import annotations

import itertools
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from connector.errors import PipelineError, SparkLost
from connector.spark import early_java, shipping
from connector.spark import session as sessions
from connector.spark.batch_jobs import BatchJobs
from connector.spark.event_tasks import EventTasks, WorkerAnswer
from connector.spark.launcher import SLOTS, FastStart, Launcher, SparkSettings
from connector.spark.master import Master, parse_master
from connector.spark.reasons import is_lost_worker, java_reason
from connector.spark.scratch import Scratch
from connector.spark.staying_tasks import StayingTasks

if TYPE_CHECKING:
    from pyspark import SparkContext

_START_SECONDS: Final = 120.0
_LAST_SECONDS: Final = 3.0
_CANCEL_SECONDS: Final = 3.0
"""Seconds within which Java has to answer when assignments are cancelled."""
_ENDED: Final = "Spark did not start: the start was ended"
_IMPORT_FAILED: Final = ("No module named", "cannot import name", "cannot be loaded")

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
    """Runs module-level functions in Spark tasks.

    PySpark allows only one context, so a process can start only one pipeline at a time. After :meth:`stop`
    the same or another pipeline may be started. All methods are for any thread, and several threads may
    :meth:`run` at a time.

    Args:
        application: name shown on a cluster, and the start of each job's description.
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
        self._stopping = False
        self._is_probed = False
        """Whether the workers have answered. Until then the pipeline starts."""
        self._is_cancelled = False
        """Whether the start was ended."""
        self._dead = ""
        """Why Spark was given up although its Java lived."""
        self._stop_lock = threading.Lock()
        self._tasks: EventTasks | None = None
        self._scratch: Scratch | None = None

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
        except BaseException as error:
            self.stop()
            if self._is_cancelled and isinstance(error, PipelineError):
                raise PipelineError(_ENDED) from error
            raise

    def _start(self) -> None:
        self._stopping = self._is_probed = self._is_cancelled = False
        self._dead = ""
        with self._limit_time(), self._explain("Spark did not start"):
            if self._spark is None:
                self._find()
            if FastStart is not None and isinstance(self._spark, FastStart):
                self._spark.connect()
            self._local = self._context.master.startswith("local")
            self._tasks = self._make_tasks()

    def _make_tasks(self) -> EventTasks:
        context, deployment = self._context, self._deployment
        if isinstance(self._spark, sessions.GivenSpark) or sessions.is_submitted() or not self._local:
            archive = "" if self._local else self._send_files()
            return BatchJobs(context, self._group, self._application, deployment, archive, self._explain)
        cores = parse_master(context.master).cores // SLOTS
        count = max(1, cores // int(context.getConf().get("spark.task.cpus", "1") or 1))
        return StayingTasks(
            context,
            count,
            self._group,
            self._application,
            deployment,
            self._explain,
            lambda: self.alive,
            self._give_up,
        )

    def _find(self) -> None:
        """Takes a given Spark, or launches one."""
        session = self._session or sessions.present_session()
        if session is not None:
            self._use(sessions.GivenSpark(sessions.context_of(session)), "the process has a session")
        elif sessions.is_submitted():
            self._use(
                sessions.submitted_application(self._application), "spark-submit has started the adapter"
            )
        else:
            self._launch(self._master())

    def _launch(self, master: Master) -> None:
        _log.info("starts Spark (some seconds)")
        spark = self._spark = self._launcher.make(master)
        if FastStart is not None and isinstance(spark, FastStart):
            self._spark = early_java.take_or_launch(spark)

    def _master(self) -> Master:
        return parse_master(str(self._settings.master or "local[*]"))

    @contextmanager
    def _limit_time(self, seconds: float = _START_SECONDS) -> Iterator[None]:
        """Kills Java after a time limit, so that every call to Java fails instead of waiting for ever."""
        guard = threading.Timer(seconds, self._kill)
        guard.daemon = True
        guard.start()
        try:
            yield
        except PipelineError as error:
            if not guard.is_alive():
                raise PipelineError(f"Spark was not ready within {seconds:.0f} s. {error}") from error
            raise
        finally:
            guard.cancel()

    def _give_up(self, reason: str) -> None:
        """Kills Java, so that every call to Java fails and the adapter starts another Spark."""
        self._dead = reason
        self._kill()

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

    def _send_files(self) -> str:
        """Ships code and deployment to the executors. Returns the name of the archive."""
        ship = shipping.default_ship(self._deployment) if self._ship is None else self._ship
        self._scratch = Scratch()  # Spark reads the archive again for each new executor
        archive = shipping.build_archive(self._scratch.path, self._deployment, ship)
        self._context.addArchive(str(archive))
        return archive.name

    @property
    def _context(self) -> SparkContext:
        if self._spark is None:
            raise PipelineError("Spark is not running")
        return self._spark.context

    @property
    def alive(self) -> bool:
        """Whether jobs can be run."""
        return not (self._stopping or self._dead) and self._spark is not None and self._spark.alive

    @property
    def obstacle(self) -> str:
        """Why no event can be processed now. Empty = nothing is known to be wrong. For any thread."""
        tasks = self._tasks
        return "" if tasks is None else tasks.obstacle

    def session(self) -> sessions.SparkSession:
        """Returns the SparkSession of the application, for further jobs of this process.

        Raises:
            PipelineError: Spark is not running.
        """
        if not self.alive:  # another one may start at this moment
            raise PipelineError("Spark is not running")
        with self._explain("no session"):
            return self._session or sessions.present_session() or sessions.own_session(self._context)

    @property
    def parallelism(self) -> int:
        """Number of assignments that can run at the same time now, at least 1."""
        return 1 if self._tasks is None else self._tasks.parallelism

    def stop(self) -> None:
        """Ends the adapter's tasks, and its own Spark. A running batch fails. Repeatable."""
        self._stopping = True
        with self._stop_lock:
            spark, self._spark = self._spark, None
            tasks, self._tasks = self._tasks, None
            if tasks is not None:
                tasks.close()
            if spark is not None:
                spark.stop()
            if self._scratch is not None:
                self._scratch.remove()
                self._scratch = None

    @property
    def ships(self) -> bool:
        """Whether workers run the code that was shipped at the start."""
        return self._scratch is not None

    # ---- assignments ----

    @property
    def tasks_stay(self) -> bool:
        """Whether tasks stay from one batch to the next. Then a batch costs no Spark job."""
        return self._tasks is not None and self._tasks.stays

    def run(
        self,
        function: str,
        task_settings: bytes,
        payloads: Sequence[bytes],
        description: str,
        *,
        shares: bool = False,
    ) -> list[bytes]:
        """Runs a batch and waits for its end (see :meth:`connector.spark.event_tasks.EventTasks.run`).

        Args:
            payloads: one for each assignment. Without any nothing happens.

        Raises:
            PipelineError: a task failed or ended, was cancelled, or Spark died.
        """
        if not payloads:
            return []
        return self._running().run(function, task_settings, payloads, description, shares=shares)

    def check(self) -> None:
        """Raises the error of tasks that have failed while nothing ran. Returns at once.

        Raises:
            PipelineError: workers cannot work any more, or Spark died.
        """
        if self._tasks is not None:
            self._tasks.check()

    def cancel(self) -> None:
        """Ends the running assignments, so that :meth:`run` raises, or a start. For any thread.

        Does not wait for a Java that does not answer, which is killed soon.
        """
        if self._tasks is None or not self._is_probed:
            self._is_cancelled = True
            self._kill()
            return
        canceller = threading.Thread(target=self._cancel, args=(self._tasks,), daemon=True)
        canceller.start()
        canceller.join(_CANCEL_SECONDS)

    def _cancel(self, tasks: EventTasks) -> None:
        with suppress(PipelineError), self._limit_time(_CANCEL_SECONDS):
            tasks.cancel()
            _ = self.alive  # asks Java, which other calls may wait for

    def probe(self, function: str, task_settings: bytes) -> list[ExecutorAnswer]:
        """Calls ``function`` with an empty payload in every task that can run at the same time.

        Raises:
            PipelineError: Spark died, there is no executor, or no worker can be started. A failure of a
                worker is an answer and does not raise.
        """
        try:
            with self._limit_time():
                answers = self._running().probe(function, task_settings)
        except PipelineError as failure:
            if self._is_cancelled:
                raise PipelineError(_ENDED) from failure
            raise
        self._is_probed = self._is_probed or not self._is_cancelled
        found: dict[str, ExecutorAnswer] = {}
        for one in answers:
            executor = "this machine" if self._local else f"{one.host} ({one.directory})"
            if executor not in found or one.error:
                error = one.error and f"{self._python_hint(one)}{one.error}"
                found[executor] = ExecutorAnswer(executor, one.answer, error)
        return [found[executor] for executor in sorted(found)]

    def _running(self) -> EventTasks:
        if self._tasks is None:
            raise PipelineError("Spark is not running")
        return self._tasks

    def _python_hint(self, answer: WorkerAnswer) -> str:
        """Returns the start of an error about modules if the workers run another Python than the adapter."""
        is_import = any(words in answer.error for words in _IMPORT_FAILED)
        if not is_import or answer.prefix == sys.prefix:
            return ""
        is_given = isinstance(self._spark, sessions.GivenSpark) or sessions.is_submitted()
        return (
            f"the workers run {answer.python} (Python {answer.version}), "
            f"the adapter runs {sys.executable} (Python {sys.version.split()[0]}); "
            f"set {'PYSPARK_PYTHON or spark.pyspark.python' if is_given else 'spark.python'}; "
        )

    @contextmanager
    def _explain(self, what: str) -> Iterator[None]:
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
                reason = self._dead or self._spark.why_ended(_LAST_SECONDS) or reason
                raise SparkLost(f"{before}{reason or f'{type(error).__name__}: {error}'}") from error
            failure = SparkLost if is_lost_worker(error) else PipelineError
            raise failure(f"{before}{reason or f'{type(error).__name__}: {error}'}") from error
