"""Exports spans to a collector of OpenTelemetry. Only this file imports the SDK."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from connector.declare.echoes import Secrets
from connector.declare.masking import MASK, mask_path
from connector.errors import ConnectorError
from connector.operate.span import INTERNAL, Span
from connector.status import VERSION
from connector.text.names import cut, one_line
from connector.tracebacks import message_of

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

_log: Final = logging.getLogger("connector.traces")

INSTALL: Final = "pip install 'event-connector[otel]'"
_PATH: Final = "/v1/traces"
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_HEADERS: Final = re.compile("OTEL_EXPORTER_OTLP_(?:TRACES_)?HEADERS")
_LOG_SECONDS: Final = 60.0
_CLOSE_SECONDS: Final = 5.0
"""Seconds at the end for a collector that does not answer."""


class Tracer:
    """Exports spans in the background. Spans that a collector does not take are lost. Thread-safe.

    Args:
        open_exporter: makes the exporter, when the first span comes or at :meth:`open`.
        service, instance: the name of the adapter and of this process in traces.
        system: the type of the provider.
    """

    def __init__(
        self, open_exporter: Callable[[], SpanExporter], service: str, instance: str, system: str
    ) -> None:
        self._open_exporter = open_exporter
        self._service = service
        self._instance = instance
        self._system = system
        self._lock = threading.Lock()
        self._sdk: _Sdk | None = None

    def open(self) -> None:
        """Loads the SDK, and connects to nothing. Repeatable.

        Raises:
            ConnectorError: the extra ``otel`` is not installed, or the SDK refuses a variable ``OTEL_...``.
        """
        with self._lock:
            self._opened()

    def _opened(self) -> _Sdk:
        if self._sdk is None:
            try:
                self._sdk = _Sdk(self._open_exporter(), self._service, self._instance)
            except ConnectorError:
                raise
            except Exception as error:  # the SDK reads its variables by itself, and names none of them
                given = ", ".join(sorted(name for name in os.environ if name.startswith("OTEL_")))
                text = f"tracing refuses a variable of the environment ({given}): {message_of(error)}"
                raise ConnectorError(text) from error
        return self._sdk

    def export(self, span: Span, reason: str = "") -> None:
        """Hands a span to the thread that sends. Never waits for the collector."""
        attributes = dict(span.attributes)
        if span.kind != INTERNAL:
            attributes["messaging.system"] = self._system
        if span.error:
            attributes["error.type"] = span.error
        with self._lock:
            self._opened().add(span._replace(attributes=attributes), reason)

    def close(self) -> None:
        """Sends the remaining spans, for a few seconds at most. Repeatable."""
        with self._lock:
            sdk, self._sdk = self._sdk, None
        if sdk is not None:
            ending = threading.Thread(target=sdk.provider.shutdown, name="connector-traces", daemon=True)
            ending.start()
            ending.join(_CLOSE_SECONDS)


class _Sdk:
    """The SDK, which makes spans with the ids and times that tasks have given. For one thread at a time.

    Args:
        service, instance: as in :class:`Tracer`.
    """

    def __init__(self, exporter: SpanExporter, service: str, instance: str) -> None:
        from opentelemetry import trace
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.id_generator import IdGenerator
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON

        class GivenIds(IdGenerator):
            trace_id = span_id = 0

            def generate_trace_id(self) -> int:
                return self.trace_id

            def generate_span_id(self) -> int:
                return self.span_id

        self._api = trace
        self._ids = GivenIds()
        resource = Resource.create(
            {"service.name": service, "service.instance.id": instance, "service.version": VERSION}
        )
        # Whoever made the ids has decided which spans are exported.
        self.provider = TracerProvider(ALWAYS_ON, resource, shutdown_on_exit=False, id_generator=self._ids)
        self.provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self.provider.get_tracer("connector", VERSION)

    def add(self, span: Span, reason: str) -> None:
        api = self._api
        self._ids.trace_id, self._ids.span_id = int(span.trace_id, 16), int(span.span_id, 16)
        parent = api.INVALID_SPAN_CONTEXT
        if span.parent_id:
            flags = api.TraceFlags(api.TraceFlags.SAMPLED)
            is_remote = span.kind != INTERNAL
            parent = api.SpanContext(self._ids.trace_id, int(span.parent_id, 16), is_remote, flags)
        made = self._tracer.start_span(
            span.name,
            api.set_span_in_context(api.NonRecordingSpan(parent)),
            api.SpanKind[span.kind],
            span.attributes,
            start_time=span.began,
        )
        if span.error:
            made.set_status(api.Status(api.StatusCode.ERROR, reason or span.error))
        made.end(span.ended)


class _Losses(logging.Handler):
    """Logs what the SDK says about spans that it cannot send: one line in a minute.

    Args:
        endpoint: URL of the collector.
    """

    def __init__(self, endpoint: str) -> None:
        super().__init__(logging.WARNING)
        self._endpoint = endpoint
        self._path = urlsplit(endpoint).path.removesuffix(_PATH)
        headers = [unquote(value) for name, value in os.environ.items() if _HEADERS.fullmatch(name)]
        self._secrets = Secrets(headers, self._path.split("/"))

    _number = 0
    _logged_at = float("-inf")

    def emit(self, record: logging.LogRecord) -> None:
        self._number += 1
        now = time.monotonic()
        if now - self._logged_at >= _LOG_SECONDS:
            text = record.getMessage().replace(self._endpoint, mask_path(self._endpoint))
            if self._path.strip("/"):
                text = text.replace(self._path, f"/{MASK}")
            reason = cut(one_line(self._secrets.hide(text)), 300)
            extra = {"reason": reason, "number": self._number}
            self._number, self._logged_at = 0, now
            _log.warning("the collector of traces does not take all spans", extra=extra)


def open_exporter(endpoint: str | None) -> SpanExporter:
    """Returns an exporter that sends by OTLP over HTTP.

    Args:
        endpoint: URL of the collector. None = what ``OTEL_EXPORTER_OTLP_ENDPOINT`` says.

    Raises:
        ConnectorError: the extra ``otel`` is not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise ConnectorError(f"tracing needs the packages of OpenTelemetry ({error}): {INSTALL}") from error
    sdk = logging.getLogger("opentelemetry")
    sdk.handlers[:] = [one for one in sdk.handlers if not isinstance(one, _Losses)]
    if endpoint is not None and not endpoint.rstrip("/").endswith(_PATH):
        endpoint = endpoint.rstrip("/") + _PATH
    sdk.addHandler(_Losses(endpoint or next(filter(None, map(os.environ.get, _ENDPOINTS)), "")))
    sdk.propagate = False
    return OTLPSpanExporter(endpoint)
