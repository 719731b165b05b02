"""Deployments that run without Spark, with a business process that does what the message tells it."""

from __future__ import annotations

import itertools
import json
import re
import textwrap
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from connector.declare.connector_section import Connector
from connector.declare.history_section import HistorySection
from connector.events.claim.polled_input import PolledInputs
from connector.events.connection_state import ConnectionState
from connector.events.cycle_report import CycleReport
from connector.events.hooks.event_hook import EventHook, EventHooks
from connector.events.settings import EventSettings
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.provider import Connection
from connector.service.loop import Service
from connector.status import ReturnCode
from connector.testing.deployment import Deployment, InProcessAdapter
from tests.quick_folder import quick_folder

OBJECTS = """\
business_object: Customer
app_specific_info: cw_mo_conn=Meta
verbs: {Create: , Update: }
attributes:
  CustomerId: {type: String, key: true, required: true}
  Name: String
  Age: Integer
  Address: {type: Address, cardinality: n}
  Meta: {type: CustomerMeta}
---
business_object: Address
attributes: {City: String}
---
business_object: CustomerMeta
attributes:
  MessageID: String
  CorrelationID: String
  Priority: Integer
  Destination: String
  DeliveryCount: Integer
  Redelivered: Boolean
  InputFormat: String
  InputDestination: String
  JMSProperties: {type: CustomerProperties}
---
business_object: CustomerProperties
attributes:
  Region: {type: String, app_specific_info: "name=region;type=String"}
---
business_object: Order
verbs: {Create: , Cancel: }
attributes:
  Id: {type: String, key: true}
  ObjectEventId: String
---
business_object: OrderLine
verbs: {Create: }
attributes: {Id: String}
---
business_object: Note
verbs: {Create: }
attributes: {Text: LongText}
---
static_metaobject: MO_Config
rules:
  Customer_Create: {InputDestination: queue://customers, OutputFormat: CUST_OUT}
  Note_Create: {InputFormat: NOTE, DataHandlerMimeType: text/plain}
---
datahandler_metaobject: MO_DataHandler_Default
handlers:
  text/plain: {attribute: Text}
"""

SPLIT = OBJECTS.replace("  text/plain: {attribute: Text}\n", "  application/jsonl: {split: true}\n")
"""The objects, and a data handler that makes an event of each line."""

PROCESSES = '''\
import json, os, signal, threading, time
import connector

HERE = os.path.dirname(os.path.abspath(__file__))

class Mute(Exception):
    def __str__(self):
        raise RuntimeError("not even this")

RAISES = {
    "fail": ValueError, "failed": connector.Failed, "refused": ConnectionRefusedError, "mute": Mute,
    "interpreter": SystemExit, "unsubscribed": connector.Unsubscribed, "inactive": connector.NotActive,
    "temporary": connector.TemporaryFailure,
}

def record(who, bo, event):
    """One line a call, so that calls are counted also when their process is gone."""
    line = {
        "who": who, "id": event.id, "from": event.input_destination, "count": event.delivery_count,
        "object": bo.type, "verb": bo.verb, "values": bo.as_dict(), "pid": os.getpid(),
        "retries": event.retries, "time": time.time(),
    }
    descriptor = os.open(os.path.join(HERE, "calls"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(descriptor, json.dumps(line).encode() + b"\\n")
    os.close(descriptor)

def obey(who, bo, event):
    """Does what the Name of a customer says: `who: what; who: what`.

    `fail-once x` fails at the first delivery, `fail-with x` while there is a file x, and `fail-until 2` at
    the first two tries. The same holds for each other word.
    """
    record(who, bo, event)
    for part in ((bo["Name"] or "") if bo.type == "Customer" else "").split(";"):
        name, _, what = part.strip().partition(": ")
        if name not in (who, "*"):
            continue
        what, _, rest = what.partition(" ")
        kind, _, condition = what.partition("-")
        exists = os.path.exists(os.path.join(HERE, rest))
        if condition == "once" and event.delivery_count > 1 or condition == "with" and not exists:
            continue
        if condition == "until" and event.retries >= int(rest):  # it has come again often enough
            continue
        if what == "inactive-once" and os.path.exists(os.path.join(HERE, "woken")):
            continue
        if what == "temporary-once" and calls(event.id, who) > 1:
            continue
        if what == "busy":  # for so many seconds
            if event.retries < 1:
                raise connector.TemporaryFailure("busy", after=int(rest))
        elif kind in RAISES:
            raise RAISES[kind](rest)
        elif kind == "exit":
            os._exit(int(rest))
        elif kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif kind == "hang":
            threading.Event().wait()
        elif kind == "closes":  # all files of its process, as a program does that becomes a daemon
            os.closerange(3, 1000)
            threading.Event().wait()
        elif what == "wait-for":
            open(os.path.join(HERE, "waiting"), "w").close()
            while not os.path.exists(os.path.join(HERE, rest)):
                time.sleep(0.01)  # between two looks at the gate

def calls(identity, who):
    with open(os.path.join(HERE, "calls")) as lines:
        return sum(1 for l in map(json.loads, lines) if l["id"] == identity and l["who"] == who)

def a(bo, event):
    obey("a", bo, event)

def b(bo, event):
    obey("b", bo, event)
'''

