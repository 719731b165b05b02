"""Reads the body of a call within limits, and parses JSON as strictly as the body of a message."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.requests import Request

from connector.datahandlers.json_handler import parse_object
from connector.errors import MalformedData
from connector.http.problems import HttpProblem
from connector.text.decimals import ExactFloat, ExactInteger
from connector.text.names import shown

_EXACT: Final = 2.0**53


def check_media_type(headers: Headers) -> None:
    """Accepts only JSON in UTF-8, not compressed.

    Raises:
        HttpProblem: 415. 400 if there are two headers Content-Type that differ.
    """
    if len(set(headers.getlist("content-type"))) > 1:
        raise _unreadable("found two headers Content-Type that differ, expected one")
    media_type, *parameters = (part.strip().casefold() for part in headers.get("content-type", "").split(";"))
    charset = next((part[8:].strip('"') for part in parameters if part.startswith("charset=")), "utf-8")
    if media_type != "application/json" or charset not in ("utf-8", "utf8"):
        found = shown(headers.get("content-type", "")) if media_type else "no media type"
        raise HttpProblem(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"found {found}, expected Content-Type: application/json (in UTF-8)",
            {"Accept": "application/json"},
        )
    if headers.get("content-encoding", "identity").strip().casefold() != "identity":
        raise HttpProblem(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "found a Content-Encoding, expected a body that is not compressed",
            {"Accept-Encoding": "identity"},
        )


async def read_body(request: Request, limit: int, seconds: float, said_by: str = "http.max_body") -> bytes:
    """Returns the body, of at most ``limit`` bytes. Reads nothing if Content-Length is above the limit.

    Args:
        seconds: time for the body to arrive.
        said_by: the key of the limit in adapter.yaml.

    Raises:
        HttpProblem: 413 or 408, and the connection ends.
        starlette.requests.ClientDisconnect: the client has gone.
    """
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal() or len(declared) > 18 or int(declared) > limit:
        raise too_large(limit, said_by)
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                if len(body) + len(chunk) > limit:
                    raise too_large(limit, said_by)
                body += chunk
    except TimeoutError:
        detail = f"the body did not arrive within {seconds:g} s"
        raise HttpProblem(HTTPStatus.REQUEST_TIMEOUT, detail, closes=True) from None
    return bytes(body)


def too_large(limit: int, said_by: str = "http.max_body") -> HttpProblem:
    """Returns the refusal of a body of more than ``limit`` bytes."""
    detail = f"the body is larger than {limit} bytes ({said_by})"
    return HttpProblem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail, closes=True)


def parse(body: bytes) -> dict[str, Any]:
    """Returns the JSON object in a body.

    Raises:
        HttpProblem: 400: no JSON, a key that stands twice, NaN, nested too deeply. The text names the place.
    """
    try:
        document: dict[str, Any] = _whole(parse_object(body))
    except MalformedData as error:
        raise _unreadable(str(error)) from None
    return document


def _whole(value: Any) -> Any:
    """Turns 7.0 into 7, because both are the same number in JSON Schema, and so in the OpenAPI document."""
    if isinstance(value, dict):
        return {key: _whole(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_whole(inner) for inner in value]
    if isinstance(value, ExactFloat) and value.is_integer() and abs(value) <= _EXACT:
        return ExactInteger.of(value)
    return value


def _unreadable(detail: str) -> HttpProblem:
    return HttpProblem(HTTPStatus.BAD_REQUEST, detail)
