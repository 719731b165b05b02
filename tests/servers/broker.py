"""Runs a broker in the foreground, in Java inside this process: KIND DIRECTORY PORT CLASSPATH.

Prints READY when the broker takes connections. A line on standard input empties the broker, and READY comes
again. Ends with standard input, so that no broker outlives the tests.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

USER = PASSWORD = "guest"
TOPIC = "prices"
REFUSED = "blocked"
"""No queue of this name can be made."""
KEPT = ("DLQ", "ExpiryQueue", "full")

_ARTEMIS = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<name>test</name><persistence-enabled>true</persistence-enabled><journal-type>NIO</journal-type>
<paging-directory>{data}/paging</paging-directory><bindings-directory>{data}/bindings</bindings-directory>
<journal-directory>{data}/journal</journal-directory>
<large-messages-directory>{data}/large</large-messages-directory>
<journal-min-files>2</journal-min-files><max-disk-usage>-1</max-disk-usage>
<security-enabled>false</security-enabled><jmx-management-enabled>false</jmx-management-enabled>
<acceptors><acceptor name="amqp">tcp://127.0.0.1:{port}?protocols=AMQP</acceptor></acceptors>
<address-settings>
<address-setting match="#">
<dead-letter-address>DLQ</dead-letter-address><expiry-address>ExpiryQueue</expiry-address>
</address-setting>
<address-setting match="blocked">
<auto-create-addresses>false</auto-create-addresses><auto-create-queues>false</auto-create-queues>
</address-setting>
<address-setting match="full">
<address-full-policy>FAIL</address-full-policy><max-size-bytes>1</max-size-bytes>
</address-setting>
</address-settings>
<addresses>
<address name="DLQ"><anycast><queue name="DLQ"/></anycast></address>
<address name="ExpiryQueue"><anycast><queue name="ExpiryQueue"/></anycast></address>
<address name="full"><anycast><queue name="full"/></anycast></address>
</addresses>
</core></configuration>
"""

_QUEUE_POLICY = {
    "pattern": f"(?!({TOPIC}|{REFUSED})$).*",
    "createdOnPublish": "true",
    "createdOnConsume": "true",
    "nodeType": "queue",
    "attributes": {"maximumDeliveryAttempts": 10, "alternateBinding": {"destination": "DLQ"}},
}
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
                    "nodeAutoCreationPolicies": [_QUEUE_POLICY],
                    "exchanges": [{"name": TOPIC, "type": "fanout"}],
                    "queues": [{"name": "DLQ"}],
                }
            ),
        }
    ],
}


def artemis(jpype: Any, directory: Path, port: int) -> Callable[[], None]:
    (directory / "data").mkdir(exist_ok=True)
    settings = directory / "broker.xml"
    settings.write_text(_ARTEMIS.format(data=directory / "data", port=port))
    broker = jpype.JClass("org.apache.activemq.artemis.core.server.embedded.EmbeddedActiveMQ")()
    broker.setConfigResourcePath(settings.as_uri())
    broker.start()
    assert broker.getActiveMQServer().isStarted()
    control = broker.getActiveMQServer().getActiveMQServerControl()

    def empty() -> None:
        for name in list(control.getQueueNames()):
            if name in KEPT:
                broker.getActiveMQServer().locateQueue(name).deleteAllReferences()
            else:
                control.destroyQueue(name, True, False)

    return empty


def broker_j(jpype: Any, directory: Path, port: int) -> Callable[[], None]:
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

    methods = dict.fromkeys(
        (
            "beforeStartup",
            "errorOnStartup",
            "afterStartup",
            "onContainerClose",
            "onShutdown",
            "exceptionOnShutdown",
        ),
        lambda *_: None,
    )
    listener = jpype.JProxy(
        "org.apache.qpid.server.SystemLauncherListener", dict={**methods, "onContainerResolve": resolved}
    )
    jpype.JClass("org.apache.qpid.server.SystemLauncher")(listener).startup(attributes)
    queue_class = jpype.JClass("org.apache.qpid.server.model.Queue")

    def empty() -> None:
        for node in found[0].getContainer().getVirtualHostNodes():
            for queue in list(node.getVirtualHost().getChildren(queue_class.class_)):
                if str(queue.getName()) in KEPT:
                    queue.clearQueue()
                else:
                    queue.delete()

    return empty


def main() -> None:
    import jpype

    from connector.java import find_java

    kind, directory, port, class_path = sys.argv[1:]
    library = find_java().home / "lib" / "server" / "libjvm.so"
    options = ["-Xrs", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    options.append("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
    jpype.startJVM(str(library), *options, classpath=class_path.split(os.pathsep), convertStrings=True)
    empty = {"artemis": artemis, "broker_j": broker_j}[kind](jpype, Path(directory), int(port))
    print("READY", flush=True)
    for _ in sys.stdin:
        empty()
        print("READY", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
