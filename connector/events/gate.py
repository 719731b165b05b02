"""Gates: a job that is ready before it may begin.

Spark needs some milliseconds to bring a job to its workers. In a drain the next job is therefore
sent while the one before it still runs, and its tasks wait at a gate, a file beside the journals. When
the outcomes of the first job are known the driver opens the gate, or refuses: then the tasks return
at once and have touched nothing.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Final

_GO: Final = b"go\n"
_NO: Final = b"no\n"
_FIRST_PAUSE: Final = 0.0003
_LONGEST_PAUSE: Final = 0.0006


class Gate:
    """The driver's side of a gate. For any thread; the first answer counts.

    Args:
        path: of the file; its directory exists.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.opened_at: float | None = None
        """Monotonic seconds; None while it is closed, or refused."""

    def open(self) -> bool:
        """Lets the tasks begin; False where they have been refused already.

        Raises:
            OSError: it cannot be written; the tasks still wait.
        """
        if not self._answer(_GO):
            return self.opened_at is not None
        self.opened_at = time.monotonic()
        return True

    def refuse(self) -> None:
        """Sends the tasks home, unless they may have begun already. Never raises: what cannot be written
        here cannot be read there either, and the driver's end ends the tasks."""
        with contextlib.suppress(OSError):
            self._answer(_NO)

    def _answer(self, text: bytes) -> bool:
        """Writes the answer in one step; False where there is one."""
        temporary = f"{self.path}.{text[:2].decode()}"
        with open(temporary, "wb") as file:
            file.write(text)
        try:
            os.link(temporary, self.path)
        except FileExistsError:
            return False
        finally:
            os.unlink(temporary)
        return True


def pass_gate(path: str) -> bool:
    """A task's side: waits for the answer; True where it may begin.

    Also False when the directory is gone (somebody has taken over from the driver) or the process
    that started this one has ended.
    """
    parent = os.getppid()
    pause = _FIRST_PAUSE
    while True:
        try:
            with open(path, "rb") as file:
                return file.read() == _GO
        except FileNotFoundError:
            if os.getppid() != parent or not os.path.isdir(os.path.dirname(path)):
                return False
        time.sleep(pause)
        pause = min(pause * 1.2, _LONGEST_PAUSE)
