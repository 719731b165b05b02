"""The contract by which a business process, a command or a web client makes requests."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Protocol

from connector.businessobjects.instance import BusinessObject
from connector.requests.result import RequestResult


class Requests(Protocol):
    """Makes requests of applications. Thread-safe."""

    def request(
        self, name: str, data: Mapping[str, Any] | BusinessObject, *, timeout: int | None = None
    ) -> RequestResult:
        """Sends a business object and, where a ResponseTimeout says so, waits for the reply.

        Args:
            name: object and verb, ``Customer.Retrieve``.
            data: the attributes, the dynamic meta-object among them; not changed.
            timeout: ResponseTimeout of this request in ms, instead of the meta-objects'; below 0 = do not
                wait.

        Raises:
            UnknownBusinessObject: no such business object, or it has no such verb.
            MalformedData: the data do not fit the business object, or lack what it requires; or ``timeout``
                is no whole number.
        """

    def request_async(
        self, name: str, data: Mapping[str, Any] | BusinessObject, *, timeout: int | None = None
    ) -> Future[RequestResult]:
        """As :meth:`request`, without waiting; every future completes, once, and never with an exception."""

    def refuse(self) -> None:
        """No more requests are sent: new ones, and those that wait for their turn, are told so at once.

        Those in flight go on. For any thread; repeatable.
        """

    def stop(self, timeout: float = 0.0) -> None:
        """As :meth:`refuse`, and those in flight have ``timeout`` seconds, then they end without a reply."""


class RequestsSpec(Protocol):
    """Picklable recipe for :class:`Requests`, for the process that opens it."""

    def open(self, deployment: str) -> Requests:
        """Connects when the first request is made.

        Args:
            deployment: directory that plug-in paths count from.

        Raises:
            ConfigurationError: a data handler cannot be made.
        """
