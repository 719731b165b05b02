"""Processes that write down each delivery, before and after it."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # version 0.2.0 runs this file, too
    from connector.businessobjects.instance import BusinessObject
    from connector.sinks.contract import Event


def _write(word: str, number: str, event: Event) -> None:
    with open(os.environ["DELIVERIES"], "a") as deliveries:
        deliveries.write(f"{word} {number} {event.delivery_count}\n")


def book(thing: BusinessObject, event: Event) -> None:
    number = str(thing["Number"])
    _write("begin", number, event)
    if number.startswith("bad"):
        raise ValueError("this one is bad")
    if number.startswith("held") and "HOLD" in os.environ:
        threading.Event().wait()  # its adapter is killed now
    _write("end", number, event)


def answer(question: BusinessObject, event: Event) -> BusinessObject:
    book(question, event)
    return question
