"""The objects that the parts of one client share."""

from __future__ import annotations

from dataclasses import dataclass

from connector.providers.dropbox.committer import Committer
from connector.providers.dropbox.headers import HeaderStore
from connector.providers.dropbox.layout import Layout
from connector.providers.dropbox.lease import Pulse
from connector.providers.dropbox.names import Names


@dataclass(frozen=True, slots=True)
class ClientPlace:
    """One client of one root.

    Args:
        layout, headers: of the root.
        names: makes the file names.
        committer: makes the commits.
        client_id: names the owner in claims. Empty for a client that only looks.
        durable: whether sent messages and commits are synced.
        keep: whether ``processed/`` and ``expired/`` keep files.
        pulse: knows whether the client is alive to others. None = the client only looks.
    """

    layout: Layout
    headers: HeaderStore
    names: Names
    committer: Committer
    client_id: str
    durable: bool
    keep: bool
    pulse: Pulse | None
