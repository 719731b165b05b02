"""Channels whose provider fails, and that many threads or processes use: nothing is lost or comes twice."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from connector.core.receiver import Reference
from connector.errors import ClaimLost, ProviderError, SessionStateError, TransactionRolledBack
from tests.channels.conftest import IN_MEMORY, ON_DISK
from tests.channels.world import DELIVERED, NEW, Recorder, World, texts
from tests.core.conftest import Obstacle
from tests.waiting import beside


@pytest.fixture
def incoming(world: World) -> Path:
    """The folders of the queue."""
    return Path(world.directory, "orders", "incoming")


@pytest.fixture
def processed(world: World, incoming: Path) -> Obstacle:
    """Where acknowledged messages go; there is one message in the queue."""
    world.send("first")
    (incoming / "processed").mkdir(exist_ok=True)
    return Obstacle(incoming / "processed")


@ON_DISK
def test_an_acknowledgement_at_delivery_that_fails_is_made_later(world: World, processed: Obstacle) -> None:
    """The sender of the next message is not told."""

    def acknowledge_in_vain(reference: Reference) -> bool:
        if len(receiver.bodies) == 1:
            processed.put()
        return True

    receiver = Recorder(answer=acknowledge_in_vain)
    world.add(receiver)
    world.send("second")
    assert texts(world.queue.messages(DELIVERED)) == ["first"]
    with pytest.raises(ProviderError):
        world.queue.deliver()
    processed.remove()
    assert world.queue.deliver() is True
    assert (receiver.bodies, world.queue.browse()) == (["first", "second"], [])


@ON_DISK
def test_what_cannot_be_given_back_is_given_back_at_the_next_delivery(world: World, incoming: Path) -> None:
    target = Obstacle(incoming / "target")

    def refuse_and_close(reference: Reference) -> None:
        if (incoming / "target").is_dir():
            target.put()

    receiver = world.add(Recorder(answer=refuse_and_close))
    world.send("1")
    with pytest.raises(ProviderError):
        world.queue.deliver()
    target.remove()
    receiver.answer = True
    assert world.queue.deliver() is True
    assert (set(receiver.bodies), receiver.flags[-1]) == ({"1"}, False)
    assert world.queue.browse() == []


@ON_DISK
def test_an_acknowledgement_that_fails_says_so_and_may_be_repeated(world: World, processed: Obstacle) -> None:
    receiver = world.add(Recorder(answer=False))
    processed.put()
    with pytest.raises(ProviderError):
        world.queue.acknowledge(receiver.ids[0], "r")
    assert texts(world.queue.messages(DELIVERED)) == ["first"]
    processed.remove()
    world.queue.acknowledge(receiver.ids[0], "r")
    assert world.queue.browse() == []


@ON_DISK
def test_an_interrupted_receiver_holds_its_message(world: World) -> None:
    def interrupt(reference: Reference) -> bool:
        raise KeyboardInterrupt

    receiver = Recorder(answer=interrupt)
    world.send("1")
    with pytest.raises(KeyboardInterrupt):
        world.queue.add_receiver(receiver)
    assert texts(world.queue.messages(DELIVERED)) == ["1"]
    receiver.answer = True
    assert world.queue.redeliver(receiver) is True
    assert receiver.flags == [False, True]


@ON_DISK
def test_two_messages_of_one_id_come_one_after_the_other(world: World, incoming: Path) -> None:
    world.send("made")
    for file in (incoming / "target").iterdir():
        file.unlink()
    (incoming / "target" / "5.same-id.T").write_text("urgent")
    (incoming / "target" / "4.same-id.T").write_text("normal")
    receiver = world.add(Recorder(answer=False))
    assert receiver.bodies == ["urgent"]
    assert world.queue.deliver() is False
    world.queue.acknowledge(receiver.ids[0], "r")
    assert world.queue.deliver() is True
    assert receiver.bodies == ["urgent", "normal"]
    world.queue.acknowledge(receiver.ids[1], "r")
    assert world.queue.browse() == []


@ON_DISK
def test_a_message_taken_away_by_hand_breaks_only_its_own_delivery(world: World, incoming: Path) -> None:
    def remove_the_first(reference: Reference) -> bool:
        if not receiver.bodies[:-1]:
            for name in os.listdir(incoming / "processing"):
                (incoming / "processing" / name).unlink()
        return True

    receiver = world.add(Recorder(answer=remove_the_first))
    world.send("1", "2")
    assert world.queue.deliver() is True
    assert receiver.bodies == ["1", "2"]


@ON_DISK
def test_a_commit_that_cannot_make_its_messages_durable_is_undone_not_half_done(world: World) -> None:
    receiver = world.add(Recorder(answer=False))
    world.send("received")
    transaction, bills = world.channels.transaction(), world.channels.queue("bills")
    world.send("first", "second", transaction=transaction, to=bills)
    world.queue.acknowledge(receiver.ids[0], "r", transaction)
    working = Path(world.directory, "bills", "incoming", "working")
    next(working.iterdir()).unlink()
    with pytest.raises(TransactionRolledBack, match="durable"):
        transaction.commit()
    with pytest.raises(SessionStateError, match="ended"):
        transaction.commit()
    assert (bills.browse(), texts(world.queue.messages(DELIVERED))) == ([], ["received"])
    assert list(working.iterdir()) == []


def test_threads_that_send_deliver_and_acknowledge_at_once_lose_nothing(world: World) -> None:
    yes, later = world.add(Recorder("yes")), world.add(Recorder("later", answer=False))
    sending = threading.Event()

    def send(name: str) -> None:
        world.send(*(f"{name}{number}" for number in range(40)))

    def acknowledge() -> None:
        done = 0
        while not sending.is_set() or done < len(later.ids):
            for identity in later.ids[done:]:
                world.queue.acknowledge(identity, "later")
                done += 1

    def deliver() -> None:
        while not sending.is_set():
            world.queue.deliver()

    with ThreadPoolExecutor(5) as pool:
        others = [pool.submit(work) for work in (acknowledge, deliver)]
        try:
            list(pool.map(send, "abc"))
            assert world.queue.deliver() is True
        finally:
            sending.set()
    assert [one.exception() for one in others] == [None, None]
    assert sorted(yes.bodies + later.bodies) == sorted(f"{n}{number}" for n in "abc" for number in range(40))
    assert not any(yes.flags + later.flags)
    assert world.queue.browse() == []


def test_a_channel_closes_when_its_receiver_has_returned(world: World) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def wait(reference: Reference) -> bool:
        inside.set()
        return go_on.wait(120)

    receiver = world.add(Recorder(answer=wait))
    sending = beside(world.send, "1")
    assert inside.wait(120)
    world.send("2")  # this thread is not kept waiting
    closing = beside(world.queue.close)
    assert not closing.done()
    go_on.set()
    closing.result(120)
    sending.result(120)
    assert (receiver.bodies, texts(world.open().queue("orders").messages(NEW))) == (["1"], ["2"])


def test_a_thread_that_sends_while_another_delivers_goes_on_and_is_served(world: World) -> None:
    threads: list[int] = []

    def send_elsewhere(reference: Reference) -> bool:
        threads.append(threading.get_ident())
        if len(threads) == 1:
            beside(world.send, "2").result(120)
        return True

    receiver = world.add(Recorder(answer=send_elsewhere))
    world.send("1")
    assert receiver.bodies == ["1", "2"]
    assert threads == [threading.get_ident()] * 2


def test_a_receiver_that_sends_is_served_after_it_has_returned(world: World) -> None:
    inside: list[int] = []

    def send_on(reference: Reference) -> bool:
        inside.append(len(inside))
        assert len(inside) == 1
        if reference.load().body != b"3":
            world.send(str(int(reference.load().body) + 1))
        inside.clear()
        return True

    receiver = world.add(Recorder(answer=send_on))
    world.send("0")
    assert receiver.bodies == ["0", "1", "2", "3"]


@IN_MEMORY
def test_a_message_acknowledged_in_a_transaction_during_delivery_is_not_offered_again(world: World) -> None:
    def commit_and_refuse(reference: Reference) -> None:
        with world.channels.transaction() as transaction:
            world.queue.acknowledge(reference.message_id, "r", transaction)

    world.add(Recorder("r", answer=commit_and_refuse))
    other = world.add(Recorder("other"))
    world.send("1")
    assert (other.bodies, world.queue.browse()) == ([], [])


@ON_DISK
def test_one_takes_over_from_another_that_has_died_and_not_before(world: World, incoming: Path) -> None:
    dying = world.open()
    there = dying.queue("orders")
    world.add(Recorder(answer=False), to=there)
    (sent,) = world.send("1", to=there)
    world.send("never", to=there, transaction=dying.transaction())
    assert world.channels.take_over() == 0
    assert texts(world.queue.messages(DELIVERED)) == ["1"]
    dying.abandon()
    assert world.channels.take_over() == 1
    assert texts(world.queue.messages(NEW)) == ["1"]
    with pytest.raises(ClaimLost):
        world.queue.acknowledge(sent.message_id or "", "r")
    receiver = world.add()
    assert (receiver.ids, receiver.flags) == ([sent.message_id], [True])
    assert os.listdir(incoming / "working") == []
