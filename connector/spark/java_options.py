"""Options for a Java virtual machine, in the text of a Spark setting."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

DRIVER_MEMORY: Final = "512m"
"""The heap of the driver when ``spark.driver.memory`` is not set."""

_COLLECTOR: Final = re.compile(r"-XX:([+-])Use(Serial|Parallel|G1|Z|Shenandoah|Epsilon)GC")
_WITH_VALUE: Final = re.compile(r"-cp|-classpath|--[a-z-]+")
"""Options that may have the next word as a value."""
_SIZE: Final = re.compile(r"-X?(ms|mx|ss)([^:]*)")
_BYTES: Final = re.compile(r"([0-9]{1,15})([kmgt]?)", re.IGNORECASE)
_LEAST: Final = {"ms": ("1m", 1 << 20), "mx": ("2m", 2 << 20), "ss": ("136k", 136 << 10)}
"""The least sizes with which Java starts. Zero stands for the default, except as the greatest heap."""
_MOST_STACK: Final = 1 << 30
_MORE_ELSEWHERE: Final = ("@", "-XX:Flags=", "-XX:VMOptionsFile=", "-XX:InitialHeapSize=", "-XX:MaxHeapSize=")
"""Words that can take the sizes of the heap from another place."""


def split_options(text: str) -> list[str]:
    """Splits options into words, quoted as in a shell.

    Raises:
        ValueError: a quotation is not closed. The error does not show the text, which may hold a password.
    """
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ValueError(f"Java options that cannot be split into words: {str(error).lower()}") from None


def collectors(words: Sequence[str]) -> list[str]:
    """Returns the selected garbage collectors, by the last word on each. Java refuses several."""
    selected: dict[str, bool] = {}
    for word in words:
        if match := _COLLECTOR.fullmatch(word):
            selected[f"-XX:+Use{match[2]}GC"] = match[1] == "+"
    return [option for option, is_on in selected.items() if is_on]


def wrong_sizes(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields sizes of the heap and of stacks (``-Xms``, ``-Xmx``, ``-Xss``) that Java refuses.

    Returns:
        the found and the expected text.
    """
    for word in words:
        match = _SIZE.fullmatch(word)
        if match is None or match[2].lower().startswith("0x"):
            continue
        text, least = _LEAST[match[1]]
        size = _size(match[2])
        if size is None:
            yield f"{word!r} has no size that Java can read", f"a size such as -X{match[1]}2m"
        elif size < least and (size or match[1] == "mx"):
            yield f"{word!r} is too little for Java to start", f"{text} or more"
        elif match[1] == "ss" and size > _MOST_STACK:
            yield f"{word!r} is more than a stack can have", "1g or less"


def heap(words: Sequence[str]) -> tuple[int, int]:
    """Returns the initial and the greatest size of the heap in bytes. The last word on each size counts.

    Returns:
        zero for a size that the words do not contain, or contain in a form that is not read here.
    """
    sizes = {"ms": 0, "mx": 0}
    for word in words:
        if word.startswith(_MORE_ELSEWHERE):
            return 0, 0
        if (match := _SIZE.fullmatch(word)) and match[1] in sizes:
            sizes[match[1]] = _size(match[2]) or 0
    return sizes["ms"], sizes["mx"]


def _size(text: str) -> int | None:
    match = _BYTES.fullmatch(text)
    return None if match is None else int(match[1]) << 10 * " kmgt".index(match[2].lower() or " ")


def no_options(words: Sequence[str]) -> Iterator[int]:
    """Yields the positions, from 1, of words that are no options. Java would run such a word as a class."""
    before = ""
    for position, word in enumerate(words, 1):
        if not word.startswith(("-", "@")) and not _WITH_VALUE.fullmatch(before):
            yield position
        before = word
