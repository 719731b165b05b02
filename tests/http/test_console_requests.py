"""The form of the console that makes a request, without JavaScript."""

from __future__ import annotations

import html
import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from connector.businessobjects.definition import Definitions
from connector.config.http_model import OPERATE, READ, REQUEST
from connector.http.calls import ServerLimits
from connector.http.server import Server
from connector.requests.result import RequestResult
from connector.service.observer import Observer
from connector.status import ReturnCode
from connector.testing.deployment import InProcessAdapter
from tests.http.shop import CALLER, OPERATOR, READER, deploy, named
from tests.http.test_console import signed_in
from tests.http.world import DEFINITIONS, OTHER_TOKEN, PATIENCE, TOKEN, Script, client, settings
from tests.tables import rows
from tests.waiting import beside, wait_for

TOKENS: Final = (
    named(READER, "ann", READ),
    named(OPERATOR, "bob", READ, OPERATE),
    named(CALLER, "eve", REQUEST),
    named(TOKEN, "kim", READ, REQUEST),
    named(OTHER_TOKEN, "lee", READ, REQUEST),
)
CREATE: Final = "/console/requests?object=Customer&verb=Create"
HOSTILE: Final = "<script>alert(1)</script>\u202e{{ 7*7 }}</textarea>"


@contextmanager
def console(
    directory: Path, script: Script | None = None, definitions: Definitions = DEFINITIONS, **changes: Any
) -> Iterator[Server]:
    """A server with the console, whose requests a script answers."""
    observer = Observer(InProcessAdapter(deploy(directory).configuration))
    section = settings(**{"tokens": TOKENS, "console": True, **changes})
    server = Server(section, script or Script(), definitions, limits=ServerLimits(), observer=observer)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Script]]:
    script = Script()
    with console(tmp_path_factory.mktemp("console"), script, max_body=20_000, max_timeout=1.0) as server:
        yield server, script


@pytest.fixture
def script(started: tuple[Server, Script]) -> Script:
    """What answers the requests; as new."""
    return started[1].again()


@pytest.fixture
def server(started: tuple[Server, Script], script: Script) -> Server:
    return started[0]


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    """Somebody who may make requests."""
    with signed_in(server, TOKEN) as made:
        yield made


def form_key(http: httpx.Client) -> str:
    found = re.search(r'name="form_key" value="(\w+)"', http.get("/console/requests").text)
    assert found is not None
    return found[1]


def send(http: httpx.Client, body: str = '{"CustomerId": "7"}', **fields: str) -> httpx.Response:
    """Sends the form of ``Customer.Create``, with changed fields."""
    form = {"form_key": form_key(http), "object": "Customer", "verb": "Create", "body": body}
    return http.post("/console/request", data={**form, "timeout": "", "key": "", **fields})


def answer_of(page: httpx.Response) -> str:
    """The text of the part of a page that shows the answer."""
    part = page.text.partition('<section id="answer"')[2].partition(">")[2].partition("</section>")[0]
    return html.unescape(re.sub(r"<[^>]+>", "", part)).strip()


def document_of(page: httpx.Response) -> Any:
    text = page.text.partition('<section id="answer"')[2].partition("<pre")[2].partition(">")[2]
    return json.loads(html.unescape(text.partition("</pre>")[0]), parse_float=Decimal)


def body_of(page: httpx.Response) -> str:
    """What stands in the field for the body."""
    found = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", page.text, re.DOTALL)
    assert found is not None
    return html.unescape(found[1])


def test_every_request_has_a_form_and_an_example_that_is_taken(http: httpx.Client, script: Script) -> None:
    page = http.get("/console/requests")
    links = [html.unescape(one) for one in re.findall(r'href="(/console/requests\?[^"]+)"', page.text)]
    assert links == [
        f"/console/requests?object={name}"
        for name in ("Customer&verb=Create", "Customer&verb=Retrieve", "Order&verb=Create")
    ]
    for link in links:
        page = http.get(link)
        assert page.status_code == HTTPStatus.OK
        assert not re.search(r"<[^>]*\s(style|on\w+)=", page.text)
        name, verb = re.findall(r"=(\w+)", link)
        done = send(http, body_of(page), object=name, verb=verb)
        assert answer_of(done).startswith("200 OK: VALCHANGE")
    assert [str(bo.type) for bo, _ in script.calls] == ["Customer", "Customer", "Order"]


