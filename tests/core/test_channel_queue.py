"""The queue of the messaging core, section by section of JBoss Messaging Core: 2 to 6."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from connector.core.channel_receiver import Reference
from connector.errors import ClaimLost, ProviderError
from connector.messaging.message import NON_PERSISTENT, PERSISTENT, Message
from connector.stores.memory.provider import MemoryProvider
from tests.core.channel_world import (
    DELIVERED,
    NEW,
    Recorder,
    World,
    a_world,
    broken,
    refusing,
    texts,
)
from tests.waiting import now_ms, until_past

NOBODIES = [None, broken, refusing, lambda: Recorder("unwilling", wanted=lambda reference: False)]
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


def test_2_a_synchronous_channel_stores_nothing_that_was_rejected(world: World) -> None:
    queue = world.open().queue("orders")
    queue.is_synchronous = True
    queue.add_receiver(Recorder(answer=False))
    queue.handle(world.message("1"))
    assert queue.browse() == []


@pytest.mark.parametrize("make", NOBODIES)
def test_2_a_synchronous_queue_that_reaches_nobody_says_so(
    world: World, make: Callable[[], Recorder] | None
) -> None:
    queue = world.open().queue("orders")
    queue.is_synchronous = True
    if make is not None:
        queue.add_receiver(make())
    assert queue.handle(world.message("1")) is False
    assert queue.browse() == []


def test_2_an_asynchronous_channel_acknowledges_to_its_sender_what_nobody_has_received(world: World) -> None:
    queue = world.open().queue("orders")
    queue.add_receiver(broken())
    assert queue.handle(world.message("1")) is True
    assert texts(queue.messages(NEW)) == ["1"]


def test_2_1_a_channel_is_reliable_where_its_provider_is(world: World) -> None:
    assert world.open().queue("orders").is_reliable is world.provider.capabilities.reliable


def test_2_1_a_channel_without_a_reliable_store_takes_no_responsibility_for_persistent_messages() -> None:
    with a_world("memory") as world:
        queue = world.open().queue("orders")
        message = Message(body=b"1", delivery_mode=PERSISTENT)
        assert queue.handle(message) is None
        assert "is not reliable" in queue.refusal(message)
        assert queue.browse() == []


def test_2_1_every_channel_takes_non_persistent_messages(world: World) -> None:
    queue = world.open().queue("orders")
    assert queue.handle(Message(body=b"1", delivery_mode=NON_PERSISTENT)) is True
    assert texts(queue.messages(NEW)) == ["1"]


def test_2_3_channels_of_one_name_on_one_provider_are_one_channel(world: World) -> None:
    here, there = world.open().queue("orders"), world.open().queue("orders")
    receiver = Recorder()
    there.add_receiver(receiver)
    here.handle(world.message("1"))
    assert there.deliver() is True
    assert receiver.bodies == ["1"]
    assert here.browse() == []


# -- 3 Message store ---------------------------------------------------------------------------------


def test_3_receivers_get_references_and_load_bodies_when_they_want(world: World) -> None:
    queue = world.open().queue("orders")
    loaded: list[bytes] = []

    def read_headers(reference: Reference) -> bool:
        loaded.append(reference.headers.body)
        return False

    receiver = Recorder(answer=read_headers)
    queue.add_receiver(receiver)
    message = world.message("a body", correlation_id="c")
    queue.handle(message)
    assert loaded == [b""]
    assert receiver.received[0].headers.correlation_id == "c"
    assert receiver.received[0].load().body == b"a body"


def test_3_a_body_is_gone_with_its_acknowledgement(world: World) -> None:
    queue = world.open().queue("orders")
    receiver = Recorder()
    queue.add_receiver(receiver)
    queue.handle(world.message("1"))
    with pytest.raises(LookupError):
        receiver.received[0].load()


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
        world.provider = MemoryProvider(max_bytes=10_000, send_timeout=20)
        queue = world.open().queue("orders")
        queue.handle(world.message("x" * 6000))
        sent = threading.Event()
        sender = threading.Thread(target=lambda: (queue.handle(world.message("y" * 6000)), sent.set()))
        sender.start()
        assert not sent.wait(0.2)
        receiver = Recorder()
        queue.add_receiver(receiver)
        assert sent.wait(120)
        sender.join()
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


def test_3_1_a_sender_waits_no_longer_than_it_was_told_to() -> None:
    with a_world("memory") as world:
        world.provider = MemoryProvider(max_bytes=10_000, send_timeout=0.05)
        queue = world.open().queue("orders")
        queue.handle(world.message("x" * 6000))
        with pytest.raises(ProviderError):
            queue.handle(world.message("y" * 6000))


# -- 5.2 NEW -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", NOBODIES)
def test_5_2_a_message_is_new_until_a_receiver_has_it(
    world: World, make: Callable[[], Recorder] | None
) -> None:
    queue = world.open().queue("orders")
    if make is not None:
        queue.add_receiver(make())
    queue.handle(world.message("1"))
    assert texts(queue.messages(NEW)) == ["1"]
    assert queue.messages(DELIVERED) == []
    taker = Recorder("taker")
    queue.add_receiver(taker)
    assert (taker.bodies, taker.flags) == (["1"], [False])


def test_5_2_a_broken_receiver_does_not_keep_a_message_from_the_others(world: World) -> None:
    queue = world.open().queue("orders")
    receiver = Recorder("sound")
    queue.add_receiver(broken())
    queue.add_receiver(refusing())
    queue.add_receiver(receiver)
    for number in range(4):
        queue.handle(world.message(str(number)))
    assert receiver.bodies == ["0", "1", "2", "3"]


def test_5_2_3_a_positive_acknowledgement_removes_the_message(world: World) -> None:
    queue = world.open().queue("orders")
    queue.add_receiver(Recorder())
    queue.handle(world.message("1"))
    assert queue.browse() == []


def test_5_2_3_an_expired_message_is_not_delivered(world: World) -> None:
    queue = world.open().queue("orders")
    message = world.message("1", expiration=now_ms() + 1500)
    queue.handle(message)
    until_past(message.expiration)
    receiver = Recorder()
    queue.add_receiver(receiver)
    assert receiver.bodies == []
    assert queue.deliver() is True
    assert queue.browse() == []


def test_5_2_4_a_queue_stores_what_nobody_accepts_and_tells_so(world: World) -> None:
    queue = world.open().queue("orders")
    assert queue.is_storing_undeliverable
    assert queue.handle(world.message("1")) is True
    assert texts(queue.messages(NEW)) == ["1"]


# -- 5.3 DELIVERED -----------------------------------------------------------------------------------


def test_5_3_a_negative_acknowledgement_makes_a_message_delivered(world: World) -> None:
    queue = world.open().queue("orders")
    queue.add_receiver(Recorder("r", answer=False))
    message = world.message("1")
    queue.handle(message)
    assert texts(queue.messages(DELIVERED)) == ["1"]
    assert queue.messages(NEW) == []
    assert message.message_id is not None
    assert queue.receivers_of(message.message_id) == {"r"}


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


def test_5_3_3_the_channel_never_redelivers_by_itself(world: World) -> None:
    queue = world.open().queue("orders")
    receiver, other = Recorder("r", answer=False), Recorder("other")
    queue.add_receiver(receiver)
    queue.handle(world.message("1"))
    queue.deliver()
    queue.add_receiver(other)
    queue.remove_receiver("r")
    queue.deliver()
    assert (receiver.bodies, other.bodies) == (["1"], [])


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


@pytest.mark.parametrize("answer", [True, None, RuntimeError("broken")])
def test_5_3_4_an_early_acknowledgement_counts_whatever_the_receiver_says_then(
    world: World, answer: bool | Exception | None
) -> None:
    queue = world.open().queue("orders")

    def acknowledge_first(reference: Reference) -> bool | None:
        queue.acknowledge(reference.message_id, "r")
        if isinstance(answer, Exception):
            raise answer
        return answer

    queue.add_receiver(Recorder("r", answer=acknowledge_first))
    queue.handle(world.message("1"))
    assert queue.browse() == []


def test_5_3_4_an_acknowledgement_of_what_was_not_delivered_is_an_error(world: World) -> None:
    queue = world.open().queue("orders")
    message = world.message("1")
    queue.handle(message)
    assert message.message_id is not None
    with pytest.raises(ClaimLost, match="does not hold this message"):
        queue.acknowledge(message.message_id, "r")
    with pytest.raises(ClaimLost, match="does not hold this message"):
        queue.acknowledge("ID:unknown", "r")
    assert texts(queue.messages(NEW)) == ["1"]


# -- 6 Acknowledgements ------------------------------------------------------------------------------


def test_6_2_an_asynchronous_acknowledgement_removes_the_message(world: World) -> None:
    queue = world.open().queue("orders")
    receiver = Recorder(answer=False)
    queue.add_receiver(receiver)
    queue.handle(world.message("1"))
    queue.acknowledge(receiver.ids[0], "r")
    assert queue.browse() == []


def test_6_2_a_second_acknowledgement_is_ignored(world: World) -> None:
    queue = world.open().queue("orders")
    receiver = Recorder(answer=False)
    queue.add_receiver(receiver)
    queue.handle(world.message("1"))
    queue.handle(world.message("2"))
    queue.acknowledge(receiver.ids[0], "r")
    queue.acknowledge(receiver.ids[0], "r")
    assert texts(queue.browse()) == ["2"]


def test_6_2_nobody_acknowledges_for_another(world: World) -> None:
    queue = world.open().queue("orders")
    receiver = Recorder(answer=False)
    queue.add_receiver(receiver)
    queue.handle(world.message("1"))
    with pytest.raises(ClaimLost):
        queue.acknowledge(receiver.ids[0], "another")
    assert texts(queue.messages(DELIVERED)) == ["1"]
