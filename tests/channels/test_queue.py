"""The queue of the messaging core (JBoss Messaging Core, 2 to 8), beside test_machine."""

from __future__ import annotations

import pytest

from connector.channels.channels import Channels
from connector.core.receiver import MessageListener, Reference
from connector.errors import DestinationError, SelectorError, SessionStateError
from connector.messaging.client import ReceivedMessage
from connector.messaging.message import PERSISTENT, Message
from connector.stores.memory.provider import MemoryProvider
from tests.channels.conftest import IN_MEMORY
from tests.channels.world import DELIVERED, NEW, Recorder, World, broken, refusing, texts
from tests.tables import Table
from tests.waiting import beside, now_ms, until_past, wait_for, waits_in

# -- 2 Channel state ---------------------------------------------------------------------------------


def test_2_a_synchronous_channel_returns_the_acknowledgement_of_its_receiver(world: World) -> None:
    world.queue.is_synchronous = True
    receiver = world.add(selector="JMSType = 'a'")
    answers = [world.queue.handle(world.message(kind, type=kind)) for kind in "ab"]
    receiver.answer = False
    answers.append(world.queue.handle(world.message("c", type="a")))
    assert (answers, receiver.bodies) == ([True, False, False], ["a", "c"])


def test_2_a_synchronous_queue_that_reaches_nobody_says_so_and_stores_nothing(world: World) -> None:
    nobodies = [
        *(None, broken(), refusing(), Recorder("rejecting", answer=False)),
        Recorder("unwilling", wanted=lambda reference: False),
    ]
    with Table() as table:
        for number, nobody in enumerate(nobodies):
            with table.row(nobody and nobody.receiver_id):
                queue = world.channels.queue(f"orders-{number}")
                queue.is_synchronous = True
                if nobody is not None:
                    queue.add_receiver(nobody)
                assert (queue.handle(world.message("1")), queue.browse()) == (False, [])


def test_2_1_a_channel_without_a_reliable_store_takes_no_persistent_messages(world: World) -> None:
    assert world.queue.is_reliable is world.provider.capabilities.reliable
    message = Message(body=b"1", delivery_mode=PERSISTENT)
    assert ("is not reliable" in world.queue.refusal(message)) is not world.queue.is_reliable
    assert world.queue.handle(message) is (True if world.queue.is_reliable else None)
    assert len(world.queue.browse()) == world.queue.is_reliable


def test_2_3_channels_of_one_name_on_one_provider_are_one_channel(world: World) -> None:
    with Channels(world.provider) as other:
        there = other.queue("orders")
        receiver = world.add(to=there)
        world.send("1")
        assert there.deliver() is True
    assert there.is_closed
    assert (receiver.bodies, world.queue.browse()) == (["1"], [])


# -- 3 Message store ---------------------------------------------------------------------------------


def test_3_receivers_get_references_and_load_bodies_until_they_acknowledge(world: World) -> None:
    seen: list[bytes] = []

    def look(reference: Reference) -> bool:
        seen.append(reference.headers.body)
        return True

    receiver = world.add(Recorder(answer=False, wanted=look))
    world.send("a body", correlation_id="c")
    (reference,) = receiver.received
    assert {*seen, reference.headers.body} == {b""}, "neither a filter nor a receiver sees it in the headers"
    assert (reference.headers.correlation_id, reference.load().body) == ("c", b"a body")
    world.queue.acknowledge(reference.message_id, "r")
    with pytest.raises(LookupError):
        reference.load()


def test_3_channels_pass_on_references(world: World) -> None:
    first, second = world.channels.queue("first"), world.channels.queue("second")
    receiver = world.add(to=second)
    first.add_receiver(second)
    world.send("1", correlation_id="c", to=first)
    assert receiver.bodies == ["1"]
    assert receiver.received[0].headers.correlation_id == "c"
    assert first.browse() == second.browse() == []


