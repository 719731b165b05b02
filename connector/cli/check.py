"""``connector check``: finds the mistakes that ``run`` would refuse without connecting."""

from __future__ import annotations

from dataclasses import asdict

import typer

from connector.cli.common import DEFAULT_CONFIG, ConfigOption, JsonOption, answer, answer_json, note
from connector.config.loading import check as find_problems


def check(config: ConfigOption = DEFAULT_CONFIG, json: JsonOption = False) -> None:
    """Finds the mistakes that run would refuse without connecting: FILE:LINE:COLUMN: path: found, expected.

    Runs no code of the deployment and makes no file. With --json each mistake is an object on a
    separate line. Exit status 2 when there is a mistake, 0 when there are only warnings or nothing.
    """
    problems = find_problems(config)
    for problem in problems:
        if json:
            answer_json(asdict(problem))
        else:
            answer(str(problem))
    errors = sum(not problem.warning for problem in problems)
    warnings = len(problems) - errors
    note(f"{config}: {_count(errors, 'mistake')}, {_count(warnings, 'warning')}")
    raise typer.Exit(2 if errors else 0)


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"
