"""A process for each set of jars. It runs commands, adapters and programs with such a client library.

A process has one Java, with one set of jars. The process of the tests has those of Qpid JMS.
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, TextIO

from connector.config.loading import load
from connector.errors import ProviderError
from connector.status import ReturnCode
from connector.testing.deployment import InProcessAdapter
from tests.cli.in_process import call
from tests.forked_command import PipedProcess

_ANSWER: Final = "answer: "


def work(directory: Path) -> tuple[ReturnCode, str]:
    """Lets an adapter without Spark empty its inputs. Returns the code of the last poll, and its reason."""
    try:
        with InProcessAdapter(load(directory / "adapter.yaml", in_process=True), parallelism=2) as adapter:
            report = adapter.drain()
    except ProviderError as error:  # of a takeover
        return ReturnCode.APPRESPONSETIMEOUT, str(error)
    return report.code, report.reason


class OtherJava:
    """A process with one set of jars.

    Args:
        errors: file for what the client library says.
    """

    _running: Final[dict[str, OtherJava]] = {}

    @classmethod
    def of(cls, lock: str, directory: Path) -> OtherJava:
        """Returns the process for the jars of a lock. The first one writes its errors into the directory."""
        if lock not in cls._running:
            cls._running[lock] = cls(directory / "other-java")
        return cls._running[lock]

    def __init__(self, errors: Path) -> None:
        self._errors = errors
        with errors.open("w") as file:
            script = f"from {__name__} import serve\nserve()"
            self._process = PipedProcess(script=script, stderr=file.fileno())

    def call(self, directory: Path, *arguments: str, body: str = "") -> subprocess.CompletedProcess[str]:
        """Runs a command to its end."""
        return subprocess.CompletedProcess(arguments, *self._ask("call", directory, arguments, body))

    def work(self, directory: Path) -> tuple[ReturnCode, str]:
        """See :func:`work`."""
        code, reason = self._ask("work", directory)
        return ReturnCode(code), reason

    def execute(self, directory: Path, program: str) -> str:
        """Runs a program of Python. Returns what it has printed."""
        (output,) = self._ask("execute", directory, program)
        return str(output)

    def _ask(self, what: str, directory: Path, *values: object) -> Any:
        self._process.stdin.write(json.dumps([what, str(directory), *values]) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith(_ANSWER):
                return json.loads(line.removeprefix(_ANSWER))
        raise AssertionError(f"the process has ended: {self._errors.read_text()[-3000:]}")


def serve(requests: TextIO = sys.stdin, answers: TextIO = sys.stdout) -> None:
    """Answers requests until the tests end."""
    for line in requests:
        what, directory, *values = json.loads(line)
        answer: list[object]
        if what == "call":
            arguments, body = values
            done = call(Path(directory), *arguments, data=body)
            answer = [done.returncode, done.stdout, done.stderr]
        elif what == "work":
            answer = list(work(Path(directory)))
        else:
            output = io.StringIO()
            with contextlib.chdir(directory), contextlib.redirect_stdout(output):
                exec(values[0], {})
            answer = [output.getvalue()]
        answers.write(f"{_ANSWER}{json.dumps(answer)}\n")
        answers.flush()
