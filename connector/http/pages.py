"""The contract of pages beside those of the server itself, such as the console."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from connector.config.http_model import Http
from connector.http.calls import RequestCalls
from connector.http.tokens import Tokens
from connector.service.observer import Observer


class Pages(Protocol):
    """Pages of a room off the way, which the server finds in :data:`connector.config.http_model.PAGES`."""

    def __init__(
        self,
        settings: Http,
        observer: Observer,
        tokens: Tokens,
        calls: RequestCalls,
        description: Mapping[str, Any],
    ) -> None: ...

    def routes(self) -> Sequence[Route]:
        """Returns a route for each path."""


def constant_page(content: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    """Returns what answers every call with the same content."""

    async def show(_: Request) -> Response:
        return Response(content, media_type=media_type)

    return show
