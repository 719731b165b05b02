"""Events that wait for an event that comes again later: those behind it in ``order``, and its copies."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from typing import Final

from connector.events.claim.duplicate_keys import DuplicateKeys
from connector.events.claim.order_groups import DESTINATION, GROUP, NONE, Orders
from connector.events.outcome import Outcome
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.input import Input
from connector.messaging.message import Message
from connector.messaging.polling import Poller
from connector.operate.own_history import OwnHistory
from connector.status import OutcomeKind

_GRACE_MS: Final = 2_000
"""Milliseconds after its time in which an event that waited should be here. Later, it has gone elsewhere."""
_AGAIN_MS: Final = 100
_FEW: Final = 1_000


class EventWaits:
    """Knows until when each key and each id waits. For one thread.

    A wait ends when the event that comes again is seen: a store may find it some time after its time.
    An event that another client has taken or an operator has moved is waited for two seconds.

    Args:
        orders: of the destinations.
        own: says whose history of a message counts.
        keys: of duplicates, so that copies wait. None = they are not eliminated.
        clock: returns seconds since 1970.
    """

    def __init__(
        self,
        orders: Orders,
        own: OwnHistory,
        *,
        keys: DuplicateKeys | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._own = own
        self._orders = orders
        self._keys = keys
        self._clock = clock
        self._has_waits = False
        self.until: dict[Hashable, int] = {}
        """Milliseconds since 1970, by key of ``order``, and by duplicate key."""
        self._copies: dict[Hashable, str | None] = {}
        """By key of ``order``: the id of a copy that waits for another one, and lets its key wait."""
        self._many = _FEW
        self._behind: dict[Hashable, dict[str, int]] = {}
        """By key of ``order``: until when events were put aside behind another one, by id, in their order.

        0 = the event is here, and has no final outcome yet.
        """
        self.left_aside: dict[Destination, dict[Hashable, int]] = {}
        """By key of ``order``: when all events are here that an earlier connection has put aside.

        Until then no event of the key runs. Afterwards a poll finds them and older ones, in their order.
        """

    @property
    def has_any(self) -> bool:
        """Whether an event may have to wait."""
        return bool(self.until or self._behind or self.left_aside)

    def read(self, named: Input, poller: Poller) -> None:
        """Finds the keys and ids of the events that wait in an input, whichever client has left them there.

        Args:
            named: the input that the poller takes from.

        Raises:
            ProviderError: the input cannot be read.
        """
        keys = self._keys
        if self._orders.of(poller.destination) == NONE and keys is None:
            return
        destination = poller.destination
        for message, identity in poller.delayed():
            key, due = self._key_of(destination, message), message.delivery_time
            if self._has_waited(message, destination):
                self._note(key, due)
                if keys is not None:
                    for one in keys.of_delayed(named, poller, message, identity):
                        self._note(one, due)
            elif key is not None and self._was_put_aside(message, destination):
                left = self.left_aside.setdefault(destination, {})
                left[key] = max(due, left.get(key, 0))

    def begin_poll(self, destination: Destination) -> None:
        """Lets nothing wait any more for what an earlier connection has put aside, if this poll finds it."""
        if self.left_aside:
            now = self.now()
            left = {key: due for key, due in self.left_aside.pop(destination, {}).items() if due > now}
            if left:
                self.left_aside[destination] = left

    def add(self, claim: Claim, outcome: Outcome) -> None:
        """Lets the key and the id of an event that comes again later wait for it.

        An event that was not read waits for another event itself. What comes after it waits for it, too.
        """
        key = self._orders.key(claim)
        if outcome.not_read:
            if key not in self.left_aside.get(claim.destination, ()):
                self._put_aside(key, _name_of(claim), outcome.due)
            return
        self._note(key, outcome.due)
        if self._keys is not None:
            for one in self._keys.published(claim, outcome):
                self._note(one, outcome.due)

    def end(self, claim: Claim) -> None:
        """Lets nothing wait for an event any more, because it has its final outcome."""
        key = self._orders.key(claim)
        behind = self._behind.get(key, {})
        if behind.pop(_name_of(claim), None) is not None and not behind:
            del self._behind[key]

    def due_of(self, claim: Claim, identity: str | None, now: int) -> int:
        """Returns until when an event has to wait for another event. 0 = it need not wait.

        The other one is an earlier event of its key, or another copy of its message. An event that has waited
        itself ends the wait of the others. Those that were put aside meanwhile come before any other event.

        Args:
            identity: its duplicate key, if duplicates are eliminated.
            now: :meth:`now`, the same for the claims of one poll.
        """
        if not self.has_any:
            return 0
        key = self._orders.key(claim)
        name = _name_of(claim)
        if self._has_waited(claim.headers(), claim.destination):
            self._put_aside(key, name, 0)
            self._end(key)
            self.until.pop(identity, None)
            return 0
        due = self._due(identity, now)
        is_first = identity is not None and self._copies.get(key) == identity
        if due and key is not None and (is_first or key not in self.until):
            self._copies[key] = identity  # what is behind this copy waits, too
            self._note(key, due)
        elif is_first and not due:
            self._end(key)
        due = max(self._due(key, now), due)
        left = self.left_aside.get(claim.destination, {})
        if key in left:
            left[key] = due = max(left[key], due)
            return due
        due = max(due, self._due_behind(key, name, now))
        self._put_aside(key, name, due)
        return due

    def due_of_values(self, claim: Claim, keys: Sequence[str], now: int) -> int:
        """Returns until when an event has to wait for another event with one of its keys by values.

        0 = it need not wait. An event that has waited itself ends the wait of the others.

        Args:
            now: as of :meth:`due_of`.
        """
        if not (keys and self.until):
            return 0
        if not self._has_waited(claim.headers(), claim.destination):
            return max(self._due(key, now) for key in keys)
        for key in keys:
            self.until.pop(key, None)
        return 0

    def sort_copies(self, claims: list[Claim]) -> None:
        """Puts messages that have waited before the others, which may be copies of them."""
        if self._has_waits:
            claims.sort(key=lambda claim: not self._has_waited(claim.headers(), claim.destination))

    def has(self, destination: Destination) -> bool:
        """Whether all events of an input have to wait."""
        if self._orders.of(destination) != DESTINATION:
            return False
        left = self.left_aside.get(destination, {}).get(destination, 0)
        return max(left, self.until.get(destination, 0)) > self.now()

    def _note(self, key: Hashable, due: int) -> None:
        self._has_waits = True
        if key is None:
            return
        self.until[key] = max(due, self.until.get(key, 0))
        if len(self.until) + len(self._behind) > self._many:
            oldest = self.now() - _GRACE_MS
            for one in [one for one, until in self.until.items() if until <= oldest]:
                self._end(one)
            for one in [one for one, dues in self._behind.items() if max(dues.values()) <= oldest]:
                del self._behind[one]
            self._many = max(_FEW, 2 * (len(self.until) + len(self._behind)))

    def _due_behind(self, key: Hashable, name: str, now: int) -> int:
        """Returns until when an event has to wait for earlier ones that were put aside. 0 = there is none."""
        behind = self._behind.get(key, {})
        gone: list[str] = []  # elsewhere
        waits_until = 0
        for other, due in behind.items():
            if other == name:
                break
            if due + _GRACE_MS > now:
                waits_until = due if due > now else now + _AGAIN_MS
                break
            if due:
                gone.append(other)
        for one in gone:
            del behind[one]
        if key in self._behind and not behind:
            del self._behind[key]
        return waits_until

    def _put_aside(self, key: Hashable, name: str, due: int) -> None:
        """Notes until when an event is put aside, behind those that were put aside before. 0 = it is here."""
        if key is not None and (due or name in self._behind.get(key, {})):
            self._behind.setdefault(key, {})[name] = due

    def _end(self, key: Hashable) -> None:
        self.until.pop(key, None)
        self._copies.pop(key, None)

    def _due(self, key: Hashable, now: int) -> int:
        due = self.until.get(key, 0)
        if due and due + _GRACE_MS <= now:
            self._end(key)
            return 0
        return due and max(due, now + _AGAIN_MS)

    def now(self) -> int:
        """Returns the time in milliseconds since 1970."""
        return int(self._clock() * 1000)

    def _key_of(self, destination: Destination, message: Message) -> Hashable:
        order = self._orders.of(destination)
        if order == DESTINATION:
            return destination
        has_key = order == GROUP and message.group_id is not None
        return (destination, message.group_id) if has_key else None

    def _has_waited(self, message: Message, destination: Destination) -> bool:
        has_tries = bool(message.properties.get("connector_retries"))
        return has_tries and self._own.counts(message, str(destination))

    def _was_put_aside(self, message: Message, destination: Destination) -> bool:
        is_later = message.properties.get("connector_outcome") == OutcomeKind.LATER
        return is_later and self._own.counts(message, str(destination))


def _name_of(claim: Claim) -> str:
    return claim.message_id or claim.duplicate_key
