"""Answers ``GET /health/live``, ``/health/ready``, ``/health/well`` and ``/metrics``.

They have threads of their own, so that no other page keeps them waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from connector.config.http_model import READ
from connector.http.problems import HttpProblem
from connector.http.tokens import Tokens
from connector.service.observer import Observer
from connector.text.json_text import to_json

_THREADS: Final = 4
_Found = TypeVar("_Found")


class HealthPages:
    """The pages about the state of the adapter. Those below ``/health`` need no token.

    Args:
        tokens: check the callers of ``/metrics``, and who may see texts of failures.
    """

    def __init__(self, observer: Observer, tokens: Tokens) -> None:
        self._observer = observer
        self._tokens = tokens
        self._threads = ThreadPoolExecutor(_THREADS, "connector-health")

    def routes(self) -> list[Route]:
        return [
            Route("/health/live", self._live),
            Route("/health/ready", self._ready),
            Route("/health/well", self._well),
            Route("/metrics", self._metrics_page),
        ]

    def close(self) -> None:
        """Ends the threads. Does not wait for one that is stuck."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _live(self, _: Request) -> Response:
        return _answer(list(filter(None, [self._observer.not_live()])))

    async def _ready(self, request: Request) -> Response:
        short = not self._may_read(request)
        return _answer(list(filter(None, [await self._ask(lambda: self._observer.not_ready(short=short))])))

    async def _well(self, request: Request) -> Response:
        document = await self._ask(self._observer.status)
        may_read = self._may_read(request)
        reasons, notices = (
            [one.to_json(with_text=may_read) for one in document.get(key, ())]
            for key in ("reasons", "notices")
        )
        return _answer(reasons, notices=notices)

    async def _metrics_page(self, request: Request) -> Response:
        self._tokens.check(request, READ)
        accept = request.headers.get("accept", "")
        text, media_type = await self._ask(lambda: _metrics(self._observer, accept))
        return Response(text, headers={"Content-Type": media_type})

    async def _ask(self, question: Callable[[], _Found]) -> _Found:
        return await asyncio.get_running_loop().run_in_executor(self._threads, question)

    def _may_read(self, request: Request) -> bool:
        """Whether a caller has named a token of role ``read``. Who only watches often logs what it sees."""
        try:
            caller = self._tokens.identify(request)
        except HttpProblem:
            return False
        return caller.number >= 0 and self._tokens.may(caller, READ)


def _metrics(observer: Observer, accept: str) -> tuple[bytes, str]:
    try:
        from connector.operate.metrics import InstanceMetrics  # the package is an extra, slow to load
    except ModuleNotFoundError as error:
        text = "/metrics needs the package prometheus-client: pip install 'event-connector[metrics]'"
        raise HttpProblem(HTTPStatus.NOT_IMPLEMENTED, text) from error
    return InstanceMetrics(observer.activity, observer.gauges).text(accept)


def _answer(reasons: Sequence[str | Mapping[str, Any]], **more: Any) -> Response:
    status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
    document = {"status": "failed" if reasons else "ok", "reasons": reasons, **more}
    return Response(to_json(document), status.value, media_type="application/json")
