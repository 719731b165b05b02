"""Transactions over channels (JBoss Messaging Core, 2.2, 5.1, 6.2.1), beside test_machine."""

from __future__ import annotations

import pytest

from connector.core.receiver import Reference
from connector.errors import CapabilityError, SessionStateError, TransactionRolledBack
from connector.stores.memory.provider import MemoryProvider
from tests.channels.conftest import IN_MEMORY
from tests.channels.world import DELIVERED, NEW, NOT_COMMITTED, Recorder, World, texts
from tests.waiting import beside, now_ms, until_past, wait_for, waits_in


def test_2_2_a_synchronous_channel_takes_part_in_no_transaction(world: World) -> None:
    world.queue.is_synchronous = True
    with pytest.raises(CapabilityError, match="synchronous"):
        world.queue.handle(world.message("1"), world.channels.transaction())


def test_an_exception_rolls_back_and_a_transaction_that_has_ended_takes_nothing(world: World) -> None:
    transaction = world.channels.transaction()

    def fails() -> None:
        with transaction:
            world.send("1", transaction=transaction)
            raise KeyError("x")

    with pytest.raises(KeyError):
        fails()
    with pytest.raises(SessionStateError, match="ended"):
        transaction.commit()
    with pytest.raises(SessionStateError, match="ended"):
        world.queue.handle(world.message("1"), transaction)
    assert world.queue.browse() == []


def test_5_1_3_an_expired_message_rolls_its_transaction_back_when_it_is_used_next(world: World) -> None:
    transaction = world.channels.transaction()
    (message,) = world.send("short", expiration=now_ms() + 1500, transaction=transaction)
    until_past(message.expiration)
    with pytest.raises(TransactionRolledBack, match="expired"):
        world.queue.handle(world.message("2"), transaction)
    assert world.queue.messages(NOT_COMMITTED) == []
    assert not transaction.is_open


@pytest.mark.parametrize("ends", ["before its receiver returns", "later"])
def test_6_2_1_an_early_acknowledgement_may_be_transacted(world: World, ends: str) -> None:
    transaction = world.channels.transaction()

    def acknowledge_first(reference: Reference) -> bool:
        world.queue.acknowledge(reference.message_id, "r", transaction)
        if ends != "later":
            transaction.commit()
        return False

    world.add(Recorder("r", answer=acknowledge_first))
    world.send("1")
    if ends == "later":
        assert texts(world.queue.messages(DELIVERED)) == ["1"]
        transaction.commit()
    assert world.queue.browse() == []


def test_6_2_1_what_is_acknowledged_in_an_open_transaction_comes_again_only_where_it_was_given_back(
    world: World,
) -> None:
    bills, transaction = world.channels.queue("bills"), world.channels.transaction()
    receiver = world.add(Recorder(answer=False))
    world.send("order")
    with world.channels.transaction() as rolled_back:
        world.queue.acknowledge(receiver.ids[0], "r", rolled_back)
        rolled_back.rollback()
    assert world.queue.redeliver(receiver) is False
    world.queue.acknowledge(receiver.ids[0], "r", transaction)
    world.send("bill", transaction=transaction, to=bills)
    world.queue.redeliver(receiver)
    assert receiver.bodies == ["order"] * 2
    world.queue.close()  # gives back what was delivered
    with pytest.raises(TransactionRolledBack, match="came again"):
        transaction.commit()
    assert (bills.browse(), texts(world.queue.messages(NEW))) == ([], ["order"])


def test_a_transaction_spans_channels(world: World) -> None:
    bills, copies = world.channels.queue("bills"), world.channels.queue("copies")
    receiver = world.add(Recorder(answer=False))
    world.send("order")
    transaction = world.channels.transaction()
    world.queue.acknowledge(receiver.ids[0], "r", transaction)
    world.send("bill", transaction=transaction, to=bills)
    world.send("copy", transaction=transaction, to=copies)
    assert (bills.browse(), copies.browse()) == ([], [])
    transaction.commit()
    assert (world.queue.browse(), texts(bills.browse()), texts(copies.browse())) == ([], ["bill"], ["copy"])


def test_5_1_1_every_message_belongs_to_its_own_transaction(world: World) -> None:
    first, second = world.channels.transaction(), world.channels.transaction()
    world.send("1", transaction=first)
    world.send("2", transaction=second)
    first.rollback()
    assert texts(world.queue.messages(NOT_COMMITTED)) == ["2"]
    second.commit()
    assert texts(world.queue.messages(NEW)) == ["2"]


@IN_MEMORY
def test_3_1_a_rollback_makes_room_for_a_sender_that_waits(world: World) -> None:
    world.provider = MemoryProvider(max_bytes=10_000, send_timeout=600)
    first, second = world.channels.transaction(), world.channels.transaction()
    world.send("x" * 4000)
    world.send("y" * 3000, transaction=first)
    sending = beside(world.queue.handle, world.message("z" * 3000), second)
    wait_for(lambda: waits_in("wait_for_room"))
    first.rollback()
    assert sending.result(120) is True


def test_transactions_do_not_mix_up_headers_that_are_too_long_for_a_name(world: World) -> None:
    correlations = [letter * 300 for letter in "abc"]
    for correlation in correlations:
        with world.channels.transaction() as transaction:
            world.send("1", correlation_id=correlation, transaction=transaction)
    assert [message.correlation_id for message in world.queue.browse()] == correlations
