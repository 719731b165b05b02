"""The stages of an event between its claim and its first delivery.

Each stage runs code or follows rules of the deployment on the data of a stranger. So each stage may raise
any exception, hang, end its process or use up the memory. :data:`STAGES` lists the stages. A conversion
enters a stage with :class:`Stage`, and the watcher of the conversion learns which stage runs.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final

STAGES: Final = {
    "rule": "rule",
    "name_handler": "name handler",
    "data_handler": "data handler",
    "schema": "schema",
    "dynamic_metaobject": "dynamic meta-object",
    "when": "when of",
    "map": "map",
    "subscription": "subscription",
    "template": "template",
    "reply": "reply of",
}
"""From each stage to the word for it in a reason. The order is that of an event."""

Note = Callable[[str], None]
"""Called with the text of a stage when a conversion enters or leaves the stage."""


class _Thread(threading.local):
    """The conversion of a thread."""

    def __init__(self) -> None:
        self.note: Note | None = None
        self.path = ""


_thread: Final = _Thread()


def on_entry(stage: str) -> None:
    """Called whenever a conversion enters a stage. A test may replace this function, and fail here."""


class Stage:
    """A stage of the conversion that runs in this thread. A context manager.

    Args:
        stage: a key of :data:`STAGES`.
        name: of the rule, handler, schema, subscription or template. A stage within another stage is shown
            behind that one.
    """

    __slots__ = ("_before", "_name", "_stage")

    def __init__(self, stage: str, name: str) -> None:
        self._stage = stage
        self._name = name

    def __enter__(self) -> None:
        self._before = before = _thread.path
        path = f"{STAGES[self._stage]} {self._name}"
        _thread.path = path = f"{before}, {path}" if before else path
        if _thread.note is not None:
            _thread.note(path)
        on_entry(self._stage)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _thread.path = self._before
        if _thread.note is not None:
            _thread.note(self._before)


def tell(note: Note | None) -> None:
    """Makes the conversions of this thread tell their stages to ``note``. None = to nobody."""
    _thread.note, _thread.path = note, ""


def is_interrupt(error: BaseException) -> bool:
    """Whether an exception is Ctrl-C of a person, and no exception of code of the deployment."""
    return isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) != signal.SIG_IGN
