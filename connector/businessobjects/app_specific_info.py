"""Application-specific information: the tags ``name=value;name=value`` of objects, attributes and verbs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import combinations
from types import MappingProxyType


@lru_cache(maxsize=4096)  # asked for every message
def tags(app_specific_info: str) -> Mapping[str, str]:
    """Returns the tags of a text, without the white space around names and values.

    Names are in lower case. A part without ``=`` is no tag. The last of two equal names counts.
    """
    return MappingProxyType(dict(_pairs(app_specific_info)))


def contradiction(app_specific_info: str) -> str:
    """Returns the name of a tag that a text gives two values. Empty = there is none."""
    pairs = dict.fromkeys(_pairs(app_specific_info))
    return next((name for (name, _), (other, _) in combinations(pairs, 2) if name == other), "")


def _pairs(app_specific_info: str) -> Iterator[tuple[str, str]]:
    for part in app_specific_info.split(";"):
        name, separator, value = part.partition("=")
        if separator:
            yield name.strip().lower(), value.strip()
