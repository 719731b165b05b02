"""``connector replay``, and what ``connector move`` and ``connector discard`` share with it."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable
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
    printable,
    read_destination,
    read_selector,
    whole_number,
)
from connector.cli.destinations import warn_of_new_queue
from connector.cli.errors import source_of
from connector.config.loading import Configuration, load
from connector.errors import UnknownDestination
from connector.messaging.destination import Destination
from connector.messaging.numbers import MAX_INT
from connector.operate.reasons import ReasonKind
from connector.operate.replay import TRANSACTION, Choice, Movement, Mover, Order, Replay, Result, carry_out
from connector.service.assembly import make_provider, with_poll_quantity
from connector.text.names import nearest

IdOption = Annotated[
    list[str] | None, typer.Option("--id", metavar="ID", help="A message id. Several: repeat the option.")
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


def replay(
    destination: Annotated[
        str, typer.Argument(metavar="[DEST]", help="A queue. Left out: the ErrorDestination.")
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
    yes: YesOption = False,
    expect: ExpectOption = None,
    json: JsonOption = False,
) -> None:
    """Sends messages back to where they came from, to be processed again. Without --yes it only says which.

    A message of a subscription goes back to that subscription alone. Subscriptions of the adapter that have
    confirmed an event are not called again. Deliveries and tries are counted from 0. Without a choice all
    messages of the queue are meant. A message has to fit all choices that are given.
    Exit status 1 when --expect names another number, or when a message that was meant is not moved.
    """

    def order(source: Destination, configuration: Configuration) -> Order:
        return Replay(source, read_target(to, source, configuration, option="--to") if to else None)

    choice = read_choice(id, group, kind, reason, selector, limit)
    run_order(order, choice, destination, config, yes=yes, expect=expect, json=json)


def read_choice(
    ids: list[str] | None, group: str, kind: str, reason: str, selector: str | None, limit: int | None
) -> Choice:
    """Returns the choice that the options of the three verbs name.

    Raises:
        BadArgument: an option names nothing.
    """
    kinds = [one.value for one in ReasonKind]
    if kind and kind not in kinds:
        close = nearest(kind, kinds)
        guess = f", did you mean {close}?" if close else f"; there are {', '.join(kinds)}"
        raise BadArgument(f"--kind: there is no {kind!r}{guess}")
    whole = frozenset(one if one.startswith("ID:") else f"ID:{one}" for one in ids or ())
    return Choice(whole | frozenset(ids or ()), group, kind, reason, read_selector(selector), limit)


def read_target(text: str, source: Destination, configuration: Configuration, *, option: str) -> Destination:
    """Returns the destination that messages go to, with a warning if it is a new queue.

    Raises:
        BadArgument: the text names no destination that messages of ``source`` can go to.
    """
    target = read_destination(text)
    if target.view:
        raise BadArgument(f"{option}: {target} shows a part of {target.base}: name {target.base}")
    if option == "--to" and not target.is_queue:
        raise BadArgument(f"{option}: {target} is a topic, and all its subscriptions would get the messages")
    if target == source:
        raise BadArgument(f"{option}: the messages are in {target} already")
    provider = make_provider(configuration)
    if provider.capabilities.shows_all:  # a broker does not list its queues
        warn_of_new_queue(target, configuration, provider)
    return target


def operator() -> str:
    """Returns who gives this command."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):  # a user without a name, as in a container
        return socket.gethostname()


def run_order(
    make: Callable[[Destination, Configuration], Order],
    choice: Choice,
    destination: str,
    config: str,
    *,
    yes: bool,
    expect: int | None,
    json: bool,
) -> None:
    """Runs one of the three verbs, and ends the command.

    Args:
        make: makes the order from the queue and the configuration.
    """
    configuration = load(config)
    source = source_of(destination, configuration)
    mover = Mover(source, choice, make(source, configuration))
    application = configuration.connector.application_name
    provider = make_provider(with_poll_quantity(configuration, TRANSACTION))
    try:
        carry_out(provider, application, mover, yes=yes, expect=expect, note=_note_nothing)
    except UnknownDestination:
        if destination:
            raise
    except BaseException:
        if mover.result.moved:
            note(f"connector: {_number(mover.result.moved)} were moved before this failure")
        raise
    if json:
        answer_json(mover.result.document())
    else:
        _show(mover.result, source, yes=yes)
    raise typer.Exit(1 if yes and mover.result.moved < mover.result.matched else 0)


def _note_nothing(movement: Movement) -> None:
    """Stands for the history."""


_INDENT: Final = "  "


def _show(result: Result, source: Destination, *, yes: bool) -> None:
    done = f"{_number(result.moved)} moved" if yes else f"{_number(result.matched)} would move"
    answer(f"{done} from {source}" + (":" if result.to or result.left else ""))
    for target, count in sorted(result.to.items()):
        answer(f"{_INDENT}{count:,} to {printable(target)}")
    for reason, count in sorted(result.left.items()):
        answer(f"{_INDENT}{count:,} not: {printable(reason)}")
    if not yes and result.matched:
        note(f"nothing was moved: --yes moves them, --yes --expect {result.matched} no other number")


def _number(count: int) -> str:
    return f"{count:,} message{'s' * (count != 1)}"
