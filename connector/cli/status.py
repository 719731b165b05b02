"""``connector status``: shows whether an application is well, and what its instances do. Changes nothing."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer

from connector.cli.common import DEFAULT_CONFIG, ConfigOption, JsonOption, answer, answer_json
from connector.cli.deployment import load_for
from connector.cli.tables import ago, span, table
from connector.config.loading import MESSAGES
from connector.printable import printable
from connector.service.assembly import make_provider
from connector.service.status_document import StatusReader, as_json


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
    yield from _part(
        f"instances of {document['application']}",
        "none runs",
        ("instance", "host", "pid", "state", "since", "last good poll", "client"),
        [
            (
                row["instance"],
                _cell(row["host"]),
                _cell(row["pid"]),
                row["state"],
                ago(row["since"], now),
                ago(row["last_good_poll"], now),
                _cell(row["client"]),
            )
            for row in document["instances"]
        ],
    )
    yield from _part(
        "running batches",
        "none",
        ("batch", "instance", "events", "claimed", "destinations"),
        [
            (
                str(row["batch"]),
                row["instance"],
                f"{row['events']:,}",
                ago(row["since"], now),
                ", ".join(row["destinations"]),
            )
            for row in document["batches"]
        ],
    )
    yield from _part(
        "workers with events",
        "none",
        ("pid", "host", "instance", "batch", "message at work", "since", "destination"),
        [
            (
                _cell(row["pid"]),
                _cell(row["host"]),
                row["instance"],
                str(row["batch"]),
                _cell(row["message_id"]),
                ago(row["since"], now),
                _cell(row["destination"]),
            )
            for row in document["workers"]
        ],
    )
    yield from _part(
        "resting subscriptions",
        "none",
        ("subscription", "instance", "since", "last failure"),
        [
            (row["subscription"], row["instance"], ago(row["since"], now), row["reason"])
            for row in document["resting"]
        ],
    )
    if document["loads"]:  # most applications have none
        yield from _part(
            "loads that are not well",
            "none",
            ("subscription", "instance", "state", "lot", "attempt", "since", "reason"),
            [
                (
                    row["subscription"],
                    row["instance"],
                    row["state"],
                    _cell(row["lot"]),
                    str(row["attempt"]),
                    ago(row["since"], now),
                    row["reason"],
                )
                for row in document["loads"]
            ],
        )
    yield from _part(
        "paused by operators",
        "nothing",
        ("what", "kind", "since", "by", "reason"),
        [
            (row["what"], row["kind"], ago(row["since"], now), row["by"], _cell(row["reason"]))
            for row in document["paused"]
        ],
    )
    yield from _part(
        "inputs",
        "none",
        ("destination", "waiting", "delayed", "age of the oldest"),
        [
            (
                row["destination"],
                f"{row['waiting']:,}",
                f"{row['delayed']:,}",
                span(row["age"]) if row["age"] is not None else "-",
            )
            for row in document["inputs"]
        ],
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


def _part(title: str, nothing: str, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterable[str]:
    if not rows:
        yield f"{title}: {nothing}"
        return
    yield title
    yield from table(titles, rows, indent=2)


def _cell(value: object) -> str:
    return "-" if value is None or value == "" else str(value)
