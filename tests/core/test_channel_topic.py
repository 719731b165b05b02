"""The topic of the messaging core, where it differs from the queue (JBoss Messaging Core, 5.2.4 and 5.3)."""

from __future__ import annotations

import pytest

from connector.errors import ClaimLost, SubscriptionError
from tests.core.channel_world import (
    DELIVERED,
    NEW,
    NOT_COMMITTED,
    Recorder,
    World,
    broken,
    refusing,
    texts,
)
from tests.waiting import now_ms, until_past


def test_every_receiver_gets_every_message(world: World) -> None:
    topic = world.open().topic("prices")
    first, second = Recorder("first"), Recorder("second")
    topic.add_receiver(first)
    topic.add_receiver(second)
    topic.handle(world.message("1"))
    topic.handle(world.message("2"))
    assert first.bodies == second.bodies == ["1", "2"]
    assert topic.browse() == []


def test_receivers_of_other_processes_get_every_message_too(world: World) -> None:
    here, there = world.open().topic("prices"), world.open().topic("prices")
    receiver = Recorder()
    there.add_receiver(receiver)
    here.handle(world.message("1"))
    assert there.deliver() is True
    assert receiver.bodies == ["1"]


def test_5_2_4_a_topic_discards_and_acknowledges_what_has_no_receiver(world: World) -> None:
    topic = world.open().topic("prices")
    assert not topic.is_storing_undeliverable
    assert topic.handle(world.message("1")) is True
    receiver = Recorder()
    topic.add_receiver(receiver)
    assert receiver.bodies == []
    assert topic.browse() == []
    assert topic.deliver() is True


@pytest.mark.parametrize("when", ["in advance", "when it is handed over"])
def test_5_2_4_a_topic_discards_what_a_receiver_does_not_accept(world: World, when: str) -> None:
    topic = world.open().topic("prices")
    unwilling = Recorder(wanted=lambda reference: False) if when == "in advance" else refusing()
    willing = Recorder("willing", answer=False)
    topic.add_receiver(unwilling)
    topic.add_receiver(willing)
    message = world.message("1")
    assert topic.handle(message) is True
    assert message.message_id is not None
    assert topic.receivers_of(message.message_id) == {"willing"}
    topic.acknowledge(message.message_id, "willing")
    assert topic.browse() == []


def test_5_2_a_message_waits_as_new_for_a_broken_receiver(world: World) -> None:
    topic = world.open().topic("prices")
    receiver = broken("r")
    topic.add_receiver(receiver)
    topic.handle(world.message("1"))
    topic.handle(world.message("2"))
    assert texts(topic.messages(NEW)) == texts(topic.browse()) == ["1", "2"]
    assert topic.deliver() is False
    receiver.forget()
    receiver.answer = True
    assert topic.deliver() is True
    assert (receiver.bodies, receiver.flags) == (["1", "2"], [False, False])


def test_5_3_1_a_message_is_delivered_until_all_who_hold_it_have_acknowledged(world: World) -> None:
    topic = world.open().topic("prices")
    for name in ("a", "b"):
        topic.add_receiver(Recorder(name, answer=False))
    topic.add_receiver(Recorder("c", answer=True))
    message = world.message("1")
    topic.handle(message)
    identity = message.message_id or ""
    assert topic.receivers_of(identity) == {"a", "b"}
    topic.acknowledge(identity, "a")
    assert topic.receivers_of(identity) == {"b"}
    assert texts(topic.messages(DELIVERED)) == ["1"]
    topic.acknowledge(identity, "b")
    assert topic.browse() == []
    topic.acknowledge(identity, "a")
    with pytest.raises(ClaimLost):
        topic.acknowledge(identity, "nobody")


def test_5_3_3_an_expired_message_is_removed_for_every_receiver(world: World) -> None:
    topic = world.open().topic("prices")
    topic.add_receiver(Recorder("holding", answer=False))
    waiting = broken("waiting")
    topic.add_receiver(waiting)
    message = world.message("1", expiration=now_ms() + 1500)
    topic.handle(message)
    assert texts(topic.browse()) == ["1"]
    until_past(message.expiration)
    waiting.answer = True
    waiting.forget()
    assert topic.deliver() is True
    assert topic.browse() == []
    assert waiting.bodies == []


def test_7_5_a_receiver_that_was_removed_may_still_acknowledge_or_ask_again(world: World) -> None:
    topic = world.open().topic("prices")
    receiver = Recorder(answer=False)
    topic.add_receiver(receiver)
    topic.handle(world.message("1"))
    topic.handle(world.message("2"))
    topic.remove_receiver("r")
    topic.handle(world.message("3"))
    topic.acknowledge(receiver.ids[0], "r")
    receiver.answer = True
    assert topic.redeliver(receiver) is True
    assert receiver.bodies == ["1", "2", "2"]
    assert topic.browse() == []


