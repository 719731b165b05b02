"""The whole tree of the adapter is killed with SIGKILL at each step. The broker is another process.

No message is lost. No event runs twice unless its delivery had begun and nobody recorded its end. More ways
to die, without a signal, are in tests/crashing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from connector.brokers.engine.state import RemoteState
from connector.testing.deployment import Deployment
from tests.brokers.engine.conftest import Run
from tests.brokers.engine.provider import LentProvider
from tests.brokers.engine.steps import STEPS, leftovers, runs_again
from tests.brokers.engine.world import deploy, ids, send, stored

pytestmark = pytest.mark.process

COUNT = 12
"""Messages, more than a transaction holds."""


def kill(run: Run, step: str) -> None:
    """Runs an adapter, which is killed at a step with all its processes."""
    assert run(f"{step}=killgroup")[0] == -9


@pytest.mark.parametrize("step", STEPS)
def test_nothing_is_lost_and_nothing_runs_twice_without_need(
    tmp_path: Path, provider: LentProvider, run: Run, step: str
) -> None:
    order = "none" if step.endswith(":2") else "destination"  # without order two transactions are open
    deployment = deploy(tmp_path, order=order)
    sent = send(provider, *[""] * COUNT)
    kill(run, step)
    assert run()[0] == 0
    check(provider, deployment, sent, twice=runs_again(step))


@pytest.mark.parametrize("step", ["claim.noted", "settle.record", "settle.committing", "settle.finished"])
def test_a_transaction_without_a_task_leaves_nothing(
    deployment: Deployment, provider: LentProvider, run: Run, step: str
) -> None:
    """All its messages are duplicates, so no journal of a task exists."""
    sent = send(provider, *[""] * COUNT)
    copies = [one.message.copy(one.message.body) for one in provider.broker.waiting("customers")]
    assert run()[0] == 0
    for message in copies:
        provider.broker.add("customers", message)
    kill(run, step)
    assert run()[0] == 0
    check(provider, deployment, sent, duplicates=sent)


def test_a_client_that_dies_when_messages_come_again_leaves_no_pending_commit(
    deployment: Deployment, provider: LentProvider, run: Run
) -> None:
    sent = send(provider, "")
    for step in ("settle.record", "claim.known", "claim.known"):
        kill(run, step)
    assert run()[0] == 0
    check(provider, deployment, sent)


@pytest.mark.parametrize("step", ["deliver:2", "done:2", "settle.committing", "settle.finished"])
def test_an_event_that_comes_again_later_is_neither_lost_nor_published_twice(
    tmp_path: Path, provider: LentProvider, run: Run, step: str
) -> None:
    deployment = deploy(tmp_path, store={"retry_later": {"first": "50ms", "most": "50ms", "attempts": 99}})
    deployment.write("away", "")
    sent = send(provider, *["", "away"] * (COUNT // 2))
    kill(run, step)
    run(f"{step}=killgroup")
    (tmp_path / "away").unlink()
    assert run()[0] == 0
    assert ids(provider, "connector.lent.later") == []
    check(provider, deployment, sent, twice=2 * runs_again(step))


def check(
    provider: LentProvider,
    deployment: Deployment,
    sent: list[str],
    *,
    duplicates: Sequence[str] = (),
    twice: int = 0,
) -> None:
    """Checks that each message was archived once, and that nothing is left.

    Args:
        duplicates: messages that were archived besides.
        twice: most calls that may be repeated.
    """
    assert sorted(map(str, ids(provider, "archive"))) == sorted([*sent, *duplicates])
    assert len(ids(provider, "crm")) == len(sent)
    assert ids(provider, "customers") == []
    names = [list(one.message.properties) for one in provider.broker.waiting("connector.lent.commits")]
    assert names in ([], [["connector_directory"]])
    state = provider.existing_state("lent")
    assert isinstance(state, RemoteState)
    assert leftovers(state) == []
    calls = Counter(line.split()[0] for line in stored(deployment))
    assert len(calls) == len(sent)
    assert sum(calls.values()) - len(calls) <= twice, calls
