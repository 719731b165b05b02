"""Channels whose provider fails, and that many threads use: nothing is lost, nothing comes twice."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from connector.core.channel_receiver import Reference
from connector.errors import ProviderError, SessionStateError, TransactionRolledBack
from tests.core.channel_world import DELIVERED, NEW, PROVIDERS, Recorder, World, a_world, texts


class Folder:
    """A folder that can be made one that nothing is moved into, not even by root."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.away = path.with_name(f"{path.name}-away")

    def close(self) -> None:
        self.path.rename(self.away)
        self.path.touch()

    def open(self) -> None:
        self.path.unlink()
        self.away.rename(self.path)


@pytest.fixture
def world() -> Iterator[World]:
    with a_world("dropbox") as made:
        yield made


@pytest.fixture
def processed(world: World) -> Folder:
    """Where acknowledged messages go; there is one message in the queue."""
    world.open().queue("orders").handle(world.message("first"))
    folder = Path(world.directory, "orders", "incoming", "processed")
    folder.mkdir(exist_ok=True)
    return Folder(folder)


def test_an_acknowledgement_at_delivery_that_fails_is_made_at_the_next(
    world: World, processed: Folder
) -> None:
    queue = world.open().queue("orders")

    def acknowledge_in_vain(reference: Reference) -> bool:
        processed.close()
        return True

    receiver = Recorder(answer=acknowledge_in_vain)
    queue.add_receiver(receiver)
    assert texts(queue.messages(DELIVERED)) == ["first"]
    with pytest.raises(ProviderError):
        queue.deliver()
    processed.open()
    assert queue.deliver() is True
    assert receiver.bodies == ["first"]
    assert queue.browse() == []


def test_a_sender_is_not_told_of_a_delivery_that_fails(world: World, processed: Folder) -> None:
    queue = world.open().queue("orders")
    processed.close()
    queue.add_receiver(Recorder())
    assert queue.handle(world.message("second")) is True
    processed.open()
    assert queue.deliver() is True
    assert queue.browse() == []


def test_what_cannot_be_given_back_is_given_back_at_the_next_delivery(world: World) -> None:
    queue = world.open().queue("orders")
    target = Folder(Path(world.directory, "orders", "incoming", "target"))

    def refuse_and_close(reference: Reference) -> None:
        if target.path.is_dir():
            target.close()

    receiver = Recorder(answer=refuse_and_close)
    queue.add_receiver(receiver)
    assert queue.handle(world.message("1")) is True
    with pytest.raises(ProviderError):
        queue.deliver()
    target.open()
    receiver.answer = True
    assert queue.deliver() is True
    assert (set(receiver.bodies), receiver.flags[-1]) == ({"1"}, False)
    assert queue.browse() == []


def test_an_asynchronous_acknowledgement_that_fails_says_so_and_may_be_repeated(
    world: World, processed: Folder
) -> None:
    queue, receiver = world.open().queue("orders"), Recorder(answer=False)
    queue.add_receiver(receiver)
    processed.close()
    with pytest.raises(ProviderError):
        queue.acknowledge(receiver.ids[0], "r")
    assert texts(queue.messages(DELIVERED)) == ["first"]
    processed.open()
    queue.acknowledge(receiver.ids[0], "r")
    assert queue.browse() == []


def test_an_interrupted_receiver_holds_its_message(world: World) -> None:
    def interrupt(reference: Reference) -> bool:
        raise KeyboardInterrupt

    queue, receiver = world.open().queue("orders"), Recorder(answer=interrupt)
    queue.handle(world.message("1"))
    with pytest.raises(KeyboardInterrupt):
        queue.add_receiver(receiver)
    assert texts(queue.messages(DELIVERED)) == ["1"]
    receiver.answer = True
    assert queue.redeliver(receiver) is True
    assert receiver.flags == [False, True]


def test_two_messages_of_one_id_come_one_after_the_other(world: World) -> None:
    queue = world.open().queue("orders")
    queue.handle(world.message("made"))
    target = Path(world.directory, "orders", "incoming", "target")
    for name in os.listdir(target):
        (target / name).unlink()
    (target / "5.same-id.T").write_text("urgent")
    (target / "4.same-id.T").write_text("normal")
    receiver = Recorder(answer=False)
    queue.add_receiver(receiver)
    assert receiver.bodies == ["urgent"]
    assert queue.deliver() is False
    queue.acknowledge(receiver.ids[0], "r")
    assert queue.deliver() is True
    assert receiver.bodies == ["urgent", "normal"]
    queue.acknowledge(receiver.ids[1], "r")
    assert queue.browse() == []


def test_a_message_taken_away_by_hand_breaks_only_its_own_delivery(world: World) -> None:
    queue = world.open().queue("orders")

    def remove_the_first(reference: Reference) -> bool:
        folder = Path(world.directory, "orders", "incoming", "processing")
        if not receiver.bodies[:-1]:
            for name in os.listdir(folder):
                (folder / name).unlink()
        return True

    receiver = Recorder(answer=remove_the_first)
    queue.add_receiver(receiver)
    queue.handle(world.message("1"))
    queue.handle(world.message("2"))
    assert queue.deliver() is True
    assert receiver.bodies == ["1", "2"]


