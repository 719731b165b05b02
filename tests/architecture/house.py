"""A program that imports all of the product, lets an event run, and runs commands, all in one process.

``house.py DIRECTORY COMMAND...`` makes deployments in the directory, and works there. It prints JSON.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import pkgutil
import shlex
import sys
from pathlib import Path
from typing import Final

import connector

DROPBOX: Final = "provider: {type: dropbox, root: ./data, create: true}"
JMS: Final = "provider: {type: jms, factory: a.Factory, url: 'tcp://a', classpath: [a.jar]}"
ADAPTER: Final = (
    f"{DROPBOX}\n"
    + """\
connector:
  ApplicationName: house
  InputDestination: queue://orders
  ArchiveDestination: queue://archive
  ErrorDestination: queue://error
  DataHandlerMimeType: application/json
subscriptions:
  - {object: Order, process: "processes:store"}
metaobjects: ./metaobjects
"""
)
OBJECTS: Final = """\
business_object: Order
verbs: {Create: }
attributes:
  Id: {type: String, key: true}
"""
PROCESSES: Final = """\
def store(order, event):
    with open("stored", "a") as stored:
        stored.write(order["Id"])
"""
BODY: Final = '{"BusinessObject": "Order", "Id": "O-1"}'


def import_all() -> list[str]:
    """Imports every module. Returns the names of those that are imported now."""
    for module in pkgutil.walk_packages(connector.__path__, "connector."):
        importlib.import_module(module.name)
    return sorted(name for name in sys.modules if name.partition(".")[0] == "connector")


def run_an_event() -> str:
    """Lets an event run. Returns what its process has stored."""
    from connector.testing.deployment import Deployment

    deployment = Deployment(".", adapter=ADAPTER, metaobjects=OBJECTS, processes=PROCESSES)
    deployment.drop("orders", BODY)
    with deployment.running() as adapter:
        adapter.drain()
    return Path("stored").read_text("utf-8")


def run_command(line: str) -> tuple[int, str]:
    """Runs a command. Returns the exit status, and what the command said."""
    from connector.cli import app

    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = app.run(shlex.split(line))
    return status, said.getvalue()


if __name__ == "__main__":
    directory, *commands = sys.argv[1:]
    os.chdir(directory)
    imported, stored = import_all(), run_an_event()
    Path("broker.yaml").write_text(ADAPTER.replace(DROPBOX, JMS), "utf-8")
    Path("map.yaml").write_text(ADAPTER.replace("./metaobjects", "[./metaobjects, ./maps]"), "utf-8")
    Path("maps").mkdir()
    Path("maps/map.yaml").write_text("map: OrderToOrder\nfrom: Order\nto: Order\n", "utf-8")
    Path("console.yaml").write_text(f"{ADAPTER}http: {{console: true}}\n", "utf-8")
    print(json.dumps({"imported": imported, "stored": stored, "said": list(map(run_command, commands))}))
