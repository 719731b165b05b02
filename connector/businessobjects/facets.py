"""Facets: what the values of an attribute have to be beyond their type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from connector.businessobjects.dates import reader_for
from connector.businessobjects.types import SECRET, TEXTS, SimpleValue, describe, text_of
from connector.text.names import cut, shown

Check = Callable[[Any], None]

_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class Facets:
    """The facets of an attribute. A blank that is no text has none of them to fit.

    Args:
        values: the only values, of the attribute's type. Empty = any.
        minimum, maximum: the bounds of a number or a Date, of the attribute's type. None = no bound.
        pattern: a regular expression for the whole text. Empty = any text.
        min_length: characters of a text.
    """

    values: tuple[SimpleValue, ...] = ()
    minimum: Any = None
    maximum: Any = None
    pattern: str = ""
    min_length: int = 0

    def check(self, type_name: str, may_be_blank: bool) -> Check | None:
        """Returns the function that checks a value. None = any value fits.

        The function raises :class:`ValueError`, which names the found and the expected value.
        """
        if self == NO_FACETS:
            return None
        passes_blank = may_be_blank or type_name not in TEXTS
        fits = compile_pattern(self.pattern) if self.pattern else None
        is_secret = type_name == SECRET
        below = _comparison(type_name, self.minimum, is_least=True)
        above = _comparison(type_name, self.maximum, is_least=False)

        def check(value: Any) -> None:
            if value == "" and passes_blank:
                return
            expected = ""
            if self.values and value not in self.values:
                expected = f"one of {cut(', '.join(map(text_of, self.values)), _SHOWN)}"
            elif below is not None and below(value):
                expected = f"at least {text_of(self.minimum)}"
            elif above is not None and above(value):
                expected = f"at most {text_of(self.maximum)}"
            elif self.min_length and len(value) < self.min_length:
                expected = f"at least {self.min_length} characters"
            elif fits is not None and not fits(value):
                expected = f"a text of the pattern {shown(self.pattern, _SHOWN)}"
            if expected:
                found = "another text" if is_secret else describe(value)
                raise ValueError(f"found {found}, expected {expected}")

        return check


NO_FACETS: Final = Facets()


def _comparison(type_name: str, bound: Any, *, is_least: bool) -> Callable[[Any], bool] | None:
    """Returns the function that tells whether a value is beyond a bound. None = there is no bound."""
    if bound is None:
        return None
    if type_name != "Date":
        return (lambda value: bool(value < bound)) if is_least else (lambda value: bool(value > bound))
    read = reader_for(bound)
    limit = read(bound)

    def is_beyond(text: str) -> bool:
        try:
            found = read(text)
        except ValueError as error:
            raise ValueError(f"found {describe(text)}, expected {error}") from None
        return found < limit if is_least else found > limit

    return is_beyond


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Callable[[Any], bool]:
    """Returns a function that tells whether a whole text fits a pattern.

    The time is linear in the length of the text, whatever the pattern is. So the notation has no
    look-around and no back-references.

    Raises:
        ValueError: the text is no pattern. The error says why.
    """
    from pydantic_core import SchemaError, SchemaValidator, core_schema  # few definitions have patterns

    try:
        SchemaValidator(core_schema.str_schema(pattern=pattern))  # without the group: ")(" is none
        whole = core_schema.str_schema(pattern=rf"\A(?:{pattern})\z", strict=True)
        return SchemaValidator(whole).isinstance_python
    except SchemaError as error:
        reason = str(error).strip().rpartition("\n")[2].removeprefix("error: ")
        raise ValueError(reason) from None
