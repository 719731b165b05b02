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
        """Sends a business object. Waits for the reply when a ResponseTimeout is defined.

        Args:
            name: object and verb, ``Customer.Retrieve``.
            data: the attributes, the dynamic meta-object among them. They are not changed.
            timeout: ResponseTimeout of this request in ms, instead of the meta-objects'. Below 0 = do not
                wait.

        Raises:
            UnknownBusinessObject: no such business object, or the object has no such verb.
            MalformedData: the data do not fit the business object, or a required attribute is missing, or
                ``timeout`` is not a whole number.
        """

    def request_async(
        self, name: str, data: Mapping[str, Any] | BusinessObject, *, timeout: int | None = None
    ) -> Future[RequestResult]:
        """Works like :meth:`request`, without waiting. Every future completes once, and never fails."""

    def refuse(self) -> None:
        """Refuses all further requests, and also those that wait to be sent.

        Requests that are sent go on. Any thread may call this method, more than once.
        """

    def stop(self, timeout: float = 0.0) -> None:
        """Works like :meth:`refuse`. Sent requests end after ``timeout`` s without a reply. Repeatable."""


class RequestsSpec(Protocol):
    """Picklable recipe for :class:`Requests`, for the process that opens the client."""

    def open(self, deployment: str) -> Requests:
        """Returns a client that connects when the first request is made.

        Args:
            deployment: directory that plug-in paths count from.

        Raises:
            ConfigurationError: a data handler cannot be made.
        """
