"""A lot in the input of an adapter that is killed: the adapter and its recovery leave the lot alone."""

from __future__ import annotations

import pytest

from connector.messaging.destination import parse_destination
from tests.crash.conftest import Deploy

INPUT = parse_destination("queue://in")


@pytest.mark.parametrize(
    ("provider_type", "in_progress"),
    [("dropbox", "queue://in-progress"), ("sqlite", "queue://in-progress"), ("postgresql", None)],
)
def test_an_adapter_and_its_recovery_leave_a_lot_alone(deploy: Deploy, in_progress: str | None) -> None:
    doubt = {"InProgressDestination": in_progress, "InDoubtEvents": "Reprocess"}
    deployment = deploy(connector=doubt if in_progress is not None else {})
    ids = deployment.fill("in", [""] * 10)
    owner = deployment.provider.connect()
    lot = owner.claim_lot(INPUT, "to-lake", 4)
    assert lot is not None
    owner.abandon()
    for place in ("claim:3", "settle.record:1", "settle.committing:1"):
        deployment.kill_driver_at(place)
    deployment.drain()
    taken = [claim.message_id for claim in lot.claims]
    assert deployment.ids("archive") == dict.fromkeys([one for one in ids if one not in taken], 1)
    heir = deployment.provider.connect()
    again = heir.claim_lot(INPUT, "to-lake", 4)
    assert again is not None
    assert (again.number, [claim.message_id for claim in again.claims]) == (lot.number, taken)
    assert [message.message_id for message in again.read()] == taken
    heir.close()
    operator = deployment.provider.connect()
    assert operator.give_back_lot("to-lake").messages == 4
    operator.close()
    deployment.drain()
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)
