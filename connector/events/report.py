"""What a piece of inbound work came to."""

from __future__ import annotations

from dataclasses import dataclass

from connector.status import ReturnCode


@dataclass(slots=True)
class CycleReport:
    """What a poll, or the end of batches, came to.

    Args:
        code: SUCCEED, or APPRESPONSETIMEOUT where the poll has to end.
        claimed, settled: numbers of events; expired messages are in neither. Those that are claimed and not
            settled are in batches that still run, or went back to their queues.
        reason: why it is not SUCCEED.
        provider_failed: whether a new connection may help.
        returned: events that went back to their queues.
        rolled_back: those of them whose transaction failed, and whose delivery count is one more.
        busy: those of them of which a neighbour has another copy in flight.
        more: whether more may wait in a destination that may be polled now.
        idle: whether a batch has ended, and nothing runs any more.
    """

    code: ReturnCode = ReturnCode.SUCCEED
    claimed: int = 0
    settled: int = 0
    reason: str = ""
    provider_failed: bool = False
    returned: int = 0
    rolled_back: int = 0
    busy: int = 0
    more: bool = False
    idle: bool = False

    def add(self, other: CycleReport) -> None:
        """Adds what other work came to. The first failure counts."""
        if self.code is ReturnCode.SUCCEED:
            self.code, self.reason = other.code, other.reason
        self.claimed += other.claimed
        self.settled += other.settled
        self.provider_failed = self.provider_failed or other.provider_failed
        self.returned += other.returned
        self.rolled_back += other.rolled_back
        self.busy += other.busy
        self.more, self.idle = other.more, other.idle

    def fail(self, reason: str, *, provider_failed: bool) -> None:
        """The poll has to end; the first reason counts."""
        if self.code is ReturnCode.SUCCEED:
            self.code, self.reason = ReturnCode.APPRESPONSETIMEOUT, reason
        self.provider_failed = self.provider_failed or provider_failed
