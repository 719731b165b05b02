"""The commands that show lots and give them back."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connector.messaging.destination import parse_destination
from connector.messaging.lot import Lot
from connector.messaging.message import Message
from connector.messaging.provider import Connection
from connector.stores.dropbox.provider import DropboxProvider
from tests.cli.in_process import Commands

ORDERS = parse_destination("queue://orders")


@pytest.fixture
def owner(deployment: Path) -> Iterator[Connection]:
    """A client in the root of the deployment."""
    with contextlib.closing(DropboxProvider(deployment / "data", create=True).connect()) as connection:
        yield connection


@pytest.fixture
def lot(owner: Connection) -> Lot:
    owner.send(ORDERS, [Message(b"a"), Message(b"b"), Message(b"c")])
    lot = owner.claim_lot(ORDERS, "to-lake\x1b", 2)
    assert lot is not None
    return lot


def orders(call: Commands) -> dict[str, Any]:
    documents: list[dict[str, Any]] = call("queues", "--json").documents
    return next(one for one in documents if one["destination"] == "queue://orders")


def test_queues_lists_lots(owner: Connection, lot: Lot, call: Commands) -> None:
    found = orders(call)
    assert (found["waiting"], found["in_progress"]) == (1, 2)
    (one,) = found["lots"]
    assert one.pop("owner").startswith(f"process {os.getpid()} on ")
    assert one == {"name": "to-lake\x1b", "number": lot.number, "messages": 2}
    owner.close()
    assert orders(call)["lots"] == [{**one, "owner": None}]
    line = next(text for text in call("queues").stdout.splitlines() if "lot " in text)
    assert line.split() == ["lot", "1", r"to-lake\x1b", "(without", "an", "owner)", "2"]


def test_a_lot_is_given_back(owner: Connection, lot: Lot, call: Commands) -> None:
    owner.close()
    found = call("lot", lot.name, "--give-back")
    said = rf"the lot {lot.number} of to-lake\x1b is given back: 2 messages to queue://orders"
    assert (found.returncode, found.stdout, found.stderr.strip()) == (0, "", said)
    assert (orders(call)["waiting"], orders(call)["lots"]) == (3, [])
    failure = call("lot", lot.name, "--give-back").failure()
    assert failure.strip() == r"connector: there is no lot of 'to-lake\x1b'"


def test_a_lot_of_a_living_owner_stays(owner: Connection, lot: Lot, call: Commands) -> None:
    failure = call("lot", lot.name, "--give-back").failure()
    assert f"are in use by the client {owner.client_id}, process {os.getpid()} on " in failure
    assert [message.body for message in lot.read()] == [b"a", b"b"]


@pytest.mark.usefixtures("owner")
def test_the_option_is_needed(call: Commands) -> None:
    assert "expected --give-back" in call("lot", "to-lake").refusal()
