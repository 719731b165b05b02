"""The server from start to stop, what it says to its log, and real requests."""

from __future__ import annotations

import itertools
import logging
import re
import socket
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from connector.businessobjects.instance import BusinessObject
from connector.config.http_model import Address
from connector.http import calls
from connector.http.calls import RequestCalls, ServerLimits
from connector.http.problems import HttpProblem
from connector.http.server import ListenError, Server
from connector.http.throttled_log import SECONDS, ThrottledLog
from connector.http.tokens import Tokens
from connector.requests.result import RequestResult
from connector.status import ReturnCode
from connector.testing.deployment import Deployment
from tests.http.world import (
    DEFINITIONS,
    OTHER_TOKEN,
    PATIENCE,
    TOKEN,
    Script,
    client,
    connect,
    read_all,
    serving,
    settings,
    tokens,
)
from tests.requests.world import World, definitions
from tests.waiting import beside, wait_for

PATH = "/requests/Customer/Create"
OBJECT = "business_object: Order\nverbs: {Create: }\nattributes: {Id: {type: String, key: true}}\n"


# -- start -------------------------------------------------------------------------------------------


def test_an_address_that_cannot_be_listened_at_is_named_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        own = Address("127.0.0.1", taken.getsockname()[1])
        for address, words in (
            (own, f"http.listen: {own}: another program listens there: end it (ss -ltnp 'sport"),
            (own, "or choose another port"),
            (
                own,
                f"needs its own, such as listen: 127.0.0.1:${{HTTP_PORT:{own.port}}} with HTTP_PORT",
            ),
            (Address("192.0.2.1", 0), "no address of this machine"),
            (Address("no-such-host.invalid", 80), "no-such-host.invalid:80: "),
        ):
            with pytest.raises(ListenError, match=re.escape(words)):
                Server(settings(listen=address), Script(), DEFINITIONS).start()


def test_instances_of_one_file_have_a_port_each_from_their_environment(tmp_path: Path) -> None:
    """As the page on services and the error of a port that is taken say."""
    text = """\
provider: {type: dropbox, root: ./data, create: true}
connector: {ApplicationName: shop}
metaobjects: ./metaobjects
http: {listen: "127.0.0.1:${HTTP_PORT:0}"}
"""

    def server(**environment: str) -> Server:
        deployment = Deployment(tmp_path, adapter=text, metaobjects=OBJECT, environment=environment)
        configured = deployment.configuration.http
        assert configured is not None
        return Server(configured, Script(), DEFINITIONS)

    first, second = server(), server(HTTP_PORT="0")
    try:
        first.start()
        second.start()
        assert first.url != second.url
        port = first.url.rpartition(":")[2]
        with pytest.raises(ListenError, match=re.escape(f"127.0.0.1:${{HTTP_PORT:{port}}}")):
            server(HTTP_PORT=port).start()
    finally:
        first.stop()
        second.stop()


def test_a_port_is_free_again_once_the_server_has_stopped() -> None:
    with serving() as first, client(first) as http:
        assert http.post(PATH, json={}).status_code == 200
        address = Address("127.0.0.1", int(first.url.rpartition(":")[2]))
    with serving(listen=address) as second, client(second) as http:
        assert http.post(PATH, json={}).status_code == 200


# -- stop --------------------------------------------------------------------------------------------


def test_a_stop_waits_for_the_calls_in_flight_and_makes_no_more() -> None:
    script = Script()
    script.holds = True
    with serving(script) as server, client(server) as http, client(server) as other:
        first = beside(lambda: http.post(PATH, json={}))
        wait_for(lambda: script.held, what="a call is in flight")
        assert other.get("/docs").status_code == 200
        stopped = beside(lambda: server.stop(PATIENCE))
        wait_for(lambda: server._calls is not None and server._calls.places.stopping, what="it has begun")
        assert script.refusing, "what waits for its turn is told at once"
        late = other.post("/requests/Order/Create", json={})
        assert (late.status_code, late.headers["retry-after"]) == (503, "1")
        assert "the adapter is stopping; nothing was sent" in late.json()["detail"]
        script.release()
        assert first.result(PATIENCE).status_code == 200
        stopped.result(PATIENCE)
    assert [bo.type for bo, _ in script.calls] == ["Customer"]


