"""Recovery from dead clients: their claims, prepared messages and temporary destinations."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final

from connector.messaging.destination import Destination
from connector.messaging.notes import OwnerNote, owning_client, owning_lot
from connector.messaging.roles import Leftover
from connector.stores.engine.changes import Edit, GivenBack
from connector.stores.engine.channel import Channel, Owner, is_lot, lot_owner
from connector.stores.engine.claims import LocalClaim
from connector.stores.engine.client import LOT, LOT_OWNER, Client
from connector.stores.engine.registry import DeadClient
from connector.stores.engine.subscriptions import Subscriptions
from connector.stores.engine.temporary import TemporaryDestinations

_log: Final = logging.getLogger("connector.core")


class LocalLeftover(Leftover):
    def __init__(self, recovery: LocalRecovery, dead: DeadClient, claims: Sequence[LocalClaim]) -> None:
        self._recovery = recovery
        self._dead = dead
        self.claims: Sequence[LocalClaim] = claims
        self._is_released = False
        self.client_id = dead.info.client_id
        self.application = dead.info.application
        self.instance = dead.info.instance
        self.declared_dead = dead.info.declared_dead

    def forget(self) -> None:
        if self._is_released:
            return
        self._recovery.end_client(self.client_id, self.claims)
        self._dead.remove()
        self._recovery.sweep()

    def release(self) -> None:
        self._is_released = True
        self._dead.release()


class LocalRecovery:
    """Takes over from dead clients, for a living client."""

    def __init__(
        self, client: Client, subscriptions: Subscriptions, temporaries: TemporaryDestinations
    ) -> None:
        self._client = client
        self._subscriptions = subscriptions
        self._temporaries = temporaries

    def leftovers(self, in_progress: Destination | None, *, at_start: bool) -> Iterator[LocalLeftover]:
        """Yields the dead clients that this client takes over from."""
        store = self._client.store
        found: list[DeadClient] = []
        try:
            for dead in self._client.registry.dead(at_start=at_start):
                if dead.info.application in ("", self._client.info.application):
                    found.append(dead)
                    continue
                if at_start:
                    _log.warning(
                        "the claims of a dead adapter wait until an adapter with its ApplicationName starts",
                        extra={"application": dead.info.application, "client": dead.info.client_id},
                    )
                dead.release()
            for dead in found:
                store.finish(dead.info.client_id)
            place = Channel(in_progress) if in_progress is not None else None
            claims = store.claims([dead.info.client_id for dead in found], place) if found else {}
            while found:
                dead = found.pop(0)
                left = self._not_distributed(claims.get(dead.info.client_id, ()))
                if not dead.info.is_known:
                    left = [claim for claim in left if not claim.in_progress]
                    if not left:
                        store.discard_prepared(dead.info.client_id)
                        continue
                    _log.warning(
                        "the claims of an unknown client are given back to their queues",
                        extra={"client": dead.info.client_id, "number": len(left)},
                    )
                yield LocalLeftover(self, dead, list(left))
        finally:
            for dead in found:
                dead.release()

    def _not_distributed(self, claims: Sequence[LocalClaim]) -> Sequence[LocalClaim]:
        """Gives back messages that a client had claimed from topics to distribute. Returns the others."""
        topics = [
            claim for claim in claims if not (claim.home.subscription or claim.home.destination.is_queue)
        ]
        if not topics:
            return claims
        self._client.store.apply([GivenBack(claim) for claim in topics], fenced=False)
        return [claim for claim in claims if claim not in topics]

    def find_unowned(self, in_progress: Destination) -> Sequence[LocalClaim]:
        """Returns messages in an in-progress destination that no known client owns."""
        registry = self._client.registry
        return [
            claim
            for claim in self._client.store.in_progress_claims(Channel(in_progress))
            if claim.owner is None
            or not (is_lot(claim.owner.client_id) or registry.find(claim.owner.client_id))
        ]

    def owners(self, channel: Channel) -> dict[str, list[OwnerNote]]:
        """Returns the owners of messages as :meth:`connector.messaging.roles.Looking.owners`."""
        found: dict[str, list[OwnerNote]] = {}
        known: dict[str, OwnerNote | None] = {self._client.info.client_id: None}
        for message_id, client_id, since in self._client.store.owners(channel):
            if client_id not in known:
                known[client_id] = self._owner(client_id)
            if (note := known[client_id]) is not None:
                found.setdefault(message_id, []).append(note._replace(since=since))
        return found

    def _owner(self, client_id: str) -> OwnerNote | None:
        """Returns the note about the owner of claims. None = nobody knows the owner any more."""
        registry = self._client.registry
        if is_lot(client_id):
            for lot in registry.records(LOT, ""):
                if lot_owner(str(lot.data["sequence_id"])) == client_id:
                    holders = [one.owner.who for one in registry.records(LOT_OWNER, lot.key) if one.owner]
                    return owning_lot(lot.key, lot.data["number"], *holders)
        info, lives = registry.find(client_id), registry.find_alive(client_id) is not None
        return None if info is None else owning_client(info.who, info.application, info.instance, lives=lives)

    def adopt(self, claim: LocalClaim, cycle: int, sequence: int) -> LocalClaim | None:
        """Claims a message without a living owner. Returns None if the message is gone."""
        owner = Owner(self._client.info.client_id, cycle, sequence)
        return self._client.store.set_owner(claim, owner, _count_delivery(claim))

    def leave_unowned(self, claim: LocalClaim) -> None:
        """Leaves a message in an in-progress destination, without an owner."""
        self._client.store.set_owner(claim, None, _count_delivery(claim))

    def end_client(self, client_id: str, claims: Sequence[LocalClaim]) -> None:
        """Removes everything of a dead client. Messages of open claims come again, as one more delivery."""
        back = [
            GivenBack(claim, Edit(deliveries=claim.delivery_count + 1))
            for claim in claims
            if not claim.in_progress
        ]
        if back:
            self._client.store.apply(back, fenced=False)
        self._client.store.discard_prepared(client_id)
        self._temporaries.end_of(client_id)

    def sweep(self) -> None:
        """Removes the subscriptions that have ended with their consumers."""
        self._subscriptions.sweep()


def _count_delivery(claim: LocalClaim) -> Edit:
    """Returns an edit that counts a delivery.

    Counts no delivery of a message that waits, or that was left, and so counted, before.
    """
    is_counted = claim.owner is None and claim.delivery_count > 0
    return Edit(deliveries=claim.delivery_count + (0 if is_counted or claim.waits else 1))
