"""The summary at the end of a run: a table for people, a document for programs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, Final

from connector import own_files
from connector.cli.common import BadArgument, answer, answer_bytes, answer_json, note
from connector.cli.hints import command_line
from connector.events.summary import EventCounts, Summary
from connector.log import is_json
from connector.messaging.copy_destinations import CopyDestinations
from connector.messaging.destination import Destination
from connector.printable import printable
from connector.status import OutcomeKind, timestamp
from connector.text.names import cut

_ALWAYS: Final = 6
_COLUMNS: Final = (
    ("claimed", "claimed"),
    ("published", "published"),
    ("archived", "archived"),
    ("failed", "in error"),
    ("unsubscribed", "unsubscribed"),
    ("duplicates", "duplicate"),
    ("expired", "expired"),
    ("in_doubt", "in doubt"),
    ("later", "later"),
    ("discarded", "no copy kept"),
)
_REASONS: Final = {
    OutcomeKind.FAILED: "In error",
    OutcomeKind.UNSUBSCRIBED: "Unsubscribed",
    OutcomeKind.IN_DOUBT: "In doubt",
    OutcomeKind.LATER: "Later",
}
_NEXT: Final = (OutcomeKind.FAILED, OutcomeKind.UNSUBSCRIBED, OutcomeKind.PUBLISHED)
_MAX_REASONS: Final = 10
_MAX_LISTED: Final = 20
_MAX_LENGTH: Final = 300


def print_summary(summary: Summary, *, as_json: bool) -> None:
    """Prints to stdout: the JSON document, or a table, or with a JSON log a line like those of the log."""
    if as_json:
        answer_bytes(_document(summary))
        return
    if is_json():
        answer_json(_line(summary))
        return
    for line in [*_table(summary), *_reasons(summary)]:
        answer(line)


def print_next(summary: Summary, copies: CopyDestinations, config: str) -> None:
    """Writes to stderr which command shows what became of the messages, or why there were none."""
    counts = summary.total.as_dict()
    for number, destination in (
        *((counts[kind], _copy_of(kind, summary, copies)) for kind in _NEXT),
        (not counts["claimed"], None),
    ):
        if number:
            if destination is not None and not destination.is_queue:
                return
            command = "queues" if destination is None else f"browse {shlex.quote(destination.name)}"
            note(f"next: {printable(command_line(command, config))}")
            return


def _copy_of(kind: OutcomeKind, summary: Summary, copies: CopyDestinations) -> Destination | None:
    """Returns where copies of the first destination with such an outcome went."""
    ended = [name for name, counts in summary.destinations.items() if getattr(counts, kind)]
    named = next((one for one in copies.inputs if ended and str(one.destination) == ended[0]), None)
    return copies.of(kind, named)


def write_summary(summary: Summary, path: Path) -> None:
    """Writes the JSON document to a file."""
    try:
        with open(path, "wb", opener=own_files.opener) as file:
            file.write(_document(summary))
    except OSError as error:
        raise BadArgument(f"--summary {path}: {error.strerror}") from None


def _document(summary: Summary) -> bytes:
    import orjson

    return orjson.dumps(summary.as_dict()) + b"\n"


def _line(summary: Summary) -> dict[str, Any]:
    """Returns the content of the table, with the fields that every line of a JSON log has."""
    document = summary.as_dict()
    del document["events"]
    return {
        "event": "summary",
        "level": "info",
        "logger": "connector.run",
        **document,
        "reasons": _frequent(summary),
        "timestamp": timestamp(),
    }


def _frequent(summary: Summary) -> list[dict[str, Any]]:
    """Returns the reasons of each destination and outcome, the most frequent reason of all first."""
    found = [
        {"destination": name, "outcome": kind, "reason": reason, "number": number}
        for (name, kind), reasons in summary.reasons.items()
        for reason, number in list(reasons.items())[:_MAX_LISTED]
    ]
    return sorted(found, key=lambda one: -one["number"])


def _table(summary: Summary) -> list[str]:
    """Returns a line for each destination. Rare outcomes have a column only if there are such events."""
    total = summary.total
    columns = [
        (key, title)
        for number, (key, title) in enumerate(_COLUMNS)
        if number < _ALWAYS or getattr(total, key)
    ]
    rows = list(summary.destinations.items())
    width = max(len(name) for name in ("destination", *(name for name, _ in rows)))

    def row(name: str, counts: EventCounts) -> str:
        return name.ljust(width) + "".join(
            f"  {getattr(counts, key):>{len(title)},}" for key, title in columns
        )

    head = "destination".ljust(width) + "".join(f"  {title}" for _, title in columns)
    rule = "-" * len(head)
    lines = [head, rule, *(row(printable(name), counts) for name, counts in rows)]
    return [*lines, rule, row("all", total)] if len(rows) > 1 else lines


def _reasons(summary: Summary) -> list[str]:
    """Returns the reasons of messages that were not published, the most frequent reason first."""
    lines: list[str] = []
    for kind, title in _REASONS.items():
        found = [(name, reasons) for (name, of), reasons in summary.reasons.items() if of == kind]
        if found:
            lines.extend(("", f"{title}:"))
        for name, reasons in found:
            for reason, count in list(reasons.items())[:_MAX_REASONS]:
                text = cut(printable(" ".join(reason.split())), _MAX_LENGTH)
                lines.append(f"  {count} x {printable(name)}: {text}")
            if len(reasons) > _MAX_REASONS:
                lines.append(f"  ... and other reasons from {printable(name)}")
    return lines
