"""A request client that is opened by the first request."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from connector.businessobjects.instance import BusinessObject
from connector.errors import CapabilityError, SessionStateError
from connector.requests.contract import Requests, RequestsSpec
from connector.requests.result import RequestResult


class LazyRequests(Requests):
    """A request client that costs nothing before the first request.

    Args:
        spec: returns the recipe of the client, when the first request is made. None = requests are not
            possible here.
        deployment: directory that plug-in paths count from.
        count: called with the object, the status and the seconds of each request. None = nobody counts.

    The methods also raise:
        CapabilityError: there is no recipe.
        SessionStateError: this process was forked from the process that made this object.
        ConfigurationError: a data handler cannot be made.
    """

    def __init__(
        self,
        spec: Callable[[], RequestsSpec] | None,
        deployment: str,
        count: Callable[[str, str, float], None] | None = None,
    ) -> None:
        self._count = count
        self._spec = spec
        self._deployment = deployment
        self._lock = threading.Lock()
        self._client: Requests | None = None
        self._stopped = False
        self._pid = os.getpid()

    def request(
        self, name: str, data: Mapping[str, Any] | BusinessObject, *, timeout: int | None = None
    ) -> RequestResult:
        began = time.monotonic()
        result = self._open().request(name, data, timeout=timeout)
        self._note(result, began)
        return result

    def request_async(
        self, name: str, data: Mapping[str, Any] | BusinessObject, *, timeout: int | None = None
    ) -> Future[RequestResult]:
        began = time.monotonic()
        future = self._open().request_async(name, data, timeout=timeout)
        if self._count is not None:
            future.add_done_callback(lambda done: self._note_done(done, began))
        return future

    def _note_done(self, done: Future[RequestResult], began: float) -> None:
        if not done.cancelled() and done.exception() is None:
            self._note(done.result(), began)

    def _note(self, result: RequestResult, began: float) -> None:
        if self._count is not None:
            self._count(result.object.type, result.status.name, time.monotonic() - began)

    def refuse(self) -> None:
        with self._lock:
            self._stopped = True
            client = self._client
        if client is not None:
            client.refuse()

    def stop(self, timeout: float = 0.0) -> None:
        with self._lock:
            self._stopped = True
            client = self._client
        if client is not None:
            client.stop(timeout)

    def renew(self, timeout: float) -> None:
        """Makes the next request open a new client. Requests of the earlier one have ``timeout`` seconds."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            threading.Thread(target=client.stop, args=(timeout,), name="earlier-requests").start()

    def _open(self) -> Requests:
        if self._spec is None:
            raise CapabilityError(
                "no requests can be made here; run the deployment with connector run, or with "
                "connector.testing.deployment, or give a test's Event its requests="
            )
        if os.getpid() != self._pid:
            raise SessionStateError(
                "a forked process cannot make requests: make the request in the process that made the "
                "adapter or got the event"
            )
        with self._lock:
            if self._client is None:
                self._client = self._spec().open(self._deployment)
                if self._stopped:
                    self._client.refuse()  # the client then answers every new request with a refusal
            return self._client


class SharedRequests(RequestsSpec):
    """The recipe of one client for all tasks of a process. The last task stops the client.

    Args:
        spec: of the client.
    """

    def __init__(self, spec: RequestsSpec) -> None:
        self._spec = spec
        self._lock = threading.Lock()
        self._client: Requests | None = None
        self._users = 0

    def open(self, deployment: str) -> Requests:
        with self._lock:
            if self._client is None:
                self._client = self._spec.open(deployment)
            self._users += 1
            return _Share(self._client, self._leave)

    def _leave(self, timeout: float) -> None:
        with self._lock:
            self._users -= 1
            client = None if self._users else self._client
        if client is not None:
            client.stop(timeout)


class _Share(Requests):
    """The view of one task on a client. The methods are those of the client."""

    def __init__(self, client: Requests, leave: Callable[[float], None]) -> None:
        self._client = client
        self._leave: Callable[[float], None] | None = leave

    def request(
        self, name: str, data: Mapping[str, Any] | BusinessObject, *, timeout: int | None = None
    ) -> RequestResult:
        return self._client.request(name, data, timeout=timeout)

    def request_async(
        self, name: str, data: Mapping[str, Any] | BusinessObject, *, timeout: int | None = None
    ) -> Future[RequestResult]:
        return self._client.request_async(name, data, timeout=timeout)

    def refuse(self) -> None:
        """Does nothing: other tasks go on."""

    def stop(self, timeout: float = 0.0) -> None:
        leave, self._leave = self._leave, None
        if leave is not None:
            leave(timeout)
