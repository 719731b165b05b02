"""What dead clients leave in memory: claims to decide about, prepared messages to drop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from connector.core.state import MessageState, Transition
from connector.errors import DestinationError
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.provider import Settlement
from connector.providers.memory.channel import Channel
from connector.providers.memory.claims import MemoryClaim, claim, let_go
from connector.providers.memory.clients import Client
from connector.providers.memory.entries import Entry
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
                claims = [
                    _renewed(held)
                    for held in sorted(dead.claims.values(), key=lambda one: (one.cycle, one.sequence))
                    if not _is_elsewhere(held, in_progress)
                ]
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
            found.append(MemoryClaim(entry, home, None, 0, 0, home.destination))
        elif entry.claim is not None and entry.claim.owner is None:
            found.append(entry.claim)
    return found


def adopt(memory: Memory, held: MemoryClaim, own: Client, cycle: int, sequence: int) -> MemoryClaim | None:
    """Takes over a message of an in-progress destination; None where somebody else did.

    Whether it was delivered is in doubt, so it counts as one more delivery.
    """
    if not held.is_held:
        return None
    entry = held.entry
    place = entry.channel
    assert place is not None
    let_go(held)
    headers = held.headers()
    headers.delivery_count += 1
    memory.set_headers(entry, headers)
    return claim(entry, own, cycle, sequence, place=place, home=held.home, destination=held.destination)


def end_client(memory: Memory, client: Client) -> None:
    """Nothing of a client is kept: claims that are left come again, as one more delivery.

    Those in an in-progress destination stay there without an owner.
    """
    for held in list(client.claims.values()):
        entry = held.entry
        if entry.channel is held.home:
            let_go(held)
            give_back(memory, held, Settlement(held, give_back=True, delivery_count=entry.deliveries + 1))
        else:
            held.owner = None
    client.claims.clear()
    drop_prepared(memory, client)
    memory.clients.remove(client)


def drop_prepared(memory: Memory, client: Client) -> None:
    """What a client has not committed is never sent."""
    for entry in client.prepared.values():
        entry.move(Transition.ROLLBACK)
        memory.store.remove(entry)
    client.prepared.clear()


def _renewed(held: MemoryClaim) -> MemoryClaim:
    """The same claim as one that only its finder has: whoever had it before has lost it."""
    entry, owner = held.entry, held.owner
    assert owner is not None
    assert entry.channel is not None
    return claim(
        entry,
        owner,
        held.cycle,
        held.sequence,
        place=entry.channel,
        home=held.home,
        destination=held.destination,
        requeue=held.requeue,
    )


def _is_elsewhere(held: MemoryClaim, in_progress: Destination | None) -> bool:
    """Whether it stands in an in-progress destination that was not asked for."""
    place = held.entry.channel
    return place is not held.home and (place is None or place.destination != in_progress)


def _origin(memory: Memory, entry: Entry) -> Channel | None:
    value = entry.headers.properties.get(ORIGIN)
    try:
        origin = parse_destination(value) if isinstance(value, str) else None
    except DestinationError:
        return None
    return memory.queue(origin) if origin is not None and origin.is_queue and not origin.view else None
