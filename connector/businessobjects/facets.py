"""Facets: what the values of an attribute have to be beyond their type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from connector.businessobjects.types import SECRET, TEXTS, SimpleValue, describe, text_of
from connector.text.names import cut, shown

Check = Callable[[Any], None]

_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class Facets:
    """The facets of an attribute. A blank that is no text has none of them to fit.

    Args:
        values: the only values, of the attribute's type. Empty = any.
        minimum, maximum: the bounds of a number, of the attribute's type. None = no bound.
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

        def check(value: Any) -> None:
            if value == "" and passes_blank:
                return
            expected = ""
            if self.values and value not in self.values:
                expected = f"one of {cut(', '.join(map(text_of, self.values)), _SHOWN)}"
            elif self.minimum is not None and value < self.minimum:
                expected = f"at least {text_of(self.minimum)}"
            elif self.maximum is not None and value > self.maximum:
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
