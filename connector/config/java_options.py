"""Options for a Java virtual machine, as one text of a Spark setting."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

DRIVER_MEMORY: Final = "512m"
"""The heap of the driver where ``spark.driver.memory`` says nothing."""

_COLLECTOR: Final = re.compile(r"-XX:([+-])Use(Serial|Parallel|G1|Z|Shenandoah|Epsilon)GC")
_WITH_VALUE: Final = re.compile(r"-cp|-classpath|--[a-z-]+")
"""Options whose value may be the next word."""
_SIZE: Final = re.compile(r"-X?(ms|mx|ss)([^:]*)")
_BYTES: Final = re.compile(r"([0-9]{1,15})([kmgt]?)", re.IGNORECASE)
_LEAST: Final = {"ms": ("1m", 1 << 20), "mx": ("2m", 2 << 20), "ss": ("136k", 136 << 10)}
"""Below these Java does not start. Zero stands for its default, except as the greatest heap."""
_MOST_STACK: Final = 1 << 30
_MORE_ELSEWHERE: Final = ("@", "-XX:Flags=", "-XX:VMOptionsFile=", "-XX:InitialHeapSize=", "-XX:MaxHeapSize=")
"""Words with which the sizes of the heap may come from somewhere else."""


def split_options(text: str) -> list[str]:
    """The options as separate words, quoted as in a shell.

    Raises:
        ValueError: a quotation is not closed. The text is not repeated: it may hold a password.
    """
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ValueError(f"Java options that cannot be split into words: {str(error).lower()}") from None


def collectors(words: Sequence[str]) -> list[str]:
    """The garbage collectors that options select, the last word on each. Java refuses more than one."""
    selected: dict[str, bool] = {}
    for word in words:
        if match := _COLLECTOR.fullmatch(word):
            selected[f"-XX:+Use{match[2]}GC"] = match[1] == "+"
    return [option for option, is_on in selected.items() if is_on]


def wrong_sizes(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Sizes of the heap and of stacks (``-Xms``, ``-Xmx``, ``-Xss``) that Java refuses.

    Returns:
        what was found, and what is expected.
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
    """The initial and the greatest size of the heap in bytes, the last word on each.

    Returns:
        zero for what the words do not say, or say in a way that is not followed here.
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
    """The positions, from 1, of words that are no options: Java would take such a word for a class to run."""
    before = ""
    for position, word in enumerate(words, 1):
        if not word.startswith(("-", "@")) and not _WITH_VALUE.fullmatch(before):
            yield position
        before = word
