"""Claims: messages that a client has taken and not yet settled."""

from __future__ import annotations

from dataclasses import replace

from connector.core.state import MessageState, Transition
from connector.errors import MalformedData
from connector.messaging.message import Message
from connector.providers.memory.entries import Entry, Hold, Place, copy_message
from connector.providers.memory.memory import Memory


class MemoryClaim:
    """See :class:`connector.messaging.provider.Claim`.

    Args:
        entry: the message, as it is now.
        hold: who has it, and as what.
    """

    __slots__ = ("_headers", "_takes", "cycle", "destination", "entry", "hold", "sequence")

    def __init__(self, entry: Entry, hold: Hold) -> None:
        self.entry = entry
        self.hold = hold
        self.cycle = hold.cycle
        self.sequence = hold.sequence
        self.destination = hold.destination
        self._headers = entry.headers
        self._takes = entry.takes

    @property
    def reference(self) -> str:
        """Names the channel, the message, and which claim of it this is."""
        assert self.entry.channel is not None
        return f"{self.entry.channel.destination.name}/{self.entry.number}-{self._takes}"

    @property
    def delivery_count(self) -> int:
        return self._headers.delivery_count - 1

    @property
    def in_progress(self) -> bool:
        return self.hold.owner is None or self.hold.adopted or self.entry.channel is not self.hold.home

    @property
    def waits(self) -> bool:
        return self.hold.waits

    @property
    def message_id(self) -> str:
        return self._headers.message_id or ""

    @property
    def group_id(self) -> str | None:
        value = self._headers.properties.get("JMSXGroupID")
        return None if value is None else str(value)

    @property
    def duplicate_key(self) -> str:
        source = str(self.destination) if self.destination.view else self.hold.home.text
        return f"{source}|{self.message_id}"

    def headers(self) -> Message:
        return copy_message(self._headers)

    @property
    def is_held(self) -> bool:
        """Whether the message is as it was when this claim was made: not settled, returned or taken over."""
        return self.entry.takes == self._takes and self.entry.state is not MessageState.REMOVED


def claim(entry: Entry, hold: Hold, place: Place) -> MemoryClaim:
    """Makes a message that has left the NEW ones of its channel a claim, which stands in ``place``."""
    assert hold.owner is not None
    entry.takes += 1
    entry.channel = place
    entry.hold = hold
    place.delivered[entry.number] = hold.owner.claims[entry.number] = entry
    return MemoryClaim(entry, hold)


def let_go(held: MemoryClaim) -> None:
    """Ends a claim; the message is in no channel now, and its state is still DELIVERED.

    One that only waits in an in-progress destination is taken out of it first.
    """
    entry = held.entry
    assert entry.channel is not None
    if entry.state is MessageState.NEW:
        entry.channel.leave(entry, Transition.CLAIM)
    entry.channel.delivered.pop(entry.number, None)
    if held.hold.owner is not None:
        held.hold.owner.claims.pop(entry.number, None)
    entry.hold = None
    entry.takes += 1


def drop_claimed(entry: Entry) -> None:
    """A claimed message goes with the channel that it was taken from."""
    if entry.hold is not None and entry.hold.owner is not None:
        entry.hold.owner.claims.pop(entry.number, None)
    entry.hold = None
    assert entry.channel is not None
    entry.channel.drop(entry)


def lie(held: MemoryClaim, *, waits: bool = False) -> None:
    """Ends a claim in an in-progress destination: its message lies there without an owner."""
    place = held.entry.channel
    assert place is not None
    let_go(held)
    held.entry.hold = replace(held.hold, owner=None, waits=waits)
    place.delivered[held.entry.number] = held.entry


def read_claimed(memory: Memory, reference: str, max_body: int) -> Message:
    """The message of a claim, by its reference.

    Raises:
        LookupError: it is claimed so no longer.
        MalformedData: its body is larger.
    """
    number, _, takes = reference.rpartition("/")[2].partition("-")
    entry = memory.store.entries.get(int(number))
    if entry is None or entry.takes != int(takes):
        raise LookupError(f"{reference} is gone")
    body = entry.body.data
    if len(body) > max_body:
        raise MalformedData(f"the body has {len(body)} bytes, more than max_body ({max_body} bytes)")
    return copy_message(entry.headers, body)
