"""Connections to real brokers that are lost in a commit, are idle, are refused, or cannot be made."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from connector.errors import ProviderError, ProviderMisconfigured
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.service.assembly import make_provider
from connector.status import ReturnCode
from tests.proxy import proxy_to
from tests.servers.broker import IDLE_SECONDS, PASSWORD
from tests.servers.commit_proxy import CommitProxy
from tests.servers.conftest import AT_ARTEMIS, AT_BROKER_J, RETRIES, in_turn
from tests.tables import Table
from tests.waiting import wait_for

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level("INFO")
    return caplog


@pytest.fixture
def proxy(broker: Broker) -> Iterator[CommitProxy]:
    made = CommitProxy(broker.port)
    yield made
    made.close()


@in_turn(
    "when, in_progress, behind",
    *(("after", False, "archive"), ("before", False, "archive")),
    *(("before", True, "in_progress"), ("after", True, "in_progress")),
    *(("after", True, "archive"), ("before", True, "archive")),
    *(("deliver", False, "archive"), ("drop", False, "archive")),
    *(("deliver", True, "in_progress"), ("drop", True, "in_progress")),
    *(("drop", True, "archive"), ("deliver", True, "archive")),
)
def test_the_connection_is_lost_in_a_commit(
    broker: Broker,
    deploy: Deploy,
    proxy: CommitProxy,
    log: pytest.LogCaptureFixture,
    when: Any,
    in_progress: bool,
    behind: str,
) -> None:
    """The commit of a settlement, or that of a move into the queue of messages in progress.

    It is delivered late or dropped in the end: until then it stays unknown. Each event is published once.
    """
    is_late = when in ("deliver", "drop")
    deployment = deploy(broker, in_progress=in_progress, port=proxy.port, connector=RETRIES)
    proxy.cut_next("late" if is_late else when, behind=getattr(deployment, behind))
    deployment.fill(8)
    with deployment.serving():
        wait_for(lambda: "connected again" in log.text, what="a commit")
        if is_late:
            getattr(proxy, when)()
        deployment.fill(4, first=8)
        deployment.wait_for_calls(12)
    deployment.finish(12)
    assert proxy.cuts == 1


def test_an_idle_connection_lives(
    broker: Broker, deploy: Deploy, proxy: CommitProxy, log: pytest.LogCaptureFixture
) -> None:
    options = f"amqp.idleTimeout={IDLE_SECONDS * 1000}"
    deployment = deploy(broker, port=proxy.port, options=options)
    deployment.fill(2, name=f"sleep:{IDLE_SECONDS * 0.75}")
    with deployment.serving():
        deployment.wait_for_calls(2)
        before = dict(proxy.heartbeats)
        wait_for(lambda: all(proxy.heartbeats[one] > before[one] + 2 for one in before), 120, "heartbeats")
        deployment.fill(3, first=2)
        deployment.wait_for_calls(5)
    assert "restarting" not in log.text
    deployment.finish(5)


@AT_ARTEMIS
def test_a_service_whose_login_is_refused_tries_again(
    broker: Broker, deploy: Deploy, log: pytest.LogCaptureFixture
) -> None:
    seconds = 1.2
    restarts = {"RestartRetryCount": 1000, "RestartRetryInterval": seconds / 60}
    with proxy_to(broker.port) as proxy:
        deployment = deploy(broker, port=proxy.port, connector=restarts)
        deployment.fill(3)

        def refusals() -> list[float]:
            return [one.created for one in log.records if "refuses the login" in str(vars(one))]

        with deployment.serving():
            deployment.wait_for_calls(3)
            with broker.other_password():
                proxy.cut()
                wait_for(lambda: len(refusals()) >= 3, what="three refusals")
            deployment.fill(3, first=3)
            deployment.wait_for_calls(6)
        deployment.finish(6)
    assert all(later - earlier > seconds / 2 for earlier, later in pairwise(refusals()))


# -- connections that cannot be made -------------------------------------------------------------------------


@AT_ARTEMIS
def test_a_broker_out_of_reach_is_waited_for_and_one_run_does_not_wait(
    broker: Broker, deploy: Deploy
) -> None:
    """The name of a container exists once the container runs."""
    nowhere = "amqp://127.0.0.1:1?jms.password=hush"
    failover = "failover:(amqp://127.0.0.1:1,amqp://127.0.0.1:2)"
    deployment = deploy(broker, connector=RETRIES)
    for url, said in ((nowhere, "refused"), (failover, "refused"), ("amqp://no-such-host.invalid:1", "host")):
        deployment.change("provider", url=url)
        with pytest.raises(ProviderError, match=f"the broker cannot be reached: .*{said}") as told:
            make_provider(deployment.configuration).connect()
        assert not isinstance(told.value, ProviderMisconfigured), "an adapter waits"
        assert "hush" not in str(told.value)
    assert deployment.start("--once").wait() == 1
    assert "connector: the broker cannot be reached" in deployment.log()
    assert "restarting" not in deployment.log()


@AT_BROKER_J  # Artemis takes every login
@pytest.mark.process
def test_a_wrong_password_is_told_before_spark_is_started(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker, connector=RETRIES, provider={"ApplicationPassword": f"not-{PASSWORD}"})
    deployment.change("spark", conf={"spark.driver.extraJavaOptions": "-javaagent:/no/such.jar"})
    assert deployment.start(java=True).wait() == 1
    last = deployment.log().splitlines()[-1]
    assert last.startswith("connector: the broker refuses the login of user 'guest'")
    assert "restarting" not in deployment.log()
    assert f"not-{PASSWORD}" not in deployment.log()


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


@AT_ARTEMIS
@pytest.mark.process
def test_a_service_does_not_wait_for_a_java_that_cannot_start(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker, connector=RETRIES, provider={"java_options": ["-Xnonsense"]})
    assert deployment.start().wait() == 1
    assert "restarting" not in deployment.log()


def test_a_port_without_tls_is_not_blamed_on_the_certificate(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker)
    deployment.change("provider", url=f"amqps://127.0.0.1:{broker.port}")
    with pytest.raises(ProviderError, match="TLS") as told:
        make_provider(deployment.configuration).connect()
    said = str(told.value)
    assert "port" in said.replace("TLS", "")
    assert "trust" not in said
    assert "certificate" not in said


def test_tls_is_no_explanation_once_there_was_a_connection(broker: Broker, deploy: Deploy) -> None:
    with proxy_to(broker.port) as proxy:
        provider = make_provider(deploy(broker, port=proxy.port).configuration)
        proxy.refuses = True
        with pytest.raises(ProviderError, match="a port with TLS needs amqps"):
            provider.connect()
        proxy.refuses = False
        provider.connect().close()
        proxy.refuses = True
        with pytest.raises(ProviderError, match="cannot be reached") as told:
            provider.connect()
        assert "TLS" not in str(told.value)


@AT_ARTEMIS
def test_an_address_of_the_other_kind_is_told_with_what_to_do(broker: Broker, deploy: Deploy) -> None:
    """A sender that names no kind makes a MULTICAST address, as the sender of a topic does."""
    deployment = deploy(broker)
    with deployment.connected() as connection:
        connection.send(parse_destination(f"topic://{deployment.input}"), [Message(b"x", "T")])
    reason = deployment.work(ReturnCode.APPRESPONSETIMEOUT)
    assert f"Address {deployment.input} is not configured for queue support" in reason
    assert "ANYCAST" in reason


@AT_ARTEMIS
@pytest.mark.process
def test_large_messages_leave_room_in_the_heap(broker: Broker, deploy: Deploy) -> None:
    options = ["-Xmx64m", "-XX:TieredStopAtLevel=1"]
    many = {"PollQuantity": 100, "max_body": "16MiB"}
    deployment = deploy(broker, provider={"java_options": options}, connector=many)
    inputs = [f"queue://{deployment.input}", f"queue://{deployment.name}.other"]
    deployment.change("connector", InputDestination=inputs)
    for number in range(20):  # together more than the heap
        deployment.fill(1, first=number, name="n" * (4 << 20))
    run = deployment.start()
    deployment.wait_for_calls(20)
    run.stop()
    assert "heap" not in deployment.log()
    assert deployment.leftovers() == []
