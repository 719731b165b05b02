"""Runs a broker in the foreground, in Java inside this process: KIND DIRECTORY PORT CLASSPATH.

Prints READY when the broker takes connections. A line on standard input is a command: ``empty`` empties the
broker, ``remove QUEUE`` removes a queue, ``password NEW`` sets the password of its user, ``pause QUEUE`` and
``resume QUEUE`` let a queue of Artemis rest, ``refuse QUEUE CORRELATION_ID`` lets it refuse messages, and
``take`` ends that. Then READY comes again. Ends with standard input, so that
no broker outlives the tests.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

USER = PASSWORD = "guest"
TOPIC = "prices"
REFUSED = "blocked"
"""No queue of this name can be made."""
KEPT = ("DLQ", "ExpiryQueue")
SMALL = ".small"
"""A queue with this end of its name takes one message, and refuses more."""
FEW = ".few"
"""A queue with this end of its name has a limit of three deliveries. Other queues have ten."""
IDLE_SECONDS = 5
"""The broker ends a connection that is silent for so long. A busy machine may be silent for some seconds."""

Commands = dict[str, Callable[..., object]]

_ARTEMIS = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<name>test</name><persistence-enabled>true</persistence-enabled><journal-type>NIO</journal-type>
<paging-directory>{data}/paging</paging-directory><bindings-directory>{data}/bindings</bindings-directory>
<journal-directory>{data}/journal</journal-directory>
<large-messages-directory>{data}/large</large-messages-directory>
<journal-min-files>2</journal-min-files><journal-buffer-timeout>100000</journal-buffer-timeout><max-disk-usage>-1</max-disk-usage>
<authentication-cache-size>0</authentication-cache-size><jmx-management-enabled>false</jmx-management-enabled>
<acceptors><acceptor name="amqp">tcp://127.0.0.1:{port}?protocols=AMQP,CORE;amqpIdleTimeout={idle}{tls}</acceptor></acceptors>
<security-settings><security-setting match="#">{permissions}</security-setting></security-settings>
<address-settings>
<address-setting match="#">
<dead-letter-address>DLQ</dead-letter-address><expiry-address>ExpiryQueue</expiry-address>
</address-setting>
<address-setting match="blocked">
<auto-create-addresses>false</auto-create-addresses><auto-create-queues>false</auto-create-queues>
</address-setting>
<address-setting match="*.small">
<address-full-policy>FAIL</address-full-policy><max-size-bytes>1</max-size-bytes>
</address-setting>
<address-setting match="*.few">
<dead-letter-address>DLQ</dead-letter-address><max-delivery-attempts>3</max-delivery-attempts>
</address-setting>
</address-settings>
<addresses>
<address name="DLQ"><anycast><queue name="DLQ"/></anycast></address>
<address name="ExpiryQueue"><anycast><queue name="ExpiryQueue"/></anycast></address>
</addresses>
</core></configuration>
"""
_TLS = (
    ";sslEnabled=true;needClientAuth=true;keyStoreType=PKCS12;trustStoreType=PKCS12"
    ";keyStorePath={directory}/broker.p12;keyStorePassword={password}"
    ";trustStorePath={directory}/clients.p12;trustStorePassword={password}"
)
STORE_PASSWORD = "store-hush"
OPENWIRE = "openwire"
"""The file with the URL of Classic's own protocol."""

_PERMISSIONS = (
    *(
        f"{verb}{what}"
        for verb in ("create", "delete")
        for what in ("Address", "DurableQueue", "NonDurableQueue")
    ),
    *("send", "consume", "browse", "manage"),
)


def _policy(pattern: str, **attributes: object) -> dict[str, object]:
    """How Broker-J makes the queues of a pattern."""
    created = {"createdOnPublish": "true", "createdOnConsume": "true", "nodeType": "queue"}
    return {"pattern": pattern, **created, "attributes": attributes}


