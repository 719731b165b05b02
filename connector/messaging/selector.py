"""Message selectors: conditions on the headers and properties of messages (JMS 2.0, 3.8)."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Final, final

from connector.errors import SelectorError
from connector.messaging.message import Message

_MOST_CHARACTERS: Final = 4096
"""Of a selector that a caller of this process gives."""
_MOST_SECONDS: Final = 1.0
"""That such a selector may take for one message."""


@final
class Selector:
    """A compiled selector, made by :func:`compile_selector`. Reads headers and properties, never a body.

    Immutable and thread-safe. Pickled as text. Equal selectors have equal texts.

    Attributes:
        text: the text as written.
        identifiers: the JMS names of the headers and properties that the selector may read. A message needs
            no others to be judged.
        matches: says whether the selector is true for a message (:class:`Message` to ``bool``). The result
            for false and unknown is False. Never raises.
    """

    __slots__ = ("identifiers", "matches", "text")

    text: str
    identifiers: frozenset[str]
    matches: Callable[[Message], bool]

    def __init__(self, text: str, identifiers: frozenset[str], matches: Callable[[Message], bool]) -> None:
        self.text = text
        self.identifiers = identifiers
        # Not a method: every message calls the compiled function directly.
        self.matches = matches

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, Selector) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"compile_selector({self.text!r})"

    def __reduce__(self) -> tuple[Callable[[str], Selector], tuple[str]]:
        return compile_selector, (self.text,)


def selector_text(text: str | None) -> str:
    """Returns the text of a selector. None and an empty text are no selector (JMS 2.0, 3.8.1).

    Returns:
        an empty text if there is no selector, also for white space alone.
    """
    return text if text and not text.isspace() else ""


@lru_cache(maxsize=512)
def compile_selector(text: str) -> Selector:
    """Compiles a selector, and caches the latest selectors.

    Args:
        text: in the language of JMS 2.0, 3.8. An empty text is not valid (see :func:`selector_text`).

    Raises:
        SelectorError: the text is no selector. The error says what was found, what was expected, and where.
    """
    # Imported here, because most processes see no selector, and lark with this grammar takes a tenth of a
    # second.
    from connector.messaging.selectors.logic import is_true
    from connector.messaging.selectors.syntax import identifiers, parse

    matches = is_true(parse(text))
    return Selector(text, identifiers(text), matches)


def may_match(text: str, message: Message) -> bool:
    """Whether an input with this selector takes a message. True for a selector in the language of a broker.

    Args:
        text: empty = the input has no selector.
    """
    try:
        return not text or compile_selector(text).matches(message)
    except SelectorError:
        return True


def callers_selector(text: str) -> Selector:
    """Compiles the selector of somebody who calls this process. It can neither hold nor fill the process.

    Returns:
        a selector whose ``matches`` raises SelectorError where a message takes too long.

    Raises:
        SelectorError: the text is no selector, or too long.
    """
    if len(text) > _MOST_CHARACTERS:
        found = f"found {len(text):,} characters, expected {_MOST_CHARACTERS:,} at most"
        raise SelectorError(found, _MOST_CHARACTERS + 1)
    from connector.messaging.selectors.like import patience

    selector = compile_selector(text)

    def matches(message: Message) -> bool:
        before = patience.set(time.monotonic() + _MOST_SECONDS)
        try:
            return selector.matches(message)
        except SelectorError as error:
            raise SelectorError(f"{message.message_id}: {error}", error.position) from None
        finally:
            patience.reset(before)

    return Selector(selector.text, selector.identifiers, matches)
