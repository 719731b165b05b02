"""Every route of a server with a console: a role sees and does what it allows, and breaks nothing."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from connector.config.http_model import OPERATE, READ, REQUEST, SEND
from connector.http import application, tokens
from tests.http import shop
from tests.http.shop import BOSS, CALLER, OPERATOR, READER, TOKENS, World, named, send, service, with_archive
from tests.http.test_events import EVENTS
from tests.http.world import client
from tests.waiting import wait_for

MARK: Final = "Johanna Meier"
"""Stands in bodies, properties and reasons, and in no call."""
TEXTS: Final = (
    *("queue://orders", "queue://error", "queue://notes~FAILED", "topic://t", "error", "queue://%2e%2e"),
    *("ID:1", "1", "-1", "1h", "999999999d", "9" * 20, "newest", "store", "Order", "Create", "refused"),
    *("a LIKE '%_b%'", "JMSTimestamp > 1", "a = ", "\x00", "é\u202e", "\n", "../../etc/passwd", "--help"),
    *('{"Id": "7"}', "/console", "//evil.example", "<script>", "crlf", "x" * 3000),
)
VALUES: Final[tuple[Any, ...]] = (*TEXTS, 7, -1, True, None, [], ["queue://orders", "1"], [7, None])
QUERY: Final = (
    *("queue", "destination", "id", "selector", "group", "from", "order", "delayed", "since", "key"),
    *("correlation_id", "object", "verb", "body", "type", "next", "said", "timeout"),
)
BODY: Final = (
    *("destination", "ids", "id", "group", "kind", "reason", "selector", "limit", "yes", "expect", "to"),
    *("why", "what", "all", "body", "type", "sure", "next", "token", "object", "verb", "timeout", "key"),
)
IN_PATH: Final = ("Order", "Create", "orders", "ID:1", "é", "a%2Fb", "x" * 300)
ACCEPTED: Final = ("*/*", "text/plain;version=x", "application/openmetrics-text;version=2.x", ";q=a")
NAMED: Final = ("/requests/", "/console/request", "/control/history/")
"""Calls of these are not known where a name in them is not."""


def role_of(method: str, path: str) -> str:
    """The role that a call needs. Empty = none."""
    if re.match(r"/$|/(openapi\.json|docs|favicon|health|console/static|console/sign-)", path):
        return ""
    if path.startswith(("/requests", "/console/request")) and method == "POST":
        return REQUEST
    if path.startswith("/events/"):
        return SEND
    return OPERATE if method == "POST" else READ


class Someone(NamedTuple):
    """Who calls every route: with a session of the console, and with the token elsewhere, if there is one."""

    http: httpx.Client
    token: str
    roles: tuple[str, ...]
    form_key: str

    def call(self, method: str, path: str, given: dict[str, Any], accept: str) -> None:
        """Makes a call, and checks that it does and shows only what a role allows."""
        role, is_page = role_of(method, path), path.startswith("/console")
        headers = {"Authorization": f"Bearer {self.token}"} if self.token and not is_page else {}
        if method == "GET":
            answer = self.http.get(path, params=given, headers={**headers, "Accept": accept})
        elif is_page:
            key = {} if "sign-out" in path else {"form_key": self.form_key}  # who is signed out tests nothing
            answer = self.http.post(path, data=given | key)
        else:
            answer = self.http.post(path, json=given, headers=headers)
        told = f"{self.roles} {method} {path} {given}: {answer.status_code} {answer.text[:300]}"
        assert answer.status_code < 500 or path.startswith("/health/"), told
        if role and role not in self.roles:
            refused = 403 if self.token else 303 if is_page else 401
            is_unknown = answer.status_code == 404 and path.startswith(NAMED)  # everybody may see the names
            assert answer.status_code == refused or is_unknown, told
        if READ not in self.roles:
            assert MARK not in answer.text + str(answer.headers), told


@contextmanager
def everything(directory: Path) -> Iterator[tuple[World, list[Route]]]:
    """A service with messages that nobody without the role ``read`` may see, and all its routes."""
    found: list[Route] = []
    boss = named(BOSS, "eva", READ, OPERATE, REQUEST, SEND)

    def record(routes: list[Route], **more: Any) -> Starlette:
        found.extend(routes)
        return Starlette(routes=routes, **more)

    def run(words: Sequence[str], **_: object) -> CompletedProcess[bytes]:
        if any("\0" in one for one in words):
            raise ValueError("embedded null byte")  # as the real one
        return CompletedProcess(words, 0, b"", b"nothing")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(application, "Starlette", record)
        # a process for each call takes a second
        patch.setattr("connector.http.console.views.subprocess.run", run)
        patch.setattr(tokens, "_FREE", 1 << 30)
        patch.setattr(shop, "PROCESSES", shop.PROCESSES.replace("'secret-7'\"", "\" + order['Id']"))
        with service(directory, with_archive(), tokens=(*TOKENS, boss), events=EVENTS, console=True) as world:
            send(world.deployment, *(f"bad {MARK} {number}" for number in range(6)))
            wait_for(lambda: shop.counts(world.adapter) == (6, 0))
            world.deployment.send("queue://notes", MARK, properties={"a": MARK})
            yield world, found


def call_all(world: World, routes: list[Route], people: dict[str, tuple[str, ...]]) -> None:
    """Calls every route as some people, by token and roles, each three times with values that are drawn."""
    seed = int(os.environ.get("ROUTES_SEED") or random.randrange(1 << 32))
    print(f"ROUTES_SEED={seed} makes these calls again")  # pytest shows it with a failure
    draw = random.Random(seed)
    called = []
    for token, roles in people.items():
        http = client(world.server, None)
        http.post("/console/sign-in", data={"token": token})
        key = re.search(r'name="form_key" value="([^"]+)"', http.get("/console/requests").text)
        assert (key is not None) is bool(roles), "signed in"
        called.append(Someone(http, token, roles, key[1] if key is not None else ""))
    calls = [(route.path, method) for route in routes for method in route.methods or () if method != "HEAD"]
    assert len(calls) > 40
    for route, method in calls * 3:
        path = re.sub(r"{\w+(:path)?}", lambda _: quote(draw.choice(IN_PATH), safe=""), route)
        names = draw.sample(QUERY if method == "GET" else BODY, draw.randint(0, 4))
        is_json = method == "POST" and not route.startswith("/console")
        given = {name: draw.choice(VALUES if is_json else TEXTS) for name in names}
        for one in called:
            one.call(method, path, given, draw.choice(ACCEPTED))
    for one in called:
        one.http.close()


def test_who_has_no_role_sees_and_does_nothing_on_any_route(tmp_path: Path) -> None:
    with everything(tmp_path) as (world, routes):
        names = ("orders", "error", "notes", "archive")
        before = {name: sorted(world.deployment.names(name)) for name in names}
        call_all(world, routes, {"": (), READER: (READ,), CALLER: (REQUEST,)})
        assert {name: sorted(world.deployment.names(name)) for name in names} == before
        assert world.deployment.provider.state("shop").control().read().paused == []


def test_who_may_operate_breaks_no_route(tmp_path: Path) -> None:
    with everything(tmp_path) as (world, routes):
        call_all(world, routes, {OPERATOR: (OPERATE,), BOSS: (READ, OPERATE, REQUEST, SEND)})