def test_a_receiver_that_comes_back_gets_what_is_sent_then(world: World) -> None:
    topic = world.open().topic("prices")
    receiver = Recorder(answer=False)
    topic.add_receiver(receiver)
    topic.handle(world.message("1"))
    topic.remove_receiver("r")
    topic.handle(world.message("2"))
    topic.add_receiver(receiver)
    topic.handle(world.message("3"))
    assert receiver.bodies == ["1", "3"]


def test_2_2_a_commit_reaches_every_receiver(world: World) -> None:
    channels = world.open()
    topic, receivers = channels.topic("prices"), [Recorder("a"), Recorder("b")]
    for receiver in receivers:
        topic.add_receiver(receiver)
    transaction = channels.transaction()
    topic.handle(world.message("1"), transaction)
    assert texts(topic.messages(NOT_COMMITTED)) == ["1"]
    assert [receiver.bodies for receiver in receivers] == [[], []]
    transaction.commit()
    assert [receiver.bodies for receiver in receivers] == [["1"], ["1"]]


def test_6_2_1_one_transaction_acknowledges_for_several_receivers(world: World) -> None:
    channels = world.open()
    topic = channels.topic("prices")
    for name in ("a", "b"):
        topic.add_receiver(Recorder(name, answer=False))
    message = world.message("1")
    topic.handle(message)
    identity = message.message_id or ""
    with channels.transaction() as transaction:
        for name in ("a", "b"):
            topic.acknowledge(identity, name, transaction)
        assert topic.receivers_of(identity) == {"a", "b"}
    assert topic.browse() == []


@pytest.mark.parametrize("receiver", [None, "r"])
def test_2_a_synchronous_topic_returns_the_acknowledgement_of_all_its_receivers(
    world: World, receiver: str | None
) -> None:
    topic = world.open().topic("prices")
    topic.is_synchronous = True
    if receiver is not None:
        topic.add_receiver(Recorder("r", answer=True))
    assert topic.handle(world.message("1")) is True
    negative = Recorder("negative", answer=False)
    topic.add_receiver(negative)
    assert topic.handle(world.message("2")) is False
    assert negative.bodies == ["2"]
    assert topic.browse() == []


def test_what_a_durable_receiver_holds_or_misses_waits_for_it(world: World) -> None:
    channels = world.open("client")
    topic = channels.topic("prices")
    topic.add_receiver(Recorder("r", answer=False), durable=True)
    topic.handle(world.message("held"))
    channels.close()
    world.open().topic("prices").handle(world.message("missed"))
    receiver = Recorder("r")
    world.open("client").topic("prices").add_receiver(receiver, durable=True)
    assert list(zip(receiver.bodies, receiver.flags, strict=True)) == [("held", True), ("missed", False)]


def test_a_durable_receiver_needs_a_client_id(world: World) -> None:
    with pytest.raises(SubscriptionError):
        world.open().topic("prices").add_receiver(Recorder(), durable=True)


def test_nothing_is_kept_for_a_durable_receiver_that_has_unsubscribed(world: World) -> None:
    channels = world.open("client")
    topic, receiver = channels.topic("prices"), Recorder()
    topic.add_receiver(receiver, durable=True)
    topic.remove_receiver("r")
    topic.handle(world.message("1"))
    topic.unsubscribe("r")
    topic.add_receiver(receiver, durable=True)
    assert receiver.bodies == []


def test_8_a_receiver_of_a_topic_may_have_a_selector(world: World) -> None:
    topic = world.open().topic("prices")
    picky, other = Recorder("picky", answer=False), Recorder("other")
    topic.add_receiver(picky, "JMSType = 'a'")
    topic.add_receiver(other)
    for body, kind in (("1", "b"), ("2", "a")):
        topic.handle(world.message(body, type=kind))
    assert (picky.bodies, other.bodies) == (["2"], ["1", "2"])
    assert texts(topic.browse()) == ["2"]


def test_8_a_receiver_that_still_holds_messages_comes_back_with_its_selector(world: World) -> None:
    topic = world.open().topic("prices")
    receiver = Recorder("r", answer=False)
    topic.add_receiver(receiver, "JMSType = 'a'")
    topic.handle(world.message("1", type="a"))
    topic.remove_receiver("r")
    with pytest.raises(ValueError, match="selector"):
        topic.add_receiver(receiver)
    topic.add_receiver(receiver, "JMSType = 'a'")
    assert topic.redeliver(receiver) is False
    assert receiver.bodies == ["1", "1"]