def test_the_form_of_a_request_explains_attributes_and_answers(http: httpx.Client) -> None:
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", http.get(CREATE).text))
    assert "CustomerId text, at most 20 characters Key. " in text
    assert "Address list of Address " in text
    assert "Parent Customer " in text
    assert "Since date Date or date-time of ISO 8601. " in text
    assert "Limit number Default: 0.0. " in text
    assert "Priority integer, 0 to 9 " in text
    assert "ResponseTimeout integer, at most 1000 " in text
    assert text.count("City text ") == 1
    assert "504 APPRESPONSETIMEOUT: no reply in time" in text
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", http.get(CREATE.replace("Customer", "Order")).text))
    assert "OrderId text Required. Key. " in text
    assert "Line list of Line Required. " in text


def test_an_adapter_without_verbs_says_what_to_do(tmp_path: Path) -> None:
    objects = Definitions({"Address": DEFINITIONS["Address"]})
    with console(tmp_path, definitions=objects) as server, signed_in(server, TOKEN) as http:
        assert "No business object has a verb" in http.get("/console/requests").text


def test_an_answer_is_shown_and_the_form_can_be_sent_again(http: httpx.Client, script: Script) -> None:
    sent = '{"CustomerId": "7",\r\n "Price": 12.50}'
    page = send(http, sent, timeout="250")
    assert page.status_code == HTTPStatus.OK
    assert re.match(r"200 OK: VALCHANGE\s+In [0-9.]+ m?s\.", answer_of(page))
    bo = {"CustomerId": "7", "Price": Decimal("12.50")}
    assert document_of(page) == {"status": "VALCHANGE", "object": bo, "message": None}
    assert "12.50" in answer_of(page), "all digits are shown"
    assert body_of(page) == sent.replace("\r\n", "\n")
    assert 'value="250"' in page.text
    assert [timeout for _, timeout in script.calls] == [250]
    assert 'aria-current="page">Requests' in page.text


def test_an_answer_that_is_no_success_is_shown_as_such(http: httpx.Client, script: Script) -> None:
    script.answer = lambda bo: RequestResult(ReturnCode.APPRESPONSETIMEOUT, bo, "no shelf")
    page = send(http)
    assert page.status_code == HTTPStatus.OK
    assert answer_of(page).startswith("504 Gateway Timeout: APPRESPONSETIMEOUT")
    assert 'class="well bad"' in page.text
    assert document_of(page)["message"] == "no shelf"


@rows(
    "changes, status, words",
    [
        ({"body": "{not json"}, 400, "expected"),
        ({"body": '{"Nmae": "x"}'}, 422, "did you mean 'Name'"),
        ({"body": json.dumps({"Name": "x" * 20_001})}, 413, "http.max_body"),
        ({"timeout": "soon"}, 400, "expected milliseconds"),
        ({"timeout": "1001"}, 422, "http.max_timeout"),
        ({"key": "é"}, 400, "Idempotency-Key"),
    ],
)
def test_a_mistake_is_shown_beside_the_form(
    http: httpx.Client, script: Script, changes: dict[str, str], status: int, words: str
) -> None:
    page = send(http, **changes)
    assert page.status_code == status
    assert answer_of(page).startswith(str(status))
    assert words in answer_of(page)
    assert body_of(page) == changes.get("body", '{"CustomerId": "7"}')
    for name in changes.keys() & {"timeout", "key"}:
        assert f'value="{changes[name]}"' in page.text
    assert script.calls == []


@rows(
    "object_name, verb, words",
    [
        ("Custmer", "Create", "did you mean 'Customer'?"),
        ("Customer", "Creat", "did you mean 'Create'?"),
        ("<b>", "", "no business object '<b>'"),
        ("", "", "no business object ''"),
    ],
)
def test_what_there_is_not_is_404(
    http: httpx.Client, script: Script, object_name: str, verb: str, words: str
) -> None:
    asked = http.get("/console/requests", params={"object": object_name, "verb": verb})
    for page in (asked, send(http, object=object_name, verb=verb)):
        assert page.status_code == HTTPStatus.NOT_FOUND
        assert words in html.unescape(page.text)
        assert "<b>" not in page.text
    assert script.calls == []


def test_hostile_text_is_only_shown(http: httpx.Client, script: Script) -> None:
    script.answer = lambda bo: RequestResult(ReturnCode.FAIL, bo, HOSTILE)
    for body in (json.dumps({"Name": HOSTILE}, ensure_ascii=False), HOSTILE):
        page = send(http, body, timeout=f'"{HOSTILE}' if body == HOSTILE else "")
        assert "<script>alert" not in page.text
        assert page.text.count("</textarea>") == 1
        assert "{{ 7*7 }}" in page.text
        assert body_of(page) == body


