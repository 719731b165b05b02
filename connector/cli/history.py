"""``connector history``: shows the life of a message or request. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer

from connector.cli.ask import ask
from connector.cli.common import (
    DEFAULT_CONFIG,
    BadArgument,
    ConfigOption,
    JsonOption,
    answer,
    answer_json,
    note,
)
from connector.cli.tables import table
from connector.printable import printable
from connector.text.iso_time import read_since

_Document = Mapping[str, Any]


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
    asked = {"id": message_id, "key": key, "correlation_id": correlation_id}
    found: Sequence[_Document] | None = ask(config, "/control/history", since=since, **asked)
    if found is None:
        found = _read(config, asked, begin)
    if json:
        for document in found:
            answer_json(document)
    elif all(one is None for one in wanted):
        for line in _table(found, "") if found else ():
            answer(line)
    else:
        for life in found:
            for line in _text(life):
                answer(line)
    if not found and any(one is not None for one in wanted):
        note("the history knows no such message")
    raise typer.Exit(0 if found else 1)


def _read(config: str, asked: Mapping[str, str | None], begin: float) -> Sequence[_Document]:
    from connector.cli.deployment import load_for  # slow, and not needed beside a service
    from connector.service.assembly import make_provider
    from connector.service.places import history_documents

    configuration = load_for(config)
    return history_documents(configuration, make_provider(configuration), since=begin, **asked)


def _text(life: _Document) -> Iterable[str]:
    own = life["id"]
    yield printable(own)
    for origin in life.get("came_from", ()):
        yield printable(f"  came from {origin}")
    for place in life["now"]:
        which = "" if place["id"] == own else f" ({place['id']})"
        yield printable(f"  now: {place['state']} in {place['destination']}{which}")
    if not life["now"]:
        why = life.get("why_gone")
        yield f"  now: in no queue{f': {why}' if why else ''}"
    yield from _table(life["events"], own)


def _table(events: Sequence[_Document], own: str) -> list[str]:
    titles = ("time", "instance", "what", "destination", "object", "details")
    rows = [
        (
            event["time"],
            event["instance"] or "-",
            event["what"].replace("_", " "),
            event.get("destination") or "-",
            ".".join(filter(None, (event.get("object"), event.get("verb")))) or "-",
            "; ".join(_details(event, own)),
        )
        for event in events
    ]
    return table(titles, rows, indent=2)


def _details(event: _Document, own: str) -> Iterable[str]:
    if event["id"] != own:
        yield event["id"]
    if name := event.get("file_name"):
        yield f"file {name}"
    if reason := event.get("reason"):
        yield reason
    if delivered := event.get("delivered"):
        yield f"confirmed by {', '.join(delivered)}"
    if to := event.get("to"):
        yield f"to {to}"
    if sent := event.get("sent"):
        yield f"sent to {', '.join(sent)}"
    if by := event.get("by"):
        yield f"by {by}"
    if due := event.get("due"):
        yield f"due {due}"
