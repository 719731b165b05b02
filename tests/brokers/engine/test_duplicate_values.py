"""Duplicates by values of the object at a broker, with transactions and with messages in progress."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from connector.brokers.engine.state import RemoteState
from connector.testing.deployment import Deployment
from tests.brokers.engine.provider import LentProvider
from tests.brokers.engine.world import deploy, leftovers, running, seen, send, stored

MODES: dict[str, dict[str, Any]] = {
    "transactions": {},
    "in progress": {"InProgressDestination": "queue://in-progress"},
}
each_mode = pytest.mark.parametrize("mode", MODES)


def deploy_so(directory: Path, mode: str, **more: Any) -> Deployment:
    settings = {"DuplicateEventElimination": False, "duplicate_key": "{Id}", **MODES[mode], **more}
    return deploy(directory, **settings)


def outcomes(provider: LentProvider, queue: str = "archive") -> Counter[str]:
    return Counter(str(one.properties["connector_outcome"]) for one in seen(provider, queue))


def numbers(deployment: Deployment) -> list[str]:
    """The customers that were stored."""
    return [line.split()[0] for line in stored(deployment)]


def check_end(provider: LentProvider) -> None:
    state = provider.existing_state("lent")
    assert isinstance(state, RemoteState)
    assert leftovers(state) == []
    assert provider.broker.waiting("customers") == []


@each_mode
def test_two_messages_with_one_key_are_published_once(
    tmp_path: Path, provider: LentProvider, mode: str
) -> None:
    deployment = deploy_so(tmp_path, mode)
    for wish in ("fail", "", ""):  # what has failed does not keep its key
        send(provider, wish, "")
    with running(deployment, provider) as adapter:
        adapter.drain()
    send(provider, "", "", "")
    with running(deployment, provider) as adapter:
        adapter.drain()
    assert numbers(deployment) == ["0", "1", "2"]
    assert outcomes(provider) == {"published": 3, "duplicate": 5}
    assert outcomes(provider, "error") == {"failed": 1}
    assert len(seen(provider, "crm")) == 3
    check_end(provider)


@each_mode
@pytest.mark.parametrize("answer", ["done", "undone"])
def test_a_commit_without_an_answer_keeps_the_key_if_it_has_happened(
    tmp_path: Path, provider: LentProvider, mode: str, answer: str
) -> None:
    deployment = deploy_so(tmp_path, mode)
    send(provider, "")
    provider.broker.lost_answers += [answer] if mode == "transactions" else ["", answer]
    with running(deployment, provider) as adapter:
        adapter.poll()
        while adapter.in_progress:
            adapter.settle_ended()
        adapter.stop()
        send(provider, "")
        adapter.start()
        adapter.drain()
    assert numbers(deployment) == ["0"]
    assert len(seen(provider, "crm")) == 1
    assert outcomes(provider) == {"published": 1, "duplicate": 1}
    check_end(provider)


@each_mode
def test_a_copy_of_a_redelivered_done_event_waits_for_it(
    tmp_path: Path, provider: LentProvider, mode: str
) -> None:
    """The transaction of a done event is rolled back for another one, and the copy comes first."""
    deployment = deploy_so(tmp_path, mode, order="none")
    send(provider, "", "sleep")
    with running(deployment, provider) as adapter:
        adapter.poll()
        send(provider, "")
        deployment.write("awake", "")
        adapter.drain()
    assert numbers(deployment) == ["0", "1"]
    assert len(seen(provider, "crm")) == 2
    assert outcomes(provider) == {"published": 2, "duplicate": 1}
    check_end(provider)
