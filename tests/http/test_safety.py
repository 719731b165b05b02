"""What strangers, browsers and senders can do to the server, and what they cannot."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

import httpx
import pytest

from connector.http.console.session import COOKIE, Sessions
from connector.http.problems import HttpProblem
from connector.http.tokens import Tokens
from connector.messaging import selector
from connector.messaging.history import HistoryRow
from connector.operate.lives import LifeEvent
from connector.service.status_document import as_json
from connector.text.iso_time import iso_time
from tests.http import shop
from tests.http.shop import BOSS, CALLER, OPERATOR, READER, TOKENS, World, counts, named, send, service
from tests.http.test_console import signed_in
from tests.http.world import TOKEN, client, serving, tokens
from tests.tables import Table, rows
from tests.waiting import wait_for

WRONG = "wrong-0123456789"
HOST = "orders.example.com"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A service with a console, behind a proxy, whose processes say what an order is about."""
    boss = named(BOSS, "eva", "read", "operate")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shop, "PROCESSES", shop.PROCESSES.replace("'secret-7'\"", "\" + order['Id']"))
        made = service(tmp_path_factory.mktemp("safety"), tokens=(*TOKENS, boss), console=True, hosts=(HOST,))
        with made as found:
            yield found


@contextmanager
def boss(world: World) -> Iterator[httpx.Client]:
    """Somebody with all roles: signed in, and with a token."""
    with signed_in(world.server, BOSS) as http:
        http.headers["Authorization"] = f"Bearer {BOSS}"
        yield http


# -- texts of callers ------------------------------------------------------------------------------


