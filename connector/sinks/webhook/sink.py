"""The sink ``webhook``: sends the object to a server over HTTP. The status of the answer decides."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

from connector.businessobjects.instance import BusinessObject
from connector.declare.echoes import Secrets
from connector.errors import ConnectorError, MalformedData, ObjectRefused, TemporaryFailure, WrongValue
from connector.formats.datahandler import HandlerFailed
from connector.messaging.message import AGAIN
from connector.operate.trace_context import TRACEPARENT
from connector.sinks.contract import Event, ExternalSink, SinkContext, write_body
from connector.sinks.webhook.url import UrlTemplate
from connector.status import VERSION
from connector.text.names import cut, one_line

INSTALL: Final = "pip install 'event-connector[webhook]'"
WITHOUT_BODY: Final = ("GET", "DELETE")
_TEMPORARY: Final = (408, 425, 429)
_MAX_AFTER: Final = 86400.0
"""Seconds: the longest wait that a Retry-After can ask for."""
_PLAIN: Final = ("accept", "accept-language", "content-type", "prefer", "user-agent")
"""Headers that hold no secret, in lower case."""


class WebhookUnavailable(ObjectRefused, TemporaryFailure):
    """The server cannot take the object now: no connection, no answer in time, or an answer that says so."""


@dataclass(frozen=True, slots=True)
class WebhookSpec:
    """Recipe for a :class:`WebhookSink`.

    Args:
        headers: names and values. They may hold secrets.
        mime_type: format of the body. None = the connector's default data handler.
        timeout: seconds for the whole exchange.
    """

    url: UrlTemplate
    method: str = "POST"
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    mime_type: str | None = None
    timeout: float = 30.0

    def open(self, context: SinkContext) -> WebhookSink:
        """Makes the sink, and no connection.

        Raises:
            ConnectorError: httpcore is not installed, or a variable of the environment cannot be used.
            ConfigurationError: no data handler serves the MIME type.
        """
        return WebhookSink(self, context)


class WebhookSink(ExternalSink):
    """A sink that sends requests to one server. The server's cookies and redirects have no effect."""

    def __init__(self, spec: WebhookSpec, context: SinkContext) -> None:
        try:
            from connector.sinks.webhook.connection import ServerConnection
        except ImportError as error:
            raise ConnectorError(f"a webhook needs the package httpcore ({error}): {INSTALL}") from error
        self._spec = spec
        self._subscription = context.subscription
        self._to_body = None if spec.method in WITHOUT_BODY else context.writer(spec.mime_type)
        self._content_type = spec.mime_type or context.mime_type or "application/octet-stream"
        self._secrets = Secrets(
            [value for name, value in spec.headers if name.lower() not in _PLAIN], spec.url.constants
        )
        try:
            self._server = ServerConnection(spec.url.origin, spec.timeout)
        except WrongValue as error:
            raise ConnectorError(f"the webhook {spec.url.origin}: found {error}") from None

    def deliver(self, bo: BusinessObject, event: Event) -> None:
        """Sends one request. A status from 200 to 299 confirms the object."""
        from connector.sinks.webhook.connection import NoAnswer, Unsendable

        url, body = self._spec.url.fill(event.objects(bo)), self._body(bo)
        headers = self._headers(event, has_body=body is not None)
        try:
            status, given, answer = self._server.send(
                self._spec.method, url.removeprefix(self._spec.url.origin), headers, body
            )
        except Unsendable:  # a text of it may hold the URL and the headers
            raise self._refusal("HTTP cannot carry this request") from None
        except NoAnswer as error:
            raise WebhookUnavailable(self._text(str(error))) from None  # its text may repeat a secret
        if not 200 <= status < 300:
            raise self._failure(status, given, answer)

    def _headers(self, event: Event, *, has_body: bool) -> dict[str, str]:
        """Returns the headers of a request. Those of the configuration count before ours."""
        ours = {"User-Agent": f"event-connector/{VERSION}", "Accept": "*/*", "Accept-Encoding": "identity"}
        if has_body:
            ours["Content-Type"] = self._content_type
        if event.traceparent:
            ours[TRACEPARENT] = event.traceparent
        given = {name.lower() for name, _ in self._spec.headers}
        headers = {name: value for name, value in ours.items() if name.lower() not in given}
        headers.update(self._spec.headers)
        if event.id:
            headers["Idempotency-Key"] = idempotency_key(event, self._subscription)
        return headers

    def _body(self, bo: BusinessObject) -> bytes | None:
        if self._to_body is None:
            return None
        try:
            return write_body(self._to_body, bo)[1]
        except HandlerFailed:
            raise
        except MalformedData as error:
            raise self._refusal(str(error)) from error

    def _failure(self, status: int, headers: Mapping[str, str], answer: bytes) -> ObjectRefused:
        """Returns the exception for a status that is not from 200 to 299."""
        phrase = f" {HTTPStatus(status).phrase}" if status in _STATUSES else ""
        text = f"the answer is {status}{phrase}"
        if 300 <= status < 400:
            return self._refusal(f"{text}, and a webhook follows no redirect")
        if said := one_line(answer.replace(b"\0", b"").decode("utf-8", "replace")).strip():
            text += f": {said}"
        if status in _TEMPORARY or status >= 500:
            return WebhookUnavailable(self._text(text), after=retry_after(headers.get("retry-after", "")))
        return self._refusal(text)

    def _refusal(self, text: str) -> ObjectRefused:
        return ObjectRefused(self._text(text))

    def _text(self, text: str) -> str:
        """Returns the text of an error with the server, and without secrets that the server has repeated."""
        return f"{self._server.route}: {cut(self._secrets.hide(text), 300)}"

    def close(self) -> None:
        self._server.close()


_STATUSES: Final = frozenset(HTTPStatus)


def idempotency_key(event: Event, subscription: str) -> str:
    """Returns the key that a server knows a repeated request by.

    The id of an event holds the number of the record in a body that was split. In a copy of an earlier
    version the id of a file with a bare name is that name, and the next file may have it. So its time counts.
    """
    time_of_file = "" if event.id.startswith("ID:") else event.message.timestamp
    parts = f"{event.id}\n{time_of_file}\n{subscription}"
    if AGAIN in event.message.properties:  # an operator has ordered the event once more
        parts += f"\n{event.message.properties[AGAIN]}"
    return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()


def retry_after(text: str) -> float:
    """Returns the seconds that a header Retry-After asks for (RFC 9110, 10.2.3). 0 = none, or not valid."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:10]), _MAX_AFTER)
    try:
        seconds = parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return min(max(seconds, 0.0), _MAX_AFTER)
