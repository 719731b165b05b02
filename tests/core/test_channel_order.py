"""The order of messages, one guarantee a test (JBoss Messaging Core, 9 and 10)."""

from __future__ import annotations

import threading

import pytest

from connector.core.channel_receiver import Reference
from connector.messaging.message import Message
from tests.core.channel_world import Recorder, World, a_world

NUMBERS = [str(number) for number in range(20)]


@pytest.mark.parametrize("receives", ["meanwhile", "later", "in another process"])
def test_9_1_1_messages_of_one_thread_are_delivered_in_the_order_of_sending(
    world: World, receives: str
) -> None:
    queue, receiver = world.open().queue("orders"), Recorder(answer=False)
    there = world.open().queue("orders") if receives == "in another process" else queue
    if receives == "meanwhile":
        there.add_receiver(receiver)
    for number in NUMBERS:
        queue.handle(world.message(number))
    if receives != "meanwhile":
        there.add_receiver(receiver)
    assert receiver.bodies == NUMBERS


def test_9_1_1_every_receiver_of_a_topic_sees_that_order_even_where_one_of_them_sends(world: World) -> None:
    topic = world.open().topic("prices")

    def send_on(reference: Reference) -> bool:
        if reference.load().body == b"1":
            topic.handle(world.message("2"))
        return True

    first, second = Recorder("first", answer=send_on), Recorder("second")
    topic.add_receiver(first)
    topic.add_receiver(second)
    topic.handle(world.message("1"))
    assert first.bodies == second.bodies == ["1", "2"]


def test_9_1_2_threads_that_send_one_after_the_other_are_delivered_so(world: World) -> None:
    queue, receiver = world.open().queue("orders"), Recorder(answer=False)
    for number in NUMBERS:
        thread = threading.Thread(target=queue.handle, args=(world.message(number),))
        thread.start()
        thread.join()
    queue.add_receiver(receiver)
    assert receiver.bodies == NUMBERS


def test_9_1_3_of_threads_that_send_at_once_each_keeps_its_own_order(world: World) -> None:
    queue, receiver = world.open().queue("orders"), Recorder()
    queue.add_receiver(receiver)

    def send(name: str) -> None:
        for number in NUMBERS:
            queue.handle(world.message(f"{name} {number}"))

    threads = [threading.Thread(target=send, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert queue.deliver() is True
    for name in "abc":
        own = [body.split()[1] for body in receiver.bodies if body.startswith(name)]
        assert own == NUMBERS


def test_9_1_4_of_processes_that_send_at_once_each_keeps_its_own_order(world: World) -> None:
    here, there, receiver = world.open().queue("orders"), world.open().queue("orders"), Recorder()
    for number in NUMBERS:
        here.handle(world.message(f"here {number}"))
        there.handle(world.message(f"there {number}"))
    here.add_receiver(receiver)
    for name in ("here", "there"):
        assert [body.split()[1] for body in receiver.bodies if body.startswith(name)] == NUMBERS


def test_9_2_messages_of_one_transaction_are_delivered_in_the_order_of_sending(world: World) -> None:
    channels = world.open()
    queue, receiver = channels.queue("orders"), Recorder()
    queue.add_receiver(receiver)
    with channels.transaction() as transaction:
        for number in NUMBERS:
            queue.handle(world.message(number), transaction)
    assert receiver.bodies == NUMBERS


def test_9_3_each_reliability_class_keeps_its_own_order() -> None:
    with a_world("dropbox") as world:
        queue, receiver = world.open().queue("orders"), Recorder()
        for number in NUMBERS:
            queue.handle(Message(body=number.encode(), delivery_mode=1 + int(number) % 2))
        queue.add_receiver(receiver)
        for parity in (0, 1):
            own = [body for body in receiver.bodies if int(body) % 2 == parity]
            assert own == NUMBERS[parity::2]


def test_9_4_each_priority_keeps_its_own_order(world: World) -> None:
    queue, receiver = world.open().queue("orders"), Recorder()
    for number in NUMBERS:
        queue.handle(world.message(number, priority=int(number) % 3))
    queue.add_receiver(receiver)
    for priority in range(3):
        assert [body for body in receiver.bodies if int(body) % 3 == priority] == NUMBERS[priority::3]


def test_9_5_what_comes_again_does_not_hold_up_what_comes_first(world: World) -> None:
    queue, receiver = world.open().queue("orders"), Recorder(answer=False)
    queue.add_receiver(receiver)
    queue.handle(world.message("1"))
    queue.handle(world.message("2"))
    receiver.answer = True
    queue.handle(world.message("3"))
    queue.redeliver(receiver)
    assert receiver.bodies[:3] == ["1", "2", "3"]
    assert sorted(receiver.bodies[3:]) == ["1", "2"]


def test_10_what_is_urgent_comes_first(world: World) -> None:
    queue, receiver = world.open().queue("orders"), Recorder()
    for priority in (4, 9, 0, 7, 4):
        queue.handle(world.message(str(priority), priority=priority))
    queue.add_receiver(receiver)
    assert receiver.bodies == ["9", "7", "4", "4", "0"]


def test_10_references_sort_by_priority(world: World) -> None:
    queue, receiver = world.open().queue("orders"), Recorder(answer=False)
    queue.add_receiver(receiver)
    for priority in (4, 9, 0, 4):
        queue.handle(world.message(str(priority), priority=priority))
    assert [reference.headers.priority for reference in sorted(receiver.received)] == [9, 4, 4, 0]
    fours = [reference for reference in sorted(receiver.received) if reference.headers.priority == 4]
    assert fours == [receiver.received[0], receiver.received[3]]
