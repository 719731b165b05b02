"""The application: the routes of the server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from connector.config.http_model import Http
from connector.http.calls import RequestCalls
from connector.http.guard import Guard
from connector.http.pages import constant_page
from connector.http.problems import HttpProblem
from connector.text.json_text import to_json

_LINGER_SECONDS: Final = 1.0
_LINGER_BYTES: Final = 4 << 20
_PAGES: Final = (
    ("/docs", "docs.html", "text/html"),
    ("/docs/docs.css", "docs.css", "text/css"),
    ("/docs/docs.js", "docs.js", "text/javascript"),
    ("/favicon.svg", "favicon.svg", "image/svg+xml"),
)
"""The pages: path, file of this package, and media type."""
_TRIAL_PLACE: Final = b"<!-- trial -->"
_TRIAL: Final = b'<a href="/console/requests">The console</a> has a form that makes a request.'
_NO_TRIAL: Final = b"With <code>http: {console: true}</code> the console has a form that makes a request."
_ENCODED_SLASH: Final = re.compile("%2f", re.IGNORECASE)


def make_application(
    settings: Http,
    calls: RequestCalls,
    description: Mapping[str, Any],
    more: Sequence[Route] = (),
) -> ASGIApp:
    """Returns the application."""
    described = constant_page(to_json(description), "application/json")
    trial = _TRIAL if settings.console else _NO_TRIAL

    async def home(_: Request) -> Response:
        return RedirectResponse("/docs", HTTPStatus.TEMPORARY_REDIRECT)

    routes = [
        Route("/requests/{object}/{verb}", calls.post, methods=["POST"]),
        Route("/openapi.json", described),
        Route("/", home),
        *more,
        *(Route(path, constant_page(_content(name, trial), media_type)) for path, name, media_type in _PAGES),
    ]
    application = Starlette(
        routes=routes,
        exception_handlers={
            HttpProblem: _on_problem,
            HTTPException: _on_http_exception,
            Exception: _on_exception,
        },
    )
    application.router.redirect_slashes = False
    return Guard(_by_segments(application), settings)


def _by_segments(application: ASGIApp) -> ASGIApp:
    """Routes by the segments of a path: an encoded slash is part of a name (RFC 3986, 2.2)."""

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        raw: str = scope["raw_path"].decode("ascii")
        if "%2f" in raw.lower():
            kept = _ENCODED_SLASH.sub(lambda found: f"%25{found[0][1:]}", raw)
            scope = {**scope, "path": unquote(kept)}
        await application(scope, receive, send)

    return route


def _content(name: str, trial: bytes) -> bytes:
    return (files("connector.http") / "static" / name).read_bytes().replace(_TRIAL_PLACE, trial)


async def _on_problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, HttpProblem)
    response = error.response()
    return _Last(response) if error.closes else response


async def _on_http_exception(request: Request, error: Exception) -> Response:
    """Answers an error of the router: there is no such path, or the path has no such method."""
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    detail = "nothing is here; requests go to /requests/OBJECT/VERB, and /docs says which there are"
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        detail = f"{request.url.path} does not take {request.method}"
    return HttpProblem(status, detail, error.headers).response()


async def _on_exception(_: Request, __: Exception) -> Response:
    detail = "a mistake of the connector; its log says more"
    return HttpProblem(HTTPStatus.INTERNAL_SERVER_ERROR, detail).response()


class _Last(Response):
    """An answer before the whole call is read. The connection ends with this answer.

    A close while the client still writes would reset the connection, and the answer would be lost. So for a
    moment more bytes are read and thrown away.
    """

    def __init__(self, response: Response) -> None:
        super().__init__(response.body, response.status_code, dict(response.headers))
        self.headers["Connection"] = "close"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        if not any(name == b"expect" for name, _ in scope["headers"]):  # such a client waits before it writes
            await self._throw_away(receive)
        await send({"type": "http.response.body", "body": b""})

    @staticmethod
    async def _throw_away(receive: Receive) -> None:
        thrown = 0
        try:
            async with asyncio.timeout(_LINGER_SECONDS):
                while thrown < _LINGER_BYTES:
                    message = await receive()
                    if message["type"] != "http.request" or not message.get("more_body"):
                        return
                    thrown += len(message["body"])
        except TimeoutError:
            pass
