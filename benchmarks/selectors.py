"""Evaluations a second of message selectors, beside predicates written by hand in Python.

The predicates ask the same message for the same, and heed a missing property, as somebody would who
writes one for this purpose only. ``python -m benchmarks.selectors [--runs N] [--count N]``
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

from benchmarks.common import machine, spread
from connector.messaging.message import Message
from connector.messaging.selector import compile_selector

Predicate = Callable[[Message], bool]


def by_region(message: Message) -> bool:
    return message.properties.get("region") == "EU"


def by_rank(message: Message) -> bool:
    quantity = message.properties.get("quantity")
    return message.priority >= 4 and isinstance(quantity, int) and 10 <= quantity <= 500


def by_customer(message: Message) -> bool:
    properties = message.properties
    kind, customer = message.type, properties.get("customer")
    return (
        (kind == "ORDER" or kind == "ORDER_V2")
        and isinstance(customer, str)
        and customer.startswith("ACME-")
        and properties.get("test") is None
    )


def by_value(message: Message) -> bool:
    price, quantity = message.properties.get("price"), message.properties.get("quantity")
    if not (isinstance(price, float) and isinstance(quantity, int)) or price * quantity <= 1000:
        return False
    return message.properties.get("region") not in (None, "US")


CASES: dict[str, Predicate] = {
    "region = 'EU'": by_region,
    "JMSPriority >= 4 AND quantity BETWEEN 10 AND 500": by_rank,
    "JMSType IN ('ORDER', 'ORDER_V2') AND customer LIKE 'ACME-%' AND test IS NULL": by_customer,
    "price * quantity > 1000 AND NOT region = 'US'": by_value,
}


def messages() -> list[Message]:
    """Half of them match; a few lack what is asked for."""
    made = []
    for number in range(64):
        message = Message(priority=4 + number % 2, type="ORDER" if number % 4 else "INVOICE")
        message.set_property("region", "EU" if number % 2 else "US")
        message.set_property("customer", f"ACME-{number}" if number % 3 else f"OTHER-{number}")
        if number % 8:
            message.set_property("quantity", number * 20)
            message.set_property("price", 2.5 * number)
        made.append(message)
    return made


def rate(predicate: Predicate, sample: list[Message], count: int) -> float:
    """Millions of evaluations a second."""
    rounds = range(max(1, count // len(sample)))
    started = time.perf_counter()
    for _ in rounds:
        for message in sample:
            predicate(message)
    return len(rounds) * len(sample) / (time.perf_counter() - started) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--count", type=int, default=200_000)
    arguments = parser.parse_args()
    print(machine())
    sample = messages()
    for text, by_hand in CASES.items():
        selector = compile_selector(text)
        assert [selector.matches(message) for message in sample] == [by_hand(message) for message in sample]
        ours, theirs = [], []
        for _ in range(arguments.runs):
            ours.append(rate(selector.matches, sample, arguments.count))
            theirs.append(rate(by_hand, sample, arguments.count))
        ratio = statistics.median(hand / own for hand, own in zip(theirs, ours, strict=True))
        print(
            f"{text}\n  selector {spread(ours, 2)} million a second, by hand {spread(theirs, 2)}, "
            f"time over time {ratio:.2f}"
        )


if __name__ == "__main__":
    main()
