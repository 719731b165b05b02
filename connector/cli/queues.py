"""``connector queues``: lists the destinations with their numbers of messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from connector.cli.common import DEFAULT_CONFIG, ConfigOption, JsonOption, answer, answer_json, note
from connector.cli.deployment import load_for
from connector.cli.subscriptions import info_document, title
from connector.messaging.destination import Destination
from connector.messaging.lot import LotInfo
from connector.messaging.subscription import DestinationInfo
from connector.printable import printable
from connector.service.assembly import make_provider
from connector.service.queues import find_destinations, role_of

_NOT_POLLED: Final = "not polled"
_NUMBERS: Final = ("waiting", "delayed", "in_progress", "processed", "expired", "error")


def queues(config: ConfigOption = DEFAULT_CONFIG, json: JsonOption = False) -> None:
    """Lists queues and topics with the numbers of their messages, and subscriptions and lots below them.

    The messages of a topic are in its subscriptions. The numbers of the topic count messages that are not
    yet distributed. The role of a destination says how the configuration uses the destination. A queue
    without a role is not polled: no input takes messages there. The messages of a lot are in progress, and
    connector lot gives them back when no program comes for them. With --json each destination is an object on
    a separate line. A broker does not list its queues, so these are then the queues of the configuration and
    of lots, and the topics of its inputs with their subscriptions. Only waiting messages of queues are
    counted there.
    """
    configuration = load_for(config)
    provider = make_provider(configuration)
    known = _NUMBERS if provider.capabilities.shows_all else ("waiting",)
    infos = find_destinations(configuration, provider)
    has = {one.destination: role_of(one.destination, configuration) for one in infos}
    if json:
        for info in infos:
            answer_json(_as_document(info, has.get(info.destination), known))
        return
    if not infos:
        note("no destinations yet")
        return
    for line in _table(infos, has, known):
        answer(line)


def _counted(info: DestinationInfo, names: Sequence[str]) -> Sequence[str]:
    """Returns the names of the numbers that are known. A broker does not count messages of a topic."""
    return names if info.destination.is_queue or len(names) == len(_NUMBERS) else ()


def _as_document(info: DestinationInfo, role: str | None, names: Sequence[str]) -> dict[str, Any]:
    known = _counted(info, names)
    return {
        "destination": str(info.destination),
        "kind": info.destination.kind,
        "role": role,
        **{name: getattr(info, name) if name in known else None for name in _NUMBERS},
        "subscriptions": [info_document(one, is_counted=bool(known)) for one in info.subscriptions],
        "lots": [_lot_document(one) for one in info.lots],
    }


def _lot_document(lot: LotInfo) -> dict[str, Any]:
    return {"name": lot.name, "number": lot.number, "messages": lot.messages, "owner": lot.owner or None}


def _table(
    infos: Sequence[DestinationInfo], has: Mapping[Destination, str | None], known: Sequence[str]
) -> list[str]:
    """Returns a line for each destination, and below it a line for each subscription or lot."""
    rows: list[tuple[str, list[str], str]] = []
    for info in infos:
        ours = _counted(info, known)
        cells = [f"{getattr(info, name):,}" if name in ours else "-" for name in _NUMBERS]
        role = has.get(info.destination) or (_NOT_POLLED if info.destination.is_queue else "")
        rows.append((printable(str(info.destination)), cells, role))
        for one in info.subscriptions:
            numbers = (one.waiting, one.delayed, one.in_progress, one.expired, one.error)
            cells = [f"{number:,}" if ours else "-" for number in numbers]
            cells.insert(_NUMBERS.index("processed"), "")
            rows.append((f"  {title(one, is_counted=bool(ours))}", cells, ""))
        for lot in info.lots:
            cells = [f"{lot.messages:,}" if name == "in_progress" else "" for name in _NUMBERS]
            whose = f"of {printable(lot.owner)}" if lot.owner else "without an owner"
            rows.append((f"  lot {lot.number} {printable(lot.name)} ({whose})", cells, ""))
    titles = [name.replace("_", " ") for name in _NUMBERS]
    width = max(len(name) for name in ("destination", *(name for name, _, _ in rows)))
    widths = [max(len(t), *(len(row[n]) for _, row, _ in rows)) for n, t in enumerate(titles)]

    def line(name: str, cells: list[str], role: str) -> str:
        numbers = "".join(f"  {cell:>{size}}" for cell, size in zip(cells, widths, strict=True))
        return f"{name.ljust(width)}{numbers}  {role}".rstrip()

    head = line("destination", titles, "role")
    return [head, "-" * len(head), *(line(*row) for row in rows)]
