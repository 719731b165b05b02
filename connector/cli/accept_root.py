"""``connector accept-root``: accepts the root of the provider as it is now."""

from __future__ import annotations

from typing import Final

from connector.cli.common import (
    DEFAULT_CONFIG,
    BadArgument,
    ConfigOption,
    JsonOption,
    answer,
    answer_json,
)
from connector.cli.deployment import load_for
from connector.service.assembly import accept_root as accept

_DONE: Final = {
    "made": "is made and recorded",
    "marked": "was there; it has an id now, and is recorded",
    "recorded": "was there; it is recorded",
    "unchanged": "was recorded already; nothing is changed",
}


def accept_root(config: ConfigOption = DEFAULT_CONFIG, json: JsonOption = False) -> None:
    """Records the root as right. A root that is missing or empty is made first.

    For a provider with create: true, after the root was replaced or removed on purpose.
    """
    accepted = accept(load_for(config))
    if accepted is None:
        raise BadArgument("there is nothing to accept: the root is recorded only with create: true")
    if json:
        answer_json({"root": accepted.path, "done": accepted.done})
    else:
        answer(f"the root {accepted.path} {_DONE[accepted.done]}")
