"""The queue of the messaging core (JBoss Messaging Core, 2 to 6), beside test_channel_machine."""

from __future__ import annotations

import threading

import pytest

from connector.core.channel_queue import QueueChannel
from connector.core.channel_receiver import Reference
from connector.core.channels import Channels
from connector.messaging.message import PERSISTENT, Message
from connector.stores.memory.provider import MemoryProvider
from tests.core.channel_world import (
    Recorder,
    World,
    a_world,
    broken,
    refusing,
    texts,
)
from tests.tables import Table
from tests.waiting import now_ms, until_past, wait_for, waits_in

"""Ways to have nobody who takes a message."""
"""Ways to have nobody who takes a message."""


# -- 2 Channel state ---------------------------------------------------------------------------------


def test_2_a_synchronous_channel_returns_the_acknowledgement_of_its_receiver(world: World) -> None:
    queue = world.open().queue("orders")
    queue.is_synchronous = True
    receiver = Recorder(answer=True)
    queue.add_receiver(receiver)
    assert queue.handle(world.message("1")) is True
    receiver.answer = False
    assert queue.handle(world.message("2")) is False
    assert receiver.bodies == ["1", "2"]


def test_2_a_synchronous_queue_that_reaches_nobody_says_so_and_stores_nothing(world: World) -> None:
    channels = world.open()
    nobodies = [
        *(None, broken(), refusing(), Recorder("rejecting", answer=False)),
        Recorder("unwilling", wanted=lambda reference: False),
    ]
    with Table() as table:
        for number, nobody in enumerate(nobodies):
            with table.row(nobody and nobody.receiver_id):
                queue = channels.queue(f"orders-{number}")
                queue.is_synchronous = True
                if nobody is not None:
                    queue.add_receiver(nobody)
                assert queue.handle(world.message("1")) is False
                assert queue.browse() == []


def test_2_1_a_channel_without_a_reliable_store_takes_no_responsibility_for_persistent_messages(
    world: World,
) -> None:
    queue = world.open().queue("orders")
    assert queue.is_reliable is world.provider.capabilities.reliable
    message = Message(body=b"1", delivery_mode=PERSISTENT)
    assert ("is not reliable" in queue.refusal(message)) is not queue.is_reliable
    assert queue.handle(message) is (True if queue.is_reliable else None)
    assert len(queue.browse()) == queue.is_reliable


def test_2_3_channels_of_one_name_on_one_provider_are_one_channel(world: World) -> None:
    receiver = Recorder()
    with Channels(world.provider) as other:
        here, there = world.open().queue("orders"), other.queue("orders")
        there.add_receiver(receiver)
        here.handle(world.message("1"))
        assert there.deliver() is True
    assert there.is_closed
    assert receiver.bodies == ["1"]
    assert here.browse() == []


# -- 3 Message store ---------------------------------------------------------------------------------


def test_3_receivers_get_references_and_load_bodies_until_they_acknowledge(world: World) -> None:
    queue = world.open().queue("orders")
    loaded: list[bytes] = []

    def read_headers(reference: Reference) -> bool:
        loaded.append(reference.headers.body)
        return False

    receiver = Recorder(answer=read_headers)
    queue.add_receiver(receiver)
    queue.handle(world.message("a body", correlation_id="c"))
    assert loaded == [b""]
    (reference,) = receiver.received
    assert reference.headers.correlation_id == "c"
    assert reference.load().body == b"a body"
    queue.acknowledge(reference.message_id, "r")
    with pytest.raises(LookupError):
        reference.load()


def test_3_channels_pass_on_references(world: World) -> None:
    channels = world.open()
    first, second = channels.queue("first"), channels.queue("second")
    receiver = Recorder()
    second.add_receiver(receiver)
    first.add_receiver(second)
    first.handle(world.message("1", correlation_id="c"))
    assert receiver.bodies == ["1"]
    assert receiver.received[0].headers.correlation_id == "c"
    assert first.browse() == second.browse() == []


