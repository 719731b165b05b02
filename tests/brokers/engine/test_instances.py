"""Several instances of an adapter at one broker, one of which loses its connection or dies."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from connector.errors import CapabilityError
from connector.status import ReturnCode
from connector.testing.deployment import Deployment, InProcessAdapter
from tests.brokers.engine.provider import LentProvider
from tests.brokers.engine.world import await_file, deploy, ids, running, send, stored


def test_a_done_event_whose_message_comes_to_another_instance_does_not_run_again(
    tmp_path: Path, deployment: Deployment, provider: LentProvider, adapter: InProcessAdapter
) -> None:
    sent = send(provider, "", "sleep", "")
    assert adapter.poll().code is ReturnCode.APPRESPONSETIMEOUT
    other = deploy(tmp_path / "two", instance="two")
    other.write("awake", "")
    with running(other, provider) as second:
        second.drain()
    assert sorted(stored(deployment) + stored(other)) == ["0 1", "1 1", "2 1"]
    assert sorted(map(str, ids(provider, "archive"))) == sorted(sent)
    assert len(ids(provider, "crm")) == 3


def test_a_message_of_a_running_event_waits_until_the_other_instance_has_its_outcome(
    tmp_path: Path, deployment: Deployment, provider: LentProvider, adapter: InProcessAdapter
) -> None:
    """The connection of the first instance breaks while its process works."""
    sent = send(provider, "", "wait")
    first = threading.Thread(target=adapter.poll)
    first.start()
    await_file(deployment, "waits")
    for connection in list(provider.broker.connections):
        connection.close()
    other = deploy(tmp_path / "two", instance="two")
    other.write("go", "")
    with running(other, provider) as second:
        assert second.poll().settled == 0
        assert stored(other) == []
        deployment.write("go", "")
        first.join()
        adapter.stop()
        adapter.start()
        second.drain()
    adapter.drain()
    assert sorted(stored(deployment) + stored(other)) == ["0 1", "1 1"]
    assert sorted(map(str, ids(provider, "archive"))) == sorted(sent)


def test_instances_share_one_state_directory(
    root: Path, tmp_path: Path, provider: LentProvider, adapter: InProcessAdapter
) -> None:
    adapter.drain()
    elsewhere = LentProvider(root / "elsewhere")
    elsewhere.broker = provider.broker
    other = deploy(tmp_path / "two", instance="two")
    with (
        pytest.raises(CapabilityError, match=r"state\.directory"),
        InProcessAdapter(other.configuration, elsewhere),
    ):
        pass
    adapter.stop()
    adapter.start()
