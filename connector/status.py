"""Version of the connector, return codes of the adapter and outcomes of events.

The names of the return codes are those of the source (WBI Adapter for JMS, "Return codes"). Their numbers are
recorded nowhere. **These numbers are ours.** A number that is not negative says that all went well. The
numbers stay as they are.

Two names of the source are missing, because nobody gets them. CONNECTOR_NOT_ACTIVE is the exception
:class:`connector.errors.NotActive` here, and NO_SUBSCRIPTION_FOUND the outcome ``unsubscribed``.
"""

from __future__ import annotations

import datetime
from enum import Enum, IntEnum
from typing import Final

VERSION: Final = "0.1.0"


class ReturnCode(IntEnum):
    """What a poll or a request answers."""

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


class OutcomeKind(str, Enum):
    """What became of one event. Every claimed event has exactly one, unless it comes again."""

    PUBLISHED = "published"
    UNSUBSCRIBED = "unsubscribed"
    FAILED = "failed"
    DUPLICATE = "duplicate"
    IN_DOUBT = "in_doubt"
    GIVEN_BACK = "given_back"
    """Not settled: the message is where it was, and comes again."""
    ROLLED_BACK = "rolled_back"
    """As given back, its delivery count one more (ContainerManagedEvents)."""

    def __str__(self) -> str:
        return self.value


def timestamp() -> str:
    """Now, as copies of messages carry it: ISO 8601, UTC, seconds."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
