"""The duplicate keys of the claims of one connection: reserved while the events are at work."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from operator import attrgetter
from typing import Final

from connector import faults
from connector.events.claim.duplicate_keys import DuplicateKeys
from connector.events.claim.event_waits import EventWaits
from connector.events.outcome import Outcome, shorten
from connector.events.run.event_keys import RecordKey
from connector.events.run.schedule import DUPLICATE, Admitted, EndedClaims, Schedule
from connector.messaging.claim import Claim
from connector.messaging.state_store import PublishedIds
from connector.status import OutcomeKind

_AWAITED_MS: Final = 500
"""Milliseconds until a copy of an awaited event comes again."""


class Duplicates:
    """Keeps other instances from publishing the copies of events that run here. For one thread.

    Args:
        window: the keys of published events, and those that instances have reserved.
        keys: says which events have a key.
        waits: the events that copies wait for.
        awaited: returns the keys by values of published events whose messages a broker delivers again.
    """

    def __init__(
        self,
        window: PublishedIds,
        keys: DuplicateKeys,
        schedule: Schedule,
        waits: EventWaits,
        awaited: Callable[[], Collection[str]] = frozenset,
    ) -> None:
        self._awaited = awaited
        self.window = window
        self._keys = keys
        self._schedule = schedule
        self._waits = waits
        self._has_reserved = False

    def reserve(self, claims: Iterable[Claim]) -> tuple[dict[int, str], Collection[str]]:
        """Reserves the keys of claims.

        Returns:
            the keys by sequence, and those that another instance has in flight.
        """
        found = ((claim.sequence, self._keys.of(claim)) for claim in claims)
        ids = {sequence: key for sequence, key in found if key is not None}
        self._has_reserved = True
        return ids, self.window.reserve(list(ids.values()), self._schedule.ids)

    def admit(self, claims: Sequence[Claim]) -> Admitted:
        """Decides about claims whose keys by values are found, and reserves the keys of those that run.

        Args:
            claims: of which :meth:`.Schedule.found_of` knows the keys.
        """
        faults.point("keys.found")
        result = Admitted()
        ordered = sorted(claims, key=attrgetter("cycle", "sequence"))
        self._waits.sort_copies(ordered)
        records = [(claim, self._records(claim)) for claim in ordered]
        new = dict.fromkeys(one.key for _, found in records for one in found if one.key and not one.reason)
        busy: Collection[str] = ()
        if new:
            self._has_reserved = True
            busy = self.window.reserve(list(new), self._schedule.ids)
            records = [(claim, self._records(claim)) for claim in ordered]  # the window knows more now
        faults.point("keys.reserved")
        awaited = self._awaited() if new else ()
        now = self._waits.now()
        for claim, found in records:
            self._admit(claim, found, busy, awaited, now, result)
        return result

    def _admit(
        self,
        claim: Claim,
        records: tuple[RecordKey, ...],
        busy: Collection[str],
        awaited: Collection[str],
        now: int,
        result: Admitted,
    ) -> None:
        keys = [one.key for one in records if one.key and not one.reason]
        if not keys and any(one.reason for one in records):
            reason = shorten("; ".join(dict.fromkeys(one.reason for one in records)))
            result.decided.append((claim, DUPLICATE._replace(reason=reason)))
        elif any(key in busy for key in keys):
            result.returned.append(claim)
        elif any(key in awaited for key in keys):
            later = Outcome(OutcomeKind.LATER, not_read=True, due=now + _AWAITED_MS)
            result.decided.append((claim, later))
        elif due := self._waits.due_of_values(claim, keys, now):
            result.decided.append((claim, Outcome(OutcomeKind.LATER, not_read=True, due=due)))
        elif self._schedule.hold(claim, records):
            result.runs.append(claim)
        else:
            result.waits.append(claim)

    def _records(self, claim: Claim) -> tuple[RecordKey, ...]:
        """Returns what is known of the keys of a claim."""
        records: list[RecordKey] = []
        before: set[str] = set()
        for found in self._schedule.found_of(claim):
            if not found.digest:
                records.append(RecordKey("", ""))
                continue
            key = self._keys.of_value(claim, found.digest)
            reason = f"duplicate_key {found.text}" if key in self.window or key in before else ""
            before.add(key)
            if reason:
                where = "it was published before" if key in self.window else "its message has it twice"
                reason = f"{where}: {reason}"
            records.append(RecordKey(found.digest, key, reason))
        return tuple(records)

    def add(self, published: Iterable[tuple[Claim, Outcome]]) -> None:
        """Adds the keys of published events."""
        for claim, outcome in published:
            self.window.add(self._keys.published(claim, outcome, self._schedule.id_of(claim)))

    def remove(self, failed: Iterable[tuple[Claim, Outcome]]) -> None:
        """Removes the keys of events that have failed after all."""
        for claim, outcome in failed:
            self.window.remove(self._keys.published(claim, outcome, self._schedule.id_of(claim)))

    def release(self, *, has_returned: bool) -> None:
        """Lets other instances publish the copies of events that no longer run here.

        Args:
            has_returned: whether events have gone back.
        """
        if not self._has_reserved:
            return
        if not self._schedule.unsettled:
            self.window.release()
            self._has_reserved = False
        elif has_returned:
            self.window.reserve((), self._schedule.ids)


def published_of(ended: EndedClaims) -> list[tuple[Claim, Outcome]]:
    """Returns the published events among ended claims."""
    return [one for one in ended.decided if one[1].kind == OutcomeKind.PUBLISHED]
