"""Client libraries beside Qpid JMS 2, at their brokers."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from connector.brokers.jars.locked import LOCK
from connector.brokers.jms import jvm
from connector.brokers.jms.factory import Factory
from connector.brokers.jms.naming import Naming
from connector.brokers.jms.urls import CLASSIC, CORE, QPID
from connector.java import find_java
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from tests.runs import customer
from tests.servers.broker import OPENWIRE, SMALL, STORE_PASSWORD, TOPIC
from tests.servers.conftest import ARTEMIS, CLIENT, Broker, make_stores, resolved
from tests.servers.test_lots import run_owner
from tests.servers.test_refusals import fill, free
from tests.servers.test_topics import publish
from tests.waiting import wait_for

if TYPE_CHECKING:
    from tests.servers.conftest import Deploy
    from tests.servers.deployment import BrokerDeployment

_NO_LOG: Final = "org.slf4j:slf4j-nop:2.0.17"
_JNDI: Final = "org.apache.qpid.jms.jndi.JmsInitialContextFactory"


@dataclass(frozen=True)
class Client:
    """A client library at a broker.

    Args:
        broker: the fixture.
        packages: of the library.
        factory: class. Empty = the provider is ``amqp``.
        url: BROKER stands for host and port.
        shares: whether it has shared subscriptions.
        keys: in place of factory and url, with the same replacement.
    """

    broker: str
    packages: tuple[str, ...]
    factory: str = ""
    url: str = "amqp://BROKER"
    shares: bool = True
    keys: dict[str, Any] = field(default_factory=dict)


_JAVAX: Final = ("org.apache.qpid:qpid-jms-client:1.16.0", _NO_LOG)
_CORE: Final = (
    "org.apache.artemis:artemis-jakarta-client:2.55.0",
    "jakarta.jms:jakarta.jms-api:3.1.0",
    _NO_LOG,
)
_CORE_JAVAX: Final = (
    "org.apache.artemis:artemis-jms-client:2.54.0",
    "jakarta.jms:jakarta.jms-api:2.0.3",
    _NO_LOG,
)
_CLASSIC: Final = ("org.apache.activemq:activemq-client:6.3.1", _NO_LOG)
_JMS_1_1: Final = ("org.apache.activemq:activemq-client:5.15.16", _NO_LOG)
CLIENTS: Final = {
    "amqp_artemis": Client("artemis", tuple(CLIENT)),
    "amqp_broker_j": Client("broker_j", tuple(CLIENT)),
    "amqp_classic": Client("classic", tuple(CLIENT)),
    "javax_artemis": Client("artemis", _JAVAX, QPID),
    "javax_broker_j": Client("broker_j", _JAVAX, QPID),
    "core": Client("artemis", _CORE, CORE, "tcp://BROKER"),
    "core_javax": Client("artemis", _CORE_JAVAX, CORE, "tcp://BROKER"),
    "classic": Client("classic", _CLASSIC, CLASSIC, "tcp://OPENWIRE", shares=False),
    "jms_1_1": Client("classic", _JMS_1_1, CLASSIC, "tcp://OPENWIRE", shares=False),
    "jndi_artemis": Client(
        "artemis",
        tuple(CLIENT),
        keys={
            "CTX_InitialContextFactory": _JNDI,
            "CTX_connectionfactory.cf": "amqp://BROKER",
            "ConnectionFactoryName": "cf",
        },
    ),
}


AtBroker = Callable[..., "BrokerDeployment"]


@pytest.fixture
def at_broker(request: pytest.FixtureRequest, deploy: Deploy) -> AtBroker:
    """Makes a deployment with a client library at its broker."""

    def make(client: Client, **settings: Any) -> BrokerDeployment:
        broker: Broker = request.getfixturevalue(client.broker)

        def fill(text: Any) -> Any:
            if not isinstance(text, str):
                return text
            if "OPENWIRE" in text:
                own = (broker.directory / OPENWIRE).read_text().removeprefix("tcp://").partition("?")[0]
                text = text.replace("OPENWIRE", own)
            return text.replace("BROKER", f"127.0.0.1:{broker.port}")

        provider: dict[str, Any] = {"packages": list(client.packages)}
        if client.keys:
            provider |= {"factory": None, "url": None, **{key: fill(one) for key, one in client.keys.items()}}
        elif client.factory:
            provider |= {"factory": client.factory, "url": fill(client.url)}
        else:
            provider |= {"type": "amqp", "factory": None, "url": fill(client.url), "packages": None}
        deployment: BrokerDeployment = deploy(broker, provider=provider, **settings)
        name = "-".join(one.replace(":", "-") for one in client.packages[:1])
        jars = resolved(name if list(client.packages) != CLIENT else "client", list(client.packages))
        (deployment.directory / LOCK).write_text(jars.file.read_text())
        return deployment

    return make


_NO_DELAY: Final = "-   delivery delay: the client library has no delivery delay"
_DELAYS: Final = {
    "classic": _NO_DELAY,
    "jms_1_1": _NO_DELAY,
    "amqp_classic": "-   delivery delay: the broker delivers at once: ",
}
"""What a check says of delays. With other clients they are kept."""


@pytest.mark.parametrize("name", CLIENTS)
def test_events_come_and_go(at_broker: AtBroker, name: str) -> None:
    deployment = at_broker(CLIENTS[name])
    lines = deployment.run("check", "--connect").stdout.splitlines()
    assert any(line.startswith("yes transactions") for line in lines)
    assert any(line.startswith(_DELAYS.get(name, "yes delivery delay: kept")) for line in lines), lines
    deployment.run("send", deployment.input, body=json.dumps(customer(0)))
    deployment.fill(11, first=1)
    deployment.fill(1, first=12, name="raise:no")
    deployment.finish(13, failed=[12])
    assert len(deployment.lines("browse", deployment.archive)) == 12


def test_check_says_what_a_client_of_jms_1_1_lacks(at_broker: AtBroker) -> None:
    lines = at_broker(CLIENTS["jms_1_1"]).run("check", "--connect").stdout.splitlines()
    assert any(line.endswith("JMS 1.1") for line in lines if line.startswith("yes connection: ")), lines
    assert "-   shared subscriptions: JMS 1.1 does not have it" in lines
    (sent,) = (line for line in lines if line.startswith("yes transactions"))
    assert "one message after the other" in sent


@pytest.mark.parametrize(("name", "status"), [("core", 0), ("classic", 1)])
def test_a_delay_needs_a_library_that_sends_it(at_broker: AtBroker, name: str, status: int) -> None:
    deployment = at_broker(CLIENTS[name])
    deployment.run("send", deployment.input, "--delay", "600000", body="{}", status=status)
    assert deployment.bodies(deployment.input) == []


def test_a_killed_adapter_loses_nothing(at_broker: AtBroker) -> None:
    deployment = at_broker(CLIENTS["classic"])
    deployment.fill(40, name="sleep:0.05")
    for _ in range(2):
        service = deployment.start()
        deployment.wait_for_calls(len(deployment.calls()) + 8)
        service.kill_everything()
    deployment.finish(40, twice=4)


@pytest.mark.parametrize("name", ["amqp_classic", "core", "classic", "jms_1_1"])
def test_a_killed_owner_leaves_the_same_lot(at_broker: AtBroker, name: str) -> None:
    deployment = at_broker(CLIENTS[name])
    deployment.fill(6)
    sent = [message.message_id for message in deployment.messages(deployment.input)]
    status, before, errors = run_owner(deployment, place="settle.committing:2")
    assert status == -signal.SIGKILL, errors
    status, after, errors = run_owner(deployment)
    assert status == 0, errors
    assert after[0] == before[0]
    archived = [message.message_id for message in deployment.messages(deployment.archive)]
    assert sorted(map(str, archived)) == sorted(map(str, sent))
    assert deployment.leftovers() == []


def test_a_killed_broker_loses_nothing(at_broker: AtBroker, artemis: Broker) -> None:
    restarts = {"RestartRetryCount": 1000, "RestartRetryInterval": 0.02}
    deployment = at_broker(CLIENTS["core"], connector=restarts)
    deployment.fill(30, name="sleep:0.05")
    service = deployment.start()
    deployment.wait_for_calls(8)
    artemis.kill()
    artemis.start()
    deployment.wait_for_calls(30)
    service.stop()
    deployment.finish(30, twice=2)


@pytest.mark.parametrize("name", ["classic", "core"])
def test_what_is_given_back_comes_again(at_broker: AtBroker, name: str) -> None:
    deployment = at_broker(CLIENTS[name])
    (deployment.directory / "flag").touch()
    deployment.fill(4)
    deployment.fill(1, first=4, name="inactive:flag")
    assert deployment.start("--once").wait() == 1, deployment.log()[-3000:]
    (deployment.directory / "flag").unlink()
    deployment.finish(5, twice=1, inactive=[4])


@pytest.mark.parametrize("name", ["core", "core_javax", "classic"])
def test_a_refused_copy_settles_nothing(at_broker: AtBroker, name: str) -> None:
    deployment = at_broker(CLIENTS[name], connector={"ArchiveDestination": f"queue://NAME{SMALL}"})
    queue = f"{deployment.name}{SMALL}"
    fill(deployment, queue)
    deployment.fill(1)
    assert deployment.start("--drain").wait() == 1, deployment.log()[-3000:]
    assert "nothing was settled" in deployment.log()
    assert deployment.bodies(queue) == ["in the way"]
    free(deployment, queue)
    deployment.finish(1, archive=queue)


@pytest.mark.parametrize("name", ["core", "classic"])
def test_a_requester_with_another_protocol_gets_its_reply(at_broker: AtBroker, name: str) -> None:
    deployment = at_broker(CLIENTS[name])
    process = {"object": "Customer", "process": "processes:store", "reply": True}
    deployment.subscribe(process, deployment.to_sink)
    asked = Message(json.dumps(customer(0)).encode(), "T")
    with deployment.connected() as client:
        answers = parse_destination(f"queue://{deployment.name}.answers")
        asked.reply_to = str(answers)
        client.send(parse_destination(deployment.input), [asked])
        deployment.finish(1)
        (reply,) = deployment.messages(answers.name)
    assert reply.correlation_id == asked.message_id


@pytest.mark.parametrize("name", ["javax_artemis", "core", "classic", "jms_1_1"])
def test_a_topic_is_polled(at_broker: AtBroker, name: str) -> None:
    client = CLIENTS[name]
    topic: dict[str, Any] = {"destination": f"topic://{TOPIC}", "subscription": f"daily-{name}"}
    if not client.shares:
        topic["no_local"] = True
    deployment = at_broker(client, connector={"InputDestination": [topic]})
    service = deployment.start()
    deployment.wait_for_log(" ready ")
    publish(deployment, range(3))
    deployment.wait_for_calls(3)
    service.stop()
    deployment.run("send", f"topic://{TOPIC}", body=json.dumps(customer(3)))
    deployment.finish(4)


def test_a_client_without_shared_subscriptions_says_so(at_broker: AtBroker) -> None:
    topic = {"destination": f"topic://{TOPIC}", "subscription": "many"}
    deployment = at_broker(CLIENTS["classic"], connector={"InputDestination": [topic]})
    answer = deployment.run("check", status=2)
    assert "this client of jms shares none" in answer.stdout + answer.stderr
    command = ("receive", f"topic://{TOPIC}", "--subscription", "many", "--shared")
    answer = deployment.run(*command, status=1)
    assert "the client library has no shared subscriptions" in answer.stderr


def by_names(deployment: BrokerDeployment) -> None:
    """Gives all destinations names in JNDI, in place of those at the broker."""
    path = deployment.directory / "adapter.yaml"
    document = yaml.safe_load(path.read_text())
    connector, provider = document["connector"], document["provider"]
    names = {"InputDestination": "orders", "ArchiveDestination": "archive", "ErrorDestination": "error"}
    for key, end in {**names, "UnsubscribedDestination": "unsubscribed"}.items():
        connector[key] = f"queue://jms.{end}"  # a name of a destination has no slash
        provider[f"CTX_queue.jms/{end}"] = f"{deployment.name}.{end}"
    document["subscriptions"] = [
        {"object": "Customer", "process": "processes:store", "reply": True},
        {"object": "Customer", "destination": "queue://jms.crm", "name": "crm"},
    ]
    provider["CTX_queue.jms.crm"] = deployment.sink
    for key in [one for one in provider if one.startswith(("CTX_", "Connection"))]:
        connector[key] = provider.pop(key)  # where WBI Adapter for JMS has them
    connector["LookupDestinationsUsingJNDI"] = True
    path.write_text(yaml.safe_dump(document))


def test_destinations_are_looked_up_in_jndi(at_broker: AtBroker) -> None:
    deployment = at_broker(CLIENTS["jndi_artemis"])
    by_names(deployment)
    deployment.fill(3)
    asked = Message(json.dumps(customer(3)).encode(), "T", correlation_id="c-1")
    with deployment.connected() as connection:
        answers = connection.temporary("queue")
        asked.reply_to = str(answers)
        connection.send(parse_destination(deployment.input), [asked])
        deployment.finish(4)
        poller = connection.poller(answers)
        wait_for(lambda: poller.take(1, 0), what="the reply to a queue that JNDI does not have")
    assert deployment.customers(deployment.archive) != []
    shown = deployment.run("browse", "jms.archive").stdout
    assert "Customer" in shown


@pytest.mark.parametrize(
    ("properties", "prefetch"), [({}, 7), ({"prefetchPolicy.all": "5"}, 5)], ids=["none", "prefetch"]
)
def test_a_factory_of_jndi_gets_the_options_of_the_adapter(
    client_jars: list[Path], properties: dict[str, str], prefetch: int
) -> None:
    url = "amqp://h:1?jms.prefetchPolicy.all=77&amqp.idleTimeout=9000"
    naming = Naming({"java.naming.factory.initial": _JNDI, "connectionfactory.cf": url}, "cf")
    jpype = jvm.start(find_java().home, client_jars, ("-Xmx256m",))
    factory = Factory(naming=naming, messages=7, properties=properties)
    made, browsing = factory.make(jpype), factory.make(jpype, browses=True)
    assert made.getPrefetchPolicy().getQueuePrefetch() == prefetch
    assert made.isReceiveLocalOnly()
    assert made.getSendTimeout() == 30000
    assert str(made.getRemoteURI()) == "amqp://h:1?amqp.idleTimeout=9000"
    assert not browsing.isReceiveLocalOnly()
    assert "amqp.drainTimeout" in str(browsing.getRemoteURI())


def test_a_destination_that_jndi_lacks_is_an_error(at_broker: AtBroker) -> None:
    deployment = at_broker(CLIENTS["jndi_artemis"])
    by_names(deployment)
    answer = deployment.run("browse", "orders", status=1)
    assert "queue://orders is not found in JNDI: " in answer.stderr
    answer = deployment.run("send", "orders", body="{}", status=1)
    assert "queue://orders is not found in JNDI: there is no such name" in answer.stderr
    deployment.change("connector", ConnectionFactoryName="cg")
    answer = deployment.run("check", "--connect", status=1)
    assert "ConnectionFactoryName: 'cg' is not found in JNDI: " in answer.stderr


def test_check_looks_up_all_destinations_in_jndi(at_broker: AtBroker) -> None:
    deployment = at_broker(CLIENTS["jndi_artemis"])
    by_names(deployment)
    answer = deployment.run("check", "--connect")
    for name in ("orders", "archive", "error", "unsubscribed", "crm"):
        assert f"yes destination queue://jms.{name}: found in JNDI" in answer.stdout
    moved = {"CTX_queue.jms/archive": None, "CTX_queue.jms/archives": deployment.archive}
    deployment.change("connector", **moved)
    answer = deployment.run("check", "--connect", status=1)
    assert "no  destination queue://jms.archive: queue://jms.archive is not found in JNDI: " in answer.stdout


def test_tls_needs_the_trust_store_and_the_certificate(
    tmp_path_factory: pytest.TempPathFactory, deploy: Deploy
) -> None:
    directory = tmp_path_factory.mktemp("artemis_tls")
    make_stores(directory)
    broker = Broker("artemis", directory, resolved("artemis", ARTEMIS).paths())
    broker.start()
    try:
        deployment = deploy(broker, provider={"type": "amqp", "factory": None, "url": broker.url})
        deployment.fill(4)
        deployment.finish(4)
        path, whole = deployment.directory / "adapter.yaml", broker.url
        text = path.read_text()
        assert whole in text
        plain = whole.partition("?")[0]
        trusting = whole.partition("&transport.keyStoreLocation")[0]
        for url, words in (
            (plain, "the client must trust the certificate of the broker"),
            (trusting, "TLS|certificate of the client"),  # the broker may also reset the connection
            (plain.replace("amqps", "amqp"), "TLS"),
            (whole.replace("client.p12", "clients.p12"), "TLS|certificate of the client"),
            (whole.replace("client.p12", "none.p12"), "transport.keyStoreLocation: there is no file"),
        ):
            path.write_text(text.replace(whole, url))
            answer = deployment.run("check", "--connect", status=None)
            assert answer.returncode in (1, 2)
            assert re.search(words, answer.stdout + answer.stderr), (url, answer)
            assert STORE_PASSWORD not in answer.stdout + answer.stderr
        path.write_text(text)
        assert STORE_PASSWORD not in deployment.run("config").stdout + deployment.log()
    finally:
        broker.stop()


_MQ: Final = {
    "com.ibm.mq.jakarta.jms.MQConnectionFactory": "com.ibm.mq:com.ibm.mq.jakarta.client:9.4.5.1",
    "com.ibm.mq.jms.MQConnectionFactory": "com.ibm.mq:com.ibm.mq.allclient:9.4.5.0",
}
_FILES: Final = "com.sun.jndi.fscontext.RefFSContextFactory"
_BIND: Final = """
import sys
from connector.brokers.jms import jvm
from connector.brokers.jms.factory import Factory
from connector.java import find_java
from pathlib import Path

