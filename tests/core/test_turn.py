"""One thread at a time, and whoever waits gets its turn."""

from __future__ import annotations

import threading
import time

from connector.core.turn import Turn


def test_a_loop_that_holds_it_all_the_time_lets_others_in_between_two_rounds() -> None:
    turn, ending = Turn(), threading.Event()

    def loop() -> None:
        while not ending.is_set():
            with turn:
                time.sleep(0.01)
            turn.give_way()

    thread = threading.Thread(target=loop)
    thread.start()
    waits = []
    for _ in range(10):
        begun = time.monotonic()
        with turn:
            waits.append(time.monotonic() - begun)
    ending.set()
    thread.join()
    assert sorted(waits)[5] < 0.1


def test_only_one_thread_has_it() -> None:
    turn = Turn()
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        for _ in range(200):
            with turn:
                inside.append(1)
                most.append(len(inside))
                inside.pop()
            turn.give_way()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1


def test_the_thread_that_has_it_may_take_it_again() -> None:
    turn = Turn()
    with turn, turn:
        taken = True
    assert taken
