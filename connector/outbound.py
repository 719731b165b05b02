"""The outbound half of an adapter: its request client, made when it is first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from connector.broker.requesting import Requests, RequestsSpec
from connector.businessobjects.instance import BusinessObject
from connector.requests.result import RequestResult


class Outbound:
    """Makes the requests of an adapter (:class:`connector.broker.requesting.Requests`).

    Args:
        spec: the recipe of the client; asked for once, when the first request is made.
        deployment: directory that plug-in paths count from.
    """

    def __init__(self, spec: Callable[[], RequestsSpec], deployment: str) -> None:
        self._spec = spec
        self._deployment = deployment
        self._lock = threading.Lock()
        self._client: Requests | None = None
        self._stopped = False

    def request(
        self, name: str, data: Mapping[str, Any] | BusinessObject, *, timeout: int | None = None
    ) -> RequestResult:
        """See :meth:`connector.broker.requesting.Requests.request`.

        Raises:
            ConfigurationError: a data handler cannot be made.
        """
        return self._opened().request(name, data, timeout=timeout)

    def request_async(
        self, name: str, data: Mapping[str, Any] | BusinessObject, *, timeout: int | None = None
    ) -> Future[RequestResult]:
        """See :meth:`connector.broker.requesting.Requests.request_async`; raises as :meth:`request`."""
        return self._opened().request_async(name, data, timeout=timeout)

    def stop(self, timeout: float = 0.0) -> None:
        """See :meth:`connector.broker.requesting.Requests.stop`. Repeatable."""
        with self._lock:
            self._stopped = True
            client = self._client
        if client is not None:
            client.stop(timeout)

    def _opened(self) -> Requests:
        with self._lock:
            if self._client is None:
                self._client = self._spec().open(self._deployment)
                if self._stopped:
                    self._client.stop()  # whoever asks now is told so by the client
            return self._client
