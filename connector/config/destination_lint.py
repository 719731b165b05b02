"""Checks the destinations of ``adapter.yaml`` against each other."""

from __future__ import annotations

from collections.abc import Sequence

from connector.businessobjects.metadata import read_timeout
from connector.businessobjects.rules import StaticMetaObject
from connector.config.loop_lint import LoopCheck
from connector.config.metaobjects import Collected, MetaObjects
from connector.config.model import AdapterFile
from connector.config.subscription_reading import ReadEntry
from connector.declare.destinations import selector_mistake
from connector.declare.input_entry import InputEntry
from connector.declare.problem_reporter import ProblemReporter
from connector.declare.problems import Position
from connector.declare.reading import Location, Reading
from connector.declare.tree import Leaf, Table
from connector.errors import SelectorError
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.selector import compile_selector
from connector.sinks.subscription_model import CalledEntry, PreparedEntry, SinkEntry

_INPUTS = ("connector", "InputDestination")
_OF_TOPICS = ("subscription", "shared", "no_local")
_REPLY_TO = "ReplyToDestination"
_SENT_TO = "destination of a subscription"

Roles = dict[Destination, tuple[str, Position]]
"""The role of each destination, and the place that gives the destination this role."""


def check_destinations(
    file: AdapterFile,
    reading: Reading[AdapterFile],
    entries: Sequence[ReadEntry],
    static: StaticMetaObject | None,
    metaobjects: MetaObjects,
    collected: Collected,
    reporter: ProblemReporter,
) -> None:
    """Reports mistakes in the inputs, destinations that have two roles, and endless loops."""
    inputs = list(zip(reading.positions(*_INPUTS), file.connector.inputs, strict=False))
    if not file.connector.inputs:
        _warn_of_none(reporter)
    else:
        _warn_of_no_copies(file, inputs, reporter)
    if reporter.leaf("connector", "InDoubtEvents") and not reporter.leaf(
        "connector", "InProgressDestination"
    ):
        reporter.add(
            ("connector", "InDoubtEvents"),
            "InDoubtEvents without InProgressDestination",
            "an InProgressDestination, or no InDoubtEvents",
        )
    for index, entry in inputs:
        _check_options(index, entry, reporter)
    # A partial input may differ from another input in the part that was refused.
    whole = [one for one in inputs if not _is_partial(reading, one[0])]
    _check_twice(whole, reporter)
    _check_order(file, whole, reporter)
    taken = _check_roles(file, reading, inputs, entries, reporter)
    if static is not None:
        _check_replies(static, collected, taken, reporter)
    loops = LoopCheck(file, entries, static, metaobjects.definitions, inputs)
    loops.report(reporter, {one.index: one.key for one in entries})
    _check_in_progress(file, inputs, reporter)
    _check_managed(file, inputs, entries, reporter)


def _is_partial(reading: Reading[AdapterFile], index: int) -> bool:
    """Tells whether a part of an input was left out because that part is a mistake."""
    location = (*_INPUTS, index)
    return any(left[: len(location)] == location for left in reading.left_out)


def _warn_of_none(reporter: ProblemReporter) -> None:
    node = reporter.tree.entries.get("connector")
    if not isinstance(node, Table) or not node.position.line:
        return
    written = node.entries.get("InputDestination")
    if written is None or (isinstance(written, Leaf) and not written):
        reporter.add(
            _INPUTS,
            "no InputDestination: nothing is polled, this adapter is for requests only",
            "at least one destination",
            position=reporter.tree.keys["connector"].position,
            warning=True,
        )


def _warn_of_no_copies(
    file: AdapterFile, inputs: list[tuple[int, InputEntry]], reporter: ProblemReporter
) -> None:
    """Warns of outcomes of events that leave no copy which an operator could find."""
    for key, found, which in (
        ("ErrorDestination", file.connector.error_destination, "fails"),
        ("UnsubscribedDestination", file.connector.unsubscribed_destination, "nobody wants"),
    ):
        is_given = found is not None or reporter.leaf("connector", key) is not None
        if not (is_given or all(reporter.leaf(*_INPUTS, index, key) for index, _ in inputs)):
            reporter.add(
                ("connector", key),
                f"no {key}: a message that {which} is settled without a copy, and no verb brings it back",
                f"a queue, such as {key}: queue://{key.removesuffix('Destination').lower()}",
                position=reporter.tree.keys["connector"].position,
                warning=True,
            )


def _check_options(index: int, entry: InputEntry, reporter: ProblemReporter) -> None:
    """Checks the options of topics. A topic is polled through a subscription, a queue is not."""
    if entry.destination.is_queue:
        for key in _OF_TOPICS:
            if reporter.leaf(*_INPUTS, index, key) is not None:
                position = reporter.key_position(*_INPUTS, index, key)
                reporter.add(
                    (*_INPUTS, index, key), f"{key} of a queue", "it with a topic only", position=position
                )
    elif entry.shared and entry.no_local:
        reporter.add(
            (*_INPUTS, index, "no_local"),
            "no_local of a shared subscription",
            "one of the two: a shared subscription has messages for many, so none of them are local",
            position=reporter.key_position(*_INPUTS, index, "no_local"),
        )
    elif reporter.leaf(*_INPUTS, index, "subscription") is None:
        reporter.add(
            (*_INPUTS, index),
            f"{entry.destination} without a subscription: what is sent while the adapter does not run would "
            "be lost",
            f"{{destination: {entry.destination}, subscription: NAME}}",
        )


