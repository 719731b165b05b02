"""The static meta-object: the rules that decide which business object a message means.

Source: WBI Adapter for JMS, "Business object mapping".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from connector.businessobjects.definition import Definition
from connector.businessobjects.rule_conditions import SeenMessage, TextPath, needed_texts
from connector.errors import MalformedData
from connector.limits import stages
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.selectors.identifiers import check_property_name
from connector.tracebacks import error_text

if TYPE_CHECKING:
    from connector.businessobjects.lookups import Lookups

HANDLER_KEYS: Final = ("DataHandlerClassName", "DataHandlerMimeType")
"""The properties that name a data handler. Within a meta-object the class counts before the MIME type."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Says which messages mean a business object and verb, and which data handler reads them.

    Args:
        name: as written, ``Customer_Create``. The rules of a list share their name.
        object, verb: the defined pair that the name means.
        input_format, input_destination: the match keys. None = not a match key of this rule.
        handler: the properties that choose the data handler, by their names in WBI Adapter for JMS. Those of
            ``Default`` are among them (:func:`complete_properties`). The values are text.
        selector: a message selector, which is one more match key. None = none.
        jmespath: a JMESPath expression on a JSON body, which is one more match key. None = none.
        rule_priority: of several rules that match, only those with the highest number count.
        names_handler: whether the rule names a data handler, and not ``Default`` for it.
        number: the position in the list of the name, from 0. None = the name has no list.
        lookups: the tables of ``lookup`` in the expression. None = it has none.
    """

    name: str
    object: str
    verb: str
    input_format: str | None = None
    input_destination: Destination | None = None
    handler: Mapping[str, str] = field(default_factory=dict)
    selector: str | None = None
    jmespath: str | None = None
    rule_priority: int = 0
    names_handler: bool = False
    number: int | None = None
    lookups: Lookups | None = field(default=None, repr=False)

    @property
    def id(self) -> str:
        """Unique in the meta-object: ``Customer_Create``, of a list ``Customer_Create[1]``."""
        return self.name if self.number is None else f"{self.name}[{self.number}]"

    @property
    def has_match_key(self) -> bool:
        """Whether the rule can match. A rule without any match key never does."""
        return self.has_conditions or self.input_format is not None or self.input_destination is not None

    @property
    def has_conditions(self) -> bool:
        """Whether the rule looks at more of the message than format and destination."""
        return self.selector is not None or self.jmespath is not None

    def fits(self, message: SeenMessage) -> bool:
        """Tells whether a message fits selector and expression.

        Raises:
            MalformedData: selector or expression cannot be evaluated for the message.
        """
        return self._holds(message, self.selector, self.jmespath)

    def _holds(self, message: SeenMessage, selector: str | None, expression: str | None) -> bool:
        try:
            with stages.Stage("rule", self.id):
                return (selector is None or message.fits_selector(selector)) and (
                    expression is None or message.fits_expression(expression, self.lookups)
                )
        except MalformedData:
            raise
        except BaseException as error:
            if stages.is_interrupt(error):
                raise
            raise MalformedData(f"rule {self.id}: {error_text(error)}") from error

    def mismatches(
        self, message_format: str | None, destination: Destination, message: SeenMessage
    ) -> list[str]:
        """Returns why the rule does not match a message, match key by match key. Empty: the rule matches."""
        if not self.has_match_key:
            return ["the rule has no match key"]
        found = []
        if self.input_format is not None and self.input_format != message_format:
            has = "no format" if message_format is None else f"the format {message_format!r}"
            found.append(f"InputFormat is {self.input_format!r}, the message has {has}")
        if self.input_destination is not None and self.input_destination != destination:
            found.append(f"InputDestination is {self.input_destination}, the message is from {destination}")
        try:
            if self.selector is not None and not self._holds(message, self.selector, None):
                found.append(f"the message does not fit the selector {self.selector}")
            if self.jmespath is not None and not self._holds(message, None, self.jmespath):
                found.append(f"the body does not fit the expression {self.jmespath}")
        except MalformedData as error:
            found.append(str(error))
        return found


@dataclass(frozen=True, slots=True)
class OutputEntry:
    """Says how messages with a business object and verb are sent.

    Args:
        id: of the rule that stands at the same place of the file.
        properties: by their names in WBI Adapter for JMS: ``OutputDestination``, ``OutputFormat``,
            ``DataHandlerMimeType``, ``ResponseTimeout`` ..., with those of ``Default``
            (:func:`complete_properties`). The values are text.
    """

    id: str
    object: str
    verb: str
    properties: Mapping[str, str] = field(default_factory=dict)


_Numbered = tuple[int, Rule]
"""A rule with its position in the file."""


class _Group:
    """The rules of one format and destination."""

    __slots__ = ("_by_text", "_conditional", "_others", "_plain")

    def __init__(self) -> None:
        self._plain: list[_Numbered] = []
        self._conditional: list[_Numbered] = []
        self._by_text: dict[TextPath, dict[str, list[_Numbered]]] | None = None
        """The conditional rules that need a certain text. None = no message has come yet."""
        self._others: list[_Numbered] = []
        """The conditional rules that every message has to try."""

    def add(self, position: int, rule: Rule) -> None:
        (self._conditional if rule.has_conditions else self._plain).append((position, rule))

    @property
    def has_conditions(self) -> bool:
        return bool(self._conditional)

    def fitting(self, message: SeenMessage | None) -> list[_Numbered]:
        """Returns the rules that a message fits. None = only those without conditions."""
        if message is None or not self._conditional:
            return self._plain
        if self._by_text is None:
            self._by_text = self._index()
        tried = self._others.copy()
        for place, by_text in self._by_text.items():
            tried += by_text.get(message.text_at(place) or "", ())
        return [*self._plain, *(one for one in tried if one[1].fits(message))]

    def _index(self) -> dict[TextPath, dict[str, list[_Numbered]]]:
        """Returns the conditional rules by the texts that they need, and fills ``_others``."""
        found: dict[TextPath, dict[str, list[_Numbered]]] = {}
        for one in self._conditional:
            needed = needed_texts(one[1].selector, one[1].jmespath)
            if needed is None:
                self._others.append(one)
                continue
            for text in needed[1]:
                found.setdefault(needed[0], {}).setdefault(text, []).append(one)
        return found


@dataclass(frozen=True, slots=True)
class StaticMetaObject:
    """Rules for messages that come, and entries for messages that are sent. ``Default`` completes both.

    A message finds its rules by its format, its destination and by the texts that conditions ask for. So the
    number of rules does not matter.

    Args:
        rules: in the order of the file.
        defaults: the properties of ``Default``. They also count for objects without an entry.
        entries: at most one for a business object and verb.

    Raises:
        ValueError: two entries are for one business object and verb.
    """

    name: str
    rules: Sequence[Rule] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)
    entries: Sequence[OutputEntry] = ()
    _by_keys: dict[tuple[str | None, Destination | None], _Group] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _by_pair: dict[tuple[str, str], OutputEntry] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        for entry in self.entries:
            other = self._by_pair.setdefault((entry.object, entry.verb), entry)
            if other is not entry:
                raise ValueError(f"{self.name}: {other.id} and {entry.id} both say how an object is sent")
        for position, rule in enumerate(self.rules):
            if rule.has_match_key:
                keys = rule.input_format, rule.input_destination
                self._by_keys.setdefault(keys, _Group()).add(position, rule)

    def _groups(self, message_format: str | None, destination: Destination) -> list[_Group]:
        """Returns the rules whose format and destination fit."""
        keys = ((message_format, destination), (message_format, None), (None, destination), (None, None))
        found = (self._by_keys.get(one) for one in dict.fromkeys(keys))
        return [group for group in found if group is not None]

    def has_conditions(self, message_format: str | None, destination: Destination) -> bool:
        """Tells whether format and destination alone do not decide which rules match."""
        return any(group.has_conditions for group in self._groups(message_format, destination))

    def match(
        self, message_format: str | None, destination: Destination, message: Message | None = None
    ) -> tuple[Rule, ...]:
        """Returns the rules that match and have the highest priority among them, in the order of the file.

        If exactly one rule matches, that rule dictates the business object. Otherwise the connector's default
        data handler decides. There is no "most specific wins".

        Args:
            message: for selectors and expressions. None = rules with one of them do not match.
        """
        seen = None if message is None else SeenMessage(message)
        found: list[_Numbered] = []
        for group in self._groups(message_format, destination):
            found += group.fitting(seen)
        if len(found) > 1:
            highest = max(rule.rule_priority for _, rule in found)
            found = sorted((one for one in found if one[1].rule_priority == highest), key=itemgetter(0))
        return tuple(rule for _, rule in found)

    def only_match(
        self, message_format: str | None, destination: Destination, message: Message | None = None
    ) -> Rule | None:
        """Returns the rule that dictates the business object. None = no rule or several rules match."""
        found = self.match(message_format, destination, message)
        return found[0] if len(found) == 1 else None

    def entry(self, object_name: str, verb: str) -> OutputEntry | None:
        """Returns what is said for sending a business object and verb. None = there is no entry."""
        return self._by_pair.get((object_name, verb))

    def properties(self, object_name: str, verb: str) -> Mapping[str, str]:
        """Returns the properties for sending an object and verb: of the entry, else of ``Default``."""
        entry = self.entry(object_name, verb)
        return entry.properties if entry is not None else self.defaults


def complete_properties(own: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Returns properties, completed from ``Default``.

    A rule that names a data handler, by class or MIME type, takes neither of the two from ``Default``.
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
            check_property_name(property_name, "string")
        except ValueError as error:
            raise ValueError(f"OutputFormat cannot be set: MessageFormatProperty: {error}") from None
        message.set_property(property_name, text)


def message_format(message: Message, property_name: str = JMS_TYPE) -> str | None:
    """Returns the text that is compared with ``InputFormat``: a header or a property. None = missing."""
    if property_name == JMS_TYPE:
        value: object = message.type
    else:
        value = message.properties.get(property_name)
        if value is None:
            value = message.headers().get(property_name)
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)
