"""Time to find the life of one message, or the messages of a key, among many events.

As rows of many events, and as a row for each event (as with PollQuantity 1 or messages sent on).
``python -m benchmarks.history [--events N] [--postgresql URL]``
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.common import machine, scratch
from connector.messaging.history import History, HistoryRow
from connector.operate.lives import find_ids, read_life
from connector.state.history_files import HistoryFiles

_DAYS = 7


def fill(history: History, events: int, in_a_row: int) -> None:
    """Appends events, spread over the last week."""
    now = time.time()
    rows = []
    for first in range(0, events, in_a_row):
        numbers = range(first, min(first + in_a_row, events))
        rows.append(
            HistoryRow(
                time=now - _DAYS * 86400 * (1 - first / events),
                what="published",
                ids=[f"ID:1795720002489982-hoj2on4t3djzs-{number}" for number in numbers],
                instance="one",
                client="hoj2on4t3djzs",
                batch=first,
                destination="queue://orders",
                object="Order",
                verb="Create",
                to="queue://archive",
                sequences=list(range(len(numbers))),
                notes=[f"K{number}" for number in numbers],
            )
        )
        if len(rows) == 5000:
            append(history, rows)
            rows = []
    append(history, rows)


def append(history: History, rows: list[HistoryRow]) -> None:
    """Appends rows, those of each day together."""
    for day in sorted({row.time // 86400 for row in rows}):
        history.append([row for row in rows if row.time // 86400 == day])


def measure(history: History, events: int) -> tuple[float, float]:
    """Returns the times to find a message by its id and by its key."""
    middle = events // 2
    identity = f"ID:1795720002489982-hoj2on4t3djzs-{middle}"
    return (
        seconds(lambda: read_life(history, identity).events),
        seconds(lambda: find_ids(history, key=f"K{middle}")),
    )


def seconds(look: Callable[[], object]) -> float:
    """Returns the shortest of three times."""
    found = []
    for _ in range(3):
        began = time.perf_counter()
        assert look()
        found.append(time.perf_counter() - began)
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--postgresql", help="the URL of an empty database")
    arguments = parser.parse_args()
    print(machine())
    for in_a_row in (1000, 1):
        with scratch() as directory:
            histories: dict[str, History] = {"files": HistoryFiles(str(directory))}
            if arguments.postgresql:
                histories["PostgreSQL"] = of_database(arguments.postgresql, f"b{in_a_row}")
            for name, history in histories.items():
                fill(history, arguments.events, in_a_row)
                by_id, by_key = measure(history, arguments.events)
                size = sum(one.stat().st_size for one in Path(directory).rglob("*") if one.is_file())
                print(
                    f"{name}, {in_a_row} events a row: by id {by_id:.2f} s, by key {by_key:.2f} s, "
                    f"{size / arguments.events:.0f} bytes an event in files"
                )


def of_database(url: str, application: str) -> History:
    """Returns a history in PostgreSQL."""
    from connector.stores.sql.database import Settings
    from connector.stores.sql.provider import SqlProvider

    return SqlProvider(Settings(url)).state(application).history()


if __name__ == "__main__":
    main()
