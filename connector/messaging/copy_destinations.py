"""The destinations of copies of settled messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from connector.messaging.destination import Destination
from connector.status import OutcomeKind


@dataclass(frozen=True, slots=True)
class CopyDestinations:
    """Where copies of the messages of all inputs go. None = the message is acknowledged without a copy.

    All code that needs such a destination asks here, by outcome.
    """

    archive: Destination | None = None
    error: Destination | None = None
    unsubscribed: Destination | None = None
    in_progress: Destination | None = None

    def of(self, kind: OutcomeKind) -> Destination | None:
        """Returns where the message of an event goes that has ended so, or None."""
        return getattr(self, _COPIES[kind]) if kind in _COPIES else None

    @property
    def errors(self) -> tuple[Destination, ...]:
        """Where failed messages of any input go."""
        return () if self.error is None else (self.error,)

    @property
    def all(self) -> tuple[Destination, ...]:
        """All destinations, first those of messages that somebody has to look at."""
        found = (self.error, self.unsubscribed, self.archive, self.in_progress)
        return tuple(one for one in found if one is not None)

    @property
    def names(self) -> frozenset[str]:
        """The names of the destinations of settled messages."""
        return frozenset(str(one) for one in (self.archive, self.error, self.unsubscribed) if one is not None)


_COPIES: Final = {
    OutcomeKind.PUBLISHED: "archive",
    OutcomeKind.DUPLICATE: "archive",
    OutcomeKind.FAILED: "error",
    OutcomeKind.UNSUBSCRIBED: "unsubscribed",
}
