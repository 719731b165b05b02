"""Runs an adapter until its inputs are empty: DEPLOYMENT STATE SOCKET."""

from __future__ import annotations

import contextlib
from pathlib import Path

from connector.errors import UnknownDestination
from connector.messaging.destination import Destination
from connector.testing.deployment import InProcessAdapter
from tests.brokers.engine.server import SocketProvider
from tests.brokers.engine.world import reopen, running
from tests.waiting import wait_for


def main(deployment: str, state: str, path: str) -> None:
    provider = SocketProvider(state, path)
    with running(reopen(Path(deployment)), provider) as adapter:
        adapter.drain()
        if not (Path(deployment) / "away").exists():  # then all that comes again later gets through
            wait_for(lambda: is_empty(adapter, provider), what="nothing comes again")


def is_empty(adapter: InProcessAdapter, provider: SocketProvider) -> bool:
    """Drains, and returns whether nothing waits for a later time."""
    adapter.drain()
    with contextlib.closing(provider.connect()) as connection:
        try:
            return not list(connection.browse(Destination("queue", "connector.lent.later")))
        except UnknownDestination:
            return True
