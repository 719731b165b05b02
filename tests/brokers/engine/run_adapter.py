"""Runs an adapter until its inputs are empty: DEPLOYMENT STATE SOCKET."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from connector.testing.deployment import InProcessAdapter
from tests.brokers.engine.server import SocketProvider
from tests.brokers.engine.world import reopen


def main(deployment: str, state: str, path: str) -> None:
    provider = SocketProvider(state, path)
    with InProcessAdapter(
        reopen(Path(deployment)).configuration, provider, isolated=True, parallelism=2
    ) as adapter:
        adapter.drain()
        time.sleep(0.1)
        adapter.drain()  # what was rolled back, or comes again after 50 ms


if __name__ == "__main__":
    main(*sys.argv[1:])