def check_selectors(
    file: AdapterFile, reading: Reading[AdapterFile], reporter: ProblemReporter, *, own_selectors: bool
) -> None:
    """Reports selectors of inputs that are none of JMS.

    Args:
        own_selectors: whether the provider has a language of its own, so that the selector may be right.
    """
    for index, _ in zip(reading.positions(*_INPUTS), file.connector.inputs, strict=False):
        location = (*_INPUTS, index, "selector")
        written = reporter.leaf(*location)
        mistake = selector_mistake(written) if written else None
        if written is None or mistake is None:
            continue
        expected = "the broker to take it: its selectors may have more than those of JMS"
        reporter.add(
            location,
            mistake.found,
            expected if own_selectors else mistake.expected,
            position=written.place(mistake.offset),
            warning=own_selectors,
        )


def _check_twice(inputs: list[tuple[int, InputEntry]], reporter: ProblemReporter) -> None:
    """Reports equal inputs. Inputs of one queue need different selectors. A subscription is one input."""
    seen: dict[object, tuple[int, InputEntry]] = {}
    names: dict[str, int] = {}
    for index, entry in inputs:
        location = (*_INPUTS, index)
        what = (entry.destination, _form(entry.selector), entry.shared, entry.no_local)
        earlier, other = seen.setdefault(what, (index, entry))
        line = reporter.position(*_INPUTS, earlier).line
        if entry.subscription is None:
            if earlier != index:
                reporter.add(location, f"{entry} stands twice, first in line {line}", "it once")
            continue
        first = names.setdefault(entry.subscription, index)
        if first != index:
            reporter.add(
                (*location, "subscription"),
                f"a second input with the subscription {entry.subscription!r}, first in line "
                f"{reporter.position(*_INPUTS, first).line}",
                "a name of its own: an adapter has one subscription of a name",
            )
        elif earlier != index:
            reporter.add(
                (*location, "subscription"),
                f"{entry} gets each message of {other}, in line {line}, too: each is an event twice",
                "one of the two, or selectors that differ",
                warning=True,
            )


def _check_order(file: AdapterFile, inputs: list[tuple[int, InputEntry]], reporter: ProblemReporter) -> None:
    """Reports inputs of one destination whose orders differ. Their events are in one line, or in none."""
    first: dict[Destination, tuple[int, InputEntry]] = {}
    for index, entry in inputs:
        earlier, other = first.setdefault(entry.destination, (index, entry))
        order, of_other = (one.order or file.connector.order for one in (entry, other))
        if order != of_other:
            line = reporter.position(*_INPUTS, earlier).line
            reporter.add(
                (*_INPUTS, index, *(() if entry.order is None else ("order",))),
                f"{entry} has the order {order}, and {other} in line {line} has the order {of_other}",
                "one order for all inputs of a destination",
            )


def _form(selector: str | None) -> str:
    """Returns a text that equal selectors share, in whatever spelling."""
    if not selector:
        return ""
    try:
        compile_selector(selector)
    except SelectorError:  # a mistake, or the broker's own language
        return selector
    from connector.messaging.selectors.syntax import form_of  # lark is slow to import

    return form_of(selector)


def _check_roles(
    file: AdapterFile,
    reading: Reading[AdapterFile],
    inputs: list[tuple[int, InputEntry]],
    entries: Sequence[ReadEntry],
    reporter: ProblemReporter,
) -> Roles:
    """Reports destinations with two roles. The adapter would read the messages that it has written."""
    taken: Roles = {}
    for index, entry in inputs:
        if entry.no_local:
            continue  # such an input leaves out the messages of this adapter
        taken.setdefault(entry.destination, ("InputDestination", reporter.position(*_INPUTS, index)))
    roles: list[tuple[str, Location, Destination | None]] = [
        (key, ("connector", key), destination) for key, destination in file.connector.own_destinations.items()
    ]
    roles.extend(
        (key, (*_INPUTS, index, key), destination)
        for index, entry in inputs
        for key, destination in entry.own_destinations.items()
    )
    for role, location, destination in roles:
        if destination is not None:
            _take(destination, role, location, taken, reporter)
    for one in entries:
        if isinstance(one.entry, SinkEntry):
            _check_sent(one.entry, ("subscriptions", one.index, one.key), taken, reporter)
    for index, timer in zip(reading.positions("timers"), file.timers, strict=False):
        if taken.get(timer.to, (_SENT_TO,))[0] not in ("InputDestination", _SENT_TO):
            _take(timer.to, "destination of a timer", ("timers", index, "to"), taken, reporter)
    return taken


