"""The process of the Java that runs Spark: its start, its output, and its end.

Three things keep Java from outliving the adapter. First, the standard input of Java is a pipe that only this
process holds. When this process dies in any way, Spark's gateway reads the end of the file and exits. Second,
:meth:`JavaProcess.end` waits for the exit of Java, and kills Java by pid after a time limit. Third, Java runs
in a process session of its own, so that Ctrl-C in a terminal reaches the adapter alone. The adapter then
finishes its events while Java still works.
"""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from connector.errors import PipelineError
from connector.java import JAVA_LINE
from connector.spark.idle_workers import without_idle_workers

_IGNORING_HANGUPS = ("/bin/sh", "-c", 'trap "" HUP; exec "$@"', "sh")
"""Starts Java with SIGHUP ignored, because Java would end at SIGHUP.

``exec`` keeps that setting and the pid.
"""

_LINES_TOLD: Final = 12
_LINES_KEPT = 200
_FRAME: Final = re.compile(r"\s*(at \S+\(|\.\.\. [0-9]+ more)")
"""A line of a Java stack trace, which does not help users of Spark."""
_LAST_WORDS = ("Traceback (most recent call last):", "PySpark daemon failed")
"""Complaints of an idle Python worker when Java ends, which help nobody."""


class JavaProcess:
    """A Java that runs.

    Raises:
        PipelineError: Java cannot be run.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], directory: Path, log: Path
    ) -> None:
        self._log = log
        self._output: Callable[[str], None] | None = None
        self._has_workers = False
        self._is_ending = False
        self._lines: deque[str] = deque(maxlen=_LINES_KEPT)
        try:
            self._process = subprocess.Popen(
                [*_IGNORING_HANGUPS, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=directory,
                start_new_session=True,
                preexec_fn=_unblock_signals(),
            )
        except OSError as error:
            raise PipelineError(f"cannot start {command[0]} in {directory}: {error}") from error
        self._reader = threading.Thread(target=self._read, name="spark-output", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def hand_on(self, output: Callable[[str], None] | None) -> None:
        """Calls ``output`` with each further line, which workers have printed. None = lines are dropped.

        Earlier output is Java's own chatter.
        """
        self._output = output
        self._has_workers = True

    @property
    def signal(self) -> int:
        """The signal that has ended Java. 0 = none."""
        status = self._process.poll()
        if status is None:
            return 0
        return max(0, -status if status < 0 else status - 128)  # Java answers SIGTERM with status 143

    @property
    def ending(self) -> str:
        """How Java has ended, in words."""
        status = self._process.poll()
        if status is None:
            return "does not answer"
        return f"was ended by signal {self.signal}" if self.signal else f"ended with status {status}"

    def explain(self, what: str) -> str:
        """Returns the text, followed by the last lines that give the reason."""
        tail = self.tail()
        return f"{what}. Its last lines:\n{tail}" if tail else what

    def tail(self) -> str:
        """Returns the last lines of Spark's log and of the JVM's output, or an empty text.

        The frames of Java's stack traces are left out, because the exceptions name the mistake.
        """
        try:
            log = self._log.read_text("utf-8", "replace").splitlines()
        except OSError:
            log = []
        printed = [line for line in list(self._lines) if not line.startswith(("WARNING:", "Picked up "))]
        if self._has_workers:  # and they say nothing about the end of Java
            printed = [line for line in printed if JAVA_LINE.match(line)]
        kept = ([line for line in part if not _FRAME.match(line)][-_LINES_TOLD:] for part in (log, printed))
        return "\n".join(line for part in kept for line in part)

    def wait(self, seconds: float) -> bool:
        """Waits for the exit of Java. Returns whether Java has exited."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """Kills Java at once. :meth:`end` must still be called to clean up."""
        if self.runs:
            self._process.kill()

    def end(self, seconds: float) -> None:
        """Ends Java and waits for the exit: end of input, after ``seconds`` SIGTERM, then SIGKILL."""
        self._is_ending = True
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except OSError:
            pass
        for bound, end in (
            (seconds, self._process.terminate),
            (3.0, self._process.kill),
            (5.0, lambda: None),
        ):
            if self.wait(bound):
                break
            end()

    def join_output(self, seconds: float = 3.0) -> None:
        """Waits for the end of the output. The workers, which write to it, live a moment longer than Java."""
        self._reader.join(seconds)
        if self._process.stdout is not None and not self._reader.is_alive():
            self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        lines = (raw.decode("utf-8", "replace").rstrip("\n") for raw in self._process.stdout)
        for line in without_idle_workers(lines):
            self._lines.append(line)
            if self._is_ending and line.startswith(_LAST_WORDS):
                self._output = None
            if (output := self._output) is not None:
                try:
                    output(line)
                except Exception:  # a closed terminal must not stop the reading: the pipe would fill up
                    self._output = None


def _unblock_signals() -> Callable[[], object] | None:
    """Returns what unblocks the signals in a child, if this process blocks signals.

    ``run`` does so at its start, when it has only one thread. Workers of a Java with blocked signals would
    live on after the stop.
    """
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return partial(signal.pthread_sigmask, signal.SIG_UNBLOCK, blocked) if blocked else None
