"""The same call twice has one effect."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.responses import Response

from connector.config.http_model import REQUEST
from connector.http.idempotency import KeptAnswers
from connector.http.problems import HttpProblem
from connector.http.server import Server
from connector.messaging.state_store import CallLimits
from connector.requests.contract import Requests
from connector.requests.result import RequestResult
from connector.service.observer import Observer
from connector.state.directory import StateDirectory
from connector.status import ReturnCode
from connector.testing.deployment import Deployment
from tests.http.shop import CALLER, deploy, named, service
from tests.http.world import DEFINITIONS, PATIENCE, Script, client, settings
from tests.tables import rows
from tests.waiting import beside, wait_for

PATH = "/requests/Customer/Create"
DATA = {"CustomerId": "7"}


def key(text: str) -> dict[str, str]:
    return {"Idempotency-Key": text}


def test_a_call_repeated_with_its_key_gets_its_first_answer_and_makes_no_second_request(
    http: httpx.Client, script: Script
) -> None:
    script.answer = lambda bo: RequestResult(ReturnCode.VALDUPES, bo, f"call {len(script.calls)}")
    first = http.post(PATH, json=DATA, headers=key("repeated-1"))
    again = http.post(PATH, json=DATA, headers=key("repeated-1"))
    quoted = http.post(PATH, json=DATA, headers=key('"repeated-1"'))
    assert len(script.calls) == 1
    assert first.content == again.content == quoted.content
    assert (first.status_code, again.status_code) == (409, 409), "also what is no success is kept"
    replayed = [answer.headers.get("idempotent-replayed") for answer in (first, again, quoted)]
    assert replayed == [None, "true", "true"]
    assert http.post(PATH, json=DATA, headers=key("repeated-2")).json()["message"] == "call 2"
    assert http.post(PATH, json=DATA).json()["message"] == "call 3"


def test_what_was_not_sent_is_not_kept(http: httpx.Client, script: Script) -> None:
    script.answer = lambda bo: RequestResult(ReturnCode.FAIL, bo, "full", not_sent=True)
    wrong = {**DATA, "Meta": {"Priority": 12}}  # it can never be sent
    for data, status in ((DATA, 503), (wrong, 422), ({"CustomerId": 7}, 422)):
        answer = http.post(PATH, json=data, headers=key("not-sent"))
        assert (answer.status_code, "idempotent-replayed" in answer.headers) == (status, False)
    script.answer = lambda bo: RequestResult(ReturnCode.SUCCEED, bo)
    answer = http.post(PATH, json=DATA, headers=key("not-sent"))
    assert (answer.status_code, "idempotent-replayed" in answer.headers) == (200, False)


@rows("path, data", [(PATH, {"CustomerId": "8"}), ("/requests/Customer/Retrieve", DATA)])
def test_a_key_belongs_to_one_call(
    http: httpx.Client, script: Script, path: str, data: dict[str, Any]
) -> None:
    name = f"one-call-{path}-{data['CustomerId']}"
    http.post(PATH, json=DATA, headers=key(name))
    answer = http.post(path, json=data, headers=key(name))
    assert answer.status_code == 422
    assert "belongs to a call with another path or body" in answer.json()["detail"]
    assert len(script.calls) == 1


def test_a_call_may_be_repeated_with_more_patience(http: httpx.Client, script: Script) -> None:
    http.post(f"{PATH}?timeout=5", json=DATA, headers=key("patience"))
    answer = http.post(f"{PATH}?timeout=5000", json=DATA, headers=key("patience"))
    assert answer.headers["idempotent-replayed"] == "true"
    assert [timeout for _, timeout in script.calls] == [5]


def test_a_call_repeated_while_the_first_is_in_progress_is_a_conflict_and_makes_no_request(
    http: httpx.Client, script: Script
) -> None:
    script.holds = True
    first = beside(lambda: http.post(PATH, json=DATA, headers=key("in-progress")))
    wait_for(lambda: script.held, what="the first call is made")
    early = http.post(PATH, json=DATA, headers=key("in-progress"))
    assert (early.status_code, early.headers["retry-after"]) == (409, "1")
    assert early.headers["content-type"] == "application/problem+json"
    script.release()
    assert first.result(PATIENCE).status_code == 200
    assert http.post(PATH, json=DATA, headers=key("in-progress")).headers["idempotent-replayed"] == "true"
    assert len(script.calls) == 1


def test_the_answer_is_kept_for_a_client_that_hung_up(http: httpx.Client, script: Script) -> None:
    script.holds = True
    with pytest.raises(httpx.ReadTimeout):
        http.post(PATH, json=DATA, headers=key("hung-up"), timeout=0.3)
    script.release()
    wait_for(
        lambda: http.post(PATH, json=DATA, headers=key("hung-up")).headers.get("idempotent-replayed"),
        what="its answer is kept",
    )
    assert len(script.calls) == 1


@rows("text", ["", "a" * 256, "two words", 'half"', '""', "back\\slash"])
def test_what_is_no_key_is_400(http: httpx.Client, script: Script, text: str) -> None:
    assert http.post(PATH, json=DATA, headers=key(text)).status_code == 400
    assert script.calls == []


# -- over restarts and instances -----------------------------------------------------------------


STORED: dict[str, Any] = {"tokens": (named(CALLER, "eve", REQUEST),)}
DIES = """\
import os, sys
from connector.config.loading import load
from connector.messaging.state_store import CallLimits
from connector.service.assembly import make_provider
record = make_provider(load(sys.argv[1])).state("shop").calls(CallLimits(86400.0, 10, 1000))
assert record.begin(sys.argv[2], sys.argv[3]) is None
os._exit(9)
"""


@contextmanager
def another(deployment: Deployment, requests: Requests) -> Iterator[Server]:
    """The server of another adapter on the same state, which makes requests as the test says."""
    adapter: Any = SimpleNamespace(configuration=deployment.configuration)
    server = Server(settings(**STORED), requests, DEFINITIONS, observer=Observer(adapter))
    server.start()
    try:
        yield server
    finally:
        server.stop()


def order(server: Server, name: str, identity: str = "7") -> httpx.Response:
    with client(server, CALLER) as http:
        return http.post("/requests/Order/Create", json={"Id": identity}, headers=key(name))


def create(server: Server, name: str) -> httpx.Response:
    with client(server, CALLER) as http:
        return http.post(PATH, json=DATA, headers=key(name))


def test_a_key_holds_over_a_restart_of_a_real_adapter(tmp_path: Path, on_provider: str) -> None:
    with service(tmp_path, on_provider, **STORED) as (deployment, _, server):
        first = order(server, "k-1")
    assert (first.status_code, len(deployment.messages("crm"))) == (200, 1)
    with service(tmp_path, on_provider, **STORED) as (deployment, _, server):
        again = order(server, "k-1")
        assert (again.status_code, again.content) == (200, first.content)
        assert again.headers["idempotent-replayed"] == "true"
        assert order(server, "k-1", "8").status_code == 422
        assert len(deployment.messages("crm")) == 1
        assert order(server, "k-2").status_code == 200
        assert len(deployment.messages("crm")) == 2


def test_a_call_at_work_in_another_instance_is_a_conflict_until_it_has_its_answer(
    tmp_path: Path, on_provider: str
) -> None:
    deployment = deploy(tmp_path, on_provider)
    script, none = Script(), Script()
    script.holds = True
    with another(deployment, script) as one, another(deployment, none) as other:
        first = beside(lambda: create(one, "k-1"))
        wait_for(lambda: script.held, what="the first call is made")
        early = create(other, "k-1")
        assert (early.status_code, early.headers["retry-after"]) == (409, "1")
        script.release()
        assert first.result(PATIENCE).status_code == 200
        assert create(other, "k-1").headers["idempotent-replayed"] == "true"
    assert none.calls == []


def test_a_call_whose_instance_died_is_not_sent_again_and_says_so(tmp_path: Path, on_provider: str) -> None:
    deployment = deploy(tmp_path, on_provider)
    body = b'{"CustomerId":"7"}'
    stored = sha256(sha256(CALLER.encode()).digest() + b" k-1").hexdigest()
    fingerprint = sha256(b"Customer.Create " + body).hexdigest()
    command = [sys.executable, "-c", DIES, str(deployment.configuration.file), stored, fingerprint]
    died = subprocess.run(command, check=False, cwd=tmp_path)
    assert died.returncode == 9
    script = Script()
    with another(deployment, script) as server, client(server, CALLER) as http:
        headers = {**key("k-1"), "Content-Type": "application/json"}
        answer = http.post(PATH, content=body, headers=headers)
        assert (answer.status_code, "retry-after" in answer.headers) == (503, False)
        assert "may have been sent, and is not sent again" in answer.json()["detail"]
    assert script.calls == []


def test_what_was_not_sent_is_forgotten_by_all_instances(tmp_path: Path, on_provider: str) -> None:
    deployment = deploy(tmp_path, on_provider)
    script, good = Script(), Script()
    script.answer = lambda bo: RequestResult(ReturnCode.FAIL, bo, "full", not_sent=True)
    with another(deployment, script) as one, another(deployment, good) as other:
        assert create(one, "k-1").status_code == 503
        assert create(other, "k-1").status_code == 200


def test_a_call_that_the_stop_cut_off_is_not_sent_again(tmp_path: Path, on_provider: str) -> None:
    deployment = deploy(tmp_path, on_provider)
    script, good = Script(), Script()
    script.holds = True
    with another(deployment, script) as one:
        first = beside(lambda: create(one, "k-1"))
        wait_for(lambda: script.held, what="the first call is made")
    assert first.result(PATIENCE).status_code == 503
    with another(deployment, good) as other:
        assert create(other, "k-1").status_code == 503
    assert good.calls == []


@rows("limits", [CallLimits(3600.0, 50, 1 << 20), CallLimits(3600.0, 1000, 50 * 150)])
def test_kept_calls_are_bounded_in_number_and_size(tmp_path: Path, limits: CallLimits) -> None:
    state = StateDirectory(str(tmp_path / str(limits.number)), durable=False)
    record = state.calls(limits)
    for number in range(301):
        record.begin(f"a{number}", "f")
        record.finish(f"a{number}", "f", 200, b"x" * 100)
    assert len(os.listdir(f"{state.path}/calls.d")) <= 50 + 100 + 1
    assert record.begin("a300", "f") is not None
    record.close()


def test_a_call_at_work_does_not_age(tmp_path: Path) -> None:
    record = StateDirectory(str(tmp_path), durable=False).calls(CallLimits(0.0, 10, 1000))
    assert record.begin("a", "f") is None
    assert record.begin("a", "f") is not None
    record.finish("a", "f", 200, b"{}")
    assert record.begin("a", "f") is None
    record.close()


# -- what is kept ------------------------------------------------------------------------------------


def keep(answers: KeptAnswers, name: str, body: bytes = b"{}") -> None:
    assert answers.begin((0, name), b"f") is None
    answers.finish((0, name), Response(body))


def kept(answers: KeptAnswers, *names: str) -> list[str]:
    """Which of the names have an answer."""
    found = []
    for name in names:
        if answers.begin((0, name), b"f") is None:
            answers.finish((0, name), None)
        else:
            found.append(name)
    return found


def test_an_answer_is_kept_for_its_time() -> None:
    now = 0.0
    answers = KeptAnswers(60.0, 10, lambda: now)
    keep(answers, "a")
    now = 30.0
    keep(answers, "b")
    now = 59.9
    assert kept(answers, "a", "b") == ["a", "b"]
    now = 60.0
    assert kept(answers, "a", "b") == ["b"]


def test_the_oldest_answers_go_when_there_are_too_many_or_they_are_too_large() -> None:
    answers = KeptAnswers(60.0, 3, lambda: 0.0)
    large = KeptAnswers(60.0, 100, lambda: 0.0, 10_000)
    for name in "abcde":
        keep(answers, name)
        keep(large, name, b"x" * 4000)
    assert kept(answers, *"abcde") == ["c", "d", "e"]
    assert kept(large, *"abcde") == ["d", "e"]


def test_a_call_in_progress_is_never_forgotten() -> None:
    answers = KeptAnswers(60.0, 1, lambda: 0.0)
    assert answers.begin((0, "slow"), b"f") is None
    for name in "abc":
        keep(answers, name)
    with pytest.raises(HttpProblem, match="still in progress"):
        answers.begin((0, "slow"), b"f")
