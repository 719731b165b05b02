"""Version of the connector, return codes of the adapter and outcomes of events.

The names of the return codes come from WBI Adapter for JMS, "Return codes". Their numbers are recorded
nowhere. **These numbers are ours.** A number from 0 up means success. The numbers never change.

Two names of that source are missing. CONNECTOR_NOT_ACTIVE is the exception
:class:`connector.errors.NotActive` here, and NO_SUBSCRIPTION_FOUND is the outcome ``unsubscribed``.
"""

from __future__ import annotations

import datetime
from enum import IntEnum, StrEnum
from typing import Final

VERSION: Final = "0.3.0"


class ReturnCode(IntEnum):
    """The return code of a poll or a request."""

    SUCCEED = 0
    VALCHANGE = 1
    VALDUPES = 2
    MULTIPLE_HITS = 3
    FAIL = -1
    APPRESPONSETIMEOUT = -2
    BO_DOES_NOT_EXIST = -3
    UNABLE_TO_LOGIN = -4
    FAIL_RETRIEVE_BY_CONTENT = -5

    def __str__(self) -> str:
        return self.name


class OutcomeKind(StrEnum):
    """The kind of an outcome. Every claimed event has exactly one kind, unless it comes again."""

    PUBLISHED = "published"
    UNSUBSCRIBED = "unsubscribed"
    FAILED = "failed"
    DUPLICATE = "duplicate"
    IN_DOUBT = "in_doubt"
    LATER = "later"
    """Not settled. A delivery has failed for a while, and the message comes again at its time."""
    GIVEN_BACK = "given_back"
    """Not settled. The message goes back to the queue, and comes again."""
    ROLLED_BACK = "rolled_back"
    """Given back with a delivery count that is one higher (ContainerManagedEvents)."""


def timestamp() -> str:
    """Returns the current time for copies of messages: ISO 8601, UTC, seconds."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
