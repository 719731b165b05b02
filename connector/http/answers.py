"""Translates the answer to a request to HTTP."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from starlette.responses import Response

from connector.requests.result import RequestResult
from connector.status import ReturnCode
from connector.text.json_text import to_json

STATUS: Final = {
    ReturnCode.SUCCEED: HTTPStatus.OK,
    ReturnCode.VALCHANGE: HTTPStatus.OK,
    ReturnCode.MULTIPLE_HITS: HTTPStatus.OK,
    ReturnCode.BO_DOES_NOT_EXIST: HTTPStatus.NOT_FOUND,
    ReturnCode.FAIL_RETRIEVE_BY_CONTENT: HTTPStatus.NOT_FOUND,
    ReturnCode.VALDUPES: HTTPStatus.CONFLICT,
    ReturnCode.FAIL: HTTPStatus.BAD_GATEWAY,
    ReturnCode.UNABLE_TO_LOGIN: HTTPStatus.BAD_GATEWAY,
    ReturnCode.APPRESPONSETIMEOUT: HTTPStatus.GATEWAY_TIMEOUT,
}
"""The status of the answer to a request, by its return code. This server is a gateway to the applications."""

SECONDS_TO_RETRY: Final = "1"
"""Retry-After of a refusal that may pass in a moment."""


def answer(result: RequestResult) -> Response:
    """Returns the HTTP answer. The body is the document of ``connector request --json``."""
    headers = {}
    status = STATUS.get(result.status, HTTPStatus.BAD_GATEWAY)
    if result.refused:
        status = HTTPStatus.UNPROCESSABLE_ENTITY
    elif result.not_sent:
        status = HTTPStatus.SERVICE_UNAVAILABLE
        headers["Retry-After"] = SECONDS_TO_RETRY
    return Response(to_json(result.as_dict()), status.value, headers, "application/json")
