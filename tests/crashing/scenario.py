"""What the adapter of a world does: its store, its features, and the messages that it gets."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

STORES: Final = ("dropbox", "sqlite", "postgresql", "broker")
SINKS: Final = ("store", "copy", "news", "book", "rows", "answer", "ask", "hook", "send")
APPLICATION: Final = "crashing"
MANY: Final = 100_000
_MORE_THAN_DEATHS: Final = 15
"""A failed event that is managed is rolled back so often."""
_FEW: Final = 3
"""Deaths can use up so many attempts."""
OBJECTS: Final = """\
business_object: Customer
verbs: {Create: , Delete: }
attributes:
  CustomerId: {type: String, key: true, required: true}
  Name: String
---
business_object: Question
verbs: {Create: }
attributes:
  Id: {type: String, key: true}
---
static_metaobject: MO_Config
rules:
  Question_Create: {OutputDestination: queue://asked, ResponseTimeout: -1}
"""
HANDLERS: Final = """\
datahandler_metaobject: MO_DataHandler_Default
handlers:
  application/jsonl: {split: true}
"""
RETRY: Final = {"attempts": MANY, "first": "1ms", "most": "2ms"}


@dataclass(frozen=True)
class Scenario:
    """The features of one world.

    Args:
        store: one of :data:`STORES`.
        order: of ``adapter.yaml``.
        inputs: the queues that are polled.
        topic: whether a durable subscription is polled, too.
        window: whether duplicates are eliminated.
        in_progress: whether there is an InProgressDestination.
        later: whether failures for a while come again.
        records: of each message. Above 1 they are split.
        sinks: of :data:`SINKS`, at least one.
        quantity: PollQuantity.
        parallelism: most tasks of a batch.
        attempts: max_attempts.
        neighbour: whether a second instance works beside each one that dies.
        managed: ContainerManagedEvents. Then all sinks are destinations.
        parallel: of ``adapter.yaml``.
        own: whether the input ``b`` has archive, error and unsubscribed destination of its own.
        keyed: whether a value of the object is the duplicate key. Then copies have ids of their own.
    """

    store: str
    order: str = "destination"
    inputs: tuple[str, ...] = ("a", "b")
    topic: bool = False
    window: bool = False
    in_progress: bool = False
    later: bool = False
    records: int = 1
    sinks: tuple[str, ...] = ("store",)
    quantity: int = 10
    parallelism: int = 1
    attempts: int = MANY
    neighbour: bool = False
    managed: bool = False
    parallel: int = 1
    own: bool = False
    keyed: bool = False

    @classmethod
    def draw(cls, store: str, choices: random.Random) -> Scenario:
        """Returns one by chance. Features that exclude each other are not drawn together."""

        def happens(share: float) -> bool:
            return choices.random() < share

        is_broker = store == "broker"  # has no topics, and makes the ids itself
        drawn = [name for name in SINKS if happens(0.1 if name == "hook" else 0.3)]
        sinks = tuple(name for name in drawn if not (is_broker and name == "news")) or ("store",)
        managed = not is_broker and happens(0.1)
        if managed:
            sinks = choices.choice((("copy",), ("news",), ("copy", "news")))
        order = choices.choice(("destination", "group", "none"))
        neighbour = order == "none" and not is_broker and "hook" not in sinks and happens(0.5)
        topic = happens(0.25) and not is_broker and not managed
        records = choices.choice((1, 1, 1, 3))
        inputs = choices.choice((("a",), ("a", "b")))
        return cls(
            store,
            order=order,
            inputs=inputs,
            topic=topic,
            window=happens(0.3) and not managed,
            in_progress=not topic and not managed and happens(0.25),
            later=not managed and happens(0.3),
            records=records,
            sinks=sinks,
            quantity=choices.choice((3, 10, 20)),
            parallelism=choices.choice((1, 2)),
            attempts=_MORE_THAN_DEATHS if managed else choices.choice((MANY, MANY, MANY, _FEW)),
            neighbour=neighbour,
            managed=managed,
            parallel=1 if order == "destination" or "hook" in sinks else choices.choice((1, 2, 32)),
            own=len(inputs) > 1 and records == 1,
            keyed=not managed and happens(0.25),
        )

    @property
    def has_database(self) -> bool:
        """Whether a sink writes into the business database."""
        return "book" in self.sinks or "rows" in self.sinks

    @property
    def destinations(self) -> tuple[str, ...]:
        """All that is polled."""
        return (*(f"queue://{name}" for name in self.inputs), *(("topic://prices",) if self.topic else ()))

    def write(self, directory: Path, provider: Mapping[str, Any], shop: str, hook: str) -> None:
        """Writes the deployment.

        Args:
            directory: of ``adapter.yaml``.
            provider: section of that name.
            shop: URL of the business database.
            hook: URL of the server that is called.
        """
        (directory / "metaobjects").mkdir(parents=True)
        (directory / "metaobjects" / "objects.yaml").write_text(OBJECTS)
        if self.records > 1:
            (directory / "metaobjects" / "handlers.yaml").write_text(HANDLERS)
        document = {
            "provider": provider,
            "connector": self._connector(),
            "subscriptions": [
                {"object": "Customer", "verbs": ["Create"], "name": name, **self._subscription(name, hook)}
                for name in self.sinks
            ],
            "metaobjects": "./metaobjects",
            "min_free": 0,
            **({"databases": {"shop": {"url": shop}}} if self.has_database else {}),
        }
        (directory / "adapter.yaml").write_text(yaml.safe_dump(document, sort_keys=False))

    def _connector(self) -> dict[str, Any]:
        topic = [{"destination": "topic://prices", "subscription": "all"}] if self.topic else []
        in_progress = {"InProgressDestination": "queue://busy", "InDoubtEvents": "Reprocess"}
        return {
            "ApplicationName": APPLICATION,
            "InputDestination": [*map(self._input, self.inputs), *topic],
            "PollQuantity": self.quantity,
            "order": self.order,
            "parallel": self.parallel,
            "ArchiveDestination": "queue://archive",
            "ErrorDestination": "queue://error",
            "UnsubscribedDestination": "queue://unsubscribed",
            "ConfigurationMetaObject": "MO_Config",
            "DataHandlerMimeType": "application/jsonl" if self.records > 1 else "application/json",
            "DuplicateEventElimination": self.window,
            **({"duplicate_key": "{CustomerId}"} if self.keyed else {}),
            "max_attempts": self.attempts,
            "stop_timeout": "5s",
            **({"ContainerManagedEvents": "JMS"} if self.managed else {}),
            **(in_progress if self.in_progress else {}),
        }

    def _input(self, name: str) -> Any:
        if not (self.own and name == "b"):
            return f"queue://{name}"
        copies = ("Archive", "Error", "Unsubscribed")
        own = {f"{one}Destination": f"queue://b-{one.lower()}" for one in copies}
        return {"destination": "queue://b", **own, "max_attempts": self.attempts + 1}

    def _subscription(self, name: str, hook: str) -> dict[str, Any]:
        if name == "copy":
            return {"destination": "queue://out", "mime_type": "application/json"}
        if name == "news":
            return {"destination": "topic://news", "mime_type": "application/json"}
        if name == "rows":
            return {"table": "shop.line", "operation": "insert", "columns": {"event": "CustomerId"}}
        if name == "hook":
            return {"webhook": {"url": hook, "mime_type": "application/json"}}
        entry: dict[str, Any] = {"process": f"tests.crashing.processes:{name}"}
        if name == "book":
            entry["transaction"] = "shop"
        if name == "answer":
            entry |= {"reply": True, "mime_type": "application/json"}
        if name == "store" and self.later:
            entry["retry_later"] = RETRY
        return entry


@dataclass(frozen=True)
class Sent:
    """A message of a world.

    Args:
        number: counts all messages. The body and the id have this number.
        destination: where it was sent to.
        name: what the process ``store`` is to do: nothing, ``fail``, or ``away:TRIES``. ``broken`` and
            ``unwanted`` are bodies that reach no process.
        group: JMSXGroupID.
        copies: messages of this id, or with this body (:attr:`Scenario.keyed`).
    """

    number: int
    destination: str
    name: str = ""
    group: str = ""
    copies: int = 1

    def identity(self, scenario: Scenario, copy: int = 0) -> str:
        """The id of a copy, without ``ID:``."""
        mark = copy if scenario.keyed and copy else ""
        return f"{self.micros}-t{mark}-{self.number}"

    @property
    def micros(self) -> int:
        """The time of the message, in microseconds since 1970."""
        return 1_700_000_000_000_000 + self.number

    def is_bare(self, scenario: Scenario) -> bool:
        """Whether the message is a file whose name has no headers."""
        is_plain = self.copies == 1 and not self.group and "answer" not in scenario.sinks
        return scenario.store == "dropbox" and is_plain and self.number % 3 == 0

    def keys(self, scenario: Scenario) -> list[str]:
        """The keys of the objects in the body."""
        if self.name in ("broken", "unwanted"):
            return []
        return [f"{self.number}-{record}" for record in range(1, scenario.records + 1)]

    def body(self, scenario: Scenario) -> str:
        """The body. Each has the number, whatever is wrong with it."""
        if self.name == "broken":
            return f'{{"CustomerId": "{self.number}-1"'
        verb = "Delete" if self.name == "unwanted" else "Create"
        lines = [
            json.dumps(
                {
                    "BusinessObject": "Customer",
                    "Verb": verb,
                    "CustomerId": f"{self.number}-{record}",
                    "Name": self.name,
                }
            )
            for record in range(1, scenario.records + 1)
        ]
        return "\n".join(lines)

    @classmethod
    def draw(cls, number: int, scenario: Scenario, choices: random.Random) -> Sent:
        """Returns a message by chance."""
        destination = choices.choice(scenario.destinations)
        kinds = ["", "", "", "", "", "", "fail", "broken", "unwanted"]
        if scenario.later and "store" in scenario.sinks:
            kinds += ["away:1", "away:2"]
        name = choices.choice(kinds)
        may_copy = (  # the copy of a message that has failed is published
            (scenario.keyed or (scenario.window and scenario.store != "broker"))
            and scenario.attempts > _FEW
            and not name
            and destination.startswith("queue:")
        )
        copies = choices.choice((1, 2)) if may_copy else 1
        group = choices.choice("xy") if scenario.order == "group" else ""
        return cls(number, destination, name, group, copies)
