"""Commands in the process of the test. One of their own takes most of its time to load modules."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Mapping
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
    streams = [io.TextIOWrapper(io.BytesIO(text), "utf-8") for text in (data.encode(), b"", b"")]
    with (
        contextlib.chdir(directory),
        mock.patch.dict(os.environ, environment or {}),
        mock.patch.multiple(sys, stdin=streams[0], stdout=streams[1], stderr=streams[2]),
    ):
        status = app.run(arguments)
        output, errors = (_text(stream) for stream in streams[1:])
    return subprocess.CompletedProcess(arguments, status, output, errors)


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()
