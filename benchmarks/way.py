"""How many files and calls of the product one event passes, from the poll to the settlement.

An adapter without Spark has processed three events already, so nothing is imported, compiled or connected. Of
the next events the one with the fewest calls counts, because some work is done once a second.
``python -m benchmarks.way [--files] [STORE ...]``. ``--files`` also prints the files, in the order in which
the event comes to them.
"""

from __future__ import annotations

import argparse
import collections
import os
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Final

from connector.testing.deployment import Deployment

STORES: Final = {
    "dropbox": "{type: dropbox, root: ./data, create: true}",
    "sql": "{type: sql, url: 'sqlite:///./messages.db'}",
    "memory": "{type: memory, accept_persistent: true}",
}
_OFF: Final = "history: {keep: 0}"
_ADAPTER: Final = """
provider: %s
connector:
  ApplicationName: way
  InputDestination: queue://in
  ArchiveDestination: queue://archive
  ErrorDestination: queue://error
  DataHandlerMimeType: application/json
subscriptions:
  - {object: Order, process: "processes:store"}
metaobjects: ./metaobjects
%s
"""
_METAOBJECTS: Final = """
business_object: Order
verbs: [Create]
attributes:
  Id: {type: String, key: true, required: true}
"""
_PROCESSES: Final = "def store(order, event):\n    pass\n"
_BODY: Final = '{"BusinessObject": "Order", "Id": "1"}'
_EVENTS: Final = 5
_ROOT: Final = Path(__file__).resolve().parents[1]
_PRODUCT: Final = ("connector/", "datahandlers/")


@dataclass
class Way:
    """What an event has passed.

    Args:
        files: relative to the repository, in order of the first call, with the number of calls.
    """

    files: collections.Counter[str] = field(default_factory=collections.Counter)
    is_counting: bool = False

    @property
    def calls(self) -> int:
        """Calls of all functions of the product."""
        return self.files.total()

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """Notes what happens in a thread, for :func:`sys.setprofile`."""
        if self.is_counting and event == "call" and (name := _name(frame.f_code.co_filename)):
            self.files[name] += 1


@cache
def _name(file: str) -> str:
    """Returns the path of a file of the product, relative to the repository. Empty = another file."""
    path = os.path.relpath(os.path.realpath(file), _ROOT)
    return path if path.startswith(_PRODUCT) else ""


def of_event(store: str, options: str = "") -> Way:
    """Returns the way of an event in steady state.

    Args:
        store: one of :data:`STORES`.
        options: further lines of ``adapter.yaml``.
    """
    ways = [Way() for _ in range(_EVENTS)]
    way = Way()

    def note(frame: FrameType, event: str, argument: object) -> None:
        way.note(frame, event, argument)

    threading.setprofile(note)  # for the threads of the adapter
    with tempfile.TemporaryDirectory() as directory:
        deployment = Deployment(
            directory,
            adapter=_ADAPTER % (STORES[store], options),
            metaobjects=_METAOBJECTS,
            processes=_PROCESSES,
        )
        with deployment.running() as adapter:
            for _ in range(3):
                deployment.send("queue://in", _BODY)
                adapter.drain()
            for way in ways:
                deployment.send("queue://in", _BODY)
                sys.setprofile(note)
                way.is_counting = True
                adapter.poll()
                while adapter.in_progress:
                    adapter.settle_ended()
                way.is_counting = False
                sys.setprofile(None)
    threading.setprofile(None)
    return min(ways, key=lambda one: one.calls)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", action="store_true", help="print the files, too")
    parser.add_argument("stores", nargs="*", metavar="STORE", choices=[[], *STORES], default=[])
    arguments = parser.parse_args()
    for store in arguments.stores or STORES:
        usual, least = of_event(store), of_event(store, _OFF)
        print(
            f"way of an event, {store}: {len(usual.files)} files, {usual.calls} calls; "
            f"without history: {len(least.files)} files, {least.calls} calls"
        )
        if arguments.files:
            print("".join(f"  {calls:4} {name}\n" for name, calls in usual.files.items()), end="")


if __name__ == "__main__":
    main()
