"""A reader who follows a page: its files and blocks, and a terminal to type its commands into."""

from __future__ import annotations

import functools
import os
import re
import selectors
import shlex
import shutil
import signal
import subprocess
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from typer import Typer
from typer.main import get_command

from connector.cli.app import _application

_FENCE = re.compile(r"^( *)```(\w*)([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_SECONDS = 900.0
"""How long a command may take. One page runs a whole suite."""
_MARK = "\x1e"


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Args:
        language: the first word of the info string: ``sh``, ``console``, ``yaml`` ...
        words: the others: ``file=NAME``, ``part``, ``terminal``, ``not-run=REASON``, ``with=PROGRAM``.
        text: what stands in it.
    """

    language: str
    words: tuple[str, ...]
    text: str

    @property
    def file(self) -> str:
        """The file that the block is; empty where it is none."""
        return self._value("file=")

    @property
    def part(self) -> bool:
        """Whether it is only a part of that file."""
        return "part" in self.words

    @property
    def not_run(self) -> str:
        """Why its commands cannot run in a test; empty where they can."""
        return self._value("not-run=")

    @property
    def program(self) -> str:
        """The program that its commands need and not every machine has; empty where they need none."""
        return self._value("with=")

    @property
    def runs_here(self) -> bool:
        """Whether its commands can run on this machine."""
        return not self.not_run and (not self.program or shutil.which(self.program) is not None)

    @property
    def terminal(self) -> bool:
        """Whether its command stays in a terminal of its own until Ctrl-C."""
        return "terminal" in self.words

    def commands(self) -> list[tuple[str, str | None]]:
        """Its commands, each with the output that the page shows: None in an ``sh`` block."""
        if self.language == "console":
            parts = re.split(r"^\$ ", self.text, flags=re.MULTILINE)
            assert not parts[0].strip(), "a console block begins with a command"
            return [_typed(part) for part in parts[1:]]
        return [(command, None) for command in _split(self.text)] if self.language == "sh" else []

    def _value(self, prefix: str) -> str:
        return next((word.removeprefix(prefix) for word in self.words if word.startswith(prefix)), "")


def blocks(page: Path) -> list[Block]:
    return [
        Block(language, tuple(rest.split()), textwrap.dedent(text))
        for _, language, rest, text in _FENCE.findall(page.read_text("utf-8"))
    ]


def without_blocks(page: Path) -> str:
    return _FENCE.sub("", page.read_text("utf-8"))


def _typed(text: str) -> tuple[str, str]:
    """The command that a text begins with, and what follows it."""
    lines = text.splitlines(keepends=True)
    length = next(n for n in range(1, len(lines) + 1) if _ends(lines[n - 1], "".join(lines[:n])))
    return "".join(lines[:length]).rstrip("\n"), "".join(lines[length:])


def _split(script: str) -> list[str]:
    """The commands of a script: a command goes on until the shell can read it."""
    commands, command = [], ""
    for line in script.splitlines():
        command += line + "\n"
        if _ends(line, command):
            if re.search(r"^\s*[^#\s]", command, re.MULTILINE):
                commands.append(command.strip())
            command = ""
    assert not command, f"the shell cannot read this: {command}"
    return commands


@functools.cache
def _ends(line: str, command: str) -> bool:
    """Whether a line is the last one of its command."""
    if re.search(r"(\\|\||&&)$", line):
        return False
    return subprocess.run(["bash", "-n", "-c", command], capture_output=True, check=False).returncode == 0


class Terminal:
    """A shell in a directory. Every command of a pipeline counts for its status.

    Args:
        directory: where it begins.
        environment: its variables.
    """

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self._directory = directory
        self._environment = environment
        self._background: dict[str, str] = {}
        self._foreground: list[tuple[str, subprocess.Popen[bytes], Path]] = []
        self._shell = self._start("bash", "--norc", "--noprofile", "-o", "pipefail", stdin=subprocess.PIPE)

    def run(self, command: str) -> tuple[int, str]:
        """Runs a command as the next one of the shell; returns its status and what it has written."""
        assert self._shell.stdin is not None
        line = f"eval {shlex.quote(command)} </dev/null; status=$? job=$!\n"
        line += f"printf '{_MARK}%s %s\\n' $status $job; (exit $status)\n"
        self._shell.stdin.write(line.encode())
        self._shell.stdin.flush()
        output, _, end = self._read(command).partition(_MARK)
        status, job = end.split(" ")
        if job.strip():
            self._background.setdefault(job.strip(), command)
        return int(status), output

    def run_beside(self, command: str) -> None:
        """Runs a command in another terminal, until :meth:`close`."""
        log = self._directory / f".terminal-{len(self._foreground)}"
        with log.open("wb") as stdout:
            process = self._start("bash", "-c", f"exec {command}", stdin=subprocess.DEVNULL, stdout=stdout)
        self._foreground.append((command, process, log))

    def close(self) -> list[str]:
        """Presses Ctrl-C in other terminals, waits for all; returns the commands whose status was not 0."""
        failed = []
        for command, process, log in self._foreground:
            os.killpg(process.pid, signal.SIGINT)
            if process.wait(_SECONDS):
                failed.append(f"{command}: status {process.returncode}\n{log.read_text()}")
        for job, command in self._background.items():
            status, output = self.run(f"wait {job}")
            if status:
                failed.append(f"{command}: status {status}\n{output}")
        return failed

    def kill(self) -> None:
        """Ends whatever still runs."""
        for process in (self._shell, *(process for _, process, _ in self._foreground)):
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()

    def _start(
        self, *command: str, stdin: int, stdout: int | IO[bytes] = subprocess.PIPE
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            cwd=self._directory,
            env=self._environment,
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def _read(self, command: str) -> str:
        """What comes up to the mark and its line."""
        assert self._shell.stdout is not None
        found, deadline = b"", time.monotonic() + _SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(self._shell.stdout, selectors.EVENT_READ)
            while not re.search(rb"\x1e[^\n]*\n$", found):
                if not selector.select(deadline - time.monotonic()):
                    raise TimeoutError(f"{command}: no end in {_SECONDS:.0f} s\n{found.decode()}")
                part = os.read(self._shell.stdout.fileno(), 1 << 16)
                assert part, f"{command}: has ended the shell\n{found.decode()}"
                found += part
        return found.decode()


@functools.cache
def options_of(verb: str) -> set[str]:
    """The options of a verb of ``connector``, as they are typed."""
    application = _application([verb])
    assert isinstance(application, Typer)
    command = get_command(application).commands[verb]  # type: ignore[attr-defined]
    return {option for parameter in command.params for option in parameter.opts}
