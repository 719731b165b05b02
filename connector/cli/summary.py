"""The summary at the end of a run: a table for people, a document for programs."""

from __future__ import annotations

import sys

from connector.events.summary import Summary

_COLUMNS = (
    ("claimed", "claimed"),
    ("published", "published"),
    ("unsubscribed", "unsubscribed"),
    ("failed", "in error"),
    ("duplicates", "duplicate"),
    ("expired", "expired"),
    ("in_doubt", "in doubt"),
    ("discarded", "no copy kept"),
)
_MAX_REASONS = 10


def print_summary(summary: Summary, *, as_json: bool) -> None:
    """Prints to stdout."""
    if as_json:
        import orjson

        sys.stdout.flush()
        sys.stdout.buffer.write(orjson.dumps(summary.as_dict()) + b"\n")
        sys.stdout.flush()
        return
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    table = Table("destination", show_edge=False, pad_edge=False)
    total = summary.total.as_dict()
    shown = [(key, title) for key, title in _COLUMNS if total[key] or key in ("claimed", "published")]
    for _, title in shown:
        table.add_column(title, justify="right")
    for name, counts in summary.destinations.items():
        numbers = counts.as_dict()
        table.add_row(name, *(str(numbers[key]) for key, _ in shown))
    if len(summary.destinations) > 1:
        table.add_section()
        table.add_row("all", *(str(total[key]) for key, _ in shown))
    console.print(table)
    for (destination, kind), reasons in summary.reasons.items():
        console.print(f"\n{kind} from {destination}:", markup=False)
        for reason, count in list(reasons.items())[:_MAX_REASONS]:
            console.print(f"  {count} x {reason}", markup=False, soft_wrap=True)
        if len(reasons) > _MAX_REASONS:
            console.print(f"  ... and {len(reasons) - _MAX_REASONS} other reasons")
