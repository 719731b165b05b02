"""Whose turn it is to deliver."""

from __future__ import annotations

import threading
import time

from connector.core.channel_turns import Turns


def test_turns_come_in_the_order_of_asking_for_them() -> None:
    turns, order, started = Turns(lambda: None), [], []

    def take(name: str) -> None:
        started.append(name)
        with turns.mine():
            order.append(name)

    threads = [threading.Thread(target=take, args=(name,)) for name in "ab"]
    with turns.mine():
        for number, thread in enumerate(threads):
            thread.start()
            while len(started) <= number:
                time.sleep(0.001)
            time.sleep(0.02)  # from there it is one step to the queue
    take("me")
    for thread in threads:
        thread.join()
    assert order == ["a", "b", "me"]


def test_who_asks_while_another_delivers_goes_on_and_is_served() -> None:
    delivered: list[int] = []
    turns = Turns(lambda: delivered.append(threading.get_ident()))
    with turns.mine():
        asker = threading.Thread(target=turns.ask)
        asker.start()
        asker.join(10)
        assert not asker.is_alive()
        assert delivered == []
    assert delivered == [threading.get_ident()]


def test_a_turn_may_be_taken_again_within_it() -> None:
    turns = Turns(lambda: None)
    with turns.mine(), turns.mine():
        assert turns.is_mine
    assert not turns.is_mine


def test_a_delivery_that_asks_for_another_gets_it() -> None:
    left = [3]

    def deliver() -> None:
        if left[0]:
            left[0] -= 1
            turns.ask()

    turns = Turns(deliver)
    turns.ask()
    assert left == [0]
    assert not turns.is_mine
