"""What happens often is said now and then."""

from __future__ import annotations

import logging

import pytest

from connector.http.throttled_log import SECONDS, ThrottledLog
from tests.http.world import Script, client, in_thread, serving
from tests.waiting import wait_for


def test_the_first_is_said_at_once_and_the_others_together(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "connector.http")
    now = [0.0]
    log = ThrottledLog("refused", {"most": 7}, lambda: now[0])
    for moment in (0.0, 1.0, 2.0, SECONDS - 0.1, SECONDS, SECONDS + 1):
        now[0] = moment
        log.add()
    said = [(one.getMessage(), vars(one)["number"], vars(one)["most"]) for one in caplog.records]
    assert said == [("refused", 1, 7), ("refused", 4, 7)]


def test_calls_beyond_the_limit_are_counted_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "connector.http")
    script = Script()
    script.holds = True
    with serving(script, max_requests=1) as server, client(server) as http, client(server) as other:
        first = in_thread(lambda: http.post("/requests/Customer/Create", json={}))
        wait_for(lambda: script.held, what="a call is being answered")
        for _ in range(3):
            assert other.post("/requests/Customer/Create", json={}).status_code == 503
        script.release()
        assert first().status_code == 200
    said = [vars(one) for one in caplog.records if one.getMessage() == "calls are refused"]
    assert [(one["number"], one["max_requests"]) for one in said] == [(1, 1)]
