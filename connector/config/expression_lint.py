"""Checks expressions against the definitions of the objects that they are for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from connector.businessobjects.definition import Definitions
from connector.errors import UnknownBusinessObject

if TYPE_CHECKING:
    from connector.businessobjects.condition import Condition
    from connector.businessobjects.expression_types import ExpressionMistake
    from connector.businessobjects.lookups import Lookups
    from connector.sinks.subscription_model import SinkEntry


def find_mistakes(
    text: str, directory: Path, definitions: Definitions, names: Iterable[str]
) -> Sequence[ExpressionMistake]:
    """Returns the mistakes of an expression.

    Args:
        text: a valid expression.
        directory: of its file. Files of ``lookup`` count from there.
        names: the objects that the expression is for. What is right for one of them is no mistake.
    """
    from connector.businessobjects.expression_types import (
        ExpressionMistake,
        type_expression,
    )  # few files have one
    from connector.businessobjects.expressions import compile_expression

    try:
        lookups_of(text, directory)
    except ValueError as error:
        found, _, expected = str(error).partition(", expected ")
        return [ExpressionMistake(found, expected)]
    compiled, mistakes = compile_expression(text), []
    for name in names:
        try:
            typed = type_expression(compiled, definitions.schema(name))
        except UnknownBusinessObject:
            return ()  # reported where an attribute has this type
        if not typed.mistakes:
            return ()
        mistakes.append(typed.mistakes)
    return mistakes[0] if mistakes else ()


def read_conditions(subscriptions: Iterable[SinkEntry], directory: Path) -> dict[str, Condition]:
    """Returns the ``when`` of subscriptions, by their names, but those with mistakes."""
    found: dict[str, Condition] = {}
    for one in subscriptions:
        if one.when is not None:
            from connector.businessobjects.condition import Condition  # few subscriptions have a condition

            with contextlib.suppress(ValueError):  # a mistake that is reported
                found[one.name] = Condition(one.when, lookups_of(one.when, directory))
    return found


def lookups_of(text: str, directory: Path) -> Lookups:
    """Reads the files that an expression looks values up in.

    Raises:
        ValueError: a file cannot be used.
    """
    from connector.businessobjects.expressions import compile_expression, files_of
    from connector.businessobjects.lookups import read_lookups

    return read_lookups(files_of(compile_expression(text).tree), directory)
