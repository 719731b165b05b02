"""How long a broker may be silent.

What has not come by then is unknown: nobody may call it gone, empty or refused. A look that finds nothing is
repeated, or the broker is asked. Only the answer of a broker says that there is nothing.
"""

from __future__ import annotations

import math
from typing import Final

from connector.errors import ProviderError

ANSWER: Final = 30.0
"""Seconds in which a broker has to answer."""
FIRST_ANSWER: Final = 25.0
"""Seconds for an answer to a browser, which asks once more. Artemis does not answer one of some thousands."""
LOOK: Final = 1.0
"""Seconds of a look for a message that is in its queue."""
SHORT_LOOK: Final = 0.05
"""The same, where a look delays something else."""
CLOSE: Final = 10.0
"""Seconds for which an end waits for another thread."""


def answer_to_send(limit: float | None) -> float:
    """Returns the seconds in which a broker has to answer a send.

    A broker that lets a client wait at a full queue is not silent. So a longer limit of the client library
    counts, which ends the wait by itself.

    Args:
        limit: of the client library, in seconds. Below 0 = it waits for ever. None = it has no limit of its
            own.
    """
    if limit is None:
        return ANSWER
    return math.inf if limit < 0 else max(ANSWER, limit)


class BrokerSilent(ProviderError):
    """The broker has not answered in time, so nobody knows what it would say.

    Args:
        what: what is not known, as the begin of a sentence.
        reason: of the client library. Empty = the time is over.
        seconds: that were waited.
    """

    def __init__(self, what: str, reason: str = "", *, seconds: float = ANSWER) -> None:
        super().__init__(f"{what}: {reason or f'the broker has not answered within {seconds:g} s'}")
