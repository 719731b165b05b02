"""Answers the calls below ``/control``: what an operator sees and steers.

:data:`connector.http.actions.ACTIONS` has a line for each. A call of role ``operate`` is logged with the name
of its token and its result.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from connector.config.http_model import OPERATE, READ
from connector.config.loading import Configuration
from connector.errors import ConfigurationError, ConnectorError, ProviderError
from connector.http.bodies import check_media_type, parse, read_body
from connector.http.problems import HttpProblem
from connector.http.tokens import Tokens
from connector.service.observer import Observer
from connector.text.json_text import to_json

_log = logging.getLogger("connector.http")

_MOST_BYTES: Final = 1 << 20
_BODY_SECONDS: Final = 30.0
_MOST_LOOKS: Final = 4
"""Calls of role ``read`` that look at the provider at the same time."""


@dataclass(frozen=True, slots=True)
class ControlCall:
    """A call of an operator.

    Args:
        caller: the name of the token. Empty = no token was needed.
        path: the variable parts of the path, by name.
        query: the parameters behind ``?``.
        body: the JSON object in the body. Empty = none.
    """

    caller: str
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Mapping[str, Any]
    observer: Observer

    @property
    def configuration(self) -> Configuration:
        """Of the adapter."""
        return self.observer.configuration


class Action(NamedTuple):
    """A path below ``/control``.

    Args:
        path: may have variable parts, ``/control/history/{id}``.
        function: returns the document of the answer, the same as the command with ``--json``. Runs in a
            thread. Raises HttpProblem, or any ConnectorError for a call that cannot be done.
    """

    method: str
    path: str
    role: str
    function: Callable[[ControlCall], Any]


class OperatorCalls:
    """The calls of operators."""

    def __init__(self, observer: Observer, tokens: Tokens, actions: Sequence[Action]) -> None:
        self._observer = observer
        self._tokens = tokens
        self._actions = actions
        self._looks = asyncio.Semaphore(_MOST_LOOKS)

    def routes(self) -> list[Route]:
        """Returns a route for each path, with all its methods."""
        paths: dict[str, dict[str, Action]] = {}
        for action in self._actions:
            paths.setdefault(action.path, {})[action.method] = action
        return [
            Route(path, self._endpoint(by_method), methods=[*by_method]) for path, by_method in paths.items()
        ]

    def _endpoint(self, by_method: Mapping[str, Action]) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            method = "GET" if request.method == "HEAD" else request.method
            return await self._answer(by_method[method], request)

        return answer

    async def _answer(self, action: Action, request: Request) -> Response:
        caller = self._tokens.identify(request)
        try:
            self._tokens.demand(caller, action.role)
            body = await _body(request) if action.method != "GET" else {}
            call = ControlCall(
                caller.name, request.path_params, dict(request.query_params), body, self._observer
            )
            async with self._looks if action.role == READ else contextlib.nullcontext():
                document = await run_in_threadpool(do, action, call)
        except ClientDisconnect:
            return Response(status_code=HTTPStatus.BAD_REQUEST)  # the client has gone
        except HttpProblem as problem:
            log_action(action, caller.name, request, f"refused: {problem.detail}")
            raise
        log_action(action, caller.name, request, "done")
        return Response(to_json(document), media_type="application/json")


def do(action: Action, call: ControlCall) -> Any:
    """Returns the document of an action.

    Raises:
        HttpProblem: the action cannot be done.
    """
    try:
        return action.function(call)
    except ConfigurationError as error:
        detail = "; ".join(str(problem) for problem in error.problems)
        raise HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, detail) from None
    except ProviderError as error:
        raise HttpProblem(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from None
    except ConnectorError as error:
        raise HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from None


async def _body(request: Request) -> dict[str, Any]:
    """Returns the JSON object in a body. Empty if there is no body.

    Raises:
        HttpProblem: the body cannot be read.
    """
    body = await read_body(request, _MOST_BYTES, _BODY_SECONDS)
    if not body:
        return {}
    check_media_type(request.headers)
    return parse(body)


def log_action(action: Action, caller: str, request: Request, result: str) -> None:
    """Logs a call of role ``operate``.

    Args:
        result: ``done``, or why the call was refused.
    """
    if action.role == OPERATE:
        fields = {"token": caller, "action": f"{request.method} {request.url.path}", "result": result}
        _log.info("an operator has called", extra=fields)
