"""Processes that write down each delivery, before and after it."""

import os
import time


def _write(word, number, event):
    with open(os.environ["DELIVERIES"], "a") as deliveries:
        deliveries.write(f"{word} {number} {event.delivery_count}\n")


def book(thing, event):
    number = thing["Number"]
    _write("begin", number, event)
    if number.startswith("bad"):
        raise ValueError("this one is bad")
    while number.startswith("held") and "HOLD" in os.environ:
        time.sleep(0.1)
    _write("end", number, event)


def answer(question, event):
    book(question, event)
    return question
