"""``connector discard``: moves messages that nobody will repair to the archive."""

from __future__ import annotations

from typing import Annotated

import typer

from connector.cli.common import DEFAULT_CONFIG, BadArgument, ConfigOption, JsonOption, SelectorOption
from connector.cli.replay import (
    ExpectOption,
    GroupOption,
    IdOption,
    KindOption,
    LimitOption,
    ReasonOption,
    YesOption,
    read_choice,
    run_order,
)
from connector.config.loading import Configuration
from connector.messaging.destination import Destination
from connector.operate.replay import Discard
from connector.service.orders import archive_of
from connector.status import OutcomeKind
from connector.user import operator_name


def discard(
    destination: Annotated[str, typer.Argument(metavar="DEST", help="The queue of the messages.")],
    config: ConfigOption = DEFAULT_CONFIG,
    id: IdOption = None,
    group: GroupOption = "",
    kind: KindOption = "",
    reason: ReasonOption = "",
    selector: SelectorOption = None,
    limit: LimitOption = None,
    why: Annotated[str, typer.Option(metavar="TEXT", help="Why, for the copies in the archive.")] = "",
    yes: YesOption = False,
    expect: ExpectOption = None,
    json: JsonOption = False,
) -> None:
    """Moves messages to the ArchiveDestination with the outcome discarded. Without --yes it only says which.

    The copies name who has discarded them, and keep their reasons. Without an ArchiveDestination no copy is
    made. The choices and the exit status are those of connector replay.
    """

    def order(source: Destination, configuration: Configuration) -> Discard:
        if source in configuration.connector.copies.every(OutcomeKind.PUBLISHED):
            raise BadArgument(f"DEST: {source} is the archive itself")
        return Discard(archive_of(configuration), operator_name(), why)

    choice = read_choice(id, group, kind, reason, selector, limit)
    run_order(order, choice, destination, config, yes=yes, expect=expect, json=json, why=why)
