"""What a user may have meant by a command line that cannot be read, and what may come next."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_OTHER_WORDS: Final = {
    "run": ("start", "up", "serve", "launch", "restart", "poll", "once", "drain"),
    "check": ("validate", "verify", "lint", "doctor", "configtest"),
    "send": ("publish", "produce", "put", "post", "push", "write", "enqueue"),
    "receive": ("consume", "get", "take", "read", "pull", "dequeue", "recv"),
    "browse": ("peek", "show", "cat", "look", "tail", "messages"),
    "queues": ("list", "ls", "destinations", "topics", "subscriptions", "queue"),
    "status": ("ps", "top", "health", "instances"),
    "convert": ("transform", "translate", "parse"),
    "datahandlers": ("handlers", "formats"),
    "init": ("create", "setup", "scaffold"),
    "jars": ("install", "resolve", "download"),
}
"""Words of other programs for each verb."""

_OTHER_HINTS: Final = {
    **dict.fromkeys(
        ("stop", "kill", "down", "shutdown", "quit", "end"),
        "SIGTERM or Ctrl-C stops the process of connector run, and connector status shows the process",
    ),
    "help": "connector --help",
    "version": "connector --version",
}
_HINTS: Final = {
    **{other: f"connector {verb}" for verb, others in _OTHER_WORDS.items() for other in others},
    **_OTHER_HINTS,
}

_EXTRA: Final = re.compile(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", re.DOTALL)
_OPTIONS: Final = {
    "send": "--body",
    "receive": "--count",
    "browse": "--limit",
    "request": "--data",
    "subscribe": "--subscription",
    "unsubscribe": "--subscription",
}
"""The option that a further argument of a verb most likely means."""

_MISSING: Final = re.compile(r"Missing argument |^expected a FILE ")
_EXAMPLES: Final = {
    "init": "init shop",
    "send": "send orders --body order.json",
    "browse": "browse archive",
    "receive": "receive orders",
    "explain": "explain order.json",
}
"""A short call of each verb that a newcomer types without its argument."""


def other_command(word: str) -> str | None:
    """Returns the text of an error about a verb of other programs. None = the word is none of them."""
    meant = _HINTS.get(word.casefold())
    if meant is None:
        return None
    return (
        f"there is no command {word!r}: {meant}"
        if word in _OTHER_HINTS
        else (f"there is no command {word!r}, did you mean {meant!r}?")
    )


def extra_argument(verb: str, arguments: Sequence[str], message: str) -> str | None:
    """Returns a hint for a call with more arguments than the verb takes. None = no hint is known."""
    found = _EXTRA.search(message)
    if found is None:
        return None
    extra = next((one for one in arguments if found[1].split(" ")[0] == one), found[1])
    option = "-c" if extra.endswith((".yaml", ".yml")) and verb != "send" else _OPTIONS.get(verb)
    return None if option is None else f"did you mean {option} {shlex.quote(extra)}?"


def missing_argument(verb: str, message: str) -> str | None:
    """Returns a hint for a call without an argument that the verb needs. None = no hint is known."""
    example = _EXAMPLES.get(verb)
    return f"for example: {command_line(example)}" if example and _MISSING.search(message) else None


def command_line(arguments: str, config: str | None = None) -> str:
    """Returns a command as the user would type it.

    A command that the shell does not find by its name is written with its path.

    Args:
        config: the configuration, where the command must name it.
    """
    program = Path(sys.executable).with_name("connector")
    name = "connector" if shutil.which("connector") or not program.exists() else shlex.quote(str(program))
    if config is None or config == os.environ.get("CONNECTOR_CONFIG", "adapter.yaml"):
        return f"{name} {arguments}"
    return f"{name} {arguments} -c {shlex.quote(config)}"
