"""The objects that the parts of one client share."""

from __future__ import annotations

from dataclasses import dataclass

from connector.stores.dropbox.clients import OwnClient
from connector.stores.dropbox.committer import Committer
from connector.stores.dropbox.file_names import FileNames
from connector.stores.dropbox.headers import HeaderStore
from connector.stores.dropbox.layout import RootLayout


@dataclass(frozen=True, slots=True)
class ClientContext:
    """One client of one root.

    Args:
        client_id: names the owner in claims. Empty for a client that only looks.
        keep: whether ``processed/`` and ``expired/`` keep files.
        client: None = the client only looks.
    """

    layout: RootLayout
    headers: HeaderStore
    names: FileNames
    committer: Committer
    client_id: str
    durable: bool
    keep: bool
    client: OwnClient | None

    @property
    def is_adapter(self) -> bool:
        """Whether the client is the connection of an adapter, which settles events."""
        return self.client is not None and bool(self.client.details.application)
