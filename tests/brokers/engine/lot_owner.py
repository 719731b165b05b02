"""The owner of a name of lots, in this process and in one that is killed. Also for tests at real brokers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from connector.brokers.engine.connection import RemoteConnection
from connector.brokers.engine.lots import RemoteLot
from connector.messaging.destination import parse_destination
from connector.messaging.settlement import GroupSettlement

ORDERS: Final = parse_destination("queue://orders")
ARCHIVE: Final = parse_destination("queue://archive")
NAME: Final = "to-lake"

_OWNER: Final = """
import json, os, signal, sys
from connector.messaging import Settlement, parse_destination
CONNECT
queue, archive = map(parse_destination, (queue, archive))
while (lot := claim_lot(queue, "to-lake", 4)) is not None or any(browse(queue)):
    if lot is None:  # a busy broker has sent nothing in time
        continue
    ids = [claim.message_id for claim in lot.claims]
    print(json.dumps([lot.sequence_id, lot.number, ids]), flush=True)
    assert [message.message_id for message in lot.read()] == ids
    if killed_at == "read":
        os.kill(os.getpid(), signal.SIGKILL)
    outcomes = [Settlement(claim, archive, {"connector_outcome": "published"}) for claim in lot.claims]
    if lot.claims[-1].delivery_count == 0:
        outcomes[-1] = Settlement(lot.claims[-1], give_back=True, delivery_count=1)
    lot.settle(outcomes)
connection.close()
"""
PLACES: Final = {
    "lot.number": "",
    "settle.committing": "",
    "lot.claimed": "made",
    "read": "seen",
    "settle.committing:2": "seen",
    "lot.settled": "settled",
    "lot.number:2": "settled",
    "settle.committing:3": "settled",
    "lot.claimed:2": "settled",
    "settle.committing:4": "settled",
}
"""The places of kills, and the state of the first lot. The first six are of the first lot."""


def owner(connect: str) -> str:
    """Returns a program that reads all lots of four messages, and gives the last message of each back once.

    Args:
        connect: makes ``connection``, ``browse`` and ``claim_lot``, and takes ``queue, archive, killed_at``.
    """
    return _OWNER.replace("CONNECT", connect)


def check_lots(place: str, before: Sequence[Any], after: Sequence[Any], sent: list[str]) -> None:
    """Checks the lots that a killed owner has read, and those of the next one."""
    state = PLACES[place]
    assert (len(before) > 0) is (state in ("seen", "settled"))
    if state == "made":
        assert after[0][1:] == [1, sent[:4]]
    if state == "seen":
        assert after[0] == before[0] == [before[0][0], 1, sent[:4]]
    seen = {number: ids for _, number, ids in (*before, *after)}
    assert all(seen[number] == ids for _, number, ids in (*before, *after))
    assert [number for _, number, _ in after] == sorted({number for _, number, _ in after})
    assert len({sequence for sequence, _, _ in (*before, *after)}) == 1


def claimed(connection: RemoteConnection, limit: int = 10) -> RemoteLot:
    lot = connection.lots.claim(ORDERS, NAME, limit)
    assert lot is not None
    return lot


def taken(lot: RemoteLot) -> list[str]:
    return [claim.message_id for claim in lot.claims]


def archive(lot: RemoteLot) -> None:
    lot.settle([GroupSettlement(lot.claims, ARCHIVE)])


def archive_all(connection: RemoteConnection, limit: int = 3) -> None:
    while (lot := connection.lots.claim(ORDERS, NAME, limit)) is not None:
        archive(lot)
