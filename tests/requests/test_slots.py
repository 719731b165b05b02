"""Slots: first come, first served, each by one call back."""

from __future__ import annotations

import threading
from collections import Counter

from connector.requests.slots import SlotRequest, Slots


def test_who_waits_is_called_once_and_in_turn_when_it_has_a_slot() -> None:
    slots = Slots(1)
    assert slots.try_take()
    called: list[tuple[int, bool]] = []
    for number in range(3):
        slots.queue(lambda waiter, number=number: called.append((number, waiter.has_slot)))
    assert called == []
    for _ in range(3):
        slots.release()
    assert called == [(0, True), (1, True), (2, True)]


def test_who_finds_a_free_slot_is_called_at_once() -> None:
    called: list[SlotRequest] = []
    waiter = Slots(1).queue(called.append)
    assert called == [waiter]
    assert waiter.has_slot


def test_nobody_overtakes_those_who_wait() -> None:
    slots = Slots(2)
    slots.try_take()
    slots.try_take()
    slots.queue(lambda _: None)
    assert not slots.try_take()


def test_who_waits_no_more_has_no_slot_and_keeps_none_from_the_next() -> None:
    slots = Slots(1)
    slots.try_take()
    called: list[str] = []
    first = slots.queue(lambda _: called.append("first"))
    slots.queue(lambda _: called.append("second"))
    assert slots.cancel(first)
    slots.release()
    assert called == ["second"]
    assert slots.used == 1


def test_whoever_asks_while_slots_come_free_is_called_once_and_never_more_have_one_than_there_are() -> None:
    slots = Slots(3)
    calls: Counter[int] = Counter()
    lock = threading.Lock()
    most = inside = 0

    def ask(number: int) -> None:
        nonlocal inside
        done = threading.Event()

        def granted(waiter: SlotRequest) -> None:
            nonlocal most, inside
            assert waiter.has_slot
            with lock:
                calls[number] += 1
                inside += 1
                most = max(most, inside)
            done.set()

        slots.queue(granted)
        done.wait(10)
        with lock:
            inside -= 1
        slots.release()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(calls.values()) == {1}
    assert len(calls) == 200
    assert most <= 3
    assert slots.wait_until_unused(1.0)
