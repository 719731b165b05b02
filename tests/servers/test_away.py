"""Services whose broker is away when they start, is lost before they are ready, or refuses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from connector.errors import ProviderMisconfigured
from connector.service.assembly import make_provider
from tests.servers.broker import PASSWORD
from tests.servers.conftest import AT_ARTEMIS, AT_BROKER_J, in_turn
from tests.tables import Table

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy

_RETRIES = {"RestartRetryCount": 1000, "RestartRetryInterval": 0.01}


@AT_ARTEMIS
@pytest.mark.process
def test_a_service_waits_for_a_broker_that_is_away_or_lost_before_it_is_ready(
    broker: Broker, deploy: Deploy
) -> None:
    deployment = deploy(broker, connector=_RETRIES)
    deployment.fill(3)
    broker.kill()
    service = deployment.start()
    deployment.wait_for_log("restarting the connection failed", count=2)
    assert " ready [" not in deployment.log()
    broker.start()
    deployment.wait_for_calls(3)
    service.stop()
    service = deployment.start(java=True)
    deployment.wait_for_log(" starting [", count=2)
    broker.kill()
    deployment.wait_for_log(" restarting the connection [", count=2)
    broker.start()
    deployment.fill(3, first=3)
    deployment.wait_for_calls(6)
    service.stop()
    deployment.finish(6)


@pytest.mark.process
@in_turn(
    "argument, url",
    ("--once", "amqp://127.0.0.1:1"),
    ("--drain", "failover:(amqp://127.0.0.1:1,amqp://127.0.0.1:2)"),
)
def test_one_run_does_not_wait_for_a_broker(broker: Broker, deploy: Deploy, argument: str, url: str) -> None:
    deployment = deploy(broker, connector=_RETRIES)
    deployment.change("provider", url=url)
    assert deployment.start(argument).wait() == 1
    assert "connector: the broker cannot be reached" in deployment.log()
    assert "restarting" not in deployment.log()


@AT_BROKER_J
@pytest.mark.process
@pytest.mark.parametrize("arguments", [(), ("--once",)])
def test_a_wrong_password_is_told_before_spark_is_started(
    broker: Broker, deploy: Deploy, arguments: tuple[str, ...]
) -> None:
    deployment = deploy(broker, connector=_RETRIES, provider={"ApplicationPassword": f"not-{PASSWORD}"})
    deployment.change("spark", conf={"spark.driver.extraJavaOptions": "-javaagent:/no/such.jar"})
    assert deployment.start(*arguments, java=True).wait() == 1
    last = deployment.log().splitlines()[-1]
    assert last.startswith("connector: the broker refuses the login of user 'guest'")
    assert "restarting" not in deployment.log()
    assert f"not-{PASSWORD}" not in deployment.log()


@AT_ARTEMIS
@pytest.mark.process
def test_a_host_that_is_not_known_yet_is_waited_for(broker: Broker, deploy: Deploy) -> None:
    """The name of a container exists once the container runs."""
    deployment = deploy(broker, connector={"RestartRetryCount": 1, "RestartRetryInterval": 0})
    deployment.change("provider", url="amqp://no-such-host.invalid:5672")
    assert deployment.start().wait() == 1
    assert deployment.log().splitlines()[-1].startswith("connector: the broker cannot be reached: ")
    assert "1 restart of the connection failed (RestartRetryCount)" in deployment.log()
    assert "no-such-host.invalid" in deployment.log()


_MISTAKES = (
    {"factory": "org.example.NoFactory"},
    {"url": "amqp://127.0.0.1:1?jms.noSuchOption=1"},
    {"url": "amqp://127.0.0.1:1?transport.noSuchOption=1"},
    {"url": "amqp://127.0.0.1:1?amqp.noSuchOption=1&amqp.idleTimeout=60000"},
    {"url": "failover:(amqp://127.0.0.1:1)?failover.noSuchOption=1"},
    {"url": "amqp://127.0.0.1:no-port"},
    {"url": "http://127.0.0.1:1"},
)


@AT_ARTEMIS
def test_a_mistake_in_the_section_is_told_at_once(broker: Broker, deploy: Deploy) -> None:
    """Without the options that the adapter adds. An adapter waits for no such provider."""
    with Table() as table:
        for values in _MISTAKES:
            with table.row(values):
                deployment = deploy(broker)
                deployment.change("provider", **values)
                with pytest.raises(ProviderMisconfigured) as told:
                    make_provider(deployment.configuration).connect()
                said = str(told.value)
                for ours in ("sendTimeout", "requestTimeout", "LocalOnly", "prefetchPolicy", "drainTimeout"):
                    assert ours not in said
                assert ("noSuchOption=1" in said) is ("noSuchOption" in str(values))


@in_turn("values", {"java_options": ["-Xnonsense"]}, {"factory": "org.example.NoFactory"})
@pytest.mark.process
def test_a_service_does_not_wait_for_a_provider_with_a_mistake(
    broker: Broker, deploy: Deploy, values: dict[str, Any]
) -> None:
    deployment = deploy(broker, connector=_RETRIES)
    deployment.change("provider", **values)
    assert deployment.start().wait() == 1
    assert "restarting" not in deployment.log()


def test_a_port_without_tls_is_not_blamed_on_the_certificate(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker)
    deployment.change("provider", url=f"amqps://127.0.0.1:{broker.port}")
    answer = deployment.run("check", "--connect", status=1)
    assert "TLS" in answer.stderr
    assert "port" in answer.stderr.partition("TLS")[0] + answer.stderr.partition("TLS")[2]
    assert "trust" not in answer.stderr
    assert "certificate" not in answer.stderr
