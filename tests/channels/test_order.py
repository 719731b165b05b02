"""The order of messages (JBoss Messaging Core, 9 and 10), beside test_machine."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from connector.core.receiver import Reference
from connector.messaging.message import order_key
from tests.channels.conftest import ON_DISK
from tests.channels.world import Recorder, World

NUMBERS = [str(number) for number in range(20)]


def test_9_1_1_every_receiver_of_a_topic_sees_that_order_even_where_one_of_them_sends(world: World) -> None:
    topic = world.channels.topic("prices")

    def send_on(reference: Reference) -> bool:
        if reference.load().body == b"1":
            world.send("2", to=topic)
        return True

    first = world.add(Recorder("first", answer=send_on), to=topic)
    second = world.add(Recorder("second"), to=topic)
    world.send("1", to=topic)
    assert first.bodies == second.bodies == ["1", "2"]


def test_9_1_2_threads_that_send_one_after_the_other_keep_that_order(world: World) -> None:
    for number in NUMBERS:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(world.send, number).result()
    assert world.add().bodies == NUMBERS


def test_9_1_3_of_threads_that_send_at_once_each_keeps_its_own_order(world: World) -> None:
    receiver = world.add()

    def send(name: str) -> None:
        world.send(*(f"{name} {number}" for number in NUMBERS))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(send, "abc"))
    assert world.queue.deliver() is True
    for name in "abc":
        assert [body.split()[1] for body in receiver.bodies if body.startswith(name)] == NUMBERS


def test_9_1_4_of_processes_that_send_at_once_each_keeps_its_own_order(world: World) -> None:
    there = world.open().queue("orders")
    for number in NUMBERS:
        world.send(f"a {number}")
        world.send(f"b {number}", to=there)
    receiver = world.add()
    for name in "ab":
        assert [body.split()[1] for body in receiver.bodies if body.startswith(name)] == NUMBERS


def test_9_2_messages_of_a_transaction_have_the_time_of_their_sending(world: World) -> None:
    with world.channels.transaction() as transaction:
        world.send("1", "2", transaction=transaction)
        world.send("3")
        world.send("4", transaction=transaction)
    assert world.add().bodies == ["1", "2", "3", "4"]


@ON_DISK
def test_9_3_each_reliability_class_keeps_its_own_order(world: World) -> None:
    for number in NUMBERS:
        world.send(number, delivery_mode=1 + int(number) % 2)
    receiver = world.add()
    for parity in (0, 1):
        assert [body for body in receiver.bodies if int(body) % 2 == parity] == NUMBERS[parity::2]


def test_9_5_what_comes_again_keeps_its_own_order_and_may_come_behind_what_is_new(world: World) -> None:
    receiver = world.add(Recorder(answer=False))
    world.send("1", "2")
    receiver.answer = True
    world.send("3")
    receiver.forget()
    world.queue.redeliver(receiver)
    assert (receiver.bodies, receiver.flags) == (["1", "2"], [True, True])


def test_10_references_sort_by_priority(world: World) -> None:
    receiver = world.add(Recorder(answer=False))
    for priority in (4, 9, 0, 4):
        world.send(str(priority), priority=priority)
    first, nine, zero, second = receiver.received
    assert sorted(receiver.received) == [nine, first, second, zero]


AGED = st.tuples(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(0, 1 << 60), st.text())


@given(st.lists(AGED, max_size=20))
def test_messages_come_by_priority_then_age_then_name(messages: list[tuple[int, int, str]]) -> None:
    ordered = sorted(messages, key=lambda message: order_key(*message))
    for first, second in itertools.pairwise(ordered):
        assert first[0] >= second[0]
        if first[0] == second[0]:
            assert first[1:] <= second[1:]
