"""Real brokers on this machine, each started once a run."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from connector.brokers.engine.transaction_limits import TransactionLimits
from connector.brokers.jars.locked import Jars, cache_directory
from connector.brokers.jars.resolver import fetch
from connector.brokers.jms import jvm
from connector.brokers.jms.factory import Factory
from connector.brokers.jms.provider import JavaSettings, JmsProvider
from connector.brokers.jms.urls import QPID
from connector.java import find_java
from connector.spark.settings import spark_jars
from tests.postgres import free_port
from tests.requests.world import World
from tests.servers.broker import PASSWORD, STORE_PASSWORD, USER
from tests.waiting import wait_for

if TYPE_CHECKING:
    from tests.servers.deployment import BrokerDeployment

    Deploy = Callable[..., BrokerDeployment]

pytest.register_assert_rewrite("tests.servers.deployment")

REPOSITORY: Final = Path(__file__).resolve().parents[2]

CLIENT: Final = ["org.apache.qpid:qpid-jms-client:2.10.0", "org.slf4j:slf4j-nop:2.0.17"]
ARTEMIS: Final = [
    "org.apache.artemis:artemis-server:2.55.0",
    "org.apache.artemis:artemis-amqp-protocol:2.55.0",
    "org.slf4j:slf4j-nop:2.0.17",
]
_BROKER_J: Final = [
    *(
        f"org.apache.qpid:qpid-broker-{name}:10.1.0"
        for name in (
            *("core", "plugins-amqp-1-0-protocol", "plugins-amqp-1-0-protocol-jdbc-link-store"),
            *("plugins-derby-store", "plugins-memory-store"),
        )
    ),
    "org.slf4j:slf4j-simple:2.0.17",
]
_CLASSIC: Final = [
    *(f"org.apache.activemq:activemq-{name}:6.3.1" for name in ("client", "broker", "kahadb-store", "amqp")),
    "org.slf4j:slf4j-nop:2.0.17",
]
_HEAP: Final = ("-Xmx256m",)
"""Of the Java of a process of tests. Some of its messages have several MiB."""
_PACKAGES: Final = {"artemis": ARTEMIS, "broker_j": _BROKER_J, "classic_broker": _CLASSIC}


def resolved(name: str, packages: list[str]) -> Jars:
    """Fetches jars into the cache of this user, unless they are there."""
    directory = cache_directory().parent / "tests" / name
    directory.mkdir(parents=True, exist_ok=True)
    jars = Jars(packages, directory)
    with (directory.parent / "lock").open("w") as lock:  # several runs of tests may begin at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jars.notes() or any(one.state != "there" for one in jars.notes()):
            jars.write(fetch(packages, jars.cache, java=find_java().executable, spark_jars=spark_jars()))
    return jars


class Broker:
    """A broker in a process of its own.

    Args:
        kind: ``artemis``, ``broker_j`` or ``classic_broker``.
        directory: of its messages. Artemis speaks TLS alone, if the stores of :func:`make_stores` are there.
        class_path: the jars.
    """

    def __init__(self, kind: str, directory: Path, class_path: list[Path]) -> None:
        self.kind = kind
        self.directory = directory
        self._class_path = os.pathsep.join(map(str, class_path))
        self.port = free_port()
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def url(self) -> str:
        """The URL for Qpid JMS."""
        return self.url_at(self.port)

    def url_at(self, port: int) -> str:
        """The URL for Qpid JMS with another port, that of a proxy."""
        if not (self.directory / "client.p12").exists():
            return f"amqp://127.0.0.1:{port}"
        options = "&".join(
            f"transport.{kind}StoreLocation={self.directory}/{file}"
            f"&transport.{kind}StorePassword={STORE_PASSWORD}"
            for kind, file in (("trust", "brokers.p12"), ("key", "client.p12"))
        )
        return f"amqps://127.0.0.1:{port}?{options}"

    def provider(
        self,
        port: int | None = None,
        *,
        factory: Factory | None = None,
        state: Path | None = None,
        **limits: Any,
    ) -> JmsProvider:
        """Returns a provider of this process, for messages that no adapter sends and receives.

        Args:
            port: instead of the broker's, for a proxy.
            factory: instead of one with the login of the tests.
            state: directory, instead of one of the broker.
            limits: of transactions.
        """
        java = JavaSettings((), resolved("client", CLIENT), _HEAP)
        factory = factory or Factory(QPID, self.url_at(port or self.port), USER, PASSWORD)
        return JmsProvider(factory, java, state or self.directory / "state", TransactionLimits(**limits))

    def start(self) -> None:
        """Returns when the broker takes connections."""
        command = [sys.executable, str(Path(__file__).with_name("broker.py"))]
        command += [self.kind, str(self.directory), str(self.port), self._class_path]
        log = (self.directory / "log").open("a")
        self._process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        log.close()
        self._wait_until_ready()
        wait_for(self._takes_connections, what=f"{self.kind} takes connections")

    def _takes_connections(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 60).close()
        except OSError:
            return False
        return True

    def empty(self) -> None:
        """Removes all queues, subscriptions, messages and names of lots. No client is connected."""
        for records in ("subscriptions", "lots"):
            shutil.rmtree(self.directory / "state" / records, ignore_errors=True)
        self._command("empty")

    @property
    def pauses(self) -> bool:
        """Whether this broker can pause a queue."""
        return self.kind == "artemis"

    def pause(self, queue: str) -> None:
        """Lets a queue give nobody a message, until :meth:`resume` or the end of the broker."""
        self._command(f"pause {queue}")

    def resume(self, queue: str) -> None:
        """Undoes :meth:`pause`."""
        self._command(f"resume {queue}")

    @contextlib.contextmanager
    def refusing(self, queue: str, correlation_id: str) -> Iterator[None]:
        """Lets a queue of Artemis refuse messages with a correlation id for a while, and take all others."""
        self._command(f"refuse {queue} {correlation_id}")
        try:
            yield
        finally:
            self._command("take")

    def remove(self, queue: str) -> None:
        """Removes a queue, whoever uses it."""
        self._command(f"remove {queue}")

    @contextlib.contextmanager
    def other_password(self) -> Iterator[None]:
        """Gives the user of the tests another password for a while. Connections stay."""
        self._command(f"password new-{PASSWORD}")
        try:
            yield
        finally:
            self._command(f"password {PASSWORD}")

    def _command(self, line: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line == "READY\n":
                return
        pytest.fail(f"{self.kind} has ended: {(self.directory / 'log').read_text()[-3000:]}")

    def kill(self) -> None:
        """Ends the broker as a power failure does."""
        assert self._process is not None
        self._process.kill()
        self._process.communicate()
        self._process = None

    def stop(self) -> None:
        """Ends the broker if it runs."""
        if self._process is not None:
            self.kill()


def make_stores(directory: Path) -> None:
    """Makes key stores of a broker and a client, and trust stores with the certificate of the other one."""
    keytool = str(find_java().home / "bin/keytool")

    def run(*arguments: str) -> None:
        subprocess.run([keytool, *arguments], cwd=directory, check=True, capture_output=True, timeout=240)

    for name, trusting in (("broker", "brokers.p12"), ("client", "clients.p12")):
        store = ["-storepass", STORE_PASSWORD, "-storetype", "PKCS12", "-alias", name]
        where = ["-dname", f"CN={name}", "-ext", "san=ip:127.0.0.1", "-validity", "2"]
        own = [*store, "-keystore", f"{name}.p12"]
        run("-genkeypair", "-keyalg", "EC", *where, *own)
        run("-exportcert", "-rfc", "-file", f"{name}.pem", *own)
        run("-importcert", "-noprompt", "-file", f"{name}.pem", "-keystore", trusting, *store)


@pytest.fixture(scope="session")
def client_jars() -> list[Path]:
    """The jars of Qpid JMS."""
    return resolved("client", CLIENT).paths()


@contextlib.contextmanager
def running(kind: str, directory: Path) -> Iterator[Broker]:
    """A broker that ends with the block. Java starts in this process with the heap that all tests need.

    Otherwise Java has the heap of whatever connects first, and a deployment asks for half of it.
    """
    jvm.start(find_java().home, resolved("client", CLIENT).paths(), _HEAP)
    broker = Broker(kind, directory, resolved(kind, _PACKAGES[kind]).paths())
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


@pytest.fixture(scope="session")
def artemis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running("artemis", tmp_path_factory.mktemp("artemis")) as broker:
        yield broker


@pytest.fixture(scope="session")
def broker_j(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running("broker_j", tmp_path_factory.mktemp("broker_j")) as broker:
        yield broker


@pytest.fixture(scope="session")
def classic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running("classic_broker", tmp_path_factory.mktemp("classic_broker")) as broker:
        yield broker


RETRIES: Final = {"RestartRetryCount": 1000, "RestartRetryInterval": 0.01}
"""Keys of ``connector``: a service never gives its broker up."""
KINDS: Final = ("artemis", "broker_j")
AT_ARTEMIS: Final = pytest.mark.parametrize("broker", ["artemis"], indirect=True)
"""For what is above the client library, so that one broker is enough."""
AT_BROKER_J: Final = pytest.mark.parametrize("broker", ["broker_j"], indirect=True)


def in_turn(names: str, *rows: object) -> pytest.MarkDecorator:
    """Parametrizes a test by rows, each at one broker: the first at Artemis, the next at Broker-J, and so on.

    For many ways to come to what is above the client library.

    Args:
        names: of the parameters, with commas between them.
        rows: a value each, or a tuple of values.
    """
    values = [row if isinstance(row, tuple) else (row,) for row in rows]
    placed = [(KINDS[number % 2], *row) for number, row in enumerate(values)]
    return pytest.mark.parametrize(f"broker, {names}", placed, indirect=["broker"])


@pytest.fixture(params=KINDS)
def broker(request: pytest.FixtureRequest) -> Broker:
    """Each broker in turn, because a broker itself decides what the test shows."""
    found: Broker = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def world(broker: Broker, tmp_path: Path) -> Iterator[World]:
    """A request client and all beside it, at each broker in turn."""
    broker.empty()
    made = World(broker.provider(), tmp_path)
    try:
        yield made
    finally:
        made.end()
        broker.empty()


@contextlib.contextmanager
def deploying(directory: Path) -> Iterator[Deploy]:
    """Makes deployments, each with an ApplicationName of its own. Their processes end with the block."""
    from tests.servers.deployment import BrokerDeployment

    made: list[BrokerDeployment] = []

    def make(broker: Broker, **settings: Any) -> BrokerDeployment:
        name = f"app{secrets.token_hex(4)}"
        made.append(BrokerDeployment(directory / name, broker, name, **settings))
        return made[-1]

    try:
        yield make
    finally:
        for deployment in made:
            deployment.close()


@pytest.fixture
def deploy(tmp_path: Path, client_jars: list[Path]) -> Iterator[Deploy]:
    """Makes deployments whose processes end with the test."""
    with deploying(tmp_path) as make:
        yield make
