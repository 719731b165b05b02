"""The configuration of a subscription with the sink ``destination``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from connector.businessobjects.metadata import read_priority
from connector.declare.destinations import SINK
from connector.declare.tree import Leaf
from connector.declare.value_types import ValueType, as_found, leaf, one_or_list, refuse
from connector.errors import DestinationError, WrongValue
from connector.messaging.destination import Destination, are_own_names, parse_destination
from connector.messaging.history import EVENT_ID
from connector.messaging.selectors.identifiers import check_property_name
from connector.messaging.settlement import HISTORY
from connector.sinks.destination.computed import GROUP, ComputedSpec, read_delay
from connector.sinks.destination.sink import DestinationSpec
from connector.sinks.destination.templates import DestinationTemplate, fits, may_both_be
from connector.sinks.mapped_entry import MappedEntry
from connector.sinks.subscription_model import EntryCheck, PreparedEntry
from connector.sinks.template import TextTemplate, placeholder_mistakes

_A_PATTERN: Final = "a destination or a pattern, such as queue://orders-*"
_OURS: Final = frozenset({*HISTORY, EVENT_ID, "connector_key", "connector_hops"})


def _template(written: Leaf) -> TextTemplate:
    try:
        return TextTemplate(str(written))
    except WrongValue as error:
        found = as_found(written) if written.from_environment else error.found
        raise refuse(found, error.expected) from None


def _read_destination(value: object) -> Destination | DestinationTemplate:
    written = leaf(value, "a destination such as queue://orders or queue://orders-{Region}")
    if "{" not in written and "}" not in written:
        return SINK.read(written)  # type: ignore[no-any-return]
    template = DestinationTemplate(_template(written), are_own_names())
    if any(letter in written.partition("://")[0] for letter in "{}") and "://" in written:
        raise refuse(f"{as_found(written)}, with braces before the name", "queue://NAME or topic://NAME")
    _check_name(written, template.text.filled_with("x"), "queue://orders-{Region}")
    return template


def _read_pattern(value: object) -> str:
    written = leaf(value, _A_PATTERN)
    found = _check_name(written, written.replace("*", "x").replace("?", "x"), _A_PATTERN)
    return str(written) if "://" in written else f"{found.kind}://{written}"


def _check_name(written: Leaf, sample: str, expected: str) -> Destination:
    """Refuses what is no destination although each placeholder and wildcard has become a letter."""
    try:
        found = parse_destination(sample)
    except DestinationError as error:
        reason = error.reason.rpartition(" is no destination: ")[2]
        raise refuse(f"{as_found(written)} is no destination: {reason}", expected) from None
    if found.view:
        raise refuse(f"{as_found(written)} is a view of a queue: nothing can be sent there", expected)
    return found


def _template_type(label: str, check: Callable[[str], object] | None = None, expected: str = "") -> ValueType:
    """Returns the value type of a text with placeholders.

    Args:
        check: raises ValueError for a text without placeholders that can be no value.
        expected: by ``check``.
    """

    def read(value: object) -> TextTemplate:
        written = leaf(value, "a text with {Attribute}")
        template = _template(written)
        if check is not None and not template.names:
            try:
                check(template.filled_with(""))
            except ValueError:
                raise refuse(as_found(written), f"{expected}, or {{Attribute}}") from None
        return template

    return ValueType(
        read,
        lambda value: None if value is None else str(value),
        {"type": ["string", "number", "boolean"]},
        label,
    )


_DESTINATION: Final = ValueType(_read_destination, str, {"type": "string"}, "destination, with {Attribute}")
_PATTERN: Final = ValueType(_read_pattern, str, {"type": "string"}, "destination or pattern")
_TEXT: Final = _template_type("text, with {Attribute}")
_PRIORITY: Final = _template_type("0 to 9, or {Attribute}", read_priority, "a whole number from 0 to 9")
_DELAY: Final = _template_type(
    "duration | milliseconds, or {Attribute}", read_delay, "a duration such as 30s, or milliseconds"
)


class DestinationEntry(MappedEntry, PreparedEntry):
    """Sends the object as a message to a destination of the provider.

    `{Attribute}` in a value stands for the value of an attribute, `{Child.Attribute}` for that of a single
    child, and `{Meta.Attribute}` for that of the dynamic meta-object. `{{` and `}}` are braces.
    """

    destination: Annotated[Destination | DestinationTemplate, _DESTINATION] = Field(
        description="A queue or topic. The message is sent in the commit that settles the event. With "
        "`{Attribute}` in its name, each message goes to a destination of its own, as `destinations` allows. "
        "A value that is null, empty, too long or no part of a name fails its event."
    )
    destinations: Annotated[tuple[Annotated[str, _PATTERN], ...], BeforeValidator(one_or_list)] = Field(
        default=(),
        description="What a `destination` with braces may become, with `*` and `?`: `queue://orders-*`. Must "
        "be given with braces.",
    )
    properties: dict[str, Annotated[TextTemplate, _TEXT]] = Field(
        default_factory=dict,
        description="Properties of the message. A value that is one placeholder has the type of the "
        "attribute, a Decimal as text. Any other value is text. Null leaves the property out.",
    )
    priority: Annotated[TextTemplate, _PRIORITY] | None = Field(
        default=None,
        description="JMSPriority. Left out or null: `Priority` of the rule, else the priority of the event.",
    )
    correlation_id: Annotated[TextTemplate, _TEXT] | None = Field(
        default=None, description="JMSCorrelationID. Left out: that of the event. Null: none."
    )
    group: Annotated[TextTemplate, _TEXT] | None = Field(
        default=None, description="JMSXGroupID. Left out: that of the event. Null: none."
    )
    delay: Annotated[TextTemplate, _DELAY] | None = Field(
        default=None,
        description="Time before anybody gets the message. Left out or null: `DeliveryDelay` of the rule, "
        "else none.",
    )

    def sink(self) -> DestinationSpec | ComputedSpec:
        template = self.destination if isinstance(self.destination, DestinationTemplate) else None
        fixed = DestinationSpec(self.sends_to, self.mime_type, self.format)
        headers = self.priority, self.correlation_id, self.group, self.delay
        if template is None and not self.properties and not any(headers):
            return fixed
        return ComputedSpec(fixed, template, self.destinations, tuple(self.properties.items()), *headers)

    def target(self) -> str:
        return str(self.destination)

    @property
    def sends_to(self) -> Destination | None:
        return None if isinstance(self.destination, DestinationTemplate) else self.destination

    def may_send_to(self, destination: Destination) -> bool:
        if not isinstance(self.destination, DestinationTemplate):
            return destination == self.destination
        text = str(destination)
        return fits(self.destination.pattern, text) and any(fits(one, text) for one in self.destinations)

    @property
    def delays(self) -> bool:
        return self.delay is not None and bool(self.delay.names or read_delay(self.delay.text))

    def check(self, check: EntryCheck) -> None:
        """Reports names that the destination cannot become, placeholders and properties that cannot be."""
        super().check(check)
        self._check_destinations(check)
        for name in self.properties:
            if found := _property_mistake(name):
                check.add(f"properties.{name}", *found)
        if check.definitions is None:
            return
        for key, template in self._templates():
            for mistake in placeholder_mistakes(template.names, self.objects, check.definitions, shows=True):
                check.add(key, *mistake)

    def _check_destinations(self, check: EntryCheck) -> None:
        template = self.destination
        if not isinstance(template, DestinationTemplate):
            if self.destinations:
                expected = "{Attribute} in the destination, or no destinations"
                check.add("destinations", "destinations of a destination without braces", expected)
            return
        expected = f"destinations: [{template.pattern}], what it may become"
        if not check.is_written("destinations"):
            check.add("destination", f"{template} with braces, and no destinations", expected)
        elif not self.destinations and check.is_empty("destinations"):
            check.add("destinations", "an empty list", expected)
        for pattern in self.destinations:
            if not may_both_be(template.pattern, pattern):
                found = f"{pattern}, which {template} can never become"
                check.add("destinations", found, f"a pattern such as {template.pattern}")

    def _templates(self) -> Iterator[tuple[str, TextTemplate]]:
        if isinstance(self.destination, DestinationTemplate):
            yield "destination", self.destination.text
        for name, template in self.properties.items():
            yield f"properties.{name}", template
        for key in ("priority", "correlation_id", "group", "delay"):
            if (value := getattr(self, key)) is not None:
                yield key, value


def _property_mistake(name: str) -> tuple[str, str] | None:
    """Returns why a message cannot have a property, and what is expected. None = it can."""
    if name == GROUP:
        return name, "group: ..., which sets it"
    if name.startswith("JMSX"):
        return f"{name}, which a provider sets", "another name"
    if name in _OURS:
        return f"{name}, which the connector sets", "another name"
    try:
        check_property_name(name, "string")
    except ValueError as error:
        found, _, expected = str(error).partition(", expected ")
        return found, expected or "the name of a property"
    return None
