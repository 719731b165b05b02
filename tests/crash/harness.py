"""What the crash tests stand on: deployments, real `connector run` processes, and counts from files.

A business process appends ``begin id delivery_count pid name`` before it does anything and ``end ...`` after,
each with one write to a file opened for appending: so deliveries are counted even when whoever made
them was killed. Nothing here trusts what the adapter says about itself. The delivery count is that of the
event, the message and the dynamic meta-object: where they disagree, reading the deliveries fails.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.sql.provider import SqlProvider
from connector.testing.deployment import Deployment
from tests import forked_command
from tests.crash.database import DatabaseQueues
from tests.spark.standalone import StandaloneCluster, executor_options
from tests.waiting import is_running, wait_for

REPOSITORY = Path(__file__).resolve().parents[2]
_MARK = "CRASH_TEST_RUN"

_PROCESSES = """
import ctypes, os, signal, sys, time
from connector import NotActive, TemporaryFailure, Unsubscribed

HERE = {here!r}

def _write(word, customer, event, name):
    meta, message = customer["Meta"], event.message
    said = {{
        (event.delivery_count, event.delivery_count > 1, event.input_destination),
        (message.delivery_count, message.redelivered, message.destination),
        (meta["DeliveryCount"], meta["Redelivered"], meta["Destination"]),
    }}
    count = event.delivery_count if len(said) == 1 else str(sorted(said, key=str)).replace(" ", "")
    line = f"{{word}} {{event.id}} {{count}} {{os.getpid()}} {{name}}\\n"
    log = os.open(os.path.join(HERE, "deliveries"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(log, line.encode())
    os.close(log)

def _gate(name):
    with open(os.path.join(HERE, f"reached.{{name}}.{{os.getpid()}}"), "w"):
        pass
    while not os.path.exists(os.path.join(HERE, f"open.{{name}}")):
        time.sleep(0.01)

def _behave(what):
    word, _, value = what.partition(":")
    if word == "raise":
        raise ValueError(value)
    elif word == "flag":  # fails as long as the flag is there
        if os.path.exists(os.path.join(HERE, value)):
            raise ValueError("the flag is up")
    elif word == "inactive":
        if os.path.exists(os.path.join(HERE, value)):
            raise NotActive("the flag is up")
    elif word == "exit":
        os._exit(int(value))
    elif word == "sysexit":
        sys.exit(int(value))
    elif word == "interrupt":
        raise KeyboardInterrupt(value)
    elif word == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif word == "segv":
        ctypes.string_at(0)
    elif word == "hang":
        while True:
            time.sleep(1)
    elif word == "sleep":
        time.sleep(float(value))
    elif word == "gate":
        _gate(value)
    elif word == "fork":
        child = os.fork()
        if child == 0:
            os.closerange(0, 3)
            time.sleep(float(value))
            os._exit(0)
    elif word == "stray":  # a child that forgets to leave
        os.fork()
    elif word == "print":
        for _ in range(int(value)):
            print("x" * 99)

def store(customer, event):
    _write("begin", customer, event, "store")
    _behave(customer["Name"] or "")
    _write("end", customer, event, "store")

def book(customer, event):
    _write("begin", customer, event, "book")
    mark = "?" if type(event.transaction.cursor()._cursor).__module__ == "sqlite3" else "%s"
    event.transaction.cursor().execute(f"INSERT INTO booking (event) VALUES ({{mark}})", (event.id,))
    _behave(customer["Second"] or "")
    _write("end", customer, event, "book")

def second(customer, event):
    _write("begin", customer, event, "second")
    _behave(customer["Second"] or "")
    _write("end", customer, event, "second")
"""

_METAOBJECTS = """
business_object: Customer
app_specific_info: cw_mo_conn=Meta
verbs: {Create: }
attributes:
  CustomerId: {type: String, key: true, required: true}
  Name: String
  Second: String
  Meta: {type: CustomerMeta}
---
business_object: CustomerMeta
attributes: {DeliveryCount: Integer, Redelivered: Boolean, Destination: String}
---
static_metaobject: MO_Config
rules:
"""


@contextmanager
def deployments(directory: Path) -> Iterator[Callable[..., CrashDeployment]]:
    """Makes deployments; at the end their processes are ended and their roots removed.

    The roots are in memory where there is such a place, so that the tests wait for no disk.
    """
    shared = Path("/dev/shm")
    in_memory = shared.is_dir() and os.access(shared, os.W_OK | os.X_OK)
    base = Path(tempfile.mkdtemp(prefix="connector-crash-", dir=shared if in_memory else directory))
    made: list[CrashDeployment] = []

    def make(**settings: Any) -> CrashDeployment:
        number = len(made)
        made.append(CrashDeployment(directory / f"deployment{number}", base / f"root{number}", **settings))
        return made[-1]

    try:
        yield make
    finally:
        for deployment in made:
            deployment.close()
        shutil.rmtree(base, ignore_errors=True)


@dataclass
class Delivery:
    """One line that a business process wrote."""

    word: str
    id: str
    count: int
    pid: int
    subscription: str


@dataclass
class ForeignFolders:
    """Where another program writes a file and then moves it."""

    working: str
    target: str


@dataclass
class CrashDeployment(Deployment):
    """A deployment whose adapter is killed, with a root for its messages.

    Args:
        directory: where adapter.yaml and the business processes are.
        root: of the provider; must not exist yet.
        inputs: names of the input queues.
        connector, spark: more keys of these sections.
        provider_keys: more keys of the section `provider`.
        store: more keys of the subscription of the process `store`.
        subscriptions: more entries.
        only: the entries, where there is to be no process.
        shop: the URL of a database with the table `booking`, for the process `book`. Empty = none.
        java: False where Spark has no part in what is tested (see :mod:`tests.without_java`).
        database: the URL of a database with the messages; ``{root}`` stands for the root. Empty = a dropbox.
        fresh: True = a run with Spark starts as `connector` does, False = it is a fork that need not import.
        recovery: seconds after which a run without Spark looks for dead clients again. None = the 10 s of a
            run with Spark.
    """

    directory: Path
    root: Path
    inputs: Sequence[str] = ("in",)
    connector: Mapping[str, Any] = field(default_factory=dict)
    spark: Mapping[str, Any] = field(default_factory=dict)
    provider_keys: Mapping[str, Any] = field(default_factory=dict)
    store: Mapping[str, Any] = field(default_factory=dict)
    subscriptions: Sequence[Mapping[str, Any]] = ()
    only: Sequence[Mapping[str, Any]] = ()
    shop: str = ""
    java: bool = True
    database: str = ""
    fresh: bool = False
    recovery: float | None = 1.0
    runs: list[Run] = field(default_factory=list)
    sent: int = 0

    def __post_init__(self) -> None:
        url = self.database.format(root=self.root)
        self.queues = DatabaseQueues(url) if url else None
        rule = f"  Customer_Create: {{InputDestination: queue://{self.inputs[0]}}}\n"
        processes = _PROCESSES.format(here=str(self.directory))
        super().__init__(self.directory, metaobjects=_METAOBJECTS + rule, processes=processes)
        self.configure()

    def configure(self, **connector: Any) -> None:
        """Writes adapter.yaml; ``connector`` changes keys of that section."""
        self.connector = {**self.connector, **connector}
        settings = {
            "ApplicationName": "crash",
            "InputDestination": [f"queue://{name}" for name in self.inputs],
            "PollQuantity": 1000,
            "PollFrequency": 200,
            "ArchiveDestination": "queue://archive",
            "ErrorDestination": "queue://error",
            "UnsubscribedDestination": "queue://unsubscribed",
            "ConfigurationMetaObject": "MO_Config",
            "DataHandlerMimeType": "application/json",
            "stop_timeout": "5s",
            "RestartRetryInterval": 1,
            **self.connector,
        }
        document: dict[str, Any] = {
            "provider": self._provider_section(),
            "connector": {key: value for key, value in settings.items() if value is not None},
            "subscriptions": list(self.only)
            or [
                {"object": "Customer", "name": "store", "process": "processes:store", **self.store},
                *self.subscriptions,
            ],
            "metaobjects": "./metaobjects",
            "spark": {"master": "local[2]", **self.spark},
            **({"databases": {"shop": {"url": self.shop}}} if self.shop else {}),
        }
        self.write("adapter.yaml", yaml.safe_dump(document, sort_keys=False))

    def _provider_section(self) -> dict[str, Any]:
        if self.queues is not None:
            return {"type": "sql", "url": self.queues.url, **self.provider_keys}
        return {"type": "dropbox", "root": str(self.root), "create": True, **self.provider_keys}

    @property
    def provider(self) -> DropboxProvider | SqlProvider:
        """As another program has it, which changes nothing."""
        return DropboxProvider(self.root) if self.queues is None else self.queues.provider

    # -- messages ----------------------------------------------------------------------------------

    def folder(self, destination: str, name: str = "target") -> Path:
        """A folder of a queue, of ``topic://a.b``, or of its subscription: ``topic://a.b|name.client``."""
        assert self.queues is None, "a database has no folders"
        if not destination.startswith("topic://"):
            return self.root / destination / "incoming" / name
        topic, _, subscription = destination.removeprefix("topic://").partition("|")
        base = self.root.joinpath("topic-root", *topic.split("."))
        return (
            base.joinpath(".subscriptions", subscription, name) if subscription else base / ".incoming" / name
        )

    def folders(self, queue: str | Destination) -> ForeignFolders:
        """Makes them as another program does, also where no adapter has made the root yet."""
        working, target = self.folder(str(queue), "working"), self.folder(str(queue))
        working.mkdir(parents=True, exist_ok=True)
        target.mkdir(parents=True, exist_ok=True)
        return ForeignFolders(str(working), str(target))

    def fill(
        self,
        queue: str,
        names: Iterable[str] = ("",),
        *,
        priority: int = 4,
        second: str = "",
        group: str = "",
        reply_to: str = "",
    ) -> list[str]:
        """Sends one message for each of ``names``; returns the ids. To a dropbox as a foreign program would.

        A destination for replies is for a dropbox.
        """
        bodies = []
        for name in names:
            self.sent += 1
            bodies.append(_customer(self.sent, name) | ({"Second": second} if second else {}))
        if self.queues is not None:
            assert not reply_to
            sent = [Message(json.dumps(body).encode(), priority=priority) for body in bodies]
            for message in sent if group else ():
                message.set_property("JMSXGroupID", group)
            return self.queues.send(queue, sent)
        headers = f"...{reply_to}" if reply_to else ""
        properties = f".....JMSXGroupIDS={group}" if group else headers
        ids = []
        for body in bodies:
            identity = f"{time.time_ns() // 1000:016d}-t-{body['CustomerId']}"
            self.drop(queue, json.dumps(body), f"{priority}.{identity}.T{properties}")
            ids.append(f"ID:{identity}")
        return ids

    def send_copies(
        self, queue: str, numbers: Sequence[int], *, priority: int = 4, name: str = ""
    ) -> list[str]:
        """Sends customers as another program does, in messages with ids of their numbers; returns the ids."""
        identities = [f"{1700000000000000 + number}-t-{number}" for number in numbers]
        bodies = [_customer(number, name) for number in numbers]
        ids = [f"ID:{identity}" for identity in identities]
        if self.queues is None:
            for identity, body in zip(identities, bodies, strict=True):
                self.drop(queue, json.dumps(body), f"{priority}.{identity}.T")
        else:
            copies = zip(ids, bodies, strict=True)
            self.queues.insert(
                queue,
                [Message(json.dumps(body).encode(), message_id=i, priority=priority) for i, body in copies],
            )
        return ids

    def names(self, queue: str, folder: str = "target") -> list[str]:
        """File names of a folder, sorted."""
        try:
            return sorted(os.listdir(self.folder(queue, folder)))
        except FileNotFoundError:
            return []

    def ids(self, queue: str, folder: str = "target") -> Counter[str]:
        """How often each message id is in a queue, or in a folder of it."""
        if self.queues is not None:
            assert folder == "target"
            return Counter(str(message.message_id) for message in self.queues.messages(queue))
        return Counter(message_id(name) for name in self.names(queue, folder))

    def count(self, queue: str) -> int:
        """How many messages wait in a queue."""
        return len(self.names(queue)) if self.queues is None else self.queues.count(queue)

    def move_back(self, in_progress: str, queue: str, identity: str) -> None:
        """Moves a message back to its input by hand, from an in-progress destination. Nobody owns it."""
        if self.queues is not None:
            self.queues.move_back(in_progress, queue, identity)
            return
        (name,) = (name for name in self.names(in_progress) if message_id(name) == identity)
        self.folder(in_progress).joinpath(name).rename(self.folder(queue) / name)

    # -- what was done -----------------------------------------------------------------------------

    def deliveries(self) -> list[Delivery]:
        try:
            lines = (self.directory / "deliveries").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [
            Delivery(word, identity, int(count), int(pid), name)
            for word, identity, count, pid, name in (line.split(" ") for line in lines)
        ]

    def begun(self, subscription: str = "store") -> Counter[str]:
        """How often each message was handed to a subscription."""
        return Counter(
            d.id for d in self.deliveries() if d.word == "begin" and d.subscription == subscription
        )

    def leftovers(self, *, but: Sequence[str] = ()) -> list[str]:
        """What an adapter that has settled everything leaves nowhere: paths relative to the root, or rows."""
        if self.queues is not None:
            return self.queues.leftovers([*self.inputs, "in-progress"])
        found: list[str] = []
        queues = [*self.inputs, "archive", "error", "unsubscribed", "in-progress"]
        for queue in queues:
            folders = ["processing", "working"]
            if queue in self.inputs or queue == "in-progress":
                folders.append("target")
            for folder in folders:
                found += [f"{queue}/{folder}/{name}" for name in self.names(queue, folder)]
        for folder in ("processing", "working", "target"):
            of_topics = self.root.glob(f"topic-root/**/{folder}/*")
            found += [str(path.relative_to(self.root)) for path in of_topics]
        own = self.root / "dropboxmq"
        for place in (
            "clients",
            "transaction/associated",
            "transaction/committing",
            "adapter/crash/in-flight",
        ):
            if (own / place).is_dir():
                found += [f"{place}/{name}" for name in os.listdir(own / place)]
        for lock in (own / "adapter" / "crash").glob("*/lock"):
            found += [str(path.relative_to(own)) for path in lock.parent.iterdir() if path != lock]
        return [path for path in found if not path.startswith(tuple(but) or ("\0",))]

    def has_client(self, pid: int) -> bool:
        """Whether a process is a client of the provider."""
        return any(note.pid == pid for note in self.provider.clients())

    # -- processes ---------------------------------------------------------------------------------

    def start(self, *arguments: str, fault: str = "", **environment: str) -> Run:
        """Starts `connector run` in a session of its own."""
        mark = uuid.uuid4().hex
        variables = {
            _MARK: mark,
            "CONNECTOR_FAULT_DIRECTORY": str(self._faults(len(self.runs))),
            **environment,
        }
        if fault:
            variables["CONNECTOR_FAULT"] = fault
        if self.recovery is not None:
            variables["TEST_RECOVERY_INTERVAL"] = str(self.recovery)
        if "master" in self.spark:
            self._pass_on(variables)
        run = Run(self, mark, ["run", *arguments], variables)
        self.runs.append(run)
        return run

    def _faults(self, number: int) -> Path:
        path = self.directory / f"faults.{number}"
        path.mkdir(exist_ok=True)
        return path

    def _pass_on(self, variables: Mapping[str, str]) -> None:
        """Gives the executors of a cluster the environment that the workers of ``local`` inherit."""
        conf = {f"spark.executorEnv.{name}": value for name, value in variables.items()}
        given = {
            k: v for k, v in self.spark.get("conf", {}).items() if not k.startswith("spark.executorEnv.")
        }
        self.spark = {**self.spark, "conf": {**given, **conf}}
        self.configure()

    def drain(self, *, status: int = 0, timeout: float = 120.0) -> Run:
        """Runs `connector run --drain --json` to its end."""
        run = self.start("--drain", "--json")
        found = run.wait(timeout)
        assert found == status, f"status {found}, expected {status}\n{run.errors}"
        return run

    def await_delivery(self) -> None:
        """Waits until one more message is delivered."""
        before = len(self.deliveries())
        wait_for(lambda: len(self.deliveries()) > before, 120, "a delivery")

    def reached(self, name: str) -> list[int]:
        """The processes that wait at a gate."""
        return [int(path.suffix[1:]) for path in self.directory.glob(f"reached.{name}.*")]

    def await_gate(self, run: Run, name: str, number: int) -> list[int]:
        """Waits until so many processes wait at a gate, and returns them."""
        try:
            return wait_for(lambda: len(found := self.reached(name)) == number and found, 120)
        except AssertionError:
            raise AssertionError(f"at gate {name}: {self.reached(name)}\n{run.state()}") from None

    def open(self, name: str) -> None:
        """Opens a gate, for all and for ever."""
        (self.directory / f"open.{name}").touch()

    def close(self) -> None:
        """Ends whatever a failed test has left."""
        for run in self.runs:
            run.kill_everything()


class Run:
    """A `connector run` process and all that descends from it.

    Every descendant inherits a mark in its environment, so that it is found by that even when its
    parent is gone.
    """

    def __init__(
        self, deployment: CrashDeployment, mark: str, arguments: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        self.mark = mark
        self._deployment = deployment
        number = len(deployment.runs)
        self.faults = Path(environment["CONNECTOR_FAULT_DIRECTORY"])
        self._out = deployment.directory / f"stdout.{number}"
        self._err = deployment.directory / f"stderr.{number}"
        variables = {**os.environ, "PYTHONPATH": str(REPOSITORY), **environment}
        self.process: subprocess.Popen[bytes] | forked_command.ForkedProcess
        with open(self._out, "wb") as out, open(self._err, "wb") as err:
            if deployment.fresh:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "connector.cli", *arguments],
                    cwd=deployment.directory,
                    env=variables,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                )
            else:
                self.process = forked_command.ForkedProcess(
                    arguments,
                    cwd=deployment.directory,
                    env=variables,
                    stdout=out.fileno(),
                    stderr=err.fileno(),
                    java=deployment.java,
                )
        self.started = time.monotonic()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def output(self) -> str:
        return self._out.read_text("utf-8", "replace")

    @property
    def errors(self) -> str:
        return self._err.read_text("utf-8", "replace")

    @property
    def summary(self) -> dict[str, Any]:
        """The one JSON document on stdout."""
        document: dict[str, Any] = json.loads(self.output)
        return document

    def wait(self, timeout: float = 120.0) -> int:
        """The exit status; a signal as its negative number."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still runs after {timeout} s\n{self.state()}") from None

    def state(self) -> str:
        """What a failed test shows: the processes, their log, and where each stands that can say so.

        Those without Spark say it (tests/without_java.py). The others end.
        """
        members = self.members()
        commands = "".join(f"{pid} {_command(pid)}\n" for pid in members)
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGUSR2)
        time.sleep(1.0)
        return f"status {self.process.poll()}\n{commands}{self.errors}"

    def members(self) -> list[int]:
        """All living processes of this run, the driver included."""
        return [pid for pid in _marked(self.mark) if is_running(pid)]

    def lets_wait(self, number: int) -> bool:
        """Whether the driver lets a signal wait, as it does while it starts, or handles signals by now."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        blocked, caught = int(fields["SigBlk"], 16), int(fields["SigCgt"], 16)
        return bool(blocked >> (number - 1) & 1 or caught >> (signal.SIGTERM - 1) & 1)

    def signal_driver(self, number: int = signal.SIGKILL) -> None:
        self.process.send_signal(number)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Ends it in order."""
        self.signal_driver(number)
        assert self.wait() == 0, self.errors

    def signal_parent_of(self, pid: int, number: int = signal.SIGKILL) -> None:
        """Sends a signal to the parent of a process, which has to be of this run."""
        self.signal_one(_parent(pid), number)

    def java(self) -> int | None:
        """The Java process of Spark, the child of the driver; None while there is none."""
        return next((pid for pid in self.members() if _parent(pid) == self.pid), None)

    def signal_one(self, pid: int, number: int) -> None:
        """Sends a signal to a process of this run."""
        assert pid in self.members()
        _send(pid, number)

    def siblings_of_parent(self, pid: int) -> list[int]:
        """Where ``pid`` is a runner: the other workers of Spark."""
        worker = _parent(pid)
        daemon = _parent(worker)
        return [other for other in self.members() if other != worker and _parent(other) == daemon]

    def signal_all(self, number: int, order: Callable[[int], int] = lambda pid: -pid) -> None:
        """Sends a signal to every process of the run, the youngest (JVM and workers) first."""
        for pid in sorted(self.members(), key=order):
            _send(pid, number)

    def kill_everything(self) -> None:
        """SIGKILL to all of it, until nothing is left."""

        def is_killed() -> bool:
            self.signal_all(signal.SIGKILL)
            self.process.poll()
            return not self.members()

        wait_for(is_killed, 60.0, "all killed")
        self.process.wait(120)

    def kill_while_paused(self, *, whole_group: bool) -> None:
        """SIGKILL to all of it, or to the driver alone: its tasks go on until they end by themselves."""
        if whole_group:
            self.kill_everything()
        else:
            self.signal_driver()
            self.go_on()
            self.await_gone()

    def await_gone(self, timeout: float = 120.0) -> None:
        """Waits until no process of the run is left."""
        try:
            wait_for(lambda: not self.members(), timeout)
        except AssertionError:
            raise AssertionError(f"left behind: {[_command(pid) for pid in self.members()]}") from None

    def await_start(self) -> None:
        """Waits until it has connected, which it does when Spark is up."""
        wait_for(
            lambda: self.process.poll() is not None or self._deployment.has_client(self.pid), what="started"
        )

    def await_poll(self) -> None:
        """Waits until its first poll is over, before which it looks for dead clients."""

        def has_polled() -> bool:
            status = forked_command.run(["status", "--json"], cwd=self._deployment.directory)
            instances = json.loads(status.stdout)["instances"]
            return any(one["pid"] == self.pid and one["last_good_poll"] for one in instances)

        wait_for(has_polled, 120, "a good poll")

    def await_pause(self, place: str) -> None:
        """Waits until one of its processes waits at a named place."""
        wait_for(lambda: self.paused(place) or self.process.poll() is not None, 180, f"at {place}")
        assert self.paused(place), f"ended before it came to {place}\n{self.errors}"

    def go_on(self) -> None:
        """Lets the processes that wait at a named place go on."""
        for mark in self.faults.iterdir():
            mark.unlink()

    def paused(self, place: str) -> list[int]:
        """The processes that wait at a named place."""
        return [int(path.suffix[1:]) for path in self.faults.glob(f"{place}.*")]


def on(cluster: StandaloneCluster) -> dict[str, Any]:
    """The ``spark:`` section of a deployment that runs on a cluster of this machine."""
    conf = {
        "spark.executor.memory": "512m",
        # an executor that is killed leaves its files here and not in the machine's /tmp
        "spark.executor.extraJavaOptions": f"{executor_options()} -Djava.io.tmpdir={cluster.directory}",
    }
    return {"master": cluster.url, "conf": conf}


def _customer(number: int, name: str) -> dict[str, str]:
    """The body of a message."""
    return {"BusinessObject": "Customer", "Verb": "Create", "CustomerId": str(number), "Name": name}


def message_id(name: str) -> str:
    fields = name.split(".")
    structured = len(fields) > 2 and fields[0].isdigit() and fields[2] in "MBSPOT"
    if not structured:
        return name
    return fields[1] if "JMS_dropboxmq_bareB=true" in name else f"ID:{fields[1]}"


def assert_settled_once(
    deployment: CrashDeployment,
    ids: Sequence[str],
    *,
    kills: int,
    tasks: int = 2,
    again: int | None = None,
    but: Sequence[str] = (),
) -> int:
    """The promise after a crash, counted from files; returns how many deliveries were repeated.

    Args:
        deployment: drained.
        ids: all good messages that were sent.
        kills: how often something was killed.
        tasks: that ran at a time; each may have had one event at work.
        again: upper bound of repeated deliveries instead of ``kills * tasks``.
        but: beginnings of paths that may be left over.
    """
    archived = deployment.ids("archive")
    assert set(ids) - set(archived) == set(), "lost"
    assert set(archived) - set(ids) == set(), "archived what nobody sent"
    assert [i for i, times in archived.items() if times != 1] == [], "archived more than once"
    seen: Counter[str] = Counter()
    repeated = 0
    for delivery in deployment.deliveries():
        if delivery.word != "begin" or delivery.subscription != "store":
            continue
        seen[delivery.id] += 1
        if seen[delivery.id] > 1:
            repeated += 1
            assert delivery.count >= 2, f"{delivery.id} repeated with delivery_count {delivery.count}"
    assert set(seen) == set(ids), "archived without a delivery"
    bound = kills * tasks if again is None else again
    assert repeated <= bound, f"{repeated} deliveries repeated, at most {bound} promised"
    left = deployment.leftovers(but=but)
    assert left == [], f"left over: {left}"
    return repeated


def _marked(mark: str) -> list[int]:
    wanted = f"{_MARK}={mark}".encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb") as environment:
                    if wanted in environment.read().split(b"\0"):
                        found.append(int(name))
            except OSError:
                continue
    return found


def _parent(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[1])


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _command(pid: int) -> str:
    try:
        return f"{pid} {Path(f'/proc/{pid}/cmdline').read_text()[:100]!r}"
    except OSError:
        return str(pid)
