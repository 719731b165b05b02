"""The server: starts and stops in a thread of the adapter's process."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import threading
import time
from collections.abc import Callable
from typing import Final

import uvicorn

from connector.broker.requesting import Requests
from connector.businessobjects.definition import Definitions
from connector.config.http_model import Address, Http
from connector.errors import ConnectorError
from connector.http.application import make_application
from connector.http.calls import Calls
from connector.http.connections import KEEP_ALIVE_SECONDS, limited, most_connections
from connector.http.tokens import Tokens

_log = logging.getLogger("connector.http")

_TELL: Final = 1.0
"""Seconds that requests that are not sent any more may take to say so."""
_FINISH: Final = 2.0
"""Seconds that answers may take to be written once nothing is waited for any more."""


class ListenError(ConnectorError):
    """The server cannot listen where it should; says why, and what to do."""


class Server:
    """Requests over HTTP.

    Args:
        settings: the section ``http``.
        requests: makes the requests. They are refused when this stops, and not stopped here.
        definitions: the business objects.
        use_defaults: whether an attribute's default satisfies ``required``; for the description.
    """

    def __init__(
        self, settings: Http, requests: Requests, definitions: Definitions, use_defaults: bool = False
    ) -> None:
        self._settings = settings
        self._requests = requests
        self._definitions = definitions
        self._use_defaults = use_defaults
        self._address = settings.listen
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: uvicorn.Server | None = None
        self._calls: Calls | None = None
        self._ready = threading.Event()

    @property
    def url(self) -> str:
        """Where it is reached, ``http://127.0.0.1:8080``; once started, with the port that it has taken."""
        return f"http://{self._address}"

    def start(self) -> None:
        """Listens; returns once calls are answered.

        Raises:
            ListenError: the address is taken, or not this machine's.
        """
        listening = _listen(self._settings.listen)
        self._address = Address(self._settings.listen.host, listening.getsockname()[1])
        _divert_log()
        self._thread = threading.Thread(
            target=self._run, args=(listening,), name="connector-http", daemon=True
        )
        self._thread.start()
        self._ready.wait()
        if self._server is None:
            raise ListenError(f"http.listen: {self._address}: the server has ended at once; the log says why")
        _log.info("requests are taken over HTTP", extra={"url": self.url, "docs": f"{self.url}/docs"})

    def stop(self, timeout: float = 0.0) -> None:
        """Takes no more requests, and sends none of those that wait for their turn; they are told so.

        Those in flight have ``timeout`` seconds, then they are answered with 503. Repeatable, and from any
        thread.
        """
        thread, loop, calls, server = self._thread, self._loop, self._calls, self._server
        if thread is None or loop is None or calls is None or server is None:
            return
        deadline = time.monotonic() + max(timeout, _TELL)
        self._requests.refuse()
        self._call(calls.refuse)
        while calls.under_way and time.monotonic() < deadline and thread.is_alive():
            time.sleep(0.01)
        self._call(calls.cut)
        server.should_exit = True
        thread.join(_FINISH)
        if thread.is_alive():
            server.force_exit = True
            thread.join(_FINISH)
        self._thread = None

    def _call(self, what: Callable[[], object]) -> None:
        """Calls something in the thread of the server."""
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(what)
        except RuntimeError:
            pass  # it has ended

    def _run(self, listening: socket.socket) -> None:
        try:
            asyncio.run(self._serve(listening))
        except Exception:
            _log.exception("the HTTP server has ended in a way that it should not")
        finally:
            self._ready.set()
            listening.close()

    async def _serve(self, listening: socket.socket) -> None:
        settings = self._settings
        tokens = Tokens(settings.tokens)
        calls = Calls(settings, tokens, self._requests, self._definitions)
        config = uvicorn.Config(
            make_application(settings, tokens, calls, self._definitions, self._use_defaults),
            http=limited(most_connections(settings.max_requests)),
            ws="none",
            lifespan="off",
            loop="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=2048,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=1,
        )
        self._loop, self._calls, self._server = asyncio.get_running_loop(), calls, uvicorn.Server(config)
        self._loop.call_soon(self._ready.set)
        try:
            await self._server.serve([listening])
        finally:
            calls.close()


def _listen(address: Address) -> socket.socket:
    try:
        (family, kind, protocol, _, place), *_ = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ListenError(
            f"http.listen: {address}: {error.strerror or error}; choose another address"
        ) from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen(2048)
    except OSError as error:
        listening.close()
        raise ListenError(f"http.listen: {address}: {_remedy(error, address)}") from None
    return listening


def _remedy(error: OSError, address: Address) -> str:
    if error.errno == errno.EADDRINUSE:
        who = f"ss -ltnp 'sport = :{address.port}' says which"
        return f"another program listens there: end it ({who}), or choose another port"
    if error.errno == errno.EADDRNOTAVAIL:
        return "no address of this machine; choose one of its own, or 0.0.0.0 for all"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "this user may not listen there; choose a port from 1024 up"
    return error.strerror or str(error)


def _divert_log() -> None:
    """What uvicorn has to say goes to the connector's log; what clients do wrong, as debug lines."""
    theirs = logging.getLogger("uvicorn.error")
    theirs.handlers[:] = [_Diversion()]
    theirs.propagate = False
    theirs.setLevel(logging.DEBUG if _log.isEnabledFor(logging.DEBUG) else logging.WARNING)


class _Diversion(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        level = record.levelno if record.levelno >= logging.ERROR else logging.DEBUG
        _log.log(level, "uvicorn", extra={"text": record.getMessage().strip()}, exc_info=record.exc_info)
