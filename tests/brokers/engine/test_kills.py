"""The whole tree of the adapter is killed with SIGKILL at each step. The broker is another process.

No message is lost. No event runs twice unless its delivery had begun and nobody recorded its end.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.brokers.engine.provider import LentProvider
from tests.brokers.engine.server import serving
from tests.brokers.engine.steps import (
    STEPS,
    STEPS_BEFORE_A_ROLLBACK,
    STEPS_IN_PROGRESS,
    leftovers,
    runs_again,
)
from tests.brokers.engine.world import deploy, ids, send, stored

pytestmark = pytest.mark.slow

RUNNER = Path(__file__).with_name("run_adapter.py")
COUNT = 12
"""Messages, more than a transaction holds."""


@pytest.mark.parametrize("order", ["destination", "none"])
@pytest.mark.parametrize("fault", STEPS)
def test_nothing_is_lost_and_nothing_runs_twice_without_need(
    root: Path, tmp_path: Path, provider: LentProvider, fault: str, order: str
) -> None:
    deployment = deploy(tmp_path, order=order)  # without order two transactions are open
    sent = send(provider, *[""] * COUNT)
    with serving(provider.broker, root / "socket"):
        assert run(root, tmp_path, fault) == -9
        assert run(root, tmp_path) == 0
    check(provider, sent)
    counts = Counter(line.split()[0] for line in stored(deployment))
    twice = [identity for identity, number in counts.items() if number > 1]
    assert len(counts) == COUNT
    assert len(twice) <= runs_again(fault), counts


@pytest.mark.parametrize("fault", STEPS_BEFORE_A_ROLLBACK)
def test_a_done_event_of_a_transaction_that_was_rolled_back_does_not_run_again(
    root: Path, tmp_path: Path, provider: LentProvider, fault: str
) -> None:
    deployment = deploy(tmp_path)
    sent = send(provider, "", "", "sleep", "")
    with serving(provider.broker, root / "socket"):
        assert run(root, tmp_path, fault) == -9
        deployment.write("awake", "")
        assert run(root, tmp_path) == 0
    check(provider, sent)
    assert [line.split()[0] for line in stored(deployment)] == ["0", "1", "2", "3"]


@pytest.mark.parametrize("fault", ["claim.noted", "settle.record", "settle.committing", "settle.finished"])
def test_a_transaction_without_a_task_leaves_nothing(
    root: Path, tmp_path: Path, provider: LentProvider, fault: str
) -> None:
    """All its messages are duplicates, so no journal of a task exists."""
    deployment = deploy(tmp_path)
    sent = send(provider, *[""] * COUNT)
    copies = [one.message.copy(one.message.body) for one in provider.broker.waiting("customers")]
    with serving(provider.broker, root / "socket"):
        assert run(root, tmp_path) == 0
        for message in copies:
            provider.broker.add("customers", message)
        assert run(root, tmp_path, fault) == -9
        assert run(root, tmp_path) == 0
    assert len(stored(deployment)) == COUNT
    check(provider, sent, duplicates=sent)


def test_a_client_that_dies_when_messages_come_again_leaves_no_pending_commit(
    root: Path, tmp_path: Path, provider: LentProvider
) -> None:
    deployment = deploy(tmp_path)
    sent = send(provider, "")
    with serving(provider.broker, root / "socket"):
        assert run(root, tmp_path, "settle.record") == -9
        for _ in range(2):
            assert run(root, tmp_path, "claim.known") == -9
        assert run(root, tmp_path) == 0
    check(provider, sent)
    assert len(stored(deployment)) == 1


@pytest.mark.parametrize("fault", STEPS)
def test_an_event_that_comes_again_later_is_neither_lost_nor_published_twice(
    root: Path, tmp_path: Path, provider: LentProvider, fault: str
) -> None:
    deployment = deploy(tmp_path, store={"retry_later": {"first": "50ms", "most": "50ms", "attempts": 99}})
    deployment.write("away", "")
    sent = send(provider, *["", "away"] * (COUNT // 2))
    with serving(provider.broker, root / "socket"):
        assert run(root, tmp_path, fault) == -9
        run(root, tmp_path, fault)
        (tmp_path / "away").unlink()
        for _ in range(COUNT):  # the order of the destination lets one of them through
            assert run(root, tmp_path) == 0
            if len(ids(provider, "archive")) == COUNT:
                break
    check(provider, sent)
    assert ids(provider, "connector.lent.later") == []
    counts = Counter(line.split()[0] for line in stored(deployment))
    assert len(counts) == COUNT
    assert sum(counts.values()) - COUNT <= 2 * runs_again(fault), counts


@pytest.mark.parametrize("fault", STEPS_IN_PROGRESS)
def test_messages_in_progress_are_taken_over(
    root: Path, tmp_path: Path, provider: LentProvider, fault: str
) -> None:
    deployment = deploy(tmp_path, InProgressDestination="queue://in-progress", InDoubtEvents="Reprocess")
    sent = send(provider, *[""] * COUNT)
    with serving(provider.broker, root / "socket"):
        assert run(root, tmp_path, fault) == -9
        assert run(root, tmp_path) == 0
    check(provider, sent)
    assert ids(provider, "in-progress") == []
    counts = Counter(line.split()[0] for line in stored(deployment))
    assert len(counts) == COUNT
    twice = [identity for identity, number in counts.items() if number > 1]
    assert len(twice) <= runs_again(fault), counts


def run(root: Path, directory: Path, fault: str = "") -> int:
    """Runs an adapter in a process group of its own. Returns its exit status."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    if fault:
        environment["CONNECTOR_FAULT"] = f"{fault}=killgroup"
    command = [sys.executable, RUNNER, directory, root / "state", root / "socket"]
    return subprocess.run(command, env=environment, start_new_session=True, timeout=100).returncode


def check(provider: LentProvider, sent: list[str], *, duplicates: Sequence[str] = ()) -> None:
    """Checks that each message was archived once, and that nothing is left."""
    assert sorted(map(str, ids(provider, "archive"))) == sorted([*sent, *duplicates])
    assert len(ids(provider, "crm")) == len(sent)
    assert ids(provider, "customers") == []
    names = [list(one.message.properties) for one in provider.broker.waiting("connector.lent.commits")]
    assert names in ([], [["connector_directory"]])
    assert leftovers(provider.existing_state("lent")) == []
