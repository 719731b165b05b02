"""Client libraries beside Qpid JMS 2, at their brokers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

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
from connector.status import ReturnCode
from tests.postgres import free_port
from tests.proxy import proxy_to
from tests.runs import customer
from tests.servers.broker import OPENWIRE, SMALL, STORE_PASSWORD, TOPIC
from tests.servers.conftest import ARTEMIS, CLIENT, RETRIES, Broker, make_stores, resolved
from tests.servers.rhea import server_without_transactions
from tests.servers.test_commands import publish
from tests.servers.test_held import fill, free
from tests.waiting import wait_for

if TYPE_CHECKING:
    from tests.servers.conftest import Deploy
    from tests.servers.deployment import BrokerDeployment

_NO_LOG: Final = "org.slf4j:slf4j-nop:2.0.17"
_JNDI: Final = "org.apache.qpid.jms.jndi.JmsInitialContextFactory"


class Client(NamedTuple):
    """A client library at a broker.

    Args:
        broker: the fixture.
        packages: of the library.
        keys: of ``provider``. BROKER stands for host and port, OPENWIRE for those of Classic's own protocol.
        shares: whether it has shared subscriptions.
    """

    broker: str
    packages: list[str]
    keys: Mapping[str, str | None]
    shares: bool = True


_AMQP: Final = {"type": "amqp", "factory": None, "url": "amqp://BROKER", "packages": None}
_QPID: Final = {"factory": QPID, "url": "amqp://BROKER"}
_OF_CORE: Final = {"factory": CORE, "url": "tcp://BROKER"}
_OF_CLASSIC: Final = {"factory": CLASSIC, "url": "tcp://OPENWIRE"}
_OF_JNDI: Final = {
    "factory": None,
    "url": None,
    "ConnectionFactoryName": "cf",
    "CTX_InitialContextFactory": _JNDI,
    "CTX_connectionfactory.cf": "amqp://BROKER",
}
_API: Final = "jakarta.jms:jakarta.jms-api"
_JAVAX: Final = ["org.apache.qpid:qpid-jms-client:1.16.0", _NO_LOG]
_CORE: Final = ["org.apache.artemis:artemis-jakarta-client:2.55.0", f"{_API}:3.1.0", _NO_LOG]
_CORE_JAVAX: Final = ["org.apache.artemis:artemis-jms-client:2.54.0", f"{_API}:2.0.3", _NO_LOG]
_CLASSIC: Final = ["org.apache.activemq:activemq-client:6.3.1", _NO_LOG]
_JMS_1_1: Final = ["org.apache.activemq:activemq-client:5.15.16", _NO_LOG]
CLIENTS: Final = {
    "amqp_artemis": Client("artemis", CLIENT, _AMQP),
    "amqp_broker_j": Client("broker_j", CLIENT, _AMQP),
    "amqp_classic": Client("classic", CLIENT, _AMQP),
    "javax_artemis": Client("artemis", _JAVAX, _QPID),
    "javax_broker_j": Client("broker_j", _JAVAX, _QPID),
    "core": Client("artemis", _CORE, _OF_CORE),
    "core_javax": Client("artemis", _CORE_JAVAX, _OF_CORE),
    "classic": Client("classic", _CLASSIC, _OF_CLASSIC, shares=False),
    "jms_1_1": Client("classic", _JMS_1_1, _OF_CLASSIC, shares=False),
    "jndi_artemis": Client("artemis", CLIENT, _OF_JNDI),
}
AtBroker = Callable[..., "BrokerDeployment"]


@pytest.fixture
def at_broker(request: pytest.FixtureRequest, deploy: Deploy) -> AtBroker:
    """Makes a deployment with a client library, by the name of the client, at its broker."""

    def make(name: str, **settings: Any) -> BrokerDeployment:
        client = CLIENTS[name]
        broker: Broker = request.getfixturevalue(client.broker)
        own = broker.directory / OPENWIRE
        openwire = own.read_text().removeprefix("tcp://").partition("?")[0] if own.exists() else ""
        keys = {
            key: text and text.replace("OPENWIRE", openwire).replace("BROKER", f"127.0.0.1:{broker.port}")
            for key, text in client.keys.items()
        }
        deployment: BrokerDeployment = deploy(
            broker, provider={"packages": client.packages, **keys}, **settings
        )
        jars = "client" if client.packages is CLIENT else client.packages[0].replace(":", "-")
        deployment.write(LOCK, resolved(jars, client.packages).file.read_text())
        return deployment

    return make


_NO_DELAY: Final = "-   delivery delay: the client library has no delivery delay"
_ONE_BY_ONE: Final = "yes transactions: one message after the other"
_CHECKS: Final = {
    "classic": [_NO_DELAY, _ONE_BY_ONE, "-   shared subscriptions: "],
    "jms_1_1": [_NO_DELAY, _ONE_BY_ONE, "-   shared subscriptions: JMS 1.1 does not have it"],
    "amqp_classic": ["-   delivery delay: the broker delivers at once: ", "yes transactions"],
}
"""What a check says with a client. With others delays are kept."""


@pytest.mark.parametrize("name", CLIENTS)
def test_events_come_and_go(at_broker: AtBroker, name: str) -> None:
    deployment = at_broker(name)
    lines = deployment.run("check", "--connect").stdout.splitlines()
    for expected in _CHECKS.get(name, ["yes delivery delay: kept", "yes transactions"]):
        assert any(line.startswith(expected) for line in lines), lines
    deployment.run("send", deployment.input, body=json.dumps(customer(0)))
    deployment.fill(11, first=1)
    deployment.fill(1, first=12, name="raise:no")
    deployment.finish(13, failed=[12])
    assert len(deployment.lines("browse", deployment.archive)) == 12


_LIBRARIES: Final = ("javax_artemis", "core", "core_javax", "classic", "jms_1_1")
"""Each library but the one of the other tests."""
_PROGRAM: Final = """
import json
from pathlib import Path

