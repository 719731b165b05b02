"""Connections with limits that uvicorn does not have.

uvicorn and h11 bound the size of a head, the time between two calls and the time for the last answers.
uvicorn has no limit for the time of a head, and none for a client that does not read its answers. Its
``limit_concurrency`` refuses calls and not connections, without a problem document and ``Retry-After``. So
these limits stand in front of uvicorn's protocol. Whoever asks for the health has places that no other
connection can take.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, ClassVar, Final

import h11
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from connector.http.addresses import client_of
from connector.http.answers import SECONDS_TO_RETRY
from connector.http.guard import HEADERS
from connector.http.problems import HttpProblem
from connector.http.throttled_log import ThrottledLog
from connector.open_files import raise_open_files

_log = logging.getLogger("connector.http")

HEAD_BYTES: Final = 64 << 10
"""The largest head that is read, in bytes."""
KEEP_ALIVE_SECONDS: Final = 15
_SPARE: Final = 100
"""Connections beside those of requests: pages, and answers that refuse a call."""
_OTHERS: Final = 50
"""Connections that no single client can have, so that others are served."""
_HEALTH_PLACES: Final = 8
"""Connections beyond all limits, for one call of ``/health`` or ``/metrics`` each."""
_LEAST: Final = 16 << 10
"""Bytes that a client has to read in the time for writing, while an answer waits."""
_RESERVED: Final = 400
"""Open files that are left to other parts of this process."""
_TOO_MANY: Final = HttpProblem(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "too many connections (http.max_requests); nothing was sent, so that it may be repeated",
    {**HEADERS, "Retry-After": SECONDS_TO_RETRY},
)
_ABOUT_HEALTH: Final = ("/health/", "/metrics")


def most_connections(max_requests: int) -> int:
    """Returns how many connections may be open: enough for all requests, within the limit of open files.

    Raises the limit of open files where the system allows it.
    """
    wanted = max_requests + _SPARE
    allowed = raise_open_files(wanted + _RESERVED)
    if allowed < wanted + _RESERVED:
        wanted = max(_SPARE, allowed - _RESERVED)
        _log.warning(
            "fewer connections than http.max_requests wants: ulimit -n is too low",
            extra={"connections": wanted, "open_files": allowed},
        )
    return wanted


@dataclass(slots=True)
class _Limits:
    """What all connections of a server share.

    Args:
        most: open connections.
        head_seconds: time for the head of a call.
        write_seconds: time in which a client reads :data:`_LEAST` bytes of an answer.
        refused: counts the connections above the limit.
        open: open connections now.
        health: connections above the limit, the oldest first.
    """

    most: int
    head_seconds: float
    write_seconds: float
    refused: ThrottledLog
    open: set[_Connection] = field(default_factory=set)
    health: dict[_Connection, None] = field(default_factory=dict)

    def have_room(self, client: str) -> bool:
        """Whether a client may open one more connection."""
        own = sum(one.client == client for one in self.open)
        return len(self.open) < self.most and own < self.most - _OTHERS

    def remove(self, connection: _Connection) -> None:
        self.open.discard(connection)
        self.health.pop(connection, None)


_CONNECTION: Final = "connector.connection"
"""The key in the state of a call (ASGI) that holds its connection."""


class _Connection(asyncio.Protocol):
    """A connection of a client. Hands everything on to the protocol of uvicorn, unless a limit is passed."""

    limits: ClassVar[_Limits]

    def __init__(self, *, app_state: dict[str, Any], **arguments: Any) -> None:
        self._inner: asyncio.Protocol = H11Protocol(app_state={**app_state, _CONNECTION: self}, **arguments)
        self._transport: asyncio.Transport | None = None
        self.client = ""
        """Who has opened the connection."""
        self.is_for_health = False
        """Whether the connection is above the limit, and so takes one call about the health only."""
        self._calls = 0
        self._timer: asyncio.TimerHandle | None = None
        self.given = 0
        """Bytes of answers."""
        self._read, self._has_waited = 0, False
        """Bytes that the client had read, and whether more waited for it, at the last look."""
        self._look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.client = client_of(transport.get_extra_info("peername"))
        self._inner.connection_made(transport)
        if self.limits.have_room(self.client):
            self.limits.open.add(self)
        elif not self._take_health_place():
            self._refuse()
            return
        self._start_timer()
        self._look_at_reader()

    def _take_health_place(self) -> bool:
        """Takes a place for the health. Ends the oldest connection there that has not called."""
        places = self.limits.health
        if len(places) >= _HEALTH_PLACES:
            silent = next((one for one in places if one._calls == 0), None)
            if silent is None:
                return False
            silent._refuse()
        self.is_for_health = True
        places[self] = None
        return True

    def _refuse(self) -> None:
        self.limits.remove(self)
        self.limits.refused.add()
        assert self._transport is not None
        if not self._transport.is_closing():
            self._transport.write(_as_bytes(_TOO_MANY))
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        try:
            self._inner.data_received(data)
        except h11.LocalProtocolError:
            self._close()  # a mistake in the middle of another answer
        self._start_timer()

    def eof_received(self) -> None:
        self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        if self._look is not None:
            self._look.cancel()
        self.limits.remove(self)
        self._inner.connection_lost(exc)

    def start_call(self) -> None:
        """Is called when a head is complete."""
        self._calls += 1
        self._stop_timer()

    def end_call(self) -> None:
        """Is called when a call is answered."""
        self._calls -= 1

    def _start_timer(self) -> None:
        """Closes the connection if a head is not complete in time, and no call is being answered."""
        if self._calls == 0 and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self.limits.head_seconds, self._close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_at_reader(self) -> None:
        """Ends the connection if its client has read too little of what has waited since the last look."""
        assert self._transport is not None
        waiting = self._transport.get_write_buffer_size()
        read = self.given - waiting
        if waiting and self._has_waited and read - self._read < _LEAST:
            self._transport.abort()
            return
        self._read, self._has_waited = read, waiting > 0
        loop = asyncio.get_running_loop()
        self._look = loop.call_later(self.limits.write_seconds, self._look_at_reader)

    def _close(self) -> None:
        assert self._transport is not None
        self._transport.close()

    @classmethod
    def close_all(cls) -> None:
        """Closes what is still open. uvicorn forgets a connection that comes while it stops."""
        for connection in [*cls.limits.open, *cls.limits.health]:
            connection._close()


def _as_bytes(problem: HttpProblem) -> bytes:
    """Returns an answer that no application has made."""
    response = problem.response()
    headers = {**response.headers, "Connection": "close"}
    lines = [f"HTTP/1.1 {problem.status} {problem.status.phrase}", *map(": ".join, headers.items()), "", ""]
    return "\r\n".join(lines).encode() + bytes(response.body)


def connection_class(most: int, head_seconds: float, write_seconds: float) -> type[_Connection]:
    """Returns a class of connections with limits, for an application in :func:`with_connections`."""
    refused = ThrottledLog("connections are refused", {"open": most})
    limits = _Limits(most, head_seconds, write_seconds, refused)
    return type("LimitedConnection", (_Connection,), {"limits": limits})


def with_connections(application: ASGIApp) -> ASGIApp:
    """Returns an application that tells the connection of each call when the call starts and ends."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        connection: _Connection = scope["state"][_CONNECTION]
        connection.start_call()

        async def send_counted(message: Message) -> None:
            connection.given += len(message.get("body", b""))
            await send(message)

        called = application
        if connection.is_for_health:
            scope["headers"].append((b"connection", b"close"))  # uvicorn closes after the answer
            if not scope["path"].startswith(_ABOUT_HEALTH):
                connection.limits.refused.add()
                called = _TOO_MANY.response()
        try:
            await called(scope, receive, send_counted)
        finally:
            connection.end_call()

    return call
