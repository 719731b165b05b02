"""Checks of a MIME type that a configuration names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from connector.businessobjects.definition import Definition
from connector.declare.problem_reporter import ProblemReporter
from connector.declare.reading import Location
from connector.formats.catalogue import SHIPPED, Catalogue
from connector.formats.handlers import normal_mime_type
from connector.formats.single_attribute import ATTRIBUTE, holds_one_attribute, unfit
from connector.text.names import nearest, shown

NEVER_JSON: Final = (
    *("application/soap+xml", "application/xml", "text/csv", "text/delimited", "text/fixedwidth"),
    *("text/namevalue", "text/xml", "xml/soap"),
)
"""The shipped formats whose bodies are no JSON document."""


def check_mime_type(
    mime_type: str,
    location: Location,
    catalogue: Catalogue | None,
    reporter: ProblemReporter,
    *,
    at_key: bool = False,
) -> None:
    """Reports a MIME type that no data handler serves."""
    if catalogue is None or catalogue.find(mime_type) is not None:
        return
    reporter.add(
        location,
        f"there is no data handler for {shown(mime_type)}",
        f"one of {', '.join(catalogue.mime_types)}",
        nearest(mime_type, catalogue.mime_types),
        at_key=at_key,
    )


def check_single_attribute(
    mime_type: str,
    options: Mapping[str, object],
    definition: Definition,
    location: Location,
    catalogue: Catalogue | None,
    reporter: ProblemReporter,
) -> None:
    """Reports an object that cannot hold the bodies of a format whose whole body is one attribute.

    Args:
        mime_type: the data handler that a rule or a subscription names. A class is not checked.
    """
    mime_type = normal_mime_type(mime_type)
    handler = catalogue.find(mime_type) if catalogue is not None and holds_one_attribute(mime_type) else None
    if handler is None or handler.origin != SHIPPED:
        return
    defaults = {option.name: str(option.default) for option in handler.options or ()}
    name = str(options.get(ATTRIBUTE, defaults[ATTRIBUTE]))
    reason = unfit(definition, name, mime_type)
    if reason:
        found, separator, expected = reason.partition(", expected ")
        if not separator:
            found, _, expected = reason.partition("; ")
        attribute = definition.attributes.get(name)
        is_list = attribute is not None and attribute.is_list  # no body ever fits, whoever sends it
        reporter.add(location, found, expected, at_key=True, warning=not is_list)