CONNECTOR: Mapping[str, Any] = {
    "ApplicationName": "test",
    "InputDestination": ["queue://customers", "queue://orders"],
    "PollQuantity": 100,
    "ArchiveDestination": "queue://archive",
    "ErrorDestination": "queue://error",
    "UnsubscribedDestination": "queue://unsubscribed",
    "ConfigurationMetaObject": "MO_Config",
    "DataHandlerMimeType": "application/json",
    "DefaultVerb": "Create",
    "instance": "one",
    "stop_timeout": "1s",
}


_HANDLER = """\
{head}


class Own:
    mime_types = ("{mime_type}",)
    options = ()

    def __init__(self, options, definitions):
        self.definitions = definitions

    def to_business_object(self, body, hint):
{reads}

    def to_body(self, bo):
{writes}
"""


def handler(mime_type: str, *, reads: str = "...", writes: str = "...", head: str = "") -> str:
    """A module with the data handler ``Own``.

    Args:
        reads, writes: the lines of its two methods.
        head: imports, and whatever else is before the class.
    """
    methods = {"reads": textwrap.indent(reads, " " * 8), "writes": textwrap.indent(writes, " " * 8)}
    return _HANDLER.format(head=head, mime_type=mime_type, **methods)


def with_rules(rules: str) -> str:
    """The objects with another static meta-object, whose entries are ``rules``."""
    before, _, rest = OBJECTS.partition("static_metaobject: MO_Config\n")
    return f"{before}static_metaobject: MO_Config\nrules:\n{rules}---\n{rest.partition('---')[2].lstrip()}"


ORDER = '{"BusinessObject": "Order", "Id": "1"}'
A_AND_B = (
    {"object": "Customer", "process": "processes:a", "name": "a"},
    {"object": "*", "process": "processes:b", "name": "b"},
)
IN_MEMORY = {"type": "memory"}


def customer(name: str = "") -> str:
    """The body of a customer, whose name says what its processes do."""
    return f'{{"BusinessObject": "Customer", "CustomerId": "1", "Name": "{name}"}}'


class EventDeployment(Deployment):
    """A deployment of a bench, and what became of its events."""

    def drop_customers(self, **names: str) -> None:
        """Drops customers by the last part of their message id, each with its name."""
        for identity, name in names.items():
            self.drop("customers", customer(name), f"4.{identity}.T")

    def drain(self, **how: Any) -> InProcessAdapter:
        """Runs the adapter until its inputs are empty. Returns it, which has ended, for its summary."""
        with self.running(**how) as adapter:
            assert adapter.drain().code is ReturnCode.SUCCEED
        return adapter

    def outcomes(self, **how: Any) -> dict[str, tuple[str, str]]:
        """Drains. Returns outcome and reason by message id, as ``run --json`` shows them."""
        return outcomes_of(self.drain(**how))

    def ids(self, queue: str) -> list[str]:
        """The ids of the messages of a queue, in the order of taking."""
        return [message.message_id or "" for message in self.messages(queue)]

    def deliveries(self, queue: str) -> list[tuple[str, int]]:
        """Id and delivery count of the messages of a queue."""
        return [(message.message_id or "", message.delivery_count) for message in self.messages(queue)]

    def copy(self, queue: str, identity: str) -> Message:
        """The one message of a queue with an id."""
        found = [message for message in self.messages(queue) if message.message_id == identity]
        assert len(found) == 1, f"{queue}: {self.ids(queue)}"
        return found[0]

    def properties(self, queue: str, identity: str) -> dict[str, Any]:
        """The properties of the one message of a queue with an id."""
        return dict(self.copy(queue, identity).properties)

    def move(self, source: str, target: str, body: str | None = None) -> None:
        """Moves the files of a queue into another, as an operator does with ``mv``.

        Args:
            source, target: names of queues.
            body: that the operator writes into each file before. None = none.
        """
        for name in self.names(source):
            path = Path(self.folders(source).target) / name
            if body is not None:
                path.write_text(body)
            path.rename(Path(self.folders(target).target) / name)


def outcomes_of(adapter: InProcessAdapter) -> dict[str, tuple[str, str]]:
    """Outcome and reason by message id of the events of an adapter."""
    return {e["id"]: (e["outcome"], e["reason"] or "") for e in adapter.summary.as_dict()["events"]}


def placeless(reason: str) -> str:
    """A reason without the places in the code that it names."""
    return re.sub(r" \([^()]*\.py:\d+\)", "", reason)


def logged(caplog: pytest.LogCaptureFixture, text: str) -> list[dict[str, Any]]:
    """The fields of the log lines with a text."""
    return [vars(record) for record in caplog.records if record.getMessage() == text]


