"""The same call twice has one effect."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from starlette.responses import Response

from connector.http.idempotency import KeptAnswers
from connector.http.problems import HttpProblem
from connector.requests.result import RequestResult
from connector.status import ReturnCode
from tests.http.world import PATIENCE, Script
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