properties = dict(one.split("=") for one in sys.argv[5:])
jpype = jvm.start(find_java().home, [Path(jar) for jar in sys.argv[3].split(":")])
table = jpype.JClass("java.util.Hashtable")()
table.put("java.naming.factory.initial", sys.argv[1])
table.put("java.naming.provider.url", sys.argv[2])
context = jpype.JClass("javax.naming.InitialContext")(table)
context.bind("cf", Factory(sys.argv[4], properties=properties).make(jpype))
"""
"""Binds a factory to a name in a directory, as the tools of IBM MQ do."""


@pytest.mark.parametrize("way", ["properties", "jndi"])
@pytest.mark.parametrize("factory", _MQ)
def test_ibm_mq_is_set_up_as_far_as_the_refused_connection(
    artemis: Broker, deploy: Deploy, tmp_path: Path, factory: str, way: str
) -> None:
    packages = [_MQ[factory], "com.sun.messaging.mq:fscontext:4.6-b01"]
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    properties = {"HostName": "127.0.0.1", "Port": port, "Channel": "DEV.APP", "TransportType": 1}
    properties["QueueManager"] = "QM1"
    keys: dict[str, Any] = {"factory": factory, "properties": properties}
    jars = resolved(factory, packages)
    if way == "jndi":
        where = f"file://{tmp_path}/names"
        (tmp_path / "names").mkdir()
        paths = ":".join(map(str, jars.paths()))
        texts = [f"{key}={value}" for key, value in properties.items()]
        command = [sys.executable, "-c", _BIND, _FILES, where, paths, factory, *texts]
        subprocess.run(command, check=True, timeout=120)
        keys = {"factory": None, "ConnectionFactoryName": "cf"}
        keys |= {"CTX_InitialContextFactory": _FILES, "CTX_ProviderURL": where}
    keys |= {"url": None, "packages": packages, "ApplicationPassword": "hush"}
    deployment = deploy(artemis, provider=keys)
    (deployment.directory / LOCK).write_text(jars.file.read_text())
    answer = deployment.run("check", "--connect", status=1)
    assert "Failed to connect to queue manager 'QM1' with connection mode 'Client'" in answer.stderr
    assert f"host name '127.0.0.1({port})'" in answer.stderr
    assert "Connection refused" in answer.stderr
    assert "hush" not in answer.stdout + answer.stderr
    if way == "properties":
        path = deployment.directory / "adapter.yaml"
        path.write_text(path.read_text().replace("HostName", "Hostname"))
        answer = deployment.run("check", "--connect", status=1)
        assert "has no property 'Hostname', did you mean 'HostName'?" in answer.stderr
