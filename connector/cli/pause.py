"""``connector pause`` and ``connector resume`` of inputs and subscriptions."""

from __future__ import annotations

from typing import Annotated

import typer

from connector.cli.common import (
    DEFAULT_CONFIG,
    BadArgument,
    ConfigOption,
    JsonOption,
    answer,
    answer_json,
    note,
)
from connector.cli.deployment import load_for
from connector.messaging.state_store import StateStore
from connector.operate.control import (
    Pausable,
    PauseResult,
    Targets,
    UnknownTarget,
    await_obeyed,
    resting_in,
    targets_of,
)
from connector.operate.control import pause as pause_targets
from connector.operate.control import resume as resume_targets
from connector.printable import printable
from connector.service.assembly import make_provider, make_targets
from connector.user import operator_name

WhatArgument = Annotated[
    list[str] | None, typer.Argument(metavar="WHAT...", help="Inputs, or names of subscriptions.")
]


def pause(
    what: WhatArgument = None,
    config: ConfigOption = DEFAULT_CONFIG,
    every: Annotated[bool, typer.Option("--all", help="All inputs.")] = False,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why. status shows it.")] = "",
    json: JsonOption = False,
) -> None:
    """Pauses inputs and subscriptions until connector resume, for all instances of the application.

    Nothing is claimed from a paused input. What is claimed already is finished. The events of a paused
    subscription come again later, and this counts as no try. The command answers when all running services
    obey.
    """
    state, targets = _open(config, what, every=every)
    wanted = targets.all_inputs() if every else _find(targets, what, [])
    changes = pause_targets(state.control(), wanted, by=operator_name(), reason=reason)
    changes = changes._replace(waiting=await_obeyed(state, wanted, are_paused=True))
    _answer(changes, "is paused", "was paused before", json=json)


def resume(
    what: WhatArgument = None,
    config: ConfigOption = DEFAULT_CONFIG,
    every: Annotated[bool, typer.Option("--all", help="Everything that is paused.")] = False,
    json: JsonOption = False,
) -> None:
    """Ends the pauses of inputs and subscriptions, and the rests of subscriptions.

    The command answers when all running services obey. Events of a subscription that came meanwhile come
    again within a minute.
    """
    state, targets = _open(config, what, every=every)
    record = state.control()
    paused = targets_of(record.read().paused)
    wanted = paused if every else _find(targets, what, paused)
    changes = resume_targets(record, wanted, resting_in(state.instances()))
    changes = changes._replace(waiting=await_obeyed(state, wanted, are_paused=False))
    _answer(changes, "is resumed", "was neither paused nor resting", json=json)


def _open(config: str, what: list[str] | None, *, every: bool) -> tuple[StateStore, Targets]:
    if bool(what) == every:
        raise BadArgument("expected WHAT, an input or the name of a subscription, or --all")
    configuration = load_for(config)
    state = make_provider(configuration).state(configuration.connector.application_name)
    return state, make_targets(configuration)


def _find(targets: Targets, what: list[str] | None, paused: list[Pausable]) -> list[Pausable]:
    try:
        return targets.find(what or (), paused)
    except UnknownTarget as error:
        text = "--all means all" if "all" in (what or ()) else str(error)
        raise BadArgument(text) from None


def _answer(changes: PauseResult, changed: str, unchanged: str, *, json: bool) -> None:
    if json:
        answer_json(changes.document())
        return
    for names, words in ((changes.changed, changed), (changes.unchanged, unchanged)):
        for name in names:
            answer(f"{printable(name)} {words}")
    if not changes.changed and not changes.unchanged:
        answer("nothing is paused")
    for name in changes.waiting:
        note(f"{printable(name)} has not answered yet, and obeys when it looks at its inputs again")
