"""Events and requests go on while adapters and the broker are killed, and connections are cut."""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import TYPE_CHECKING, Final

import pytest

from tests.chaos_checker import check, report
from tests.servers.chaos import MODES, Chaos
from tests.servers.commit_proxy import CommitProxy
from tests.servers.conftest import in_turn

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy

_SECONDS: Final = 12.0
"""Of chaos. ``python -m tests.servers.chaos`` goes on for as long as one lets it."""


@pytest.mark.process
@pytest.mark.timeout(900)  # many starts of an adapter and of a broker, on a busy machine
@in_turn("mode", *MODES)
def test_nothing_is_lost_doubled_or_stranded_in_chaos(broker: Broker, deploy: Deploy, mode: str) -> None:
    seed = int(os.environ.get("CHAOS_SEED") or secrets.randbelow(1 << 32))
    print(f"CHAOS_SEED={seed} makes this order again")
    broker.empty()
    with contextlib.closing(CommitProxy(broker.port)) as proxy:
        found = Chaos(broker, proxy, deploy, mode, seed, order="none").run(_SECONDS)
    faults = check(found)
    assert not any(faults.values()), report(found, faults)
