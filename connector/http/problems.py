"""Answers to calls that make no request: problem documents (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import orjson
from starlette.responses import Response

MEDIA_TYPE: Final = "application/problem+json"
_TITLES: Final = {
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "Content Too Large",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Unprocessable Content",
}
"""The names in RFC 9110 for status codes that Python knows by older names."""


def title(status: HTTPStatus) -> str:
    """Returns the name of a status."""
    return _TITLES.get(status, status.phrase)


class HttpProblem(Exception):
    """A call that cannot be answered as requested.

    Args:
        closes: whether the connection ends with the answer. The rest of the call is not read.
    """

    def __init__(
        self,
        status: HTTPStatus,
        detail: str,
        headers: Mapping[str, str] | None = None,
        *,
        closes: bool = False,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})
        self.closes = closes

    def response(self) -> Response:
        body = {
            "type": "about:blank",
            "title": title(self.status),
            "status": self.status.value,
            "detail": self.detail,
        }
        return Response(orjson.dumps(body), self.status.value, self.headers, MEDIA_TYPE)
