"""Reads the cases of ``connector test``: a message, and the expected objects, outcome and destination."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from connector.businessobjects.condition import Condition
from connector.config.expression_lint import lookups_of
from connector.config.metaobjects import MetaObjects
from connector.declare.object_values import ObjectValues
from connector.declare.problems import Position, Problems
from connector.declare.tree import Items, Leaf, Node, Table, is_absent, kind_of, read_file
from connector.errors import DestinationError
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import STANDARD_TYPES, PropertyValue, parse_property
from connector.messaging.selectors.identifiers import check_property_name
from connector.regular_file import read_regular
from connector.text.names import nearest, shown

SUFFIX: Final = ".test.yaml"

_CASE: Final = ("name", "message", "expect")
_MESSAGE: Final = ("destination", "type", "correlation_id", "properties", "body", "body_file", "bytes")
_BODY: Final = ("body", "body_file")
_SENT_HEADERS: Final = ("priority", "correlation_id", "group")
_SENT: Final = (*_BODY, "destination", "properties", *_SENT_HEADERS)
_OBJECT: Final = ("object", "verb", "values", "contains", "jmespath")
_EXPECT: Final = (
    *_OBJECT,
    "records",
    "outcome",
    "destination",
    "reason",
    "rule",
    "data_handler",
    "subscriptions",
    "sends",
    "maps",
)
_FACTS: Final = ("outcome", "destination", "reason", "rule", "data_handler")
_NONE: Final = "none"
_OUTCOMES: Final = ("published", "unsubscribed", "failed")


@dataclass(frozen=True, slots=True)
class ExpectedObject:
    """The expected facts of one business object. None = anything.

    Args:
        values: attributes with typed values.
        whole: whether the object must have no other attributes.
        expression: the condition that must hold for the object.
    """

    object: str | None
    verb: str | None
    values: dict[str, Any] | None
    whole: bool
    expression: Condition | None = None


@dataclass(frozen=True, slots=True)
class ExpectedMessage:
    """The expected facts of one message that a subscription sends. None = anything.

    Args:
        headers: expected texts by key: ``priority``, ``correlation_id``, ``group``.
        properties: name, JMS type and text of each. Without a type any type counts. Without a text the
            message must not have the property.
    """

    body: bytes | None = None
    destination: Destination | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    properties: tuple[tuple[str, str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """A case.

    Args:
        headers: ``type`` and ``correlation_id`` of the message.
        properties: name, JMS type and value of each property.
        is_bytes: whether the message is a bytes message.
        objects: the expected objects. Empty = anything.
        facts: expected texts by key: outcome, destination, reason, rule, data_handler.
        subscriptions: names of the expected subscribers. None = anything.
        sends: from the name of a subscription to the messages that it sends, in their order.
        maps: from the name of a map to the objects that it makes, in their order.
    """

    name: str
    position: Position
    destination: Destination | None
    headers: dict[str, str]
    properties: tuple[tuple[str, str, PropertyValue], ...]
    body: bytes
    is_bytes: bool
    objects: tuple[ExpectedObject, ...]
    facts: dict[str, str]
    subscriptions: tuple[str, ...] | None
    sends: dict[str, tuple[ExpectedMessage, ...]]
    maps: dict[str, tuple[ExpectedObject, ...]]


def read_cases(
    path: Path, display: str, metaobjects: MetaObjects, subscriptions: Sequence[str], problems: Problems
) -> list[Case]:
    """Returns the cases of a file.

    Args:
        subscriptions: their names.
        problems: gets the mistakes. A case with a mistake is left out.
    """
    reader = _Reader(path, metaobjects, subscriptions, problems)
    cases = []
    for document in read_file(path, display, problems) or ():
        for node in document.items if isinstance(document, Items) else [document]:
            before = problems.errors
            case = reader.case(node)
            if case is not None and problems.errors == before:
                cases.append(case)
    return cases


class _Reader:
    """Reads cases and reports their mistakes."""

    def __init__(
        self, path: Path, metaobjects: MetaObjects, subscriptions: Sequence[str], problems: Problems
    ) -> None:
        self._path = path
        self._values = ObjectValues(metaobjects.definitions, problems)
        self._maps = metaobjects.maps
        self._names = subscriptions
        self._problems = problems

    def case(self, node: Node) -> Case | None:
        table = self._table(node, "case", _CASE)
        if table is None:
            return None
        name = self._text(table, "name", "case") or f"line {table.position.line}"
        message = self._table(table.entries.get("message", Table(table.position)), "message", _MESSAGE)
        expect = self._table(table.entries.get("expect", Table(table.position)), "expect", _EXPECT)
        if message is None or expect is None:
            return None
        if all(is_absent(node) for node in expect.entries.values()):
            where = table.keys.get("expect", Leaf.of("", table.position)).position
            self._problems.add(where, "case.expect", "nothing is expected", f"some of {', '.join(_EXPECT)}")
        facts = {key: text for key in _FACTS if (text := self._text(expect, key, "expect")) is not None}
        if facts.get("destination", _NONE) != _NONE:
            facts["destination"] = str(self._destination(expect, "expect"))
        if facts.get("outcome", "failed") not in _OUTCOMES:
            self._add(expect.entries["outcome"], "expect.outcome", facts["outcome"], _OUTCOMES)
        headers = {
            key: text
            for key in ("type", "correlation_id")
            if (text := self._text(message, key, "message")) is not None
        }
        is_bytes = (self._text(message, "bytes", "message") or "false").lower()
        if is_bytes not in ("true", "false"):
            self._add(message.entries["bytes"], "message.bytes", is_bytes, ("true", "false"))
        return Case(
            name,
            table.position,
            self._destination(message, "message"),
            headers,
            tuple(self._properties(message)),
            self._body(message, "message"),
            is_bytes == "true",
            tuple(self._objects(expect)),
            facts,
            self._subscriptions(expect),
            dict(self._sends(expect)),
            dict(self._maps_of(expect)),
        )

    # --- the message --------------------------------------------------------------------------

    def _destination(self, table: Table, path: str) -> Destination | None:
        text = self._text(table, "destination", path)
        if text is None:
            return None
        try:
            return parse_destination(text)
        except DestinationError as error:
            node = table.entries["destination"]
            self._problems.add(node.position, f"{path}.destination", str(error), "queue://NAME")
            return None

    def _properties(self, message: Table) -> Iterator[tuple[str, str, PropertyValue]]:
        node = message.entries.get("properties")
        if node is None or is_absent(node):
            return
        table = self._table(node, "message.properties", ())
        for key, value in ({} if table is None else table.entries).items():
            path = f"message.properties.{key}"
            if not isinstance(value, Leaf):
                self._problems.add(value.position, path, kind_of(value), "a single value")
                continue
            if value.is_absent:
                continue
            name, _, kind = key.partition(":")
            kind = kind or STANDARD_TYPES.get(name, "string")
            try:
                check_property_name(name, kind)
                yield name, kind, parse_property(kind, str(value))
            except ValueError as error:
                self._problems.add(value.position, path, str(error), "NAME: VALUE, or NAME:TYPE: VALUE")

    def _body(self, table: Table, path: str) -> bytes:
        text, file = self._text(table, "body", path), self._text(table, "body_file", path)
        if text is not None and file is not None:
            node = table.entries["body_file"]
            self._problems.add(node.position, f"{path}.body_file", "both body and body_file", "one of them")
        if file is None:
            return (text or "").encode("utf-8")
        try:
            return read_regular(self._path.parent / file)
        except OSError as error:
            node = table.entries["body_file"]
            self._problems.add(node.position, f"{path}.body_file", f"{file}: {error.strerror}", "a file")
            return b""

    # --- what is expected ---------------------------------------------------------------------

    def _objects(self, expect: Table) -> Iterator[ExpectedObject]:
        records = expect.entries.get("records")
        if records is None:
            if any(key in expect.entries for key in _OBJECT):
                yield self._object(expect, "expect")
        elif not isinstance(records, Items):
            self._problems.add(records.position, "expect.records", kind_of(records), "a list of objects")
        else:
            for number, node in enumerate(records.items):
                table = self._table(node, f"expect.records[{number}]", _OBJECT)
                if table is not None:
                    yield self._object(table, f"expect.records[{number}]")

    def _object(self, table: Table, path: str, default: str | None = None) -> ExpectedObject:
        name = self._text(table, "object", path) or default
        key = next((key for key in ("values", "contains") if not is_absent(table.entries.get(key))), None)
        values = None
        if key is not None:
            node = table.entries[key]
            if name is None:
                self._problems.add(
                    node.position, f"{path}.{key}", f"{key} without object", "object: NAME too"
                )
            else:
                values = self._values.read(node, name, f"{path}.{key}")
        elif "values" in table.entries:
            values = {}
        verb, expression = self._text(table, "verb", path), self._expression(table, path)
        return ExpectedObject(name, verb, values, key != "contains", expression)

    def _expression(self, table: Table, path: str) -> Condition | None:
        text = self._text(table, "jmespath", path)
        if text is None:
            return None
        try:
            return Condition(text, lookups_of(text, self._path.parent))
        except ValueError as error:
            reason = " ".join(str(error).split())
            self._problems.add(table.entries["jmespath"].position, f"{path}.jmespath", reason, "JMESPath")
            return None

    def _subscriptions(self, expect: Table) -> tuple[str, ...] | None:
        node = expect.entries.get("subscriptions")
        if node is None:
            return None
        if not isinstance(node, Items):
            self._problems.add(node.position, "expect.subscriptions", kind_of(node), "a list of names")
            return None
        names = [one for one in node.items if isinstance(one, Leaf)]
        for name in names:
            self._check_subscription(name, name.position, "expect.subscriptions")
        return tuple(str(name) for name in names)

    def _sends(self, expect: Table) -> Iterator[tuple[str, tuple[ExpectedMessage, ...]]]:
        node = expect.entries.get("sends")
        table = None if node is None else self._table(node, "expect.sends", ())
        for name, value in ({} if table is None else table.entries).items():
            path = f"expect.sends.{name}"
            if table is not None:
                self._check_subscription(name, table.keys[name].position, path)
            messages = []
            for one in value.items if isinstance(value, Items) else [value]:
                if isinstance(one, Leaf):
                    messages.append(ExpectedMessage(one.encode("utf-8")))
                elif (sent := self._table(one, path, _SENT)) is not None:
                    messages.append(self._sent(sent, path))
            yield name, tuple(messages)

    def _sent(self, table: Table, path: str) -> ExpectedMessage:
        has_body = any(not is_absent(table.entries.get(key)) for key in _BODY)
        return ExpectedMessage(
            self._body(table, path) if has_body else None,
            self._destination(table, path),
            {key: text for key in _SENT_HEADERS if (text := self._text(table, key, path)) is not None},
            tuple(self._sent_properties(table, path)),
        )

    def _sent_properties(self, sent: Table, path: str) -> Iterator[tuple[str, str, str | None]]:
        table = self._table(sent.entries.get("properties", Table(sent.position)), f"{path}.properties", ())
        for key, value in ({} if table is None else table.entries).items():
            if not isinstance(value, Leaf):
                where = f"{path}.properties.{key}"
                self._problems.add(value.position, where, kind_of(value), "a single value")
                continue
            name, _, kind = key.partition(":")
            yield name, kind, None if value.is_absent else str(value)

    def _maps_of(self, expect: Table) -> Iterator[tuple[str, tuple[ExpectedObject, ...]]]:
        node = expect.entries.get("maps")
        table = None if node is None else self._table(node, "expect.maps", ())
        for name, value in ({} if table is None else table.entries).items():
            path = f"expect.maps.{name}"
            found = self._maps.get(name)
            if found is None and table is not None:
                expected = f"one of {', '.join(self._maps) or 'none'}"
                text = f"there is no map {shown(name)}"
                self._problems.add(table.keys[name].position, path, text, expected, nearest(name, self._maps))
                continue
            objects = []
            for one in value.items if isinstance(value, Items) else [value]:
                if (inner := self._table(one, path, _OBJECT)) is not None:
                    objects.append(self._object(inner, path, found.target if found is not None else None))
            yield name, tuple(objects)

    def _check_subscription(self, name: str, position: Position, path: str) -> None:
        if name not in self._names:
            expected = f"one of {', '.join(self._names) or 'none'}"
            found = f"no subscription has the name {shown(name)}"
            self._problems.add(position, path, found, expected, nearest(name, self._names))

    # --- nodes --------------------------------------------------------------------------------

    def _table(self, node: Node, path: str, known: Sequence[str]) -> Table | None:
        """Returns a mapping whose keys are all known. ``known`` empty = any key."""
        if is_absent(node):
            return Table(node.position)
        if not isinstance(node, Table):
            self._problems.add(node.position, path, kind_of(node), "a mapping")
            return None
        for key in node.entries if known else ():
            if key not in known:
                expected = f"one of {', '.join(known)}"
                self._problems.add(
                    node.keys[key].position, f"{path}.{key}", "unknown key", expected, nearest(key, known)
                )
        return node

    def _text(self, table: Table, key: str, path: str) -> str | None:
        node = table.entries.get(key)
        if node is None or is_absent(node):
            return None
        if not isinstance(node, Leaf):
            self._problems.add(node.position, f"{path}.{key}", kind_of(node), "a single value")
            return None
        return str(node)

    def _add(self, node: Node, path: str, found: str, choices: Sequence[str]) -> None:
        self._problems.add(
            node.position,
            path,
            f"found {shown(found)}",
            f"one of {', '.join(choices)}",
            nearest(found, choices),
        )
