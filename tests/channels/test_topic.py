"""The topic of the messaging core (JBoss Messaging Core, 5.3), beside test_machine."""

from __future__ import annotations

import pytest

from connector.channels.topic import TopicChannel
from connector.errors import SubscriptionError
from tests.channels.world import Recorder, World, broken, texts
from tests.waiting import now_ms, until_past


@pytest.fixture
def topic(world: World) -> TopicChannel:
    return world.channels.topic("prices")


def test_receivers_of_other_processes_get_every_message_too(world: World, topic: TopicChannel) -> None:
    there = world.open().topic("prices")
    receiver = world.add(to=there)
    world.send("1", to=topic)
    assert there.deliver() is True
    assert receiver.bodies == ["1"]
    assert not topic.is_storing_undeliverable
    assert topic.is_reliable is world.provider.capabilities.reliable


def test_5_3_3_an_expired_message_is_removed_for_every_receiver(world: World, topic: TopicChannel) -> None:
    world.add(Recorder("holding", answer=False), to=topic)
    waiting = world.add(broken("waiting"), to=topic)
    (message,) = world.send("1", expiration=now_ms() + 1500, to=topic)
    assert texts(topic.browse()) == ["1"]
    until_past(message.expiration)
    waiting.answer = True
    waiting.forget()
    assert topic.deliver() is True
    assert (topic.browse(), waiting.bodies) == ([], [])


def test_6_2_1_one_transaction_acknowledges_for_several_receivers(world: World, topic: TopicChannel) -> None:
    holders = [world.add(Recorder(name, answer=False), to=topic) for name in ("a", "b")]
    world.send("1", to=topic)
    (identity,) = holders[0].ids
    with world.channels.transaction() as transaction:
        for name in ("a", "b"):
            topic.acknowledge(identity, name, transaction)
        assert topic.receivers_of(identity) == {"a", "b"}
    assert topic.browse() == []


def test_2_a_synchronous_topic_acknowledges_when_all_receivers_do(world: World, topic: TopicChannel) -> None:
    topic.is_synchronous = True
    answers = [topic.handle(world.message("1"))]
    positive = world.add(Recorder("positive"), to=topic)
    answers.append(topic.handle(world.message("2")))
    negative = world.add(Recorder("negative", answer=False), to=topic)
    answers.append(topic.handle(world.message("3")))
    assert answers == [True, True, False]
    assert (positive.bodies, negative.bodies, topic.browse()) == (["2", "3"], ["3"], [])


def test_what_a_durable_receiver_holds_or_misses_waits_for_it(world: World) -> None:
    channels = world.open("client")
    topic = channels.topic("prices")
    topic.add_receiver(Recorder("r", answer=False), durable=True)
    world.send("held", to=topic)
    channels.close()
    world.send("missed", to=world.open().topic("prices"))
    receiver = Recorder("r")
    world.open("client").topic("prices").add_receiver(receiver, durable=True)
    assert list(zip(receiver.bodies, receiver.flags, strict=True)) == [("held", True), ("missed", False)]


def test_a_durable_receiver_needs_a_client_id_and_nothing_is_kept_once_it_has_unsubscribed(
    world: World,
) -> None:
    with pytest.raises(SubscriptionError):
        world.channels.topic("prices").add_receiver(Recorder(), durable=True)
    topic, receiver = world.open("client").topic("prices"), Recorder()
    topic.add_receiver(receiver, durable=True)
    topic.remove_receiver("r")
    world.send("1", to=topic)
    topic.unsubscribe("r")
    topic.add_receiver(receiver, durable=True)
    assert receiver.bodies == []


def test_8_a_receiver_of_a_topic_may_have_a_selector(world: World, topic: TopicChannel) -> None:
    picky = world.add(Recorder("picky", answer=False), "JMSType = 'a'", to=topic)
    other = world.add(Recorder("other"), to=topic)
    world.send("1", type="b", to=topic)
    world.send("2", type="a", to=topic)
    assert (picky.bodies, other.bodies, texts(topic.browse())) == (["2"], ["1", "2"], ["2"])


def test_8_a_receiver_that_holds_messages_keeps_its_selector(world: World, topic: TopicChannel) -> None:
    receiver = world.add(Recorder("r", answer=False), "JMSType = 'a'", to=topic)
    world.send("1", type="a", to=topic)
    topic.remove_receiver("r")
    with pytest.raises(ValueError, match="selector"):
        world.add(receiver, to=topic)
    world.add(receiver, "JMSType = 'a'", to=topic)
    assert topic.redeliver(receiver) is False
    assert receiver.bodies == ["1", "1"]
