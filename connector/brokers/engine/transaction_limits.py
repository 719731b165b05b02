"""The limits of the transactions of a provider on a broker client."""

from __future__ import annotations

from typing import Final, NamedTuple

from connector.brokers.engine.broker import ASSUMED_DELIVERIES

DEFAULT_BATCH: Final = 250
DEFAULT_BATCH_BYTES: Final = 16 << 20
DEFAULT_MAX_BODY: Final = 64 << 20


class TransactionLimits(NamedTuple):
    """What a transaction takes at most.

    Args:
        batch: messages of a transaction.
        batch_bytes: bytes of all bodies after which a transaction or a lot gets no more messages.
        lot: messages of a lot. A lot is one transaction.
        max_body: bytes of a body. A larger body is not read.
        redelivery_limit: deliveries after which the broker puts a message of an input aside. None =
            the broker never does.
    """

    batch: int = DEFAULT_BATCH
    batch_bytes: int = DEFAULT_BATCH_BYTES
    lot: int = DEFAULT_BATCH
    max_body: int = DEFAULT_MAX_BODY
    redelivery_limit: int | None = ASSUMED_DELIVERIES
