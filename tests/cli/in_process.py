"""Commands in the process of the test. One of their own takes most of its time to load modules."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from connector.cli import app
from tests.forked_command import PipedProcess

REPOSITORY = Path(__file__).resolve().parents[2]


class Answer(subprocess.CompletedProcess[str]):
    """What a command has answered."""

    @property
    def document(self) -> Any:
        return json.loads(self.stdout)

    @property
    def documents(self) -> list[Any]:
        """The lines of a command that went well, each of which is a document."""
        assert self.returncode == 0, self.stderr
        return [json.loads(line) for line in self.stdout.splitlines()]

    @property
    def bodies(self) -> list[str]:
        return [document["body"] for document in self.documents]

    def refusal(self) -> str:
        """The errors of a wrong call, which has no other answer."""
        return self._errors(2)

    def failure(self) -> str:
        """The errors of a command that has failed without an answer."""
        return self._errors(1)

    def _errors(self, status: int) -> str:
        assert (self.returncode, self.stdout) == (status, ""), self.stderr
        assert "Traceback" not in self.stderr
        return self.stderr


class Commands:
    """Commands that are typed in one directory.

    Args:
        directory: where they are typed.
        words: what each of them begins with.
    """

    def __init__(self, directory: Path, *words: str) -> None:
        self.directory = directory
        self._words = words

    def __call__(
        self, *arguments: str, data: str = "", environment: Mapping[str, str] | None = None
    ) -> Answer:
        return call(self.directory, *self._words, *arguments, data=data, environment=environment)

    def again(self) -> Commands:
        """The same commands in a copy of the directory as it is now, for a row of a table."""
        place = Path(tempfile.mkdtemp(dir=self.directory.parent)) / self.directory.name
        return Commands(shutil.copytree(self.directory, place), *self._words)

    def write(self, file: str, content: str | bytes) -> Path:
        """Writes a file below the directory and returns its path."""
        path = self.directory / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def read(self, file: str) -> str:
        return (self.directory / file).read_text("utf-8")

    def change(self, file: str, old: str, new: str) -> None:
        text = self.read(file)
        assert old in text
        self.write(file, text.replace(old, new))

    def process(
        self, *arguments: str, data: bytes = b"", **environment: str
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs a command to its end in an interpreter of its own."""
        return subprocess.run(
            [sys.executable, "-m", "connector.cli", *self._words, *arguments],
            cwd=self.directory,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), **environment},
            input=data,
            capture_output=True,
            timeout=300,
            check=False,
        )

    def start(self, *arguments: str, stderr: int | None = None, **environment: str) -> PipedProcess:
        """Starts a command in a process of its own."""
        return PipedProcess(*self._words, *arguments, cwd=self.directory, stderr=stderr, **environment)

    def numbers(self, destination: str) -> dict[str, Any]:
        """The line of ``queues --json`` about one destination."""
        return next(one for one in self("queues", "--json").documents if one["destination"] == destination)

    def send(self, destination: str, body: str, *options: str) -> str:
        """Sends a message and returns its id."""
        answer = self("send", destination, *options, data=body)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout.strip()


def call(
    directory: Path, *arguments: str, data: str = "", environment: Mapping[str, str] | None = None
) -> Answer:
    """Runs a command as if it had been typed in a directory.

    Args:
        directory: the working directory of the command.
        arguments: of the command.
        data: its standard input.
        environment: variables that it has besides those of the test.
    """
    with contextlib.ExitStack() as files:
        stdin, stdout, stderr = (_stream(files, text) for text in (data, "", ""))
        with (
            contextlib.chdir(directory),
            mock.patch.dict(os.environ, environment or {}),
            mock.patch.multiple(sys, stdin=stdin, stdout=stdout, stderr=stderr),
        ):
            status = app.run(arguments)
            for stream in (stdout, stderr):
                stream.flush()
                stream.seek(0)
            return Answer(arguments, status, stdout.read(), stderr.read())


def _stream(files: contextlib.ExitStack, text: str) -> io.TextIOWrapper:
    """Returns a file that processes of the command write to, too."""
    file = tempfile.TemporaryFile("w+b")  # noqa: SIM115  # the stack closes it
    files.push(file)
    file.write(text.encode())
    file.seek(0)
    return io.TextIOWrapper(file, "utf-8")
