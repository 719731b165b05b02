"""Carries out what an operator orders about messages, and notes it in the history."""

from __future__ import annotations

from connector.config.loading import Configuration
from connector.operate.history import note_action
from connector.operate.replay import TRANSACTION, Movement, Mover, Result, carry_out
from connector.service.assembly import make_provider, with_poll_quantity


def run_order(
    configuration: Configuration,
    mover: Mover,
    *,
    by: str,
    why: str = "",
    yes: bool,
    expect: int | None = None,
) -> Result:
    """Looks at a queue, and moves the messages if the operator says so.

    Args:
        configuration: of the deployment.
        mover: new.
        by: the operator.
        why: the reason, for the history.
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
