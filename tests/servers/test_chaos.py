"""Events and requests go on while adapters and the broker are killed, and connections are cut."""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import TYPE_CHECKING, Final

import pytest

from tests.chaos_checker import check, report
from tests.proxy import proxy_to
from tests.servers.chaos import MODES, Chaos, failover_url
from tests.servers.commit_proxy import CommitProxy
from tests.servers.conftest import RETRIES, in_turn

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy
    from tests.servers.deployment import BrokerDeployment

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


_EVENTS: Final = 300
_KILLS: Final = 8
_WORKERS: Final = 2


@pytest.mark.process
@pytest.mark.timeout(900)  # as above
@in_turn("mode", *MODES)
def test_a_connection_that_ends_while_messages_are_sent_blames_none_of_them(
    broker: Broker, deploy: Deploy, mode: str
) -> None:
    """Broker and adapter are killed in turn, eight times. The URL is one of ``failover:``.

    What is on its way takes a while, so most kills come between the sends of a settlement and their answers.
    """
    broker.empty()
    with proxy_to(broker.port) as proxy:
        deployment = deploy(
            broker,
            in_progress=mode == "in-progress",
            provider={"url": failover_url(proxy.port)},
            connector=RETRIES,
        )
        deployment.fill(_EVENTS)
        proxy.delay = 0.02
        service = deployment.start()
        for kill in range(_KILLS):
            wait_for_events(deployment, (kill + 1) * _EVENTS // (_KILLS + 1))
            if kill % 2:
                service.kill_everything()
                service = deployment.start()
            else:
                broker.kill()
                broker.start()
        proxy.go_on()
        wait_for_events(deployment, _EVENTS)
        service.stop()
        deployment.finish(_EVENTS, twice=_KILLS // 2 * _WORKERS)


def wait_for_events(deployment: BrokerDeployment, count: int) -> None:
    """Waits until so many events are in the queue of the sink."""
    deployment.wait_for(lambda: len(deployment.customers(deployment.sink)) >= count, f"{count} events")
