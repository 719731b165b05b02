"""The destinations of copies of settled messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from connector.messaging.destination import Destination
from connector.messaging.input import Input
from connector.status import OutcomeKind

_NO_INPUTS: Final[Mapping[Input, CopyDestinations]] = {}


@dataclass(frozen=True, slots=True)
class CopyDestinations:
    """Where copies of messages go. None = the message is acknowledged without a copy.

    All code that needs such a destination asks here, by outcome and input.

    Args:
        inputs: the destinations of each input that has one of its own. The others have those of the
            connector.
    """

    archive: Destination | None = None
    error: Destination | None = None
    unsubscribed: Destination | None = None
    in_progress: Destination | None = None
    inputs: Mapping[Input, CopyDestinations] = field(default_factory=lambda: _NO_INPUTS, hash=False)

    def of(self, kind: OutcomeKind, named: Input | None = None) -> Destination | None:
        """Returns where the message of an event goes that has ended so, or None.

        Args:
            named: the input of the message. An input that is not configured has the connector's destinations.
        """
        if kind not in _COPIES:
            return None
        copies = self.inputs.get(named, self) if self.inputs and named else self
        found: Destination | None = getattr(copies, _COPIES[kind])
        return found

    def every(self, kind: OutcomeKind) -> tuple[Destination, ...]:
        """Returns where messages of events go that have ended so: first the connector's, then of inputs."""
        found = (self.of(kind), *(one.of(kind) for one in self.inputs.values()))
        return tuple(dict.fromkeys(one for one in found if one is not None))

    @property
    def errors(self) -> tuple[Destination, ...]:
        """Where failed messages of any input go."""
        return self.every(OutcomeKind.FAILED)

    @property
    def all(self) -> tuple[Destination, ...]:
        """All destinations, first those of messages that somebody has to look at."""
        found = [one for kind in _LOOKED_AT for one in self.every(kind)]
        found += () if self.in_progress is None else (self.in_progress,)
        return tuple(dict.fromkeys(found))

    @property
    def names(self) -> frozenset[str]:
        """The names of the destinations of settled messages."""
        return frozenset(str(one) for kind in _LOOKED_AT for one in self.every(kind))


_COPIES: Final = {
    OutcomeKind.PUBLISHED: "archive",
    OutcomeKind.DUPLICATE: "archive",
    OutcomeKind.FAILED: "error",
    OutcomeKind.UNSUBSCRIBED: "unsubscribed",
}
_LOOKED_AT: Final = (OutcomeKind.FAILED, OutcomeKind.UNSUBSCRIBED, OutcomeKind.PUBLISHED)
