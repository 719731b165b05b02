"""The cost of finding the rule of a message, with 10 rules and with 10,000.

The reference is the same search with 10 rules. ``python -m benchmarks.rules [--runs N] [--count N]``
"""

from __future__ import annotations

import argparse
import statistics
import time

from benchmarks.common import machine, spread
from connector.businessobjects.rules import Rule, StaticMetaObject
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message

FEW, MANY = 10, 10_000
INPUTS = [parse_destination(f"input{number}") for number in range(8)]


def rules(count: int) -> StaticMetaObject:
    """Returns rules by format, by destination and by both. A selector chooses between some of them."""
    made = []
    for number in range(count):
        name = f"Object{number}_Create"
        where = INPUTS[number % len(INPUTS)] if number % 3 else None
        selector = "urgent = TRUE" if number % 5 == 0 else None
        made.append(Rule(name, f"Object{number}", "Create", f"FORMAT{number}", where, {}, selector))
    return StaticMetaObject("MO_Config", made)


def seconds(static: StaticMetaObject, count: int) -> float:
    """Returns the seconds of a search, for messages of all formats, some of them unknown."""
    message = Message()
    message.set_property("urgent", True)
    known = len(static.rules) + len(static.rules) // 10
    begun = time.perf_counter()
    for number in range(count):
        static.only_match(f"FORMAT{number * 7919 % known}", INPUTS[number % len(INPUTS)], message)
    return (time.perf_counter() - begun) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--count", type=int, default=50_000)
    arguments = parser.parse_args()
    print(machine())
    few, many = rules(FEW), rules(MANY)
    found: dict[int, list[float]] = {FEW: [], MANY: []}
    for _ in range(arguments.runs):
        found[FEW].append(seconds(few, arguments.count) * 1e6)
        found[MANY].append(seconds(many, arguments.count) * 1e6)
    for count, times in found.items():
        print(f"{count:>6} rules: {spread(times)} microseconds a message")
    print(f"ratio: {statistics.median(found[MANY]) / statistics.median(found[FEW]):.2f}")


if __name__ == "__main__":
    main()