from connector import Adapter
from connector.messaging import AcknowledgeMode, connect
from tests.servers.other_java import work

queue, found = "queue://NAME.program", {}
with connect("adapter.yaml") as connection:
    for mode in AcknowledgeMode:
        with connection.session(mode) as session:
            for body in ("1", "2", "3"):
                session.send(queue, body)
            if session.transacted:
                session.commit()
            consumer = session.consumer(queue)
            messages = [consumer.receive(60) for _ in range(3)]
            consumer.close()
            if mode is AcknowledgeMode.INDIVIDUAL:
                messages[1].acknowledge()
            elif mode is AcknowledgeMode.CLIENT:
                messages[0].acknowledge()  # and with it all
            elif session.transacted:
                session.rollback()
        with connection.session() as session:
            left = session.consumer(queue)
            found[mode.name] = [message.value for message in left.messages(timeout=0.5)]
    with connection.session() as asking, connection.session() as answering:
        replies = asking.temporary_queue()
        asking.producer(queue).send("question", reply_to=replies)
        question = answering.consumer(queue).receive(60)
        answering.producer(question.reply_to).send("answer", correlation_id=question.message_id)
        found["reply"] = asking.consumer(replies).receive(60).value
with Adapter.from_file("adapter.yaml") as adapter:
    future = adapter.request_async("Customer.Create", {"CustomerId": "1"}, timeout=60000)
    while not future.done():
        work(Path.cwd())
    found["request"] = [future.result().status.name, future.result().object["Name"]]
print(json.dumps(found))
"""
_SERVING: Final = """
def store(customer, event):
    customer["Name"] = f"name of {customer['CustomerId']}"
    return customer
"""
_RULES: Final = """
---
static_metaobject: MO_Config
rules:
  Customer_Create: {OutputDestination: "queue://INPUT", ResponseTimeout: 60000}
