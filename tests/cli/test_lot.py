"""The commands that show lots and give them back."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connector.cli.app import run
from connector.messaging.destination import parse_destination
from connector.messaging.lot import Lot
from connector.messaging.message import Message
from connector.messaging.provider import Connection
from connector.stores.dropbox.provider import DropboxProvider

ORDERS = parse_destination("queue://orders")


@pytest.fixture
def owner(deployment: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    """A client in the root of the deployment."""
    monkeypatch.chdir(deployment)
    with contextlib.closing(DropboxProvider(deployment / "data", create=True).connect()) as connection:
        yield connection


@pytest.fixture
def lot(owner: Connection) -> Lot:
    owner.send(ORDERS, [Message(b"a"), Message(b"b"), Message(b"c")])
    lot = owner.claim_lot(ORDERS, "to-lake\x1b", 2)
    assert lot is not None
    return lot


def orders(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert run(["queues", "--json"]) == 0
    documents = map(json.loads, capsys.readouterr().out.splitlines())
    return next(one for one in documents if one["destination"] == "queue://orders")


def test_queues_lists_lots(owner: Connection, lot: Lot, capsys: pytest.CaptureFixture[str]) -> None:
    found = orders(capsys)
    assert (found["waiting"], found["in_progress"]) == (1, 2)
    (one,) = found["lots"]
    assert one.pop("owner").startswith(f"process {os.getpid()} on ")
    assert one == {"name": "to-lake\x1b", "number": lot.number, "messages": 2}
    owner.close()
    assert orders(capsys)["lots"] == [{**one, "owner": None}]
    assert run(["queues"]) == 0
    line = next(text for text in capsys.readouterr().out.splitlines() if "lot " in text)
    assert line.split() == ["lot", "1", r"to-lake\x1b", "(without", "an", "owner)", "2"]


def test_a_lot_is_given_back(owner: Connection, lot: Lot, capsys: pytest.CaptureFixture[str]) -> None:
    owner.close()
    assert run(["lot", lot.name, "--give-back"]) == 0
    found = capsys.readouterr()
    said = rf"the lot {lot.number} of to-lake\x1b is given back: 2 messages to queue://orders"
    assert (found.out, found.err.strip()) == ("", said)
    assert (orders(capsys)["waiting"], orders(capsys)["lots"]) == (3, [])
    assert run(["lot", lot.name, "--give-back"]) == 1
    assert capsys.readouterr().err.strip() == r"connector: there is no lot of 'to-lake\x1b'"


def test_a_lot_of_a_living_owner_stays(
    owner: Connection, lot: Lot, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["lot", lot.name, "--give-back"]) == 1
    assert f"are in use by the client {owner.client_id}, process {os.getpid()} on " in capsys.readouterr().err
    assert [message.body for message in lot.read()] == [b"a", b"b"]


@pytest.mark.usefixtures("owner")
def test_the_option_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lot", "to-lake"]) == 2
    assert "expected --give-back" in capsys.readouterr().err
