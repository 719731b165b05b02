"""The body of a call: read within bounds, and as JSON of the same strictness as a message's."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from http import HTTPStatus
from typing import Any, Final

import orjson
from starlette.datastructures import Headers
from starlette.requests import Request

from connector.businessobjects.names import shown
from connector.businessobjects.types import describe
from connector.http.problems import HttpProblem

MAX_DEPTH: Final = 200
SECONDS: Final = 30.0
"""A body that takes longer to arrive is not waited for."""
_BOM: Final = b"\xef\xbb\xbf"
_DIGITS: Final = 15
_EXACT: Final = 2.0**53


def check_media_type(headers: Headers) -> None:
    """Only JSON in UTF-8 is read, as it stands.

    Raises:
        HttpProblem: 415.
    """
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


async def read_body(request: Request, limit: int) -> bytes:
    """The body, of at most ``limit`` bytes; no more than that is ever kept, or read where its length says so.

    Raises:
        HttpProblem: 413 or 408, and the connection ends.
        starlette.requests.ClientDisconnect: the client has gone.
    """
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal() or len(declared) > 18 or int(declared) > limit:
        raise _too_large(limit)
    body = bytearray()
    try:
        async with asyncio.timeout(SECONDS):
            async for chunk in request.stream():
                if len(body) + len(chunk) > limit:
                    raise _too_large(limit)
                body += chunk
    except TimeoutError:
        detail = f"the body did not arrive within {SECONDS:g} s"
        raise HttpProblem(HTTPStatus.REQUEST_TIMEOUT, detail, closes=True) from None
    return bytes(body)


def _too_large(limit: int) -> HttpProblem:
    detail = f"the body is larger than {limit} bytes (http.max_body)"
    return HttpProblem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail, closes=True)


def parse(body: bytes) -> dict[str, Any]:
    """The JSON object that a body is.

    Raises:
        HttpProblem: 400: no JSON, a key that stands twice, NaN, nested too deeply; says where.
    """
    body = body.removeprefix(_BOM)
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _unreadable(_why(body, error)) from None
    if not isinstance(document, dict):
        raise _unreadable(f"the body is {describe(document)}, expected a JSON object")
    if _is_deeper(document, MAX_DEPTH):
        raise _unreadable(f"the body is nested deeper than {MAX_DEPTH} levels")
    # That parser is strict, and keeps the last of two equal keys without a word; this one asks.
    checked: dict[str, Any] = json.loads(
        body, object_pairs_hook=_without_duplicates, parse_int=_number, parse_float=_number
    )
    return checked


def _why(body: bytes, error: orjson.JSONDecodeError) -> str:
    if not body.strip():
        return "the body is empty, expected a JSON object"
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as undecodable:
        line = body.count(b"\n", 0, undecodable.start) + 1
        return f"the body is not UTF-8: byte {undecodable.start}, line {line}"
    return f"the body is no JSON: {error.msg}: line {error.lineno} column {error.colno}"


def _is_deeper(document: Any, levels: int) -> bool:
    """Whether objects and lists are nested deeper than ``levels``; breadth first, as it may be deep."""
    level = [document]
    for _ in range(levels):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        (twice, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise _unreadable(f"the key {shown(twice)} stands twice in one object")
    return made


def _number(text: str) -> int | float:
    """To JSON Schema, and so to those who read our description, 7 and 7.0 are one number."""
    if len(text) <= _DIGITS and text.lstrip("-").isdecimal():
        return int(text)
    number = float(text)
    return int(number) if abs(number) < _EXACT and number.is_integer() else number


def _unreadable(detail: str) -> HttpProblem:
    return HttpProblem(HTTPStatus.BAD_REQUEST, detail)
