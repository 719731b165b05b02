"""Application-specific information: the tags ``name=value;name=value`` of objects, attributes and verbs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType


@lru_cache(maxsize=4096)  # asked for every message
def tags(app_specific_info: str) -> Mapping[str, str]:
    """Returns the tags of a text, without the white space around names and values.

    Names are in lower case. A part without ``=`` is no tag. The last of two equal names counts.
    """
    found = {}
    for part in app_specific_info.split(";"):
        name, separator, value = part.partition("=")
        if separator:
            found[name.strip().lower()] = value.strip()
    return MappingProxyType(found)
