"""Response selectors: they find a reply whose application ignores correlation ids.

Source: WBI Adapter for JMS, "Response criteria". The application-specific information of the verb holds
``response_selector=`` and a message selector. ``{1}`` stands for the first of the attributes listed after the
last colon::

    response_selector=JMSCorrelationID LIKE '{1}':MyDynamicMO.CorrelationID

``response_selector_template=`` holds a Jinja2 template instead. This module fills in the values, quoted by
:mod:`~connector.requests.selector_values`. The provider evaluates the selector.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from connector.businessobjects.definition import Attribute, Definition, Definitions
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.names import shown
from connector.businessobjects.types import TEXTS
from connector.errors import RequestRefused, SelectorError
from connector.messaging.selector import compile_selector
from connector.requests.attribute_paths import AttributePath, Mistake, follow, sample, samples, split_paths
from connector.requests.selector_values import (
    Quoting,
    Value,
    is_quote_open,
    mark,
    put_values,
    unquoted_marks,
)

if TYPE_CHECKING:
    from connector.requests.response_template import ResponseTemplate

SELECTOR: Final = "response_selector"
TEMPLATE: Final = "response_selector_template"

_QUOTED_VALUE: Final = re.compile(r"(?:[^';]|'[^']*(?:'|\Z))*+")
_TEMPLATE_TOKEN: Final = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}|'|;", re.DOTALL)
_COLON_TOKEN: Final = re.compile(r"'[^']*(?:'|\Z)|[\[\]:]")
_BRACE: Final = re.compile(r"\{\{|\{([0-9]{1,6})\}|\{")


class ResponseSelector:
    """The response selector of one verb. Immutable, safe in several threads.

    :meth:`parse` never raises for a wrong selector. :meth:`problems` lists the mistakes, and :meth:`fill`
    raises for them.
    """

    __slots__ = ("_mistakes", "_offset", "_paths", "_places", "_quoting", "_template", "_text")

    def __init__(self, quoting: Quoting, offset: int) -> None:
        self._quoting = quoting
        self._offset = offset
        self._text = ""
        self._paths: tuple[AttributePath, ...] = ()
        self._places: list[tuple[int, int]] = []
        """Number, from 1, and offset of each placeholder."""
        self._template: ResponseTemplate | None = None
        self._mistakes: list[Mistake] = []

    @classmethod
    def parse(cls, app_specific_info: str, quoting: Quoting) -> ResponseSelector | None:
        """Finds the response selector in the application-specific information of a verb.

        Args:
            app_specific_info: ``name=value`` pairs with ``;`` between them. A ``;`` in the quotes of a
                selector does not separate. The case of the two names does not matter.
            quoting: ``quoted``: values stay values. ``raw``: they are put in as they are.

        Returns:
            The selector, or None if there is none. The reply is then found by its correlation id.
        """
        return _parse(app_specific_info, quoting)

    def fill(self, bo: BusinessObject) -> str:
        """Returns the selector of the reply to this request.

        Args:
            bo: the request, with the dynamic meta-object as an attribute.

        Raises:
            RequestRefused: a value is null (named), a list or an object, or a text outside quotes. Or the
                response selector itself has a mistake.
        """
        if self._mistakes:
            raise RequestRefused(
                f"the response selector of {bo.type}.{bo.verb} is wrong: {self._mistakes[0]}"
            )
        data = bo.as_dict()
        if self._template is not None:
            return self._complete(*self._template.render(data))
        return self._complete(self._text, [self._value(number, data) for number, _ in self._places])

    def problems(self, definition: Definition, definitions: Definitions) -> Iterator[Mistake]:
        """Yields the mistakes in the selector, for ``connector check``.

        Args:
            definition: of the business object whose verb has the selector.
            definitions: all business objects.
        """
        found = [*self._mistakes, *self._wrong_attributes(definition, definitions)]
        yield from found
        if all(mistake.warning for mistake in found):
            yield from self._try(definition, definitions)

    # --- filling ---------------------------------------------------------------------------------

    def _value(self, number: int, data: Mapping[str, Any]) -> Value:
        path = self._paths[number - 1]
        label = f"{{{number}}}, {path.text},"
        try:
            return Value(label, path.value(data))
        except ValueError as error:
            raise RequestRefused(f"{label} has no value: {error}") from None

    def _complete(self, text: str, values: list[Value]) -> str:
        selector = put_values(text, values, self._quoting)
        if not selector.strip():
            raise RequestRefused("the response selector is empty: it would take any message for the reply")
        return selector

    # --- checking --------------------------------------------------------------------------------

    def _wrong_attributes(self, definition: Definition, definitions: Definitions) -> Iterator[Mistake]:
        if self._template is not None:
            yield from self._template.problems(definition, definitions)
            return
        outside = unquoted_marks(self._text) if self._quoting == "quoted" else set()
        used = {number for number, _ in self._places}
        ends = {
            number: self._end(number, definition, definitions) for number in range(1, len(self._paths) + 1)
        }
        for number, end in ends.items():
            path = self._paths[number - 1]
            if isinstance(end, Mistake):
                yield end
            elif number not in used:
                what = f"attribute {number}, {path.text}, is not used"
                yield Mistake(path.offset, what, f"{{{number}}} in the selector", warning=True)
        for place, (number, offset) in enumerate(self._places):
            end = ends.get(number)
            if place in outside and isinstance(end, Attribute) and end.type in (*TEXTS, "Date"):
                what = f"{{{number}}} outside quotes, but {end.name} is a {end.type}"
                yield Mistake(offset, what, f"'{{{number}}}'")

    def _end(
        self, number: int, definition: Definition, definitions: Definitions
    ) -> Mistake | Attribute | None:
        path = self._paths[number - 1]
        steps = path.steps() if path.mistake() is None else None
        return follow(steps, definition, definitions) if steps is not None else None

    def _try(self, definition: Definition, definitions: Definitions) -> Iterator[Mistake]:
        """Fills the selector with samples. A mistake then is a warning if other values could be right."""
        try:
            if self._template is not None:
                selector = self._complete(*self._template.render(samples(definition, definitions)))
            else:
                selector = self._complete(self._text, list(self._samples(definition, definitions)))
            compile_selector(selector)
        except RequestRefused as error:
            found = f"with sample values: {error}" if self._template else str(error)
            yield Mistake(self._offset, found, "", warning=self._template is not None)
        except SelectorError as error:
            what = f"with sample values it is no selector of JMS, {shown(selector)}: {error}"
            yield Mistake(self._offset, what, "", warning=True)

    def _samples(self, definition: Definition, definitions: Definitions) -> Iterator[Value]:
        outside = unquoted_marks(self._text)
        for place, (number, _) in enumerate(self._places):
            end = self._end(number, definition, definitions)
            if isinstance(end, Attribute):
                yield Value("", sample(end))
            else:
                yield Value("", 1 if place in outside else "x")

    # --- reading ---------------------------------------------------------------------------------

    def _read_template(self, text: str) -> None:
        from connector.requests.response_template import ResponseTemplate

        self._template = ResponseTemplate(text, self._offset)
        self._mistakes.extend(self._template.mistakes)

    def _read(self, text: str) -> None:
        colon = _last_colon(text)
        head = text
        if colon is not None:
            head = text[:colon]
            self._paths = split_paths(text[colon + 1 :], self._offset + colon + 1)
            self._mistakes.extend(mistake for path in self._paths if (mistake := path.mistake()))
        if is_quote_open(head):
            quote = self._offset + head.rindex("'")
            self._mistakes.append(Mistake(quote, "a quote that is not closed", "' at the end of the text"))
        pieces = []
        position = 0
        for brace in _BRACE.finditer(head):
            pieces.append(head[position : brace.start()])
            position = brace.end()
            if brace[0] == "{{":
                pieces.append("{")
                continue
            if brace[1] is None:
                self._mistakes.append(
                    Mistake(self._offset + brace.start(), "a single {", "{1}, or {{ for a literal {")
                )
                continue
            pieces.append(mark(len(self._places)))
            self._place(int(brace[1]), self._offset + brace.start())
        self._text = "".join((*pieces, head[position:])).strip()
        if not self._text:
            self._mistakes.append(Mistake(self._offset, "an empty selector", "a condition on the reply"))

    def _place(self, number: int, offset: int) -> None:
        self._places.append((number, offset))
        if not 1 <= number <= len(self._paths):
            expected = f"{{1}} to {{{len(self._paths)}}}" if len(self._paths) > 1 else "{1}"
            if not self._paths:
                expected = "a colon and the attributes behind the selector, ...:Attribute,Child.Attribute"
            elif number == 0:
                expected = f"{expected}: the first attribute is number 1"
            listed = len(self._paths)
            what = f"{{{number}}}, but {listed or 'no'} attribute{'s' * (listed != 1)} listed"
            self._mistakes.append(Mistake(offset, what, expected))


@lru_cache(maxsize=512)  # called for every request
def _parse(info: str, quoting: Quoting) -> ResponseSelector | None:
    entries = [entry for entry in _entries(info) if entry[0] in (SELECTOR, TEMPLATE)]
    if not entries:
        return None
    name, key_offset, value, offset = entries[0]
    selector = ResponseSelector(quoting, offset + len(value) - len(value.lstrip()))
    text = value.strip()
    if len(entries) > 1:
        other, other_offset = entries[1][:2]
        both = f"{other} twice" if other == name else f"{name} and {other}"
        selector._mistakes.append(Mistake(other_offset, both, "one of them"))
    elif "\0" in text:
        selector._mistakes.append(Mistake(offset + value.index("\0"), "a character NUL", "text"))
    elif not text:
        selector._mistakes.append(Mistake(key_offset, f"{name} is empty", "a condition on the reply"))
    elif name == TEMPLATE:
        selector._read_template(text)
    else:
        selector._read(text)
    return selector


def misspelt(app_specific_info: str) -> Iterator[Mistake]:
    """Yields misspelt names of a response selector, which would be ignored."""
    for name, offset, _, _ in _entries(app_specific_info):
        if name in (SELECTOR, TEMPLATE):
            continue
        for meant in (SELECTOR, TEMPLATE):
            if SequenceMatcher(None, name[: 2 * len(meant)], meant).ratio() > 0.87:
                what = f"the name {shown(name)} means nothing"
                yield Mistake(offset, what, "", warning=True, meant=name, among=(SELECTOR, TEMPLATE))
                break


def _entries(info: str) -> Iterator[tuple[str, int, str, int]]:
    """Yields the pairs: name in lower case, offset, value, offset."""
    position = 0
    while position < len(info):
        semicolon = info.find(";", position)
        end = len(info) if semicolon < 0 else semicolon
        equals = info.find("=", position, end)
        if equals >= 0:
            key = info[position:equals]
            name = key.strip().lower()
            start = equals + 1
            if name == SELECTOR:
                found = _QUOTED_VALUE.match(info, start)
                end = found.end() if found else end
            elif name == TEMPLATE:
                end = _end_of_template(info, start)
            yield name, position + len(key) - len(key.lstrip()), info[start:end], start
        position = end + 1


def _end_of_template(info: str, start: int) -> int:
    in_quotes = False
    for token in _TEMPLATE_TOKEN.finditer(info, start):
        if token[0] == "'":
            in_quotes = not in_quotes
        elif token[0] == ";" and not in_quotes:
            return token.start()
    return len(info)


def _last_colon(text: str) -> int | None:
    """Returns the offset of the colon before the attributes. A colon of a slice ``[0:2]`` does not count."""
    found = None
    depth = 0
    for token in _COLON_TOKEN.finditer(text):
        if token[0] == ":" and depth <= 0:
            found = token.start()
        elif token[0] in "[]":
            depth += 1 if token[0] == "[" else -1
    return found