def _check_sent(entry: SinkEntry, location: Location, taken: Roles, reporter: ProblemReporter) -> None:
    """Reports a subscription that sends to a destination of the adapter's own. An input is another step."""
    role = _SENT_TO
    destination = entry.sends_to
    if destination is not None:
        if taken.get(destination, ("",))[0] != "InputDestination":
            _take(destination, role, location, taken, reporter)
        return
    for other, (of_other, place) in taken.items():
        if of_other not in ("InputDestination", role) and entry.may_send_to(other):
            found = f"{entry.target()} may become {other}, the {of_other} (line {place.line})"
            reporter.add(location, found, "destinations that leave it out", warning=True)


def _take(
    destination: Destination, role: str, location: Location, taken: Roles, reporter: ProblemReporter
) -> None:
    other, place = taken.setdefault(destination, (role, reporter.position(*location)))
    if other == role:
        return
    found = f"{destination} is the {other} too (line {place.line})"
    if {role, other} == {"ErrorDestination", "UnsubscribedDestination"}:
        found += ": only connector_outcome tells failed from unsubscribed"
        reporter.add(location, found, "a destination of its own", warning=True)
        return
    if other == "InputDestination":
        found += ": what is sent there would be taken again, in an endless loop"
    reporter.add(location, found, "a destination of its own")


def _check_replies(
    static: StaticMetaObject, collected: Collected, taken: Roles, reporter: ProblemReporter
) -> None:
    """Reports reply destinations with another role. If requests do not wait, replies may be events."""
    document = collected.documents[static.name]
    for place, properties, own in collected.rules[static.name].said(static):
        if _REPLY_TO not in properties:
            continue
        destination = parse_destination(properties[_REPLY_TO])
        role, position = taken.get(destination, (_REPLY_TO, reporter.tree.position))
        waits = read_timeout(properties.get("ResponseTimeout", "-1")) >= 0
        if role == _REPLY_TO or (role == "InputDestination" and not waits):
            continue
        found = f"{destination} is the {role} too ({position.file}:{position.line})"
        if role == "InputDestination":
            found += ": replies would be polled as events, and not come to who awaits them"
        where = place if _REPLY_TO in own else ("Default",)
        document.add((*where, _REPLY_TO), found, "a queue of its own")


def _check_in_progress(
    file: AdapterFile, inputs: list[tuple[int, InputEntry]], reporter: ProblemReporter
) -> None:
    """Checks that all inputs are queues. Only messages of queues move to an in-progress destination."""
    if file.connector.in_progress_destination is None:
        return
    for index, entry in inputs:
        if not entry.destination.is_queue or entry.destination.view:
            what = "a view of a queue" if entry.destination.is_queue else "a topic"
            reporter.add(
                (*_INPUTS, index),
                f"{entry.destination} is {what}, and there is an InProgressDestination",
                "a queue, or no InProgressDestination: only messages of queues are moved there and back",
            )


def _check_managed(
    file: AdapterFile,
    inputs: list[tuple[int, InputEntry]],
    entries: Sequence[ReadEntry],
    reporter: ProblemReporter,
) -> None:
    """Reports settings that ContainerManagedEvents excludes."""
    connector = file.connector
    if not connector.container_managed_events:
        return
    managed = ("connector", "ContainerManagedEvents")
    if connector.duplicate_event_elimination:
        reporter.add(managed, "ContainerManagedEvents with DuplicateEventElimination", "one of the two")
    if connector.duplicate_key or any(entry.duplicate_key for _, entry in inputs):
        reporter.add(managed, "ContainerManagedEvents with duplicate_key", "one of the two")
    if connector.in_progress_destination is not None:
        reporter.add(managed, "ContainerManagedEvents with InProgressDestination", "one of the two")
    for index, entry in inputs:
        if not entry.destination.is_queue:
            reporter.add(
                (*_INPUTS, index),
                f"{entry.destination}, a topic, under ContainerManagedEvents",
                "a queue: for topics there is DuplicateEventElimination",
            )
    for one in entries:
        if isinstance(one.entry, CalledEntry) and one.entry.retry_later is not None:
            reporter.add(
                ("subscriptions", one.index, "retry_later"),
                "retry_later under ContainerManagedEvents",
                "one of the two: under ContainerManagedEvents a failed event comes again at once",
            )
        if not isinstance(one.entry, SinkEntry) or isinstance(one.entry, PreparedEntry):
            continue
        if not _is_in_own_database(file, one.entry.database):
            reporter.add(
                ("subscriptions", one.index, one.key),
                f"a {one.key} under ContainerManagedEvents",
                "a destination, or with the provider sql a transaction or a table in its own database",
            )


def _is_in_own_database(file: AdapterFile, name: str | None) -> bool:
    """Whether a database of the file is the one that holds the messages."""
    database = file.databases.get(name or "")
    return database is not None and getattr(file.provider, "url", None) == database.url
