"""A destination whose name has placeholders, and the names that it may become."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.types import text_of
from connector.errors import DestinationError, ObjectRefused
from connector.messaging.destination import Destination, parse_destination
from connector.sinks.template import TextTemplate, find_value
from connector.text.names import shown

_ESCAPE: Final = re.compile("%[0-9A-Fa-f]{2}")


@dataclass(frozen=True, slots=True)
class DestinationTemplate:
    """A destination with placeholders in its name.

    Args:
        text: of the whole destination, ``queue://orders-{Region}``. No placeholder stands before the name.
        own_names: whether names are those of a server.
    """

    text: TextTemplate
    own_names: bool = False

    def __str__(self) -> str:
        return self.text.text

    @property
    def pattern(self) -> str:
        """The destinations that this can become, with ``*`` for each placeholder."""
        pattern = self.text.filled_with("*")
        return pattern if "://" in pattern else f"queue://{pattern}"

    def fill(self, objects: Sequence[BusinessObject]) -> Destination:
        """Returns the destination for objects, see :func:`.find_value`.

        Raises:
            ObjectRefused: a value is missing or empty, or cannot be a part of a name.
            UnknownAttribute: the definition has no such attribute.
        """
        for name in self.text.names:
            if reason := _mistake(find_value(objects, name)[1]):
                raise ObjectRefused(f"the destination {self} needs {name}, {reason}")
        text = self.text.fill(objects) or ""
        try:
            found = parse_destination(text, own_names=self.own_names)
        except DestinationError as error:
            raise ObjectRefused(f"the destination {self} cannot be made: {error.reason}") from None
        if found.view:
            raise ObjectRefused(f"the destination {self} cannot be made: {shown(text)} is a view of a queue")
        return found


def _mistake(value: object) -> str:
    """Returns why a value cannot be a part of a name. Empty = it can."""
    text = "" if value is None else text_of(value)  # type: ignore[arg-type]
    if not text.strip():
        return "which has no value"
    if text != text.strip():
        return "which begins or ends with white space"
    if "~" in text or _ESCAPE.search(text):
        return f"which is {shown(text)}, and a part of a name has no '~' and no escape such as %2F"
    try:
        parse_destination(f"queue://x{text}x", own_names=False)
    except DestinationError as error:
        return f"which is {shown(text)}: {error.reason.rpartition(' is no destination: ')[2]}"
    return ""


@lru_cache(1024)
def fits(pattern: str, text: str) -> bool:
    """Whether a text fits a pattern, in which ``*`` stands for any characters and ``?`` for one."""
    expression = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(expression, text, re.DOTALL) is not None


def may_both_be(one: str, other: str) -> bool:
    """Whether some text fits two patterns of :func:`fits`."""
    reached = {(0, 0)}
    waiting = [(0, 0)]
    while waiting:
        left, right = waiting.pop()
        if left == len(one) and right == len(other):
            return True
        for step in _steps(one[left : left + 1], other[right : right + 1]):
            place = left + step[0], right + step[1]
            if place not in reached:
                reached.add(place)
                waiting.append(place)
    return False


def _steps(left: str, right: str) -> list[tuple[int, int]]:
    """Returns how far two patterns can go together that begin with these characters. Empty = at the end."""
    steps = []
    if left == "*":
        steps.append((1, 0))
        if right and right != "*":
            steps.append((0, 1))
    if right == "*":
        steps.append((0, 1))
        if left and left != "*":
            steps.append((1, 0))
    elif left and right and left != "*" and (left == right or "?" in (left, right)):
        steps.append((1, 1))
    return steps
