"""An adapter whose server is lost, and whose standby becomes the server that writes."""

from __future__ import annotations

import pytest

from connector.errors import ProviderError
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider
from tests.crash.conftest import Deploy
from tests.crash.database import DatabaseQueues
from tests.crash.harness import assert_settled_once
from tests.postgres import PostgresServer, new_server
from tests.waiting import wait_for

JAVA = False


def test_an_adapter_goes_on_with_the_standby_that_is_promoted(
    own_postgres: PostgresServer, deploy: Deploy
) -> None:
    SqlProvider(Settings(own_postgres.url())).connect().close()
    with new_server(own_postgres) as standby:
        with own_postgres.connect() as owner:
            owner.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            owner.execute("SELECT pg_reload_conf()")
        with pytest.raises(ProviderError, match=r"read-only transaction: connect to the server that writes"):
            SqlProvider(Settings(standby.url())).connect()

        hosts = f"host=127.0.0.1:{own_postgres.port}&host=127.0.0.1:{standby.port}"
        url = f"{own_postgres.url()}?{hosts}&target_session_attrs=read-write"
        deployment = deploy(
            database=url,
            connector={"PollQuantity": 10, "RestartRetryCount": 100, "RestartRetryInterval": 0.005},
            subscriptions=[{"object": "Customer", "name": "copy", "destination": "queue://copies"}],
        )
        ids = deployment.fill("in", ["sleep:0.01"] * 60)
        run = deployment.start()
        wait_for(lambda: len(deployment.deliveries()) > 40, 120, "deliveries")
        own_postgres.kill()
        with standby.connect() as operator:
            operator.execute("SELECT pg_promote()")
        deployment.queues = DatabaseQueues(url)
        wait_for(lambda: deployment.count("archive") == len(ids), 120, run.errors)
        run.stop()
        assert deployment.begun() == dict.fromkeys(ids, 1)
        assert deployment.count("copies") == len(ids)
        assert_settled_once(deployment, ids, kills=0)
        assert own_postgres.password not in run.errors
