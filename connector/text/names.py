"""Names in error texts: shortened, with the nearest right name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_SHOWN = 80


def shown(name: str) -> str:
    """Returns a name from a message as an error quotes the name: at most 80 characters."""
    return repr(name) if len(name) <= _SHOWN else f"{name[:_SHOWN]!r}..."


def plain(name: str) -> str:
    """Returns a name without quotes if the name is short and can be printed, else as :func:`shown` does."""
    return name if len(name) <= _SHOWN and name.isprintable() and name.strip() == name != "" else shown(name)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Returns ``, did you mean 'Right'?`` if one of ``names`` is close to ``name``, else the empty text."""
    folded = name[:_SHOWN].casefold()
    by_folded = {candidate.casefold(): candidate for candidate in names}
    close = difflib.get_close_matches(folded, by_folded, n=1, cutoff=0.6)
    return f", did you mean {by_folded[close[0]]!r}?" if close else ""
