"""``connector errors``: groups the messages in error by their reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

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
    read_destination,
)
from connector.cli.tables import table
from connector.printable import printable

if TYPE_CHECKING:
    from connector.config.loading import Configuration
    from connector.messaging.destination import Destination
    from connector.messaging.message import Message


def errors(
    destination: Annotated[
        str, typer.Argument(metavar="[DEST]", help="A queue. Left out: the error destinations.")
    ] = "",
    config: ConfigOption = DEFAULT_CONFIG,
    json: JsonOption = False,
) -> None:
    """Shows why messages are in the error queue. Messages with alike reasons are one group.

    Takes nothing. Loads that have stopped are named on standard error. Reasons that differ in numbers, ids
    and quoted values only are alike, and the last one is shown. The id of a group is a choice of connector
    replay, move and discard. With --json each group is an object on a separate line. Exit status 1 when a
    message cannot be read.
    """
    found = ask(config, "/control/errors", destination=destination or None, whole="yes")
    if found is None:
        found = _read(config, destination)
    for one in found["unreadable"]:
        _tell_unreadable(one["id"], one["source"], one["reason"])
    groups = found["groups"]
    if json:
        for group in groups:
            answer_json(group)
    else:
        for line in _table(groups):
            answer(line)
        count = sum(group["count"] for group in groups)
        note(f"{count:,} message{'s' * (count != 1)} in {', '.join(found['sources'])}")
    for row in found["stopped"]:
        note(f"the load of {printable(row['subscription'])} has stopped: {printable(row['reason'])}")
    raise typer.Exit(1 if found["unreadable"] else 0)


def _read(config: str, destination: str) -> dict[str, Any]:
    from connector.cli.deployment import load_for  # slow, and not needed beside a service
    from connector.service.assembly import make_provider
    from connector.service.error_document import error_document

    configuration = load_for(config)
    sources = sources_of(destination, configuration)
    return error_document(configuration, make_provider(configuration), sources)


class Unreadable:
    """Names the messages of a queue that cannot be read, and counts them."""

    def __init__(self, source: Destination) -> None:
        self.count = 0
        self.source = source

    def __call__(self, message: Message, reason: str) -> None:
        self.count += 1
        _tell_unreadable(message.message_id or "", str(self.source), reason)


def _tell_unreadable(identity: str, source: str, reason: str) -> None:
    name = printable(identity or "a message")
    note(f"connector: {name} in {source} cannot be read: {printable(reason)}")


def sources_of(text: str, configuration: Configuration) -> Sequence[Destination]:
    """Returns the queue that an argument names. An empty text is every error destination, also of inputs.

    Raises:
        BadArgument: the argument names no queue, or is empty and there is no ErrorDestination.
    """
    errors = configuration.connector.copies.errors
    from connector.service.queues import roles  # slow, and not needed beside a service

    if text.casefold() == "all" and read_destination(text, configuration) not in roles(configuration):
        raise BadArgument(
            f"DEST {text}: left out, DEST is every error destination; a queue of that name is queue://{text}"
        )
    found = (read_destination(text, configuration),) if text else errors
    if not found:
        raise BadArgument(
            "DEST: expected a queue, because the configuration has no ErrorDestination. A message that fails "
            "is settled without a copy; connector history --since 7d shows which have failed, and why"
        )
    queues = [one for one in found if one.is_queue]
    if not queues:
        raise BadArgument(f"{found[0]}: a topic keeps no messages; see connector queues")
    return queues


_TITLES = ("group", "count", "kind", "last", "objects", "reason")


def _table(groups: Sequence[Mapping[str, Any]]) -> list[str]:
    if not groups:
        return []
    rows = [
        (
            one["group"] or "-",
            f"{one['count']:,}",
            one["kind"] or "-",
            one["last"] or "-",
            ", ".join(one["objects"]) or "-",
            one["text"] or "-",
        )
        for one in groups
    ]
    return table(_TITLES, rows)
