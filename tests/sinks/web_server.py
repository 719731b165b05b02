"""A real HTTP server on the loopback that does what a test says, and remembers what it was asked."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

Answer = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Asked:
    """A request as it has arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: tuple[str, int]
    time: float = field(default_factory=time.time)


def answer(status: int, body: bytes = b"", **headers: str) -> Answer:
    """An answer with a status. ``Retry_After`` is the header Retry-After."""

    def write(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return write


def raw(data: bytes) -> Answer:
    """An answer of these bytes."""

    def write(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(data)

    return write


def drip(start: bytes, ended: threading.Event) -> Answer:
    """An answer that begins so and goes on byte by byte, until the event is set."""

    def write(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(start)
        while start and not ended.wait(0.02):
            handler.wfile.write(b"x")
        ended.wait()

    return write


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    """No answer: the connection ends."""
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


class WebServer:
    """The server.

    Args:
        tls: None = the server has no TLS.

    Attributes:
        asked: the requests so far.
        answers: for the next requests, one after the other. Then each gets 204.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[Asked] = []
        self.answers: list[Answer] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                outer.asked.append(Asked(self.command, self.path, headers, body, self.client_address))
                write = outer.answers.pop(0) if outer.answers else answer(204)
                try:
                    write(self)
                except OSError:
                    self.close_connection = True  # the client has gone

            do_POST = do_PUT = do_PATCH = do_DELETE = do_GET = _serve

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.url = f"http{'s' * (tls is not None)}://127.0.0.1:{self._server.server_address[1]}"
        if tls is not None:
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()

    def again(self) -> WebServer:
        """Forgets what it was asked and told, for a row of a table."""
        self.asked.clear()
        self.answers.clear()
        return self

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[WebServer]:
    server = WebServer(tls)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def server() -> Iterator[WebServer]:
    with serving() as made:
        yield made
