"""The types of single values that name times of a crontab."""

from __future__ import annotations

from typing import Final

from connector.cron import FIELDS, Cron, CronError
from connector.declare.value_types import ValueType, as_found, integer, leaf, refuse

_WORD: Final = "cron"
_NUMBER: Final = integer(0, "milliseconds", none="no")
_EXPECTED: Final = f'a whole number from 0 up (milliseconds), "{_WORD} 0 6 * * mon-fri", or no'


def read_cron(text: str) -> Cron:
    """Returns the times that five fields mean. Raises an error of :func:`~.value_types.refuse`."""
    try:
        return Cron(" ".join(text.split()))
    except CronError as error:
        raise refuse(error.found, error.expected) from None


def _read(value: object) -> int | Cron | None:
    written = leaf(value, _EXPECTED)
    word, _, fields = written.partition(" ")
    if word.casefold() == _WORD:
        return read_cron(fields)
    try:
        number: int | None = _NUMBER.read(value)
        return number
    except ValueError:
        expected = f'"{_WORD} {written}"' if len(written.split()) == FIELDS else _EXPECTED
        raise refuse(as_found(written), expected) from None


def _write(value: int | Cron | None) -> object:
    return f"{_WORD} {value.text}" if isinstance(value, Cron) else _NUMBER.write(value)


_FIVE_FIELDS: Final = '"0 6 * * mon-fri", as in crontab(5)'
CRON: Final = ValueType(
    lambda value: read_cron(leaf(value, _FIVE_FIELDS)),
    lambda value: None if value is None else value.text,
    {"type": "string"},
    _WORD,
)
"""Times of a crontab, without more words."""
POLL_FREQUENCY: Final = ValueType(
    _read,
    _write,
    {"anyOf": [*_NUMBER.schema["anyOf"], {"type": "string", "pattern": f"^{_WORD} "}]},
    f"{_NUMBER.label} | {_WORD}",
)
