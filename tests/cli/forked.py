"""A command that runs beside the test. Its output is a pipe, its errors are a file."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.forked_command import ForkedProcess

_REPOSITORY = Path(__file__).resolve().parents[2]


class Command(ForkedProcess):
    """A started command in a directory.

    Args:
        directory: the working directory of the command.
        arguments: of the command.
        environment: variables that it has besides the path.
    """

    def __init__(self, directory: Path, *arguments: str, **environment: str) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115, __exit__ closes both
        reading, writing = os.pipe()
        self.stdout = open(reading, encoding="utf-8")  # noqa: SIM115
        try:
            super().__init__(
                arguments,
                cwd=directory,
                env={"PATH": os.environ["PATH"], "PYTHONPATH": str(_REPOSITORY), **environment},
                stdout=writing,
                stderr=self._errors.fileno(),
            )
        finally:
            os.close(writing)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the command if it still runs."""
        self.send_signal(signal.SIGKILL)
        self.wait()
        self.stdout.close()
        self._errors.close()

    def end(self, timeout: float = 60.0) -> tuple[str, str]:
        """Waits until the command has ended. Returns what it has written to each stream."""
        with self:
            self.wait(timeout)
            output = self.stdout.read()
            self._errors.seek(0)
            return output, self._errors.read().decode()
