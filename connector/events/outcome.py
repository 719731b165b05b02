"""Outcomes, as they travel from a task to the driver and as the journal keeps them."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from connector.messaging.destination import parse_destination
from connector.messaging.provider import Prepared
from connector.status import OutcomeKind


class Outcome(NamedTuple):
    """What became of one event.

    Args:
        sequence: of the claim, within its cycle.
        kind: a value of :class:`connector.status.OutcomeKind`.
        object, verb: of the business object, None where it never came to be.
        reason: why, for anything but published.
        attempts: deliveries begun for this message altogether, earlier stays in the queue included.
        delivered: names of the subscriptions that have confirmed.
        sends: messages to send in the commit, as ``[handle, destination]``.
        discards: messages that were prepared and must not be sent.
        provider_failed: given back because the provider failed, not because a process was not active.
    """

    sequence: int
    kind: str
    object: str | None = None
    verb: str | None = None
    reason: str | None = None
    attempts: int = 0
    delivered: tuple[str, ...] = ()
    sends: tuple[Any, ...] = ()
    discards: tuple[Any, ...] = ()
    provider_failed: bool = False

    def to_json(self) -> bytes:
        """One line of JSON; trailing defaults are left out."""
        values: list[Any] = list(self)
        while len(values) > 2 and not values[-1]:
            values.pop()
        return orjson.dumps(values)

    @classmethod
    def from_list(cls, values: list[Any]) -> Outcome:
        """Undoes :meth:`to_json`.

        Raises:
            ValueError: not an outcome.
        """
        outcome = cls(*values)
        if outcome.kind not in _KINDS:
            raise ValueError(f"{outcome.kind!r} is no outcome")
        return outcome


_KINDS = frozenset(kind.value for kind in OutcomeKind)


def pack_prepared(prepared: Prepared) -> list[Any]:
    return [prepared.handle, str(prepared.destination)]


def unpack_prepared(packed: Any) -> Prepared:
    return Prepared(packed[0], parse_destination(packed[1]))
