"""Operations on a queue and its filters (JBoss Messaging Core, 7 and 8), beside test_channel_machine."""

from __future__ import annotations

import pytest

from connector.core.channel_receiver import MessageListener, Reference, SelectorFilter
from connector.errors import DestinationError, SelectorError, SessionStateError
from connector.messaging.client import ReceivedMessage
from connector.messaging.selector import compile_selector
from tests.core.channel_world import DELIVERED, NEW, Recorder, World, broken, texts

# -- 7 Channels --------------------------------------------------------------------------------------


def test_7_4_deliver_tries_a_broken_receiver_once(world: World) -> None:
    queue = world.open().queue("orders")
    receiver = broken()
    for number in range(3):
        queue.handle(world.message(str(number)))
    queue.add_receiver(receiver)
    receiver.forget()
    assert queue.deliver() is False
    assert receiver.bodies == ["0", "1", "2"]


def test_7_4_a_receiver_that_calls_deliver_is_told_that_it_goes_on_later(world: World) -> None:
    queue = world.open().queue("orders")
    told: list[bool] = []

    def deliver(reference: Reference) -> bool:
        told.append(queue.deliver())
        return True

    receiver = Recorder(answer=deliver)
    queue.add_receiver(receiver)
    queue.handle(world.message("1"))
    assert told == [False]
    assert receiver.bodies == ["1"]


def test_7_5_redelivered_messages_are_counted(world: World) -> None:
    queue = world.open().queue("orders")
    receiver = Recorder(answer=False)
    queue.add_receiver(receiver)
    queue.handle(world.message("1"))
    for _ in range(2):
        assert queue.redeliver(receiver) is False
    assert [reference.delivery_count for reference in receiver.received] == [1, 2, 3]


def test_7_6_browse_takes_a_filter_and_7_7_a_state_tells_whether_there_are_messages(world: World) -> None:
    queue = world.open().queue("orders")
    queue.handle(world.message("1", type="a"))
    queue.handle(world.message("2", type="b"))
    assert texts(queue.browse(SelectorFilter(compile_selector("JMSType = 'a'")))) == ["1"]
    assert (queue.has_messages(NEW), queue.has_messages(DELIVERED)) == (True, False)


def test_7_a_closed_channel_takes_nothing(world: World) -> None:
    queue = world.open().queue("orders")
    queue.close()
    queue.close()
    with pytest.raises(SessionStateError, match="closed"):
        queue.handle(world.message("1"))
    with pytest.raises(SessionStateError, match="closed"):
        queue.deliver()


def test_7_a_receiver_cannot_close_the_channel_that_calls_it(world: World) -> None:
    queue = world.open().queue("orders")
    errors: list[Exception] = []

    def close(reference: Reference) -> bool:
        try:
            queue.close()
        except SessionStateError as error:
            errors.append(error)
        return True

    queue.add_receiver(Recorder(answer=close))
    queue.handle(world.message("1"))
    assert len(errors) == 1
    assert queue.deliver() is True


def test_7_a_name_that_shows_a_part_of_a_queue_is_no_channel(world: World) -> None:
    with pytest.raises(DestinationError, match="a view of"):
        world.open().queue("orders~EXPIRED")


# -- 8 Filters ---------------------------------------------------------------------------------------


def test_8_a_filter_sees_no_body(world: World) -> None:
    queue = world.open().queue("orders")
    seen: list[bytes] = []

    def look(reference: Reference) -> bool:
        seen.append(reference.headers.body)
        return True

    queue.add_receiver(Recorder(wanted=look))
    queue.handle(world.message("a body"))
    assert set(seen) == {b""}


def test_8_a_receiver_that_cannot_say_whether_it_accepts_does_not(world: World) -> None:
    def fail(reference: Reference) -> bool:
        raise RuntimeError("no idea")

    queue = world.open().queue("orders")
    receiver = Recorder(wanted=fail)
    queue.add_receiver(receiver)
    queue.handle(world.message("1"))
    assert receiver.bodies == []
    assert texts(queue.messages(NEW)) == ["1"]