@IN_MEMORY
def test_3_1_a_sender_waits_for_room_until_a_receiver_acknowledges(world: World) -> None:
    world.provider = MemoryProvider(max_bytes=10_000, send_timeout=600)
    world.send("x" * 6000)
    sending = beside(world.send, "y" * 6000)
    wait_for(lambda: waits_in("wait_for_room"))
    receiver = world.add()
    sending.result(120)
    assert world.queue.deliver() is True
    assert [body[0] for body in receiver.bodies] == ["x", "y"]


@IN_MEMORY
def test_3_1_a_receiver_that_passes_messages_on_does_not_wait_for_room_that_it_holds(world: World) -> None:
    world.provider = MemoryProvider(max_bytes=10_000, send_timeout=5)
    first, second = world.channels.queue("first"), world.channels.queue("second")
    world.send(*(letter * 1000 for letter in "xyz"), to=second)
    first.add_receiver(second)
    world.send("m" * 3000, to=first)
    assert [body[0] for body in texts(second.browse())] == ["x", "y", "z", "m"]
    assert first.browse() == []


# -- 5 States ----------------------------------------------------------------------------------------


def test_5_3_3_an_expired_delivered_message_is_removed(world: World) -> None:
    receiver = world.add(Recorder(answer=False))
    (message,) = world.send("1", expiration=now_ms() + 1500)
    assert receiver.bodies == ["1"]
    until_past(message.expiration)
    assert world.queue.deliver() is True
    assert world.queue.browse() == []
    assert world.queue.redeliver(receiver) is True
    assert receiver.bodies == ["1"]


