"""The topic of the messaging core (JBoss Messaging Core, 5.3), beside test_channel_machine."""

from __future__ import annotations

import pytest

from connector.errors import SubscriptionError
from tests.core.channel_world import Recorder, World, broken, texts
from tests.waiting import now_ms, until_past


def test_receivers_of_other_processes_get_every_message_too(world: World) -> None:
    here, there = world.open().topic("prices"), world.open().topic("prices")
    receiver = Recorder()
    there.add_receiver(receiver)
    here.handle(world.message("1"))
    assert there.deliver() is True
    assert receiver.bodies == ["1"]
    assert (here.is_storing_undeliverable, here.is_reliable) == (False, world.provider.capabilities.reliable)


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


def test_2_a_synchronous_topic_returns_the_acknowledgement_of_all_its_receivers(world: World) -> None:
    topic = world.open().topic("prices")
    topic.is_synchronous = True
    positive, negative = Recorder("positive"), Recorder("negative", answer=False)
    assert topic.handle(world.message("1")) is True
    topic.add_receiver(positive)
    assert topic.handle(world.message("2")) is True
    topic.add_receiver(negative)
    assert topic.handle(world.message("3")) is False
    assert (positive.bodies, negative.bodies) == (["2", "3"], ["3"])
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
