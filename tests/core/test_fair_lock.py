"""The lock of sessions and channels: one thread at a time, and the one that has waited longest."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from connector.core.fair_lock import FairLock
from tests.waiting import beside, wait_for


def wait_until_line_is(lock: FairLock, length: int) -> None:
    """Waits until so many threads wait for the lock."""
    wait_for(lambda: len(lock._waiting) == length)  # nothing else shows it


def test_a_loop_that_holds_it_all_the_time_lets_another_in_after_its_round() -> None:
    lock, rounds = FairLock(), [0]
    first_round, ending = threading.Event(), threading.Event()

    def loop() -> None:
        while not ending.is_set():
            with lock:
                rounds[0] += 1
                first_round.set()
                wait_for(lambda: lock._waiting or ending.is_set())

    looping = beside(loop)
    assert first_round.wait(120)
    for passed in range(1, 21):
        with lock:
            assert rounds[0] == passed
            wait_until_line_is(lock, 1)  # the loop comes for its next round
            if passed == 20:
                ending.set()
        wait_for(lambda passed=passed: rounds[0] > passed)  # type: ignore[misc]
    looping.result(120)


def test_threads_get_it_in_the_order_of_asking_but_the_one_that_has_it_may_take_it_again() -> None:
    lock = FairLock()
    order: list[str] = []

    def take(name: str) -> None:
        with lock:
            order.append(name)

    with ThreadPoolExecutor() as pool, lock:
        for number, name in enumerate("abc", 1):
            pool.submit(take, name)
            wait_until_line_is(lock, number)
        take("mine")
        assert lock.try_acquire()
        lock.release()
        inside = lock.is_mine
    assert (inside, lock.is_mine) == (True, False)
    assert order == ["mine", "a", "b", "c"]


def test_only_one_thread_has_it() -> None:
    """Who does not want to wait gets it only where it is free."""
    lock = FairLock()
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        for number in range(300):
            if number % 3:
                lock.__enter__()
            elif not lock.try_acquire():
                continue
            inside.append(1)
            most.append(len(inside))
            inside.pop()
            lock.release()

    with ThreadPoolExecutor(4) as pool:
        for thread in [pool.submit(work) for _ in range(4)]:
            thread.result()
        assert max(most) == 1
        with lock:
            assert pool.submit(lock.try_acquire).result() is False
        assert pool.submit(lock.try_acquire).result() is True


def test_a_wait_that_is_interrupted_keeps_nobody_out() -> None:
    lock, held, done = FairLock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait(120)

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    holder = beside(hold)
    held.wait(120)
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt), lock:
            pass
    finally:
        signal.signal(signal.SIGALRM, before)
    done.set()
    holder.result(120)
    assert lock.try_acquire()