def test_5_3_4_an_early_acknowledgement_counts_whatever_the_receiver_says_then(world: World) -> None:
    answers: list[bool | Exception | None] = [True, None, RuntimeError("broken"), False]

    def acknowledge_elsewhere_first(reference: Reference) -> bool | None:
        # a channel that made it wait for the end of the delivery would hang here
        beside(world.queue.acknowledge, reference.message_id, "r").result(120)
        answer = answers[len(receiver.bodies) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    receiver = world.add(Recorder("r", answer=acknowledge_elsewhere_first))
    for number, _ in enumerate(answers, 1):
        world.send(str(number))
        assert world.queue.browse() == []
    assert world.queue.redeliver(receiver) is True
    assert receiver.bodies == ["1", "2", "3", "4"]


# -- 7 Channels --------------------------------------------------------------------------------------


def test_7_4_deliver_tries_a_broken_receiver_once(world: World) -> None:
    world.send("0", "1", "2")
    receiver = world.add(broken())
    receiver.forget()
    assert world.queue.deliver() is False
    assert receiver.bodies == ["0", "1", "2"]


def test_7_6_browse_takes_a_filter_and_7_7_a_state_tells_whether_there_are_messages(world: World) -> None:
    world.send("1", type="a")
    world.send("2", type="b")
    only_a = Recorder(wanted=lambda reference: reference.headers.type == "a")
    assert texts(world.queue.browse(only_a)) == ["1"]
    assert texts(world.queue.browse()) == ["1", "2"]
    assert [len(world.queue.messages(state)) for state in (NEW, DELIVERED)] == [2, 0]


def test_7_a_closed_channel_takes_nothing_and_a_name_of_a_part_of_a_queue_is_no_channel(world: World) -> None:
    with pytest.raises(DestinationError, match="a view of"):
        world.channels.queue("orders~EXPIRED")
    queue = world.queue
    queue.close()
    queue.close()
    with pytest.raises(SessionStateError, match="closed"):
        queue.handle(world.message("1"))
    with pytest.raises(SessionStateError, match="closed"):
        queue.deliver()


def test_7_a_receiver_is_told_that_delivery_goes_on_later_and_cannot_close_its_channel(world: World) -> None:
    told: list[bool | SessionStateError] = []

    def deliver_and_close(reference: Reference) -> bool:
        told.append(world.queue.deliver())
        try:
            world.queue.close()
        except SessionStateError as error:
            told.append(error)
        return True

    receiver = world.add(Recorder(answer=deliver_and_close))
    world.send("1")
    assert (told[0], len(told), receiver.bodies) == (False, 2, ["1"])
    assert world.queue.deliver() is True


# -- 8 Filters ---------------------------------------------------------------------------------------


def test_8_a_receiver_that_cannot_say_whether_it_accepts_does_not(world: World) -> None:
    def fail(reference: Reference) -> bool:
        raise RuntimeError("no idea")

    receiver = world.add(Recorder(wanted=fail))
    world.send("1")
    assert (receiver.bodies, texts(world.queue.messages(NEW))) == ([], ["1"])


def test_8_receivers_with_selectors_get_what_is_theirs_and_the_rest_waits_unseen(world: World) -> None:
    with pytest.raises(SelectorError):
        world.add(Recorder("first"), "JMSType = = 'a'")
    first = world.add(Recorder("first"), "JMSType = 'a' OR JMSPriority = 9")
    second = world.add(Recorder("second", wanted=lambda r: r.headers.priority > 4), "JMSType = 'b'")
    for body, kind, priority in (("1", "b", 4), ("2", "a", 4), ("3", "c", 9), ("4", "b", 5), ("5", "c", 4)):
        world.send(body, type=kind, priority=priority)
    assert (sorted(first.bodies), second.bodies) == (["2", "3"], ["4"])
    assert world.queue.deliver() is False
    everything = world.add(Recorder("everything"))
    assert (everything.bodies, everything.flags) == (["1", "5"], [False, False])
    assert world.queue.deliver() is True


def test_8_a_selector_of_one_receiver_keeps_nothing_from_another_without_and_goes_with_it(
    world: World,
) -> None:
    picky = world.add(Recorder("picky"), "JMSType = 'a'")
    other = world.add(Recorder("other", wanted=lambda r: r.headers.type != "a"))
    for body, kind in (("1", "a"), ("2", "b"), ("3", "a"), ("4", "b")):
        world.send(body, type=kind)
    assert (picky.bodies, other.bodies) == (["1", "3"], ["2", "4"])
    world.queue.remove_receiver("picky")
    world.send("5", type="a")
    world.send("6", type="b")
    assert (picky.bodies, other.bodies) == (["1", "3"], ["2", "4", "6"])


def test_8_a_message_that_nobody_wants_does_not_disturb_those_that_wait(world: World) -> None:
    asked: list[str | None] = []

    def ask(reference: Reference) -> bool:
        asked.append(reference.headers.type)
        return False

    world.send("1", type="waiting")
    world.add(Recorder(wanted=ask))
    asked.clear()
    world.send("2", type="unwanted")
    assert asked == ["unwanted"]
    assert world.queue.deliver() is False
    assert asked == ["unwanted", "waiting", "unwanted"]


def test_a_listener_is_a_receiver_whose_message_is_done_when_it_returns(world: World) -> None:
    left: list[list[str]] = []

    def on_order(message: ReceivedMessage) -> None:
        left.append(texts(world.queue.browse()))
        if len(left) == 1:
            raise ValueError("not yet")

    world.send("1")
    world.queue.add_receiver(MessageListener(on_order))
    assert texts(world.queue.messages(NEW)) == ["1"]
    assert world.queue.deliver() is True
    assert (left, world.queue.browse()) == ([["1"], ["1"]], [])


def test_a_reference_counts_its_deliveries_and_acknowledges_when_its_receiver_likes(world: World) -> None:
    receiver = world.add(Recorder(answer=False))
    world.send("1")
    for _ in range(2):
        assert world.queue.redeliver(receiver) is False
    assert [reference.delivery_count for reference in receiver.received] == [1, 2, 3]
    receiver.received[0].acknowledge()
    receiver.received[0].acknowledge()  # the same again is ignored
    assert world.queue.browse() == []
