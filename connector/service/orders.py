"""Carries out what an operator orders about messages, and notes it in the history."""

from __future__ import annotations

from connector.config.loading import Configuration
from connector.messaging.destination import Destination
from connector.operate.correct import correct
from connector.operate.lives import DISCARDED, note_action
from connector.operate.replay import TRANSACTION, Movement, Mover, ReplayResult, carry_out
from connector.service.assembly import make_provider, own_history, with_poll_quantity


def run_order(
    configuration: Configuration,
    mover: Mover,
    *,
    by: str,
    why: str = "",
    yes: bool,
    expect: int | None = None,
) -> ReplayResult:
    """Looks at a queue, and moves the messages if the operator says so.

    Args:
        mover: new.
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

    return carry_out(provider, application, mover, yes=yes, expect=expect, note=note)


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

    def note(identity: str, to: Destination) -> None:
        if history is not None:
            why = f"corrected, and sent to {to}"
            archive = str(settings.copies.archive)
            note_action(history, DISCARDED, [identity], by=by, why=why, origin=str(source), to=archive)

    archive = settings.copies.archive
    return correct(provider, own_history(configuration), source, identity, body, archive, by, note)
