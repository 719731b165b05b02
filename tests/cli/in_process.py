"""Commands in the process of the test. One of their own takes most of its time to load modules."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from unittest import mock

from connector.cli import app


def call(
    directory: Path, *arguments: str, data: str = "", environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command as if it had been typed in a directory.

    Args:
        directory: the working directory of the command.
        arguments: of the command.
        data: its standard input.
        environment: variables that it has besides those of the test.
    """
    with contextlib.ExitStack() as files:
        streams = [_stream(files, text) for text in (data, "", "")]
        return _call(directory, arguments, streams, environment or {})


def _stream(files: contextlib.ExitStack, text: str) -> io.TextIOWrapper:
    """Returns a file that processes of the command write to, too."""
    file = tempfile.TemporaryFile("w+b")  # noqa: SIM115  # the stack closes it
    files.push(file)
    file.write(text.encode())
    file.seek(0)
    return io.TextIOWrapper(file, "utf-8")


def _call(
    directory: Path,
    arguments: Sequence[str],
    streams: Sequence[io.TextIOWrapper],
    environment: Mapping[str, str],
) -> subprocess.CompletedProcess[str]:
    with (
        contextlib.chdir(directory),
        mock.patch.dict(os.environ, environment),
        mock.patch.multiple(sys, stdin=streams[0], stdout=streams[1], stderr=streams[2]),
    ):
        status = app.run(arguments)
        output, errors = (_text(stream) for stream in streams[1:])
    return subprocess.CompletedProcess(arguments, status, output, errors)


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()
