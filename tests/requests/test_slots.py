"""Slots: first come, first served, each granted once."""

from __future__ import annotations

import threading
from concurrent.futures import Future

from connector.requests.slots import Slots


def test_waiters_are_granted_a_slot_in_the_order_of_asking() -> None:
    slots = Slots(1)
    assert slots.acquire().done()
    granted: list[int] = []
    for number in range(3):
        slots.acquire().add_done_callback(lambda _, number=number: granted.append(number))  # type: ignore[misc]
    assert (granted, slots.waiting) == ([], 3)
    for _ in range(3):
        slots.release()
    assert (granted, slots.waiting) == ([0, 1, 2], 0)


def test_nobody_overtakes_those_who_wait() -> None:
    slots = Slots(2)
    first, second, third, fourth = [slots.acquire() for _ in range(4)]
    slots.release()
    late = slots.acquire()
    assert [slot.done() for slot in (first, second, third, fourth, late)] == [True, True, True, False, False]


def test_a_cancelled_waiter_has_no_slot_and_keeps_none_from_the_next() -> None:
    slots = Slots(1)
    slots.acquire()
    first, second = slots.acquire(), slots.acquire()
    assert first.cancel()
    assert slots.waiting == 1
    slots.release()
    assert second.done()
    assert not second.cancel()
    assert slots.used == 1


def test_closed_slots_cancel_all_who_wait_and_all_who_come() -> None:
    slots = Slots(1)
    granted, waiting = slots.acquire(), slots.acquire()
    slots.close()
    assert [slot.cancelled() for slot in (granted, waiting, slots.acquire())] == [False, True, True]
    assert not slots.wait_until_unused(0.0)
    slots.release()
    assert slots.wait_until_unused(1.0)


def test_never_more_have_a_slot_than_there_are_and_each_has_one_once() -> None:
    slots = Slots(3)
    lock = threading.Lock()
    granted: list[int] = []
    most = inside = 0

    def count(number: int, slot: Future[None]) -> None:
        nonlocal most, inside
        with lock:
            granted.append(number)
            inside += 1
            most = max(most, inside)

    def ask(number: int) -> None:
        nonlocal inside
        slot = slots.acquire()
        slot.add_done_callback(lambda slot: count(number, slot))
        slot.result(120)
        with lock:
            inside -= 1
        slots.release()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(granted) == list(range(200))
    assert most <= 3
    assert slots.wait_until_unused(1.0)
