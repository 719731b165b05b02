"""``connector receive`` on a broker, whose transactions settle or give back all their messages together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.testing.deployment import Deployment
from tests.brokers.engine.provider import LentProvider
from tests.brokers.engine.world import seen
from tests.cli.in_process import call


@pytest.fixture(autouse=True)
def lent(provider: LentProvider, deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connector.cli.receive.load", lambda _: deployment.configuration)
    monkeypatch.setattr("connector.cli.receive.make_provider", lambda _: provider)


def put(provider: LentProvider, *bodies: str) -> None:
    connection = provider.connect()
    connection.send(Destination("queue", "customers"), [Message(body.encode()) for body in bodies])
    connection.close()


@pytest.mark.parametrize(
    ("ack", "left"),
    [("auto", []), ("client", []), ("none", ["1", "2", "3"]), ("rollback", ["1", "2", "3"])],
)
def test_each_way_to_acknowledge_settles_what_it_names(
    provider: LentProvider, tmp_path: Path, ack: str, left: list[str]
) -> None:
    put(provider, "1", "2", "3")
    answer = call(tmp_path, "receive", "customers", "--ack", ack, "--count", "5", "--json")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert [json.loads(line)["body"] for line in answer.stdout.splitlines()] == ["1", "2", "3"]
    assert sorted(message.body.decode() for message in seen(provider, "customers")) == left


def test_no_more_is_taken_than_was_asked_for(provider: LentProvider, tmp_path: Path) -> None:
    put(provider, "1", "2", "3")
    answer = call(tmp_path, "receive", "customers", "--count", "2", "--json")
    assert [json.loads(line)["body"] for line in answer.stdout.splitlines()] == ["1", "2"]
    assert [message.body for message in seen(provider, "customers")] == [b"3"]


def test_a_selector_is_the_brokers(provider: LentProvider, tmp_path: Path) -> None:
    put(provider, "1")
    assert call(tmp_path, "receive", "customers", "--selector", "n = 2").returncode == 0
    assert [message.body for message in seen(provider, "customers")] == [b"1"]
