"""An input at a broker has destinations, attempts and an order of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from connector.testing.deployment import Deployment
from tests.brokers.engine.provider import LentProvider
from tests.brokers.engine.world import deploy, ids, leftovers, pending, running, send, stored
from tests.events.conftest import serving
from tests.waiting import wait_for

OWN = {
    "destination": "queue://urgent",
    "ErrorDestination": "queue://urgent-errors",
    "ArchiveDestination": "queue://urgent-archive",
    "max_attempts": 1,
}
PLACES = ("archive", "error", "urgent-archive", "urgent-errors")
MODES = pytest.mark.parametrize("in_progress", ["", "queue://in-progress"])


def deploy_own(directory: Path, in_progress: str = "", **connector: Any) -> Deployment:
    if in_progress:
        connector |= {"InProgressDestination": in_progress, "DuplicateEventElimination": False}
    return deploy(directory, InputDestination=["queue://customers", OWN], **connector)


def places(provider: LentProvider) -> dict[str, list[str | None]]:
    """The ids in each destination of copies that has messages."""
    return {name: found for name in PLACES if (found := ids(provider, name))}


@MODES
def test_copies_go_to_the_destinations_of_their_input(
    tmp_path: Path, provider: LentProvider, in_progress: str
) -> None:
    deployment = deploy_own(tmp_path, in_progress)
    usual = send(provider, "", "fail")
    own = send(provider, "", "fail", queue="urgent")
    with running(deployment, provider) as adapter:
        adapter.drain()
    assert places(provider) == {name: [one] for name, one in zip(PLACES, [*usual, *own], strict=True)}


@MODES
@pytest.mark.parametrize("answer", ["done", "undone"])
def test_another_instance_settles_a_commit_without_an_answer_in_the_destinations_of_the_input(
    tmp_path: Path, provider: LentProvider, in_progress: str, answer: str
) -> None:
    """The connection breaks between the copies and the acknowledgement, or after both."""
    sent = send(provider, "fail", "", queue="urgent")
    provider.broker.lost_answers += ["", answer] if in_progress else [answer]
    with running(deploy_own(tmp_path / "one", in_progress), provider) as adapter:
        adapter.poll()
    other = deploy_own(tmp_path / "two", in_progress, instance="two")
    with running(other, provider) as adapter:
        adapter.drain()
    assert places(provider) == {"urgent-archive": [sent[1]], "urgent-errors": [sent[0]]}
    assert not provider.broker.lost_answers
    assert not pending(provider)
    state: Any = provider.existing_state("lent")
    assert leftovers(state) == []


@MODES
def test_an_event_that_ends_its_process_has_failed_after_the_attempts_of_its_input(
    tmp_path: Path, provider: LentProvider, in_progress: str
) -> None:
    deployment = deploy_own(tmp_path, in_progress)
    (sent,) = send(provider, "end", queue="urgent")
    with running(deployment, provider) as adapter:
        adapter.drain()
    assert places(provider) == {"urgent-errors": [sent]}
    assert stored(deployment) == []


def test_an_input_without_order_does_not_wait_for_a_slow_event(
    tmp_path: Path, provider: LentProvider
) -> None:
    unordered = {"destination": "queue://customers", "order": "none"}
    deployment = deploy(tmp_path, InputDestination=[unordered, "queue://urgent"], PollFrequency=10)
    with running(deployment, provider) as adapter:
        adapter.start()
        send(provider, "wait")
        with serving(adapter):
            wait_for((deployment.directory / "waits").exists)
            send(provider, "")
            wait_for(lambda: len(ids(provider, "archive")) == 1)
            (deployment.directory / "go").touch()