@pytest.mark.parametrize("kind", PROVIDERS)
def test_threads_that_send_deliver_and_acknowledge_at_once_lose_nothing(kind: str) -> None:
    with a_world(kind) as world:
        queue = world.open().queue("orders")
        receivers = [Recorder("yes", answer=True), Recorder("later", answer=False)]
        for receiver in receivers:
            queue.add_receiver(receiver)
        sending = threading.Event()
        failures: list[BaseException] = []

        def guarded(work: object, *arguments: object) -> None:
            try:
                work(*arguments)  # type: ignore[operator]
            except BaseException as error:
                failures.append(error)

        def send(name: str) -> None:
            for number in range(40):
                assert queue.handle(world.message(f"{name}{number}")) is True

        def acknowledge() -> None:
            done = 0
            while not sending.is_set() or done < len(receivers[1].ids):
                for identity in receivers[1].ids[done:]:
                    queue.acknowledge(identity, "later")
                    done += 1

        def deliver() -> None:
            while not sending.is_set():
                queue.deliver()

        senders = [threading.Thread(target=guarded, args=(send, name)) for name in "abc"]
        others = [threading.Thread(target=guarded, args=(work,)) for work in (acknowledge, deliver)]
        for thread in (*senders, *others):
            thread.start()
        for thread in senders:
            thread.join()
        assert queue.deliver() is True
        sending.set()
        for thread in others:
            thread.join()
        assert failures == []
        got = [body for receiver in receivers for body in receiver.bodies]
        assert sorted(got) == sorted(f"{name}{number}" for name in "abc" for number in range(40))
        assert not any(flag for receiver in receivers for flag in receiver.flags)
        assert queue.browse() == []


@pytest.mark.parametrize("kind", PROVIDERS)
def test_a_channel_closes_when_its_receiver_has_returned(kind: str) -> None:
    with a_world(kind) as world:
        queue = world.open().queue("orders")
        inside, go_on = threading.Event(), threading.Event()

        def wait(reference: Reference) -> bool:
            inside.set()
            return go_on.wait(120)

        receiver = Recorder(answer=wait)
        queue.add_receiver(receiver)
        sender = threading.Thread(target=queue.handle, args=(world.message("1"),))
        sender.start()
        assert inside.wait(120)
        later = world.message("2")
        assert queue.handle(later) is True  # this thread is not kept waiting
        closer = threading.Thread(target=queue.close)
        closer.start()
        assert closer.is_alive()
        go_on.set()
        closer.join(120)
        sender.join(120)
        assert not closer.is_alive()
        assert receiver.bodies == ["1"]
        assert texts(world.open().queue("orders").messages(NEW)) == ["2"]


def test_a_commit_that_cannot_make_its_messages_durable_is_undone_and_not_half_done_later(
    world: World,
) -> None:
    channels = world.open()
    queue, receiver = channels.queue("orders"), Recorder(answer=False)
    queue.add_receiver(receiver)
    queue.handle(world.message("received"))
    transaction = channels.transaction()
    bills = channels.queue("bills")
    for body in ("first", "second"):
        bills.handle(world.message(body), transaction)
    queue.acknowledge(receiver.ids[0], "r", transaction)
    next(Path(world.directory, "bills", "incoming", "working").iterdir()).unlink()
    with pytest.raises(TransactionRolledBack, match="durable"):
        transaction.commit()
    with pytest.raises(SessionStateError, match="ended"):
        transaction.commit()
    assert bills.browse() == []
    assert texts(queue.messages(DELIVERED)) == ["received"]
    assert list(Path(world.directory, "bills", "incoming", "working").iterdir()) == []


@pytest.mark.parametrize("kind", PROVIDERS)
def test_a_thread_that_sends_while_another_delivers_goes_on_and_is_served(kind: str) -> None:
    with a_world(kind) as world:
        queue = world.open().queue("orders")
        threads: list[int] = []

        def send_elsewhere(reference: Reference) -> bool:
            threads.append(threading.get_ident())
            if len(threads) == 1:
                sender = threading.Thread(target=queue.handle, args=(world.message("2"),))
                sender.start()
                sender.join(120)
                assert not sender.is_alive()
            return True

        receiver = Recorder(answer=send_elsewhere)
        queue.add_receiver(receiver)
        queue.handle(world.message("1"))
        assert receiver.bodies == ["1", "2"]
        assert threads == [threading.get_ident()] * 2


@pytest.mark.parametrize("kind", PROVIDERS)
def test_a_receiver_that_sends_is_served_after_it_has_returned(kind: str) -> None:
    with a_world(kind) as world:
        queue = world.open().queue("orders")
        inside: list[int] = []

        def send_on(reference: Reference) -> bool:
            inside.append(len(inside))
            assert len(inside) == 1
            if reference.load().body != b"3":
                queue.handle(world.message(str(int(reference.load().body) + 1)))
            inside.clear()
            return True

        receiver = Recorder(answer=send_on)
        queue.add_receiver(receiver)
        queue.handle(world.message("0"))
        assert receiver.bodies == ["0", "1", "2", "3"]


def test_a_message_that_was_acknowledged_in_a_transaction_during_delivery_is_not_offered_again() -> None:
    with a_world("memory") as world:
        channels = world.open()
        queue, other = channels.queue("orders"), Recorder("other")

        def commit_and_refuse(reference: Reference) -> None:
            with channels.transaction() as transaction:
                queue.acknowledge(reference.message_id, "r", transaction)

        queue.add_receiver(Recorder("r", answer=commit_and_refuse))
        queue.add_receiver(other)
        queue.handle(world.message("1"))
        assert other.bodies == []
        assert queue.browse() == []
