"""What the crash tests stand on: deployments, real `connector run` processes, and counts from files.

A business process appends ``begin id delivery_count pid name`` before it does anything and ``end ...`` after,
each with one write to a file opened for appending: so deliveries are counted even when whoever made
them was killed. Nothing here trusts what the adapter says about itself. The delivery count is that of the
event, the message and the dynamic meta-object: where they disagree, reading the deliveries fails.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from connector.errors import UnknownDestination
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message
from connector.stores.dropbox.codec import file_of
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider
from tests.crash.leftovers import database_leftovers, file_leftovers
from tests.quick_folder import quick_folder
from tests.runs import Run, ServiceDeployment, customer
from tests.spark.standalone import StandaloneCluster, executor_options
from tests.waiting import wait_for

_PROCESSES = """
import ctypes, os, signal, sys, threading, time
from connector import NotActive

HERE = {here!r}
RAISED = {{"raise": ValueError, "interrupt": KeyboardInterrupt}}
WHILE_THE_FLAG_IS_UP = {{"flag": ValueError, "inactive": NotActive}}

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
        time.sleep(0.01)  # a worker of Spark does not have the helpers of the tests

def _behave(what):
    word, _, value = what.partition(":")
    if word in RAISED:
        raise RAISED[word](value)
    elif word in WHILE_THE_FLAG_IS_UP:
        if os.path.exists(os.path.join(HERE, value)):
            raise WHILE_THE_FLAG_IS_UP[word]("the flag is up")
    elif word == "exit":
        os._exit(int(value))
    elif word == "sysexit":
        sys.exit(int(value))
    elif word == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif word == "segv":
        ctypes.string_at(0)
    elif word == "hang":
        threading.Event().wait()
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
    """Makes deployments; at the end their processes are ended and their roots removed."""
    made: list[CrashDeployment] = []

    def make(**settings: Any) -> CrashDeployment:
        number = len(made)
        made.append(CrashDeployment(directory / f"deployment{number}", base / f"root{number}", **settings))
        return made[-1]

    with quick_folder(directory) as base:
        try:
            yield make
        finally:
            for deployment in made:
                deployment.close()


