"""``connector lot``: ends a lot by hand."""

from __future__ import annotations

import contextlib
from typing import Annotated

import typer

from connector.cli.common import DEFAULT_CONFIG, BadArgument, ConfigOption, note
from connector.cli.deployment import load_for
from connector.printable import printable
from connector.service.assembly import make_provider


def lot(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the lot (connector queues).")],
    config: ConfigOption = DEFAULT_CONFIG,
    give_back: Annotated[
        bool, typer.Option("--give-back", help="Its messages wait again in their queue.")
    ] = False,
) -> None:
    """Gives the messages of a lot back to their queue, counted as one more delivery.

    The next lot of the name has a higher number. Nothing else ends a lot whose program does not come again.
    An error while a living program owns the name, because that program may have read the messages.
    """
    if not give_back:
        raise BadArgument("expected --give-back: its messages wait again in their queue")
    with contextlib.closing(make_provider(load_for(config)).connect()) as connection:
        info = connection.lots.give_back(name)
    messages = f"{info.messages:,} message{'s' * (info.messages != 1)}"
    note(f"the lot {info.number} of {printable(name)} is given back: {messages} to {info.destination}")
