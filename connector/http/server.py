"""The server. Starts and stops in a thread of the adapter's process."""

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

from connector.businessobjects.definition import Definitions
from connector.config.http_model import CONSOLE, PAGES, SHORT, Address, Http
from connector.errors import ConnectorError
from connector.http.actions import ACTIONS
from connector.http.application import make_application
from connector.http.calls import RequestCalls, ServerLimits
from connector.http.connections import (
    HEAD_BYTES,
    KEEP_ALIVE_SECONDS,
    connection_class,
    most_connections,
    with_connections,
)
from connector.http.event_calls import EventCalls
from connector.http.event_openapi import add_events
from connector.http.health import HealthPages
from connector.http.openapi import describe_requests
from connector.http.operator_calls import OperatorCalls
from connector.http.pages import Pages
from connector.http.timeout_limits import milliseconds
from connector.http.tokens import Tokens
from connector.requests.contract import Requests
from connector.service.observer import Observer

_log = logging.getLogger("connector.http")

_REFUSAL_SECONDS: Final = 1.0
"""Seconds that the refusals of requests that wait to be sent may take."""
_FINISH_SECONDS: Final = 2.0
"""Seconds that writing the last answers may take."""

_UNSENT_BYTES: Final = 128 << 10
"""Bytes of a connection that the system takes before they are sent."""


class ListenError(ConnectorError):
    """The server cannot listen at the configured address. The text gives the reason and the remedy."""


class Server:
    """The HTTP server.

    Args:
        requests: makes the requests. :meth:`stop` refuses further requests, but does not stop the client.
        use_defaults: whether an attribute's default satisfies ``required``, for the description.
        observer: of the adapter, for health, metrics and control. None = requests only.
    """

    def __init__(
        self,
        settings: Http,
        requests: Requests,
        definitions: Definitions,
        use_defaults: bool = False,
        limits: ServerLimits = ServerLimits(),  # noqa: B008, immutable
        observer: Observer | None = None,
    ) -> None:
        self._observer = observer
        self._settings = settings
        self._requests = requests
        self._definitions = definitions
        self._use_defaults = use_defaults
        self._limits = limits
        self._address = settings.listen
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: uvicorn.Server | None = None
        self._calls: RequestCalls | None = None
        self._ready = threading.Event()

    @property
    def url(self) -> str:
        """The URL of the server, ``http://127.0.0.1:8080``. After the start with the actual port."""
        return f"http://{self._address}"

    def start(self) -> None:
        """Listens. Returns when calls are answered.

        Raises:
            ListenError: the address is taken, or does not belong to this machine.
        """
        listening = _listen(self._settings.listen)
        self._address = Address(self._settings.listen.host, listening.getsockname()[1])
        _divert_log()
        for number, entry in enumerate(self._settings.tokens, 1):
            if len(entry.token) < SHORT:
                fields = {"token": entry.name or f"token {number}", "characters": len(entry.token)}
                _log.warning("a token can be guessed", extra=fields)
        self._thread = threading.Thread(
            target=self._run, args=(listening,), name="connector-http", daemon=True
        )
        self._thread.start()
        self._ready.wait()
        if self._server is None:
            raise ListenError(f"http.listen: {self._address}: the server has ended at once; the log says why")
        _log.info("the HTTP server accepts requests", extra={"url": self.url, "docs": f"{self.url}/docs"})

    def stop(self, timeout: float = 0.0) -> None:
        """Refuses all further requests, and also those that wait to be sent.

        Requests that are sent have ``timeout`` seconds. Then their calls are answered with 503. Any thread
        may call this method, more than once.
        """
        thread, loop, calls, server = self._thread, self._loop, self._calls, self._server
        if thread is None or loop is None or calls is None or server is None:
            return
        deadline = time.monotonic() + max(timeout, _REFUSAL_SECONDS)
        self._requests.refuse()
        self._call(calls.places.refuse)
        while calls.places.under_way and time.monotonic() < deadline and thread.is_alive():
            time.sleep(0.01)
        self._call(calls.places.cut.set)
        server.should_exit = True
        thread.join(_FINISH_SECONDS)
        if thread.is_alive():
            server.force_exit = True
            thread.join(_FINISH_SECONDS)
        self._thread = None

    def _call(self, what: Callable[[], object]) -> None:
        """Calls ``what`` in the thread of the server."""
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(what)
        except RuntimeError:
            pass  # the server has ended

    def _run(self, listening: socket.socket) -> None:
        try:
            asyncio.run(self._serve(listening))
        except Exception:
            _log.exception("the HTTP server has ended with an unexpected exception")
        finally:
            self._ready.set()
            listening.close()

    async def _serve(self, listening: socket.socket) -> None:
        settings = self._settings
        tokens = Tokens(settings.tokens)
        calls = RequestCalls(
            settings, tokens, self._requests, self._definitions, self._limits, self._observer
        )
        description = describe_requests(
            self._definitions, tokens.needed, milliseconds(settings.max_timeout), self._use_defaults
        )
        more, closes = [], [calls.close]
        if self._observer is not None:
            health = HealthPages(self._observer, tokens)
            closes.append(health.close)
            more = [
                *health.routes(),
                *OperatorCalls(self._observer, tokens, ACTIONS).routes(),
            ]
            if settings.events:
                events = EventCalls(settings, tokens, self._observer, self._limits, calls.places)
                closes.append(events.close)
                add_events(description, events.queues().values(), with_tokens=tokens.needed)
                more += events.routes()
            if settings.console:
                console: type[Pages] = PAGES.load(CONSOLE)
                more += console(settings, self._observer, tokens, calls, description).routes()
        application = make_application(settings, calls, description, more)
        connections = connection_class(
            most_connections(settings.max_requests), self._limits.head_seconds, self._limits.write_seconds
        )
        config = uvicorn.Config(
            with_connections(application),
            http=connections,
            ws="none",
            lifespan="off",
            loop="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=HEAD_BYTES,
        )
        self._loop, self._calls, self._server = asyncio.get_running_loop(), calls, uvicorn.Server(config)
        self._loop.call_soon(self._ready.set)
        try:
            await self._server.serve([listening])
        finally:
            connections.close_all()
            for close in closes:
                close()


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
        # What a client has not read waits in this process, where it is seen, and not in the system.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
        listening.bind(place)
        listening.listen(2048)
    except OSError as error:
        listening.close()
        raise ListenError(f"http.listen: {address}: {_remedy(error, address)}") from None
    return listening


def _remedy(error: OSError, address: Address) -> str:
    if error.errno == errno.EADDRINUSE:
        who = f"ss -ltnp 'sport = :{address.port}' says which"
        port = f"listen: {address.host}:${{HTTP_PORT:{address.port}}}"
        return (
            f"another program listens there: end it ({who}), or choose another port. Each instance of an "
            f"adapter on a machine needs its own, such as {port} with HTTP_PORT in its environment"
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return "no address of this machine; choose one of its own, or 0.0.0.0 for all"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "this user may not listen there; choose a port from 1024 up"
    return error.strerror or str(error)


def _divert_log() -> None:
    """Sends uvicorn's log to the connector's log. Mistakes of clients become debug lines."""
    theirs = logging.getLogger("uvicorn.error")
    theirs.handlers[:] = [_Diversion()]
    theirs.propagate = False
    theirs.setLevel(logging.DEBUG if _log.isEnabledFor(logging.DEBUG) else logging.WARNING)


class _Diversion(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        level = record.levelno if record.levelno >= logging.ERROR else logging.DEBUG
        _log.log(level, "uvicorn", extra={"text": record.getMessage().strip()}, exc_info=record.exc_info)
