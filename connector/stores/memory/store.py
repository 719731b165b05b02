"""The store of a memory provider (see :mod:`connector.stores.engine.store`)."""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from connector.errors import ClaimLost, SettlementError
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.retention import Pruned, Retention
from connector.state.duplicates import write_keys
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
from connector.stores.engine.headers import ORIGIN, apply_edit, edit_to_put_aside, origin_queue
from connector.stores.engine.registry import ClientInfo
from connector.stores.engine.store import Counts, Judge, Reader, Store, Unreadable, Verdict
from connector.stores.memory.entries import ChannelPart, Entry, MemoryClaim, WaitingEntries
from connector.stores.memory.memory import Memory, MemoryClient
from connector.stores.memory.registry import MemoryWatch
from connector.stores.memory.tasks import MemoryTaskSpec

_records: Final = itertools.count(1)


class MemoryReader(Reader):
    def __init__(
        self,
        store: MemoryStore,
        part: ChannelPart,
        judge: Judge,
        into: Channel | None,
        destination: Destination,
        owner: str = "",
    ) -> None:
        self.expired = 0
        self._owner = owner or store.client.info.client_id
        self._memory = store.memory
        self._client = store.client
        self._watch = store.watch
        self._part = part
        self._judge = judge
        self._place = part if into is None else store.memory.part(into)
        self._in_progress = into is not None
        self._destination = destination
        self._has_news = True
        self._waiting = part.waiting
        self._left = WaitingEntries()
        """Messages that the selector rejects and that expire, the first to expire first."""
        if judge.selects:
            self._waiting = WaitingEntries()
            for entry in part.waiting:
                self._offer(entry)
        part.readers[self] = self._offer
        self._delayed: ChannelPart | None = None
        if part.channel.part is Part.MAIN and part.channel in store.memory.parts:
            self._delayed = store.memory.part(part.channel._replace(part=Part.DELAYED))
            self._delayed.readers[self] = self._tell_of_delayed

    def _offer(self, entry: Entry | None, returned_by: str = "") -> None:
        """Offers a waiting message. A message that the selector rejects can only expire."""
        if entry is not None and self._judge.selects:
            if self._judge(entry.message, _now()) is Verdict.LEAVE:
                if expiration := entry.message.expiration:
                    self._left.push(entry, (expiration, 0), self._part.count)
                return
            self._waiting.push(entry, entry.order, self._part.count)
        self._has_news = True
        self._watch.message_arrived(returned=entry is None or returned_by == self._client.info.client_id)

    def _tell_of_delayed(self, entry: Entry | None, returned_by: str = "") -> None:
        self._watch.message_arrived(returned=entry is None or returned_by == self._client.info.client_id)

    def claim(self, cycle: int, numbers: range) -> list[LocalClaim]:
        claims: list[LocalClaim] = []
        memory, home = self._memory, self._part.channel
        source, in_progress = self._destination, self._in_progress
        with memory:
            self._client.check_alive()
            now = _now()
            if self._delayed is not None:
                memory.move_due(self._part, now)
            while (entry := self._left.pop((now, 0))) is not None:
                self._put_aside(entry, Verdict.EXPIRED)
            for number in numbers:
                entry = self._next(now)
                if entry is None:
                    self._has_news = False
                    break
                memory.take_out(entry)
                owner = Owner(self._owner, cycle, number)
                claim = MemoryClaim(entry, home, owner, source, in_progress=in_progress)
                claims.append(memory.put_in_part(claim, self._place))
        return claims

    def _next(self, now: int) -> Entry | None:
        """Returns the next message for delivery. Puts other messages aside on the way."""
        while (entry := self._waiting.pop()) is not None:
            verdict = self._judge(entry.message, now)
            if verdict is Verdict.TAKE:
                return entry
            self._put_aside(entry, verdict)
        return None

    def _put_aside(self, entry: Entry, verdict: Verdict) -> None:
        memory, part = self._memory, Part.EXPIRED if verdict is Verdict.EXPIRED else Part.ERROR
        memory.take_out(entry)
        if verdict is Verdict.EXPIRED:
            self.expired += 1
            memory.expired[entry.number] = entry
        else:
            memory.change_headers(entry, apply_edit(entry.message, edit_to_put_aside(entry.message)))
        memory.part(self._part.channel._replace(part=part)).enter(entry)

    def has_news(self) -> bool:
        return self._has_news or self.due_in() <= 0

    def due_in(self) -> float:
        with self._memory:
            entry = self._memory.first_delayed(self._part.channel) if self._delayed is not None else None
            return math.inf if entry is None else (entry.due - _now()) / 1000

    def close(self) -> None:
        with self._memory:
            self._part.readers.pop(self, None)
            if self._delayed is not None:
                self._delayed.readers.pop(self, None)


