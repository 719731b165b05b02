"""Warns of events that come again later where all events of their input wait for them."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from connector.businessobjects.rules import StaticMetaObject
from connector.config.subscription_reading import ReadEntry
from connector.declare.connector_section import Connector
from connector.declare.problem_reporter import ProblemReporter
from connector.messaging.destination import Destination
from connector.sinks.subscription_model import CalledEntry


def check_retries_in_order(
    connector: Connector,
    entries: Sequence[ReadEntry],
    static: StaticMetaObject | None,
    reporter: ProblemReporter,
) -> None:
    """Warns of ``retry_later`` of subscriptions that get events of an input with ``order: destination``."""
    inputs = [one.destination for one in connector.inputs if (one.order or connector.order) == "destination"]
    if connector.container_managed_events:
        return  # excludes retry_later
    for one in entries:
        if not isinstance(one.entry, CalledEntry) or one.entry.retry_later is None:
            continue
        held = [str(place) for place in inputs if _may_get(one.entry, place, static)]
        if held:
            reporter.add(
                ("subscriptions", one.index, "retry_later"),
                f"retry_later with order: destination of {', '.join(dict.fromkeys(held))}: one event that "
                "comes again later holds all events of its input",
                "order: group or order: none, unless nothing may pass that event",
                warning=True,
            )


def _may_get(entry: CalledEntry, place: Destination, static: StaticMetaObject | None) -> bool:
    """Whether events of an input may mean an object and a verb that a subscription wants."""
    rules = [] if static is None else [one for one in static.rules if one.has_match_key]
    rules = [one for one in rules if one.input_destination in (None, place)]
    if len(rules) != 1 or rules[0].input_format is not None or rules[0].has_conditions:
        return True  # the message says what it means
    (rule,) = rules
    wants = entry.verbs is None or rule.verb in entry.verbs
    return wants and fnmatch.fnmatchcase(rule.object, entry.object)
