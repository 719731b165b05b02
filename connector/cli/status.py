"""``connector status``: shows whether an application is well, and what its instances do. Changes nothing."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, NamedTuple

import typer

from connector.cli.common import DEFAULT_CONFIG, ConfigOption, JsonOption, answer, answer_json
from connector.cli.deployment import load_for
from connector.cli.tables import ago, span, table
from connector.config.loading import MESSAGES
from connector.printable import printable
from connector.service.assembly import make_provider
from connector.service.status_document import StatusReader, as_json
from connector.text.iso_time import iso_time


def status(
    config: ConfigOption = DEFAULT_CONFIG,
    json: JsonOption = False,
    check: Annotated[
        bool, typer.Option("--check", help="Ends with status 1 unless the application is well.")
    ] = False,
) -> None:
    """Shows whether the application is well, its instances, their work, and the messages that wait.

    A worker is shown while it has events. Messages that an input's selector passes over count as waiting.

    Exit status: 0. 1 if the provider cannot be used, or with --check if the application is not well.
    """
    configuration = load_for(config, MESSAGES | {"health", "min_free"})
    document = StatusReader(configuration, make_provider(configuration)).read()
    if json:
        answer_json(as_json(document))
    else:
        for line in _text(document, time.time()):
            answer(line)
    if document["provider_failure"] or (check and not document["well"]):
        raise typer.Exit(1)


def _text(document: Mapping[str, Any], now: float) -> Iterable[str]:
    yield from _health(document, now)
    for part in _PARTS:
        rows = document[part.key]
        if rows:
            yield part.title.format_map(document)
            texts = [[_cell(field, row[field], now) for field in part.columns.values()] for row in rows]
            yield from table(list(part.columns), texts, indent=2)
        elif part.nothing:
            yield f"{part.title.format_map(document)}: {part.nothing}"


class _Part(NamedTuple):
    """A table of the answer.

    Args:
        key: of its rows in the document.
        nothing: stands behind the title if there are no rows. Empty = the part is then left out.
        columns: from their titles to the keys of a row.
    """

    key: str
    title: str
    nothing: str
    columns: Mapping[str, str]


def _same(*names: str) -> dict[str, str]:
    return dict(zip(names, names, strict=True))


_PARTS: Final = (
    _Part(
        "instances",
        "instances of {application}",
        "none runs",
        _same("instance", "host", "pid", "state", "since")
        | {"last good poll": "last_good_poll", "client": "client"},
    ),
    _Part(
        "batches",
        "running batches",
        "none",
        _same("batch", "instance", "events") | {"claimed": "since", "destinations": "destinations"},
    ),
    _Part(
        "workers",
        "workers with events",
        "none",
        _same("pid", "host", "instance", "batch")
        | {"message at work": "message_id", "since": "since", "destination": "destination"},
    ),
    _Part(
        "resting",
        "resting subscriptions",
        "none",
        _same("subscription", "instance", "since") | {"last failure": "reason"},
    ),
    _Part(
        "loads",
        "loads that are not well",
        "",  # most applications have no loads
        _same("subscription", "instance", "state", "lot", "attempt", "since", "reason"),
    ),
    _Part("paused", "paused by operators", "nothing", _same("what", "kind", "since", "by", "reason")),
    _Part(
        "inputs",
        "inputs",
        "none",
        {"destination": "input"} | _same("waiting", "delayed") | {"age of the oldest": "age"},
    ),
    _Part(
        "timers",
        "timers",
        "",  # most applications have no timers
        {"timer": "name", "sends to": "to", "times": "times", "next": "next_due"}
        | {"last": "last_fired", "error": "last_error"},
    ),
)


def _health(document: Mapping[str, Any], now: float) -> Iterable[str]:
    """Yields whether the application is well, why not, and its recent counts."""
    yield f"{document['application']} is {'well' if document['well'] else 'not well'}"
    for reason in document["reasons"]:
        yield f"  {printable(reason.text)}"
    counts = f"{document['published_5m']:,} published, {document['failed_5m']:,} failed"
    died = document["workers_died_5m"]
    yield f"in 5 minutes: {counts}{f', dead workers: {died:,}' if died else ''}"
    if (waiting := document["error_waiting"]) is not None:
        growth = document["error_growth_5m"]
        yield f"error destination: {waiting:,} messages{f', {growth:+,} in 5 minutes' if growth else ''}"
    if (last := document["last_failure"]) is not None:
        yield f"last failure: {ago(last['time'], now)}, {last['destination']}: {printable(last['reason'])}"


def _cell(field: str, value: Any, now: float) -> str:
    if field in ("since", "last_good_poll"):
        return ago(value, now)
    if value is None or value == "":
        return "-"
    if field in ("next_due", "last_fired"):
        return iso_time(value)
    if field == "age":
        return span(value)
    if field in ("events", "waiting", "delayed"):
        return f"{value:,}"
    return ", ".join(value) if field == "destinations" else str(value)