class MemoryStore(Store):
    """The messages of a :class:`~connector.stores.memory.memory.Memory`.

    Args:
        memory: shared by all clients.
        client: the owner of this store.
        watch: of the client.
        window: directory of the records that name published ids. Empty = no records.
    """

    title = "memory"
    has_foreign = False

    def __init__(self, memory: Memory, client: MemoryClient, watch: MemoryWatch, window: str) -> None:
        self.memory = memory
        self.client = client
        self.watch = watch
        self._window = window

    # -- channels ----------------------------------------------------------------------------------

    def destinations(self) -> list[Destination]:
        with self.memory:
            channels = list(self.memory.parts)
        return [one.destination for one in channels if not one.subscription and one.part is Part.MAIN]

    def has(self, channel: Channel) -> bool:
        with self.memory:
            return channel._replace(part=Part.MAIN) in self.memory.parts

    def create(self, channel: Channel) -> None:
        with self.memory:
            self.client.check_alive()
            self.memory.part(channel)

    def remove(self, channel: Channel, *, claimed: bool) -> None:
        memory = self.memory
        with memory:
            memory.remove_record(SUBSCRIPTION, Channel(channel.destination), channel.subscription)
            for part in memory.parts_of(channel):
                del memory.parts[part.channel]
                for entry in [*part.waiting, *(part.claimed.values() if claimed else ())]:
                    memory.remove(entry)
                for offer in part.readers.values():
                    offer(None, "")

    def empty(self, channel: Channel) -> None:
        with self.memory:
            for part in (Part.MAIN, Part.DELAYED):
                for entry in self._entries(channel._replace(part=part), waiting=True):
                    self.memory.remove(entry)

    def count(self, channel: Channel) -> Counts:
        with self.memory:
            parts = {one.channel.part: one for one in self.memory.parts_of(channel)}
            waiting = {part: parts[part].count if part in parts else 0 for part in Part}
            claimed = sum(len(one.claimed) for one in parts.values())
        return Counts(
            waiting[Part.MAIN],
            claimed,
            waiting[Part.EXPIRED],
            waiting[Part.ERROR],
            delayed=waiting[Part.DELAYED],
        )

    def _entries(
        self, channel: Channel, *, waiting: bool, claimed: Sequence[ChannelPart] = ()
    ) -> list[Entry]:
        """Returns waiting messages of a part and messages that lie in parts, in the order of taking."""
        part = self.memory.parts.get(channel)
        found = list(part.waiting) if part is not None and waiting else []
        for one in claimed:
            found += one.claimed.values()
        return sorted(found, key=lambda entry: entry.order)

    def scan(
        self, channel: Channel, *, waiting: bool, claimed: bool, unreadable: Unreadable | None
    ) -> Iterator[Message]:
        found = []
        with self.memory:
            places = self.memory.parts_of(channel) if claimed else ()
            for entry in self._entries(channel, waiting=waiting, claimed=places):
                message = entry.message.copy(entry.body.data)
                message.delivery_time = entry.due or message.delivery_time
                claim = entry.claim
                if claim is not None and claim.in_progress and claim.destination != channel.destination:
                    message.set_property(ORIGIN, str(claim.destination))
                found.append(message)
        return iter(found)

    def in_progress_claims(self, channel: Channel) -> list[LocalClaim]:
        found: list[LocalClaim] = []
        with self.memory:
            part = self.memory.parts.get(channel)
            for entry in self._entries(channel, waiting=True, claimed=() if part is None else (part,)):
                claim = entry.claim
                if claim is None:
                    origin = origin_queue(entry.message)
                    home = channel if origin is None else Channel(origin)
                    claim = MemoryClaim(entry, home, None, origin, in_progress=True)
                elif not claim.in_progress:
                    claim = MemoryClaim(entry, claim.home, claim.owner, claim.destination, in_progress=True)
                found.append(claim)
        return found

    def reader(
        self, channel: Channel, judge: Judge, into: Channel | None, destination: Destination
    ) -> MemoryReader:
        memory = self.memory
        with memory:
            self.client.check_alive()
            part = memory.part(channel) if self.has(channel) else ChannelPart(channel)
            return MemoryReader(self, part, judge, into, destination)

    def lot_reader(self, channel: Channel, judge: Judge, owner: str) -> MemoryReader:
        memory = self.memory
        with memory:
            self.client.check_alive()
            memory.clients.setdefault(owner, MemoryClient(ClientInfo(owner)))
            return MemoryReader(self, memory.part(channel), judge, None, channel.destination, owner)

    # -- sending and settling ----------------------------------------------------------------------

    def put(self, messages: Sequence[tuple[Message, Sequence[Channel]]]) -> None:
        """Sends messages, all visible or none. Waits while there is no room.

        Raises:
            CapabilityError: a message is persistent, and the provider does not accept that.
        """
        memory = self.memory
        with memory:
            self.client.check_alive()
            for message, _ in messages:
                memory.check_delivery_mode(message)
            made = [(memory.new(message), channels) for message, channels in messages if channels]
            if made:
                memory.wait_for_room([entry for entry, _ in made], made[0][1][0], self.client)
            for entry, channels in made:
                memory.send(memory.keep(entry), channels)

    def prepared(self, handle: tuple[str, str]) -> Message | None:
        with self.memory:
            entry = self._prepared(handle)
            return None if entry is None else entry.message

    def check_writable(self, destination: Destination) -> None:
        with self.memory:
            self.memory.check_target(Channel(destination))
            self.memory.part(Channel(destination))

    def apply(self, changes: Sequence[Change], *, fenced: bool) -> None:
        # All steps that can fail come first. So the changes happen all together or not at all.
        with self.memory:
            self.client.check_alive(SettlementError)
            for change in changes:
                if isinstance(change, Sent) or (fenced and not isinstance(change, Discarded)):
                    self._check(change)
            if self._window and (published := [key for change in changes for key in _keys(change)]):
                self._remember(published)
            for change in changes:
                if isinstance(change, GroupMoved):
                    for claim in change.claims:
                        self._move(claim, (change.channel,), change.edit)
                elif isinstance(change, Moved):
                    self._move(change.claim, change.channels, change.edit)
                elif isinstance(change, GivenBack):
                    self._give_back(change)
                elif isinstance(change, Removed):
                    if (entry := self._release_claims(change.claim)) is not None:
                        self.memory.remove(entry)
                elif (entry := self._prepared(change.handle)) is not None:
                    del self.memory.clients[change.handle[0]].prepared[change.handle[1]]
                    self.memory.send(entry, change.channels if isinstance(change, Sent) else ())

    def _check(self, change: Moved | GroupMoved | Removed | GivenBack | Sent) -> None:
        """Raises ClaimLost if a change cannot be made."""
        if isinstance(change, Sent):
            if self._prepared(change.handle) is None:
                raise ClaimLost(
                    f"the message prepared as {change.handle[1]!r} is not there any more: it was sent or "
                    "discarded before, or its client has ended; nothing was settled"
                )
            return
        for claim in change.claims if isinstance(change, GroupMoved) else (change.claim,):
            assert isinstance(claim, MemoryClaim)
            if not claim.is_held:
                raise ClaimLost(
                    f"{claim.message_id} of {claim.destination} is not claimed by this client any more; "
                    "nothing was settled, and the client that claims the message next gets it"
                )

    def _release_claims(self, claim: LocalClaim, edit: Edit | None = None) -> Entry | None:
        """Ends a claim. Returns None if the claim is lost: then its new owner settles the message."""
        assert isinstance(claim, MemoryClaim)
        if not claim.is_held:
            return None
        entry = claim.entry
        self.memory.take_out(entry)
        if edit is not None:
            self.memory.change_headers(entry, apply_edit(entry.message, edit))
        return entry

    def _move(self, claim: LocalClaim, channels: Sequence[Channel], edit: Edit) -> None:
        if (entry := self._release_claims(claim, edit)) is not None:
            self.memory.send(entry, channels)

    def _give_back(self, change: GivenBack) -> None:
        claim = change.claim
        assert isinstance(claim, MemoryClaim)
        place = claim.entry.part
        if (entry := self._release_claims(claim, change.edit)) is None:
            return
        if change.stays and place is not None:
            left = MemoryClaim(entry, claim.home, None, claim.destination, in_progress=True, waits=True)
            self.memory.put_in_part(left, place)
        elif (home := self.memory.open(_return_channel(change))) is not None:
            entry.due = change.due
            home.enter(entry, self.client.info.client_id)
        else:  # the channel has ended
            self.memory.remove(entry)

    def _prepared(self, handle: tuple[str, str]) -> Entry | None:
        owner = self.memory.clients.get(handle[0])
        return owner.prepared.get(handle[1]) if owner is not None else None

    def _remember(self, keys: Sequence[str]) -> None:
        """Writes the record that the duplicate window reads."""
        name = f"{self.client.info.client_id}-{next(_records)}"
        hidden = os.path.join(self._window, f".{name}")
        try:
            os.makedirs(self._window, exist_ok=True)
            with open(hidden, "wb") as record:
                record.write(write_keys(keys))
            os.rename(hidden, os.path.join(self._window, name))
        except OSError as error:
            raise SettlementError(
                f"cannot write the published ids: {error.strerror}: {error.filename!r}; make room there. "
                "The messages stay claimed until then, none is lost"
            ) from error

    # -- recovery ----------------------------------------------------------------------------------

    def set_owner(self, claim: LocalClaim, owner: Owner | None, edit: Edit) -> MemoryClaim | None:
        assert isinstance(claim, MemoryClaim)
        with self.memory:
            self.client.check_alive()
            place = claim.entry.part
            if place is None or (entry := self._release_claims(claim, edit)) is None:
                return None
            owned = MemoryClaim(entry, claim.home, owner, claim.destination, in_progress=True)
            return self.memory.put_in_part(owned, place)

    def claims(self, client_ids: Collection[str], in_progress: Channel | None) -> dict[str, list[LocalClaim]]:
        found: dict[str, list[LocalClaim]] = {}
        with self.memory:
            for client_id in client_ids:
                client = self.memory.clients.get(client_id)
                claims: list[LocalClaim] = [
                    one.claim
                    for one in (client.claims.values() if client is not None else ())
                    if one.claim is not None and one.part is not None
                    if not one.claim.in_progress or one.part.channel == in_progress
                ]
                found[client_id] = sorted(claims, key=lambda claim: (claim.cycle, claim.sequence))
        return found

    def finish(self, client_id: str) -> None:
        """Loses the claims of a dead client. Every commit in memory is finished."""
        with self.memory:
            client = self.memory.clients.get(client_id)
            for entry in client.claims.values() if client is not None else ():
                entry.ticket += 1
                entry.replace_claim(entry.claim.owner if entry.claim is not None else None)

    def discard_prepared(self, client_id: str) -> None:
        with self.memory:
            client = self.memory.clients.get(client_id)
            if client is not None:
                self.memory.remove_prepared(client)

    def prune(self, retentions: Sequence[Retention], seconds: float) -> Pruned:
        """Removes copies. Settled messages are not kept."""
        copies: dict[Destination, int] = {}
        now = time.time()
        with self.memory:
            for retention in retentions:
                waiting = self._entries(Channel(retention.destination), waiting=True)
                old = [one for one in waiting if retention.is_over(one.message, now, now)]
                for entry in old:
                    self.memory.remove(entry)
                if old:
                    copies[retention.destination] = len(old)
        return Pruned(copies=copies)

    def tasks(self) -> MemoryTaskSpec:
        return MemoryTaskSpec(self.memory.key, self.memory.pid, self.client.info.client_id)


def _return_channel(change: GivenBack) -> Channel:
    home = change.claim.home
    return home._replace(part=Part.DELAYED) if change.due else home


def _keys(change: Change) -> Sequence[str]:
    """Returns the keys that the duplicate window remembers with a change."""
    if isinstance(change, GroupMoved):
        return change.published
    if isinstance(change, Moved | Removed) and change.published is not None:
        return (change.published,)
    return ()


def _now() -> int:
    return time.time_ns() // 1_000_000