"""


@pytest.mark.parametrize("name", _LIBRARIES)
def test_a_program_has_sessions_and_makes_requests(at_broker: AtBroker, name: str) -> None:
    deployment = at_broker(name, connector={"ConfigurationMetaObject": "MO_Config"})
    deployment.subscribe({"object": "Customer", "process": "processes:store", "reply": True})
    deployment.write("processes.py", _SERVING)
    deployment.write("metaobjects/rules.yaml", _RULES.replace("INPUT", deployment.input))
    assert json.loads(deployment.execute(_PROGRAM.replace("NAME", deployment.name))) == {
        "AUTO": [],
        "DUPS_OK": [],
        "CLIENT": [],
        "INDIVIDUAL": ["1", "3"],
        "TRANSACTED": ["1", "2", "3"],
        "reply": "answer",
        "request": ["VALCHANGE", "name of 1"],
    }


@pytest.mark.parametrize(("name", "status"), [("core", 0), ("classic", 1)])
def test_a_delay_needs_a_library_that_sends_it(at_broker: AtBroker, name: str, status: int) -> None:
    deployment = at_broker(name)
    deployment.run("send", deployment.input, "--delay", "600000", body="{}", status=status)
    assert deployment.bodies(deployment.input) == []


@pytest.mark.process
@pytest.mark.parametrize("name", ["core", "classic"])
def test_a_killed_adapter_and_a_killed_broker_lose_nothing(
    at_broker: AtBroker, artemis: Broker, name: str
) -> None:
    deployment = at_broker(name, connector=RETRIES)
    deployment.fill(40, name="sleep:0.05")
    service = deployment.start()
    deployment.wait_for_calls(8)
    service.kill_everything()
    if name == "core":
        service = deployment.start()
        deployment.wait_for_calls(16)
        artemis.kill()
        artemis.start()
        deployment.wait_for_calls(40)
        service.stop()
    deployment.finish(40, twice=4)


@pytest.mark.parametrize("name", ["core", "core_javax", "classic"])
def test_what_is_given_back_or_refused_comes_again(at_broker: AtBroker, name: str) -> None:
    deployment = at_broker(name, connector={"ArchiveDestination": f"queue://NAME{SMALL}"})
    queue = f"{deployment.name}{SMALL}"
    fill(deployment, queue)
    flag = deployment.raise_flag()
    deployment.fill(1, name="inactive:flag")
    assert "the flag is up" in deployment.work(ReturnCode.APPRESPONSETIMEOUT)
    flag.unlink()
    assert "nothing was settled" in deployment.work(ReturnCode.APPRESPONSETIMEOUT)
    assert deployment.bodies(queue) == ["in the way"]
    free(deployment, queue)
    deployment.finish(1, archive=queue, twice=1, inactive=[0])


@pytest.mark.parametrize("name", ["core", "classic"])
def test_a_requester_with_another_protocol_gets_its_reply(at_broker: AtBroker, name: str) -> None:
    deployment = at_broker(name)
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
    topic: dict[str, Any] = {"destination": f"topic://{TOPIC}", "subscription": f"daily-{name}"}
    if not CLIENTS[name].shares:
        topic["no_local"] = True
    deployment = at_broker(name, connector={"InputDestination": [topic]})
    deployment.work()  # makes the subscription
    publish(deployment, range(3))
    deployment.work()
    deployment.run("send", f"topic://{TOPIC}", body=json.dumps(customer(3)))
    deployment.finish(4)


def test_a_client_without_shared_subscriptions_says_so(at_broker: AtBroker) -> None:
    topic = {"destination": f"topic://{TOPIC}", "subscription": "many"}
    deployment = at_broker("classic", connector={"InputDestination": [topic]})
    answer = deployment.run("check", status=2)
    assert "this client of jms shares none" in answer.stdout + answer.stderr
    command = ("receive", f"topic://{TOPIC}", "--subscription", "many", "--shared")
    answer = deployment.run(*command, status=1)
    assert "the client library has no shared subscriptions" in answer.stderr


def by_names(deployment: BrokerDeployment) -> None:
    """Gives all destinations names in JNDI, in place of those at the broker."""
    kinds = {"Input": "orders", "Archive": "archive", "Error": "error", "Unsubscribed": "unsubscribed"}
    provider = yaml.safe_load((deployment.directory / "adapter.yaml").read_text())["provider"]
    keys = {key: value for key, value in provider.items() if key.startswith(("CTX_", "Connection"))}
    deployment.change("provider", **dict.fromkeys(keys))
    deployment.change(
        "connector",  # where WBI Adapter for JMS has them
        LookupDestinationsUsingJNDI=True,
        **keys,
        **{f"{kind}Destination": f"queue://jms.{end}" for kind, end in kinds.items()},
        **{f"CTX_queue.jms/{end}": f"{deployment.name}.{end}" for end in kinds.values()},  # or with a slash
        **{"CTX_queue.jms.crm": deployment.sink},
    )
    process = {"object": "Customer", "process": "processes:store", "reply": True}
    deployment.subscribe(process, {**deployment.to_sink, "destination": "queue://jms.crm"})


def test_destinations_are_looked_up_in_jndi(at_broker: AtBroker) -> None:
    deployment = at_broker("jndi_artemis")
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
    made, browsing = factory.make(jpype), factory.make(jpype, browses=5.0)
    assert made.getPrefetchPolicy().getQueuePrefetch() == prefetch
    assert made.isReceiveLocalOnly()
    assert made.getSendTimeout() == 30000
    assert str(made.getRemoteURI()) == "amqp://h:1?amqp.idleTimeout=9000&amqp.drainTimeout=30000"
    assert not browsing.isReceiveLocalOnly()
    assert "amqp.drainTimeout" in str(browsing.getRemoteURI())


def test_check_looks_up_all_destinations_in_jndi(at_broker: AtBroker) -> None:
    deployment = at_broker("jndi_artemis")
    by_names(deployment)
    answer = deployment.run("check", "--connect")
    for name in ("orders", "archive", "error", "unsubscribed", "crm"):
        assert f"yes destination queue://jms.{name}: found in JNDI" in answer.stdout
    answer = deployment.run("browse", "orders", status=1)
    assert "queue://orders is not found in JNDI: " in answer.stderr
    answer = deployment.run("send", "orders", body="{}", status=1)
    assert "queue://orders is not found in JNDI: there is no such name" in answer.stderr
    moved = {"CTX_queue.jms/archive": None, "CTX_queue.jms/archives": deployment.archive}
    deployment.change("connector", **moved)
    answer = deployment.run("check", "--connect", status=1)
    assert "no  destination queue://jms.archive: queue://jms.archive is not found in JNDI: " in answer.stdout
    deployment.change("connector", ConnectionFactoryName="cg")
    answer = deployment.run("check", "--connect", status=1)
    assert "ConnectionFactoryName: 'cg' is not found in JNDI: " in answer.stderr


_NO_TLS: Final = "TLS|certificate of the client"
"""The broker may also reset the connection."""


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
        whole = broker.url
        plain, trusting = whole.partition("?")[0], whole.partition("&transport.keyStoreLocation")[0]
        for url, words in (
            (plain, "PKIX.*the client must trust the certificate of the broker.*trustStoreLocation"),
            (trusting, _NO_TLS),
            (plain.replace("amqps", "amqp"), "TLS"),
            (whole.replace("client.p12", "clients.p12"), _NO_TLS),
            (whole.replace("client.p12", "none.p12"), "transport.keyStoreLocation: there is no file"),
        ):
            deployment.change("provider", url=url)
            answer = deployment.run("check", "--connect", status=None)
            assert answer.returncode in (1, 2)
            assert re.search(words, answer.stdout + answer.stderr), (url, answer)
            assert STORE_PASSWORD not in answer.stdout + answer.stderr
        deployment.change("provider", url=whole)
        assert STORE_PASSWORD not in deployment.run("config").stdout
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


@pytest.mark.parametrize(("factory", "way"), [*zip(_MQ, ("properties", "jndi"), strict=True)])
def test_ibm_mq_is_set_up_as_far_as_the_refused_connection(
    artemis: Broker, deploy: Deploy, tmp_path: Path, factory: str, way: str
) -> None:
    packages = [_MQ[factory], "com.sun.messaging.mq:fscontext:4.6-b01"]
    port = free_port()
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
        subprocess.run(command, check=True, timeout=240)
        keys = {"factory": None, "ConnectionFactoryName": "cf"}
        keys |= {"CTX_InitialContextFactory": _FILES, "CTX_ProviderURL": where}
    keys |= {"url": None, "packages": packages, "ApplicationPassword": "hush"}
    deployment = deploy(artemis, provider=keys)
    deployment.write(LOCK, jars.file.read_text())
    answer = deployment.run("check", "--connect", status=1)
    assert "Failed to connect to queue manager 'QM1' with connection mode 'Client'" in answer.stderr
    assert f"host name '127.0.0.1({port})'" in answer.stderr
    assert "Connection refused" in answer.stderr
    assert "hush" not in answer.stdout + answer.stderr
    if way == "properties":
        deployment.change("provider", properties={"Hostname": "127.0.0.1"})
        answer = deployment.run("check", "--connect", status=1)
        assert "has no property 'Hostname', did you mean 'HostName'?" in answer.stderr


@pytest.mark.parametrize("way", ["link", "session"])
def test_a_broker_without_transactions_is_found(artemis: Broker, deploy: Deploy, way: str) -> None:
    with server_without_transactions(way) as port:
        deployment = deploy(artemis, provider={"url": f"amqp://127.0.0.1:{port}?jms.requestTimeout=9000"})
        answer = deployment.run("check", "--connect", status=1)
    (line,) = [one for one in answer.stdout.splitlines() if "transactions: " in one]
    assert line.startswith("no  transactions: ")
    assert "does the broker have transactions of AMQP 1.0?" in line
    assert way == "session" or "Transactions not supported" in line  # Qpid JMS waits if the session ends
    assert "an adapter cannot work" in line
    assert "shared subscriptions" not in answer.stdout, "nothing else is tried, because each trial may wait"


_OF_MQ: Final = """
import sys
from pathlib import Path
from connector.brokers.jms import jvm
from connector.brokers.jms.factory import Factory
from connector.brokers.jms.names import java_destination, name_of
from connector.brokers.jms.reasons import reason_of
from connector.java import find_java
from connector.messaging.destination import parse_destination