_DEAD = {"alternateBinding": {"destination": "DLQ"}}
_POLICIES = [
    _policy(f".*\\{SMALL}", maximumQueueDepthMessages=1, overflowPolicy="REJECT"),
    _policy(f".*\\{FEW}", maximumDeliveryAttempts=3, **_DEAD),
    _policy(f"(?!({TOPIC}|{REFUSED}|.*\\{SMALL}|.*\\{FEW})$).*", maximumDeliveryAttempts=10, **_DEAD),
]
_BROKER_J = {
    "name": "test",
    "modelVersion": "8.0",
    "authenticationproviders": [
        {
            "name": "users",
            "type": "Plain",
            "secureOnlyMechanisms": [],
            "users": [{"name": USER, "type": "managed", "password": PASSWORD}],
        }
    ],
    "ports": [
        {
            "name": "AMQP",
            "port": "${qpid.amqp_port}",
            "bindingAddress": "127.0.0.1",
            "authenticationProvider": "users",
            "protocols": ["AMQP_1_0"],
            "context": {"qpid.port.heartbeatDelay": str(IDLE_SECONDS)},
            "virtualhostaliases": [
                {"name": "default", "type": "defaultAlias"},
                {"name": "host", "type": "hostnameAlias"},
                {"name": "name", "type": "nameAlias"},
            ],
        }
    ],
    "virtualhostnodes": [
        {
            "name": "default",
            "type": "JSON",
            "defaultVirtualHostNode": "true",
            "virtualHostInitialConfiguration": json.dumps(
                {
                    "type": "DERBY",
                    "context": {"queue.holdOnPublishEnabled": "true"},
                    "housekeepingCheckPeriod": 100,
                    "nodeAutoCreationPolicies": _POLICIES,
                    "exchanges": [{"name": TOPIC, "type": "fanout"}],
                    "queues": [{"name": "DLQ"}],
                }
            ),
        }
    ],
}


def artemis(jpype: Any, directory: Path, port: int) -> Commands:
    (directory / "data").mkdir(exist_ok=True)
    settings = directory / "broker.xml"
    permissions = "".join(f'<permission type="{one}" roles="all"/>' for one in _PERMISSIONS)
    has_tls = (directory / "broker.p12").exists()
    values = {
        "data": directory / "data",
        "idle": IDLE_SECONDS * 1000,
        "permissions": permissions,
        "tls": _TLS.format(directory=directory, password=STORE_PASSWORD) if has_tls else "",
    }
    settings.write_text(_ARTEMIS.format(port=port, **values))
    broker = jpype.JClass("org.apache.activemq.artemis.core.server.embedded.EmbeddedActiveMQ")()
    broker.setConfigResourcePath(settings.as_uri())
    users = jpype.JClass("org.apache.activemq.artemis.core.config.impl.SecurityConfiguration")()
    users.addUser(USER, PASSWORD)
    users.addRole(USER, "all")
    users.setDefaultUser(USER)  # of a client without a login
    login = "org.apache.activemq.artemis.spi.core.security.jaas.InVMLoginModule"
    manager = jpype.JClass("org.apache.activemq.artemis.spi.core.security.ActiveMQJAASSecurityManager")
    broker.setSecurityManager(manager(login, users))
    broker.start()
    assert broker.getActiveMQServer().isStarted()
    control = broker.getActiveMQServer().getActiveMQServerControl()
    gone = jpype.JClass("org.apache.activemq.artemis.api.core.ActiveMQNonExistentQueueException")

    def empty() -> None:
        for name in list(control.getQueueNames()):
            if name in KEPT:
                broker.getActiveMQServer().locateQueue(name).deleteAllReferences()
            else:
                try:
                    control.destroyQueue(name, True, False)
                except gone:  # a temporary queue of a connection that ends just now
                    pass

    def remove(name: str) -> None:
        control.destroyQueue(name, True, True)

    def pause(name: str) -> None:
        if (queue := broker.getActiveMQServer().locateQueue(name)) is not None:
            queue.pause()

    def resume(name: str) -> None:
        if (queue := broker.getActiveMQServer().locateQueue(name)) is not None:
            queue.resume()

    def password(text: str) -> None:
        users.removeUser(USER)
        users.addUser(USER, text)
        users.addRole(USER, "all")

    plugins: list[Any] = []

    def refuse(queue: str, correlation_id: str) -> None:
        def before_send(_session: Any, _transaction: Any, message: Any, *_: Any) -> None:
            if str(message.getAddress()) == queue and str(message.getCorrelationID()) == correlation_id:
                raise jpype.JClass("org.apache.activemq.artemis.api.core.ActiveMQException")("not this one")

        interface = jpype.JClass("org.apache.activemq.artemis.core.server.plugin.ActiveMQServerMessagePlugin")
        methods = dict.fromkeys(
            (str(one.getName()) for one in interface.class_.getMethods()), lambda *_: None
        )
        plugins.append(jpype.JProxy(interface, dict={**methods, "beforeSend": before_send}))
        broker.getActiveMQServer().registerBrokerPlugin(plugins[-1])

    def take() -> None:
        broker.getActiveMQServer().unRegisterBrokerPlugin(plugins.pop())

    commands: Commands = {"empty": empty, "remove": remove, "password": password}
    return {**commands, "pause": pause, "resume": resume, "refuse": refuse, "take": take}


