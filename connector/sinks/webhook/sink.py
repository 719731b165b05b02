"""The sink ``webhook``: sends the object to a server over HTTP. The status of the answer decides."""

from __future__ import annotations

import hashlib
import logging
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any, Final

from connector.businessobjects.instance import BusinessObject
from connector.declare.masking import MASK
from connector.errors import ConnectorError, MalformedData, ObjectRefused, TemporaryFailure
from connector.formats.datahandler import HandlerFailed
from connector.operate.trace_context import TRACEPARENT
from connector.sinks.contract import Event, ExternalSink, SinkContext, write_body
from connector.sinks.webhook.url import UrlTemplate
from connector.status import VERSION
from connector.text.names import cut, one_line

if TYPE_CHECKING:
    import httpx

INSTALL: Final = "pip install 'event-connector[webhook]'"
WITHOUT_BODY: Final = ("GET", "DELETE")
_TEMPORARY: Final = (408, 425, 429)
_MAX_ANSWER: Final = 64 << 10
"""Bytes of an answer that are read. A longer answer costs its connection."""
_MAX_AFTER: Final = 86400.0
"""Seconds: the longest wait that a Retry-After can ask for."""
_SHORTEST: Final = 6
"""Characters of the shortest text that counts as a secret in the answer of a server."""


class WebhookUnavailable(ObjectRefused, TemporaryFailure):
    """The server cannot take the object now: no connection, no answer in time, or an answer that says so."""


@dataclass(frozen=True, slots=True)
class WebhookSpec:
    """Recipe for a :class:`WebhookSink`.

    Args:
        url: the template.
        method: of HTTP.
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
            ConnectorError: httpx is not installed.
            ConfigurationError: no data handler serves the MIME type.
        """
        return WebhookSink(self, context)


class WebhookSink(ExternalSink):
    """A sink that sends requests to one server. The server's cookies and redirects have no effect.

    Args:
        spec: the configuration of the subscription.
        context: of the worker.
    """

    def __init__(self, spec: WebhookSpec, context: SinkContext) -> None:
        try:
            import httpx
        except ImportError as error:
            raise ConnectorError(f"a webhook needs the package httpx ({error}): {INSTALL}") from error
        # At level info httpx logs each URL, whose path or query may be a secret.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        self._spec = spec
        self._subscription = context.subscription
        self._to_body = None if spec.method in WITHOUT_BODY else context.writer(spec.mime_type)
        self._content_type = spec.mime_type or context.mime_type or "application/octet-stream"
        values = [*spec.url.constants, *(value for _, value in spec.headers)]
        words = {*values, *" ".join(values).split()}
        self._secrets = sorted((one for one in words if len(one) >= _SHORTEST), key=len, reverse=True)
        self._deadline = _Deadline(spec.timeout)
        self._client = httpx.Client(
            headers={"User-Agent": f"event-connector/{VERSION}", "Accept-Encoding": "identity"},
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            timeout=spec.timeout,
            limits=httpx.Limits(max_connections=1),
        )

    def deliver(self, bo: BusinessObject, event: Event) -> None:
        """Sends one request. A status from 200 to 299 confirms the object."""
        import httpx

        url, headers, body = self._spec.url.fill(bo), httpx.Headers(self._spec.headers), self._body(bo)
        if body is not None:
            headers.setdefault("Content-Type", self._content_type)
        if event.id:
            headers["Idempotency-Key"] = idempotency_key(event, self._subscription)
        if event.traceparent:
            headers.setdefault(TRACEPARENT, event.traceparent)
        try:
            with (
                self._deadline as deadline,
                self._client.stream(
                    self._spec.method,
                    url,
                    content=body,
                    headers=headers,
                    extensions={"trace": deadline.trace},
                ) as response,
            ):
                answer = _read(response)
        except (httpx.InvalidURL, httpx.LocalProtocolError):  # their texts may hold the URL and the headers
            raise self._refusal("HTTP cannot carry this request, for example because of a long URL") from None
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            if isinstance(error, httpx.TimeoutException) or deadline.is_over:
                reason = f"no answer within {self._spec.timeout:g} s"
            raise WebhookUnavailable(self._text(reason)) from error
        if not response.is_success:
            raise self._failure(response.status_code, response.headers, answer)

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
        if said := one_line(answer.decode("utf-8", "replace")).strip():
            text += f": {said}"
        if status in _TEMPORARY or status >= 500:
            return WebhookUnavailable(self._text(text), after=retry_after(headers.get("Retry-After", "")))
        return self._refusal(text)

    def _refusal(self, text: str) -> ObjectRefused:
        return ObjectRefused(self._text(text))

    def _text(self, text: str) -> str:
        """Returns the text of an error with the server, and without secrets that the server has repeated."""
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return f"{self._spec.url.origin}: {cut(text, 300)}"

    def close(self) -> None:
        self._client.close()


_STATUSES: Final = frozenset(HTTPStatus)


def idempotency_key(event: Event, subscription: str) -> str:
    """Returns the key that a server knows a repeated request by.

    The id of an event holds the number of the record in a body that was split. A message with a bare name at
    a shared directory has that name as its id, and the next file may have it, too. So the time counts there.
    """
    time_of_file = "" if event.id.startswith("ID:") else event.message.timestamp
    parts = f"{event.id}\n{time_of_file}\n{subscription}"
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


def _read(response: httpx.Response) -> bytes:
    """Returns the start of an answer. The status has come, so an answer that breaks off changes nothing."""
    import httpx

    answer = b""
    try:
        for chunk in response.iter_raw():
            answer += chunk
            if len(answer) > _MAX_ANSWER:
                break
    except httpx.HTTPError:
        pass
    return answer


class _Deadline:
    """Limits a whole exchange. The time-outs of httpx limit each wait, and a server may send byte by byte.

    Args:
        seconds: of one exchange.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._stream: Any = None
        self._timer = threading.Timer(seconds, self._end)
        self.is_over = False

    def __enter__(self) -> _Deadline:
        self.is_over = False
        self._timer = threading.Timer(self._seconds, self._end)
        self._timer.daemon = True
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()  # a late end must not meet the next exchange

    def trace(self, name: str, info: Mapping[str, Any]) -> None:
        """Remembers the connection. Called by httpx (its extension ``trace``)."""
        if name.endswith((".connect_tcp.complete", ".start_tls.complete")):
            self._stream = info["return_value"]
            if self.is_over:
                self._end()

    def _end(self) -> None:
        self.is_over = True
        connection = self._stream and self._stream.get_extra_info("socket")
        if isinstance(connection, socket.socket):
            try:
                # Not the method of a TLS socket, which is of no use to another thread.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
            except OSError:
                pass  # closed already
