"""Reads the deployment of a command, as far as the command needs it."""

from __future__ import annotations

from collections.abc import Collection

from connector.cli.common import note
from connector.config.loading import MESSAGES, Configuration, load_parts


def load_for(
    config: str, parts: Collection[str] = MESSAGES, *, in_process: bool = False, thorough: bool = False
) -> Configuration:
    """Reads the parts of a deployment that a command needs. Mistakes in other parts are counted on stderr.

    The arguments and errors are those of :func:`connector.config.loading.load_parts`.
    """
    configuration, others = load_parts(config, parts, in_process=in_process, thorough=thorough)
    if others:
        note_mistakes(config, len(others), "this command does not need those parts")
    return configuration


def note_mistakes(config: str, number: int, effect: str) -> None:
    """Writes to stderr that a configuration has mistakes, and what becomes of them."""
    note(f"{config} has {number} mistake{'s' * (number != 1)}, which connector check shows: {effect}")
