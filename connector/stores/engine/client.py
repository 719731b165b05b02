"""The objects that the parts of one connection share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from connector.errors import ClientIdError, DestinationError, UnknownDestination
from connector.messaging.destination import Destination
from connector.stores.engine.headers import MessageIds
from connector.stores.engine.registry import ClientInfo, Record, Registry
from connector.stores.engine.store import Store, Watch

CLIENT_ID: Final = "client id"
CONSUMER: Final = "consumer"
LOT: Final = "lot"
LOT_OWNER: Final = "lot owner"
SUBSCRIPTION: Final = "subscription"


@dataclass(frozen=True, slots=True)
class Client:
    """A client of a local provider.

    Args:
        limit: deliveries begun after which a message is put aside. None = no limit.
    """

    store: Store
    registry: Registry
    watch: Watch
    limit: int | None
    stamp: MessageIds

    @property
    def info(self) -> ClientInfo:
        return self.registry.info


def hold_client_id(client: Client, client_id: str) -> None:
    """Takes a client id of JMS for the life of a client. The instances of an application share a client id.

    Raises:
        ClientIdError: another client holds the client id. The text names the holder.
        ProviderError: the client id cannot be recorded.
    """
    registry, info = client.registry, client.info
    with registry.lock():
        for record in registry.records(CLIENT_ID, client_id):
            holder = record.owner
            if holder is None:
                continue
            if info.application and holder.application == info.application:
                continue
            whose = f"the adapter {holder.application!r}, " if holder.application else ""
            raise ClientIdError(
                f"the client id {client_id!r} is in use by {whose}{holder.who}: close that connection, or "
                "choose another client id"
            )
        registry.write(Record(CLIENT_ID, client_id, info.client_id, owner=info))


def has_ended(destination: Destination) -> UnknownDestination:
    """Returns the error for a temporary destination that has ended."""
    return UnknownDestination(
        f"there is no {destination}: it was temporary, and has ended with its connection"
    )


def check_sendable(destination: Destination) -> None:
    """Checks by the name of a destination that messages can be sent there.

    Raises:
        DestinationError: the destination is virtual.
    """
    if destination.view:
        raise DestinationError(
            f"cannot send to {destination}, which is a view of {destination.base}: send to {destination.base}"
        )
