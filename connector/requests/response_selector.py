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
from connector.businessobjects.types import TEXTS
from connector.errors import RequestRefused, SelectorError
from connector.messaging.selector import compile_selector
from connector.requests.selector_values import (
    AttributePath,
    Mistake,
    Quoting,
    Value,
    follow,
    is_quote_open,
    marker,
    put_values,
    samples,
    split_paths,
    unquoted_markers,
)
from connector.text.names import shown

if TYPE_CHECKING:
    from connector.requests.response_template import ResponseTemplate

SELECTOR: Final = "response_selector"
TEMPLATE: Final = "response_selector_template"

_TAG: Final = r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}"
_VALUES: Final = {
    SELECTOR: re.compile(r"(?:[^';]|'[^']*(?:'|\Z))*+"),
    TEMPLATE: re.compile(rf"(?:{_TAG}|[^';]|'(?:{_TAG}|[^'])*+(?:'|\Z))*+", re.DOTALL),
}
"""The values that may hold a ``;``: in quotes, or in a tag of a template."""
_COLON_TOKEN: Final = re.compile(r"'[^']*(?:'|\Z)|[\[\]:]")
_BRACE: Final = re.compile(r"\{\{|\{([0-9]{1,6})\}|\{")


class ResponseSelector:
    """The response selector of one verb. Immutable, safe in several threads.

    :meth:`parse` never raises for a wrong selector. :meth:`problems` lists the mistakes, and :meth:`fill`
    raises for them.
    """

    def __init__(self, source: _Plain | ResponseTemplate, quoting: Quoting, offset: int) -> None:
        self._source = source
        self._quoting = quoting
        self._offset = offset

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
        for mistake in self._source.mistakes:
            raise RequestRefused(f"the response selector of {bo.type}.{bo.verb} is wrong: {mistake}")
        return self._complete(*self._source.render(bo.as_dict()))

    def problems(self, definition: Definition, definitions: Definitions) -> Iterator[Mistake]:
        """Yields the mistakes in the selector, for ``connector check``.

        Args:
            definition: of the business object whose verb has the selector.
        """
        found = [*self._source.mistakes, *self._source.problems(definition, definitions)]
        yield from found
        if all(mistake.warning for mistake in found):
            yield from self._try(samples(definition, definitions))

    def _complete(self, text: str, values: list[Value]) -> str:
        selector = put_values(text, values, self._quoting)
        if not selector.strip():
            raise RequestRefused("the response selector is empty: it would take any message for the reply")
        return selector

    def _try(self, sample: Mapping[str, Any]) -> Iterator[Mistake]:
        """Fills the selector with samples. A mistake then is a warning if other values could be right."""
        try:
            if isinstance(self._source, _Plain):
                filled = self._source.render(sample, is_sample=True)
            else:
                filled = self._source.render(sample)
            selector = self._complete(*filled)
            compile_selector(selector)
        except RequestRefused as error:
            is_plain = isinstance(self._source, _Plain)
            found = str(error) if is_plain else f"with sample values: {error}"
            yield Mistake(self._offset, found, "", warning=not is_plain)
        except SelectorError as error:
            what = f"with sample values it is no selector of JMS, {shown(selector)}: {error}"
            yield Mistake(self._offset, what, "", warning=True)


