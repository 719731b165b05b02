"""Connections with two limits that uvicorn does not have.

uvicorn and h11 bound the size of a head, the time between two calls and the time for the last answers.
uvicorn has no limit for the time of a head. Its ``limit_concurrency`` refuses calls and not connections,
without a problem document and ``Retry-After``. So these two limits stand in front of uvicorn's protocol.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, ClassVar, Final

import h11
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

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
_RESERVED: Final = 400
"""Open files that are left to other parts of this process."""
_TOO_MANY: Final = HttpProblem(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "too many connections (http.max_requests); nothing was sent, so that it may be repeated",
    {"Retry-After": SECONDS_TO_RETRY},
)


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
        refused: counts the connections above the limit.
        open: open connections now.
    """

    most: int
    head_seconds: float
    refused: ThrottledLog
    open: set[_Connection] = field(default_factory=set)


_CONNECTION: Final = "connector.connection"
"""The key in the state of a call (ASGI) that holds its connection."""


class _Connection(asyncio.Protocol):
    """A connection of a client. Hands everything on to the protocol of uvicorn, unless a limit is passed."""

    limits: ClassVar[_Limits]

    def __init__(self, *, app_state: dict[str, Any], **arguments: Any) -> None:
        self._inner: asyncio.Protocol = H11Protocol(app_state={**app_state, _CONNECTION: self}, **arguments)
        self._transport: asyncio.Transport | None = None
        self._calls = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.limits.open.add(self)
        if len(self.limits.open) > self.limits.most:
            self.limits.refused.add()
            self._inner = asyncio.Protocol()  # ignores what still comes
            transport.write(_as_bytes(_TOO_MANY))
            transport.close()
            return
        self._inner.connection_made(transport)
        self._start_timer()

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
        self.limits.open.discard(self)
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

    def _close(self) -> None:
        assert self._transport is not None
        self._transport.close()

    @classmethod
    def close_all(cls) -> None:
        """Closes what is still open. uvicorn forgets a connection that comes while it stops."""
        for connection in list(cls.limits.open):
            connection._close()


def _as_bytes(problem: HttpProblem) -> bytes:
    """Returns an answer that no application has made."""
    response = problem.response()
    headers = {**HEADERS, **response.headers, "Connection": "close"}
    lines = [f"HTTP/1.1 {problem.status} {problem.status.phrase}", *map(": ".join, headers.items()), "", ""]
    return "\r\n".join(lines).encode() + bytes(response.body)


def connection_class(most: int, head_seconds: float) -> type[_Connection]:
    """Returns a class of connections with limits, for an application in :func:`with_connections`.

    Args:
        most: open connections.
        head_seconds: time for the head of a call to arrive.
    """
    refused = ThrottledLog("connections are refused", {"open": most})
    return type("LimitedConnection", (_Connection,), {"limits": _Limits(most, head_seconds, refused)})


def with_connections(application: ASGIApp) -> ASGIApp:
    """Returns an application that tells the connection of each call when the call starts and ends."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        connection: _Connection = scope["state"][_CONNECTION]
        connection.start_call()
        try:
            await application(scope, receive, send)
        finally:
            connection.end_call()

    return call
