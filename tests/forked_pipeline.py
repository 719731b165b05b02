"""A pipeline without Spark whose workers are processes, as with Spark.

A process with a Java virtual machine must not fork, because a fork gets none of its threads. Neither must a
process in which a thread may use SQLite: a fork inherits what SQLite knows of its locks, and waits for locks
that nobody holds. So the workers are forked before the adapter connects.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Final

from connector.errors import ConnectorError, PipelineError
from connector.spark.worker import calls
from connector.testing.pipeline import InProcessPipeline

_PR_SET_PDEATHSIG: Final = 1


class ForkedPipeline(InProcessPipeline):
    """See :class:`~connector.testing.pipeline.InProcessPipeline`. A task runs in one of the workers."""

    _workers: ProcessPoolExecutor | None = None

    def launch(self) -> None:
        """Forks the workers, unless they were forked before.

        A worker that is forked behind the connection would hold the lock of its client.
        """
        if self._workers is not None:
            return
        self._workers = ProcessPoolExecutor(
            self.parallelism, multiprocessing.get_context("fork"), _begin, (self._deployment,)
        )
        self._workers.submit(os.getpid).result()  # forks all

    def start(self) -> None:
        super().start()
        if self._workers is None:
            self.launch()

    def stop(self) -> None:
        super().stop()
        workers, self._workers = self._workers, None
        if workers is not None:
            workers.shutdown()

    def run(
        self,
        function: str,
        task_settings: bytes,
        payloads: Sequence[bytes],
        description: str,
        *,
        shares: bool = False,
    ) -> list[bytes]:
        chunks = [payloads] if shares else [[payload] for payload in payloads]
        return self._side_by_side(function, task_settings, chunks, shares=shares)

    def _call(self, function: str, task_settings: bytes, payload: bytes) -> bytes:
        return self._side_by_side(function, task_settings, [[payload]])[0]

    def _side_by_side(
        self,
        function: str,
        task_settings: bytes,
        chunks: Sequence[Sequence[bytes]],
        *,
        shares: bool = False,
    ) -> list[bytes]:
        workers = self._workers
        if workers is None:
            raise PipelineError("the pipeline has been stopped")
        try:
            calls = [
                workers.submit(_work, function, task_settings, self._deployment, chunk, shares)
                for chunk in chunks
            ]
            return [answer for call in calls for answer in call.result()]
        except BrokenProcessPool as error:
            self.alive = False
            raise PipelineError("a worker has ended") from error


def _begin(deployment: str) -> None:
    """Makes of a fork what a worker of Spark is."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.chdir(deployment)


def _work(
    function: str, task_settings: bytes, deployment: str, payloads: Sequence[bytes], shares: bool
) -> list[bytes]:
    try:
        return [*calls(function, task_settings, deployment, payloads, shares=shares)]
    except (ConnectorError, OSError) as error:
        raise PipelineError(str(error)) from None
