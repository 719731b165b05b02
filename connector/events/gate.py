"""Gates: a job that is ready before it may begin.

Spark needs some milliseconds to bring a job to its workers, and the outcomes of one to the driver. In
a drain the next job is therefore sent while the one before it still runs, and its tasks wait at a gate,
a file beside the journals. It is opened by whoever knows first that they may begin: the tasks
themselves, when the journals of the job before it say that it has come to its end with every event
delivered; else the driver, when it has the outcomes. Or the driver refuses: then the tasks return at
once and have touched nothing. The first answer counts.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from typing import Final

from connector.state.journal import has_ended

_GO: Final = b"go\n"
_NO: Final = b"no\n"
_FIRST_PAUSE: Final = 0.0003
_LONGEST_PAUSE: Final = 0.0006


class Gate:
    """The driver's side of a gate. For any thread.

    Args:
        path: of the file; its directory exists.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def open(self) -> bool:
        """Lets the tasks begin; False where they have been refused already.

        Raises:
            OSError: it cannot be written; the tasks still wait.
        """
        return _answer(self.path, _GO) == _GO

    def refuse(self) -> bool:
        """Sends the tasks home; False where they may have begun already. Never raises: what cannot be
        written here cannot be read there either, and the driver's end ends the tasks."""
        with contextlib.suppress(OSError):
            return _answer(self.path, _NO) == _NO
        return True

    def opened_at(self) -> float | None:
        """When it was opened, in seconds since 1970; None while it is closed, or refused."""
        try:
            with open(self.path, "rb") as file:
                return os.fstat(file.fileno()).st_mtime if file.read() == _GO else None
        except OSError:
            return None


def pass_gate(path: str, after: Sequence[str] = (), is_stopping: Callable[[], bool] = bool) -> bool:
    """A task's side: waits for the answer; True where it may begin.

    Also False when the directory is gone (somebody has taken over from the driver), the process
    that started this one has ended, or this one is asked to stop.

    Args:
        path: of the gate.
        after: journals of all tasks of the job before, where their end is an answer.
        is_stopping: whether to give up.
    """
    parent = os.getppid()
    pause = _FIRST_PAUSE
    while True:
        try:
            with open(path, "rb") as file:
                return file.read() == _GO
        except FileNotFoundError:
            if is_stopping() or os.getppid() != parent or not os.path.isdir(os.path.dirname(path)):
                return False
        if after and all(has_ended(journal) for journal in after):
            with contextlib.suppress(FileNotFoundError):  # the directory is gone: looked at above
                return _answer(path, _GO, str(os.getpid())) == _GO
        time.sleep(pause)
        pause = min(pause * 1.2, _LONGEST_PAUSE)


def _answer(path: str, text: bytes, writer: str = "driver") -> bytes:
    """Writes the answer in one step, where there is none; returns the one that counts."""
    temporary = f"{path}.{text[:2].decode()}.{writer}"
    with open(temporary, "wb") as file:
        file.write(text)
    try:
        os.link(temporary, path)
    except FileExistsError:
        with open(path, "rb") as file:
            return file.read()
    finally:
        os.unlink(temporary)
    return text
