"""``connector history``: shows the life of a message or request. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

import typer

from connector.cli.common import (
    DEFAULT_CONFIG,
    BadArgument,
    ConfigOption,
    JsonOption,
    answer,
    answer_json,
    note,
)
from connector.cli.deployment import load_for
from connector.cli.tables import table
from connector.operate.lives import Life, LifeEvent, find_ids, find_named, read_all, read_life
from connector.printable import printable
from connector.service.assembly import make_provider
from connector.service.places import find_places, find_senders
from connector.text.iso_time import iso_time, read_since


def history(
    message_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="A JMSMessageID, or the name of a file.")
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    correlation_id: Annotated[
        str | None, typer.Option("--correlation-id", metavar="C", help="Messages with this JMSCorrelationID.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="K", help="Messages whose object has this key.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="T", help="Nothing earlier: 30m, 2h, 7d, or 2026-01-31T17:00."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Shows what happened to a message, and to messages that were sent for it, and where they are now.

    The history has every event and request of all instances, as long as history.keep says. With --json each
    message is an object on a separate line. --since alone shows all that happened since then. Exit status 1
    when the history knows nothing.
    """
    wanted = message_id, correlation_id, key
    if all(one is None for one in (*wanted, since)):
        raise BadArgument("expected an ID, --correlation-id, --key or --since")
    if message_id is not None and (correlation_id, key) != (None, None):
        raise BadArgument("an ID with --correlation-id or --key: give one of them")
    try:
        begin = 0.0 if since is None else read_since(since)
    except ValueError as error:
        raise BadArgument(f"--since: {error}") from None
    configuration = load_for(config)
    provider = make_provider(configuration)
    known = provider.existing_state(configuration.connector.application_name).history()
    if all(one is None for one in wanted):
        events = read_all(known, begin)
        _show_events(events, json=json)
        raise typer.Exit(0 if events else 1)
    if message_id is not None:
        ids = find_named(known, message_id, begin)
    else:
        ids = find_ids(known, correlation_id=correlation_id, key=key, since=begin)
    lives = [life for life in (read_life(known, one, begin) for one in ids) if life.events]
    if not lives and message_id is not None:
        lives = find_senders(provider, known, message_id)
    for life in lives:
        _show_life(life, find_places(configuration, provider, life), json=json)
    if not lives:
        note("the history knows no such message")
    raise typer.Exit(0 if lives else 1)


def _show_life(life: Life, places: Sequence[dict[str, str]], *, json: bool) -> None:
    if json:
        answer_json(life.as_dict(places))
        return
    for line in _text(life, places):
        answer(line)


def _text(life: Life, places: Sequence[dict[str, str]]) -> Iterable[str]:
    yield printable(life.id)
    for origin in life.came_from:
        yield printable(f"  came from {origin}")
    for place in places:
        which = "" if place["id"] == life.id else f" ({place['id']})"
        yield printable(f"  now: {place['state']} in {place['destination']}{which}")
    if not places:
        yield f"  now: in no queue{life.why_gone and f': {life.why_gone}'}"
    yield from _table(life.events, life.id)


def _show_events(events: Sequence[LifeEvent], *, json: bool) -> None:
    if json:
        for event in events:
            answer_json(event.as_dict())
    elif events:
        for line in _table(events, ""):
            answer(line)


def _table(events: Sequence[LifeEvent], own: str) -> list[str]:
    titles = ("time", "instance", "what", "destination", "object", "details")
    rows = [
        (
            iso_time(event.row.time),
            event.row.instance or "-",
            event.row.what.replace("_", " "),
            event.row.destination or "-",
            ".".join(filter(None, (event.row.object, event.row.verb))) or "-",
            "; ".join(_details(event, own)),
        )
        for event in events
    ]
    return table(titles, rows, indent=2)


def _details(event: LifeEvent, own: str) -> Iterable[str]:
    row = event.row
    if event.id != own:
        yield event.id
    if event.file_name:
        yield f"file {event.file_name}"
    if row.reason:
        yield row.reason
    if row.delivered:
        yield f"confirmed by {', '.join(row.delivered)}"
    if row.to:
        yield f"to {row.to}"
    if row.sent:
        yield f"sent to {', '.join(row.sent)}"
    if row.by:
        yield f"by {row.by}"
    if row.due:
        yield f"due {iso_time(row.due / 1000)}"
