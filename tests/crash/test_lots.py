"""A lot in the input of an adapter that is killed: the adapter and its recovery leave the lot alone."""

from __future__ import annotations

import signal

import pytest

from connector.messaging.destination import parse_destination
from tests.crash.conftest import EVERY_PROVIDER, Deploy

JAVA = False
INPUT = parse_destination("queue://in")


@pytest.mark.parametrize("in_progress", [None, "queue://in-progress"])
@pytest.mark.parametrize("provider_type", EVERY_PROVIDER)
def test_an_adapter_and_its_recovery_leave_a_lot_alone(
    deploy: Deploy, provider_type: str, in_progress: str | None
) -> None:
    doubt = {"InProgressDestination": in_progress, "InDoubtEvents": "Reprocess"}
    deployment = deploy(connector=doubt if in_progress is not None else {})
    ids = deployment.fill("in", [""] * 10)
    owner = deployment.provider.connect()
    lot = owner.claim_lot(INPUT, "to-lake", 4)
    assert lot is not None
    owner.abandon()
    for place in ("claim:3", "settle.record:1", "settle.committing:1"):
        run = deployment.start("--drain", fault=f"{place}=kill")
        assert run.wait() == -signal.SIGKILL, run.errors
        run.await_gone()
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
