"""Tables and times for people, in plain text."""

from __future__ import annotations

from collections.abc import Sequence

from connector.printable import printable


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, indent: int = 0) -> list[str]:
    """Returns lines with a column for each title. Control characters are escaped."""
    lines = [list(titles), *([printable(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(titles))]
    return [
        " " * indent + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def ago(since: float | None, now: float) -> str:
    """Returns a time in the past, in seconds since 1970, as one number and unit: ``12 s ago``, or ``-``."""
    if not since:
        return "-"
    return f"{span(now - since)} ago"


def span(seconds: float) -> str:
    """Returns a duration as one number and unit: ``12 s``, ``3 min``."""
    seconds = max(0.0, seconds)
    for limit, unit, divisor in ((120, "s", 1), (7200, "min", 60), (172800, "h", 3600)):
        if seconds < limit:
            return f"{seconds / divisor:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"
