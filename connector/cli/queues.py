"""``connector queues``: every destination, and how many messages are where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from connector.cli.common import (
    DEFAULT_CONFIG,
    ConfigOption,
    JsonOption,
    answer,
    answer_json,
    note,
    printable,
)
from connector.cli.subscriptions import info_document, title
from connector.config.loading import load
from connector.messaging.provider import DestinationInfo
from connector.parts import make_provider

_NUMBERS: Final = ("waiting", "in_progress", "processed", "expired", "error")


def queues(config: ConfigOption = DEFAULT_CONFIG, json: JsonOption = False) -> None:
    """Lists queues and topics with the numbers of their messages, and the subscriptions of the topics.

    The messages of a topic are those of its subscriptions; its own are not yet distributed. With --json each
    destination is an object on a line of its own.
    """
    infos = make_provider(load(config)).existing().destinations()
    if json:
        for info in infos:
            answer_json(_as_document(info))
        return
    if not infos:
        note("no destinations yet")
        return
    for line in _table(infos):
        answer(line)


def _as_document(info: DestinationInfo) -> dict[str, Any]:
    return {
        "destination": str(info.destination),
        "kind": info.destination.kind,
        **{name: getattr(info, name) for name in _NUMBERS},
        "subscriptions": [info_document(one) for one in info.subscriptions],
    }


def _table(infos: Sequence[DestinationInfo]) -> list[str]:
    """A line a destination, and below a topic one for each of its subscriptions."""
    rows: list[tuple[str, list[str]]] = []
    for info in infos:
        rows.append((printable(str(info.destination)), [f"{getattr(info, name):,}" for name in _NUMBERS]))
        for one in info.subscriptions:
            cells = [f"{number:,}" for number in (one.waiting, one.in_progress, one.expired, one.error)]
            cells.insert(_NUMBERS.index("processed"), "")
            rows.append((f"  {title(one)}", cells))
    titles = [name.replace("_", " ") for name in _NUMBERS]
    width = max(len(name) for name in ("destination", *(name for name, _ in rows)))
    widths = [max(len(t), *(len(row[n]) for _, row in rows)) for n, t in enumerate(titles)]

    def line(name: str, cells: list[str]) -> str:
        numbers = "".join(f"  {cell:>{size}}" for cell, size in zip(cells, widths, strict=True))
        return (name.ljust(width) + numbers).rstrip()

    head = line("destination", titles)
    return [head, "-" * len(head), *(line(name, cells) for name, cells in rows)]
