"""Checks the attributes that a ``duplicate_key`` names."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from connector.businessobjects.definition import Definitions
from connector.businessobjects.rules import StaticMetaObject
from connector.config.subscription_reading import ReadEntry
from connector.declare.connector_section import Connector
from connector.declare.problem_reporter import ProblemReporter
from connector.declare.reading import Location
from connector.errors import WrongValue
from connector.messaging.destination import Destination
from connector.messaging.duplicate_key import is_template
from connector.sinks.template import PlaceholderMistake, TextTemplate, placeholder_mistakes

_INPUTS = ("connector", "InputDestination")
_OF_CONNECTOR: Location = ("connector", "duplicate_key")


class _Objects(NamedTuple):
    """The objects of one input that somebody wants.

    Args:
        sure: that the configuration says may come there.
        possible: that may come there if messages name them.
        exact: those of ``possible`` that a subscription names without a pattern.
    """

    sure: Sequence[str] = ()
    possible: Sequence[str] = ()
    exact: Sequence[str] = ()


def check_duplicate_keys(
    connector: Connector,
    positions: Iterator[int],
    entries: Sequence[ReadEntry],
    static: StaticMetaObject | None,
    definitions: Definitions | None,
    reporter: ProblemReporter,
) -> None:
    """Reports templates that are none, and attributes that the objects of an input do not have.

    Args:
        positions: of the inputs in the file.
        definitions: None = not all could be read.
    """
    found: dict[tuple[Location, str], tuple[PlaceholderMistake, bool]] = {}
    for location, text, place in _uses(connector, positions):
        template = _template(text)
        if isinstance(template, PlaceholderMistake):
            found[location, template.found] = template, False
        elif place is not None and definitions is not None:
            objects = _objects(connector, place, entries, static, definitions)
            for mistake, is_warning in _mistakes(template, objects, definitions):
                known = found.get((location, mistake.found))
                found[location, mistake.found] = mistake, is_warning and (known is None or known[1])
    for (location, _), (mistake, is_warning) in found.items():
        reporter.add(location, *mistake, warning=is_warning)


def _uses(
    connector: Connector, positions: Iterator[int]
) -> Iterator[tuple[Location, str, Destination | None]]:
    """Yields the templates with their places, and the inputs that they hold for. None = no input."""
    common = connector.duplicate_key
    if common is not None and is_template(common):
        yield _OF_CONNECTOR, common, None
    for index, entry in zip(positions, connector.inputs, strict=False):
        key = entry.duplicate_key or common
        if key is not None and is_template(key):
            is_own = entry.duplicate_key is not None
            yield (*_INPUTS, index, "duplicate_key") if is_own else _OF_CONNECTOR, key, entry.destination


def _template(text: str) -> TextTemplate | PlaceholderMistake:
    try:
        template = TextTemplate(text)
    except WrongValue as wrong:
        return PlaceholderMistake(wrong.found, wrong.expected)
    return (
        template if template.names else PlaceholderMistake(f"{text}, which names no attribute", "{Attribute}")
    )


def _objects(
    connector: Connector,
    place: Destination,
    entries: Sequence[ReadEntry],
    static: StaticMetaObject | None,
    definitions: Definitions,
) -> _Objects:
    patterns = [one.entry.object for one in entries]
    wanted = [name for name in definitions if any(fnmatch.fnmatchcase(name, one) for one in patterns)]
    rules = [] if static is None else static.rules
    named = {rule.object for rule in rules if rule.input_destination == place}
    if sure := [name for name in wanted if name in named]:
        return _Objects(sure)
    exact = [name for name in wanted if name in patterns]
    if len(connector.inputs) == 1 and exact == wanted:
        return _Objects(exact)
    return _Objects(possible=wanted, exact=exact)


def _mistakes(
    template: TextTemplate, objects: _Objects, definitions: Definitions
) -> Iterator[tuple[PlaceholderMistake, bool]]:
    """Yields the mistakes of a template, each with whether it is only a warning.

    If objects are only possible, the template has to fit one of them.
    """
    found = {
        name: [*placeholder_mistakes(template.names, [name], definitions, shows=True)]
        for name in (*objects.sure, *objects.possible)
    }
    for name in objects.sure:
        yield from ((one, False) for one in found[name])
    possible = [found[name] for name in objects.possible]
    if possible and all(possible):
        best = next((some for some in possible if any(one.nearest for one in some)), possible[0])
        yield from ((one, False) for one in best)
    elif possible:
        yield from ((one, True) for name in objects.exact for one in found[name])