jpype = jvm.start(find_java().home, [Path(jar) for jar in sys.argv[1].split(":")])
jms = jpype.JPackage("javax").jms
makers = jpype.JClass("com.ibm.msg.client.jms.JmsFactoryFactory").getInstance("com.ibm.msg.client.wmq")
for text in sys.argv[2:]:
    destination = parse_destination(text, own_names=True)
    java = java_destination(makers, destination)
    made = java.getQueueName() if isinstance(java, jms.Queue) else java.getTopicName()
    again = java_destination(makers, parse_destination(name_of(java, jms), own_names=True))
    print(made, again.equals(java), java.getStringProperty("XMSC_DESTINATION_NAME"))
for code in (2009, 2016, 2035, 2051, 2053, 2059, 2085):
    error = jms.JMSException("JMSWMQ2007: no message was sent", "JMSWMQ2007")
    error.setLinkedException(jpype.JClass("com.ibm.mq.MQException")(2, code, "test"))
    print(reason_of(error))
properties = {"ClientReconnectOptions": "33554432", "ClientReconnectTimeout": "60"}
factory = Factory("com.ibm.mq.jms.MQConnectionFactory", properties=properties).make(jpype)
print(factory.getClientReconnectOptions(), factory.getClientReconnectTimeout())
"""


def test_the_library_of_ibm_mq_takes_the_names_and_options_and_its_reasons_are_explained() -> None:
    factory = "com.ibm.mq.jms.MQConnectionFactory"
    jars = resolved(factory, [_MQ[factory], "com.sun.messaging.mq:fscontext:4.6-b01"])
    names = ["queue:///Q?targetClient=1", "queue://Q", "queue://QM1/Q", "queue://Q?priority=3"]
    names += ["topic://PRICES/NYSE", "topic://A%2FB?priority=2"]
    command = [sys.executable, "-c", _OF_MQ, ":".join(map(str, jars.paths())), *names]
    done = subprocess.run(command, check=True, timeout=240, stdout=subprocess.PIPE, text=True)
    lines = done.stdout.splitlines()
    assert lines[:6] == [
        "queue:///Q?targetClient=1 True Q",
        "queue:///Q True Q",
        "queue://QM1/Q True Q",
        "queue:///Q?priority=3 True Q",
        "topic://PRICES/NYSE True PRICES/NYSE",
        "topic://A/B?priority=2 True A/B",
    ]
    remedies = (
        "is broken",
        "GET(ENABLED)",
        "SET AUTHREC",
        "PUT(ENABLED)",
        "MAXDEPTH",
        "does not run",
        "no such queue",
    )
    for line, remedy in zip(lines[6:13], remedies, strict=True):
        assert remedy in line
    assert lines[13] == "33554432 60"


# -- a broker that is slow -----------------------------------------------------------------------------------


@pytest.mark.parametrize("client", ["amqp_artemis", "amqp_broker_j", "core", "classic", "jms_1_1"])
def test_who_does_not_wait_asks_the_broker(at_broker: AtBroker, client: str) -> None:
    deployment = at_broker(client)
    deployment.fill(1)
    url: str = deployment.configuration.provider.url  # type: ignore[attr-defined]
    port = int(url.rpartition(":")[2])
    with proxy_to(port) as proxy:
        deployment.change("provider", url=url.replace(str(port), str(proxy.port)))
        proxy.delay = 0.15  # longer than anybody waits for what is on its way
        assert len(deployment.lines("receive", deployment.input)) == 1
