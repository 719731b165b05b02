"""Connections with stricter rules than those of uvicorn and h11.

h11 bounds the size of a head. uvicorn bounds the time between two calls (``timeout_keep_alive``) and the time
for the last answers (``timeout_graceful_shutdown``). uvicorn has no limit for the time of a head. Its
``limit_concurrency`` refuses calls and not connections, without a problem document and ``Retry-After``. So
these two limits are here.
"""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import Any, Final

import h11
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
_SCHEMES: Final = (b"http://", b"https://")
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


class StrictConnection(h11.Connection):
    """The server's side of a connection, as h11 reads it, with two more rules.

    A proxy and this server read the same bytes and must not disagree about the end of a call. Otherwise a
    part that the proxy takes for a body could be a call for this server that the proxy has not checked.

    A call that gives its length in two ways is refused. So is a call in chunks with HTTP/1.0, which has no
    chunks (RFC 9112, 6.1). A target in absolute form is split into path and ``Host`` (RFC 9112, 3.2.2).
    """

    mistake: str = "what has come cannot be read as HTTP/1.1"
    """The mistake of a call that was refused, for its answer."""

    def next_event(self) -> Any:
        """See :meth:`h11.Connection.next_event`.

        Raises:
            h11.RemoteProtocolError: the bytes are not HTTP.
        """
        event = super().next_event()
        if not isinstance(event, h11.Request):
            return event
        try:
            return _checked(event)
        except h11.RemoteProtocolError as error:
            self.mistake = str(error)
            raise


def _checked(request: h11.Request) -> h11.Request:
    names = {name for name, _ in request.headers}
    if b"transfer-encoding" in names:
        if b"content-length" in names:
            raise h11.RemoteProtocolError(
                "found both Transfer-Encoding and Content-Length, expected one of them"
            )
        if request.http_version < b"1.1":
            raise h11.RemoteProtocolError("found Transfer-Encoding in HTTP/1.0, expected Content-Length")
    scheme = next((it for it in _SCHEMES if request.target[:8].lower().startswith(it)), None)
    return request if scheme is None else _in_origin_form(request, scheme)


def _in_origin_form(request: h11.Request, scheme: bytes) -> h11.Request:
    rest = request.target[len(scheme) :]
    authority = rest.partition(b"/")[0].partition(b"?")[0]
    if not authority:
        raise h11.RemoteProtocolError("found a target without a host")
    path = rest[len(authority) :]
    headers = [(name, value) for name, value in request.headers if name != b"host"]
    return h11.Request(
        method=request.method,
        target=path if path.startswith(b"/") else b"/" + path,
        headers=[(b"host", authority), *headers],
        http_version=request.http_version,
    )


class LimitedConnection(H11Protocol):
    """A connection of a client, with limits that the base class does not have."""

    most: int = 0
    """The most connections at a time. Set by :func:`limited`."""
    head_seconds: float = 0.0
    """The time for the head of a call. Set by :func:`limited`."""
    refused: ThrottledLog
    """Counts the connections above the limit. Set by :func:`limited`."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.conn: StrictConnection = StrictConnection(h11.SERVER, HEAD_BYTES)
        self._header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most:
            self.refused.add()
            self._answer(_TOO_MANY)
            return
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watching()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answers bytes that are not HTTP. Ends the connection, because the end of the call is unknown."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._answer(HttpProblem(HTTPStatus.BAD_REQUEST, self.conn.mistake))
        else:
            self.transport.close()  # in the middle of another answer

    def _answer(self, problem: HttpProblem) -> None:
        """Answers bytes that are not a call, and ends the connection."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True  # drops the rest of its answer
        response = problem.response()
        headers = {**HEADERS, **response.headers, "Connection": "close"}
        lines = [(name.encode(), value.encode()) for name, value in headers.items()]
        reason = problem.status.phrase.encode()
        for event in (
            h11.Response(status_code=response.status_code, headers=lines, reason=reason),
            h11.Data(data=bytes(response.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _watch(self) -> None:
        """Waits for the rest of a head, while no call is being answered."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_watching()
        elif self._header_timer is None and self.timeout_keep_alive_task is None:
            self._header_timer = self.loop.call_later(self.head_seconds, self._give_up)

    def _stop_watching(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _give_up(self) -> None:
        self._header_timer = None
        if not self.transport.is_closing() and (self.cycle is None or self.cycle.response_complete):
            self.transport.close()


def limited(most: int, head_seconds: float) -> type[LimitedConnection]:
    """Returns a class of connections with limits.

    Args:
        most: open connections.
        head_seconds: time for the head of a call to arrive.
    """
    refused = ThrottledLog("connections are refused", {"open": most})
    return type(
        "LimitedConnection",
        (LimitedConnection,),
        {"most": most, "head_seconds": head_seconds, "refused": refused},
    )
