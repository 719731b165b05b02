"""The duplicate keys of the claims of one connection: reserved while the events are at work."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from connector.events.claim.duplicate_keys import DuplicateKeys
from connector.events.run.schedule import Schedule
from connector.messaging.claim import Claim
from connector.messaging.state_store import PublishedIds


class Duplicates:
    """Keeps other instances from publishing the copies of events that run here. For one thread.

    Args:
        window: the keys of published events, and those that instances have reserved.
        keys: says which events have a key.
    """

    def __init__(self, window: PublishedIds, keys: DuplicateKeys, schedule: Schedule) -> None:
        self.window = window
        self._keys = keys
        self._schedule = schedule
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

    def add(self, cycle: int, published: Iterable[int]) -> None:
        """Adds the keys of published events of a cycle, by their sequences."""
        ids = self._schedule.ids_of(cycle)
        self.window.add(filter(None, map(ids.get, published)))

    def add_claims(self, published: Sequence[Claim]) -> None:
        """Adds the keys of published events."""
        self.window.add(filter(None, map(self._schedule.id_of, published)))

    def remove_claims(self, failed: Sequence[Claim]) -> None:
        """Removes the keys of events that have failed after all."""
        self.window.remove(filter(None, map(self._schedule.id_of, failed)))

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
