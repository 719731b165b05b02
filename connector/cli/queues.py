"""``connector queues``: lists the destinations with their numbers of messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from connector.cli.ask import ask
from connector.cli.common import DEFAULT_CONFIG, ConfigOption, JsonOption, answer, answer_json, note
from connector.printable import printable

_NOT_POLLED: Final = "not polled"
_NUMBERS: Final = ("waiting", "delayed", "in_progress", "processed", "expired", "error")

_Document = Mapping[str, Any]


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
    found: Sequence[_Document] | None = ask(config, "/control/queues")
    if found is None:
        found = _read(config)
    if json:
        for document in found:
            answer_json(document)
        return
    if not found:
        note("no destinations yet")
        return
    for line in _table(found):
        answer(line)


def _read(config: str) -> Sequence[_Document]:
    from connector.cli.deployment import load_for  # slow, and not needed beside a service
    from connector.service.assembly import make_provider
    from connector.service.queue_documents import queue_documents

    configuration = load_for(config)
    return queue_documents(configuration, make_provider(configuration))


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _table(found: Sequence[_Document]) -> list[str]:
    """Returns a line for each destination, and below it a line for each subscription or lot."""
    rows: list[tuple[str, list[str], str]] = []
    for one in found:
        cells = [_number(one[name]) for name in _NUMBERS]
        role = one["role"] or (_NOT_POLLED if one["kind"] == "queue" else "")
        rows.append((printable(one["destination"]), cells, role))
        for subscription in one["subscriptions"]:
            cells = ["" if name == "processed" else _number(subscription[name]) for name in _NUMBERS]
            rows.append((f"  {_title(subscription)}", cells, ""))
        for lot in one["lots"]:
            cells = [_number(lot["messages"]) if name == "in_progress" else "" for name in _NUMBERS]
            whose = f"of {printable(lot['owner'])}" if lot["owner"] else "without an owner"
            rows.append((f"  lot {lot['number']} {printable(lot['name'])} ({whose})", cells, ""))
    titles = [name.replace("_", " ") for name in _NUMBERS]
    width = max(len(name) for name in ("destination", *(name for name, _, _ in rows)))
    widths = [max(len(t), *(len(row[n]) for _, row, _ in rows)) for n, t in enumerate(titles)]

    def line(name: str, cells: list[str], role: str) -> str:
        numbers = "".join(f"  {cell:>{size}}" for cell, size in zip(cells, widths, strict=True))
        return f"{name.ljust(width)}{numbers}  {role}".rstrip()

    head = line("destination", titles, "role")
    return [head, "-" * len(head), *(line(*row) for row in rows)]


def _title(subscription: _Document) -> str:
    words = [printable(subscription["subscription"]) or "(unnamed)"]
    if subscription["client_id"]:
        words.append(f"of {printable(subscription['client_id'])}")
    details = ["durable" if subscription["durable"] else "not durable"]
    if subscription["shared"]:
        details.append("shared")
    if subscription["no_local"]:
        details.append("no local messages")
    if subscription["selector"]:
        details.append(printable(subscription["selector"]))
    if (consumers := subscription["consumers"]) is not None:
        details.append(f"{consumers} consumer{'s' * (consumers != 1)}")
    return f"{' '.join(words)} ({', '.join(details)})"
