"""The static meta-object: which business object a message means (seed 004, "Business object mapping")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from connector.businessobjects.definition import Definition
from connector.messaging.destination import Destination
from connector.messaging.message import Message

_CACHED_MATCHES = 1024


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of a static meta-object, for one business object and verb.

    Args:
        name: as written, ``Customer_Create``.
        object, verb: the defined pair that the name means.
        input_format, input_destination: the match keys; None = not a match key of this rule.
        properties: the other properties by their names in the source, defaults of the ``Default``
            entry filled in (never the match keys): ``DataHandlerMimeType``, ``OutputFormat``,
            ``OutputDestination``, ``ResponseTimeout`` ... Values as text.
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
        """Whether every match key that the rule has equals the message's; never without a key."""
        if not self.has_match_key:
            return False
        if self.input_format is not None and self.input_format != message_format:
            return False
        return self.input_destination is None or self.input_destination == destination


@dataclass(frozen=True, slots=True)
class StaticMetaObject:
    """The rules of a deployment. ``Default`` is no rule: it only fills in (:class:`Rule`).

    Args:
        name: of the meta-object.
        rules: its entries.
        defaults: the properties of its ``Default`` entry, which also count for what has no entry.
    """

    name: str
    rules: Sequence[Rule] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)
    _matches: dict[tuple[str | None, Destination], tuple[Rule, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def match(self, message_format: str | None, destination: Destination) -> tuple[Rule, ...]:
        """The rules that match, in the order of the file.

        Exactly one dictates the business object; none or several leave the decision to the
        connector's default data handler. There is no "most specific wins".
        """
        key = (message_format, destination)
        found = self._matches.get(key)
        if found is None:
            found = tuple(rule for rule in self.rules if rule.matches(message_format, destination))
            if len(self._matches) >= _CACHED_MATCHES:  # formats are whatever messages say
                self._matches.clear()
            self._matches[key] = found
        return found

    def dictating(self, message_format: str | None, destination: Destination) -> Rule | None:
        """The one rule that dictates the business object; None where none or several match."""
        found = self.match(message_format, destination)
        return found[0] if len(found) == 1 else None

    def entry(self, object_name: str, verb: str) -> Rule | None:
        """The entry for a business object and verb, where there is one (requests, OutputFormat)."""
        for rule in self.rules:
            if rule.object == object_name and rule.verb == verb:
                return rule
        return None


def split_rule_name(name: str, definitions: Mapping[str, Definition]) -> tuple[tuple[str, str], ...]:
    """The defined object and verb pairs that a rule name such as ``Customer_Create`` can mean.

    Both halves may have a ``_`` themselves, so that every ``_`` is tried and the definitions decide
    (design, section 7). Empty: nothing defined fits. More than one: the name is ambiguous.
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


def message_format(message: Message, property_name: str = "JMSType") -> str | None:
    """What ``InputFormat`` is compared with: a header, or a property, as text; None where there is none.

    Args:
        message: the message.
        property_name: ``MessageFormatProperty``.
    """
    if property_name == "JMSType":
        value: object = message.type
    else:
        value = message.properties.get(property_name)
        if value is None:
            value = message.headers().get(property_name)
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)
