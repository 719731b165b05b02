"""A deployment on a real broker, and the commands on it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from connector.jars.locked import LOCK, cache_directory
from tests.servers.broker import PASSWORD, USER
from tests.servers.conftest import CLIENT, REPOSITORY, Broker
from tests.waiting import wait_for

_PROCESSES = """
import os, sys, time
from connector import NotActive

HERE = os.path.dirname(os.path.abspath(__file__))

def store(customer, event):
    name = customer["Name"] or ""
    log = os.open(os.path.join(HERE, "calls"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(log, f"{customer['CustomerId']} {event.delivery_count}\\n".encode())
    os.close(log)
    word, _, value = name.partition(":")
    if word == "sleep":
        time.sleep(float(value))
    elif word == "raise":
        raise ValueError(value)
    elif word == "inactive" and os.path.exists(os.path.join(HERE, value)):
        raise NotActive("the flag is up")
    elif word == "gate":
        open(os.path.join(HERE, f"reached.{value}"), "w").close()
        while not os.path.exists(os.path.join(HERE, f"open.{value}")):
            time.sleep(0.01)
"""

_METAOBJECTS = """
business_object: Customer
verbs: {Create: }
attributes:
  CustomerId: {type: String, key: true, required: true}
  Name: String
"""


class Deployment:
    """An adapter with a process ``store``, which logs its calls. Its queues have a prefix of their own.

    Args:
        directory: of adapter.yaml, new.
        broker: of its messages.
        name: ApplicationName, and the prefix of the queues.
        port: instead of the broker's, for a proxy.
        provider, connector: further keys of these sections. None removes a key.
    """

    def __init__(
        self,
        directory: Path,
        broker: Broker,
        name: str,
        *,
        port: int | None = None,
        provider: dict[str, Any] | None = None,
        connector: dict[str, Any] | None = None,
    ) -> None:
        self.directory = directory
        self.name = name
        self._processes: list[subprocess.Popen[str]] = []
        directory.mkdir(parents=True)
        (directory / "metaobjects").mkdir()
        (directory / "metaobjects" / "customer.yaml").write_text(_METAOBJECTS)
        (directory / "processes.py").write_text(_PROCESSES)
        lock = cache_directory().parent / "tests" / "client" / LOCK
        (directory / LOCK).write_text(lock.read_text())
        section = {
            "type": "jms",
            "factory": "org.apache.qpid.jms.JmsConnectionFactory",
            "url": f"amqp://127.0.0.1:{port or broker.port}",
            "packages": CLIENT,
            "java_options": ["-Xmx128m", "-XX:TieredStopAtLevel=1"],
            **(provider or {}),
        }
        if broker.kind == "broker_j":
            section = {"ApplicationUserName": USER, "ApplicationPassword": PASSWORD, **section}
        settings = {
            "ApplicationName": name,
            "InputDestination": [f"queue://{self.input}"],
            "ArchiveDestination": f"queue://{name}.archive",
            "ErrorDestination": f"queue://{name}.error",
            "UnsubscribedDestination": f"queue://{name}.unsubscribed",
            "PollQuantity": 10,
            "PollFrequency": 200,
            "DataHandlerMimeType": "application/json",
            **(connector or {}),
        }
        document = {
            "provider": {key: value for key, value in section.items() if value is not None},
            "connector": {key: value for key, value in settings.items() if value is not None},
            "subscriptions": [{"object": "Customer", "process": "processes:store"}],
            "metaobjects": "./metaobjects",
            "spark": {"master": "local[2]", "max_jobs": 2},
        }
        (directory / "adapter.yaml").write_text(yaml.safe_dump(document))

    @property
    def input(self) -> str:
        return f"{self.name}.orders"

    def run(
        self, *arguments: str, body: str = "", status: int | None = 0
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end."""
        answer = subprocess.run(
            self._command(arguments), cwd=self.directory, env=_environment(), input=body,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        if status is not None:
            assert answer.returncode == status, answer.stderr[-3000:]
        return answer

    def lines(self, *arguments: str, body: str = "") -> list[Any]:
        """Runs a command, and returns its JSON lines."""
        return [json.loads(line) for line in self.run(*arguments, "--json", body=body).stdout.splitlines()]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Starts the service in a session of its own."""
        log = (self.directory / "log").open("a")
        process = subprocess.Popen(
            self._command(("run", *arguments)), cwd=self.directory, env=_environment(),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, text=True, start_new_session=True,
        )  # fmt: skip
        log.close()
        self._processes.append(process)
        return process

    def kill(self, process: subprocess.Popen[str]) -> None:
        """Kills the service and everything that it has started."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def end(self) -> None:
        """Ends what still runs."""
        for process in self._processes:
            if process.poll() is None:
                self.kill(process)

    def send(self, count: int, *, name: str = "", first: int = 0, queue: str | None = None) -> None:
        """Sends customers with rising numbers, in one process."""
        program = (
            "import json, sys\n"
            "from connector.config.loading import load\n"
            "from connector.messaging.destination import parse_destination\n"
            "from connector.messaging.message import Message\n"
            "from connector.parts import make_provider\n"
            "queue, first, count, name = sys.argv[1:]\n"
            "connection = make_provider(load('adapter.yaml')).connect()\n"
            "bodies = [{'BusinessObject': 'Customer', 'Verb': 'Create', 'CustomerId': str(n), 'Name': name}\n"
            "          for n in range(int(first), int(first) + int(count))]\n"
            "messages = [Message(json.dumps(body).encode(), 'T') for body in bodies]\n"
            "connection.send(parse_destination(f'queue://{queue}'), messages)\n"
            "connection.close()\n"
        )
        arguments = [queue or self.input, str(first), str(count), name]
        subprocess.run(
            [sys.executable, "-c", program, *arguments], cwd=self.directory, env=_environment(), check=True,
            timeout=120,
        )  # fmt: skip

    def calls(self) -> list[tuple[str, int]]:
        """Returns the customer and the delivery count of each call of the process."""
        try:
            lines = (self.directory / "calls").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [(customer, int(count)) for customer, _, count in (line.partition(" ") for line in lines)]

    def wait_for_calls(self, count: int, seconds: float = 90.0) -> None:
        wait_for(lambda: len(self.calls()) >= count, seconds, f"{count} calls, log: {self.log()[-3000:]}")

    def log(self) -> str:
        path = self.directory / "log"
        return path.read_text() if path.exists() else ""

    def bodies(self, queue: str) -> list[str]:
        """Returns the bodies that wait in a queue. A queue that does not exist has none."""
        answer = self.run("browse", queue, "--json", status=None)
        return [json.loads(line)["body"] for line in answer.stdout.splitlines()]

    def marks(self) -> list[int]:
        """Returns the cycles that the commit queue shows. Its other message announces the state directory."""
        answer = self.run("browse", f"connector.{self.name}.commits", "--json", status=None)
        properties = [json.loads(line)["properties"] for line in answer.stdout.splitlines()]
        return [one["connector_cycle"] for one in properties if "connector_cycle" in one]

    def customers(self, queue: str) -> list[str]:
        return [json.loads(body)["CustomerId"] for body in self.bodies(queue)]

    def _command(self, arguments: Sequence[str]) -> list[str]:
        return [sys.executable, "-m", "connector.cli", *arguments]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(REPOSITORY)}
