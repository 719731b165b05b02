"""Tasks that stay: one Spark job of one task for each core, which takes assignments until the adapter stops.

A task connects to a Unix socket of the driver, in a private directory. Both sides prove that they know a
secret of this run. The task then gets one assignment after another, and answers each of them. So a batch
costs no Spark job.

The journal decides, not the socket. A connection that ends is a task that has ended: its assignment has no
answer, and the driver reads the journal of the assignment. An assignment has a number, and the answer repeats
the number. So no answer is taken for the answer to another assignment. A connection with an unread answer is
closed, and its task is replaced.

A *keeper* is the thread that runs the job of one task, and runs another job when the task has ended.

A Spark that runs no tasks any more is given up as a whole: all calls fail, and the adapter starts another.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from connector.errors import PipelineError, SparkLost
from connector.spark import shipping
from connector.spark.dead_spark import LOOK_SECONDS, READY_SECONDS, SparkWatch
from connector.spark.event_tasks import POOL, EventTasks, Explain, WorkerAnswer
from connector.spark.task_links import SharedLink, TaskEnded, TaskLink, TaskListener
from connector.spark.worker import staying

if TYPE_CHECKING:
    from pyspark import SparkContext

_SHORTEST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 10.0
"""Seconds before a task is replaced. After an assignment that was answered, the shortest again."""
_MOST_DEATHS: Final = 3
"""Tasks of a keeper that end in a row, while no task gives an answer. Then workers cannot work.

