"""What a call is answered: the document of a result, and a status that says how it went."""

from __future__ import annotations

from decimal import Decimal

import httpx
import pytest

from connector.config.http_model import Address
from connector.http.answers import STATUS
from connector.http.server import Server
from connector.requests.result import RequestResult
from connector.status import ReturnCode
from tests.http.world import Script, client, serving
from tests.tables import rows
from tests.waiting import wait_for

CUSTOMER = {"CustomerId": "7", "Address": [{"City": "Kiel"}], "Meta": {"Priority": 3}}


def test_the_answer_is_the_document_of_the_result(http: httpx.Client, script: Script) -> None:
    answer = http.post("/requests/Customer/Retrieve", json=CUSTOMER)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {"status": "VALCHANGE", "object": CUSTOMER, "message": None}
    (bo, timeout), *others = script.calls
    assert (bo.type, bo.verb, bo.as_dict(), timeout, others) == ("Customer", "Retrieve", CUSTOMER, None, [])


@rows("digits", ["0.10", "12345678901234567890.123456789", "10.00", "7", "7.0", "1e5"])
@rows("form", ['{"CustomerId": "7", "Price": %s}', '{"CustomerId": "7", "Price": "%s"}'])
def test_a_decimal_is_exact_in_a_call_and_in_its_answer(
    http: httpx.Client, script: Script, form: str, digits: str
) -> None:
    headers = {"Content-Type": "application/json"}
    answer = http.post("/requests/Customer/Create", content=form % digits, headers=headers)
    assert answer.status_code == 200
    ((bo, _),) = script.calls
    assert (type(bo["Price"]), str(bo["Price"])) == (Decimal, str(Decimal(digits)))
    assert f'"Price":{format(Decimal(digits), "f")}' in answer.text


@rows(
    "code, status",
    [
        (ReturnCode.SUCCEED, 200),
        (ReturnCode.VALCHANGE, 200),
        (ReturnCode.MULTIPLE_HITS, 200),
        (ReturnCode.BO_DOES_NOT_EXIST, 404),
        (ReturnCode.FAIL_RETRIEVE_BY_CONTENT, 404),
        (ReturnCode.VALDUPES, 409),
        (ReturnCode.FAIL, 502),
        (ReturnCode.UNABLE_TO_LOGIN, 502),
        (ReturnCode.APPRESPONSETIMEOUT, 504),
    ],
)
def test_the_status_says_how_it_went_and_the_document_says_it_all(
    http: httpx.Client, script: Script, code: ReturnCode, status: int
) -> None:
    script.answer = lambda bo: RequestResult(code, bo, "as the application says")
    answer = http.post("/requests/Customer/Create", json={"CustomerId": "7"})
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    document = {"status": code.name, "object": {"CustomerId": "7"}, "message": "as the application says"}
    assert answer.json() == document
    assert code in STATUS


@rows(
    "why, status, retry",
    [({"not_sent": True}, 503, "1"), ({"refused": True}, 422, None)],  # the second is a mistake of the caller
)
def test_what_was_not_sent_may_be_repeated_unless_it_can_never_be_sent(
    http: httpx.Client, script: Script, why: dict[str, bool], status: int, retry: str | None
) -> None:
    script.answer = lambda bo: RequestResult(ReturnCode.FAIL, bo, "as it says", **why)
    answer = http.post("/requests/Customer/Create", json={"CustomerId": "7"})
    assert (answer.status_code, answer.headers.get("retry-after")) == (status, retry)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {"status": "FAIL", "object": {"CustomerId": "7"}, "message": "as it says"}


@rows("text, milliseconds", [("0", 0), ("-1", -1), ("1500", 1500)])
def test_the_timeout_of_a_call_is_its_response_timeout(
    http: httpx.Client, script: Script, text: str, milliseconds: int
) -> None:
    assert http.post(f"/requests/Customer/Retrieve?timeout={text}", json={}).status_code == 200
    assert [timeout for _, timeout in script.calls] == [milliseconds]


@rows("kind", ["application/json", "Application/JSON; charset=UTF-8", 'application/json;charset="utf-8"'])
def test_json_in_utf_8_is_taken_however_it_is_announced_and_sent(http: httpx.Client, kind: str) -> None:
    body = '\ufeff{"CustomerId": "Ærø"}'.encode()
    for content in (body, iter([body[:9], body[9:12], body[12:]])):
        answer = http.post("/requests/Customer/Retrieve", content=content, headers={"Content-Type": kind})
        assert answer.json()["object"] == {"CustomerId": "Ærø"}


def test_a_connection_serves_many_calls(http: httpx.Client, server: Server) -> None:
    ports = set()
    for _ in range(3):
        with http.stream("POST", "/requests/Customer/Retrieve", json={}) as answer:
            ports.add(answer.extensions["network_stream"].get_extra_info("client_addr"))
            answer.read()
    assert len(ports) == 1


def test_a_mistake_of_the_program_is_answered_and_logged_and_the_next_call_served(
    http: httpx.Client, script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object) -> RequestResult:
        raise RuntimeError("a mistake")

    script.answer = fail
    answer = http.post("/requests/Customer/Retrieve", json={})
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "a mistake" not in answer.json()["detail"].replace("a mistake of the connector", "")
    wait_for(lambda: "RuntimeError: a mistake" in caplog.text, what="the mistake is logged")
    script.answer = lambda bo: RequestResult(ReturnCode.SUCCEED, bo)
    assert http.post("/requests/Customer/Retrieve", json={}).status_code == 200


def test_the_root_leads_to_the_page_that_explains(http: httpx.Client) -> None:
    answer = http.get("/")
    assert (answer.status_code, answer.headers["location"]) == (307, "/docs")
    assert http.get("/docs").headers["content-type"] == "text/html; charset=utf-8"


@rows("path", ["/", "/docs", "/openapi.json", "/nowhere"])
def test_every_answer_forbids_what_it_does_not_need(http: httpx.Client, path: str) -> None:
    headers = http.get(path).headers
    assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers


def test_it_listens_on_ipv6_too() -> None:
    with serving(listen=Address("::1", 0)) as server, client(server) as http:
        assert server.url.startswith("http://[::1]:")
        assert http.post("/requests/Customer/Retrieve", json={}).status_code == 200
