"""JSON in the tables. Another program may have written what is no JSON, so to read never fails."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

import orjson

from connector.text.names import cut

_SHOWN: Final = 40


class NoJson(NamedTuple):
    """Stands for the value of a column that is no JSON."""

    reason: str


def read_json(stored: Any) -> Any:
    """Returns the value of a JSON column. :class:`NoJson` if the column has no JSON."""
    try:
        return orjson.loads(stored)
    except (ValueError, TypeError):
        return NoJson(cut(repr(stored), _SHOWN))


def write_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