def broker_j(jpype: Any, directory: Path, port: int) -> Commands:
    settings = directory / "initial-config.json"
    settings.write_text(json.dumps(_BROKER_J))
    system = jpype.JClass("java.lang.System")
    system.setProperty("qpid.amqp_port", str(port))
    system.setProperty("qpid.work_dir", str(directory))
    system.setProperty("derby.stream.error.file", str(directory / "derby.log"))
    attributes = jpype.JClass("java.util.HashMap")()
    for name, value in {
        "type": "JSON",
        "storePath": str(directory / "config.json"),
        "initialConfigurationLocation": str(settings),
        "startupLoggedToSystemOut": "false",
    }.items():
        attributes.put(name, value)
    found: list[Any] = []

    def resolved(system_config: Any) -> None:
        found.append(system_config)

    ends = "errorOnStartup", "onContainerClose", "onShutdown", "exceptionOnShutdown"
    methods = dict.fromkeys(("beforeStartup", "afterStartup", *ends), lambda *_: None)
    listener = jpype.JProxy(
        "org.apache.qpid.server.SystemLauncherListener", dict={**methods, "onContainerResolve": resolved}
    )
    jpype.JClass("org.apache.qpid.server.SystemLauncher")(listener).startup(attributes)
    queue_class = jpype.JClass("org.apache.qpid.server.model.Queue").class_

    def queues() -> list[Any]:
        """The queues for dead letters are the last, because they get the messages of deleted queues."""
        nodes = found[0].getContainer().getVirtualHostNodes()
        queues = [one for node in nodes for one in node.getVirtualHost().getChildren(queue_class)]
        return sorted(queues, key=lambda one: str(one.getName()) in KEPT)

    def empty() -> None:
        for queue in queues():
            if str(queue.getName()) in KEPT:
                queue.clearQueue()
            else:
                queue.delete()

    def remove(name: str) -> None:
        for queue in queues():
            if str(queue.getName()) == name:
                queue.delete()

    def password(text: str) -> None:
        for provider in found[0].getContainer().getAuthenticationProviders():
            provider.setPassword(USER, text)

    return {"empty": empty, "remove": remove, "password": password}


def classic(jpype: Any, directory: Path, port: int) -> Commands:
    broker = jpype.JClass("org.apache.activemq.broker.BrokerService")()
    broker.setBrokerName("test")
    broker.setDataDirectory(str(directory / "data"))
    broker.setUseJmx(False)
    policies = "org.apache.activemq.broker.region.policy"
    small = jpype.JClass(f"{policies}.PolicyEntry")()
    small.setQueue(f"*{SMALL}")
    small.setMemoryLimit(1)
    small.setPendingQueuePolicy(jpype.JClass(f"{policies}.VMPendingQueueMessageStoragePolicy")())
    policy = jpype.JClass(f"{policies}.PolicyMap")()
    policy.setPolicyEntries(jpype.java.util.ArrayList([small]))
    broker.setDestinationPolicy(policy)
    broker.getSystemUsage().setSendFailIfNoSpace(True)
    own = broker.addConnector("tcp://127.0.0.1:0")
    broker.addConnector(f"amqp://127.0.0.1:{port}?transport.transformer=jms&transport.tcpNoDelay=true")
    broker.start()
    broker.waitUntilStarted()
    (directory / OPENWIRE).write_text(str(own.getConnectUri().toString()))
    return {}


def main() -> None:
    import jpype

    from connector.java import find_java

    kind, directory, port, class_path = sys.argv[1:]
    library = find_java().home / "lib" / "server" / "libjvm.so"
    options = ["-Xrs", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    options.append("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
    jpype.startJVM(str(library), *options, classpath=class_path.split(os.pathsep), convertStrings=True)
    try:
        commands = {"artemis": artemis, "broker_j": broker_j, "classic_broker": classic}[kind](
            jpype, Path(directory), int(port)
        )
        print("READY", flush=True)
        for line in sys.stdin:
            name, *arguments = line.split()
            commands[name](*arguments)
            print("READY", flush=True)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # otherwise Python waits for the threads of Java, and the tests wait for Python
    os._exit(0)


if __name__ == "__main__":
    main()
