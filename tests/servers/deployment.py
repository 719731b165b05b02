"""A deployment on a real broker, and the commands on it."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import yaml

from connector.brokers.engine.connection import RemoteConnection
from connector.brokers.engine.state import RemoteState
from connector.brokers.jars.locked import LOCK, cache_directory
from connector.brokers.jms.provider import JmsProvider
from connector.errors import UnknownDestination
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.status import ReturnCode
from connector.testing.deployment import InProcessAdapter
from tests.brokers.engine.world import leftovers
from tests.cli.in_process import call
from tests.events.conftest import serving
from tests.runs import ServiceDeployment, customer
from tests.servers.broker import PASSWORD, USER
from tests.servers.conftest import CLIENT, Broker
from tests.servers.other_java import OtherJava, work
from tests.waiting import wait_for

_PROCESSES = """
import os, sys, time
from connector import NotActive
from tests.waiting import wait_for

HERE = os.path.dirname(os.path.abspath(__file__))

def store(customer, event):
    name = customer["Name"] or ""
    log = os.open(os.path.join(HERE, "calls"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(log, f"{customer['CustomerId']} {event.delivery_count} {os.getpid()}\\n".encode())
    os.close(log)
    word, _, value = name.partition(":")
    if word == "sleep":
        time.sleep(float(value))
    elif word == "raise":
        raise ValueError(value)
    elif word == "inactive" and os.path.exists(os.path.join(HERE, value)):
        raise NotActive("the flag is up")
    elif word == "away" and os.path.exists(os.path.join(HERE, value)):
        raise ConnectionError("the flag is up")
    elif word == "gate":
        open(os.path.join(HERE, f"reached.{value}"), "w").close()
        wait_for(lambda: os.path.exists(os.path.join(HERE, f"open.{value}")))
"""

_CLIENT_LOCK = cache_directory().parent / "tests" / "client" / LOCK
"""Of the jars that the Java of this process has."""

_METAOBJECTS = """
business_object: Customer
verbs: {Create: }
attributes:
  CustomerId: {type: String, key: true, required: true}
  Name: String
"""


class BrokerDeployment(ServiceDeployment):
    """A deployment on a real broker. Its process ``store`` logs its calls. A sink sends customers to a queue.

    The names of its queues have a prefix of their own.

    Args:
        directory: of adapter.yaml, new.
        broker: of its messages.
        name: ApplicationName, and the prefix of the queues.
        in_progress: whether messages in progress are in a queue of their own.
        port: instead of the broker's, for a proxy.
        options: of the URL.
        ends: end of the name of the input.
        store: further keys of the subscription with the process.
        provider, connector: further keys of these sections. None removes a key, and NAME stands for ``name``.
    """

    def __init__(
        self,
        directory: Path,
        broker: Broker,
        name: str,
        *,
        in_progress: bool = False,
        port: int | None = None,
        options: str = "",
        ends: str = ".orders",
        provider: dict[str, Any] | None = None,
        connector: dict[str, Any] | None = None,
        store: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(directory, _METAOBJECTS, _PROCESSES)
        self.name = name
        self._ends = ends
        self._broker = broker
        self.write(LOCK, _CLIENT_LOCK.read_text())
        section = {
            "type": "jms",
            "factory": "org.apache.qpid.jms.JmsConnectionFactory",
            "url": f"amqp://127.0.0.1:{port or broker.port}{options and '?'}{options}",
            "ApplicationUserName": USER,
            "ApplicationPassword": PASSWORD,
            "packages": CLIENT,
            "java_options": ["-Xmx128m", "-XX:TieredStopAtLevel=1"],
            **(provider or {}),
        }
        settings = {
            "ApplicationName": name,
            "InputDestination": [f"queue://{self.input}"],
            "ArchiveDestination": f"queue://{self.archive}",
            "ErrorDestination": f"queue://{self.error}",
            "UnsubscribedDestination": f"queue://{name}.unsubscribed",
            "PollQuantity": 10,
            "PollFrequency": 200,
            "DataHandlerMimeType": "application/json",
            "max_body": "4MiB",  # a larger one needs more heap
            **({"InProgressDestination": f"queue://{self.in_progress}"} if in_progress else {}),
            **({"InDoubtEvents": "Reprocess"} if in_progress else {}),
            **(connector or {}),
        }
        document = {
            "provider": {key: value for key, value in section.items() if value is not None},
            "connector": {
                key: value.replace("NAME", name) if isinstance(value, str) else value
                for key, value in settings.items()
                if value is not None
            },
            "subscriptions": [
                {"object": "Customer", "process": "processes:store", **(store or {})},
                self.to_sink,
            ],
            "metaobjects": "./metaobjects",
            "spark": {"master": "local[2]", "max_jobs": 2},
        }
        self.write("adapter.yaml", yaml.safe_dump(document))

    @property
    def input(self) -> str:
        return f"{self.name}{self._ends}"

    @property
    def in_progress(self) -> str:
        return f"{self.name}.progress"

    @property
    def archive(self) -> str:
        return f"{self.name}.archive"

    @property
    def error(self) -> str:
        return f"{self.name}.error"

    @property
    def sink(self) -> str:
        return f"{self.name}.crm"

    @property
    def to_sink(self) -> dict[str, Any]:
        """The subscription of the sink."""
        return {"object": "Customer", "destination": f"queue://{self.sink}", "name": "crm"}

    def subscribe(self, *subscriptions: dict[str, Any]) -> None:
        """Replaces the subscriptions."""
        document = yaml.safe_load((self.directory / "adapter.yaml").read_text())
        self.write("adapter.yaml", yaml.safe_dump({**document, "subscriptions": list(subscriptions)}))

    def execute(self, program: str) -> str:
        """Runs a program in the directory, in a process with the client library. Returns what it prints."""
        return self._other_java.execute(self.directory, program)

    def raise_flag(self, name: str = "flag") -> Path:
        """Lets processes with the word ``inactive:NAME`` or ``away:NAME`` fail until the file is removed."""
        return self.write(name, "")

    # -- commands ----------------------------------------------------------------------------------

    @property
    def _shares_java(self) -> bool:
        """Whether this process may connect as the adapter does."""
        return (self.directory / LOCK).read_text() == _CLIENT_LOCK.read_text()

    @property
    def _other_java(self) -> OtherJava:
        return OtherJava.of((self.directory / LOCK).read_text(), self.directory)

    def run(
        self, *arguments: str, body: str = "", status: int | None = 0
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end, in a process that has the client library."""
        answer: subprocess.CompletedProcess[str]
        if self._shares_java:
            answer = call(self.directory, *arguments, data=body)
        else:
            answer = self._other_java.call(self.directory, *arguments, body=body)
        if status is not None:
            assert answer.returncode == status, answer.stdout + answer.stderr[-3000:]
        return answer

    def work(self, code: ReturnCode = ReturnCode.SUCCEED) -> str:
        """Lets an adapter without Spark empty the inputs. Returns the reason of a failure.

        Args:
            code: of the last poll.
        """
        found, reason = work(self.directory) if self._shares_java else self._other_java.work(self.directory)
        assert found is code, reason
        return reason

    @contextlib.contextmanager
    def serving(self) -> Iterator[InProcessAdapter]:
        """A service without Spark in a thread of this process, which ends in order with the block.

        Cheaper than :meth:`start`, with its own Java. No command may run beside it.
        """
        with InProcessAdapter(self.configuration) as adapter, serving(adapter):
            yield adapter

    def change(self, section: str, **values: Any) -> None:
        """Changes keys of a section of adapter.yaml. None removes a key."""
        document = yaml.safe_load((self.directory / "adapter.yaml").read_text())
        changed = {**document.get(section, {}), **values}
        document[section] = {key: value for key, value in changed.items() if value is not None}
        self.write("adapter.yaml", yaml.safe_dump(document))

    def lines(self, *arguments: str, body: str = "") -> list[Any]:
        """Runs a command, and returns its JSON lines."""
        return [json.loads(line) for line in self.run(*arguments, "--json", body=body).stdout.splitlines()]

    # -- messages ----------------------------------------------------------------------------------

    @property
    def provider(self) -> JmsProvider:
        """That of this process, which knows nothing of the adapter."""
        return self._broker.provider()

    def connected(self) -> contextlib.closing[RemoteConnection]:
        """A connection of this process."""
        return contextlib.closing(self.provider.connect())

    def fill(self, count: int, *, name: str = "", first: int = 0, queue: str = "") -> None:
        """Sends customers with rising numbers to the input, or to another queue."""
        bodies = [customer(number, name) for number in range(first, first + count)]
        messages = [Message(json.dumps(body).encode(), "T") for body in bodies]
        with self.connected() as connection:
            connection.send(parse_destination(f"queue://{queue or self.input}"), messages)

    def messages(self, queue: str) -> list[Message]:
        """Returns the messages that wait in a queue. A broker that is away is an error here."""
        with self.connected() as connection:
            try:
                return list(connection.browse(parse_destination(f"queue://{queue}")))
            except UnknownDestination:
                return []

    def bodies(self, queue: str) -> list[str]:
        return [message.body.decode() for message in self.messages(queue)]

    def customers(self, queue: str) -> list[str]:
        return [json.loads(body)["CustomerId"] for body in self.bodies(queue)]

    def commit_queue(self) -> list[str]:
        """Returns the names of the properties in the commit queue. One announces the state directory."""
        messages = self.messages(f"connector.{self.name}.commits")
        return sorted(name for message in messages for name in message.properties)

    def leftovers(self) -> list[str]:
        """Returns what an adapter that has settled everything does not leave: in the broker, in the state."""
        queues = self.input, self.in_progress, "DLQ", f"connector.{self.name}.later"
        found = [f"{queue}: {body}" for queue in queues for body in self.bodies(queue)]
        found += [name for name in self.commit_queue() if name != "connector_directory"]
        return found + leftovers(RemoteState(str(self.directory / ".connector" / "state"), self.name))

    def finish(
        self,
        count: int,
        *,
        twice: int = 0,
        failed: Collection[int] = (),
        inactive: Collection[int] = (),
        archive: str = "",
        error: str = "",
    ) -> None:
        """Empties the input. Checks that nothing is lost or left, and that each event was settled once.

        Args:
            count: of sent messages.
            twice: most calls of the process that may be repeated.
            failed: customers that the process refuses.
            inactive: customers for which the process was not active. Such calls do not count.
            archive, error: queues with other names.
        """
        self.work()
        assert self.leftovers() == []
        good = sorted(str(number) for number in range(count) if number not in failed)
        assert sorted(self.customers(archive or self.archive)) == good
        assert sorted(self.customers(self.sink)) == good
        assert sorted(self.customers(error or self.error)) == sorted(map(str, failed))
        assert self.bodies(f"{self.name}.unsubscribed") == []
        calls = Counter(customer for customer, _ in self.calls())
        assert sorted(calls) == sorted(map(str, range(count)))
        assert sum(calls.values()) - count <= twice, [one for one in calls.items() if one[1] > 1]
        for name in set(calls) - set(map(str, inactive)):  # a second call says that it is one
            counts = [delivery for customer, delivery in self.calls() if customer == name]
            assert counts == sorted(set(counts)), (name, counts)

    def archived(self) -> list[str]:
        """Returns the customers in the archive, sorted as texts."""
        return sorted(self.customers(self.archive))

    # -- what was done -----------------------------------------------------------------------------

    def calls(self) -> list[tuple[str, int]]:
        """Returns the customer and the delivery count of each call of the process."""
        return [(customer, int(count)) for customer, count, _ in self._calls()]

    def workers(self) -> list[int]:
        """Returns the process of each call."""
        return [int(pid) for _, _, pid in self._calls()]

    def _calls(self) -> list[list[str]]:
        try:
            lines = (self.directory / "calls").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [line.split() for line in lines]

    def wait_for_calls(self, count: int, seconds: float = 120.0) -> None:
        """Waits until the process was called for so many customers."""
        self.wait_for(
            lambda: len({customer for customer, _ in self.calls()}) >= count, f"{count} calls", seconds
        )

    def wait_for_log(self, text: str, count: int = 1) -> None:
        """Waits until the log has a text so often."""
        self.wait_for(lambda: self.log().count(text) >= count, repr(text))

    def wait_for(self, condition: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
        """Waits until a condition is true. A failure shows the log."""
        try:
            wait_for(condition, seconds, what)
        except AssertionError as error:
            raise AssertionError(f"{error}, log: {self.log()[-5000:]}") from None

    def http_url(self) -> str:
        """Returns where the HTTP server of a service is, once the service has said so."""
        pattern = re.compile(r"the HTTP server accepts requests .*url=(http://[0-9.:]+)")
        found = wait_for(lambda: pattern.search(self.log()), what="the server")
        return found[1]

    def log(self) -> str:
        """Returns what all runs have written."""
        return "".join(run.output + run.errors for run in self.runs)
