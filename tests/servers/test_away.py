"""Services whose broker is away when they start, is lost before they are ready, or refuses them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.servers.broker import PASSWORD
from tests.servers.conftest import ARTEMIS, resolved

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy
    from tests.servers.deployment import BrokerDeployment

_RETRIES = {"RestartRetryCount": 300, "RestartRetryInterval": 0.01}


@pytest.fixture
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for one test, which may kill it and start it again."""
    from tests.servers.conftest import Broker

    broker = Broker("artemis", tmp_path_factory.mktemp("own"), resolved("artemis", ARTEMIS).paths())
    broker.start()
    yield broker
    broker.stop()


def change(deployment: BrokerDeployment, section: str, **values: Any) -> None:
    """Changes keys of a section of adapter.yaml."""
    path = deployment.directory / "adapter.yaml"
    document = yaml.safe_load(path.read_text())
    document[section].update(values)
    path.write_text(yaml.safe_dump(document))


def test_a_service_waits_for_a_broker_that_is_away_or_lost_before_it_is_ready(
    own_broker: Broker, deploy: Deploy
) -> None:
    deployment = deploy(own_broker, connector=_RETRIES)
    deployment.fill(3)
    own_broker.kill()
    service = deployment.start()
    deployment.wait_for_log("restarting the connection failed", count=2)
    assert " ready [" not in deployment.log()
    own_broker.start()
    deployment.wait_for_calls(3)
    service.stop()
    service = deployment.start(java=True)
    deployment.wait_for_log(" starting [", count=2)
    own_broker.kill()
    deployment.wait_for_log(" restarting the connection [", count=2)
    own_broker.start()
    deployment.fill(3, first=3)
    deployment.wait_for_calls(6)
    service.stop()
    deployment.finish(6)


@pytest.mark.parametrize("url", ["amqp://127.0.0.1:1", "failover:(amqp://127.0.0.1:1,amqp://127.0.0.1:2)"])
@pytest.mark.parametrize("arguments", [("--once",), ("--drain",)])
def test_one_run_does_not_wait_for_a_broker(
    artemis: Broker, deploy: Deploy, arguments: tuple[str, ...], url: str
) -> None:
    deployment = deploy(artemis, connector=_RETRIES)
    change(deployment, "provider", url=url)
    assert deployment.start(*arguments).wait(60) == 1
    assert "connector: the broker cannot be reached" in deployment.log()
    assert "restarting" not in deployment.log()


@pytest.mark.parametrize("arguments", [(), ("--once",), ("--drain",)])
def test_a_wrong_password_is_told_before_spark_is_started(
    broker: Broker, deploy: Deploy, arguments: tuple[str, ...]
) -> None:
    deployment = deploy(broker, connector=_RETRIES, provider={"ApplicationPassword": f"not-{PASSWORD}"})
    change(deployment, "spark", conf={"spark.driver.extraJavaOptions": "-javaagent:/no/such.jar"})
    assert deployment.start(*arguments, java=True).wait(60) == 1
    last = deployment.log().splitlines()[-1]
    assert last.startswith("connector: the broker refuses the login of user 'guest'")
    assert "restarting" not in deployment.log()
    assert f"not-{PASSWORD}" not in deployment.log()


def test_a_host_that_is_not_known_yet_is_waited_for(broker: Broker, deploy: Deploy) -> None:
    """The name of a container exists once the container runs."""
    deployment = deploy(broker, connector={"RestartRetryCount": 1, "RestartRetryInterval": 0})
    change(deployment, "provider", url="amqp://no-such-host.invalid:5672")
    assert deployment.start().wait(120) == 1
    assert deployment.log().splitlines()[-1].startswith("connector: the broker cannot be reached: ")
    assert "1 restart of the connection failed (RestartRetryCount)" in deployment.log()
    assert "no-such-host.invalid" in deployment.log()


@pytest.mark.parametrize(
    ("section", "values"),
    [
        ("provider", {"factory": "org.example.NoFactory"}),
        ("provider", {"java_options": ["-Xnonsense"]}),
        ("provider", {"url": "amqp://127.0.0.1:1?jms.noSuchOption=1"}),
        ("provider", {"url": "amqp://127.0.0.1:1?transport.noSuchOption=1"}),
        ("provider", {"url": "amqp://127.0.0.1:1?amqp.noSuchOption=1&amqp.idleTimeout=60000"}),
        ("provider", {"url": "failover:(amqp://127.0.0.1:1)?failover.noSuchOption=1"}),
        ("provider", {"url": "amqp://127.0.0.1:no-port"}),
        ("provider", {"url": "http://127.0.0.1:1"}),
    ],
)
def test_a_mistake_in_the_section_is_told_at_once(
    broker: Broker, deploy: Deploy, section: str, values: dict[str, Any]
) -> None:
    deployment = deploy(broker, connector=_RETRIES)
    change(deployment, section, **values)
    assert deployment.start().wait(60) == 1
    assert "restarting" not in deployment.log()
    for ours in ("sendTimeout", "requestTimeout", "receiveLocalOnly", "prefetchPolicy", "drainTimeout"):
        assert ours not in deployment.log()
    if "noSuchOption" in str(values):
        assert "noSuchOption=1" in deployment.log()


def test_a_port_without_tls_is_not_blamed_on_the_certificate(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker)
    change(deployment, "provider", url=f"amqps://127.0.0.1:{broker.port}")
    answer = deployment.run("check", "--connect", status=1)
    assert "TLS" in answer.stderr
    assert "port" in answer.stderr.partition("TLS")[0] + answer.stderr.partition("TLS")[2]
    assert "trust" not in answer.stderr
    assert "certificate" not in answer.stderr
