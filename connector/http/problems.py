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
"""What RFC 9110 calls those that Python knows by older names."""


class HttpProblem(Exception):
    """A call that cannot be answered as it is.

    Args:
        status: of the answer.
        detail: what is wrong, and what to do; a caller reads it.
        headers: of the answer.
        closes: the rest of the call is not read: the connection ends with the answer.
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
        """The answer."""
        body = {
            "type": "about:blank",
            "title": _TITLES.get(self.status, self.status.phrase),
            "status": self.status.value,
            "detail": self.detail,
        }
        return Response(orjson.dumps(body), self.status.value, self.headers, MEDIA_TYPE)
