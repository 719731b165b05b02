"""Empties the inputs: polls until nothing waits, and settles all claims."""

from __future__ import annotations

import random
import time
from typing import Final

from connector.events.cycle_report import CycleReport
from connector.events.inbound import AfterBatch, Inbound
from connector.status import ReturnCode

_NEIGHBOUR_SECONDS: Final = 30.0
_NEIGHBOUR_PAUSE: Final = (0.01, 0.05)
_RECOVERY_SECONDS: Final = 1.0
"""Seconds between two looks whether such an instance has died."""
_POLL_PAUSE: Final = (0.05, 1.0)
"""Shortest and longest seconds between two polls while a batch runs. Its processes may send to the inputs."""
_RATE_PAUSE: Final = 0.1
"""Seconds between two polls while only the rate of an input keeps its messages back."""


def drain(inbound: Inbound, after_batch: AfterBatch | None = None) -> CycleReport:
    """Polls until the inputs are empty and all claims are settled.

    Ends early when a poll does not SUCCEED, or when a poll claims messages and settles none. Waits at most
    half a minute for copies that another instance is publishing. Takes over from such an instance if it dies.

    Raises:
        ProviderError: as :meth:`Inbound.settle_ended`.
    """
    total = CycleReport()
    claimed, progress, progress_at = 0, False, time.monotonic()
    recovered_at = progress_at
    pause, longest = _POLL_PAUSE
    while not inbound.stopping and total.code is ReturnCode.SUCCEED:
        report = inbound.poll()
        total.add(report)
        claimed += report.claimed
        progress = progress or report.settled + report.rolled_back + report.held > 0
        if inbound.is_running and total.code is ReturnCode.SUCCEED:
            wait = random.uniform(*_NEIGHBOUR_PAUSE) if report.busy else pause
            ended = inbound.settle_ended(0.0 if report.more and not report.busy else wait, after_batch)
            total.add(ended)
            progress = progress or ended.settled + ended.rolled_back > 0
            pause = _POLL_PAUSE[0] if report.claimed or ended.claimed else min(2 * pause, longest)
        if progress:
            progress_at = time.monotonic()
        if inbound.is_running:
            continue
        if not claimed:  # no batch ran meanwhile
            if not report.more_in:  # and nothing waits
                break
            time.sleep(min(report.more_in, _RATE_PAUSE))
            continue
        if not progress and total.code is ReturnCode.SUCCEED:
            if not report.busy or time.monotonic() - progress_at > _NEIGHBOUR_SECONDS:
                total.code, total.reason = ReturnCode.FAIL, "a poll claimed messages and settled none"
            elif time.monotonic() - recovered_at > _RECOVERY_SECONDS:
                total.add(inbound.recover(at_start=False))
                recovered_at = time.monotonic()
            else:
                time.sleep(random.uniform(*_NEIGHBOUR_PAUSE))
        claimed, progress = 0, False
    total.add(inbound.finish(after_batch))
    return total
