"""The console, as a browser without JavaScript sees it, and as somebody who means it ill does."""

from __future__ import annotations

import html
import logging
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

import httpx
import pytest

from connector.errors import ProviderError
from connector.http.console import views
from connector.http.console.bodies import shown_body
from connector.http.console.session import SECONDS, Sessions
from connector.http.server import Server
from connector.http.tokens import Tokens
from connector.messaging.message import Message
from connector.service.shared_reads import SharedReads
from tests.http.shop import BOSS, CONSOLE, READER, World, counts, send, service, with_archive
from tests.http.world import client, tokens
from tests.tables import rows
from tests.waiting import wait_for

PAGES = (
    *("", "/queues", "/errors", "/history", "/configuration", "/messages?queue=queue://error"),
    *("/requests", "/requests?object=Order&verb=Create"),
)
EXACT = """\
{
  "a": 1.10,
  "b": 12345678901234567890.5,
  "c": "x: {\\"",
  "d": {},
  "e": [
    [],
    1
  ]
}"""
TIMERS = "timers: [{name: yearly, every: 366d, to: queue://jobs, body: x}]\n"
HOSTILE = "bad<script>alert(1)</script>\u202e{{ 7*7 }}"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A service with two failed events and one published one. Its explanations may take long."""
    with (
        pytest.MonkeyPatch.context() as patch,
        service(tmp_path_factory.mktemp("console"), with_archive() + TIMERS, **CONSOLE) as made,
    ):
        patch.setattr(views, "_EXPLAIN_SECONDS", 240.0)
        deployment, adapter, _ = made
        send(deployment, HOSTILE, "bad2", "good1")
        wait_for(lambda: counts(adapter) == (2, 1))
        yield made


@contextmanager
def signed_in(server: Server, token: str) -> Iterator[httpx.Client]:
    with client(server, None, follow_redirects=True) as http:
        answer = http.post("/console/sign-in", data={"token": token, "next": "/console"})
        assert answer.url.path == "/console"
        yield http


def fields(form: str) -> dict[str, str]:
    """The hidden fields of a form."""
    return dict(re.findall(r'name="([^"]+)" value="([^"]*)"', form))


def form_of(http: httpx.Client, page: str, action: str) -> dict[str, str]:
    """The hidden fields of the first form with an action."""
    text = http.get(page).text
    return fields(text[text.index(f'action="/console/{action}"') :].partition("</form>")[0])


def place_of(message: Message | str) -> str:
    """The page of a message in error."""
    identity = message if isinstance(message, str) else message.message_id
    return f"/console/message?{httpx.QueryParams(queue='queue://error', id=identity)}"


def test_pages_show_what_happened(world: World) -> None:
    _, _, server = world
    with signed_in(server, READER) as http:
        for page in PAGES:
            answer = http.get(f"/console{page}")
            assert answer.status_code == HTTPStatus.OK, page
            assert answer.headers["content-type"] == "text/html; charset=utf-8"
            for part in ("form-action 'self'", "frame-ancestors 'none'"):
                assert part in answer.headers["content-security-policy"]
            assert "unsafe" not in answer.headers["content-security-policy"]
            assert not re.search(r"<[^>]*\s(style|on\w+)=", answer.text)
        told = "In the last hour 1 published and 2 failed"
        wait_for(lambda: told in http.get("/console").text, what="the counts are seen")
        overview = http.get("/console").text
        assert "<td>ValueError: no shelf for" in overview  # the last error of the subscription
        assert "2 messages wait in queue://error. Next: <code>connector errors</code>" in overview
        assert "no shelf for" in http.get("/console/errors").text
        (reason,) = re.findall(r'class="reason">([^<]*)<', http.get("/console/errors").text)
        assert "secret-7" in reason
        assert READER not in http.get("/console/configuration").text
        (row,) = re.findall(r"<tr>\s*<th[^>]*>yearly</th>.*?</tr>", http.get("/console").text, re.DOTALL)
        assert re.findall(r"<td>([^<]*)", row)[:2] == ["queue://jobs", "every 366d"]
        assert 'datetime="20' in row


def test_hostile_text_is_only_shown(world: World) -> None:
    deployment, _, server = world
    (hostile,) = [one for one in deployment.messages("error") if b"script" in one.body]
    with signed_in(server, READER) as http:
        page = http.get(place_of(hostile))
        assert page.status_code == HTTPStatus.OK
        assert "<script>alert" not in page.text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.text
        assert "{{ 7*7 }}" in page.text
        found = http.get(place_of(hostile).replace("message", "explain", 1))
        assert "<script>alert" not in found.text
        assert "Order" in found.text
        for identity in ("/etc/passwd", "adapter.yaml", "--help"):
            answer = http.get(place_of(identity).replace("message", "explain", 1))
            assert "no message of this id" in answer.text
        gone = http.get(place_of("<b>"))
        assert gone.status_code == HTTPStatus.UNPROCESSABLE_ENTITY
        assert "<b>" not in gone.text


def test_an_operator_replays_a_group_after_a_preview(tmp_path: Path) -> None:
    with service(tmp_path, **CONSOLE) as (deployment, adapter, server):
        send(deployment, "bad1", "bad2")
        wait_for(lambda: counts(adapter) == (2, 0))
        deployment.write("processes.py", "def store(order, event):\n    pass\n")
        with signed_in(server, BOSS) as http:
            preview = http.post("/console/discard", data=form_of(http, "/console/errors", "discard"))
            assert "Discard 2 messages?" in preview.text
            assert len(deployment.messages("error")) == 2, "a preview changes nothing"
            form = fields(preview.text)
            assert form["expect"] == "2"
            done = http.post("/console/discard", data=form)
            assert done.url.path == "/console/errors"
            assert "discard: 2 of 2 messages" in done.text
            assert deployment.messages("error") == []
            again = http.post("/console/discard", data=form)
            assert again.status_code == HTTPStatus.UNPROCESSABLE_ENTITY
            form = form_of(http, "/console", "pause")
            asked = http.post("/console/pause", data=form)
            assert "Pause queue://orders?" in asked.text
            assert deployment.provider.state("shop").control().read().paused == []
            said = http.post("/console/pause", data={**form, "sure": "1", "reason": "the shop is closed"})
            assert "the shop is closed" in said.text
            assert "pause: queue://orders" in said.text
            assert "paused" in said.text


def test_a_group_has_a_traceback_and_its_messages(world: World) -> None:
    deployment, _, server = world
    other = deployment.send("queue://error", "x", properties={"connector_reason": "another"})
    with signed_in(server, READER) as http:
        wait_for(lambda: http.get("/console/errors").text.count("All of them") == 2)
        page = http.get("/console/errors").text
        trace = html.unescape(re.findall(r"<pre[^>]*>([^<]*)</pre>", page)[0])
        assert re.search(r'File ".*/processes.py", line \d+, in store', trace)
        assert "connector/" not in trace
        assert "ValueError: no shelf for" in trace
        (group, _) = re.findall(r'href="(/console/messages\?[^"]*group=[^"]*)"', page)
        listed = http.get(group.replace("&amp;", "&")).text
        ids = [one.message_id or "" for one in deployment.messages("error")]
        assert [one in listed for one in ids] == [one != other for one in ids]
        assert 'action="/console/move"' not in page + listed, "it needs the role operate"


def test_some_of_a_group_are_moved_to_a_queue(tmp_path: Path) -> None:
    with service(tmp_path, **CONSOLE) as (deployment, adapter, server):
        send(deployment, "bad1", "bad2", "bad3")
        wait_for(lambda: counts(adapter) == (3, 0))
        with signed_in(server, BOSS) as http:
            form = form_of(http, "/console/errors", "move")
            for wrong in ("", "queue://error"):
                refused = http.post("/console/move", data={**form, "to": wrong})
                assert refused.status_code == HTTPStatus.UNPROCESSABLE_ENTITY
            preview = http.post("/console/move", data={**form, "to": "queue://later", "limit": "2"})
            assert "Move 2 messages?" in preview.text
            assert "queue://later" in preview.text
            assert len(deployment.messages("error")) == 3
            form = fields(preview.text)
            assert "move: 2 of 2 messages" in http.post("/console/move", data=form).text
            assert (len(deployment.messages("error")), len(deployment.messages("later"))) == (1, 2)
            (left,) = deployment.messages("error")
            form = {**form_of(http, place_of(left), "discard"), "why": "no such order"}
            assert "Discard 1 message?" in http.post("/console/discard", data=form).text
            assert "discard: 1 of 1" in http.post("/console/discard", data={**form, "yes": "1"}).text
            assert deployment.messages("error") == []
            page = http.get("/console/errors").text
            assert "Nothing is in queue://error" in page, "an operator sees at once what is left"


def test_a_search_ends_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with service(tmp_path, **CONSOLE) as (deployment, _, server):
        ids = [deployment.send("queue://notes", "x" * n, type=f"T{n}") for n in range(120)]
        with signed_in(server, READER) as http:

            def look(**asked: str) -> tuple[list[str], str]:
                page = http.get("/console/messages", params={"queue": "queue://notes", **asked}).text
                further = re.findall(r'href="([^"]*from=\d+)">Look further', page)
                return re.findall(r"<th scope=\"row\"><a [^>]*>([^<]*)</a>", page), "".join(further)

            assert look() == (ids[:50], "/console/messages?queue=queue%3A%2F%2Fnotes&amp;from=50")
            assert look(**{"from": "100"}) == (ids[100:], "")
            assert look(selector="JMSType = 'T70'") == ([ids[70]], "")
            assert look(order="newest")[0][0] == ids[-1]
            assert look(order="largest") == (ids[:-51:-1], "")
            monkeypatch.setattr(views, "_SEARCH_SECONDS", 0.0)
            found, further = look(selector="JMSType = 'T1'")
            assert found == []
            assert further.endswith("&amp;selector=JMSType%20%3D%20%27T1%27&amp;from=1")
            assert look(selector="JMSType = 'T1'", **{"from": "1"})[0] == [ids[1]]


def test_the_history_is_searched_by_time(world: World) -> None:
    _, _, server = world
    with signed_in(server, READER) as http:
        page = http.get("/console/history?since=1h").text
        assert page.count("<strong>failed</strong>") == 2
        assert page.count("<strong>published</strong>") == 1
        for asked, status, words in (
            ("", 200, "Give an id"),
            ("?since=2999-01-01", 200, "nothing about this"),
            ("?key=no&since=1h", 200, "nothing about this"),
            ("?since=yesterday", 422, "is no time; expected 30m"),
        ):
            answer = http.get(f"/console/history{asked}")
            assert (answer.status_code, words in answer.text) == (status, True)


def test_many_readers_cost_one_look() -> None:
    now = [0.0]
    reads, looked = SharedReads(lambda: now[0]), []

    def look() -> int:
        now[0] += 0.5
        looked.append(now[0])
        if len(looked) == 4:
            raise ProviderError("away")
        return len(looked)

    assert [reads.get("a", look) for _ in range(3)] == [1, 1, 1]
    now[0] += 48
    assert reads.get("a", look) == 1, "a read takes at most a hundredth of the time"
    now[0] += 2
    assert reads.get("a", look) == 1, "nobody waits for what is known"
    wait_for(lambda: reads.get("a", look) == 2)
    reads.forget()
    assert reads.get("a", look) == 3, "an operator sees what has changed"
    reads.forget()
    for _ in range(2):
        with pytest.raises(ProviderError, match="away"):
            reads.get("a", look)
    assert reads.get("b", look) == 5


def test_a_body_is_corrected_and_sent_again(tmp_path: Path, on_provider: str) -> None:
    with service(tmp_path, with_archive(on_provider), **CONSOLE) as (deployment, adapter, server):
        send(deployment, "bad1")
        wait_for(lambda: counts(adapter) == (1, 0))
        (old,) = deployment.messages("error")
        with signed_in(server, BOSS) as http:
            form = {**form_of(http, place_of(old), "correct"), "sure": "1"}
            assert "line_end" not in form
            done = http.post("/console/correct", data={**form, "body": '{\r\n"Id": "good1"}'})
            assert "the corrected message is in queue://orders" in done.text
            wait_for(lambda: counts(adapter)[1] == 1, what="the corrected message is published")
            again = http.post("/console/correct", data={**form, "body": "{}"})
            assert "is not in queue://error any more" in again.text
            life = http.get("/console/history", params={"id": old.message_id}).text
        assert deployment.messages("error") == []
        kept, new = sorted(deployment.messages("archive"), key=lambda one: one.body != old.body)
        assert (kept.message_id, kept.body) == (old.message_id, old.body)
        assert kept.properties["connector_outcome"] == "discarded"
        assert kept.properties["connector_discarded_by"] == "eva"
        assert new.properties["connector_event_id"] == old.message_id
        assert new.message_id != old.message_id
        assert new.body == b'{\n"Id": "good1"}'
        assert "corrected, and sent to queue://orders" in life
        assert str(new.message_id) in life
        with signed_in(server, READER) as http:
            life = http.get("/console/history", params={"id": new.message_id}).text
        assert "Came from" in life
        assert str(old.message_id) in life


def test_a_message_for_somebody_else_leads_to_the_message_that_it_was_sent_for(tmp_path: Path) -> None:
    adapter = with_archive().replace('process: "processes:store"', "destination: queue://partner")
    with service(tmp_path, adapter, **CONSOLE) as (deployment, running, server):
        send(deployment, "good1")
        wait_for(lambda: counts(running) == (0, 1))
        sent, event = (deployment.messages(queue)[0].message_id for queue in ("partner", "archive"))
        assert sent is not None
        assert event is not None
        with signed_in(server, READER) as http:
            assert event in http.get("/console/history", params={"id": sent}).text
        asked = {"Authorization": f"Bearer {READER}"}
        with client(server) as http:
            life = http.get(f"/control/history/{sent}", headers=asked).json()
        assert (life["id"], life["events"][0]["sent"]) == (event, ["queue://partner"])


def test_a_correction_keeps_the_line_ends(tmp_path: Path) -> None:
    with (
        service(tmp_path, with_archive(), **CONSOLE) as (deployment, _, server),
        signed_in(server, BOSS) as http,
    ):
        origin = {"connector_origin_destination": "queue://notes", "connector_outcome": "failed"}
        failed = deployment.send("queue://error", "UNA\r\nUNB+1.10\r\n", properties=origin)
        form = form_of(http, place_of(failed), "correct")
        asked = http.post("/console/correct", data={**form, "body": "UNA\r\nUNB+1.20\r\n"})
        assert "The old one goes to the archive" in asked.text
        assert len(deployment.messages("error")) == 1, "a question changes nothing"
        http.post("/console/correct", data={**form, "body": "UNA\r\nUNB+1.20\r\n", "sure": "1"})
        assert [one.body for one in deployment.messages("notes")] == [b"UNA\r\nUNB+1.20\r\n"]


def test_a_correction_calls_nobody_who_has_confirmed(tmp_path: Path) -> None:
    origin = {"connector_origin_destination": "queue://orders", "connector_outcome": "failed"}
    confirmed = {**origin, "connector_delivered": "store"}
    topic = {"connector_origin_destination": "topic://t", "connector_origin_subscription": "s"}
    with (
        service(tmp_path, with_archive(), tokens=CONSOLE["tokens"]) as (deployment, adapter, server),
        client(server, BOSS) as http,
    ):
        given = {
            "id": deployment.send("queue://error", "x", properties=confirmed),
            "body": '{"Id": "bad, if anybody is called"}',
        }
        assert http.post("/control/correct", json=given).json() == {"to": "queue://orders"}
        wait_for(lambda: counts(adapter) == (0, 1), what="it is published without a call")
        kept = deployment.send("queue://error", "x", properties={**origin, **topic})
        refused = http.post("/control/correct", json={**given, "id": kept})
        assert refused.status_code == HTTPStatus.UNPROCESSABLE_ENTITY
        assert "other subscriptions of the topic topic://t" in refused.json()["detail"]
        assert [one.message_id for one in deployment.messages("error")] == [kept], "it is never lost"


def test_a_test_message_is_sent(tmp_path: Path) -> None:
    with service(tmp_path, **CONSOLE) as (deployment, _, server), signed_in(server, BOSS) as http:
        deployment.send("queue://notes", "x")
        form = form_of(http, "/console/messages?queue=queue%3A%2F%2Fnotes", "send")
        form |= {"type": "T", "body": "héllo"}
        assert "héllo" in http.post("/console/send", data=form).text
        assert len(deployment.messages("notes")) == 1, "a question sends nothing"
        done = http.post("/console/send", data={**form, "sure": "1"})
        assert "was sent" in done.text
        found = [(one.type, one.body.decode()) for one in deployment.messages("notes")]
        assert found == [(None, "x"), ("T", "héllo")]


def test_readers_cannot_start_many_explanations(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, goes_on = threading.Semaphore(0), threading.Event()

    def explain(*_: object, **__: object) -> dict[str, object]:
        begun.release()
        goes_on.wait()
        return {"found": None, "problem": "it was explained"}

    monkeypatch.setattr(views, "_explain", explain)
    asked = {"destination": "queue://orders", "body": "{}"}
    with signed_in(world.server, READER) as http, ThreadPoolExecutor(20) as threads:
        answers = [threads.submit(http.get, "/console/explain", params=asked) for _ in range(20)]
        try:
            begun.acquire()
            begun.acquire()
            wait_for(lambda: sum(one.done() for one in answers) == 14, what="the others are refused at once")
            assert not begun.acquire(blocking=False), "two at a time"
            assert http.get("/health/ready").status_code == HTTPStatus.OK
        finally:
            goes_on.set()
        found = [one.result() for one in answers]
    assert sorted(one.status_code for one in found) == [200] * 6 + [503] * 14
    assert all(
        ("it was explained" if one.is_success else "Other messages are explained now") in one.text
        for one in found
    )


def test_an_explanation_that_takes_too_long_ends(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "_EXPLAIN_SECONDS", 0.01)
    asked = {"destination": "queue://orders", "body": "{}"}
    with signed_in(world.server, READER) as http:
        assert "took longer than" in http.get("/console/explain", params=asked).text


def test_a_trial_says_which_rule_counts(world: World) -> None:
    deployment, _, server = world
    with signed_in(server, READER) as http:
        page = http.get("/console/configuration").text
        assert re.search(r">PollQuantity</th><td[^>]*><code>\d+</code></td><td>[A-Z]", page)
        assert "Order_Create" in page
        assert ">Order <" in page
        asked = {"destination": "queue://orders", "body": '{"Id": "<i>7</i>"}'}
        found = http.get("/console/explain", params=asked).text
        assert "It would be <strong>published</strong>" in found
        assert "Order_Create" in found
        assert "&lt;i&gt;7" in found
        assert "<i>7" not in found
        wrong = http.get("/console/explain", params={**asked, "destination": "--help"})
        assert wrong.status_code == HTTPStatus.OK
        assert "Usage" not in wrong.text
    assert deployment.messages("orders") == []


def test_who_may_only_read_is_told_the_role_and_sees_no_action(world: World) -> None:
    failed = place_of(world.deployment.messages("error")[0]).removeprefix("/console")
    found = []
    for token in (READER, BOSS):
        with signed_in(world.server, token) as http:
            pages = "".join(http.get(f"/console{page}").text for page in (*PAGES, failed))
            found.append(set(re.findall(r'method="post" action="/console/([\w-]+)', pages)))
            key = form_of(http, "/console", "sign-out")["form_key"]
            refused = http.post("/console/pause", data={"form_key": key})
            assert ("role operate" in refused.text) is (token == READER)
    assert found[0] == {"sign-out"}
    assert found[1] == {*["pause", "reload", "replay", "move", "discard", "correct", "send", "sign-out"]}


def test_a_form_of_another_page_does_nothing(world: World) -> None:
    deployment, _, server = world
    with signed_in(server, BOSS) as http, signed_in(server, BOSS) as other:
        key = form_of(other, "/console", "pause")["form_key"]
        for given in ({}, {"form_key": ""}, {"form_key": "é"}, {"form_key": key}):
            answer = http.post("/console/pause", data={"what": "queue://orders", **given})
            assert answer.status_code == HTTPStatus.FORBIDDEN
        assert http.get("/console/pause").status_code == HTTPStatus.METHOD_NOT_ALLOWED
    assert deployment.provider.state("shop").control().read().paused == []


EVIL = ("https://evil.example", "//evil.example", "/\\evil.example", "/console\\..")


@rows("there", [*EVIL, "/docs", "/consoles", "/console\n"])
def test_nothing_leads_to_another_server(world: World, there: str) -> None:
    with client(world.server, None) as http:
        answer = http.post("/console/sign-in", data={"token": READER, "next": there})
        assert (answer.status_code, answer.headers["location"]) == (HTTPStatus.SEE_OTHER, "/console")
        cookie = answer.headers["set-cookie"].casefold()
        for part in ("httponly", "samesite=strict", f"max-age={SECONDS}"):
            assert part in cookie
        assert READER.casefold() not in cookie


def test_nobody_reads_without_a_session(world: World, caplog: pytest.LogCaptureFixture) -> None:
    _, _, server = world
    with client(server, None) as http:
        for page in PAGES:
            answer = http.get(f"/console{page}")
            assert answer.status_code == HTTPStatus.SEE_OTHER
            assert answer.headers["location"].startswith("/console/sign-in?next=%2Fconsole")
        with caplog.at_level(logging.INFO, "connector.http"):
            for _ in range(3):
                refused = http.post("/console/sign-in", data={"token": "wrong-0123456789"})
                assert refused.status_code == HTTPStatus.UNAUTHORIZED
        assert caplog.messages.count("wrong tokens are refused") == 1
        assert "wrong-0123456789" not in caplog.text + refused.text


def test_without_tokens_everybody_here_looks_and_does_nothing(tmp_path: Path) -> None:
    with service(tmp_path, tokens=(), console=True) as (_, _, server), client(server, None) as http:
        page = http.get("/console")
        assert page.status_code == HTTPStatus.OK
        assert "looking only" in page.text
        given = {"form_key": Sessions(Tokens(())).form_key(""), "what": "queue://orders"}
        assert http.post("/console/pause", data=given).status_code == HTTPStatus.FORBIDDEN
    with service(tmp_path) as (_, _, server), client(server) as http:
        assert http.get("/console").status_code == HTTPStatus.NOT_FOUND, "a console that is not wanted"


def test_a_session_ends() -> None:
    now = [1000.0]
    sessions = Sessions(Tokens(tokens("one-0123456789abcdef")), lambda: now[0])
    cookie = sessions.open("one-0123456789abcdef", "127.0.0.1")
    assert sessions.caller(cookie) is not None
    now[0] += SECONDS
    assert sessions.caller(cookie) is None
    assert Sessions(Tokens(tokens("one-0123456789abcdef"))).caller(cookie) is None, "of an earlier start"


@rows(
    "body, kind, text",
    [
        (b"", "empty", ""),
        (b'{"a":[1]}', "JSON", '{\n  "a": [\n    1\n  ]\n}'),
        (b"{not json", "text", "{not json"),
        (b'{"a": 1.10, "b": 12345678901234567890.5, "c": "x: {\\"", "d": {}, "e": [[],1]}', "JSON", EXACT),
        (b"<a><b x='1'>t</b><!-- c --></a>", "XML", '<a>\n  <b x="1">t</b>\n  <!-- c -->\n</a>'),
        (b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "text", "<!DOCTYPE"),
        (b"\xff\x00A", "bytes", "00000000  ff 00 41"),
        (b"[" * 100_000, "text", "[["),
        (b'{"a": "%s"}' % (b"x" * (1 << 20)), "text", '{"a": "x'),
    ],
)
def test_a_body_becomes_a_text(body: bytes, kind: str, text: str) -> None:
    shown = shown_body(Message(body))
    assert (shown.kind, shown.size) == (kind, len(body))
    assert shown.text.startswith(text)
    assert (shown.is_cut, len(shown.text) <= 256 << 10) == (len(body) > 256 << 10, True)
