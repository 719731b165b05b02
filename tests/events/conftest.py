"""Deployments that run without Spark, with a business process that does what the message tells it."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from connector.messaging.message import Message
from connector.testing.deployment import Deployment

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

PROCESSES = '''\
import json, os, signal, time
import connector

HERE = os.path.dirname(os.path.abspath(__file__))


def record(who, bo, event):
    """One line a call, so that calls are counted also when their process is gone."""
    line = {
        "who": who, "id": event.id, "from": event.input_destination, "count": event.delivery_count,
        "object": bo.type, "verb": bo.verb, "values": bo.as_dict(), "pid": os.getpid(),
    }
    descriptor = os.open(os.path.join(HERE, "calls"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(descriptor, json.dumps(line).encode() + b"\\n")
    os.close(descriptor)


def obey(who, bo, event):
    """Does what the Name of a customer says: `who: what; who: what`."""
    record(who, bo, event)
    for part in ((bo["Name"] or "") if bo.type == "Customer" else "").split(";"):
        name, _, what = part.strip().partition(": ")
        if name not in (who, "*"):
            continue
        what, _, rest = what.partition(" ")
        if what == "fail":
            raise ValueError(rest)
        if what == "unsubscribed":
            raise connector.Unsubscribed(rest)
        if what == "inactive":
            raise connector.NotActive(rest)
        if what == "inactive-once" and event.delivery_count == 1 and not os.path.exists(HERE + "/woken"):
            raise connector.NotActive(rest)
        if what == "temporary":
            raise connector.TemporaryFailure(rest)
        if what == "temporary-once" and calls(event.id, who) < 2:
            raise connector.TemporaryFailure(rest)
        if what == "exit":
            os._exit(int(rest))
        if what == "exit-once" and event.delivery_count == 1:
            os._exit(int(rest))
        if what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "hang":
            time.sleep(600)
        if what == "hang-once" and event.delivery_count == 1:
            time.sleep(600)
        if what == "wait-for":
            open(os.path.join(HERE, "waiting"), "w").close()
            while not os.path.exists(os.path.join(HERE, rest)):
                time.sleep(0.01)
        if what == "interpreter":
            raise SystemExit(rest)
        if what == "mute":
            raise Mute()


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("not even this")


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


class Bench:
    """Makes deployments, and reads what their processes have recorded."""

    def __init__(self, directory: Path, root: Path) -> None:
        self.directory = directory
        self.root = root

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
    ) -> Deployment:
        """A deployment; a keyword is a key of ``connector:``, None leaves it out."""
        settings = {k: v for k, v in {**CONNECTOR, **connector}.items() if v is not None}
        dropbox = {"type": "dropbox", "root": str(self.root), "create": True, "durability": "none"}
        in_memory = provider is not None and provider.get("type") == "memory"
        document = {
            "provider": {**({} if in_memory else dropbox), **(provider or {})},
            "connector": settings,
            "subscriptions": [dict(s) for s in subscriptions],
            "metaobjects": "./metaobjects",
            **(more or {}),
        }
        return Deployment(
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


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A bench whose root is in memory where this machine has such a place."""
    memory = Path("/dev/shm")
    if memory.is_dir() and os.access(memory, os.W_OK):
        root = Path(tempfile.mkdtemp(prefix="connector-test-", dir=memory))
        try:
            yield Bench(tmp_path, root / "data")
        finally:
            shutil.rmtree(root, ignore_errors=True)
    else:
        yield Bench(tmp_path, tmp_path / "data")


@pytest.fixture
def outcomes() -> Callable[[Deployment], dict[str, tuple[str, str]]]:
    """Outcome and reason by message id, as ``run --json`` would show them after a drain."""

    def run(deployment: Deployment, **how: Any) -> dict[str, tuple[str, str]]:
        with deployment.running(**how) as adapter:
            adapter.drain()
        return {e["id"]: (e["outcome"], e["reason"] or "") for e in adapter.summary.as_dict()["events"]}

    return run


@pytest.fixture
def copy_of() -> Callable[[Deployment, str, str], Message]:
    """The one message of a queue with an id."""

    def find(deployment: Deployment, queue: str, identity: str) -> Message:
        found = [m for m in deployment.messages(queue) if m.message_id == identity]
        assert len(found) == 1, f"{queue}: {[m.message_id for m in deployment.messages(queue)]}"
        return found[0]

    return find
