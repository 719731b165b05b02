"""``connector status``: shows whether an application is well, and what its instances do. Changes nothing."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, NamedTuple

import typer

from connector.cli.ask import ask_all
from connector.cli.common import DEFAULT_CONFIG, ConfigOption, JsonOption, answer, answer_json
from connector.cli.tables import ago, span, table
from connector.printable import printable


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
    document = _join(ask_all(config, "/control/status")) or _read(config)
    if json:
        answer_json(document)
    else:
        for line in _text(document, time.time()):
            answer(line)
    if document["provider_failure"] or (check and not document["well"]):
        raise typer.Exit(1)


def _read(config: str) -> dict[str, Any]:
    from connector.cli.deployment import load_for  # slow, and not needed beside a service
    from connector.config.loading import MESSAGES
    from connector.service.assembly import make_provider
    from connector.service.status_document import StatusReader, as_json

    configuration = load_for(config, MESSAGES | {"health", "min_free"})
    return as_json(StatusReader(configuration, make_provider(configuration)).read())


def _join(documents: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """Returns the document of the first instance, with the reasons that others know. None = there is none."""
    joined: dict[str, Any] | None = None
    for document in documents:
        if "inputs" not in document:  # its provider has not answered, so the service knows only that
            continue
        if joined is None:
            joined = document
            continue
        known = {(one["kind"], one["subject"]) for one in joined["reasons"]}
        joined["reasons"] += [
            one for one in document["reasons"] if (one["kind"], one["subject"]) not in known
        ]
        joined["well"] = not joined["reasons"]
    return joined


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
        "failing",
        "failing subscriptions, whose events come again later",
        "",
        _same("subscription", "instance", "since", "failures") | {"last failure": "reason"},
    ),
    _Part(
        "loads",
        "loads that are not well",
        "",  # most applications have no loads
        _same("subscription", "instance", "state", "lot", "attempt", "since", "reason"),
    ),
    _Part(
        "subscriptions",
        "subscriptions, in 5 minutes",
        "",
        _same("subscription")
        | {"called": "calls_5m", "failed": "failed_5m", "last success": "last_success"}
        | {"last failure": "last_failure", "last error": "last_error"},
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
        yield f"  {printable(reason['text'])}"
        since = "" if reason["since"] is None else f"since {_ago(reason['since'], now)}, "
        command, page = reason["next"]
        yield f"    {since}next: {printable(command)} ({page})"
    counts = f"{document['published_5m']:,} published, {document['failed_5m']:,} failed"
    died = document["workers_died_5m"]
    yield f"in 5 minutes: {counts}{f', dead workers: {died:,}' if died else ''}"
    if (waiting := document["error_waiting"]) is not None:
        growth = document["error_growth_5m"]
        yield f"error destination: {waiting:,} messages{f', {growth:+,} in 5 minutes' if growth else ''}"
    if (last := document["last_failure"]) is not None:
        yield f"last failure: {_ago(last['time'], now)}, {last['destination']}: {printable(last['reason'])}"


def _cell(field: str, value: Any, now: float) -> str:
    if field in ("since", "last_good_poll", "last_success", "last_failure"):
        return _ago(value, now)
    if value is None or value == "":
        return "-"
    if field in ("next_due", "last_fired"):
        return str(value or "-")
    if field == "age":
        return span(value)
    if field in ("events", "waiting", "delayed", "calls_5m", "failed_5m"):
        return f"{value:,}"
    return ", ".join(value) if field == "destinations" else str(value)


def _ago(moment: str | None, now: float) -> str:
    """Returns a time in ISO 8601 as a time in the past."""
    return ago(None if moment is None else datetime.datetime.fromisoformat(moment).timestamp(), now)