class Bench:
    """Makes deployments, and reads what their processes have recorded."""

    def __init__(self, directory: Path, root: Path) -> None:
        self.directory = directory
        self.root = root
        self._made = 0

    def again(self) -> Bench:
        """Makes a bench with directories of its own, for a row of a table."""
        self._made += 1
        root = self.root.with_name(f"{self.root.name}.{self._made}")
        return Bench(self.directory / "rows" / str(self._made), root)

    def deploy(
        self,
        *,
        subscriptions: Sequence[Mapping[str, Any]] = (
            {"object": "*", "process": "processes:a", "name": "a"},
        ),
        provider: Mapping[str, Any] | None = None,
        objects: str = OBJECTS,
        processes: str = PROCESSES,
        more: Mapping[str, Any] | None = None,
        **connector: Any,
    ) -> EventDeployment:
        """Makes a deployment.

        Args:
            provider: keys of ``provider:``. Those of a directory are added unless it has another type.
            more: further sections.
            connector: keys of ``connector:``. None leaves a key out.
        """
        settings = {k: v for k, v in {**CONNECTOR, **connector}.items() if v is not None}
        provider = provider or {}
        directory = {"type": "dropbox", "root": str(self.root), "create": True, "durability": "none"}
        is_directory = provider.get("type", "dropbox") == "dropbox"
        document = {
            "provider": {**(directory if is_directory else {}), **provider},
            "connector": settings,
            "subscriptions": [dict(s) for s in subscriptions],
            "metaobjects": "./metaobjects",
            **(more or {}),
        }
        return EventDeployment(
            self.directory,
            adapter=yaml.safe_dump(document, sort_keys=False),
            metaobjects=objects,
            processes=processes,
        )

    def calls(self) -> list[dict[str, Any]]:
        """What processes were called with, in the order of the calls."""
        try:
            lines = (self.directory / "calls").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines]

    def called(self, who: str = "a") -> list[str]:
        """The message ids that a process was called with."""
        return [call["id"] for call in self.calls() if call["who"] == who]

    def deliveries(self) -> list[tuple[str, int]]:
        """The message id and the delivery count of each call."""
        return [(call["id"], call["count"]) for call in self.calls()]

    def counts(self) -> dict[str, int]:
        """The delivery count of the last call with each message id."""
        return {call["id"]: call["count"] for call in self.calls()}

    def inputs(self) -> set[str]:
        """The inputs of customers, as their processes and their dynamic meta-objects were told."""
        calls = [(call["from"], call["values"]["Meta"]) for call in self.calls()]
        return {
            one for place, meta in calls for one in (place, meta["Destination"], meta["InputDestination"])
        }

    def callers(self) -> list[str]:
        """The processes that were called, in the order of the calls."""
        return [call["who"] for call in self.calls()]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A bench whose root is in memory where this machine has such a place."""
    with quick_folder(tmp_path) as folder:
        yield Bench(tmp_path, folder / "data")


@pytest.fixture(params=["dropbox", "memory", "sqlite", "postgresql"])
def section(request: pytest.FixtureRequest, bench: Bench) -> Mapping[str, str]:
    """The section of each provider. A directory needs no key."""
    if request.param == "postgresql":
        return {"type": "sql", "url": request.getfixturevalue("database")}
    sqlite = {"type": "sql", "url": f"sqlite:///{bench.root}.db"}
    return {"dropbox": {}, "memory": IN_MEMORY, "sqlite": sqlite}[request.param]


@contextmanager
def serving(adapter: InProcessAdapter) -> Iterator[Service]:
    """A service in a thread. The end of the block stops it. It must not have failed."""
    service = Service(adapter)
    failures: list[str | None] = []
    thread = threading.Thread(target=lambda: failures.append(service.run()))
    thread.start()
    try:
        yield service
    finally:
        service.stop()
        thread.join()
    assert failures == [None]


@contextmanager
def noted(adapter: InProcessAdapter) -> Iterator[list[float]]:
    """A service in a thread. Yields the times at which it has polled."""
    polls: list[float] = []
    serve = adapter.serve

    def note(**how: bool) -> CycleReport:
        if how.get("polls", True):
            polls.append(time.monotonic())
        return serve(**how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adapter, "serve", note)
        with serving(adapter):
            yield polls


def connection_state(
    connection: Connection, in_progress: Destination | None = None, hooks: Sequence[EventHook] = ()
) -> ConnectionState:
    """What a recovery needs of a connection, without inputs and with InDoubtEvents: Reprocess."""
    connector = Connector.model_construct(application_name="", in_progress_destination=in_progress)
    settings = EventSettings(connector, "", (), HistorySection.model_construct(keep=0.0))
    working: Any = SimpleNamespace(inputs=PolledInputs(), numbers=itertools.count(1))
    unused: Any = None
    return ConnectionState(connection, settings, working, unused, None, unused, None, EventHooks(hooks))
