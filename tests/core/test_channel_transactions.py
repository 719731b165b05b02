"""Transactions over channels: JBoss Messaging Core, 2.2, 5.1 and 6.2.1."""

from __future__ import annotations

import threading

import pytest

from connector.core.channel_receiver import Reference
from connector.errors import CapabilityError, SessionStateError, TransactionRolledBack
from connector.stores.memory.provider import MemoryProvider
from tests.core.channel_world import (
    DELIVERED,
    NEW,
    NOT_COMMITTED,
    Recorder,
    World,
    a_world,
    texts,
)
from tests.waiting import now_ms, until_past


def test_2_2_an_asynchronous_channel_is_transactional(world: World) -> None:
    assert world.open().queue("orders").is_transactional


def test_2_2_a_synchronous_channel_is_not_and_says_so(world: World) -> None:
    channels = world.open()
    queue = channels.queue("orders")
    queue.is_synchronous = True
    assert not queue.is_transactional
    with pytest.raises(CapabilityError, match="synchronous"):
        queue.handle(world.message("1"), channels.transaction())


def test_5_1_a_message_of_an_open_transaction_is_not_committed_and_not_delivered(world: World) -> None:
    channels = world.open()
    queue, receiver = channels.queue("orders"), Recorder()
    queue.add_receiver(receiver)
    assert queue.handle(world.message("1"), channels.transaction()) is True
    assert queue.deliver() is True
    assert receiver.bodies == []
    assert texts(queue.messages(NOT_COMMITTED)) == ["1"]
    assert queue.messages(NEW) == queue.messages(DELIVERED) == []


def test_7_6_browse_never_shows_what_is_not_committed(world: World) -> None:
    channels = world.open()
    queue = channels.queue("orders")
    queue.handle(world.message("1"), channels.transaction())
    assert queue.browse() == []
    assert world.open().queue("orders").browse() == []


def test_2_2_1_delivery_is_attempted_at_commit(world: World) -> None:
    channels = world.open()
    queue, receiver = channels.queue("orders"), Recorder()
    queue.add_receiver(receiver)
    with channels.transaction() as transaction:
        queue.handle(world.message("1"), transaction)
    assert receiver.bodies == ["1"]


def test_5_1_3_a_committed_message_without_a_receiver_is_new(world: World) -> None:
    channels = world.open()
    queue = channels.queue("orders")
    with channels.transaction() as transaction:
        queue.handle(world.message("1"), transaction)
    assert texts(queue.messages(NEW)) == ["1"]
    assert queue.messages(NOT_COMMITTED) == []


def test_5_1_3_a_rollback_removes_the_message(world: World) -> None:
    channels = world.open()
    queue = channels.queue("orders")
    transaction = channels.transaction()
    queue.handle(world.message("1"), transaction)
    transaction.rollback()
    assert queue.browse() == queue.messages(NOT_COMMITTED) == []


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


def test_5_1_3_an_expired_message_rolls_its_transaction_back_at_commit(world: World) -> None:
    channels = world.open()
    queue, other = channels.queue("orders"), channels.queue("other")
    receiver = Recorder(answer=False)
    other.add_receiver(receiver)
    other.handle(world.message("received"))
    transaction = channels.transaction()
    queue.handle(world.message("lasting"), transaction)
    message = world.message("short", expiration=now_ms() + 1500)
    queue.handle(message, transaction)
    other.acknowledge(receiver.ids[0], "r", transaction)
    until_past(message.expiration)
    with pytest.raises(TransactionRolledBack, match="expired"):
        transaction.commit()
    assert queue.browse() == []
    assert texts(other.messages(DELIVERED)) == ["received"]


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


def test_6_2_1_an_acknowledgement_takes_effect_at_commit(world: World) -> None:
    channels = world.open()
    queue, receiver = channels.queue("orders"), Recorder(answer=False)
    queue.add_receiver(receiver)
    queue.handle(world.message("1"))
    transaction = channels.transaction()
    queue.acknowledge(receiver.ids[0], "r", transaction)
    assert texts(queue.messages(DELIVERED)) == ["1"]
    transaction.commit()
    assert queue.browse() == []


