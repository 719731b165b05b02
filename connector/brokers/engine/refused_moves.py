"""Messages that an in-progress destination refuses for good, for example because they are too large for it.

The event of such a message fails in the transaction of its claim, so that the message ends in the error
destination and the messages behind it go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from connector.brokers.engine.claims import LentClaim

_ALONE: Final = 1000
"""Messages moved one by one until a refusal of several is taken for one of the moment."""


class RefusedMoves:
    """The refusals of one input. After the first, each message is moved alone, until the bad one is found."""

    def __init__(self) -> None:
        self._alone = 0
        self._reasons: dict[str, str] = {}

    def limit(self, numbers: range) -> range:
        """Returns the numbers of the claims that may be moved together."""
        return numbers[:1] if self._alone else numbers

    def note(self, claims: Sequence[LentClaim], reason: str) -> None:
        """Notes that the broker has refused one of these messages, although the destination takes others."""
        if len(claims) > 1:
            self._alone = _ALONE
        else:
            self._reasons[claims[0].identity] = reason

    def note_moved(self) -> None:
        """Notes that messages were moved."""
        self._alone = max(0, self._alone - 1)

    def stays(self, claims: Sequence[LentClaim]) -> bool:
        """Whether a message stays where it is. Then its claim says why the event fails."""
        reason = self._reasons.pop(claims[0].identity, "") if len(claims) == 1 else ""
        if reason:
            self._alone = 0
            why = reason.removeprefix("nothing was settled: ")
            claims[0].refuse(f"the InProgressDestination refuses the message: {why}")
        return bool(reason)
