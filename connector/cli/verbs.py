"""The verbs of the command, and the registry of the verbs that rooms off the way bring.

Each verb has a line of help here or in its room, so that ``connector --help`` imports no module of a verb.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from connector.plugins import PlugIns

VERBS: Final = {
    "init": "Writes a deployment to begin with.",
    "run": "Runs the adapter: as a service, or --once, or --drain.",
    "check": "Finds what run would refuse without connecting.",
    "config": "Shows the resolved configuration, secrets masked.",
    "schema": "Shows the JSON Schema of adapter.yaml.",
    "send": "Sends messages to a destination.",
    "browse": "Looks at the messages of a queue, takes nothing.",
    "convert": "Converts a body to a business object, or to another format.",
    "datahandlers": "Lists the data handlers and their options.",
    "explain": "Shows what a message means, and who would get it.",
    "test": "Runs the cases in *.test.yaml.",
    "request": "Makes a request of an application, and prints its answer.",
    "receive": "Takes messages of a queue, topic or subscription.",
    "subscribe": "Makes a durable subscription of a topic.",
    "unsubscribe": "Removes a durable subscription, with its messages.",
    "accept-root": "Makes the root, or takes it over as it is now.",
    "status": "Shows what the instances are doing.",
    "pause": "Pauses inputs and subscriptions, for all instances.",
    "resume": "Ends pauses.",
    "history": "Shows what happened to a message, and where the message is now.",
    "reload": "Lets running services read their configuration anew.",
    "takeover": "Takes over from a client whose lock never comes free.",
    "queues": "Lists destinations, subscriptions and lots, with their numbers of messages.",
    "lot": "Gives the messages of a lot back.",
    "errors": "Groups the messages in error by their reasons.",
    "replay": "Sends messages in error back to where they came from.",
    "move": "Moves messages of a queue to another one.",
    "discard": "Moves messages that nobody will repair to the archive.",
}
"""From each verb of this folder to a line of help. The module of a verb with a ``-`` has a ``_``."""


class CommandVerb(NamedTuple):
    """A verb of the command.

    Args:
        module: has the function of the verb, which has the name of the module.
    """

    help: str
    module: str

    def load(self) -> Callable[..., Any]:
        """Imports the module. Returns the function."""
        function: Callable[..., Any] = getattr(
            importlib.import_module(self.module), self.module.rpartition(".")[2]
        )
        return function


def _mistake(name: str, loaded: Any) -> str:
    return "" if isinstance(loaded, CommandVerb) else "is no CommandVerb"


ROOM_VERBS: Final = PlugIns[CommandVerb]("connector.verbs", "verb", _mistake)
"""The verbs of rooms off the way."""


def find_verbs(wanted: str | None = None) -> dict[str, CommandVerb]:
    """Returns the verbs, those of this folder first.

    Args:
        wanted: the verb of the command line. If this folder has the verb, the verbs of rooms are left out,
            because reading the installed packages takes some 20 ms.

    Raises:
        PlugInError: a room has the wanted verb, and the verb cannot be used.
    """
    found = {
        verb: CommandVerb(help_text, f"connector.cli.{verb.replace('-', '_')}")
        for verb, help_text in VERBS.items()
    }
    if wanted in VERBS:
        return found
    if wanted in ROOM_VERBS.names:
        ROOM_VERBS.load(wanted)
    return {**found, **{name: verb for name, verb in ROOM_VERBS.usable() if name not in VERBS}}
