"""Texts that differ in values only."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_MOST: Final = 500
"""Characters of a masked text."""
_QUOTED: Final = re.compile(r"""(?<!\w)'[^'\n]*'|"[^"\n]*"|`[^`\n]*`""")
_WORD: Final = re.compile(r"[\w.:/%-]+")
_DIGIT: Final = re.compile(r"\d")


@lru_cache(maxsize=256)
def mask(text: str) -> str:
    """Returns a text without what differs between alike messages: quoted values, numbers and ids.

    The time is linear, because a sender may decide about the text.
    """
    masked = _QUOTED.sub("'...'", text[: 4 * _MOST])
    return _WORD.sub(lambda word: "#" if _DIGIT.search(word[0]) else word[0], masked)[:_MOST]
