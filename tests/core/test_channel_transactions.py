"""Transactions over channels (JBoss Messaging Core, 2.2, 5.1, 6.2.1), beside test_channel_machine."""

from __future__ import annotations

import threading

import pytest

from connector.core.channel_receiver import Reference
from connector.errors import CapabilityError, SessionStateError, TransactionRolledBack
from connector.stores.memory.provider import MemoryProvider
from tests.core.channel_world import DELIVERED, NEW, NOT_COMMITTED, Recorder, World, a_world, texts
from tests.waiting import now_ms, until_past, wait_for, waits_in


def test_2_2_an_asynchronous_channel_is_transactional(world: World) -> None:
    assert world.open().queue("orders").is_transactional


def test_2_2_a_synchronous_channel_is_not_and_says_so(world: World) -> None:
    channels = world.open()
    queue = channels.queue("orders")
    queue.is_synchronous = True
    assert not queue.is_transactional
    with pytest.raises(CapabilityError, match="synchronous"):
        queue.handle(world.message("1"), channels.transaction())


def test_an_exception_rolls_back(world: World) -> None:
    channels = world.open()
    queue = channels.queue("orders")

    def fails() -> None:
        with channels.transaction() as transaction:
            queue.handle(world.message("1"), transaction)
            raise KeyError("x")

    with pytest.raises(KeyError):
        fails()
    assert queue.browse() == []


def test_5_1_3_an_expired_message_rolls_its_transaction_back_when_it_is_used_next(world: World) -> None:
    channels = world.open()
    queue = channels.queue("orders")
    transaction = channels.transaction()
    message = world.message("short", expiration=now_ms() + 1500)
    queue.handle(message, transaction)
    until_past(message.expiration)
    with pytest.raises(TransactionRolledBack, match="expired"):
        queue.handle(world.message("2"), transaction)
    assert queue.messages(NOT_COMMITTED) == []
    assert not transaction.is_open


@pytest.mark.parametrize("ends", ["before its receiver returns", "later"])
def test_6_2_1_an_early_acknowledgement_may_be_transacted(world: World, ends: str) -> None:
    channels = world.open()
    queue, transaction = channels.queue("orders"), channels.transaction()

    def acknowledge_first(reference: Reference) -> bool:
        queue.acknowledge(reference.message_id, "r", transaction)
        if ends != "later":
            transaction.commit()
        return False

    queue.add_receiver(Recorder("r", answer=acknowledge_first))
    queue.handle(world.message("1"))
    if ends == "later":
        assert texts(queue.messages(DELIVERED)) == ["1"]
        transaction.commit()
    assert queue.browse() == []


def test_6_2_1_what_is_acknowledged_in_an_open_transaction_is_not_redelivered(world: World) -> None:
    channels = world.open()
    queue, receiver = channels.queue("orders"), Recorder(answer=False)
    queue.add_receiver(receiver)
    queue.handle(world.message("1"))
    queue.acknowledge(receiver.ids[0], "r", channels.transaction())
    queue.redeliver(receiver)
    assert receiver.bodies == ["1"]


def test_a_transaction_spans_channels(world: World) -> None:
    channels = world.open()
    orders, bills, copies = (channels.queue(name) for name in ("orders", "bills", "copies"))
    receiver = Recorder(answer=False)
    orders.add_receiver(receiver)
    orders.handle(world.message("order"))
    transaction = channels.transaction()
    orders.acknowledge(receiver.ids[0], "r", transaction)
    bills.handle(world.message("bill"), transaction)
    copies.handle(world.message("copy"), transaction)
    assert (bills.browse(), copies.browse()) == ([], [])
    transaction.commit()
    assert (orders.browse(), texts(bills.browse()), texts(copies.browse())) == ([], ["bill"], ["copy"])


def test_a_commit_of_an_acknowledgement_that_was_lost_rolls_all_of_it_back(world: World) -> None:
    channels = world.open()
    orders, bills = channels.queue("orders"), channels.queue("bills")
    receiver = Recorder(answer=False)
    orders.add_receiver(receiver)
    orders.handle(world.message("order"))
    transaction = channels.transaction()
    orders.acknowledge(receiver.ids[0], "r", transaction)
    bills.handle(world.message("bill"), transaction)
    orders.close()  # gives back what was delivered
    with pytest.raises(TransactionRolledBack, match="came again"):
        transaction.commit()
    assert bills.browse() == []
    assert texts(channels.queue("orders").messages(NEW)) == ["order"]


def test_a_transaction_that_has_ended_takes_nothing(world: World) -> None:
    channels = world.open()
    queue = channels.queue("orders")
    transaction = channels.transaction()
    transaction.commit()
    with pytest.raises(SessionStateError, match="ended"):
        transaction.commit()
    with pytest.raises(SessionStateError, match="ended"):
        queue.handle(world.message("1"), transaction)


def test_5_1_1_every_message_belongs_to_its_own_transaction(world: World) -> None:
    channels = world.open()
    queue = channels.queue("orders")
    first, second = channels.transaction(), channels.transaction()
    queue.handle(world.message("1"), first)
    queue.handle(world.message("2"), second)
    first.rollback()
    assert texts(queue.messages(NOT_COMMITTED)) == ["2"]
    second.commit()
    assert texts(queue.messages(NEW)) == ["2"]


def test_3_1_a_rollback_makes_room_for_a_sender_that_waits() -> None:
    with a_world("memory") as world:
        world.provider = MemoryProvider(max_bytes=10_000, send_timeout=600)
        channels = world.open()
        queue = channels.queue("orders")
        first, second = channels.transaction(), channels.transaction()
        queue.handle(world.message("x" * 4000))
        queue.handle(world.message("y" * 3000), first)
        sender = threading.Thread(target=queue.handle, args=(world.message("z" * 3000), second))
        sender.start()
        wait_for(lambda: waits_in("wait_for_room"))
        first.rollback()
        sender.join(120)
        assert not sender.is_alive()


def test_transactions_do_not_mix_up_headers_that_are_too_long_for_a_name(world: World) -> None:
    channels = world.open()
    queue = channels.queue("orders")
    correlations = [letter * 300 for letter in "abc"]
    for correlation in correlations:
        with channels.transaction() as transaction:
            queue.handle(world.message("1", correlation_id=correlation), transaction)
    assert [message.correlation_id for message in queue.browse()] == correlations