def test_a_repeated_key_gets_the_first_answer(server: Server, http: httpx.Client, script: Script) -> None:
    first, again = (send(http, key="only-once") for _ in range(2))
    assert "the answer to an earlier call" not in answer_of(first)
    assert "the answer to an earlier call" in answer_of(again)
    assert document_of(first) == document_of(again)
    other = send(http, '{"CustomerId": "8"}', key="only-once")
    assert other.status_code == HTTPStatus.UNPROCESSABLE_ENTITY
    assert "belongs to a call with another path or body" in answer_of(other)
    headers = {"Idempotency-Key": "only-once", "Content-Type": "application/json"}
    path, body = "/requests/Customer/Create", '{"CustomerId": "7"}'
    with client(server) as program:
        answer = program.post(path, content=body, headers=headers)
        assert answer.headers["idempotent-replayed"] == "true"
    assert len(script.calls) == 1
    with client(server, OTHER_TOKEN) as program:
        answer = program.post(path, content=body, headers=headers)
        assert "idempotent-replayed" not in answer.headers, "keys are of a token"
    assert len(script.calls) == 2


def test_a_form_counts_among_the_most_requests(tmp_path: Path) -> None:
    script = Script()
    script.holds = True
    with console(tmp_path, script, max_requests=1) as server, signed_in(server, TOKEN) as http:
        first = beside(lambda: send(http))
        wait_for(lambda: script.held, what="the request is made")
        with signed_in(server, OTHER_TOKEN) as other:
            full = send(other)
        assert full.status_code == HTTPStatus.SERVICE_UNAVAILABLE
        assert "http.max_requests" in answer_of(full)
        script.release()
        assert answer_of(first.result(PATIENCE)).startswith("200 OK")


@pytest.mark.parametrize("token", [READER, OPERATOR])
def test_who_may_not_request_sends_nothing(
    server: Server, script: Script, token: str, caplog: pytest.LogCaptureFixture
) -> None:
    with signed_in(server, token) as http, caplog.at_level(logging.INFO, "connector.http"):
        page = http.get(CREATE)
        assert page.status_code == HTTPStatus.OK
        assert "<textarea" not in page.text
        assert "a token with the role <code>request</code>" in page.text
        refused = send(http)
        assert refused.status_code == HTTPStatus.FORBIDDEN
        assert "does not have the role request (http.tokens)" in answer_of(refused)
    assert script.calls == []
    name = "ann" if token == READER else "bob"
    assert logged(caplog) == [(name, "Customer.Create", "403 Forbidden")]


def test_a_form_of_another_page_sends_nothing(server: Server, http: httpx.Client, script: Script) -> None:
    with signed_in(server, OTHER_TOKEN) as other:
        foreign = form_key(other)
    for key in ("", "é", foreign):
        assert send(http, form_key=key).status_code == HTTPStatus.FORBIDDEN
    form = {"form_key": form_key(http), "object": "Customer", "verb": "Create", "body": "{}"}
    with client(server) as stranger:  # a token, and no session
        assert stranger.post("/console/request", data=form).headers["location"] == "/console/sign-in"
    assert script.calls == []


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, str]]:
    lines = [one for one in caplog.records if one.getMessage() == "a request came from the console"]
    found = [[vars(one)[field] for field in ("token", "object", "verb", "result")] for one in lines]
    return [(token, f"{name}.{verb}", result) for token, name, verb, result in found]


def test_each_request_is_logged_with_the_name_of_the_token_and_without_its_data(
    http: httpx.Client, script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "connector"):
        send(http, '{"CustomerId": "secret-7"}', key="logged-1")
        send(http, '{"CustomerId": "secret-7"}', key="logged-1")
        send(http, '{"CustomerId": "secret-7", "secret-8": 1}')
        script.answer = lambda bo: RequestResult(ReturnCode.FAIL, bo, "secret-9")
        send(http, '{"CustomerId": "secret-7"}')
    assert logged(caplog) == [
        ("kim", "Customer.Create", "200 OK: VALCHANGE"),
        ("kim", "Customer.Create", "200 OK: VALCHANGE, the answer to an earlier call"),
        ("kim", "Customer.Create", "422 Unprocessable Content"),
        ("kim", "Customer.Create", "502 Bad Gateway: FAIL"),
    ]
    assert not any("secret" in str(vars(one)) for one in caplog.records if one.name == "connector.http")


@rows("on, words", [(True, '<a href="/console/requests">'), (False, "http: {console: true}")])
def test_the_reference_says_where_a_request_can_be_tried(tmp_path: Path, on: bool, words: str) -> None:
    with console(tmp_path, console=on) as server, client(server, None) as http:
        page = http.get("/docs").text
    assert words in page
    assert ("/console" in page) is on
