"""Adapters whose messages are in a database that is killed, cut off or replaced, or whose host is lost."""

from __future__ import annotations

import signal
from typing import Any, Final

import psycopg
import pytest

from connector.errors import ProviderError
from connector.messaging.notes import ClientState
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider
from tests.crash.conftest import Deploy
from tests.crash.harness import CrashDeployment, DatabaseQueues, assert_settled_once
from tests.postgres import PostgresServer, new_server
from tests.proxy import proxy_to
from tests.waiting import wait_for

COPY: Final = {"object": "Customer", "name": "copy", "destination": "queue://copies"}
PATIENT: Final = {"RestartRetryCount": 100, "RestartRetryInterval": 0.005}
LEASE: Final = "2"
STEPS: Final = {
    "claim.uncommitted": 2,
    "claim": 35,
    "begin": 4,
    "deliver": 9,
    "done": 14,
    "prepare.uncommitted": 2,
    "prepare": 3,
    "settle.record": 3,
    "settle.committing": 4,
    "settle.finished": 5,
}
"""A place, and which time a process reaches it."""


def patient(deploy: Deploy, url: str = "", **connector: Any) -> CrashDeployment:
    """A deployment that waits for its database, and that sends a copy of each event to a queue."""
    database = {"database": url} if url else {}
    return deploy(connector={**PATIENT, **connector}, subscriptions=[COPY], **database)


def assert_all_once(deployment: CrashDeployment, ids: list[str]) -> None:
    """Each event has run once and has sent its copy once."""
    assert deployment.begun() == dict.fromkeys(ids, 1), deployment.runs[-1].errors
    copies = [message.properties["connector_event_id"] for message in deployment.messages("copies")]
    assert sorted(map(str, copies)) == sorted(ids)
    assert_settled_once(deployment, ids, kills=0)


def await_deliveries(deployment: CrashDeployment, number: int) -> None:
    wait_for(lambda: len(deployment.deliveries()) > number, 120, "deliveries")


def test_a_server_that_is_killed_at_every_step_loses_and_doubles_nothing(
    own_postgres: PostgresServer, deploy: Deploy
) -> None:
    """While a process of the adapter stands at the step. The adapter goes on when the server is back."""
    deployment = patient(deploy, own_postgres.url(), PollQuantity=10)
    ids = deployment.fill("in", [""] * 100)
    run = deployment.start(fault=",".join(f"{place}:{nth}=pause" for place, nth in STEPS.items()))
    deployment.queues = DatabaseQueues(own_postgres.url())  # has no connection that a kill has ended
    left = set(STEPS)

    def is_done() -> bool:
        assert run.process.poll() is None, run.errors
        for mark in run.faults.iterdir():
            if mark.stem in left:
                left.remove(mark.stem)
                own_postgres.kill()
                own_postgres.start()
            mark.unlink()
        return not left and deployment.count("archive") == len(ids)

    wait_for(is_done, 120, "settled")
    run.stop()
    assert "connected again" in run.errors
    assert_all_once(deployment, ids)


def test_a_connection_that_is_lost_in_a_commit_costs_and_doubles_nothing(
    own_postgres: PostgresServer, deploy: Deploy
) -> None:
    """The commit waits for a standby that is not there. It has happened all the same when it is ended."""
    deployment = patient(deploy, own_postgres.url(), PollQuantity=5)
    ids = deployment.fill("in", ["sleep:0.05"] * 30)
    run = deployment.start()
    await_deliveries(deployment, 5)
    with own_postgres.connect() as operator:
        _set_standby(operator, "nowhere")
        waiting = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'"

        def has_lost_a_commit() -> bool:  # the first commits that are cut may be those of a heartbeat
            operator.execute(f"SELECT pg_terminate_backend(pid) {waiting}")
            return "in a commit, which may have happened" in run.errors

        wait_for(has_lost_a_commit, 120, lambda: run.errors)
        _set_standby(operator, "")
    deployment.queues = DatabaseQueues(own_postgres.url())
    deployment.await_archived(ids)
    run.stop()
    assert "Exception ignored" not in run.errors  # the workers got SIGTERM when the connection was made anew
    assert_all_once(deployment, ids)


def test_an_adapter_goes_on_with_the_standby_that_is_promoted(
    own_postgres: PostgresServer, deploy: Deploy
) -> None:
    SqlProvider(Settings(own_postgres.url())).connect().close()
    with new_server(own_postgres) as standby:
        with own_postgres.connect() as owner:
            _set_standby(owner, "*")
        with pytest.raises(ProviderError, match=r"read-only transaction: connect to the server that writes"):
            SqlProvider(Settings(standby.url())).connect()

        hosts = f"host=127.0.0.1:{own_postgres.port}&host=127.0.0.1:{standby.port}"
        url = f"{own_postgres.url()}?{hosts}&target_session_attrs=read-write"
        deployment = patient(deploy, url, PollQuantity=10)
        ids = deployment.fill("in", ["sleep:0.01"] * 60)
        run = deployment.start()
        await_deliveries(deployment, 40)
        own_postgres.kill()
        with standby.connect() as operator:
            operator.execute("SELECT pg_promote()")
        deployment.queues = DatabaseQueues(url)
        deployment.await_archived(ids)
        run.stop()
        assert_all_once(deployment, ids)
        assert own_postgres.password not in run.errors


def _set_standby(operator: psycopg.Connection[Any], name: str) -> None:
    operator.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
    operator.execute("SELECT pg_reload_conf()")


def test_what_a_lost_host_has_claimed_is_done_by_others_and_it_does_none_of_it_late(
    deploy: Deploy, postgres: PostgresServer, database: str
) -> None:
    with proxy_to(postgres.port) as proxy:
        url = database.replace(f":{postgres.port}/", f":{proxy.port}/")
        deployment = patient(deploy, url, stop_timeout="1s")
        ids = deployment.fill("in", ["gate:lost", *[""] * 20])
        lost = deployment.start(TEST_LEASE=LEASE, TEST_MACHINE="lost")
        deployment.await_gate(lost, "lost", 1)
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
