"""A deployment of an adapter over the broker in this process, and helpers that look at both."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from connector.brokers.engine.state import RemoteState
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.testing.deployment import Deployment, InProcessAdapter
from tests.brokers.engine.provider import LentProvider

ADAPTER: dict[str, Any] = {
    "provider": {"type": "memory"},
    "connector": {
        "ApplicationName": "lent",
        "InputDestination": ["queue://customers", "queue://urgent"],
        "PollQuantity": 10,
        "ArchiveDestination": "queue://archive",
        "ErrorDestination": "queue://error",
        "UnsubscribedDestination": "queue://unsubscribed",
        "DuplicateEventElimination": True,
        "ConfigurationMetaObject": "MO_Config",
        "DataHandlerMimeType": "application/json",
        "DefaultVerb": "Create",
        "instance": "one",
        "stop_timeout": "1s",
    },
    "subscriptions": [
        {"object": "Customer", "process": "processes:store", "name": "store"},
        {"object": "Customer", "destination": "queue://crm", "name": "crm"},
    ],
    "metaobjects": "./metaobjects",
}

OBJECTS = """\
business_object: Customer
verbs: {Create: }
attributes: {Id: {type: String, key: true}, Wish: String}
---
business_object: Order
verbs: {Create: }
attributes: {Id: {type: String, key: true}}
---
static_metaobject: MO_Config
"""

PROCESSES = """\
import os
import connector
from tests.waiting import wait_for

HERE = os.path.dirname(os.path.abspath(__file__))


def store(customer, event):
    wish = customer["Wish"]
    if wish == "fail":
        raise ValueError("as you wish")
    if wish == "away" and os.path.exists(HERE + "/away"):
        raise ConnectionError("away")
    if wish == "sleep" and not os.path.exists(HERE + "/awake"):
        raise connector.NotActive("asleep")
    if wish == "end" and not os.path.exists(HERE + "/ended"):
        open(HERE + "/ended", "w").close()
        os._exit(1)
    if wish == "wait":
        open(HERE + "/waits", "w").close()
        wait_for(lambda: os.path.exists(HERE + "/go"))
    with open(HERE + "/stored", "a") as file:
        file.write(f"{customer['Id']} {event.delivery_count}\\n")
"""


def deploy(
    directory: Path, *, store: Mapping[str, Any] = MappingProxyType({}), **connector: Any
) -> Deployment:
    """A deployment. ``store`` has further keys of that subscription; a keyword is a key of ``connector:``."""
    first, *others = ADAPTER["subscriptions"]
    document = {
        **ADAPTER,
        "connector": {**ADAPTER["connector"], **connector},
        "subscriptions": [{**first, **store}, *others],
    }
    return Deployment(directory, adapter=yaml.safe_dump(document), metaobjects=OBJECTS, processes=PROCESSES)


def running(deployment: Deployment, provider: LentProvider) -> InProcessAdapter:
    """An adapter for ``with``, whose processes run in children."""
    return InProcessAdapter(deployment.configuration, provider, isolated=True, parallelism=2)


def send(
    provider: LentProvider, *wishes: str, queue: str = "customers", kind: str = "Customer", group: str = ""
) -> list[str]:
    """Sends one customer for each wish; returns the ids."""
    values = [
        {"BusinessObject": kind, "Id": str(n)} | ({"Wish": w} if w else {}) for n, w in enumerate(wishes)
    ]
    with contextlib.closing(provider.connect()) as connection:
        messages = [Message(json.dumps(one).encode()) for one in values]
        for message in messages if group else ():
            message.set_property("JMSXGroupID", group)
        return connection.send(Destination("queue", queue), messages)


def ids(provider: LentProvider, queue: str) -> list[str | None]:
    """The message ids of what waits in a queue, as a program of this project sees them."""
    return [message.message_id for message in seen(provider, queue)]


def seen(provider: LentProvider, queue: str) -> list[Message]:
    provider.broker.waiting(queue)
    with contextlib.closing(provider.connect()) as connection:
        return list(connection.browse(Destination("queue", queue)))


def stored(deployment: Deployment) -> list[str]:
    """What the process has stored: the ids of customers, with the delivery counts of their events."""
    path = deployment.directory / "stored"
    return sorted(path.read_text().splitlines()) if path.exists() else []


def pending(provider: LentProvider) -> list[Path]:
    """The records of commits whose end nobody knows."""
    state = provider.existing_state("lent")
    assert isinstance(state, RemoteState)
    return list(Path(state.published).glob(".pending*"))


def leftovers(state: RemoteState) -> list[str]:
    """Returns what an adapter that has settled everything does not leave in its state."""
    path = Path(state.path)
    found = [one for one in path.glob("@*/*") if one.name != "lock"]
    found += [*path.glob("published/.*"), *path.glob("clients/*")]
    return [*map(str, found), *map(str, state.redeliveries().read())]
