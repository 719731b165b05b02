"""What the parts of one client of a root share."""

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
        names: makes its file names.
        committer: of its commits.
        client_id: names the owner in claims; empty for one that only looks.
        durable: whether what it sends and commits is synced.
        keep: whether ``processed/`` and ``expired/`` keep files.
        pulse: says whether it lives for the others; None = it only looks.
    """

    layout: Layout
    headers: HeaderStore
    names: Names
    committer: Committer
    client_id: str
    durable: bool
    keep: bool
    pulse: Pulse | None
