"""What a call is answered: the document of a result and its status, or why no request was made."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.businessobjects.metadata import MAX_TIMEOUT
from connector.config.http_model import Address
from connector.http.answers import STATUS
from connector.http.bodies import parse
from connector.http.problems import HttpProblem
from connector.http.server import Server
from connector.http.timeout_limits import check_dynamic, milliseconds
from connector.requests.result import RequestResult
from connector.status import ReturnCode
from tests.http.world import DEFINITIONS, OTHER_TOKEN, TOKEN, Script, client, serving
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
    "code, why, status",
    [
        (ReturnCode.SUCCEED, {}, 200),
        (ReturnCode.VALCHANGE, {}, 200),
        (ReturnCode.MULTIPLE_HITS, {}, 200),
        (ReturnCode.BO_DOES_NOT_EXIST, {}, 404),
        (ReturnCode.FAIL_RETRIEVE_BY_CONTENT, {}, 404),
        (ReturnCode.VALDUPES, {}, 409),
        (ReturnCode.FAIL, {}, 502),
        (ReturnCode.UNABLE_TO_LOGIN, {}, 502),
        (ReturnCode.APPRESPONSETIMEOUT, {}, 504),
        (ReturnCode.FAIL, {"not_sent": True}, 503),  # it may be repeated
        (ReturnCode.APPRESPONSETIMEOUT, {"not_sent": True}, 503),  # so may this one
        (ReturnCode.FAIL, {"refused": True}, 422),  # a mistake of the caller
    ],
)
def test_the_status_says_how_it_went_and_the_document_says_it_all(
    http: httpx.Client, script: Script, code: ReturnCode, why: dict[str, bool], status: int
) -> None:
    script.answer = lambda bo: RequestResult(code, bo, "as the application says", **why)
    answer = http.post("/requests/Customer/Create", json={"CustomerId": "7"})
    assert (answer.status_code, answer.headers.get("retry-after")) == (status, "1" if status == 503 else None)
    assert answer.headers["content-type"] == "application/json"
    document = {"status": code.name, "object": {"CustomerId": "7"}, "message": "as the application says"}
    assert answer.json() == document
    assert code in STATUS


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
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers


def test_it_listens_on_ipv6_too() -> None:
    with serving(listen=Address("::1", 0)) as server, client(server) as http:
        assert server.url.startswith("http://[::1]:")
        assert http.post("/requests/Customer/Retrieve", json={}).status_code == 200


# --- calls that make no request ------------------------------------------------------------------


JSON = {"Content-Type": "application/json"}
PATH = "/requests/Customer/Create"
_ANY: st.SearchStrategy[object] = (
    st.integers(-(2**40), 2**40)
    | st.sampled_from([999, 1000, 1001, 1e3, 1e4, 1.5, 2**31 - 1, 2**31, "2000", " ", True, None, [], {}])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)


def is_problem(answer: httpx.Response, status: int, *words: str) -> bool:
    """Whether an answer is a problem document of that status, with these words in its detail."""
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert set(document) == {"type", "title", "status", "detail"}
    assert (answer.status_code, document["status"], document["type"]) == (status, status, "about:blank")
    for word in words:
        assert word in document["detail"]
    return True


@rows(
    "path, words",
    [
        ("/requests/Custmer/Create", "no business object 'Custmer', did you mean 'Customer'?"),
        ("/requests/Customer/Retreive", "did you mean 'Retrieve'?; it has Create, Retrieve"),
        ("/requests/Address/Create", "Address has no verb 'Create'; it has no verbs"),
        ("/requests/customer/Create", "no business object 'customer'"),
        ("/requests/Customer", "requests go to /requests/OBJECT/VERB"),
        ("/requests/Customer/Create/", "requests go to /requests/OBJECT/VERB"),
        ("/requests/../openapi.json/x", "requests go to /requests/OBJECT/VERB"),
        ("/requests/Customer%2FCreate", "requests go to /requests/OBJECT/VERB"),
        ("/requests%2fCustomer/Create", "requests go to /requests/OBJECT/VERB"),
        ("/requests/Cust%2Fomer/Create", "Cust%2Fomer"),
        ("/nowhere", "/docs says which there are"),
    ],
)
def test_what_there_is_not_is_404(http: httpx.Client, script: Script, path: str, words: str) -> None:
    assert is_problem(http.post(path, json={}), 404, words)
    assert script.calls == []


@rows(
    "path, method, allowed",
    [
        *((PATH, method, "POST") for method in ("GET", "PUT", "DELETE", "OPTIONS", "PATCH")),
        ("/openapi.json", "POST", "GET, HEAD"),
    ],
)
def test_only_post_makes_requests_and_pages_are_only_read(
    http: httpx.Client, path: str, method: str, allowed: str
) -> None:
    answer = http.request(method, path)
    assert is_problem(answer, 405, method)
    assert sorted(answer.headers["allow"].split(", ")) == allowed.split(", ")


@rows(
    "body, words",
    [
        (b" \n", "the body is empty"),
        (b'{"CustomerId": "7",\n "Name": }', "line 2 column 10"),
        (b'{"Limit": NaN}', "the body is no JSON: "),
        (b'{"Name": "\xe6"}', "the body is not utf-8: byte 10, line 1"),
        (b"[]", "the body is a list, expected a JSON object"),
        (b'{"Name": "a", "Name": "b"}', "the key 'Name' stands twice"),
        (b'{"Name": ' + b"[" * 9000 + b"]" * 9000 + b"}", "the body is"),
    ],
)
def test_json_that_cannot_be_read_is_400(http: httpx.Client, script: Script, body: bytes, words: str) -> None:
    assert is_problem(http.post(PATH, content=body, headers=JSON), 400, words)
    assert script.calls == []


ORDER = {"Express": True, "Weight": 1, "Currency": "EUR", "Line": [{}], "To": {}}


@rows(
    "name, data, words",
    [
        ("Customer", {"CustmerId": "7"}, "CustmerId: no such attribute in Customer, did you mean "),
        ("Customer", {"CustomerId": "7" * 21}, "found a text of 21 characters, expected at most 20"),
        ("Customer", {"Address": [{}, {"City": 1}]}, "Customer: Address[1].City: found the number 1"),
        ("Customer", {"Meta": {"Priority": "high"}}, "Customer: Meta.Priority: "),
        ("Customer", {"Price": True}, "Customer: Price: "),
        ("Customer", {"Price": "NaN"}, "Customer: Price: "),
        ("Customer", {"Rating": 1.5}, "Customer: Rating: "),
        ("Customer", {"Active": "yes"}, "Customer: Active: "),
        ("Customer", {"Address": {"City": "Kiel"}}, "Customer: Address: found an object, expected a list"),
        ("Order", ORDER, "Order: OrderId: required, but not set"),
        ("Order", {**ORDER, "OrderId": "7"}, "Order: Line[0].Item: required, but not set"),
    ],
)
def test_data_that_do_not_fit_are_422_naming_the_attribute(
    http: httpx.Client, name: str, data: dict[str, Any], words: str
) -> None:
    assert is_problem(http.post(f"/requests/{name}/Create", json=data), 422, words)


FORM = "application/x-www-form-urlencoded"


@rows("kind", [None, "text/plain", FORM, "application/json; charset=latin-1", "application/json"])
def test_only_plain_json_in_utf_8_is_read(http: httpx.Client, script: Script, kind: str | None) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    if kind == "application/json":
        headers["Content-Encoding"] = "gzip"
    assert is_problem(http.post(PATH, content=b"{}", headers=headers), 415)
    assert script.calls == []


@rows(
    "query, words",
    [
        ("timeout=", "timeout: expected milliseconds"),
        ("timeout=1s", "timeout: expected milliseconds"),
        ("timeout=-2", "or -1: do not wait"),
        ("timeout=12345678901", "from 0 to 300000"),
        ("timeout=1&timeout=2", "once"),
        ("timout=1", "unknown parameter 'timout', did you mean 'timeout'?"),
    ],
)
def test_a_parameter_that_cannot_be_meant_is_400(http: httpx.Client, query: str, words: str) -> None:
    assert is_problem(http.post(f"{PATH}?{query}", json={}), 400, words)


def test_nobody_may_ask_to_wait_for_longer_than_the_bound(script: Script) -> None:
    with serving(script, max_timeout=1.5) as server, client(server) as http:
        for asked in (1501, 2**31 - 1, 2**31):
            answer = http.post(f"{PATH}?timeout={asked}", json={})
            assert is_problem(answer, 422, f"found {asked} ms, expected at most 1500 (http.max_timeout)")
        for value in (1501, 1501.0, 2**31 - 1):
            answer = http.post(f"{PATH}?timeout=5", json={"Meta": {"ResponseTimeout": value}})
            assert is_problem(answer, 422, "Meta.ResponseTimeout", "at most 1500 (http.max_timeout)")
        assert script.calls == []
        allowed = (("?timeout=1500", None), ("", 1500), ("", -1), ("", ""), ("?timeout=-1", 0))
        for query, within in allowed:
            answer = http.post(f"{PATH}{query}", json={"Meta": {"ResponseTimeout": within}})
            assert answer.status_code == 200


@given(_ANY)
def test_whatever_stands_for_a_response_timeout_it_is_held_to_the_bound_or_left_to_the_client(
    value: Any,
) -> None:
    refused = None
    try:
        check_dynamic(DEFINITIONS["Customer"], {"Meta": {"ResponseTimeout": value}}, 1000)
    except HttpProblem as problem:
        refused = problem.status
    if isinstance(value, int | float) and not isinstance(value, bool) and value == int(value):
        assert refused == (422 if 1000 < value < 2**31 else None)


def test_a_bound_is_no_longer_than_what_a_response_timeout_can_say() -> None:
    assert milliseconds(0.25) == 250
    assert milliseconds(10.0**9) == MAX_TIMEOUT


def test_a_body_of_two_kinds_is_400(http: httpx.Client, script: Script) -> None:
    both = [*JSON.items(), ("Content-Type", "text/plain")]
    assert is_problem(http.post(PATH, content=b"{}", headers=both), 400, "Content-Type")
    assert script.calls == []
    assert http.post(PATH, content=b"{}", headers=[*JSON.items()] * 2).status_code == 200


# -- who calls, and from where -----------------------------------------------------------------------


def test_without_the_token_nobody_learns_or_does_anything() -> None:
    script = Script()
    with serving(script, tokens=(TOKEN, OTHER_TOKEN)) as server, client(server, None) as http:
        none = http.post("/requests/Nothing/Create", content=b"{", headers={"Content-Type": "text/plain"})
        assert is_problem(none, 401, "Authorization: Bearer TOKEN")
        assert none.headers["www-authenticate"] == 'Bearer realm="connector"'
        wrong = [f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer", f"Basic {TOKEN}", TOKEN]
        for text in [*wrong, f"Bearer {TOKEN.upper()}", "Bearer é"]:
            given = {"Authorization": text.encode()}
            answer = http.post(PATH, json={}, headers=given)  # type: ignore[arg-type]
            assert is_problem(answer, 401)
            assert answer.headers["www-authenticate"].startswith('Bearer realm="connector"')
        both = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", f"Bearer {TOKEN}")]
        assert is_problem(http.post(PATH, json={}, headers=both), 401)
        wrong_token = http.post(PATH, json={}, headers={"Authorization": f"Bearer {TOKEN}x"})
        assert wrong_token.headers["www-authenticate"].endswith('error="invalid_token"')
        assert script.calls == []
        for right in (f"Bearer {TOKEN}", f"bearer {OTHER_TOKEN}"):
            assert http.post(PATH, json={}, headers={"Authorization": right}).status_code == 200


def test_the_names_of_this_server_are_those_of_loopback_and_those_that_are_configured(
    http: httpx.Client,
) -> None:
    strangers = "evil.example 127.0.0.1.evil.example localhost.evil.example:80 [ 0.0.0.0 a@b:c"
    for host in strangers.split():  # names that were made to point here
        assert is_problem(http.get("/docs", headers={"Host": host}), 421, "http.hosts")
    for host in ("localhost", "LOCALHOST:99", "127.0.0.1", "127.9.9.9:1", "[::1]:8080"):
        assert http.get("/docs", headers={"Host": host}).status_code == 200
    with serving(hosts=("orders.example.com",)) as server, client(server) as other:
        assert other.get("/docs", headers={"Host": "Orders.Example.com"}).status_code == 200
        assert other.get("/docs", headers={"Host": "other.example.com"}).status_code == 421


def test_a_page_of_a_configured_host_makes_requests_though_a_proxy_changes_the_host() -> None:
    with serving(hosts=("orders.example.com",)) as server, client(server) as http:
        for origin in ("https://orders.example.com", "https://Orders.Example.com:8443"):
            assert http.post(PATH, json={}, headers={"Origin": origin}).status_code == 200
        stranger = "https://x.example.com https://orders.example.com.evil null http://[ http://"
        for origin in stranger.split():
            answer = http.post(PATH, json={}, headers={"Origin": origin})
            assert is_problem(answer, 403, "http.hosts")


def test_only_the_servers_own_page_makes_requests(http: httpx.Client, server: Server, script: Script) -> None:
    for origin in ("http://evil.example", "null", "https://127.0.0.1", "http://["):
        assert is_problem(http.post(PATH, json={}, headers={"Origin": origin}), 403)
    assert script.calls == []
    assert http.post(PATH, json={}, headers={"Origin": server.url}).status_code == 200


# -- reading -----------------------------------------------------------------------------------------


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,\\u0041e-1.tnf \n', max_size=60).map(str.encode))
def test_whatever_the_bytes_are_they_are_read_or_refused(body: bytes) -> None:
    status = 200
    try:
        assert isinstance(parse(body), dict)
    except HttpProblem as problem:
        status = problem.status
    assert status in (200, 400)
