"""All routes of a server with a console, as an OpenAPI document, and who may call them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, Final, NamedTuple

import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from connector.config.http_model import OPERATE, READ, REQUEST
from connector.http import application, tokens
from tests.http import shop
from tests.http.shop import BOSS, TOKENS, World, named, send, service, with_archive
from tests.waiting import wait_for

MARK: Final = "Johanna Meier"
"""Stands in bodies, properties and reasons, and in no call."""
PUBLIC: Final = ("/", "/openapi.json", "/docs", "/favicon", "/health", "/console/static", "/console/sign-")
_TEXTS: Final = (
    *("queue://orders", "queue://error", "queue://notes~FAILED", "topic://t", "error", "queue://%2e%2e"),
    *("ID:1", "1", "-1", "1h", "999999999d", "9" * 20, "newest", "store", "Order", "Create", "refused"),
    *("a LIKE '%_b%'", "JMSTimestamp > 1", "a = ", "\x00", "é\u202e", "\n", "../../etc/passwd", "--help"),
    *('{"Id": "7"}', "/console", "//evil.example", "<script>", "crlf", "x" * 3000),
)
_QUERY: Final = (
    *("queue", "destination", "id", "selector", "group", "from", "order", "delayed", "since", "key"),
    *("correlation_id", "object", "verb", "body", "type", "next", "said", "timeout"),
)
_BODY: Final = (
    *("destination", "ids", "id", "group", "kind", "reason", "selector", "limit", "yes", "expect", "to"),
    *("why", "what", "all", "body", "type", "sure", "next", "token", "object", "verb", "timeout", "key"),
)
_TEXT: Final = {"anyOf": [{"enum": [*_TEXTS]}, {"type": "string", "maxLength": 40}]}
_LIST: Final = {"type": "array", "items": _TEXT, "maxItems": 3}
_VALUE: Final = {"anyOf": [_TEXT, {"type": ["integer", "boolean", "null"]}, _LIST]}
_ACCEPT: Final = {"enum": ["*/*", "text/plain;version=x", "application/openmetrics-text;version=2.x", ";q=a"]}
_PATH: Final = {"enum": ["Order", "Create", "ID:1", "é", "a%2Fb", "x" * 300]}


def role_of(method: str, path: str) -> str:
    """The role that a call needs. Empty = none."""
    if path == "/" or path.startswith(PUBLIC[1:]):
        return ""
    if path.startswith(("/requests", "/console/request")) and method == "POST":
        return REQUEST
    return OPERATE if method == "POST" else READ


def describe(routes: Sequence[Route]) -> dict[str, Any]:
    """The OpenAPI document. Each route takes each parameter."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        for method in sorted((route.methods or set()) - {"HEAD"}):
            path = route.path.replace(":path", "")
            paths.setdefault(path, {})[method.lower()] = _operation(method, path, [*route.param_convertors])
    return {"openapi": "3.1.0", "info": {"title": "All", "version": "1"}, "paths": paths}


def _operation(method: str, path: str, names: Sequence[str]) -> dict[str, Any]:
    parameters = [{"name": one, "in": "path", "required": True, "schema": _PATH} for one in names]
    if method == "GET":
        parameters += [{"name": one, "in": "query", "required": False, "schema": _TEXT} for one in _QUERY]
        parameters.append({"name": "Accept", "in": "header", "required": False, "schema": _ACCEPT})
    found: dict[str, Any] = {"parameters": parameters, "responses": {"default": {"description": "any"}}}
    if method == "POST":
        is_form = path.startswith("/console")
        kind = "application/x-www-form-urlencoded" if is_form else "application/json"
        values = dict.fromkeys(_BODY, _TEXT if is_form else _VALUE)
        schema = {"type": "object", "properties": values, "additionalProperties": False}
        found["requestBody"] = {"required": True, "content": {kind: {"schema": schema}}}
    return found


class Everything(NamedTuple):
    """A service with all routes, and their description."""

    world: World
    document: dict[str, Any]


@contextmanager
def everything(directory: Path) -> Iterator[Everything]:
    """A service with messages that nobody without the role ``read`` may see."""
    found: list[Route] = []

    def record(routes: list[Route], **more: Any) -> Starlette:
        found.extend(routes)
        return Starlette(routes=routes, **more)

    def run(words: Sequence[str], **_: object) -> CompletedProcess[bytes]:
        if any("\0" in one for one in words):
            raise ValueError("embedded null byte")  # as the real one
        return CompletedProcess(words, 0, b"", b"nothing")

    boss = named(BOSS, "eva", READ, OPERATE, REQUEST)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(application, "Starlette", record)
        patch.setattr(
            "connector.http.console.views.subprocess.run", run
        )  # a process for each call takes a second
        patch.setattr(tokens, "_FREE", 1 << 30)
        patch.setattr(shop, "PROCESSES", shop.PROCESSES.replace("'secret-7'\"", "\" + order['Id']"))
        made = service(directory, with_archive(), tokens=(*TOKENS, boss), console=True)
        with made as world:
            send(world.deployment, *(f"bad {MARK} {number}" for number in range(6)))
            wait_for(lambda: shop.counts(world.adapter) == (6, 0))
            world.deployment.send("queue://notes", MARK, properties={"a": MARK})
            yield Everything(world, describe(found))