def test_8_receivers_with_selectors_get_what_is_theirs_and_the_rest_waits_unseen(world: World) -> None:
    queue = world.open().queue("orders")
    first, second = Recorder("first"), Recorder("second", wanted=lambda r: r.headers.priority > 4)
    queue.add_receiver(first, "JMSType = 'a' OR JMSPriority = 9")
    queue.add_receiver(second, "JMSType = 'b'")
    for body, kind, priority in (("1", "b", 4), ("2", "a", 4), ("3", "c", 9), ("4", "b", 5), ("5", "c", 4)):
        queue.handle(world.message(body, type=kind, priority=priority))
    assert (sorted(first.bodies), second.bodies) == (["2", "3"], ["4"])
    assert queue.deliver() is False
    everything = Recorder("everything")
    queue.add_receiver(everything)
    assert everything.bodies == ["1", "5"]
    assert everything.flags == [False, False]
    assert queue.deliver() is True


def test_8_a_selector_of_one_receiver_keeps_nothing_from_another_without(world: World) -> None:
    queue = world.open().queue("orders")
    picky, other = Recorder("picky"), Recorder("other", wanted=lambda r: r.headers.type != "a")
    queue.add_receiver(picky, "JMSType = 'a'")
    queue.add_receiver(other)
    for body, kind in (("1", "a"), ("2", "b"), ("3", "a"), ("4", "b")):
        queue.handle(world.message(body, type=kind))
    assert (picky.bodies, other.bodies) == (["1", "3"], ["2", "4"])


def test_8_a_receiver_with_a_selector_that_is_removed_gets_nothing_more(world: World) -> None:
    queue = world.open().queue("orders")
    first, second = Recorder("first"), Recorder("second")
    queue.add_receiver(first, "JMSType = 'a'")
    queue.add_receiver(second, "JMSType = 'b'")
    queue.remove_receiver("first")
    queue.handle(world.message("1", type="a"))
    queue.handle(world.message("2", type="b"))
    assert (first.bodies, second.bodies) == ([], ["2"])


def test_8_a_selector_that_is_not_valid_adds_no_receiver(world: World) -> None:
    queue = world.open().queue("orders")
    with pytest.raises(SelectorError):
        queue.add_receiver(Recorder(), "JMSType = = 'a'")
    queue.add_receiver(Recorder())


def test_8_a_message_that_nobody_wants_does_not_disturb_those_that_wait(world: World) -> None:
    queue = world.open().queue("orders")
    asked: list[str | None] = []

    def ask(reference: Reference) -> bool:
        asked.append(reference.headers.type)
        return False

    queue.handle(world.message("1", type="waiting"))
    queue.add_receiver(Recorder(wanted=ask))
    asked.clear()
    queue.handle(world.message("2", type="unwanted"))
    assert asked == ["unwanted"]
    assert queue.deliver() is False
    assert asked == ["unwanted", "waiting", "unwanted"]


def test_8_a_synchronous_channel_heeds_selectors(world: World) -> None:
    queue = world.open().queue("orders")
    queue.is_synchronous = True
    queue.add_receiver(Recorder(), "JMSType = 'a'")
    assert queue.handle(world.message("1", type="b")) is False
    assert queue.handle(world.message("2", type="a")) is True


def test_a_listener_is_a_receiver_whose_message_is_done_when_it_returns(world: World) -> None:
    queue = world.open().queue("orders")
    left: list[list[str]] = []

    def on_order(message: ReceivedMessage) -> None:
        left.append(texts(queue.browse()))
        if len(left) == 1:
            raise ValueError("not yet")

    queue.handle(world.message("1"))
    queue.add_receiver(MessageListener(on_order))
    assert texts(queue.messages(NEW)) == ["1"]
    assert queue.deliver() is True
    assert left == [["1"], ["1"]]
    assert queue.browse() == []


def test_a_receiver_acknowledges_by_the_reference_when_it_likes(world: World) -> None:
    queue, receiver = world.open().queue("orders"), Recorder(answer=False)
    queue.add_receiver(receiver)
    queue.handle(world.message("1"))
    assert texts(queue.messages(DELIVERED)) == ["1"]
    receiver.received[0].acknowledge()
    receiver.received[0].acknowledge()  # the same again is ignored
    assert queue.browse() == []
