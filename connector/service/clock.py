"""The clock of a service."""

from __future__ import annotations

import datetime
import time
from typing import Protocol

from connector.local_time import LOCAL


class Clock(Protocol):
    """The clock of a service."""

    def monotonic(self) -> float:
        """Returns seconds that only go forward."""

    def local(self) -> datetime.datetime:
        """Returns local time with the zone."""


class SystemClock:
    """The clocks of this machine."""

    def monotonic(self) -> float:
        return time.monotonic()

    def local(self) -> datetime.datetime:
        return datetime.datetime.now(LOCAL)
