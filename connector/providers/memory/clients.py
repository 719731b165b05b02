"""Who uses the provider: the living, the dead that left claims, and the client ids of JMS they hold."""

from __future__ import annotations

import os
import secrets
import socket
import time

from connector.errors import ClientIdError, ProviderError
from connector.messaging.notes import ClientNote, ClientState
from connector.providers.memory.entries import Entry


class Client:
    """One connection, and what it has taken and prepared.

    Args:
        application, instance: of an adapter; empty for a client that is none.
        jms_id: client id of JMS; empty = none.
        origin: whose messages are local; empty = the client id of JMS, else this client alone.
    """

    def __init__(self, application: str, instance: str, jms_id: str, origin: str) -> None:
        self.client_id = f"m{secrets.token_hex(6)}"
        self.application = application
        self.instance = instance
        self.jms_id = jms_id
        self.origin = origin or jms_id or self.client_id
        self.alive = True
        self.since = time.time()
        self.taken_by: Client | None = None
        """Who takes over from it, when it is dead."""
        self.claims: dict[int, Entry] = {}
        """By number."""
        self.prepared: dict[str, Entry] = {}
        """By key; NOT_COMMITTED."""

    def check_open(self, error: type[ProviderError] = ProviderError) -> None:
        """Raises ``error`` where the connection has ended."""
        if not self.alive:
            raise error(f"the connection {self.client_id} is closed, nothing was done: connect anew")

    def claimed_bytes(self) -> int:
        return sum(entry.weight + len(entry.body.data) for entry in self.claims.values())

    def prepared_bytes(self) -> int:
        return sum(entry.weight + len(entry.body.data) for entry in self.prepared.values())


class Clients:
    """All clients of one provider that live, or are dead and not yet forgotten."""

    def __init__(self) -> None:
        self._clients: dict[str, Client] = {}

    def add(self, client: Client) -> None:
        """Lets a client in.

        Raises:
            ClientIdError: another has its client id, and is no instance of the same application.
        """
        for other in self._clients.values():
            if not client.jms_id or not other.alive or other.jms_id != client.jms_id:
                continue
            if client.application and other.application == client.application:
                continue
            whose = f"the adapter {other.application!r}" if other.application else "another connection"
            raise ClientIdError(
                f"the client id {client.jms_id!r} is held by {whose} of this process; close it, or choose "
                "another client id"
            )
        self._clients[client.client_id] = client

    def get(self, client_id: str) -> Client | None:
        return self._clients.get(client_id)

    def remove(self, client: Client) -> None:
        self._clients.pop(client.client_id, None)

    def dead(self, application: str) -> list[Client]:
        """The dead that nobody takes over from yet: no adapters, and those of one application."""
        return [
            client
            for client in self._clients.values()
            if not client.alive and client.taken_by is None and client.application in ("", application)
        ]

    def notes(self) -> list[ClientNote]:
        """All of them, as others see them."""
        return [
            ClientNote(
                client.client_id,
                client.application,
                client.instance,
                socket.gethostname(),
                os.getpid(),
                client.since,
                ClientState.ALIVE if client.alive else ClientState.DEAD,
            )
            for client in self._clients.values()
        ]

    def taken_over_by(self, client: Client) -> list[Client]:
        return [other for other in self._clients.values() if other.taken_by is client]
