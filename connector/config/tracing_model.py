"""The section ``tracing``, spans for OpenTelemetry, and its check."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import Field

from connector.declare.masking import mask_path
from connector.declare.problem_reporter import ProblemReporter
from connector.declare.section import Section
from connector.declare.value_types import Text, ValueType, as_found, leaf, refuse
from connector.operate.tracer import INSTALL

_PACKAGE: Final = "opentelemetry.exporter.otlp.proto.http"
_URL_EXPECTED: Final = "the URL of a collector, such as http://localhost:4318"
_SHARE_EXPECTED: Final = "a share from 0 to 1, such as 0.1"


def _read_url(value: object) -> str:
    written = leaf(value, _URL_EXPECTED)
    try:
        url = urlsplit(written)
        is_right = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
        has_user = url.username is not None
    except ValueError:
        is_right = has_user = False
    if has_user:
        raise refuse("a URL with a user", f"{_URL_EXPECTED}. OTEL_EXPORTER_OTLP_HEADERS holds secrets")
    if not is_right:
        raise refuse("a text that is no such URL", _URL_EXPECTED)  # its path may hold a secret
    return written


def _read_share(value: object) -> float:
    written = leaf(value, _SHARE_EXPECTED)
    if not re.fullmatch(r"0(\.[0-9]{1,9})?|1(\.0{1,9})?", written):
        raise refuse(as_found(written), _SHARE_EXPECTED)
    return float(written)


_COLLECTOR: Final = ValueType(_read_url, mask_path, {"type": "string"}, "URL")
_SHARE: Final = ValueType(
    _read_share,
    lambda value: value,
    {"anyOf": [{"type": "string", "pattern": r"\$\{"}, {"type": "number", "minimum": 0, "maximum": 1}]},
    "share",
)


class Tracing(Section):
    """Spans of events and requests, for OpenTelemetry. Needs the extra `otel`.

    `OTEL_EXPORTER_OTLP_*`, `OTEL_BSP_*` and `OTEL_RESOURCE_ATTRIBUTES` of the environment count, too.
    """

    endpoint: Annotated[str, _COLLECTOR] | None = Field(
        default=None,
        repr=False,
        description="The collector, which speaks OTLP over HTTP. `/v1/traces` is added. None: "
        "`OTEL_EXPORTER_OTLP_ENDPOINT` of the environment, or `http://localhost:4318`.",
    )
    service: Text | None = Field(
        default=None,
        description="`service.name` in traces. None: `OTEL_SERVICE_NAME` of the environment, or the "
        "`ApplicationName`.",
    )
    sample: Annotated[float, _SHARE] = Field(
        default=1.0,
        description="The share of the new traces that are exported. The `traceparent` of a message decides "
        "for its trace.",
    )


def check_tracing(tracing: Tracing | None, reporter: ProblemReporter) -> None:
    """Reports that the packages for traces are missing."""
    if tracing is None:
        return
    try:
        is_installed = find_spec(_PACKAGE) is not None
    except ModuleNotFoundError:
        is_installed = False
    if not is_installed:
        reporter.add(("tracing",), "tracing without the packages of OpenTelemetry", INSTALL, at_key=True)
