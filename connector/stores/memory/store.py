"""The store of a client (see :class:`connector.stores.engine.store.Store`)."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from connector.errors import ClaimLost, SettlementError
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.once import OnceKey, SentOnce
from connector.messaging.retention import Pruned, Retention
from connector.stores.engine.changes import (
    Change,
    Discarded,
    Edit,
    GivenBack,
    GroupMoved,
    Moved,
    Removed,
    Sent,
)
from connector.stores.engine.channel import Channel, Owner, Part
from connector.stores.engine.claims import LocalClaim
from connector.stores.engine.client import SUBSCRIPTION
from connector.stores.engine.headers import ORIGIN, apply_edit, edit_in_progress, origin_queue
from connector.stores.engine.store import Counts, Judge, Store, Unreadable
from connector.stores.memory.entries import Box, Entry, by_order
from connector.stores.memory.memory import Memory, locked
from connector.stores.memory.reader import MemoryReader
from connector.stores.memory.room import check_target, wait_for_room
from connector.stores.memory.tasks import MemoryTaskSpec
from connector.stores.memory.watch import MemoryWatch


@locked
@dataclass(eq=False)
class MemoryStore(Store):
    """The messages of a :class:`~connector.stores.memory.memory.Memory`.

    Args:
        window: directory of the records that name published ids. Empty = no records.
    """

    memory: Memory
    watch: MemoryWatch
    window: str
    title = "memory"

    # -- channels ----------------------------------------------------------------------------------

    def destinations(self) -> list[Destination]:
        boxes = [one for one in self.memory.boxes if one.part is Part.MAIN]
        return [one.destination for one in boxes if not one.subscription]

    def has(self, channel: Channel) -> bool:
        return channel._replace(part=Part.MAIN) in self.memory.boxes

    def create(self, channel: Channel) -> None:
        self.memory.check_alive(self.watch.client_id)
        self.memory.create(channel)

    def remove(self, channel: Channel, *, claimed: bool) -> None:
        memory = self.memory
        memory.remove_record(SUBSCRIPTION, Channel(channel.destination), channel.subscription)
        parts = {channel._replace(part=part): box for part, box in memory.parts(channel).items()}
        for one, box in parts.items():
            memory.boxes.pop(one, None)
            for entry in [*box.waiting.values(), *(box.claimed.values() if claimed else ())]:
                memory.remove(entry)
        for offer in [offer for one in parts for offer in memory.readers.get(one, {}).values()]:
            offer(None, "")

    def empty(self, channel: Channel) -> None:
        parts = self.memory.parts(channel)
        for entry in [*parts[Part.MAIN].waiting.values(), *parts[Part.DELAYED].waiting.values()]:
            self.memory.remove(entry)

    def count(self, channel: Channel) -> Counts:
        parts = self.memory.parts(channel)
        claimed = sum(len(box.claimed) for box in parts.values())
        waiting = {part: len(box.waiting) for part, box in parts.items()}
        put_aside = waiting[Part.EXPIRED], waiting[Part.ERROR]
        return Counts(waiting[Part.MAIN], claimed, *put_aside, delayed=waiting[Part.DELAYED])

    def scan(
        self,
        channel: Channel,
        *,
        waiting: bool,
        claimed: bool,
        unreadable: Unreadable | None,
        ids: frozenset[str] | None = None,
    ) -> Iterator[Message]:
        found = []
        parts = self.memory.parts(channel)
        entries = [*parts[channel.part].waiting.values()] if waiting else []
        for box in parts.values() if claimed else ():
            entries += box.claimed.values()
        for entry in sorted(entries, key=by_order):
            message = entry.headers.copy(entry.body.data)
            message.delivery_time = entry.due or message.delivery_time
            claim = entry.claim
            if claim is not None and claim.in_progress and claim.destination != channel.destination:
                message.set_property(ORIGIN, str(claim.destination))
            found.append(message)
        return iter(found)

    def in_progress_claims(self, channel: Channel) -> list[LocalClaim]:
        box = self.memory.boxes.get(channel) or Box(channel.part)
        entries = sorted([*box.waiting.values(), *box.claimed.values()], key=by_order)
        return [_in_progress(entry, channel) for entry in entries]

    def reader(
        self, channel: Channel, judge: Judge, into: Channel | None, destination: Destination, lot: str = ""
    ) -> MemoryReader:
        self.memory.check_alive(self.watch.client_id)
        owner = lot or self.watch.client_id
        return MemoryReader(self.memory, self.watch, channel, judge, into, destination, owner)

    # -- sending and settling ----------------------------------------------------------------------

    def put(self, messages: Sequence[tuple[Message, Sequence[Channel]]]) -> None:
        memory = self.memory
        memory.check_alive(self.watch.client_id)
        made = [(memory.new(message), channels) for message, channels in messages]
        made = [(entry, channels) for entry, channels in made if channels]
        if made:
            wait_for_room(memory, [entry for entry, _ in made], made[0][1][0], self.watch.client_id)
        for entry, channels in made:
            memory.send(memory.keep(entry), channels)

    def put_once(self, message: Message, channels: Sequence[Channel], once: OnceKey) -> SentOnce:
        memory = self.memory
        memory.check_alive(self.watch.client_id)
        found = memory.sent.find(once.application, once.key)
        if found is not None:
            return found
        entry = memory.new(message)
        if channels:
            wait_for_room(memory, [entry], channels[0], self.watch.client_id)
            found = memory.sent.find(once.application, once.key)
            if found is not None:  # sent by another client during the wait
                return found
            memory.send(memory.keep(entry), channels)
        return memory.sent.add(once, message.message_id or "")

    def find_sent(self, application: str, key: str) -> SentOnce | None:
        self.memory.check_alive(self.watch.client_id)
        return self.memory.sent.find(application, key)

    def prepared(self, handle: Any) -> Message | None:
        entry = self._prepared(handle)
        return None if entry is None else entry.headers

    def _prepared(self, handle: Any) -> Entry | None:
        return self.memory.prepared.get(handle[0], {}).get(handle[1])

    def check_writable(self, destination: Destination) -> None:
        check_target(self.memory, Channel(destination))
        self.memory.create(Channel(destination))

    def apply(self, changes: Sequence[Change], *, fenced: bool) -> None:
        self.memory.check_alive(self.watch.client_id, SettlementError)
        # All that can fail comes first. So the changes happen all together or not at all.
        singles = list(_singles(changes))
        for change in singles:
            self._check(change, fenced=fenced)
        published = [one.published for one in singles if isinstance(one, Moved | Removed) and one.published]
        if self.window and published:
            name = f"{self.watch.client_id}-{self.memory.next_number()}"
            self.memory.remember(os.path.join(self.window, name), published)
        for change in singles:
            if not isinstance(change, Sent | Discarded):
                self._settle(change)
            elif (entry := self._prepared(change.handle)) is not None:
                del self.memory.prepared[change.handle[0]][change.handle[1]]
                self.memory.send(entry, change.channels if isinstance(change, Sent) else ())

    def _check(self, change: _Single, *, fenced: bool) -> None:
        """Raises ClaimLost if a change cannot be made."""
        if isinstance(change, Sent):
            if self._prepared(change.handle) is None:
                raise ClaimLost(
                    f"the message prepared as {change.handle[1]!r} is not there any more: it was sent or "
                    "discarded before, or its client has ended; nothing was settled"
                )
        elif fenced and not isinstance(change, Discarded) and not self.memory.find(change.claim.reference):
            raise ClaimLost(
                f"{change.claim.message_id} of {change.claim.destination} is not claimed by this client any "
                "more; nothing was settled, and the client that claims the message next gets it"
            )

    def _settle(self, change: Moved | Removed | GivenBack) -> None:
        memory, claim = self.memory, change.claim
        entry = memory.find(claim.reference)
        if entry is None or entry.channel is None:  # lost: its new owner settles the message
            return
        place = entry.channel
        memory.take_out(entry)
        if isinstance(change, Removed):
            memory.remove(entry)
            return
        entry.headers = apply_edit(entry.headers, change.edit)
        if isinstance(change, Moved):
            entry.waits = False
            memory.send(entry, change.channels)
        elif change.stays:
            self._leave(entry, place, claim, waits=True)
        else:
            entry.due = change.due
            memory.put_waiting(entry, claim.home, self.watch.client_id)

    # -- recovery ----------------------------------------------------------------------------------

    def set_owner(self, claim: LocalClaim, owner: Owner | None, edit: Edit) -> LocalClaim | None:
        memory = self.memory
        memory.check_alive(self.watch.client_id)
        entry = memory.find(claim.reference)
        if entry is None or entry.channel is None:
            return None
        place = entry.channel
        memory.take_out(entry)
        entry.headers = apply_edit(entry.headers, edit)
        if owner is None:
            return self._leave(entry, place, claim, waits=False)
        edit = edit_in_progress(Edit(), claim.destination, owned=True)
        entry.headers, entry.waits = apply_edit(entry.headers, edit), False
        return memory.put_claimed(
            entry, place, entry.new_claim(claim.home, owner, claim.destination, in_progress=True)
        )

    def _leave(self, entry: Entry, place: Channel, claim: LocalClaim, *, waits: bool) -> LocalClaim:
        """Lets a message that was taken out wait in its in-progress destination, without an owner."""
        edit = edit_in_progress(Edit(), claim.destination, owned=False)
        entry.headers, entry.waits = apply_edit(entry.headers, edit), waits
        self.memory.put_waiting(entry, place)
        return entry.new_claim(claim.home, None, claim.destination, in_progress=True, waits=waits)

    def owners(self, channel: Channel) -> Iterator[tuple[str, str, float]]:
        entries = [one for box in self.memory.parts(channel).values() for one in box.claimed.values()]
        claims = [(one.claim, one.taken_at) for one in entries if one.claim is not None]
        return iter(
            [(one.message_id, one.owner.client_id, at) for one, at in claims if one.owner is not None]
        )

    def claims(self, client_ids: Collection[str], in_progress: Channel | None) -> dict[str, list[LocalClaim]]:
        found = {}
        for client_id in client_ids:
            claims = [
                one.claim
                for one in self.memory.claims.get(client_id, {}).values()
                if one.claim is not None and (not one.claim.in_progress or one.channel == in_progress)
            ]
            found[client_id] = sorted(claims, key=lambda claim: (claim.cycle, claim.sequence))
        return found

    def finish(self, client_id: str) -> None:
        for entry in self.memory.claims.get(client_id, {}).values():
            entry.changes += 1
            old = entry.claim
            assert old is not None
            entry.claim = entry.new_claim(
                old.home, old.owner, old.destination, in_progress=old.in_progress, waits=old.waits
            )

    def discard_prepared(self, client_id: str) -> None:
        self.memory.discard_prepared(client_id)

    def prune(self, retentions: Sequence[Retention], seconds: float) -> Pruned:
        copies: dict[Destination, int] = {}
        now = time.time()
        for one in retentions:
            waiting = self.memory.parts(Channel(one.destination))[Part.MAIN].waiting.values()
            old = [entry for entry in waiting if one.is_over(entry.headers, now, now)]
            for entry in old:
                self.memory.remove(entry)
            if old:
                copies[one.destination] = len(old)
        return Pruned(copies=copies)

    def tasks(self) -> MemoryTaskSpec:
        return MemoryTaskSpec(self.memory.key, self.memory.pid, self.watch.client_id)


_Single = Moved | Removed | GivenBack | Sent | Discarded


def _singles(changes: Sequence[Change]) -> Iterator[_Single]:
    """Yields the changes, those of a group one by one."""
    for change in changes:
        if isinstance(change, GroupMoved):
            for claim, key in zip_longest(change.claims, change.published):
                yield Moved(claim, (change.channel,), change.edit, key)
        else:
            yield change


def _in_progress(entry: Entry, channel: Channel) -> LocalClaim:
    """Returns the claim of a message in an in-progress destination, also of one that was put there."""
    claim = entry.claim
    if claim is None:
        origin = origin_queue(entry.headers)
        home = channel if origin is None else Channel(origin)
        return entry.new_claim(home, None, origin, in_progress=True, waits=entry.waits)
    if claim.in_progress:
        return claim
    return entry.new_claim(claim.home, claim.owner, claim.destination, in_progress=True)
