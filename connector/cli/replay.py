"""``connector replay``, and what ``connector move`` and ``connector discard`` share with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Final

import typer

from connector.cli.common import (
    DEFAULT_CONFIG,
    BadArgument,
    ConfigOption,
    JsonOption,
    SelectorOption,
    answer,
    answer_json,
    note,
    read_body,
    read_destination,
    read_selector,
    whole_number,
)
from connector.cli.deployment import load_for
from connector.cli.destinations import warn_of_new_queue
from connector.cli.errors import sources_of
from connector.config.loading import MESSAGES, Configuration
from connector.errors import DestinationError, UnknownDestination
from connector.messaging.destination import Destination
from connector.messaging.numbers import MAX_INT
from connector.operate.correct import Correction
from connector.operate.replay import (
    NO_COPY,
    MessageChoice,
    Mover,
    Order,
    ReplayResult,
    UnknownKind,
    check_target,
    make_choice,
    total,
)
from connector.printable import printable
from connector.service.assembly import make_provider, own_history
from connector.service.orders import archive_of, correct_message, find_source, replay_order
from connector.service.orders import run_order as carry_out_order
from connector.user import operator_name

IdOption = Annotated[
    list[str] | None,
    typer.Option(
        "--id", metavar="ID", help="A message id, or the name of a file. Several: repeat the option."
    ),
]
GroupOption = Annotated[str, typer.Option(metavar="ID", help="A group of connector errors.")]
KindOption = Annotated[str, typer.Option(metavar="K", help="The kind of the reason, such as malformed.")]
ReasonOption = Annotated[
    str, typer.Option(metavar="TEXT", help="Text in the reason, in upper or lower case.")
]
LimitOption = Annotated[int | None, whole_number(1, MAX_INT, "N", "Largest number of messages.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Does it. Without this option: a preview.")]
ExpectOption = Annotated[
    int | None, whole_number(0, MAX_INT, "N", "Does nothing if another number of messages is meant.")
]


# long: more than half declares the options
def replay(
    destination: Annotated[
        str, typer.Argument(metavar="[DEST]", help="A queue. Left out: the error destinations.")
    ] = "",
    config: ConfigOption = DEFAULT_CONFIG,
    id: IdOption = None,
    group: GroupOption = "",
    kind: KindOption = "",
    reason: ReasonOption = "",
    selector: SelectorOption = None,
    limit: LimitOption = None,
    to: Annotated[
        str, typer.Option(metavar="DEST", help="A queue. Left out: where each message came from.")
    ] = "",
    body: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Another body for the message of --id. -: stdin.", show_default=False
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Processes published messages once more, on purpose.")
    ] = False,
    yes: YesOption = False,
    expect: ExpectOption = None,
    json: JsonOption = False,
) -> None:
    """Sends messages back to where they came from, to be processed again. Without --yes it only says which.

    A message of a subscription goes back to that subscription alone. Subscriptions of the adapter that have
    confirmed an event are not called again. Deliveries and tries are counted from 0, but the deliveries of a
    message in doubt count on. What a client or a lot owns stays. Without a choice all messages of the queue
    are meant. A message has to fit all choices that are given. With --body the message of --id goes back with
    another body under a new id, and the old message goes to the ArchiveDestination.
    Where duplicates are eliminated, a message that was published only becomes a duplicate, and the answer
    says so. With --again it is processed once more, by all subscriptions.
    Exit status 1 when --expect names another number, or when a message that was meant is not moved. Exit
    status 2 when there is no such --group.
    """

    def order(source: Destination, configuration: Configuration) -> Order:
        if body is not None:
            archive, own = archive_of(configuration), own_history(configuration)
            return Correction(source, own, archive, own_names=configuration.own_names)
        target = read_target(to, source, configuration, option="--to") if to else None
        return replay_order(configuration, source, target, again=again)

    correction = None
    if body is not None:
        one, *more = id or [""]
        other = (more, group, kind, reason, selector, limit, to, again)
        if not one or any(other) or expect not in (None, 1):
            raise BadArgument("--body: expected one --id, and neither another choice nor --to nor --again")
        correction = one, read_body(None if body == "-" else body)
    choice = read_choice(id, group, kind, reason, selector, 1 if correction else limit)
    run_order(order, choice, destination, config, yes=yes, expect=expect, json=json, correction=correction)


def read_choice(
    ids: list[str] | None, group: str, kind: str, reason: str, selector: str | None, limit: int | None
) -> MessageChoice:
    """Returns the choice that the options of the three verbs name."""
    try:
        return make_choice(ids or (), group, kind, reason, read_selector(selector), limit)
    except UnknownKind as error:
        raise BadArgument(f"--kind: {error}") from None


def read_target(text: str, source: Destination, configuration: Configuration, *, option: str) -> Destination:
    """Returns the destination that messages go to, with a warning if it is a new queue.

    Raises:
        BadArgument: the text names no destination that messages of ``source`` can go to.
    """
    target = read_destination(text, configuration)
    try:
        check_target(target, source, allows_topic=option != "--to")
    except DestinationError as error:
        raise BadArgument(f"{option}: {error}") from None
    provider = make_provider(configuration)
    if provider.capabilities.shows_all:  # a broker does not list its queues
        warn_of_new_queue(target, configuration, provider)
    return target


def run_order(
    make: Callable[[Destination, Configuration], Order],
    choice: MessageChoice,
    destination: str,
    config: str,
    *,
    yes: bool,
    expect: int | None,
    json: bool,
    why: str = "",
    correction: tuple[str, bytes] | None = None,
) -> None:
    """Runs one of the three verbs, and ends the command.

    Args:
        why: the reason, for the history.
        correction: the id of a message, and its new body. The order is a :class:`.correct.Correction`.
    """
    configuration = load_for(config, MESSAGES | {"history"})
    sources = sources_of(destination, configuration)
    if correction is not None:
        sources = [find_source(configuration, sources, correction[0])]
    movers = [Mover(source, choice, make(source, configuration)) for source in sources]
    try:
        if correction is not None and yes:
            to = correct_message(configuration, sources[0], *correction, by=operator_name())
            movers[0].result.matched = movers[0].result.moved = 1
            movers[0].result.to[str(to)] = 1
        else:
            carry_out_order(configuration, movers, by=operator_name(), why=why, yes=yes, expect=expect)
    except UnknownDestination:
        if destination:
            raise
    except BaseException:
        if moved := total(movers).moved:
            note(f"connector: {_number(moved)} were moved before this failure")
        raise
    result = total(movers)
    if not any(mover.has_group for mover in movers):
        searched = ", ".join(map(str, sources))
        raise BadArgument(
            f"--group {choice.group}: there is no such group in {searched}; connector errors lists the groups"
        )
    if json:
        answer_json(result.document())
    else:
        _show(movers, result, yes=yes)
    raise typer.Exit(1 if yes and (result.owned or result.moved < result.matched) else 0)


_INDENT: Final = "  "


def _show(movers: Sequence[Mover], result: ReplayResult, *, yes: bool) -> None:
    what, sources = movers[0].order.what, ", ".join(str(one.source) for one in movers)
    count = _number(result.moved if yes else result.matched)
    done = what if yes else f"would be {what}"
    answer(f"{count} of {sources} {done}" + (":" if result.to or result.left else ""))
    for target, number in sorted(result.to.items()):
        answer(
            f"{_INDENT}{number:,} " + ("without a copy" if target == NO_COPY else f"to {printable(target)}")
        )
    for reason, number in sorted(result.left.items()):
        answer(f"{_INDENT}{number:,} not: {printable(reason)}")
    if result.duplicates:
        is_one = result.duplicates == 1
        become = ("becomes" if is_one else "become") if yes else "would become"
        noun = "a duplicate" if is_one else "duplicates"
        answer(f"{_INDENT}{result.duplicates:,} {become} {noun}, as published before: see --again")
    if not yes and result.matched:
        note(f"nothing was done: --yes does it, and --yes --expect {result.matched} only for as many")


def _number(count: int) -> str:
    return f"{count:,} message{'s' * (count != 1)}"
