"""The report of a piece of inbound work."""

from __future__ import annotations

from dataclasses import dataclass

from connector.status import ReturnCode


@dataclass(slots=True)
class CycleReport:
    """The result of a poll, or of ended batches.

    Args:
        code: SUCCEED, or APPRESPONSETIMEOUT if the poll has to end.
        claimed, settled: numbers of events, without expired messages. An event that is claimed and not
            settled is in a running batch, or has gone back to its queue.
        reason: why the code is not SUCCEED.
        provider_failed: whether a new connection may help.
        returned: events that went back to their queues.
        rolled_back: returned events whose transaction failed, and whose delivery count is one higher.
        busy: returned events of which another instance has a copy in flight.
        held: events that come again from the queue of held messages.
        more: whether more may wait in a destination that may be polled now.
        more_in: seconds until more may be claimed. None = nothing waits because of the ``rate`` of an input.
        idle: whether a batch has ended, and no batch runs any more.
    """

    code: ReturnCode = ReturnCode.SUCCEED
    claimed: int = 0
    settled: int = 0
    reason: str = ""
    provider_failed: bool = False
    returned: int = 0
    rolled_back: int = 0
    busy: int = 0
    held: int = 0
    more: bool = False
    more_in: float | None = None
    idle: bool = False

    def add(self, other: CycleReport) -> None:
        """Adds the result of other work. The first failure counts."""
        if self.code is ReturnCode.SUCCEED:
            self.code, self.reason = other.code, other.reason
        self.claimed += other.claimed
        self.settled += other.settled
        self.provider_failed = self.provider_failed or other.provider_failed
        self.returned += other.returned
        self.rolled_back += other.rolled_back
        self.busy += other.busy
        self.held += other.held
        self.more, self.more_in, self.idle = other.more, other.more_in, other.idle

    def fail(self, reason: str, *, provider_failed: bool) -> None:
        """Ends the poll with a reason. The first reason counts."""
        if self.code is ReturnCode.SUCCEED:
            self.code, self.reason = ReturnCode.APPRESPONSETIMEOUT, reason
        self.provider_failed = self.provider_failed or provider_failed
