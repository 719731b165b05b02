"""The service of a small shop in this process, with its server, and those who may use it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from connector.config.http_model import OPERATE, READ, REQUEST, TokenEntry
from connector.http.server import Server
from connector.service.observer import Observer
from connector.testing.deployment import Deployment, InProcessAdapter
from tests.events.conftest import serving
from tests.http.world import settings

ADAPTER: Final = """\
provider: {type: dropbox, root: ./data, create: true, durability: none}
connector:
  ApplicationName: shop
  instance: host-a
  InputDestination: [queue://orders]
  PollFrequency: 200
  PollQuantity: 100
  ErrorDestination: queue://error
  ConfigurationMetaObject: MO_Config
  DataHandlerMimeType: application/json
subscriptions: [{object: Order, process: "processes:store", name: store}]
metaobjects: ./metaobjects
"""
_PROVIDER: Final = ADAPTER.partition("\n")[0]
OBJECTS: Final = """\
business_object: Order
verbs: {Create: }
attributes: {Id: String}
---
static_metaobject: MO_Config
Default: {OutputDestination: queue://crm}
rules:
  Order_Create: {InputDestination: queue://orders}
"""
PROCESSES: Final = """\
def store(order, event):
    if order["Id"].startswith("bad"):
        raise ValueError("no shelf for 'secret-7'")
"""
READER, OPERATOR, CALLER = ("reader-0123456789", "operator-0123456789", "caller-0123456789")
BOSS: Final = "chief-0123456789"


class World(NamedTuple):
    """A running service.

    Args:
        deployment: its files and messages.
        adapter: what processes its events.
        server: where it is asked.
    """

    deployment: Deployment
    adapter: InProcessAdapter
    server: Server


def named(token: str, name: str, *roles: str) -> TokenEntry:
    """A token with a name and roles."""
    return TokenEntry.model_construct(token=token, name=name, roles=roles)


TOKENS: Final = (named(READER, "ann", READ), named(OPERATOR, "bob", OPERATE), named(CALLER, "eve", REQUEST))
"""One token for each role."""
CONSOLE: Final[dict[str, Any]] = {
    "tokens": (named(READER, "ann", READ), named(BOSS, "eva", READ, OPERATE)),
    "console": True,
}
"""The section ``http`` of a service with a console, for a reader and for an operator."""


def with_archive(adapter: str = ADAPTER) -> str:
    """A configuration whose settled messages are kept."""
    return adapter.replace("  ErrorDestination", "  ArchiveDestination: queue://archive\n  ErrorDestination")


def on_database(url: str) -> str:
    """The configuration with messages in a database."""
    return ADAPTER.replace(_PROVIDER, f"provider: {{type: sql, url: '{url}'}}")


def deploy(directory: Path, adapter: str = ADAPTER) -> Deployment:
    """Writes the deployment."""
    return Deployment(directory, adapter=adapter, metaobjects=OBJECTS, processes=PROCESSES)


@contextmanager
def service(directory: Path, adapter: str = ADAPTER, **changes: Any) -> Iterator[World]:
    """A service whose server has changed settings."""
    deployment = deploy(directory, adapter)
    with deployment.running() as running:
        observer = Observer(running)
        definitions = deployment.configuration.metaobjects.definitions
        server = Server(settings(**changes), running.requests, definitions, observer=observer)
        server.start()
        try:
            with serving(running):
                yield World(deployment, running, server)
        finally:
            server.stop()


def send(deployment: Deployment, *identities: str) -> None:
    """Sends orders. Those whose identity begins with ``bad`` fail."""
    for identity in identities:
        deployment.send("queue://orders", json.dumps({"Id": identity}))


def counts(adapter: InProcessAdapter) -> tuple[int, int]:
    """Failed and published events."""
    found = adapter.summary.as_dict()
    return found["failed"], found["published"]
