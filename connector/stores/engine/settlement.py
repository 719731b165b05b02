"""Settlement: turns the outcomes of claims into changes of a store, applied in one step."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, cast

from connector.errors import ClaimLost, ConnectorError, SettlementError
from connector.messaging.destination import Destination
from connector.messaging.settlement import HISTORY, GroupSettlement, Prepared, Settlement
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
from connector.stores.engine.channel import Channel, Part, temporary_owner
from connector.stores.engine.claims import LocalClaim
from connector.stores.engine.client import Client, check_sendable
from connector.stores.engine.headers import apply_edit, edit_of_copy, edit_of_return
from connector.stores.engine.subscriptions import Subscriptions
from connector.stores.engine.temporary import TemporaryDestinations

_log: Final = logging.getLogger("connector.core")
_AS_NEW: Final = Edit(deliveries=0)
_MOST_LASTING: Final = 1000


class LocalSettler:
    def __init__(
        self, client: Client, subscriptions: Subscriptions, temporaries: TemporaryDestinations
    ) -> None:
        self._client = client
        self._subscriptions = subscriptions
        self._temporaries = temporaries
        self._has_window = bool(client.info.application)
        self._lasting: set[Destination] = set()
        """Destinations that are no views and never end."""

    def settle(
        self,
        settlements: Sequence[Settlement | GroupSettlement],
        sends: Sequence[Prepared],
        discards: Sequence[Prepared],
        *,
        fenced: bool,
    ) -> None:
        """Turns settlements into changes, and applies all or none."""
        if len(sends) == 1 and not settlements and not discards and sends[0].destination.is_queue:
            self._send_alone(sends[0])
            return
        changes: list[Change] = []
        writable: dict[Destination, tuple[Channel]] = {}
        number = 0
        for prepared in sends:
            changes.append(self._send(prepared, writable))
        for prepared in discards:
            changes.append(Discarded(prepared.handle))
        for settlement in settlements:
            if isinstance(settlement, GroupSettlement):
                number += len(settlement.claims)
                self._add_group(settlement, changes, writable)
                continue
            number += 1
            for prepared in settlement.sends:
                changes.append(self._send(prepared, writable))
            for prepared in settlement.discards:
                changes.append(Discarded(prepared.handle))
            changes.append(self._change(settlement, writable))
        if changes:
            self._client.store.apply(changes, fenced=fenced or number == 1)

    def _send_alone(self, prepared: Prepared) -> None:
        """Sends a single message to a queue, without any other change. A request does this."""
        destination = prepared.destination
        change = self._discard_if_ended(prepared) or Sent(prepared.handle, (Channel(destination),))
        try:
            self._client.store.apply((change,), fenced=False)
        except SettlementError:
            self._check_writable(destination, {})  # its error names the cause more clearly
            raise

    def _add_group(
        self, group: GroupSettlement, changes: list[Change], writable: dict[Destination, tuple[Channel]]
    ) -> None:
        if group.copy_to is None or group.copy_to.kind != "queue":
            changes += [self._change(settlement, writable) for settlement in group.each()]
        elif group.claims:
            channels = self._check_writable(group.copy_to, writable)
            if group.published:
                group.check()
            claims = cast(Sequence[LocalClaim], group.claims)
            keys = group.published if self._has_window else ()
            changes.append(GroupMoved(claims, channels[0], Edit(group.properties, HISTORY, 0), keys))

    def _send(self, prepared: Prepared, writable: dict[Destination, tuple[Channel]]) -> Change:
        if (gone := self._discard_if_ended(prepared)) is not None:
            return gone
        destination = prepared.destination
        channels = self._check_writable(destination, writable)
        if destination.is_queue:
            return Sent(prepared.handle, channels)
        headers = self._client.store.prepared(prepared.handle)
        if headers is None:
            raise ClaimLost(
                f"a message prepared for {destination} is not there any more: it was sent or discarded "
                "before, or its client has ended; nothing was settled"
            )
        return Sent(prepared.handle, self._subscriptions.channels_for(destination, headers))

    def _discard_if_ended(self, prepared: Prepared) -> Discarded | None:
        """Returns the change for a message whose temporary destination has ended. None = not ended."""
        if not self._temporaries.has_ended(prepared.destination):
            return None
        _log.info(
            "a message is discarded because its temporary destination does not exist any more",
            extra={"destination": str(prepared.destination)},
        )
        return Discarded(prepared.handle)

    def _change(self, settlement: Settlement, writable: dict[Destination, tuple[Channel]]) -> Change:
        claim, copy_to = cast(LocalClaim, settlement.claim), settlement.copy_to
        key = settlement.published if self._has_window else None
        if settlement.give_back:
            stays = settlement.stay and claim.in_progress
            return GivenBack(claim, edit_of_return(settlement), stays, 0 if stays else settlement.due)
        if copy_to is not None:
            channels = self._check_writable(copy_to, writable)
            edit = edit_of_copy(settlement)
            if settlement.subscription:
                return Moved(claim, self._check_subscription(channels[0], settlement.subscription), edit, key)
            if copy_to.is_queue:
                return Moved(claim, channels, edit, key)
            headers = apply_edit(claim.headers(), edit)
            return Moved(claim, self._subscriptions.channels_for(copy_to, headers), edit, key)
        if claim.destination.view == "RECOVER-ERROR":
            return Moved(claim, (claim.home._replace(part=Part.MAIN),), _AS_NEW, key)
        return Removed(claim, key)

    def _check_subscription(self, topic: Channel, subscription: str) -> tuple[Channel]:
        """Returns the channel of a subscription, after a check that the subscription exists."""
        channel = topic._replace(subscription=subscription)
        if not self._client.store.has(channel):
            raise SettlementError(
                f"there is no subscription {subscription!r} of {topic.destination}: nothing was settled"
            )
        return (channel,)

    def _check_writable(
        self, destination: Destination, writable: dict[Destination, tuple[Channel]]
    ) -> tuple[Channel]:
        """Returns the channel of a destination, after a check that messages can be moved there.

        Each destination is checked once for a settlement.
        """
        known = writable.get(destination)
        if known is not None:
            return known
        try:
            if destination not in self._lasting:
                self._check_name(destination)
            self._client.store.check_writable(destination)
        except ConnectorError as error:
            raise SettlementError(
                f"{error}. The messages stay claimed until they can be settled, and none is lost"
            ) from error
        writable[destination] = found = (Channel(destination),)
        return found

    def _check_name(self, destination: Destination) -> None:
        """Checks that a destination is no view, and has not ended."""
        check_sendable(destination)
        self._temporaries.check_there(destination)
        if temporary_owner(destination) is None and len(self._lasting) < _MOST_LASTING:
            self._lasting.add(destination)
