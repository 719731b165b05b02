"""The static meta-object: the rules that decide which business object a message means.

Source: WBI Adapter for JMS, "Business object mapping".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from connector.businessobjects.definition import Definition
from connector.businessobjects.encoding import decode
from connector.businessobjects.handlers import HANDLER_KEYS
from connector.errors import MalformedData
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.selector import Selector, compile_selector
from connector.messaging.selectors.identifiers import check_property_name


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
        selector: a message selector, which is one more match key. None = none.
        jmespath: a JMESPath expression on a JSON body, which is one more match key. None = none.
        rule_priority: of several rules that match, only those with the highest number count.
    """

    name: str
    object: str
    verb: str
    input_format: str | None = None
    input_destination: Destination | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    selector: str | None = None
    jmespath: str | None = None
    rule_priority: int = 0

    @property
    def has_match_key(self) -> bool:
        """Whether the rule can match. A rule without any match key never does."""
        return self.has_test or self.input_format is not None or self.input_destination is not None

    @property
    def has_test(self) -> bool:
        """Whether the rule looks at more of the message than format and destination."""
        return self.selector is not None or self.jmespath is not None

    def mismatches(self, message_format: str | None, destination: Destination, message: Message) -> list[str]:
        """Returns why the rule does not match a message, match key by match key. Empty: the rule matches."""
        if not self.has_match_key:
            return ["the rule has no match key"]
        found = []
        if self.input_format is not None and self.input_format != message_format:
            has = "no format" if message_format is None else f"the format {message_format!r}"
            found.append(f"InputFormat is {self.input_format!r}, the message has {has}")
        if self.input_destination is not None and self.input_destination != destination:
            found.append(f"InputDestination is {self.input_destination}, the message is from {destination}")
        if self.selector is not None and not _selector(self.selector).matches(message):
            found.append(f"the message does not fit the selector {self.selector}")
        if self.jmespath is not None and not _holds(self.jmespath, _document(message)):
            found.append(f"the body does not fit the expression {self.jmespath}")
        return found


@dataclass(frozen=True, slots=True)
class StaticMetaObject:
    """The rules of a deployment. ``Default`` is no rule, but only completes the rules (:class:`Rule`).

    A message finds its rules by its format and destination, so the number of rules does not matter.

    Args:
        name: the name of the meta-object.
        rules: the entries.
        defaults: the properties of the entry ``Default``. They also count for objects without an entry.
    """

    name: str
    rules: Sequence[Rule] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)
    _by_keys: dict[tuple[str | None, Destination | None], list[tuple[int, Rule]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _entries: dict[tuple[str, str], Rule] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for position, rule in enumerate(self.rules):
            self._entries.setdefault((rule.object, rule.verb), rule)
            if rule.has_match_key:
                keys = rule.input_format, rule.input_destination
                self._by_keys.setdefault(keys, []).append((position, rule))

    def candidates(self, message_format: str | None, destination: Destination) -> tuple[Rule, ...]:
        """Returns the rules whose format and destination fit, in the order of the file.

        Rules with a selector or an expression among them need a look at the message: :meth:`only_match`.
        """
        found: list[tuple[int, Rule]] = []
        for keys in dict.fromkeys(
            ((message_format, destination), (message_format, None), (None, destination), (None, None))
        ):
            found += self._by_keys.get(keys, ())
        return tuple(rule for _, rule in sorted(found, key=lambda one: one[0]))

    def match(
        self, message_format: str | None, destination: Destination, message: Message | None = None
    ) -> tuple[Rule, ...]:
        """Returns the rules that match and have the highest priority among them, in the order of the file.

        If exactly one rule matches, that rule dictates the business object. Otherwise the connector's default
        data handler decides. There is no "most specific wins".

        Args:
            message_format, destination: of the message.
            message: for selectors and expressions. None = rules with one of them do not match.
        """
        found = self.candidates(message_format, destination)
        if any(rule.has_test for rule in found):
            found = tuple(_passing(found, message))
        if len(found) > 1:
            highest = max(rule.rule_priority for rule in found)
            found = tuple(rule for rule in found if rule.rule_priority == highest)
        return found

    def only_match(
        self, message_format: str | None, destination: Destination, message: Message | None = None
    ) -> Rule | None:
        """Returns the rule that dictates the business object. None = no rule or several rules match."""
        found = self.match(message_format, destination, message)
        return found[0] if len(found) == 1 else None

    def entry(self, object_name: str, verb: str) -> Rule | None:
        """Returns the entry for a business object and verb. None = there is no entry."""
        return self._entries.get((object_name, verb))

    def properties(self, object_name: str, verb: str) -> Mapping[str, str]:
        """Returns the properties for a business object and verb: of the entry, else of ``Default``."""
        entry = self.entry(object_name, verb)
        return entry.properties if entry is not None else self.defaults


def _passing(rules: Sequence[Rule], message: Message | None) -> Iterator[Rule]:
    """Yields the rules whose selector and expression fit. The body is parsed once."""
    document: Any = _UNPARSED
    for rule in rules:
        if rule.has_test and message is None:
            continue
        if (
            message is not None
            and rule.selector is not None
            and not _selector(rule.selector).matches(message)
        ):
            continue
        if message is not None and rule.jmespath is not None:
            if document is _UNPARSED:
                document = _document(message)
            if not _holds(rule.jmespath, document):
                continue
        yield rule


_UNPARSED: Final = object()


@lru_cache(maxsize=4096)
def _selector(text: str) -> Selector:
    return compile_selector(text)


@lru_cache(maxsize=4096)
def _expression(text: str) -> Any:
    import jmespath  # most deployments have no such rule

    return jmespath.compile(text)


def _document(message: Message) -> Any:
    """Returns the JSON document in the body of a message, or None."""
    import orjson

    try:
        return orjson.loads(decode(message.body))
    except (MalformedData, ValueError, RecursionError):
        return None


def _holds(expression: str, document: Any) -> bool:
    """Whether an expression finds a value in a document that is neither null, false nor empty."""
    import jmespath

    try:
        found = None if document is None else _expression(expression).search(document)
    except (
        jmespath.exceptions.JMESPathError,
        RecursionError,
    ):  # such as a function of a value of another type
        return False
    return bool(found) or (isinstance(found, int | float) and found is not False)  # 0 is true in JMESPath


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
