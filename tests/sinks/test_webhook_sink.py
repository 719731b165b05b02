"""The sink ``webhook``: the requests that it makes, and what it makes of the answers."""

from __future__ import annotations

import base64
import json
import logging
import pickle
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, ClassVar

import pytest

from connector.config.resolved import as_document, as_yaml
from connector.declare.masking import MASK, mask_path
from connector.errors import ConnectorError, ObjectRefused, TemporaryFailure, WrongValue
from connector.messaging.message import Message
from connector.sinks.contract import Event, SinkContext
from connector.sinks.webhook.settings import WebhookEntry
from connector.sinks.webhook.sink import WebhookSink, WebhookSpec, WebhookUnavailable, retry_after
from connector.sinks.webhook.url import UrlTemplate
from connector.testing.deployment import Deployment
from connector.testing.sinks import ExternalSinkSuite, sample_context, sample_event, sample_object
from tests.sinks.web_server import Answer, Asked, WebServer, answer, drip, hang_up, raw, server, serving
from tests.tables import Table, rows

__all__ = ["server"]

SECRET = "Bearer s3cr3t-t0ken"


class TestWebhook(ExternalSinkSuite):
    key = "webhook"
    entry: ClassVar[str] = ""

    @pytest.fixture(autouse=True)
    def server(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
        with serving() as server:
            monkeypatch.setattr(type(self), "entry", f"{{webhook: {{url: '{server.url}/notes/{{Text}}'}}}}")
            monkeypatch.setattr(type(self), "asked", server.asked, raising=False)
            yield server

    @pytest.fixture
    def deployment(
        self, server: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Deployment:  # after the server
        made: Deployment = ExternalSinkSuite.deployment.__wrapped__(self, tmp_path, monkeypatch)  # type: ignore[attr-defined]
        return made

    def test_the_resolved_configuration_has_the_same_entry(self, deployment: Deployment) -> None:
        (first,) = deployment.configuration.subscriptions
        deployment.write("adapter.yaml", as_yaml(as_document(deployment.configuration)))
        (entry,) = deployment.configuration.subscriptions
        assert isinstance(entry, WebhookEntry)
        assert isinstance(first, WebhookEntry)
        assert entry.webhook.url == mask_path(first.webhook.url), "what stands behind the origin is a secret"
        webhook = entry.webhook.model_copy(update={"url": first.webhook.url})
        assert entry.model_copy(update={"webhook": webhook}) == first

    def arrived(self, deployment: Deployment) -> Sequence[str]:
        asked: list[Asked] = self.asked  # type: ignore[attr-defined]
        return [json.loads(one.body)["Text"] for one in asked]


def sink(url: str, context: SinkContext | None = None, **more: Any) -> WebhookSink:
    return WebhookSpec(UrlTemplate(url), **more).open(context or sample_context())


def deliver(
    url: str, text: str = "one", event: Event | None = None, context: SinkContext | None = None, **more: Any
) -> None:
    made = sink(url, context, **more)
    try:
        made.deliver(sample_object(text), event or sample_event())
    finally:
        made.close()


# --- the request -----------------------------------------------------------------------------


@rows("method", ["POST", "PUT", "PATCH", "DELETE", "GET"])
def test_the_method_decides_about_the_body(server: WebServer, method: str) -> None:
    deliver(f"{server.url}/x", method=method, mime_type="application/json")
    (asked,) = server.asked
    assert asked.method == method
    has_body = method not in ("DELETE", "GET")
    assert json.loads(asked.body or "null") == ({"Text": "one"} if has_body else None)
    assert asked.headers.get("content-type") == ("application/json" if has_body else None)


def test_the_type_of_the_body_is_that_of_the_connector_unless_said(server: WebServer) -> None:
    xml, own = replace(sample_context(), mime_type="text/xml"), (("content-TYPE", "application/vnd.x"),)
    deliver(server.url)
    deliver(server.url, context=xml)
    deliver(server.url, context=xml, mime_type="text/csv")
    deliver(server.url, mime_type="text/csv", headers=own)
    types = [one.headers["content-type"] for one in server.asked]
    assert types == ["application/octet-stream", "text/xml", "text/csv", "application/vnd.x"]


def test_headers_go_out_and_nothing_that_the_server_sets_comes_back(server: WebServer) -> None:
    server.answers = [answer(200, Set_Cookie="session=1; Path=/")]
    made = sink(server.url, headers=(("Authorization", SECRET), ("X-Source", "a b")))
    for _ in range(2):
        made.deliver(sample_object(), sample_event())
    made.close()
    first, second = server.asked
    assert (first.headers["authorization"], first.headers["x-source"]) == (SECRET, "a b")
    assert first.headers["user-agent"].startswith("event-connector/")
    assert "cookie" not in second.headers
    assert first.connection == second.connection, "the connection is kept"


def test_no_value_leaves_its_place(server: WebServer) -> None:
    paths = {
        "../x": "..%2Fx",
        "//evil": "%2F%2Fevil",
        "@evil.example": "%40evil.example",
        "?a=b": "%3Fa%3Db",
        "#": "%23",
        "a&b=c;d": "a%26b%3Dc%3Bd",
        "Käse 中": "K%C3%A4se%20%E4%B8%AD",
        "a\r\nX: y": "a%0D%0AX%3A%20y",
        "\x00\\": "%00%5C",
        "%2e%2e": "%252e%252e",
        "{Text}": "%7BText%7D",
        "...": "...",
    }
    deliver(f"{server.url}/a?q={{Text}}", "..")
    assert server.asked.pop().target == "/a?q=..", "dots in the query are no path"
    made = sink(f"{server.url}/a/{{Text}}/b?q={{Text}}&r=1")
    for value in paths:
        made.deliver(sample_object(value), sample_event())
    made.close()
    assert [one.target for one in server.asked] == [f"/a/{path}/b?q={path}&r=1" for path in paths.values()]
    assert {one.headers["host"] for one in server.asked} == {server.url.removeprefix("http://")}


@rows(
    "template, value, reason",
    [
        ("/a/{Text}/b", "..", "would make a segment '.' or '..'"),
        ("/a/{Text}", ".", "would make a segment '.' or '..'"),
        ("/a/.{Text}", ".", "would make a segment '.' or '..'"),
        ("/a/%2e{Text}", ".", "would make a segment '.' or '..'"),
        ("/a/{Text}", "", "needs Text, which has no value"),
        ("/a?q={Text}", "", "needs Text, which has no value"),
        ("/a/{Text}", "\ud800", "half a surrogate pair"),
    ],
)
def test_a_value_that_changes_the_path_fails(
    server: WebServer, template: str, value: str, reason: str
) -> None:
    bo = sample_object()
    bo["Text"] = value or None
    made = sink(f"{server.url}{template}", method="GET")
    with pytest.raises(ObjectRefused, match=reason):
        made.deliver(bo, sample_event())
    made.close()
    assert server.asked == []


@rows(
    "url, found",
    [
        ("https://{Host}/x", "a placeholder before the path"),
        ("https://h.example:{Port}/x", "a placeholder before the path"),
        ("https://h{X}?q=1", "a placeholder before the path"),
        ("https://user:pa55word@h.example/x", "a URL with a user"),
        ("https://{User}@h.example/x", "a placeholder before the path"),
        ("ftp://h.example/x", "begins neither"),
        ("//h.example/x", "begins neither"),
        ("{Url}", "begins neither"),
        ("https:///x", "without a valid host"),
        ("https://h.example:70000/x", "without a valid host"),
        ("https://h example/x", "without a valid host"),
        ("https://h.example\\@evil/x", "with a user"),
        ("https://h.example/x#{Text}", "with a fragment"),
        ("https://h.example/{Text", "a character or a brace"),
        ("https://h.example/{}", "a character or a brace"),
        ("https://h.example/{a b}", "a character or a brace"),
        ("https://h.example/ä", "a character or a brace"),
        ("https://h.example/a\nb", "a character or a brace"),
        ("https://h.example/%zz", "a character or a brace"),
        ("https://h.example/a/../{Text}", "the segment '.' or '..'"),
        ("https://h.example/%2E./{Text}", "the segment '.' or '..'"),
    ],
)
def test_a_template_has_its_values_behind_the_host(url: str, found: str) -> None:
    with pytest.raises(WrongValue, match=found) as refused:
        UrlTemplate(url)
    assert "pa55word" not in str(refused.value)


# --- the key ---------------------------------------------------------------------------------


def test_the_key_is_the_same_at_every_try_and_another_for_every_delivery(server: WebServer) -> None:
    def event(identity: str, of: str, moment: int = 0) -> Event:
        return Event(identity, "queue://in", 1, Message(message_id=of, timestamp=moment), "suite")

    events = [
        *(sample_event(), sample_event(delivery_count=3), event("ID:1#1", "ID:1"), event("ID:1#2", "ID:1")),
        *(event("orders.json", "orders.json", moment) for moment in (1, 2)),
    ]
    again = event("ID:1#1", "ID:1")
    again.message.set_property("connector_again", "an order of an operator")
    for one in (*events, again):
        deliver(server.url, event=one)
    deliver(server.url, context=replace(sample_context(), subscription="other"))
    deliver(server.url, event=event("", ""))
    assert "idempotency-key" not in server.asked.pop().headers, "an event without an id has no key"
    keys = [one.headers["idempotency-key"] for one in server.asked]
    assert (keys[0] == keys[1], len(set(keys))) == (True, 7)
    assert all(key.isascii() and key.isalnum() for key in keys)


# --- the answer ------------------------------------------------------------------------------


CONFIRMS = [200, 201, 202, 204, 299]
LATER = [408, 425, 429, 500, 502, 503, 504, 599]
REFUSED = [400, 401, 404, 409, 410, 413, 422, 451]
REDIRECTS = [300, 301, 302, 303, 304, 307, 308]


def test_the_status_confirms_is_a_temporary_failure_or_fails_for_good(server: WebServer) -> None:
    made = sink(server.url)
    with Table() as table:
        for status in (*CONFIRMS, *LATER, *REFUSED, *REDIRECTS):
            body = b"" if status in (204, 304) else b"no such\r\nledger"
            headers = {"Retry_After": "17", "Location": f"{server.url}/other"}
            server.again().answers.append(answer(status, body, **headers))
            with table.row(status):
                if status in CONFIRMS:
                    made.deliver(sample_object(), sample_event())
                    continue
                with pytest.raises(ConnectorError) as failed:
                    made.deliver(sample_object(), sample_event())
                words = "and a webhook follows no redirect" if status in REDIRECTS else ": no such  ledger"
                assert re.search(rf"{server.url}: the answer is {status}.*{words}", str(failed.value))
                assert len(server.asked) == 1
                assert isinstance(failed.value, TemporaryFailure if status in LATER else ObjectRefused)
                assert isinstance(failed.value, TemporaryFailure) is (status in LATER)
                assert status not in LATER or vars(failed.value)["after"] == 17
    made.close()


def test_only_the_start_of_an_answer_is_read(server: WebServer) -> None:
    sent = []

    def pour(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(400)
        handler.end_headers()
        for _ in range(10_000):
            handler.wfile.write(b"x" * 65536)
            sent.append(65536)

    server.answers = [pour]
    with pytest.raises(ObjectRefused) as failed:
        deliver(server.url)
    assert len(str(failed.value)) < 400
    assert sum(sent) < 100 << 20
    deliver(server.url)


def test_no_connection_is_a_temporary_failure() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(WebhookUnavailable, match=rf"{url}: .*refused"):
            deliver(url)
    with pytest.raises(WebhookUnavailable, match=r"http://no-such-host\.invalid: "):
        deliver("http://no-such-host.invalid/x")


@rows("what", [hang_up, raw(b"nonsense\r\n\r\n")])
def test_no_answer_or_nonsense_is_a_temporary_failure(server: WebServer, what: Answer) -> None:
    server.answers = [what]
    with pytest.raises(WebhookUnavailable, match=server.url):
        deliver(server.url)


@rows("start", [b"", b"HTTP/1.1 200 OK\r\nX: "])
def test_the_time_limits_the_whole_exchange(server: WebServer, start: bytes) -> None:
    """A server that sends a byte now and then never keeps a client of HTTP waiting for long."""
    ended = threading.Event()
    server.answers = [drip(start, ended)]
    with pytest.raises(WebhookUnavailable, match=r"no answer within 0\.5 s"):
        deliver(server.url, timeout=0.5)
    ended.set()
    deliver(server.url)


def break_off(handler: BaseHTTPRequestHandler) -> None:
    raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nx")(handler)
    handler.close_connection = True


@rows("is_slow", [False, True])
def test_an_answer_that_breaks_off_or_drips_after_its_status_has_confirmed(
    server: WebServer, is_slow: bool
) -> None:
    ended = threading.Event()
    slow = drip(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", ended)
    server.answers = [slow if is_slow else break_off]
    deliver(server.url, timeout=1)
    ended.set()


NO_WAIT = ("", "-1", "1.5", "soon", "nan", "٣", "Fri, 99 Foo 2020 00:00:00 GMT")


@rows(
    "text, seconds", [("0", 0), ("120", 120), (" 5 ", 5), ("9" * 50, 86400), *((text, 0) for text in NO_WAIT)]
)
def test_the_wait_that_a_server_asks_for(text: str, seconds: float) -> None:
    assert retry_after(text) == seconds


@rows("ahead, least, most", [(3600, 3000, 3601), (-100, 0, 0), (10**8, 86400, 86400)])
def test_the_time_until_which_a_server_asks_to_wait(ahead: int, least: float, most: float) -> None:
    assert least <= retry_after(formatdate(time.time() + ahead, usegmt=True)) <= most


# --- secrets and mistakes --------------------------------------------------------------------


def test_no_text_shows_a_secret(server: WebServer, caplog: pytest.LogCaptureFixture) -> None:
    echo = answer(400, f"you said {SECRET}, or s3cr3t-t0ken, to /hook-4711?key=k3y-of-mine".encode())
    url = f"{server.url}/hook-4711?key=k3y-of-mine&id={{Text}}"
    server.answers = [echo, answer(500, SECRET.encode()), hang_up]
    spec = WebhookSpec(UrlTemplate(url), headers=(("Authorization", SECRET), ("X-Key", "k")))
    texts = [repr(spec), repr(spec.url), repr(pickle.loads(pickle.dumps(spec)))]
    made = spec.open(sample_context())
    with caplog.at_level(logging.DEBUG):
        for _ in range(3):
            with pytest.raises(ConnectorError) as failed:
                made.deliver(sample_object(), sample_event())
            texts += [str(failed.value), repr(failed.value), str(failed.value.__cause__)]
    made.close()
    texts += [record.getMessage() for record in caplog.records]
    assert any("you said ********" in text for text in texts)
    for text in texts:
        assert not any(secret in text for secret in ("s3cr3t", "k3y-of-mine", "hook-4711")), text


KEY = "SEKRET13/ab+cd=="
ECHOES = {
    "as JSON of PHP": r'{"error": "bad SEKRET13\/ab+cd=="}',
    "as JSON in Unicode": r"bad SEKRET13\u002fab\u002Bcd\u003d\u003d",
    "as JavaScript": r"bad SEKRET13\x2fab\x2bcd==",
    "as HTML": "bad SEKRET13&#x2F;ab&#43;cd&equals;&#61",
    "as HTML by name": "bad SEKRET13&sol;ab&plus;cd==",
    "in a URL": "bad SEKRET13%2Fab%2Bcd%3D%3d",
    "in a URL, twice": "bad SEKRET13%252Fab%252Bcd%253D%253D",
    "a URL in HTML": "bad SEKRET13%2Fab&#37;2Bcd&#x25;3D",
    "the first characters": "bad SEKRET13/ab...",
    "the first six": "bad SEKRET",
    "the first ones, encoded": "bad SEKRET%31%33%2Fab",
    "in small letters": "bad sekret13/AB+CD==",
    "the end": "bad ...KRET13/ab+cd==",
    "in UTF-16": "bad SEKRET13/ab+cd==".encode("utf-16").decode("latin-1"),
    "of the path": "no hook T0AB12/SEKRET-of-a-hook here",
    "of the path, its first characters": "no hook SEKRET-of here",
    "of the query": "the signature SEKRET%7Esig is wrong",
    "the user of the header": "no user shop:SEKRETpw",
    "the password of the header": "no password SEKRETpw",
    "a value of a cookie": "the session SEKRETcookie is over",
}


@rows("what", ECHOES)
def test_no_secret_comes_back_in_whatever_form_a_server_repeats_it(server: WebServer, what: str) -> None:
    basic = base64.b64encode(b"shop:SEKRETpw").decode()
    headers = (
        ("Authorization", f"Bearer {KEY}"),
        ("Proxy-Authorization", f"Basic {basic}"),
        ("Cookie", "theme=dark; session=SEKRETcookie"),
        ("Accept", "application/json"),
    )
    url = f"{server.url}/customers/T0AB12/SEKRET-of-a-hook?sig=SEKRET~sig"
    server.answers = [answer(422, ECHOES[what].encode("latin-1"))]
    with pytest.raises(ObjectRefused) as failed:
        deliver(url, headers=headers)
    text = str(failed.value)
    assert "the answer is 422 Unprocessable Entity: " in text
    assert MASK in text
    assert not re.search("sekret|ab.?cd|KRET", text, re.IGNORECASE), text


def test_a_text_without_secrets_stays_as_it_is(server: WebServer) -> None:
    said = r"customer 4711 has no application in C:\new\table, 100%25 &amp; more"
    server.answers = [answer(422, said.encode())]
    with pytest.raises(ObjectRefused) as failed:
        deliver(f"{server.url}/customers", headers=(("Authorization", f"Bearer {KEY}"),))
    assert str(failed.value).endswith(f": {said}")


def test_a_worker_without_httpcore_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "connector.sinks.webhook.connection", raising=False)
    monkeypatch.setitem(sys.modules, "httpcore", None)
    with pytest.raises(ConnectorError, match=r"pip install 'event-connector\[webhook\]'"):
        sink("https://h.example/x")
