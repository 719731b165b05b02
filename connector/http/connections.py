"""Connections: who is slow, or one too many, is not waited for."""

from __future__ import annotations

import asyncio
import logging
import resource
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

_log = logging.getLogger("connector.http")

HEADER_SECONDS: Final = 10.0
"""The head of a call that takes longer to arrive is not waited for."""
KEEP_ALIVE_SECONDS: Final = 15
_SPARE: Final = 100
"""Connections beside those of requests: pages, and answers that say "too many"."""
_RESERVED: Final = 400
"""Open files that are left to everything else in this process."""
_TOO_MANY: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
)


def most_connections(max_requests: int) -> int:
    """How many connections may be open: enough for all requests, as far as this process may open files.

    Asks for more files where the system allows it.
    """
    wanted = max_requests + _SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted + _RESERVED:
        more = wanted + _RESERVED if hard == resource.RLIM_INFINITY else min(hard, wanted + _RESERVED)
        resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))
        if more < wanted + _RESERVED:
            wanted = max(_SPARE, more - _RESERVED)
            _log.warning("at most %d connections: this process may open %d files (ulimit -n)", wanted, more)
    return wanted


class Connection(H11Protocol):
    """A connection of a client, with limits that its base does not have."""

    most: int = 0
    """Connections at a time; set by :func:`limited`."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.write(_TOO_MANY)
            transport.close()
            return
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watching()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Waits for the rest of a head, while no call is being answered."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_watching()
        elif self._patience is None and self.timeout_keep_alive_task is None:
            self._patience = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _stop_watching(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        self._patience = None
        if not self.transport.is_closing() and (self.cycle is None or self.cycle.response_complete):
            self.transport.close()


def limited(most: int) -> type[Connection]:
    """Connections, of which there are at most so many."""
    return type("LimitedConnection", (Connection,), {"most": most})
