"""What dead clients leave in memory: claims to decide about, prepared messages to drop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from connector.core.state import MessageState, Transition
from connector.errors import DestinationError
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.provider import Settlement
from connector.providers.memory.channel import Channel
from connector.providers.memory.claims import MemoryClaim, claim, let_go, lie
from connector.providers.memory.clients import Client
from connector.providers.memory.entries import Entry, Hold, Place
from connector.providers.memory.memory import Memory
from connector.providers.memory.settlement import give_back

ORIGIN: Final = "connector_origin_destination"
"""The property of a message in an in-progress destination that says where it came from."""


class MemoryLeftover:
    """See :class:`connector.messaging.provider.Leftover`."""

    def __init__(self, memory: Memory, dead: Client, own: Client, claims: list[MemoryClaim]) -> None:
        self._memory = memory
        self._dead = dead
        self._own = own
        self.client_id = dead.client_id
        self.application = dead.application
        self.instance = dead.instance
        self.declared_dead = False
        self.claims = claims

    def forget(self) -> None:
        """All is dealt with. What was not, after all, comes again; in an in-progress destination it stays."""
        with self._memory:
            if self._dead.taken_by is self._own:
                end_client(self._memory, self._dead)

    def release(self) -> None:
        """Leaves it to whoever looks next."""
        with self._memory:
            if self._dead.taken_by is self._own:
                self._dead.taken_by = None


def find_leftovers(memory: Memory, own: Client, in_progress: Destination | None) -> Iterator[MemoryLeftover]:
    """The dead clients that ``own`` takes over from; nobody else does until each is forgotten or released."""
    with memory:
        remaining = memory.clients.dead(own.application)
        for dead in remaining:
            dead.taken_by = own
    try:
        while remaining:
            with memory:
                dead = remaining.pop(0)
                # made anew: whoever had such a claim before has lost it
                claims = [
                    claim(entry, hold, place)
                    for entry, hold, place in _held(dead)
                    if place is hold.home or place.destination == in_progress
                ]
                claims.sort(key=lambda one: (one.cycle, one.sequence))
            yield MemoryLeftover(memory, dead, own, claims)
    finally:
        with memory:
            for dead in remaining:
                dead.taken_by = None


def unowned_claims(memory: Memory, in_progress: Destination) -> list[MemoryClaim]:
    """Messages in the in-progress destination that no known client owns."""
    queue = memory.queues.get(in_progress)
    if queue is None:
        return []
    found = []
    for entry in queue.in_order():
        if entry.state is MessageState.NEW:
            home = _origin(memory, entry) or queue
            found.append(MemoryClaim(entry, Hold(None, 0, 0, home, home.destination)))
        elif entry.hold is not None and entry.hold.owner is None:
            found.append(MemoryClaim(entry, entry.hold))
    return found


def leave(memory: Memory, held: MemoryClaim) -> None:
    """Lets a message of an in-progress destination lie there without an owner, delivered once more."""
    if held.is_held:
        lie(held)
        _deliver_once_more(memory, held)


def adopt(memory: Memory, held: MemoryClaim, own: Client, cycle: int, sequence: int) -> MemoryClaim | None:
    """See :meth:`connector.messaging.provider.Connection.adopt`."""
    if not held.is_held:
        return None
    entry = held.entry
    place = entry.channel
    assert place is not None
    is_in_progress = held.in_progress
    let_go(held)
    _deliver_once_more(memory, held)
    hold = Hold(own, cycle, sequence, held.hold.home, held.destination, adopted=is_in_progress)
    return claim(entry, hold, place)


def _deliver_once_more(memory: Memory, held: MemoryClaim) -> None:
    """Counts a delivery, but of a message that was left and so counted before, or that waits."""
    is_counted = held.hold.owner is None and held.delivery_count > 0
    if not (is_counted or held.waits):
        headers = held.headers()
        headers.delivery_count += 1
        memory.set_headers(held.entry, headers)


def end_client(memory: Memory, client: Client) -> None:
    """Nothing of a client is kept: claims that are left come again, as one more delivery.

    Those in an in-progress destination stay there without an owner.
    """
    for entry, hold, place in _held(client):
        if place is hold.home:
            held = MemoryClaim(entry, hold)
            let_go(held)
            give_back(memory, held, Settlement(held, give_back=True, delivery_count=entry.deliveries + 1))
        else:
            entry.hold = replace(hold, owner=None)
    client.claims.clear()
    drop_prepared(memory, client)
    memory.clients.remove(client)


def drop_prepared(memory: Memory, client: Client) -> None:
    """What a client has not committed is never sent."""
    for entry in client.prepared.values():
        entry.move(Transition.ROLLBACK)
        memory.store.remove(entry)
    client.prepared.clear()


def _held(client: Client) -> list[tuple[Entry, Hold, Place]]:
    """What a client has claimed, and where each stands."""
    found = []
    for entry in client.claims.values():
        assert entry.hold is not None
        assert entry.channel is not None
        found.append((entry, entry.hold, entry.channel))
    return found


def _origin(memory: Memory, entry: Entry) -> Channel | None:
    value = entry.headers.properties.get(ORIGIN)
    try:
        origin = parse_destination(value) if isinstance(value, str) else None
    except DestinationError:
        return None
    return memory.queue(origin) if origin is not None and origin.is_queue and not origin.view else None
