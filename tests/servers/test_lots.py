"""Lots at real brokers: owners that are killed, commits without an answer, and limits of deliveries."""

from __future__ import annotations

import contextlib
import json
import signal
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

from connector.brokers.engine import lots
from connector.brokers.engine.connection import RemoteConnection
from connector.errors import ProviderError, SettlementError
from connector.messaging.destination import parse_destination
from connector.messaging.message import NON_PERSISTENT, Message
from connector.messaging.settlement import GroupSettlement
from tests.brokers.engine.lot_owner import (
    NAME,
    ORDERS,
    archive,
    archive_all,
    check_lots,
    claimed,
    owner,
    taken,
)
from tests.forked_command import PipedProcess
from tests.servers.broker import REFUSED
from tests.servers.commit_proxy import CommitProxy
from tests.servers.conftest import AT_ARTEMIS, AT_BROKER_J, in_turn

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy
    from tests.servers.deployment import BrokerDeployment

_COUNT: Final = 10
_LOTS: Final = "connector.lots"
_PROGRAM: Final = owner("""
import connector.messaging
queue, archive, killed_at = sys.argv[1:]
connection = connector.messaging.connect("adapter.yaml")
browse, claim_lot = connection.session().browser, connection.claim_lot""")


def run_owner(deployment: BrokerDeployment, *, place: str = "") -> tuple[int, list[Any], str]:
    """Runs the program. Returns its status, the lots that it has read, and its errors."""
    fault = "" if place in ("", "read") else f"{place}=kill"
    queues = f"queue://{deployment.input}", f"queue://{deployment.archive}"
    directory = deployment.directory
    with PipedProcess(*queues, place, cwd=directory, script=_PROGRAM, CONNECTOR_FAULT=fault) as process:
        output, errors = process.communicate(timeout=240)
    return process.wait(), [json.loads(line) for line in output.splitlines()], errors


@pytest.mark.process
@in_turn("place", "lot.claimed", "settle.committing:2")
def test_a_killed_owner_leaves_the_same_lot(broker: Broker, deploy: Deploy, place: str) -> None:
    deployment = deploy(broker, provider={"batch": 4})
    deployment.fill(_COUNT)
    sent = [str(message.message_id) for message in deployment.messages(deployment.input)]
    status, before, errors = run_owner(deployment, place=place)
    assert status == -signal.SIGKILL, errors
    status, after, errors = run_owner(deployment)
    assert status == 0, errors
    check_lots(place, before, after, sent)
    archived = [str(message.message_id) for message in deployment.messages(deployment.archive)]
    assert Counter(archived) == dict.fromkeys(sent, 1)
    assert deployment.messages(deployment.input) == []
    assert deployment.leftovers() == []


@AT_ARTEMIS
def test_the_commands_show_a_lot_and_give_it_back(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker, provider={"batch": 4})
    deployment.fill(_COUNT)
    status, before, errors = run_owner(deployment, place="read")
    assert status == -signal.SIGKILL, errors
    (info,) = (one for one in deployment.lines("queues") if one["lots"])
    assert (info["destination"], info["waiting"]) == (f"queue://{deployment.input}", _COUNT - 4)
    assert info["lots"] == [{"name": NAME, "number": before[0][1], "messages": 4, "owner": None}]
    assert "lot 1 to-lake (without an owner)" in deployment.run("queues").stdout
    said = deployment.run("lot", NAME, "--give-back").stderr
    assert said.strip() == f"the lot 1 of to-lake is given back: 4 messages to queue://{deployment.input}"
    assert len(deployment.messages(deployment.input)) == _COUNT
    assert "there is no lot of 'to-lake'" in deployment.run("lot", NAME, "--give-back", status=1).stderr
    deployment.finish(_COUNT)


# -- of programs in this process -------------------------------------------------------------------


@pytest.fixture
def fresh(broker: Broker) -> Iterator[Broker]:
    """A broker without queues and names of lots."""
    broker.empty()
    yield broker
    broker.empty()


def put(connection: RemoteConnection, count: int, **headers: Any) -> list[str]:
    return connection.send(ORDERS, [Message(str(number).encode(), **headers) for number in range(count)])


def ids(connection: RemoteConnection, queue: str) -> list[str]:
    return [str(one.message_id) for one in connection.browse(parse_destination(f"queue://{queue}"))]


@in_turn(
    "step, when",
    *(("make", "after"), ("make", "before"), ("settle", "before"), ("settle", "after")),
    *(("make", "late"), ("settle", "late"), ("settle", "never"), ("make", "never")),
)
def test_the_next_owner_knows_how_a_commit_without_an_answer_has_ended(
    fresh: Broker, monkeypatch: pytest.MonkeyPatch, step: str, when: Any
) -> None:
    proxy = CommitProxy(fresh.port)
    owner = fresh.provider(proxy.port).connect()
    with contextlib.closing(fresh.provider().connect()) as other, contextlib.closing(proxy):
        assert owner.lots.claim(ORDERS, NAME, 3) is None
        sent = put(other, 5)
        lot = claimed(owner, 3) if step == "settle" else None
        proxy.cut_next("late" if when == "never" else when, behind=_LOTS)
        with pytest.raises(ProviderError):
            archive(lot) if lot is not None else claimed(owner, 3)
        assert proxy.cuts == 1
        owner.abandon()
        if when in ("late", "never"):
            with monkeypatch.context() as short:
                short.setattr(lots, "ANSWER", 1.0)
                with pytest.raises(ProviderError, match="a transaction of the last owner"):
                    other.lots.claim(ORDERS, NAME, 3)
            proxy.deliver() if when == "late" else proxy.drop()
        commits = when in ("after", "late")
        again = claimed(other, 3)
        if step == "make":
            assert (again.number, taken(again)) == (1 if commits else 2, sent[:3])
        else:
            assert (again.number, taken(again)) == ((2, sent[3:]) if commits else (1, sent[:3]))
        archive(again)
        archive_all(other)
        assert ids(other, "archive") == sent
        assert ids(other, "orders") == []


def test_neither_refused_settlements_nor_many_small_lots_cost_a_message(fresh: Broker) -> None:
    """The broker allows 10 deliveries."""
    with contextlib.closing(fresh.provider().connect()) as owner:
        sent = put(owner, 24)
        lot = claimed(owner, 3)
        for _ in range(12):
            with pytest.raises(SettlementError, match="nothing was settled"):
                lot.settle([GroupSettlement(lot.claims, parse_destination(f"queue://{REFUSED}"))])
    with contextlib.closing(fresh.provider().connect()) as heir:
        archive(claimed(heir, 3))
        archive_all(heir, 1)
        assert (ids(heir, "archive"), ids(heir, "DLQ")) == (sent, [])


@AT_BROKER_J
def test_a_lot_outlives_the_broker(fresh: Broker) -> None:
    with contextlib.closing(fresh.provider().connect()) as owner:
        sent = put(owner, 3, delivery_mode=NON_PERSISTENT)
        lot = claimed(owner)
    fresh.kill()
    fresh.start()
    with contextlib.closing(fresh.provider().connect()) as heir:
        again = claimed(heir)
        assert (again.number, taken(again)) == (lot.number, sent)
        again.settle([GroupSettlement(again.claims)])
        assert heir.lots.claim(ORDERS, NAME, 1) is None
