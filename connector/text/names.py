"""Names and texts in errors: in quotes, shortened, on one line, with the nearest right name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator

_SHOWN = 80


def cut(text: str, most: int = _SHOWN) -> str:
    """Returns a text of at most ``most`` characters, and ``...`` for the rest."""
    return text if len(text) <= most else f"{text[:most]}..."


def shown(text: str, most: int = _SHOWN) -> str:
    """Returns a text in quotes for an error, at most ``most`` characters of it."""
    return repr(text) if len(text) <= most else f"{text[:most]!r}..."


def plain(name: str) -> str:
    """Returns a name without quotes if the name is short and can be printed, else as :func:`shown` does."""
    return name if len(name) <= _SHOWN and name.isprintable() and name.strip() == name != "" else shown(name)


def one_line(text: str) -> str:
    """Returns the text without line ends and control characters, so that an error stays on one line."""
    return "".join(c if c.isprintable() else " " for c in text)


def twins(names: Iterable[str], fold: Callable[[str], str] = str.casefold) -> Iterator[tuple[str, str]]:
    """Yields each name that means the same as an earlier one, after the earlier one."""
    seen: dict[str, str] = {}
    for name in names:
        meaning = fold(name)
        if meaning in seen:
            yield seen[meaning], name
        seen.setdefault(meaning, name)


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Returns the name that ``name`` most likely misspells. Upper and lower case do not matter."""
    candidates = [candidate for candidate in dict.fromkeys(names) if candidate != name]
    folded = name.casefold()
    by_folded = {candidate.casefold(): candidate for candidate in reversed(candidates)}
    if folded in by_folded:
        return by_folded[folded]
    # difflib is quadratic in the length of a text, and long texts are not misspelt names.
    close = difflib.get_close_matches(folded[:120], by_folded, n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Returns ``, did you mean 'Right'?`` if one of ``names`` is close to ``name``, else the empty text."""
    near = nearest(name, names)
    return f", did you mean {near!r}?" if near is not None else ""
