"""An adapter on PostgreSQL whose host is gone for a while: others take over, and it does nothing late."""

from __future__ import annotations

import signal

from connector.messaging.notes import ClientState
from tests.crash.conftest import Deploy
from tests.crash.database import DatabaseQueues
from tests.crash.harness import assert_settled_once
from tests.postgres import PostgresServer
from tests.proxy import proxy_to
from tests.waiting import wait_for

JAVA = False

LEASE = "2"


def test_what_a_lost_host_has_claimed_is_done_by_others_and_it_does_none_of_it_late(
    deploy: Deploy, postgres: PostgresServer, database: str
) -> None:
    with proxy_to(postgres.port) as proxy:
        deployment = deploy(
            database=database.replace(f":{postgres.port}/", f":{proxy.port}/"),
            connector={"stop_timeout": "1s", "RestartRetryCount": 20, "RestartRetryInterval": 0.01},
            subscriptions=[{"object": "Customer", "name": "copy", "destination": "queue://copies"}],
        )
        ids = deployment.fill("in", ["gate:lost", *[""] * 20])
        lost = deployment.start(TEST_LEASE=LEASE, TEST_MACHINE="lost")
        wait_for(lambda: deployment.reached("lost"), 120, "an event at work")
        deployment.queues = DatabaseQueues(database)
        deployment.configure()
        proxy.fall_silent()
        lost.signal_all(signal.SIGSTOP)
        provider = deployment.queues.provider
        wait_for(
            lambda: [one.state for one in provider.clients() if one.pid == lost.pid] == [ClientState.DEAD],
            30,
            "the end of its lease",
        )

        deployment.open("lost")
        heir = deployment.start("--drain", TEST_LEASE=LEASE, TEST_MACHINE="heir")
        assert heir.wait() == 0, heir.errors
        assert "took over from a dead client" in heir.errors
        assert deployment.ids("archive").keys() == set(ids)

        lost.signal_all(signal.SIGCONT)
        proxy.cut()
        ids += deployment.fill("in", [""] * 3)
        wait_for(lambda: deployment.ids("archive").keys() == set(ids), 120, lambda: lost.errors)
        lost.stop()
        assert "connected again" in lost.errors
        assert deployment.count("copies") == len(ids)
        assert assert_settled_once(deployment, ids, kills=1) == 1
