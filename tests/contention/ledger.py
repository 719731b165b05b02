"""What workers wrote about themselves, and whether the provider kept its promises.

The lines: ``attempt KEY`` and ``sent KEY`` before and after a message was sent; ``delivered KEY COUNT``
before and ``done KEY COUNT`` after it was settled, with the deliveries begun before this one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Ledger:
    """The sum of the ledgers of all workers of one queue or subscription.

    Args:
        attempted, sent: keys, before and after.
        delivered, done: how often each key came with each count.
        settled: how often each key lies where settled messages are kept; None where nobody looked.
    """

    attempted: set[str] = field(default_factory=set)
    sent: set[str] = field(default_factory=set)
    delivered: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    done: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    settled: Counter[str] | None = None

    @classmethod
    def read(cls, paths: Iterable[Path]) -> Ledger:
        ledger = cls()
        for path in paths:
            for line in path.read_text().splitlines():
                word, key, *count = line.split(" ")
                if word == "attempt":
                    ledger.attempted.add(key)
                elif word == "sent":
                    ledger.attempted.add(key)
                    ledger.sent.add(key)
                elif word == "delivered":
                    ledger.delivered[key][int(*count)] += 1
                else:
                    ledger.done[key][int(*count)] += 1
        return ledger

    @property
    def lost(self) -> set[str]:
        """Sent, but never delivered; or delivered, gone, and never settled."""
        lost = self.sent - self.delivered.keys() - self.done.keys()
        if self.settled is not None:
            lost |= (self.sent | self.delivered.keys()) - self.settled.keys()
        return lost

    @property
    def unexpected(self) -> set[str]:
        """Delivered, but nobody tried to send it."""
        return (self.delivered.keys() | self.done.keys()) - self.attempted

    @property
    def twice(self) -> set[str]:
        """Delivered twice and the later delivery had no higher count, so no flag; or settled twice."""
        twice = {
            key
            for deliveries in (self.delivered, self.done)
            for key, counts in deliveries.items()
            if max(counts.values()) > 1
        }
        return twice | {key for key, count in (self.settled or {}).items() if count > 1}

    @property
    def risen(self) -> set[str]:
        """Delivered again after its acknowledgement was confirmed."""
        return {
            key
            for key, counts in self.done.items()
            if len(counts) > 1 or max(self.delivered.get(key, counts)) > max(counts)
        }

    @property
    def redelivered(self) -> set[str]:
        """Delivered more than once, each time but the first with the flag: allowed after a crash."""
        return {key for key, counts in self.delivered.items() if len(counts) > 1}

    def __str__(self) -> str:
        return (
            f"attempted {len(self.attempted):,}, sent {len(self.sent):,}, delivered {len(self.delivered):,}, "
            f"acknowledged {len(self.done):,}, redelivered {len(self.redelivered):,}; lost {len(self.lost)}, "
            f"unexpected {len(self.unexpected)}, twice without the flag {len(self.twice)}, "
            f"again after the acknowledgement {len(self.risen)}"
        )

    @property
    def kept(self) -> bool:
        """Whether no promise was broken."""
        return not (self.lost or self.unexpected or self.twice or self.risen)
