"""Requests over HTTP that are real messages, to an application that really answers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.http.world import PATIENCE, client, in_thread, serving
from tests.requests.world import World, definitions
from tests.waiting import wait_for

PATH = "/requests/Customer/Retrieve"


def test_a_hundred_callers_each_have_the_answer_to_their_own_request(world: World) -> None:
    world.application()
    requests = world.client()
    with (
        serving(requests, definitions=definitions()) as server,
        client(server, limits=httpx.Limits(max_connections=100)) as http,
        ThreadPoolExecutor(100) as many,
    ):

        def ask(number: int) -> tuple[int, str]:
            answer = http.post(PATH, json={"CustomerId": str(number)})
            return answer.status_code, answer.json()["object"]["Name"]

        answers = list(many.map(ask, range(100)))
    assert answers == [(200, f"name of {number}") for number in range(100)]


def test_what_nobody_answers_is_504_and_what_wants_no_answer_200(world: World) -> None:
    with serving(world.client(), definitions=definitions()) as server, client(server) as http:
        lives = {"CustomerId": "1", "Meta": {"TimeToLive": "60000"}}  # a broker drops what has expired
        unanswered = http.post(f"{PATH}?timeout=50", json=lives)
        sent = http.post(f"{PATH}?timeout=-1", json={"CustomerId": "2"})
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
            sent = http.post(f"{PATH}?timeout=-1", json={"CustomerId": "1"}, headers=headers)
            assert sent.status_code == 200
    found = [one.properties.get("traceparent") for one in world.requests_on_queue(2)]
    assert found == [traceparent, None]


@pytest.mark.parametrize("seconds", [0.0, 2.0])
def test_at_a_stop_those_that_wait_for_their_turn_are_told_at_once_that_nothing_was_sent(
    world: World, seconds: float
) -> None:
    requests = world.client(pool_size=1)
    with (
        serving(requests, definitions=definitions()) as server,
        client(server) as http,
        ThreadPoolExecutor(5) as many,
    ):

        def ask(number: int) -> httpx.Response:
            return http.post(f"{PATH}?timeout=60000", json={"CustomerId": str(number)})

        first = many.submit(ask, 0)
        world.request_on_queue()
        others = [many.submit(ask, number) for number in range(1, 5)]
        wait_for(lambda: requests._slots.waiting == 4, what="all wait")
        stopping = in_thread(lambda: server.stop(seconds))
        told = [other.result(PATIENCE) for other in others]
        was_waiting = not first.done()
        stopping()
        cut = first.result(PATIENCE)
    assert [(each.status_code, each.headers.get("retry-after")) for each in told] == [(503, "1")] * 4
    assert {each.json()["message"] for each in told} == {"the adapter is stopping; nothing was sent"}
    assert was_waiting
    assert (cut.status_code, "retry-after" in cut.headers) == (503, False)
    assert "may have been sent" in cut.json()["detail"]
    assert len(world.requests_on_queue(1)) == 1
