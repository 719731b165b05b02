"""Asks the services of a deployment on this machine, so that a command need not read it itself."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from connector.local_sockets import FOLDER, SUFFIX, at_open_directory, connect

_SECONDS: Final = 10.0


def ask(config: str, path: str, **query: str | None) -> Any:
    """Returns the answer of the first service that has one. None = no service can answer."""
    return next(ask_all(config, path, **query), None)


def ask_all(config: str, path: str, **query: str | None) -> Iterator[Any]:
    """Yields the answers of all services.

    Args:
        config: adapter.yaml, which is not read.
        path: below ``/control``.
        query: None = the parameter is not given.
    """
    if not os.path.isfile(config):
        return
    file = Path(config).resolve()
    folder = file.parent / FOLDER
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(SUFFIX))
    except OSError:
        return
    given = {name: text for name, text in query.items() if text is not None}
    target = f"{quote(path)}?{urlencode({**given, 'config': str(file)})}"
    for name in names:
        answer = _ask(folder, name, target)
        if answer is not None:
            yield answer


def _ask(folder: Path, name: str, target: str) -> Any:
    """Returns the answer of one service. None = nobody listens, or the command has to find out itself."""
    try:
        with at_open_directory(folder, name) as path, connect(path, _SECONDS) as asking:
            asking.sendall(f"GET {target} HTTP/1.0\r\n\r\n".encode("ascii"))
            with asking.makefile("rb") as answer:
                status = answer.readline().split()
                while answer.readline().strip():
                    pass
                body = answer.read()
    except OSError:
        return None
    if len(status) < 2 or status[1] != b"200":
        return None
    try:
        return json.loads(body)
    except ValueError:  # the service has ended in between
        return None