def test_what_is_in_flight_for_longer_than_the_stop_waits_is_told_that_it_may_have_been_sent() -> None:
    script = Script()
    script.holds = True
    with serving(script) as server, client(server) as http:
        first = beside(lambda: http.post(PATH, json={}))
        wait_for(lambda: script.held, what="a call is in flight")
        began = time.monotonic()
        server.stop(0.3)
        assert time.monotonic() - began >= 0.3
        answer = first.result(PATIENCE)
    assert answer.status_code == 503
    assert "may have been sent" in answer.json()["detail"]
    assert "retry-after" not in answer.headers
    script.release()


def test_a_call_that_has_not_begun_when_the_stop_is_over_was_not_sent() -> None:
    script = Script()
    entered, free, make = threading.Event(), threading.Event(), script.request_async

    def stuck(*arguments: Any, **options: Any) -> Future[RequestResult]:
        entered.set()
        free.wait(PATIENCE)
        return make(*arguments, **options)

    script.request_async = stuck  # type: ignore[method-assign]
    with serving(script, ServerLimits(threads=1)) as server, client(server) as http, client(server) as other:
        first = beside(lambda: http.post(PATH, json={}))
        assert entered.wait(PATIENCE)
        second = beside(lambda: other.post(PATH, json={}))
        made = server._calls
        assert made is not None
        wait_for(lambda: made.places.under_way == 2, what="both calls are there")
        with client(server) as reader:
            assert reader.get("/docs").status_code == 200
        server.stop()
        free.set()
    cut, unsent = first.result(PATIENCE), second.result(PATIENCE)
    assert (cut.status_code, "retry-after" in cut.headers) == (503, False)
    assert (unsent.status_code, unsent.headers["retry-after"]) == (503, "1")
    wait_for(lambda: script.calls, what="what has begun goes on")
    assert len(script.calls) == 1


def test_an_answer_that_is_there_is_given_also_when_nothing_is_waited_for_any_more() -> None:
    begun: Future[Future[RequestResult]] = Future()
    answered: Future[RequestResult] = Future()
    begun.set_result(answered)
    with pytest.raises(HttpProblem, match="may have been sent"):
        calls._final_answer(begun)
    result = RequestResult(ReturnCode.SUCCEED, BusinessObject(DEFINITIONS, "Order"))
    answered.set_result(result)
    assert calls._final_answer(begun) is result


def test_a_stop_ends_its_threads_and_may_be_repeated() -> None:
    before = set(threading.enumerate())
    with serving() as server, client(server) as http:
        assert http.post(PATH, json={}).status_code == 200
        with connect(server) as idle:
            server.stop()
            assert read_all(idle) == b""
        server.stop(5.0)
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{server.url}/docs", trust_env=False)
    wait_for(lambda: set(threading.enumerate()) <= before, what="no thread is left")


# -- the log -----------------------------------------------------------------------------------------


def test_each_call_is_a_line_in_the_log_for_who_wants_to_see(
    caplog: pytest.LogCaptureFixture, http: httpx.Client
) -> None:
    caplog.set_level(logging.DEBUG, "connector.http")
    http.post(f"{PATH}?timeout=5", json={})
    http.get("/nowhere%0aGET%20/")
    wait_for(lambda: caplog.messages.count("call") == 2, what="the calls are logged")
    calls = [vars(record) for record in caplog.records if record.getMessage() == "call"]
    assert [(call["method"], call["path"], call["status"]) for call in calls] == [
        ("POST", PATH, 200),
        ("GET", "/nowhere%0aGET%20/", 404),
    ]


def test_the_first_is_said_at_once_and_the_others_together(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "connector.http")
    now = [0.0]
    log = ThrottledLog("refused", {"most": 7}, lambda: now[0])
    for moment in (0.0, 1.0, 2.0, SECONDS - 0.1, SECONDS, SECONDS + 1):
        now[0] = moment
        log.add()
    said = [(one.getMessage(), vars(one)["number"], vars(one)["most"]) for one in caplog.records]
    assert said == [("refused", 1, 7), ("refused", 4, 7)]


