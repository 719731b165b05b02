"""The summary of a run: counts, and the newest events."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final

from connector.events.outcome import Outcome
from connector.operate.activity import Activity
from connector.status import OutcomeKind
from connector.text.alike import mask

_KEYS: Final = (
    "claimed",
    "published",
    "unsubscribed",
    "failed",
    "duplicates",
    "expired",
    "in_doubt",
    "later",
    "discarded",
)
_COUNTED: Final = {
    OutcomeKind.PUBLISHED: "published",
    OutcomeKind.UNSUBSCRIBED: "unsubscribed",
    OutcomeKind.FAILED: "failed",
    OutcomeKind.DUPLICATE: "duplicates",
    OutcomeKind.IN_DOUBT: "in_doubt",
    OutcomeKind.LATER: "later",
}
_ARCHIVED: Final = (OutcomeKind.PUBLISHED, OutcomeKind.DUPLICATE)
MAX_EVENTS: Final = 1000
_MOST_REASONS: Final = 1000
_number: Final = itemgetter(1)
"""The number of events, of a pair with their reason."""


class EventCounts:
    """The counts of one destination, or of all.

    ``archived`` counts copies in the ArchiveDestination. This number is for people only and not in
    :meth:`as_dict`.
    """

    __slots__ = (*_KEYS, "archived")

    claimed: int
    published: int
    archived: int
    expired: int
    discarded: int

    def __init__(self) -> None:
        for key in (*_KEYS, "archived"):
            setattr(self, key, 0)

    def add(self, kind: OutcomeKind, number: int = 1, *, discarded: bool = False) -> None:
        self.claimed += number
        name = _COUNTED[kind]
        setattr(self, name, getattr(self, name) + number)
        if discarded:
            self.discarded += number
        elif kind in _ARCHIVED:
            self.archived += number

    def as_dict(self) -> dict[str, int]:
        return {key: getattr(self, key) for key in _KEYS}


class Summary:
    """Counts settled events. The outcomes add up to ``claimed``.

    Args:
        destinations: the inputs. Each has an entry, also without any message.
        activity: of the instance, which counts the same events. None = nobody asks for it.
    """

    def __init__(self, destinations: Sequence[str] = (), activity: Activity | None = None) -> None:
        self.activity = activity if activity is not None else Activity()
        self._destinations: dict[str, EventCounts] = {name: EventCounts() for name in destinations}
        self._events: deque[tuple[tuple[int, int], str, str, Outcome]] = deque(maxlen=MAX_EVENTS)
        self._last = (0, 0)
        self._reasons: dict[tuple[str, str], dict[str, tuple[str, int]]] = {}
        """By destination and outcome: the first of alike reasons, and their number, by what they share."""

    def count_outcome(
        self,
        destination: str,
        message_id: str,
        outcome: Outcome,
        *,
        discarded: bool,
        taken: tuple[int, int] | None = None,
    ) -> None:
        """Counts one event with its final outcome.

        Args:
            discarded: no copy of the message was kept.
            taken: cycle and sequence of the claim, which give the order of events. None = after the previous
                event.
        """
        place = self._last if taken is None else taken
        self.count_outcomes(destination, [(place, message_id)], 1, outcome, discarded=discarded)

    def count_outcomes(
        self,
        destination: str,
        newest: Sequence[tuple[tuple[int, int], str]],
        number: int,
        outcome: Outcome,
        *,
        discarded: bool,
    ) -> None:
        """Counts several events of a destination with the same final outcome.

        Args:
            destination: their input.
            newest: cycle and sequence, and JMSMessageID, of the last :data:`MAX_EVENTS` events, at least one.
            discarded: no copies of the messages were kept.
        """
        kind, reason = outcome.kind, outcome.reason
        counts = self._destinations.get(destination)
        if counts is None:
            counts = self._destinations[destination] = EventCounts()
        counts.add(kind, number, discarded=discarded)
        reason_kind = outcome.reason_kind
        self.activity.count_outcome(destination, kind, number, reason_kind, reason, outcome.place)
        self._last = newest[-1][0]
        self._events.extend([(place, identity, destination, outcome) for place, identity in newest])
        if reason:
            groups, group = self._reasons.setdefault((destination, kind), {}), mask(reason)
            first, before = groups.get(group, (reason, 0))
            groups[group] = first, before + number
            if len(groups) > _MOST_REASONS:  # the text of each event may differ
                kept = sorted(groups.items(), key=lambda one: one[1][1], reverse=True)[: _MOST_REASONS // 2]
                self._reasons[destination, kind] = dict(kept)

    def count_expired(self, destination: str, number: int) -> None:
        if number:
            counts = self._destinations.setdefault(destination, EventCounts())
            counts.expired += number
            self.activity.count_outcome(destination, "expired", number, "expired")

    @property
    def reasons(self) -> dict[tuple[str, str], dict[str, int]]:
        """The numbers of events by reason, the most frequent reason first, for each destination and outcome.

        Alike reasons are counted together, under the first of them. Of very many the rare ones are left out.
        """
        return {
            where: dict(sorted(groups.values(), key=_number, reverse=True))
            for where, groups in self._reasons.items()
        }

    @property
    def total(self) -> EventCounts:
        total = EventCounts()
        for counts in self._destinations.values():
            for key in EventCounts.__slots__:
                setattr(total, key, getattr(total, key) + getattr(counts, key))
        return total

    @property
    def destinations(self) -> dict[str, EventCounts]:
        return dict(self._destinations)

    def as_dict(self) -> dict[str, Any]:
        """Returns the document that ``connector run --json`` prints at the end."""
        return {
            **self.total.as_dict(),
            "destinations": {name: counts.as_dict() for name, counts in self._destinations.items()},
            "events": [
                {
                    "id": identity,
                    "destination": destination,
                    "object": outcome.object,
                    "verb": outcome.verb,
                    "outcome": outcome.kind,
                    "reason": outcome.reason,
                }
                # batches end in any order
                for _, identity, destination, outcome in sorted(self._events, key=lambda one: one[0])
            ],
        }
