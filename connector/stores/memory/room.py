"""What a sender needs: targets that take its messages, and room in the memory."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from connector.errors import ProviderError
from connector.stores.engine.channel import Channel
from connector.stores.engine.client import has_ended
from connector.stores.memory.entries import Entry
from connector.stores.memory.memory import Memory


def check_target(memory: Memory, channel: Channel) -> None:
    """Checks that messages can be sent to a channel.

    Raises:
        UnknownDestination: the channel is a temporary destination that has ended.
        ProviderError: a test refuses the destination.
    """
    destination = channel.destination
    if destination in memory.refused:
        raise ProviderError(f"{destination} cannot be written: {memory.refused[destination]}")
    if channel.can_end and not channel.subscription and channel not in memory.boxes:
        raise has_ended(destination)


def wait_for_room(memory: Memory, entries: Sequence[Entry], channel: Channel, client_id: str) -> None:
    """Waits until there is room for the new messages of a sender. Releases the lock while waiting.

    Only senders wait. Messages inside move without waiting, because otherwise no client could make room. What
    the sender itself has claimed does not count, because otherwise the sender would wait for itself.

    Args:
        channel: a target of the messages.

    Raises:
        ProviderError: the target takes no messages, the messages never fit, there was no room in time, or the
            client has ended.
    """
    check_target(memory, channel)
    size, deadline = _bytes(entries), time.monotonic() + memory.send_timeout
    while memory.used + size > memory.max_bytes + _bytes(memory.claims.get(client_id, {}).values()):
        if memory.expired:
            memory.remove(next(iter(memory.expired.values())))
            continue
        what, left = f"cannot send to {channel.destination}", deadline - time.monotonic()
        limit = f"max_bytes ({memory.max_bytes}) of the memory provider"
        own = size + _bytes(memory.prepared.get(client_id, {}).values())  # only the sender can free it
        if own > memory.max_bytes:
            raise ProviderError(
                f"{what}: this transaction alone takes {own} bytes, more than {limit}; send less at once, "
                "commit earlier, or raise max_bytes. Nothing was sent"
            )
        if left <= 0:
            raise ProviderError(
                f"{what}: {len(memory.entries)} messages take {memory.used} of {limit}, and none was taken "
                f"for {memory.send_timeout:g} s; start a consumer, or raise max_bytes. Nothing was sent"
            )
        memory.freed.wait(left)
        memory.check_alive(client_id)
        check_target(memory, channel)


def _bytes(entries: Iterable[Entry]) -> int:
    return sum(entry.weight + len(entry.body.data) for entry in entries)