def test_no_token_is_ever_logged_shown_or_answered(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    script = Script()
    seen = []
    wrong = "wrong-but-somebodys-secret"
    paths = (PATH, "/requests/Nothing/Create", "/nowhere", f"{PATH}?timeout=x")
    headers = {"Content-Type": "application/json"}
    with serving(script, tokens=(TOKEN, OTHER_TOKEN)) as server:
        for token in (TOKEN, OTHER_TOKEN, wrong):
            with client(server, token) as http:
                for path, content in itertools.product(paths, (b"{}", b"{", b'{"Nothing": 1}')):
                    seen.append(http.post(path, content=content, headers=headers))
        script.answer = None  # type: ignore[assignment]
        with client(server, TOKEN) as http:
            seen.append(http.post(PATH, json={}))
        assert seen[-1].status_code == 500
        with connect(server) as connection:
            connection.sendall(f"GET / HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\x00\r\n\r\n".encode())
            seen_raw = read_all(connection)
        wait_for(lambda: "TypeError" in caplog.text, what="the mistake is logged")
        section = settings(tokens=(TOKEN, OTHER_TOKEN))
        checked = Tokens(tokens(TOKEN, OTHER_TOKEN))
        made = RequestCalls(section, checked, script, DEFINITIONS, ServerLimits())
        shown = repr([server, section, str(section), checked, vars(server), vars(made), vars(checked)])
        made.close()
    shown += "".join(record.getMessage() + (record.exc_text or "") for record in caplog.records)
    shown += "".join(answer.text + str(answer.headers) for answer in seen) + seen_raw.decode()
    for secret in (TOKEN, OTHER_TOKEN, wrong):
        assert secret not in shown


# -- requests that are real messages, to an application that really answers -------------------------------

RETRIEVE = "/requests/Customer/Retrieve"


def test_a_hundred_callers_each_have_the_answer_to_their_own_request(world: World) -> None:
    world.application()
    requests = world.client()
    with (
        serving(requests, definitions=definitions()) as server,
        client(server, limits=httpx.Limits(max_connections=100)) as http,
        ThreadPoolExecutor(100) as many,
    ):

        def ask(number: int) -> tuple[int, str]:
            answer = http.post(RETRIEVE, json={"CustomerId": str(number)})
            return answer.status_code, answer.json()["object"]["Name"]

        answers = list(many.map(ask, range(100)))
    assert answers == [(200, f"name of {number}") for number in range(100)]


def test_what_nobody_answers_is_504_and_what_wants_no_answer_200(world: World) -> None:
    with serving(world.client(), definitions=definitions()) as server, client(server) as http:
        lives = {"CustomerId": "1", "Meta": {"TimeToLive": "60000"}}  # a broker drops what has expired
        unanswered = http.post(f"{RETRIEVE}?timeout=50", json=lives)
        sent = http.post(f"{RETRIEVE}?timeout=-1", json={"CustomerId": "2"})
        wrong = {"CustomerId": "3", "Meta": {"OutputDestination": "queue://../x"}}
        refused = http.post("/requests/Customer/Create", json=wrong)
    assert (unanswered.status_code, unanswered.json()["status"]) == (504, "APPRESPONSETIMEOUT")
    assert (sent.status_code, sent.json()["status"]) == (200, "SUCCEED")
    assert (refused.status_code, refused.json()["status"]) == (422, "FAIL")
    assert len(world.requests_on_queue(2)) == 2


def test_the_traceparent_of_a_call_is_that_of_its_request(world: World) -> None:
    traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    with serving(world.client(), definitions=definitions()) as server, client(server) as http:
        for value in (traceparent, "nonsense"):
            headers = {"traceparent": value}
            sent = http.post(f"{RETRIEVE}?timeout=-1", json={"CustomerId": "1"}, headers=headers)
            assert sent.status_code == 200
    found = [one.properties.get("traceparent") for one in world.requests_on_queue(2)]
    assert found == [traceparent, None]