class DatabaseQueues:
    """The queues of a database.

    Args:
        url: of the database.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.provider = SqlProvider(Settings(url))

    def send(self, queue: str, sent: Sequence[Message]) -> list[str]:
        """Sends messages, and returns their ids."""
        with closing(self.provider.connect()) as connection:
            return connection.send(parse_destination(queue), sent)

    def messages(self, queue: str) -> list[Message]:
        """The messages of a queue, those that are claimed among them."""
        with closing(self.provider.existing()) as connection:
            try:
                return list(connection.browse(parse_destination(queue)))
            except UnknownDestination:
                return []

    def count(self, queue: str) -> int:
        """How many messages wait in a queue."""
        return self.provider.waiting(parse_destination(queue)).number

    def leftovers(self, queues: Sequence[str]) -> list[str]:
        """What is left in queues, in tables, and in the files beside SQLite."""
        found = [f"{queue}: {message.message_id}" for queue in queues for message in self.messages(queue)]
        return found + database_leftovers(self.url)


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
class CrashDeployment(ServiceDeployment):
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
        timers: entries of that section.
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
    timers: Sequence[Mapping[str, Any]] = ()
    java: bool = True
    database: str = ""
    fresh: bool = False
    recovery: float | None = 1.0
    sent: int = 0

    def __post_init__(self) -> None:
        url = self.database.format(root=self.root)
        self.queues = DatabaseQueues(url) if url else None
        rule = f"  Customer_Create: {{InputDestination: queue://{self.inputs[0]}}}\n"
        processes = _PROCESSES.format(here=str(self.directory))
        super().__init__(self.directory, _METAOBJECTS + rule, processes)
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
            **({"timers": [*self.timers]} if self.timers else {}),
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
        """A folder of a queue, or of ``topic://a.b``."""
        assert self.queues is None, "a database has no folders"
        if not destination.startswith("topic://"):
            return self.root / destination / "incoming" / name
        topic = destination.removeprefix("topic://").split(".")
        return self.root.joinpath("topic-root", *topic, ".incoming", name)

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
            bodies.append(customer(self.sent, name) | ({"Second": second} if second else {}))
        if self.queues is not None:
            assert not reply_to
            sent = [Message(json.dumps(body).encode()) for body in bodies]
            for message in sent if group else ():
                message.set_property("JMSXGroupID", group)
            return self.queues.send(queue, sent)
        headers = f"...{reply_to}" if reply_to else ""
        properties = f".....JMSXGroupIDS={group}" if group else headers
        ids = []
        for body in bodies:
            identity = f"{time.time_ns() // 1000:016d}-t-{body['CustomerId']}"
            self.drop(queue, json.dumps(body), f"4.{identity}.T{properties}")
            ids.append(f"ID:{identity}")
        return ids

    def names(self, queue: str, folder: str = "target") -> list[str]:
        """File names of a folder, sorted."""
        try:
            return sorted(os.listdir(self.folder(queue, folder)))
        except FileNotFoundError:
            return []

    def ids(self, queue: str) -> Counter[str]:
        """How often each message id is in a queue."""
        if self.queues is not None:
            return Counter(str(message.message_id) for message in self.queues.messages(queue))
        return Counter(message_id(name) for name in self.names(queue))

    def count(self, queue: str) -> int:
        """How many messages wait in a queue."""
        return len(self.names(queue)) if self.queues is None else self.queues.count(queue)

    def move_back(self, source: str, queue: str, identity: str) -> None:
        """Moves a file by hand to an input."""
        (name,) = (name for name in self.names(source) if message_id(name) == identity)
        self.folder(source).joinpath(name).rename(self.folder(queue) / name)

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
        found = file_leftovers(self.root, "crash", self.inputs, "in-progress")
        return [path for path in found if not path.startswith(tuple(but) or ("\0",))]

    # -- processes ---------------------------------------------------------------------------------

    def prepare(self, variables: Mapping[str, str]) -> None:
        """Gives the executors of a cluster the environment that the workers of ``local`` inherit."""
        if "master" not in self.spark:
            return
        conf = {f"spark.executorEnv.{name}": value for name, value in variables.items()}
        given = {
            k: v for k, v in self.spark.get("conf", {}).items() if not k.startswith("spark.executorEnv.")
        }
        self.spark = {**self.spark, "conf": {**given, **conf}}
        self.configure()

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

    def await_archived(self, ids: Iterable[str]) -> None:
        """Waits until all these messages are archived."""
        wanted = set(ids)
        wait_for(lambda: wanted <= set(self.ids("archive")), what=lambda: self.runs[-1].errors)

    def kill_driver_at(self, fault: str) -> None:
        """Drains until the driver ends by SIGKILL at a place: ``place:nth``."""
        run = self.start("--drain", fault=f"{fault}=kill")
        assert run.wait() == -signal.SIGKILL, run.errors
        run.await_gone()

    def kill_while_paused_at(self, fault: str, *, whole_group: bool = True) -> None:
        """Drains until a process waits at a place, and kills everything or the driver alone there."""
        run = self.start("--drain", fault=f"{fault}=pause")
        run.await_pause(fault.partition(":")[0])
        run.kill_while_paused(whole_group=whole_group)


def on(cluster: StandaloneCluster) -> dict[str, Any]:
    """The ``spark:`` section of a deployment that runs on a cluster of this machine."""
    conf = {
        "spark.executor.memory": "512m",
        # an executor that is killed leaves its files here and not in the machine's /tmp
        "spark.executor.extraJavaOptions": f"{executor_options()} -Djava.io.tmpdir={cluster.directory}",
    }
    return {"master": cluster.url, "conf": conf}


def message_id(name: str) -> str:
    """Returns the id in the name of a file. That of a bare file is made at its claim: the bare name."""
    if bare := file_of(name):
        return bare
    fields = name.split(".")
    structured = len(fields) > 2 and fields[0].isdigit() and fields[2] in "MBSPOT"
    if not structured:
        return name
    return fields[1] if "JMS_dropboxmq_bareB=true" in name else f"ID:{fields[1]}"


def assert_settled_once(
    deployment: CrashDeployment, ids: Sequence[str], *, kills: int, tasks: int = 2
) -> int:
    """The promise after a crash, counted from files; returns how many deliveries were repeated.

    Args:
        deployment: drained.
        ids: all good messages that were sent.
        kills: how often something was killed.
        tasks: that ran at a time; each may have had one event at work.
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
    assert repeated <= kills * tasks, f"{repeated} deliveries repeated, at most {kills * tasks} promised"
    left = deployment.leftovers()
    assert left == [], f"left over: {left}"
    return repeated
