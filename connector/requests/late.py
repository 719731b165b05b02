"""Settles replies that no request awaits: counts them, and copies them to ``late_replies``."""

from __future__ import annotations

import logging
import time
from typing import Final

from connector.errors import SettlementError
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.provider import Connection
from connector.messaging.settlement import Settlement
from connector.requests.pending import UnmatchedReply
from connector.status import timestamp

_log = logging.getLogger("connector.requests")

_RETRY_SECONDS: Final = 10.0
"""Seconds until a failed copy is tried again."""

_WARNING_SECONDS: Final = 10.0
"""Seconds between two warnings."""

_WHY: Final = {
    UnmatchedReply.LATE: "the request that it answers had ended without it, or is not known",
    UnmatchedReply.DUPLICATE: "the request that it answers had its reply already",
}


class LateReplies:
    """Settles the replies that no request waits for. For the thread that owns the connection.

    Args:
        copy_to: destination of the copies. None = such replies are acknowledged without a copy.
    """

    def __init__(self, copy_to: Destination | None) -> None:
        self._copy_to = copy_to
        self._unsettled: list[Settlement] = []
        self._next = self._quiet_until = 0.0
        self.late = 0
        self.duplicate = 0

    def settlement(self, claim: Claim, unmatched: UnmatchedReply, why: str = "") -> Settlement:
        """Counts a late reply and returns its settlement.

        Args:
            why: why the reply cannot be read.
        """
        if unmatched is UnmatchedReply.DUPLICATE:
            self.duplicate += 1
        elif unmatched is UnmatchedReply.LATE:
            self.late += 1
        why = why or _WHY[unmatched]
        # a copy in the reply queue itself would be taken as one more late reply, without end
        copy_to = self._copy_to if self._copy_to != claim.destination else None
        self._log_reply(claim, unmatched, why, copy_to)
        if copy_to is None:
            return Settlement(claim)
        return Settlement(
            claim,
            copy_to,
            {
                "connector_origin_destination": str(claim.destination),
                "connector_outcome": unmatched.value,
                "connector_reason": why,
                "connector_time": timestamp(),
            },
        )

    def _log_reply(
        self, claim: Claim, unmatched: UnmatchedReply, why: str, copy_to: Destination | None
    ) -> None:
        """Logs a warning with the counts now and then, and each reply at level debug."""
        now = time.monotonic()
        level = logging.WARNING if now >= self._quiet_until else logging.DEBUG
        if level == logging.WARNING:
            self._quiet_until = now + _WARNING_SECONDS
        _log.log(
            level,
            "a reply came for which no request waits",
            extra={
                "message_id": claim.message_id,
                "destination": str(claim.destination),
                "outcome": unmatched.value,
                "reason": why,
                "copied_to": None if copy_to is None else str(copy_to),
                "late": self.late,
                "duplicate": self.duplicate,
            },
        )

    def retry_later(self, settlements: list[Settlement], error: SettlementError) -> None:
        """Keeps replies that could not be settled. They stay claimed and are tried again."""
        _log.error(
            "settling late replies failed and is tried again",
            extra={"number": len(settlements), "seconds": _RETRY_SECONDS, "reason": str(error)},
        )
        self._unsettled += settlements
        self._next = time.monotonic() + _RETRY_SECONDS

    def try_again(self, connection: Connection) -> None:
        """Settles the kept replies if their pause is over.

        Raises:
            ProviderError: the provider failed otherwise.
        """
        if self._unsettled and time.monotonic() >= self._next:
            waiting, self._unsettled = self._unsettled, []
            try:
                connection.settle(waiting)
            except SettlementError as error:
                self.retry_later(waiting, error)

    def close(self, connection: Connection) -> None:
        """Gives the kept replies back to their destinations."""
        waiting, self._unsettled = self._unsettled, []
        if waiting:
            connection.settle(
                [Settlement(s.claim, give_back=True, delivery_count=s.claim.delivery_count) for s in waiting]
            )

    def reset(self) -> None:
        """Drops the kept replies: the connection has failed, and a takeover gives the replies back."""
        self._unsettled = []
