"""The deadline of a process that converts, in memory that the process shares with its watcher."""

from __future__ import annotations

import mmap
import os
import struct
import time
from typing import Final, NamedTuple

from connector.limits import stages
from connector.limits.memory import WorkerMemory

_DEADLINE: Final = struct.Struct("<d")
_WHOLE: Final = struct.Struct("<d")
_TEXT: Final = struct.Struct("<?H")
_FACTS_AT: Final = _DEADLINE.size + _WHOLE.size
_TEXT_AT: Final = _FACTS_AT + _TEXT.size
_MAX_TEXT: Final = 1000
_LEAVE_SECONDS: Final = 60.0
"""Longer than the end of a process takes. At a deadline the watcher would end the process itself."""


class Deadline(NamedTuple):
    """The deadline of a runner.

    Args:
        at: in monotonic seconds. 0 = there is none.
        converts: whether a conversion runs, and no call of a sink.
        text: the stage of the conversion, or the name of the subscription that is being called.
        whole: seconds that the whole conversion may take.
    """

    at: float
    converts: bool
    text: str
    whole: float


class RunnerControl:
    """The deadline of a runner's current work, in memory that the runner shares with its watcher."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, mmap.PAGESIZE)
        self.stopping = False
        self.memory: WorkerMemory | None = None
        """Of the runner, set in the runner itself."""

    @property
    def is_converting(self) -> bool:
        """Whether a conversion runs, or has ended the runner. For the watcher."""
        deadline = self.read()
        return deadline.at != 0.0 and deadline.converts

    @property
    def is_full(self) -> bool:
        """Whether a new runner should go on with the next event, because this runner keeps much memory."""
        return self.memory is not None and self.memory.is_full()

    def arm(self, seconds: float, what: str) -> None:
        self._write(what, converts=False)
        _DEADLINE.pack_into(self._shared, 0, time.monotonic() + seconds)

    def limit(self, seconds: float, whole: float) -> None:
        """Arms the deadline of a conversion. The conversion tells its stages.

        Args:
            seconds: left of ``whole``, the seconds of the whole conversion.
        """
        _WHOLE.pack_into(self._shared, _DEADLINE.size, whole)
        self.note("")
        stages.tell(self.note)
        _DEADLINE.pack_into(self._shared, 0, time.monotonic() + seconds)

    def note(self, stage: str) -> None:
        """Notes the stage of the conversion."""
        self._write(stage, converts=True)

    def disarm(self) -> None:
        stages.tell(None)
        _DEADLINE.pack_into(self._shared, 0, 0.0)

    def read(self) -> Deadline:
        """Returns the deadline. For the watcher."""
        (at,) = _DEADLINE.unpack_from(self._shared, 0)
        (whole,) = _WHOLE.unpack_from(self._shared, _DEADLINE.size)
        converts, length = _TEXT.unpack_from(self._shared, _FACTS_AT)
        text = self._shared[_TEXT_AT : _TEXT_AT + length].decode("utf-8", "replace")
        return Deadline(at, converts, text, whole)

    def give_up(self) -> None:
        """Ends the runner, as the kernel would. The event at work runs again in a new runner."""
        self.limit(_LEAVE_SECONDS, _LEAVE_SECONDS)  # the watcher reads that a conversion has ended the runner
        os._exit(1)

    def _write(self, text: str, *, converts: bool) -> None:
        data = text.encode("utf-8", "replace")[:_MAX_TEXT]
        _TEXT.pack_into(self._shared, _FACTS_AT, converts, len(data))
        self._shared[_TEXT_AT : _TEXT_AT + len(data)] = data