def test_3_1_a_sender_waits_for_room_until_a_receiver_acknowledges() -> None:
    with a_world("memory") as world:
        world.provider = MemoryProvider(max_bytes=10_000, send_timeout=600)
        queue = world.open().queue("orders")
        queue.handle(world.message("x" * 6000))
        sender = threading.Thread(target=queue.handle, args=(world.message("y" * 6000),))
        sender.start()
        wait_for(lambda: waits_in("wait_for_room"))
        receiver = Recorder()
        queue.add_receiver(receiver)
        sender.join(120)
        assert not sender.is_alive()
        assert queue.deliver() is True
        assert [body[0] for body in receiver.bodies] == ["x", "y"]


def test_3_1_a_receiver_that_passes_messages_on_does_not_wait_for_the_room_that_it_holds() -> None:
    with a_world("memory") as world:
        world.provider = MemoryProvider(max_bytes=10_000, send_timeout=5)
        channels = world.open()
        first, second = channels.queue("first"), channels.queue("second")
        for body in "xyz":
            second.handle(world.message(body * 1000))
        first.add_receiver(second)
        assert first.handle(world.message("m" * 3000)) is True
        assert [body[0] for body in texts(second.browse())] == ["x", "y", "z", "m"]
        assert first.browse() == []


# -- 5.2 NEW -----------------------------------------------------------------------------------------


def test_5_2_a_broken_receiver_does_not_keep_a_message_from_the_others(world: World) -> None:
    queue = world.open().queue("orders")
    receiver = Recorder("sound")
    queue.add_receiver(broken())
    queue.add_receiver(refusing())
    queue.add_receiver(receiver)
    for number in range(4):
        queue.handle(world.message(str(number)))
    assert receiver.bodies == ["0", "1", "2", "3"]


# -- 5.3 DELIVERED -----------------------------------------------------------------------------------


def test_5_3_3_an_expired_delivered_message_is_removed(world: World) -> None:
    queue = world.open().queue("orders")
    receiver = Recorder(answer=False)
    queue.add_receiver(receiver)
    message = world.message("1", expiration=now_ms() + 1500)
    queue.handle(message)
    assert receiver.bodies == ["1"]
    until_past(message.expiration)
    assert queue.deliver() is True
    assert queue.browse() == []
    assert queue.redeliver(receiver) is True
    assert receiver.bodies == ["1"]


def test_5_3_4_an_acknowledgement_that_overtakes_the_return_of_the_receiver_counts(world: World) -> None:
    queue = world.open().queue("orders")

    def acknowledge_elsewhere_first(reference: Reference) -> bool:
        thread = threading.Thread(target=queue.acknowledge, args=(reference.message_id, "r"))
        thread.start()
        thread.join(120)  # a channel that made it wait for the end of the delivery would hang here
        assert not thread.is_alive()
        return False

    receiver = Recorder("r", answer=acknowledge_elsewhere_first)
    queue.add_receiver(receiver)
    queue.handle(world.message("1"))
    assert queue.browse() == []
    assert queue.redeliver(receiver) is True
    assert receiver.bodies == ["1"]


def test_5_3_4_an_early_acknowledgement_counts_whatever_the_receiver_says_then(world: World) -> None:
    channels = world.open()
    with Table() as table:
        for answer in (True, None, RuntimeError("broken")):
            with table.row(answer):
                queue = channels.queue("orders")

                def acknowledge_first(
                    reference: Reference,
                    queue: QueueChannel = queue,
                    answer: bool | Exception | None = answer,
                ) -> bool | None:
                    queue.acknowledge(reference.message_id, "r")
                    if isinstance(answer, Exception):
                        raise answer
                    return answer

                queue.add_receiver(Recorder("r", answer=acknowledge_first))
                queue.handle(world.message("1"))
                assert queue.browse() == []
                queue.close()
