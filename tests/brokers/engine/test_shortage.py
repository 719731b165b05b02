"""A message that is too large for the memory of the client library stops its own input, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from connector.brokers.engine import shortage
from connector.brokers.engine.shortage import MemoryShortage
from connector.service import restarts
from tests.brokers.engine.provider import LentProvider
from tests.brokers.engine.world import deploy, ids, running, seen, send
from tests.events.conftest import serving
from tests.waiting import wait_for

INPUTS = ["a", "b", "c"]


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(shortage, "time", clock)
    return clock


def resting(inputs: MemoryShortage) -> str:
    return "".join(name for name in INPUTS if inputs.obstacle(name))


def test_the_input_that_was_opened_last_rests(clock: Clock) -> None:
    inputs = MemoryShortage()
    inputs.note(INPUTS, "no memory")
    assert resting(inputs) == "", "fewer messages may help"
    clock.now += 1
    inputs.note(INPUTS, "no memory")
    assert resting(inputs) == "abc", "one input after the other is opened"
    clock.now += 11
    assert resting(inputs) == "c"
    inputs.note(["a", "b"], "no memory")
    assert resting(inputs) == "bc"
    assert inputs.obstacle("b") == "no memory"
    clock.now += 6
    assert resting(inputs) == "b"
    clock.now += 54
    assert resting(inputs) == ""
    inputs.note(["a", "b", "c"], "no memory")
    assert resting(inputs) == "b", "it has not become smaller"
    clock.now += 119
    assert resting(inputs) == "b"


def test_a_failure_after_a_calm_minute_is_the_first_one(clock: Clock) -> None:
    inputs = MemoryShortage()
    for _ in range(3):
        inputs.note(INPUTS, "no memory")
        assert resting(inputs) == ""
        clock.now += 61


def test_other_inputs_go_on_beside_a_message_that_is_too_large(
    tmp_path: Path,
    provider: LentProvider,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(shortage, "_TURN", 0.1)
    monkeypatch.setattr(restarts, "_LEAST_PAUSE", 0.01)
    deployment = deploy(tmp_path, PollFrequency=10, RestartRetryInterval=0.01, RestartRetryCount=1000)
    (large,) = send(provider, "")
    provider.broker.too_large.add(seen(provider, "customers")[0].body)
    expected = send(provider, "other", "other", "other", queue="urgent")
    with running(deployment, provider) as adapter, serving(adapter):
        wait_for(lambda: ids(provider, "archive") == expected)
        wait_for(lambda: "an input rests" in caplog.text)
    assert ids(provider, "customers") == [large]
