"""The process of a runner, as the worker sees the process."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from typing import Final

from connector.events.run.runner import close
from connector.events.run.task_answer import TaskAnswer, overdue_call
from connector.limits.process_end import how_it_ended
from connector.limits.runner_control import GIVEN_UP, Deadline

POLL_MS: Final = 200
"""Milliseconds between two looks at the deadlines of a runner."""
_LEAVE_MS: Final = 3000


class RunnerEnded(Exception):
    """Raised if the runner ended before its answer.

    Args:
        answer: of its task. ``ended`` says why.
    """

    def __init__(self, answer: TaskAnswer) -> None:
        super().__init__(answer.ended)
        self.answer = answer


def overdue_answer(deadline: Deadline) -> TaskAnswer:
    """Returns the answer of a task whose call or conversion has passed its deadline."""
    if deadline.at == GIVEN_UP:
        return TaskAnswer(ended=how_it_ended(1 << 8))
    if deadline.converts:
        stage = deadline.text or "choice of the data handler"
        why = f"{stage}: did not end within {deadline.whole:g} s (convert_timeout)"
        return TaskAnswer(ended=why, exceeded=True)
    return overdue_call(deadline.text)


class RunnerProcess:
    """A child process that converts and publishes.

    Args:
        follow: runs in the child, with a pipe of commands, a pipe for answers, and the pid of this process.
    """

    def __init__(self, follow: Callable[[int, int, int], None]) -> None:
        command_read, self.commands = os.pipe()
        self.answers, answer_write = os.pipe()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                follow(command_read, answer_write, parent)
                status = 0
            finally:
                os._exit(status)
        os.close(command_read)
        os.close(answer_write)
        self._ended = os.pidfd_open(self.pid)

    def poll(self) -> select.poll:
        """Returns what reports an answer, or the end of the process."""
        poll = select.poll()
        poll.register(self.answers, select.POLLIN)
        poll.register(self._ended, select.POLLIN)
        return poll

    def has_ended(self, ready: dict[int, int]) -> bool:
        """Whether :meth:`poll` has reported the end of the process."""
        return self._ended in ready

    def kill(self) -> str:
        """Kills the process now. Returns a text about its end."""
        self._signal_end()
        return self.how_it_ended()

    def stop(self) -> None:
        """Lets the process end by itself, and kills the process after a few seconds."""
        close({self.commands})
        self.commands = -1
        self.how_it_ended()

    def _signal_end(self) -> None:
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def how_it_ended(self) -> str:
        """Waits for the end of the process, and returns a text about that end. Kills a process that stays."""
        poll = select.poll()
        poll.register(self._ended, select.POLLIN)
        if not poll.poll(_LEAVE_MS):
            self._signal_end()
        try:
            _, status = os.waitpid(self.pid, 0)
        except ChildProcessError:
            status = 0
        close({self.commands, self.answers, self._ended})
        return how_it_ended(status)
