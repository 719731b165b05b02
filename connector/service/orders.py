"""Carries out what an operator orders about messages, and notes it in the history."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from connector.config.loading import Configuration
from connector.errors import DestinationError, UnknownDestination
from connector.messaging.destination import Destination, known_destination
from connector.messaging.message import Message
from connector.operate.correct import correct
from connector.operate.errors import text_of
from connector.operate.lives import DISCARDED, note_action
from connector.operate.replay import TRANSACTION, ArchiveOf, Movement, Mover, Replay, ReplayResult, carry_out
from connector.service.assembly import make_provider, own_history, with_poll_quantity
from connector.status import OutcomeKind


def archive_of(configuration: Configuration) -> ArchiveOf:
    """Returns what says which ArchiveDestination holds for a message that an operator moves."""
    connector = configuration.connector
    copies = connector.copies

    def archive(message: Message) -> Destination | None:
        named = None
        if copies.inputs:
            with contextlib.suppress(DestinationError):  # anybody may send such a property
                origin = known_destination(text_of(message, "connector_origin_destination"))
                named = connector.input_of(origin, message)
        return copies.of(OutcomeKind.PUBLISHED, named)

    return archive


def eliminates(configuration: Configuration) -> Callable[[Destination, Message], bool]:
    """Returns what says whether duplicates of a message are eliminated in a queue."""
    connector = configuration.connector

    def eliminated(destination: Destination, message: Message) -> bool:
        if not any(entry.destination == destination for entry in connector.inputs):
            return False
        settings = connector.of(connector.input_of(destination, message))
        return settings.duplicate_event_elimination or bool(settings.duplicate_key)

    return eliminated


def replay_order(
    configuration: Configuration, source: Destination, to: Destination | None, *, again: bool
) -> Replay:
    """Returns the order to send messages of a queue back.

    Args:
        to: as of :class:`.Replay`.
        again: also as of :class:`.Replay`.
    """
    return Replay(
        source,
        to,
        own_history(configuration),
        own_names=configuration.own_names,
        again=again,
        eliminates=eliminates(configuration),
    )


def run_order(
    configuration: Configuration,
    movers: Sequence[Mover],
    *,
    by: str,
    why: str = "",
    yes: bool,
    expect: int | None = None,
) -> ReplayResult:
    """Looks at queues, and moves the messages if the operator says so.

    Args:
        movers: new, one for each queue.
        yes, expect: see :func:`connector.operate.replay.carry_out`.

    Raises:
        UnexpectedNumber, UnknownDestination, ProviderError: as in :func:`connector.operate.replay.carry_out`.
    """
    provider = make_provider(with_poll_quantity(configuration, TRANSACTION))
    application = configuration.connector.application_name
    history = provider.state(application).history() if yes and configuration.history.keep else None

    def note(movement: Movement) -> None:
        if history is not None:
            origin, to = str(movement.source), movement.to
            note_action(history, movement.what, movement.ids, by=by, why=why, origin=origin, to=to)

    return carry_out(provider, application, *movers, yes=yes, expect=expect, note=note)


def correct_message(
    configuration: Configuration, source: Destination, identity: str, body: bytes, *, by: str
) -> Destination:
    """Sends a message of a queue with another body to where it came from. Returns that queue.

    Args:
        identity: JMSMessageID. May lack its ``ID:``.
        body: new.

    Raises:
        CannotCorrect, ProviderError: as :func:`connector.operate.correct.correct`.
    """
    provider = make_provider(configuration)
    settings = configuration.connector
    history = provider.state(settings.application_name).history() if configuration.history.keep else None

    def note(identity: str, to: Destination, archive: Destination) -> None:
        if history is not None:
            why, origin = f"corrected, and sent to {to}", str(source)
            note_action(history, DISCARDED, [identity], by=by, why=why, origin=origin, to=str(archive))

    own, archive = own_history(configuration), archive_of(configuration)
    return correct(provider, own, source, identity, body, archive, by, note)


def find_source(configuration: Configuration, sources: Sequence[Destination], identity: str) -> Destination:
    """Returns the queue that holds a message, the first one if none does.

    Args:
        sources: at least one.
        identity: JMSMessageID. May lack its ``ID:``.

    Raises:
        ProviderError: a queue cannot be read.
    """
    if len(sources) > 1:
        with contextlib.closing(make_provider(configuration).existing()) as connection:
            for source in sources:
                with contextlib.suppress(UnknownDestination):
                    found = connection.browse(source, ids={identity})
                    if any(one.message_id in (identity, f"ID:{identity}") for one in found):
                        return source
    return sources[0]
