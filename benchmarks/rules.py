"""The cost of finding the rule of a message, with 10 rules and with 10,000.

Rules are found by formats and destinations, by selectors that ask for a text, or by expressions that do so.
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


def by_keys(number: int) -> Rule:
    """Returns a rule by format, by destination or by both. A selector chooses between some of them."""
    where = INPUTS[number % len(INPUTS)] if number % 3 else None
    selector = "urgent = TRUE" if number % 5 == 0 else None
    return Rule(f"O{number}_Create", f"O{number}", "Create", f"F{number}", where, {}, selector)


def by_selector(number: int) -> Rule:
    selector = f"kind = 'F{number}' AND urgent = TRUE"
    return Rule(f"O{number}_Create", f"O{number}", "Create", selector=selector)


def by_expression(number: int) -> Rule:
    return Rule(f"O{number}_Create", f"O{number}", "Create", jmespath=f"order.kind == 'F{number}'")


def seconds(static: StaticMetaObject, count: int) -> float:
    """Returns the seconds of a search, for messages of all kinds, some of them unknown."""
    known = len(static.rules) + len(static.rules) // 10
    begun = time.perf_counter()
    for number in range(count):
        kind = f"F{number * 7919 % known}"
        message = Message(b'{"order": {"kind": "%s"}}' % kind.encode())
        message.set_property("urgent", True)
        message.set_property("kind", kind)
        static.only_match(kind, INPUTS[number % len(INPUTS)], message)
    return (time.perf_counter() - begun) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--count", type=int, default=50_000)
    arguments = parser.parse_args()
    print(machine())
    for make in (by_keys, by_selector, by_expression):
        few, many = (StaticMetaObject("MO", [make(n) for n in range(count)]) for count in (FEW, MANY))
        for static in (few, many):
            seconds(static, 2 * len(static.rules))  # compiles the conditions
        found: dict[int, list[float]] = {FEW: [], MANY: []}
        for _ in range(arguments.runs):
            found[FEW].append(seconds(few, arguments.count) * 1e6)
            found[MANY].append(seconds(many, arguments.count) * 1e6)
        print(make.__name__)
        for count, times in found.items():
            print(f"{count:>6} rules: {spread(times)} microseconds a message")
        print(f"ratio: {statistics.median(found[MANY]) / statistics.median(found[FEW]):.2f}")


if __name__ == "__main__":
    main()
