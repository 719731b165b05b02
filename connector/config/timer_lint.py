"""Checks the entries of ``timers``, and reads their objects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from connector.businessobjects.definition import Definition
from connector.businessobjects.instance import BusinessObject, finish
from connector.businessobjects.rules import StaticMetaObject
from connector.config.handler_lint import shipped_handler
from connector.config.lint import Lint
from connector.config.timer_model import TimerEntry
from connector.declare.object_values import ObjectValues
from connector.declare.reading import Location, node_at
from connector.declare.tree import Items, Leaf, Node, Table, is_absent
from connector.errors import ConfigurationError, MalformedData
from connector.formats.checks import check_mime_type
from connector.formats.handlers import choose_handler, normal_mime_type
from connector.messaging.destination import Destination, parse_destination
from connector.sinks.contract import write_body
from connector.sinks.subscription_model import SinkEntry
from connector.text.names import nearest, shown

_TIMERS: Final = "timers"


@dataclass(frozen=True, slots=True)
class TimerReader:
    """Reads the timers of one file.

    Args:
        lint: of the file.
        makes: whether shipped data handlers are made, to write the objects. Other handlers are code of users.
    """

    lint: Lint
    makes: bool

    def read(self) -> tuple[TimerEntry, ...]:
        """Returns the timers, each with the typed values of its object. Reports every mistake."""
        found, lines = [], dict[str, int]()
        for index, entry in zip(self.lint.reading.positions(_TIMERS), self.lint.file.timers, strict=False):
            here = (_TIMERS, index)
            if entry.name in lines:
                text = f"a second timer named {shown(entry.name)}, first in line {lines[entry.name]}"
                self.lint.reporter.add((*here, "name"), text, "a name of its own")
            lines.setdefault(entry.name, self.lint.reporter.position(*here).line)
            self._check_times(here)
            self._check_destination(entry.to, here)
            found.append(self._with_content(entry, here))
        return tuple(found)

    def _has(self, here: Location, key: str) -> bool:
        """Whether the file gives a value to a key. The value may be wrong."""
        return not is_absent(node_at(self.lint.reporter.tree, (*here, key)))

    def _check_times(self, here: Location) -> None:
        given = [key for key in ("every", "cron") if self._has(here, key)]
        if not given:
            self.lint.reporter.add(here, "neither every nor cron", 'every: 15m, or cron: "0 2 * * *"')
        elif len(given) > 1:
            self.lint.reporter.add((*here, "cron"), "cron with every", "one of them")

    def _check_destination(self, to: Destination, here: Location) -> None:
        """Warns of a queue that the configuration does not name, but a name that is alike."""
        known = {one.name for one in self._known() if one.is_queue}
        near = nearest(to.name, sorted(known)) if to.is_queue and to.name not in known else None
        if near is not None:
            found = f"{to} is named nowhere else in this configuration"
            near = f"queue://{near}"
            self.lint.reporter.add((*here, "to"), found, "a queue that somebody reads", near, warning=True)

    def _known(self) -> Iterator[Destination]:
        """Yields the destinations that the configuration names elsewhere."""
        connector = self.lint.file.connector
        yield from (entry.destination for entry in connector.inputs)
        yield from (destination for _, destination in connector.all_destinations)
        for one in self.lint.entries:
            if isinstance(one.entry, SinkEntry) and one.entry.sends_to is not None:
                yield one.entry.sends_to
        static = self._static
        for properties in () if static is None else (one.properties for one in static.entries):
            if text := properties.get("OutputDestination", "").strip():
                yield parse_destination(text)

    @property
    def _static(self) -> StaticMetaObject | None:
        return self.lint.metaobjects.static.get(self.lint.file.connector.configuration_meta_object or "")

    # --- the message -------------------------------------------------------------------------

    def _with_content(self, entry: TimerEntry, here: Location) -> TimerEntry:
        """Returns the timer with the values of its object. Reports what is wrong with its message."""
        has_object = self._has(here, "object")
        if has_object and self._has(here, "body"):
            self.lint.reporter.add((*here, "body"), "body with object", "one of them")
        elif not has_object and not self._has(here, "body"):
            self.lint.reporter.add(here, "neither object nor body", "object with data, or body")
        for key in () if has_object else ("verb", "data"):
            if self._has(here, key):
                self.lint.reporter.add((*here, key), f"{key} without object", "object: NAME too")
        is_read_here = entry.to in (one.destination for one in self.lint.file.connector.inputs)
        if entry.mime_type is not None and (has_object or is_read_here):
            check_mime_type(entry.mime_type, (*here, "mime_type"), self.lint.catalogue, self.lint.reporter)
        if entry.object is None or self.lint.collected.incomplete:
            return entry
        definition = self.lint.metaobjects.definitions.get(entry.object)
        if definition is None:
            found = f"there is no business object {shown(entry.object)}"
            near = nearest(entry.object, self.lint.metaobjects.definitions)
            self.lint.reporter.add((*here, "object"), found, "a business object of metaobjects", near)
            return entry
        return self._with_values(entry, definition, here)

    def _with_values(self, entry: TimerEntry, definition: Definition, here: Location) -> TimerEntry:
        problems = self.lint.reporter.problems
        before = problems.errors
        if entry.verb is not None and entry.verb not in definition.verbs:
            found = f"{definition.name} has no verb {shown(entry.verb)}"
            expected = (
                f"one of {', '.join(definition.verbs)}" if definition.verbs else "a verb in its definition"
            )
            self.lint.reporter.add((*here, "verb"), found, expected, nearest(entry.verb, definition.verbs))
        node = node_at(self.lint.reporter.tree, (*here, "data"))
        values: dict[str, Any] | None = {}
        if isinstance(node, Table):
            reader = ObjectValues(self.lint.metaobjects.definitions, problems)
            values = reader.read(node, definition.name, self.lint.reporter.path((*here, "data")))
        if problems.errors == before and values is not None and (is_absent(node) or isinstance(node, Table)):
            place = (*here, "object" if is_absent(node) else "data")
            try:
                self._write(self._object(entry, values), entry)
            except MalformedData as error:
                found, _, expected = _without_secrets(str(error), node).partition(", expected ")
                self.lint.reporter.add(place, found, expected)
        return entry.model_copy(update={"data": values})

    def _object(self, entry: TimerEntry, values: dict[str, Any]) -> BusinessObject:
        """Returns the object of a timer. Raises MalformedData if the values do not fit."""
        bo = BusinessObject(self.lint.metaobjects.definitions, entry.object or "", entry.verb, values)
        finish(bo, default_verb=self.lint.file.connector.default_verb)
        return bo

    def _write(self, bo: BusinessObject, entry: TimerEntry) -> None:
        """Writes an object with its data handler, if that is a shipped one.

        Raises:
            MalformedData, HandlerFailed: the object cannot be written.
        """
        if not self.makes or self.lint.catalogue is None:
            return
        connector, static = self.lint.file.connector, self._static
        said = {} if static is None else static.properties(bo.type, bo.verb or "")
        named, config = entry.mime_type or "", ""
        if not named:
            default = connector.data_handler_class_name or connector.default_handler
            named, config = choose_handler((said,), default)
        by_type = self.lint.metaobjects.handler_options.get(config or connector.data_handler_config_mo, {})
        options = by_type.get(normal_mime_type(named), {})
        try:
            handler = shipped_handler(
                named, options, self.lint.metaobjects.definitions, self.lint.directory, self.lint.catalogue
            )
        except ConfigurationError:  # reported with the options
            return
        if handler is not None:
            write_body(handler.to_body, bo)


def _without_secrets(text: str, node: Node | None) -> str:
    """Returns the text of an error with references in place of values from the environment."""
    for one in _leaves(node):
        if one.from_environment and one.strip():
            text = text.replace(str(one), one.raw)
    return text


def _leaves(node: Node | None) -> Iterator[Leaf]:
    if isinstance(node, Leaf):
        yield node
    inner = (
        node.entries.values() if isinstance(node, Table) else node.items if isinstance(node, Items) else ()
    )
    for one in inner:
        yield from _leaves(one)