@rows(
    "text, words",
    [
        (f"a LIKE '%{'_' * 4000}b%'", "takes too long: ask for less"),
        (" OR ".join(["a LIKE '%b_b%'"] * 200), "takes too long: ask for less"),
        (f"a LIKE '%{'_' * 5000}b%'", "expected 4,096 at most"),
    ],
)
def test_no_selector_holds_the_adapter(
    world: World, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    monkeypatch.setattr(selector, "_MOST_SECONDS", 0.01)
    if not world.deployment.messages("big"):
        world.deployment.send("queue://big", "x", properties={"a": "a" * 2_000_000})
    with boss(world) as http:
        page = http.get("/console/messages", params={"queue": "queue://big", "selector": text})
        assert (page.status_code, words in page.text) == (422, True)
        asked = {"destination": "queue://big", "selector": text}
        for name, more in (("replay", {}), ("move", {"to": "queue://orders"}), ("discard", {})):
            answer = http.post(f"/control/{name}", json=asked | more)
            assert (answer.status_code, words in answer.json()["detail"]) == (422, True)


NUL = "a\x00b"


@rows(
    "path, given, status",
    [
        ("/console/explain", {"queue": "queue://orders", "id": NUL}, 422),
        ("/console/explain", {"destination": NUL, "body": "{}"}, 422),
        ("/console/explain", {"type": NUL, "body": "{}"}, 422),
        ("/console/message", {"queue": "queue://orders", "id": NUL}, 422),
        ("/console/messages", {"queue": f"queue://{NUL}"}, 422),
        ("/console/messages", {"queue": "queue://orders", "selector": f"a = '{NUL}'"}, 200),
        ("/console/history", {"id": NUL}, 200),
        *(("/console/history", {"since": one, "key": "7"}, 422) for one in ("\0", "99999999d", "x" * 30_000)),
        ("/console/errors", {"destination": f"queue://{NUL}"}, 422),
        ("/control/send", {"destination": "queue://notes", "type": NUL, "body": "x"}, 422),
        ("/control/send", {"destination": f"queue://{NUL}", "body": "x"}, 422),
        ("/control/correct", {"id": NUL, "body": "x"}, 422),
        ("/control/replay", {"ids": [NUL]}, 200),
        ("/control/pause", {"what": NUL}, 422),
        ("/metrics", {"Accept": "application/openmetrics-text; version=x"}, 200),
        ("/metrics", {"Accept": "application/openmetrics-text; version=2.x"}, 200),
        ("/metrics", {"Accept": "text/plain; version=1.x; escaping=x"}, 200),
    ],
)
def test_a_text_that_cannot_be_is_a_mistake_of_the_caller(
    world: World, path: str, given: dict[str, str], status: int
) -> None:
    with boss(world) as http:
        if path.startswith("/control"):
            answer = http.post(path, json=given)
        elif path == "/metrics":
            answer = http.get(path, headers=given)
        else:
            answer = http.get(path, params=given)
    assert answer.status_code == status, answer.text
    assert len(answer.text) < 20_000 or status == HTTPStatus.OK


# -- pages of other sites --------------------------------------------------------------------------

LINK = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
PICTURE = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
NOT_LINKED = """
    /console/messages?queue=queue://orders&selector=a=1 /console/explain?queue=queue://orders&id=1 /metrics
    /console/static/console.js /openapi.json /health/ready /control/status /docs/
"""
NO_PICTURES = """
    / /docs /console /console/explain?destination=queue://orders&body={} /health/well /favicon.svg
"""


@rows(
    "headers, path, status",
    [
        (LINK, "/", 307),
        (LINK, "/docs", 200),
        (LINK, "/console", 303),
        (LINK, "/console/sign-in?next=%2Fconsole", 200),
        ({**LINK, "Sec-Fetch-Dest": "document"}, "/docs", 200),
        ({**LINK, "Sec-Fetch-Dest": "iframe"}, "/docs", 403),
        *((LINK, path, 403) for path in NOT_LINKED.split()),
        *((PICTURE, path, 403) for path in NO_PICTURES.split()),
        ({**PICTURE, "Sec-Fetch-Site": "same-site"}, "/console", 403),
        ({**PICTURE, "Sec-Fetch-Site": "same-origin"}, "/favicon.svg", 200),
        ({**PICTURE, "Sec-Fetch-Site": "none"}, "/favicon.svg", 200),
        ({**PICTURE, "Origin": f"https://{HOST}"}, "/health/live", 200),
        ({**PICTURE, "Origin": "https://evil.example"}, "/health/live", 403),
        ({"Origin": "null", **LINK}, "/docs", 403),
    ],
)
def test_a_page_of_another_site_only_leads_here(
    world: World, headers: dict[str, str], path: str, status: int
) -> None:
    with client(world.server, None) as http:
        answer = http.get(path, headers=headers)
        assert http.post(path, headers=headers).status_code == 403 or headers not in (LINK, PICTURE)
    assert answer.status_code == status
    if status == HTTPStatus.FORBIDDEN:
        assert answer.headers["content-type"] == "application/problem+json"
        assert "other sites" in answer.text or "calls from pages of" in answer.text


# -- times that a sender decides about -------------------------------------------------------------


@rows(
    "seconds, text",
    [
        (0.0, "1970-01-01T00:00:00.000Z"),
        (-62135596800.0, "0001-01-01T00:00:00.000Z"),
        (-62135596801.0, "0001-01-01T00:00:00.000Z"),
        (9223372036854775.807, "9999-12-31T23:59:59.999Z"),
        (36028797018963968, "9999-12-31T23:59:59.999Z"),
        (-(2**62), "0001-01-01T00:00:00.000Z"),
        (1e300, "9999-12-31T23:59:59.999Z"),
        (float("inf"), "9999-12-31T23:59:59.999Z"),
        (float("-inf"), "0001-01-01T00:00:00.000Z"),
        (float("nan"), "9999-12-31T23:59:59.999Z"),
    ],
)
def test_any_time_becomes_a_text(seconds: float, text: str) -> None:
    assert iso_time(seconds) == text
    document = {"inputs": [{"oldest": seconds}], "last_failure": {"time": seconds}}
    assert as_json(document) == {"inputs": [{"oldest": text}], "last_failure": {"time": text}}
    row = HistoryRow(time=seconds, what="later", ids=["ID:1"], due=2**63 - 1)
    event = LifeEvent("ID:1", row, None, (), "", ()).as_dict()
    assert (event["time"], event["due"]) == (text, "9999-12-31T23:59:59.999Z")


TIMES = (
    "target/4.due2.T.....JMS_dropboxmq_dueL=9223372036854775807",
    "target/4.due3.T.....JMS_dropboxmq_dueL=-9223372036854775808",
    "delayed/9999999999999999.4.y.T",
)
PAGES_OF_TIMES = """
    /console/messages?queue=queue://times /console/messages?queue=queue://times&delayed=1
    /console/messages?queue=queue://times&order=newest /console/messages?queue=queue://times&order=largest
    /console /console/queues /console/errors?destination=queue://times
    /control/status /control/errors?destination=queue://times /metrics
"""


def test_no_time_of_a_message_breaks_a_page(world: World) -> None:
    world.deployment.send("queue://times", "x")
    folder = Path(world.deployment.directory, "data", "times", "incoming")
    for name in TIMES:
        folder.joinpath(name).parent.mkdir(exist_ok=True)
        folder.joinpath(name).write_text("not json")
    with boss(world) as http, Table() as table:
        for path in PAGES_OF_TIMES.split():
            with table.row(path):
                page = http.get(path)
                assert page.status_code == HTTPStatus.OK
                for link in re.findall(r'href="(/console/message\?[^"]*)"', page.text):
                    assert http.get(link.replace("&amp;", "&")).status_code == HTTPStatus.OK


# -- what everybody may ask ------------------------------------------------------------------------


def test_only_a_reader_sees_texts_of_failures_in_the_health(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(world.deployment, *(f"bad customer Johanna Meier, blood group AB{number}" for number in range(6)))
    wait_for(lambda: counts(world.adapter)[0] >= 6, what="six failures")
    monkeypatch.setattr(world.adapter, "_tell_failure", lambda _: None)  # the next poll is good
    with client(world.server, None) as http, Table() as table:
        wait_for(lambda: http.get("/health/well").status_code == 503, what="the failures are seen")
        for token, sees in (("", False), (WRONG, False), (OPERATOR, False), (CALLER, False), (READER, True)):
            with table.row(token):
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                (reason,) = http.get("/health/well", headers=headers).json()["reasons"]
                assert (reason["kind"], reason["count"]) == ("failures", 6)
                assert ("text" in reason) is sees
                assert "blood group AB5" in reason.get("text", "") or not sees
                assert reason.get("text", "").endswith("(processes.py:3)") is sees
                world.adapter._failure = "NotActive: Johanna is away"
                (reason,) = http.get("/health/ready", headers=headers).json()["reasons"]
                world.adapter._failure = ""
                assert ("Johanna" in reason) is sees
                assert sees or reason == "the provider or Spark cannot be used"


# -- tokens and sessions ---------------------------------------------------------------------------


def test_who_names_many_wrong_tokens_has_to_wait(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "connector.http")
    now = [1000.0]
    checked = Tokens(tokens("one-0123456789abcdef", "two-0123456789abcdef"), lambda: now[0])

    def waits(token: str, client: str = "a") -> float:
        try:
            checked.find(token, client)
        except HttpProblem as problem:
            return float(problem.headers["Retry-After"])
        return 0.0

    assert waits("one-0123456789abcdef") == 0
    assert [waits(f"{number}") for number in range(20)] == [0.0] * 20
    assert waits("x") == waits("two-0123456789abcdef") == 1.0, "a right guess is not told"
    assert waits("one-0123456789abcdef") == 0, "who was let in before is let in"
    assert waits("two-0123456789abcdef", "b") == 0, "another client"
    found: list[float] = []
    for _ in range(9):
        now[0] += 60 if not found else found[-1]
        assert waits("x") == 0, "one more try"
        found.append(waits("x"))
    assert found == [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 64.0, 64.0, 64.0]
    now[0] += 64
    assert waits("two-0123456789abcdef") == 0
    now[0] += 1000
    assert [waits(f"{number}") for number in range(19)] == [0.0] * 19, "what is long ago does not count"
    for number in range(20_000):
        waits("x", f"client {number}")
    assert len(checked._clients) == 10_000
    assert caplog.messages[0] == "wrong tokens are refused"


def test_the_log_warns_of_a_token_that_can_be_guessed(caplog: pytest.LogCaptureFixture) -> None:
    with serving(tokens=("short-token-15x", named("short", "ann", "read"), TOKEN)):
        warned = [vars(one) for one in caplog.records if one.message == "a token can be guessed"]
    assert [(one["token"], one["characters"]) for one in warned] == [("token 1", 15), ("ann", 5)]


def test_a_client_with_wrong_tokens_is_told_to_wait_on_each_way(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        service(tmp_path, tokens=TOKENS, console=True) as (_, _, server),
        client(server, WRONG) as http,
        client(server, READER) as reader,
    ):
        answers = [http.get("/metrics") for _ in range(10)]
        answers += [http.post("/console/sign-in", data={"token": WRONG}) for _ in range(11)]
        assert [one.status_code for one in answers] == [401] * 20 + [429]
        answers += [http.post("/requests/Order/Create", json={}), reader.get("/metrics")]
        for answer in answers[20:]:
            assert answer.status_code == 429
            assert "too many wrong tokens came from this address; try again in 1 s" in answer.text
        assert answers[-1].headers["retry-after"] == "1"
        assert reader.get("/health/live").status_code == 200
        assert WRONG not in caplog.text


def test_a_session_has_ended_after_the_sign_out(world: World) -> None:
    with signed_in(world.server, READER) as http, signed_in(world.server, READER) as other:
        copy = http.cookies[COOKIE]
        (key,) = set(re.findall(r'name="form_key" value="([^"]+)"', http.get("/console").text))
        http.post("/console/sign-out", data={"form_key": "wrong"})
        assert http.get("/console").url.path == "/console", "a form of another page signs nobody out"
        assert http.post("/console/sign-out", data={"form_key": key}).url.path == "/console/sign-in"
        with client(world.server, None, cookies={COOKIE: copy}) as thief:
            assert thief.get("/console").status_code == HTTPStatus.SEE_OTHER
            pause = {"form_key": key, "what": "queue://orders", "sure": "1"}
            assert thief.post("/console/pause", data=pause).status_code == HTTPStatus.SEE_OTHER
        assert other.get("/console").url.path == "/console", "another session goes on"


def test_ended_sessions_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connector.http.console.session._MOST_ENDED", 10)
    now = [1000.0]
    sessions = Sessions(Tokens(tokens(TOKEN)), lambda: now[0])
    first, *cookies = [sessions.open(TOKEN, "a") for _ in range(12)]
    for cookie in cookies:
        sessions.close(cookie)
        sessions.close(cookie)
    assert len(sessions._ended) <= 10
    assert [sessions.caller(one) for one in (first, *cookies)] == [None] * 12, "rather all than none"


@rows(
    "headers, is_secure",
    [
        ({}, False),
        ({"Host": HOST}, True),
        ({"Host": HOST, "Origin": f"http://{HOST}"}, False),
        ({"Host": HOST, "X-Forwarded-Proto": "http"}, False),
        ({"Origin": f"https://{HOST}"}, True),
        ({"X-Forwarded-Proto": "https"}, True),
        ({"X-Forwarded-Proto": "https, http"}, True),
        ({"Host": f"{HOST}:8443", "X-Forwarded-Proto": "?"}, True),
    ],
)
def test_a_cookie_is_for_tls_where_a_proxy_ends_tls(
    world: World, headers: dict[str, str], is_secure: bool
) -> None:
    with client(world.server, None) as http:
        answer = http.post("/console/sign-in", data={"token": READER}, headers=headers)
    assert ("; secure" in answer.headers["set-cookie"].casefold()) is is_secure


@rows("cookie", ["", "0", "é.é", "0.9999999999.x.y", "..", "a.b.c.d", "0.1e5.x." + "0" * 64, "\x80" * 3000])
def test_a_forged_cookie_is_no_session(world: World, cookie: str) -> None:
    headers = {b"Cookie": f"{COOKIE}={cookie}".encode("latin-1")}
    with client(world.server, None) as http:
        for method, path in (("GET", ""), ("POST", "/pause"), ("POST", "/sign-out")):
            answer = http.request(method, f"/console{path}", headers=headers)
            assert answer.status_code == HTTPStatus.SEE_OTHER


def test_a_form_that_everybody_may_send_is_small(world: World) -> None:
    with client(world.server, None) as http:
        for path in ("/console/sign-in", "/console/sign-out"):
            for body in (b"token=" + b"x" * 5000, iter([b"token=", b"x" * 5000])):
                answer = http.post(path, content=body)
                assert answer.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        long = httpx.QueryParams(next=f"/console/messages?selector={'x' * 3000}")
        page = http.get(f"/console/sign-in?{long}").text
        assert 'name="next" value="/console"' in page