class _Plain:
    """A selector with placeholders, and the paths of their values behind a colon."""

    def __init__(self, text: str, offset: int, quoting: Quoting) -> None:
        self._paths: tuple[AttributePath, ...] = ()
        self._places: list[tuple[int, int]] = []
        """Number, from 1, and offset of each placeholder."""
        self.mistakes: list[Mistake] = []
        self._text = self._read(text, offset)
        self._unquoted = unquoted_markers(self._text)
        self._quoting = quoting

    def render(self, data: Mapping[str, Any], *, is_sample: bool = False) -> tuple[str, list[Value]]:
        """Returns the text with markers, and the values for these markers.

        Args:
            is_sample: whether the data is made up. Then every place gets a value that it takes.

        Raises:
            RequestRefused: a path cannot be evaluated.
        """
        values = []
        for place, (number, _) in enumerate(self._places):
            path = self._paths[number - 1]
            label = f"{{{number}}}, {path.text},"
            value: Any = None
            try:
                value = path.value(data)
            except ValueError as error:
                if not is_sample:
                    raise RequestRefused(f"{label} has no value: {error}") from None
            if is_sample and (path.steps() is None or not isinstance(value, str | int | float)):
                value = 1 if place in self._unquoted else "x"
            values.append(Value(label, value))
        return self._text, values

    def problems(self, definition: Definition, definitions: Definitions) -> Iterator[Mistake]:
        """Yields the mistakes in paths and placeholders."""
        used = {number for number, _ in self._places}
        ends: dict[int, Mistake | Attribute | None] = {}
        for number, path in enumerate(self._paths, 1):
            steps = path.steps() if path.mistake() is None else None
            end = ends[number] = follow(steps, definition, definitions) if steps is not None else None
            if isinstance(end, Mistake):
                yield end
            elif number not in used:
                what = f"attribute {number}, {path.text}, is not used"
                yield Mistake(path.offset, what, f"{{{number}}} in the selector", warning=True)
        for place, (number, offset) in enumerate(self._places):
            end = ends.get(number)
            if self._quoting == "raw" or place not in self._unquoted:
                continue
            if isinstance(end, Attribute) and end.type in (*TEXTS, "Date"):
                what = f"{{{number}}} outside quotes, but {end.name} is a {end.type}"
                yield Mistake(offset, what, f"'{{{number}}}'")

    def _read(self, text: str, offset: int) -> str:
        """Reads paths and placeholders, and returns the text with markers."""
        colon = _last_colon(text)
        head = text
        if colon is not None:
            head = text[:colon]
            self._paths = split_paths(text[colon + 1 :], offset + colon + 1)
            self.mistakes.extend(mistake for path in self._paths if (mistake := path.mistake()))
        if is_quote_open(head):
            quote = offset + head.rindex("'")
            self.mistakes.append(Mistake(quote, "a quote that is not closed", "' at the end of the text"))

        def put(brace: re.Match[str]) -> str:
            if brace[0] == "{{":
                return "{"
            place = offset + brace.start()
            if brace[1] is None:
                self.mistakes.append(Mistake(place, "a single {", "{1}, or {{ for a literal {"))
                return ""
            self._places.append((int(brace[1]), place))
            self._check_number(int(brace[1]), place)
            return marker(len(self._places) - 1)

        marked = _BRACE.sub(put, head).strip()
        if not marked:
            self.mistakes.append(Mistake(offset, "an empty selector", "a condition on the reply"))
        return marked

    def _check_number(self, number: int, offset: int) -> None:
        listed = len(self._paths)
        if 1 <= number <= listed:
            return
        expected = f"{{1}} to {{{listed}}}" if listed > 1 else "{1}"
        if not listed:
            expected = "a colon and the attributes behind the selector, ...:Attribute,Child.Attribute"
        elif number == 0:
            expected = f"{expected}: the first attribute is number 1"
        what = f"{{{number}}}, but {listed or 'no'} attribute{'s' * (listed != 1)} listed"
        self.mistakes.append(Mistake(offset, what, expected))


@lru_cache(maxsize=512)  # called for every request
def _parse(info: str, quoting: Quoting) -> ResponseSelector | None:
    entries = [entry for entry in _entries(info) if entry[0] in (SELECTOR, TEMPLATE)]
    if not entries:
        return None
    name, key_offset, value, offset = entries[0]
    text = value.strip()
    start = offset + len(value) - len(value.lstrip())
    mistake = None
    if len(entries) > 1:
        other, other_offset = entries[1][:2]
        both = f"{other} twice" if other == name else f"{name} and {other}"
        mistake = Mistake(other_offset, both, "one of them")
    elif "\0" in text:
        mistake = Mistake(offset + value.index("\0"), "a character NUL", "text")
    elif not text:
        mistake = Mistake(key_offset, f"{name} is empty", "a condition on the reply")
    if name == TEMPLATE and mistake is None:
        from connector.requests.response_template import ResponseTemplate

        return ResponseSelector(ResponseTemplate(text, start), quoting, start)
    plain = _Plain("" if mistake else text, start, quoting)
    if mistake is not None:
        plain.mistakes = [mistake]
    return ResponseSelector(plain, quoting, start)


def misspellings(app_specific_info: str) -> Iterator[Mistake]:
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
            if (expression := _VALUES.get(name)) and (found := expression.match(info, start)):
                end = found.end()
            yield name, position + len(key) - len(key.lstrip()), info[start:end], start
        position = end + 1


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
