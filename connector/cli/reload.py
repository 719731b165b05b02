"""``connector reload``: lets running services read their configuration anew."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from connector.cli.common import DEFAULT_CONFIG, ConfigOption, JsonOption, answer, answer_json, whole_number
from connector.config.loading import load
from connector.messaging.numbers import MAX_INT
from connector.operate.control import ReloadAnswer, await_reload, reload_document
from connector.printable import printable
from connector.service.assembly import make_provider
from connector.user import operator_name

_TEXTS: Final = {
    "reloaded": "has the new configuration",
    "refused": "has refused it and goes on with the old configuration",
    "waits": "waits for its events in flight, and takes the new configuration then",
    "ended": "has ended, and its next start reads the configuration",
}


def reload(
    config: ConfigOption = DEFAULT_CONFIG,
    wait: Annotated[
        int, whole_number(0, MAX_INT, "MS", "Milliseconds to wait for the answers of the services.")
    ] = 60_000,
    json: JsonOption = False,
) -> None:
    """Lets each running service of the application read its adapter.yaml anew.

    A service claims nothing until nothing is in flight. Then it takes the new configuration, whole or not at
    all. Each instance reads the files on its own machine.

    Exit status: 0 when all services have the new configuration. 2 when a file has mistakes, or a service has
    refused. 1 when no service runs, or one has not answered in time.
    """
    configuration = load(config, thorough=True)
    state = make_provider(configuration).state(configuration.connector.application_name)
    answers = await_reload(state, by=operator_name(), seconds=wait / 1000)
    if json:
        answer_json(reload_document(answers))
    else:
        for name, one in answers.items():
            _show(name, one)
    results = {one.result for one in answers.values()}
    if results != {"reloaded"}:
        raise typer.Exit(2 if "refused" in results else 1)


def _show(name: str, told: ReloadAnswer) -> None:
    answer(printable(f"{name} {_TEXTS[told.result]}"))
    for line in told.reason.splitlines():
        answer(printable(f"  {line}"))
    if told.restart:
        answer(printable(f"  only a restart of {name} changes: {', '.join(told.restart)}"))
