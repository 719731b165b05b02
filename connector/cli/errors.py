"""``connector errors``: groups the messages in error by their reasons."""

from __future__ import annotations

import contextlib
import itertools
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
from connector.service.queues import roles
from connector.service.status_document import stopped_loads


def errors(
    destination: Annotated[
        str, typer.Argument(metavar="[DEST]", help="A queue. Left out: the error destinations.")
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
    sources = sources_of(destination, configuration)
    unreadable = [Unreadable(source) for source in sources]
    provider = make_provider(configuration)
    with contextlib.closing(provider.existing()) as connection:
        found = (look(connection, one.source, configuration, one) for one in unreadable)
        groups = error_groups(itertools.chain.from_iterable(found))
    if json:
        for group in groups:
            answer_json(group.document())
    else:
        for line in _table(groups):
            answer(line)
        count = sum(group.count for group in groups)
        note(f"{count:,} message{'s' * (count != 1)} in {', '.join(map(str, sources))}")
    state = provider.existing_state(configuration.connector.application_name)
    for row in stopped_loads(state.instances()):
        note(f"the load of {printable(row['subscription'])} has stopped: {printable(row['reason'])}")
    raise typer.Exit(1 if any(one.count for one in unreadable) else 0)


class Unreadable:
    """Names the messages of a queue that cannot be read, and counts them."""

    def __init__(self, source: Destination) -> None:
        self.count = 0
        self.source = source

    def __call__(self, message: Message, reason: str) -> None:
        self.count += 1
        name = printable(message.message_id or "a message")
        note(f"connector: {name} in {self.source} cannot be read: {printable(reason)}")


def look(
    connection: Browsing, source: Destination, configuration: Configuration, unreadable: Unreadable
) -> Iterator[Message]:
    """Yields the messages of a queue. None, if no message has ever come to an error destination.

    Raises:
        UnknownDestination: there is no such queue.
    """
    try:
        return connection.browse(source, unreadable)
    except UnknownDestination:
        if source not in configuration.connector.copies.errors:
            raise
        return iter(())


def sources_of(text: str, configuration: Configuration) -> Sequence[Destination]:
    """Returns the queue that an argument names. An empty text is every error destination, also of inputs.

    Raises:
        BadArgument: the argument names no queue, or is empty and there is no ErrorDestination.
    """
    errors = configuration.connector.copies.errors
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
