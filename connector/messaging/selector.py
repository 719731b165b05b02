"""Message selectors: which messages a consumer wants, by their headers and properties (JMS 2.0, 3.8)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import final

from connector.messaging.message import Message


@final
class Selector:
    """A compiled selector, made by :func:`compile_selector`. Sees headers and properties, never a body.

    Immutable, safe in several threads; pickled as its text. Equal selectors have equal texts.

    Attributes:
        text: as it was written.
        identifiers: the headers and properties that it may ask for, by their JMS names; a message
            needs no others to be judged.
        matches: says whether the selector is true for a message (:class:`Message` to ``bool``); false
            and unknown are both no. Never raises.
    """

    __slots__ = ("identifiers", "matches", "text")

    text: str
    identifiers: frozenset[str]
    matches: Callable[[Message], bool]

    def __init__(self, text: str, identifiers: frozenset[str], matches: Callable[[Message], bool]) -> None:
        self.text = text
        self.identifiers = identifiers
        # Not a method: the compiled function is called for every message, without one in between.
        self.matches = matches

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, Selector) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"compile_selector({self.text!r})"

    def __reduce__(self) -> tuple[Callable[[str], Selector], tuple[str]]:
        return compile_selector, (self.text,)


@lru_cache(maxsize=512)
def compile_selector(text: str) -> Selector:
    """Compiles a selector; the latest ones are remembered.

    Args:
        text: in the language of JMS 2.0, 3.8. An empty text is none: who allows it for "all messages"
            does not come here with it.

    Raises:
        SelectorError: it is not a selector; says what was found, what was expected, and where.
    """
    # Here, because most processes see no selector, and lark with this grammar takes a tenth of a second.
    from connector.messaging.selectors.syntax import parse
    from connector.messaging.selectors.translation import translate

    matches, identifiers = translate(parse(text))
    return Selector(text, identifiers, matches)
