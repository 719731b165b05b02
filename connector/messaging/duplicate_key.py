"""The words of ``duplicate_key``: what makes two messages of one input one event."""

from __future__ import annotations

from typing import Final

NAME: Final = "name"
"""Two files of one name are one event."""
BODY: Final = "body"
"""Two messages with one body are one event."""


def has_value_key(duplicate_key: str | None) -> bool:
    """Whether a ``duplicate_key`` names values of a message, so that a task has to find the keys."""
    return bool(duplicate_key) and duplicate_key != NAME


def is_template(duplicate_key: str | None) -> bool:
    """Whether a ``duplicate_key`` names attributes of an object."""
    return has_value_key(duplicate_key) and duplicate_key != BODY
