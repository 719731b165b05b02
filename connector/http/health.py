"""Answers ``GET /health/live``, ``/health/ready``, ``/health/well`` and ``/metrics``."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from connector.config.http_model import READ
from connector.http.problems import HttpProblem
from connector.http.tokens import Tokens
from connector.service.observer import Observer
from connector.text.json_text import to_json


class HealthPages:
    """The pages about the state of the adapter. Those below ``/health`` need no token.

    Args:
        observer: of the adapter.
        tokens: check the callers of ``/metrics``.
    """

    def __init__(self, observer: Observer, tokens: Tokens) -> None:
        self._observer = observer
        self._tokens = tokens

    def routes(self) -> list[Route]:
        return [
            Route("/health/live", self._live),
            Route("/health/ready", self._ready),
            Route("/health/well", self._well),
            Route("/metrics", self._metrics_page),
        ]

    async def _live(self, _: Request) -> Response:
        return _answer(list(filter(None, [self._observer.not_live()])))

    async def _ready(self, _: Request) -> Response:
        return _answer(list(filter(None, [await run_in_threadpool(self._observer.not_ready)])))

    async def _well(self, _: Request) -> Response:
        return _answer((await run_in_threadpool(self._observer.status))["reasons"])

    async def _metrics_page(self, request: Request) -> Response:
        self._tokens.check(request.headers, READ)
        accept = request.headers.get("accept", "")
        text, media_type = await run_in_threadpool(_metrics, self._observer, accept)
        return Response(text, headers={"Content-Type": media_type})


def _metrics(observer: Observer, accept: str) -> tuple[bytes, str]:
    try:
        from connector.operate.metrics import InstanceMetrics  # the package is an extra, slow to load
    except ModuleNotFoundError as error:
        text = "/metrics needs the package prometheus-client: pip install 'event-connector[metrics]'"
        raise HttpProblem(HTTPStatus.NOT_IMPLEMENTED, text) from error
    return InstanceMetrics(observer.activity, observer.gauges).text(accept)


def _answer(reasons: Sequence[str]) -> Response:
    status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
    document = {"status": "failed" if reasons else "ok", "reasons": reasons}
    return Response(to_json(document), status.value, media_type="application/json")
