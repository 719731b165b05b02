"""``connector browse``: shows the messages of a queue and takes nothing."""

from __future__ import annotations

import itertools
from typing import Annotated

import typer

from connector.cli.common import (
    DEFAULT_CONFIG,
    BadArgument,
    ConfigOption,
    JsonOption,
    SelectorOption,
    note,
    read_destination,
    read_selector,
    whole_number,
)
from connector.cli.deployment import load_for
from connector.cli.errors import Unreadable
from connector.cli.messages import show
from connector.messaging.numbers import MAX_INT
from connector.service.assembly import make_provider


def browse(
    destination: Annotated[
        str, typer.Argument(metavar="DEST", help="A queue, or a part of one: orders~EXPIRED.")
    ],
    config: ConfigOption = DEFAULT_CONFIG,
    selector: SelectorOption = None,
    limit: Annotated[int | None, whole_number(0, MAX_INT, "N", "Largest number of messages.")] = None,
    delayed: Annotated[
        bool, typer.Option("--delayed", help="The messages that wait for their time, and until when.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Shows the messages of a queue that wait or are in progress, in the order of taking.

    Takes nothing. With --delayed it shows those that are delivered later instead. ~PROCESSING, ~EXPIRED and
    ~RECOVER-ERROR after the name of a queue show messages that are in progress, have expired, or were
    delivered too often. With --json each message is an object on a separate line. Exit status 1 when a
    message cannot be read. The others are shown.
    """
    configuration = load_for(config)
    target = read_destination(destination, configuration)
    wanted = read_selector(selector)
    if not target.is_queue:
        raise BadArgument(f"{target}: a topic keeps no messages, its subscriptions do; see connector queues")
    if delayed and target.view:
        raise BadArgument(f"{target}: --delayed is for the whole queue {target.base}")
    provider = make_provider(configuration)
    if delayed and not (provider.capabilities.delays and provider.capabilities.shows_all):
        raise BadArgument("--delayed: a broker does not show the messages that it delays")
    connection = provider.existing()
    unreadable = Unreadable(target)
    found = connection.browse(target, unreadable, delayed=delayed)
    count = 0
    for message in itertools.islice(found if wanted is None else filter(wanted.matches, found), limit):
        count += 1
        show(message, as_json=json)
    if not json:
        note(f"{count} {'delayed ' * delayed}message{'s' * (count != 1)} in {target}")
    raise typer.Exit(1 if unreadable.count else 0)
