"""``connector errors``: groups the messages in error by their reasons."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
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
    read_destination,
)
from connector.cli.deployment import load_for
from connector.cli.tables import table
from connector.config.loading import Configuration
from connector.errors import UnknownDestination
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.roles import Browsing
from connector.operate.errors import ErrorGroup, error_groups
from connector.printable import printable
from connector.service.assembly import make_provider
from connector.service.status_document import stopped_loads


def errors(
    destination: Annotated[
        str, typer.Argument(metavar="[DEST]", help="A queue. Left out: the ErrorDestination.")
    ] = "",
    config: ConfigOption = DEFAULT_CONFIG,
    json: JsonOption = False,
) -> None:
    """Shows why messages are in the error queue. Messages with alike reasons are one group.

    Takes nothing. Loads that have stopped are named on standard error. Numbers, ids and quoted values in a
    reason are masked, so that alike reasons have one text. The id of a group is a choice of connector replay,
    move and discard. With --json each group is an object on a separate line. Exit status 1 when a message
    cannot be read.
    """
    configuration = load_for(config)
    source = source_of(destination, configuration)
    unreadable = Unreadable(source)
    provider = make_provider(configuration)
    with contextlib.closing(provider.existing()) as connection:
        groups = error_groups(look(connection, source, configuration, unreadable))
    if json:
        for group in groups:
            answer_json(group.document())
    else:
        for line in _table(groups):
            answer(line)
        count = sum(group.count for group in groups)
        note(f"{count:,} message{'s' * (count != 1)} in {source}")
    state = provider.existing_state(configuration.connector.application_name)
    for row in stopped_loads(state.instances()):
        note(f"the load of {printable(row['subscription'])} has stopped: {printable(row['reason'])}")
    raise typer.Exit(1 if unreadable.count else 0)


class Unreadable:
    """Names the messages of a queue that cannot be read, and counts them."""

    def __init__(self, source: Destination) -> None:
        self.count = 0
        self._source = source

    def __call__(self, message: Message, reason: str) -> None:
        self.count += 1
        name = printable(message.message_id or "a message")
        note(f"connector: {name} in {self._source} cannot be read: {printable(reason)}")


def look(
    connection: Browsing, source: Destination, configuration: Configuration, unreadable: Unreadable
) -> Iterator[Message]:
    """Yields the messages of a queue. None, if no message has ever come to the ErrorDestination.

    Raises:
        UnknownDestination: there is no such queue.
    """
    try:
        return connection.browse(source, unreadable)
    except UnknownDestination:
        if source not in configuration.connector.copies.errors:
            raise
        return iter(())


def source_of(text: str, configuration: Configuration) -> Destination:
    """Returns the queue that an argument names. An empty text is the ErrorDestination.

    Raises:
        BadArgument: the argument names no queue, or is empty and there is no ErrorDestination.
    """
    found = read_destination(text, configuration) if text else configuration.connector.copies.error
    if found is None:
        raise BadArgument(
            "DEST: expected a queue, because the configuration has no ErrorDestination. A message that fails "
            "is settled without a copy; connector history --since 7d shows which have failed, and why"
        )
    if not found.is_queue:
        raise BadArgument(f"{found}: a topic keeps no messages; see connector queues")
    return found


_TITLES = ("group", "count", "kind", "last", "objects", "reason")


def _table(groups: Sequence[ErrorGroup]) -> list[str]:
    if not groups:
        return []
    rows = [
        (
            one.group or "-",
            f"{one.count:,}",
            one.kind or "-",
            one.last or "-",
            ", ".join(sorted(one.objects)) or "-",
            one.text or "-",
        )
        for one in groups
    ]
    return table(_TITLES, rows)
