"""A warning of unknown queues, and a refusal of names that may be misspelt."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from connector.cli.common import BadArgument, note
from connector.config.loading import Configuration
from connector.messaging.destination import Destination
from connector.messaging.provider_kind import AdapterProvider
from connector.service.queues import roles
from connector.text.names import nearest

NewOption = Annotated[
    bool, typer.Option("--new", help="The destination is new, although its name is like another one.")
]


def warn_of_new_queue(
    destination: Destination, configuration: Configuration, provider: AdapterProvider
) -> None:
    """Warns on stderr that a queue is new and not in the configuration. The name may be misspelt.

    Args:
        provider: connected before, so that the root exists.
    """
    if destination.is_queue:
        _warn(destination, _named(configuration), provider)


def check_new(
    destination: Destination,
    configuration: Configuration,
    provider: AdapterProvider,
    *,
    is_meant: bool,
    is_made: bool = False,
) -> None:
    """Refuses a destination that is not there and whose name is like one of the configuration.

    Warns of any other new queue. Of a broker it is not known what is there, so nothing is refused.

    Args:
        provider: connected before, so that the root exists.
        is_meant: whether the user says that the destination is new.
        is_made: whether a topic is made, too, and not only used.

    Raises:
        BadArgument: the name may be misspelt.
    """
    named = _named(configuration)
    if not is_meant and provider.capabilities.shows_all and destination.base not in named:
        close = _like(destination, named)
        if close and destination.base not in provider.existing().names():
            raise BadArgument(
                f"there is no {destination.base}, did you mean {close}? --new makes {destination.base}"
            )
    if destination.is_queue or (is_made and provider.capabilities.shows_all):
        _warn(destination, named, provider)


def _warn(destination: Destination, named: set[Destination], provider: AdapterProvider) -> None:
    if destination.base in named:
        return
    there = provider.existing().names()
    if destination.base in there:
        return
    close = _like(destination, named) or _like(destination, there)
    guess = f"; did you mean {close}?" if close else ""
    note(f"connector: {destination.base} is new, and the configuration does not name it{guess}")


def _named(configuration: Configuration) -> set[Destination]:
    """Returns the destinations that the configuration names."""
    named = {one.base for one in roles(configuration)}
    static = configuration.metaobjects.static.get(configuration.connector.configuration_meta_object or "")
    if static is not None:
        named.update(rule.input_destination for rule in static.rules if rule.input_destination is not None)
    return named


def _like(destination: Destination, others: Iterable[Destination]) -> Destination | None:
    """Returns the destination of the same kind whose name is most like that of ``destination``."""
    by_name = {one.name: one for one in others if one.is_queue == destination.is_queue}
    close = nearest(destination.base.name, sorted(by_name))
    return by_name[close] if close else None
