"""Settlement: all or none, under one lock."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import Final

from connector.core.state import MessageState, Transition
from connector.errors import ClaimLost, ConnectorError, SettlementError, UnknownDestination
from connector.messaging.destination import Destination
from connector.messaging.provider import Prepared, Settlement
from connector.providers.memory.claims import MemoryClaim, let_go, lie
from connector.providers.memory.clients import Client
from connector.providers.memory.entries import Entry, Holder, with_properties
from connector.providers.memory.memory import Memory

_records: Final = itertools.count(1)


class Settler:
    """Settles the claims of one client."""

    def __init__(self, memory: Memory, client: Client) -> None:
        self._memory = memory
        self._client = client

    def settle(
        self,
        settlements: Sequence[Settlement],
        sends: Sequence[Prepared],
        discards: Sequence[Prepared],
        *,
        fenced: bool,
        window: str,
    ) -> None:
        """See :meth:`connector.messaging.provider.Connection.settle`; the caller holds the lock.

        First everything that can fail, then what cannot: nobody sees the one without the other.

        Args:
            window: directory of the records that name published ids.
        """
        self._check_claims(settlements, fenced=fenced)
        for destination in {s.copy_to for s in settlements if s.copy_to is not None}:
            self._check_target(destination)
        all_sends = [*sends, *(one for s in settlements for one in s.sends)]
        ended = {one.destination for one in all_sends if self._has_ended(one.destination)}
        gone = [one for one in all_sends if one.destination in ended]
        all_sends = [one for one in all_sends if one.destination not in ended]
        for destination in {one.destination for one in all_sends}:
            self._check_target(destination)
        prepared = [(self._find(one), one.destination) for one in all_sends]
        published = [s.published for s in settlements if s.published is not None]
        if published and self._client.application:
            self._remember(published, window)

        for entry, destination in prepared:
            self._memory.deliver(entry, destination, Transition.COMMIT)
        for one in all_sends:
            self._forget_prepared(one)
        for one in (*gone, *discards, *(one for s in settlements for one in s.discards)):
            discard(self._memory, one)
        for settlement in settlements:
            self._apply(settlement)

    def _check_claims(self, settlements: Sequence[Settlement], *, fenced: bool) -> None:
        if not fenced and len(settlements) != 1:
            return
        for settlement in settlements:
            claim = settlement.claim
            assert isinstance(claim, MemoryClaim)
            if not claim.is_held:
                raise ClaimLost(
                    f"{claim.message_id} of {claim.destination} is not claimed by this client any more; "
                    "nothing was settled, it comes again to whoever takes it"
                )

    def _check_target(self, destination: Destination) -> None:
        try:
            self._memory.check_target(destination)
        except ConnectorError as error:
            raise SettlementError(f"{error}. Messages stay claimed until then, none is lost") from error

    def _has_ended(self, destination: Destination) -> bool:
        """Whether a temporary destination is gone: what was prepared for it goes with it."""
        try:
            self._memory.check_target(destination)
        except UnknownDestination:
            return True
        except ConnectorError:
            return False
        return False

    def _find(self, prepared: Prepared) -> Entry:
        owner_id, key = prepared.handle
        owner = self._memory.clients.get(owner_id)
        entry = owner.prepared.get(key) if owner is not None else None
        if entry is None:
            raise ClaimLost(
                f"the message prepared as {key!r} is not there any more: it was "
                "sent or discarded before, or its client has ended; nothing was settled"
            )
        return entry

    def _forget_prepared(self, prepared: Prepared) -> None:
        owner_id, key = prepared.handle
        owner = self._memory.clients.get(owner_id)
        if owner is not None:
            owner.prepared.pop(key, None)

    def _remember(self, keys: Sequence[str], window: str) -> None:
        """Writes the record that the duplicate window reads."""
        name = f"{self._client.client_id}-{next(_records)}"
        hidden = os.path.join(window, f".{name}")
        try:
            os.makedirs(window, exist_ok=True)
            with open(hidden, "wb") as record:
                record.write("\n".join(keys).encode("utf-8", "surrogateescape"))
            os.rename(hidden, os.path.join(window, name))
        except OSError as error:
            raise SettlementError(
                f"cannot write the published ids: {error.strerror}: {error.filename!r}; make room there. "
                "The messages stay claimed until then, none is lost"
            ) from error

    def _apply(self, settlement: Settlement) -> None:
        claim = settlement.claim
        assert isinstance(claim, MemoryClaim)
        if not claim.is_held:
            return  # taken over meanwhile: the other settles it
        if settlement.give_back and settlement.stay and claim.in_progress:
            lie(claim, waits=True)
            _set_headers(self._memory, claim.entry, settlement)
            return
        let_go(claim)
        if settlement.give_back:
            give_back(self._memory, claim, settlement, self._client)
            return
        memory, entry = self._memory, claim.entry
        entry.move(Transition.ACKNOWLEDGE)
        copy_to = settlement.copy_to or (claim.hold.requeue.destination if claim.hold.requeue else None)
        if copy_to is not None:
            properties = settlement.properties if settlement.copy_to is not None else {}
            headers = with_properties(
                entry.headers,
                properties,
                deliveries=0,
                inherit_own=settlement.copy_to is None,
            )
            memory.deliver(memory.another(entry, headers), copy_to, Transition.SEND)
        memory.store.remove(entry)


def give_back(
    memory: Memory, claim: MemoryClaim, settlement: Settlement, returned_by: Holder | None = None
) -> None:
    """Returns a message that was let go to where it was taken from; it goes where that has ended."""
    entry = claim.entry
    if claim.hold.home.ended:
        entry.state = MessageState.REMOVED
        memory.store.remove(entry)
        return
    _set_headers(memory, entry, settlement)
    entry.move(Transition.GIVE_BACK)
    claim.hold.home.enter(entry, returned_by)


def _set_headers(memory: Memory, entry: Entry, settlement: Settlement) -> None:
    """The deliveries and properties that a message is given back with."""
    deliveries = max(0, settlement.delivery_count)
    if settlement.properties or deliveries != entry.deliveries:
        headers = with_properties(
            entry.headers, settlement.properties, deliveries=deliveries, inherit_own=True
        )
        memory.set_headers(entry, headers)


def discard(memory: Memory, prepared: Prepared) -> None:
    """Drops a message that will not be sent; one that is not there any more is no error."""
    owner_id, key = prepared.handle
    owner = memory.clients.get(owner_id)
    entry = owner.prepared.pop(key, None) if owner is not None else None
    if entry is not None:
        entry.move(Transition.ROLLBACK)
        memory.store.remove(entry)
