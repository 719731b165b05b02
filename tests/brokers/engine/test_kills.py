"""The whole tree of an adapter is killed with SIGKILL, where no world of tests/crashing comes to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from connector.brokers.engine.state import RemoteState
from connector.operate.lives import read_all
from connector.testing.deployment import Deployment
from tests.brokers.engine.provider import LentProvider
from tests.brokers.engine.server import serving
from tests.brokers.engine.world import deploy, ids, leftovers, send, stored
from tests.forked_command import PipedProcess
from tests.waiting import wait_for

pytestmark = pytest.mark.process

BATCH = 10
DRAIN = """
import sys
from connector.config.loading import load
from connector.testing.deployment import InProcessAdapter
from tests.brokers.engine.server import SocketProvider

configuration, provider = load(in_process=True), SocketProvider(*sys.argv[1:])
with InProcessAdapter(configuration, provider, isolated=True, parallelism=2) as adapter:
    adapter.drain()
"""
Run = Callable[..., int]


@pytest.fixture
def run(root: Path, tmp_path: Path, provider: LentProvider) -> Iterator[Run]:
    """Drains an adapter in a process group of its own, at the broker of this process.

    Takes what CONNECTOR_FAULT may say. Returns the exit status when the broker has rolled back what the
    process has left.
    """
    with serving(provider.broker, root / "socket"):

        def run(fault: str = "") -> int:
            given = root / "state", root / "socket"
            with PipedProcess(*given, cwd=tmp_path, script=DRAIN, CONNECTOR_FAULT=fault) as process:
                _, errors = process.communicate(timeout=240)
            wait_for(lambda: all(one.ended for one in provider.broker.connections), what="the rollback")
            assert process.returncode in (0, -9), errors
            return process.returncode

        yield run


@pytest.mark.parametrize("step", ["claim.noted", "settle.record", "settle.committing", "settle.finished"])
def test_a_transaction_without_a_task_leaves_nothing(
    deployment: Deployment, provider: LentProvider, run: Run, step: str
) -> None:
    """All its messages are duplicates, so no journal of a task exists. A world has no duplicates here."""
    sent = send(provider, *[""] * 12)
    copies = [one.message.copy(one.message.body) for one in provider.broker.waiting("customers")]
    assert run() == 0
    for message in copies:
        provider.broker.add("customers", message)
    assert run(f"{step}=killgroup") == -9
    assert run() == 0
    assert sorted(map(str, ids(provider, "archive"))) == sorted(sent * 2)
    assert (len(ids(provider, "crm")), ids(provider, "customers")) == (12, [])
    assert [line.split()[0] for line in stored(deployment)] == sorted(map(str, range(12)))
    (mark,) = provider.broker.waiting("connector.lent.commits")
    assert list(mark.message.properties) == ["connector_directory"]
    state = provider.existing_state("lent")
    assert isinstance(state, RemoteState)
    assert leftovers(state) == []


def test_a_kill_counts_also_after_the_event_has_come_again_later(
    tmp_path: Path, provider: LentProvider, run: Run
) -> None:
    """The copy that waits carries the count of the first kill. The journal tells only of the second."""
    deployment = deploy(tmp_path, store={"retry_later": {"first": "1ms", "most": "1ms", "attempts": 1000}})
    send(provider, "away")
    assert run("deliver=killgroup") == -9
    deployment.write("away", "")
    assert run("settle.finished=killgroup") == -9
    (deployment.directory / "away").unlink()
    assert run("deliver=killgroup") == -9
    assert run() == 0
    assert stored(deployment)[-1] == "0 3"


@pytest.mark.parametrize("step", ["begin", "done", "deliver", "history"])
def test_after_a_kill_the_history_tells_no_event_wrongly(
    tmp_path: Path, provider: LentProvider, run: Run, step: str
) -> None:
    """Rows follow the commit, so the last batch before a crash may be missing."""
    deploy(tmp_path, order="none")
    sent = send(provider, *[""] * (BATCH + 2))
    assert run(f"{step}=killgroup") == -9
    assert run() == 0
    events = read_all(provider.state("lent").history(), 0.0)
    told = Counter(one.id for one in events if one.row.what == "published")
    assert set(told) <= set(sent)
    assert set(told.values()) <= {1}
    assert len(sent) - len(told) <= BATCH
