"""The verbs of the command, and the registry of the verbs that rooms off the way bring.

Each verb has a line of help here or in its room, so that ``connector --help`` imports no module of a verb.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from connector.plugins import PlugIns

GROUPS: Final = {
    "Begin": {
        "init": "Writes a deployment to begin with.",
        "check": "Finds what run would refuse without connecting.",
        "config": "Shows the resolved configuration, secrets masked.",
        "schema": "Shows the JSON Schema of adapter.yaml.",
    },
    "Run": {
        "run": "Runs the adapter: as a service, or --once, or --drain.",
        "send": "Sends messages to a destination.",
        "receive": "Takes messages of a queue, topic or subscription.",
        "request": "Makes a request of an application, and prints its answer.",
        "subscribe": "Makes a durable subscription of a topic.",
        "unsubscribe": "Removes a durable subscription, with its messages.",
    },
    "Look": {
        "status": "Shows what the instances are doing.",
        "queues": "Lists destinations, subscriptions and lots, with their numbers of messages.",
        "browse": "Looks at the messages of a queue, takes nothing.",
        "history": "Shows what happened to a message, and where the message is now.",
        "errors": "Groups the messages in error by their reasons.",
        "explain": "Shows what a message means, and who would get it.",
    },
    "Repair": {
        "replay": "Sends messages in error back to where they came from.",
        "move": "Moves messages of a queue to another one.",
        "discard": "Moves messages that nobody will repair to the archive.",
        "lot": "Gives the messages of a lot back.",
        "takeover": "Takes over from a client whose lock never comes free.",
    },
    "Operate": {
        "pause": "Pauses inputs and subscriptions, for all instances.",
        "resume": "Ends pauses.",
        "reload": "Lets running services read their configuration anew.",
        "accept-root": "Makes the root, or takes it over as it is now.",
    },
    "Build": {
        "convert": "Converts a body to a business object, or to another format.",
        "datahandlers": "Lists the data handlers and their options.",
        "test": "Runs the cases in *.test.yaml.",
    },
}
"""The verbs of this folder in the groups of ``connector --help``: from each verb to a line of help.

The module of a verb with a ``-`` has a ``_``.
"""

VERBS: Final = {verb: line for group in GROUPS.values() for verb, line in group.items()}
"""From each verb of this folder to a line of help."""


class CommandVerb(NamedTuple):
    """A verb of the command.

    Args:
        module: has the function of the verb, which has the name of the module.
        group: of ``connector --help``.
    """

    help: str
    module: str
    group: str = "Build"

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
        verb: CommandVerb(help_text, f"connector.cli.{verb.replace('-', '_')}", group)
        for group, verbs in GROUPS.items()
        for verb, help_text in verbs.items()
    }
    if wanted in VERBS:
        return found
    if wanted in ROOM_VERBS.names:
        ROOM_VERBS.load(wanted)
    return {**found, **{name: verb for name, verb in ROOM_VERBS.usable() if name not in VERBS}}
