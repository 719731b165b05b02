"""The static meta-object: the rules that decide which business object a message means.

Source: WBI Adapter for JMS, "Business object mapping".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from connector.businessobjects.definition import Definition
from connector.businessobjects.handlers import HANDLER_KEYS
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.selectors.identifiers import check_property_name

_CACHED_MATCHES = 1024


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the static meta-object, for one business object and verb.

    Args:
        name: as written, ``Customer_Create``.
        object, verb: the defined pair that the name means.
        input_format, input_destination: the match keys. None = not a match key of this rule.
        properties: the other properties, without the match keys, by their names in WBI Adapter for JMS:
            ``DataHandlerMimeType``, ``OutputFormat``, ``OutputDestination``, ``ResponseTimeout`` ...
            :func:`filled_in` makes them of the entry and ``Default``. The values are text.
    """

    name: str
    object: str
    verb: str
    input_format: str | None = None
    input_destination: Destination | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_match_key(self) -> bool:
        return self.input_format is not None or self.input_destination is not None

    def matches(self, message_format: str | None, destination: Destination) -> bool:
        """Tells whether every match key of the rule equals the message's. False for a rule without a key."""
        if not self.has_match_key:
            return False
        if self.input_format is not None and self.input_format != message_format:
            return False
        return self.input_destination is None or self.input_destination == destination


@dataclass(frozen=True, slots=True)
class StaticMetaObject:
    """The rules of a deployment. ``Default`` is no rule, but only completes the rules (:class:`Rule`).

    Args:
        name: the name of the meta-object.
        rules: the entries.
        defaults: the properties of the entry ``Default``. They also count for objects without an entry.
    """

    name: str
    rules: Sequence[Rule] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)
    _matches: dict[tuple[str | None, Destination], tuple[Rule, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def match(self, message_format: str | None, destination: Destination) -> tuple[Rule, ...]:
        """Returns the rules that match, in the order of the file.

        If exactly one rule matches, that rule dictates the business object. Otherwise the connector's default
        data handler decides. There is no "most specific wins".
        """
        key = (message_format, destination)
        found = self._matches.get(key)
        if found is None:
            found = tuple(rule for rule in self.rules if rule.matches(message_format, destination))
            if len(self._matches) >= _CACHED_MATCHES:  # senders decide how many formats there are
                self._matches.clear()
            self._matches[key] = found
        return found

    def only_match(self, message_format: str | None, destination: Destination) -> Rule | None:
        """Returns the rule that dictates the business object. None = no rule or several rules match."""
        found = self.match(message_format, destination)
        return found[0] if len(found) == 1 else None

    def entry(self, object_name: str, verb: str) -> Rule | None:
        """Returns the entry for a business object and verb. None = there is no entry."""
        for rule in self.rules:
            if rule.object == object_name and rule.verb == verb:
                return rule
        return None

    def properties(self, object_name: str, verb: str) -> Mapping[str, str]:
        """Returns the properties for a business object and verb: of the entry, else of ``Default``."""
        entry = self.entry(object_name, verb)
        return entry.properties if entry is not None else self.defaults


def filled_in(own: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties of an entry, completed from ``Default``.

    An entry that names a data handler, by class or MIME type, takes neither of the two from ``Default``.
    """
    if any(key in own for key in HANDLER_KEYS):
        defaults = {key: text for key, text in defaults.items() if key not in HANDLER_KEYS}
    return {**defaults, **own}


def split_rule_name(name: str, definitions: Mapping[str, Definition]) -> tuple[tuple[str, str], ...]:
    """Returns the defined object and verb pairs that a rule name such as ``Customer_Create`` can mean.

    Both halves may contain ``_``, so every ``_`` is tried and the definitions decide.
    Empty: no defined pair fits. More than one: the name is ambiguous.
    """
    pairs = []
    position = name.find("_")
    while position >= 0:
        definition = definitions.get(name[:position])
        verb = name[position + 1 :]
        if definition is not None and verb in definition.verbs:
            pairs.append((name[:position], verb))
        position = name.find("_", position + 1)
    return tuple(pairs)


JMS_TYPE: Final = "JMSType"
CORRELATION_ID: Final = "JMSCorrelationID"


def set_format(message: Message, text: str, property_name: str) -> None:
    """Writes the format of a message to the place where :func:`message_format` reads the format.

    An existing header or property of that name is replaced.

    Args:
        message: is changed.
        text: the format.
        property_name: ``MessageFormatProperty``: JMSType, JMSCorrelationID or the name of a property.

    Raises:
        ValueError: no message can carry a property of that name.
    """
    if property_name == JMS_TYPE:
        message.type = text
    elif property_name == CORRELATION_ID:
        message.correlation_id = text
    else:
        try:
            check_property_name(property_name)
        except ValueError as error:
            raise ValueError(f"OutputFormat cannot be set: MessageFormatProperty: {error}") from None
        message.set_property(property_name, text)


def message_format(message: Message, property_name: str = JMS_TYPE) -> str | None:
    """Returns the text that is compared with ``InputFormat``: a header or a property. None = missing.

    Args:
        message: the message.
        property_name: ``MessageFormatProperty``.
    """
    if property_name == JMS_TYPE:
        value: object = message.type
    else:
        value = message.properties.get(property_name)
        if value is None:
            value = message.headers().get(property_name)
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)
