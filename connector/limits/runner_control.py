"""The deadlines of a process that converts, in memory that the process shares with its watcher."""

from __future__ import annotations

import mmap
import os
import struct
import threading
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
GIVEN_UP: Final = -1.0
"""The deadline of a conversion that needs more memory than its runner has."""
_LEAVE_SECONDS: Final = 60.0
"""Longer than the end of a process takes. At a deadline the watcher would end the process itself."""
_SLOT: Final = 1024
"""Bytes of the memory of one slot."""
_HEADER: Final = 64


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


class RunnerState:
    """Whether a runner stops, and its memory."""

    def __init__(self) -> None:
        self.stopping = False
        self.memory: WorkerMemory | None = None
        """Of the runner, set in the runner itself."""


class SharedState(RunnerState):
    """The state of a runner that has several slots, and the memory that it shares with its watcher.

    Args:
        slots: assignments that may run at the same time.
    """

    def __init__(self, slots: int) -> None:
        super().__init__()
        self._shared = memoryview(mmap.mmap(-1, _HEADER + slots * _SLOT))

    def slot(self, number: int) -> SlotControl:
        """Returns the control of a slot."""
        begin = _HEADER + number * _SLOT
        return SlotControl(self._shared[begin : begin + _SLOT], self)

    def leave(self) -> None:
        """Lets the runner begin no further event. For the runner and its watcher."""
        self._shared[0] = 1

    @property
    def is_leaving(self) -> bool:
        """Whether the runner begins no further event."""
        return bool(self._shared[0])


class RunnerControl:
    """The deadline of a runner's current work, in memory that the runner shares with its watcher."""

    def __init__(self, shared: memoryview | None = None, state: RunnerState | None = None) -> None:
        self._shared = memoryview(mmap.mmap(-1, mmap.PAGESIZE)) if shared is None else shared
        self.state = RunnerState() if state is None else state

    @property
    def is_converting(self) -> bool:
        """Whether a conversion runs, or has ended the runner. For the watcher."""
        deadline = self.read()
        return deadline.at != 0.0 and deadline.converts

    @property
    def stopping(self) -> bool:
        """Whether no further event begins."""
        return self.state.stopping

    @property
    def is_leaving(self) -> bool:
        """Whether the runner ends because of another slot."""
        return False

    @property
    def is_full(self) -> bool:
        """Whether a new runner should go on with the next event, because this runner keeps much memory."""
        return self.state.memory is not None and self.state.memory.is_full()

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
        text = bytes(self._shared[_TEXT_AT : _TEXT_AT + length]).decode("utf-8", "replace")
        return Deadline(at, converts, text, whole)

    def give_up(self) -> None:
        """Ends the runner, as the kernel would. The event at work runs again in a new runner."""
        self.limit(_LEAVE_SECONDS, _LEAVE_SECONDS)  # the watcher reads that a conversion has ended the runner
        os._exit(1)

    def _write(self, text: str, *, converts: bool) -> None:
        data = text.encode("utf-8", "replace")[:_MAX_TEXT]
        _TEXT.pack_into(self._shared, _FACTS_AT, converts, len(data))
        self._shared[_TEXT_AT : _TEXT_AT + len(data)] = data


class SlotControl(RunnerControl):
    """The control of one slot of a runner that runs several assignments at the same time.

    Args:
        shared: the memory of the slot.
        state: of the runner.
    """

    def __init__(self, shared: memoryview, state: SharedState) -> None:
        super().__init__(shared, state)
        self._runner = state

    @property
    def is_leaving(self) -> bool:
        return self._runner.is_leaving

    @property
    def stopping(self) -> bool:
        return self.state.stopping or self._runner.is_leaving

    @property
    def is_full(self) -> bool:
        return self._runner.is_leaving or super().is_full

    def give_up(self) -> None:
        """Lets the other slots end their events. The watcher then ends the runner."""
        self.note("")
        _DEADLINE.pack_into(self._shared, 0, GIVEN_UP)
        self._runner.leave()
        while True:
            threading.Event().wait()
