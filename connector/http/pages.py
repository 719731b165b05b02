"""The contract of pages beside those of the server itself, such as the console."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from starlette.routing import Route

from connector.config.http_model import Http
from connector.http.calls import RequestCalls
from connector.http.tokens import Tokens
from connector.service.observer import Observer


class Pages(Protocol):
    """Pages of a room off the way, which the server finds in :data:`connector.config.http_model.PAGES`.

    Args:
        settings: the section ``http``.
    """

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
