"""The places of a server: so many calls are answered at a time, and none while the server stops."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from connector.http.answers import SECONDS_TO_RETRY
from connector.http.problems import HttpProblem
from connector.http.throttled_log import ThrottledLog


class CallPlaces:
    """Counts the calls that send something. For one thread, that of the server.

    Args:
        most: calls at a time.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._refused = ThrottledLog("calls are refused", {"max_requests": most})
        self.under_way = 0
        """The number of calls that are being answered."""
        self.stopping = False
        """Whether further calls are refused."""
        self.cut = asyncio.Event()
        """Set when no call waits any longer."""

    def refuse(self) -> None:
        """Refuses all further calls."""
        self.stopping = True

    @contextmanager
    def take(self) -> Iterator[None]:
        """Counts a call as under way until the context ends.

        Raises:
            HttpProblem: 503, there are too many calls, or the server is stopping.
        """
        if self.stopping or self.under_way >= self._most:
            found = "the adapter is stopping" if self.stopping else "too many requests (http.max_requests)"
            if not self.stopping:
                self._refused.add()
            raise HttpProblem(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"{found}; nothing was sent, so that it may be repeated",
                {"Retry-After": SECONDS_TO_RETRY},
                closes=True,
            )
        self.under_way += 1
        try:
            yield
        finally:
            self.under_way -= 1
