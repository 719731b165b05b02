"""Reports parts of a configuration that need more than the provider can do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from connector.businessobjects.metadata import read_delivery_delay
from connector.businessobjects.rules import StaticMetaObject
from connector.config.metaobjects import Collected
from connector.config.model import AdapterFile
from connector.config.subscription_reading import ReadEntry
from connector.declare.problem_reporter import ProblemReporter
from connector.declare.reading import Location, Reading
from connector.messaging.provider import Capabilities
from connector.sinks.subscription_model import CalledEntry, SinkEntry

_INPUTS: Final = ("connector", "InputDestination")
_DELAY: Final = "DeliveryDelay"


def check_capabilities(
    name: str,
    capabilities: Capabilities,
    file: AdapterFile,
    reading: Reading[AdapterFile],
    entries: Sequence[ReadEntry],
    reporter: ProblemReporter,
) -> None:
    """Compares a configuration with the capabilities of its provider."""
    for location, found, expected in _of_inputs(name, capabilities, file, reading):
        reporter.add(location, found, expected)
    if file.connector.in_progress_destination is not None and not capabilities.in_progress:
        location = ("connector", "InProgressDestination")
        reporter.add(location, f"the provider {name} has no messages in progress", "it left out")
    if file.timers and not capabilities.sends_once:
        found = f"the provider {name} cannot send a message once by key"
        reporter.add(("timers",), found, "it left out, or a local provider", at_key=True)
    if file.http is not None and file.http.events and not capabilities.sends_once:
        found = f"the provider {name} cannot send a message once by key"
        reporter.add(("http", "events"), found, "it left out, or a local provider", at_key=True)
    for one in entries if not capabilities.retries_later else ():
        if isinstance(one.entry, CalledEntry) and one.entry.retry_later is not None:
            location = ("subscriptions", one.index, "retry_later")
            reporter.add(
                location, f"the provider {name} cannot delay a message", "retries, or a local provider"
            )
    for one in entries if not capabilities.delays else ():
        if isinstance(one.entry, SinkEntry) and one.entry.delays:
            location = ("subscriptions", one.index, "delay")
            reporter.add(
                location, f"the provider {name} cannot delay a message", "it left out, or a local provider"
            )


def check_delays(
    name: str, capabilities: Capabilities, static: StaticMetaObject | None, collected: Collected
) -> None:
    """Reports rules that delay messages where the provider cannot."""
    if static is None or capabilities.delays:
        return
    for place, properties, own in collected.rules[static.name].said(static):
        if _DELAY in own and read_delivery_delay(properties[_DELAY]):
            found = f"the provider {name} cannot delay a message"
            collected.documents[static.name].add((*place, _DELAY), found, "it left out, or a local provider")


def _of_inputs(
    name: str, capabilities: Capabilities, file: AdapterFile, reading: Reading[AdapterFile]
) -> Iterator[tuple[Location, str, str]]:
    for index, entry in zip(reading.positions(*_INPUTS), file.connector.inputs, strict=False):
        location = (*_INPUTS, index)
        if entry.destination.view and not capabilities.virtual_destinations:
            found = f"{entry.destination} with the provider {name}, which has no views of queues"
            expected = f"the queue itself: {entry.destination.base}"
            if capabilities.own_names:
                expected += " (%7E means ~ in a name)"
            yield location, found, expected
        if not entry.destination.is_queue and not capabilities.topics:
            yield location, f"{entry.destination} with the provider {name}, which has no topics", "a queue"
        is_shared = entry.shared or not (capabilities.shares_client_ids or entry.no_local)
        if not entry.destination.is_queue and is_shared and not capabilities.shares_subscriptions:
            found = (
                f"{entry.destination}, whose subscription is shared, and this client of {name} shares none"
            )
            yield location, found, "no_local: true, and a single instance"
        if entry.min_age is not None and not capabilities.min_age:
            found = f"min_age with the provider {name}, whose messages are always complete"
            yield (*location, "min_age"), found, "it left out"
        elif entry.min_age is not None and not (entry.destination.is_queue and not entry.destination.view):
            found = f"min_age of {entry.destination}, into which nobody writes files"
            yield (*location, "min_age"), found, "a queue, or it left out"
        if entry.selector is not None and not capabilities.selectors:
            found = f"a selector with the provider {name}, which has no selectors"
            yield (*location, "selector"), found, "it left out"