def test_6_2_1_an_acknowledgement_is_dropped_at_rollback(world: World) -> None:
    channels = world.open()
    queue, receiver = channels.queue("orders"), Recorder(answer=False)
    queue.add_receiver(receiver)
    queue.handle(world.message("1"))
    transaction = channels.transaction()
    queue.acknowledge(receiver.ids[0], "r", transaction)
    transaction.rollback()
    assert texts(queue.messages(DELIVERED)) == ["1"]
    queue.redeliver(receiver)
    assert receiver.flags == [False, True]
    queue.acknowledge(receiver.ids[0], "r")
    assert queue.browse() == []


def test_6_2_1_what_is_acknowledged_in_an_open_transaction_is_not_redelivered(world: World) -> None:
    channels = world.open()
    queue, receiver = channels.queue("orders"), Recorder(answer=False)
    queue.add_receiver(receiver)
    queue.handle(world.message("1"))
    queue.acknowledge(receiver.ids[0], "r", channels.transaction())
    queue.redeliver(receiver)
    assert receiver.bodies == ["1"]


def test_6_2_1_an_early_acknowledgement_may_be_transacted(world: World) -> None:
    channels = world.open()
    queue = channels.queue("orders")
    transaction = channels.transaction()

    def acknowledge_first(reference: Reference) -> bool:
        queue.acknowledge(reference.message_id, "r", transaction)
        return False

    queue.add_receiver(Recorder("r", answer=acknowledge_first))
    queue.handle(world.message("1"))
    assert texts(queue.messages(DELIVERED)) == ["1"]
    transaction.commit()
    assert queue.browse() == []


def test_6_2_1_a_transaction_may_commit_before_its_receiver_returns(world: World) -> None:
    channels = world.open()
    queue = channels.queue("orders")

    def acknowledge_and_commit(reference: Reference) -> bool:
        with channels.transaction() as transaction:
            queue.acknowledge(reference.message_id, "r", transaction)
        return False

    queue.add_receiver(Recorder("r", answer=acknowledge_and_commit))
    queue.handle(world.message("1"))
    assert queue.browse() == []


def test_6_2_of_two_acknowledgements_the_later_is_ignored_in_transactions_too(world: World) -> None:
    channels = world.open()
    queue, receiver = channels.queue("orders"), Recorder(answer=False)
    queue.add_receiver(receiver)
    queue.handle(world.message("1"))
    transaction = channels.transaction()
    queue.acknowledge(receiver.ids[0], "r", transaction)
    queue.acknowledge(receiver.ids[0], "r", transaction)
    queue.acknowledge(receiver.ids[0], "r")
    transaction.commit()
    assert queue.browse() == []


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
        world.provider = MemoryProvider(max_bytes=10_000, send_timeout=20)
        channels = world.open()
        queue = channels.queue("orders")
        first, second = channels.transaction(), channels.transaction()
        queue.handle(world.message("x" * 4000))
        queue.handle(world.message("y" * 3000), first)
        sent = threading.Event()
        message = world.message("z" * 3000)
        sender = threading.Thread(target=lambda: (queue.handle(message, second), sent.set()))
        sender.start()
        assert not sent.wait(0.1)
        first.rollback()
        assert sent.wait(120)
        sender.join()


def test_transactions_do_not_mix_up_headers_that_are_too_long_for_a_name(world: World) -> None:
    channels = world.open()
    queue = channels.queue("orders")
    correlations = [letter * 300 for letter in "abc"]
    for correlation in correlations:
        with channels.transaction() as transaction:
            queue.handle(world.message("1", correlation_id=correlation), transaction)
    assert [message.correlation_id for message in queue.browse()] == correlations