One body may kill all workers again and again. So the answer of another task shows that workers can work.
"""
_REASON_SECONDS: Final = 5.0
"""Seconds to wait until Spark tells why a task has ended."""
_STOP_SECONDS: Final = 5.0
"""Seconds to wait at the end for the jobs of all tasks."""
_FIRST_READY_SECONDS: Final = 120.0
"""Seconds within which the first task of a keeper should be ready. Python imports everything meanwhile."""
_MOST_THREADS: Final = 64
_ONLY_TASK: Final = "task 0: "
"""The start of an error that Spark tells about the only task of a job."""


_Link = TypeVar("_Link", TaskLink, SharedLink)


class StayingTasks(EventTasks):
    """Keeps one Spark task for each core, and gives assignments to them.

    Args:
        context: of the adapter's own local Spark, with twice as many slots as ``count``.
        group: start of the names of the job groups. Each task has one.
        application: begins the description of each job.
        give_up: called with the reason if Spark runs no tasks any more, although its Java lives.
    """

    stays = True

    def __init__(
        self,
        context: SparkContext,
        count: int,
        group: str,
        application: str,
        deployment: Path,
        explain: Explain,
        alive: Callable[[], bool],
        give_up: Callable[[str], None],
    ) -> None:
        self._context = context
        self._count = count
        self._group = group
        self._application = application
        self._deployment = str(deployment)
        self._explain = explain
        self._alive = alive
        self._give_up_spark = give_up
        self._changed = threading.Condition()
        self._idle: list[TaskLink] = []
        self._busy: set[TaskLink] = set()
        self._shared: list[SharedLink] = []
        self._failure: PipelineError | None = None
        self._dead = ""
        """Why Spark was given up."""
        self._cancels = 0
        self._answers = itertools.count(1)
        self._last_answer = self._last_of_assignment = 0
        self._closing = threading.Event()
        self._keepers: dict[int, _Keeper] = {}
        self._check: tuple[str, bytes] | None = None
        """Function and settings of the first assignment of each new task."""
        self._hashed: tuple[bytes, bytes] = b"", hashlib.sha256(b"").digest()
        self._one_probe = threading.Lock()
        self._threads = ThreadPoolExecutor(max(_MOST_THREADS, count), "spark-assignment")
        self._listener = TaskListener(self._greet)
        with self._changed:
            self._keep_all()
        self._spark_watch = SparkWatch(context, count, self._unready, self._give_up)

    @property
    def parallelism(self) -> int:
        return self._count

    @property
    def obstacle(self) -> str:
        if self._dead:
            return self._dead
        latest = time.monotonic() - LOOK_SECONDS  # a task that has died is replaced earlier
        if all(keeper.unready_since < latest for keeper in list(self._keepers.values())):
            return "no task of Spark is ready for events"
        return ""

    # -- assignments -------------------------------------------------------------------------------

    def run(
        self,
        function: str,
        task_settings: bytes,
        payloads: Sequence[bytes],
        description: str,
        *,
        shares: bool = False,
    ) -> list[bytes]:
        """Calls ``function`` once for each payload. Each call gets the next task that comes free.

        Raises:
            PipelineError: after all other calls have ended.
        """
        key = self._key(task_settings)
        if self._check is not None and self._check[1] is not task_settings:
            self._check = self._check[0], task_settings
        if shares:
            return self._run_shared(function, key, task_settings, payloads, description)
        calls: list[Future[bytes]] = [
            self._threads.submit(self._call, function, key, task_settings, payload, description)
            for payload in payloads[1:]
        ]
        try:
            first = self._call(function, key, task_settings, payloads[0], description)
        finally:
            for call in calls:
                call.exception()  # a batch has ended when all its tasks have
        return [first, *(call.result() for call in calls)]

    def _run_shared(
        self, function: str, key: bytes, task_settings: bytes, payloads: Sequence[bytes], description: str
    ) -> list[bytes]:
        """Gives each payload to the task with the fewest, beside its other assignments.

        Raises:
            PipelineError: as :meth:`run`.
        """
        calls = []
        for payload in payloads:
            link = self._wait_for(self._least_shared, description)
            calls.append((link, link.start(function, key, task_settings, payload)))
        wait([call for _, call in calls])  # a batch has ended when all its tasks have
        answers = []
        for link, call in calls:
            try:
                answers.append(call.result())
            except TaskEnded:
                raise self._reason(link, description) from None
            except PipelineError as error:
                raise PipelineError(f"{description}: {error}") from None
        with self._changed:
            self._last_answer = self._last_of_assignment = next(self._answers)
        return answers

    def _least_shared(self) -> SharedLink | None:
        """Returns the connection with the fewest assignments. The caller holds the lock."""
        return min(self._shared, key=lambda link: link.calls, default=None)

    def probe(self, function: str, task_settings: bytes) -> list[WorkerAnswer]:
        """Calls ``function`` with an empty payload in each task. Also in each later task, before events."""
        with self._one_probe:  # two would wait for each other's tasks
            found = self._probe_all(function, task_settings)
        if not any(answer.error for answer in found):
            self._check = function, task_settings
        return found

    def _probe_all(self, function: str, task_settings: bytes) -> list[WorkerAnswer]:
        taken: list[TaskLink] = []
        answers: list[Future[WorkerAnswer]] = []
        try:
            for _ in range(self._count):
                taken.append(self._take("start"))
                answers.append(self._threads.submit(self._probe, taken[-1], function, task_settings))
            return [answer.result() for answer in answers]
        finally:
            for link, answer in itertools.zip_longest(taken, answers):
                if answer is None or answer.exception() is not None or link.facts.error:
                    self._discard(link)
                else:
                    self._release(link)

    def _probe(self, link: TaskLink, function: str, task_settings: bytes) -> WorkerAnswer:
        """Returns the answer of one task.

        Raises:
            PipelineError: the task has ended.
        """
        if link.facts.error:
            return link.facts
        try:
            answer = link.call(function, self._key(task_settings), task_settings, b"")
        except TaskEnded:
            raise self._reason(link, "start") from None
        except PipelineError as error:
            return link.facts._replace(error=str(error))
        self._last_answer = next(self._answers)
        return link.facts._replace(answer=answer)

    def check(self) -> None:
        with self._changed:
            self._raise_failure("the tasks")

    def cancel(self) -> None:
        """Ends the busy tasks, and the waits for a task. Spark then kills the workers of the tasks."""
        with self._changed:
            busy: list[TaskLink | SharedLink] = [*self._busy, *(one for one in self._shared if one.calls)]
            self._cancels += 1
            self._changed.notify_all()
        for link in busy:
            link.end()
        for number in {link.number for link in busy}:
            with contextlib.suppress(Exception):
                self._context.cancelJobGroup(self._group_of(number))

    def close(self) -> None:
        """Closes the connections, so that the tasks end, and waits some seconds for their jobs."""
        with self._changed:
            if self._closing.is_set():
                return
            self._closing.set()
            idle, self._idle = self._idle, []
            busy: list[TaskLink | SharedLink] = [*self._busy, *self._shared]
            self._changed.notify_all()
        self._spark_watch.close()
        self._listener.close()
        for link in idle:
            link.close()
        for running in busy:
            running.end()
        deadline = time.monotonic() + _STOP_SECONDS
        for keeper in self._keepers.values():
            keeper.thread.join(max(0.0, deadline - time.monotonic()))
        self._threads.shutdown(wait=False)
        self._listener.remove()

    def _key(self, task_settings: bytes) -> bytes:
        known, key = self._hashed
        if known is not task_settings:
            key = hashlib.sha256(task_settings).digest()
            self._hashed = task_settings, key
        return key

    def _call(
        self, function: str, key: bytes, task_settings: bytes, payload: bytes, description: str
    ) -> bytes:
        """Gives an assignment to the next task that comes free, and returns the answer.

        Raises:
            PipelineError: the function has raised, or the task has ended.
        """
        link = self._take(description)
        if link.facts.error:
            self._discard(link)
            raise PipelineError(f"{description}: {link.facts.error}")
        try:
            answer = link.call(function, key, task_settings, payload)
        except PipelineError as error:
            self._take_answer(link)
            raise PipelineError(f"{description}: {error}") from None
        except BaseException as error:
            self._discard(link)  # its answer is unread
            if isinstance(error, TaskEnded):
                raise self._reason(link, description) from None
            raise
        self._take_answer(link)
        return answer

    def _take_answer(self, link: TaskLink) -> None:
        self._last_answer = self._last_of_assignment = next(self._answers)
        self._release(link)

    def _reason(self, link: TaskLink | SharedLink, description: str) -> PipelineError:
        """Returns the error of a task that has ended, as Spark tells it."""
        keeper = self._keepers[link.number]
        with self._changed:
            self._changed.wait_for(
                # Spark itself may run a task again in the same job: local[N,FAILURES].
                lambda: (
                    self._has_ended(link)
                    or (keeper.link is not None and keeper.link.job != link.job)
                    or self._closing.is_set()
                ),
                _REASON_SECONDS,
            )
            error = keeper.error if self._has_ended(link) else None
        if self._closing.is_set():
            return PipelineError(f"{description}: Spark was stopped")
        if error is None:
            return PipelineError(f"{description}: task {link.number}: its connection has ended")
        return type(error)(f"{description}: {error}")

    # -- the tasks ---------------------------------------------------------------------------------

    def _take(self, description: str) -> TaskLink:
        """Waits for a task without an assignment. Raises as :meth:`_wait_for`."""
        return self._wait_for(self._take_idle, description)

    def _take_idle(self) -> TaskLink | None:
        while self._idle:
            link = self._idle.pop()
            if link.facts.error or link.is_alive:
                self._busy.add(link)
                return link
            link.close()
        return None

    def _wait_for(self, find: Callable[[], _Link | None], description: str) -> _Link:
        """Waits until a connection to a task is found.

        Args:
            find: called with the lock.

        Raises:
            PipelineError: a worker cannot work, which is told once and then tried again. Or Spark was
                given up or stopped, or the wait was cancelled.
        """
        with self._changed:
            cancels = self._cancels
            while not self._closing.is_set():
                self._raise_failure(description)
                if cancels != self._cancels:
                    raise PipelineError(f"{description}: cancelled")
                if (found := find()) is not None:
                    return found
                self._changed.wait()
        raise PipelineError(f"{description}: Spark was stopped")

    def _raise_failure(self, description: str) -> None:
        """Raises why Spark was given up. Or raises why a keeper has given up, and starts the keeper again.

        The caller holds the lock.
        """
        if self._dead:
            raise SparkLost(f"{description}: {self._dead}")
        if self._failure is not None:
            failure, self._failure = self._failure, None
            self._keep_all()
            raise type(failure)(f"{description}: {failure}")

    def _release(self, link: TaskLink) -> None:
        """Lets a task take assignments, or tell its error. A task whose job has ended is closed."""
        with self._changed:
            self._busy.discard(link)
            is_told = bool(link.facts.error)
            is_usable = not self._closing.is_set() and (is_told or not self._has_ended(link))
            if not self._has_ended(link):
                self._keepers[link.number].unready_since = math.inf
            if is_usable:
                self._idle.append(link)
                self._changed.notify_all()  # some threads wait for another change
        if not is_usable:
            link.close()

    def _has_ended(self, link: TaskLink | SharedLink) -> bool:
        """Whether Spark has ended the job of a task. Its worker may live on for a moment."""
        return self._keepers[link.number].ended_jobs >= link.job

    def _discard(self, link: TaskLink) -> None:
        with self._changed:
            self._busy.discard(link)
        link.close()

    def _keep_all(self) -> None:
        """Starts the keepers that do not run. The caller holds the lock."""
        for number in range(1, self._count + 1):
            keeper = self._keepers.setdefault(number, _Keeper(number))
            if not keeper.runs:
                keeper.runs = True
                keeper.unready_since = time.monotonic()
                keeper.thread = threading.Thread(
                    target=self._keep, args=(keeper,), name=f"spark-task-{number}", daemon=True
                )
                keeper.thread.start()

    def _group_of(self, number: int) -> str:
        return f"{self._group} task {number}"

    def _keep(self, keeper: _Keeper) -> None:
        """Runs a task, and replaces the task whenever it has ended."""
        deaths, answer, assignment, pause = 0, self._last_answer, 0, _SHORTEST_PAUSE
        code = str(shipping.code_directory())
        call = staying(self._listener.address, self._listener.secret, keeper.number, code, self._deployment)
        while not self._closing.is_set():
            error = self._job(keeper.number, call)
            deaths = deaths + 1 if answer == self._last_answer else 0
            answer = self._last_answer
            is_last = deaths == _MOST_DEATHS or not self._alive()
            with self._changed:
                keeper.error = error
                keeper.ended_jobs += 1
                keeper.unready_since = time.monotonic()
                # The last task that cannot work stays, so that its error is told.
                told = keeper.link if keeper.link and keeper.link.facts.error else None
                ended = [link for link in self._idle if self._has_ended(link) and link is not told]
                self._idle = [link for link in self._idle if link not in ended]
                if is_last:
                    keeper.runs = False
                    self._failure = error or PipelineError(f"task {keeper.number} ended {deaths} times")
                self._changed.notify_all()
            for link in ended:
                link.close()
            if is_last:
                return
            if assignment != self._last_of_assignment:
                assignment, pause = self._last_of_assignment, _SHORTEST_PAUSE
            self._closing.wait(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _unready(self) -> dict[str, bool]:
        """Returns the job groups whose task is not ready for events, and whether the task is late."""
        now, found = time.monotonic(), {}
        with self._changed:
            for one in self._keepers.values():
                if one.runs and one.unready_since < now:
                    limit = READY_SECONDS if one.ended_jobs else _FIRST_READY_SECONDS
                    found[self._group_of(one.number)] = now - one.unready_since > limit
        return found

    def _give_up(self, reason: str) -> None:
        """Lets all calls fail, and replaces no task any more."""
        self._give_up_spark(reason)  # first, because who gets an error asks whether Spark lives
        with self._changed:
            self._dead = reason
            self._changed.notify_all()

    def _job(self, number: int, call: Callable[..., object]) -> PipelineError | None:
        """Runs the job of one task to its end. Returns the reason of a failure."""
        try:
            with self._explain(""):
                what = f"{self._application}: task {number} of {self._count} takes events"
                self._context.setJobGroup(self._group_of(number), what)
                self._context.setLocalProperty(POOL, "connector")
                self._context.parallelize([0], 1).mapPartitions(call).collect()
        except PipelineError as error:
            text = str(error)
            if text.startswith(_ONLY_TASK):
                text = f"task {number}: {text.removeprefix(_ONLY_TASK)}"
            return type(error)(text)
        return None

    def _greet(self, connection: Connection, hello: dict[str, Any]) -> None:
        """Takes a new task, once its check is good."""
        number = hello.pop("number")
        keeper = self._keepers[number]
        if hello.get("shared"):
            self._greet_shared(connection, keeper)
            return
        with self._changed:
            link = TaskLink(connection, WorkerAnswer(**hello, answer=b""), number, keeper.ended_jobs + 1)
            keeper.link = link
            self._busy.add(link)
            self._changed.notify_all()
        if not link.facts.error and self._check is not None and not self._closing.is_set():
            function, task_settings = self._check
            try:
                link.call(function, self._key(task_settings), task_settings, b"")
                self._last_answer = next(self._answers)
            except PipelineError as error:
                link.facts = link.facts._replace(error=str(error))
            except TaskEnded:
                self._discard(link)
                return
        self._release(link)

    def _greet_shared(self, connection: Connection, keeper: _Keeper) -> None:
        def forget() -> None:
            with self._changed:
                if link in self._shared:
                    self._shared.remove(link)

        with self._changed:
            link = SharedLink(connection, keeper.number, keeper.ended_jobs + 1, forget)
            self._shared.append(link)
            self._changed.notify_all()
        if self._closing.is_set():
            link.end()


class _Keeper:
    """The state of the thread that keeps one task.

    Args:
        number: of the task, from 1.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.runs = False
        self.thread = threading.Thread()
        self.link: TaskLink | None = None
        """The connection to the present task. While no task is connected, that to the last one."""
        self.ended_jobs = 0
        self.unready_since = math.inf
        """Since when no task is ready for events, in monotonic seconds. Infinite = a task is, or works."""
        self.error: PipelineError | None = None
        """Why the last job has ended. None = its task has ended by itself."""
