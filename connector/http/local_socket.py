"""Answers the commands of an operator on the machine of the service, at a socket beside ``adapter.yaml``.

The documents are those of the calls below ``/control`` that only read. Who may open the socket may read them,
as the files of the deployment. So a command needs neither a token nor the configuration.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import socketserver
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from connector import own_files
from connector.local_sockets import FOLDER, SUFFIX, at_open_directory, connect
from connector.service.observer import Observer
from connector.text.json_text import to_json

_log = logging.getLogger("connector.adapter")

_MODE: Final = 0o660
_SECONDS: Final = 10.0
"""Until a client that sends nothing is cut off."""


class LocalSocket:
    """The socket of one instance.

    Args:
        file: adapter.yaml. A command that asks about another file gets no answer.
        instance: names the socket.
    """

    def __init__(self, file: Path, instance: str, observer: Observer) -> None:
        self._file = file
        self._instance = instance
        self._observer = observer
        self._server: _Server | None = None

    def start(self) -> None:
        """Listens, in threads of its own. A service whose directory takes no socket goes on without it."""
        folder = self._file.resolve().parent / FOLDER
        try:
            own_files.make_directories(folder)
            with at_open_directory(folder, f"{_file_name(self._instance)}{SUFFIX}") as path:
                if _is_taken(path):
                    raise FileExistsError(0, "another service listens there")
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
                server = _Server(path, self._file, self._observer)
                os.chmod(path, _MODE)
        except OSError as error:
            extra = {"directory": str(folder), "reason": error.strerror}
            _log.warning("commands cannot ask this service, and read everything themselves", extra=extra)
            return
        self._server = server
        threading.Thread(target=server.serve_forever, name="connector-local", daemon=True).start()

    def stop(self) -> None:
        """Ends the socket. Repeatable."""
        if self._server is None:
            return
        server, self._server = self._server, None
        folder = self._file.resolve().parent / FOLDER
        with contextlib.suppress(OSError):
            os.unlink(folder / f"{_file_name(self._instance)}{SUFFIX}")
        server.shutdown()
        server.server_close()


def _file_name(instance: str) -> str:
    return re.sub(r"[/\0]", "_", instance).lstrip(".")[:200] or "_"


def _is_taken(path: str) -> bool:
    try:
        connect(path, _SECONDS).close()
    except OSError:
        return False
    return True


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 16

    def __init__(self, path: str, file: Path, observer: Observer) -> None:
        self.file = file.resolve()
        self.observer = observer
        super().__init__(path, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is nobody's trouble."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _SECONDS

    def do_GET(self) -> None:
        """Answers a call that only reads."""
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        if query.pop("config", str(self.server.file)) != str(self.server.file):
            self._answer(HTTPStatus.NOT_FOUND, {"detail": f"this service is that of {self.server.file}"})
            return
        from connector.http.actions import ACTIONS  # few services are asked
        from connector.http.operator_calls import ControlCall, do
        from connector.http.problems import HttpProblem

        for action in ACTIONS:
            found = _match(action.path, unquote(parts.path)) if action.method == "GET" else None
            if found is None:
                continue
            self.server.observer.look_again()  # the answer is of now
            try:
                document = do(action, ControlCall("", found, query, {}, self.server.observer))
            except HttpProblem as problem:
                self._answer(problem.status, {"detail": problem.detail})
            else:
                self._answer(HTTPStatus.OK, document)
            return
        self._answer(HTTPStatus.NOT_FOUND, {"detail": f"there is no {parts.path}"})

    def _answer(self, status: int, document: Any) -> None:
        body = to_json(document)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        """Returns the name of the client: a local socket has none."""
        return "local"

    def log_message(self, format: str, *arguments: Any) -> None:
        """Logs nothing: a call that reads changes nothing."""


def _match(path: str, asked: str) -> Mapping[str, str] | None:
    """Returns the variable parts of a path. None = another path is asked for."""
    fixed, brace, name = path.partition("{")
    if not brace:
        return {} if path == asked else None
    value = asked.removeprefix(fixed)
    return {name.rstrip("}").partition(":")[0]: value} if value and value != asked else None
