"""Two adapters on a database whose default isolation is stricter than the adapters need."""

from __future__ import annotations

import pytest

from tests.crash.conftest import Deploy
from tests.crash.harness import assert_settled_once
from tests.postgres import PostgresServer

JAVA = False


@pytest.fixture
def provider_type() -> str:
    return "postgresql"


def test_two_adapters_share_the_messages_of_a_strict_database_and_publish_none_twice(
    deploy: Deploy, database: str, postgres: PostgresServer
) -> None:
    with postgres.connect() as owner:
        name = database.rpartition("/")[2]
        owner.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    deployment = deploy(connector={"PollQuantity": 5, "DuplicateEventElimination": True, "order": "none"})
    ids = deployment.fill("in", [""] * 150)
    runs = [deployment.start("--drain", "--json") for _ in range(2)]
    assert [run.wait() for run in runs] == [0, 0], [run.errors for run in runs]
    assert_settled_once(deployment, ids, kills=0)
